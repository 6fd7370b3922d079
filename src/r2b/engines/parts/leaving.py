"""Labels that leave with rows that count in parts, measured where the rows are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from r2b._data.arrays import Floats
from r2b._data.dataset import Labels
from r2b._data.merge import cell_sums
from r2b._labels.realised import Realised, realised_means
from r2b._solve.certificate import Certificate
from r2b.engines.batch import Batch
from r2b.engines.roles import Decode
from r2b.engines.source import Relabel, Source


@dataclass(frozen=True, eq=False)
class LeavingParts:
    """The weight of all rows, and by group the sums of the labels that they leave with."""

    relabel: Relabel

    def make(self, batch: Batch) -> tuple[float, Floats]:
        """Add up the rows of a batch."""
        decode, families = self.relabel.decode, self.relabel.rule.families
        data = decode.read(batch)
        labels = Labels(decode.schema.classes, codes=self.relabel.codes(batch, data))
        mass, sums = cell_sums(labels, data.cells, decode.weight(batch))
        return float(mass.sum()), np.concatenate(
            [how.design(data.cells).T @ sums for how in families.counting]
        )

    def merge(self, one: tuple[float, Floats], other: tuple[float, Floats]) -> tuple[float, Floats]:
        """Add up."""
        return one[0] + other[0], one[1] + other[1]


def measured_parts(source: Source, relabel: Relabel, proof: Certificate) -> Realised:
    """Measure labels of one class per row: one pass."""
    total, sums = source.reduce(
        (*relabel.needed, *relabel.decode.roles.used), LeavingParts(relabel)
    )
    families = relabel.rule.families
    return realised_means(families, proof, sums / (families.share[:, None] * total))


@dataclass(frozen=True, eq=False)
class Readable:
    """Reads all rows, and counts them: a row that cannot be read is refused before anything leaves."""

    decode: Decode

    def make(self, batch: Batch) -> int:
        """Read a batch."""
        return self.decode.read(batch).n_rows if len(batch) else 0

    def merge(self, one: int, other: int) -> int:
        """Add up."""
        return one + other
