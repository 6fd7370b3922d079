"""Label rows as a learner reads them, and the loss on them.

The soft cross-entropy is given as LightGBM and XGBoost ask for it: gradient and hessian of the
margins, row by row in parts. One-hot labels give what each library's own softmax objective
computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from r2b._data.arrays import Array, Floats
from r2b._data.columns import refuse_lengths, refuse_other_index, row_labels
from r2b._data.compute import in_order, matrix_parts
from r2b._data.dataset import read_labels
from r2b._data.merge import joint_codes
from r2b._data.numbers import read_weights_with, refuse_weightless_table
from r2b._data.values import listed
from r2b._data.vocabulary import Vocabulary
from r2b._labels import FairLabels
from r2b.errors import ParameterError, RowsUnavailableError, ShapeError

BoosterObjective = Callable[[Array, Any], tuple[Array, Array]]
Library = Literal["lightgbm", "xgboost"]


@dataclass(frozen=True, eq=False)
class SoftTargets:
    """A distribution over classes per row, and the weight of the row.

    Attributes
    ----------
    vocabulary : Vocabulary
        The classes, in the order of the columns.
    table : ndarray of shape (n, L)
        The distinct rows where the labels are classes; else the matrix itself.
    weight : ndarray of shape (N,)
    codes : ndarray of shape (N,), or None
        Which row of the table stands for each row; None where the table is the matrix.

    Examples
    --------
    >>> import r2b
    >>> fair = r2b.debias(["a", "b", "b", "a"], sensitive_features=["f", "f", "f", "m"])
    >>> targets = SoftTargets.of(fair)
    >>> targets.rows(slice(0, 2)).round(3)
    array([[1.   , 0.   ],
           [0.182, 0.818]])
    >>> targets.mean().round(3)
    array([0.455, 0.545])
    """

    vocabulary: Vocabulary
    table: Array
    weight: Floats
    codes: Array | None = None

    @classmethod
    def of(
        cls, labels: Any, sample_weight: Any = None, like: SoftTargets | None = None
    ) -> SoftTargets:
        """Read fair labels, a matrix of probabilities, or classes.

        Parameters
        ----------
        labels : FairLabels, or array-like of shape (N, L) or (N,)
        sample_weight : array-like of shape (N,), optional
            Only beside a matrix or classes: fair labels bring the weights under which their parity
            holds.
        like : SoftTargets, optional
            Labels of other rows whose classes these must have.

        Raises
        ------
        RowsUnavailableError
            The fair labels hold no rows.
        ParameterError
            Weights were given beside fair labels.
        InputError
            The matrix, the classes or the weights cannot be used as they are.
        """
        if isinstance(labels, FairLabels):
            targets = cls._of_fair(labels, sample_weight)
        else:
            targets = cls._of_array(labels, sample_weight, like)
        if like is not None and not np.array_equal(targets.classes, like.classes):
            here, known = targets.classes.tolist(), like.classes.tolist()
            problem = f"The classes {listed(here)} are not those trained on, {listed(known)}."
            remedy = "Pass a column of probabilities per class trained on, in that order."
            raise ShapeError(problem, remedy=remedy, classes=here, trained=known)
        return targets

    @classmethod
    def _of_fair(cls, fair: FairLabels, sample_weight: Any) -> SoftTargets:
        if sample_weight is not None:
            problem = "sample_weight was given beside fair labels, which have their own."
            raise ParameterError(problem, remedy="Pass it to debias, which parity is for.")
        data = fair.dataset
        if data is None:
            problem = "These fair labels hold no rows, as after they were loaded from a file."
            remedy = "Pass the matrix that their transform(y, sensitive_features=...) returns."
            raise RowsUnavailableError(problem, remedy=remedy)
        classes = replace(fair.schema.classes, index=data.index)
        weight = np.ones(data.n_rows) if data.weight is None else data.weight
        if data.labels.is_soft:
            # In the precision that the probabilities came in: half the memory for float32.
            return cls(classes, fair.soft(data.labels.array.dtype), weight)
        table = fair.channel.reshape(-1, data.n_classes)
        return cls(classes, table, weight, joint_codes(data))

    @classmethod
    def _of_array(cls, labels: Any, sample_weight: Any, like: SoftTargets | None) -> SoftTargets:
        read = read_labels(labels, normalize=False, fewest_classes=1 if like else 2)
        vocabulary, codes = read.vocabulary, read.codes
        given, index = read_weights_with(sample_weight, read.n_rows, ("y", vocabulary.index))
        weight = np.ones(read.n_rows) if given is None else given
        refuse_weightless_table(weight)
        # A matrix without names is only counted.
        unnamed = vocabulary.source is None and np.array_equal(
            vocabulary.values, np.arange(read.n_classes)
        )
        if like is not None and codes is not None:
            vocabulary, codes = like.vocabulary, like.vocabulary.encode(labels, what="y")
        elif like is not None and unnamed and read.n_classes == len(like.vocabulary):
            vocabulary = like.vocabulary
        table = read.array if codes is None else np.eye(len(vocabulary))
        return cls(replace(vocabulary, index=index), table, weight, codes)

    @property
    def classes(self) -> Array:
        """The names of the classes."""
        return self.vocabulary.values

    @property
    def n_rows(self) -> int:
        """The number of rows, N."""
        return len(self.table if self.codes is None else self.codes)

    def rows(self, which: slice | Array) -> Array:
        """Return some rows of the matrix of labels."""
        return self.table[which] if self.codes is None else self.table[self.codes[which]]

    def parts(self) -> list[slice]:
        """Cut the rows into parts that are worked on one at a time."""
        return matrix_parts(self.n_rows, self.table.shape[1])

    def mean(self) -> Floats:
        """Return the weighted mean label: the share of each class."""
        if self.codes is not None:
            share = np.bincount(self.codes, self.weight, minlength=len(self.table))
            return np.asarray(share @ self.table / share.sum())
        sums = sum(self.weight[part] @ self.table[part] for part in self.parts())
        return np.asarray(sums / self.weight.sum())


def make_fair(
    X: Any, labels: Any, sample_weight: Any, learner: Any, fairness: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Make labels fair where groups are given; return labels and the weights left to read.

    Parameters
    ----------
    X : array or frame
    labels : FairLabels, or array-like of shape (N, L) or (N,)
    sample_weight : array-like of shape (N,), optional
    learner : classifier or None
        Predicts the groups where no ``group_estimator`` is given.
    fairness : mapping
        ``sensitive_features``, ``groups``, ``group_estimator`` and the options of
        :func:`r2b.sklearn.fair_labels`.

    Raises
    ------
    ParameterError
        Labels that are fair already, or options without groups.

    Examples
    --------
    >>> nothing = {"sensitive_features": None, "groups": "visible", "group_estimator": None}
    >>> make_fair(np.zeros((2, 1)), ["a", "b"], None, None, nothing)
    (['a', 'b'], None)
    """
    asked = dict(fairness)
    if asked["sensitive_features"] is None:
        for name, value in asked.items():
            if name != "groups" and value is not None:
                problem = f"The option {name!r} was given without sensitive_features."
                remedy = "Pass sensitive_features, or leave it out."
                raise ParameterError(problem, remedy=remedy, option=name)
        return labels, sample_weight
    if isinstance(labels, FairLabels):
        problem = "sensitive_features were given beside labels that debias has made fair."
        remedy = "Pass the labels as they came, or leave sensitive_features out."
        raise ParameterError(problem, remedy=remedy)
    from r2b.sklearn.fair_labels import fair_labels

    if asked["group_estimator"] is None:
        asked["group_estimator"] = learner
    return fair_labels(X, labels, sample_weight=sample_weight, **asked), None


def refuse_other_rows(X: Any, targets: SoftTargets) -> None:
    """Raise where features and labels are not of the same rows.

    Examples
    --------
    >>> refuse_other_rows(np.zeros((3, 1)), SoftTargets.of(["a", "b", "a"]))
    """
    refuse_lengths("X", int(X.shape[0]) if hasattr(X, "shape") else len(X), "y", targets.n_rows)
    refuse_other_index(("X", row_labels(X)), ("y", targets.vocabulary.index))


def soft_objective(
    targets: SoftTargets, library: Library, start: Floats, threads: int | None = None
) -> BoosterObjective:
    """Return the objective for labels that were read.

    A function and not an object: LightGBM copies its parameters deeply, and a function is not
    copied with the labels it holds.
    """
    n_classes = len(targets.classes)
    # Friedman's factor L / (L - 1) in LightGBM; XGBoost has 2 whatever L is, and a floor of its
    # own. The order is what the library reads without a copy.
    order: Literal["C", "F"]
    factor, floor, order = n_classes / (n_classes - 1), 0.0, "F"
    if library == "xgboost":
        factor, floor, order = 2.0, 1e-16, "C"

    def objective(margins: Array, data: Any) -> tuple[Array, Array]:
        shape = (targets.n_rows, n_classes)
        gradient, hessian = np.empty(shape, np.float32, order), np.empty(shape, np.float32, order)

        def fill(part: slice) -> None:
            p, scale = softmax(margins[part] + start), targets.weight[part, None]
            gradient[part] = scale * (p - targets.rows(part))
            hessian[part] = scale * np.maximum(factor * p * (1.0 - p), floor)

        for _ in in_order(fill, targets.parts(), threads):
            pass
        return gradient, hessian

    return objective


def softmax(margins: Array) -> Floats:
    """Turn margins into probabilities, row by row.

    Examples
    --------
    >>> softmax(np.log([[1.0, 3.0]]))
    array([[0.25, 0.75]])
    """
    p: Floats = np.exp(margins - margins.max(axis=1, keepdims=True), dtype=np.float64)
    p /= p.sum(axis=1, keepdims=True)
    return p


def cross_entropy(targets: SoftTargets, start: Floats) -> Callable[[Array], float]:
    """Return the loss of margins: the weighted mean of ``-sum_k y_k log p_k``.

    Examples
    --------
    >>> measure = cross_entropy(SoftTargets.of(["a", "b"]), np.zeros(2))
    >>> round(measure(np.zeros((2, 2))), 4)
    0.6931
    """

    def measure(margins: Array) -> float:
        total = 0.0
        for part in targets.parts():
            shifted = margins[part] + start
            shifted -= shifted.max(axis=1, keepdims=True)
            rows = targets.rows(part)
            # Rows sum to 1, so that the normaliser comes out once.
            loss = np.log(np.exp(shifted).sum(axis=1)) - (rows * shifted).sum(axis=1)
            total += float(targets.weight[part] @ loss)
        return total / float(targets.weight.sum())

    return measure
