"""Files that need not fit in memory: Parquet, Arrow, CSV and TSV, one or many, read part by part in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from numbers import Integral
from os import PathLike
from typing import Any

from r2b._constraints.families.request import is_a
from r2b._files.arrow import pyarrow
from r2b._solve.oracle import Blocks
from r2b.engines.batch import Batch
from r2b.engines.decode import Decode
from r2b.engines.files_columns import evened, refuse_other_columns, uneven_columns
from r2b.engines.files_counting import CodeCounter
from r2b.engines.files_listing import Listing, Part, key_values, list_files, local_path
from r2b.engines.files_stored import PIECE_ENTRIES, PIECE_ROWS, ReadJob, Stored, ahead, piece_rows, reading
from r2b.engines.held import joined, list_length_of
from r2b.engines.relabel import Relabel
from r2b.engines.roles import ColumnRoles
from r2b.engines.source import Source
from r2b.engines.tally import Counter, Tally, added_up
from r2b.errors import InputError, ParameterError

EMPTY = ("",)


@dataclass(frozen=True, eq=False)
class FileSource(Source):
    r"""A table in files.

    Attributes
    ----------
    listing : Listing
    files : tuple of Stored
    keys : dict of str to (type, list)
        Columns that folders tell, such as ``year=2024/``: their types, and their values file by file.
    numbers : frozenset of str
        Columns of text that are read as numbers.
    spelled : bool
        Whether text may stand for numbers in formats with types as well, as it does after CSV was written as Parquet.
    threads : int or None
        All cores by default.
    scratch : str or None
        Folder for what is decoded; that of the system by default.
    watch : callable or None
        Told how many rows each piece that was read has.

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
    watch: Callable[[int], object] | None = None
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
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        format: str | None = None,
        delimiter: str | None = None,
        *,
        na: str | Sequence[str] = EMPTY,
        encoding: str = "utf-8",
        threads: int | None = None,
        scratch: str | None = None,
    ) -> FileSource:
        """Find the files and read their names and types.

        Parameters
        ----------
        path : path, pattern, folder or list of paths
        format : str, optional
            Such as "csv" or "csv.gz"; what the names say by default.
        delimiter, na, encoding
            Of CSV and TSV: what separates fields (seen from the header by default), one text or several that mean missing (empty fields
            by default), and how text is encoded.
        threads : int, optional
            Threads that read; all cores by default.
        scratch : str, optional
            Folder for decoded probabilities; the system's by default.

        Raises
        ------
        ParameterError
            No file is there, or it has a format that is not read part by part.
        InputError
            A file is damaged, or its columns are not those of the first.
        """
        if threads is not None and not (is_a(Integral, threads) and int(threads) >= 1):
            raise ParameterError(
                f"threads is {threads!r}.", remedy="Pass a whole number of at least 1, or leave it out for all cores.", threads=threads
            )
        na = (na,) if isinstance(na, str) else tuple(na)  # one text, not its letters
        listing = list_files(path, format)
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '\r\n"' or ord(delimiter) > 127):
            raise ParameterError(f"The delimiter is {delimiter!r}.", remedy="Pass one character, such as ';' .", delimiter=delimiter)
        stored = [_stored(part, listing, delimiter, na, encoding) for part in listing.parts]
        refuse_other_columns(stored, listing.format)
        keys = key_values(listing.parts)
        both = next((name for name in keys if name in stored[0].schema.names), None)
        if both is not None:
            raise InputError(
                f"The column {both!r} is in {listing.parts[0].name} and is told by its folder as well.",
                remedy="Leave it out of the files, or rename one of the two.",
                column=both,
                path=listing.parts[0].path,
            )
        return cls(listing, tuple(stored), keys, threads=threads, scratch=scratch)

    def reading_numbers(self, choice: ColumnRoles) -> FileSource:
        """Give the same files with the probabilities and weights of text tables read as numbers."""
        return self._with_numbers(choice.numbers)

    def _with_numbers(self, wanted: Sequence[str]) -> FileSource:
        text = {name for name in wanted if name not in self.keys and self._may_spell(name)}
        if self.numbers.issuperset(text):
            return self
        made = replace(self, numbers=self.numbers | text)
        object.__setattr__(made, "_rows", self._rows)
        object.__setattr__(made, "_tallies", self._tallies)
        return made

    def _may_spell(self, name: str) -> bool:
        return self.listing.format.is_text or (self.spelled and "string" in str(self.files[0].schema.field(name).type))

    @property
    def n_rows(self) -> int | None:
        """The number of rows, where it is known: Parquet says it, other files have to be read once."""
        told = [file.n_rows for file in self.files]
        if all(rows is not None for rows in told):
            return sum(rows for rows in told if rows is not None)
        return self._rows[0] if self._rows else None

    @property
    def n_bytes(self) -> int:
        """The size of all files."""
        return sum(file.n_bytes for file in self.files)

    def kind_of(self, column: str) -> Any:
        """Give the Arrow type of a column."""
        return self.keys[column][0] if column in self.keys else self.files[0].schema.field(column).type

    def list_length(self, column: str) -> int | None:
        """Give the length of the first list."""
        return list_length_of(self.kind_of(column), column, lambda: self._first(column))

    def _first(self, column: str) -> Any:
        for batch in self.batches([column]):
            return batch.columns[column].slice(0, 1)
        return pyarrow().array([[]], self.files[0].schema.field(column).type)

    def batches(self, columns: Sequence[str], *, coded: bool = False) -> Iterator[Batch]:
        """Give the rows in order while the next ones are read.

        Parameters
        ----------
        columns : sequence of str
        coded : bool
            Whether text may come as a dictionary, which is faster to count.
        """
        return self.run(columns, _same, coded=coded)

    def run(
        self, columns: Sequence[str], work: Callable[[Batch], Any], *, coded: bool = True, most_rows: int = PIECE_ROWS
    ) -> Iterator[Any]:
        """Run work on every batch, in several threads; results come in the order of the batches."""
        wanted = tuple(dict.fromkeys(columns))

        def done(item: tuple[int, ReadJob]) -> list[tuple[int, Any]]:
            number, job = item
            return [(len(each), work(self.completed(each, wanted, number))) for each in job.read() if len(each)]

        total = 0
        for results in ahead(done, self.jobs(wanted, coded=wanted if coded else (), most_rows=most_rows), self.threads):
            for n_rows, result in results:
                total += n_rows
                if self.watch is not None:
                    self.watch(n_rows)
                yield result
        self._rows[:] = [total]

    def jobs(self, columns: Sequence[str], *, coded: Collection[str], most_rows: int = PIECE_ROWS) -> Iterator[tuple[int, ReadJob]]:
        """Give what reads all files, piece by piece, each with the number of its file."""
        first = 0
        for number, file in enumerate(self.files):
            self.refuse_changed(number)
            mine = [name for name in columns if name not in self.keys]
            behind = 0
            for job in file.jobs(mine, first, coded=coded, rows=min(piece_rows(file.schema, mine), most_rows)):
                yield number, job
                behind += job.n_rows
            first += behind

    def refuse_changed(self, number: int) -> None:
        """Refuse a file that is not what it was when the table was opened."""
        file = self.files[number]
        try:
            same = file.seen() == self._seen[number]
        except OSError:
            same = False
        if not same:
            raise InputError(
                f"{file.part.name} was changed or removed while the table was read.",
                remedy="Leave the files alone until it is done, and start again.",
                path=file.part.path,
            )

    def completed(self, batch: Batch, columns: Sequence[str], number: int) -> Batch:
        """Put in what the folders say, and read text as numbers where numbers are wanted."""
        told = [name for name in columns if name in self.keys]
        numbers = [name for name in columns if name in self.numbers]
        if not told and not numbers:
            # Files may hold their columns in another order.
            same = batch.record.schema.names == list(columns)
            return batch if same else replace(batch, record=batch.record.select(list(columns)))
        arrow, found = pyarrow(), dict(batch.columns)
        for name in told:
            kind, values = self.keys[name]
            found[name] = arrow.repeat(arrow.scalar(values[number], kind), len(batch))
        with batch.placed():
            for name in numbers:
                found[name] = numbers_of(found[name], name)
        names = list(columns)
        schema = arrow.schema([arrow.field(name, found[name].type) for name in names], batch.record.schema.metadata)
        return Batch(arrow.RecordBatch.from_arrays([found[name] for name in names], schema=schema), batch.first, batch.place, batch.offset)

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count the rows of every combination of values, in one pass by several threads; what was counted once is kept."""
        asked = (tuple(keys), weight)
        if asked in self._tallies:
            return self._tallies[asked]
        source = self if weight is None else self._with_numbers([weight])

        def counted(batch: Batch) -> Counter:
            counter = CodeCounter(keys, weight)
            counter.add(batch)
            return counter

        columns = [*keys, *([] if weight is None or weight in keys else [weight])]
        self._tallies[asked] = added_up(source.run(columns, counted, coded=True), keys, weight)
        return self._tallies[asked]

    def blocks(self, decode: Decode) -> AbstractContextManager[Blocks]:
        """Decode all rows once into a scratch file; what was made for them is gone at the end."""
        from r2b.engines.spool import spooled

        return spooled(self.reading_numbers(decode.roles), decode)

    def frame(self, relabel: Relabel) -> Iterator[Any]:
        """Give an iterator of Arrow batches: all columns, those that folders tell after those of the files, then the new ones."""
        source = self.reading_numbers(relabel.decode.roles)
        kinds = uneven_columns(self.files)

        def done(batch: Batch) -> Any:
            even = evened(batch, kinds)
            return joined(even.record, relabel, even)

        return source.run(self.names, done, coded=False, most_rows=rows_at_once(relabel))

    def write(self, relabel: Relabel, path: str, *, force: bool = False) -> None:
        """Write the files with new columns: one as one, several as a folder."""
        from r2b.engines.writing import write_files

        write_files(self, relabel, local_path(path), force=force)


def _same(batch: Batch) -> Batch:
    return batch


def rows_at_once(relabel: Relabel) -> int:
    """Give how many rows may get new labels at once: fewer where each gets a number per class."""
    wide = relabel.form in ("soft", "expand") or relabel.decode.roles.soft or (relabel.form == "round" and relabel.borders is None)
    return max(1024, PIECE_ENTRIES // len(relabel.decode.schema.classes)) if wide else PIECE_ROWS


def _stored(part: Part, listing: Listing, delimiter: str | None, na: Sequence[str], encoding: str) -> Stored:
    made: Stored
    if listing.format.kind == "parquet":
        from r2b.engines.files_parquet import ParquetStored

        made = ParquetStored(part)
    elif listing.format.kind == "arrow":
        from r2b.engines.files_arrow import ArrowStored

        made = ArrowStored(part)
    else:
        from r2b.engines.files_text import DelimitedStored

        made = DelimitedStored(part, listing.format, delimiter, na, encoding)
    with reading(part):
        names = made.schema.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"{part.name} has {names.count(twice)} columns called {twice!r}.",
            remedy="Give each a name of its own.",
            column=twice,
            path=part.path,
        )
    return made


def numbers_of(column: Any, name: str) -> Any:
    """Read text as numbers.

    Raises
    ------
    InputError
        A text is not a number; the message names the row.
    """
    arrow = pyarrow()
    plain = column.cast(arrow.string())
    try:
        return plain.cast(arrow.float64())
    except arrow.ArrowInvalid:
        values: list[float | None] = []
        for row, text in enumerate(plain.to_pylist()):
            try:
                # Python reads 1_000 as a number; no other reader of the file would.
                values.append(None if text is None else float(text if "_" not in text else ""))
            except ValueError:
                raise InputError(
                    f"Row {row} of the column {name!r} holds {text!r}, which is not a number.",
                    remedy="Correct it, or say which text means missing with na=...",
                    column=name,
                    row=row,
                    value=text,
                ) from None
        return arrow.array(values, arrow.float64())
