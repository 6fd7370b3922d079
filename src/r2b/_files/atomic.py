"""Files put in place: written beside their targets, then moved, so that each is there whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from r2b._files.staging import (
    Staged,
    is_device,
    refuse_precious,
    refuse_within,
    refused_path,
    same_file,
    stage,
    taken_name,
    unwritable,
)


class AtomicWriter:
    """Several files that appear together: nothing shows before :meth:`commit`, and nothing is left behind where it is not reached.

    Parameters
    ----------
    force : bool
        Whether files that are there may be replaced.
    keep : sequence of path
        Files that are never written over, such as the one that is read.
    resume : bool
        Go on with folders that were stopped, and leave what is finished of one that is: see
        :mod:`r2b._files.staging`.

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

    def __init__(
        self, *, force: bool = False, keep: tuple[str, ...] = (), resume: bool = False
    ) -> None:
        self.force = force
        self.keep = keep
        self.resume = resume
        self._waiting: list[Staged] = []
        self._reserved: list[Staged] = []

    def __enter__(self) -> AtomicWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for staged in [*self._waiting, *self._reserved]:
            staged.leave() if self.resume and error is not None else staged.discard()

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
            It is there already, is the file that is read, has no folder, or is a link that leads
            nowhere.
        """
        target = Path(os.path.normpath(path)) if folder else Path(path)
        if any(same_file(target, Path(each)) for each in self.keep):
            raise refused_path(
                path,
                f"{path} is the file that is read.",
                "Write to another name; the input is never changed.",
            )
        refuse_within(target, self.keep)
        if target.is_dir() and not folder:
            raise refused_path(path, f"{path} is a folder.", "Pass the name of a file in it.")
        if not target.parent.is_dir():
            raise refused_path(
                path,
                f"There is no folder {str(target.parent)!r}.",
                "Make it first, or write elsewhere.",
            )
        if target.is_symlink() and not target.exists() and not self.force:
            remedy, linked = (
                "Write to another name, or make the file that the link names with force=True.",
                os.path.realpath(path),
            )
            raise refused_path(
                path, f"{path} is a link to {linked}, which is not there.", remedy, target=linked
            )
        if target.exists() and not self.force and not is_device(target):
            raise taken_name(path)
        if folder and target.exists():
            refuse_precious(target)

    def reserve(self, path: str | Path) -> Path:
        """Give a hidden name beside a target, to write to. It is moved into place after everything else.

        Raises
        ------
        ParameterError
            As for :meth:`check`, or nothing can be written there.
        """
        self.check(path)
        self._reserved.append(stage(path, single=True))
        return self._reserved[-1].place()

    def reserve_folder(self, path: str | Path, names: Sequence[str], request: str = "") -> Staged:
        """Give a hidden folder for the files of a folder, which may lie in folders of their own; errors as for :meth:`reserve`.

        Parameters
        ----------
        path : path
        names : sequence of str
        request : str
            A fingerprint of all that the files follow from; without one nothing is taken over.
        """
        self.check(path, folder=True)
        self._reserved.append(
            stage(path, single=False, names=names, request=request, resume=self.resume)
        )
        return self._reserved[-1]

    def write(self, path: str | Path, content: bytes) -> None:
        """Write a file beside its target."""
        self.check(path)
        # Through a link, the file it points at is the one to replace.
        target = Path(os.path.realpath(path))
        if is_device(target):
            target.write_bytes(content)
            return
        staged = stage(path, single=True)
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
            raise taken_name(target) from None
        except OSError:  # a file system without links
            self.check(target)
            os.replace(beside, target)
            return
        os.unlink(beside)

    def _move_folder(self, staged: Staged) -> None:
        """Give the files their names, and the folder its place, in one step for whoever reads below the folder that holds the target."""
        target = staged.target
        staged.settle()
        # A level up: a pattern such as out/**/*.csv finds hidden folders too, and would meet files
        # that have their names already.
        away = target.parent.parent / staged.folder.name
        with contextlib.suppress(OSError):
            os.rename(staged.folder, away)
            staged.folder = away
        staged.rename()
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
        return bool(
            ctypes.CDLL(None).renameat2(
                _HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE
            )
            == 0
        )
    except (AttributeError, OSError, TypeError):
        return False


_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def _settle(folder: Path) -> None:
    # The move itself must reach the disk too, where the system lets a folder be synchronised.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
