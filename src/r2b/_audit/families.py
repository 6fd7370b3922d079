"""One family at a time: how far its groups are from parity, or what an attribute explains; then the groups of all families in one list."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from r2b._audit.facts import ContinuousAudit, FamilyAudit
from r2b._audit.findings import SAME, RankedGroup
from r2b._audit.moments import MomentRows
from r2b._audit.resampling import (
    MOST_SUMS,
    Draws,
    FamilyRows,
    PlaceSums,
    chance_of,
    critical,
    interval_around,
    p_value,
    ranges,
)
from r2b._data.arrays import Floats, plain_value
from r2b.metrics.binomial import difference_bounds, variance_of_means
from r2b.metrics.explained import explained_of_moments
from r2b.metrics.intervals import Interval
from r2b.metrics.means import divided, overall_mean

# rows below which resampling an uncertain group does not show how far its mean may be off
_FEW = 50
_FEWEST = 19  # permutations below which nothing is beyond chance: the data are one of 1 + 18 tables


def audit_continuous(
    name: str,
    rows: FamilyRows,
    functions: tuple[str, ...],
    moments: Floats,
    overall: Floats,
    draws: Draws,
    left_out: int,
) -> ContinuousAudit:
    """Measure one continuous attribute.

    Parameters
    ----------
    name : str
    rows : FamilyRows
        Places are values of the attribute; ``parts`` are the functions at these values, centred and
        orthonormal on the rows.
    functions : tuple of str
    moments : ndarray of shape (n_functions, n_classes)
    overall : ndarray of shape (n_classes,)
        Mean label of the rows.
    draws : Draws
    left_out : int
    """
    basis, by_class = rows.parts, explained_of_moments(moments, overall)
    assert basis is not None
    observed = float(by_class.max())
    chance = interval = None
    if draws.n_permutations:
        blocks = rows.permuted(draws.n_permutations, draws.seed(name))
        chance = chance_of(
            observed,
            np.concatenate([explained_of_sums(sums, basis).max(axis=1) for sums in blocks]),
        )
    if draws.n_boot and rows.n_sums <= MOST_SUMS:
        changes = rows.resampled(
            lambda sums: np.abs(explained_of_sums(sums, basis) - by_class).max(axis=1),
            n_boot=draws.n_boot,
            random_state=draws.seed(name),
        )
        interval = interval_around(observed, changes, draws.level)
    by_class.flags.writeable = False
    return ContinuousAudit(
        name,
        rows.data.labels.vocabulary.values,
        by_class,
        functions,
        rows.n_rows,
        chance,
        interval,
        left_out,
    )


def explained_of_sums(sums: PlaceSums, basis: Floats) -> Floats:
    """Give the share of each class's variance that functions of the place explain, of shape (b, n_classes).

    On rows that were drawn the functions need not be centred or orthonormal: it is the R squared of
    a weighted regression with a constant.

    Examples
    --------
    >>> table = np.array([[[3.0, 1.0], [1.0, 3.0]]])
    >>> explained_of_sums((table, table.sum(axis=2)), np.array([[0.0], [1.0]]))
    array([[0.25, 0.25]])
    """
    table, totals = sums
    whole = totals.sum(axis=1)
    whole = np.where(whole > 0, whole, 1.0)  # a resample may be empty, and then explains nothing
    share = totals / whole[:, None]
    label_means = table.sum(axis=1) / whole[:, None]
    centre = share @ basis
    gram = np.matmul(basis.T * share[:, None, :], basis) - centre[:, :, None] * centre[:, None, :]
    moments = basis.T @ table / whole[:, None, None] - centre[:, :, None] * label_means[:, None, :]
    # A resample of few rows may leave the functions dependent; the pseudo-inverse then uses those
    # that are left.
    fitted = np.matmul(np.linalg.pinv(gram, rcond=1e-10, hermitian=True), moments)
    variance = label_means * (1 - label_means)
    part: Floats = (moments * fitted).sum(axis=1)
    shares: Floats = np.divide(part, variance, out=np.zeros_like(part), where=variance > 0)
    return shares


def audit_groups(
    name: str,
    rows: FamilyRows,
    groups: tuple[str, ...],
    means: Floats,
    share: Floats,
    draws: Draws,
    left_out: int,
) -> tuple[FamilyAudit, Floats | None]:
    """Measure one family of groups.

    Parameters
    ----------
    name : str
    rows : FamilyRows
        Places are groups or, with ``parts``, rows of memberships.
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
    overall, seed = overall_mean(means, share), draws.seed(name)
    chance = deviations = None
    if draws.n_permutations:
        parities, blocks = [], []
        for sums in rows.permuted(draws.n_permutations, seed):
            drawn = _group_means(rows, sums)
            parities.append(ranges(drawn))
            # A permutation may leave a group with weightless rows alone; it then has no deviation.
            blocks.append(np.nan_to_num(np.abs(drawn - overall).max(axis=2), nan=0.0))
        chance, deviations = (
            chance_of(float(ranges(means[None])[0]), np.concatenate(parities)),
            np.concatenate(blocks),
        )
    inside = rows.place_of_cell >= 0
    counts = np.bincount(
        rows.place_of_cell[inside], rows.data.cells.counts[inside], rows.n_places
    ).astype(np.float64)
    counts = counts if rows.parts is None else counts @ rows.parts
    for array in (counts, share, means, overall):
        array.flags.writeable = False
    family = FamilyAudit(
        name=name,
        kind="groups" if rows.parts is None else "membership",
        classes=rows.data.labels.vocabulary.values,
        groups=groups,
        rows=counts,
        share=share,
        means=means,
        overall=overall,
        chance=chance,
        interval=_interval(rows, means, draws, seed),
        left_out=left_out,
    )
    return family, deviations


def _group_means(rows: FamilyRows, sums: PlaceSums) -> Floats:
    table, totals = sums
    return (
        divided(table, totals[:, :, None])
        if rows.parts is None
        else divided(rows.parts.T @ table, (totals @ rows.parts)[:, :, None])
    )


def _interval(rows: FamilyRows, means: Floats, draws: Draws, seed: int) -> Interval | None:
    if not draws.n_boot or rows.n_sums > MOST_SUMS:
        return None
    variance, sizes = _variances(rows, means)
    if rows.parts is None or sizes.min() < _FEW:
        shared = rows.parts is not None or rows.clusters_meet
        return Interval(
            *difference_bounds(means, variance, sizes, level=draws.level, shared=shared),
            draws.level,
            "binomial",
        )
    changes = rows.resampled(
        lambda sums: ranges(_group_means(rows, sums) - means),
        n_boot=draws.n_boot,
        random_state=seed,
    )
    return interval_around(float(ranges(means[None])[0]), changes, draws.level)


def _variances(rows: FamilyRows, means: Floats) -> tuple[Floats, Floats]:
    """Give the variances of the means and the effective sizes of the groups; one in probability counts every row by its membership."""
    if isinstance(rows, MomentRows):
        return rows.variances(means)
    if rows.parts is None:
        return variance_of_means(
            rows.places,
            rows.labels,
            means,
            weight=rows.weight,
            repeats=rows.repeats,
            clusters=rows.clusters,
        )
    weight = np.ones(len(rows.places)) if rows.weight is None else rows.weight
    one_group, each = np.zeros(len(rows.places), np.intp), []
    for mean, part in zip(means, rows.parts.T, strict=True):
        member = weight * part[rows.places]
        each.append(
            variance_of_means(
                one_group,
                rows.labels,
                mean[None],
                weight=member,
                repeats=rows.repeats,
                clusters=rows.clusters,
            )
        )
    return np.concatenate([variance for variance, _ in each]), np.concatenate(
        [size for _, size in each]
    )


def ranking(
    families: list[tuple[FamilyAudit, Floats | None]], n_largest: int
) -> tuple[tuple[FamilyAudit, ...], tuple[RankedGroup, ...]]:
    """Put the groups in order, beyond chance first, then by falling deviation; and tell every family what chance explains of its groups.

    One rule judges everything that an audit says of groups. In each permutation the deviation of a
    group is measured in units of its own level, and the farthest of all groups is kept: in 19 of 20
    fair tables no group of any family is more than so many units out (the maxT of Westfall and
    Young). That many units are what chance explains of a group, and the sum of two what it explains
    of their difference.

    Parameters
    ----------
    families : list of (FamilyAudit, ndarray of shape (n_permutations, n_groups) or None)
        Each with the deviations of its groups by chance.
    n_largest : int
    """
    # a family listed twice has its groups once
    drawn = {family.name: each for family, each in families if each is not None}
    units = {
        family.name: _units(family, drawn[family.name])
        for family, _ in families
        if family.name in drawn
    }
    out = [
        (drawn[name] / np.where(unit > 0, unit, 1.0)).max(axis=1) for name, unit in units.items()
    ]
    farthest = np.max(out, axis=0) if out else None
    settled = [family for family, _ in families]
    if farthest is not None and len(farthest) >= _FEWEST:
        levels = {name: float(critical(farthest)) * unit for name, unit in units.items()}
        for level in levels.values():
            level.flags.writeable = False
        settled = [replace(family, levels=levels[family.name]) for family in settled]
    ranked = [
        _ranked(family, group, drawn.get(family.name), units.get(family.name), farthest)
        for family in {family.name: family for family in settled}.values()
        for group in range(len(family.groups))
    ]
    return tuple(settled), tuple(
        sorted(ranked, key=lambda each: (each.beyond_chance is False, -each.deviation))[:n_largest]
    )


def _units(family: FamilyAudit, drawn: Floats) -> Floats:
    """Give the level of each group by itself; of one that chance hardly ever moves, the farthest it gets.

    The data are one of the tables that the level is taken from. What is measured in it then treats
    them like any other, and p-values are valid with few permutations too.
    """
    tables = np.vstack([family.deviations, drawn])
    level = critical(tables)
    return np.asarray(
        np.where((level > SAME) | (drawn.max(axis=0) == 0), level, tables.max(axis=0))
    )


def _ranked(
    family: FamilyAudit,
    group: int,
    drawn: Floats | None,
    units: Floats | None,
    farthest: Floats | None,
) -> RankedGroup:
    away = np.abs(family.means[group] - family.overall)
    k = int(away.argmax())
    deviation = float(away[k])
    chance = adjusted = None
    if drawn is not None and units is not None and farthest is not None:
        chance, unit = chance_of(deviation, drawn[:, group]), float(units[group])
        # Where chance never moves a group, any deviation is beyond it.
        adjusted = p_value(
            deviation / unit if unit > 0 else np.inf if deviation > 0 else 0.0, farthest
        )
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
