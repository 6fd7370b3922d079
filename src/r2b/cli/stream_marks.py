"""Fingerprints of tables that are read part by part: of their sorted counts for class labels, of all rows in order for probabilities."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from r2b._files.plain import as_text
from r2b.engines.batch import Batch
from r2b.engines.decode import Decode
from r2b.engines.files import FileSource, numbers_of
from r2b.engines.relabel import Form
from r2b.engines.tally import Tally

COUNTS, ROWS = "sorted counts", "rows in order"


def counted_columns(form: Form, new: tuple[str, ...]) -> tuple[list[str], str | None]:
    """Give the new columns that are counted, and the one whose weights are added up."""
    return ([new[0]], new[1]) if form == "expand" else (list(new), None)


def written_counts(source: FileSource, old: tuple[str, ...], weight: str | None, form: Form, new: tuple[str, ...]) -> Tally:
    """Count the combinations of old and new columns of an output."""
    counted, own = counted_columns(form, new)
    return source.tally([*old, *counted], weight if own is None else own)


def marks_of_counts(counts: Tally, old: tuple[str, ...], form: Form) -> dict[str, str]:
    """Give the fingerprints of the data and of the labels.

    Those of the data are of the rows of each combination of their columns. A table of repeated rows has those of its first labels
    alone, since each row then counts once for every label that it may get.
    """
    rows = _texts(counts, list(counts.columns))
    weight = [] if counts.weight is None else [repr(float(each)) for each in counts.weight]
    counted = enumerate(zip(rows, counts.count, strict=True))
    labels = sorted([*row, str(int(count)), *weight[place : place + 1]] for place, (row, count) in counted)
    data = sorted([*key, str(count)] for key, count in rows_of(counts, old, form).items())
    return {"data": _digest(data), "labels": _digest(labels)}


def rows_of(counts: Tally, old: tuple[str, ...], form: Form) -> dict[tuple[str, ...], int]:
    """Give how many rows of the data have each combination of values."""
    found: dict[tuple[str, ...], int] = {}
    for key, count in zip(_texts(counts, list(old)), counts.count.tolist(), strict=True):
        before = found.get(tuple(key), 0)
        # Every row of a combination is repeated for the same labels, once for each.
        found[tuple(key)] = max(before, count) if form == "expand" else before + count
    return found


def _texts(counts: Tally, names: list[str]) -> list[list[str]]:
    # A missing value and an empty text differ, also where text is all there is.
    columns = [_marked(counts.columns[name].to_pylist(), name) for name in names]
    return [list(row) for row in zip(*columns, strict=True)]


def _marked(values: list[Any], name: str) -> list[str]:
    return ["missing" if value is None else f"={text}" for value, text in zip(values, as_text(values, name), strict=True)]


def _digest(rows: Iterable[list[str]]) -> str:
    seen = hashlib.sha256()
    for row in rows:
        seen.update(json.dumps(row, ensure_ascii=True).encode() + b"\n")
    return seen.hexdigest()


class RowMarks:
    """Fingerprints of rows in order, whatever the batches: each column has a checksum of its own.

    Parameters
    ----------
    decode : Decode
    form : str
    new : tuple of str
    """

    def __init__(self, decode: Decode, form: Form, new: tuple[str, ...]) -> None:
        self.decode, self.form, self.new = decode, form, new
        self._old = [hashlib.sha256() for _ in range(3)]
        self._new = [hashlib.sha256() for _ in new]

    def read(self, batch: Batch) -> tuple[list[bytes], list[bytes]]:
        """Give what is hashed of a batch; it may be done in any thread."""
        data, weight = self.decode.read(batch), self.decode.weight(batch)
        labels = np.ascontiguousarray(data.labels.array, dtype="<f8")
        old = [labels.tobytes(), data.groups.codes.astype("<u4").tobytes(), b"" if weight is None else weight.astype("<f8").tobytes()]
        return old, [_bytes(batch.columns[name], name) for name in self.new]

    def take(self, old: list[bytes], new: list[bytes]) -> None:
        """Add a batch, in order."""
        for seen, content in zip([*self._old, *self._new], [*old, *new], strict=True):
            seen.update(content)

    def marks(self) -> dict[str, str]:
        """Give the fingerprints; of repeated rows they are of the rows as they stand."""
        together = {"data": self._old, "labels": self._new}
        return {name: hashlib.sha256("".join(each.hexdigest() for each in seen).encode()).hexdigest() for name, seen in together.items()}


def _bytes(column: Any, name: str) -> bytes:
    if str(column.type) in ("double", "int64"):
        # A row number reads the same from a format that knows only text.
        return np.asarray(column.to_numpy(zero_copy_only=False)).astype("<f8").tobytes()
    return "\0".join([*as_text(column, name), ""]).encode()


def numeric(batch: Batch, names: Iterable[str]) -> Batch:
    """Give a batch with columns of text read as numbers."""
    from r2b._files.arrow import pyarrow

    found = dict(batch.columns)
    with batch.placed():
        for name in names:
            if "string" in str(found[name].type):
                found[name] = numbers_of(found[name], name)
    return Batch(pyarrow().RecordBatch.from_arrays(list(found.values()), names=list(found)), batch.first, batch.place, batch.offset)
