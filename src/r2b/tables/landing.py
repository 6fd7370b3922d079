"""Files put in place: written beside their targets, then moved, so that each is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from pathlib import Path
from types import TracebackType

from r2b.errors import ParameterError


class Landing:
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
    >>> with Landing() as landing:
    ...     landing.write(folder / "a.txt", b"whole")
    ...     landing.land()
    >>> (folder / "a.txt").read_bytes(), len(list(folder.iterdir()))
    (b'whole', 1)
    """

    def __init__(self, *, force: bool = False, keep: tuple[str, ...] = ()) -> None:
        self.force = force
        self.keep = keep
        self._waiting: list[tuple[Path, Path]] = []

    def __enter__(self) -> Landing:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for beside, _ in self._waiting:
            with contextlib.suppress(OSError):
                beside.unlink()

    def check(self, path: str | Path) -> None:
        """Refuse a target before any work is done for it.

        Raises
        ------
        ParameterError
            It is there already, is the file that is read, or has no folder.
        """
        target = Path(path)
        if any(_same(target, Path(each)) for each in self.keep):
            raise ParameterError(
                f"{path} is the file that is read.", remedy="Write to another name; the input is never changed.", path=str(path)
            )
        if target.is_dir():
            raise ParameterError(f"{path} is a folder.", remedy="Pass the name of a file in it.", path=str(path))
        if not target.parent.is_dir():
            raise ParameterError(f"There is no folder {str(target.parent)!r}.", remedy="Make it first, or write elsewhere.", path=str(path))
        if target.exists() and not self.force and not is_device(target):
            raise _exists(path)

    def write(self, path: str | Path, content: bytes) -> None:
        """Write a file beside its target."""
        self.check(path)
        # Through a link, the file it points at is the one to replace.
        target = Path(os.path.realpath(path))
        if is_device(target):
            target.write_bytes(content)
            return
        beside = target.with_name(f".{target.name[:80]}.{secrets.token_hex(8)}.part")
        self._waiting.append((beside, target))
        try:
            with open(beside, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, beside)
        except OSError as cause:
            raise ParameterError(
                f"{path} cannot be written: {cause.strerror or cause}.", remedy="Write elsewhere.", path=str(path)
            ) from cause

    def land(self) -> None:
        """Move every file into place, in the order they were written."""
        while self._waiting:
            beside, target = self._waiting[0]
            self._move(beside, target)
            del self._waiting[0]
            _settle(target.parent)

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
    return ParameterError(f"{path} is there already.", remedy="Write to another name, or replace it with --force.", path=str(path))


def _settle(folder: Path) -> None:
    # The move itself must reach the disk too, where the system lets a folder be synchronised.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
