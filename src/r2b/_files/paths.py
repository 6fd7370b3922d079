"""Paths that can be written or read, and errors that say why one cannot."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
from pathlib import Path
from urllib.request import url2pathname

from r2b._data.compute import format_bytes
from r2b._files.formats import format_of
from r2b.errors import ParameterError


def refused_path(path: str | Path, problem: str, remedy: str, **facts: object) -> ParameterError:
    """Give the error that says what is wrong with a path."""
    return ParameterError(problem, remedy=remedy, path=str(path), **facts)


def unwritable(path: str | Path, cause: OSError, *, kept: bool = False) -> ParameterError:
    """Say that a file cannot be written, and why; and whether what was finished is kept."""
    full = cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    reason = f"the disk has no room left ({cause.strerror})" if full else cause.strerror or str(cause)
    left = "Then write again: files that are finished are kept." if kept else "Nothing was left behind."
    remedy = f"Make room, or write elsewhere. {left}" if full else "Write elsewhere."
    return refused_path(path, f"{path} cannot be written: {reason}.", remedy, errno=cause.errno)


def refuse_little_room(folder: str, n_bytes: int, what: str, elsewhere: str = "write elsewhere") -> None:
    """Refuse before any work is done where the disk has no room for it.

    Raises
    ------
    ParameterError
        Names the folder, what is needed and what is free.
    """
    free = shutil.disk_usage(folder).free
    if free < n_bytes:
        problem = f"The disk of {folder} has {format_bytes(free)} free, and {what} need about {format_bytes(n_bytes)}."
        raise refused_path(folder, problem, f"Make room there, or {elsewhere}.", free=free, needed=n_bytes)


def refuse_within(target: Path, keep: tuple[str, ...]) -> None:
    """Refuse what lies in a folder that is read, and a folder that holds what is read."""
    place = Path(os.path.realpath(target))
    for each in keep:
        other = Path(os.path.realpath(each))
        inside = other.is_dir() and place.is_relative_to(other)
        if inside or other.is_relative_to(place):
            fault = f"{target} lies in {each}, which is read." if inside else f"{target} holds {each}, which is read."
            raise refused_path(target, fault, "Write to another folder; the input is never changed.")


def refuse_precious(target: Path) -> None:
    """Refuse to replace a folder that holds anything but tables."""
    if not target.is_dir():
        raise refused_path(target, f"{target} is a file, and a folder is to be written.", "Write to another name.")
    for here, _, files in os.walk(target):
        odd = next((name for name in files if not name.startswith((".", "_")) and format_of(name) is None), None)
        if odd is not None:
            problem = f"{target} would be replaced, but {os.path.join(here, odd)} is not a table."
            raise refused_path(target, problem, "Write to another name, or remove the folder yourself.")


def is_device(target: Path) -> bool:
    """Tell whether a path is there and is no plain file, such as /dev/null or a pipe."""
    with contextlib.suppress(OSError):
        mode = target.stat().st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def same_file(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to one file that is there."""
    with contextlib.suppress(OSError):
        return os.path.samefile(one, other)
    return False


def taken_name(path: str | Path) -> ParameterError:
    """Give the error that says that something is there already."""
    return refused_path(path, f"{path} is there already.", "Write to another name, or replace it with force=True.")


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def local_path(given: str | os.PathLike[str]) -> str:
    """Give a path of this machine: ``~`` is the user's folder, and ``file:`` is left out.

    Raises
    ------
    ParameterError
        It is an address of another machine.

    Examples
    --------
    >>> local_path("file:/data/people%202024.parquet"), local_path("people.parquet")
    ('/data/people 2024.parquet', 'people.parquet')
    """
    path = os.fspath(given)
    if path.startswith("file:"):
        return url2pathname(path.removeprefix("file:").removeprefix("//localhost").removeprefix("//"))
    if _ADDRESS.match(path):
        problem = f"{path!r} is an address, and only files of this machine are read and written."
        remedy = "Let an engine do it: scan a Polars LazyFrame, a DuckDB relation, a Dask or a Spark frame, and write its frame(...)."
        raise ParameterError(problem, remedy=remedy, path=path)
    return path if os.path.exists(path) else os.path.expanduser(path)
