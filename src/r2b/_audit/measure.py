"""The call: read a table, settle its families, and measure each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from r2b._audit.facts import Audit, ContinuousAudit, FamilyAudit
from r2b._audit.ranking import ranking
from r2b._audit.resampling import MOST_SUMS, Draws, FamilyRows, Kinds, Sums, chance_of, interval_around, means_of_sums, ranges
from r2b._constraints.families import Families, Family, FamilyChoice, Request, resolve
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.fitted import Crossings, Mixture, Moments
from r2b._constraints.families.request import AbsentGroups, SmallGroups
from r2b._constraints.parity import Member, Parity
from r2b._data import Dataset, Groups, Schema
from r2b._data.arrival import refuse_lengths, refuse_other_index
from r2b._data.dataset import assemble
from r2b._data.vocabulary import column_of, plain_value, read_vocabulary
from r2b._labels.task import refuse_scores
from r2b.errors import ParameterError
from r2b.metrics.binomial import difference_bounds, variance_of_means
from r2b.metrics.demographic import means_of, overall_mean
from r2b.metrics.explained import explained_of_moments
from r2b.metrics.intervals import Interval

Floats = NDArray[np.float64]


def audit_continuous(
    name: str, rows: FamilyRows, basis: Floats, functions: tuple[str, ...], moments: Floats, overall: Floats, draws: Draws, left_out: int
) -> ContinuousAudit:
    """Measure one attribute.

    Parameters
    ----------
    name : str
    rows : FamilyRows
        Places are values of the attribute.
    basis : ndarray of shape (n_places, n_functions)
        The functions at these values, centred and orthonormal on the rows.
    functions : tuple of str
    moments : ndarray of shape (n_functions, n_classes)
    overall : ndarray of shape (n_classes,)
        Mean label of the rows.
    draws : Draws
    left_out : int
    """
    by_class = explained_of_moments(moments, overall)
    observed = float(by_class.max())
    chance = interval = None
    if draws.n_permutations:
        blocks = rows.permuted(draws.n_permutations, draws.seed(name))
        chance = chance_of(observed, np.concatenate([explained_of_sums(sums, basis).max(axis=1) for sums in blocks]))
    if draws.n_boot and rows.n_sums <= MOST_SUMS:
        changes = rows.resampled(
            lambda sums: np.abs(explained_of_sums(sums, basis) - by_class).max(axis=1),
            n_boot=draws.n_boot,
            random_state=draws.seed(name),
        )
        interval = interval_around(observed, changes, draws.level)
    by_class.flags.writeable = False
    return ContinuousAudit(name, rows.data.labels.vocabulary.values, by_class, functions, rows.n_rows, chance, interval, left_out)


def explained_of_sums(sums: Sums, basis: Floats) -> Floats:
    """Give the share of each class's variance that functions of the place explain, of shape (b, n_classes).

    On rows that were drawn the functions need not be centred or orthonormal: it is the R squared of a weighted regression with a constant.

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
    # A resample of few rows may leave the functions dependent; the pseudo-inverse then uses those that are left.
    fitted = np.matmul(np.linalg.pinv(gram, rcond=1e-10, hermitian=True), moments)
    variance = label_means * (1 - label_means)
    part: Floats = (moments * fitted).sum(axis=1)
    shares: Floats = np.divide(part, variance, out=np.zeros_like(part), where=variance > 0)
    return shares


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


Array = np.ndarray[Any, np.dtype[Any]]


def audit(
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    families: FamilyChoice | Sequence[str | Sequence[str] | Family] = "both",
    missing: Literal["error", "group", "exclude"] = "error",
    sample_weight: Any = None,
    clusters: Any = None,
    min_group_size: int = 0,
    small_groups: SmallGroups = "error",
    absent: AbsentGroups = "report",
    n_permutations: int = 200,
    n_boot: int = 500,
    level: float = 0.95,
    random_state: int = 0,
    n_largest: int = 10,
) -> Audit:
    """Measure how far labels are from parity, for every family of groups; nothing is solved and nothing changed.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L)
        Classes, or probabilities over L classes: labels or predictions.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        One attribute or several; :class:`r2b.Continuous` and :class:`r2b.Membership` among them.
    control_features : array-like of shape (N,) or (N, n_features), optional
        Groups are compared within each of their values, or crossings of values. Chance is that within a stratum too.
    families : {"both", "crossed", "marginal"} or list
        Which groups are compared: those of each attribute, the crossings of all, or both; or a list of columns such as
        ``["sex", ["sex", "race"]]``. Of an :class:`r2b.Family` only the columns count.
    missing : {"error", "group", "exclude"}
        What becomes of rows without a value of an attribute: refused, a group of their own, or left out of its families and counted there.
    sample_weight : array-like of shape (N,), optional
        Weights, not repetitions: a row of weight 2 is one observation.
    clusters : array-like of shape (N,), optional
        Which rows go together: the patient, the annotator, the household. Rows of one cluster count as one observation for what chance
        shows and for intervals. Without it every row is taken as independent of all others.
    min_group_size : int
        The fewest rows a group may have.
    small_groups : {"error", "merge", "exclude"}
        Refuse smaller groups by name, merge them into one called "other", or leave them out.
    absent : {"report", "error"}
        Groups that a stratum does not have are listed, or refused.
    n_permutations : int
        How often labels are handed out by chance, to see what fair labels of this number would show; 0 to leave it out.
    n_boot : int
        Resamples for the intervals of continuous attributes and memberships; those of groups need none. 0 to leave all intervals out.
    level : float
        Of the intervals.
    random_state : int
        The same number gives the same draws.
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

    Notes
    -----
    Class labels without weights, or with few different weights, are counted once and drawn as tables: a million rows take less than a
    second. Probabilities are drawn row by row, about a second for a family of 50,000 rows, and so are weights that all differ, about four
    seconds for a family of a million; so are continuous attributes and memberships with nearly as many values as rows, a minute for a
    million. ``n_permutations`` and ``n_boot`` scale these times.

    A weight stays with its label when labels are handed out by chance. A permuted p-value is valid at every size; it is at least
    1 / (1 + n_permutations). Intervals bound all differences at once, are right for groups of two rows too (``binomial``), and
    conservative.

    With clusters the labels are not handed about: what the labels of a cluster differ from the mean by keeps or changes its sign, for all
    its rows together. A group of a single cluster then is never beyond chance, however many rows it has.

    Examples
    --------
    >>> from r2b._audit import audit
    >>> people = {"sex": ["f", "m"] * 200, "race": ["a", "a", "b", "b"] * 100}
    >>> found = audit(["yes", "no", "no", "no"] * 100, sensitive_features=people)
    >>> [(family.name, round(family.parity, 2)) for family in found.families]
    [('sex', 0.5), ('race', 0.5), ('sex x race', 1.0)]
    >>> found.ranked[0].group, found.ranked[0].class_name, found.ranked[0].beyond_chance
    ('sex=f, race=a', 'no', True)
    """
    draws, request = settled(
        n_permutations, n_boot, level, random_state, n_largest, families, missing, min_group_size, small_groups, absent
    )
    data = assemble(
        y,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
        fewest_classes=1,
        missing=missing,
        weightless="allow",
        categorical_only=False,
    )
    return audit_dataset(data, request, draws, int(n_largest), None if clusters is None else _cluster_codes(clusters, data))


def _cluster_codes(clusters: Any, data: Dataset) -> Array:
    column = column_of(clusters, what="clusters")
    refuse_lengths("y", data.n_rows, "clusters", len(column))
    refuse_other_index(("y", data.index), ("clusters", column.index))
    return read_vocabulary(column, what="clusters")[0].astype(np.int64)


def settled(
    n_permutations: int,
    n_boot: int,
    level: float,
    random_state: int,
    n_largest: int,
    families: Any,
    missing: Any,
    min_group_size: int,
    small_groups: SmallGroups,
    absent: AbsentGroups,
) -> tuple[Draws, Request]:
    """Check the arguments of an audit: what chance is drawn, and which groups are compared."""
    draws = Draws(n_permutations, n_boot, level, random_state)
    if not isinstance(n_largest, Integral) or isinstance(n_largest, bool) or int(n_largest) < 0:
        raise ParameterError(f"n_largest is {n_largest!r}.", remedy="Pass how many groups to list, such as 10.", n_largest=n_largest)
    request = Request(
        families=_columns_only(families), missing=missing, min_group_size=min_group_size, small_groups=small_groups, absent=absent
    )
    return draws, request


def audit_dataset(data: Dataset, request: Request, draws: Draws, n_largest: int, clusters: Array | None = None) -> Audit:
    """Measure a table that was read already; clusters by their codes."""
    refuse_scores(data)
    measurer = _Measurer.of(data, request, draws, clusters)
    warn_of_doubts(measurer)
    return measurer.measure(n_largest)


def _columns_only(families: Any) -> Any:
    if isinstance(families, str) or not isinstance(families, Sequence):
        return families
    return [Family(each.columns) if isinstance(each, Family) else each for each in families]


@dataclass(frozen=True, eq=False)
class _Measurer:
    """A table whose families are settled."""

    data: Dataset
    cell_means: Floats
    cell_weight: Floats
    families: Families
    parity: Parity
    kinds: Kinds | None
    draws: Draws
    clusters: Array | None

    @classmethod
    def of(cls, data: Dataset, request: Request, draws: Draws, clusters: Array | None) -> _Measurer:
        means, weights = means_of(data)
        means = np.where(weights[:, None] > 0, means, 0.0)  # a cell without weight adds nothing to any mean
        families, parity = resolve(request, data.groups, weights, means)
        return cls(data, means, weights, families, parity, Kinds.of(data), draws, clusters)

    @property
    def groups(self) -> Groups:
        """The cells of the rows."""
        return self.data.groups

    @property
    def schema(self) -> Schema:
        """Its classes and groups, without rows."""
        return self.data.schema

    def measure(self, n_largest: int) -> Audit:
        """Measure every family."""
        means = self.parity.means(self.cell_means)
        groups: list[tuple[FamilyAudit, Floats | None]] = []
        continuous: list[ContinuousAudit] = []
        for member, counting in zip(self.families.members, self.families.counting, strict=True):
            assert isinstance(counting, (Crossings, Mixture, Moments))
            rows, matrix = self._rows(member, counting)
            left_out = self.data.groups.rows_of(counting.stratum.of(self.data.groups)) - rows.n_rows
            names = tuple(str(plain_value(name)) for name in self.families.names[member.groups])
            settled = (rows, matrix, names, means[member.groups].copy())
            if isinstance(counting, Moments):
                assert matrix is not None
                continuous.append(audit_continuous(member.name, rows, matrix, names, settled[3], self._overall(rows), self.draws, left_out))
                continue
            groups.append(audit_groups(member.name, *settled, self.parity.share[member.groups], self.draws, left_out))
        families, ranked = ranking(groups, n_largest)
        return Audit(
            n_rows=self.data.size,
            classes=self.data.labels.vocabulary.values,
            overall=self.cell_weight @ self.cell_means / self.cell_weight.sum(),
            families=families,
            continuous=tuple(continuous),
            ranked=ranked,
            absent=self.families.absent,
            left_out=self.families.left_out,
            level=float(self.draws.level),
            n_permutations=int(self.draws.n_permutations),
            n_boot=int(self.draws.n_boot),
            random_state=int(self.draws.random_state),
            clusters=None if self.clusters is None else len(np.unique(self.clusters)),
        )

    def _overall(self, rows: FamilyRows) -> Floats:
        weight = np.where(rows.place_of_cell >= 0, self.cell_weight, 0.0)
        return np.asarray(weight @ self.cell_means / weight.sum())

    def _rows(self, member: Member, counting: Crossings | Mixture | Moments) -> tuple[FamilyRows, Floats | None]:
        """Give the rows of a family and, where places are not groups, how each place counts."""
        cells, n_groups = self.data.groups, member.groups.stop - member.groups.start
        if self.parity.design is None:  # groups are the cells, and may be too many for a design
            return FamilyRows(self.data, self.kinds, np.arange(n_groups), n_groups, self.clusters), None
        design = self.parity.design[:, member.groups]
        if isinstance(counting, Crossings):
            places = np.where(design.any(axis=1), design.argmax(axis=1), -1)
            return FamilyRows(self.data, self.kinds, places, n_groups, self.clusters), None
        codes = cells.table[:, counting.column]
        inside = counting.stratum.of(cells) & (codes < len(cells.vocabularies[counting.column].values))
        _, first, place = np.unique(codes[inside], return_index=True, return_inverse=True)
        place_of_cell = np.full(len(codes), -1)
        place_of_cell[inside] = place
        return FamilyRows(self.data, self.kinds, place_of_cell, len(first), self.clusters), np.asarray(design[inside][first])
