"""Atomic writes: files are written beside their targets and moved when all are complete.

Until then they lie in a hidden folder, under names that match no pattern for tables. The folder is
locked while its writer lives; the next write to the same target removes what a killed one has left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from operator import eq
from pathlib import Path

from r2b._files.paths import (
    file_identity,
    is_device,
    refuse_precious,
    refuse_within,
    refused_path,
    taken_name,
    unwritable,
)

if sys.platform != "win32":
    import fcntl


@dataclass(eq=False)
class Staged:
    """A hidden folder for what becomes one target.

    Attributes
    ----------
    folder, target : Path
    lock : int
        Open while the writer lives; -1 where there are no locks.
    names : tuple of str, optional
        Final names of the files of a folder; None where the target is a file.
    """

    folder: Path
    target: Path
    lock: int
    names: tuple[str, ...] | None = None

    @property
    def places(self) -> list[Path]:
        """Where the files are written."""
        n_files = 1 if self.names is None else len(self.names)
        return [self.folder / f"{number:08d}.part" for number in range(n_files)]

    def rename(self) -> None:
        """Move the files of a folder to their final names."""
        for place, name in zip(self.places, self.names or (), strict=True):
            final = self.folder / name
            final.parent.mkdir(parents=True, exist_ok=True)
            os.rename(place, final)

    def discard(self) -> None:
        """Remove what is left of the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.lock >= 0:
            os.close(self.lock)


class AtomicWriter:
    """Several files that appear together at :meth:`commit`, which is the last call.

    Without it nothing is left behind.

    Parameters
    ----------
    force : bool
        Whether existing files may be replaced.
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
        self._written: list[Staged] = []
        self._reserved: list[Staged] = []

    def __enter__(self) -> AtomicWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for staged in [*self._written, *self._reserved]:
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
            It exists already, is the file that is read, has no folder, or is a broken link.
        """
        target = Path(os.path.normpath(path)) if folder else Path(path)
        there = target.exists()
        if there and file_identity(target) in map(file_identity, self.keep):
            problem = f"{path} is the file that is read."
            raise refused_path(path, problem, "Write to another name; the input is never changed.")
        refuse_within(target, self.keep)
        if target.is_dir() and not folder:
            raise refused_path(path, f"{path} is a folder.", "Pass the name of a file in it.")
        if not target.parent.is_dir():
            problem = f"There is no folder {str(target.parent)!r}."
            raise refused_path(path, problem, "Make it first, or write elsewhere.")
        if target.is_symlink() and not there and not self.force:
            linked = os.path.realpath(path)
            raise refused_path(
                path,
                f"{path} is a link to {linked}, which is not there.",
                "Write to another name, or pass `force=True` to make the file that the link names.",
                target=linked,
            )
        if there and not self.force and not is_device(target):
            raise taken_name(path)
        if there and folder:
            refuse_precious(target)

    def reserve(self, path: str | Path, names: Sequence[str] | None = None) -> Staged:
        """Return a hidden folder to write to; errors as for :meth:`check`.

        Parameters
        ----------
        path : path
        names : sequence of str, optional
            Of the files of a folder; None where the target is a file.
        """
        self.check(path, folder=names is not None)
        self._reserved.append(_stage(path, names))
        return self._reserved[-1]

    def write(self, path: str | Path, content: bytes) -> None:
        """Write a file beside its target."""
        self.check(path)
        target = Path(os.path.realpath(path))  # through a link, the file it points at is replaced
        if is_device(target):
            target.write_bytes(content)
            return
        staged = _stage(path)
        self._written.append(staged)
        try:
            with open(staged.places[0], "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as cause:
            raise unwritable(path, cause) from cause

    def commit(self) -> None:
        """Move every file into place: those with reserved names first, as what they are about.

        Nothing stands beside a table that it does not describe, whenever the process is killed: the
        certificate of an old table goes before the new table comes, and its own comes last.
        """
        tables, about = self._reserved, self._written
        for staged in [*tables, *about]:
            self._restrict(staged)
            if not self.force and staged.target.exists():
                raise taken_name(staged.target)
        old = [each for each in about if tables and each.target.exists()]
        marks = [file_identity(each.folder if each.names else each.places[0]) for each in tables]
        try:
            for staged in old:
                os.rename(staged.target, staged.folder / "old")
            for staged in tables:
                self._land(staged)
        except BaseException:
            stands = (file_identity(staged.target) for staged in tables)
            if not any(map(eq, marks, stands)):
                for staged in old:
                    with contextlib.suppress(FileNotFoundError):
                        os.rename(staged.folder / "old", staged.target)
            raise
        for staged in about:
            self._land(staged)
        for folder in {staged.target.parent for staged in [*tables, *about]}:
            _sync_folder(folder)

    def _land(self, staged: Staged) -> None:
        if staged.names is None:
            self._move(staged.places[0], staged.target)
        else:
            self._move_folder(staged)

    def _restrict(self, staged: Staged) -> None:
        """Let nobody read the new files who could not read the files that were read."""
        allowed = 0o777
        for path in self.keep:
            below = [os.path.join(here, each) for here, _, files in os.walk(path) for each in files]
            for each in (path, *below):
                with contextlib.suppress(OSError):
                    allowed &= os.stat(each).st_mode
        mode = 0
        for place in staged.places:
            replaced = staged.target if staged.names is None and staged.target.exists() else place
            mode = stat.S_IMODE(os.stat(replaced).st_mode) & (0o700 | allowed)
            os.chmod(place, mode)
        if staged.names is not None:  # who may read may also enter
            os.chmod(staged.folder, 0o700 | mode | (mode & 0o044) >> 2)

    def _move(self, place: Path, target: Path) -> None:
        if not self.force:
            try:
                # A link, unlike a rename, fails where the name was taken meanwhile.
                os.link(place, target)
                os.unlink(place)
                return
            except FileExistsError:
                raise taken_name(target) from None
            except OSError:  # a file system without links
                self.check(target)
        os.replace(place, target)

    def _move_folder(self, staged: Staged) -> None:
        target = staged.target
        # Files get their names one level up: a pattern such as out/**/*.csv that also looks into
        # hidden folders must not find them before they are in place.
        away = target.parent.parent / staged.folder.name
        with contextlib.suppress(OSError):
            os.rename(staged.folder, away)
            staged.folder = away
        staged.rename()
        for here, _, _ in os.walk(staged.folder):
            _sync_folder(Path(here))
        if not target.exists():
            os.rename(staged.folder, target)
            return
        self.check(target, folder=True)
        if _exchanged(staged.folder, target):
            return
        old = staged.folder.with_suffix(".old")
        os.rename(target, old)
        try:
            os.rename(staged.folder, target)
        except BaseException:
            os.rename(old, target)
            raise
        staged.folder = old


def _exchanged(one: Path, other: Path) -> bool:
    """Swap the names of two folders in one step; return False where the system cannot."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        # of Linux: -100 is the current folder (AT_FDCWD), 2 exchanges names (RENAME_EXCHANGE)
        found = ctypes.CDLL(None).renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2)
        return bool(found == 0)
    return False


def _sync_folder(folder: Path) -> None:
    """Bring a move to the disk, where the system lets a folder be synchronised."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _stage(path: str | Path, names: Sequence[str] | None = None) -> Staged:
    """Make a hidden folder beside a target, and remove those of writers that were killed."""
    target = Path(os.path.realpath(path))
    with contextlib.suppress(OSError):
        _sweep(target)
    while True:
        folder = target.with_name(f".{target.name[:80]}.{secrets.token_hex(8)}.part")
        try:
            folder.mkdir(0o700)  # files get the modes of what was read when they are complete
            lock = _lock(folder)
        except OSError as cause:
            raise unwritable(path, cause) from cause
        if lock is not None:  # else another writer swept it between the two steps
            return Staged(folder, target, lock, None if names is None else tuple(names))


def _sweep(target: Path) -> None:
    """Remove what killed writers have left of a target; those that live hold a lock."""
    mine = re.compile(rf"\.{re.escape(target.name[:80])}\.[0-9a-f]{{16}}\.part")
    for folder in {target.parent, target.parent.parent}:
        for each in [folder / name for name in os.listdir(folder) if mine.fullmatch(name)]:
            lock = _lock(each)
            if lock is not None and lock >= 0:
                if each.is_dir():
                    shutil.rmtree(each, ignore_errors=True)
                else:
                    each.unlink(missing_ok=True)
                os.close(lock)


def _lock(path: Path) -> int | None:
    """Lock a path until the process ends; return -1 without locks, None where another has it."""
    if sys.platform == "win32":
        return -1
    try:
        number = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its writer may have moved it into place while it was opened.
        if os.path.samestat(os.fstat(number), os.stat(path)):
            return number
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:  # a file system without locks
        os.close(number)
        return -1
    os.close(number)
    return None
