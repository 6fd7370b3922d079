"""Tables in files leave as they came, with new columns: part by part, in order, and whole or not at all."""

from __future__ import annotations

import codecs
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from r2b._data.compute import ahead
from r2b._files.arrow import pyarrow
from r2b._files.atomic import AtomicWriter, is_device, refuse_little_room, unwritable
from r2b._files.formats import Format, LeftOpen, dialect_of, format_for, format_named, squeezed
from r2b._files.text import lines_of
from r2b.engines.batch import Batch
from r2b.engines.files.delimited import DelimitedStored
from r2b.engines.files.jsonl import JsonStored
from r2b.engines.files.listing import STANDARD, Listing, Part
from r2b.engines.files.reading import ReadJob, Stored, TextStored
from r2b.engines.source import Relabel, joined
from r2b.errors import InputError, ParameterError

if TYPE_CHECKING:
    from r2b.engines.files import FileSource

Piece = Any
"""What is written of some rows: record batches with their places, or bytes."""

_DELIMITED = ("csv", "tsv")


def write_files(source: FileSource, relabel: Relabel, path: str, *, force: bool = False) -> None:
    """Write a table in files with new columns.

    Parameters
    ----------
    source : FileSource
    relabel : Relabel
    path : str
        A file for one file, a folder for several; the files in it have the names they came with.
    force : bool
        Replace what is there.

    Raises
    ------
    ParameterError
        It is there already, the disk has no room, or the name tells a format that the table cannot have.
    """
    with AtomicWriter(force=force, keep=kept_files(source)) as writer:
        write_into(writer, source, relabel, path)
        writer.commit()


def kept_files(source: FileSource) -> tuple[str, ...]:
    """Give what must not be written to: the folder that was named, or the files."""
    return (source.listing.root,) if source.listing.whole else tuple(part.path for part in source.listing.parts)


def shape_of(source: FileSource, path: str, format: str | None = None) -> Format:
    """Settle the format that a table leaves in; "-" is standard output, which is not compressed unless that is asked for.

    Raises
    ------
    ParameterError
        It cannot leave in the format that the name tells, or the name tells none.
    """
    own = source.listing.format
    if not source.listing.many:
        if format is not None:
            return format_named(format)
        return Format(own.kind) if path == STANDARD else own if is_device(Path(path)) else format_for(Path(path).name, None)
    shape = format_for(Path(path).name, format) if format is not None or "." in Path(path).name else own
    if shape.kind != own.kind or path == STANDARD:
        where = "standard output is one" if path == STANDARD else f"{path} names {shape}"
        problem = f"{source.name} is a table of {own} in several files, which leaves as a folder of such; {where}."
        raise ParameterError(problem, remedy="Pass the name of a folder.", path=path)
    return own


def refuse_loss(source: FileSource, relabel: Relabel, shape: Format) -> None:
    """Refuse what another format than that of the input cannot hold, before any work is done.

    Raises
    ------
    InputError
        Names the column.
    """
    own = source.listing.format
    if own.kind == shape.kind:
        return
    if own.is_text or shape.is_text:
        source.refuse_twice(source.names)
    schema, roles = relabel.decode.schema, relabel.decode.roles
    if shape.kind in _DELIMITED and own.kind not in _DELIMITED:
        values: dict[str, Any] = dict(zip(schema.columns, schema.vocabularies, strict=True))
        for name, vocabulary in [*values.items(), *([] if roles.soft else [(roles.label[0], schema.classes)])]:
            if (name in roles.attributes or name in roles.label) and "" in vocabulary.values.tolist():
                raise InputError(
                    f"The column {name!r} has a value that is the empty text, which {shape.kind.upper()} cannot tell from a missing one.",
                    remedy="Write it in the format that it came in, or give the value a name.",
                    column=name,
                )
    mixed = next((name for file in source.files if isinstance(file, JsonStored) for name in sorted(file.mixed)), None)
    if mixed is not None and not shape.is_text:
        problem = f"The column {mixed!r} holds values of several types, which Arrow cannot hold in one column."
        raise InputError(problem, remedy="Write JSON Lines or CSV.", column=mixed)


def write_stream(source: FileSource, relabel: Relabel, stream: BinaryIO, format: str | None = None) -> None:
    """Write a table with new columns to a stream, such as standard output, as it is read.

    Parameters
    ----------
    source : FileSource
        Of one file.
    relabel : Relabel
    stream : binary file
        It stays open.
    format : str, optional
        The format; by default that of the table, not compressed.

    Raises
    ------
    ParameterError
        The table is several files.
    """
    _write(source, relabel, shape_of(source, STANDARD, format), [stream])


def write_into(writer: AtomicWriter, source: FileSource, relabel: Relabel, path: str, format: str | None = None) -> Listing:
    """Write a table beside its target, to be moved into place by the writer, and list it; arguments as for :func:`write_files`.

    A device, such as /dev/stdout, is written at once.
    """
    shape, many = shape_of(source, path, format), source.listing.many
    writer.check(path, folder=many)
    if is_device(Path(path)):
        with open(path, "wb") as device:
            _write(source, relabel, shape, [device])
        return Listing(path, path, (Part(path, Path(path).name),), shape, False)
    parts = [file.part for file in source.files]
    besides = writer.reserve_folder(path, [part.name for part in parts]) if many else [writer.reserve(path)]
    try:
        refuse_little_room(os.path.dirname(os.path.realpath(path)), room_for(source, relabel, shape), "the new files")
        _write(source, relabel, shape, besides)
    except OSError as cause:
        raise unwritable(path, cause) from cause
    if not many:
        return Listing(Path(path).name, str(besides[0]), (Part(str(besides[0]), Path(path).name),), shape, False)
    written = tuple(replace(part, path=str(beside), held=None) for part, beside in zip(parts, besides, strict=True))
    return Listing(Path(path).name, str(besides[0].parent), written, shape, True)


def room_for(source: FileSource, relabel: Relabel, shape: Format) -> int:
    """Estimate the bytes that are written: what came in, and the new columns."""
    soft = relabel.form == "soft"
    # Labels that follow from classes repeat, and Parquet writes what repeats once; text does not.
    each = 20 if shape.is_text and soft else 8 if soft and relabel.decode.roles.soft else 1
    same = shape.kind == source.listing.format.kind
    return (source.n_bytes if same else source.n_bytes // 4) + (source.n_rows or 0) * len(relabel.names) * each


def _write(source: FileSource, relabel: Relabel, shape: Format, targets: Sequence[Path | BinaryIO]) -> None:
    refuse_loss(source, relabel, shape)
    source = source.with_numbers(relabel.decode.roles.numbers)
    done = -1
    out: Out | None = None
    # Waiting for the disk takes longer than writing where files are many and small: several wait at once.
    with ThreadPoolExecutor(_SYNCED) as pool:
        waiting: deque[Future[None]] = deque()
        try:
            for number, piece in _pieces(source, relabel, shape):
                while done < number:
                    if out is not None:
                        out.finish()
                        waiting.append(pool.submit(out.settle))
                        while len(waiting) > _SYNCED:
                            waiting.popleft().result()
                    done += 1
                    out = _opened(source, relabel, shape, done, targets[done])
                assert out is not None
                if piece is not None:
                    out.take(piece)
            if out is not None:
                out.finish()
                out.settle()
            for each in waiting:
                each.result()
        except BaseException:
            if out is not None:
                out.abandon()
            raise


def _pieces(source: FileSource, relabel: Relabel, shape: Format) -> Iterator[tuple[int, Piece]]:
    """Give what is to be written, file after file; a file without rows has nothing, but is there."""
    last, make = -1, _maker(source, relabel, shape)
    # The text of columns that are not needed is not looked into where it leaves as it is.
    columns = relabel.needed if _by_line(source, shape) else None
    # Columns that are looked up: their text is best read as codes, and given back as text.
    roles = relabel.decode.roles
    coded = tuple(name for name in (*roles.label, *roles.attributes) if name not in roles.key)
    jobs = source.jobs(columns, coded=coded, most_rows=relabel.rows_at_once)
    told = source.teller()
    for number, job, piece in ahead(lambda item: (*item, make(*item)), jobs, source.threads):
        last = number
        yield number, piece
        told(job)
    if last < len(source.files) - 1:
        yield len(source.files) - 1, None


def _by_line(source: FileSource, shape: Format) -> bool:
    return shape.is_text and source.listing.format.kind == shape.kind


def _maker(source: FileSource, relabel: Relabel, shape: Format) -> Callable[[int, ReadJob], Piece]:
    """Give what makes of a job what is written of its rows; it runs in any thread."""
    own = source.listing.format

    def full(number: int, batch: Batch) -> Batch:
        return source.completed(batch, relabel.needed, number)

    def as_records(number: int, job: ReadJob) -> Piece:
        file, batches = source.files[number], job.read()
        # Between kinds of delimited text, what means missing leaves as it is spelled.
        spelled = job.read(spelled=True) if own.kind in _DELIMITED and shape.kind in _DELIMITED else batches
        made = []
        for batch, old in zip(batches, spelled, strict=True):
            record = joined(old.record, relabel, full(number, batch))
            made.append((batch.place, record if shape.is_text else fitted(record, new_schema(source, file, relabel))))
        return made

    def as_lines(number: int, job: ReadJob) -> Piece:
        file = source.files[number]
        assert isinstance(file, TextStored)
        return file.extended(job.chunk, [relabel(full(number, batch)) for batch in job.read()])

    def as_text(number: int, job: ReadJob) -> Piece:
        records = [record for _, record in as_records(number, job)]
        return "".join(lines_of(dict(zip(each.schema.names, each.columns, strict=True)), shape) for each in records).encode()

    return as_lines if _by_line(source, shape) else as_text if shape.is_text else as_records


def _opened(source: FileSource, relabel: Relabel, shape: Format, number: int, target: Path | BinaryIO) -> Out:
    file = source.files[number]
    if not shape.is_text:
        from r2b.engines.files.typed import ArrowOut, ParquetOut

        kind = ParquetOut if shape.kind == "parquet" else ArrowOut
        return kind(target, shape.compression, new_schema(source, file, relabel), file, relabel)
    own = (file.encoding, file.mark) if isinstance(file, TextStored) and _by_line(source, shape) else ()
    out = TextOut(target, shape.compression, *own)
    with out.abandoned_on_error():
        out.take(header_of(file, relabel.names, shape))
    return out


def new_schema(source: FileSource, file: Stored, relabel: Relabel) -> Any:
    """Give the columns of a file and the new ones after them, so that a file without rows has them too."""
    arrow, name = pyarrow(), relabel.decode.roles.label[0]
    label = source.keys[name][0] if name in source.keys else file.schema.field(name).type
    return arrow.schema([*file.schema, *map(arrow.field, relabel.names, relabel.kinds(label))], file.schema.metadata)


_BUFFER = 1 << 20
_SYNCED = 8  # files that wait for the disk at once


class Out:
    """A file that is being written.

    Parameters
    ----------
    target : Path or binary file
        A new file, or a stream that stays open.
    compression : str
    """

    def __init__(self, target: Path | BinaryIO, compression: str) -> None:
        self._owned = isinstance(target, Path)
        self._raw: Any = open(target, "xb", buffering=_BUFFER) if isinstance(target, Path) else LeftOpen(target)  # noqa: SIM115
        self._file = squeezed(self._raw, compression)
        self._writer: Any = None

    def take(self, piece: Any) -> None:
        """Write some rows: bytes of text, or record batches with their places."""
        self._file.write(piece)

    def finish(self) -> None:
        """End the file."""
        if self._writer is not None:
            self._writer.close()
        if self._file is not self._raw:
            self._file.close()
        self._raw.flush()

    def settle(self) -> None:
        """Bring the file to the disk, and close it; this may be done by another thread."""
        if self._owned:
            os.fsync(self._raw.fileno())
        self._raw.close()

    def abandon(self) -> None:
        """Let go of the file as it is."""
        for each in (self._writer, self._file, self._raw):
            with suppress(Exception):  # the disk may be full; what is there is thrown away
                each.close()

    @contextmanager
    def abandoned_on_error(self) -> Iterator[None]:
        """Let go of the file where anything goes wrong."""
        try:
            yield
        except BaseException:
            self.abandon()
            raise


class TextOut(Out):
    """A text file that is being written, from UTF-8 to its own encoding.

    Parameters
    ----------
    target, compression
        As for :class:`Out`.
    encoding : str
    mark : bytes
        That the file begins with.
    """

    def __init__(self, target: Path | BinaryIO, compression: str, encoding: str = "utf-8", mark: bytes = b"") -> None:
        super().__init__(target, compression)
        self._encoder = None if encoding == "utf-8" else codecs.getincrementalencoder(encoding)()
        self.encoding = encoding
        self._file.write(mark)

    def take(self, piece: bytes) -> None:
        """Write some lines."""
        try:
            self._file.write(piece if self._encoder is None else self._encoder.encode(piece.decode()))
        except UnicodeEncodeError as cause:
            problem = f"The character {cause.object[cause.start]!r} cannot be written in the encoding {self.encoding}."
            remedy = "Write Parquet or Arrow, or convert the file to UTF-8 first."
            raise InputError(problem, remedy=remedy, encoding=self.encoding) from cause


def header_of(file: Stored, new: Sequence[str], shape: Format) -> bytes:
    """Give the first line: as it stands where the file is of the same kind, with the new names after it; JSON Lines have none."""
    if shape.kind == "jsonl":
        return b""
    if isinstance(file, DelimitedStored) and file.format.kind == shape.kind:
        dialect, raw = file.dialect, file.header.raw
        body = raw.rstrip("\r\n")
        return f"{body}{dialect.delimiter}{dialect.joined([list(new)])[0]}{raw[len(body) :] or dialect.newline}".encode()
    return (dialect_of(shape).joined([[*file.schema.names, *new]])[0] + "\n").encode()


def fitted(record: Any, schema: Any) -> Any:
    """Give a record the types of the file."""
    if record.schema.equals(schema):
        return record
    arrow = pyarrow()
    columns = [
        column if column.type == field.type else column.cast(field.type) for column, field in zip(record.columns, schema, strict=True)
    ]
    return arrow.RecordBatch.from_arrays(columns, schema=schema)
