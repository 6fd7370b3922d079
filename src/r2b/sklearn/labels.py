"""The labels that a classifier is given, checked the way scikit-learn's classifiers check theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, column_or_1d

from r2b.errors import InputError, ParameterError, ShapeError, UnseenError
from r2b.inputs.agreement import refuse_lengths
from r2b.inputs.vocabulary import plain_value
from r2b.solution import FairLabels


def checked_labels(y: Any) -> Any:
    """Refuse what no classifier can learn from; give everything else back as it is, a matrix of one column as a column.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, L)

    Raises
    ------
    InputError
        There are no labels, or they are complex or infinite numbers.
    ValueError
        They are decimal numbers, a target for regression; scikit-learn's own message.

    Examples
    --------
    >>> checked_labels(["a", "b"])
    ['a', 'b']
    """
    if y is None:
        raise InputError(
            "ParityClassifier requires y to be passed, but the target y is None.", remedy="Pass classes or probabilities.", argument="y"
        )
    y = nw.to_native(y, pass_through=True)
    if isinstance(y, dict):
        return y
    if hasattr(y, "toarray"):
        raise ShapeError("The argument y is a sparse matrix.", remedy="Pass a dense one, for example with .toarray().", argument="y")
    array = np.asarray(y)
    if array.dtype.kind == "c":
        raise InputError(
            "Complex data not supported: the values of y are complex.", remedy="Pass real numbers or class names.", argument="y"
        )
    if array.ndim == 2 and array.shape[1] == 1 and array.dtype.kind != "f":
        return column_or_1d(array, warn=True)
    if array.ndim == 1 and array.dtype.kind == "f":
        # Missing and infinite numbers are for the core to name; only what is plainly a regression target is refused here.
        if np.isfinite(array).all():
            check_classification_targets(array)
        elif np.isinf(array).any():
            row = int(np.flatnonzero(np.isinf(array))[0])
            raise InputError(f"In y, row {row} is {float(array[row])!r}.", remedy="Pass classes without infinite numbers.", row=row)
    return y


def n_rows_of(y: Any) -> int:
    """Count the rows of labels, which may be a dictionary of columns.

    Examples
    --------
    >>> n_rows_of({"no": [0.5, 1.0, 0.0], "yes": [0.5, 0.0, 1.0]})
    3
    """
    return len(next(iter(y.values())) if isinstance(y, dict) else y)


def check_same_rows(X: Any, n_rows: int) -> None:
    """Refuse features that are not of the rows of the labels."""
    refuse_lengths("X", int(_num_samples(X)), "y", n_rows)


def prices_for_batches(labels: Any, classes: Any) -> FairLabels | None:
    """Give the fair labels behind an estimator or themselves, after a look at whether they know all classes; None for None.

    Raises
    ------
    ParameterError, UnseenError
    """
    if labels is None:
        return None
    solved = getattr(labels, "labels_", labels)
    if not isinstance(solved, FairLabels):
        raise ParameterError(
            f"The argument labels is of type {type(labels).__name__} and holds no prices.",
            remedy="Pass a fitted R2B, or what r2b.debias returned.",
            labels=type(labels).__name__,
        )
    wanted = np.asarray(solved.classes if classes is None else classes)
    unknown = wanted[~np.isin(wanted, solved.classes)]
    if len(unknown):
        raise UnseenError(
            f"The class {plain_value(unknown[0])!r} has no prices: it does not occur in the rows that they were found on.",
            remedy="Find the prices on all labels first and pass labels=R2B(...).fit(all_y, sensitive_features=all_s).",
            value=plain_value(unknown[0]),
        )
    return solved


def without_rows(labels: FairLabels) -> FairLabels:
    """Keep prices, names and evidence; drop the rows and their pandas row labels, which may well be people's names."""
    schema = labels.schema
    vocabularies = tuple(replace(vocabulary, index=None) for vocabulary in schema.vocabularies)
    bare = replace(schema, classes=replace(schema.classes, index=None), vocabularies=vocabularies)
    return replace(labels, schema=bare, dataset=None)
