"""Families of groups, certain or in probability: means, what chance shows, an interval, and each group's distance from the rest."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from r2b.auditing.chance import Draws, chance_of, interval_around
from r2b.auditing.facts import FamilyAudit
from r2b.auditing.resampling import MOST_SUMS, FamilyRows, Sums, means_of_sums, ranges
from r2b.intervals import Interval, gap_interval
from r2b.metrics import overall_mean

Floats = NDArray[np.float64]


def audit_groups(
    name: str, rows: FamilyRows, mixtures: Floats | None, groups: tuple[str, ...], means: Floats, share: Floats, draws: Draws, left_out: int
) -> tuple[FamilyAudit, Floats | None]:
    """Measure one family.

    Parameters
    ----------
    name : str
    rows : FamilyRows
        Places are groups or, with mixtures, rows of memberships.
    mixtures : ndarray of shape (n_places, n_groups) or None
        Memberships of each place.
    groups : tuple of str
    means : ndarray of shape (n_groups, n_classes)
    share : ndarray of shape (n_groups,)
    draws : Draws
    left_out : int

    Returns
    -------
    FamilyAudit
    ndarray of shape (n_permutations, n_groups) or None
        How far each group deviates by chance.
    """
    share = share / share.sum()
    overall = overall_mean(means, share)
    parities, deviations = _by_chance(rows, mixtures, overall, draws.n_permutations, draws.seed(name))
    kind: Literal["groups", "membership"] = "groups" if mixtures is None else "membership"
    counts = _counts(rows) if mixtures is None else _counts(rows) @ mixtures
    chance = None if parities is None else chance_of(float(ranges(means[None])[0]), parities)
    interval = _interval(rows, mixtures, means, draws, draws.seed(name))
    classes = rows.data.labels.vocabulary.values
    for array in (counts, share, means, overall):
        array.flags.writeable = False
    family = FamilyAudit(name, kind, classes, groups, counts, share, means, overall, chance, interval, left_out)
    return family, deviations


def _counts(rows: FamilyRows) -> Floats:
    inside = rows.place_of_cell >= 0
    return np.bincount(rows.place_of_cell[inside], rows.data.groups.counts[inside], rows.n_places).astype(np.float64)


def _group_means(sums: Sums, mixtures: Floats | None) -> Floats:
    if mixtures is None:
        return means_of_sums(sums)
    table, totals = sums
    return means_of_sums((mixtures.T @ table, totals @ mixtures))


def _by_chance(rows: FamilyRows, mixtures: Floats | None, overall: Floats, n: int, seed: int) -> tuple[Floats | None, Floats | None]:
    """Give parities, of shape (n,), and deviations of groups, of shape (n, n_groups), of labels handed out by chance."""
    if not n:
        return None, None
    parities, deviations = [], []
    for sums in rows.permuted(n, seed):
        means = _group_means(sums, mixtures)
        parities.append(ranges(means))
        # A permutation may leave a group with weightless rows alone; it then has no deviation.
        deviations.append(np.nan_to_num(np.abs(means - overall).max(axis=2), nan=0.0))
    return np.concatenate(parities), np.concatenate(deviations)


def _interval(rows: FamilyRows, mixtures: Floats | None, means: Floats, draws: Draws, seed: int) -> Interval | None:
    if not draws.n_boot or rows.n_sums > MOST_SUMS:
        return None
    settings: dict[str, Any] = {"n_boot": draws.n_boot, "random_state": seed}
    if mixtures is None:
        sample = rows.sample()
        return gap_interval(means, np.zeros_like(means), rows.sizes, sample, level=draws.level, method="bootstrap", **settings)
    if rows.n_rows == 1:  # it says nothing about its own error
        return Interval(0.0, 1.0, draws.level, "bootstrap")
    changes = rows.resampled(lambda sums: ranges(_group_means(sums, mixtures) - means), **settings)
    return interval_around(float(ranges(means[None])[0]), changes, draws.level)
