"""New text for rows that leave: new fields after the text of each record, new keys before the closing brace of each object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from r2b._files.arrow import pyarrow
from r2b._files.delimited import Dialect
from r2b._files.formats import Format
from r2b._files.jsonl import members
from r2b._files.plain import as_text
from r2b.engines.files.delimited import DelimitedStored
from r2b.engines.files.jsonl import JsonStored
from r2b.engines.files.stored import Stored
from r2b.engines.files.text import Chunk
from r2b.engines.source import NewColumns


def header_of(file: Stored, new: Sequence[str], shape: Format) -> bytes:
    """Give the first line: as it stands where the file is of the same kind, with the new names after it; JSON Lines have none."""
    if shape.kind == "jsonl":
        return b""
    if isinstance(file, DelimitedStored) and file.format.kind == shape.kind:
        dialect, raw = file.dialect, file.header.raw
        body = raw.rstrip("\r\n")
        return f"{body}{dialect.delimiter}{dialect.joined([list(new)])[0]}{raw[len(body) :] or dialect.newline}".encode()
    return (_dialect(shape).joined([[*file.schema.names, *new]])[0] + "\n").encode()


def added_fields(file: DelimitedStored, chunk: Chunk, made: Sequence[NewColumns]) -> bytes:
    """Give the records of a chunk with new fields after each."""
    if not chunk.n_records:
        return chunk.raw
    dialect = file.dialect
    newline = dialect.newline.encode()
    bodies, ends = _records(chunk)
    tails = [tail for each in made for tail in _tails(each.columns, lambda taken: dialect.joined(_rows_of(taken)))]
    order = _order(made)
    if order is not None:
        open_end = chunk.raw[-1:] not in (b"\n", b"\r")
        bodies, ends = [bodies[row] for row in order], [ends[row] or newline for row in order]
        if open_end:
            ends[-1] = b""
    pieces: list[bytes] = [dialect.delimiter.encode()] * (4 * len(bodies))
    pieces[0::4], pieces[2::4], pieces[3::4] = bodies, tails, ends
    return b"".join(pieces)


def added_members(file: JsonStored, chunk: Chunk, made: Sequence[NewColumns]) -> bytes:
    """Give the objects of a chunk with new keys at the end of each."""
    begins = [line.strip()[:-1].rstrip() for line in chunk.raw.split(b"\n")[: chunk.n_records]]
    tails = [tail for each in made for tail in _tails(each.columns, lambda taken: members(taken, len(next(iter(taken.values())))))]
    order = _order(made)
    if order is not None:
        begins = [begins[row] for row in order]
    return b"".join(
        b"".join((begin, b"" if begin.endswith(b"{") else b", ", tail, b"}", file.newline))
        for begin, tail in zip(begins, tails, strict=True)
    )


def _order(made: Sequence[NewColumns]) -> list[int] | None:
    """Give the rows of a chunk that leave, where they are repeated; rows of a batch are numbered from its own first."""
    found: list[int] = []
    first = 0
    for each in made:
        if each.rows is None:
            return None
        found += (each.rows + first).tolist()
        first += int(each.rows[-1]) + 1  # every row leaves at least once
    return found


def _records(chunk: Chunk) -> tuple[list[bytes], list[bytes]]:
    """Give the text of each record and the end of its line."""
    raw = chunk.raw
    if chunk.ends is None and b"\r" not in raw:
        bodies = raw.split(b"\n")
        ends = [b"\n"] * len(bodies)
        if not bodies[-1]:
            del bodies[-1], ends[-1]
        else:
            ends[-1] = b""
        return bodies, ends
    places = chunk.ends.tolist() if chunk.ends is not None else _line_ends(raw)
    bodies, ends, start = [], [], 0
    for stop in places:
        record = raw[start:stop]
        body = record[:-2] if record.endswith(b"\r\n") else record[:-1] if record.endswith((b"\n", b"\r")) else record
        bodies.append(body)
        ends.append(record[len(body) :])
        start = stop
    return bodies, ends


def _line_ends(raw: bytes) -> list[int]:
    found = (np.flatnonzero(np.frombuffer(raw, np.uint8) == ord("\n")) + 1).tolist()
    return found if raw.endswith(b"\n") else [*found, len(raw)]


def _tails(columns: dict[str, Any], texts_of: Callable[[dict[str, Any]], list[str]]) -> list[bytes]:
    """Give the text of new columns, row by row; rows that are alike are written once and looked up."""
    coded = [column if hasattr(column, "dictionary") else column.dictionary_encode() for column in columns.values()]
    joint, size = np.zeros(len(coded[0]), np.int64), 1
    for column in coded:
        of = max(len(column.dictionary), 1)
        if size * of > 1 << 62:
            _, joint = np.unique(joint, return_inverse=True)
            size = len(joint)
        joint, size = joint * of + column.indices.to_numpy(zero_copy_only=False), size * of
    _, first, place = np.unique(joint, return_index=True, return_inverse=True)
    texts = texts_of({name: column.take(pyarrow().array(first)) for name, column in columns.items()})
    found: list[bytes] = np.array([text.encode() for text in texts], dtype=object)[place].tolist()
    return found


def _rows_of(columns: dict[str, Any]) -> list[tuple[str, ...]]:
    return list(zip(*(as_text(column, name) for name, column in columns.items()), strict=True))


def lines_of(records: Sequence[Any], shape: Format) -> bytes:
    """Give record batches, whose columns each have a name of their own, as lines of text."""
    out: list[str] = []
    for record in records:
        columns = dict(zip(record.schema.names, record.columns, strict=True))
        if shape.kind == "jsonl":
            out += [f"{{{line}}}" for line in members(columns, record.num_rows)]
        else:
            out += _dialect(shape).joined(_rows_of(columns))
    return "".join(f"{line}\n" for line in out).encode()


def _dialect(shape: Format) -> Dialect:
    return Dialect("\t" if shape.kind == "tsv" else ",")
