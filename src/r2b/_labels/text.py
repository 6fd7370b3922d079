"""A plain account of a result, as complete as any other rendering of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from r2b._constraints.parity import MomentBound
from r2b._data.attributes import CATEGORICAL
from r2b._data.values import written
from r2b._labels.changes import largest_mean_changes
from r2b._labels.realised import Realised, promised_parity
from r2b._solve.certificate import PROVEN
from r2b.errors import RowsUnavailableError

if TYPE_CHECKING:
    from r2b._labels.changes import Change, MeanChange
    from r2b._labels.labels import FairLabels
    from r2b._solve.certificate import Certificate

_SHOWN = 5
_SHOWN_FAMILIES = 12


def account(fair: FairLabels, leaving: tuple[str, Realised] | None = None) -> str:
    """Say in a few lines what was done, what holds and what it cost.

    Parameters
    ----------
    fair : FairLabels
    leaving : tuple (str, Realised), optional
        The form in which labels leave, one class per row, and what holds for them. Without it what is said is of distributions.
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
        f"  certificate       {_proof(proof)}",
    ]
    lines += _notes(fair)
    return "\n".join(lines + _changes(fair))


def _parity(fair: FairLabels, leaving: tuple[str, Realised] | None) -> list[str]:
    proof = fair.certificate
    bound = _plain_bound(proof)
    if leaving is None:
        return [f"  parity            {proof.parity_before:.4f} -> {proof.parity:.4f}{bound}"]
    form, found = leaving
    lines = [
        f"  parity            {proof.parity_before:.4f} -> {found.parity:.4f} in these labels, one class per row ({form})",
        f"                    {proof.parity:.4f} as probabilities{bound}",
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
    until = f"; parity up to {promised:.4f} is promised" if promised < 1 else ""  # every parity is below 1
    return f"whole rows cannot match probabilities exactly{until}; 'soft' and 'expand' are exact"


def _changes(fair: FairLabels) -> list[str]:
    if fair.rows is None:
        return []
    if not only_categories(fair):
        means = mean_changes(fair, _SHOWN)
        return [f"  largest changes of {means_of(fair)}", *(_mean_change(each) for each in means)] if means else []
    changes = fair.largest_changes(_SHOWN)
    return ["  largest changes", *(_change(change, weighted=fair.rows.weighted) for change in changes)] if changes else []


def only_categories(fair: FairLabels) -> bool:
    """Tell whether all attributes are categories: a row of uncertain group, or with a number for an attribute, is a cell of its own."""
    return set(fair.schema.kinds) == {CATEGORICAL}


def mean_changes(fair: FairLabels, n: int) -> list[MeanChange]:
    """List the means of groups that change most; the moments of continuous attributes where there are no groups."""
    moments = _only_moments(fair)
    families = [(each.name, each.groups) for each in fair.families.members if moments or not isinstance(each.bound, MomentBound)]
    proof = fair.certificate
    return largest_mean_changes(families, proof.means_before, proof.means, fair.groups, fair.classes, n)


def means_of(fair: FairLabels) -> str:
    """Name what :func:`mean_changes` lists."""
    return "moments" if _only_moments(fair) else "group means"


def _only_moments(fair: FairLabels) -> bool:
    return all(isinstance(member.bound, MomentBound) for member in fair.families.members)


def _mean_change(c: MeanChange) -> str:
    before, after = (round(mean, 4) + 0.0 for mean in (c.before, c.after))  # no -0.0000
    return f"    {written(c.group)}: {written(c.label)} {before:.4f} -> {after:.4f}"


def _change(c: Change, *, weighted: bool) -> str:
    # Flows between many classes are far smaller than a row each.
    moved = f"{c.weight:,.1f}" if c.weight >= 0.05 else f"{c.weight:.2g}"
    amount = f"weight {moved}" if weighted else f"{moved} rows"
    return f"    {written(c.group)}: {written(c.old)} -> {written(c.new)}, {amount} ({100 * c.share:.1f} % of that cell)"


MEASURES = {
    "range": "largest difference",
    "to_overall": "largest distance from all",
    "ratio": "shortfall of the ratio",
    "target": "twice the distance from the target",
    "moments": "largest moment",
}


def _plain_bound(proof: Certificate) -> str:
    # One family of groups and the paper's bound: the parity above says it all. Files of the first version keep no families.
    return f"  (epsilon {_bound(proof.epsilon)})" if _is_plain(proof) else ""


def _is_plain(proof: Certificate) -> bool:
    return len(proof.families) < 2 and all(family.bound == "range" for family in proof.families)


def _families(proof: Certificate, found: Realised | None) -> list[str]:
    if _is_plain(proof):
        return []
    lines = ["  families"]
    shown = proof.families[:_SHOWN_FAMILIES]
    for place, family in enumerate(shown):
        before, soft = float(family.measure_before.max()), float(family.measure.max())
        after = f"{soft:.4f}" if found is None else f"{float(found.families[place].measure.max()):.4f}, {soft:.4f} as probabilities"
        lines.append(f"    {written(family.name)}: {MEASURES[family.bound]} {before:.4f} -> {after}  (epsilon {_bound(family.epsilon)})")
    more = len(proof.families) - len(shown)
    return lines + ([f"    and {more} more"] if more else [])


def _notes(fair: FairLabels) -> list[str]:
    families, notes = fair.families, []
    free = np.all([np.isinf(family.epsilon) for family in fair.certificate.families or (fair.certificate,)], axis=0)
    if free.any():
        notes.append(f"  not bound         {free.sum()} of {len(free)} classes: {_listed(map(written, fair.classes[free]), ', ')}")
    if families.left_out > 0:
        whose = "rows" if fair.weighted is False else "weight"
        notes.append(f"  left out          {100 * families.left_out:.2f} % of the {whose}, in no group, with labels as they were")
    if families.excluded:
        notes.append(f"  too small         {_listed(map(written, families.excluded), '; ')}")
    if families.absent:
        absent = (f"{written(each.group)} in {written(each.stratum)}" for each in families.absent)
        notes.append(f"  absent            {_listed(absent, '; ')}")
    return notes


def _listed(texts: Iterable[str], between: str) -> str:
    every = list(texts)
    more = len(every) - _SHOWN
    return between.join(every[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _proof(proof: Certificate) -> str:
    return f"gap {abs(proof.relative_gap):.0e}, above epsilon {proof.excess:.0e}, off the simplex {proof.simplex_violation:.0e}"


def _bound(epsilon: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    bounded = epsilon[np.isfinite(epsilon)]
    if 0 < len(bounded) < len(epsilon):
        return f"{_bound(bounded)}, for {len(bounded)} of {len(epsilon)} classes"
    low, high = float(epsilon.min()), float(epsilon.max())
    return f"{low:g}" if low == high else f"{low:g} to {high:g} by class"
