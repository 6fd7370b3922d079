"""Row weights of tables that are not in memory: counted, solved, and joined or made by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from r2b._data import Dataset
from r2b._files.arrow import pyarrow
from r2b._labels.debiasing import Options, request_and_settings, takes_options
from r2b._weights import RowWeights
from r2b._weights.result import WeightRule
from r2b._weights.reweighing import WITHOUT, Representation, reweighed
from r2b.engines.batch import Batch
from r2b.engines.counts import counted_roles, counts_source
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.source import NewColumns, Relabel, Source
from r2b.engines.table_rows import TableRows, refuse_taken
from r2b.engines.tables import counted_or_gathered


@dataclass(frozen=True, eq=False)
class Weigh(Relabel):
    """Makes the column of weights; it can be pickled and sent to where the rows are."""

    def __call__(self, batch: Batch) -> NewColumns:
        """Return the weight of every row of a batch."""
        if len(batch) == 0:
            return super().__call__(batch)
        rule: Any = self.rule
        factors = rule.apply(self.decode.read(batch))
        return NewColumns({self.names[0]: pyarrow().array(factors)})


@dataclass(frozen=True, eq=False)
class WeighedRows:
    """The rows of a table, for results of :func:`r2b.reweigh` to be written beside them."""

    table: TableRows

    def in_memory(self) -> Dataset:
        """Read the columns that were used."""
        return self.table.in_memory().dataset

    def frame(self, rule: WeightRule, new_column: str) -> Any:
        """Return the table with its weights in a new column, of the kind that came in."""
        return self.table.source.frame(self.weigh(rule, new_column))

    def write(self, rule: WeightRule, path: str, new_column: str, *, force: bool) -> None:
        """Write the table with its weights in a new column, in its format."""
        self.table.source.write(self.weigh(rule, new_column), path, force=force)

    def weigh(self, rule: Any, new_column: str) -> Weigh:
        """Return what makes the new column of a batch."""
        refuse_taken((new_column,), self.table.source)
        decode = Decode(self.table.roles, rule.schema, self.table.normalize)
        return Weigh(decode, rule, "soft", (new_column,))


def reweigh_table(
    source: Source,
    roles: ColumnRoles,
    max_weight: float | None,
    representation: Representation | None,
    options: Options,
) -> RowWeights:
    """Weigh the rows of a table; class labels are counted, other rows read into memory."""
    request, settings = request_and_settings(options, without=WITHOUT)
    normalize = options.get("normalize", False)
    data = counted_or_gathered(source, roles, request.missing, normalize, any_order=True)
    found = reweighed(data, request, settings, max_weight, representation)
    counts = data if roles.counted else None
    rows = TableRows(source, roles, data.schema, counts, normalize, None, data.size)
    return replace(found, rows=WeighedRows(rows))


@takes_options(without=(*WITHOUT, "normalize"))
def reweigh_counts(
    table: Any,
    label: str,
    *,
    sensitive_features: str | Sequence[str],
    control_features: str | Sequence[str] | None = None,
    count: str = "count",
    sample_weight: str | None = None,
    max_weight: float | None = None,
    representation: Representation | None = None,
    **options: Unpack[Options],
) -> RowWeights:
    """Find row weights from a table of counts, as GROUP BY counts rows.

    The result is that of :func:`r2b.reweigh` for the rows that were counted.
    :func:`r2b.count_query` writes the query that counts, and :meth:`r2b.RowWeights.sql` the join.

    Parameters
    ----------
    table, label, sensitive_features, control_features, count, sample_weight
        As for :func:`r2b.debias_counts`.
    max_weight, representation
        As for :func:`r2b.reweigh`.
    **options : Options
        As for :func:`r2b.debias`.

    See Also
    --------
    r2b.count_query : The SQL that counts a table.
    r2b.reweigh : Row weights instead of new labels.

    Examples
    --------
    >>> table = {"job": ["a", "b", "a", "b"], "sex": ["f", "f", "m", "m"], "count": [1, 2, 2, 1]}
    >>> weights = reweigh_counts(table, "job", sensitive_features="sex")
    >>> weights.table.round(3).tolist()
    [[1.5, 0.75], [0.75, 1.5]]
    """
    source = counts_source(table, count)
    roles = counted_roles(
        source,
        label,
        count,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
    )
    return reweigh_table(source, roles, max_weight, representation, options)
