"""What the paper proves about the parity of a classifier, term by term.

Proposition 2 ("Bound on bias", prop:bias): with probability 1 - delta over the training rows, a
classifier f trained on labels h has ``DP(f) <= epsilon + 2 tau + 2 d + sqrt(log(2 L R / delta) / (2
n_0))`` as printed. Its proof (appendix::proof_bias) bounds ``DP(f) <= epsilon + 2 sup |E f_k - Ê
h_k|`` and, by eq. proof_bias1, the part of that supremum which is not tau by ``2 d + sqrt(...)``;
the last display multiplies only tau by the 2. What is proven has 4 d and twice the root.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import log, sqrt
from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.columns import Column, recognise, refuse_other_index
from r2b._data.numbers import refuse_no_probability, refuse_other_number
from r2b.errors import ParameterError, ShapeError
from r2b.metrics.intervals import group_sizes
from r2b.metrics.means import disparity_of_means, means_of, table_to_measure


@dataclass(frozen=True)
class GeneralizationBound:
    """Proposition 2 with every term named.

    Attributes
    ----------
    disparity : float
        epsilon, the parity of the training labels h.
    fit_gap : float
        tau, the largest difference, over classes and groups, between the training means of f and of
        h.
    complexity : float
        d, the Rademacher complexity of a class probability.
    n_smallest : float
        n_0, the size of the smallest group; Kish's effective size with weights.
    n_classes, n_groups : int
        L and R.
    delta : float
        The probability with which the bound may fail.
    predicted_disparity : float or None
        The training parity of f itself; at most epsilon + 2 tau.

    Examples
    --------
    >>> sizes = {"n_smallest": 11_000, "n_classes": 16, "n_groups": 2}
    >>> bound = GeneralizationBound(0.0, 0.0, 0.0, **sizes, delta=0.05)
    >>> round(bound.printed, 3), round(bound.proven, 3)
    (0.018, 0.036)
    """

    disparity: float
    fit_gap: float
    complexity: float
    n_smallest: float
    n_classes: int
    n_groups: int
    delta: float = 0.05
    predicted_disparity: float | None = None

    def __post_init__(self) -> None:
        sizes = {
            "n_smallest": self.n_smallest,
            "n_classes": self.n_classes,
            "n_groups": self.n_groups,
        }
        if not min(sizes.values()) > 0:
            raise ParameterError(
                f"There is nothing to bound: {sizes}.", remedy="Pass sizes above 0.", **sizes
            )
        refuse_no_probability("delta", self.delta, 0.05)
        remedy = "Pass a finite number of zero or more; rademacher_complexity estimates it."
        refuse_other_number(
            "complexity", self.complexity, remedy, lambda value: 0 <= value < np.inf
        )

    @property
    def confidence(self) -> float:
        """The root of eq. proof_bias1, sqrt(log(2 L R / delta) / (2 n_0))."""
        return sqrt(log(2 * self.n_classes * self.n_groups / self.delta) / (2 * self.n_smallest))

    @property
    def _estimation(self) -> float:
        """How far means of new rows may be from those of the training rows, in both directions."""
        return 2 * (2 * self.complexity + self.confidence)

    @property
    def printed(self) -> float:
        """The bound as stated: epsilon + 2 tau + 2 d + root. The proof does not give it."""
        return self.disparity + 2 * self.fit_gap + 2 * self.complexity + self.confidence

    @property
    def proven(self) -> float:
        """The bound that the proof carries: epsilon + 2 tau + 2 (2 d + root)."""
        return self.disparity + 2 * self.fit_gap + self._estimation

    @property
    def direct(self) -> float | None:
        """The same from the training disparity of f: that + 2 (2 d + root), at most ``proven``."""
        seen = self.predicted_disparity
        return None if seen is None else seen + self._estimation

    @property
    def vacuous(self) -> bool:
        """Whether the proven bound says nothing, for no parity exceeds 1."""
        return self.proven >= 1


def generalization_bound(
    y: Any,
    predicted: Any,
    *,
    sensitive_features: Any,
    complexity: float,
    sample_weight: Any = None,
    delta: float = 0.05,
) -> GeneralizationBound:
    """Return Proposition 2 for a classifier and the labels that it was trained on.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L)
        The training labels h, as debiased.
    predicted : array-like of shape (N,) or (N, L)
        The predictions f on the same rows: probabilities or classes, of the classes of y.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        One attribute or several.
    complexity : float
        d, for samples of n_0 rows of one group: the proof applies it within a group. See
        :func:`rademacher_complexity`. It must hold for the class of functions before the data were
        seen; the bound with an estimate in its place is itself an estimate.
    sample_weight : array-like of shape (N,), optional
        Fixed weights put Kish's effective size in place of n_0 in the root, exactly: the bounded
        differences of a weighted mean have squares that sum to 1 / n_eff. A weight is then not a
        repetition.
    delta : float
        How often the bound may fail.

    Returns
    -------
    GeneralizationBound

    Raises
    ------
    UnseenError, ShapeError
        The predictions are of other classes than the labels.
    ParameterError, InputError

    See Also
    --------
    r2b.metrics.parity_promise : A bound that holds for new rows.
    r2b.metrics.rademacher_complexity : The complexity in that bound.

    Examples
    --------
    >>> h, f = [[0.5, 0.5]] * 4, [[0.75, 0.25], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
    >>> bound = generalization_bound(h, f, sensitive_features=["f", "f", "m", "m"], complexity=0.0)
    >>> bound.disparity, bound.fit_gap, bound.n_smallest, bound.vacuous
    (0.0, 0.125, 2.0, True)
    """
    labels = table_to_measure(y, sensitive_features, sample_weight)
    # Predictions are read with the classes of the labels: columns in another order are put right, a
    # class never predicted is no mismatch.
    found = recognise(predicted, what="predicted")
    schema = replace(
        labels.schema, is_soft=not isinstance(found, Column) and len(found.columns) > 1
    )
    given = schema.read(
        predicted, sensitive_features=sensitive_features, sample_weight=sample_weight
    )
    refuse_other_index(("y", labels.index), ("predicted", given.index))
    means, weights = means_of(labels)
    predictions, _ = means_of(given)
    fit_gap = float(np.abs(predictions - means).max())
    n_smallest = float(group_sizes(labels.cells.codes, labels.weight, labels.n_cells).min())
    before, after = disparity_of_means(means, weights), disparity_of_means(predictions, weights)
    return GeneralizationBound(
        before, fit_gap, complexity, n_smallest, labels.n_classes, labels.n_cells, delta, after
    )


@dataclass(frozen=True, eq=False)
class Complexity:
    """An estimate of the Rademacher complexity.

    Attributes
    ----------
    mean : float
        The estimate, between about 0 and 1/2.
    error : float
        Its standard error over the draws.
    draws : ndarray of shape (n_draws,)
    """

    mean: float
    error: float
    draws: Array = field(repr=False)

    @property
    def relative(self) -> float:
        """The estimate as a share of the largest, 1/2: about 1 for a learner that memorises."""
        return 2 * self.mean


def rademacher_complexity(
    fit_predict: Callable[[Any, Array], Any],
    X: Any,
    n_classes: int,
    *,
    n_draws: int = 20,
    random_state: int = 0,
) -> Complexity:
    """Estimate the Rademacher complexity of a class probability by fitting random signs.

    The complexity is the mean over random signs of ``sup_f (1/n) sum_i sign_i f_k(x_i)``, without
    absolute value, as the theorem cited for eq. proof_bias_1 takes it. A probability lies in [0,
    1], so the largest value is the share of positive signs, 1/2 on average. The supremum is
    approached by training: rows of sign +1 get class 0, the others are spread evenly over the other
    classes, and the score of class 0 is correlated with the signs. A learner minimises its own
    loss, not this correlation: the result estimates a lower bound.

    Parameters
    ----------
    fit_predict : callable
        From X and class codes of shape (n,) to scores of shape (n, n_classes) on the same rows,
        freshly trained.
    X : array-like of n rows
        Handed on as it is. For the bound: rows of the smallest group.
    n_classes : int
        How many classes there are.
    n_draws : int
        How often random signs are drawn.
    random_state : int
        The same number gives the same draws.

    Returns
    -------
    Complexity

    Raises
    ------
    ParameterError, ShapeError

    See Also
    --------
    r2b.metrics.generalization_bound : The bound of the paper's Proposition 2.

    Examples
    --------
    >>> def memorise(X, y):
    ...     return np.eye(3)[y]
    >>> found = rademacher_complexity(memorise, np.zeros((500, 1)), 3)
    >>> round(found.mean, 1)
    0.5
    """
    n_rows = int(X.shape[0]) if hasattr(X, "shape") else len(X)  # a sparse matrix has no len
    several = all(isinstance(n, (int, np.integer)) and n >= 2 for n in (n_classes, n_draws))
    if not several or n_rows < 1:
        raise ParameterError(
            f"There are {n_rows} rows, {n_classes} classes and {n_draws} draws.",
            remedy="Pass at least one row, two classes and two draws, in whole numbers.",
            n_draws=n_draws,
        )
    rng = np.random.default_rng(random_state)
    draws = np.empty(n_draws)
    for draw in range(n_draws):
        signs = rng.choice([-1.0, 1.0], n_rows)
        codes = np.zeros(n_rows, dtype=np.int64)
        # Evenly, so that a learner which counts classes finds all of them whenever there are rows
        # enough.
        codes[signs < 0] = rng.permutation(np.arange((signs < 0).sum()) % (n_classes - 1) + 1)
        scores = np.asarray(fit_predict(X, codes), dtype=np.float64)
        if scores.shape != (n_rows, n_classes):
            raise ShapeError(
                f"The learner gave scores of shape {scores.shape}, not {(n_rows, n_classes)}.",
                remedy="Return one row of class probabilities per row of X.",
                shape=scores.shape,
            )
        draws[draw] = signs @ scores[:, 0] / n_rows
    return Complexity(float(draws.mean()), float(draws.std(ddof=1) / sqrt(n_draws)), draws)
