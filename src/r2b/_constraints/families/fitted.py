"""Families once they are settled: how much each cell counts in each group, for new rows too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from r2b._constraints.bounds import BOUNDS
from r2b._constraints.parity import Member, side_by_side
from r2b._data.arrays import Array, Flags, Floats, Whole
from r2b._data.basis import Basis
from r2b._data.cells import WHAT, Cells, Layout
from r2b._data.compute import one_blas_thread
from r2b._data.mixtures import Mixtures
from r2b._data.outcomes import Outcomes
from r2b._data.values import json_value, stored_numbers
from r2b.errors import UnseenError

Key = tuple[int, ...]


@dataclass(frozen=True)
class Absent:
    """A group that a stratum of the control features does not have; the stratum does without it.

    Attributes
    ----------
    family, stratum, group : str
    """

    family: str
    stratum: str
    group: str


@dataclass(frozen=True, eq=False)
class Stratum:
    """The rows that a family looks at: those with given values of the control features.

    Attributes
    ----------
    columns : tuple of int
        Places of the control columns; empty where there are none and all rows count.
    codes : tuple of int
    """

    columns: Key = ()
    codes: Key = ()

    def of(self, cells: Layout) -> Flags:
        """Return which cells belong to it."""
        return np.asarray((cells.table[:, list(self.columns)] == self.codes).all(axis=1))

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"control_columns": list(self.columns), "control_codes": list(self.codes)}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Stratum:
        """Restore a stratum from :meth:`to_json`."""
        return cls(_key(stored["control_columns"]), _key(stored["control_codes"]))


@dataclass(frozen=True, eq=False)
class Counting(ABC):
    """How one family counts cells.

    Attributes
    ----------
    stratum : Stratum
        The cells that it looks at.
    """

    kind: ClassVar[str]
    stratum: Stratum

    @abstractmethod
    def design(self, cells: Layout) -> Floats:
        """Return the part of each cell in each group, of shape (n_cells, n_groups)."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        own = {each.name: getattr(self, each.name) for each in fields(self)[1:]}
        if isinstance(own.get("basis"), Basis):
            own["basis"] = own["basis"].to_json()
        return {"kind": self.kind, **json_value(own), **self.stratum.to_json()}

    def shifts(self, cells: Layout, prices: Floats) -> Floats:
        """Add up the prices of the family's groups for each cell."""
        return self.design(cells) @ prices

    def sums(self, cells: Layout, values: Floats, *, power: int = 1) -> Floats:
        """Add up values of cells, or tables of values, by group, times a power of their parts."""
        parts = self.design(cells) if power == 1 else self.design(cells) ** power
        with one_blas_thread(parts.size):
            return np.tensordot(parts, values, axes=(0, 0))

    def counted(self, cells: Layout) -> Flags:
        """Return which cells the family counts."""
        return self.stratum.of(cells)


@dataclass(frozen=True, eq=False)
class Crossings(Counting):
    """A family of groups: each crossing of some columns is in one group, or in none.

    Attributes
    ----------
    columns : tuple of int
        Places of the columns in the table of cells.
    place : tuple of (tuple of int, int)
        Codes of the columns, and the number of the group; -1 for rows left out.
    n_groups : int
    """

    kind = "crossings"
    columns: Key
    place: tuple[tuple[Key, int], ...]
    n_groups: int

    def design(self, cells: Layout) -> Floats:
        """Return the part of each cell in each group: 1 or 0."""
        return np.eye(self.n_groups + 1)[self.places(cells), : self.n_groups]

    # Looked up, not multiplied: groups can be as many as cells.
    def shifts(self, cells: Layout, prices: Floats) -> Floats:
        """Return the prices of the group that each cell is in."""
        return np.concatenate([prices, np.zeros((1, prices.shape[1]))])[self.places(cells)]

    def sums(self, cells: Layout, values: Floats, *, power: int = 1) -> Floats:
        """Add up values of cells, or tables of values, by group."""
        found = np.zeros((self.n_groups + 1, *values.shape[1:]))
        np.add.at(found, self.places(cells), values)
        return found[:-1]

    def counted(self, cells: Layout) -> Flags:
        """Return which cells are in a group."""
        return self.places(cells) >= 0

    def places(self, cells: Layout) -> Whole:
        """Return the number of the group of each cell; -1 for none.

        Raises
        ------
        UnseenError
            A cell is of a crossing that was not fitted.
        """
        codes, keys = cells.crossings(self.columns)
        place = dict(self.place)
        found = np.array([place.get(key, -2) for key in keys], dtype=np.int64)
        places = np.where(self.stratum.of(cells), found[codes], -1)
        unseen = places == -2
        if unseen.any():
            _refuse_unseen(cells, unseen)
        return places


def _refuse_unseen(cells: Layout, unseen: Flags) -> None:
    assert isinstance(cells, Cells)  # only new rows can be of a crossing that was not fitted
    here = np.flatnonzero(unseen & (cells.counts > 0))
    row = int(np.flatnonzero(np.isin(cells.codes, here))[0])
    cell, count = int(cells.codes[row]), cells.rows_of(unseen)
    name = str(cells.names[cell])
    problem = (
        f"Row {row} of {WHAT} is of the group {name!r}, which was not fitted although each of its "
        "values was."
    )
    remedy = f"Drop such rows ({count} in all), or fit again on data that has this group."
    raise UnseenError(problem, remedy=remedy, column=WHAT, row=row, value=name, count=count)


@dataclass(frozen=True, eq=False)
class Mixture(Counting):
    """A family of uncertain groups: each cell counts by its probability of belonging.

    Attributes
    ----------
    column : int
    """

    kind = "mixture"
    column: int

    def counted(self, cells: Layout) -> Flags:
        """Return which cells of the stratum may belong to a group at all."""
        design = self.design(cells)
        return self.stratum.of(cells) & (design @ np.ones(design.shape[1]) > 0)

    def design(self, cells: Layout) -> Floats:
        """Return the part of each cell in each group: its probability."""
        mixtures = cells.vocabularies[self.column]
        assert isinstance(mixtures, Mixtures)
        codes = cells.table[:, self.column]
        # Where every mixture is a cell they need not be copied, however many there are.
        in_place = len(codes) == len(mixtures.matrix) and bool((codes[1:] > codes[:-1]).all())
        matrix = mixtures.matrix if in_place else mixtures.matrix[codes]
        inside = self.stratum.of(cells)
        return np.asarray(matrix if inside.all() else matrix * inside[:, None], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Moments(Counting):
    """A family of moments: each cell counts by the basis functions of a continuous attribute.

    Attributes
    ----------
    column : int
    basis : Basis
    """

    kind = "moments"
    column: int
    basis: Basis

    def design(self, cells: Layout) -> Floats:
        """Return the basis functions at the value of each cell; 0 where it is missing."""
        vocabulary, codes = cells.vocabularies[self.column], cells.table[:, self.column]
        counted = np.zeros((len(codes), self.basis.n_functions))
        known = self.counted(cells)
        counted[known] = self.basis.evaluate(
            np.asarray(vocabulary.values, np.float64)[codes[known]]
        )
        return counted

    def counted(self, cells: Layout) -> Flags:
        """Return which cells are in the stratum and have a value."""
        return self.stratum.of(cells) & (
            cells.table[:, self.column] < len(cells.vocabularies[self.column].values)
        )


@dataclass(frozen=True, eq=False)
class Families:
    """What was asked of the groups, settled on the fitted rows.

    Attributes
    ----------
    members : tuple of Member
        Name, groups and bound of every family.
    counting : tuple of Counting
        How each counts cells.
    names : ndarray of shape (n_groups,)
        Names of all groups, family after family.
    share : ndarray of shape (n_groups,)
        Weight of each group as a share of the total.
    strata : tuple of Stratum
        Those of the control features that were fitted, whether or not they had groups to compare.
    absent : tuple of Absent
        Groups that a stratum does not have.
    left_out : float
        Share of the weight that no family counts.
    by_cell : bool
        The groups are the cells themselves, and are called so.
    excluded : tuple of str
        Groups that were left out for having too few rows.
    outcomes : Outcomes or None
        What is compared; None where it is every class.
    """

    members: tuple[Member, ...]
    counting: tuple[Counting, ...]
    names: Array
    share: Floats
    strata: tuple[Stratum, ...] = (Stratum(),)
    absent: tuple[Absent, ...] = ()
    left_out: float = 0.0
    by_cell: bool = False
    excluded: tuple[str, ...] = ()
    outcomes: Outcomes | None = None

    def compared(self, of_classes: Floats) -> Floats:
        """Return the shares of outcomes from those of classes."""
        return of_classes if self.outcomes is None else self.outcomes.shares(of_classes)

    def shifts(self, cells: Layout, prices: Floats) -> Floats:
        """Add up the prices of its groups for every cell of a table.

        Raises
        ------
        UnseenError
            A cell is of a crossing that was not fitted.
        """
        known = np.any([stratum.of(cells) for stratum in self.strata], axis=0)
        if not known.all():
            _refuse_unseen(cells, ~known)
        parts = [how.shifts(cells, prices[member.groups]) for member, how in self.pairs()]
        added = np.asarray(sum(parts))
        return added if self.outcomes is None else added @ self.outcomes.matrix

    def _sums(self, cells: Layout, values: Floats, power: int = 1) -> Floats:
        return np.concatenate([each.sums(cells, values, power=power) for each in self.counting])

    def means(self, cells: Layout, sums: Floats, weight: Floats) -> Floats:
        """Return group means from the weighted sums of labels and the weight of each cell."""
        sums = self.compared(sums)
        if self.by_cell:
            return sums / weight[:, None]
        return np.asarray(self._sums(cells, sums) / (self.share[:, None] * weight.sum()))

    def cells_of_groups(self, cells: Layout, weight: Floats) -> tuple[Floats, Floats]:
        """Return how many cells each group has, infinite where it counts parts, and its weight."""
        whole = [np.full(m.n_groups, isinstance(how, Crossings)) for m, how in self.pairs()]
        counts = self._sums(cells, np.ones(len(weight)))
        return np.where(np.concatenate(whole), counts, np.inf), self._sums(cells, weight)

    def squared(self, cells: Layout, variance: Floats) -> Floats:
        """Add up variances of cells to those of groups: each counts by the square of its part."""
        return self._sums(cells, variance, power=2)

    def pairs(self) -> list[tuple[Member, Counting]]:
        """List the families, each with how it counts cells."""
        return list(zip(self.members, self.counting, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return plain values for strict JSON; without names where groups are the cells."""
        return {
            "families": [
                {
                    "name": member.name,
                    "n_groups": member.n_groups,
                    "bound": _bound_to_json(member),
                    **how.to_json(),
                }
                for member, how in self.pairs()
            ],
            "names": None if self.by_cell else self.names.tolist(),
            "share": self.share.tolist(),
            "strata": [stratum.to_json() for stratum in self.strata],
            "absent": [[each.family, each.stratum, each.group] for each in self.absent],
            "left_out": self.left_out,
            **({"excluded": list(self.excluded)} if self.excluded else {}),
            **({} if self.outcomes is None else {"outcomes": self.outcomes.to_json()}),
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any], cells: Layout) -> Families:
        """Restore families from :meth:`to_json`."""
        members = side_by_side([_member_from_json(family) for family in stored["families"]])
        share, own = stored_numbers(stored["share"], (members[-1].groups.stop,)), cells.names
        if stored["names"] is not None:
            own = np.array([str(name) for name in stored["names"]], dtype=np.str_)
        if own.shape != share.shape:
            raise ValueError(f"{len(share)} groups, but {own.shape} names")
        return cls(
            members,
            tuple(_counting_from_json(family) for family in stored["families"]),
            own,
            share,
            tuple(Stratum.from_json(stratum) for stratum in stored["strata"]),
            tuple(Absent(*(str(part) for part in each)) for each in stored["absent"]),
            float(stored["left_out"]),
            by_cell=stored["names"] is None,
            excluded=tuple(str(name) for name in stored.get("excluded", ())),
            outcomes=Outcomes.from_json(stored["outcomes"]) if "outcomes" in stored else None,
        )


def _bound_to_json(member: Member) -> dict[str, Any]:
    stored = member.bound.to_json()
    return stored if member.offsets is None else stored | {"offsets": member.offsets.tolist()}


def _member_from_json(stored: dict[str, Any]) -> Member:
    n_groups, kept = int(stored["n_groups"]), stored["bound"]
    bound = BOUNDS[kept["kind"]].from_json(kept, n_groups)
    offsets = None
    if "offsets" in kept:
        offsets = stored_numbers(kept["offsets"], (n_groups, bound.epsilon.shape[-1]))
    return Member(str(stored["name"]), slice(0, n_groups), bound, offsets)


def _counting_from_json(stored: dict[str, Any]) -> Counting:
    stratum, kind = Stratum.from_json(stored), stored["kind"]
    if kind == Crossings.kind:
        place = tuple((_key(key), int(group)) for key, group in stored["place"])
        return Crossings(stratum, _key(stored["columns"]), place, int(stored["n_groups"]))
    if kind == Mixture.kind:
        return Mixture(stratum, int(stored["column"]))
    if kind == Moments.kind:
        return Moments(stratum, int(stored["column"]), Basis.from_json(stored["basis"]))
    raise ValueError(f"a family of kind {kind!r}")


def _key(stored: Any) -> Key:
    return tuple(int(code) for code in stored)
