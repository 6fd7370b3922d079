"""Paths that can be written or read, and hidden folders in which files lie until all are there, locked while their writer lives.

The names in them match no pattern for tables. The next write to the same target removes what a
process that was killed has left behind, or goes on with it: a list in the folder says for which
request it is made, and which files are finished, with their sizes and checksums.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.request import url2pathname
from zlib import crc32

from r2b._data.compute import ahead, format_bytes
from r2b._files.formats import format_of
from r2b.errors import ParameterError

if sys.platform != "win32":
    import fcntl


def refused_path(path: str | Path, problem: str, remedy: str, **facts: object) -> ParameterError:
    """Give the error that says what is wrong with a path."""
    return ParameterError(problem, remedy=remedy, path=str(path), **facts)


def unwritable(path: str | Path, cause: OSError, *, kept: bool = False) -> ParameterError:
    """Say that a file cannot be written, and why; and whether what was finished is kept."""
    full = cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    reason = (
        f"the disk has no room left ({cause.strerror})" if full else cause.strerror or str(cause)
    )
    left = (
        "Then write again: files that are finished are kept."
        if kept
        else "Nothing was left behind."
    )
    remedy = f"Make room, or write elsewhere. {left}" if full else "Write elsewhere."
    return refused_path(path, f"{path} cannot be written: {reason}.", remedy, errno=cause.errno)


def refuse_little_room(
    folder: str, n_bytes: int, what: str, elsewhere: str = "write elsewhere"
) -> None:
    """Refuse before any work is done where the disk has no room for it.

    Raises
    ------
    ParameterError
        Names the folder, what is needed and what is free.
    """
    free = shutil.disk_usage(folder).free
    if free < n_bytes:
        problem = f"The disk of {folder} has {format_bytes(free)} free, and {what} need about {format_bytes(n_bytes)}."
        raise refused_path(
            folder, problem, f"Make room there, or {elsewhere}.", free=free, needed=n_bytes
        )


def refuse_within(target: Path, keep: tuple[str, ...]) -> None:
    """Refuse what lies in a folder that is read, and a folder that holds what is read."""
    place = Path(os.path.realpath(target))
    for each in keep:
        other = Path(os.path.realpath(each))
        inside = other.is_dir() and place.is_relative_to(other)
        if inside or other.is_relative_to(place):
            fault = (
                f"{target} lies in {each}, which is read."
                if inside
                else f"{target} holds {each}, which is read."
            )
            raise refused_path(
                target, fault, "Write to another folder; the input is never changed."
            )


def refuse_precious(target: Path) -> None:
    """Refuse to replace a folder that holds anything but tables."""
    if not target.is_dir():
        raise refused_path(
            target, f"{target} is a file, and a folder is to be written.", "Write to another name."
        )
    for here, _, files in os.walk(target):
        odd = next(
            (name for name in files if not name.startswith((".", "_")) and format_of(name) is None),
            None,
        )
        if odd is not None:
            problem = f"{target} would be replaced, but {os.path.join(here, odd)} is not a table."
            raise refused_path(
                target, problem, "Write to another name, or remove the folder yourself."
            )


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
    return refused_path(
        path, f"{path} is there already.", "Write to another name, or replace it with force=True."
    )


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
        return url2pathname(
            path.removeprefix("file:").removeprefix("//localhost").removeprefix("//")
        )
    if _ADDRESS.match(path):
        problem = f"{path!r} is an address, and only files of this machine are read and written."
        remedy = "Let an engine do it: scan a Polars LazyFrame, a DuckDB relation, a Dask or a Spark frame, and write its frame(...)."
        raise ParameterError(problem, remedy=remedy, path=path)
    return path if os.path.exists(path) else os.path.expanduser(path)


_LIST = "finished.part"
_LINE = re.compile(rb"(\d+) (\d+) (\d+) (\d+)\n")
_READ = 1 << 20  # bytes at a time
_FEW = 64  # files below which each is brought to the disk by itself


class Finished(NamedTuple):
    """A file that is whole: its number, the rows it was made of, its size and its checksum."""

    number: int
    rows: int
    size: int
    checksum: int


@dataclass(eq=False)
class Staged:
    """A hidden folder for what becomes one target.

    Attributes
    ----------
    folder, target : Path
    lock : int
        Open while the writer lives; the system closes it however the process ends. -1 where there
        are no locks.
    single : bool
        Whether the target is a file.
    names : tuple of str
        Of a folder, what its files are called at the end, by their numbers here.
    finished : dict of int to Finished
        Files that are whole, by their numbers; those that were taken over among them.
    taken : int
        How many were taken over from a write that was stopped.
    waiting : list of int
        Numbers of files that are not on the disk yet.
    """

    folder: Path
    target: Path
    lock: int
    single: bool
    names: tuple[str, ...] = ()
    finished: dict[int, Finished] = field(default_factory=dict)
    taken: int = 0
    waiting: list[int] = field(default_factory=list)

    def place(self, number: int = 0) -> Path:
        """Give where a file is written."""
        return self.folder / f"{number:08d}.part"

    @property
    def places(self) -> list[Path]:
        """Where the files of a folder are written."""
        return [self.place(number) for number in range(len(self.names))]

    def begin(self, request: str) -> None:
        """Say for which request the files are made."""
        (self.folder / _LIST).write_bytes(f"{request}\n".encode())

    def finish(self, done: Finished) -> None:
        """Note that a file is whole; what a torn line says is not believed."""
        with open(self.folder / _LIST, "ab", buffering=0) as file:
            file.write("{} {} {} {}\n".format(*done).encode())
        self.finished[done.number] = done

    def settle(self) -> None:
        """Bring files that wait for the disk there: each by itself, or many at once with all others that wait for it."""
        if len(self.waiting) < _FEW or not _synced(self.folder):
            for number in self.waiting:
                with open(self.place(number), "rb") as file:
                    os.fsync(file.fileno())
        self.waiting.clear()

    def rename(self) -> None:
        """Give the files the names that they have at the end; what was noted of them goes."""
        for number, name in enumerate(self.names):
            place = self.folder / name
            if "/" in name:
                place.parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.place(number), place)
        (self.folder / _LIST).unlink(missing_ok=True)

    def leave(self) -> None:
        """Leave what is finished to the next write of the same request, where anything is; remove the rest."""
        if not self.finished or not (self.folder / _LIST).is_file():
            self.discard()
            return
        # Some may have been given their names already.
        self._keep(self.finished, {Path(name).parts[0] for name in self.names})
        self._release()

    def adopt(self, request: str, finished: dict[int, Finished]) -> None:
        """Go on with files that were found whole; everything else in the folder is removed."""
        self.finished, self.taken, self.waiting = finished, len(finished), list(finished)
        self._keep(finished, set())
        lines = "".join("{} {} {} {}\n".format(*each) for each in finished.values())
        (self.folder / _LIST).write_bytes(f"{request}\n{lines}".encode())

    def _keep(self, finished: dict[int, Finished], others: set[str]) -> None:
        kept = {_LIST, *(self.place(number).name for number in finished), *others}
        for each in list(self.folder.iterdir()):
            if each.name not in kept:
                shutil.rmtree(each, ignore_errors=True) if each.is_dir() else each.unlink(
                    missing_ok=True
                )

    def discard(self) -> None:
        """Remove what is left of it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._release()

    def _release(self) -> None:
        if self.lock >= 0:
            os.close(self.lock)


def stage(
    path: str | Path,
    *,
    single: bool,
    names: Sequence[str] = (),
    request: str = "",
    resume: bool = False,
) -> Staged:
    """Make a hidden folder beside a target, after what writers of this target that are no more have left is gone.

    Parameters
    ----------
    path : path
        The target.
    single : bool
        Whether it is a file.
    names : sequence of str
        Of the files of a folder.
    request : str
        A fingerprint of all that the files follow from.
    resume : bool
        Take over what a write of the same request has finished.

    Raises
    ------
    ParameterError
        Nothing can be written there.
    """
    target = Path(os.path.realpath(path))
    staged = None
    with contextlib.suppress(OSError):
        if resume and request:
            staged = _taken_over(target, tuple(names), request)
        sweep(target)
    while staged is None:
        folder = target.with_name(f".{target.name[:80]}.{secrets.token_hex(8)}.part")
        try:
            folder.mkdir()
            lock = _locked(folder)
            if lock is not None:  # else another took it for left behind between two steps
                staged = Staged(folder, target, lock, single, tuple(names))
                if request:
                    staged.begin(request)
        except OSError as cause:
            raise unwritable(path, cause) from cause
    return staged


def sweep(target: Path) -> None:
    """Remove what writers that were killed have left of a target; those that live hold a lock.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "fair"
    >>> target.with_name(".fair.0123456789abcdef.part").mkdir()
    >>> sweep(target)
    >>> list(target.parent.iterdir())
    []
    """
    for each, lock in _left_behind(target):
        shutil.rmtree(each, ignore_errors=True) if each.is_dir() else each.unlink(missing_ok=True)
        os.close(lock)


def _left_behind(target: Path) -> Iterator[tuple[Path, int]]:
    """Give what writers of a target that are no more have left, with the lock on each."""
    mine = re.compile(rf"\.{re.escape(target.name[:80])}\.[0-9a-f]{{16}}\.part")
    for folder in dict.fromkeys([target.parent, target.parent.parent]):
        for each in [folder / name for name in sorted(os.listdir(folder)) if mine.fullmatch(name)]:
            lock = _locked(each)
            if lock is not None and lock >= 0:
                yield each, lock


def _taken_over(target: Path, names: tuple[str, ...], request: str) -> Staged | None:
    """Take over the folder of a write of the same request in which most files are whole; None where there is none."""
    best: Staged | None = None
    found: dict[int, Finished] = {}
    for folder, lock in _left_behind(target):
        staged, mine = Staged(folder, target, lock, False, names), {}
        with contextlib.suppress(OSError):
            mine = _whole_files(staged, request)
        other = staged
        if len(mine) > len(found):
            best, found, other = staged, mine, best
        if other is not None:
            other.discard()
    if best is not None:
        best.adopt(request, found)
    return best


def _whole_files(staged: Staged, request: str) -> dict[int, Finished]:
    """Give the files of a request that are what was noted when they were finished."""
    path = staged.folder / _LIST
    if not path.is_file() or not (noted := path.read_bytes()).startswith(f"{request}\n".encode()):
        return {}
    lines = [
        Finished(*map(int, match.groups())) for match in _LINE.finditer(noted, len(request) + 1)
    ]
    return {
        line.number: line
        for line, whole in ahead(lambda line: (line, _is_whole(staged, line)), lines, None)
        if whole
    }


def _is_whole(staged: Staged, line: Finished) -> bool:
    if line.number >= len(staged.names):
        return False
    place, named = staged.place(line.number), staged.folder / staged.names[line.number]
    with contextlib.suppress(OSError):
        # it was stopped while files were given their names
        if not place.exists() and named.is_file():
            os.rename(named, place)
        if place.is_symlink() or place.stat().st_size != line.size:
            return False
        checksum = 0
        with open(place, "rb") as file:
            while more := file.read(_READ):
                checksum = crc32(more, checksum)
        return checksum == line.checksum
    return False


def _locked(path: Path) -> int | None:
    """Lock a file or folder until the process ends; -1 where there are no locks, None where another has it or had it until now."""
    if sys.platform == "win32":
        return -1
    try:
        number = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its writer may have put it in place, and something else here, while it was opened.
        if os.path.samestat(os.fstat(number), os.stat(path)):
            return number
    except BlockingIOError:
        pass
    except FileNotFoundError:
        pass
    except OSError:  # a file system without locks
        os.close(number)
        return -1
    os.close(number)
    return None


def _synced(folder: Path) -> bool:
    """Bring all that waits for the disk of a folder there; False where the system cannot."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            return bool(ctypes.CDLL(None).syncfs(handle) == 0)
        finally:
            os.close(handle)
    return False
