"""Prices that make the scores of a model fair: probabilities and decisions, for groups that are predicted or given.

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
from importlib.util import find_spec
from typing import Any, Literal, cast

import narwhals as nw
import numpy as np

from r2b._constraints.families.request import LARGEST, BoundName
from r2b._constraints.parity import Parity
from r2b._constraints.parity.offsets import OffsetBound
from r2b._data.arrays import Array, Floats
from r2b._labels import FairLabels
from r2b._labels.debiasing import request_and_settings
from r2b._labels.draws import draws_of, key_words, uniforms_of
from r2b._labels.sampling import sample_rows, take_rows
from r2b._labels.task import MemoryTask, open_job
from r2b.errors import InputError, NotSolvedWarning
from r2b.sklearn.forms import indexable
from r2b.sklearn.labels import without_rows
from r2b.sklearn.visible import TrueGroups

Kind = Literal["probabilities", "decisions"]
ROUNDS = 4  # of offsets at most: two or three are the rule
_PERMUTATIONS = 40  # for the level of chance, at which rounds end
_COMPILES = 1 << 15  # entries of scores from which the compiled kernel is faster
# share of a group's variation below which its predictions are the same for all rows, but for the
# folds they come from
_UNSEEN = 1e-5
_WHOLE = 1.0 - 1e-9  # a probability that leaves nothing to draw
_SOLVING = ("tol", "max_iter", "time_limit", "kernel", "threads", "merge_rows")


@dataclass(frozen=True, eq=False)
class FairScores:
    """A rule from the scores of a model and the groups of a row to fair probabilities, or to decisions.

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
        The parity of the scores as they are, by visible groups, and after each round of offsets;
        the rule is that of the best.
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
        """Give the fair rows of new scores, from the probabilities of their codes."""
        return np.asarray(
            self.labels.transform(scores, sensitive_features=groups.memberships(codes))
        )


@dataclass(frozen=True, eq=False)
class ScoreTask:
    """Scores and groups of rows, read once, to be solved as often as rounds and epsilons ask.

    Attributes
    ----------
    kind : {"probabilities", "decisions"}
    groups : TrueGroups
        Of the rows.
    task : MemoryTask
        The scores, with the groups as they are predicted or given.
    truth : ndarray of shape (n,) or None
        Codes of the true classes.
    codes : ndarray of shape (n, n_codes)
        Probabilities of the codes, predicted or given.
    """

    kind: Kind
    groups: TrueGroups
    task: MemoryTask
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
        """Read scores, and the probabilities of codes, that were predicted out of fold.

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
        if (
            scores.size >= _COMPILES
            and own.get("kernel", "auto") == "auto"
            and find_spec("numba") is not None
        ):
            # rounds and epsilons are many solves, which repay its loading
            own["kernel"] = "compiled"
        request, settings = request_and_settings(
            {**own, "families": groups.families, "objective": objective}
        )
        data = {"sensitive_features": groups.memberships(codes), "sample_weight": groups.weight}
        return cls(
            kind, groups, open_job(scores, request=request, settings=settings, **data), truth, codes
        )

    def solve(self, epsilon: float | None = None, rounds: int = ROUNDS) -> FairScores:
        """Find the prices, with offsets until the rest is chance, and keep the round that is best by true group.

        Nothing is paid where the scores as they are meet epsilon by true group, but for what chance
        explains.

        Parameters
        ----------
        epsilon : float, optional
            Another one for all families.
        rounds : int
            Most rounds of offsets; 0 leaves them out.
        """
        parity = self.task.parity if epsilon is None else self.task.parity.at(epsilon)
        best, (level, limit) = self._judged(parity, self.plain), self.by_chance
        history = [best[1]]
        if best[2] > level:
            self._refuse_unseen()
            found, measured, excess = self._judged(parity, self._solved(parity))
            # fair rows differ less, also by chance
            level, limit = np.minimum((level, limit), self.chance(found.soft_labels)).tolist()
            history.append(measured)
            # prices that chase noise are worse than none
            best = (found, measured, excess) if excess < best[2] else best
            # Each round adds to the visible means what they lack of the true ones. One that does
            # not help ends it: offsets never run away.
            while excess > level and len(history) < rounds + 2:
                asked = _shifted(parity, self._lacking(found))
                last, (found, measured, excess) = (
                    excess,
                    self._judged(parity, self._solved(asked, found.prices)),
                )
                history.append(measured)
                if excess >= last:
                    break
                best = (found, measured, excess) if excess < best[2] else best
        labels, measured, excess = best
        if not labels.status.ok:
            warnings.warn(
                NotSolvedWarning(f"{labels.status.value}: {labels.status.advice}"), stacklevel=6
            )
        accuracy = (
            None
            if self.truth is None
            else expected_accuracy(labels.soft_labels, self.truth, self.groups.weight)
        )
        return FairScores(
            self.kind,
            without_rows(labels),
            measured,
            excess,
            level,
            limit,
            tuple(history),
            accuracy,
        )

    def _solved(self, parity: Parity, start: Floats | None = None) -> FairLabels:
        with warnings.catch_warnings():
            # the status of what is kept is looked at in the end
            warnings.simplefilter("ignore", NotSolvedWarning)
            return self.task.solve(parity, start)

    def _judged(self, parity: Parity, found: FairLabels) -> tuple[FairLabels, float, float]:
        return found, *_measured(parity, self.groups.means(found.soft_labels))

    def _lacking(self, found: FairLabels) -> Floats:
        """Give what the visible means lack of the true ones, less half of what chance explains: the mean of a few rows says little.

        All of it, and the means of large groups keep errors that could be seen; nothing, and small
        groups chase noise at a high price.
        """
        rows = found.soft_labels
        means = self.groups.means(rows)
        variance = (
            np.maximum(self.groups.means(rows**2) - means**2, 0.0) / self.groups.sizes()[:, None]
        )
        offsets = means - found.certificate.means
        told = 1.0 - 0.5 * variance / np.maximum(offsets**2, np.finfo(float).tiny)
        return np.asarray(np.maximum(told, 0.0) * offsets)

    def _refuse_unseen(self) -> None:
        """Refuse groups of which the features show nothing, while the scores differ between them: no price could be paid for that."""
        for each in self.groups.comparisons:
            parts = np.asarray(self.codes @ (each.place[:, None] == np.arange(len(each.groups))))
            share = parts.mean(axis=0)
            if (parts.var(axis=0) <= _UNSEEN * share * (1.0 - share)).all():
                problem = f"The group estimator gives all rows the same chances of {each.name!r}, but the {self.kind} differ between its groups."
                remedy = "Pass a group_estimator that can tell the groups apart from these features, or attribute='given'."
                raise InputError(problem, remedy=remedy, family=each.name, groups=each.groups)

    def measured(self, rows: Floats) -> float:
        """Give what the bounds limit, by true group, for rows of these."""
        return _measured(self.task.parity, self.groups.means(rows))[0]

    @cached_property
    def plain(self) -> FairLabels:
        """The scores, or their likeliest classes, as they are."""
        return self._solved(_unbounded(self.task.parity))

    @cached_property
    def by_chance(self) -> tuple[float, float]:
        """What chance alone shows of the scores as they are."""
        return self.chance(self.plain.soft_labels)

    def chance(self, rows: Floats) -> tuple[float, float]:
        """Give what the bounds limit when groups are handed out by chance: on average, and in all but one of twenty cases."""
        rng = np.random.default_rng(0)
        found = [
            _measured(self.task.parity, self.groups.means(rows, self.groups.permuted(rng)))[0]
            for _ in range(_PERMUTATIONS)
        ]
        return float(np.mean(found)), float(np.quantile(found, 0.95))


def _measured(parity: Parity, means: Floats) -> tuple[float, float]:
    """Measure means by every bound: the largest measure, and by how much one exceeds its epsilon."""
    largest, excess = 0.0, -np.inf
    for member in parity.members:
        bounded = np.isfinite(member.bound.epsilon)
        measure = member.bound.measure(means[member.groups], parity.share[member.groups])[bounded]
        largest = max(largest, float(measure.max(initial=0.0)))
        excess = max(excess, float((measure - member.bound.epsilon[bounded]).max(initial=-np.inf)))
    return largest, max(excess, 0.0)


def _unbounded(parity: Parity) -> Parity:
    """Ask for nothing: what comes out are the scores, or their likeliest classes, as they are."""
    members = []
    for member in parity.members:
        largest = LARGEST[cast(BoundName, member.bound.kind)]
        members.append(
            replace(member, bound=member.bound.at(np.full_like(member.bound.epsilon, largest)))
        )
    return replace(parity, members=tuple(members))


def _shifted(parity: Parity, offsets: Floats) -> Parity:
    """Add to the visible means what they lack of the true ones."""
    # Means of distributions add up to 1, so that offsets add up to 0: what rounding leaves of it is
    # taken out.
    offsets = offsets - offsets.mean(axis=1, keepdims=True)
    members = tuple(
        replace(member, bound=OffsetBound.of(member.bound, offsets[member.groups]))
        for member in parity.members
    )
    return replace(parity, members=members)


def likeliest(scores: Floats) -> Floats:
    """Give the likeliest class of each row, as distributions; of classes that tie each has its part.

    Examples
    --------
    >>> likeliest(np.array([[0.2, 0.8], [0.5, 0.5]]))
    array([[0. , 1. ],
           [0.5, 0.5]])
    """
    best = scores == scores.max(axis=1, keepdims=True)
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def expected_accuracy(rows: Floats, truth: Array, weight: Floats | None) -> float:
    """Give the share of rows that get their true class, in expectation.

    Examples
    --------
    >>> expected_accuracy(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0, 1]), None)
    0.75
    """
    return float(np.average(rows[np.arange(len(truth)), truth], weights=weight))


def decide(rows: Floats, X: Any, key: Any, seed: int) -> Array:
    """Give one class per row: what it is certain of, and where scores tie a draw that follows from the row's key.

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
    # of rows that leave nothing to draw, the class they are certain of
    codes: Array = rows.argmax(axis=1)
    tied = np.flatnonzero(rows.max(axis=1) < _WHOLE)
    if len(tied):
        part = rows[tied]
        columns = row_texts(take_rows(indexable(X), tied)) if key is None else np.asarray(key)[tied]
        words = key_words([columns], ["key"])
        codes[tied] = sample_rows(
            part / part.sum(axis=1, keepdims=True), uniforms_of(draws_of(words, seed))
        )
    return codes


def row_texts(X: Any) -> list[str]:
    """Spell out rows of features, so that equal rows have equal texts in every kind of table.

    Examples
    --------
    >>> row_texts(np.array([[1.0, 2.5]])), row_texts(["a text"])
    (['1.0|2.5'], ['a text'])
    """
    X = X.toarray() if hasattr(X, "toarray") else X
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        columns = [frame[:, place].to_list() for place in range(frame.shape[1])]
        return ["|".join(map(str, row)) for row in zip(*columns, strict=True)]
    rows = X.tolist() if hasattr(X, "tolist") else list(X)
    return ["|".join(map(str, row)) if isinstance(row, (list, tuple)) else str(row) for row in rows]
