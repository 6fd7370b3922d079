"""Tables in files leave as they came, with new columns: part by part, in order, and whole or not at all."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from r2b._data.compute import ahead, parts_of
from r2b._files.arrow import pyarrow
from r2b._files.atomic import AtomicWriter
from r2b._files.formats import Format, format_for, format_named
from r2b._files.staging import Finished, Staged, is_device, refuse_little_room, unwritable
from r2b._files.text import lines_of
from r2b.engines.batch import Batch
from r2b.engines.files.jsonl import JsonStored
from r2b.engines.files.listing import STANDARD, Listing, Part
from r2b.engines.files.outs import (
    Bundle,
    Out,
    TextOut,
    bundled,
    fitted,
    header_of,
    parted,
    read_together,
    worked,
)
from r2b.engines.files.reading import ReadJob, Stored, TextStored
from r2b.engines.files.request import request_of
from r2b.engines.source import NewColumns, Relabel, beside
from r2b.errors import InputError, ParameterError

if TYPE_CHECKING:
    from r2b.engines.files import FileSource

Piece = Any
"""What is written of some rows: record batches with their places, or bytes."""

_DELIMITED = ("csv", "tsv")
# that get new labels at once: what is made of them on the way is held in every thread
_ROWS = 1 << 18
_SYNCED = 8  # files that wait for the disk at once
_EMPTY_IS_MISSING = (*_DELIMITED, "xlsx")


def write_files(
    source: FileSource, relabel: Relabel, path: str, *, force: bool = False, resume: bool = False
) -> None:
    """Write a table in files with new columns.

    Parameters
    ----------
    source : FileSource
    relabel : Relabel
    path : str
        A file for one file, a folder for several; the files in it have the names they came with.
    force : bool
        Replace what is there.
    resume : bool
        Keep the files that a write of the very same request, which was stopped, has finished; and
        leave those of this one where it is.

    Raises
    ------
    ParameterError
        It is there already, the disk has no room, or the name tells a format that the table cannot
        have.
    """
    with AtomicWriter(force=force, keep=kept_files(source), resume=resume) as writer:
        write_into(writer, source, relabel, path)
        writer.commit()


def kept_files(source: FileSource) -> tuple[str, ...]:
    """Give what must not be written to: the folder that was named, or the files."""
    return (
        (source.listing.root,)
        if source.listing.whole
        else tuple(part.path for part in source.listing.parts)
    )


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
        return (
            Format(own.kind)
            if path == STANDARD
            else own
            if is_device(Path(path))
            else format_for(Path(path).name, None)
        )
    shape = (
        format_for(Path(path).name, format) if format is not None or "." in Path(path).name else own
    )
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
    if shape.kind in _EMPTY_IS_MISSING and own.kind not in _EMPTY_IS_MISSING:
        values: dict[str, Any] = dict(zip(schema.columns, schema.vocabularies, strict=True))
        for name, vocabulary in [
            *values.items(),
            *([] if roles.soft else [(roles.label[0], schema.classes)]),
        ]:
            if (
                name in roles.attributes or name in roles.label
            ) and "" in vocabulary.values.tolist():
                raise InputError(
                    f"The column {name!r} has a value that is the empty text, which {shape.kind.upper()} cannot tell from a missing one.",
                    remedy="Write it in the format that it came in, or give the value a name.",
                    column=name,
                )
    mixed = next(
        (
            name
            for file in source.files
            if isinstance(file, JsonStored)
            for name in sorted(file.mixed)
        ),
        None,
    )
    if mixed is not None and not shape.is_text:
        problem = f"The column {mixed!r} holds values of several types, which Arrow cannot hold in one column."
        raise InputError(problem, remedy="Write JSON Lines or CSV.", column=mixed)


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

    Raises
    ------
    ParameterError
        The table is several files.
    """
    _write(source, relabel, shape_of(source, STANDARD, format), [stream])


def write_into(
    writer: AtomicWriter, source: FileSource, relabel: Relabel, path: str, format: str | None = None
) -> Listing:
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
    staged = (
        writer.reserve_folder(
            path, [part.name for part in parts], request_of(source, relabel, shape)
        )
        if many
        else None
    )
    besides = [writer.reserve(path)] if staged is None else staged.places
    try:
        there = 0 if staged is None else sum(each.size for each in staged.finished.values())
        refuse_little_room(
            os.path.dirname(os.path.realpath(path)),
            room_for(source, relabel, shape) - there,
            "the new files",
        )
        _write(source, relabel, shape, besides, staged)
    except OSError as cause:
        raise unwritable(path, cause, kept=writer.resume and many) from cause
    if staged is None:
        return Listing(
            Path(path).name,
            str(besides[0]),
            (Part(str(besides[0]), Path(path).name),),
            shape,
            False,
        )
    written = tuple(
        replace(part, path=str(beside), held=None)
        for part, beside in zip(parts, besides, strict=True)
    )
    return Listing(
        Path(path).name, str(staged.folder), written, shape, True, taken_over=staged.taken
    )


def room_for(source: FileSource, relabel: Relabel, shape: Format) -> int:
    """Estimate the bytes that are written: what came in, and the new columns."""
    soft = relabel.form == "soft"
    # Labels that follow from classes repeat, and Parquet writes what repeats once; text does not.
    each = 20 if shape.is_text and soft else 8 if soft and relabel.decode.roles.soft else 1
    same = shape.kind == source.listing.format.kind
    return (source.n_bytes if same else source.n_bytes // 4) + (source.n_rows or 0) * len(
        relabel.names
    ) * each


class _Writing:
    """The files of a write, one after the other.

    Parameters
    ----------
    opened : callable
        Opens a file by its number.
    n_files : int
    staged : Staged or None
        Notes which files are finished, where they become a folder.
    """

    def __init__(self, opened: Callable[[int], Out], n_files: int, staged: Staged | None) -> None:
        self.opened, self.staged = opened, staged
        self.left = deque(
            number for number in range(n_files) if staged is None or number not in staged.finished
        )
        self.out: Out | None = None
        self.number, self.rows = -1, 0
        # Waiting for the disk takes longer than writing where files are many: several wait at once.
        self.pool, self.waiting = ThreadPoolExecutor(_SYNCED), deque[Future[None]]()

    def take(self, number: int, piece: Piece, n_rows: int) -> None:
        """Write some rows of a file; those before it end, also where they have no rows."""
        self._reach(number)
        assert self.out is not None
        self.rows += n_rows
        self.out.take(piece)

    def end(self) -> None:
        """End all files, and wait until they are on the disk or with those that are brought there together."""
        while self.left:
            self._reach(self.left[-1])
        self._finish()
        for each in self.waiting:
            each.result()

    def close(self) -> None:
        """Let go of everything."""
        self.pool.shutdown(wait=True)
        if self.out is not None:
            self.out.abandon()

    def _reach(self, number: int) -> None:
        while self.number < number and self.left:
            self._finish()
            self.number, self.rows = self.left.popleft(), 0
            self.out = self.opened(self.number)

    def _finish(self) -> None:
        if self.out is None:
            return
        out = self.out
        out.finish()
        if self.staged is not None:
            self.staged.finish(Finished(self.number, self.rows, *out.written))
            if out.small:
                self.staged.waiting.append(self.number)
        self.out = None
        if self.staged is not None and out.small:  # there is nothing to wait for yet
            out.settle()
            return
        self.waiting.append(self.pool.submit(out.settle))
        while len(self.waiting) > _SYNCED:
            self.waiting.popleft().result()


def _write(
    source: FileSource,
    relabel: Relabel,
    shape: Format,
    targets: Sequence[Path | BinaryIO],
    staged: Staged | None = None,
) -> None:
    refuse_loss(source, relabel, shape)
    source = source.with_numbers(relabel.decode.roles.numbers)
    writing = _Writing(
        lambda number: _opened(source, relabel, shape, number, targets[number]),
        len(targets),
        staged,
    )
    try:
        for number, job, piece in _pieces(source, relabel, shape, staged):
            writing.take(number, piece, job.n_rows)
        writing.end()
    finally:
        writing.close()


def _pieces(
    source: FileSource, relabel: Relabel, shape: Format, staged: Staged | None
) -> Iterator[tuple[int, ReadJob, Piece]]:
    """Give what is to be written, file after file; nothing of files that are finished or without rows."""
    # The text of columns that are not needed is not looked into where it leaves as it is.
    columns = relabel.needed if _by_line(source, shape) else None
    # Columns that are looked up: their text is best read as codes, and given back as text.
    roles = relabel.decode.roles
    coded = tuple(name for name in (*roles.label, *roles.attributes) if name not in roles.key)
    make = _maker(source, relabel, shape, coded)
    done = {} if staged is None else {each.number: each.rows for each in staged.finished.values()}
    jobs = bundled(
        source.jobs(columns, coded=coded, most_rows=relabel.rows_at_once, done=done),
        relabel.rows_at_once,
    )
    told = source.teller(done)
    for bundle, pieces in ahead(lambda bundle: (bundle, make(bundle)), jobs, source.threads):
        for (number, job), piece in zip(bundle, pieces, strict=True):
            yield number, job, piece
            told(job)


def _relabelled(relabel: Relabel, batch: Batch) -> NewColumns:
    """Make the new columns of a batch, of a long one part by part."""
    if len(batch) <= _ROWS:
        return relabel(batch)
    parts = parts_of(len(batch), _ROWS)
    made = []
    for part in parts:
        first, offset = batch.first + part.start, batch.offset + part.start
        made.append(
            relabel(
                replace(
                    batch, record=batch.record.slice(part.start, _ROWS), first=first, offset=offset
                )
            )
        )
    columns = {
        name: pyarrow().concat_arrays([each.columns[name] for each in made])
        for name in made[0].columns
    }
    rows = [
        each.rows + part.start
        for part, each in zip(parts, made, strict=True)
        if each.rows is not None
    ]
    return NewColumns(columns, np.concatenate(rows) if rows else None)


def _by_line(source: FileSource, shape: Format) -> bool:
    return shape.is_text and source.listing.format.kind == shape.kind


def _maker(
    source: FileSource, relabel: Relabel, shape: Format, coded: Collection[str]
) -> Callable[[Bundle], list[Piece]]:
    """Give what makes of jobs what is written of their rows; it runs in any thread."""
    own, by_line = source.listing.format, _by_line(source, shape)

    def full(number: int, batch: Batch) -> Batch:
        return source.completed(batch, relabel.needed, number)

    def of_each(bundle: Bundle, read: list[list[Batch]]) -> list[list[NewColumns]]:
        """Give the new columns of every batch of every job; those of small files are made together."""
        if len(bundle) > 1:
            sizes = [len(batch) for batches in read for batch in batches]
            found = worked(
                relabel,
                [
                    full(number, batch)
                    for (number, _), batches in zip(bundle, read, strict=True)
                    for batch in batches
                ],
            )
            if found is not None:
                every = iter(parted(found[0], sizes))
                return [[next(every) for _ in batches] for batches in read]
        return [
            [_relabelled(relabel, full(number, batch)) for batch in batches]
            for (number, _), batches in zip(bundle, read, strict=True)
        ]

    def lines(bundle: Bundle) -> list[Piece]:
        batches = read_together(source, bundle, relabel.needed, coded, relabel.rows_at_once)
        found = None if batches is None else worked(relabel, batches)
        if found is None:
            new = of_each(bundle, [job.read() for _, job in bundle])
        else:
            new = [[each] for each in parted(found[0], [job.n_rows for _, job in bundle])]
        made = []
        for (number, job), mine in zip(bundle, new, strict=True):
            file = source.files[number]
            assert isinstance(file, TextStored)
            made.append(file.extended(job.chunk, mine))
        return made

    def records(bundle: Bundle) -> list[Piece]:
        read = [job.read() for _, job in bundle]
        # Between kinds of delimited text, what means missing leaves as it is spelled.
        apart = own.kind in _DELIMITED and shape.kind in _DELIMITED
        spelled = [job.read(spelled=True) for _, job in bundle] if apart else read
        made = []
        for (number, _), batches, new in zip(bundle, spelled, of_each(bundle, read), strict=True):
            pieces = [
                (batch.place, beside(batch.record, mine))
                for batch, mine in zip(batches, new, strict=True)
            ]
            schema = None if shape.is_text else new_schema(source, source.files[number], relabel)
            made.append(
                [
                    (place, record if schema is None else fitted(record, schema))
                    for place, record in pieces
                ]
            )
        return made

    def texts(bundle: Bundle) -> list[Piece]:
        made = (
            [dict(zip(each.schema.names, each.columns, strict=True)) for _, each in piece]
            for piece in records(bundle)
        )
        return ["".join(lines_of(columns, shape) for columns in piece).encode() for piece in made]

    return lines if by_line else texts if shape.is_text else records


def _opened(
    source: FileSource, relabel: Relabel, shape: Format, number: int, target: Path | BinaryIO
) -> Out:
    file = source.files[number]
    if not shape.is_text:
        from r2b.engines.files.typed import ArrowOut, ParquetOut

        if shape.kind == "xlsx":
            from r2b.engines.files.workbook import WorkbookOut

            return WorkbookOut(
                target,
                shape.compression,
                new_schema(source, file, relabel).names,
                getattr(file, "sheet", "Sheet1"),
            )
        kind = ParquetOut if shape.kind == "parquet" else ArrowOut
        return kind(target, shape.compression, new_schema(source, file, relabel), file, relabel)
    own = (
        (file.encoding, file.mark)
        if isinstance(file, TextStored) and _by_line(source, shape)
        else ()
    )
    out = TextOut(target, shape.compression, *own)
    with out.abandoned_on_error():
        out.take(header_of(file, relabel.names, shape))
    return out


def new_schema(source: FileSource, file: Stored, relabel: Relabel) -> Any:
    """Give the columns of a file and the new ones after them, so that a file without rows has them too."""
    arrow, name = pyarrow(), relabel.decode.roles.label[0]
    label = source.keys[name][0] if name in source.keys else file.schema.field(name).type
    return arrow.schema(
        [*file.schema, *map(arrow.field, relabel.names, relabel.kinds(label))], file.schema.metadata
    )
