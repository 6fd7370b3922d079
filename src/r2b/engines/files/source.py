"""Tables in files as a source: read part by part in a fixed order, by several threads."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Integral
from os import PathLike
from time import monotonic
from typing import Any, BinaryIO

from r2b._data.compute import release_memory, work_ahead
from r2b._data.numbers import refuse_other_number
from r2b._files.arrow import pyarrow, unfolded_bytes
from r2b._files.atomic import AtomicWriter
from r2b._files.formats import Format, opened, seen_instead
from r2b._files.paths import local_path, refuse_little_room
from r2b._files.text import refuse_growth
from r2b._solve.oracle import Block, Blocks
from r2b.engines.batch import (
    PIECE_ENTRIES,
    PIECE_ROWS,
    Batch,
    numbers_of,
    plain_type,
)
from r2b.engines.files.delimited import DelimitedStored
from r2b.engines.files.jsonl import JsonStored
from r2b.engines.files.listing import Listing, Part, folder_columns, list_files
from r2b.engines.files.reading import ReadJob, ReadOptions, Stored, Wanted, reading
from r2b.engines.files.typed import ArrowStored, ParquetStored, WorkbookStored
from r2b.engines.roles import Decode
from r2b.engines.source import Relabel, Source, beside
from r2b.engines.spool import ELSEWHERE, copied, keeping
from r2b.engines.tally import Tally, same_values
from r2b.errors import (
    DamagedFileError,
    EmptyError,
    InputError,
    ParameterError,
    part_of_a_table,
)

EMPTY = ("",)
"""Text that means missing by default: empty fields."""


@dataclass(frozen=True)
class PassProgress:
    """How far a pass over files is, reading or writing.

    Attributes
    ----------
    rows : int
        Done so far.
    share : float or None
        From 0 to 1, by rows where their number is known, else by bytes of text; else None.
    seconds : float
        Time since the pass began.

    Examples
    --------
    >>> print(PassProgress(250_000, 0.25, 10.0))
    250,000 rows, 25 %, 30 s left
    """

    rows: int
    share: float | None
    seconds: float

    @property
    def seconds_left(self) -> float | None:
        """An estimate of the time that it still takes."""
        return self.seconds * (1.0 - self.share) / self.share if self.share else None

    def __str__(self) -> str:
        share = "" if self.share is None else f", {100 * self.share:.0f} %"
        left = "" if self.seconds_left is None else f", {self.seconds_left:,.0f} s left"
        return f"{self.rows:,} rows{share}{left}"


@dataclass(frozen=True, eq=False)
class FileSource(Source):
    r"""A table in files.

    Attributes
    ----------
    listing : Listing
    files : tuple of Stored
    keys : dict of str to (type, list)
        Columns that folders name, such as ``year=2024/``: their types, and their values file by
        file.
    numbers : frozenset of str
        Columns of text that are read as numbers.
    spelled : bool
        Whether text may stand for numbers in formats with types as well, as it does after CSV was
        written as Parquet.
    decimal : str
        The decimal mark of numbers that are spelled as text.
    threads : int or None
        All cores by default.
    scratch : str or None
        Folder for what is decoded; that of the system by default.
    watch : callable or None
        Called with a :class:`PassProgress` after every piece.

    Examples
    --------
    >>> import pathlib, tempfile, r2b
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = place.write_text("sex,job\nf,a\nf,b\nm,b\nm,b\n")
    >>> fair = r2b.scan(place).debias("job", sensitive_features="sex")
    >>> fair.write(place.with_name("fair.csv"), "round")
    >>> place.with_name("fair.csv").read_text().splitlines()[0]
    'sex,job,job_fair'
    """

    listing: Listing
    files: tuple[Stored, ...]
    keys: dict[str, tuple[Any, list[Any]]] = field(default_factory=dict)
    numbers: frozenset[str] = frozenset()
    spelled: bool = False
    decimal: str = "."
    threads: int | None = None
    scratch: str | None = None
    watch: Callable[[PassProgress], object] | None = None
    ordered: bool = field(default=True, init=False)
    name: str = field(init=False)
    names: tuple[str, ...] = field(init=False)
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.listing.name)
        object.__setattr__(self, "names", (*self.files[0].schema.names, *self.keys))

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] | Sequence[str | PathLike[str]] | Listing,
        format: str | None = None,
        delimiter: str | None = None,
        *,
        na: str | Sequence[str] = EMPTY,
        encoding: str = "utf-8",
        decimal: str = ".",
        sheet: str | None = None,
        threads: int | None = None,
        scratch: str | None = None,
        stream: BinaryIO | None = None,
        progress: Callable[[PassProgress], object] | None = None,
    ) -> FileSource:
        """Find the files and read their names and types.

        Parameters
        ----------
        path : path, pattern, folder, list of paths, or Listing ("-" is standard input)
        format : str, optional
            Such as "csv" or "csv.gz"; what the names say by default, for standard input what its
            first bytes say.
        delimiter, na
            Of CSV and TSV: what separates fields (seen from the header by default), and texts that
            mean missing (empty fields by default).
        encoding : str
            Of text.
        decimal : {".", ","}
            The decimal mark of numbers that are spelled as text.
        sheet : str, optional
            Of a workbook, where several have cells.
        threads : int, optional
            Threads that read; all cores by default.
        scratch : str, optional
            Folder for scratch files; the system's by default.
        stream : binary file, optional
            Read instead of opening the path, which then is a name only.
        progress : callable, optional
            Called with how far every pass is, reading and writing: rows, share and seconds left;
            ``print`` will do.

        Raises
        ------
        ParameterError
            No file is there, or its format is not known.
        InputError
            A file is damaged, or its columns are not those of the first.
        """
        if threads is not None:
            remedy = "Pass a whole number of at least 1, or leave it out for all cores."
            refuse_other_number("threads", threads, remedy, lambda n: n >= 1, Integral)
        na = (na,) if isinstance(na, str) else tuple(na)  # one text, not its letters
        if delimiter is not None and (
            len(delimiter) != 1 or delimiter in '\r\n"' or ord(delimiter) > 127
        ):
            problem = f"The delimiter is {delimiter!r}."
            remedy = "Pass one character, such as `delimiter=';'`."
            raise ParameterError(problem, remedy=remedy, delimiter=delimiter)
        if decimal not in (".", ","):
            raise ParameterError(
                f"The decimal mark is {decimal!r}.",
                remedy="Pass `decimal=','`, or leave it out for a point.",
                decimal=decimal,
            )
        listing = list_files(path, format, stream, scratch)
        shape = listing.format
        delimited = shape.is_delimited
        own: dict[str, tuple[Any, bool, str]] = {
            "delimiter": (delimiter, delimited, "whose fields no delimiter separates"),
            "encoding": (encoding, shape.is_text, "which is not text in an encoding"),
            "na": (na, delimited, "which says itself what is missing"),
            "sheet": (sheet, shape.kind == "xlsx", "which has no sheets"),
        }
        for option, (given, fits, why) in own.items():
            if not fits and given not in (None, EMPTY, "utf-8", "UTF-8"):
                problem = f"{listing.name} is {shape}, {why}."
                remedy = f"Leave `{option}` out."
                raise ParameterError(problem, remedy=remedy, **{option: given})
        keys, first = folder_columns(listing.parts), listing.parts[0]
        options = ReadOptions(shape, delimiter, na, encoding, sheet)
        files = tuple(_open_stored(part, options, scratch) for part in listing.parts)
        _refuse_other_columns(files, shape)
        for name in keys:
            if name in files[0].schema.names:
                problem = (
                    f"The column {name!r} is in {first.name} and is named by its folder as well."
                )
                remedy = "Leave it out of the files, or rename one of the two."
                raise InputError(problem, remedy=remedy, column=name, path=first.path)
        return cls(
            listing,
            files,
            keys,
            decimal=decimal,
            threads=threads,
            scratch=scratch,
            watch=progress,
        )

    def with_numbers(self, wanted: Sequence[str]) -> FileSource:
        """Return the same files with some columns of text read as numbers."""
        if not (self.listing.format.is_text or self.spelled):
            return self
        own = {name for name in wanted if name not in self.keys}
        text = {name for name in own if "string" in str(self.kind_of(name))}
        return replace(self, numbers=self.numbers | text)

    @property
    def n_rows(self) -> int | None:
        """The number of rows, where it is known: Parquet says it, text has to be read once."""
        known = [file.n_rows for file in self.files if file.n_rows is not None]
        return sum(known) if len(known) == len(self.files) else self._known.get("rows")

    @property
    def n_bytes(self) -> int:
        """The size of all files."""
        return sum(file.n_bytes for file in self.files)

    def kind_of(self, column: str) -> Any:
        """Return the Arrow type of a column."""
        known = self.keys.get(column)
        return self.files[0].schema.field(column).type if known is None else known[0]

    def empty(self, columns: Sequence[str]) -> Any:
        """Return no rows of some columns."""
        none = [pyarrow().array([], self.kind_of(name)) for name in columns]
        return pyarrow().record_batch(none, names=list(columns))

    def remedy_for(self, column: str) -> str:
        """Return a remedy for a column that is not there."""
        return self.files[0].remedy_for(column) or super().remedy_for(column)

    def place(self, row: int) -> str:
        """Return where a row is, for errors: its file, its number and, in text, its line.

        Rows count from 0, lines from 1; IndexError where there is none.
        """
        before, last = 0, -1
        for number, job in self.jobs(Wanted([])):
            before = before if number == last else 0
            last = number
            if row < job.n_rows:
                line = "" if job.chunk is None else f" (line {job.chunk.line_of(row)})"
                file = f"{self.files[number].part.name}, " if self.listing.many else ""
                return f"{file}row {before + row}{line}"
            row, before = row - job.n_rows, before + job.n_rows
        raise IndexError(row)

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """Read whole columns into memory; text that means missing is null.

        Raises
        ------
        EmptyError
            There are no rows.
        FileTooLargeError
            They grow beyond the limit of :mod:`r2b._files.formats`.
        """
        records, total = [], 0
        for batch in self.batches(names):
            records.append(batch.record)
            total += unfolded_bytes(records[-1])
            refuse_growth(self.name, self.n_bytes, total)
        if not records:
            header = " a header and" if self.listing.format.kind in ("csv", "tsv", "xlsx") else ""
            problem, remedy = f"{self.name} has{header} no rows.", "Pass at least one row."
            raise EmptyError(problem, remedy=remedy, path=self.listing.root)
        table = pyarrow().Table.from_batches(records)
        return {name: table.column(name) for name in dict.fromkeys(names)}

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the rows in order while the next ones are read; None for all columns."""
        return self.run(columns, lambda batch: batch, coded=False)

    def run(
        self,
        columns: Sequence[str] | None,
        work: Callable[[Batch], Any],
        *,
        coded: bool = True,
        most_rows: int = PIECE_ROWS,
    ) -> Iterator[Any]:
        """Run work on every batch, in several threads; results come in the order of the batches.

        Where ``coded`` is true, text may come as a dictionary, which is faster to count; else all
        batches have the same types.
        """
        names = None if columns is None else list(dict.fromkeys(columns))
        complete = partial(self.completed, columns=names, alike=not coded)

        def results(number: int, job: ReadJob) -> list[Any]:
            return [work(complete(each, number=number)) for each in job.read() if len(each)]

        wanted = Wanted(names, names or () if coded else (), most_rows)
        for _, found in self.passed(wanted, results):
            yield from found
        release_memory()

    def passed(
        self, wanted: Wanted, work: Callable[[int, ReadJob], Any]
    ) -> Iterator[tuple[int, Any]]:
        """Pass over all rows: yield the number of a file and the result of work, piece by piece.

        Several threads work; results come in order, and progress is reported after each.
        """
        begun, n_rows, rows = monotonic(), self.n_rows, 0
        several = work_ahead(lambda item: (item, work(*item)), self.jobs(wanted), self.threads)
        for (number, job), found in several:
            yield number, found
            rows += job.n_rows
            share = rows / n_rows if n_rows else None
            if share is None and job.chunk is not None:
                before = sum(file.n_bytes for file in self.files[:number])
                share = (before + job.chunk.consumed) / self.n_bytes
            if self.watch is not None:
                self.watch(PassProgress(rows, share, monotonic() - begun))
        self._known["rows"] = rows

    def jobs(self, wanted: Wanted) -> Iterator[tuple[int, ReadJob]]:
        """Yield what reads all files, piece by piece, with the numbers of their files."""
        columns, first = wanted.columns, 0
        self.refuse_twice(columns or ())
        mine = None if columns is None else [name for name in columns if name not in self.keys]
        for number, file in enumerate(self.files):
            file.refuse_changed()
            rows = min(_piece_rows(file.schema, mine), wanted.rows)
            for job in file.jobs(Wanted(mine, wanted.coded, rows), first):
                yield number, job
                first += job.n_rows

    def completed(
        self, batch: Batch, columns: Sequence[str] | None, number: int, *, alike: bool = False
    ) -> Batch:
        """Return a batch with what the folders say, and with text as numbers where wanted.

        If ``alike``, its types are those of the batches of all files.
        """
        names, record = self.names if columns is None else columns, batch.record
        own = [name for name in names if name not in self.keys]
        if record.schema.names != own:  # files may hold their columns in another order
            record = record.select(own)
        for place, name in enumerate(own):
            column = record.column(place)
            if name in self.numbers:
                record = record.set_column(place, name, self._as_numbers(name, column, batch))
            elif alike and name in self._common_types:
                record = record.set_column(place, name, column.cast(self._common_types[name]))
        for name, (kind, values) in self.keys.items():
            if name in names:
                value = pyarrow().scalar(values[number], kind)
                record = record.append_column(name, pyarrow().repeat(value, len(batch)))
        return replace(batch, record=record)

    @cached_property
    def _common_types(self) -> dict[str, Any]:
        """A type for each column that files lay out in different ways."""
        arrow, times = pyarrow(), Counter(self.names)
        large = arrow.large_string(), arrow.large_binary()
        found: dict[str, Any] = {}
        for name, kind in zip(self.files[0].schema.names, self.files[0].schema.types, strict=True):
            others = (file.schema.field(name).type for file in self.files[1:])
            if times[name] == 1 and any(other != kind for other in others):
                alike = (each for each in large if same_values(kind, each))
                found[name] = next(alike, plain_type(kind))
        return found

    def _as_numbers(self, name: str, column: Any, batch: Batch) -> Any:
        table = "" if self.listing.many else f"{self.name}, "
        with part_of_a_table(batch.first):
            return numbers_of(
                column,
                name,
                delimited=self.listing.format.is_delimited,
                decimal=self.decimal,
                place=lambda row: f" of {table}{self.place(row)}",
            )

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count the rows of every combination of values; what was counted once is kept."""
        asked = (tuple(keys), weight)
        if asked not in self._known:
            source = self.with_numbers(() if weight is None else (weight,))
            self._known[asked] = super(FileSource, source).tally(keys, weight)
        found: Tally = self._known[asked]
        return found

    @contextmanager
    def blocks(self, decode: Decode) -> Iterator[Blocks]:
        """Keep decoded rows for several passes; a disk without room for them is refused first."""
        folder = self.scratch or tempfile.gettempdir()
        with keeping(folder):
            refuse_little_room(folder, self._needed(decode), "decoded probabilities", ELSEWHERE)
        with super().blocks(decode) as blocks:
            yield blocks

    def _decoded(self, decode: Decode) -> Iterator[Block]:
        return self.with_numbers(decode.roles.numbers).run(decode.roles.used, decode)

    def _needed(self, decode: Decode) -> int:
        """Estimate the bytes of decoded rows; 0 where their number is not known."""
        roles = decode.roles
        kinds = [str(self.kind_of(name)) for name in roles.label]
        # Arrow calls 32 bits float
        single = all("float" in kind and "halffloat" not in kind for kind in kinds)
        label = len(decode.schema.classes) * (4 if single else 8) if roles.soft else 2
        weight = 0 if roles.weight is None else 8
        return (self.n_rows or 0) * (label + 9 + weight)

    def frame(self, relabel: Relabel) -> Iterator[Any]:
        """Return an iterator of Arrow batches: all columns, then the new ones."""
        source = self.with_numbers(relabel.roles.numbers)

        def made(batch: Batch) -> Any:
            return beside(batch.record, relabel(batch))

        return source.run(None, made, coded=False, most_rows=relabel.rows_at_once)

    def write(self, relabel: Relabel, path: str, *, force: bool = False) -> None:
        """Write the files with new columns: one as one, several as a folder."""
        from r2b.engines.files.writing import shape_of, write_into

        path = local_path(path)
        with AtomicWriter(force=force, keep=self.listing.kept) as writer:
            write_into(writer, self, relabel, path, shape_of(self, path))
            writer.commit()


def _piece_rows(schema: Any, columns: Sequence[str] | None) -> int:
    """Return how many rows of these columns may be held at once: fewer where they hold lists."""
    types, width, wanted = pyarrow().types, 0, {*(columns or ())}
    for column in schema:
        if columns is None or column.name in wanted:
            fixed = types.is_fixed_size_list(column.type)
            # the type of other lists does not tell their length
            nested = 16 if types.is_nested(column.type) else 1
            width += int(column.type.list_size) if fixed else nested
    return max(1024, min(PIECE_ROWS, PIECE_ENTRIES // max(width, 1)))


_STORED: dict[str, type[Stored]] = {
    "csv": DelimitedStored,
    "tsv": DelimitedStored,
    "jsonl": JsonStored,
    "parquet": ParquetStored,
    "arrow": ArrowStored,
    "xlsx": WorkbookStored,
}


def _open_stored(part: Part, options: ReadOptions, scratch: str | None) -> Stored:
    """Open a file of any format; a compressed one that is no text is first unpacked to scratch.

    Raises
    ------
    InputError
        It is damaged.
    FileTooLargeError
        It grows beyond the limit of :mod:`r2b._files.formats`.
    """
    packed, shape = part.path, options.format
    try:
        if not shape.is_text and shape.compression:
            grown = partial(refuse_growth, part.name, os.path.getsize(packed))
            with reading(part), opened(packed, shape.compression) as file:
                path, held = copied(part.name, file.read, scratch, grown)
            part = replace(part, path=path, held=held)
        made = _STORED[shape.kind](part, options)
        with reading(part):
            list(made.schema.names)  # names may be damaged text, which is only read here
        return made
    except DamagedFileError as error:
        with open(packed, "rb") as file:
            seen = seen_instead(file.read(64), shape)
        if seen is None:
            raise
        problem = f"{part.name} cannot be read as {shape}. {seen[0]}."
        raise error.changed(problem=problem, remedy=seen[1]) from error


def _refuse_other_columns(files: Sequence[Stored], shape: Format) -> None:
    """Refuse files whose columns are not those of the first, however text is laid out."""
    first = files[0]
    mine = {each.name: each.type for each in first.schema}
    for other in files[1:]:
        others = {each.name: each.type for each in other.schema}
        one, two = first.part.name, other.part.name
        for name in [*mine, *others]:
            if name not in others:
                problem = f"{two} has no column {name!r}, which {one} has."
            elif name not in mine:
                problem = f"{two} has a column {name!r}, which {one} has not."
            elif not same_values(mine[name], others[name]):
                problem = (
                    f"The column {name!r} holds {mine[name]} in {one} and {others[name]} in {two}."
                )
            else:
                continue
            remedy = "Give all files the same columns, or read those that belong together"
            if shape.kind != "arrow":
                reader = "read_csv" if shape.is_text else "read_parquet"
                remedy += (
                    "; or let DuckDB make one table of them, and scan its relation: "
                    f"FROM {reader}('...', union_by_name=true)"
                )
            facts = {"column": name, "path": other.part.path, "first": first.part.path}
            raise InputError(problem, remedy=f"{remedy}.", **facts)
