"""What a result says: which labels move where, which constraints make them, an account in a few lines, and all of it as plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from r2b._constraints.families.doubts import listed
from r2b._constraints.parity import MomentBound
from r2b._data.arrays import Array, Floats, Places
from r2b._data.attributes import CATEGORICAL
from r2b._data.compute import parts_of
from r2b._data.values import json_value, written
from r2b._labels.realised import Realised, promised_parity
from r2b._solve.certificate import PROVEN, Certificate
from r2b.errors import RowsUnavailableError

if TYPE_CHECKING:
    from r2b._labels.labels import FairLabels
    from r2b._labels.rule import Solution

FORMAT = "r2b-solution"
VERSION = 3
_PLAIN = 2  # what a file without offsets is written as, for releases that know no other

MEASURES = {
    "range": "largest difference",
    "to_overall": "largest distance from all",
    "ratio": "shortfall of the ratio",
    "target": "twice the distance from the target",
    "moments": "largest moment",
}

_PART = 1 << 20  # flows that are looked at together
_NOTHING = 1e-9  # of the weight: a flow this small is rounding
_SHOWN = 5
_SHOWN_FAMILIES = 12


@dataclass(frozen=True)
class Change:
    """Weight of one group that leaves one class for another, in expectation.

    Attributes
    ----------
    group, old, new : object
        Names as they came in.
    weight : float
        Rows (or their weight) expected to move.
    share : float
        The same as a share of the group's rows with the old label.
    """

    group: Any
    old: Any
    new: Any
    weight: float
    share: float


def heaviest_flows(
    answers: Callable[[Places, Places], Floats],
    weights: Floats,
    groups: Array,
    classes: Array,
    n: int,
) -> list[Change]:
    """List the ``n`` heaviest flows, without the answers of all groups and classes at once: they can be more than memory holds.

    Parameters
    ----------
    answers : callable
        From groups and old classes, arrays of shape (m,), to the distributions of their new
        classes, of shape (m, n_classes).
    weights : ndarray of shape (n_groups, n_classes)
        Weight of each (group, old label).
    groups, classes : ndarray
        Names.
    n : int

    Examples
    --------
    >>> channel, names = np.array([[[0.75, 0.25], [0.0, 1.0]]]), np.array(["no", "yes"])
    >>> heaviest_flows(lambda cells, old: channel[cells, old], np.array([[8.0, 2.0]]), np.array(["all"]), names, 1)[0].weight
    2.0
    """
    pairs, n_classes = np.nonzero(weights), len(classes)
    flows, places = np.zeros(0), np.zeros(0, dtype=np.int64)
    for part in parts_of(len(pairs[0]), max(1, _PART // n_classes)):
        cells, old = pairs[0][part], pairs[1][part]
        flow = answers(cells, old) * weights[cells, old][:, None]
        flow[np.arange(len(old)), old] = 0.0
        # The earliest of equal ones first: earlier parts stand before this one, and sorting is
        # stable.
        flows = np.concatenate([flows, flow.ravel()])
        places = np.concatenate([places, np.arange(flow.size) + part.start * n_classes])
        kept = np.flatnonzero(flows > _NOTHING * float(weights.sum()))
        kept = kept[largest_first(flows[kept], n, float(weights.sum()))]
        flows, places = flows[kept], places[kept]
    found = []
    for weight, place in zip(flows.tolist(), places.tolist(), strict=True):
        pair, new = divmod(place, n_classes)
        cell, old_class = int(pairs[0][pair]), int(pairs[1][pair])
        names = _named(groups, cell), _named(classes, old_class), _named(classes, new)
        found.append(Change(*names, weight, weight / float(weights[cell, old_class])))
    return found


def largest_first(values: Floats, n: int, scale: float = 1.0) -> Places:
    """Give the places of the ``n`` largest values, the earliest of equal ones first.

    Values that differ by rounding are equal: which of them comes out larger depends on the
    processor. Of two groups, for one, each bears the same cost.

    Parameters
    ----------
    values : ndarray of shape (m,)
    n : int
    scale : float
        What is 1e-12 of it is rounding.

    Examples
    --------
    >>> largest_first(np.array([0.1, 0.3, 0.2, 0.1 + 0.2]), 2)
    array([1, 3])
    """
    falling = -np.round(values / scale, 12)
    if 0 < n < len(values):
        candidates = np.flatnonzero(falling <= np.partition(falling, n - 1)[n - 1])
        return candidates[np.argsort(falling[candidates], kind="stable")[:n]]
    return np.argsort(falling, kind="stable")[: max(n, 0)]


@dataclass(frozen=True)
class MeanChange:
    """The mean of one class in one group, before and after; for a continuous attribute the moment with one of its functions.

    Attributes
    ----------
    family : str
    group, label : object
        Names as they came in.
    before, after : float
    """

    family: str
    group: Any
    label: Any
    before: float
    after: float


def _mean_changes(fair: FairLabels, n: int) -> list[MeanChange]:
    """List the ``n`` means of groups that change most: what can be said where a row is in several groups, or in none.

    Of continuous attributes they are the moments, where there are no groups.
    """
    moments, before, after = (
        _only_moments(fair),
        fair.certificate.means_before,
        fair.certificate.means,
    )
    members = [
        each for each in fair.families.members if moments or not isinstance(each.bound, MomentBound)
    ]
    listed = [
        (each.name, group)
        for each in members
        for group in range(each.groups.start, each.groups.stop)
    ]
    size = np.abs(after - before)[[group for _, group in listed]]
    found = []
    for place, label in zip(
        *np.unravel_index(largest_first(size.ravel(), n), size.shape), strict=True
    ):
        if size[place, label] > _NOTHING:
            (family, group), name = listed[place], _named(fair.classes, int(label))
            found.append(
                MeanChange(
                    family,
                    _named(fair.groups, group),
                    name,
                    float(before[group, label]),
                    float(after[group, label]),
                )
            )
    return found


def _named(names: Array, place: int) -> Any:
    """Give one name as a Python value."""
    return names[place : place + 1].tolist()[0]


@dataclass(frozen=True)
class ConstraintCost:
    """What holding the mean of one class in one group costs.

    Attributes
    ----------
    family, group, label : object
        Names as they came in.
    price : float
        Positive where the bound keeps the class down in this group, negative where it brings it up.
    rate : float
        How fast the objective falls, per unit of weight, as this one mean is let go: the price
        times the group's share. The squared distance falls twice as fast where lam is 1. Bounds
        that hold each other in place bring less when only one is let go.
    """

    family: str
    group: Any
    label: Any
    price: float
    rate: float


def costliest_constraints(fair: Solution, n: int) -> list[ConstraintCost]:
    """List the ``n`` entries of the prices that cost most."""
    rate = np.abs(fair.prices) * fair.families.share[:, None]
    found = []
    for group, label in zip(
        *np.unravel_index(largest_first(rate.ravel(), n), rate.shape), strict=True
    ):
        if rate[group, label] > 0:
            family = next(
                each.name
                for each in fair.families.members
                if each.groups.start <= group < each.groups.stop
            )
            names = _named(fair.groups, int(group)), _named(fair.classes, int(label))
            found.append(
                ConstraintCost(
                    family, *names, float(fair.prices[group, label]), float(rate[group, label])
                )
            )
    return found


def content_of(fair: FairLabels) -> dict[str, Any]:
    """Give everything but the rows as plain values, as they stand in the file."""
    content: dict[str, Any] = json_value(
        {
            "format": FORMAT,
            "version": _PLAIN
            if fair.splits is None
            and all(each.bound.offsets is None for each in fair.families.members)
            else VERSION,
            "schema": fair.schema.to_json(),
            "families": fair.families.to_json(),
            "prices": fair.prices,
            "lam": fair.lam,
            "unchanged": fair.unchanged,
            "costs": fair.costs,
            "table": fair.table,
            **({} if fair.splits is None else {"splits": fair.splits._asdict()}),
            "status": fair.status.value,
            "residual": fair.residual,
            "certificate": fair.certificate.to_json(),
            "history": [
                [step.iteration, step.stage, step.residual, step.seconds] for step in fair.history
            ],
        }
    )
    return content


def account(fair: FairLabels, leaving: tuple[str, Realised] | None = None) -> str:
    """Say in a few lines what was done, what holds and what it cost.

    Parameters
    ----------
    fair : FairLabels
    leaving : tuple (str, Realised), optional
        The form in which labels leave, one class per row, and what holds for them. Without it what
        is said is of distributions.
    """
    proof = fair.certificate
    n_rows = None if fair.rows is None else fair.rows.n_rows
    rows = "" if n_rows is None else f"{n_rows:,} row{'s' if n_rows > 1 else ''}, "
    lines = [
        f"Fair labels: {rows}{len(fair.classes):,} classes, {len(fair.groups):,} group{'s' if len(fair.groups) > 1 else ''}",
        f"  status            {fair.status.value}. {fair.status.advice}",
        *_parity(fair, leaving),
        *_families(proof, None if leaving is None else leaving[1]),
        f"  squared distance  {proof.distance:.6f} per row",
        f"  expected changes  {100 * proof.expected_changes:.2f} % of labels",
        f"  certificate       gap {abs(proof.relative_gap):.0e}, above epsilon {proof.excess:.0e}, "
        f"off the simplex {proof.simplex_violation:.0e}",
    ]
    lines += _notes(fair)
    return "\n".join(lines + _changes(fair))


def _parity(fair: FairLabels, leaving: tuple[str, Realised] | None) -> list[str]:
    proof = fair.certificate
    # One family of groups and the paper's bound: the parity above says it all. Files of the first
    # version keep no families.
    bound = f"  (epsilon {format_epsilon(proof.epsilon)})" if _is_plain(proof) else ""
    if leaving is None:
        return [f"  parity            {proof.disparity_before:.4f} -> {proof.disparity:.4f}{bound}"]
    form, found = leaving
    lines = [
        f"  parity            {proof.disparity_before:.4f} -> {found.disparity:.4f} in these labels, one class per row ({form})",
        f"                    {proof.disparity:.4f} as probabilities{bound}",
    ]
    if found.excess > PROVEN:
        lines.append(f"                    {found.excess:.4f} above the bound: {_why(fair, form)}")
    return lines


def _why(fair: FairLabels, form: str) -> str:
    """Say why whole labels are not where the probabilities are, and what is promised of them."""
    if form == "sample":
        return "drawn labels are in parity on average; 'round' is nearer, 'soft' and 'expand' are exact"
    try:
        promised = promised_parity(fair.families, fair.certificate, fair.rounding_bound)
    except RowsUnavailableError:
        promised = np.inf
    # every parity is below 1
    until = f"; parity up to {promised:.4f} is promised" if promised < 1 else ""
    return f"whole rows cannot match probabilities exactly{until}; 'soft' and 'expand' are exact"


def _changes(fair: FairLabels) -> list[str]:
    if fair.rows is None:
        return []
    changes, means = largest_changes(fair, _SHOWN)
    # Names of groups of several columns say which themselves.
    alone = fair.schema.columns[0] if fair.schema.kinds == (CATEGORICAL,) else ""
    start = f"    {written(alone)}=" if alone else "    "
    lines = [f"{start}{_change(each, weighted=fair.rows.weighted)}" for each in changes] or [
        start + _mean_change(each) for each in means
    ]
    return [f"  largest changes{f' of {means_of(fair)}' if means else ''}", *lines] if lines else []


def largest_changes(fair: FairLabels, n: int) -> tuple[list[Change], list[MeanChange]]:
    """List the heaviest flows or, where there are none, the group means that change most."""
    if has_flows(fair):
        return [] if fair.rows is None else fair.rows.largest_changes(fair.rule, n), []
    return [], _mean_changes(fair, n)


def has_flows(fair: Solution) -> bool:
    """Tell whether labels go from one class to another.

    A row of probabilities has no class to leave, and one of uncertain group or with a number for an
    attribute is a cell of its own.
    """
    return set(fair.schema.kinds) == {CATEGORICAL} and not fair.schema.is_soft


def no_rows() -> RowsUnavailableError:
    """Build the error for what needs rows, of an object that was loaded from a file."""
    remedy = "Pass the rows to transform(y, sensitive_features=...)."
    return RowsUnavailableError(
        "This object was loaded from a file, which holds prices and certificate but no rows.",
        remedy=remedy,
    )


def means_of(fair: FairLabels) -> str:
    """Name what changes where there are no flows."""
    return "moments" if _only_moments(fair) else "group means"


def _only_moments(fair: FairLabels) -> bool:
    return all(isinstance(member.bound, MomentBound) for member in fair.families.members)


def _mean_change(c: MeanChange) -> str:
    before, after = (round(mean, 4) + 0.0 for mean in (c.before, c.after))  # no -0.0000
    return f"{written(c.group)}: {written(c.label)} {before:.4f} -> {after:.4f}"


def _change(c: Change, *, weighted: bool) -> str:
    # Flows between many classes are far smaller than a row each.
    moved = f"{c.weight:,.1f}" if c.weight >= 0.05 else f"{c.weight:.2g}"
    amount = f"weight {moved}" if weighted else f"{moved} rows"
    return f"{written(c.group)}: {written(c.old)} -> {written(c.new)}, {amount} ({100 * c.share:.1f} % of that cell)"


def _is_plain(proof: Certificate) -> bool:
    return len(proof.families) < 2 and all(
        family.bound == "range" and family.offsets is None for family in proof.families
    )


def _families(proof: Certificate, found: Realised | None) -> list[str]:
    if _is_plain(proof):
        return []
    lines = ["  families"]
    shown = proof.families[:_SHOWN_FAMILIES]
    for place, family in enumerate(shown):
        before, soft = float(family.measure_before.max()), float(family.measure.max())
        after = (
            f"{soft:.4f}"
            if found is None
            else f"{float(found.families[place].measure.max()):.4f}, {soft:.4f} as probabilities"
        )
        what = MEASURES[family.bound] + (
            "" if family.offsets is None else " of means with their offsets"
        )
        lines.append(
            f"    {written(family.name)}: {what} {before:.4f} -> {after}  (epsilon {format_epsilon(family.epsilon)})"
        )
    more = len(proof.families) - len(shown)
    return lines + ([f"    and {more} more"] if more else [])


def _notes(fair: FairLabels) -> list[str]:
    families, notes = fair.families, []
    free = np.all(
        [np.isinf(family.epsilon) for family in fair.certificate.families or (fair.certificate,)],
        axis=0,
    )
    if free.any():
        notes.append(
            f"  not bound         {free.sum()} of {len(free)} classes: {listed(map(written, fair.classes[free]))}"
        )
    if families.left_out > 0:
        whose = "rows" if fair.weighted is False else "weight"
        # Without a price the closest labels are the old ones, except where lam or costs move even
        # those.
        keeps = fair.costs is None and (fair.lam == 1 or (fair.lam < 1 and not fair.schema.is_soft))
        kept = ", with labels as they were" if keeps else ""
        notes.append(
            f"  left out          {100 * families.left_out:.2f} % of the {whose}, in no group{kept}"
        )
    if families.excluded:
        notes.append(f"  too small         {listed(map(written, families.excluded), '; ')}")
    if families.absent:
        absent = (f"{written(each.group)} in {written(each.stratum)}" for each in families.absent)
        notes.append(f"  absent            {listed(absent, '; ')}")
    return notes


def format_epsilon(values: Iterable[Any]) -> str:
    """Write the epsilons of the classes: one number where they are the same."""
    numbers = [float(value) for value in values]
    bounded = [number for number in numbers if math.isfinite(number)]
    if 0 < len(bounded) < len(numbers):
        return f"{format_epsilon(bounded)}, for {len(bounded)} of {len(numbers)} classes"
    low, high = min(numbers), max(numbers)
    return f"{low:g}" if low == high else f"{low:g} to {high:g} by class"
