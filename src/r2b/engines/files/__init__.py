"""Tables in files, one or many: Parquet, Arrow, CSV, TSV, JSON Lines and Excel, read part by part in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from numbers import Integral
from os import PathLike
from time import monotonic
from typing import Any, BinaryIO

from r2b._constraints.families.request import is_a
from r2b._data.compute import ahead, give_back
from r2b._files.arrow import pyarrow, unfolded_bytes
from r2b._files.staging import local_path
from r2b._files.text import did_you_mean, listed_names, refuse_growth
from r2b._solve.oracle import Blocks
from r2b.engines.batch import PIECE_ROWS, Batch, evened, numbers_of
from r2b.engines.files.listing import (
    Listing,
    key_values,
    list_files,
    piece_rows,
    refuse_other_columns,
    uneven_columns,
)
from r2b.engines.files.outs import bundled, work_on
from r2b.engines.files.progress import PassProgress
from r2b.engines.files.reading import ReadJob, Stored, open_stored
from r2b.engines.roles import Decode
from r2b.engines.source import Relabel, Source, joined, list_length_of
from r2b.engines.spool import spooled
from r2b.engines.tally import Tally
from r2b.errors import EmptyError, InputError, ParameterError

EMPTY = ("",)
_NONE: Mapping[int, int] = {}


@dataclass(frozen=True, eq=False)
class FileSource(Source):
    r"""A table in files.

    Attributes
    ----------
    listing : Listing
    files : tuple of Stored
    keys : dict of str to (type, list)
        Columns that folders tell, such as ``year=2024/``: their types, and their values file by
        file.
    numbers : frozenset of str
        Columns of text that are read as numbers.
    spelled : bool
        Whether text may stand for numbers in formats with types as well, as it does after CSV was
        written as Parquet.
    threads : int or None
        All cores by default.
    scratch : str or None
        Folder for what is decoded; that of the system by default.
    watch : callable or None
        Told after every piece how far a pass is.

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
    threads: int | None = None
    scratch: str | None = None
    watch: Callable[[PassProgress], object] | None = None
    ordered: bool = field(default=True, init=False)
    name: str = field(init=False)
    names: tuple[str, ...] = field(init=False)
    _seen: tuple[tuple[int, int], ...] = field(init=False, repr=False)
    _rows: list[int] = field(default_factory=list, init=False, repr=False)
    _tallies: dict[Any, Tally] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.listing.name)
        object.__setattr__(self, "names", (*self.files[0].schema.names, *self.keys))
        object.__setattr__(self, "_seen", tuple(file.seen() for file in self.files))

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] | Sequence[str | PathLike[str]] | Listing,
        format: str | None = None,
        delimiter: str | None = None,
        *,
        na: str | Sequence[str] = EMPTY,
        encoding: str = "utf-8",
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
        sheet : str, optional
            Of a workbook, where several have cells.
        threads : int, optional
            Threads that read; all cores by default.
        scratch : str, optional
            Folder for scratch files; the system's by default.
        stream : binary file, optional
            Read instead of opening the path, which then is a name only.
        progress : callable, optional
            Told how far every pass is, reading and writing: rows, share and seconds left; ``print``
            will do.

        Raises
        ------
        ParameterError
            No file is there, or its format is not known.
        InputError
            A file is damaged, or its columns are not those of the first.
        """
        if threads is not None and not (is_a(Integral, threads) and int(threads) >= 1):
            raise ParameterError(
                f"threads is {threads!r}.",
                remedy="Pass a whole number of at least 1, or leave it out for all cores.",
                threads=threads,
            )
        na = (na,) if isinstance(na, str) else tuple(na)  # one text, not its letters
        if delimiter is not None and (
            len(delimiter) != 1 or delimiter in '\r\n"' or ord(delimiter) > 127
        ):
            raise ParameterError(
                f"The delimiter is {delimiter!r}.",
                remedy="Pass one character, such as ';' .",
                delimiter=delimiter,
            )
        listing = list_files(path, format, stream, scratch)
        if na != EMPTY and listing.format.kind not in ("csv", "tsv"):
            problem = f"{listing.name} is {listing.format}, which says itself what is missing; text that means it (na) is for CSV and TSV."
            raise ParameterError(
                problem,
                remedy="Leave it out, and make what should count as missing null in the table.",
                na=na,
            )
        if sheet is not None and listing.format.kind != "xlsx":
            raise ParameterError(
                f"{listing.name} is {listing.format}, which has no sheets.",
                remedy="Leave the sheet out.",
                sheet=sheet,
            )
        stored = [
            open_stored(part, listing.format, delimiter, na, encoding, scratch, sheet)
            for part in listing.parts
        ]
        refuse_other_columns(stored, listing.format)
        keys = key_values(listing.parts)
        both = next((name for name in keys if name in stored[0].schema.names), None)
        if both is not None:
            problem = f"The column {both!r} is in {listing.parts[0].name} and is named by its folder as well."
            remedy = "Leave it out of the files, or rename one of the two."
            raise InputError(problem, remedy=remedy, column=both, path=listing.parts[0].path)
        return cls(listing, tuple(stored), keys, threads=threads, scratch=scratch, watch=progress)

    def with_numbers(self, wanted: Sequence[str]) -> FileSource:
        """Give the same files with some columns of text read as numbers."""
        may = self.listing.format.is_text or self.spelled
        text = {
            name
            for name in wanted
            if may and name not in self.keys and "string" in str(self.kind_of(name))
        }
        if self.numbers.issuperset(text):
            return self
        made = replace(self, numbers=self.numbers | text)
        object.__setattr__(made, "_rows", self._rows)
        object.__setattr__(made, "_tallies", self._tallies)
        return made

    @property
    def n_rows(self) -> int | None:
        """The number of rows, where it is known: Parquet says it, other files have to be read once."""
        counts = [file.n_rows for file in self.files]
        if all(rows is not None for rows in counts):
            return sum(rows for rows in counts if rows is not None)
        return self._rows[0] if self._rows else None

    @property
    def n_bytes(self) -> int:
        """The size of all files."""
        return sum(file.n_bytes for file in self.files)

    def kind_of(self, column: str) -> Any:
        """Give the Arrow type of a column."""
        return (
            self.keys[column][0] if column in self.keys else self.files[0].schema.field(column).type
        )

    def first_list_length(self, column: str) -> int | None:
        """Give the length of the first list."""
        return list_length_of(self.kind_of(column), column, lambda: self._first(column))

    def _first(self, column: str) -> Any:
        first = next(self.batches([column]), None)
        return (
            pyarrow().array([[]], self.files[0].schema.field(column).type)
            if first is None
            else first.columns[column].slice(0, 1)
        )

    def check(self, wanted: Sequence[str], what: str) -> None:
        """Refuse columns that are not there, or more than once.

        Raises
        ------
        ParameterError
            Names the column, and those that are spelled like it.
        """
        for name in wanted:
            if name not in self.names:
                header = getattr(self.files[0], "header", None)
                remedy = (header and header.remedy_for(name)) or did_you_mean(name, self.names)
                problem = f"{self.name} has no column {name!r} ({what})."
                remedy = remedy or f"Its columns are {listed_names(self.names)}."
                raise ParameterError(problem, remedy=remedy, column=name, columns=self.names)
        self.refuse_twice(wanted)

    def refuse_twice(self, wanted: Sequence[str]) -> None:
        """Refuse names that several columns share."""
        for name in wanted:
            places = [place + 1 for place, each in enumerate(self.names) if each == name]
            if len(places) > 1:
                problem = f"{self.name} has {len(places)} columns called {name!r} (columns {', '.join(map(str, places))})."
                raise InputError(
                    problem, remedy="Give each a name of its own.", column=name, places=places
                )

    def place(self, row: int) -> str:
        """Say where a row is, for errors: its number, in text its line and, where there are several files, the file.

        Rows count from 0, lines from 1; IndexError where there is none.
        """
        before, last = 0, -1
        for number, job in self.jobs([], coded=()):
            before = before if number == last else 0
            last = number
            if row < job.n_rows:
                line = "" if job.chunk is None else f" (line {job.chunk.line_of(row)})"
                file = f"{self.files[number].part.name}, " if self.listing.many else ""
                return f"{file}row {before + row}{line}"
            row, before = row - job.n_rows, before + job.n_rows
        raise IndexError(row)

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """Give whole columns, in memory: text that means missing is null, and text of ``numbers`` is numbers.

        Raises
        ------
        EmptyError
            There are no rows.
        FileTooLargeError
            They grow beyond the limit of :mod:`r2b._files.formats`.
        """
        kinds, found, total = uneven_columns(self.files), [], 0
        for batch in self.batches(names):
            found.append(evened(batch, kinds).record)
            total += unfolded_bytes(found[-1])
            refuse_growth(self.name, self.n_bytes, total)
        if not found:
            header = " a header and" if self.listing.format.kind in ("csv", "tsv", "xlsx") else ""
            raise EmptyError(
                f"{self.name} has{header} no rows.",
                remedy="Pass at least one row.",
                path=self.listing.root,
            )
        table = pyarrow().Table.from_batches(found)
        return {name: table.column(name) for name in dict.fromkeys(names)}

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Give the rows in order while the next ones are read.

        Parameters
        ----------
        columns : sequence of str or None
            None for all, those that folders tell after those of the files.
        """
        return self.run(columns, lambda batch: batch, coded=False, together=False)

    def run(
        self,
        columns: Sequence[str] | None,
        work: Callable[[Batch], Any],
        *,
        coded: bool = True,
        most_rows: int = PIECE_ROWS,
        together: bool = True,
    ) -> Iterator[Any]:
        """Run work on every batch, in several threads; results come in the order of the batches.

        Where ``coded`` is true, text may come as a dictionary, which is faster to count. Where
        ``together`` is, rows of several small files may come as one batch.
        """
        wanted = None if columns is None else tuple(dict.fromkeys(columns))

        mine = wanted or () if coded else ()
        jobs = self.jobs(wanted, coded=mine, most_rows=most_rows)
        bundles = bundled(jobs, most_rows) if together else ([item] for item in jobs)
        total, told = 0, self.teller()
        for bundle, results in ahead(
            work_on(self, wanted, mine, most_rows, work), bundles, self.threads
        ):
            yield from results
            for _, job in bundle:
                total += job.n_rows
                told(job)
        self._rows[:] = [total]
        give_back()

    def teller(self, done: Mapping[int, int] = _NONE) -> Callable[[ReadJob], None]:
        """Give what is called with every job of a pass, and tells whoever watches; ``done`` are rows of files that need none."""
        begun, rows, total, last, size = (
            monotonic(),
            sum(done.values()),
            self.n_rows,
            0,
            self.n_bytes,
        )
        passed = sum(self.files[number].n_bytes for number in done)
        before = (rows / total if total else passed / size) if done else 0.0

        def told(job: ReadJob) -> None:
            nonlocal rows, passed, last
            # Of text the bytes tell how far it is before anybody has counted its rows; where they
            # begin anew there is another file.
            read = 0 if job.chunk is None else job.chunk.consumed
            passed, last, rows = passed + (last if read < last else 0), read, rows + job.n_rows
            share = rows / total if total else (passed + read) / size if read else None
            if self.watch is not None:
                self.watch(
                    PassProgress(
                        rows,
                        None if share is None else min(share, 1.0),
                        monotonic() - begun,
                        len(done),
                        before,
                    )
                )

        return told

    def jobs(
        self,
        columns: Sequence[str] | None,
        *,
        coded: Collection[str],
        most_rows: int = PIECE_ROWS,
        done: Mapping[int, int] = _NONE,
    ) -> Iterator[tuple[int, ReadJob]]:
        """Give what reads all files, piece by piece, each with the number of its file; None for all columns of the files.

        Files in ``done`` are passed over; it says how many rows each has.
        """
        self.refuse_twice(columns or ())
        first = 0
        mine = None if columns is None else [name for name in columns if name not in self.keys]
        for number, file in enumerate(self.files):
            if number in done:
                first += done[number]
                continue
            self.refuse_changed(number)
            for job in file.jobs(
                mine, first, coded=coded, rows=min(piece_rows(file.schema, mine), most_rows)
            ):
                yield number, job
                first += job.n_rows

    def refuse_changed(self, number: int) -> None:
        """Refuse a file that is not what it was when the table was opened."""
        file = self.files[number]
        try:
            same = file.seen() == self._seen[number]
        except OSError:
            same = False
        if not same:
            problem = f"{file.part.name} was changed or removed while the table was read."
            raise InputError(
                problem,
                remedy="Leave the files alone until it is done, and start again.",
                path=file.part.path,
            )

    def completed(self, batch: Batch, columns: Sequence[str] | None, number: int) -> Batch:
        """Put in what the folders say, and read text as numbers where numbers are wanted."""
        names = [*self.files[0].schema.names, *self.keys] if columns is None else list(columns)
        own = [name for name in names if name not in self.keys]
        # Files may hold their columns in another order.
        record = (
            batch.record
            if batch.record.schema.names == own or not own
            else batch.record.select(own)
        )
        if self.keys or self.numbers:
            arrow, read = pyarrow(), iter(record.columns)
            found = [
                self._from_folder(name, number, len(batch))
                if name in self.keys
                else self._read(name, next(read), batch)
                for name in names
            ]
            fields = [arrow.field(name, each.type) for name, each in zip(names, found, strict=True)]
            record = arrow.RecordBatch.from_arrays(
                found, schema=arrow.schema(fields, record.schema.metadata)
            )
        return batch if record is batch.record else replace(batch, record=record)

    def _from_folder(self, name: str, number: int, n_rows: int) -> Any:
        kind, values = self.keys[name]
        return pyarrow().repeat(pyarrow().scalar(values[number], kind), n_rows)

    def _read(self, name: str, column: Any, batch: Batch) -> Any:
        """Read text as numbers where numbers are wanted; an error says where the row is."""
        if name not in self.numbers:
            return column
        try:
            return numbers_of(column, name, delimited=self.listing.format.kind in ("csv", "tsv"))
        except InputError as error:
            row = batch.first + int(str(error.facts["row"]))
            where = f"In the column {name!r} of {'' if self.listing.many else f'{self.name}, '}{self.place(row)}"
            raise type(error)(
                f"{where} {error.problem.partition(': ')[2]}",
                remedy=error.remedy,
                **{**error.facts, "row": row},
            ) from error

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count the rows of every combination of values, in one pass by several threads; what was counted once is kept."""
        asked = (tuple(keys), weight)
        if asked in self._tallies:
            return self._tallies[asked]
        self._tallies[asked] = super(
            FileSource, self.with_numbers([] if weight is None else [weight])
        ).tally(keys, weight)
        return self._tallies[asked]

    def blocks(self, decode: Decode) -> AbstractContextManager[Blocks]:
        """Decode all rows once into a scratch file; what was made for them is gone at the end."""
        return spooled(self.with_numbers(decode.roles.numbers), decode)

    def frame(self, relabel: Relabel) -> Iterator[Any]:
        """Give an iterator of Arrow batches: all columns, those that folders tell after those of the files, then the new ones."""
        source = self.with_numbers(relabel.decode.roles.numbers)
        kinds = uneven_columns(self.files)

        def done(batch: Batch) -> Any:
            even = evened(batch, kinds)
            return joined(even.record, relabel, even)

        return source.run(None, done, coded=False, most_rows=relabel.rows_at_once, together=False)

    def write(
        self, relabel: Relabel, path: str, *, force: bool = False, resume: bool = False
    ) -> None:
        """Write the files with new columns: one as one, several as a folder."""
        from r2b.engines.files.writing import write_files

        write_files(self, relabel, local_path(path), force=force, resume=resume)
