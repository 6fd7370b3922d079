"""Compiled loops, free memory, fixed parts of long arrays walked by threads, and seeds."""

from __future__ import annotations

import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from r2b.errors import MemoryLimitError, ParameterError

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered so that they vectorise. Infinities and NaN keep their meaning: a missing
# threshold is a NaN.
_REORDER = {"reassoc", "contract", "nsz"}


def compiled(
    function: Function, *, reorder_sums: bool = False, parts: Sequence[Callable[..., Any]] = ()
) -> Function:
    """Compile a function of arrays and loops; it releases the interpreter lock while it runs.

    Parameters
    ----------
    function : callable
    reorder_sums : bool
        Let the compiler reorder floating-point sums. The result is still the same in every run.
    parts : sequence of callable
        Plain functions that it calls: they are compiled with it, and stay as they are for whoever
        calls them interpreted.

    Raises
    ------
    ImportError
        numba is not installed.
    """
    import numba  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from numba.extending import register_jitable

    for part in parts:
        register_jitable(part)
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": _REORDER if reorder_sums else False,
    }
    try:
        result: Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # numba found no directory that it may write to; compiling again in each process is all that
        # is lost.
        result = numba.njit(**options)(function)
    return result


def compiled_kernel(function: Function) -> Function:
    """Compile a row kernel, whose sums may be reordered."""
    return compiled(function, reorder_sums=True)


_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available() -> int | None:
    """Return the bytes that this process may still take; None where nobody says."""
    found = []
    for limit, used in _CGROUPS:
        with suppress(OSError, ValueError):  # no container, or one without a limit ("max")
            free = int(Path(limit).read_text("ascii")) - int(Path(used).read_text("ascii"))
            found.append(max(free, 0))
    with suppress(OSError, ValueError):
        memory = Path("/proc/meminfo").read_text("ascii").split()
        found.append(int(memory[memory.index("MemAvailable:") + 1]) * 1024)
    return min(found, default=None)


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
        sizes = format_bytes(needed), format_bytes(left)
        problem = f"{what} would take {sizes[0]} of memory, and {sizes[1]} are available."
        raise MemoryLimitError(problem, remedy=remedy, needed=needed, available=left)


_WORTH_ASKING = 1 << 26  # bytes below which asking costs more than it is worth


def format_bytes(size: int) -> str:
    """Return a number of bytes in the unit that suits it.

    Examples
    --------
    >>> format_bytes(16_000_000_000), format_bytes(2_500), format_bytes(12)
    ('16.0 GB', '2.5 kB', '12 bytes')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"


Result = TypeVar("Result")


def cores() -> int:
    """Return the number of cores this process may use, which may be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parts_of(n_rows: int, size: int, first: int = 0) -> list[slice]:
    """Cut rows, from the first on, into parts of ``size``, the last one shorter.

    Examples
    --------
    >>> parts_of(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + size, n_rows)) for start in range(first, n_rows, size)]


def matrix_parts(n_rows: int, n_columns: int) -> list[slice]:
    """Cut rows into parts of about 2 MB of float64.

    Examples
    --------
    >>> matrix_parts(5, 1 << 17)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return parts_of(n_rows, max(1, (1 << 18) // max(1, n_columns)))


def in_order(
    work: Callable[[slice], Result], parts: Sequence[slice], threads: int | None = None
) -> Iterator[Result]:
    """Return the results of ``work`` on each part in order, however many threads do it.

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
    n_threads = min(threads or (shared[0] if shared else cores()), len(parts))
    if n_threads <= 1:
        yield from map(work, parts)
        return
    # Handing over a part takes as long as some parts do.
    size = -(-len(parts) // (8 * n_threads))
    several = [parts[start : start + size] for start in range(0, len(parts), size)]

    def work_on(some: Sequence[slice]) -> list[Result]:
        return [work(part) for part in some]

    if shared is not None and n_threads >= min(shared[0], len(parts)):
        yield from chain.from_iterable(shared[1].map(work_on, several))
    else:  # a pool per pass: no pool has to survive a fork or be shut down
        yield from chain.from_iterable(work_ahead(work_on, several, n_threads))


_workers: ContextVar[tuple[int, ThreadPoolExecutor] | None] = ContextVar("_workers", default=None)


@contextmanager
def workers(threads: int | None = None) -> Iterator[None]:
    """Walk parts by so many threads (all cores by default), which are started once.

    A solve makes thousands of passes over small tables; a pool for each would cost more than the
    passes.

    Examples
    --------
    >>> with workers(1):
    ...     list(in_order(lambda part: part.stop, parts_of(5, 2)))
    [2, 4, 5]
    """
    n_threads = threads or cores()
    with ThreadPoolExecutor(n_threads) as pool:  # no thread starts before there is work
        token = _workers.set((n_threads, pool))
        try:
            yield
        finally:
            _workers.reset(token)


def products(blocks: NDArray[Any], vectors: NDArray[Any]) -> NDArray[Any]:
    """Multiply each of several matrices by its vector, which is faster than einsum.

    Examples
    --------
    >>> products(np.array([[[2.0, 0.0], [0.0, 4.0]]]), np.array([[1.0, 3.0]]))
    array([[ 2., 12.]])
    """
    return np.asarray(np.matmul(blocks, vectors[:, :, None])[:, :, 0])


_limiting = Lock()


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped, unused-ignore]

    return ThreadpoolController()


@contextmanager
def one_blas_thread(entries: int | None = None) -> Iterator[None]:
    """Keep linear algebra on the calling thread.

    Its matrices are small, or long and read once, or there is one per group and we spread the
    groups ourselves. A threaded BLAS gains nothing then: its threads stay awake for a while after
    each product, and where something else wants the cores they wait for each other, and solves
    become ten times slower.

    Parameters
    ----------
    entries : int, optional
        Of the largest matrix. Where no BLAS would start a thread for so few the limit is not set,
        which would cost more than it saves.
    """
    if entries is not None and entries < 1 << 13:
        yield
        return
    # The limit is the process's. Of solves on several threads one sets it and takes it back; the
    # others go along, and lose only speed should they last longer. Were each to restore what it
    # found, the last would restore the limit itself, and the process would keep to one thread for
    # good. The thread that set it must take it back: threadpoolctl heeds no other.
    if not _limiting.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limiting.release()


def generator(random_state: Any) -> np.random.Generator:
    """Return the generator that a seed stands for; a generator itself is used as it is.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None
        The same number gives the same draws; None new ones each time.

    Raises
    ------
    ParameterError
        Anything that NumPy makes no generator of, such as text or a number below 0.

    Examples
    --------
    >>> int(generator(7).integers(100)) == int(np.random.default_rng(7).integers(100))
    True
    """
    try:
        if isinstance(random_state, bool):
            raise TypeError
        if isinstance(random_state, np.random.RandomState):  # NumPy takes it from 2.2 on
            return np.random.Generator(random_state._bit_generator)
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise _no_seed(random_state, "of zero or more") from None


def _no_seed(random_state: Any, which: str) -> ParameterError:
    remedy = (
        f"Pass a whole number {which}, a generator of NumPy, or None for other draws each time."
    )
    return ParameterError(
        f"random_state is {random_state!r}.", remedy=remedy, random_state=random_state
    )


def seed_of(random_state: Any) -> int:
    """Return the seed from which draws for rows follow.

    It is the number itself, or one drawn from a generator.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None
        As for :func:`generator`.

    Raises
    ------
    ParameterError
        It is no seed, or a number of more than 63 bits.

    Examples
    --------
    >>> seed_of(7), seed_of(np.random.default_rng(7)) == seed_of(np.random.default_rng(7))
    (7, True)
    """
    if isinstance(random_state, bool) or not isinstance(random_state, (int, np.integer)):
        return int(generator(random_state).integers(2**63))
    if not 0 <= int(random_state) < 2**63:
        raise _no_seed(random_state, "from 0 to 2**63 - 1")
    return int(random_state)


Item = TypeVar("Item")


def work_ahead(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None
) -> Iterator[Result]:
    """Return results in the order of the items while threads work on the next few.

    Unlike a pool's own ``map`` it does not take all items at once: what waits is bounded, and so is
    the memory.

    Examples
    --------
    >>> list(work_ahead(abs, [-1, -2, -3], threads=2))
    [1, 2, 3]
    """
    n_threads = cores() if threads is None else threads
    if n_threads <= 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(n_threads)
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for each in waiting:
            each.cancel()
        pool.shutdown(wait=True)


def release_memory() -> None:
    """Return free memory to the system, which Arrow and the C library keep.

    Examples
    --------
    >>> release_memory()
    """
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    # glibc's, and no other's
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
