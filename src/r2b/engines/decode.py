"""A batch of probabilities to a block of coded rows, checked on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._data import Dataset, Schema
from r2b._data.vocabulary import column_of
from r2b._data.weights import WHAT as WEIGHTS
from r2b._data.weights import read_weight
from r2b._solve.oracle import Block
from r2b.engines.batch import Batch, lists_to_matrix
from r2b.engines.roles import ColumnRoles

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Decode:
    """Reads batches the way the first rows were read; it can be pickled and sent to where the rows are.

    Attributes
    ----------
    choice : ColumnRoles
    schema : Schema
        Classes, and every cell there is.
    normalize : bool
        Divide rows of probabilities by their sums.
    """

    choice: ColumnRoles
    schema: Schema
    normalize: bool = False

    def read(self, batch: Batch) -> Dataset:
        """Read labels and cells; an error says where the row is."""
        columns = batch.columns
        with batch.placed(self.choice.called):
            if self.choice.listed:
                y: Any = lists_to_matrix(columns[self.choice.label[0]], len(self.schema.classes), self.choice.label[0])
            elif self.choice.soft:
                y = {name: columns[name] for name in self.choice.label}
            else:
                y = columns[self.choice.label[0]]
            return self.schema.read(y, **self.choice.features(columns), normalize=self.normalize)

    def weight(self, batch: Batch) -> Array | None:
        """Read the weights; None where there are none."""
        if self.choice.weight is None:
            return None
        with batch.placed():
            return read_weight(column_of(batch.columns[self.choice.weight], what=WEIGHTS))

    def __call__(self, batch: Batch) -> Block:
        """Give the rows as a block."""
        data, weight = self.read(batch), self.weight(batch)
        return Block(np.ascontiguousarray(data.labels.array), data.groups.codes, np.empty(0) if weight is None else weight)
