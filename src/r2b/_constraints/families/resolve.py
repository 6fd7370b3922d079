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
from r2b._data.arrays import Array, Floats
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
    """One family of one stratum: how it counts cells, and what its groups are called."""

    name: str
    counting: Counting
    names: list[Any]
    design: Floats
    share: Floats
    bound: Bound
    own: Any = None  # offsets that were given with the family


@dataclass(eq=False)
class _Builder:
    """What all families of a table share while they are built."""

    request: Request
    groups: Cells
    cell_share: Floats
    labels: Floats | Rows
    bases: Bases | None = None
    absent: list[Absent] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return self.labels.n_classes if isinstance(self.labels, Rows) else self.labels.shape[1]

    def mean(self, part: Floats) -> Floats:
        """Give the mean of the labels that came in, where so much of each cell counts."""
        if isinstance(self.labels, Rows):
            return self.labels.mean(part)
        covered = self.cell_share * part
        return np.asarray(covered @ self.labels / covered.sum())

    def strata(self) -> tuple[Stratum, ...]:
        """Give the strata of the control features, those of a missing value among them."""
        control = tuple(
            range(len(self.groups.columns) - self.groups.n_control, len(self.groups.columns))
        )
        return (
            tuple(Stratum(control, codes) for codes in crossings_of(self.groups, control)[1])
            if control
            else (Stratum(),)
        )

    def left_out(self, columns: Key, codes: Key) -> bool:
        """Tell whether a crossing has a missing value, and such rows are to be left out."""
        missing = self.groups.missing_codes
        return self.request.missing == "exclude" and any(
            missing[column] == code for column, code in zip(columns, codes, strict=True)
        )

    def name_of(self, columns: Key, codes: Key) -> str:
        """Name a crossing by its values."""
        values = self.values_of(columns, codes)
        names = [self.groups.columns[column] for column in columns]
        return ", ".join(
            f"{name}={value}" if name else str(value)
            for name, value in zip(names, values, strict=True)
        )

    def build(self, family: Family, stratum: Stratum) -> _Built | None:
        """Settle one family in one stratum; None where it has nothing to agree with."""
        columns = tuple(self.groups.columns.index(name) for name in family.names)
        where = f" | {self.name_of(stratum.columns, stratum.codes)}" if stratum.columns else ""
        name = _named(family) + where
        kind = self.groups.kinds[columns[0]]
        if kind == "continuous":
            return self._moments(family, columns[0], stratum, where)
        if kind == "membership":
            counting: Counting = Mixture(stratum, columns[0])
            mixtures, column = self.groups.vocabularies[columns[0]], family.names[0]
            assert isinstance(mixtures, Mixtures)
            names: list[Any] = [
                f"{column}={group}{where}" if column else f"{group}{where}"
                for group in mixtures.groups
            ]
            self._refuse_small_mixture(counting, names, name)
        else:
            crossings = self._crossings(family, columns, stratum, name, where)
            if crossings is None:
                return None
            counting, names = crossings
        design = counting.design(self.groups)
        share = self.cell_share @ design
        self._refuse_weightless(share, design, names)
        bound = self.bound(
            family, name, names, lambda: self._values(counting), lambda: design.sum(axis=1)
        )
        return _Built(name, counting, names, design, share, bound, family.offsets)

    def bound(
        self,
        family: Family,
        name: str,
        names: Sequence[Any],
        values: Callable[[], Sequence[tuple[Any, ...]]],
        part: Callable[[], Floats],
    ) -> Bound:
        """Make the bound of a family; ``part`` returns how much of each cell counts in it."""
        assert family.bound is not None and family.epsilon is not None
        asked = Asked(
            family.epsilon,
            family.parameters,
            self.n_classes,
            self.request.names,
            name,
            names,
            values,
            lambda: self.mean(part()),
        )
        return BOUNDS[family.bound].of(asked)

    def _values(self, counting: Counting) -> list[tuple[Any, ...]]:
        """Return the values of the columns in each group; several crossings may be one group."""
        if isinstance(counting, Mixture):
            mixtures = self.groups.vocabularies[counting.column]
            assert isinstance(mixtures, Mixtures)
            return [(group,) for group in mixtures.groups]
        assert isinstance(counting, Crossings)
        found: list[tuple[Any, ...]] = [(OTHER,)] * counting.n_groups
        counts = np.bincount([group for group in counting.place.values() if group >= 0])
        for key, group in counting.place.items():
            if group >= 0 and counts[group] == 1:
                found[group] = self.values_of(counting.columns, key)
        return found

    def values_of(self, columns: Key, codes: Key) -> tuple[Any, ...]:
        """Return the values of a crossing."""
        pairs = zip(columns, codes, strict=True)
        return tuple(self.groups.value_name(column, code) for column, code in pairs)

    def _moments(self, family: Family, column: int, stratum: Stratum, where: str) -> _Built | None:
        vocabulary, codes = self.groups.vocabularies[column], self.groups.table[:, column]
        values = np.asarray(vocabulary.values, np.float64)
        inside = stratum.of(self.groups) & (codes < len(values))
        weight = np.bincount(codes[inside], self.cell_share[inside], minlength=len(values))
        if stratum.columns and (weight > 0).sum() < 2:
            # like a stratum with one group: there is nothing to compare
            self._note_absent(family, stratum, ["a second value"])
            return None
        settings = self.groups.settings[column]
        assert settings is not None
        known = self.bases(column, stratum) if self.bases is not None else None
        try:
            basis = known or fit_basis(
                values[weight > 0],
                weight[weight > 0],
                basis=settings.basis,
                knots=settings.knots,
                name=family.names[0],
            )
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
        bound = self._moment_bound(family)
        return _Built(
            _named(family) + where,
            counting,
            names,
            counting.design(self.groups),
            share,
            bound,
            family.offsets,
        )

    def _moment_bound(self, family: Family) -> MomentBound:
        """Make the bound of a continuous attribute, which limits moments whatever groups are asked.

        Raises
        ------
        ParameterError
            A bound that means nothing without groups.
        """
        (name,) = family.names
        assert family.bound is not None and family.epsilon is not None
        if not BOUNDS[family.bound].of_moments:
            problem = (
                f"The bound {family.bound!r} compares groups, and {name!r} is continuous and has "
                "none."
            )
            remedy = (
                f"Give it a family of its own: `families=[..., Family({name!r}, bound='range')]`."
            )
            raise ParameterError(problem, remedy=remedy, family=name, bound=family.bound)
        return MomentBound.of(Asked(family.epsilon, {}, self.n_classes, self.request.names, name))

    def _crossings(
        self, family: Family, columns: Key, stratum: Stratum, name: str, where: str
    ) -> tuple[Crossings, list[Any]] | None:
        codes, everyone = crossings_of(self.groups, columns)
        here = {everyone[code] for code in np.unique(codes[stratum.of(self.groups)]).tolist()}
        known = [key for key in everyone if not self.left_out(columns, key)]
        counted = [key for key in known if key in here]
        # groups of a stratum, to have something to agree with
        fewest = BOUNDS[str(family.bound)].fewest_groups if stratum.columns else 1
        if stratum.columns:
            self._note_absent(
                family, stratum, [self.name_of(columns, key) for key in known if key not in here]
            )
        if fewest == 2 and len(counted) < fewest:
            return None
        if not counted:
            remedy = "Pass missing='group', or another column."
            raise InputError(
                f"Every row of the family {name!r} is left out because its value is missing.",
                remedy=remedy,
                family=name,
            )
        place = {key: number for number, key in enumerate(counted)}
        place |= dict.fromkeys(here - place.keys(), -1)
        crossings, names = self._without_small(
            Crossings(stratum, columns, place, len(counted)), counted, name
        )
        if len(names) < fewest:
            return None  # what is left of the stratum has nothing to agree with
        return crossings, [f"{each}{where}" for each in names] if where else names

    def _note_absent(self, family: Family, stratum: Stratum, groups: list[str]) -> None:
        where = self.name_of(stratum.columns, stratum.codes)
        if groups and self.request.absent == "error":
            problem = f"The stratum {where!r} has no rows of the group {groups[0]!r}."
            remedy = "Merge strata, or pass absent='report' to leave such groups out of their stratum and list them."
            raise InputError(problem, remedy=remedy, stratum=where, group=groups[0], absent=groups)
        self.absent += [Absent(_named(family), where, group) for group in groups]

    def _without_small(
        self, crossings: Crossings, keys: list[Key], name: str
    ) -> tuple[Crossings, list[Any]]:
        """Put small groups of a family together, or leave them out as rows without a value are; give the names of the groups as well."""
        names: list[Any] = [self.name_of(crossings.columns, key) for key in keys]
        fewest = int(self.request.min_group_size)
        counts = (
            self.groups.counts @ crossings.design(self.groups)
            if fewest > 0
            else np.full(len(names), np.inf)
        )
        small = np.flatnonzero(counts < fewest).tolist()
        if not small:
            return crossings, names
        kept = [group for group in range(len(names)) if counts[group] >= fewest]
        new = {group: number for number, group in enumerate(kept)}
        named = [names[group] for group in kept]
        if self.request.small_groups == "exclude":
            self._exclude(crossings.stratum, [names[group] for group in small], kept, name)
        else:
            named.append(self._merged(crossings.columns, names, counts, small, name))
            new |= dict.fromkeys(small, len(kept))
        place = {key: new.get(group, -1) for key, group in crossings.place.items()}
        return Crossings(crossings.stratum, crossings.columns, place, len(named)), named

    def _exclude(self, stratum: Stratum, groups: list[Any], kept: list[int], name: str) -> None:
        if not kept and not stratum.columns:
            problem = f"Every group of the family {name!r} has fewer than {int(self.request.min_group_size)} rows and is left out."
            raise InputError(
                problem,
                remedy="Lower min_group_size, or pass another column.",
                family=name,
                groups=groups,
            )
        where = f" | {self.name_of(stratum.columns, stratum.codes)}" if stratum.columns else ""
        self.excluded += [f"{group}{where}" for group in groups]

    def _merged(
        self, columns: Key, names: list[Any], counts: Floats, small: list[int], name: str
    ) -> str:
        """Name what small groups are put together as, where they may be."""
        fewest, together = int(self.request.min_group_size), int(counts[small].sum())
        facts = {
            "family": name,
            "groups": [names[group] for group in small],
            "counts": [int(counts[group]) for group in small],
        }
        listed = ", ".join(
            f"{names[group]!r} ({int(counts[group])} row{'s' if counts[group] > 1 else ''})"
            for group in small[:5]
        )
        if self.request.small_groups == "error":
            problem = f"The family {name!r} has {len(small)} group{'s' if len(small) > 1 else ''} of fewer than {fewest} rows: {listed}."
            ways = "`small_groups='merge'` to merge them into one, `small_groups='exclude'` to leave them out"
            raise InputError(problem, remedy=f"Pass {ways}, or lower `min_group_size`.", **facts)
        if together < fewest:
            problem = f"The small groups of the family {name!r} have {together} rows even when put together as 'other': {listed}."
            raise InputError(
                problem, remedy="Lower min_group_size, or leave their rows out.", **facts
            )
        # A column with a name shows it with every value, and so with this one.
        alone = self.groups.columns[columns[0]] if len(columns) == 1 else ""
        merged = f"{names[small[0]].partition('=')[0]}={OTHER}" if alone else OTHER
        if merged in {names[group] for group in range(len(names)) if counts[group] >= fewest}:
            problem = f"The family {name!r} already has a group called {merged!r}, so the small groups cannot be merged under this name."
            raise InputError(problem, remedy="Rename that value first.", family=name, group=merged)
        return merged

    def _refuse_small_mixture(self, counting: Counting, names: list[Any], name: str) -> None:
        fewest = self.request.min_group_size
        if fewest <= 0:
            return
        counts = self.groups.counts @ counting.design(self.groups)
        small = np.flatnonzero(counts < fewest).tolist()
        if small:
            listed = ", ".join(
                f"{names[group]!r} ({counts[group]:.1f} rows)" for group in small[:5]
            )
            many = f"{len(small)} group{'s' if len(small) > 1 else ''}"
            problem = (
                f"The family {name!r} has {many} of fewer than {fewest} expected rows: {listed}."
            )
            remedy = "Lower min_group_size, or add up the probabilities of small groups: uncertain groups are not merged or left out."
            raise InputError(
                problem,
                remedy=remedy,
                family=name,
                groups=[names[each] for each in small],
                counts=counts[small].tolist(),
            )

    def _refuse_weightless(self, share: Floats, members: Array, names: list[Any]) -> None:
        without = np.flatnonzero(share <= 0)
        if len(without):
            group = int(without[0])
            cells = members == group if members.ndim == 1 else members[:, group] > 0
            if not self.groups.rows_of(cells):
                problem = f"No row belongs to group {names[group]!r} with any probability."
                raise WeightError(
                    problem,
                    remedy="Leave its column out of the membership.",
                    group=names[group],
                    count=0,
                )
            problem = f"The weights of all {self.groups.rows_of(cells)} rows of group {names[group]!r} are zero."
            remedy = "Give at least one of its rows a positive weight, or drop the group."
            raise WeightError(
                problem, remedy=remedy, group=names[group], count=self.groups.rows_of(cells)
            )

    def plain(self, family: Family) -> tuple[Families, Parity]:
        """Settle the one family whose groups are the cells themselves, which may be too many for a design."""
        groups, name = self.groups, _named(family)
        names: list[Any] = groups.names.tolist()
        self._refuse_weightless(self.cell_share, np.arange(groups.n_cells), names)
        columns = tuple(range(len(groups.columns)))
        bound = self.bound(
            family,
            name,
            names,
            lambda: [self.values_of(columns, tuple(row)) for row in groups.table.tolist()],
            lambda: np.ones(groups.n_cells),
        )
        (offsets,) = self.offsets([(name, names, bound, family.offsets)])
        families = Families.of_cells(groups, name, bound, self.cell_share, offsets)
        return families, Parity(families.members, groups.names, self.cell_share, self.cell_share)

    def offsets(self, families: list[tuple[str, Sequence[Any], Bound, Any]]) -> list[Floats | None]:
        """Read what is added to means, from name, groups, bound and own offsets of each family."""
        if self.request.offsets is None and all(own is None for *_, own in families):
            return [None] * len(families)
        given = by_family(self.request.offsets, [(name, groups) for name, groups, _, _ in families])
        for part, (name, _, _, own) in zip(given, families, strict=True):
            if own is not None and (part is not None or self.groups.n_control):
                fault = "stand in the family, but its groups differ by control features"
                fault = "are given twice" if part is not None else fault
                remedy = f"Pass `offsets={{{name!r}: ...}}` alone, and none in the Family."
                problem = f"The offsets of the family {name!r} {fault}."
                raise ParameterError(problem, remedy=remedy, family=name)
        classes = self.request.names
        return [
            read_offsets(own if part is None else part, bound, name, groups, classes)
            for part, (name, groups, bound, own) in zip(given, families, strict=True)
        ]

    def joined(self, built: list[_Built]) -> tuple[Families, Parity]:
        """Put families side by side."""
        ends = np.cumsum([len(each.names) for each in built]).tolist()
        offsets = self.offsets([(each.name, each.names, each.bound, each.own) for each in built])
        members = tuple(
            Member(each.name, slice(end - len(each.names), end), each.bound, own)
            for each, end, own in zip(built, ends, offsets, strict=True)
        )
        design = (
            built[0].design
            if len(built) == 1
            else np.concatenate([each.design for each in built], axis=1)
        )
        counted = np.any([each.counting.counted(self.groups) for each in built], axis=0)
        left_out = float(self.cell_share[~counted].sum())
        share = np.concatenate([each.share for each in built])
        names = np.array([name for each in built for name in each.names])
        names.flags.writeable = False
        counting = tuple(each.counting for each in built)
        families = Families(
            members,
            counting,
            names,
            share,
            self.strata(),
            tuple(self.absent),
            left_out,
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
        Gives the basis of a continuous attribute in a stratum; fitted to the cells where there is
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
        return builder.plain(wanted[0])
    built: list[_Built] = []
    for stratum in builder.strata():
        if builder.left_out(stratum.columns, stratum.codes):
            continue
        here = [each for family in wanted if (each := builder.build(family, stratum)) is not None]
        # Means with offsets may meet targets that contradict each other: the solver will tell.
        if request.offsets is None and all(each.own is None for each in here):
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
            control_features=groups.columns[len(groups.columns) - groups.n_control :],
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
