"""The random numbers of rows in memory: by what tells them apart, or by their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._data import Dataset
from r2b._data.agreement import refuse_other_index
from r2b._data.arrival import Column, recognise
from r2b._data.vocabulary import column_of
from r2b._labels.forms.keyed import draws_of, key_words, row_numbers
from r2b.errors import LengthError


def row_draws(key: Any, seed: int, data: Dataset) -> NDArray[np.int64]:
    """Give a random number of 53 bits for each row.

    Parameters
    ----------
    key : array-like of shape (N,), list of such, or None
        None for the numbers of the rows.
    seed : int
    data : Dataset
        The rows.

    Raises
    ------
    LengthError, RowLabelError
        The keys are not those of the rows.

    Examples
    --------
    >>> from r2b._data import read
    >>> data = read(["a", "b", "b"], sensitive_features=["f", "m", "m"])
    >>> row_draws(None, 0, data).tolist() == row_draws([0, 1, 2], 0, data).tolist()
    True
    """
    n_rows = data.n_rows
    if key is None:
        return draws_of(row_numbers(0, n_rows), seed)
    several = isinstance(key, (list, tuple)) and len(key) > 0 and hasattr(key[0], "__len__") and not isinstance(key[0], (str, bytes))
    found = recognise(key, what="key") if not several else None
    handed = [column_of(each, what="key") for each in key] if found is None else [found] if isinstance(found, Column) else found.columns
    columns = [column.native for column in handed]
    other = next((len(column) for column in columns if len(column) != n_rows), None)
    if other is not None:
        raise LengthError(
            f"key has {other} rows, but the labels have {n_rows}.",
            remedy="Pass the keys of the same rows, in the same order.",
            lengths={"key": other, "y": n_rows},
        )
    refuse_other_index(("y", data.index), *(("key", column.index) for column in handed))
    return draws_of(key_words(columns, ["key"] * len(columns)), seed)
