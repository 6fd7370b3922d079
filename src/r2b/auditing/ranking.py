"""Groups of all families in one list: how far each is from its family, and whether chance explains it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from r2b.auditing.chance import QUANTILE, chance_of, p_value
from r2b.auditing.facts import FamilyAudit, RankedGroup
from r2b.inputs.vocabulary import plain_value

Floats = NDArray[np.float64]


def ranking(families: list[tuple[FamilyAudit, Floats | None]], n_largest: int) -> tuple[RankedGroup, ...]:
    """Put the groups in order: beyond chance first, then by falling deviation.

    Parameters
    ----------
    families : list of (FamilyAudit, ndarray of shape (n_permutations, n_groups) or None)
        Each with the deviations of its groups by chance.
    n_largest : int
    """
    once = list({family.name: (family, drawn) for family, drawn in families}.values())  # a family listed twice has its groups once
    farthest = _farthest([drawn for _, drawn in once if drawn is not None])
    ranked = [
        _ranked(family, group, None if drawn is None else drawn[:, group], farthest)
        for family, drawn in once
        for group in range(len(family.groups))
    ]
    return tuple(sorted(ranked, key=lambda each: (each.beyond_chance is False, -each.deviation))[:n_largest])


def _farthest(drawn: list[Floats]) -> Floats | None:
    """Give how far the farthest of all groups is in each permutation, in units of its own level."""
    if not drawn:
        return None
    return np.asarray(
        np.max([_in_units(deviations, np.quantile(deviations, QUANTILE, axis=0)).max(axis=1) for deviations in drawn], axis=0)
    )


def _in_units(deviation: Floats, level: Floats) -> Floats:
    # Where chance never moves a group, any deviation is beyond it.
    beyond = np.where(deviation > 0, np.inf, 0.0)
    return np.divide(deviation, level, out=beyond, where=level > 0)


def _ranked(family: FamilyAudit, group: int, by_chance: Floats | None, farthest: Floats | None) -> RankedGroup:
    away = np.abs(family.means[group] - family.overall)
    k = int(away.argmax())
    deviation = float(away[k])
    chance = adjusted = None
    if by_chance is not None and farthest is not None:
        chance = chance_of(deviation, by_chance)
        adjusted = p_value(float(_in_units(np.array([deviation]), np.array([chance.quantile]))[0]), farthest)
    return RankedGroup(
        family=family.name,
        group=family.groups[group],
        rows=float(family.rows[group]),
        share=float(family.share[group]),
        class_name=plain_value(family.classes[k]),
        mean=float(family.means[group, k]),
        overall=float(family.overall[k]),
        deviation=deviation,
        total_variation=float(away.sum() / 2),
        chance=chance,
        p_adjusted=adjusted,
    )
