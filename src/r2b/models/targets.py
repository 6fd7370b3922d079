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
from r2b._data.numbers import read_weights_with
from r2b._data.values import listed
from r2b._data.vocabulary import Vocabulary
from r2b._labels import FairLabels
from r2b.errors import ParameterError, RowsUnavailableError, ShapeError, WeightError

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
    codes : ndarray of shape (N,), or None
        Which row of the table stands for each row; None where the table is the matrix.
    weight : ndarray of shape (N,), or None
        None where all rows weigh 1.

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
    codes: Array | None = None
    weight: Floats | None = None

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
        targets = (
            cls._of_fair(labels, sample_weight)
            if isinstance(labels, FairLabels)
            else cls._of_array(labels, sample_weight, like)
        )
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
        if data.labels.is_soft:
            # In the precision that the probabilities came in: half the memory for float32.
            return cls(classes, fair.soft(data.labels.array.dtype), None, data.weight)
        table = fair.channel.reshape(-1, data.n_classes)
        return cls(classes, table, joint_codes(data), data.weight)

    @classmethod
    def _of_array(cls, labels: Any, sample_weight: Any, like: SoftTargets | None) -> SoftTargets:
        read = read_labels(labels, normalize=False, fewest_classes=1 if like else 2)
        weight, index = None, read.vocabulary.index
        if sample_weight is not None:
            weight, index = read_weights_with(sample_weight, read.n_rows, ("y", index))
            if not weight.any():
                raise WeightError(
                    "All weights are zero.", remedy="Give at least one row a positive weight."
                )
        if like is None:
            table = read.array if read.codes is None else np.eye(read.n_classes)
            return cls(replace(read.vocabulary, index=index), table, read.codes, weight)
        # The classes of the rows trained on, with the row labels of these.
        known = replace(like.vocabulary, index=index)
        if read.codes is not None:
            return cls(known, np.eye(len(known)), known.encode(labels, what="y"), weight)
        # A matrix without names is only counted.
        unnamed = read.vocabulary.native is None and np.array_equal(
            read.vocabulary.values, np.arange(read.n_classes)
        )
        return cls(
            known if unnamed and read.n_classes == len(known) else read.vocabulary,
            read.array,
            None,
            weight,
        )

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

    def weights(self, which: slice | Array) -> Floats | None:
        """Return the weights of some rows, or None where all weigh 1."""
        return None if self.weight is None else self.weight[which]

    def parts(self) -> list[slice]:
        """Cut the rows into parts that are worked on one at a time."""
        return matrix_parts(self.n_rows, self.table.shape[1])

    def mean(self) -> Floats:
        """Return the weighted mean label: the share of each class."""
        if self.codes is not None:
            share = np.bincount(self.codes, self.weight, minlength=len(self.table))
            return np.asarray(share @ self.table / share.sum())
        sums = np.zeros(self.table.shape[1])
        for part in self.parts():
            weight = self.weights(part)
            sums += (
                self.table[part].sum(axis=0, dtype=np.float64)
                if weight is None
                else weight @ self.table[part]
            )
        return sums / (self.n_rows if self.weight is None else self.weight.sum())


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
        usual = {"sensitive_features": None, "group_estimator": None, "groups": asked["groups"]}
        idle = [name for name, value in asked.items() if usual.get(name, asked) is not value]
        if idle:
            problem = f"The option {idle[0]!r} was given without sensitive_features."
            remedy = "Pass sensitive_features, or leave it out."
            raise ParameterError(problem, remedy=remedy, option=idle[0])
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
    # Friedman's factor L / (L - 1) in LightGBM; XGBoost has 2 whatever L is.
    factor = n_classes / (n_classes - 1) if library == "lightgbm" else 2.0
    floor = 0.0 if library == "lightgbm" else 1e-16  # XGBoost's own
    # what the library reads without a copy
    order: Literal["C", "F"] = "F" if library == "lightgbm" else "C"

    def objective(margins: Array, data: Any) -> tuple[Array, Array]:
        shape = (targets.n_rows, n_classes)
        gradient, hessian = np.empty(shape, np.float32, order), np.empty(shape, np.float32, order)

        def fill(part: slice) -> None:
            p, weight = softmax(margins[part] + start), targets.weights(part)
            scale: Any = 1.0 if weight is None else weight[:, None]
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
        total, mass = 0.0, 0.0
        for part in targets.parts():
            shifted = margins[part] + start
            shifted -= shifted.max(axis=1, keepdims=True)
            rows = targets.rows(part)
            # Rows sum to 1, so that the normaliser comes out once.
            loss = np.log(np.exp(shifted).sum(axis=1)) - (rows * shifted).sum(axis=1)
            weight = targets.weights(part)
            total += float(loss.sum() if weight is None else weight @ loss)
            mass += float(len(loss) if weight is None else weight.sum())
        return total / mass

    return measure
