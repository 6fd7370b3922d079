"""How rows count in groups, as a function of their cell and their numbers: small enough to send to where the rows are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from r2b._constraints.families import Families
from r2b._constraints.families.fitted import Mixture, Moments
from r2b._data.arrays import Array, Flags, Floats, Places
from r2b._data.basis import Basis
from r2b._data.cells import Layout


@dataclass(frozen=True, eq=False)
class RowDesign:
    """The line of the design of each row.

    Attributes
    ----------
    table : ndarray of shape (n_cells, n_groups)
        1 where rows of a cell count in a group, whole or in part, else 0.
    mixed : tuple of (int, int, int)
        Uncertain groups: the first, the one after the last, and the first column of their
        probabilities in the parts.
    moments : tuple of (int, int, int, Basis)
        Likewise for continuous attributes, with the functions of the value in that column.
    places : ndarray of int, optional
        Groups that are wanted, where not all are.

    Examples
    --------
    >>> design = RowDesign(np.ones((1, 2)), ((0, 2, 0),))
    >>> design.of(np.array([0, 0]), np.array([[0.25, 0.75], [1.0, 0.0]]))
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    """

    table: Floats
    mixed: tuple[tuple[int, int, int], ...] = ()
    moments: tuple[tuple[int, int, int, Basis], ...] = ()
    places: Places | None = None

    @classmethod
    def from_families(cls, families: Families, cells: Layout, first: dict[str, int]) -> RowDesign:
        """Take over how families count.

        Parameters
        ----------
        families : Families
        cells : Layout
            Each cell of the categories once.
        first : dict of str to int
            For each attribute of numbers its first column of the parts.
        """
        table = np.zeros((cells.n_cells, len(families.names)))
        mixed, moments = [], []
        for member, how in zip(families.members, families.counting, strict=True):
            start, stop = member.groups.start, member.groups.stop
            if isinstance(how, (Mixture, Moments)):
                table[:, start:stop] = how.stratum.of(cells)[:, None]
                at = first[cells.columns[how.column]]
                if isinstance(how, Mixture):
                    mixed.append((start, stop, at))
                else:
                    moments.append((start, stop, at, how.basis))
            else:
                table[:, start:stop] = how.design(cells)
        return cls(table, tuple(mixed), tuple(moments))

    def among(self, groups: Places) -> RowDesign:
        """Give the design of some of its groups, in this order."""
        if self.places is None and np.array_equal(groups, np.arange(self.table.shape[1])):
            return self
        return replace(self, places=groups if self.places is None else self.places[groups])

    @cached_property
    def _plain(self) -> slice | None:
        """Columns of the parts that are the design themselves: one uncertain attribute, every row in every group."""
        if len(self.mixed) != 1 or self.moments or self.places is not None or not self.table.all():
            return None
        start, stop, at = self.mixed[0]
        return slice(at, at + stop - start) if (start, stop) == (0, self.table.shape[1]) else None

    def of(self, cells: Array, parts: Floats) -> Floats:
        """Give how much rows count in each group, of shape (n, n_groups)."""
        if self._plain is not None:
            return np.ascontiguousarray(parts[:, self._plain])
        design = self.table[cells]
        for start, stop, at in self.mixed:
            design[:, start:stop] *= parts[:, at : at + stop - start]
        for start, stop, at, basis in self.moments:
            known = self._known(cells, parts, start, at)
            design[:, start:stop] = 0.0
            design[known, start:stop] = basis.evaluate(parts[known, at])
        return design if self.places is None else np.ascontiguousarray(design[:, self.places])

    def mass(self, cells: Array, parts: Floats, design: Floats) -> Floats:
        """Give what each row adds to the share of each group: its part, and of moments itself; for all groups."""
        if not self.moments:
            return design
        mass = design.copy()
        for start, stop, at, _ in self.moments:
            mass[:, start:stop] = self._known(cells, parts, start, at)[:, None]
        return mass

    def _known(self, cells: Array, parts: Floats, start: int, at: int) -> Flags:
        return np.asarray((self.table[:, start] > 0)[cells] & np.isfinite(parts[:, at]))

    @cached_property
    def whole(self) -> Flags:
        """Which groups count rows whole or not at all."""
        whole = np.ones(self.table.shape[1], dtype=bool)
        for start, stop, *_ in (*self.mixed, *self.moments):
            whole[start:stop] = False
        return whole if self.places is None else whole[self.places]
