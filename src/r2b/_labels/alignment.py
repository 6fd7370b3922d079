"""Features beside repeated labels: rows taken from any frame or array, and pandas row labels that keep the two together."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries

Array = np.ndarray[Any, np.dtype[Any]]


def take_rows(X: Any, index: Array) -> Any:
    """Take rows by number, as the kind of table that came in; without one, give the numbers.

    Examples
    --------
    >>> take_rows(np.array([[1, 2], [3, 4]]), np.array([1, 1, 0]))
    array([[3, 4],
           [3, 4],
           [1, 2]])
    """
    if X is None:
        return index
    frame = nw.from_native(X, eager_only=True, pass_through=True, allow_series=True)
    if isinstance(frame, (nw.DataFrame, nw.Series)):
        return nw.to_native(frame[index])
    return X[index] if hasattr(X, "__array__") or hasattr(X, "tocsr") else [X[i] for i in index]


def with_row_labels(labels: Any, taken: Any, row_labels: Any, index: Array) -> Any:
    """Give a pandas column of labels the row labels of its features: pandas joins by them, not by position."""
    if not libraries.is_pandas_series(labels):
        return labels
    if libraries.is_pandas_dataframe(taken) or libraries.is_pandas_series(taken):
        return labels.set_axis(taken.index)
    return labels if row_labels is None else labels.set_axis(row_labels[index])
