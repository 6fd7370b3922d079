"""What the estimators share: options as parameters, checked labels, and fitted attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils.validation import _num_samples, column_or_1d, validate_data

from r2b._data import Vocabulary
from r2b._data.arrays import Array
from r2b._data.attributes import MEMBERSHIP
from r2b._data.columns import column_of, refuse_other_rows, row_labels
from r2b._data.dataset import Schema
from r2b._data.mixtures import Mixtures
from r2b._data.numbers import read_weight
from r2b._labels import FairLabels
from r2b._labels.debiasing import DEFAULTS, debias, refuse_unknown
from r2b._labels.sampling import take_rows
from r2b.errors import InputError, ParameterError, ShapeError

WITHOUT = ("progress",)
"""Options of ``debias`` that no estimator has: a callback neither clones nor pickles."""


def store(arguments: Mapping[str, Any], without: Sequence[str] = WITHOUT) -> None:
    """Keep constructor arguments under their names, untouched, as scikit-learn asks.

    Parameters
    ----------
    arguments : mapping
        The ``locals()`` of the constructor, with ``self`` and ``options``.
    without : sequence of str
        Options of ``debias`` that the estimator does not have.

    Raises
    ------
    ParameterError
        An option that does not exist.
    """
    own = dict(arguments)
    estimator, options = own.pop("self"), own.pop("options")
    refuse_unknown(options, without)
    usual = {name: default for name, default in DEFAULTS.items() if name not in without}
    for name, value in {**usual, **options, **own}.items():
        setattr(estimator, name, value)


def solve(estimator: Any, y: Any, **data: Any) -> FairLabels:
    """Call ``debias`` with the parameters of an estimator and the rows.

    Raises
    ------
    ParameterError
        There are no sensitive features.
    """
    require_sensitive(data["sensitive_features"], type(estimator).__name__)
    return debias(y, multilabel=False, **options_of(estimator), **data)


def options_of(estimator: Any) -> dict[str, Any]:
    """Return the options of ``debias`` that an estimator has."""
    taken = estimator.get_params(deep=False)
    return {name: taken[name] for name in DEFAULTS if name in taken}


def require_sensitive(sensitive_features: Any, name: str, method: str = "fit") -> None:
    """Refuse to go on without groups: the labels of nobody's groups would pass for fair ones."""
    if sensitive_features is None:
        problem = f"{name} was called without sensitive_features, so there are no groups."
        routing = f"enable metadata routing and call set_{method}_request(sensitive_features=True)"
        remedy = f"Pass `sensitive_features=...`; inside a pipeline or a search, {routing} on it."
        raise ParameterError(problem, remedy=remedy, sensitive_features=None)


def checked_labels(y: Any, name: str) -> Any:
    """Refuse what no classifier can learn from, and return everything else as it is.

    A matrix of one column becomes a column.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, L)
    name : str
        Who asks.

    Raises
    ------
    InputError
        There are no labels, or they are complex, infinite or decimal numbers.

    Examples
    --------
    >>> checked_labels(["a", "b"], "ParityClassifier")
    ['a', 'b']
    """
    if y is None:
        problem = f"{name} requires y to be passed, but the target y is None."
        raise InputError(problem, remedy="Pass classes or probabilities.", argument="y")
    y = nw.to_native(y, pass_through=True)
    if isinstance(y, dict):
        return y
    if hasattr(y, "toarray"):
        remedy = "Pass a dense one, for example with .toarray()."
        raise ShapeError("`y` is a sparse matrix.", remedy=remedy, argument="y")
    array = np.asarray(y)
    if array.dtype.kind == "c":
        problem = "Complex data not supported: the values of y are complex."
        remedy = "Pass real numbers or class names."
        raise InputError(problem, remedy=remedy, argument="y")
    if array.ndim == 2 and array.shape[1] == 1 and array.dtype.kind != "f":
        return column_or_1d(array, warn=True)
    if array.ndim == 1 and array.dtype.kind == "f" and np.isinf(array).any():
        row = int(np.argmax(np.isinf(array)))
        remedy = "Pass classes without infinite numbers."
        raise InputError(f"In `y`, row {row} is {float(array[row])!r}.", remedy=remedy, row=row)
    return y


def part_of(rows: Any, chosen: Array) -> Any:
    """Take some rows of labels, attributes or weights, as the kind of table that came in.

    Examples
    --------
    >>> part_of({"sex": ["f", "m", "f"]}, np.array([2, 1]))
    {'sex': array(['f', 'm'], dtype='<U1')}
    """
    if rows is None:
        return None
    if isinstance(rows, Mapping):
        return {name: part_of(column, chosen) for name, column in rows.items()}
    return take_rows(np.asarray(rows) if isinstance(rows, (list, tuple)) else rows, chosen)


def check_same_rows(X: Any, n_rows: int, index: Any | None) -> None:
    """Refuse features of other rows: another number of them, or another pandas index."""
    refuse_other_rows(("X", int(_num_samples(X)), row_labels(X)), ("y", n_rows, index))


def note_features(estimator: Any, X: Any, *, first: bool = True) -> None:
    """Set number and names of the features; in a later batch, refuse others."""
    validate_data(estimator, X, skip_check_array=True, reset=first)


def weight_column(sample_weight: Any) -> Any:
    """Read weights; a table of one column is a column, and None stays None.

    Examples
    --------
    >>> weight_column([[1], [2]])
    array([1., 2.])
    """
    if sample_weight is None:
        return None
    return read_weight(column_of(sample_weight, what="sample_weight"))


def class_order(classes: Array) -> Array:
    """Return the places of the classes once sorted, as classifiers of scikit-learn have them.

    Labels may come in an order of their own: categories, or the columns of a frame. Classes without
    an order stay in theirs.

    Examples
    --------
    >>> class_order(np.array(["low", "mid", "high"]))
    array([2, 0, 1])
    """
    try:
        return np.argsort(classes, kind="stable")
    except TypeError:
        return np.arange(len(classes))


def publish(estimator: Any, labels: FairLabels, order: Array | slice = slice(None)) -> None:
    """Set the fitted attributes that all estimators have, with classes in this order."""
    estimator.labels_ = labels
    estimator.classes_, estimator.groups_ = labels.classes[order], labels.groups
    of_classes = labels.families.outcomes is None
    estimator.prices_ = labels.prices[:, order] if of_classes else labels.prices
    estimator.n_iter_ = len(labels.history)
    estimator.certificate_, estimator.status_ = labels.certificate, labels.status


def without_rows(labels: FairLabels) -> FairLabels:
    """Keep prices, names and evidence; drop the rows and their labels, which may name people."""
    return replace(labels, rule=replace(labels.rule, schema=bare_schema(labels.schema)), rows=None)


def bare_schema(schema: Schema) -> Schema:
    """Keep what classes and groups there are, and nothing of any row or library."""
    kept: list[Any] = []
    for each in schema.vocabularies:
        if isinstance(each, Mixtures):
            kept.append(replace(each, matrix=each.matrix[:0], rows=each.rows[:0], index=None))
        else:
            kept.append(Vocabulary(each.values, has_missing=each.has_missing))
    # with memberships every row is a cell, and new rows make their own
    table = schema.table[:0] if MEMBERSHIP in schema.kinds else schema.table
    classes = Vocabulary(schema.classes.values)
    return replace(schema, classes=classes, vocabularies=tuple(kept), table=table)
