"""Which files a path, a pattern, a folder or a list stands for, in order, what their folders say of their rows, and whether they fit."""

from __future__ import annotations

import glob
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote

from r2b._files.arrow import pyarrow
from r2b._files.formats import (
    Format,
    compression_seen,
    format_named,
    format_of,
    kind_seen,
    opened,
    refuse_foreign,
)
from r2b._files.staging import is_device, local_path, refused_path
from r2b.engines.batch import PIECE_ENTRIES, PIECE_ROWS
from r2b.engines.spool import copied
from r2b.engines.tally import plain_type, same_values
from r2b.errors import InputError, ParameterError

if TYPE_CHECKING:
    from r2b.engines.files.reading import Stored

STANDARD = "-"

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_REMEDY = "Say which files with a pattern, such as 'people/*.parquet'."
_BY_LOG = {
    "Delta Lake": "r2b.scan(deltalake.DeltaTable({root!r})), polars.scan_delta({root!r}), or Spark",
    "Iceberg": "r2b.scan(table) with a table of pyiceberg, DuckDB's iceberg_scan({root!r}), or Spark",
    "Hudi": "Spark: spark.read.format('hudi').load({root!r})",
}


@dataclass(frozen=True)
class Part:
    """One file.

    Attributes
    ----------
    path : str
    name : str
        Its path below the folder that all files share, with slashes: how errors call it, and where
        its copy goes.
    keys : tuple of (str, str or None)
        What its folders say, such as (("year", "2024"),); None for a missing value.
    held : object or None
        Keeps the file there, where it is a copy of a stream.
    """

    path: str
    name: str
    keys: tuple[tuple[str, str | None], ...] = ()
    held: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Listing:
    """Files that make up one table.

    Attributes
    ----------
    name : str
        How errors call the table.
    root : str
        The folder that all files share; the file itself where there is one.
    parts : tuple of Part
        In the order of their paths.
    format : Format
    many : bool
        Whether a folder, a pattern or a list was given: the table then leaves as a folder.
    whole : bool
        Whether all files of the folder are meant, so that nothing may be written into it.
    taken_over : int
        Of files that were written: how many a write that was stopped had finished.
    """

    name: str
    root: str
    parts: tuple[Part, ...]
    format: Format
    many: bool
    whole: bool = False
    taken_over: int = 0


def list_files(
    given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Listing,
    format: str | None = None,
    stream: BinaryIO | None = None,
    scratch: str | None = None,
) -> Listing:
    """Find the files.

    Parameters
    ----------
    given : path, pattern, list of paths, or a Listing, which is what it is
        A folder stands for all files below it, but for those whose names begin with a dot or an
        underscore; "-" is standard input.
    format : str, optional
        Such as "csv" or "csv.gz"; what the names say by default, for standard input what its first
        bytes say.
    stream : binary file, optional
        Read instead of opening the path, which then is a name only.
    scratch : str, optional
        Folder for copies of streams; the system's by default.

    Raises
    ------
    ParameterError
        No file is there, or their names tell several formats or none.
    """
    if isinstance(given, Listing):
        return given
    if isinstance(given, (str, os.PathLike)) and (stream is not None or given == STANDARD):
        return _streamed(os.fspath(given), format, stream, scratch)
    if not isinstance(given, (str, os.PathLike)):
        paths = [local_path(each) for each in given]
        if not paths:
            raise ParameterError("The list of files is empty.", remedy="Name at least one file.")
        refuse_lake(_there(paths), _shared(paths))
        return _several(paths, _shared(paths), f"{len(paths):,} files", format)
    place = local_path(given)
    if os.path.isdir(place):
        refuse_lake([], place)
        found = _below(place)
        refuse_lake(found, place)
        return replace(_several(found, place, Path(place).name or place, format), whole=True)
    if os.path.exists(place):
        if is_device(Path(place)):
            with _readable(place) as device:
                return _streamed(place, format, device, scratch)
        _readable(place).close()
        refuse_lake([place], place)
        return Listing(
            Path(place).name,
            place,
            (Part(place, Path(place).name),),
            _format([place], format),
            False,
        )
    if not place:
        raise ParameterError(
            "The name of the file is empty.",
            remedy="Pass a path, or - for standard input.",
            path=place,
        )
    if not glob.has_magic(place):
        raise ParameterError(f"There is no file {place!r}.", remedy="Check the path.", path=place)
    # A pattern with ** twice finds a file once for every way to it.
    found = [
        each for each in dict.fromkeys(glob.glob(place, recursive=True)) if os.path.isfile(each)
    ]
    if not found:
        raise ParameterError(f"No file matches {place!r}.", remedy="Check the pattern.", path=place)
    refuse_lake(found, place)
    # A pattern that goes down into all folders would meet what is written below it the next time.
    return replace(_several(found, _fixed(place), place, format), whole="**" in Path(place).parts)


def refuse_lake(paths: Sequence[str], given: str) -> None:
    """Refuse files that belong to a table with a log, and say how it is read.

    Raises
    ------
    ParameterError
        Names what was given, the kind of the table and its folder.
    """
    folders = {os.path.dirname(os.path.abspath(path)) for path in paths} | (
        {os.path.abspath(given)} if os.path.isdir(given) else set()
    )
    for folder in sorted(
        {above for each in folders for above in (Path(each), *Path(each).parents)}
    ):
        kind = kind_of_lake(folder)
        # A folder called metadata may stand anywhere; the files of Iceberg lie in another beside
        # it.
        own = (folder, folder / "data")
        if kind is None or (
            kind == "Iceberg"
            and not any(
                Path(each) == own[0] or Path(each).is_relative_to(own[1]) for each in folders
            )
        ):
            continue
        raise ParameterError(
            f"{given} is part of a table of {kind} in {folder}, whose log says which files count; read as plain files it would have rows "
            "that were removed.",
            remedy=f"Read it by its log: {_BY_LOG[kind].format(root=str(folder))}.",
            path=given,
            kind=kind,
            root=str(folder),
        )


def kind_of_lake(folder: Path) -> str | None:
    """Tell the kind of a table by what lies in its folder; None for plain folders."""
    if (folder / "_delta_log").is_dir():
        return "Delta Lake"
    if (folder / ".hoodie").is_dir():
        return "Hudi"
    log = folder / "metadata"
    return "Iceberg" if log.is_dir() and any(log.glob("*.metadata.json")) else None


def _readable(place: str) -> BinaryIO:
    try:
        return open(place, "rb")
    except OSError as cause:
        raise refused_path(
            place,
            f"{place} cannot be read: {cause.strerror or cause}.",
            "Check the path and the permissions.",
        ) from cause


def _streamed(
    place: str, format: str | None, stream: BinaryIO | None, scratch: str | None
) -> Listing:
    """Copy a stream to a file that has no name, and tell its format from its first bytes where neither name nor user does."""
    name = "standard input" if place == STANDARD else Path(place).name
    shape = _format([place], format) if place != STANDARD or format is not None else None
    # A stream that is handed in was in memory before.
    path, held = copied(
        name,
        _from_standard_input if stream is None else stream.read,
        scratch,
        in_memory=stream is not None,
    )
    if shape is None:
        with open(path, "rb") as file:
            compression = compression_seen(file.read(8))
        try:
            with opened(path, compression) as file:
                shape = Format(kind_seen(file.read(64)), compression)
        except Exception:  # damaged: reading it says how
            shape = Format("csv", compression)
    return Listing(name, path, (Part(path, name, held=held),), shape, False)


def _from_standard_input(n_bytes: int) -> bytes:
    if sys.stdin is None:
        raise ParameterError(
            "Standard input is closed.",
            remedy="Pass the name of a file, or send the table to standard input.",
        )
    stream: Any = sys.stdin.buffer
    try:
        return bytes(stream.read1(n_bytes))
    except OSError as cause:
        raise ParameterError(
            f"Standard input cannot be read: {cause.strerror or cause}.",
            remedy="Pass the name of a file.",
        ) from cause


def _there(paths: list[str]) -> list[str]:
    for path in paths:
        if not os.path.isfile(path):
            remedy = (
                "A list names files; pass a folder alone, or a pattern."
                if os.path.isdir(path)
                else "Check the path."
            )
            kind = "a folder" if os.path.isdir(path) else "not there"
            raise ParameterError(
                f"{path!r}, which the list names, is {kind}.", remedy=remedy, path=path
            )
    twice = next((path for path, times in Counter(paths).items() if times > 1), None)
    if twice is not None:
        raise ParameterError(
            f"The file {twice!r} is named twice.", remedy="Name each file once.", path=twice
        )
    return paths


def _shared(paths: list[str]) -> str:
    try:
        return os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    except ValueError:
        raise ParameterError(
            "The files share no folder.", remedy="Name files below one folder."
        ) from None


def _fixed(pattern: str) -> str:
    """Give the folder in front of the first part of a pattern that is not a plain name."""
    kept = list(takewhile(lambda piece: not glob.has_magic(piece), Path(pattern).parts[:-1]))
    return os.path.join(*kept) if kept else "."


def _below(folder: str) -> list[str]:
    found: list[str] = []
    for here, folders, files in os.walk(folder):
        linked = next((name for name in folders if os.path.islink(os.path.join(here, name))), None)
        if linked is not None:
            path = os.path.join(here, linked)
            raise ParameterError(
                f"{path} is a link to a folder, which is not followed.", remedy=_REMEDY, path=path
            )
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [os.path.join(here, name) for name in files if not name.startswith((".", "_"))]
    if not found:
        remedy = "Pass a folder of Parquet, Arrow, CSV, TSV or JSON Lines files."
        raise refused_path(folder, f"The folder {folder} has no files.", remedy)
    return found


def _several(paths: list[str], root: str, name: str, format: str | None) -> Listing:
    names = {path: Path(os.path.relpath(path, root)).as_posix() for path in paths}
    ordered = sorted(paths, key=lambda path: names[path].split("/"))
    parts = tuple(Part(path, names[path], _keys(names[path])) for path in ordered)
    _refuse_linked(ordered)
    _refuse_uneven(parts)
    return Listing(name, root, parts, _format(ordered, format), True)


def _refuse_linked(paths: Sequence[str]) -> None:
    """Refuse a file that is there under two names: its rows would count twice."""
    seen: dict[str, str] = {}
    for path in paths:
        other = seen.setdefault(os.path.realpath(path), path)
        if other != path:
            raise ParameterError(
                f"{other!r} and {path!r} are one file, by a link.",
                remedy=f"Remove the link. {_REMEDY}",
                path=path,
            )


def _keys(name: str) -> tuple[tuple[str, str | None], ...]:
    pairs = [piece.partition("=") for piece in name.split("/")[:-1] if "=" in piece]
    return tuple(
        (unquote(key), None if value == _NO_VALUE else unquote(value)) for key, _, value in pairs
    )


def _refuse_uneven(parts: Sequence[Part]) -> None:
    first = parts[0]
    columns = [key for key, _ in first.keys]
    for part in parts:
        if [key for key, _ in part.keys] != columns or len(set(columns)) < len(columns):
            named = ", ".join(repr(key) for key, _ in part.keys) or "none"
            raise ParameterError(
                f"The folders of {first.name} tell the columns {', '.join(map(repr, columns)) or 'none'}, those of {part.name} {named}.",
                remedy="Give all files the same levels of folders, such as year=2024/part-0.parquet.",
                path=part.path,
            )


def _format(paths: Sequence[str], format: str | None) -> Format:
    if format is not None:
        return format_named(format)
    found: dict[Format, str] = {}
    for path in paths:
        name = Path(path).name
        shape = format_of(path) if "." in name else None
        if shape is None:
            if len(paths) == 1:
                refuse_foreign(name)
            problem = f"The name {name!r} does not tell a format."
            remedy = f"Say which it is with format='csv' or the like. {_REMEDY if len(paths) > 1 else ''}".strip()
            raise ParameterError(problem, remedy=remedy, path=path)
        found.setdefault(shape, path)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        problem = f"{Path(first).name} is {one} and {Path(second).name} is {other}."
        raise refused_path(second, problem, f"A table has one format. {_REMEDY}")
    return next(iter(found))


def key_values(parts: Sequence[Part]) -> dict[str, tuple[Any, list[Any]]]:
    """Give for every column that folders tell its Arrow type, and its value in each file.

    Whole numbers without leading zeros are numbers, where a column has no others; everything else
    is text.
    """
    arrow = pyarrow()
    found: dict[str, tuple[Any, list[Any]]] = {}
    for place, (column, _) in enumerate(parts[0].keys):
        texts = [part.keys[place][1] for part in parts]
        whole = all(text is None or _is_whole(text) for text in texts) and any(
            text is not None for text in texts
        )
        values = [None if text is None else int(text) if whole else text for text in texts]
        found[column] = (arrow.int64() if whole else arrow.string(), values)
    return found


def _is_whole(text: str) -> bool:
    try:
        return str(int(text)) == text and abs(int(text)) < 2**63
    except ValueError:
        return False


def piece_rows(schema: Any, columns: Sequence[str] | None) -> int:
    """Give how many rows of these columns may be held at once: fewer where they hold lists."""
    types, kinds = (
        pyarrow().types,
        [column.type for column in schema if columns is None or column.name in columns],
    )
    width = sum(
        int(kind.list_size)
        if types.is_fixed_size_list(kind)
        else 16
        if types.is_nested(kind)
        else 1
        for kind in kinds
    )
    return max(1024, min(PIECE_ROWS, PIECE_ENTRIES // max(width, 1)))


def refuse_other_columns(files: Sequence[Stored], shape: Format) -> None:
    """Refuse files whose columns are not those of the first; text may be laid out in any way, such as codes in one file only.

    Raises
    ------
    InputError
        Names the column, both files and, where it has one in both, its types.
    """
    first = files[0]
    mine = {each.name: each.type for each in first.schema}
    one = first.part.name
    for other in files:
        two, others = other.part.name, {each.name: each.type for each in other.schema}
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
            raise InputError(
                problem,
                remedy=_remedy(shape),
                column=name,
                path=other.part.path,
                first=first.part.path,
            )


def _remedy(shape: Format) -> str:
    remedy = "Give all files the same columns, or read those that belong together"
    if shape.kind == "arrow":
        return f"{remedy}."
    reader = "read_csv" if shape.is_text else "read_parquet"
    return f"{remedy}; or let DuckDB make one table of them, and scan its relation: FROM {reader}('...', union_by_name=true)."


def uneven_columns(files: Sequence[Stored]) -> dict[str, Any]:
    """Give the columns that files lay out in different ways, and the type that all of them can have."""
    arrow, names = pyarrow(), files[0].schema.names
    found: dict[str, Any] = {}
    for column in [each for each in files[0].schema if names.count(each.name) == 1]:
        if len({file.schema.field(column.name).type for file in files}) > 1:
            kind = plain_type(column.type)
            found[column.name] = (
                arrow.large_string()
                if "string" in str(kind)
                else arrow.large_binary()
                if "binary" in str(kind)
                else kind
            )
    return found
