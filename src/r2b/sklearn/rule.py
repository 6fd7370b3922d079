"""Rules that make the scores of a model fair, and their response to unseen rows.

Groups are predictions, so that the means that a rule sees are off. Offsets, the true less the seen
means, correct this. An offset of a small group is mostly noise: of every entry, a group and an
outcome, only the part of the offset counts that chance does not explain for its rows. The rule is
fitted on all rows; how it does on unseen rows is measured by fitting it on all folds but one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from r2b._constraints.bounds import Bound
from r2b._data.arrays import Array, Floats, Whole
from r2b._labels.draws import draws_of, key_words, uniforms_of
from r2b._labels.sampling import sample_rows
from r2b.errors import InputError
from r2b.sklearn.folds import Folds
from r2b.sklearn.groups import Comparison, TrueGroups, shares_of
from r2b.sklearn.labels import part_of
from r2b.sklearn.prices import (
    PRECISE,
    ROUGH,
    Band,
    Dual,
    Kind,
    base_of,
    less_prices,
    respond,
    sums,
)
from r2b.sklearn.training import row_texts, rows_at

Prices = tuple[Floats, ...]


@dataclass(frozen=True)
class Plan:
    """How closely group means must follow epsilon, in standard deviations of chance.

    Attributes
    ----------
    width : float
        How far any entry may be off.
    shrink : float
        How much of the variance of an offset is taken from it.
    rounds : int
        Of offsets: 1, or 0 to leave them out.
    give : float
        How much farther an entry may be off for each unit of its price, which is the accuracy that
        is paid for a difference of 1 in the mean of a group of all rows.
    """

    width: float = 0.0
    shrink: float = 1.0
    rounds: int = 1
    give: float = 0.25


PLAN = Plan()
"""Of decisions; ``benchmarks/small_groups.py`` is the study behind it."""

FALLBACKS = Plan(rounds=0), Plan(width=1.0)
"""Tried in turn where decisions are less accurate than the most frequent class."""

AIM = 2.0
"""Standard deviations by which large groups aim below half of epsilon: new rows add as much."""

SOFT = Plan(shrink=0.25, give=0.05)
"""Of probabilities, whose group means vary less and cost less to correct."""


@dataclass(frozen=True, eq=False, repr=False)
class ScoreRows:
    """Scores and groups of rows that no model behind them was trained on.

    Attributes
    ----------
    kind : {"probabilities", "decisions"}
    scores : ndarray of shape (n, L)
    codes : ndarray of shape (n, n_codes)
        Probabilities of the true codes, predicted or given.
    groups : TrueGroups
    labels : ndarray of shape (n, L) or None
        The true classes as distributions. None where nobody knows them: accuracy is then what the
        scores expect.
    """

    kind: Kind
    scores: Floats
    codes: Floats
    groups: TrueGroups
    labels: Floats | None

    def part(self, chosen: Whole) -> ScoreRows:
        """Keep some of the rows."""
        return ScoreRows(
            self.kind,
            self.scores[chosen],
            self.codes[chosen],
            self.groups.part(chosen),
            part_of(self.labels, chosen),
        )

    @cached_property
    def weight(self) -> Floats:
        """The weights of the rows, which add up to 1."""
        return shares_of(self.groups.weight, len(self.scores))

    @cached_property
    def base(self) -> Floats:
        """What prices are subtracted from."""
        return base_of(self.kind, self.scores)

    @cached_property
    def parts(self) -> list[Floats]:
        """The parts of the rows in the groups of every comparison."""
        return [each.parts(self.codes) for each in self.groups.comparisons]

    @property
    def hidden(self) -> list[Comparison]:
        """Comparisons whose groups are predicted alike for all rows: no price could be paid."""
        found = []
        for each in self.groups.comparisons:
            parts = self.codes @ each.counts
            share = parts.mean(axis=0)
            if not (parts.var(axis=0) > 1e-5 * share * (1.0 - share)).any():
                found.append(each)
        return found

    @cached_property
    def plain(self) -> Floats:
        """The scores, or their most probable classes, as they are."""
        if self.kind == "probabilities":
            return self.scores
        return np.asarray(np.eye(self.scores.shape[1])[self.scores.argmax(axis=1)])

    @cached_property
    def deviations(self) -> list[Floats]:
        """The standard deviation that chance gives each entry's mean."""
        return deviations(self.groups, self.plain)

    @property
    def majority(self) -> float:
        """The accuracy of the most frequent class for all rows; 0 where it is not known."""
        return 0.0 if self.labels is None else float((self.weight @ self.labels).max())

    def accuracy(self, rows: Floats) -> float:
        """Return the share of rows that get their true class, in expectation."""
        labels = self.scores if self.labels is None else self.labels
        return float(self.weight @ (rows * labels).sum(axis=1))

    def seen_means(self, rows: Floats) -> list[Floats]:
        """Return group means by the groups that are seen."""
        weighted = self.groups.compared(rows) * self.weight[:, None]
        return [
            sums(part, weighted) / share[:, None]
            for part, share in zip(self.parts, self.shares, strict=True)
        ]

    @cached_property
    def shares(self) -> list[Floats]:
        """The weight of each group that is seen, as a share of all."""
        tiny = np.finfo(np.float32).tiny
        return [
            np.maximum(self.weight @ (part if part.ndim == 2 else part.sum(axis=2)), tiny)
            for part in self.parts
        ]

    def apply(self, prices: Prices) -> Floats:
        """Return the rows at some prices."""
        values = less_prices(self.base, self.parts, prices, self.groups.outcome_matrix)
        return respond(self.kind, values)


def deviations(groups: TrueGroups, rows: Floats) -> list[Floats]:
    """Return the standard deviation that chance gives the mean of each group and outcome."""
    found = []
    first, second = groups.means(rows), groups.means(rows, power=2)
    for mean, square, size in zip(first, second, groups.sizes(), strict=True):
        weight = size / size.sum()
        variance = np.maximum(weight @ square - (weight @ mean) ** 2, 1e-4)
        found.append(np.sqrt(variance / np.maximum(size, 1.0)[:, None]))
    return found


def limits(bound: Bound, means: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Return level, lowest and highest value of each entry, where the level is that of the means.

    Examples
    --------
    >>> from r2b._constraints.bounds import RangeBound
    >>> means, bound = np.array([[0.5, 0.5], [0.3, 0.7]]), RangeBound(np.array([0.1, 0.1]))
    >>> [each.round(2).tolist() for each in limits(bound, means, np.array([1.0, 1.0]))]
    [[0.4, 0.6], [[-0.05, -0.05], [-0.05, -0.05]], [[0.05, 0.05], [0.05, 0.05]]]
    """
    sides = bound.sides(len(means))
    level = bound.level_of(means, weight)
    low, high = (
        np.where(sides.bounded, side + (slope - 1.0) * level, edge)
        for side, slope, edge in (
            (sides.low, sides.low_slope, -np.inf),
            (sides.high, sides.high_slope, np.inf),
        )
    )
    return level, low, high


def fit_prices(
    rows: ScoreRows, plan: Plan, start: Prices | None = None, gain: float = PRECISE
) -> Prices:
    """Find the prices of a plan.

    Parameters
    ----------
    rows : ScoreRows
    plan : Plan
    start : tuple of ndarray, optional
        Prices near the solution; offsets are then those of its response.
    gain : float
        A step that gains less is the last.
    """
    matrix = rows.groups.outcome_matrix
    # offsets of a first solution come from the response to prices that have none
    for turn in (0, 1) if start is None and plan.rounds else (plan.rounds,):
        fair = rows.plain if start is None else rows.apply(start)
        seen = rows.seen_means(fair)
        offsets = [np.zeros(())] * len(seen)
        if turn:
            true = rows.groups.means(fair)
            offsets = [
                _shrunk(t - s, plan.shrink * sd**2)
                for t, s, sd in zip(true, seen, rows.deviations, strict=True)
            ]
        bands = tuple(_bands(rows, plan, seen, offsets))
        start = Dual(rows.kind, rows.base, bands, rows.weight, matrix).solve(start, gain)
    assert start is not None
    return start


def _shrunk(offsets: Floats, variance: Floats) -> Floats:
    kept = 1.0 - variance / np.maximum(offsets**2, np.finfo(float).tiny)
    return np.maximum(kept, 0.0) * offsets


def _bands(
    rows: ScoreRows, plan: Plan, seen: Sequence[Floats], offsets: Sequence[Floats]
) -> Iterator[Band]:
    """Return where means may lie: within epsilon, less or more by what chance explains."""
    given = zip(
        rows.groups.comparisons,
        rows.parts,
        rows.shares,
        seen,
        offsets,
        rows.deviations,
        strict=True,
    )
    for each, part, share, means, offset, sd in given:
        found, low, high = limits(each.bound, means + offset, share)
        bounded = np.isfinite(low)
        low, high = (np.where(bounded, side, 0.0) for side in (low, high))
        # large groups aim below epsilon, by what chance will add; small ones may be off by chance
        half = np.maximum(plan.width * sd, 0.5 * (high - low) - AIM * sd)
        centre, level, give = 0.5 * (high + low) - offset, each.bound.level, plan.give * sd
        if each.bound.name == "ratio":  # its width depends on the level, which is the last one
            centre, level = centre + found, "none"
        half = np.where(each.bound.on_level(len(half)), 0.0, half)
        yield Band(part, centre, half, give, bounded, level, share)


def unseen_rows(rows: ScoreRows, plan: Plan, folds: Folds, start: Prices) -> Floats:
    """Return the rows of each fold at prices that were found on the other folds."""
    found = np.empty_like(rows.scores)
    for left, held in folds:
        start = fit_prices(rows.part(left), plan, start, ROUGH)
        found[held] = rows.part(held).apply(start)
    return found


@dataclass(frozen=True, eq=False)
class FairScores:
    """A rule from the scores of a model and the groups of a row to fair probabilities or decisions.

    Attributes
    ----------
    kind : {"probabilities", "decisions"}
    prices : tuple of ndarray of shape (n_groups, n_outcomes)
        Of every comparison.
    plan : Plan
        None where every row gets the most frequent class.
    accuracy, plain_accuracy, majority : float
        Of the rule, of the plain scores, and of the most frequent class; of decisions on unseen
        rows.
    is_plain : bool
        Whether the rule decides every row as the plain scores do.
    largest_share : float
        Of rows that get the same class.
    """

    kind: Kind
    prices: Prices
    plan: Plan | None
    accuracy: float
    plain_accuracy: float
    majority: float
    is_plain: bool
    largest_share: float

    def apply(self, scores: Floats, groups: TrueGroups, codes: Floats) -> Floats:
        """Return the fair rows of new scores, from the probabilities of their codes."""
        return ScoreRows(self.kind, scores, codes, groups, None).apply(self.prices)


def find_rule(rows: ScoreRows, folds: Folds) -> tuple[FairScores, Floats]:
    """Find the rule, and return it with its response to unseen rows.

    Where decisions are less accurate than the most frequent class, every row gets that class, or
    where right predictions are compared, decisions stay as they are. Probabilities are not judged.

    Parameters
    ----------
    rows : ScoreRows
    folds : Folds
        Among which prices are fitted and judged.

    Raises
    ------
    InputError
        The predicted groups are the same for all rows.
    """
    for each in rows.hidden:
        problem = f"The group estimator predicts the same chances of {each.name!r} for all rows."
        way = "Pass a `group_estimator` that can tell the groups apart from these features"
        remedy = f"{way}, or `attribute='given'`."
        raise InputError(problem, remedy=remedy, family=each.name, groups=each.groups)
    if rows.kind == "probabilities":
        chosen: Plan | None = SOFT
        prices = fit_prices(rows, SOFT)
        fair = rows.apply(prices)
    else:
        chosen, prices, fair = _choose(rows, folds)
    is_plain = False
    if rows.kind == "decisions":
        plain = respond(rows.kind, rows.scores)
        sure = plain.max(axis=1) == 1.0  # where plain scores tie, a row is drawn in any case
        is_plain = bool((rows.apply(prices)[sure] == plain[sure]).all())
    rule = FairScores(
        rows.kind,
        prices,
        chosen,
        rows.accuracy(fair),
        rows.accuracy(rows.plain),
        rows.majority,
        is_plain,
        float((rows.weight @ fair).max()),
    )
    return rule, fair


def _choose(rows: ScoreRows, folds: Folds) -> tuple[Plan | None, Prices, Floats]:
    """Return the plan of decisions, its prices, and its response to unseen rows."""
    for plan in (PLAN, *FALLBACKS):
        prices = fit_prices(rows, plan)
        fair = unseen_rows(rows, plan, folds, prices)
        if rows.accuracy(fair) >= rows.majority:
            return plan, prices, fair
    prices = _constant(rows)
    return None, prices, rows.apply(prices)


def _constant(rows: ScoreRows) -> Prices:
    """Return prices at which every row gets the most frequent class.

    It is right more often in some groups than in others: where that counts, there are no prices;
    nor are there where outcomes are compared, whose prices are not those of classes.
    """
    assert rows.labels is not None
    most = int((rows.weight @ rows.labels).argmax())
    dear = np.where(np.arange(rows.labels.shape[1]) == most, 0.0, 1e3)
    compared = rows.groups.comparisons
    if rows.groups.outcomes is not None or any(each.n_right for each in compared):
        dear = np.zeros(1)
    return tuple(
        np.zeros((len(each.groups), each.bound.epsilon.shape[-1])) + dear for each in compared
    )


def decide(rows: Floats, X: Any, key: Any, seed: int) -> Array:
    """Return one class per row; where scores tie, drawn by the row's key.

    Parameters
    ----------
    rows : ndarray of shape (n, L)
    X : features of the rows
        A row without a key is drawn by its own features: equal rows get equal decisions, wherever
        they stand.
    key : array-like of shape (n,), optional
    seed : int

    Examples
    --------
    >>> rows = np.array([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]])
    >>> decide(rows, np.array([[1.0], [2.0], [2.0]]), None, 0)[1:].tolist() in ([0, 0], [1, 1])
    True
    """
    codes: Array = rows.argmax(axis=1)  # right for rows that are certain
    tied = np.flatnonzero(rows.max(axis=1) < 1.0 - 1e-9)
    if len(tied):
        part = rows[tied]
        keys = row_texts(rows_at(X, tied)) if key is None else np.asarray(key)[tied]
        draws = uniforms_of(draws_of(key_words([keys], ["key"]), seed))
        codes[tied] = sample_rows(part / part.sum(axis=1, keepdims=True), draws)
    return codes
