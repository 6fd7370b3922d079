"""Long arrays in fixed parts, walked by threads and put together in order, so that the number of threads never shows in a result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

Result = TypeVar("Result")


def cores() -> int:
    """Give the number of cores this process may use, which a container or a scheduler can make fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parts_of(n_rows: int, size: int) -> list[slice]:
    """Cut rows into parts of ``size``, the last one shorter.

    Examples
    --------
    >>> parts_of(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def in_order(work: Callable[[slice], Result], parts: Sequence[slice], threads: int | None = None) -> Iterator[Result]:
    """Give the results of ``work`` on each part in the order of the parts, however many threads do it.

    Parameters
    ----------
    work : callable
        Should release the interpreter lock for most of its time, as NumPy and compiled kernels do.
    parts : sequence of slice
    threads : int, optional
        All cores by default.

    Examples
    --------
    >>> list(in_order(lambda part: part.stop, parts_of(5, 2)))
    [2, 4, 5]
    """
    n_threads = min(threads or cores(), len(parts))
    if n_threads <= 1:
        yield from map(work, parts)
        return
    # A pool per pass: starting threads costs microseconds, and no pool has to survive a fork or be shut down.
    with ThreadPoolExecutor(n_threads) as pool:
        yield from pool.map(work, parts)


_limiting = Lock()


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped, unused-ignore]

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep linear algebra on the calling thread.

    Its matrices are small, or there is one per group and we spread the groups ourselves. A threaded BLAS gains nothing then, and where
    another process shares the cores its threads wait for each other: solves become ten times slower.
    """
    # The limit is the process's. Of solves on several threads one sets it and takes it back; the others go along, and lose only speed
    # should they last longer. Were each to restore what it found, the last would restore the limit itself, and the process would keep to
    # one thread for good. The thread that set it must take it back: threadpoolctl heeds no other.
    if not _limiting.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limiting.release()
