"""CSV and TSV written part by part: new fields after the text of each record, which stays as it stands."""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from r2b._files.arrow import pyarrow
from r2b._files.delimited import Dialect
from r2b._files.formats import Format
from r2b._files.plain import as_text
from r2b.engines.files_stored import Stored
from r2b.engines.files_text import Chunk, DelimitedStored
from r2b.engines.relabel import NewColumns
from r2b.errors import InputError

_BUFFER = 1 << 20


class TextOut:
    """A text file that is being written, compressed on the way.

    Parameters
    ----------
    path : Path
    compression : str
    """

    def __init__(self, path: Path, compression: str) -> None:
        self._file = open(path, "xb", buffering=_BUFFER)  # noqa: SIM115 - closed by close() or abandon()
        self._squeezed = _compressed(self._file, compression)

    def take(self, piece: bytes) -> None:
        """Write some lines."""
        self._squeezed.write(piece)

    def close(self) -> None:
        """Write what is still held."""
        if self._squeezed is not self._file:
            self._squeezed.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Let go of the file as it is."""
        for each in (self._squeezed, self._file):
            with suppress(Exception):  # the disk may be full; what is there is thrown away
                each.close()


class _LeftOpen(io.RawIOBase):
    """Writes to a file and does not close it: it is still to be brought to the disk."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        return int(self.file.write(piece))


def _compressed(file: Any, compression: str) -> Any:
    if not compression:
        return file
    if compression == "gz":  # no name and no time of writing inside, or no two files would be alike
        return importlib.import_module("gzip").GzipFile("", "wb", 6, file, mtime=0)
    if compression == "zst":
        arrow = pyarrow()
        return arrow.CompressedOutputStream(arrow.PythonFile(_LeftOpen(file), "w"), "zstd")
    module, kind = ("bz2", "BZ2File") if compression == "bz2" else ("lzma", "LZMAFile")
    return getattr(importlib.import_module(module), kind)(file, "wb")


def header_of(file: Stored, new: Sequence[str], shape: Format) -> bytes:
    """Give the first line: as it stands where the file is of the same kind, with the new names after it."""
    if isinstance(file, DelimitedStored) and file.format.kind == shape.kind:
        dialect = file.dialect
        body = file.header.rstrip(b"\r\n")
        end = file.header[len(body) :] or _encoded(dialect.newline, file)
        return file.mark + body + _encoded(dialect.delimiter + dialect.joined([list(new)])[0], file) + end
    dialect = _dialect(shape)
    return (dialect.joined([[*file.schema.names, *new]])[0] + "\n").encode()


def added_fields(file: DelimitedStored, chunk: Chunk, made: Sequence[NewColumns]) -> bytes:
    """Give the records of a chunk with new fields after each."""
    if not chunk.n_records:
        return chunk.raw
    newline = _encoded(file.dialect.newline, file)
    bodies, ends = _records(chunk, newline)
    tails = [tail for each in made for tail in _tails(list(each.columns.values()), list(each.columns), file)]
    if made[0].rows is not None:
        # Rows of a batch are numbered from its own first.
        shift = np.cumsum([0, *(_n_rows(each) for each in made[:-1])])
        order = np.concatenate([each.rows + start for each, start in zip(made, shift, strict=True) if each.rows is not None]).tolist()
        open_end = chunk.raw[-1:] not in (b"\n", b"")
        bodies, ends = [bodies[row] for row in order], [ends[row] or newline for row in order]
        if open_end:
            ends[-1] = b""
    between = _encoded(file.dialect.delimiter, file)
    pieces: list[bytes] = [between] * (4 * len(bodies))
    pieces[0::4], pieces[2::4], pieces[3::4] = bodies, tails, ends
    return b"".join(pieces)


def _n_rows(made: NewColumns) -> int:
    assert made.rows is not None
    return int(made.rows[-1]) + 1  # every row leaves at least once


def _records(chunk: Chunk, newline: bytes) -> tuple[list[bytes], list[bytes]]:
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


def _tails(columns: list[Any], names: list[str], file: DelimitedStored) -> list[bytes]:
    """Give the text of new fields, row by row; rows that are alike are written once and looked up."""
    coded = [column if hasattr(column, "dictionary") else column.dictionary_encode() for column in columns]
    joint, size = np.zeros(len(columns[0]), np.int64), 1
    for column in coded:
        of = max(len(column.dictionary), 1)
        if size * of > 1 << 62:
            _, joint = np.unique(joint, return_inverse=True)
            size = len(joint)
        joint, size = joint * of + column.indices.to_numpy(zero_copy_only=False), size * of
    _, first, place = np.unique(joint, return_index=True, return_inverse=True)
    taken = [column.take(pyarrow().array(first)) for column in columns]
    texts = [as_text(column, name) for column, name in zip(taken, names, strict=True)]
    lines = file.dialect.joined(list(zip(*texts, strict=True)))
    written = np.array([_encoded(line, file) for line in lines], dtype=object)
    found: list[bytes] = written[place].tolist()
    return found


def lines_of(records: Sequence[Any], shape: Format) -> bytes:
    """Give record batches as lines of text."""
    dialect = _dialect(shape)
    out: list[str] = []
    for record in records:
        texts = [as_text(column, name) for name, column in zip(record.schema.names, record.columns, strict=True)]
        out += dialect.joined(list(zip(*texts, strict=True)))
    return "".join(f"{line}\n" for line in out).encode()


def _dialect(shape: Format) -> Dialect:
    return Dialect("\t" if shape.kind == "tsv" else ",")


def _encoded(text: str, file: DelimitedStored) -> bytes:
    try:
        return text.encode(file.encoding)
    except UnicodeEncodeError as cause:
        raise InputError(
            f"The character {text[cause.start]!r} cannot be written in the encoding {file.encoding}.",
            remedy="Write Parquet or Arrow, or convert the file to UTF-8 first.",
            encoding=file.encoding,
        ) from cause
