"""Which files a path, a pattern, a folder or a list stands for, and what their folders say."""

from __future__ import annotations

import glob
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO
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
from r2b._files.paths import is_device, local_path, refused_path
from r2b.engines.spool import copied
from r2b.errors import ParameterError

STANDARD = "-"

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_PATTERN = "Say which files with a pattern, such as 'people/*.parquet'."
_BY_LOG = {
    "Delta Lake": "r2b.scan(deltalake.DeltaTable({root!r})), polars.scan_delta({root!r}), or Spark",
    "Iceberg": "r2b.scan(table) with a table of pyiceberg, DuckDB's iceberg_scan({root!r}), or "
    "Spark",
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
    held : object or None
        Keeps the file in existence, where it is a copy of a stream.
    """

    path: str
    name: str
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
        Whether a folder, a pattern or a list was given: the table is then written as a folder.
    whole : bool
        Whether all files of the folder are meant, so that nothing may be written into it.
    """

    name: str
    root: str
    parts: tuple[Part, ...]
    format: Format
    many: bool
    whole: bool = False

    @property
    def kept(self) -> tuple[str, ...]:
        """What must not be written to: the folder that was named, or the files."""
        return (self.root,) if self.whole else tuple(part.path for part in self.parts)


def list_files(
    given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Listing,
    format: str | None = None,
    stream: BinaryIO | None = None,
    scratch: str | None = None,
) -> Listing:
    """Find the files.

    Parameters
    ----------
    given : path, pattern, list of paths, or a Listing, which is returned
        A folder stands for all files below it, except those whose names begin with a dot or an
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
    if not isinstance(given, (str, os.PathLike)):
        paths = [local_path(each) for each in given]
        if not paths:
            raise ParameterError("The list of files is empty.", remedy="Name at least one file.")
        _refuse_unlisted(paths)
        root = _shared_folder(paths)
        refuse_lake(paths, root)
        return _several(paths, root, f"{len(paths):,} files", format)
    if stream is not None or given == STANDARD:
        return _streamed(os.fspath(given), format, stream, scratch)
    place = local_path(given)
    if os.path.isdir(place):
        refuse_lake([], place)
        found = _below(place)
        refuse_lake(found, place)
        return _several(found, place, Path(place).name or place, format, whole=True)
    if os.path.exists(place):
        with _readable(place) as file:
            if is_device(Path(place)):
                return _streamed(place, format, file, scratch)
        refuse_lake([place], place)
        name = Path(place).name
        return Listing(name, place, (Part(place, name),), _format([place], format), False)
    if not place:
        problem, remedy = "The name of the file is empty.", "Pass a path, or - for standard input."
        raise ParameterError(problem, remedy=remedy, path=place)
    if not glob.has_magic(place):
        raise ParameterError(
            f"There is no file {place!r}.", remedy="Check the path.", code="no-file", path=place
        )
    # A pattern with ** twice finds a file once for every way to it.
    found = [each for each in {*glob.glob(place, recursive=True)} if os.path.isfile(each)]
    if not found:
        raise ParameterError(f"No file matches {place!r}.", remedy="Check the pattern.", path=place)
    refuse_lake(found, place)
    fixed = list(takewhile(lambda piece: not glob.has_magic(piece), Path(place).parts[:-1]))
    root = str(Path(*fixed))
    # A pattern that goes down into all folders would find what is written below it the next time.
    return _several(found, root, place, format, whole="**" in Path(place).parts)


def refuse_lake(paths: Sequence[str], given: str) -> None:
    """Refuse files that belong to a table with a log, and say how it is read."""
    folders = {os.path.dirname(os.path.abspath(path)) for path in paths}
    if os.path.isdir(given):
        folders.add(os.path.abspath(given))
    for folder in sorted(
        {above for each in folders for above in (Path(each), *Path(each).parents)}
    ):
        kind = kind_of_lake(folder)
        if kind == "Iceberg":
            # A folder called metadata may stand anywhere; the files of Iceberg lie in data, beside.
            own = (Path(each) for each in folders)
            if not any(each == folder or each.is_relative_to(folder / "data") for each in own):
                kind = None
        if kind is not None:
            raise ParameterError(
                f"{given} is part of a table of {kind} in {folder}, whose log says which files "
                "count; read as plain files it would have rows that were removed.",
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
        problem = f"{place} cannot be read: {cause.strerror or cause}."
        raise refused_path(place, problem, "Check the path and the permissions.") from cause


def _streamed(
    place: str, format: str | None, stream: BinaryIO | None, scratch: str | None
) -> Listing:
    """Copy a stream to a file without a name; its first bytes may tell its format."""
    name = "standard input" if place == STANDARD else Path(place).name
    shape = _format([place], format) if place != STANDARD or format is not None else None
    read = _from_standard_input if stream is None else stream.read
    # A stream that is handed in was in memory before.
    path, held = copied(name, read, scratch, in_memory=stream is not None)
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
    remedy = "Pass the name of a file, or send the table to standard input."
    if sys.stdin is None:
        raise ParameterError("Standard input is closed.", remedy=remedy)
    stream: Any = sys.stdin.buffer
    try:
        return bytes(stream.read1(n_bytes))
    except OSError as cause:
        problem = f"Standard input cannot be read: {cause.strerror or cause}."
        raise ParameterError(problem, remedy=remedy) from cause


def _refuse_unlisted(paths: list[str]) -> None:
    for path, times in Counter(paths).items():
        if os.path.isfile(path) and times == 1:
            continue
        kind, remedy = "not there", "Check the path."
        if os.path.isdir(path):
            kind = "a folder"
            remedy = "A list names files; pass a folder alone, or a pattern."
        problem = f"{path!r}, which the list names, is {kind}."
        if os.path.isfile(path):
            problem, remedy = f"The file {path!r} is named twice.", "Name each file once."
        raise ParameterError(problem, remedy=remedy, path=path)


def _shared_folder(paths: list[str]) -> str:
    try:
        return os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    except ValueError:
        remedy = "Name files below one folder."
        raise ParameterError("The files share no folder.", remedy=remedy) from None


def _below(folder: str) -> list[str]:
    found: list[str] = []
    for here, folders, files in os.walk(folder):
        for path in (os.path.join(here, name) for name in folders):
            if os.path.islink(path):
                problem = f"{path} is a link to a folder, which is not followed."
                raise ParameterError(problem, remedy=_PATTERN, path=path)
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [os.path.join(here, name) for name in files if not name.startswith((".", "_"))]
    if not found:
        remedy = "Pass a folder of Parquet, Arrow, CSV, TSV or JSON Lines files."
        raise refused_path(folder, f"The folder {folder} has no files.", remedy)
    return found


def _several(
    paths: list[str], root: str, name: str, format: str | None, *, whole: bool = False
) -> Listing:
    names = {path: Path(os.path.relpath(path, root)).as_posix() for path in paths}
    ordered = sorted(paths, key=lambda path: names[path].split("/"))
    parts = tuple(Part(path, names[path]) for path in ordered)
    seen: dict[str, str] = {}
    for path in ordered:  # the rows of a file that has two names would count twice
        other = seen.setdefault(os.path.realpath(path), path)
        if other != path:
            problem = f"{other!r} and {path!r} are one file, by a link."
            raise ParameterError(problem, remedy=f"Remove the link. {_PATTERN}", path=path)
    return Listing(name, root, parts, _format(ordered, format), True, whole)


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
            remedy = "Say which it is, such as `format='csv'`."
            remedy = f"{remedy} {_PATTERN}" if len(paths) > 1 else remedy
            problem = f"The name {name!r} does not tell a format."
            raise ParameterError(problem, remedy=remedy, path=path)
        found.setdefault(shape, path)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        problem = f"{Path(first).name} is {one} and {Path(second).name} is {other}."
        raise refused_path(second, problem, f"A table has one format. {_PATTERN}")
    return next(iter(found))


def folder_columns(parts: Sequence[Part]) -> dict[str, tuple[Any, list[Any]]]:
    """Return the columns that folders name: the Arrow type of each, and its value in each file.

    A column is of numbers if all its values are whole numbers without leading zeros, else of text.

    Raises
    ------
    ParameterError
        Some files have other columns than the first, or a column comes twice.
    """
    arrow = pyarrow()
    levels = [[each for each in part.name.split("/")[:-1] if "=" in each] for part in parts]
    names = [[unquote(each.partition("=")[0]) for each in own] for own in levels]
    for part, own in zip(parts, names, strict=True):
        if own != names[0] or len(set(own)) < len(own):
            one, two = (", ".join(map(repr, each)) or "none" for each in (names[0], own))
            raise ParameterError(
                f"The folders of {parts[0].name} tell the columns {one}, those of {part.name} "
                f"{two}.",
                remedy="Give all files the same levels of folders, such as "
                "year=2024/part-0.parquet.",
                path=part.path,
            )
    found: dict[str, tuple[Any, list[Any]]] = {}
    for name, folders in zip(names[0], zip(*levels, strict=True), strict=True):
        values = [each.partition("=")[2] for each in folders]
        texts = [None if value == _NO_VALUE else unquote(value) for value in values]
        known = [text for text in texts if text is not None]
        if known and all(map(_is_whole, known)):
            numbers = [None if text is None else int(text) for text in texts]
            found[name] = (arrow.int64(), numbers)
        else:
            found[name] = (arrow.string(), texts)
    return found


def _is_whole(text: str) -> bool:
    try:
        return str(int(text)) == text and abs(int(text)) < 2**63
    except ValueError:
        return False
