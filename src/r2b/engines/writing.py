"""Tables in files leave as they came, with new columns: part by part, in order, and whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from r2b._files.arrow import pyarrow
from r2b._files.atomic import AtomicWriter, unwritable
from r2b._files.formats import Format, format_named, format_of
from r2b.engines.batch import Batch
from r2b.engines.files_stored import ReadJob, Stored, ahead
from r2b.engines.held import joined
from r2b.engines.relabel import Relabel
from r2b.engines.spool import refuse_little_room
from r2b.engines.writing_arrow import ArrowOut, ParquetOut, fitted
from r2b.engines.writing_text import TextOut, added_fields, header_of, lines_of
from r2b.errors import ParameterError

if TYPE_CHECKING:
    from r2b.engines.files import FileSource

Piece = Any
"""What is written of some rows: record batches with their places, or bytes."""


class Out(Protocol):
    """A file that is being written."""

    def take(self, piece: Piece) -> None:
        """Write some rows."""
        ...

    def close(self) -> None:
        """End the file, and bring it to the disk."""
        ...

    def abandon(self) -> None:
        """Let go of the file as it is."""
        ...


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
    with AtomicWriter(force=force, keep=kept_files(source)) as writer, _in_python(path):
        write_into(writer, source, relabel, path)
        writer.commit()


@contextmanager
def _in_python(path: str) -> Iterator[None]:
    """Let the remedies of the command line speak of arguments."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(error.problem, remedy=error.remedy.replace("--force", "force=True"), **error.facts) from error


def kept_files(source: FileSource) -> tuple[str, ...]:
    """Give what must not be written to: the folder that was named, or the files."""
    return (source.listing.root,) if source.listing.whole else tuple(part.path for part in source.listing.parts)


def shape_of(source: FileSource, path: str, said: str | None = None) -> Format:
    """Settle the format that a table leaves in.

    Raises
    ------
    ParameterError
        It cannot leave in the format that the name tells.
    """
    own = source.listing.format
    told = format_named(said) if said is not None else format_of(path) if "." in Path(path).name else None
    shape = own if told is None else told
    if source.listing.many and shape.kind != own.kind:
        raise ParameterError(
            f"{source.name} is a table of {own} in several files, which leaves as a folder of such; {path} tells {shape}.",
            remedy="Pass the name of a folder.",
            path=path,
        )
    if shape.kind == "jsonl" or (not shape.is_text and shape.compression):
        raise ParameterError(
            f"{shape} is not written part by part.",
            remedy="Write Parquet, Arrow, CSV or TSV, or read the table into memory: --no-stream on the command line.",
            path=path,
        )
    return own if source.listing.many else shape


def write_into(writer: AtomicWriter, source: FileSource, relabel: Relabel, path: str, said: str | None = None) -> Path:
    """Write a table beside its target, to be moved into place by the writer, and give where; arguments as for :func:`write_files`."""
    source, shape = source.reading_numbers(relabel.decode.roles), shape_of(source, path, said)
    many = source.listing.many
    writer.check(path, folder=many)
    refuse_little_room(os.path.dirname(os.path.realpath(path)), room_for(source, relabel, shape), "the new files")
    beside = writer.reserve(path, folder=many)
    targets = [beside / file.part.name if many else beside for file in source.files]
    try:
        _written(source, relabel, shape, targets)
    except OSError as cause:
        raise unwritable(path, cause) from cause
    return beside


def room_for(source: FileSource, relabel: Relabel, shape: Format) -> int:
    """Estimate the bytes that are written: what came in, and the new columns."""
    soft = relabel.form == "soft"
    # Labels that follow from classes repeat, and Parquet writes what repeats once; text does not.
    each = 20 if shape.is_text and soft else 8 if soft and relabel.decode.roles.soft else 1
    same = shape.kind == source.listing.format.kind
    return (source.n_bytes if same else source.n_bytes // 4) + (source.n_rows or 0) * len(relabel.names) * each


def _written(source: FileSource, relabel: Relabel, shape: Format, targets: list[Path]) -> None:
    from r2b.engines.files import rows_at_once

    columns = _read_columns(source, relabel, shape)
    make = _maker(source, relabel, shape)
    done = -1
    out: Out | None = None
    try:
        for number, piece in _pieces(source, columns, _coded(relabel), rows_at_once(relabel), make):
            while done < number:
                if out is not None:
                    out.close()
                done += 1
                out = _opened(source, relabel, shape, done, targets[done])
            assert out is not None
            if piece is not None:
                out.take(piece)
        if out is not None:
            out.close()
    except BaseException:
        if out is not None:
            out.abandon()
        raise


def _pieces(
    source: FileSource, columns: list[str], coded: Collection[str], most_rows: int, make: Callable[[int, ReadJob], Piece]
) -> Iterator[tuple[int, Piece]]:
    """Give what is to be written, file after file; a file without rows has nothing, but is there."""
    last = -1

    def made(item: tuple[int, ReadJob]) -> tuple[int, int, Piece]:
        number, job = item
        return number, job.n_rows, make(number, job)

    for number, n_rows, piece in ahead(made, source.jobs(columns, coded=coded, most_rows=most_rows), source.threads):
        if source.watch is not None:
            source.watch(n_rows)
        last = number
        yield number, piece
    if last < len(source.files) - 1:
        yield len(source.files) - 1, None


def _read_columns(source: FileSource, relabel: Relabel, shape: Format) -> list[str]:
    if _by_line(source, shape):  # the text of the other columns is not looked into
        return list(relabel.needed)
    return [*source.files[0].schema.names, *(name for name in relabel.needed if name in source.keys)]


def _coded(relabel: Relabel) -> tuple[str, ...]:
    """Name the columns that are looked up: their text is best read as codes, and given back as text."""
    choice = relabel.decode.roles
    return tuple(name for name in (*choice.label, *choice.attributes) if name not in choice.key)


def _by_line(source: FileSource, shape: Format) -> bool:
    return shape.is_text and source.listing.format.kind == shape.kind


def _maker(source: FileSource, relabel: Relabel, shape: Format) -> Callable[[int, ReadJob], Piece]:
    """Give what makes of a job what is written of its rows; it runs in any thread."""

    def full(number: int, batch: Batch) -> Batch:
        return source.completed(batch, relabel.needed, number)

    def as_records(number: int, job: ReadJob) -> Piece:
        names = source.files[number].schema.names
        made = []
        for batch in job.read():
            record = joined(batch.record.select(names), relabel, full(number, batch))
            made.append((batch.place, fitted(record, new_schema(source, source.files[number], relabel))))
        return made

    def as_lines(number: int, job: ReadJob) -> Piece:
        file: Any = source.files[number]
        return added_fields(file, job.chunk, [relabel(full(number, batch)) for batch in job.read()])

    def as_text(number: int, job: ReadJob) -> Piece:
        return lines_of([record for _, record in as_records(number, job)], shape)

    return as_lines if _by_line(source, shape) else as_text if shape.is_text else as_records


def _opened(source: FileSource, relabel: Relabel, shape: Format, number: int, target: Path) -> Out:
    file = source.files[number]
    target.parent.mkdir(parents=True, exist_ok=True)
    schema = new_schema(source, file, relabel)
    if shape.kind == "parquet":
        return ParquetOut(target, schema, file, relabel)
    if shape.kind == "arrow":
        return ArrowOut(target, schema, file)
    out = TextOut(target, shape.compression)
    try:
        out.take(header_of(file, relabel.names, shape))
    except BaseException:
        out.abandon()
        raise
    return out


def new_schema(source: FileSource, file: Stored, relabel: Relabel) -> Any:
    """Give the columns of a file and the new ones after them, so that a file without rows has them too."""
    arrow, choice = pyarrow(), relabel.decode.roles
    if choice.soft:
        label = arrow.array(relabel.decode.schema.classes.values.tolist()).type
    else:
        name = choice.label[0]
        label = source.keys[name][0] if name in source.keys else file.schema.field(name).type
    if relabel.form == "soft":
        kinds = [arrow.float64()] * len(relabel.names)
    else:
        kinds = [label, arrow.float64(), arrow.int64()][: len(relabel.names)]
    made = file.schema
    for name, kind in zip(relabel.names, kinds, strict=True):
        made = made.append(arrow.field(name, kind))
    return made
