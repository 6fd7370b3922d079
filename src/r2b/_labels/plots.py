"""Group means before and after, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from r2b._data.arrays import Floats
from r2b._labels.account import largest_first
from r2b._plot import group_means, one_of, percent, shortened

if TYPE_CHECKING:
    from r2b._labels.labels import FairLabels


def plot_means(fair: FairLabels, ax: Any, family: str | None) -> Any:
    """Draw the groups of one family, by default the one farthest from parity; of a continuous attribute the moments.

    Examples
    --------
    >>> import r2b
    >>> fair = r2b.debias(["a", "b", "b", "a", "a", "a"], sensitive_features=["f", "f", "f", "m", "m", "m"], epsilon=0)
    >>> print(plot_means(fair, None, None).get_title("left"))
    Group means, before and after
    parity 66.67 % before, 0.00 % after; 33.33 % of labels change
    """
    proof, found = fair.certificate, fair.certificate.families
    before, after = (
        [_apart(means[each.groups], each.bound) for each in found]
        for means in (proof.means_before, proof.means)
    )
    # Moments are no parities: they are drawn where nothing else is, or by name.
    size = [
        float(apart.max()) - (each.bound == "moments")
        for apart, each in zip(before, found, strict=True)
    ]
    place = (
        int(largest_first(np.array(size), 1)[0])
        if family is None
        else one_of([each.name for each in found], family)
    )
    chosen, moments = found[place], found[place].bound == "moments"
    numbers = [
        f"{each[place].max():.4f}" if moments else percent(float(each[place].max()))
        for each in (before, after)
    ]
    what = ("Moments", "largest moment") if moments else ("Group means", "parity")
    name = f" by {shortened(chosen.name)}" if chosen.name not in ("", "groups") else ""
    changes = f"{percent(proof.expected_changes)} of labels change"
    lines = [
        f"{what[0]}{name}, before and after",
        f"{what[1]} {numbers[0]} before, {numbers[1]} after; {changes}",
    ]
    tables = {"before": proof.means_before[chosen.groups], "after": proof.means[chosen.groups]}
    groups = fair.groups[chosen.groups].tolist()
    return group_means(
        ax, "FairLabels", lines, fair.classes, groups, tables, before[place], moments=moments
    )


def _apart(means: Floats, bound: str) -> Floats:
    """Give for each class how far a family is from parity."""
    return np.asarray(np.abs(means).max(axis=0) if bound == "moments" else np.ptp(means, axis=0))
