"""How much memory there is, and a refusal before more than that is taken."""

from __future__ import annotations

import os
from pathlib import Path

from r2b.errors import MemoryLimitError

_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available() -> int | None:
    """Give the bytes that this process may still take, the least of what machine and container leave; None where nobody says."""
    found = [_of_container(*files) for files in _CGROUPS] + [_of_machine()]
    return min((size for size in found if size is not None), default=None)


def _of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _of_container(limit: str, used: str) -> int | None:
    try:
        return max(int(Path(limit).read_text(encoding="ascii")) - int(Path(used).read_text(encoding="ascii")), 0)
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return None


def refuse_beyond_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse to make what does not fit.

    Parameters
    ----------
    needed : int
        Bytes.
    what : str
        What would be made, as the subject of a sentence.
    remedy : str

    Raises
    ------
    MemoryLimitError

    Examples
    --------
    >>> refuse_beyond_memory(1 << 10, "A small table", remedy="Buy memory.")
    """
    left = available() if needed >= _WORTH_ASKING else None
    if left is not None and needed > left:
        raise MemoryLimitError(
            f"{what} would take {format_bytes(needed)} of memory, and {format_bytes(left)} are available.",
            remedy=remedy,
            needed=needed,
            available=left,
        )


_WORTH_ASKING = 1 << 26  # bytes below which asking costs more than it is worth


def format_bytes(size: int) -> str:
    """Give a number of bytes in the unit that suits it.

    Examples
    --------
    >>> format_bytes(16_000_000_000), format_bytes(2_500)
    ('16.0 GB', '2.5 kB')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size / 1e3:.1f} kB"
