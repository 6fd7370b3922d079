"""Repeated rows in files, looked at one by one: each is a copy of its row, for one of its classes, with the weight of that class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._data.arrays import row_hashes
from r2b._data.merge import joint_codes
from r2b._files.plain import as_text
from r2b._labels.rows import FairRows
from r2b._solve.certificate import PROVEN
from r2b.cli.claims import Check
from r2b.cli.stream_marks import numeric
from r2b.engines.batch import Batch
from r2b.engines.files import FileSource
from r2b.engines.relabel import Relabel

Integers = NDArray[np.int64]
Array = np.ndarray[Any, np.dtype[Any]]

NAME = "rows are repeated for their classes"


@dataclass(frozen=True, eq=False)
class Copies:
    """Reads what repeated rows say of themselves.

    Attributes
    ----------
    relabel : Relabel
        As the labels are said to have been made; its names are label, weight and row number.
    codes : mapping of str to int
    """

    relabel: Relabel
    codes: Mapping[str, int]

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that must be in a batch."""
        return (*self.relabel.decode.roles.used, *self.relabel.names)

    def __call__(self, batch: Batch) -> tuple[Integers, Array, Integers, int]:
        """Give row numbers, what tells rows apart, classes, and how many weights are wrong."""
        label, weight, number = self.relabel.names
        batch = numeric(batch, (weight, number))
        data, own = self.relabel.decode.read(batch), self.relabel.decode.weight(batch)
        numbers = np.asarray(batch.columns[number].to_numpy(zero_copy_only=False), np.float64)
        code = np.array([self.codes.get(text, -1) for text in as_text(batch.columns[label], label)])
        same = row_hashes(data.labels.array, data.groups.codes) if data.labels.is_soft else joint_codes(data)
        expected = np.asarray(FairRows(data, self.relabel.response).matrix(np.float64))
        chance = np.where(code >= 0, expected[np.arange(len(batch)), code], 0.0) * (1.0 if own is None else own)
        said = np.asarray(batch.columns[weight].to_numpy(zero_copy_only=False), np.float64)
        wrong = ~(np.abs(said - chance) <= PROVEN * np.maximum(1.0, 1.0 if own is None else own))
        whole = np.isfinite(numbers) & (numbers == np.rint(numbers))
        return np.where(whole, numbers, -2).astype(np.int64), same, code, int(wrong.sum())


def repeats(source: FileSource, relabel: Relabel, codes: Mapping[str, int], n_rows: int) -> Check:
    """Check that rows are repeated in their order, each as a copy of the one before, for rising classes and with their weights."""
    copies = Copies(relabel, codes)
    last: tuple[int, Any, int] = (-1, None, -1)
    for numbers, same, code, wrong in source.reading_numbers(relabel.decode.roles).run(copies.needed, copies, coded=False):
        before = np.concatenate([[last[0]], numbers[:-1]])
        first = numbers == before + 1
        copied = numbers == before
        copied[1:] &= (same[1:] == same[:-1]) & (code[1:] > code[:-1])
        copied[0] &= last[1] == same[0] and bool(code[0] > last[2])
        odd = np.flatnonzero(~(first | copied))
        if len(odd):
            return Check(NAME, False, f"row {numbers[odd[0]]} after row {before[odd[0]]} is no copy of it, and no next row")
        if wrong:
            return Check(NAME, False, f"{wrong:,} weights are not those of their classes")
        last = (int(numbers[-1]), same[-1], int(code[-1]))
    return Check(NAME, last[0] == n_rows - 1, f"{last[0] + 1:,} rows" if last[0] == n_rows - 1 else f"{last[0] + 1:,} rows, not {n_rows:,}")
