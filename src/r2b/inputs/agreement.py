"""Do two arguments speak of the same rows? Lengths, and the row labels of pandas, compared before anything is read from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b.errors import InputError, LengthError
from r2b.inputs.vocabulary import plain_value


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


def refuse_other_order(what: str, index: Any | None, other: str, other_index: Any | None) -> None:
    """Raise where two pandas objects label the same rows in another order: going by position or by label would then differ.

    Parameters
    ----------
    what, other : str
        Names of the arguments.
    index, other_index : pandas Index or None
    """
    if index is None or other_index is None or index.equals(other_index):
        return
    try:
        same_rows = bool(index.sort_values().equals(other_index.sort_values()))
    except TypeError:  # labels of several types have no order, and nothing can be said
        return
    if same_rows:
        row = int(np.flatnonzero(np.asarray(index != other_index))[0])
        raise InputError(
            f"The arguments {what} and {other} have the same row labels in a different order; "
            f"at row {row} they are {plain_value(index[row])!r} and {plain_value(other_index[row])!r}.",
            remedy=f"Bring them in one order with {other}.loc[{what}.index], or pass both with .to_numpy() to go by position.",
            row=row,
            row_labels=(index[row], other_index[row]),
        )
