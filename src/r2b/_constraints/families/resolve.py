"""Settle a request on a table: find the groups of every family and give each its bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from r2b._constraints.bounds import BOUNDS, Asked, Bound, MomentBound
from r2b._constraints.families.fitted import (
    Absent,
    Counting,
    Crossings,
    Families,
    Key,
    Mixture,
    Moments,
    Stratum,
    crossings_of,
)
from r2b._constraints.families.offsets import by_family, read_offsets
from r2b._constraints.families.request import Family, Request, families_of
from r2b._constraints.parity import Member, Parity, common_limits
from r2b._data.arrays import Array, Floats, frozen
from r2b._data.basis import Basis, fit_basis
from r2b._data.cells import Cells
from r2b._data.merge import Rows
from r2b._data.mixtures import Mixtures
from r2b.errors import InputError, ParameterError, R2BError, WeightError

OTHER = "other"
_SUM_ROUNDING = 1e-9  # of shares that add up to 1
# of a continuous attribute in a stratum, where they were fitted to rows that are not here
Bases = Callable[[int, Stratum], Basis | None]


@dataclass(frozen=True, eq=False)
class _Built:
    """One family of one stratum; without a design its groups are the cells."""

    family: Family
    name: str
    counting: Counting
    names: list[Any]
    share: Floats
    bound: Bound
    design: Floats | None


@dataclass(eq=False)
class _Builder:
    """What all families of a table share while they are built."""

    request: Request
    cells: Cells
    cell_share: Floats
    labels: Floats | Rows
    bases: Bases | None = None
    absent: list[Absent] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return self.labels.n_classes if isinstance(self.labels, Rows) else self.labels.shape[1]

    @property
    def fewest(self) -> int:
        """The fewest rows of a group."""
        return int(self.request.min_group_size)

    def mean(self, part: Floats) -> Floats:
        """Return the mean of the labels that came in, where so much of each cell counts."""
        if isinstance(self.labels, Rows):
            return self.labels.mean(part)
        covered = self.cell_share * part
        return np.asarray(covered @ self.labels / covered.sum())

    def strata(self) -> list[Stratum]:
        """List the strata of the control features, those of a missing value among them."""
        control = tuple(range(self.cells.n_sensitive, len(self.cells.columns)))
        if not control:
            return [Stratum()]
        return [Stratum(control, codes) for codes in crossings_of(self.cells, control)[1]]

    def is_left_out(self, columns: Key, codes: Key) -> bool:
        """Return whether a crossing has a missing value, and such rows are to be left out."""
        missing = self.cells.missing_codes
        return self.request.missing == "exclude" and any(
            missing[column] == code for column, code in zip(columns, codes, strict=True)
        )

    def values(self, columns: Key, codes: Key) -> tuple[str, ...]:
        """Return the values of a crossing."""
        return tuple(map(self.cells.value_name, columns, codes))

    def name_of(self, columns: Key, codes: Key) -> str:
        """Name a crossing by its values."""
        names = [self.cells.columns[column] for column in columns]
        values = self.values(columns, codes)
        return ", ".join(f"{n}={v}" if n else v for n, v in zip(names, values, strict=True))

    def build(self, family: Family, stratum: Stratum) -> _Built | None:
        """Settle one family in one stratum; return None where it has nothing to compare."""
        columns = tuple(self.cells.columns.index(name) for name in family.names)
        where = f" | {self.name_of(stratum.columns, stratum.codes)}" if stratum.columns else ""
        name = _named(family) + where
        kind = self.cells.kinds[columns[0]]
        counting: Counting | None
        if kind == "continuous":
            return self._moments(family, columns[0], stratum, where)
        if kind == "membership":
            mixtures, column = self.cells.vocabularies[columns[0]], family.names[0]
            assert isinstance(mixtures, Mixtures)
            counting = Mixture(stratum, columns[0])
            names: list[Any] = [f"{column}={g}" if column else f"{g}" for g in mixtures.groups]
            values: list[tuple[Any, ...]] = [(group,) for group in mixtures.groups]
            self._refuse_small_mixture(counting, names, name)
        else:
            counting, names, values = self._crossings(family, columns, stratum, name)
        if counting is None:
            return None
        names = [f"{each}{where}" for each in names] if where else names
        design = counting.design(self.cells)
        share = self.cell_share @ design
        self._refuse_weightless(share, design, names)
        bound = self._bound(family, name, names, lambda: values, lambda: design.sum(axis=1))
        return _Built(family, name, counting, names, share, bound, design)

    def cells_as_groups(self, family: Family) -> _Built:
        """Settle the one family whose groups are the cells, too many for a design perhaps."""
        cells, name, names = self.cells, _named(family), self.cells.names.tolist()
        self._refuse_weightless(self.cell_share, np.arange(cells.n_cells), names)
        columns, codes = tuple(range(len(cells.columns))), cells.table

        def values() -> list[tuple[str, ...]]:
            return [self.values(columns, tuple(row)) for row in codes.tolist()]

        bound = self._bound(family, name, names, values, lambda: np.ones(cells.n_cells))
        counting = Families.of_cells(cells, name, bound, self.cell_share).counting[0]
        return _Built(family, name, counting, names, self.cell_share, bound, None)

    def _bound(
        self,
        family: Family,
        name: str,
        names: Sequence[Any],
        values: Callable[[], Sequence[tuple[Any, ...]]],
        part: Callable[[], Floats],
    ) -> Bound:
        """Make the bound of a family; ``part`` returns how much of each cell counts in it."""
        assert family.bound is not None and family.epsilon is not None
        own = (family.epsilon, family.parameters, self.n_classes, self.request.names)
        asked = Asked(*own, name, names, values, lambda: self.mean(part()))
        return BOUNDS[family.bound].of(asked)

    def _moments(self, family: Family, column: int, stratum: Stratum, where: str) -> _Built | None:
        """Settle the family of a continuous attribute, which bounds moments whatever is asked."""
        (name,) = family.names
        assert family.bound is not None and family.epsilon is not None
        if not BOUNDS[family.bound].of_moments:
            problem = f"The bound {family.bound!r} compares groups, but {name!r} is continuous."
            remedy = (
                f"Give it a family of its own: `families=[..., Family({name!r}, bound='range')]`."
            )
            raise ParameterError(problem, remedy=remedy, family=name, bound=family.bound)
        vocabulary, codes = self.cells.vocabularies[column], self.cells.table[:, column]
        values = np.asarray(vocabulary.values, np.float64)
        inside = stratum.of(self.cells) & (codes < len(values))
        weight = np.bincount(codes[inside], self.cell_share[inside], minlength=len(values))
        if stratum.columns and (weight > 0).sum() < 2:
            self._note_absent(family, stratum, ["a second value"])
            return None
        settings, there = self.cells.settings[column], weight > 0
        assert settings is not None
        basis = self.bases(column, stratum) if self.bases is not None else None
        if basis is None:
            options: Any = {"basis": settings.basis, "knots": settings.knots, "name": name}
            try:
                basis = fit_basis(values[there], weight[there], **options)
            except R2BError as error:
                if not where:
                    raise
                problem = f"In the stratum {where.removeprefix(' | ')!r}: {error.problem}"
                raise error.changed(problem=problem) from error
        counting = Moments(stratum, column, basis)
        # Moments are means over the rows of the stratum: the design carries its weight, the share
        # is its own.
        share = np.full(basis.n_functions, float(weight.sum()))
        names = [f"{each}{where}" for each in basis.names]
        bound = MomentBound.of(Asked(family.epsilon, {}, self.n_classes, self.request.names, name))
        design = counting.design(self.cells)
        return _Built(family, _named(family) + where, counting, names, share, bound, design)

    def _crossings(
        self, family: Family, columns: Key, stratum: Stratum, name: str
    ) -> tuple[Crossings | None, list[Any], list[tuple[Any, ...]]]:
        """Find the groups of a family, their names and values; none where nothing is compared."""
        codes, everyone = crossings_of(self.cells, columns)
        here = {everyone[code] for code in np.unique(codes[stratum.of(self.cells)]).tolist()}
        known = [key for key in everyone if not self.is_left_out(columns, key)]
        counted = [key for key in known if key in here]
        fewest = BOUNDS[str(family.bound)].fewest_groups if stratum.columns else 1
        if stratum.columns:
            absent = [self.name_of(columns, key) for key in known if key not in here]
            self._note_absent(family, stratum, absent)
        if fewest == 2 and len(counted) < fewest:
            return None, [], []
        if not counted:
            problem = f"Every row of the family {name!r} is left out because its value is missing."
            remedy = "Pass `missing='group'`, or another column."
            raise InputError(problem, remedy=remedy, family=name)
        groups = [[key] for key in counted]
        names: list[Any] = [self.name_of(columns, key) for key in counted]
        values: list[tuple[Any, ...]] = [self.values(columns, key) for key in counted]
        small = self._small(columns, stratum, counted)
        if small:
            kept = [group for group in range(len(counted)) if group not in small]
            merged = [counted[group] for group in small]
            if self.request.small_groups == "exclude":
                self._exclude(stratum, [names[group] for group in small], kept, name)
                merged = []
            other = self._merged(columns, names, small, kept, name) if merged else None
            groups = [groups[group] for group in kept] + [merged] * bool(merged)
            names = [names[group] for group in kept] + [other] * bool(merged)
            values = [values[group] for group in kept] + [(OTHER,)] * bool(merged)
        place = {key: number for number, keys in enumerate(groups) for key in keys}
        place |= dict.fromkeys(here - place.keys(), -1)
        if len(names) < fewest:
            return None, [], []
        return Crossings(stratum, columns, place, len(names)), names, values

    def _note_absent(self, family: Family, stratum: Stratum, groups: list[str]) -> None:
        where = self.name_of(stratum.columns, stratum.codes)
        if groups and self.request.absent == "error":
            problem = f"The stratum {where!r} has no rows of the group {groups[0]!r}."
            remedy = (
                "Merge strata, or pass `absent='report'` to leave such groups out and list them."
            )
            raise InputError(problem, remedy=remedy, stratum=where, group=groups[0], absent=groups)
        self.absent += [Absent(_named(family), where, group) for group in groups]

    def _small(self, columns: Key, stratum: Stratum, keys: list[Key]) -> dict[int, int]:
        """Return the groups that have too few rows, with their rows."""
        if not self.fewest:
            return {}
        codes, everyone = crossings_of(self.cells, columns)
        rows = np.bincount(codes, self.cells.counts * stratum.of(self.cells), len(everyone))
        of_key = dict(zip(everyone, rows.tolist(), strict=True))
        counts = [int(of_key[key]) for key in keys]
        return {group: n for group, n in enumerate(counts) if n < self.fewest}

    def _exclude(self, stratum: Stratum, groups: list[Any], kept: list[int], name: str) -> None:
        if not kept and not stratum.columns:
            problem = f"Every group of the family {name!r} has fewer than {self.fewest} rows."
            remedy = "Lower `min_group_size`, or pass another column."
            raise InputError(problem, remedy=remedy, family=name, groups=groups)
        where = f" | {self.name_of(stratum.columns, stratum.codes)}" if stratum.columns else ""
        self.excluded += [f"{group}{where}" for group in groups]

    def _merged(
        self, columns: Key, names: list[Any], small: dict[int, int], kept: list[int], name: str
    ) -> str:
        """Name the group that small groups are merged into, where they may be."""
        groups, counts = [names[group] for group in small], list(small.values())
        facts = {"family": name, "groups": groups, "counts": counts}
        rows = [
            f"{g!r} ({n} row{'s' if n > 1 else ''})" for g, n in zip(groups, counts, strict=True)
        ]
        listed = ", ".join(rows[:5])
        if self.request.small_groups == "error":
            many = f"{len(small)} group{'s' if len(small) > 1 else ''}"
            problem = f"The family {name!r} has {many} of fewer than {self.fewest} rows: {listed}."
            remedy = (
                "Pass `small_groups='merge'` to merge them into one, `small_groups='exclude'` to "
                "leave them out, or lower `min_group_size`."
            )
            raise InputError(problem, remedy=remedy, **facts)
        if sum(counts) < self.fewest:
            problem = (
                f"The small groups of the family {name!r} have {sum(counts)} rows even when put "
                f"together as {OTHER!r}: {listed}."
            )
            remedy = "Lower `min_group_size`, or leave their rows out."
            raise InputError(problem, remedy=remedy, **facts)
        # A column with a name shows it with every value, and so with this one.
        alone = self.cells.columns[columns[0]] if len(columns) == 1 else ""
        merged = f"{alone}={OTHER}" if alone else OTHER
        if merged in {names[group] for group in kept}:
            problem = (
                f"The family {name!r} already has a group called {merged!r}, so the small groups "
                "cannot be merged under this name."
            )
            raise InputError(problem, remedy="Rename that value first.", family=name, group=merged)
        return merged

    def _refuse_small_mixture(self, counting: Counting, names: list[Any], name: str) -> None:
        if not self.fewest:
            return
        counts = self.cells.counts @ counting.design(self.cells)
        small = np.flatnonzero(counts < self.fewest).tolist()
        if small:
            listed = ", ".join(f"{names[each]!r} ({counts[each]:.1f} rows)" for each in small[:5])
            many = f"{len(small)} group{'s' if len(small) > 1 else ''}"
            problem = (
                f"The family {name!r} has {many} of fewer than {self.fewest} expected rows: "
                f"{listed}."
            )
            remedy = (
                "Lower `min_group_size`, or add up the probabilities of small groups: uncertain "
                "groups are not merged or left out."
            )
            facts = {"groups": [names[each] for each in small], "counts": counts[small].tolist()}
            raise InputError(problem, remedy=remedy, family=name, **facts)

    def _refuse_weightless(self, share: Floats, members: Array, names: list[Any]) -> None:
        without = np.flatnonzero(share <= 0)
        if not len(without):
            return
        group = int(without[0])
        rows = self.cells.rows_of(members == group if members.ndim == 1 else members[:, group] > 0)
        problem = f"The weights of all {rows} rows of group {names[group]!r} are zero."
        remedy = "Give at least one of its rows a positive weight, or drop the group."
        if not rows:
            problem = f"No row belongs to group {names[group]!r} with any probability."
            remedy = "Leave its column out of the membership."
        raise WeightError(problem, remedy=remedy, group=names[group], count=rows)

    def offsets(self, built: list[_Built]) -> list[Floats | None]:
        """Read what is added to the means of each family."""
        asked = self.request.offsets
        if asked is None and all(each.family.offsets is None for each in built):
            return [None] * len(built)
        found = []
        for part, each in zip(
            by_family(asked, [(each.name, each.names) for each in built]), built, strict=True
        ):
            own = each.family.offsets
            if own is not None and (part is not None or self.cells.n_control):
                fault = "stand in the family, but its groups differ by control features"
                fault = "are given twice" if part is not None else fault
                remedy = f"Pass `offsets={{{each.name!r}: ...}}` alone, and none in the Family."
                problem = f"The offsets of the family {each.name!r} {fault}."
                raise ParameterError(problem, remedy=remedy, family=each.name)
            given = own if part is None else part
            found.append(read_offsets(given, each.bound, each.name, each.names, self.request.names))
        return found

    def joined(self, built: list[_Built]) -> tuple[Families, Parity]:
        """Put families side by side."""
        ends = np.cumsum([len(each.names) for each in built]).tolist()
        members = tuple(
            Member(each.name, slice(end - len(each.names), end), each.bound, own)
            for each, end, own in zip(built, ends, self.offsets(built), strict=True)
        )
        designs = [each.design for each in built if each.design is not None]
        if not designs:  # groups are the cells
            design, left_out, names, share = None, 0.0, self.cells.names, self.cell_share
        else:
            design = designs[0] if len(designs) == 1 else np.concatenate(designs, axis=1)
            counted = np.any([each.counting.counted(self.cells) for each in built], axis=0)
            left_out = float(self.cell_share[~counted].sum())
            names = frozen(np.array([name for each in built for name in each.names]))
            share = np.concatenate([each.share for each in built])
        families = Families(
            members,
            tuple(each.counting for each in built),
            names,
            share,
            tuple(self.strata()),
            tuple(self.absent),
            left_out,
            by_cell=design is None,
            excluded=tuple(self.excluded),
        )
        return families, Parity(members, names, share, self.cell_share, design)


def resolve(
    request: Request,
    groups: Cells,
    cell_weight: Floats,
    labels: Floats | Rows,
    bases: Bases | None = None,
) -> tuple[Families, Parity]:
    """Settle what is asked on a table.

    Parameters
    ----------
    request : Request
    groups : Cells
        The table's cells.
    cell_weight : ndarray of shape (n_cells,)
    labels : ndarray of shape (n_cells, n_classes) or Rows
        Means of the labels that came in, by cell; or the rows themselves, where cells are as many
        as rows.
    bases : callable, optional
        Returns the basis of a continuous attribute in a stratum; fitted to the cells where there is
        none.

    Returns
    -------
    families : Families
        To keep, and to read new rows with.
    parity : Parity
        The constraint, for the solver.

    Raises
    ------
    ParameterError
        A family, a bound or a target that cannot be.
    InputError
        Groups too small, absent or without weight.
    """
    share = cell_weight / cell_weight.sum()
    builder = _Builder(request, groups, share, labels, bases)
    wanted = families_of(request, groups)
    if _cells_are_groups(request, groups, wanted):
        return builder.joined([builder.cells_as_groups(wanted[0])])
    built: list[_Built] = []
    for stratum in builder.strata():
        if builder.is_left_out(stratum.columns, stratum.codes):
            continue
        here = [each for family in wanted if (each := builder.build(family, stratum)) is not None]
        # Means with offsets may meet targets that contradict each other: the solver will tell.
        if request.offsets is None and all(each.family.offsets is None for each in here):
            _refuse_contradiction(here, stratum, groups, request.names)
        built += here
    if not built:
        problem = (
            "No stratum of the control features has two groups, so there is nothing to compare."
        )
        remedy = "Use fewer control features, or coarser ones."
        raise ParameterError(
            problem,
            remedy=remedy,
            control_features=groups.columns[groups.n_sensitive :],
        )
    return builder.joined(built)


def _refuse_contradiction(
    built: list[_Built], stratum: Stratum, cells: Cells, classes: Sequence[object]
) -> None:
    """Refuse targets of families over the same rows that no labels can meet together.

    The mean over all rows lies between the means of groups, hence within reach of every target;
    rows that are all alike show that nothing else is needed.
    """
    inside = stratum.of(cells)
    everyone = [
        each
        for each in built
        if each.bound.level == "none"
        and each.bound.compares_groups
        and each.design is not None
        and np.allclose(each.design.sum(axis=1)[inside], 1.0)
    ]
    if len(everyone) < 2:
        return
    families = [each.name for each in everyone]
    low, high = common_limits(
        [Member(each.name, slice(0, len(each.names)), each.bound) for each in everyone]
    )
    listed = " and ".join(map(repr, families))
    remedy = "Give all families one target, or a larger epsilon."
    apart = np.flatnonzero(low > high + _SUM_ROUNDING)
    if len(apart):
        place = int(apart[0])
        label = classes[place] if len(classes) else place
        limits = f"one asks for at least {low[place]:.6g}, another for at most {high[place]:.6g}"
        problem = f"The targets of {listed} contradict each other for class {label!r}: {limits}."
        raise ParameterError(problem, remedy=remedy, class_name=label, families=families)
    if low.sum() > 1 + _SUM_ROUNDING or high.sum() < 1 - _SUM_ROUNDING:
        problem = f"The targets of {listed} leave no shares that add up to 1."
        raise ParameterError(problem, remedy=remedy, families=families)


def _named(family: Family) -> str:
    """Name a family by its columns; one column without a name has groups all the same."""
    return " x ".join(family.names) or "groups"


def _cells_are_groups(request: Request, groups: Cells, wanted: list[Family]) -> bool:
    whole = (
        len(wanted) == 1
        and wanted[0].names == groups.columns
        and set(groups.kinds) == {"categorical"}
    )
    left_out = request.missing == "exclude" and any(
        code is not None for code in groups.missing_codes
    )
    return whole and not groups.n_control and not left_out and request.min_group_size <= 0
