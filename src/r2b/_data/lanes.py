"""Long arrays in fixed parts, walked by threads and put together in order, so that the number of threads never shows in a result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
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
        All cores by default, or what :func:`workers` says.

    Examples
    --------
    >>> list(in_order(lambda part: part.stop, parts_of(5, 2)))
    [2, 4, 5]
    """
    shared = _workers.get()
    n_threads = min(threads or (shared.threads if shared else cores()), len(parts))
    if n_threads <= 1:
        yield from map(work, parts)
        return
    if shared is not None and n_threads >= min(shared.threads, len(parts)):
        yield from shared.pool.map(work, parts)
        return
    # A pool per pass: no pool has to survive a fork or be shut down.
    with ThreadPoolExecutor(n_threads) as pool:
        yield from pool.map(work, parts)


@dataclass(eq=False)
class _Workers:
    threads: int

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads)


_workers: ContextVar[_Workers | None] = ContextVar("_workers", default=None)


@contextmanager
def workers(threads: int | None = None) -> Iterator[None]:
    """Walk parts by so many threads (all cores by default) within this context, and start them once.

    A solve makes thousands of passes over small tables; a pool for each would cost more than the passes.

    Examples
    --------
    >>> with workers(1):
    ...     list(in_order(lambda part: part.stop, parts_of(5, 2)))
    [2, 4, 5]
    """
    mine = _Workers(threads or cores())
    token = _workers.set(mine)
    try:
        yield
    finally:
        _workers.reset(token)
        if "pool" in vars(mine):
            mine.pool.shutdown()


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
