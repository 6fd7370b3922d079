"""The randomised threshold optimiser (RTO) on binary scores, and the two baselines that apply it class by class: HTO and R2B0.

RTO minimises ``sum_i w_i (gamma/2 h_i^2 - f_i h_i)`` over ``0 <= h <= 1`` with ``|m_s - rho| <= epsilon / 2`` for the mean m_s of each
group s.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from r2b._constraints.parity import RangeBound
from r2b._data.arrival import Frame, refuse_lengths, refuse_other_index
from r2b._data.groups import Groups, read_groups, read_known_groups
from r2b._data.merge import Rows
from r2b._data.probabilities import Wording, as_matrix
from r2b._data.vocabulary import column_of
from r2b.errors import MissingValueError, NotSolvedWarning, ParameterError, ProbabilityError, RowsUnavailableError
from r2b.methods.base import LabelMethod, checked_seed, read_weight_beside
from r2b.methods.binary import Array, Floats, GroupedRows, answer, pinned_thresholds

ScoreRange = Literal["unit", "signed"]
BinarySolver = Literal["exact", "sgd"]

_WORDING = Wording("class", "Pass one number per row.", "")
_LEAST_SCORE = {"unit": 0.0, "signed": -1.0}
_DRAWN_AT_ONCE = 1 << 20  # rows drawn in one call, over all minibatches of the call


def at_least(name: str, value: Any, least: float, *, above: bool = False, integer: bool = False) -> Any:
    """Give ``value`` back if it is a number of at least (or above) ``least``; refuse it otherwise."""
    kinds = (int, np.integer) if integer else (int, float, np.integer, np.floating)
    if (
        isinstance(value, bool)
        or not isinstance(value, kinds)
        or not (value > least if above else value >= least)
        or not np.isfinite(value)
    ):
        kind = "an integer" if integer else "a finite number"
        raise ParameterError(f"{name} is {value!r}.", remedy=f"Pass {kind} {'above' if above else 'of at least'} {least}.", value=value)
    return value


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> Any:
    """Give ``value`` back if it is one of ``choices``; refuse it otherwise."""
    if value not in choices:
        raise ParameterError(f"{name} is {value!r}.", remedy=f"Choose one of {', '.join(map(repr, choices))}.", value=value)
    return value


@dataclass(frozen=True)
class Descent:
    """How thresholds are found by descent: averaged minibatch steps, then full-gradient steps.

    Parameters
    ----------
    steps : int
        Minibatch steps.
    epochs : int
        Most full-gradient steps.
    batch_size : int
        Rows per minibatch and group, drawn with replacement by weight.
    tol : float
        Full-gradient steps end once no group mean is farther than this from what the optimality conditions ask of it.
    """

    steps: int = 10_000
    epochs: int = 1_000
    batch_size: int = 256
    tol: float = 1e-10

    def __post_init__(self) -> None:
        at_least("steps", self.steps, 0, integer=True)
        at_least("epochs", self.epochs, 0, integer=True)
        at_least("batch_size", self.batch_size, 1, integer=True)
        at_least("tol", self.tol, 0.0)

    def thresholds(
        self,
        rows: GroupedRows,
        scores: Floats,
        gamma: float,
        nearest: Callable[[Floats], Floats],
        rng: np.random.Generator,
        start: Floats | None = None,
    ) -> Floats:
        """Minimise the dual, ``sum_s W_s mean_s xi_gamma(f - t_s) + support(t)``, over thresholds t of shape (n_groups, L).

        xi_gamma is 0 below 0, ``w^2 / (2 gamma)`` up to gamma, ``w - gamma / 2`` beyond; its slope is the answer h. The two multipliers
        of a group are the parts of one signed t: at an optimum one of them is 0. A step along the means followed by the proximal step of
        the support function is ``step * (v - nearest(v))`` with ``v = t / step + means`` (Moreau), ``nearest`` being the projection on
        the allowed means. So epsilon enters in one way whatever its size; the published code solves another problem up to 0.002.
        """
        found = np.zeros((len(rows.weight), scores.shape[1])) if start is None else start
        found = self._averaged(rows, scores, gamma, nearest, rng, found) if self.steps else found
        for _ in range(self.epochs):
            # The dual is smooth with constant 1 / gamma, so steps of gamma never overshoot.
            onward = found / gamma + rows.means(answer(scores, found[rows.groups], gamma))
            moved = gamma * (onward - nearest(onward))
            moves, found = np.abs(moved - found).max(), moved
            if moves <= self.tol * gamma:
                break
        return found

    def _averaged(
        self, rows: GroupedRows, scores: Floats, gamma: float, nearest: Callable[[Floats], Floats], rng: np.random.Generator, found: Floats
    ) -> Floats:
        step = gamma * float(np.sqrt(self.batch_size / self.steps))
        ends = np.cumsum(rows.share)  # group s fills (s, s + 1]
        first, last = rows.start[:-1, None], rows.start[1:, None] - 1
        total = np.zeros_like(found)
        size = max(1, _DRAWN_AT_ONCE // (len(rows.weight) * self.batch_size))
        for begin in range(0, self.steps, size):
            drawn = rng.random((min(size, self.steps - begin), len(rows.weight), self.batch_size)) + np.arange(len(rows.weight))[:, None]
            for batch in np.clip(np.searchsorted(ends, drawn), first, last):
                onward = found / step + answer(scores[batch], found[:, None, :], gamma).mean(axis=1)
                found = step * (onward - nearest(onward))
                total += found
        return total / self.steps


class RTO:
    """The randomised threshold optimiser: probabilities of predicting 1 whose group means lie within epsilon / 2 of rho.

    Parameters
    ----------
    epsilon : float
        Largest accepted difference between group means.
    gamma : float
        Width of the band of scores in which the answer is random. Small values come close to one hard threshold per group.
    rho : float, optional
        The mean aimed at, in [0, 1]; by default that of the scores: E[f] of unit scores, E[f] / 2 + 1 / 2 of signed ones.
    solver : {"exact", "sgd"}
        Sorted breakpoints, or the descent of the published procedure.
    score_range : {"unit", "signed"}
        Labels or probabilities in [0, 1] (pre-processing), or ``2 * probability - 1`` in [-1, 1] (post-processing, where the largest
        expected accuracy is sought). Never guessed from the data: a signed score may happen to have no negative value.
    steps, epochs, batch_size, tol
        Of the descent: :class:`Descent`.
    random_state : int, Generator or None
        Draws the minibatches.

    Attributes
    ----------
    rho_ : float
        The mean aimed at.
    thresholds_ : ndarray of shape (n_groups,)
        What is taken from the scores of each group.
    groups_ : ndarray of shape (n_groups,)
        The names of the fitted groups.
    error_ : ndarray of shape (n_groups,)
        How far each group mean is from where the optimum wants it. The mean of abs(h - optimum) over the group is at most this, because
        answers of two thresholds never cross.
    converged_ : bool
        Whether ``error_`` is within ``tol``; always so for "exact", up to rounding.

    Notes
    -----
    The descent takes steps of at most gamma. Where no score lies within gamma of the threshold (class labels, small gamma) it has a long
    way to go at a constant small slope, and may end far from the optimum: ``error_`` and ``converged_`` say so. "exact" does not care.

    Examples
    --------
    >>> rto = RTO().fit([1.0, 1.0, 1.0, 0.0], sensitive_features=["a", "a", "b", "b"])
    >>> rto.predict_proba([1.0, 0.0, 1.0, 0.0], sensitive_features=["a", "a", "b", "b"])
    array([0.75, 0.  , 1.  , 0.5 ])
    """

    rho_: float
    thresholds_: Floats
    groups_: Array
    error_: Floats
    converged_: bool

    def __init__(
        self,
        epsilon: float = 0.0,
        *,
        gamma: float = 1.0,
        rho: float | None = None,
        solver: BinarySolver = "exact",
        score_range: ScoreRange = "unit",
        steps: int = 10_000,
        epochs: int = 1_000,
        batch_size: int = 256,
        tol: float = 1e-10,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.epsilon = float(RangeBound.of(epsilon, 1, largest=1.0).epsilon[0])
        self.gamma = float(at_least("gamma", gamma, 0.0, above=True))
        self.rho = None if rho is None else float(at_least("rho", rho, 0.0))
        if self.rho is not None and self.rho > 1:
            raise ParameterError(f"rho is {rho!r}.", remedy="It is the mean aimed at: pass a number from 0 to 1.", value=rho)
        self.solver: BinarySolver = one_of("solver", solver, ("exact", "sgd"))
        self.score_range: ScoreRange = one_of("score_range", score_range, ("unit", "signed"))
        self.descent = Descent(steps, epochs, batch_size, tol)
        self.random_state = checked_seed(random_state)

    def fit(self, scores: Any, *, sensitive_features: Any, sample_weight: Any = None) -> Self:
        """Find one threshold per group; whatever an earlier fit left behind is gone.

        Parameters
        ----------
        scores : array-like of shape (N,)
        sensitive_features : array-like of shape (N,) or (N, n_attributes)
        sample_weight : array-like of shape (N,), optional

        Raises
        ------
        InputError
            One of its subclasses, naming the column, the row and the value.
        """
        groups = read_groups(sensitive_features)
        f, index = self._read(scores, groups)
        weight = None if sample_weight is None else read_weight_beside(sample_weight, "scores", index, groups)
        rows = GroupedRows.of(groups.codes, weight, groups.n_groups)
        column = f[rows.order, None]
        mean = float(rows.overall(column)[0])
        target = self.rho if self.rho is not None else mean if self.score_range == "unit" else mean / 2 + 0.5
        rho, epsilon = np.array([min(max(target, 0.0), 1.0)]), np.array([self.epsilon])
        if self.solver == "exact":
            thresholds = pinned_thresholds(rows, column, self.gamma, rho, epsilon)
        else:
            rng = np.random.default_rng(self.random_state)
            thresholds = self.descent.thresholds(rows, column, self.gamma, box(rho, epsilon), rng)
        means = rows.means(answer(column, thresholds[rows.groups], self.gamma))
        self.rho_ = float(rho[0])
        self.thresholds_ = thresholds[:, 0]
        self.error_ = mean_error(thresholds, means, rho, epsilon)[:, 0]
        self.converged_ = bool(self.error_.max() <= max(self.descent.tol, 1e-12))
        self._groups, self.groups_ = groups, groups.names
        if not self.converged_:
            worst = f"RTO by descent ended {self.error_.max():.1e} from the group means it aims at"
            warnings.warn(NotSolvedWarning(f"{worst}. Raise steps or epochs, or use solver='exact'."), stacklevel=2)
        return self

    def predict_proba(self, scores: Any, *, sensitive_features: Any) -> Floats:
        """Give the probability of predicting 1, of shape (N,), of scores of the fitted groups."""
        if not hasattr(self, "thresholds_"):
            raise RowsUnavailableError("This RTO has not been fitted.", remedy="Call fit with training scores first.")
        known = self._groups
        groups = read_known_groups(sensitive_features, columns=known.columns, vocabularies=known.vocabularies, table=known.table)
        f, _ = self._read(scores, groups)
        return answer(f, self.thresholds_[groups.codes], self.gamma)

    def transform(self, scores: Any, *, sensitive_features: Any) -> Floats:
        """Give the new scores: the same as :meth:`predict_proba`."""
        return self.predict_proba(scores, sensitive_features=sensitive_features)

    def fit_transform(self, scores: Any, *, sensitive_features: Any, sample_weight: Any = None) -> Floats:
        """Fit and give the new scores of the same rows."""
        self.fit(scores, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.transform(scores, sensitive_features=sensitive_features)

    def _read(self, scores: Any, groups: Groups) -> tuple[Floats, Any | None]:
        """Give the scores of the rows of these groups, and their row labels."""
        column = column_of(scores, what="scores")
        refuse_lengths("scores", len(column), "sensitive_features", groups.n_rows)
        refuse_other_index(("scores", column.index), ("sensitive_features", groups.index))
        f = as_matrix(Frame({}, "columns", (column,), np.array(["scores"])), what="scores", wording=_WORDING)[0][:, 0].astype(np.float64)
        missing = np.isnan(f) | np.ma.getmaskarray(column.native) if np.ma.is_masked(column.native) else np.isnan(f)
        if missing.any():
            row = int(np.argmax(missing))
            raise MissingValueError(f"The argument scores has no value at row {row}.", remedy="Leave the row out or fill it in.", row=row)
        low = _LEAST_SCORE[self.score_range]
        wrong = np.flatnonzero((f < low - 1e-9) | (f > 1 + 1e-9))
        if len(wrong):
            row, value = int(wrong[0]), float(f[wrong[0]])
            remedy = f'With score_range="{self.score_range}" they lie in [{low:g}, 1]; the other choice is ' + (
                '"signed", in [-1, 1].' if low == 0 else '"unit", in [0, 1].'
            )
            raise ProbabilityError(f"The argument scores is {value} at row {row}.", remedy=remedy, row=row, value=value)
        return f, column.index


def box(rho: Floats, epsilon: Floats) -> Callable[[Floats], Floats]:
    """Give the projection of group means on ``|m - rho| <= epsilon / 2``."""
    bottom, top = rho - epsilon / 2, rho + epsilon / 2
    return lambda means: np.clip(means, bottom, top)


def mean_error(thresholds: Floats, means: Floats, rho: Floats, epsilon: Floats) -> Floats:
    """Give the distance of each group mean from the end of the band that its threshold's sign asks for; from the band where that is 0."""
    bottom, top = rho - epsilon / 2, rho + epsilon / 2
    wanted = np.where(thresholds > 0, top, np.where(thresholds < 0, bottom, np.clip(means, bottom, top)))
    error: Floats = np.abs(means - wanted)
    return error


class _ClassByClass(LabelMethod):
    """RTO on each class alone, rho being the mean of the class over all rows; then rows are divided by their sums."""

    rho_: Floats
    thresholds_: Floats

    def __init__(self, epsilon: float | ArrayLike | Mapping[Any, float] = 0.0) -> None:
        self.epsilon = epsilon

    @property
    @abstractmethod
    def _width(self) -> float:
        """The gamma of every class."""

    def _learn(self, rows: Rows) -> None:
        grouped = GroupedRows.of(rows.groups, rows.weight, rows.n_groups)
        labels = np.asarray(rows.labels, np.float64)[grouped.order]
        bound = RangeBound.of(self.epsilon, rows.n_classes, rows.class_names, largest=1.0)
        self.rho_ = grouped.overall(labels)
        self.thresholds_ = pinned_thresholds(grouped, labels, self._width, self.rho_, bound.epsilon)

    def _respond(self, labels: Floats, groups: Array) -> Floats:
        h = answer(labels, self.thresholds_[groups], self._width)
        total = h.sum(axis=1, keepdims=True)
        # A soft row may be below the threshold of every class; the overall means favour no group and add up to 1.
        kept: Floats = np.where(total > 0, h / np.where(total > 0, total, 1.0), self.rho_)
        return kept


class HTO(_ClassByClass):
    """The hard-threshold baseline of the paper: RTO with gamma 0.01 on each class, rho = E[y_k], then rows divided by their sums.

    Each class alone is fair; dividing by the sums brings some of the unfairness back. A row below the threshold of every class (soft labels
    only) gets the overall class means.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        Largest accepted difference between group means, before rows are divided by their sums.
    gamma : float
        Width of the band of scores in which an answer is neither 0 nor 1.

    Attributes
    ----------
    rho_ : ndarray of shape (L,)
        The mean of each class over all rows.
    thresholds_ : ndarray of shape (n_groups, L)
        What is taken from the scores of each group and class.

    Examples
    --------
    >>> HTO().fit_transform(["x", "x", "x", "y"], sensitive_features=["a", "a", "b", "b"])
    array([[0.75, 0.25],
           [0.75, 0.25],
           [1.  , 0.  ],
           [0.5 , 0.5 ]])
    """

    name = "HTO"

    def __init__(self, epsilon: float | ArrayLike | Mapping[Any, float] = 0.0, *, gamma: float = 0.01) -> None:
        super().__init__(epsilon)
        self.gamma = float(at_least("gamma", gamma, 0.0, above=True))

    @property
    def _width(self) -> float:
        return self.gamma


class R2B0(_ClassByClass):
    """The paper's "single round of R2B", as its tables behave: RTO with gamma 1 on each class, then rows divided by their sums.

    One round of Algorithm 1 as printed is something else: it has 1 + tau = 1.5 in place of gamma = 1, which shrinks every label, and it
    ends in the additive step 2(b), which keeps group means. On Adult that gives far fairer labels than the paper reports for R2B0, whose
    figures equal those of HTO; on class labels all gamma up to 1 give the same answers, so the rule here explains them.
    ``R2B(max_rounds=1)`` is the round as printed.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        Largest accepted difference between group means, before rows are divided by their sums.

    Attributes
    ----------
    rho_, thresholds_
        As in :class:`HTO`.

    Examples
    --------
    >>> labels, groups = ["x", "x", "x", "y"], ["a", "a", "b", "b"]
    >>> same = R2B0().fit_transform(labels, sensitive_features=groups) - HTO().fit_transform(labels, sensitive_features=groups)
    >>> bool(abs(same).max() < 1e-12)
    True
    """

    name = "R2B0"
    _width: ClassVar[float] = 1.0  # a constant where HTO has a parameter
