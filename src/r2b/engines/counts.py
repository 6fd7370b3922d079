"""Tables of counts: how often each combination occurs, as GROUP BY counts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import narwhals as nw
import numpy as np

from r2b._data.arrays import Floats
from r2b._files.arrow import first_line, pyarrow
from r2b._labels import FairLabels
from r2b._labels.debiasing import Options, takes_options
from r2b.engines.batch import Batch, one_array, one_record, weights_of
from r2b.engines.lazy import HeldSource
from r2b.engines.roles import ColumnRoles
from r2b.engines.tables import Scan, roles_of
from r2b.engines.tally import Tally
from r2b.errors import InputError, MissingValueError, MixedTypeError, ParameterError

_WITHOUT = ("normalize",)


@takes_options(without=_WITHOUT)
def debias_counts(
    table: Any,
    label: str,
    *,
    sensitive_features: str | Sequence[str],
    control_features: str | Sequence[str] | None = None,
    count: str = "count",
    sample_weight: str | None = None,
    **options: Unpack[Options],
) -> FairLabels:
    """Find the closest labels in parity from a table of counts.

    The result is that of :func:`r2b.debias` for the rows that were counted: prices, status and
    certificate. A database makes such a table by one GROUP BY, which :func:`r2b.count_query`
    writes, and :meth:`r2b.FairLabels.sql` writes the labels there.

    Parameters
    ----------
    table : frame, or dictionary of columns
        pandas, Polars, pyarrow, a DuckDB relation, or columns by name. A combination may come
        several times, and its counts are added; one that no row has may be left out or have the
        count 0.
    label : str
        The column of classes.
    sensitive_features, control_features : str or list of str
        Columns of attributes.
    count : str
        The column of counts: whole numbers of rows.
    sample_weight : str, optional
        The column of the weights of these rows, added up.
    **options : Options
        As for :func:`r2b.debias`.

    Returns
    -------
    FairLabels
        Without rows: ``sql`` or ``transform`` gives their labels.

    Raises
    ------
    InputError
        A count is missing, negative or no whole number; or as for :func:`r2b.debias`.

    See Also
    --------
    r2b.count_query : The SQL that counts a table.
    r2b.debias : The closest labels in parity.

    Examples
    --------
    >>> table = {"job": ["a", "b", "b"], "sex": ["f", "f", "m"], "count": [1, 1, 2]}
    >>> fair = debias_counts(table, "job", sensitive_features="sex", epsilon=0.1)
    >>> proof = fair.certificate
    >>> fair.status.value, round(proof.disparity_before, 2), round(proof.disparity, 2)
    ('solved', 0.5, 0.1)
    """
    source = counts_source(table, count)
    named: dict[str, Any] = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
    }
    counted_roles(source, label, count, **named)
    return Scan(source).debias(label, **named, **options)


def counted_roles(source: CountsSource, label: str, count: str, **named: Any) -> ColumnRoles:
    """Check which columns of a table of counts are what; all but the counts are categories."""
    roles = roles_of(source, label, **named)
    source.check([("the labels, attributes and weights", roles.used), ("count", [count])])
    if not roles.counted:
        odd = roles.called if roles.soft else f"the column {roles.measured[0]!r}"
        raise ParameterError(
            f"In {source.name}, {odd} is no column of categories.",
            remedy="Count rows by class and group; for probabilities and numbers use r2b.debias or "
            "r2b.scan.",
        )
    return roles


class CountsSource(HeldSource):
    """A table of combinations; ``count`` is the column that says how often each occurs."""

    library, has_rows = "", False

    def __init__(self, table: Any, count: str) -> None:
        super().__init__(table, name="the table of counts")
        self.count = count

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Return the counts of the combinations that some row has."""
        counts = self._counts()
        there = np.flatnonzero(counts)
        rows = pyarrow().array(there)
        columns = {name: one_array(self.table.column(name)).take(rows) for name in keys}
        weights = None
        if weight is not None:
            weights = weights_of(Batch(one_record(self.table.select([weight]))), weight)[there]
        return Tally(columns, counts[there].astype(np.int64), weights)

    def _counts(self) -> Floats:
        """Read whole numbers of zero or more, whatever type a database gives them."""
        arrow, name = pyarrow(), self.count
        column = one_array(self.table.column(name))
        kinds = (arrow.types.is_integer, arrow.types.is_floating, arrow.types.is_decimal)
        if not any(kind(column.type) for kind in kinds):
            raise InputError(
                f"The column {name!r} of counts holds {column.type}, not numbers.",
                remedy="Name the column of counts with `count`.",
                column=name,
            )
        values = np.asarray(column.cast(arrow.float64()))
        right = (values >= 0) & (values < 2.0**53) & (values == np.floor(values))
        for row in np.flatnonzero(~right)[:1].tolist():
            value = column[row].as_py()
            if value is None:
                raise MissingValueError(
                    f"Row {row} has no count in {name!r}.",
                    remedy="Fill in how many rows there are.",
                    column=name,
                    row=row,
                )
            raise InputError(
                f"Row {row} has the count {value!r} in {name!r}.",
                remedy="Counts are whole numbers of rows; name weights with `sample_weight`.",
                column=name,
                row=row,
                value=value,
            )
        return values


def counts_source(table: Any, count: str) -> CountsSource:
    """Read a table of counts from any frame, or a dictionary of columns."""
    if isinstance(table, Mapping):
        arrow = pyarrow()
        try:
            table = arrow.table({str(name): list(column) for name, column in table.items()})
        except arrow.ArrowException as cause:
            raise MixedTypeError(
                f"The columns of the table of counts make no table: {first_line(cause)}.",
                remedy="Give columns of one length, each with values of one type.",
            ) from cause
    try:
        frame = nw.from_native(table)
    except TypeError:
        kind = type(table).__name__
        raise ParameterError(
            f"A {kind} is no table of counts.",
            remedy="Pass a frame of pandas, Polars or pyarrow, a DuckDB relation, or a dictionary "
            "of columns.",
            kind=kind,
        ) from None
    if isinstance(frame, nw.LazyFrame):
        return CountsSource(frame.collect("pyarrow").to_native(), count)
    return CountsSource(frame.to_arrow(), count)
