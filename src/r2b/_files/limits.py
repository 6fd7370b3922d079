"""How large a table may become in memory: a file of a few hundred kilobytes can hold gigabytes of the same value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from r2b.errors import FileTooLargeError

MOST_UNPACKED = 2_000_000_000
"""Bytes that a file may grow to when it is read into memory."""

_most = ContextVar("most_unpacked", default=MOST_UNPACKED)


@contextmanager
def unpacked_within(most: int) -> Iterator[None]:
    """Read files under another limit.

    Parameters
    ----------
    most : int
        Bytes that a file may grow to.

    Examples
    --------
    >>> with unpacked_within(1000):
    ...     most_unpacked()
    1000
    """
    token = _most.set(most)
    try:
        yield
    finally:
        _most.reset(token)


def most_unpacked() -> int:
    """Give the limit that holds here, in bytes."""
    return _most.get()


_STREAM = "Read it part by part with --stream, or raise the limit with --max-unpacked where the memory has room for it."


def refuse_growth(name: str, packed: int, size: int, remedy: str = _STREAM) -> None:
    """Refuse a file that becomes larger than the limit.

    Parameters
    ----------
    name : str
        Of the file.
    packed : int
        Its bytes.
    size : int
        Bytes that it grows to, as far as they were counted.
    remedy : str
        What to do about it.

    Raises
    ------
    FileTooLargeError
        Names both sizes and the limit.

    Examples
    --------
    >>> with unpacked_within(10_000_000):
    ...     refuse_growth("people.csv.zst", 2_000_000, 8_000_000)
    """
    most = most_unpacked()
    if size > most:
        raise FileTooLargeError(
            f"{name} has {megabytes(packed)} and grows to {megabytes(size)} or more when it is unpacked; the limit is {megabytes(most)}.",
            remedy=remedy,
            path=name,
            packed=packed,
            size=size,
            limit=most,
        )


def megabytes(size: int) -> str:
    """Write a size.

    Examples
    --------
    >>> megabytes(200_000_000), megabytes(1500)
    ('200 MB', '0.0015 MB')
    """
    return f"{size / 1e6:.3g} MB" if size < 1e9 else f"{size / 1e6:,.0f} MB"
