"""The audit of a table: how far each family is from parity, and how much of it chance explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from numbers import Integral
from operator import le
from types import SimpleNamespace
from typing import Any, Literal
from zlib import crc32

import numpy as np

from r2b._audit.results import Audit, Chance, ContinuousAudit, FamilyAudit, RankedGroup
from r2b._constraints.families import Families, Family, FamilyChoice, Request, resolve
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.fitted import Counting, Crossings, Mixture, Moments
from r2b._constraints.families.request import AbsentGroups, SmallGroups
from r2b._data import Cells, Dataset
from r2b._data.arrays import SAME, Array, Floats, divided, frozen, plain_value
from r2b._data.columns import column_of, refuse_other_rows
from r2b._data.dataset import read
from r2b._data.frames import library_of
from r2b._data.numbers import refuse_no_probability, refuse_other_number
from r2b._data.outcomes import OutcomeChoice
from r2b._data.tags import read_tags
from r2b._data.vocabulary import read_vocabulary
from r2b._labels.task import refuse_scores
from r2b.errors import ParameterError
from r2b.metrics.binomial import difference_bounds, variance_of_means
from r2b.metrics.chance import critical, p_value
from r2b.metrics.explained import explained_of_moments
from r2b.metrics.intervals import Interval
from r2b.metrics.means import means_of, overall_mean
from r2b.metrics.resampling import MOST_SUMS, FamilyRows, PlaceSums, kinds_of, ranges


@dataclass(frozen=True)
class Draws:
    """How much to draw, the seed, and how many groups to list."""

    n_permutations: int = 200
    n_boot: int = 500
    level: float = 0.95
    random_state: int = 0
    n_largest: int = 10

    def __post_init__(self) -> None:
        remedies = {
            "n_permutations": "Pass a whole number such as 200, or 0 to leave chance out.",
            "n_boot": "Pass a whole number such as 500, or 0 to leave the intervals out.",
            "random_state": "Pass a whole number of 0 or more.",
            "n_largest": "Pass how many groups to list, such as 10.",
        }
        for name, remedy in remedies.items():
            value = getattr(self, name)
            least = 2 if name == "n_boot" and value else 0
            refuse_other_number(name, value, remedy, partial(le, least), Integral)
        refuse_no_probability("level", self.level, 0.95)

    def rng(self, family: str) -> np.random.Generator:
        """Return a family's own generator, so that its draws do not depend on other families."""
        words = [int(self.random_state), crc32(family.encode())]
        return np.random.default_rng(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])

    def by_chance(
        self, rows: FamilyRows, family: str, statistic: Callable[[PlaceSums], Floats]
    ) -> Floats | None:
        """Return a statistic of the sums in every permutation; None without permutations."""
        if not self.n_permutations:
            return None
        permuted = rows.permuted(self.n_permutations, self.rng(family))
        return np.concatenate([statistic(sums) for sums in permuted])

    def interval(
        self,
        rows: FamilyRows,
        family: str,
        observed: float,
        changes: Callable[[PlaceSums], Floats],
    ) -> Interval | None:
        """Return the interval of a maximum from the largest change of its arguments.

        A maximum never changes by more than its arguments, so the level-quantile of their largest
        change in resampled rows bounds it on both sides. None where it would cost too much.
        """
        if not self.n_boot or rows.n_sums > MOST_SUMS:
            return None
        drawn = rows.resampled(changes, self.n_boot, self.rng(family))
        reach = float(np.quantile(drawn, self.level))
        ends = max(observed - reach, 0.0), min(observed + reach, 1.0)
        return Interval(*ends, self.level, "bootstrap")


def chance_of(observed: float, drawn: Floats) -> Chance:
    """Compare a measure with what it is by chance."""
    p, n = p_value(observed, drawn), len(drawn)
    return Chance(float(drawn.mean()), float(critical(drawn)), p, n, at_floor=p <= 1 / (1 + n))


def audit(
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    families: FamilyChoice | Sequence[str | Sequence[str] | Family] = "both",
    missing: Literal["error", "group", "exclude"] = "error",
    sample_weight: Any = None,
    clusters: Any = None,
    multilabel: bool = False,
    min_group_size: int = 0,
    small_groups: SmallGroups = "error",
    absent: AbsentGroups = "report",
    outcomes: OutcomeChoice | None = None,
    n_permutations: int = 200,
    n_boot: int = 500,
    level: float = 0.95,
    random_state: int = 0,
    n_largest: int = 10,
) -> Audit:
    """Measure how far labels are from parity, for every family of groups.

    Nothing is solved and nothing changed.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L)
        Classes, or probabilities over L classes: labels or predictions.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        One attribute or several; :class:`r2b.Continuous` and :class:`r2b.Membership` among them.
    control_features : array-like of shape (N,) or (N, n_features), optional
        Groups are compared within each of their values, or crossings of values. Chance is that
        within a stratum too.
    families : {"both", "crossed", "marginal"} or list
        Which groups are compared: those of each attribute, the crossings of all, or both; or a list
        of columns such as ``["sex", ["sex", "race"]]``. Of an :class:`r2b.Family` only the columns
        count.
    missing : {"error", "group", "exclude"}
        What happens to rows without a value of an attribute: refused, a group of their own, or left
        out of its families and counted there.
    sample_weight : array-like of shape (N,), optional
        Weights, not repetitions: a row of weight 2 is one observation.
    clusters : array-like of shape (N,), optional
        Which rows go together: the patient, the annotator, the household. Rows of one cluster count
        as one observation for what chance shows and for intervals. Without it every row is taken as
        independent of all others.
    multilabel : bool
        Whether ``y`` has a column of 0 and 1, or of probabilities, for each of several tags. Tags
        stand for classes in what is returned, and chance is that of all tags together.
    min_group_size : int
        The fewest rows a group may have.
    small_groups : {"error", "merge", "exclude"}
        Refuse smaller groups by name, merge them into one called "other", or leave them out.
    absent : {"report", "error"}
        Groups that a stratum does not have are listed, or refused.
    outcomes : "ordinal", {"ordinal": sequence}, mapping, array-like or frame, optional
        What is compared instead of every class: shares of "at least k" of ordered classes, or of
        merged classes, as for :func:`r2b.debias`.
    n_permutations : int
        How often labels are assigned at random, to see what fair labels of this number would show;
        0 to leave it out.
    n_boot : int
        Resamples for the intervals of continuous attributes and memberships; those of groups need
        none. 0 to leave all intervals out.
    level : float
        Of the intervals.
    random_state : int
        The same number returns the same draws.
    n_largest : int
        How many groups are listed in ``Audit.ranked``.

    Returns
    -------
    Audit

    Raises
    ------
    InputError
        The data cannot be used as they are: the message names column, row and value.
    ParameterError
        An argument lies outside its range.

    See Also
    --------
    r2b.debias : The closest labels in parity.
    r2b.model_report : A report on what a model decides.
    r2b.metrics.sampling_level : The disparity that chance shows.

    Notes
    -----
    Class labels without weights, or with few different weights, are counted once and drawn as
    tables: a million rows take less than a second. Probabilities of few rows are drawn row by row,
    about a second for a family of 65,536 rows x 16 classes. Of more, what chance makes of groups of
    512 rows or more is drawn from the normal law with the mean and covariance of a permutation, and
    rows of smaller groups are drawn from a sample: a million rows take about a second. Weights of
    class labels that all differ are drawn row by row, about four seconds for a family of a million;
    so are continuous attributes and memberships with nearly as many values as rows, a minute for a
    million. ``n_permutations`` and ``n_boot`` scale these times.

    A weight stays with its label when labels are permuted. A permuted p-value is valid at every
    size; it is at least 1 / (1 + n_permutations). Intervals bound all differences at once, are
    right for groups of two rows too (``binomial``), and conservative.

    With clusters the labels are not permuted: what the labels of a cluster differ from the mean by
    keeps or changes its sign, for all its rows together. A group of a single cluster then is never
    beyond chance, however many rows it has.

    Examples
    --------
    >>> from r2b._audit import audit
    >>> people = {"sex": ["f", "m"] * 200, "race": ["a", "a", "b", "b"] * 100}
    >>> found = audit(["yes", "no", "no", "no"] * 100, sensitive_features=people)
    >>> [(family.name, round(family.disparity, 2)) for family in found.families]
    [('sex', 0.5), ('race', 0.5), ('sex x race', 1.0)]
    >>> found.ranked[0].group, found.ranked[0].class_name, found.ranked[0].beyond_chance
    ('sex=f, race=a', 'no', True)
    """
    draws = Draws(n_permutations, n_boot, level, random_state, n_largest)
    request = audit_request(
        families,
        missing=missing,
        min_group_size=min_group_size,
        small_groups=small_groups,
        absent=absent,
        outcomes=outcomes,
    )
    rows = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
    }
    if multilabel and outcomes is not None:
        problem = "There are outcomes, which merge classes, but tags are no classes."
        raise ParameterError(problem, remedy="Leave `outcomes` out.", outcomes=outcomes)
    y = read_tags(y).whole if multilabel else y
    data = read(y, **rows, fewest_classes=1, missing=missing)
    codes = None if clusters is None else cluster_codes(clusters, data)
    return audit_dataset(data, request, draws, codes)


def cluster_codes(clusters: Any, data: Dataset) -> Array:
    """Read which rows go together, as codes."""
    column = column_of(clusters, what="clusters")
    refuse_other_rows(("y", data.n_rows, data.index), ("clusters", len(column), column.index))
    return read_vocabulary(column, what="clusters")[0].astype(np.int64)


def audit_request(families: Any, **options: Any) -> Request:
    """Return what an audit asks of the groups; of a :class:`r2b.Family` only the columns count."""
    if not isinstance(families, str) and isinstance(families, Sequence):
        families = [Family(each.columns) if isinstance(each, Family) else each for each in families]
    return Request(families=families, **options)


def audit_dataset(
    data: Dataset, request: Request, draws: Draws, clusters: Array | None = None
) -> Audit:
    """Measure every family of a table."""
    refuse_scores(data)
    means, weight = _cell_means(data)
    request = request.of_classes(data.labels.vocabulary)
    families, _ = resolve(request, data.cells, weight, means)
    warn_of_doubts(SimpleNamespace(groups=data.cells, families=families, schema=data.schema))
    return audit_families(data, families, draws, clusters)


def _cell_means(data: Dataset) -> tuple[Floats, Floats]:
    means, weight = means_of(data)
    # A cell without weight adds nothing to any mean.
    return np.where(weight[:, None] > 0, means, 0.0), weight


def places_of(cells: Cells, counting: Counting) -> tuple[Array, Floats | None]:
    """Return the place of each cell in a family and, if places are no groups, how each counts."""
    if isinstance(counting, Crossings):
        return counting.places(cells), None
    assert isinstance(counting, (Mixture, Moments))
    codes = cells.table[:, counting.column]
    inside = counting.stratum.of(cells) & (codes < len(cells.vocabularies[counting.column].values))
    _, first, place = np.unique(codes[inside], return_index=True, return_inverse=True)
    place_of_cell = np.full(len(codes), -1)
    place_of_cell[inside] = place
    return place_of_cell, np.asarray(counting.design(cells)[inside][first])


def audit_families(
    data: Dataset, families: Families, draws: Draws, clusters: Array | None = None
) -> Audit:
    """Measure families that are settled on these rows."""
    cell_means, cell_weight = _cell_means(data)
    means = families.compared(cell_means)
    if not families.by_cell:
        means = families.means(data.cells, cell_means * cell_weight[:, None], cell_weight)
    kinds, asked = kinds_of(data), families.outcomes
    groups, deviations = list[FamilyAudit](), list[Floats]()
    continuous = list[ContinuousAudit]()
    for member, counting in families.pairs():
        places, parts = places_of(data.cells, counting)
        rows = FamilyRows(data, kinds, places, parts, clusters, families.outcomes)
        left_out = data.cells.rows_of(counting.stratum.of(data.cells)) - rows.n_rows
        names = tuple(str(plain_value(name)) for name in families.names[member.groups])
        own = means[member.groups].copy()
        if isinstance(counting, Moments):
            inside = np.where(rows.place_of_cell >= 0, cell_weight, 0.0)
            overall = families.compared(overall_mean(cell_means, inside))
            found = audit_continuous(member.name, rows, names, own, overall, draws, left_out)
            continuous.append(found)
        else:
            share = families.share[member.groups]
            family, drawn = audit_groups(member.name, rows, names, own, share, draws, left_out)
            groups.append(family)
            deviations += [] if drawn is None else [drawn]
    measured, ranked = ranking(groups, deviations, int(draws.n_largest))
    return Audit(
        n_rows=data.size,
        classes=data.labels.vocabulary.values if asked is None else np.array(asked.names),
        overall=families.compared(overall_mean(cell_means, cell_weight)),
        families=measured,
        continuous=tuple(continuous),
        ranked=ranked,
        absent=families.absent,
        left_out=families.left_out,
        level=float(draws.level),
        n_permutations=int(draws.n_permutations),
        n_boot=int(draws.n_boot),
        random_state=int(draws.random_state),
        clusters=None if clusters is None else len(np.unique(clusters)),
        library=library_of(data),
        data=data,
        fitted=families,
    )


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

    def explained(sums: PlaceSums) -> Floats:
        return explained_of_sums(rows.compared(sums), basis)

    observed = float(by_class.max())
    drawn = draws.by_chance(rows, name, lambda sums: explained(sums).max(axis=1))
    return ContinuousAudit(
        name,
        rows.names,
        frozen(by_class),
        functions,
        rows.n_rows,
        None if drawn is None else chance_of(observed, drawn),
        draws.interval(
            rows, name, observed, lambda sums: np.abs(explained(sums) - by_class).max(axis=1)
        ),
        left_out,
    )


def explained_of_sums(sums: PlaceSums, basis: Floats) -> Floats:
    """Return the share of each class's variance that functions of the place explain.

    Of shape (b, n_classes). On drawn rows the functions need not be centred or orthonormal: it is
    the R squared of a weighted regression with a constant.

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
    return divided(part, variance)


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
    overall = overall_mean(means, share)

    def apart(sums: PlaceSums) -> Floats:
        """Return the disparity by chance, and how far each group is from the mean of all rows."""
        drawn = rows.means(sums)
        # A permutation may leave a group with weightless rows alone; it has no deviation then.
        away = np.nan_to_num(np.abs(drawn - overall).max(axis=2), nan=0.0)
        return np.column_stack([ranges(drawn), away])

    observed, drawn = float(ranges(means[None])[0]), draws.by_chance(rows, name, apart)
    inside, cells = rows.place_of_cell >= 0, rows.data.cells
    counts = np.bincount(rows.place_of_cell[inside], cells.counts[inside] * 1.0, rows.n_places)
    family = FamilyAudit(
        name=name,
        kind="groups" if rows.parts is None else "membership",
        classes=rows.names,
        groups=groups,
        rows=frozen(counts if rows.parts is None else counts @ rows.parts),
        share=frozen(share),
        means=frozen(means),
        overall=frozen(overall),
        chance=None if drawn is None else chance_of(observed, drawn[:, 0]),
        interval=_interval(name, rows, means, observed, draws),
        left_out=left_out,
    )
    return family, None if drawn is None else drawn[:, 1:]


def _interval(
    name: str, rows: FamilyRows, means: Floats, observed: float, draws: Draws
) -> Interval | None:
    if not draws.n_boot or rows.n_sums > MOST_SUMS:
        return None
    variance, sizes = _variances(rows, means)
    # Resampling fewer than 50 rows of an uncertain group says little about its mean.
    if rows.parts is None or sizes.min() < 50:
        shared = rows.parts is not None or rows.clusters_meet
        bounds = difference_bounds(means, variance, sizes, level=draws.level, shared=shared)
        return Interval(*bounds, draws.level, "binomial")
    return draws.interval(rows, name, observed, lambda sums: ranges(rows.means(sums) - means))


def _variances(rows: FamilyRows, means: Floats) -> tuple[Floats, Floats]:
    """Return the variances of the group means and the effective sizes of the groups.

    A group in probability counts every row by its membership.
    """

    def of(places: Array, means: Floats, weight: Array | None) -> tuple[Floats, Floats]:
        repeats, clusters = rows.repeats, rows.clusters
        return variance_of_means(
            places, rows.compared_labels, means, weight=weight, repeats=repeats, clusters=clusters
        )

    if rows.parts is None:
        return of(rows.places, means, rows.weight)
    weight = np.ones(len(rows.places)) if rows.weight is None else rows.weight
    one, pairs = np.zeros(len(rows.places), np.intp), zip(means, rows.parts.T, strict=True)
    each = [of(one, mean[None], weight * part[rows.places]) for mean, part in pairs]
    variance, sizes = (np.concatenate(column) for column in zip(*each, strict=True))
    return variance, sizes


def ranking(
    families: Sequence[FamilyAudit], deviations: Sequence[Floats], n_largest: int
) -> tuple[tuple[FamilyAudit, ...], tuple[RankedGroup, ...]]:
    """Rank the groups, beyond chance first, and find what chance explains of each.

    One rule judges everything that an audit says of groups. In each permutation the deviation of a
    group is measured in units of its own level, and the farthest of all groups is kept: in 19 of 20
    fair tables no group of any family is more than so many units out (the maxT of Westfall and
    Young). That many units are what chance explains of a group, and the sum of two what it explains
    of their difference.

    Parameters
    ----------
    families : sequence of FamilyAudit
    deviations : sequence of ndarray of shape (n_permutations, n_groups)
        Those of the groups of each family by chance; none without permutations.
    n_largest : int
    """
    units = list(map(_units, families, deviations))
    pairs = zip(deviations, units, strict=True)
    out = [(drawn / np.where(unit > 0, unit, 1.0)).max(axis=1) for drawn, unit in pairs]
    farthest = np.max(out, axis=0) if out else np.zeros(0)
    if len(farthest) >= 19:  # fewer say nothing of 1 in 20
        times = float(critical(farthest))
        # no share is farther than 1 from another
        levels = [frozen(np.minimum(times * unit, 1.0)) for unit in units]
        families = [replace(each, levels=own) for each, own in zip(families, levels, strict=True)]
    ranked = [
        _ranked(family, group, drawn, unit, farthest)
        for family, drawn, unit in zip_longest(families, deviations, units)
        for group in range(len(family.groups))
    ]
    ranked.sort(key=lambda each: (each.beyond_chance is False, -each.deviation))
    return tuple(families), tuple(ranked[:n_largest])


def _units(family: FamilyAudit, drawn: Floats) -> Floats:
    """Return the level of each group by itself; if chance hardly moves it, the farthest it gets.

    The data are one of the tables that the level is taken from. They are then treated like any
    other table, and p-values are valid with few permutations too.
    """
    tables = np.vstack([family.deviations, drawn])
    level = critical(tables)
    moves = (level > SAME) | (drawn.max(axis=0) == 0)
    return np.where(moves, level, tables.max(axis=0))


def _ranked(
    family: FamilyAudit, group: int, drawn: Floats | None, units: Floats | None, farthest: Floats
) -> RankedGroup:
    away = np.abs(family.means[group] - family.overall)
    k = int(away.argmax())
    deviation = float(away[k])
    chance = adjusted = None
    if drawn is not None and units is not None:
        chance, unit = chance_of(deviation, drawn[:, group]), float(units[group])
        # If chance never moves a group, any deviation is beyond it.
        out = deviation / unit if unit > 0 else np.inf if deviation > 0 else 0.0
        adjusted = p_value(out, farthest)
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
