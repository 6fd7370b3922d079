"""An Arrow table in memory as a source: the plainest one, to which the others are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from r2b._files.arrow import pyarrow
from r2b._solve.oracle import Block
from r2b._solve.oracle.blocks import BlockTask, Sums
from r2b.engines.batch import Batch, ahead, in_batches, list_length_of
from r2b.engines.roles import Decode
from r2b.engines.source import Relabel, Source, joined

BATCH_ROWS = 1 << 20


@dataclass(frozen=True)
class HeldBlocks:
    """Blocks in memory, walked by threads."""

    blocks: list[Block]

    def run(self, task: BlockTask) -> Iterator[Sums]:
        """Run a task on every block."""
        return ahead(task, self.blocks)


@dataclass(frozen=True, eq=False)
class HeldSource(Source):
    """A ``pyarrow.Table``.

    Attributes
    ----------
    table : pyarrow.Table
    batch_rows : int

    Examples
    --------
    >>> import pyarrow, r2b
    >>> people = pyarrow.table({"sex": ["f", "f", "m", "m"], "job": ["a", "b", "b", "b"]})
    >>> r2b.scan(people).debias("job", sensitive_features="sex").frame("round")["job_fair"].to_pylist().count("b")
    2
    """

    table: Any
    batch_rows: int = BATCH_ROWS
    name: str = "the table"
    ordered: bool = field(default=True, init=False)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.table.schema.names))

    def first_list_length(self, column: str) -> int | None:
        """Give the length of the first list."""
        return list_length_of(self.table.schema.field(column).type, column, lambda: self.table.column(column).slice(0, 1))

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Cut the table."""
        wanted = [self.names.index(name) for name in dict.fromkeys(columns)]
        return (batch for batch in in_batches(self.table.select(wanted), self.batch_rows) if len(batch))

    @contextmanager
    def blocks(self, decode: Decode) -> Iterator[HeldBlocks]:
        """Decode all rows."""
        yield HeldBlocks([decode(batch) for batch in self.batches(decode.roles.used)])

    def frame(self, relabel: Relabel) -> Any:
        """Give a table with new columns."""
        batches = in_batches(self.table, self.batch_rows)
        return pyarrow().Table.from_batches([joined(batch.record, relabel, batch) for batch in batches if len(batch)])
