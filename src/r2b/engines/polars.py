"""Polars lazy frames: counted by the streaming engine, relabelled batch by batch, lazily."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars
from polars.io.plugins import register_io_source

from r2b._files.arrow import pyarrow
from r2b.engines.batch import PIECE_ROWS, Batch, one_record
from r2b.engines.lazy import StreamSource
from r2b.engines.source import Relabel
from r2b.engines.tally import MOST_COMBINATIONS
from r2b.errors import ParameterError

# Steps of a plan after which rows come in the same order every time: scans, and steps that look at
# one row.
_IN_ORDER = re.compile(
    r"(?!PYTHON)(\w+ SCAN|DF) \[|PROJECT |ESTIMATED ROWS|SELECTION|SELECT \[|simple π|"
    r"WITH_COLUMNS:|\[|FILTER |FROM$|SLICE\[|ROW INDEX |"
    r"(END )?UNION\[maintain_order: true\]|PLAN \d+:|$"
)


class PolarsSource(StreamSource):
    """A ``polars.LazyFrame``.

    Raises
    ------
    ParameterError
        A column has a name that Polars takes for a pattern: it would answer with the columns that
        the pattern matches.

    Notes
    -----
    Rows are told apart by their place only where the plan is made of scans and of steps that look
    at one row at a time. After a join, a group-by or a sort, whose order another run may not
    repeat, "round" and "sample" ask for a key.
    """

    library = "polars"
    name = "the LazyFrame"

    def __init__(self, table: Any, batch_rows: int = PIECE_ROWS) -> None:
        super().__init__(table, batch_rows)
        self._schema: dict[str, Any] = dict(table.collect_schema())
        for name in self._schema:
            if name == "*" or (name.startswith("^") and name.endswith("$")):
                raise ParameterError(
                    f"Polars takes the name {name!r} of a column for a pattern of names.",
                    remedy=f"Rename it first: frame.rename({{{name!r}: 'other'}}).",
                    column=name,
                )
        self.names = tuple(self._schema)
        plan = table.explain(optimized=False).splitlines()
        self.ordered = all(_IN_ORDER.match(line.strip()) for line in plan)

    def empty(self, columns: Sequence[str]) -> Any:
        """Return no rows of some columns."""
        return one_record(self.select(columns).head(0).collect().to_arrow())

    def select(self, columns: Sequence[str]) -> Any:
        """Return some columns of the frame."""
        return self.table.select(polars.col(list(dict.fromkeys(columns))))

    def records(self, columns: Sequence[str], size: int) -> Iterable[Any]:
        """Collect some rows at a time with the streaming engine."""
        frame = self.select(columns)
        parts = frame.collect_batches(chunk_size=size, maintain_order=True, engine="streaming")
        return (record for part in parts for record in part.to_arrow().to_batches())

    def grouped(self, keys: Sequence[str]) -> Any:
        """Count with the streaming engine."""
        grouped = self.select(keys).group_by(polars.col(list(dict.fromkeys(keys))))
        counted = grouped.len(f"rows by {', '.join(keys)}")  # longer than the name of any key
        return counted.head(MOST_COMBINATIONS + 1).collect(engine="streaming").to_arrow()

    def frame(self, relabel: Relabel) -> Any:
        """Return a lazy frame that makes new columns batch by batch.

        It is a scan of Polars, so that the plan after it is optimised as for a file.
        """
        roles = relabel.roles
        new = relabel(Batch(self.empty(relabel.needed))).columns
        empty: Any = polars.from_arrow(pyarrow().table(new))
        schema = self._schema | dict(empty.schema)
        if relabel.traits.classes and not roles.soft:
            schema[relabel.names[0]] = self._schema[roles.label[0]]  # Arrow does not tell an Enum

        def scan(
            columns: list[str] | None, condition: Any, n_rows: int | None, _: int | None
        ) -> Iterator[Any]:
            for record in self.labelled(relabel):
                part: Any = polars.from_arrow(record)
                part = part.cast(schema)
                part = part if n_rows is None else part.head(n_rows)
                n_rows = None if n_rows is None else n_rows - len(part)
                part = part if condition is None else part.filter(condition)
                yield part if columns is None else part.select(columns)
                if n_rows == 0:
                    return

        return register_io_source(scan, schema=schema, is_pure=True)
