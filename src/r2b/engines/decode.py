"""A batch of probabilities to a block of coded rows, checked on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._data import Dataset, Schema
from r2b._data.columns import column_of
from r2b._data.numbers import WHAT as WEIGHTS
from r2b._data.numbers import read_weight
from r2b._solve.oracle import Block
from r2b.engines.batch import Batch
from r2b.engines.roles import ColumnRoles

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Decode:
    """Reads batches the way the first rows were read; it can be pickled and sent to where the rows are.

    Attributes
    ----------
    roles : ColumnRoles
    schema : Schema
        Classes, and every cell there is.
    normalize : bool
        Divide rows of probabilities by their sums.
    """

    roles: ColumnRoles
    schema: Schema
    normalize: bool = False

    def read(self, batch: Batch) -> Dataset:
        """Read labels and cells; an error says where the row is."""
        roles, columns = self.roles, batch.columns
        with batch.placed(roles.called):
            y = roles.labels(columns, len(self.schema.classes))
            known = roles.categorical
            return self.schema.read(y, **roles.features(columns), normalize=self.normalize, known_crossings=known)

    def weight(self, batch: Batch) -> Array | None:
        """Read the weights; None where there are none."""
        if self.roles.weight is None:
            return None
        with batch.placed():
            return read_weight(column_of(batch.columns[self.roles.weight], what=WEIGHTS))

    def __call__(self, batch: Batch) -> Block:
        """Give the rows as a block."""
        data, weight = self.read(batch), self.weight(batch)
        return Block(np.ascontiguousarray(data.labels.array), data.groups.codes, np.empty(0) if weight is None else weight)
