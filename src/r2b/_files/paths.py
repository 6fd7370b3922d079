"""Paths that can be read or written, and errors that say why one cannot."""

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

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def refused_path(path: str | Path, problem: str, remedy: str, **facts: object) -> ParameterError:
    """Return the error that says what is wrong with a path."""
    return ParameterError(problem, remedy=remedy, path=str(path), **facts)


def unwritable(path: str | Path, cause: OSError) -> ParameterError:
    """Return the error that says that a file cannot be written, and why."""
    full = cause.errno in _NO_ROOM
    reason = (
        f"the disk has no room left ({cause.strerror})" if full else cause.strerror or str(cause)
    )
    remedy = (
        "Make room, or write elsewhere. Nothing was left behind." if full else "Write elsewhere."
    )
    return refused_path(path, f"{path} cannot be written: {reason}.", remedy, errno=cause.errno)


def taken_name(path: str | Path) -> ParameterError:
    """Return the error that says that a target exists already."""
    remedy = "Write to another name, or replace it with `force=True`."
    return refused_path(path, f"{path} is there already.", remedy)


def refuse_little_room(
    folder: str, n_bytes: int, what: str, elsewhere: str = "write elsewhere"
) -> None:
    """Refuse a write for which the disk has no room, before any work is done."""
    free = shutil.disk_usage(folder).free
    if free < n_bytes:
        raise refused_path(
            folder,
            f"The disk of {folder} has {format_bytes(free)} free, and {what} need about "
            f"{format_bytes(n_bytes)}.",
            f"Make room there, or {elsewhere}.",
            free=free,
            needed=n_bytes,
        )


def refuse_within(target: Path, keep: tuple[str, ...]) -> None:
    """Refuse a target in a folder that is read, and a folder that holds what is read."""
    place = Path(os.path.realpath(target))
    for each in keep:
        other = Path(os.path.realpath(each))
        inside = other.is_dir() and place.is_relative_to(other)
        if inside or other.is_relative_to(place):
            raise refused_path(
                target,
                f"{target} {'lies in' if inside else 'holds'} {each}, which is read.",
                "Write to another folder; the input is never changed.",
            )


def refuse_precious(target: Path) -> None:
    """Refuse to replace a folder that holds anything but tables."""
    if not target.is_dir():
        problem = f"{target} is a file, and a folder is to be written."
        raise refused_path(target, problem, "Write to another name.")
    for here, _, files in os.walk(target):
        for name in files:
            if not name.startswith((".", "_")) and format_of(name) is None:
                raise refused_path(
                    target,
                    f"{target} would be replaced, but {os.path.join(here, name)} is not a table.",
                    "Write to another name, or remove the folder yourself.",
                )


def is_device(target: Path) -> bool:
    """Tell whether a path exists and is no plain file, such as /dev/null or a pipe."""
    with contextlib.suppress(OSError):
        mode = target.stat().st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def file_identity(path: str | Path) -> tuple[int, int] | None:
    """Return what all paths to a file share, and no path to another; None where there is none."""
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def local_path(given: str | os.PathLike[str]) -> str:
    """Return a path of this machine: ``~`` is the user's folder, and ``file:`` is left out.

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
        return url2pathname(
            path.removeprefix("file:").removeprefix("//localhost").removeprefix("//")
        )
    if _ADDRESS.match(path):
        raise ParameterError(
            f"{path!r} is an address, and only files of this machine are read and written.",
            remedy="Let an engine do it: scan a Polars LazyFrame, a DuckDB relation, a Dask or a "
            "Spark frame, and write its frame(...).",
            path=path,
        )
    return path if os.path.exists(path) else os.path.expanduser(path)
