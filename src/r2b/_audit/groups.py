"""Families of groups, certain or in probability: means, what chance shows, an interval, and each group's distance from the rest."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from r2b._audit.chance import Draws, chance_of, interval_around
from r2b._audit.facts import FamilyAudit
from r2b._audit.resampling import MOST_SUMS, FamilyRows, Sums, means_of_sums, ranges
from r2b.metrics.binomial import difference_bounds, variance_of_means
from r2b.metrics.demographic import overall_mean
from r2b.metrics.intervals import Interval

Floats = NDArray[np.float64]

_FEW = 50  # rows below which resampling an uncertain group does not show how far its mean may be off


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
    if mixtures is None:
        variance, sizes = variance_of_means(
            rows.places, rows.labels, means, weight=rows.weight, repeats=rows.repeats, clusters=rows.clusters
        )
        # A cluster with rows in two groups ties their means together.
        pairs = None if rows.clusters is None else len(np.unique(rows.clusters * rows.n_places + rows.places))
        shared = rows.clusters is not None and pairs != int(rows.clusters.max()) + 1
        return Interval(*difference_bounds(means, variance, sizes, level=draws.level, shared=shared), draws.level, "binomial")
    variance, sizes = _of_memberships(rows, mixtures, means)
    if sizes.min() < _FEW:
        return Interval(*difference_bounds(means, variance, sizes, level=draws.level, shared=True), draws.level, "binomial")
    changes = rows.resampled(lambda sums: ranges(_group_means(sums, mixtures) - means), n_boot=draws.n_boot, random_state=seed)
    return interval_around(float(ranges(means[None])[0]), changes, draws.level)


def _of_memberships(rows: FamilyRows, mixtures: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Give the variances of the means and the effective sizes of groups in probability: each counts every row by its membership."""
    weight = np.ones(len(rows.places)) if rows.weight is None else rows.weight
    one_group = np.zeros(len(rows.places), np.intp)
    each = []
    for group in range(mixtures.shape[1]):
        part = weight * mixtures[rows.places, group]
        found = variance_of_means(
            one_group, rows.labels, means[group : group + 1], weight=part, repeats=rows.repeats, clusters=rows.clusters
        )
        each.append((found[0][0], found[1][0]))
    return np.array([variance for variance, _ in each]), np.array([size for _, size in each])
