"""Files put in place: written beside their targets, then moved, so that each is there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from pathlib import Path
from types import TracebackType

from r2b._data.compute import format_bytes
from r2b._files.formats import format_of
from r2b.errors import ParameterError


class AtomicWriter:
    """Several files that appear together: nothing shows before :meth:`land`, and nothing is left behind where it is not reached.

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
        self._waiting: list[tuple[Path, Path]] = []
        self._reserved: list[tuple[Path, Path]] = []

    def __enter__(self) -> AtomicWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for beside, _ in [*self._waiting, *self._reserved]:
            with contextlib.suppress(OSError):
                shutil.rmtree(beside) if beside.is_dir() else beside.unlink()

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

    def reserve(self, path: str | Path, *, folder: bool = False) -> Path:
        """Give a hidden name beside a target, to write to; a folder is made. It is moved into place after everything else.

        Raises
        ------
        ParameterError
            As for :meth:`check`, or the folder cannot be made.
        """
        self.check(path, folder=folder)
        target = Path(os.path.realpath(path))
        beside = _beside(target)
        self._reserved.append((beside, target))
        if folder:
            try:
                beside.mkdir()
            except OSError as cause:
                raise unwritable(path, cause) from cause
        return beside

    def write(self, path: str | Path, content: bytes) -> None:
        """Write a file beside its target."""
        self.check(path)
        # Through a link, the file it points at is the one to replace.
        target = Path(os.path.realpath(path))
        if is_device(target):
            target.write_bytes(content)
            return
        beside = _beside(target)
        self._waiting.append((beside, target))
        try:
            with open(beside, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, beside)
        except OSError as cause:
            raise unwritable(path, cause) from cause

    def commit(self) -> None:
        """Move every file into place, in the order they were written, those with reserved names last."""
        self._waiting, self._reserved = [*self._waiting, *self._reserved], []
        while self._waiting:
            beside, target = self._waiting[0]
            self._move(beside, target)
            del self._waiting[0]
            _settle(target.parent)

    def _move(self, beside: Path, target: Path) -> None:
        if beside.is_dir():
            self._move_folder(beside, target)
            return
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

    def _move_folder(self, beside: Path, target: Path) -> None:
        if not target.exists():
            os.rename(beside, target)
            return
        self.check(target, folder=True)
        # Two renames, since no system replaces a folder that has files in one.
        aside = _beside(target)
        os.rename(target, aside)
        try:
            os.rename(beside, target)
        except BaseException:
            os.rename(aside, target)
            raise
        shutil.rmtree(aside, ignore_errors=True)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:80]}.{secrets.token_hex(8)}.part")


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
