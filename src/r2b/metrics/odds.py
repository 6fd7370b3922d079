"""Equalized odds and equal opportunity for any number of classes: demographic parity among the rows of each true class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._data import Dataset, Labels, Vocabulary
from r2b._data.arrays import Array, frozen, plain_value
from r2b._data.cells import read_cells
from r2b._data.columns import Column, Matrix, column_of, recognise, refuse_other_index, row_labels
from r2b._data.dataset import read_known_labels, read_labels, together
from r2b._data.values import key_of, listed
from r2b._data.vocabulary import read_vocabulary
from r2b.errors import InputError
from r2b.metrics.comparisons import AbsentGroup, Families, with_true_classes
from r2b.metrics.demographic import (
    Absent,
    Method,
    ParityByClass,
    largest_differences,
    read_true_classes,
)
from r2b.metrics.performance import classes_of


@dataclass(frozen=True, eq=False)
class OddsByClass:
    """How far groups are apart among the rows of each true class.

    Attributes
    ----------
    values : ndarray of shape (C, L)
        For each true class and each predicted class the largest difference between the rates of two
        groups; NaN in the row of a true class whose rows no two groups have.
    true_classes : ndarray of shape (C,)
        Those that occur.
    classes : ndarray of shape (L,)
        The predicted ones.
    absent : tuple of AbsentGroup
        The groups that have no rows of a true class: they were not compared there.
    """

    values: Array
    true_classes: Array
    classes: Array
    absent: tuple[AbsentGroup, ...] = ()

    def as_dict(self) -> dict[Any, dict[Any, float]]:
        """Give the differences by true class, then by predicted class."""
        names = [plain_value(name) for name in self.classes]
        return {
            plain_value(true): dict(zip(names, row, strict=True))
            for true, row in zip(self.true_classes, self.values.tolist(), strict=True)
        }


def equalized_odds(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    families: Families = "crossed",
    sample_weight: Any = None,
    method: Method = "between_groups",
    absent: Absent = "report",
    classes: Any = None,
) -> float:
    """Give how far predictions are from equalized odds: 0 is fair, 1 the farthest from it.

    Over all true classes c and predicted classes k, the largest difference between two groups in
    the mean prediction of k among the rows of true class c. Of two classes it is the larger one of
    the differences in true and in false positive rates.

    Parameters
    ----------
    y_true : array-like of shape (N,)
        The true classes.
    y_pred : array-like of shape (N,) or (N, L)
        Predicted classes, or probabilities over L classes.
    sensitive_features, control_features, families, sample_weight, method
        As for :func:`r2b.metrics.demographic_parity`, among the rows of a true class.
    absent : {"report", "error"}
        A group without rows of a true class has no rates there. It is compared with the others
        where it has some, and named by :func:`equalized_odds_by_class`; or it is refused by name.
        Where no true class has rows of two groups, both refuse.
    classes : array-like of shape (L,), optional
        The classes of the columns of ``y_pred``, in order. Without it the column names, or else the
        sorted classes that occur in ``y_true``, which must then be as many as there are columns.

    Returns
    -------
    float

    Raises
    ------
    ParameterError, InputError

    Examples
    --------
    >>> y_true, y_pred, sex = ["no", "yes", "yes", "no", "yes", "yes"], ["no", "yes", "yes", "no", "no", "yes"], ["f"] * 3 + ["m"] * 3
    >>> equalized_odds(y_true, y_pred, sensitive_features=sex)
    0.5
    """
    rows = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
    }
    options: dict[str, Any] = {
        "families": families,
        "method": method,
        "absent": absent,
        "classes": classes,
    }
    return float(np.nanmax(equalized_odds_by_class(y_true, y_pred, **rows, **options).values))


def equalized_odds_by_class(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    families: Families = "crossed",
    sample_weight: Any = None,
    method: Method = "between_groups",
    absent: Absent = "report",
    classes: Any = None,
) -> OddsByClass:
    """Give the differences between groups for each true class and each predicted class, and name the groups that lack a true class.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, control_features, families, sample_weight, method, absent,
    classes
        As for :func:`equalized_odds`, which is the largest of these values.

    Returns
    -------
    OddsByClass

    Examples
    --------
    >>> y_true, y_pred, sex = ["no", "yes", "yes", "yes", "yes"], ["no", "yes", "yes", "no", "yes"], ["f"] * 3 + ["m"] * 2
    >>> found = equalized_odds_by_class(y_true, y_pred, sensitive_features=sex)
    >>> found.as_dict()
    {'no': {'no': nan, 'yes': nan}, 'yes': {'no': 0.5, 'yes': 0.5}}
    >>> print(*found.absent)
    'm' (groups) has no rows of true class 'no'
    """
    data, true = read_predictions(
        y_true, y_pred, sensitive_features, control_features, sample_weight, classes
    )
    values, missing = largest_differences(data, families, method, absent, len(true))
    return OddsByClass(values, true.values, data.labels.vocabulary.values, missing)


def equal_opportunity(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    families: Families = "crossed",
    sample_weight: Any = None,
    method: Method = "between_groups",
    absent: Absent = "report",
    classes: Any = None,
) -> float:
    """Give how far predictions are from equal opportunity: 0 is fair, 1 the farthest from it.

    Over all classes c, the largest difference between two groups in the mean prediction of c among
    the rows of true class c: of true positive rates, or for probabilities of the mean probability
    of the true class.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, control_features, families, sample_weight, method, absent,
    classes
        As for :func:`equalized_odds`. A class that is never predicted, or that has no column, has
        the rate 0 in every group.

    Returns
    -------
    float

    Raises
    ------
    InputError
        Also where none of the true classes is among the predicted ones.
    ParameterError

    Examples
    --------
    >>> y_true, y_pred, sex = ["no", "yes", "yes", "no", "yes", "yes"], ["yes", "yes", "yes", "no", "yes", "yes"], ["f"] * 3 + ["m"] * 3
    >>> equal_opportunity(y_true, y_pred, sensitive_features=sex)
    1.0
    """
    rows = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
    }
    options: dict[str, Any] = {
        "families": families,
        "method": method,
        "absent": absent,
        "classes": classes,
    }
    return float(np.nanmax(equal_opportunity_by_class(y_true, y_pred, **rows, **options).values))


def equal_opportunity_by_class(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    families: Families = "crossed",
    sample_weight: Any = None,
    method: Method = "between_groups",
    absent: Absent = "report",
    classes: Any = None,
) -> ParityByClass:
    """Give the difference in true positive rates of each class on its own, and name the groups that lack a class.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, control_features, families, sample_weight, method, absent,
    classes
        As for :func:`equal_opportunity`, which is the largest of these values.

    Returns
    -------
    ParityByClass
        Of the true classes.

    Examples
    --------
    >>> y_true, y_pred, sex = ["no", "yes", "yes", "no", "yes", "yes"], ["no", "yes", "yes", "no", "no", "yes"], ["f"] * 3 + ["m"] * 3
    >>> equal_opportunity_by_class(y_true, y_pred, sensitive_features=sex).as_dict()
    {'no': 0.0, 'yes': 0.5}
    """
    rows = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
    }
    found = equalized_odds_by_class(
        y_true, y_pred, **rows, families=families, method=method, absent=absent, classes=classes
    )
    return ParityByClass(frozen(_of_own_class(found)), found.true_classes, found.absent)


def _of_own_class(found: OddsByClass) -> Array:
    """Give the difference of each true class in its own prediction: 0 for one that nobody is predicted to be of."""
    own = own_places(found.true_classes, found.classes)
    # NaN stays NaN
    return np.array(
        [row[0] * 0.0 if k is None else row[k] for row, k in zip(found.values, own, strict=True)]
    )


def own_places(true_classes: Array, classes: Array) -> list[int | None]:
    """Say which predicted class each true class is; None for one that is never predicted.

    Raises
    ------
    InputError
        None of them is: the two are named differently, and every rate would be 0.

    Examples
    --------
    >>> own_places(np.array([1, 2]), np.array(["0", "1"]))
    [1, None]
    """
    places = {key_of(name): k for k, name in enumerate(classes)}
    # many tables can name columns by text alone
    written = {str(plain_value(name)): k for k, name in enumerate(classes)}
    own = [places.get(key_of(name), written.get(str(plain_value(name)))) for name in true_classes]
    if set(own) == {None}:
        problem = f"None of the true classes {listed(true_classes)} is among the predicted ones {listed(classes)}."
        remedy = "Name classes alike in y_true and y_pred; the classes of columns without names may be given as classes=."
        raise InputError(
            problem, remedy=remedy, true_classes=true_classes.tolist(), classes=classes.tolist()
        )
    return own


def read_predictions(
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    control_features: Any,
    sample_weight: Any,
    classes: Any,
) -> tuple[Dataset, Vocabulary]:
    """Read predictions with their groups, told apart by the true class, and give the true classes."""
    codes, true = read_true_classes(y_true, y_pred)
    labels = read_predicted(y_pred, y_true, classes)
    groups = read_cells(
        sensitive_features, control_features=control_features, categorical_only=False
    )
    data = together(labels, groups, sample_weight, "allow")
    refuse_other_index(("y_true", row_labels(y_true)), ("sensitive_features", data.index))
    return replace(data, cells=with_true_classes(groups, codes, true)), true


def read_predicted(y_pred: Any, y_true: Any, classes: Any) -> Labels:
    """Read predictions; columns without names are of the given classes, or of those of the truth where there is one."""
    found = recognise(y_pred, what="y_pred")
    if isinstance(found, Column) or len(found.columns) == 1:
        if classes is None:
            return read_labels(y_pred, normalize=False, fewest_classes=1)
        known = read_vocabulary(column_of(classes, what="classes"), what="classes")[1]
        return read_known_labels(y_pred, vocabulary=known, soft=False, normalize=False)
    labels = read_labels(y_pred, normalize=False, fewest_classes=1)
    if y_true is None and classes is None:
        return labels
    named = Vocabulary(
        classes_of(
            found, found if y_true is None else column_of(y_true, what="y_true"), classes, "y_pred"
        )
    )
    if (
        classes is None
        and isinstance(found, Matrix)
        and sorted(named.values.tolist()) != named.values.tolist()
    ):
        problem = f"The columns of y_pred have no names, and y_true has the classes {listed(named.values)} in an order of its own."
        raise InputError(
            problem,
            remedy="Pass classes= with the class of every column, in order.",
            classes=named.values.tolist(),
        )
    return replace(labels, vocabulary=named)
