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
from r2b.engines.batch import numbers_of, taken_rows
from r2b.engines.files import FileSource
from r2b.engines.files.reading import ReadJob
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
    delimited = source.listing.format.kind in ("csv", "tsv")
    roles, schema = decode.roles, decode.schema
    gaps = {
        name
        for name, each in zip(schema.columns, schema.vocabularies, strict=True)
        if each.has_missing
    }
    markers = source.files[0].na if delimited else ()  # type: ignore[attr-defined]
    kept = [place for place, name in enumerate(source.names) if name not in made]
    hashes: list[Any] = [defaultdict(hashlib.sha256) for _ in kept]
    missing, differing, held = Counter[str](), set[str](), None
    others = {*source.names} - {*made, *roles.used, *roles.key}
    named = {name for name in others if re.search("(?<![a-z])fair|debias", name, re.IGNORECASE)}
    classes = [*map(str, schema.classes.values.tolist())]
    # many columns hold 0 and 1, or a few small numbers
    others = set() if all(re.fullmatch(r"[\d.-]+|True|False", each) for each in classes) else others
    alike, texts = Counter[str](), pyarrow().array(as_text(schema.classes.values, "classes"))

    def read(item: tuple[int, ReadJob]) -> list[Any]:
        number, job = item
        # as it is spelled: what means missing is text as well
        batches = job.read(spelled=True) if delimited else job.read()
        return [source.completed(each, None, number).record for each in batches]

    records = work_ahead(read, source.jobs(None), source.threads)
    for record in (record for several in records for record in several if len(record)):
        if repeated is not None:
            record, odd, held = _first_copies(record, source.names.index(repeated), held)
            differing |= {source.names[place] for place in kept if place in odd}
        for place, own in zip(kept, hashes, strict=True):
            name, column = source.names[place], record.column(place)
            for part, content in _parts(column, empty_is_missing=delimited):
                own[part].update(content)
            if name in gaps and delimited:
                missing.update({text: _count(column, text) for text in markers})
            elif name in gaps:
                missing[""] += len(column) - _count(column, None)
            if name in others:
                known = _among(column, texts)
                others -= {name} if known is None else set()
                alike[name] += known or 0
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


def _count(column: Any, text: str | None) -> int:
    """Count the values that are a text; None for all that are there."""
    compute = pyarrow_compute()
    found = column.is_valid() if text is None else compute.equal(column, text)
    if text is None and pyarrow().types.is_floating(column.type):
        found = compute.invert(column.is_null(nan_is_null=True))
    return int(compute.sum(found).as_py() or 0)


def _among(column: Any, texts: Any) -> int | None:
    """Count the values of a column that are among some texts; None if another value is there."""
    compute, types = pyarrow_compute(), pyarrow().types
    plain = column.dictionary_decode() if types.is_dictionary(column.type) else column
    if not (types.is_string(plain.type) or types.is_large_string(plain.type)):
        return None
    plain = plain.filter(compute.not_equal(plain, ""))
    known = int(compute.sum(compute.is_in(plain, value_set=texts.cast(plain.type))).as_py() or 0)
    return known if known == len(plain) else None


def _first_copies(record: Any, place: int, held: Any) -> tuple[Any, set[int], Any]:
    """Return the first copy of each row, the columns in which another differs, and the last row."""
    arrow, n_held = pyarrow(), 0 if held is None else 1
    whole = arrow.concat_batches([held, record]) if n_held else record
    column = whole.column(place)
    numbers = np.asarray(numbers_of(column, whole.schema.names[place]), np.float64)
    first = np.append(True, numbers[1:] != numbers[:-1])
    starts = np.flatnonzero(first)
    copies = np.flatnonzero(~first)
    ours = taken_rows(whole, arrow.array(starts[np.cumsum(first) - 1][copies]))
    theirs = taken_rows(whole, arrow.array(copies))
    odd = {
        number
        for number, (one, other) in enumerate(zip(ours.columns, theirs.columns, strict=True))
        if list(_parts(one)) != list(_parts(other))
    }
    return taken_rows(whole, arrow.array(starts[n_held:])), odd, whole.slice(starts[-1], 1)


def _parts(
    column: Any, path: str = "", *, empty_is_missing: bool = False
) -> Iterator[tuple[str, bytes]]:
    """Yield the lengths of the values of a column as text, and their bytes; of lists both apart."""
    arrow, compute, types, kind = pyarrow(), pyarrow_compute(), pyarrow().types, column.type
    if types.is_dictionary(kind):
        column = column.dictionary_decode()
    elif types.is_run_end_encoded(kind):
        column = compute.run_end_decode(column)
    kind = column.type
    if types.is_struct(kind):
        yield f"{path}?", np.asarray(column.is_valid()).tobytes()
        for number, child in enumerate(column.flatten()):
            yield from _parts(child, f"{path}.{number}")
        return
    if any(test(kind) for test in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        lengths = compute.list_value_length(column).cast(arrow.int64()).fill_null(-1)
        yield f"{path}#", np.asarray(lengths, "<i8").tobytes()
        yield from _parts(column.flatten(), f"{path}[]")
        return
    raw = any(word in str(kind) for word in ("string", "binary"))
    try:
        texts = column.cast(arrow.large_binary() if raw else arrow.large_string())
    except arrow.ArrowNotImplementedError:  # such as maps
        values = [each if each is None else str(each) for each in column.to_pylist()]
        texts = arrow.array(values, arrow.large_string())
    missing = np.asarray(texts.is_null())
    texts = texts.fill_null(b"" if raw else "")
    _, offsets, content = texts.buffers()
    ends = np.frombuffer(offsets, "<i8")[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.where(missing, -1, np.diff(ends))
    if empty_is_missing:
        lengths[lengths == 0] = -1
    yield f"{path}#", np.ascontiguousarray(lengths, "<i8").tobytes()
    yield path, memoryview(content)[ends[0] : ends[-1]].tobytes() if content is not None else b""
