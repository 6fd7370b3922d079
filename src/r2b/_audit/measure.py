"""The call: read a table, settle its families, and measure each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from r2b._audit.facts import Audit, ContinuousAudit, FamilyAudit
from r2b._audit.families import audit_continuous, audit_groups, ranking
from r2b._audit.moments import (
    MOST_EXACT,
    LabelMoments,
    MomentRows,
    MomentSums,
    moments_of,
    shared_parts,
)
from r2b._audit.resampling import Draws, FamilyRows, Kinds
from r2b._constraints.families import Families, Family, FamilyChoice, Request, resolve
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.fitted import Crossings, Mixture, Moments
from r2b._constraints.families.request import AbsentGroups, SmallGroups
from r2b._data import Cells, Dataset, Schema
from r2b._data.arrays import Array, Floats, Whole, plain_value
from r2b._data.columns import column_of, refuse_lengths, refuse_other_index
from r2b._data.dataset import read
from r2b._data.frames import library_of
from r2b._data.vocabulary import read_vocabulary
from r2b._labels.task import refuse_scores
from r2b.metrics.means import means_of, overall_mean


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
        Groups are compared within each of their values, or crossings of values. Chance is that
        within a stratum too.
    families : {"both", "crossed", "marginal"} or list
        Which groups are compared: those of each attribute, the crossings of all, or both; or a list
        of columns such as ``["sex", ["sex", "race"]]``. Of an :class:`r2b.Family` only the columns
        count.
    missing : {"error", "group", "exclude"}
        What becomes of rows without a value of an attribute: refused, a group of their own, or left
        out of its families and counted there.
    sample_weight : array-like of shape (N,), optional
        Weights, not repetitions: a row of weight 2 is one observation.
    clusters : array-like of shape (N,), optional
        Which rows go together: the patient, the annotator, the household. Rows of one cluster count
        as one observation for what chance shows and for intervals. Without it every row is taken as
        independent of all others.
    min_group_size : int
        The fewest rows a group may have.
    small_groups : {"error", "merge", "exclude"}
        Refuse smaller groups by name, merge them into one called "other", or leave them out.
    absent : {"report", "error"}
        Groups that a stratum does not have are listed, or refused.
    n_permutations : int
        How often labels are handed out by chance, to see what fair labels of this number would
        show; 0 to leave it out.
    n_boot : int
        Resamples for the intervals of continuous attributes and memberships; those of groups need
        none. 0 to leave all intervals out.
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
    Class labels without weights, or with few different weights, are counted once and drawn as
    tables: a million rows take less than a second. Probabilities of few rows are drawn row by row,
    about a second for a family of 65,536 rows x 16 classes. Of more, what chance makes of groups of
    512 rows or more is drawn from the normal law with the mean and covariance that handing labels
    about has, and rows of smaller groups are drawn from a sample: a million rows take about a
    second. Weights of class labels that all differ are drawn row by row, about four seconds for a
    family of a million; so are continuous attributes and memberships with nearly as many values as
    rows, a minute for a million. ``n_permutations`` and ``n_boot`` scale these times.

    A weight stays with its label when labels are handed out by chance. A permuted p-value is valid
    at every size; it is at least 1 / (1 + n_permutations). Intervals bound all differences at once,
    are right for groups of two rows too (``binomial``), and conservative.

    With clusters the labels are not handed about: what the labels of a cluster differ from the mean
    by keeps or changes its sign, for all its rows together. A group of a single cluster then is
    never beyond chance, however many rows it has.

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
    )
    data = read(
        y,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
        fewest_classes=1,
        missing=missing,
        weightless="allow",
    )
    return audit_dataset(
        data, request, draws, None if clusters is None else cluster_codes(clusters, data)
    )


def cluster_codes(clusters: Any, data: Dataset) -> Array:
    """Read which rows go together, as codes."""
    column = column_of(clusters, what="clusters")
    refuse_lengths("y", data.n_rows, "clusters", len(column))
    refuse_other_index(("y", data.index), ("clusters", column.index))
    return read_vocabulary(column, what="clusters")[0].astype(np.int64)


def audit_request(families: Any, **options: Any) -> Request:
    """Give what an audit asks of the groups; of a :class:`r2b.Family` only the columns count."""
    if not isinstance(families, str) and isinstance(families, Sequence):
        families = [Family(each.columns) if isinstance(each, Family) else each for each in families]
    return Request(families=families, **options)


@dataclass(frozen=True, eq=False)
class _Table:
    """What is doubtful in a table is found from these."""

    groups: Cells
    families: Families
    schema: Schema


def audit_dataset(
    data: Dataset,
    request: Request,
    draws: Draws,
    clusters: Array | None = None,
    library: str | None = None,
) -> Audit:
    """Measure every family of a table that was read already; clusters by their codes, the library where the data do not tell it."""
    refuse_scores(data)
    cell_means, cell_weight = means_of(data)
    # a cell without weight adds nothing to any mean
    cell_means = np.where(cell_weight[:, None] > 0, cell_means, 0.0)
    families, parity = resolve(request, data.cells, cell_weight, cell_means)
    warn_of_doubts(_Table(data.cells, families, data.schema))
    designs = [
        None if parity.design is None else parity.design[:, member.groups]
        for member in families.members
    ]
    return _audited(
        data,
        families,
        (cell_means, cell_weight, parity.means(cell_means)),
        designs,
        draws,
        clusters,
        library,
    )


def audit_families(
    data: Dataset, families: Families, draws: Draws, library: str | None = None
) -> Audit:
    """Measure families that were settled when labels of these rows were made."""
    cell_means, cell_weight = means_of(data)
    cell_means = np.where(cell_weight[:, None] > 0, cell_means, 0.0)
    means = families.means(data.cells, cell_means * cell_weight[:, None], cell_weight)
    designs = [
        None if families.by_cell else counting.design(data.cells) for counting in families.counting
    ]
    return _audited(data, families, (cell_means, cell_weight, means), designs, draws, None, library)


def audit_moments(
    data: Dataset,
    request: Request,
    draws: Draws,
    add_up: Callable[[MomentSums], LabelMoments],
    library: str,
) -> Audit:
    """Measure every family of rows that are elsewhere, of which only sums come home.

    Parameters
    ----------
    data : Dataset
        One row per cell, with its number of rows and its weight; its labels do not matter.
    request : Request
    draws : Draws
    add_up : callable
        Walks all rows once.
    library : str
    """
    weight = data.weight
    assert weight is not None
    families, parity = resolve(
        request, data.cells, weight, np.zeros((data.n_cells, data.n_classes))
    )
    warn_of_doubts(_Table(data.cells, families, data.schema))
    designs = [
        None if parity.design is None else parity.design[:, member.groups]
        for member in families.members
    ]
    each = [
        places_of(data.cells, counting, design)  # type: ignore[arg-type]
        for counting, design in zip(families.counting, designs, strict=True)
    ]
    parts = shared_parts([place for place, _ in each])
    moments = add_up(MomentSums(data.n_classes, parts, float(weight.sum()) / data.size))
    sums = moments.sums
    cell_means = np.divide(
        sums, moments.weight[:, None], out=np.zeros_like(sums), where=moments.weight[:, None] > 0
    )
    data = replace(data, labels=replace(data.labels, matrix=cell_means))
    return _audited(
        data,
        families,
        (cell_means, weight, parity.means(cell_means)),
        designs,
        draws,
        None,
        library,
        (moments, parts),
    )


def _audited(
    data: Dataset,
    families: Families,
    known: tuple[Floats, Floats, Floats],
    designs: list[Floats | None],
    draws: Draws,
    clusters: Array | None,
    library: str | None,
    summed: tuple[LabelMoments, Whole] | None = None,
) -> Audit:
    """Measure families of which the means and weight of the cells, and the means of the groups, are known."""
    cell_means, cell_weight, means = known
    kinds, groups, continuous = (
        Kinds.of(data),
        list[tuple[FamilyAudit, Floats | None]](),
        list[ContinuousAudit](),
    )
    places = []
    for counting, design in zip(families.counting, designs, strict=True):
        assert isinstance(counting, (Crossings, Mixture, Moments))
        places.append(places_of(data.cells, counting, design))
    if (
        summed is None
        and clusters is None
        and _many(data)
        and all(part is None for _, part in places)
    ):
        shared = shared_parts([place for place, _ in places])
        summed = moments_of(data, shared), shared
    for member, counting, seen in zip(families.members, families.counting, places, strict=True):
        rows = (
            FamilyRows(data, kinds, *seen, clusters)
            if summed is None
            else MomentRows(data, kinds, *seen, None, *summed)
        )
        left_out = data.cells.rows_of(counting.stratum.of(data.cells)) - rows.n_rows
        names = tuple(str(plain_value(name)) for name in families.names[member.groups])
        own = means[member.groups].copy()
        if isinstance(counting, Moments):
            overall = overall_mean(cell_means, np.where(rows.place_of_cell >= 0, cell_weight, 0.0))
            continuous.append(
                audit_continuous(member.name, rows, names, own, overall, draws, left_out)
            )
        else:
            groups.append(
                audit_groups(
                    member.name, rows, names, own, families.share[member.groups], draws, left_out
                )
            )
    measured, ranked = ranking(groups, int(draws.n_largest))
    return Audit(
        n_rows=data.size,
        classes=data.labels.vocabulary.values,
        overall=overall_mean(cell_means, cell_weight),
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
        library=library_of(data) if library is None else library,
        data=data,
        fitted=families,
    )


def _many(data: Dataset) -> bool:
    """Tell whether rows are too many probabilities to be handed about one by one."""
    return (
        data.labels.is_soft and data.repeats is None and data.n_rows * data.n_classes > MOST_EXACT
    )


def places_of(
    cells: Cells, counting: Crossings | Mixture | Moments, design: Floats | None
) -> tuple[Array, Floats | None]:
    """Give the place of each cell in the eyes of a family and, where places are not groups, how each place counts."""
    if design is None:  # groups are the cells, and may be too many for a design
        return np.arange(cells.n_cells), None
    if isinstance(counting, Crossings):
        return np.where(design.any(axis=1), design.argmax(axis=1), -1), None
    codes = cells.table[:, counting.column]
    inside = counting.stratum.of(cells) & (codes < len(cells.vocabularies[counting.column].values))
    _, first, place = np.unique(codes[inside], return_index=True, return_inverse=True)
    place_of_cell = np.full(len(codes), -1)
    place_of_cell[inside] = place
    return place_of_cell, np.asarray(design[inside][first])
