"""All columns of a table as they stand: checksums, and columns that look like fair labels.

A checksum follows from the values of a column in order, whatever the pieces in which they are read.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from r2b._data.compute import work_ahead
from r2b._files.arrow import pyarrow, pyarrow_compute
from r2b._files.formats import as_text
from r2b._verify.output import copies, whole_rows
from r2b.engines.batch import plain_type, taken_rows
from r2b.engines.files import FileSource
from r2b.engines.files.reading import ReadJob, Wanted
from r2b.engines.roles import Decode


@dataclass(frozen=True, eq=False)
class ColumnMarks:
    """What the columns of a table are, beside those that were made.

    Attributes
    ----------
    marks : tuple of (str, str)
        Name and SHA-256 of each, cut to 128 bits, in order.
    differing : tuple of str
        Of repeated rows: columns in which copies differ.
    similar : tuple of str
        Columns that look like fair labels by their names or values, and are none.
    missing : Counter
        Rows without a value of an attribute, by the text that means it; "" also stands for null.
    """

    marks: tuple[tuple[str, str], ...]
    differing: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    missing: Counter[str] = field(default_factory=Counter)


def column_marks(
    source: FileSource, decode: Decode, made: Sequence[str], *, repeated: str | None = None
) -> ColumnMarks:
    """Read a table once, all of its columns.

    Parameters
    ----------
    source : FileSource
    decode : Decode
        The attributes and classes to look for.
    made : sequence of str
        Names of columns that are not looked at.
    repeated : str, optional
        The column of row numbers, where rows are repeated: each is then taken once.
    """
    delimited = source.listing.format.is_delimited
    roles, schema, arrow, compute = decode.roles, decode.schema, pyarrow(), pyarrow_compute()
    vocabularies = zip(schema.columns, schema.vocabularies, strict=True)
    gaps = {name for name, each in vocabularies if each.has_missing}
    markers = source.files[0].na if delimited else ()  # type: ignore[attr-defined]
    kept = [place for place, name in enumerate(source.names) if name not in made]
    hashes: list[Any] = [defaultdict(hashlib.sha256) for _ in kept]
    missing, alike, differing = Counter[str](), Counter[str](), set[str]()
    others = {*source.names} - {*made, *roles.used, *roles.key}
    named = {name for name in others if re.search("(?<![a-z])fair|debias", name, re.IGNORECASE)}
    classes = as_text(schema.classes.values, "classes")
    # many columns hold 0 and 1, or a few small numbers
    others = set() if all(re.fullmatch(r"[\d.-]+|True|False", each) for each in classes) else others
    known = arrow.array([*classes, ""], arrow.large_string())

    def read(item: tuple[int, ReadJob]) -> list[Any]:
        number, job = item
        # as it is spelled: what means missing is text as well
        batches = job.read(spelled=True) if delimited else job.read()
        return [source.completed(each, None, number).record for each in batches]

    several = work_ahead(read, source.jobs(Wanted(None)), source.threads)
    records = (record for each in several for record in each if len(record))
    for record in records if repeated is None else whole_rows(records, repeated):
        if repeated is not None:
            record, odd = _first_copies(record, repeated)
            differing |= {source.names[place] for place in kept if place in odd}
        for place, own in zip(kept, hashes, strict=True):
            name, column = source.names[place], record.column(place)
            for part, content in _parts(column, empty_is_missing=delimited):
                own[part].update(content)
            if name in gaps and delimited:
                missing.update({each: compute.equal(column, each).true_count for each in markers})
            elif name in gaps:
                missing[""] += column.is_null(nan_is_null=True).true_count
            if name in others and not str(plain_type(column.type)).endswith("string"):
                others.discard(name)
            elif name in others:
                values = column.cast(arrow.large_string()).drop_null()
                alike[name] += compute.not_equal(values, "").true_count
                if compute.is_in(values, value_set=known).true_count < len(values):
                    others.discard(name)
    marks = [
        hashlib.sha256(
            b"".join(part.encode() + own[part].digest() for part in sorted(own))
        ).hexdigest()[:32]
        for own in hashes
    ]
    return ColumnMarks(
        tuple(zip((source.names[place] for place in kept), marks, strict=True)),
        tuple(sorted(differing)),
        tuple(sorted(named | {name for name in others if alike[name]})),
        +missing,
    )


def _first_copies(record: Any, name: str) -> tuple[Any, set[int]]:
    """Return the first copy of each row, and the columns in which another differs."""
    arrow, (starts, row, _) = pyarrow(), copies(record, name)
    others = np.delete(np.arange(len(row)), starts)
    one, other = (
        taken_rows(record, arrow.array(places)).columns for places in (starts[row[others]], others)
    )
    pairs = enumerate(zip(one, other, strict=True))
    odd = {place for place, pair in pairs if len({tuple(_parts(column)) for column in pair}) > 1}
    return taken_rows(record, arrow.array(starts)), odd


def _parts(
    column: Any, path: str = "", *, empty_is_missing: bool = False
) -> Iterator[tuple[str, bytes]]:
    """Yield the lengths of the values of a column as text, and their bytes; of lists both apart."""
    arrow, compute, kind = pyarrow(), pyarrow_compute(), column.type
    if hasattr(kind, "value_field"):
        lengths = compute.list_value_length(column).cast(arrow.int64()).fill_null(-1)
        yield f"{path}#", np.asarray(lengths, "<i8").tobytes()
        yield from _parts(column.flatten(), f"{path}[]")
        return
    raw = any(word in str(kind) for word in ("string", "binary"))
    try:
        texts = column.cast(arrow.large_binary() if raw else arrow.large_string())
    except arrow.ArrowNotImplementedError:  # such as structs
        values = [each if each is None else str(each) for each in column.to_pylist()]
        texts, raw = arrow.array(values, arrow.large_string()), False
    missing = np.asarray(texts.is_null())
    texts = texts.fill_null(b"" if raw else "")
    _, offsets, content = texts.buffers()
    ends = np.frombuffer(offsets, "<i8")[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.where(missing, -1, np.diff(ends))
    if empty_is_missing:
        lengths[lengths == 0] = -1
    yield f"{path}#", np.ascontiguousarray(lengths, "<i8").tobytes()
    yield path, memoryview(content)[ends[0] : ends[-1]].tobytes() if content is not None else b""
