"""Nearest neighbours by brute force, with ties in distance broken by row number on every machine alike.

Neighbours depend on features alone, so one search serves all methods on labels. Where PyTorch sees
a GPU the same arithmetic runs there.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# Squared distances are compared in steps of 1e-8: equal rows tie exactly, although products are
# rounded differently by every BLAS.
_STEPS = 1e8
_BLOCK_ENTRIES = 1 << 23
_GPU_BLOCK_ENTRIES = 1 << 27
# Candidates in single precision first: blocks that fit the cache, and this many candidates beyond
# k.
_QUERIES, _TRAINED, _SPARE = 256, 4_096, 11
# Half a unit in the last place of single precision, times the additions of a product, generously.
_SINGLE_ERROR = 1e-6


def nearest(train: Floats, query: Floats, k: int) -> Codes:
    """Give the k nearest training rows of every query row, nearest first.

    Parameters
    ----------
    train : ndarray of shape (n, d)
    query : ndarray of shape (m, d)
    k : int

    Returns
    -------
    ndarray of shape (m, k)
        Row numbers; of equally distant rows the first ones.

    Examples
    --------
    >>> nearest(np.array([[0.0], [2.0], [2.0], [5.0]]), np.array([[2.1], [0.1]]), 2)
    array([[1, 2],
           [0, 1]])
    """
    squares = (train**2).sum(axis=1), (query**2).sum(axis=1)
    if _gpu() is not None:
        return _on_gpu(train, query, squares, k, _bits(train))
    if len(train) <= 2 * (k + _SPARE) or not _has_kernels():
        return _on_cpu(train, query, squares, k, _bits(train))
    return _in_two_steps(train, query, squares, k)


def _bits(train: Floats) -> int:
    return int(len(train) - 1).bit_length()


def _has_kernels() -> bool:
    return find_spec("numba") is not None


def _in_two_steps(train: Floats, query: Floats, squares: tuple[Floats, Floats], k: int) -> Codes:
    """Find candidates in single precision and order them in double, as :func:`_on_cpu` does; rows it cannot be sure of are left to it."""
    found = np.empty((len(query), k), dtype=np.int64)
    near, rows = _candidates(train, query, squares[0], k + _SPARE)
    # Both as they are compared, without the square of the query row.
    error = _SINGLE_ERROR * (1.0 + squares[0].max() + 2 * np.sqrt(squares[0].max() * squares[1]))
    for start in range(0, len(query), _QUERIES):
        part = slice(start, start + _QUERIES)
        chosen = np.sort(rows[part], axis=1)
        exact = (
            squares[0][chosen]
            - 2 * np.einsum("qd,qcd->qc", query[part], train[chosen])
            + squares[1][part, None]
        )
        order = np.argsort(np.rint(exact * _STEPS), axis=1, kind="stable")[:, :k]
        found[part] = np.take_along_axis(chosen, order, axis=1)
        near[part, 0] = np.take_along_axis(exact, order, axis=1)[:, -1] - squares[1][part]
    unsure = np.flatnonzero(near[:, 0] + error >= near[:, -1])
    if len(unsure):
        found[unsure] = _on_cpu(
            train, query[unsure], (squares[0], squares[1][unsure]), k, _bits(train)
        )
    return found


def _candidates(train: Floats, query: Floats, square: Floats, n_kept: int) -> tuple[Floats, Codes]:
    """Give the smallest squared distances, less the square of the query row, and their rows, in single precision."""
    from experiments.neighbour_kernels import keep_smallest

    # One more column each, so that the product is the distance itself.
    asked = np.column_stack([query, np.ones(len(query))]).astype(np.float32)
    known = np.column_stack([-2 * train, square]).astype(np.float32)
    blocks = [
        np.ascontiguousarray(known[start : start + _TRAINED].T)
        for start in range(0, len(known), _TRAINED)
    ]
    near = np.full((len(query), n_kept), np.inf, dtype=np.float32)
    rows = np.zeros((len(query), n_kept), dtype=np.int64)
    for start in range(0, len(query), _QUERIES):
        part = slice(start, start + _QUERIES)
        for number, block in enumerate(blocks):
            keep_smallest(asked[part] @ block, number * _TRAINED, near[part], rows[part])
    return near.astype(np.float64), rows


def _on_cpu(
    train: Floats, query: Floats, squares: tuple[Floats, Floats], k: int, bits: int
) -> Codes:
    found = np.empty((len(query), k), dtype=np.int64)
    size = max(1, _BLOCK_ENTRIES // len(train))
    rows = np.arange(len(train))
    for start in range(0, len(query), size):
        part = slice(start, start + size)
        distance = query[part] @ train.T
        distance *= -2.0
        distance += squares[0]
        distance += squares[1][part, None]
        distance *= _STEPS
        # Distance above, row number below: one number per pair, and no two alike.
        keys = np.rint(distance, out=distance).astype(np.int64)
        keys <<= bits
        keys |= rows
        keys.partition(k - 1, axis=1)
        found[part] = np.sort(keys[:, :k], axis=1) & ((1 << bits) - 1)
    return found


def _on_gpu(
    train: Floats, query: Floats, squares: tuple[Floats, Floats], k: int, bits: int
) -> Codes:
    torch = _gpu()
    known = torch.from_numpy(train).cuda()
    norms = torch.from_numpy(squares[0]).cuda()
    rows = torch.arange(len(train), device="cuda")
    found = np.empty((len(query), k), dtype=np.int64)
    size = max(1, _GPU_BLOCK_ENTRIES // len(train))
    for start in range(0, len(query), size):
        part = slice(start, start + size)
        asked = torch.from_numpy(query[part]).cuda()
        distance = torch.addmm(norms, asked, known.T, alpha=-2.0)
        distance += torch.from_numpy(squares[1][part, None]).cuda()
        keys = distance.mul_(_STEPS).round_().long()
        keys = keys.bitwise_left_shift_(bits).bitwise_or_(rows)
        closest = keys.topk(k, dim=1, largest=False, sorted=True).values
        found[part] = closest.bitwise_and_((1 << bits) - 1).cpu().numpy()
    return found


def _gpu() -> Any:
    """Give PyTorch if it is loaded or loadable and sees a GPU; a machine without one does not wait for the import."""
    from pathlib import Path

    if "torch" not in sys.modules and not Path("/dev/nvidia0").exists():
        return None
    try:
        import torch
    except ModuleNotFoundError:
        return None
    return torch if torch.cuda.is_available() else None
