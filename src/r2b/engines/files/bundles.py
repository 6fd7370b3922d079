"""Many small files at once: their rows are read, looked at and given new labels together, and part again where they are written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from r2b._data.arrays import Whole
from r2b._files.arrow import pyarrow
from r2b.engines.batch import Batch, one_array, taken
from r2b.engines.files.delimited import DelimitedStored
from r2b.engines.files.reading import Chunk, ReadJob
from r2b.engines.source import NewColumns
from r2b.errors import InputError

if TYPE_CHECKING:
    from r2b.engines.files import FileSource

Bundle = list[tuple[int, ReadJob]]
"""Jobs one after the other, each with the number of its file."""

_ROWS = 1 << 14
_JOBS = 128


def bundled(jobs: Iterable[tuple[int, ReadJob]], most_rows: int) -> Iterator[Bundle]:
    """Put jobs of few rows that follow each other together, in their order; one of many stays alone."""
    held: Bundle = []
    rows = 0
    for item in jobs:
        job = item[1]
        far = held and (held[0][1].first + rows != job.first or rows + job.n_rows > min(_ROWS, most_rows))
        if far or len(held) == _JOBS:
            yield held
            held, rows = [], 0
        held.append(item)
        rows += job.n_rows
    if held:
        yield held


def put_together(batches: Sequence[Batch]) -> Batch | None:
    """Give batches that follow each other as one; None where their columns are not of the same types."""
    if len(batches) == 1:
        return batches[0]
    arrow, schema = pyarrow(), batches[0].record.schema
    if not all(batch.record.schema.equals(schema) for batch in batches):
        return None
    columns = []
    for place in range(len(schema)):
        column = arrow.chunked_array([batch.record.column(place) for batch in batches])
        columns.append(one_array(column.unify_dictionaries() if arrow.types.is_dictionary(column.type) else column))
    return Batch(arrow.RecordBatch.from_arrays(columns, schema=schema.remove_metadata()), batches[0].first)


def read_together(
    source: FileSource, bundle: Bundle, columns: Sequence[str] | None, coded: Collection[str], rows: int
) -> list[Batch] | None:
    """Parse delimited text of files that are laid out alike at once; None where it cannot be, or something is wrong with it."""
    files = [source.files[number] for number, _ in bundle]
    first, (_, job) = files[0], bundle[0]
    if len(bundle) < 2 or columns is None or source.keys or not isinstance(first, DelimitedStored):
        return None
    layout = (first.dialect, first.na, first.header.names)
    chunks: list[Chunk] = [job.chunk for _, job in bundle]
    for file, chunk in zip(files, chunks, strict=True):
        if not isinstance(file, DelimitedStored) or (file.dialect, file.na, file.header.names) != layout:
            return None
        if not chunk.n_records:
            return None
    texts = [chunk.raw if chunk.raw.endswith(b"\n") else chunk.raw + b"\n" for chunk in chunks]
    ends = None if all(chunk.ends is None for chunk in chunks) else _ends(chunks, texts)
    whole = Chunk(b"".join(texts), 0, 1, sum(chunk.n_records for chunk in chunks), ends)
    try:
        found = first.batches(whole, columns, job.first, coded, rows)
        return [source.completed(batch, columns, bundle[0][0]) for batch in found]
    except InputError:  # read one by one, the file that is wrong is named
        return None


def _ends(chunks: Sequence[Chunk], texts: Sequence[bytes]) -> Whole:
    """Give where the records of chunks end when their texts follow each other."""
    found, before = [], 0
    for chunk, text in zip(chunks, texts, strict=True):
        own = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1 if chunk.ends is None else chunk.ends.copy()
        own[-1] = len(text)  # the last line may have been without an end
        found.append(own + before)
        before += len(text)
    return np.concatenate(found)


def worked(work: Callable[[Batch], Any], batches: Sequence[Batch]) -> list[Any] | None:
    """Run work on batches together; None where that cannot be, or fails: each alone then says where."""
    try:
        whole = put_together(batches) if batches else None
        return None if whole is None else [work(whole)]
    except InputError:
        return None


def work_on(
    source: FileSource, columns: Sequence[str] | None, coded: Collection[str], rows: int, work: Callable[[Batch], Any]
) -> Callable[[Bundle], tuple[Bundle, list[Any]]]:
    """Give what reads a bundle and runs work on its rows, together where it has several jobs; it runs in any thread."""

    def one_by_one(bundle: Bundle) -> Iterator[Batch]:
        return (source.completed(each, columns, number) for number, job in bundle for each in job.read() if len(each))

    def done(bundle: Bundle) -> tuple[Bundle, list[Any]]:
        if len(bundle) > 1:
            batches = read_together(source, bundle, columns, coded, rows)
            found = worked(work, list(one_by_one(bundle)) if batches is None else batches)
            if found is not None:
                return bundle, found
        return bundle, [work(each) for each in one_by_one(bundle)]

    return done


def parted(new: NewColumns, sizes: Sequence[int]) -> list[NewColumns]:
    """Give the new columns of rows that were together to batches of these sizes."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = starts if new.rows is None else np.searchsorted(new.rows, starts)
    found = []
    for start, (low, high) in zip(starts.tolist(), pairwise(places.tolist()), strict=False):
        # A copy: in formats that keep buffers, what a slice is a part of would show.
        rows = pyarrow().array(np.arange(low, high))
        columns = {name: taken(column, rows) for name, column in new.columns.items()}
        found.append(NewColumns(columns, None if new.rows is None else new.rows[low:high] - start))
    return found
