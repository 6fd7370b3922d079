"""Batches with uncertain or continuous attributes become blocks: labels, the cell of the categories, and the numbers that rows count by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._data import Cells, Mixtures, Schema, Vocabulary
from r2b._data.arrays import Array, Floats, Whole, cross, smallest_unsigned
from r2b._data.attributes import (
    CATEGORICAL,
    CONTINUOUS,
    MEMBERSHIP,
    ContinuousSettings,
    attributes_of,
)
from r2b._data.cells import AnyVocabulary, Layout, read_cells
from r2b._data.columns import Column, column_of
from r2b._data.dataset import read_known_labels
from r2b._data.mixtures import distinct_rows, membership_matrix
from r2b._data.numbers import continuous_numbers
from r2b._solve.oracle import Block
from r2b.engines.batch import Batch
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.tally import Tally, refuse_weightless
from r2b.errors import InputError

Reader = Callable[[str, Floats, tuple[str, ...]], tuple[Array, AnyVocabulary]]
AT_MEAN = "at the mean"  # of the one mixture that stands for all where rows are elsewhere


@dataclass(frozen=True, eq=False)
class PartColumns:
    """Where the attributes of a table are: those of categories by cell, those of numbers in columns of the parts.

    Attributes
    ----------
    roles : ColumnRoles
    categories : Layout
        Sensitive and control columns of categories, and the crossings that occur; one without
        columns where there are none.
    """

    roles: ColumnRoles
    categories: Layout

    @classmethod
    def of(
        cls, roles: ColumnRoles, tally: Tally | None, missing: str
    ) -> tuple[PartColumns, Floats | None]:
        """Read the categories of a tally; give the weight of each cell too, where there are any."""
        if tally is None or not roles.attributes:
            return cls(roles, Layout((), (), np.zeros((1, 0), np.int64))), None
        groups = read_cells(
            {name: tally.columns[name] for name in roles.attributes}, missing=missing
        )
        weight = tally.count if tally.weight is None else tally.weight
        refuse_weightless(weight, tally.n_rows)
        return cls(roles, Layout(*groups.parts)), np.bincount(
            groups.codes, weight, minlength=groups.n_cells
        ).astype(np.float64)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes in the order in which rows in memory have them."""
        roles = self.roles
        return (
            *roles.sensitive,
            *roles.continuous,
            *(name for name, _ in roles.membership),
            *roles.control,
        )

    @property
    def first(self) -> dict[str, int]:
        """For each attribute of numbers its first column of the parts."""
        places, at = {}, 0
        for name, width in [
            *((name, 1) for name in self.roles.continuous),
            *((name, len(each)) for name, each in self.roles.membership),
        ]:
            places[name], at = at, at + width
        return places

    @property
    def width(self) -> int:
        """Columns of the parts."""
        return len(self.roles.measured)

    def groups(self, cells: Array, parts: Floats) -> Cells:
        """Give rows as groups of all attributes, as they would be read in memory."""

        def read(kind: str, mine: Floats, names: tuple[str, ...]) -> tuple[Array, AnyVocabulary]:
            if kind == MEMBERSHIP:
                code, first = distinct_rows(np.ascontiguousarray(mine))
                return code, Mixtures(mine[first], names, first)
            values, code = np.unique(mine[:, 0], return_inverse=True)
            return code, Vocabulary(
                values[np.isfinite(values)], has_missing=not np.isfinite(values).all()
            )

        codes, layout = self._layout(cells, parts, read)
        crossed, table = cross(codes, [each.n_codes for each in layout.vocabularies])
        return Cells(*replace(layout, table=table).parts, codes=crossed)

    def schema(self, classes: Vocabulary, typical: Floats, gaps: Array) -> Schema:
        """Give what is kept of the table: cells of categories, each once, at one typical row of all other attributes.

        Parameters
        ----------
        classes : Vocabulary
        typical : ndarray of shape (width,)
        gaps : ndarray of shape (width,), bool
            Columns of numbers that some rows have no value in.
        """
        cells = np.arange(len(self.categories.table))

        def read(kind: str, mine: Floats, names: tuple[str, ...]) -> tuple[Array, AnyVocabulary]:
            none = np.zeros(len(cells), np.int64)
            if kind == MEMBERSHIP:
                return none, Mixtures(mine.copy(), names, np.zeros(1, np.int64), called=(AT_MEAN,))
            return none, Vocabulary(mine[0].copy(), has_missing=bool(gaps[self.first[names[0]]]))

        codes, layout = self._layout(cells, typical[None, :], read)
        return Schema(
            *replace(layout, table=np.column_stack(codes)).parts,
            classes=classes,
            is_soft=self.roles.soft,
        )

    def _layout(self, cells: Array, parts: Floats, read: Reader) -> tuple[list[Array], Layout]:
        """Give the codes of rows in all attributes, and the attributes."""
        members, chosen = dict(self.roles.membership), dict(self.roles.settings)
        codes, vocabularies, kinds, settings = [], [], [], []
        for name in self.names:
            at, kind, how = (
                self.first.get(name, -1),
                MEMBERSHIP if name in members else CONTINUOUS,
                None,
            )
            if at < 0:
                place, kind = self.categories.columns.index(name), CATEGORICAL
                found: tuple[Array, AnyVocabulary] = (
                    self.categories.table[:, place][cells],
                    self.categories.vocabularies[place],
                )
            else:
                names = members.get(name, (name,))
                found = read(kind, parts[:, at : at + len(names)], names)
                how = chosen.get(name, ContinuousSettings()) if kind == CONTINUOUS else None
            codes.append(found[0])
            vocabularies.append(found[1])
            kinds.append(kind)
            settings.append(how)
        none = np.empty((0, len(codes)), np.int64)
        return codes, Layout(
            self.names,
            tuple(vocabularies),
            none,
            len(self.roles.control),
            tuple(kinds),
            tuple(settings),
        )


@dataclass(frozen=True, eq=False)
class DecodeParts(Decode):
    """Reads batches as blocks with parts; it can be pickled and sent to where the rows are.

    Attributes
    ----------
    columns : PartColumns
    missing : {"error", "group", "exclude"}
        What becomes of rows without a value; of a continuous attribute it is infinity in the parts.
    """

    columns: PartColumns = None  # type: ignore[assignment] # dataclasses ask for a default after that of another
    missing: str = "error"

    def __call__(self, batch: Batch) -> Block:
        """Give the rows as a block."""
        roles, columns = self.roles, batch.columns
        with batch.placed(roles.called):
            y = roles.labels(columns, len(self.schema.classes))
            labels = read_known_labels(
                y, vocabulary=self.schema.classes, soft=roles.soft, normalize=self.normalize
            ).array
            cells, parts = self._cells(columns), self._parts(columns)
        weight = self.weight(batch)
        return Block(
            np.ascontiguousarray(labels),
            cells,
            np.empty(0) if weight is None else weight,
            parts=parts,
        )

    def _parts(self, columns: Mapping[str, Any]) -> Floats:
        measured = self.roles.features(columns)["sensitive_features"]
        found = []
        for attribute in attributes_of({name: measured[name] for name in self.columns.first}):
            if attribute.kind == MEMBERSHIP:
                found.append(membership_matrix(attribute)[0])
                continue
            assert isinstance(attribute.arrived, Column)
            numbers, gaps = continuous_numbers(
                attribute.arrived, what=attribute.called, missing=self.missing, known=True
            )
            # + 0.0: one zero has no sign
            found.append(np.where(gaps, np.inf, numbers + 0.0)[:, None])
        return np.ascontiguousarray(found[0] if len(found) == 1 else np.concatenate(found, axis=1))

    def _cells(self, columns: Mapping[str, Any]) -> Array:
        layout = self.columns.categories
        n_rows = len(next(iter(columns.values())))
        here, known = np.zeros(n_rows, np.int64), np.zeros(len(layout.table), np.int64)
        for place, (name, vocabulary) in enumerate(
            zip(layout.columns, layout.vocabularies, strict=True)
        ):
            assert isinstance(vocabulary, Vocabulary)
            codes = vocabulary.encode(
                column_of(columns[name], what=name), what=f"column {name!r}"
            ).astype(np.int64)
            # Crossings so far, as ranks among those that occur, so that their numbers stay small
            # however many columns there are.
            there, known = np.unique(
                known * vocabulary.n_codes + layout.table[:, place], return_inverse=True
            )
            here = _ranks(there, here * vocabulary.n_codes + codes)
        # The table is in lexicographic order, so that the rank of a crossing is its cell.
        return here.astype(smallest_unsigned(len(layout.table)))


def _ranks(known: Whole, wanted: Whole) -> Whole:
    found = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    if (known[found] != wanted).any():
        row = int(np.flatnonzero(known[found] != wanted)[0])
        problem = (
            f"Row {row} has a crossing of values that was not there when the table was counted."
        )
        remedy = "The table must give the same rows each time: write it to files, or persist it, and debias that."
        raise InputError(problem, remedy=remedy, row=row)
    return found
