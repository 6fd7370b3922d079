"""Settle a request on a table: find the groups of every family and give each its bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from r2b._constraints.bounds import BOUNDS, Asked, Bound, MomentBound
from r2b._constraints.epsilon import epsilon_per_class
from r2b._constraints.families.fitted import (
    Absent,
    Counting,
    Crossings,
    Families,
    Key,
    Mixture,
    Moments,
    Stratum,
)
from r2b._constraints.families.offsets import by_family, read_offsets
from r2b._constraints.families.request import Family, Request, families_of
from r2b._constraints.parity import (
    Member,
    Parity,
    common_limits,
    side_by_side,
    some_shares,
)
from r2b._data.arrays import SUM_ROUNDING, Floats, frozen
from r2b._data.attributes import CONTINUOUS, MEMBERSHIP
from r2b._data.basis import fit_basis
from r2b._data.cells import Cells
from r2b._data.merge import Rows
from r2b._data.mixtures import Mixtures
from r2b._data.numbers import refuse_weightless_groups
from r2b._data.outcomes import Outcomes, read_outcomes
from r2b.errors import InputError, ParameterError, R2BError

OTHER = "other"
_Groups = tuple[Counting, list[Any]]
"""How a family counts cells, and the names of its groups."""


@dataclass(frozen=True, eq=False)
class _Built:
    """One family of one stratum; without a design its groups are the cells."""

    family: Family
    member: Member  # as if it were alone and without offsets
    counting: Counting
    names: list[Any]
    share: Floats
    design: Floats | None


@dataclass(frozen=True, eq=False)
class _Builder:
    """What the families of a stratum share while they are built."""

    request: Request
    cells: Cells
    cell_share: Floats
    labels: Floats | Rows
    outcomes: Outcomes | None
    stratum: Stratum
    absent: list[Absent] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)

    @property
    def compared(self) -> Any:
        """Names of the outcomes, or of the classes where every class is compared."""
        return self.request.names if self.outcomes is None else self.outcomes.names

    @property
    def matrix(self) -> Floats | None:
        """The outcomes as a matrix; None where every class is compared."""
        return None if self.outcomes is None else self.outcomes.matrix

    def shares(self, means: Floats) -> Floats:
        """Return the shares of outcomes from means of labels."""
        return means if self.outcomes is None else self.outcomes.shares(means)

    def mean(self, part: Floats) -> Floats:
        """Return the share of each outcome, where so much of each cell counts."""
        if isinstance(self.labels, Rows):
            return self.shares(self.labels.mean(part))
        covered = self.cell_share * part
        return self.shares(np.asarray(covered @ self.labels / covered.sum()))

    def means(self, design: Floats | None) -> Floats:
        """Return the shares of outcomes in each group; without a design groups are the cells."""
        if design is None:
            assert not isinstance(self.labels, Rows)
            return self.shares(self.labels)
        return np.array([self.mean(part) for part in design.T])

    def strata(self) -> list[Stratum]:
        """List the strata of the control features, those of a missing value among them."""
        control = tuple(range(self.cells.n_sensitive, len(self.cells.columns)))
        return [Stratum(control, codes) for codes in self.cells.crossings(control)[1]]

    def is_left_out(self, columns: Key, codes: Key) -> bool:
        """Return whether a crossing has a missing value, and such rows are to be left out."""
        missing = self.cells.missing_codes
        return self.request.missing == "exclude" and any(
            missing[column] == code for column, code in zip(columns, codes, strict=True)
        )

    @property
    def where(self) -> str:
        """The name of the stratum."""
        return self.cells.crossing_name(self.stratum.columns, self.stratum.codes)

    def here(self, name: str) -> str:
        """Return a name of all rows as that of rows in the stratum."""
        return f"{name} | {self.where}" if self.stratum.columns else name

    def build(self, family: Family, *, whole: bool) -> _Built | None:
        """Settle one family; return None where it has nothing to compare.

        The groups of a ``whole`` family are the cells, too many for a design perhaps.
        """
        cells, name = self.cells, self.here(_named(family))
        columns = tuple(cells.columns.index(each) for each in family.names)
        of_kind = {CONTINUOUS: self._moments, MEMBERSHIP: self._mixture}
        kind = cells.kinds[columns[0]]
        find = self._cells if whole else of_kind.get(kind, self._crossings)
        found = find(family, columns)
        if found is None:
            return None
        counting, groups = found
        names = list(map(self.here, groups)) if self.stratum.columns else groups
        design = None if whole else counting.design(cells)
        share = self.cell_share if design is None else self.cell_share @ design
        kind_of_bound: type[Bound] = BOUNDS[str(family.bound)]
        if isinstance(counting, Moments):
            # Moments are means over the rows of the stratum: the design carries its weight.
            weight = self.cell_share[counting.counted(cells)].sum()
            share, kind_of_bound = np.full(len(names), float(weight)), MomentBound
        else:
            parts = np.arange(cells.n_cells) if design is None else design
            refuse_weightless_groups(cells, parts, share, names)
        asked = Asked(
            epsilon_per_class(family.epsilon, self.compared, largest=kind_of_bound.largest),
            family.parameters,
            self.compared,
            name,
            groups,
            family.names,
            lambda: self.mean(np.ones(len(share)) if design is None else design.sum(axis=1)),
            lambda: self.means(design),
            add_up=self.outcomes is None,
        )
        member = Member(name, slice(0, len(names)), kind_of_bound.of(asked))
        return _Built(family, member, counting, names, share, design)

    def _moments(self, family: Family, columns: Key) -> _Groups | None:
        """Find the moments of a continuous attribute, which are bounded whatever is asked."""
        (column,), (attribute,) = columns, family.names
        if not BOUNDS[str(family.bound)].of_moments:
            problem = (
                f"The bound {family.bound!r} compares groups, but {attribute!r} is continuous."
            )
            own = f"Family({attribute!r}, bound='range')"
            remedy = f"Give it a family of its own: `families=[..., {own}]`."
            raise ParameterError(problem, remedy=remedy, family=attribute, bound=family.bound)
        codes = self.cells.table[:, column]
        values = np.asarray(self.cells.vocabularies[column].values, np.float64)
        inside = self.stratum.of(self.cells) & (codes < len(values))
        weight = np.bincount(codes[inside], self.cell_share[inside], minlength=len(values))
        there = weight > 0
        if self.stratum.columns and there.sum() < 2:
            self._note_absent(family, ["a second value"])
            return None
        settings = self.cells.settings[column]
        assert settings is not None
        options: Any = {"basis": settings.basis, "knots": settings.knots, "name": attribute}
        try:
            basis = fit_basis(values[there], weight[there], **options)
        except R2BError as error:
            if not self.stratum.columns:
                raise
            problem = f"In the stratum {self.where!r}: {error.problem}"
            raise error.changed(problem=problem) from error
        return Moments(self.stratum, column, basis), list(basis.names)

    def _mixture(self, family: Family, columns: Key) -> _Groups:
        """Find the groups of uncertain memberships, refusing small ones."""
        (column,), (attribute,) = columns, family.names
        mixtures, counting = self.cells.vocabularies[column], Mixture(self.stratum, column)
        assert isinstance(mixtures, Mixtures)
        names = [f"{attribute}={g}" if attribute else f"{g}" for g in mixtures.groups]
        rows = dict(zip(names, self.cells.counts @ counting.design(self.cells), strict=True))
        small = {each: round(n, 1) for each, n in rows.items() if n < self.request.min_group_size}
        if small:
            remedy = (
                "Lower `min_group_size`, or add up the probabilities of small groups: uncertain "
                "groups are not merged or left out."
            )
            raise self._too_small(family, small, remedy)
        return counting, names

    def _cells(self, family: Family, columns: Key) -> _Groups:
        """Take the cells as groups."""
        place = tuple((tuple(row), cell) for cell, row in enumerate(self.cells.table.tolist()))
        return Crossings(self.stratum, columns, place, len(place)), self.cells.names.tolist()

    def _crossings(self, family: Family, columns: Key) -> _Groups | None:
        """Find the groups of a family; none where nothing is compared."""
        codes, crossings = self.cells.crossings(columns)
        inside = self.stratum.of(self.cells)
        rows = np.bincount(codes, self.cells.counts * inside, len(crossings)).tolist()
        here = set(np.unique(codes[inside]).tolist())
        names = {
            k: self.cells.crossing_name(columns, key)
            for k, key in enumerate(crossings)
            if not self.is_left_out(columns, key)
        }
        counted = [k for k in names if k in here]
        fewest = 1
        if self.stratum.columns:
            fewest = BOUNDS[str(family.bound)].fewest_groups
            self._note_absent(family, [names[k] for k in names if k not in here])
            if len(counted) < fewest:
                return None
        if not counted:
            name = _named(family)
            problem = f"Every row of the family {name!r} is left out because its value is missing."
            remedy = "Pass `missing='group'`, or another column."
            raise InputError(problem, remedy=remedy, family=name)
        large = [k for k in counted if rows[k] >= self.request.min_group_size]
        few = [k for k in counted if rows[k] < self.request.min_group_size]
        small = {names[k]: int(rows[k]) for k in few}
        named: list[Any] = [names[k] for k in large]
        place = {crossings[k]: group for group, k in enumerate(large)}
        if small and self.request.small_groups == "exclude":
            if not large and not self.stratum.columns:
                remedy = "Lower `min_group_size`, or pass another column."
                raise self._too_small(family, small, remedy)
            self.excluded.extend(map(self.here, small))
        elif small:
            place |= {crossings[k]: len(large) for k in few}
            named.append(self._merged(family, small, named))
        if len(named) < fewest:
            return None
        place |= {crossings[k]: -1 for k in here if crossings[k] not in place}
        return Crossings(self.stratum, columns, tuple(place.items()), len(named)), named

    def _note_absent(self, family: Family, groups: list[str]) -> None:
        if groups and self.request.absent == "error":
            problem = f"The stratum {self.where!r} has no rows of the group {groups[0]!r}."
            remedy = (
                "Merge strata, or pass `absent='report'` to leave such groups out and list them."
            )
            facts: dict[str, Any] = {"stratum": self.where, "group": groups[0], "absent": groups}
            raise InputError(problem, remedy=remedy, **facts)
        self.absent.extend(Absent(_named(family), self.where, group) for group in groups)

    def _too_small(self, family: Family, small: Mapping[str, float], remedy: str) -> InputError:
        """Return an error about groups of few rows; ``small`` has the rows of each by name."""
        name = self.here(_named(family))
        facts = {"family": name, "groups": list(small), "counts": list(small.values())}
        many = f"{len(small)} group{'s' if len(small) > 1 else ''}"
        rows = [f"{g!r} ({n:.10g} row{'' if n == 1 else 's'})" for g, n in small.items()]
        few = f"fewer than {self.request.min_group_size} rows: {', '.join(rows[:5])}"
        problem = f"The family {name!r} has {many} of {few}."
        return InputError(problem, remedy=remedy, **facts)

    def _merged(self, family: Family, small: dict[str, int], kept: list[str]) -> str:
        """Name the group that small groups are merged into, where they may be."""
        total = sum(small.values())
        if self.request.small_groups == "error":
            remedy = (
                "Pass `small_groups='merge'` to merge them into one, `small_groups='exclude'` to "
                "leave them out, or lower `min_group_size`."
            )
            raise self._too_small(family, small, remedy)
        if total < self.request.min_group_size:
            together = f"They have {total} rows even when put together as {OTHER!r}."
            remedy = f"{together} Lower `min_group_size`, or pass `small_groups='exclude'`."
            raise self._too_small(family, small, remedy)
        # A column with a name shows it with every value, and so with this one.
        alone = family.names[0] if len(family.names) == 1 else ""
        merged = f"{alone}={OTHER}" if alone else OTHER
        if merged in kept:
            name = self.here(_named(family))
            problem = (
                f"The family {name!r} already has a group called {merged!r}, so the small groups "
                "cannot be merged under this name."
            )
            raise InputError(problem, remedy="Rename that value first.", family=name, group=merged)
        return merged

    def offsets(self, built: list[_Built]) -> list[Floats | None]:
        """Read what is added to the means of each family."""
        found = list[Floats | None]()
        parts = by_family(self.request.offsets, [each.member.name for each in built])
        for part, each in zip(parts, built, strict=True):
            own, name = each.family.offsets, each.member.name
            if own is not None and (part is not None or self.cells.n_control):
                fault = "stand in the family, but its groups differ by control features"
                fault = "are given twice" if part is not None else fault
                remedy = f"Pass `offsets={{{name!r}: ...}}` alone, and none in the Family."
                problem = f"The offsets of the family {name!r} {fault}."
                raise ParameterError(problem, remedy=remedy, family=name)
            given = own if part is None else part
            added = read_offsets(given, each.member.bound, name, each.names, self.request.names)
            found.append(None if added is None else self.shares(added))
        return found

    def refuse_contradiction(self, built: list[_Built]) -> None:
        """Refuse targets of families over the same rows that no labels can meet together.

        The mean over all rows lies between the means of groups, hence within reach of every target;
        rows that are all alike show that nothing else is needed.
        """
        inside = self.stratum.of(self.cells)
        everyone = [
            each.member
            for each in built
            if each.member.bound.level == "none"
            and each.member.bound.compares_groups
            and (each.design is None or np.allclose(each.design.sum(axis=1)[inside], 1.0))
        ]
        if len(everyone) < (2 if self.matrix is None else 1):
            return
        low, high = common_limits(everyone)
        if some_shares(low, high, self.matrix, SUM_ROUNDING):
            return
        facts: dict[str, Any] = {"families": [each.name for each in everyone]}
        fault = "leave no shares of the classes that meet them all"
        apart = np.flatnonzero(low > high + SUM_ROUNDING)
        if len(apart):
            place = int(apart[0])
            label = facts["class_name"] = self.compared[place]
            limits = (
                f"one asks for at least {low[place]:.6g}, another for at most {high[place]:.6g}"
            )
            fault = f"contradict each other for class {label!r}: {limits}"
        problem = f"The targets of {' and '.join(map(repr, facts['families']))} {fault}."
        remedy = "Give all families one target, or a larger epsilon."
        raise ParameterError(problem, remedy=remedy, **facts)

    def joined(self, built: list[_Built]) -> tuple[Families, Parity]:
        """Put families side by side."""
        each_offsets = zip(built, self.offsets(built), strict=True)
        members = side_by_side([replace(each.member, offsets=own) for each, own in each_offsets])
        designs = [each.design for each in built if each.design is not None]
        if designs:
            design = designs[0] if len(designs) == 1 else np.concatenate(designs, axis=1)
            names = frozen(np.array([name for each in built for name in each.names]))
        else:  # groups are the cells
            design, names = None, self.cells.names
        counted = np.any([each.counting.counted(self.cells) for each in built], axis=0)
        share = np.concatenate([each.share for each in built])
        families = Families(
            members,
            tuple(each.counting for each in built),
            names,
            share,
            tuple(self.strata()),
            tuple(self.absent),
            float(self.cell_share[~counted].sum()),
            by_cell=design is None,
            excluded=tuple(self.excluded),
            outcomes=self.outcomes,
        )
        parity = Parity(members, names, share, self.cell_share, design, outcomes=self.matrix)
        return families, parity


def resolve(
    request: Request,
    groups: Cells,
    cell_weight: Floats,
    labels: Floats | Rows,
) -> tuple[Families, Parity]:
    """Settle what is asked on a table.

    Parameters
    ----------
    request : Request
        Of the classes of the table, see :meth:`Request.of_classes`.
    groups : Cells
        The table's cells.
    cell_weight : ndarray of shape (n_cells,)
    labels : ndarray of shape (n_cells, n_classes) or Rows
        Means of the old labels, by cell; or the rows themselves, where cells are as many
        as rows.

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
    outcomes = read_outcomes(request.outcomes, request.names)
    builder = _Builder(request, groups, share, labels, outcomes, Stratum())
    wanted = families_of(request, groups)
    whole = _cells_are_groups(request, groups, wanted)
    built: list[_Built] = []
    for stratum in builder.strata():
        if builder.is_left_out(stratum.columns, stratum.codes):
            continue
        inside = replace(builder, stratum=stratum)
        found = [inside.build(family, whole=whole) for family in wanted]
        here = [each for each in found if each is not None]
        # Means with offsets may meet targets that contradict each other: the solver will tell.
        if request.offsets is None and all(each.family.offsets is None for each in here):
            inside.refuse_contradiction(here)
        built += here
    if not built:
        control = groups.columns[groups.n_sensitive :]
        raise ParameterError(
            "No stratum of the control features has two groups, so there is nothing to compare.",
            remedy="Use fewer control features, or coarser ones.",
            control_features=control,
        )
    return builder.joined(built)


def _named(family: Family) -> str:
    """Name a family by its columns; one column without a name has groups all the same."""
    return " x ".join(family.names) or "groups"


def _cells_are_groups(request: Request, groups: Cells, wanted: list[Family]) -> bool:
    left_out = request.missing == "exclude" and any(
        code is not None for code in groups.missing_codes
    )
    return (
        [family.names for family in wanted] == [groups.columns]
        and groups.is_categorical
        and not groups.n_control
        and not left_out
        and request.min_group_size <= 0
    )
