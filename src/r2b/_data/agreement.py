"""Do two arguments speak of the same rows? Lengths, and the row labels of pandas, compared before anything is read from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
from narwhals import dependencies as libraries

from r2b.errors import LengthError, RowLabelError


def refuse_lengths(what: str, n_rows: int, other: str, n_other: int) -> None:
    """Raise where two arguments have different numbers of rows.

    Examples
    --------
    >>> refuse_lengths("y", 3, "sample_weight", 3)
    """
    if n_rows != n_other:
        raise LengthError(
            f"The argument {what} has {n_rows} rows, but {other} has {n_other}.",
            remedy="Pass the same rows in both; name several attributes in a dictionary of columns.",
            lengths={what: n_rows, other: n_other},
        )


def row_labels(handed: Any) -> Any | None:
    """Give the index of a pandas object, or of the first one in a dictionary of columns; None for everything else.

    Examples
    --------
    >>> row_labels([1, 2]) is None
    True
    """
    native = nw.to_native(handed, pass_through=True)
    if isinstance(native, Mapping):
        return next((index for column in native.values() if (index := row_labels(column)) is not None), None)
    return native.index if libraries.is_pandas_dataframe(native) or libraries.is_pandas_series(native) else None


def refuse_other_index(*arguments: tuple[str, Any | None]) -> Any | None:
    """Raise where two pandas arguments do not have the same row labels in the same order: by position and by label would then differ.

    Parameters
    ----------
    *arguments : tuple (str, pandas Index or None)
        Names of arguments, each with its index. None, for what has no row labels, agrees with everything.

    Returns
    -------
    pandas Index or None
        The one that all share.

    Raises
    ------
    RowLabelError, LengthError

    Examples
    --------
    >>> import pandas as pd
    >>> refuse_other_index(("y", pd.Index(["a", "b"])), ("sensitive_features", None), ("sample_weight", pd.Index(["a", "b"])))
    Index(['a', 'b'], dtype='...')
    """
    labelled = [(what, index) for what, index in arguments if index is not None]
    if not labelled:
        return None
    what, index = labelled[0]
    for other, theirs in labelled[1:]:
        refuse_lengths(what, len(index), other, len(theirs))
        if not index.equals(theirs):
            raise _disagreement(what, index, other, theirs)
    return index


def _disagreement(what: str, index: Any, other: str, theirs: Any) -> RowLabelError:
    ours, others = index.tolist(), theirs.tolist()
    row = next((row for row, pair in enumerate(zip(ours, others, strict=True)) if _differ(*pair)), 0)
    known = theirs.isin(index)
    foreign = int((~known).sum())
    by_position = f"if the rows already correspond, pass {other} with .to_numpy() to go by position"
    if foreign == len(theirs):
        found, remedy = "have no row label in common", f"Give them one index: {other}.index = {what}.index; or, {by_position}."
    else:
        same = not foreign and bool(index.isin(theirs).all())
        found = "have the same row labels in a different order" if same else f"differ in their row labels ({foreign} of {len(theirs)})"
        remedy = f"Bring them in one order with {other} = {other}.loc[{what}.index]; or, {by_position}."
        if foreign:
            remedy = f"Take .loc[{what}.index.intersection({other}.index)] of both, the rows that they share; or, {by_position}."
        if index.has_duplicates or theirs.has_duplicates:
            remedy = f"Some labels occur twice, so that only you know which rows belong together: {by_position}."
    return RowLabelError(
        f"The arguments {what} and {other} {found}; at row {row} they are {ours[row]!r} and {others[row]!r}.",
        remedy=remedy,
        row=row,
        row_labels=(ours[row], others[row]),
        arguments=(what, other),
        n_foreign=foreign,
    )


def _differ(one: Any, other: Any) -> bool:
    try:
        return bool(one != other)
    except (TypeError, ValueError):  # pandas.NA has no answer
        return one is not other
