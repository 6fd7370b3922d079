"""Files put in place: written beside their targets, then moved, so that each is there whole or not at all.

What is being written lies in a hidden folder under names that no pattern for tables matches. The folder is locked while its writer lives,
so that the next write to the same target knows what a process that was killed has left behind, and removes it.
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from urllib.request import url2pathname

from r2b._data.compute import format_bytes
from r2b._files.formats import format_of
from r2b.errors import ParameterError

if sys.platform != "win32":
    import fcntl


@dataclass(eq=False)
class _Staged:
    """A hidden folder for what becomes one target.

    Attributes
    ----------
    folder, target : Path
    lock : int
        Open while the writer lives; the system closes it however the process ends. -1 where there are no locks.
    single : bool
        Whether the target is a file.
    names : list of str
        Of a folder, what its files are called at the end, by their numbers here.
    """

    folder: Path
    target: Path
    lock: int
    single: bool
    names: list[str] = field(default_factory=list)

    def place(self, number: int = 0) -> Path:
        """Give where a file is written."""
        return self.folder / f"{number:08d}.part"

    def discard(self) -> None:
        """Remove what is left of it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.lock >= 0:
            os.close(self.lock)


class AtomicWriter:
    """Several files that appear together: nothing shows before :meth:`commit`, and nothing is left behind where it is not reached.

    Parameters
    ----------
    force : bool
        Whether files that are there may be replaced.
    keep : sequence of path
        Files that are never written over, such as the one that is read.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with AtomicWriter() as writer:
    ...     writer.write(folder / "a.txt", b"whole")
    ...     writer.commit()
    >>> (folder / "a.txt").read_bytes(), len(list(folder.iterdir()))
    (b'whole', 1)
    """

    def __init__(self, *, force: bool = False, keep: tuple[str, ...] = ()) -> None:
        self.force = force
        self.keep = keep
        self._waiting: list[_Staged] = []
        self._reserved: list[_Staged] = []

    def __enter__(self) -> AtomicWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for staged in [*self._waiting, *self._reserved]:
            staged.discard()

    def check(self, path: str | Path, *, folder: bool = False) -> None:
        """Refuse a target before any work is done for it.

        Parameters
        ----------
        path : path
        folder : bool
            Whether a folder is to be made.

        Raises
        ------
        ParameterError
            It is there already, is the file that is read, has no folder, or is a link that leads nowhere.
        """
        target = Path(os.path.normpath(path)) if folder else Path(path)
        if any(_same(target, Path(each)) for each in self.keep):
            raise refused_path(path, f"{path} is the file that is read.", "Write to another name; the input is never changed.")
        _refuse_within(target, self.keep)
        if target.is_dir() and not folder:
            raise refused_path(path, f"{path} is a folder.", "Pass the name of a file in it.")
        if not target.parent.is_dir():
            raise refused_path(path, f"There is no folder {str(target.parent)!r}.", "Make it first, or write elsewhere.")
        if target.is_symlink() and not target.exists() and not self.force:
            remedy, linked = "Write to another name, or make the file that the link names with force=True.", os.path.realpath(path)
            raise refused_path(path, f"{path} is a link to {linked}, which is not there.", remedy, target=linked)
        if target.exists() and not self.force and not is_device(target):
            raise _exists(path)
        if folder and target.exists():
            _refuse_precious(target)

    def reserve(self, path: str | Path) -> Path:
        """Give a hidden name beside a target, to write to. It is moved into place after everything else.

        Raises
        ------
        ParameterError
            As for :meth:`check`, or nothing can be written there.
        """
        self.check(path)
        self._reserved.append(_staged(path, single=True))
        return self._reserved[-1].place()

    def reserve_folder(self, path: str | Path, names: Sequence[str]) -> list[Path]:
        """Give hidden names for the files of a folder, which may lie in folders of their own; errors as for :meth:`reserve`."""
        self.check(path, folder=True)
        staged = _staged(path, single=False)
        self._reserved.append(staged)
        staged.names += names
        return [staged.place(number) for number in range(len(names))]

    def write(self, path: str | Path, content: bytes) -> None:
        """Write a file beside its target."""
        self.check(path)
        # Through a link, the file it points at is the one to replace.
        target = Path(os.path.realpath(path))
        if is_device(target):
            target.write_bytes(content)
            return
        staged = _staged(path, single=True)
        self._waiting.append(staged)
        try:
            with open(staged.place(), "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, staged.place())
        except OSError as cause:
            raise unwritable(path, cause) from cause

    def commit(self) -> None:
        """Move every file into place, in the order they were written, those with reserved names last."""
        self._waiting, self._reserved = [*self._waiting, *self._reserved], []
        while self._waiting:
            staged = self._waiting[0]
            if staged.single:
                self._move(staged.place(), staged.target)
            else:
                self._move_folder(staged)
            _settle(staged.target.parent)
            self._waiting.pop(0).discard()

    def _move(self, beside: Path, target: Path) -> None:
        if self.force:
            os.replace(beside, target)
            return
        try:
            # A link, unlike a rename, is refused by the system where the name was taken meanwhile.
            os.link(beside, target)
        except FileExistsError:
            raise _exists(target) from None
        except OSError:  # a file system without links
            self.check(target)
            os.replace(beside, target)
            return
        os.unlink(beside)

    def _move_folder(self, staged: _Staged) -> None:
        """Give the files their names, and the folder its place, in one step for whoever reads below the folder that holds the target."""
        target = staged.target
        # A level up: a pattern such as out/**/*.csv finds hidden folders too, and would meet files that have their names already.
        away = target.parent.parent / staged.folder.name
        with contextlib.suppress(OSError):
            os.rename(staged.folder, away)
            staged.folder = away
        for number, name in enumerate(staged.names):
            place = staged.folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            os.rename(staged.place(number), place)
        for here, _, _ in os.walk(staged.folder):
            _settle(Path(here))
        if not target.exists():
            os.rename(staged.folder, target)
            return
        self.check(target, folder=True)
        if _exchanged(staged.folder, target):
            return
        aside = staged.folder.with_suffix(".old")
        os.rename(target, aside)
        try:
            os.rename(staged.folder, target)
        except BaseException:
            os.rename(aside, target)
            raise
        staged.folder = aside


def _exchanged(one: Path, other: Path) -> bool:
    """Let two folders change names in one step; False where the system cannot."""
    try:
        return bool(ctypes.CDLL(None).renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)
    except (AttributeError, OSError, TypeError):
        return False


_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def _staged(path: str | Path, *, single: bool) -> _Staged:
    """Make a hidden folder beside a target, after what writers of this target that are no more have left is gone."""
    target = Path(os.path.realpath(path))
    with contextlib.suppress(OSError):
        sweep(target)
    while True:
        folder = target.with_name(f".{target.name[:80]}.{secrets.token_hex(8)}.part")
        try:
            folder.mkdir()
        except OSError as cause:
            raise unwritable(path, cause) from cause
        lock = _locked(folder)
        if lock is not None and folder.exists():  # else another took it for left behind between two steps
            return _Staged(folder, target, lock, single)


def _locked(path: Path) -> int | None:
    """Lock a file or folder until the process ends; -1 where there are no locks, None where another has it."""
    if sys.platform == "win32":
        return -1
    try:
        number = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(number)
        return None
    except OSError:  # a file system without locks
        os.close(number)
        return -1
    return number


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
    mine = re.compile(rf"\.{re.escape(target.name[:80])}\.[0-9a-f]{{16}}\.part")
    for folder in dict.fromkeys([target.parent, target.parent.parent]):
        left = [folder / name for name in os.listdir(folder) if mine.fullmatch(name)]
        for each in left:
            lock = _locked(each)
            if lock is None or lock < 0:
                continue
            shutil.rmtree(each, ignore_errors=True) if each.is_dir() else each.unlink(missing_ok=True)
            os.close(lock)


def refused_path(path: str | Path, problem: str, remedy: str, **facts: object) -> ParameterError:
    """Give the error that says what is wrong with a path."""
    return ParameterError(problem, remedy=remedy, path=str(path), **facts)


def unwritable(path: str | Path, cause: OSError) -> ParameterError:
    """Say that a file cannot be written, and why."""
    full = cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    reason = f"the disk has no room left ({cause.strerror})" if full else cause.strerror or str(cause)
    remedy = "Make room, or write elsewhere. Nothing was left behind." if full else "Write elsewhere."
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


def _refuse_within(target: Path, keep: tuple[str, ...]) -> None:
    """Refuse what lies in a folder that is read, and a folder that holds what is read."""
    place = Path(os.path.realpath(target))
    for each in keep:
        other = Path(os.path.realpath(each))
        inside = other.is_dir() and place.is_relative_to(other)
        if inside or other.is_relative_to(place):
            fault = f"{target} lies in {each}, which is read." if inside else f"{target} holds {each}, which is read."
            raise refused_path(target, fault, "Write to another folder; the input is never changed.")


def _refuse_precious(target: Path) -> None:
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


def _same(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samefile(one, other)
    return False


def _exists(path: str | Path) -> ParameterError:
    return refused_path(path, f"{path} is there already.", "Write to another name, or replace it with force=True.")


def _settle(folder: Path) -> None:
    # The move itself must reach the disk too, where the system lets a folder be synchronised.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
