"""Prices that make the scores of a model fair, in probabilities and in decisions.

For scores p(x) and the parts g(x) of a row in the groups, fair probabilities are the projection of
``p(x) - sum_s g_s(x) nu_s`` onto the simplex, and fair decisions the class in which that is
largest: the same rule with lambda 1 and with lambda to 0. The groups are predictions, so that what
they get wrong is measured with the true groups and added to the constraint as offsets.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import narwhals as nw
import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.arrays import Array, Floats
from r2b._labels import FairLabels
from r2b._labels.debiasing import request_and_settings
from r2b._labels.draws import draws_of, key_words, uniforms_of
from r2b._labels.sampling import sample_rows
from r2b._labels.task import Task, open_job
from r2b.errors import InputError, NotSolvedWarning
from r2b.sklearn.groups import TrueGroups
from r2b.sklearn.labels import without_rows
from r2b.sklearn.training import rows_at

Kind = Literal["probabilities", "decisions"]

_SOLVING = ("tol", "max_iter", "time_limit", "threads")


@dataclass(frozen=True, eq=False)
class FairScores:
    """A rule from the scores of a model and the groups of a row to fair probabilities or decisions.

    Attributes
    ----------
    kind : {"probabilities", "decisions"}
    labels : FairLabels
        Prices, status and certificate for the rows they were found on; the rows are left out.
    disparity : float
        On those rows, by true group: what the bound limits, such as the largest difference between
        two groups.
    excess : float
        By how much it is above epsilon.
    level, limit : float
        What chance alone shows on as many rows: on average, where rounds end, and in all but one of
        twenty cases, from where on it warns.
    rounds : tuple of float
        The disparity of the scores as they are, by predicted groups, and after each round of
        offsets; the rule is that of the best.
    accuracy : float or None
        Chance that a row gets its true class, on those rows.
    """

    kind: Kind
    labels: FairLabels
    disparity: float
    excess: float
    level: float
    limit: float
    rounds: tuple[float, ...]
    accuracy: float | None

    def apply(self, scores: Floats, groups: TrueGroups, codes: Floats) -> Floats:
        """Return the fair rows of new scores, from the probabilities of their codes."""
        memberships = groups.memberships(codes)
        return np.asarray(self.labels.transform(scores, sensitive_features=memberships))


@dataclass(frozen=True, eq=False)
class ScoreTask:
    """Scores and groups of rows, read once, to be solved for several rounds and epsilons.

    Attributes
    ----------
    kind : {"probabilities", "decisions"}
    groups : TrueGroups
        Of the rows.
    task : Task
        The scores, with the groups as they are predicted or given.
    truth : ndarray of shape (n,) or None
        Codes of the true classes.
    codes : ndarray of shape (n, n_codes)
        Probabilities of the codes, predicted or given.
    """

    kind: Kind
    groups: TrueGroups
    task: Task
    truth: Array | None
    codes: Floats

    @classmethod
    def of(
        cls,
        scores: Floats,
        groups: TrueGroups,
        codes: Floats,
        truth: Array | None,
        *,
        kind: Kind,
        options: Mapping[str, Any],
    ) -> ScoreTask:
        """Read out-of-fold scores and probabilities of codes.

        Parameters
        ----------
        scores : ndarray of shape (n, L)
        groups : TrueGroups
        codes : ndarray of shape (n, n_codes)
        truth : ndarray of shape (n,) or None
        kind : {"probabilities", "decisions"}
        options : mapping
            As for ``debias``: those that say how to solve are taken.
        """
        objective = "agreement" if kind == "decisions" else "distance"
        own = {name: options[name] for name in _SOLVING if name in options}
        asked = {**own, "families": groups.families, "objective": objective}
        request, settings = request_and_settings(asked)
        data = {"sensitive_features": groups.memberships(codes), "sample_weight": groups.weight}
        task = open_job(scores, request=request, settings=settings, **data)
        return cls(kind, groups, task, truth, codes)

    def solve(self, parity: Parity, start: Floats | None = None) -> FairLabels:
        """Find the prices of one constraint."""
        with warnings.catch_warnings():
            # the status of the rule that is kept is looked at in the end
            warnings.simplefilter("ignore", NotSolvedWarning)
            return self.task.solve(parity, start)

    @cached_property
    def plain(self) -> FairLabels:
        """The scores, or their likeliest classes, as they are."""
        return self.solve(_unbounded(self.task.parity))

    @cached_property
    def by_chance(self) -> tuple[float, float]:
        """What chance alone shows of the scores as they are."""
        return self.chance(self.plain.soft_labels)

    def chance(self, rows: Floats) -> tuple[float, float]:
        """Return the disparity of groups handed out by chance: mean and 95 % quantile."""
        rng = np.random.default_rng(0)
        found = [
            measure(self.task.parity, self.groups, rows, self.groups.permuted(rng))[0]
            for _ in range(40)
        ]
        return float(np.mean(found)), float(np.quantile(found, 0.95))

    def accuracy(self, rows: Floats) -> float | None:
        """Return the share of rows that get their true class, in expectation."""
        if self.truth is None:
            return None
        right = rows[np.arange(len(rows)), self.truth]
        return float(np.average(right, weights=self.groups.weight))


def find_prices(task: ScoreTask, epsilon: float | None = None, rounds: int = 4) -> FairScores:
    """Find prices from out-of-fold scores, with offsets until the rest is chance.

    The round that is best by true group is kept. Nothing is paid where the scores as they are meet
    epsilon by true group, but for what chance explains.

    Parameters
    ----------
    task : ScoreTask
    epsilon : float, optional
        Another one for all families.
    rounds : int
        Most rounds of offsets, of which two or three are usual; 0 leaves them out.

    Raises
    ------
    InputError
        The predicted groups are the same for all rows, while scores differ between true groups.

    Warns
    -----
    NotSolvedWarning
        The solver stalled.
    """
    parity = task.task.parity if epsilon is None else task.task.parity.at(epsilon)
    best, (level, limit) = task.plain, task.by_chance
    disparity, excess = measure(parity, task.groups, best.soft_labels)
    history = [disparity]
    asked, start, last = parity, None, np.inf
    # A round that does not help ends the loop, so that offsets never run away.
    while excess > level and len(history) < rounds + 2:
        if len(history) == 1:
            _refuse_unseen(task)
        found = task.solve(asked, start)
        measured, over = measure(parity, task.groups, found.soft_labels)
        history.append(measured)
        if len(history) == 2:  # fair rows differ less, also by chance
            chance = task.chance(found.soft_labels)
            level, limit = min(level, chance[0]), min(limit, chance[1])
        solved = found.status.ok
        # offsets of a few rows may ask for what no labels meet; the rounds before stay
        if over < excess and (solved or len(history) == 2):
            best, disparity, excess = found, measured, over
        if not solved or over >= last or over <= level:
            break
        last, start = over, found.prices
        asked = _shifted(parity, _lacking(task.groups, found))
    if not best.status.ok:
        message = f"{best.status.value}: {best.status.advice}"
        warnings.warn(NotSolvedWarning(message), stacklevel=6)
    kept, accuracy = without_rows(best), task.accuracy(best.soft_labels)
    return FairScores(task.kind, kept, disparity, excess, level, limit, tuple(history), accuracy)


def measure(
    parity: Parity, groups: TrueGroups, rows: Floats, codes: Array | None = None
) -> tuple[float, float]:
    """Measure rows by every bound: the largest disparity, and the largest excess over an epsilon.

    Parameters
    ----------
    parity : Parity
    groups : TrueGroups
        Of these rows.
    rows : ndarray of shape (n, L)
    codes : ndarray of shape (n,), optional
        Other codes than the true ones.
    """
    means, largest, excess = groups.means(rows, codes), 0.0, 0.0
    for member in parity.members:
        bounded = np.isfinite(member.bound.epsilon)
        found = member.bound.measure(means[member.groups], parity.share[member.groups])[bounded]
        largest = max(largest, float(found.max(initial=0.0)))
        over = found - member.bound.epsilon[bounded]
        excess = max(excess, float(over.max(initial=0.0)))
    return largest, excess


def _lacking(groups: TrueGroups, found: FairLabels) -> Floats:
    """Return the true group means less the predicted ones, shrunk by half of their variance.

    With all of it the means of large groups would keep errors that could be seen; with nothing
    small groups chase noise at a high price.
    """
    rows = found.soft_labels
    means = groups.means(rows)
    variance = np.maximum(groups.means(rows**2) - means**2, 0.0) / groups.sizes()[:, None]
    offsets = means - found.certificate.means
    kept = 1.0 - 0.5 * variance / np.maximum(offsets**2, np.finfo(float).tiny)
    return np.asarray(np.maximum(kept, 0.0) * offsets)


def _refuse_unseen(task: ScoreTask) -> None:
    """Refuse groups of which the features show nothing: no price could be paid for them."""
    for each in task.groups.comparisons:
        parts = task.codes @ each.counts
        share = parts.mean(axis=0)
        if (parts.var(axis=0) <= 1e-5 * share * (1.0 - share)).all():
            problem = (
                f"The group estimator predicts the same chances of {each.name!r} for all rows."
            )
            way = "Pass a `group_estimator` that can tell the groups apart from these features"
            remedy = f"{way}, or `attribute='given'`."
            raise InputError(problem, remedy=remedy, family=each.name, groups=each.groups)


def _unbounded(parity: Parity) -> Parity:
    """Ask for nothing: the solution is the scores, or their likeliest classes, as they are."""
    members = []
    for member in parity.members:
        largest = member.bound.largest
        bound = member.bound.at(np.full_like(member.bound.epsilon, largest))
        members.append(replace(member, bound=bound))
    return replace(parity, members=tuple(members))


def _shifted(parity: Parity, offsets: Floats) -> Parity:
    """Add offsets to the means that the bounds compare."""
    # Means of distributions add up to 1, so that offsets add up to 0 but for rounding.
    offsets = offsets - offsets.mean(axis=1, keepdims=True)
    members = tuple(replace(member, offsets=offsets[member.groups]) for member in parity.members)
    return replace(parity, members=members)


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


def row_texts(X: Any) -> list[str]:
    """Write rows of features as text, equal for equal rows in every kind of table.

    Examples
    --------
    >>> row_texts(np.array([[1.0, 2.5]])), row_texts(["a text"])
    (['1.0|2.5'], ['a text'])
    """
    X = X.toarray() if hasattr(X, "toarray") else X
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        rows: list[Any] = frame.rows()
    else:
        rows = X.tolist() if hasattr(X, "tolist") else list(X)
    return ["|".join(map(str, row)) if isinstance(row, (list, tuple)) else str(row) for row in rows]
