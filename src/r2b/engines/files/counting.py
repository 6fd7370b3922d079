"""Counting as fast as columns are decoded: codes straight from the file, in parts that stay in cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from r2b._data.compute import parts_of
from r2b._files.arrow import pyarrow
from r2b.engines.batch import Batch, plain_type
from r2b.engines.tally import Counter, encoded_column

_FEW = 1 << 16  # combinations of codes that are counted by a table
_NARROW = 1 << 12  # whole numbers within such a span are codes as they stand
_MANY = 1 << 20  # the same, a column at a time
_PART = 1 << 16


class CodeCounter(Counter):
    """Counts as :class:`r2b.engines.tally.Counter` does; without weights, and where combinations are few, several times as fast.

    Examples
    --------
    >>> import pyarrow
    >>> counter = CodeCounter(["sex"])
    >>> counter.add(Batch(pyarrow.record_batch({"sex": ["f", "m", "f"]})))
    >>> counter.tally().columns["sex"].to_pylist(), counter.tally().count
    (['f', 'm'], array([2, 1]))
    """

    def add(self, batch: Batch) -> None:
        """Count the rows of a batch."""
        if len(batch) == 0 or self.weight is not None:
            super().add(batch)
            return
        columns = [batch.columns[name] for name in self.keys]
        coded = [_narrow(column) or encoded_column(column, name) for column, name in zip(columns, self.keys, strict=True)]
        sizes = [max(len(values), 1) for _, values in coded]
        self._agree([plain_type(column.type) for column in columns])
        if np.prod(sizes, dtype=np.float64) > _FEW:
            if not self._step_by_step(coded, len(batch)):
                super().add(batch)
            return
        size = int(np.prod(sizes))
        counts = np.zeros(size, np.int64)
        for part in parts_of(len(batch), _PART):
            joint = np.zeros(part.stop - part.start, np.int32)
            for (codes, values), of in zip(coded, sizes, strict=True):
                joint *= np.int32(of)
                joint += codes[part].astype(np.int32, copy=False) - np.int32(values.start if isinstance(values, range) else 0)
            counts += np.bincount(joint, minlength=size)
        there = np.flatnonzero(counts)
        for places, count in zip(zip(*np.unravel_index(there, sizes), strict=True), counts[there].tolist(), strict=True):
            key = tuple(values[int(place)] for (_, values), place in zip(coded, places, strict=True))
            self._found.setdefault(key, [0, 0])[0] += count

    def _step_by_step(self, coded: Sequence[tuple[Any, Any]], n_rows: int) -> bool:
        """Count many columns of which few combinations occur: a column at a time, keeping what occurs; False where that is too much."""
        joint = np.zeros(n_rows, np.int64)
        found: list[tuple[Any, ...]] = [()]
        counts = np.array([n_rows])
        for codes, values in coded:
            of = max(len(values), 1)
            if len(found) * of > _MANY:
                return False
            joint *= of
            joint += codes
            if isinstance(values, range):
                joint -= values.start
            counts = np.bincount(joint, minlength=len(found) * of)
            there = np.flatnonzero(counts)
            rank = np.zeros(len(counts), np.int64)
            rank[there] = np.arange(len(there))
            joint, counts = rank.take(joint), counts[there]
            found = [(*found[place // of], values[place % of]) for place in there.tolist()]
        for key, count in zip(found, counts.tolist(), strict=True):
            self._found.setdefault(key, [0, 0])[0] += count
        return True


def _narrow(column: Any) -> tuple[Any, range] | None:
    """Give whole numbers of a narrow span, with the span; None for everything else."""
    if not pyarrow().types.is_integer(column.type) or column.null_count:
        return None
    values = column.to_numpy(zero_copy_only=False)
    low, high = int(values.min()), int(values.max())
    return (values, range(low, high + 1)) if high - low < _NARROW and abs(low) < 2**30 and values.dtype.itemsize <= 8 else None
