"""Probabilities are audited where they live: cells are counted, then their rows are added up, and only sums and a few rows come home."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._audit.moments import MOST_EXACT, LabelMoments, MomentSums
from r2b._data import Dataset
from r2b._data.dataset import Labels
from r2b._labels.draws import draws_of, row_numbers
from r2b._solve.oracle import Block
from r2b.engines.batch import PIECE_ENTRIES, Batch
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.sample import mixed_hashes
from r2b.engines.source import Source
from r2b.engines.table_rows import classes_of, refuse_gaps
from r2b.engines.tally import groups_of


@dataclass(frozen=True, eq=False)
class RowMoments:
    """Sums over rows: see :class:`r2b._audit.moments.MomentSums`.

    Attributes
    ----------
    decode : Decode
    adding : MomentSums
    ordered : bool
        Whether a row is known by its number; else by what it holds, so that the sample is the same
        however rows are cut.
    """

    decode: Decode
    adding: MomentSums
    ordered: bool

    def make(self, batch: Batch) -> LabelMoments:
        """Add up the rows of a batch, some at a time."""
        step, total = max(1024, PIECE_ENTRIES // (8 * self.adding.n_classes)), None
        for start in range(0, max(len(batch), 1), step):
            part = replace(
                batch,
                record=batch.record.slice(start, step),
                first=batch.first + start,
                offset=batch.offset + start,
            )
            found = self._sums(part)
            total = found if total is None else self.adding.merge(total, found)
        assert total is not None
        return total

    def _sums(self, batch: Batch) -> LabelMoments:
        data, weight = self.decode.read(batch), self.decode.weight(batch)
        labels, cells = data.labels.array, data.cells.codes
        words = (
            row_numbers(batch.first, len(batch))
            if self.ordered
            else mixed_hashes(Block(np.ascontiguousarray(labels), cells))
        )
        return self.adding.of(labels, cells, weight, draws_of(words, 0))

    def merge(self, one: LabelMoments, other: LabelMoments) -> LabelMoments:
        """Add up."""
        return self.adding.merge(one, other)


def cells_for_audit(source: Source, roles: ColumnRoles, missing: Any) -> Dataset | None:
    """Count the cells of probabilities, as one row each with no labels yet; None where the rows are few enough to be read."""
    tally = source.tally(roles.attributes, roles.weight)
    refuse_gaps(source, tally, roles, missing)
    classes = classes_of(source, roles)
    if tally.n_rows * len(classes) <= MOST_EXACT:
        return None
    groups, weight = groups_of(tally, roles, missing=missing)
    cells = replace(groups, codes=np.arange(groups.n_cells), repeats=groups.counts)
    return Dataset(Labels(classes, matrix=np.zeros((groups.n_cells, len(classes)))), cells, weight)


def added_up(source: Source, decode: Decode, adding: MomentSums) -> LabelMoments:
    """Walk all rows once."""
    found: LabelMoments = source.reduce(
        decode.roles.used, RowMoments(decode, adding, source.ordered)
    )
    return found
