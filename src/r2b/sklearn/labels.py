"""What the estimators share: options as parameters, labels checked the way scikit-learn checks them, and the way to fair labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils.validation import _num_samples, column_or_1d, validate_data

from r2b._data.arrays import Array, plain_value
from r2b._data.attributes import MEMBERSHIP
from r2b._data.columns import column_of, refuse_lengths, refuse_other_index, row_labels
from r2b._data.dataset import Schema
from r2b._data.mixtures import Mixtures
from r2b._data.numbers import read_weight
from r2b._labels import FairLabels
from r2b._labels.debiasing import DEFAULTS, debias, lives_on_a_device, refuse_unknown
from r2b._labels.sampling import take_rows
from r2b.errors import InputError, ParameterError, ShapeError, UnseenError

WITHOUT = ("progress",)
"""Options of ``debias`` that are no parameter of an estimator: a callback neither clones nor pickles."""


def store(
    estimator: Any, options: Mapping[str, Any], without: Sequence[str] = WITHOUT, /, **own: Any
) -> None:
    """Keep constructor arguments under their names, untouched: what scikit-learn asks of a constructor.

    Raises
    ------
    ParameterError
        An option that does not exist.
    """
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
    taken = estimator.get_params(deep=False)
    return debias(y, **{name: taken[name] for name in DEFAULTS if name in taken}, **data)


def require_sensitive(sensitive_features: Any, name: str, method: str = "fit") -> None:
    """Refuse to go on without sensitive features: labels that nobody made fair would pass for fair ones."""
    if sensitive_features is None:
        problem = (
            f"{name} was called without sensitive_features, so there are no groups to be fair to."
        )
        routing = (
            f"enable metadata routing and call set_{method}_request(sensitive_features=True) on it"
        )
        remedy = f"Pass sensitive_features=...; inside a pipeline or a search, {routing}."
        raise ParameterError(problem, remedy=remedy, sensitive_features=None)


def checked_labels(y: Any, name: str = "ParityClassifier") -> Any:
    """Refuse what no classifier can learn from; give everything else back as it is, a matrix of one column as a column.

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
    >>> checked_labels(["a", "b"])
    ['a', 'b']
    """
    if y is None:
        remedy = "Pass classes or probabilities."
        raise InputError(
            f"{name} requires y to be passed, but the target y is None.",
            remedy=remedy,
            argument="y",
        )
    y = nw.to_native(y, pass_through=True)
    if isinstance(y, dict):
        return y
    if hasattr(y, "toarray"):
        raise ShapeError(
            "The argument y is a sparse matrix.",
            remedy="Pass a dense one, for example with .toarray().",
            argument="y",
        )
    array = np.asarray(y)
    if array.dtype.kind == "c":
        remedy = "Pass real numbers or class names."
        raise InputError(
            "Complex data not supported: the values of y are complex.", remedy=remedy, argument="y"
        )
    if array.ndim == 2 and array.shape[1] == 1 and array.dtype.kind != "f":
        return column_or_1d(array, warn=True)
    if array.ndim == 1 and array.dtype.kind == "f" and np.isinf(array).any():
        row = int(np.flatnonzero(np.isinf(array))[0])
        raise InputError(
            f"In y, row {row} is {float(array[row])!r}.",
            remedy="Pass classes without infinite numbers.",
            row=row,
        )
    refuse_decimals(array)
    return y


def refuse_decimals(y: Any) -> None:
    """Refuse a column of decimal numbers, which would pass for as many classes: a target for regression, or scores of one class.

    Examples
    --------
    >>> refuse_decimals([0.0, 1.0, 2.0])
    """
    if isinstance(y, dict) or lives_on_a_device(y):
        return
    array = np.asarray(nw.to_native(y, pass_through=True))
    if array.ndim != 1 or array.dtype.kind != "f":
        return
    # Missing numbers are for the core to name.
    broken = np.flatnonzero(np.isfinite(array) & (array != np.round(array)))
    if len(broken):
        row, value = int(broken[0]), float(array[broken[0]])
        problem = (
            f"Unknown label type: in y, row {row} is {value!r}, and a decimal number is no class."
        )
        remedy = "Pass classes, or the probabilities of all of them: of two, np.column_stack([1 - y, y])."
        raise InputError(problem, remedy=remedy, row=row, value=value)


def n_rows_of(y: Any) -> int:
    """Count the rows of labels, which may be a dictionary of columns.

    Examples
    --------
    >>> n_rows_of({"no": [0.5, 1.0, 0.0], "yes": [0.5, 0.0, 1.0]})
    3
    """
    return len(next(iter(y.values())) if isinstance(y, dict) else y)


def part_of(rows: Any, chosen: Array) -> Any:
    """Take some rows of labels, attributes or weights, as the kind of column or table that came in; None stays None.

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
    """Refuse features that are not of the rows of the labels: another number of them, or another pandas index."""
    refuse_lengths("X", int(_num_samples(X)), "y", n_rows)
    refuse_other_index(("X", row_labels(X)), ("y", index))


def note_features(estimator: Any, X: Any, *, first: bool = True) -> None:
    """Set number and names of the features; in a later batch, refuse others."""
    validate_data(estimator, X, skip_check_array=True, reset=first)


def weight_column(sample_weight: Any) -> Array:
    """Read weights as the core does: a table of one column is a column.

    Examples
    --------
    >>> weight_column([[1], [2]])
    array([1., 2.])
    """
    return read_weight(column_of(sample_weight, what="sample_weight"))


def class_order(classes: Array) -> Array:
    """Give the places of the classes once sorted, which is how every classifier of scikit-learn has them, and every scorer expects them.

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


def refuse_unpriced(solved: Any, classes: Any) -> None:
    """Refuse what holds no prices, or no prices of a class that batches may have.

    Raises
    ------
    ParameterError, UnseenError
    """
    if not isinstance(solved, FairLabels):
        problem = f"The argument labels is of type {type(solved).__name__} and holds no prices."
        raise ParameterError(
            problem,
            remedy="Pass a fitted LabelDebiaser, or what r2b.debias returned.",
            labels=type(solved).__name__,
        )
    wanted = np.asarray(solved.classes if classes is None else classes)
    unknown = wanted[~np.isin(wanted, solved.classes)]
    if len(unknown):
        problem = f"The class {plain_value(unknown[0])!r} has no prices: it does not occur in the rows that they were found on."
        remedy = "Find the prices on all labels first and pass labels=LabelDebiaser(...).fit(all_y, sensitive_features=all_s)."
        raise UnseenError(problem, remedy=remedy, value=plain_value(unknown[0]))


def publish(estimator: Any, labels: FairLabels, order: Array | slice = slice(None)) -> None:
    """Set the fitted attributes that all estimators have: names, prices and evidence, with classes in this order."""
    estimator.classes_, estimator.groups_, estimator.prices_ = (
        labels.classes[order],
        labels.groups,
        labels.prices[:, order],
    )
    estimator.certificate_, estimator.status_ = labels.certificate, labels.status
    estimator.n_iter_ = len(labels.history)


def without_rows(labels: FairLabels) -> FairLabels:
    """Keep prices, names and evidence; drop the rows, their memberships and their pandas row labels, which may well be people's names."""
    return replace(labels, rule=replace(labels.rule, schema=bare_schema(labels.schema)), rows=None)


def bare_schema(schema: Schema) -> Schema:
    """Keep what classes and groups there are, and nothing of any row."""
    kept = [replace(each, index=None) for each in schema.vocabularies]
    kept = [
        replace(each, matrix=each.matrix[:0], rows=each.rows[:0])
        if isinstance(each, Mixtures)
        else each
        for each in kept
    ]
    # cells are as many as rows, and made anew for new rows
    table = schema.table[:0] if MEMBERSHIP in schema.kinds else schema.table
    return replace(
        schema, classes=replace(schema.classes, index=None), vocabularies=tuple(kept), table=table
    )
