"""Columns of numbers: weights and continuous attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from r2b._data.arrays import Array, as_objects, first_and_count, frozen, plain_value
from r2b._data.columns import Column, column_of, refuse_lengths, refuse_other_index
from r2b._data.values import is_missing, type_word
from r2b._data.vocabulary import Vocabulary, factorize, gaps_of
from r2b.errors import InputError, ParameterError, WeightError, row_number

if TYPE_CHECKING:
    from r2b._data.cells import Cells

WHAT = "sample_weight"


def numbers_of(
    column: Column,
    what: str,
    remedy: str,
    kind: type[InputError] = InputError,
) -> Array:
    """Return a column as NumPy numbers, missing ones as NaN.

    Parameters
    ----------
    column : Column
    what, remedy : str
        How the column is called in an error about a value that is no number, and what to do then.
    kind : type
        Of this error.
    """
    values = column.values
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    array = np.asarray(values)
    if array.dtype.kind in "fiub":
        return array
    if column.library == "list":
        array = as_objects(values)  # NumPy turns [1, "a"] into text
    numbers = np.empty(len(array), dtype=np.float64)
    for row, value in enumerate(array):
        try:
            if array.dtype.kind != "O" or isinstance(value, (str, bytes)):
                raise TypeError  # Python reads "0.5" as a number
            numbers[row] = np.nan if is_missing(value) else float(value)
        except OverflowError:  # a whole number beyond what a float can hold
            numbers[row] = np.inf if value > 0 else -np.inf
        except (TypeError, ValueError) as cause:
            value, place = plain_value(value), row_number(row)
            holds = f"{value!r} ({type_word(value)})"
            problem = f"In {what}, row {place} holds {holds}, which is not a number."
            raise kind(problem, remedy=remedy, column=what, row=place, value=value) from cause
    return numbers


def read_weight(column: Column, what: str = WHAT) -> Array:
    """Read one finite, non-negative number per row; errors call the column ``what``.

    Returns
    -------
    ndarray of shape (N,), float64, read-only

    Raises
    ------
    WeightError

    Examples
    --------
    >>> read_weight(Column([1, 0, 2], "list"))
    array([1., 0., 2.])
    """
    numbers = numbers_of(column, what, "Pass one number per row.", WeightError)
    weight = frozen(numbers.astype(np.float64, copy=False))
    # NaN fails every comparison and infinity the second
    if not (weight.min() >= 0 and weight.max() < np.inf):
        row, count = first_and_count(~((weight >= 0) & (weight < np.inf)))
        value, remedy = float(weight[row]), "Pass finite weights of zero or more."
        wrong = f"{count} of {len(weight)} weights are negative, missing or infinite"
        row = row_number(row)
        problem = f"The weight of row {row} in {what} is {value!r}; {wrong}."
        facts = {"column": column.name or what, "row": row, "value": value, "count": count}
        raise WeightError(problem, remedy=remedy, **facts)
    return weight


def read_weights_with(
    sample_weight: Any, n_rows: int, *beside: tuple[str, Any | None]
) -> tuple[Array | None, Any | None]:
    """Read weights, if any, beside other arguments of the same rows, and the row labels of all."""
    if sample_weight is None:
        return None, refuse_other_index(*beside)
    column = column_of(sample_weight, what=WHAT)
    refuse_lengths(beside[0][0], n_rows, WHAT, len(column))
    index = refuse_other_index(*beside, (WHAT, column.index))
    return read_weight(column), index


def refuse_weightless_cells(weight: Array, groups: Cells) -> None:
    """Raise where the rows of a cell have no weight, which leaves its mean undefined."""
    totals = np.bincount(groups.codes, weights=weight, minlength=groups.n_cells)
    totals[groups.counts == 0] = 1.0
    refuse_weightless_groups(groups, np.arange(groups.n_cells), totals, groups.names)


def refuse_other_number(
    name: str, value: object, remedy: str, inside: Callable[[Any], bool], kind: type = Real
) -> None:
    """Raise where a parameter is not a number of a kind inside its range; True is no number.

    Examples
    --------
    >>> refuse_other_number("level", 0.95, "Pass a number between 0 and 1.", lambda x: 0 < x < 1)
    """
    if isinstance(value, bool) or not isinstance(value, kind) or not inside(value):
        raise ParameterError(f"{name} is {value!r}.", remedy=remedy, **{name: value})


def refuse_no_probability(name: str, value: object, usual: float) -> None:
    """Raise where a parameter is not a number between 0 and 1; the error names a usual one."""
    remedy = f"Pass a number between 0 and 1, such as {usual}."
    refuse_other_number(name, value, remedy, lambda probability: 0 < probability < 1)


def refuse_weightless_groups(
    cells: Cells, parts: Array, totals: Array, names: Sequence[Any] | Array
) -> None:
    """Raise where a group has no weight: its mean is undefined.

    Parameters
    ----------
    cells : Cells
    parts : ndarray of shape (n_cells,) or (n_cells, R)
        The group of each cell, or its memberships.
    totals : ndarray of shape (R,)
        The weight of each group.
    names : sequence
        Of the groups.
    """
    empty = np.flatnonzero(totals <= 0)
    if not len(empty):
        return
    group, name = int(empty[0]), plain_value(names[empty[0]])
    count = cells.rows_of(parts == group if parts.ndim == 1 else parts[:, group] > 0)
    problem = f"The weights of all {count} rows of group {name!r} are zero."
    remedy = "Give at least one of its rows a positive weight, or drop the group."
    if not count:
        problem = f"No row belongs to group {name!r} with any probability."
        remedy = "Leave its column out of the membership."
    raise WeightError(problem, remedy=remedy, group=name, count=count)


def refuse_weightless_table(weight: Array, n_rows: int | None = None) -> None:
    """Raise where weights add up to zero or to infinity, which leaves every mean undefined.

    Parameters
    ----------
    weight : ndarray
        Of rows, or of combinations that stand for several.
    n_rows : int, optional
        How many rows there are, where these are combinations; none are let pass.
    """
    count = len(weight) if n_rows is None else n_rows
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if total == 0 and count:
        problem = f"The weights of all {count} rows are zero."
        remedy = "Give at least one row a positive weight."
        raise WeightError(problem, remedy=remedy, count=count, total=total)
    if not np.isfinite(total):
        remedy = "Divide them by their largest value."
        raise WeightError("The weights add up to infinity.", remedy=remedy, total=total)


def read_continuous(
    column: Column, *, what: str, keep_missing: bool = False, known: bool = False
) -> tuple[Array, Vocabulary]:
    """Return the codes of a numeric column and its distinct values, as float64.

    Parameters
    ----------
    column : Column
    what : str
        How the column is called in an error.
    keep_missing : bool, default False
        Give rows without a value the last code instead of refusing them.
    known : bool, default False
        Whether these are new rows of an attribute that was fitted, which may all lack a value.

    Raises
    ------
    InputError
        A value is not a number, or infinite.
    MissingValueError
        A row has no value.

    Examples
    --------
    >>> codes, vocabulary = read_continuous(Column([39, 50, 39], "list"), what="age")
    >>> codes, vocabulary.values
    (array([0, 1, 0], dtype=uint8), array([39., 50.]))
    """
    gaps = gaps_of(column, what=what, keep_missing=keep_missing, known=known)
    remedy = "Pass one number per row, or the column without Continuous if it holds categories."
    numbers = numbers_of(column, what, remedy).astype(np.float64)
    row, count = first_and_count(np.isinf(numbers))
    if count:
        value, row, remedy = float(numbers[row]), row_number(row), "Correct or drop these rows."
        problem = (
            f"In `{what}`, row {row} holds {value!r}; {count} of {len(gaps)} rows are infinite."
        )
        raise InputError(problem, remedy=remedy, column=what, row=row, value=value, count=count)
    codes, values = factorize(Column(numbers, "numpy"), gaps, what=what)
    return codes, Vocabulary(values, index=column.index, has_missing=bool(gaps.any()))
