"""Groups of all families in one list: how far each is from its family, and whether chance explains it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from r2b._audit.differences import SAME, RankedGroup
from r2b._audit.facts import FamilyAudit
from r2b._audit.resampling import FEWEST, chance_of, critical, p_value
from r2b._data.vocabulary import plain_value

Floats = NDArray[np.float64]
Drawn = tuple[FamilyAudit, Floats | None]


def ranking(families: list[Drawn], n_largest: int) -> tuple[tuple[FamilyAudit, ...], tuple[RankedGroup, ...]]:
    """Put the groups in order, beyond chance first, then by falling deviation; and tell every family what chance explains of its groups.

    One rule judges everything that an audit says of groups. In each permutation the deviation of a group is measured in units of its own
    level, and the farthest of all groups is kept: in 19 of 20 fair tables no group of any family is more than so many units out (the maxT
    of Westfall and Young). That many units are what chance explains of a group, and the sum of two what it explains of their difference.

    Parameters
    ----------
    families : list of (FamilyAudit, ndarray of shape (n_permutations, n_groups) or None)
        Each with the deviations of its groups by chance.
    n_largest : int
    """
    once = list({family.name: (family, drawn) for family, drawn in families}.values())  # a family listed twice has its groups once
    units = {family.name: _units(family, drawn) for family, drawn in once if drawn is not None}
    out = [(drawn / np.where(units[family.name] > 0, units[family.name], 1.0)).max(axis=1) for family, drawn in once if drawn is not None]
    farthest = np.max(out, axis=0) if out else None
    settled = tuple(_settled(family, units.get(family.name), farthest) for family, _ in families)
    drawn_of = {family.name: drawn for family, drawn in once}
    ranked = [
        _ranked(family, group, drawn_of[family.name], units.get(family.name), farthest)
        for family in {family.name: family for family in settled}.values()
        for group in range(len(family.groups))
    ]
    return settled, tuple(sorted(ranked, key=lambda each: (each.beyond_chance is False, -each.deviation))[:n_largest])


def _units(family: FamilyAudit, drawn: Floats) -> Floats:
    """Give the level of each group by itself; of one that chance hardly ever moves, the farthest it gets.

    The data are one of the tables that the level is taken from. What is measured in it then treats them like any other, and p-values are
    valid with few permutations too.
    """
    observed = np.abs(family.means - family.overall).max(axis=1)
    tables = np.vstack([observed, drawn])
    level = critical(tables)
    return np.asarray(np.where((level > SAME) | (drawn.max(axis=0) == 0), level, tables.max(axis=0)))


def _settled(family: FamilyAudit, units: Floats | None, farthest: Floats | None) -> FamilyAudit:
    if units is None or farthest is None or len(farthest) < FEWEST:
        return family
    levels = float(critical(farthest)) * units
    levels.flags.writeable = False
    return replace(family, levels=levels)


def _ranked(family: FamilyAudit, group: int, drawn: Floats | None, units: Floats | None, farthest: Floats | None) -> RankedGroup:
    away = np.abs(family.means[group] - family.overall)
    k = int(away.argmax())
    deviation = float(away[k])
    chance = adjusted = None
    if drawn is not None and units is not None and farthest is not None:
        chance, unit = chance_of(deviation, drawn[:, group]), float(units[group])
        # Where chance never moves a group, any deviation is beyond it.
        adjusted = p_value(deviation / unit if unit > 0 else np.inf if deviation > 0 else 0.0, farthest)
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
        level=None if family.levels is None else float(family.levels[group]),
        p_adjusted=adjusted,
    )
