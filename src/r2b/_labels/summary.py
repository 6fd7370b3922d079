"""A summary of a result: which labels change, and which constraints cause it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from r2b._constraints.bounds import BOUNDS, MomentBound
from r2b._constraints.families.doubts import listed
from r2b._data.arrays import Array, Floats, Places
from r2b._data.attributes import CATEGORICAL
from r2b._data.compute import parts_of
from r2b._data.values import written
from r2b._labels.realised import Realised, promised_parity
from r2b._solve.certificate import PROVEN
from r2b.errors import RowsUnavailableError

if TYPE_CHECKING:
    from r2b._labels.labels import FairLabels

MEASURES = {name: bound.description for name, bound in BOUNDS.items()}

FLOWS_AT_ONCE = 1 << 20  # flows computed together: 8 MB
NEGLIGIBLE = 1e-9  # of the weight: smaller flows are rounding
SHOWN_FAMILIES = 12


@dataclass(frozen=True)
class Change:
    """Weight of one group that is expected to change from one class to another.

    Attributes
    ----------
    group, old, new : object
        Names as they came in.
    weight : float
        Rows (or their weight) expected to change.
    share : float
        The same as a share of the group's rows with the old label.
    """

    group: Any
    old: Any
    new: Any
    weight: float
    share: float


@dataclass(frozen=True)
class MeanChange:
    """The mean of one class in one group, before and after; of a continuous attribute a moment.

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


@dataclass(frozen=True)
class ConstraintCost:
    """What it costs to bound the mean of one class in one group.

    Attributes
    ----------
    family, group, label : object
        Names as they came in.
    price : float
        Positive if the bound keeps the class down in this group, negative if it brings it up.
    rate : float
        How fast the objective falls, per unit of weight, as this one mean is let go: the price
        times the group's share. The squared distance falls twice as fast if lam is 1. Letting go of
        only one of several bounds that depend on each other gains less.
    """

    family: str
    group: Any
    label: Any
    price: float
    rate: float


def heaviest_flows(
    answers: Callable[[Places, Places], Floats],
    weights: Floats,
    groups: Array,
    classes: Array,
    n: int,
) -> list[Change]:
    """List the ``n`` heaviest flows between classes.

    Parameters
    ----------
    answers : callable
        From old classes and cells, arrays of shape (m,), to the distributions of their new
        classes, of shape (m, n_classes).
    weights : ndarray of shape (n_cells, n_classes)
        Weight of each (cell, old class).
    groups, classes : ndarray
        Names.
    n : int

    Examples
    --------
    >>> channel, names = np.array([[[0.75, 0.25], [0.0, 1.0]]]), np.array(["no", "yes"])
    >>> weights, all_rows = np.array([[8.0, 2.0]]), np.array(["all"])
    >>> def answers(old, cells):
    ...     return channel[cells, old]
    >>> heaviest_flows(answers, weights, all_rows, names, 1)[0].weight
    2.0
    """
    (cells, old), total, found = np.nonzero(weights), float(weights.sum()), []
    for part in parts_of(len(cells), max(1, FLOWS_AT_ONCE // len(classes))):
        flows = answers(old[part], cells[part]) * weights[cells[part], old[part]][:, None]
        flows[np.arange(len(flows)), old[part]] = 0.0
        row, new = np.nonzero(flows > NEGLIGIBLE * total)
        found.append((cells[part][row], old[part][row], new, flows[row, new]))
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    best = largest_first(columns[-1], n, total)
    return [
        Change(
            _name(groups, cell),
            _name(classes, before),
            _name(classes, after),
            weight,
            weight / float(weights[cell, before]),
        )
        for cell, before, after, weight in zip(*(c[best].tolist() for c in columns), strict=True)
    ]


def largest_first(values: Floats, n: int, scale: float = 1.0) -> Places:
    """Return the places of the ``n`` largest values, the earliest of equal ones first.

    Values that differ by less than 1e-12 of the scale are equal: which of them comes out larger
    depends on the processor. The two groups of a family, for example, have the same cost.

    Examples
    --------
    >>> largest_first(np.array([0.1, 0.3, 0.2, 0.1 + 0.2]), 2)
    array([1, 3])
    """
    return np.argsort(-np.round(values / scale, 12), kind="stable")[: max(n, 0)]


def mean_changes(fair: FairLabels, n: int) -> list[MeanChange]:
    """List the ``n`` group means that change most; if there are only moments, the moments."""
    before, after = fair.certificate.means_before, fair.certificate.means
    size = np.abs(after - before)
    if not _only_moments(fair):
        for member in fair.families.members:
            size[member.groups] *= not isinstance(member.bound, MomentBound)
    found = _largest_entries(size, n, NEGLIGIBLE)
    return [MeanChange(*_names(fair, *at), float(before[at]), float(after[at])) for at in found]


def costliest_constraints(fair: FairLabels, n: int) -> list[ConstraintCost]:
    """List the ``n`` entries of the prices that cost most."""
    prices, rate = fair.prices, np.abs(fair.prices) * fair.families.share[:, None]
    found = _largest_entries(rate, n, 0.0)
    return [ConstraintCost(*_names(fair, *at), float(prices[at]), float(rate[at])) for at in found]


def _largest_entries(size: Floats, n: int, least: float) -> list[tuple[int, int]]:
    """Return group and outcome of the largest entries of a table, if they are above a number."""
    rows, columns = np.unravel_index(largest_first(size.ravel(), n), size.shape)
    places = zip(rows.tolist(), columns.tolist(), strict=True)
    return [place for place in places if size[place] > least]


def _name(names: Array, place: int) -> Any:
    return names[place : place + 1].tolist()[0]


def _names(fair: FairLabels, group: int, label: int) -> tuple[str, Any, Any]:
    """Return the names of a group's family, of the group and of a class or outcome."""
    members = fair.families.members
    family = next(m.name for m in members if m.groups.start <= group < m.groups.stop)
    return family, _name(fair.groups, group), _name(fair.outcomes, label)


def largest_changes(fair: FairLabels, n: int) -> tuple[list[Change], list[MeanChange]]:
    """List the heaviest flows or, if there are none, the group means that change most."""
    if has_flows(fair):
        return [] if fair.rows is None else fair.rows.largest_changes(fair.rule, n), []
    return [], mean_changes(fair, n)


def has_flows(fair: FairLabels) -> bool:
    """Return whether labels change from one class to another.

    A row of probabilities has no old class, and a row of uncertain group or with a number for an
    attribute is a cell of its own.
    """
    return fair.schema.is_categorical and not fair.schema.is_soft


def means_of(fair: FairLabels) -> str:
    """Name what changes if there are no flows."""
    return "moments" if _only_moments(fair) else "group means"


def _only_moments(fair: FairLabels) -> bool:
    return all(isinstance(member.bound, MomentBound) for member in fair.families.members)


def summarize(fair: FairLabels, drawn: tuple[str, Realised] | None = None) -> str:
    """Describe in a few lines what was done, what holds and what it cost.

    Parameters
    ----------
    fair : FairLabels
    drawn : tuple (str, Realised), optional
        The form of one class per row in which labels are returned, and what holds for them. By
        default probabilities are described.
    """
    proof, rows = fair.certificate, None if fair.rows is None else fair.rows.n_rows
    sizes = [] if rows is None else [counted(rows, "row")]
    sizes += [f"{len(fair.classes):,} classes", counted(len(fair.groups), "group")]
    lines = [
        f"Fair labels: {', '.join(sizes)}",
        f"  status            {fair.status.value}. {fair.status.advice}",
        *_parity(fair, drawn),
        *_families(fair, None if drawn is None else drawn[1]),
        f"  squared distance  {proof.distance:.6f} per row",
        f"  expected changes  {100 * proof.expected_changes:.2f} % of labels",
        f"  certificate       gap {abs(proof.relative_gap):.0e}, above epsilon {proof.excess:.0e}, "
        f"off the simplex {proof.simplex_violation:.0e}",
        *_notes(fair),
        *_changes(fair),
    ]
    return "\n".join(lines)


def counted(n: int, one: str, several: str | None = None) -> str:
    """Write a number and its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(2_000, "row"), counted(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{n:,} {one if n == 1 else several or one + 's'}"


def _parity(fair: FairLabels, drawn: tuple[str, Realised] | None) -> list[str]:
    proof = fair.certificate
    # With one family and the paper's bound this line says it all.
    bound = f"  (epsilon {format_epsilon(proof.epsilon)})" if _is_plain(fair) else ""
    start = f"  disparity         {proof.disparity_before:.4f} ->"
    if drawn is None:
        return [f"{start} {proof.disparity:.4f}{bound}"]
    form, found = drawn
    lines = [
        f"{start} {found.disparity:.4f} in these labels, one class per row ({form})",
        f"{'':20}{proof.disparity:.4f} as probabilities{bound}",
    ]
    if found.excess > PROVEN:
        lines.append(f"{'':20}{found.excess:.4f} above the bound: {why_apart(fair, form)}")
    return lines


def why_apart(fair: FairLabels, form: str) -> str:
    """Explain why labels of one class per row are not where the probabilities are."""
    if form == "sample":
        return (
            "drawn labels are in parity on average; 'round' is nearer, 'soft' and 'expand' are "
            "exact"
        )
    try:
        promised = promised_parity(fair.families, fair.certificate, fair.rounding_bound)
    except RowsUnavailableError:
        promised = np.inf
    # Every disparity is below 1.
    until = f"; a disparity up to {promised:.4f} is promised" if promised < 1 else ""
    return f"whole rows cannot match probabilities exactly{until}; 'soft' and 'expand' are exact"


def _is_plain(fair: FairLabels) -> bool:
    families = fair.certificate.families
    return len(families) < 2 and all(f.bound == "range" and f.offsets is None for f in families)


def _families(fair: FairLabels, found: Realised | None) -> list[str]:
    if _is_plain(fair):
        return []
    lines, every = ["  families"], fair.certificate.families
    for place, family in enumerate(every[:SHOWN_FAMILIES]):
        after = f"{family.measure.max():.4f}"
        if found is not None:
            after = f"{found.families[place].measure.max():.4f}, {after} as probabilities"
        offsets = "" if family.offsets is None else " of means with their offsets"
        lines.append(
            f"    {written(family.name)}: {MEASURES[family.bound]}{offsets} "
            f"{family.measure_before.max():.4f} -> {after}  "
            f"(epsilon {format_epsilon(family.epsilon)})"
        )
    more = len(every) - SHOWN_FAMILIES
    return lines + ([f"    and {more} more"] if more > 0 else [])


def _notes(fair: FairLabels) -> list[str]:
    families, proof, notes = fair.families, fair.certificate, {}
    free = np.all([np.isinf(family.epsilon) for family in proof.families or (proof,)], axis=0)
    if free.any():
        names = listed(map(written, fair.outcomes[free]))
        what = "classes" if families.outcomes is None else "outcomes"
        notes["not bound"] = f"{free.sum()} of {len(free)} {what}: {names}"
    if families.outcomes is not None:
        notes["compared"] = listed(map(written, families.outcomes.names))
    if families.left_out > 0:
        whose = "rows" if fair.weighted is False else "weight"
        # Without a price the closest labels are the old ones, unless lam or costs change even
        # those.
        keeps = fair.costs is None and (fair.lam == 1 or (fair.lam < 1 and not fair.schema.is_soft))
        kept = ", with labels as they were" if keeps else ""
        notes["left out"] = f"{100 * families.left_out:.2f} % of the {whose}, in no group{kept}"
    if families.excluded:
        notes["too small"] = listed(map(written, families.excluded), "; ")
    if families.absent:
        absent = (f"{written(each.group)} in {written(each.stratum)}" for each in families.absent)
        notes["absent"] = listed(absent, "; ")
    return [f"  {name:18}{text}" for name, text in notes.items()]


def _changes(fair: FairLabels) -> list[str]:
    if fair.rows is None:
        return []
    changes, means = largest_changes(fair, n=5)
    # Names of groups of several columns include the columns.
    alone = fair.schema.columns[0] if fair.schema.kinds == (CATEGORICAL,) else ""
    start = f"    {written(alone)}=" if alone else "    "
    lines = [start + _flow(each, weighted=fair.rows.weighted) for each in changes]
    lines += [start + _mean(each) for each in means]
    return [f"  largest changes{f' of {means_of(fair)}' if means else ''}", *lines] if lines else []


def _mean(c: MeanChange) -> str:
    before, after = (round(mean, 4) + 0.0 for mean in (c.before, c.after))  # no -0.0000
    return f"{written(c.group)}: {written(c.label)} {before:.4f} -> {after:.4f}"


def _flow(c: Change, *, weighted: bool) -> str:
    # Flows between many classes are far smaller than a row each.
    moved = f"{c.weight:,.1f}" if c.weight >= 0.05 else f"{c.weight:.2g}"
    amount = f"weight {moved}" if weighted else f"{moved} rows"
    share = f"{100 * c.share:.1f} % of that cell"
    return f"{written(c.group)}: {written(c.old)} -> {written(c.new)}, {amount} ({share})"


def format_epsilon(values: Iterable[Any]) -> str:
    """Write the epsilons of the classes: one number if they are the same."""
    numbers = [float(value) for value in values]
    bounded = [number for number in numbers if math.isfinite(number)]
    if 0 < len(bounded) < len(numbers):
        return f"{format_epsilon(bounded)}, for {len(bounded)} of {len(numbers)} classes"
    low, high = min(numbers), max(numbers)
    return f"{low:g}" if low == high else f"{low:g} to {high:g} by class"
