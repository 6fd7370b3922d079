"""Polars lazy frames: counted and joined by the streaming engine; what is drawn for rows is made batch by batch, lazily."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any

from r2b._files.arrow import pyarrow
from r2b._solve.oracle import Blocks
from r2b.engines.batch import Batch, list_length_of
from r2b.engines.held import BATCH_ROWS
from r2b.engines.lazy import counted, in_rows, joins, keys_of, lookup, tally_of
from r2b.engines.lazy_blocks import kept_blocks, rows_at_once
from r2b.engines.roles import Decode
from r2b.engines.source import Relabel, Source, joined
from r2b.engines.tally import Tally
from r2b.errors import EmptyError, ParameterError

# Steps of a plan after which rows come in the same order every time: scans, and what looks at one row.
_IN_ORDER = re.compile(
    r"(?!PYTHON)(\w+ SCAN|DF) \[|PROJECT |ESTIMATED ROWS|SELECTION|SELECT \[|simple π|WITH_COLUMNS:|\[|FILTER |FROM$|SLICE\[|ROW INDEX |"
    r"(END )?UNION\[maintain_order: true\]|PLAN \d+:|$"
)


@dataclass(frozen=True, eq=False)
class PolarsSource(Source):
    """A ``polars.LazyFrame``.

    Attributes
    ----------
    table : polars.LazyFrame
    batch_rows : int

    Notes
    -----
    Rows are told apart by their place only where the plan is made of scans and of steps that look at one row at a time. After a join, a
    group-by or a sort, whose order another run may not repeat, "round" and "sample" ask for a key.
    """

    table: Any
    batch_rows: int = BATCH_ROWS
    name: str = "the LazyFrame"
    names: tuple[str, ...] = field(init=False)
    ordered: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self._schema))
        plan = self.table.explain(optimized=False).splitlines()
        object.__setattr__(self, "ordered", all(_IN_ORDER.match(line.strip()) for line in plan))

    @cached_property
    def _schema(self) -> dict[str, Any]:
        return dict(self.table.collect_schema())

    def list_length(self, column: str) -> int | None:
        """Give the width of an array column, or the length of the first list."""
        polars = _polars()
        kind = self._schema[column]
        if isinstance(kind, polars.Array):
            return int(kind.size) if kind.inner.is_numeric() else None
        if not isinstance(kind, polars.List):
            return None
        first = self.table.select(polars.col(column)).head(1).collect().to_arrow().column(0)
        return list_length_of(first.type, column, lambda: first)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Collect some rows at a time with the streaming engine."""
        return self._stream(self.table.select(_polars().col(list(dict.fromkeys(columns)))))

    def _stream(self, frame: Any, n_classes: int = 1) -> Iterator[Batch]:
        size = rows_at_once(self.batch_rows, n_classes)
        parts = frame.collect_batches(chunk_size=size, maintain_order=True, engine="streaming")
        return in_rows((record for part in parts for record in part.to_arrow().to_batches()), size)

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count with a streaming group-by; weights are added exactly, batch by batch."""
        if weight is not None:
            return super().tally(keys, weight)
        return tally_of(counted(self.table, keys, engine="streaming"), keys)

    @contextmanager
    def blocks(self, decode: Decode) -> Iterator[Blocks]:
        """Decode all rows once."""
        frame = self.table.select(_polars().col(list(decode.roles.used)))
        with kept_blocks(self._stream(frame, len(decode.schema.classes)), decode) as blocks:
            yield blocks

    def frame(self, relabel: Relabel) -> Any:
        """Give a LazyFrame with new columns after the old ones."""
        return self._joined(relabel) if joins(relabel) else self._made(relabel)

    def _joined(self, relabel: Relabel) -> Any:
        """Join what becomes of each combination of label and attributes; the rows keep their order."""
        polars, keys = _polars(), keys_of(relabel)
        table, own = lookup(counted(self.table, keys, engine="streaming"), relabel)
        new = [name for name in table.schema.names if name not in own]
        mine = {name: self._schema[key] for name, key in zip(own, keys, strict=True)}
        right = polars.from_arrow(table).cast(mine | ({new[0]: self._schema[keys[0]]} if relabel.form == "expand" else {}))
        left = self.table
        if len(relabel.names) == 3 and relabel.form == "expand":
            left = left.with_row_index(relabel.names[2])
        found = left.join(
            right.lazy(), left_on=list(keys), right_on=list(own), how="left", nulls_equal=True, maintain_order="left_right", coalesce=True
        )
        checked = {
            name: polars.col(name).map_batches(_refuse_unmatched, return_dtype=right.schema[name], is_elementwise=True) for name in new
        }
        weight = relabel.decode.roles.weight
        if relabel.form == "expand" and weight is not None:
            checked[new[1]] = checked[new[1]] * polars.col(weight).cast(polars.Float64)
        numbers = [polars.col(relabel.names[2]).cast(polars.Int64)] if left is not self.table else []
        return found.with_columns(*checked.values(), *numbers).select(*map(polars.col, [*self.names, *relabel.names]))

    def _made(self, relabel: Relabel) -> Any:
        """Make new columns batch by batch; a scan of Polars, so that the plan after it is optimised as for a file."""
        polars = _polars()
        plugins = import_module("polars.io.plugins")
        empty = polars.from_arrow(_new_columns(self, relabel))
        schema = self._schema | dict(empty.schema)
        if relabel.form != "soft" and not relabel.decode.roles.soft:
            schema[relabel.names[0]] = self._schema[relabel.decode.roles.label[0]]  # Arrow does not tell an Enum

        def made(columns: list[str] | None, condition: Any, n_rows: int | None, _: int | None) -> Iterator[Any]:
            for batch in self._stream(self.table, len(relabel.decode.schema.classes)):
                part = polars.from_arrow(joined(batch.record, relabel, batch)).cast(schema)
                part = part if n_rows is None else part.head(n_rows)
                n_rows = None if n_rows is None else n_rows - len(part)
                part = part if condition is None else part.filter(condition)
                yield part if columns is None else part.select(columns)
                if n_rows == 0:
                    return

        return plugins.register_io_source(made, schema=schema, is_pure=True)


def _new_columns(source: PolarsSource, relabel: Relabel) -> Any:
    """Give the new columns of the first row, for their types."""
    first = next(source._stream(source.table.head(1).select(_polars().col(list(relabel.needed)))), None)
    if first is None:
        raise EmptyError(f"There are no rows in {source.name}.", remedy="Pass at least one row.")
    return pyarrow().table(relabel(first).columns)


def _refuse_unmatched(column: Any) -> Any:
    if column.null_count():
        # An error of Polars: it makes errors of its expressions anew from their text, which ours do not allow.
        raise _polars().exceptions.ComputeError(
            "A row has a combination of label and attributes that was not there when the labels were made: debias again."
        )
    return column


def _polars() -> Any:
    return import_module("polars")


def open_source(frame: Any) -> PolarsSource:
    """Open a LazyFrame.

    Raises
    ------
    ParameterError
        A column has a name that Polars takes for a pattern: it would answer with the columns that the pattern matches.
    """
    source = PolarsSource(frame)
    strange = next((name for name in source.names if name == "*" or (name.startswith("^") and name.endswith("$"))), None)
    if strange is not None:
        raise ParameterError(
            f"The LazyFrame has a column called {strange!r}, which Polars takes for a pattern of names.",
            remedy=f"Rename it first: frame.rename({{{strange!r}: 'other'}}).",
            column=strange,
        )
    return source
