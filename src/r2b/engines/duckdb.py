"""DuckDB relations: counted and joined by SQL; draws are made from a stream to a scratch file.

A function of Python inside a query would see 2,048 rows at a time and needs the connection, which a
relation does not give.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from r2b.engines.batch import PIECE_ROWS, one_record
from r2b.engines.lazy import StreamSource, joins, lookup
from r2b.engines.roles import refuse_alike
from r2b.engines.source import Relabel
from r2b.engines.spool import spilled
from r2b.engines.tally import MOST_COMBINATIONS

_CHANGED = (
    "A row has a combination of label and attributes that was not there when the labels were made: "
    "debias again."
)


class DuckDBSource(StreamSource):
    """A ``duckdb.DuckDBPyRelation``.

    Raises
    ------
    ParameterError
        Two of its columns differ in capitals only: DuckDB would answer for one where the other is
        asked for.

    Notes
    -----
    A relation promises no order of its rows, and joins do not keep one: "round" and "sample" ask
    for a key, and a result is put in order with ``relation.order("id")``.
    """

    name = "the DuckDB relation"

    def __init__(self, table: Any, batch_rows: int = PIECE_ROWS) -> None:
        super().__init__(table, batch_rows)
        self.names = tuple(table.columns)
        for place, name in enumerate(self.names):
            remedy = "Rename one of them in its query, such as SELECT ... AS other."
            others = [each for each in self.names[:place] if each != name]
            refuse_alike(others, [name], "DuckDB", remedy)

    def empty(self, columns: Sequence[str]) -> Any:
        """Return no rows of some columns."""
        return one_record(self.select(columns).limit(0).to_arrow_table())

    def select(self, columns: Sequence[str]) -> Any:
        """Return some columns of the relation."""
        return self.table.project(", ".join(map(quoted, dict.fromkeys(columns))))

    def records(self, columns: Sequence[str], size: int) -> Iterable[Any]:
        """Stream the relation."""
        frame = self.table if columns == self.names else self.select(columns)
        reader: Iterable[Any] = frame.to_arrow_reader(size)
        return reader

    def grouped(self, keys: Sequence[str]) -> Any:
        """Count with SQL; columns are called after their places."""
        places = ", ".join(f"{quoted(key)} AS c{place}" for place, key in enumerate(keys))
        query = f"SELECT {places}, count(*) AS n FROM r2b_old_labels GROUP BY ALL"
        query += f" LIMIT {MOST_COMBINATIONS + 1}"
        return self.table.query("r2b_old_labels", query).to_arrow_table()

    def frame(self, relabel: Relabel) -> Any:
        """Return a relation with new columns after the old ones, to be read any number of times."""
        remedy = "Pass another `new_column`; only 'soft' needs a column per class."
        refuse_alike(self.names, relabel.names, "DuckDB", remedy)
        return self._joined(relabel) if joins(relabel) else self._made(relabel)

    def _joined(self, relabel: Relabel) -> Any:
        """Join the new columns of each combination of label and attributes."""
        keys, weight = relabel.roles.described, relabel.roles.weight
        r2b_new_labels = lookup(self.tally(keys).columns, relabel)
        new = []
        for place, name in enumerate(relabel.names):
            found = f"new.n{place}"
            value = f"CASE WHEN {found} IS NULL THEN error('{_CHANGED}') ELSE {found} END"
            if relabel.traits.repeated and place == 0:
                kind = self.table.types[self.names.index(keys[0])]
                value = f"CAST({value} AS {kind})"
            elif relabel.traits.repeated and weight is not None:
                value = f"{value} * old.{quoted(weight)}"
            new.append(f"{value} AS {quoted(name)}")
        on = " AND ".join(
            f"old.{quoted(key)} IS NOT DISTINCT FROM new.k{place}" for place, key in enumerate(keys)
        )
        # DuckDB finds the Arrow table by the name of this variable, and the relation holds it.
        made = self.table.query(
            "r2b_old_labels",
            f"SELECT old.*, {', '.join(new)} FROM r2b_old_labels old "
            f"LEFT JOIN r2b_new_labels new ON {on}",
        )
        del r2b_new_labels
        return made

    def _made(self, relabel: Relabel) -> Any:
        """Make new columns from a stream, and keep the rows in a scratch file."""
        r2b_labelled = spilled(self.labelled(relabel))
        made = self.table.query("r2b_old_labels", "SELECT * FROM r2b_labelled")
        roles, kinds = relabel.roles, [*self.table.types, *made.types[len(self.names) :]]
        # Arrow does not tell an ENUM from text in a dictionary
        if not roles.soft and relabel.traits.classes:
            kinds[len(self.names)] = self.table.types[self.names.index(roles.label[0])]
        columns = [
            f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}"
            for name, kind in zip(made.columns, kinds, strict=True)
        ]
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
