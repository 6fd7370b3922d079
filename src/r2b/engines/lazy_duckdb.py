"""DuckDB relations: counted and joined by SQL; what is drawn for rows is made from a stream and lies in a scratch file.

A function of Python inside a query would see 2,048 rows at a time and needs the connection, which a relation does not give. A stream has
batches as large as everywhere else, so that the same rows are rounded together on every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from r2b._solve.oracle import Blocks
from r2b.engines.batch import Batch, list_length_of
from r2b.engines.held import BATCH_ROWS
from r2b.engines.lazy import counted, in_rows, joins, keys_of, lookup, tally_of
from r2b.engines.lazy_blocks import kept_blocks, rows_at_once, spilled
from r2b.engines.roles import Decode, refuse_alike
from r2b.engines.source import Relabel, Source, joined
from r2b.engines.tally import Tally
from r2b.errors import ParameterError

_OTHER_NAMES = "Choose another name with new_column=...; 'round', 'sample' and 'expand' need no column per class."
_CHANGED = "A row has a combination of label and attributes that was not there when the labels were made: debias again."


@dataclass(frozen=True, eq=False)
class DuckDBSource(Source):
    """A ``duckdb.DuckDBPyRelation``.

    Attributes
    ----------
    table : duckdb.DuckDBPyRelation
    batch_rows : int

    Notes
    -----
    A relation promises no order of its rows, and joins do not keep one: "round" and "sample" ask for a key, and a result is put in order
    with ``relation.order("id")``.
    """

    table: Any
    batch_rows: int = BATCH_ROWS
    name: str = "the DuckDB relation"
    ordered: bool = field(default=False, init=False)
    names: tuple[str, ...] = field(init=False)
    _lengths: dict[str, int | None] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.table.columns))

    def list_length(self, column: str) -> int | None:
        """Give the length of the first list."""
        if column not in self._lengths:  # kept: a connection answers one query at a time, and this is asked while rows are streamed
            first = self.table.project(quoted(column)).limit(1).to_arrow_table().column(0)
            self._lengths[column] = list_length_of(first.type, column, lambda: first)
        return self._lengths[column]

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Stream the rows in Arrow batches."""
        return self._stream(self.table.project(", ".join(map(quoted, dict.fromkeys(columns)))))

    def _stream(self, relation: Any, n_classes: int = 1) -> Iterator[Batch]:
        size = rows_at_once(self.batch_rows, n_classes)
        return in_rows(relation.to_arrow_reader(size), size)

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count with a group-by; weights are added exactly, batch by batch."""
        return super().tally(keys, weight) if weight is not None else tally_of(counted(self.table, keys), keys)

    @contextmanager
    def blocks(self, decode: Decode) -> Iterator[Blocks]:
        """Decode all rows once."""
        relation = self.table.project(", ".join(map(quoted, decode.roles.used)))
        with kept_blocks(self._stream(relation, len(decode.schema.classes)), decode) as blocks:
            yield blocks

    def frame(self, relabel: Relabel) -> Any:
        """Give a relation with new columns after the old ones, to be read as often as one likes."""
        refuse_alike(self.names, relabel.names, "DuckDB", _OTHER_NAMES)
        return self._joined(relabel) if joins(relabel) else self._made(relabel)

    def _joined(self, relabel: Relabel) -> Any:
        keys = keys_of(relabel)
        r2b_new_labels, own = lookup(counted(self.table, keys), relabel)
        kinds = dict(zip(self.names, self.table.types, strict=True))
        weight = relabel.decode.roles.weight
        new = []
        for name in r2b_new_labels.schema.names[len(own) :]:
            found = f"new.{quoted(name)}"
            value = f"CASE WHEN {found} IS NULL THEN error('{_CHANGED}') ELSE {found} END"
            if relabel.form == "expand":
                whole = name == relabel.names[0]
                value = f"CAST({value} AS {kinds[keys[0]]})" if whole else value if weight is None else f"{value} * old.{quoted(weight)}"
            new.append(f"{value} AS {quoted(name)}")
        on = " AND ".join(f"old.{quoted(key)} IS NOT DISTINCT FROM new.{quoted(mine)}" for key, mine in zip(keys, own, strict=True))
        # DuckDB finds the Arrow table by the name of this variable, and the relation keeps hold of it.
        made = self.table.query(
            "r2b_old_labels", f"SELECT old.*, {', '.join(new)} FROM r2b_old_labels old LEFT JOIN r2b_new_labels new ON {on}"
        )
        del r2b_new_labels
        return made

    def _made(self, relabel: Relabel) -> Any:
        stream = self._stream(self.table, len(relabel.decode.schema.classes))
        r2b_labelled = spilled(joined(batch.record, relabel, batch) for batch in stream)
        made = self.table.query("r2b_old_labels", "SELECT * FROM r2b_labelled")
        choice, kinds = relabel.decode.roles, [*self.table.types, *made.types[len(self.names) :]]
        if not choice.soft:  # Arrow does not tell an ENUM from text in a dictionary
            kinds[len(self.names)] = self.table.types[self.names.index(choice.label[0])]
        if made.types == kinds:
            return made
        columns = [f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for name, kind in zip(made.columns, kinds, strict=True)]
        del r2b_labelled
        return made.project(", ".join(columns))


def quoted(name: str) -> str:
    """Write a name of a column in SQL.

    Examples
    --------
    >>> print("name:", quoted('of "it" all'))
    name: "of ""it"" all"
    """
    return '"' + name.replace('"', '""') + '"'


def open_source(relation: Any) -> DuckDBSource:
    """Open a relation.

    Raises
    ------
    ParameterError
        Two of its columns differ in capitals only: DuckDB would answer for one where the other is asked for.
    """
    known: dict[str, str] = {}
    for name in relation.columns:
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise ParameterError(
                f"The DuckDB relation has columns {other!r} and {name!r}, which DuckDB takes for the same name.",
                remedy="Rename one of them in its query, such as SELECT ... AS other.",
                column=name,
            )
    return DuckDBSource(relation)
