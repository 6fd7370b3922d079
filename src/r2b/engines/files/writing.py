"""Tables in files are written with new columns: part by part, in order, and whole or not at all."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from r2b._files.arrow import pyarrow
from r2b._files.atomic import AtomicWriter
from r2b._files.formats import Format, LeftOpen, format_for, squeezed
from r2b._files.paths import is_device, refuse_little_room, unwritable
from r2b._files.text import header_of, lines_of
from r2b._files.workbook import SheetWriter
from r2b.engines.batch import PIECE_ROWS, Batch, one_record
from r2b.engines.files.lines import TextStored
from r2b.engines.files.listing import STANDARD, Listing, Part
from r2b.engines.files.reading import ReadJob, Stored, Wanted
from r2b.engines.files.typed import parquet
from r2b.engines.source import Relabel, beside, schema_beside
from r2b.errors import InputError, ParameterError

if TYPE_CHECKING:
    from r2b.engines.files.source import FileSource

_EMPTY_IS_MISSING = ("csv", "tsv", "xlsx")
_LARGEST_GROUP = 1 << 28  # bytes of a row group; larger ones are split

Output = tuple[Callable[[Any], object], Callable[[], object]]
"""What writes rows, which are lines of text in UTF-8 or a batch, and what ends the file."""


def shape_of(source: FileSource, path: str, format: str | None = None) -> Format:
    """Return the format that a table is written in; standard output ("-") is not compressed.

    Raises
    ------
    ParameterError
        It cannot be written in the format that the name tells, or the name tells none.
    """
    own, name = source.listing.format, Path(path).name
    if not source.listing.many:
        if format is None and path == STANDARD:
            return Format(own.kind)
        return own if format is None and is_device(Path(path)) else format_for(name, format)
    shape = own if format is None and "." not in name else format_for(name, format)
    if shape.kind != own.kind or path == STANDARD:
        where = "standard output is one" if path == STANDARD else f"{path} names {shape}"
        problem = (
            f"{source.name} is a table of {own} in several files, which is written as a folder of "
            f"such; {where}."
        )
        raise ParameterError(problem, remedy="Pass the name of a folder.", path=path)
    return own


def refuse_loss(source: FileSource, relabel: Relabel, shape: Format) -> None:
    """Refuse what another format than that of the input cannot hold, before any work is done."""
    own = source.listing.format
    if own.kind == shape.kind:
        return
    if own.is_text or shape.is_text:
        source.refuse_twice(source.names)
    schema, roles = relabel.decode.schema, relabel.roles
    if shape.kind in _EMPTY_IS_MISSING and own.kind not in _EMPTY_IS_MISSING:
        known = {*roles.attributes, *(() if roles.soft else roles.label)}
        columns = zip(schema.columns, schema.vocabularies, strict=True)
        for name, vocabulary in (*columns, (roles.label[0], schema.classes)):
            if name in known and "" in vocabulary.values.tolist():
                raise InputError(
                    f"The column {name!r} has a value that is the empty text, which "
                    f"{shape.kind.upper()} cannot tell from a missing one.",
                    remedy="Write it in the format that it came in, or give the value a name.",
                    column=name,
                )
    if not shape.is_text:
        for name in sorted(frozenset().union(*(file.mixed for file in source.files))):
            raise InputError(
                f"The column {name!r} holds values of several types, which Arrow cannot hold in "
                "one column.",
                remedy="Write JSON Lines or CSV.",
                column=name,
            )


def write_stream(
    source: FileSource, relabel: Relabel, stream: BinaryIO, format: str | None = None
) -> None:
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
    """
    _write(source, relabel, shape_of(source, STANDARD, format), [stream])


def write_into(
    writer: AtomicWriter, source: FileSource, relabel: Relabel, path: str, shape: Format
) -> Listing:
    """Write a table with new columns beside its target, and list it; a device is written at once.

    Parameters
    ----------
    writer : AtomicWriter
        Moves it into place.
    source : FileSource
    relabel : Relabel
    path : str
        A file for one file, a folder for several; the files in it have the names they came with.
    shape : Format

    Raises
    ------
    ParameterError
        It is there already, or the disk has no room.
    """
    many, name = source.listing.many, Path(path).name
    writer.check(path, folder=many)
    if is_device(Path(path)):
        with open(path, "wb") as device:
            _write(source, relabel, shape, [device])
        return Listing(path, path, (Part(path, name),), shape, False)
    staged = writer.reserve(path, [part.name for part in source.listing.parts] if many else None)
    places = staged.places
    folder = os.path.dirname(os.path.realpath(path))
    try:
        refuse_little_room(folder, _room_for(source, relabel, shape), "the new files")
        _write(source, relabel, shape, places)
    except OSError as cause:
        raise unwritable(path, cause) from cause
    if not many:
        return Listing(name, str(places[0]), (Part(str(places[0]), name),), shape, False)
    written = zip(source.listing.parts, places, strict=True)
    parts = tuple(replace(part, path=str(place), held=None) for part, place in written)
    return Listing(name, str(staged.folder), parts, shape, True)


def _room_for(source: FileSource, relabel: Relabel, shape: Format) -> int:
    """Estimate the bytes that are written: what came in, and the new columns."""
    soft = not relabel.traits.classes
    # Labels that follow from classes repeat, and Parquet writes what repeats once; text does not.
    each = 20 if shape.is_text and soft else 8 if soft and relabel.roles.soft else 1
    same = shape.kind == source.listing.format.kind
    old = source.n_bytes if same else source.n_bytes // 4
    return old + (source.n_rows or 0) * len(relabel.names) * each


def _write(
    source: FileSource, relabel: Relabel, shape: Format, targets: Sequence[Path | BinaryIO]
) -> None:
    refuse_loss(source, relabel, shape)
    source = source.with_numbers(relabel.roles.numbers)
    pieces = _pieces(source, relabel, shape)
    piece = next(pieces, None)
    for number, target in enumerate(targets):  # files without rows are written too
        file, schema = source.files[number], _new_schema(source, number, relabel)
        with _open_output(target, file, schema, shape, relabel) as take:
            while piece is not None and piece[0] == number:
                for each in piece[1]:
                    take(each)
                piece = next(pieces, None)


def _pieces(source: FileSource, relabel: Relabel, shape: Format) -> Iterator[tuple[int, Any]]:
    """Yield what is to be written, with the number of its file."""
    roles, own = relabel.roles, source.listing.format
    extends = shape.is_text and own.kind == shape.kind
    delimited = own.is_delimited and shape.is_delimited

    def make(number: int, job: ReadJob) -> list[Any]:
        read = job.read()
        new = [relabel(source.completed(batch, relabel.needed, number)) for batch in read]
        if extends:
            file = source.files[number]
            assert isinstance(file, TextStored)
            return [file.extended(job.chunk, new)]
        # Between kinds of delimited text, what means missing stays as it is spelled.
        kept = job.read(spelled=True) if delimited else read
        whole = [
            replace(batch, record=beside(batch.record, each))
            for batch, each in zip(kept, new, strict=True)
        ]
        return (
            [lines_of(each.columns, shape).encode() for each in whole] if shape.is_text else whole
        )

    # Columns that are looked up: their text is best read as codes, and written as text.
    coded = {*roles.label, *roles.attributes} - {*roles.key}
    # Text that is written as it is need not be parsed where it is not needed.
    columns = list(relabel.needed) if extends else None
    return source.passed(Wanted(columns, coded, relabel.rows_at_once), make)


def _new_schema(source: FileSource, number: int, relabel: Relabel) -> Any:
    """Return the columns of a file and the new ones after them."""
    schema = source.files[number].schema
    folders = {name: kind for name, (kind, _) in source.keys.items()}
    needed = [(name, folders.get(name) or schema.field(name).type) for name in relabel.needed]
    none = one_record(pyarrow().schema(needed).empty_table())
    return schema_beside(schema, relabel(Batch(none)))


@contextmanager
def _open_output(
    target: Path | BinaryIO, file: Stored, schema: Any, shape: Format, relabel: Relabel
) -> Iterator[Callable[[Any], object]]:
    """Yield what writes rows to a new file, and bring it to the disk when all are written.

    Parameters
    ----------
    target : Path or binary file
        A new file, or a stream that stays open.
    file : Stored
        What it comes from.
    schema : pyarrow.Schema
        Its columns and the new ones.
    shape : Format
    relabel : Relabel
    """
    raw: Any = open(target, "xb") if isinstance(target, Path) else LeftOpen(target)  # noqa: SIM115
    packed, close = raw, raw.close
    try:
        packed = squeezed(raw, shape.compression)
        take, close = _output(packed, file, schema, shape, relabel)
        yield take
        close()
        if packed is not raw:
            packed.close()
        raw.flush()
        if isinstance(target, Path):
            os.fsync(raw.fileno())
    finally:
        for each in (close, packed.close, raw.close):
            with suppress(Exception):  # the disk may be full; what is there is thrown away
                each()


def _output(target: Any, file: Stored, schema: Any, shape: Format, relabel: Relabel) -> Output:
    match shape.kind:
        case "parquet":
            made = ParquetOutput(target, schema, file, relabel)
            return made.take, made.close
        case "arrow":
            return _arrow_output(target, schema, file)
        case "xlsx":
            n_rows = None if relabel.traits.repeated else file.n_rows
            sheet = SheetWriter(target, schema.names, file.sheet, n_rows)
            return lambda piece: sheet.take(piece.record), sheet.close
        case kind if kind == file.kind:
            target.write(file.mark)
            take = partial(_write_text, codecs.getwriter(file.encoding)(target), file.encoding)
            take(file.header_with(relabel.names))
            return take, lambda: None
        case _:
            target.write(header_of(schema.names, shape).encode())
            return target.write, lambda: None


def _write_text(target: codecs.StreamWriter, encoding: str, lines: bytes) -> None:
    """Write lines of UTF-8 in another encoding."""
    try:
        target.write(lines.decode())
    except UnicodeEncodeError as cause:
        letter = cause.object[cause.start]
        raise InputError(
            f"The character {letter!r} cannot be written in the encoding {encoding}.",
            remedy="Write Parquet or Arrow, or convert the file to UTF-8 first.",
            encoding=encoding,
        ) from cause


def _arrow_output(target: Any, schema: Any, file: Stored) -> Output:
    """Return what writes an Arrow file or stream, with the codec of the one that it comes from."""
    ipc, types = pyarrow().ipc, pyarrow().types
    if file.kind != "arrow":
        # An Arrow file holds one dictionary per column, and each row group of Parquet its own.
        for place, field in enumerate(schema):
            if types.is_dictionary(field.type):
                schema = schema.set(place, field.with_type(field.type.value_type))
    options = ipc.IpcWriteOptions(compression=file.codec, use_threads=False)
    writer = (ipc.new_stream if file.streamed else ipc.new_file)(target, schema, options=options)
    return lambda piece: writer.write_batch(fitted(piece.record, schema)), writer.close


class ParquetOutput:
    """A Parquet file with the row groups and codecs of the one that it comes from."""

    def __init__(self, target: Any, schema: Any, file: Stored, relabel: Relabel) -> None:
        self._schema, self._keep_groups = schema, file.kind == "parquet"
        self._held: list[Any] = []
        self._place = ""
        codecs: Any = file.codecs
        # New columns have the codec of the label.
        label = next((codecs[name] for name in relabel.roles.label if name in codecs), None)
        codecs = (codecs | dict.fromkeys(relabel.names, label or "snappy")) if codecs else "snappy"
        self._writer = parquet().ParquetWriter(target, schema, compression=codecs)

    def take(self, piece: Batch) -> None:
        """Write some rows; those of one row group of the input stay together."""
        whole = sum(map(len, self._held)) >= PIECE_ROWS
        if self._keep_groups:
            whole = piece.place != self._place
        if whole or sum(each.nbytes for each in self._held) > _LARGEST_GROUP:
            self._flush()
        self._place = piece.place
        self._held.append(fitted(piece.record, self._schema))

    def _flush(self) -> None:
        if self._held:
            table = pyarrow().Table.from_batches(self._held, self._schema)
            self._held = []
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def close(self) -> None:
        """Write the footer."""
        self._flush()
        self._writer.close()


def fitted(record: Any, schema: Any) -> Any:
    """Return a record with the types of a schema."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(record.columns, schema, strict=True)
    ]
    return pyarrow().RecordBatch.from_arrays(columns, schema=schema)
