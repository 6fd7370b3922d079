"""Evidence that returned labels are fair and optimal, recomputed from the data and those labels.

Nothing here depends on the state of a solver.

For any rows x, any prices nu at which the support function sigma of the allowed means is finite,
theta_i the sum of the prices of the row's groups and ``g_i = lam x_i - y_i + theta_i``, the optimum
is at least

    sum_i w_i ( min_k g_ik - lam/2 |x_i|^2 )  -  sigma(nu),

because ``lam/2 |v|^2 - <v, y - theta>`` lies above its tangent at x. For the paper's bound sigma is
``sum_k eps_k / 2 sum_s W_s |nu_sk|``. No projection and no solver is needed to check it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from r2b._constraints.parity import Member, Parity
from r2b._data.arrays import Floats
from r2b._data.frames import Backend, frame_of
from r2b._data.merge import Extent, Rows
from r2b._data.probabilities import TOLERANCE
from r2b._data.values import json_value
from r2b._solve.oracle import Oracle, group_means, inspected


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise ``sum_i w_i (lam/2 |x_i|^2 - <x_i, y_i>)`` over rows of the simplex in parity.

    ``lam = 1`` is the squared distance to the labels, ``lam = 0`` agreement alone. Values are per
    unit of weight throughout, so they do not grow with the table.

    Attributes
    ----------
    rows : Rows or Extent
        The rows themselves where they are in memory.
    parity : Parity
    lam : float
    costliest : float
        The most that any label of a row can cost beyond its size; 0 for labels as they are, more
        where changes have costs.
    """

    rows: Rows | Extent
    parity: Parity
    lam: float = 1.0
    costliest: float = 0.0

    @property
    def reach(self) -> float:
        """The largest difference of prices that changes a label."""
        return max(1.0, self.costliest) + self.lam

    @property
    def n_groups(self) -> int:
        """The number of groups, over all families."""
        return self.parity.n_groups

    @property
    def n_classes(self) -> int:
        """The number of classes, L."""
        return self.rows.n_classes

    @property
    def n_outcomes(self) -> int:
        """The number of shares of each group that are compared; that of the classes as a rule."""
        outcomes = self.parity.outcomes
        return self.n_classes if outcomes is None else len(outcomes)

    @property
    def n_prices(self) -> int:
        """How many unknowns there are."""
        return self.n_groups * self.n_outcomes

    @property
    def rows_in_memory(self) -> Rows:
        """The rows, for solvers that keep copies of them; only where they are in memory."""
        assert isinstance(self.rows, Rows), "these rows live elsewhere"
        return self.rows


# largest relative gap, excess over epsilon and simplex violation that a solved run may show
PROVEN = 1e-9


@dataclass(frozen=True, eq=False)
class FamilyProof:
    """What holds for one family of groups.

    Attributes
    ----------
    name : str
    bound : str
        The shape: "range", "to_overall", "ratio", "target", "to_reference" or, for a continuous
        attribute, "moments".
    epsilon : ndarray of shape (n_outcomes,)
    measure, measure_before : ndarray of shape (n_outcomes,)
        What the bound limits, at most epsilon where it is met, for the labels that go out and those
        that came in.
    excess : float
        Largest amount by which a mean lies outside the bound; 0 where all classes meet it.
    groups : slice
        Its groups among the rows of ``Certificate.means``.
    offsets : ndarray of shape (n_groups of the family, n_outcomes) or None
        What was added to the means of its groups before ``measure`` and ``excess`` were taken; None
        for nothing.
    """

    name: str
    bound: str
    epsilon: Floats
    measure: Floats
    measure_before: Floats
    excess: float
    groups: slice
    offsets: Floats | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values that strict JSON can hold; offsets only where there are any."""
        stored = {**vars(self), "groups": (self.groups.start, self.groups.stop)}
        if self.offsets is None:
            del stored["offsets"]
        plain: dict[str, Any] = json_value(stored)
        return plain


@dataclass(frozen=True, eq=False)
class Proof:
    """What holds for group means under their bounds, and how much better other answers may be.

    The attributes are those of :class:`Certificate` that do not speak of labels.
    """

    disparity: float
    disparity_by_class: Floats
    disparity_before: float
    epsilon: Floats
    excess: float
    means: Floats
    means_before: Floats
    objective: float
    lower_bound: float
    relative_gap: float
    families: tuple[FamilyProof, ...]

    NUMBERS: ClassVar[tuple[str, ...]]
    """The numbers that a frame shows without a limit."""

    @property
    def limits(self) -> dict[str, float]:
        """The largest size of each number that a proof may show."""
        return {"excess": PROVEN, "relative_gap": PROVEN}

    @property
    def holds(self) -> bool:
        """Whether gap, excess and all other numbers are within their limits."""
        return all(abs(getattr(self, name)) <= limit for name, limit in self.limits.items())

    def to_json(self) -> dict[str, Any]:
        """Return plain values that strict JSON can hold; an infinite epsilon is the text "inf"."""
        stored = {name: getattr(self, name) for name in self._plain_fields()}
        plain: dict[str, Any] = json_value(stored)
        return plain | {"families": [family.to_json() for family in self.families]}

    def to_frame(self, *, backend: Backend | None = None) -> Any:
        """Return a frame of its numbers: their names, values and limits.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            pandas by default or, where it is not installed, Polars.
            ``fair.to_frame("certificate")`` is of the library of the data.

        Examples
        --------
        >>> import r2b
        >>> y, sex = ["a", "b", "a", "a"], ["f", "f", "m", "m"]
        >>> fair = r2b.debias(y, sensitive_features=sex, epsilon=0)
        >>> fair.certificate.to_frame(backend="pyarrow").to_pydict()["number"][-3:]
        ['excess', 'relative_gap', 'simplex_violation']
        """
        return frame_of(self.columns(), backend)

    def columns(self) -> dict[str, Any]:
        """Return the columns of :meth:`to_frame`."""
        names, limits = [*self.NUMBERS, *self.limits], self.limits
        values = [
            abs(self.relative_gap) if name == "relative_gap" else float(getattr(self, name))
            for name in names
        ]
        return {
            "number": names,
            "value": values,
            "limit": [limits.get(name, math.nan) for name in names],
        }

    @classmethod
    def _plain_fields(cls) -> list[str]:
        return [each.name for each in fields(cls) if each.name != "families"]

    @classmethod
    def from_json(cls, stored: dict[str, Any], n_groups: int, n_outcomes: int) -> Self:
        """Restore a certificate from :meth:`to_json`.

        Raises
        ------
        ValueError
            A value is missing, of the wrong shape or not a number.
        """
        shapes = {
            "disparity_by_class": (n_outcomes,),
            "epsilon": (n_outcomes,),
            "means": (n_groups, n_outcomes),
            "means_before": (n_groups, n_outcomes),
        }
        values: dict[str, Any] = {
            name: _restored(name, stored[name], shapes.get(name, ()))
            for name in cls._plain_fields()
        }
        families = []
        for family in stored["families"]:
            first, last = (int(place) for place in family["groups"])
            if not 0 <= first < last <= n_groups:
                raise ValueError(f"a family has the groups {first} to {last} of {n_groups}")
            by_class = dict.fromkeys(("epsilon", "measure", "measure_before"), (n_outcomes,))
            sizes = {**by_class, "excess": (), "offsets": (last - first, n_outcomes)}
            numbers = {
                name: _restored(name, family[name], size)
                for name, size in sizes.items()
                if name != "offsets" or name in family
            }
            name, bound = str(family["name"]), str(family["bound"])
            families.append(FamilyProof(name, bound, groups=slice(first, last), **numbers))
        return cls(**values, families=tuple(families))

    @classmethod
    def stated(
        cls,
        parity: Parity,
        means: Floats,
        before: Floats,
        objective: float,
        gap: float,
        scale: float,
        **seen: float,
    ) -> Self:
        """State what holds for these group means, and for those that came in.

        Parameters
        ----------
        parity : Parity
            What is asked.
        means, before : ndarray of shape (n_groups, n_outcomes)
            Means of groups now, and of what came in.
        objective : float
            The value reached.
        gap : float
            By how much other answers may be better.
        scale : float
            The size of the objective, in units of which the gap is stated.
        **seen : float
            The other numbers.
        """
        members = parity.members
        families = measured(members, parity.share, means, before)
        by_class = between_groups(members, means)
        numbers = {
            "disparity": float(by_class.max()),
            "disparity_before": float(between_groups(members, before).max()),
            "excess": max(family.excess for family in families),
            "objective": objective,
            "lower_bound": objective - gap,
            "relative_gap": gap / (scale or 1.0),
        }
        return cls(
            disparity_by_class=by_class,
            epsilon=np.min([family.epsilon for family in families], axis=0),
            means=means,
            means_before=before,
            families=families,
            **(numbers | seen),
        )


@dataclass(frozen=True, eq=False)
class Certificate(Proof):
    """What holds for the returned labels.

    Attributes
    ----------
    disparity : float
        Largest difference between the means of two groups of a family in any class (for continuous
        attributes alone: largest moment).
    disparity_by_class : ndarray of shape (n_outcomes,)
        Of each class, or of each outcome where others are compared.
    disparity_before : float
        The same for the old labels.
    epsilon : ndarray of shape (n_outcomes,)
        The smallest of any family.
    excess : float
        Largest amount by which a mean, with its offset where there is one, lies outside the bound
        of a family; 0 where all are met.
    means, means_before : ndarray of shape (n_groups, n_outcomes)
    objective : float
        ``lam/2 |x|^2 - <x, y>`` per unit of weight.
    lower_bound : float
        No labels that meet epsilon have a smaller objective.
    relative_gap : float
        ``(objective - lower_bound)`` over the sum of the sizes of the objective's two terms, or
        over the costliest change where that is more.
    families : tuple of FamilyProof
    distance : float
        Mean of ``|x - y|^2``.
    expected_changes : float
        Share of the weight whose label changes: mean total-variation distance, for class labels the
        chance that a row changes.
    simplex_violation : float
        Largest amount by which a row is negative or off a sum of 1.
    simplex_allowance : float
        What of it may be: 1e-9 for labels made here; for labels that go out as they came in, what
        the input check lets pass.

    Examples
    --------
    >>> import r2b
    >>> fair = r2b.debias(["a", "b", "a", "a"], sensitive_features=["f", "f", "m", "m"], epsilon=0)
    >>> fair.certificate.holds, round(fair.certificate.disparity_before, 3)
    (True, 0.5)
    """

    distance: float
    expected_changes: float
    simplex_violation: float
    simplex_allowance: float

    NUMBERS = (
        "disparity_before",
        "disparity",
        "distance",
        "expected_changes",
        "objective",
        "lower_bound",
    )

    @property
    def limits(self) -> dict[str, float]:
        """The largest size of each number that a proof may show."""
        return {**super().limits, "simplex_violation": self.simplex_allowance}


def _restored(name: str, stored: Any, shape: tuple[int, ...]) -> Any:
    array = np.array(stored, dtype=np.float64)
    if array.shape != shape or np.isnan(array).any():
        raise ValueError(f"{name} of the certificate is {stored!r}")
    return array if array.ndim else float(array)


def certify(
    problem: Problem,
    oracle: Oracle,
    prices: Floats,
    labels_before: Floats,
    *,
    unchanged: bool = False,
    answers: Floats | None = None,
) -> Certificate:
    """Certify the labels that go out at these prices.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
        Reads data and returned labels once.
    prices : ndarray of shape (n_groups, n_outcomes)
        Any prices give a valid bound; the optimal ones a tight one.
    labels_before : ndarray of shape (n_cells, n_classes) or (n_groups, n_classes)
        Means of the old labels, by cell; by group where the oracle answers for groups.
    unchanged : bool
        The old labels themselves go out, whatever the prices.
    answers : ndarray of shape (n_rows, n_classes), optional
        New label of each of the problem's rows, where prices do not tell it.
    """
    lam, parity = float(problem.lam), problem.parity
    seen = inspected(oracle, parity, prices, lam, unchanged=unchanged, answers=answers)
    means, before = seen.means, group_means(oracle, parity, labels_before)
    size, agreement = 0.5 * lam * seen.squared_norm, seen.agreement
    # The gap is the sum of two terms that are >= 0 for labels that meet epsilon, so no digits
    # cancel. Only settled prices bound anything; settling changes the slack of a row by at most
    # twice the change of its shift.
    settled = parity.settle(prices)
    support = parity.support(settled) - parity.product(settled, means)
    gap = seen.slack + 2.0 * parity.largest_shift(settled - prices) + support
    return stated_as(
        parity,
        means,
        before,
        size,
        agreement,
        gap,
        problem.costliest,
        distance=seen.squared_distance,
        expected_changes=seen.moved,
        simplex_violation=seen.simplex_violation,
        simplex_allowance=TOLERANCE[problem.rows.dtype] if unchanged else PROVEN,
    )


def stated_as(
    parity: Parity,
    means: Floats,
    before: Floats,
    size: float,
    agreement: float,
    gap: float,
    costliest: float,
    **seen: float,
) -> Certificate:
    """State what holds for labels of these group means, and for those that came in.

    Parameters
    ----------
    parity : Parity
    means, before : ndarray of shape (n_groups, n_outcomes)
    size, agreement : float
        The two terms of the objective.
    gap : float
        By how much other labels may be better.
    costliest : float
        The largest cost of a change; 0 without costs.
    **seen : float
        The other numbers of the certificate.
    """
    scale = max(size + abs(agreement), costliest)
    return Certificate.stated(parity, means, before, size - agreement, gap, scale, **seen)


def measured(
    members: Sequence[Member], share: Floats, means: Floats, before: Floats
) -> tuple[FamilyProof, ...]:
    """Measure group means, before and now, against the bound of every family."""
    return tuple(
        FamilyProof(
            name=member.name,
            bound=member.bound.name,
            epsilon=member.bound.epsilon,
            measure=member.measure(means[member.groups], share[member.groups]),
            measure_before=member.measure(before[member.groups], share[member.groups]),
            excess=float(member.violation(means[member.groups], share[member.groups]).max()),
            groups=member.groups,
            offsets=member.offsets,
        )
        for member in members
    )


def between_groups(members: Sequence[Member], means: Floats) -> Floats:
    """Return the disparity of each class, over all families of groups.

    Where there are moments of continuous attributes alone, it is the largest of them.
    """
    of_groups = [member.groups for member in members if member.bound.compares_groups]
    if of_groups:
        return np.asarray(np.max([np.ptp(means[groups], axis=0) for groups in of_groups], axis=0))
    return np.asarray(np.abs(means).max(axis=0))
