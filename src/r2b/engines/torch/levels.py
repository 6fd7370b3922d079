"""The Newton step of the paper's bound with the curvature left on the device.

Classes that no group holds and no price touches take no part in the step. Those that do are few where epsilon is not: differences of means
add up to 2 at most, so fewer than 2 / epsilon classes can be held apart between two groups. A small system is solved on the host, where
NumPy is faster than the launch of so many small kernels; a large one on the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from r2b._constraints.parity import Projected
from r2b._solve.solvers.blocks import LevelSystem

Floats = NDArray[np.float64]
Tensor = torch.Tensor

_ON_HOST = 192  # classes up to which the host solves


@dataclass(frozen=True, eq=False)
class DeviceCurvature:
    """Minus the derivative of the group means by the prices, on the device; groups are the cells.

    Attributes
    ----------
    blocks : tensor of shape (n_groups, n_classes, n_classes)
    """

    blocks: Tensor


def level_step(curvature: Tensor, target: Projected, gap: Floats, prices: Floats, share: Floats, damping: float, gamma: float) -> Floats:
    """Give the step from these prices: entries inside the band go to price 0, those on it share one level per class.

    Raises
    ------
    numpy.linalg.LinAlgError
        The system is singular to the last bit.
    """
    clipped = target.clipped
    taking_part = np.flatnonzero(clipped.any(axis=0) | (prices != 0).any(axis=0))
    step = np.zeros_like(prices)
    if not len(taking_part):
        return step
    held = np.where(clipped, 0.0, -prices)[:, taking_part]
    free, right = clipped[:, taking_part], gap[:, taking_part]
    balance = gamma * (share @ np.where(free, right, 0.0))
    blocks = _chosen(curvature, taking_part)
    solve = _by_host if len(taking_part) <= _ON_HOST or not curvature.is_cuda else _by_device
    step[:, taking_part] = solve(blocks, free, right, held, share, balance, damping) + held
    return step


def _chosen(curvature: Tensor, classes: NDArray[np.intp]) -> Tensor:
    if len(classes) == curvature.shape[1]:
        return curvature
    index = torch.from_numpy(classes).to(curvature.device)
    return curvature[:, index[:, None], index[None, :]]


def _by_host(blocks: Tensor, free: NDArray[np.bool_], gap: Floats, held: Floats, share: Floats, balance: Floats, damping: float) -> Floats:
    curvature = blocks.cpu().numpy()
    right = gap - np.einsum("skl,sl->sk", curvature, held)
    damped = curvature.copy()
    np.einsum("skk->sk", damped)[:] += damping
    return LevelSystem(damped, free, share).solve(right, balance)


def _by_device(
    blocks: Tensor, free: NDArray[np.bool_], gap: Floats, held: Floats, share: Floats, balance: Floats, damping: float
) -> Floats:
    """Solve as :class:`r2b._solve.solvers.blocks.LevelSystem` does, group by group, with Cholesky factors instead of inverses."""
    device = blocks.device
    mask, right, start, weight, want = (torch.tensor(each, device=device) for each in (free, gap, held, share, balance))
    right = right - torch.einsum("skl,sl->sk", blocks, start)
    inside = mask.double()
    matrix = blocks * inside[:, :, None] * inside[:, None, :]
    matrix.diagonal(dim1=1, dim2=2).add_(torch.where(mask, damping, 1.0))
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if bool(failed.any()):
        raise np.linalg.LinAlgError("a block is not positive definite")
    inverse = torch.cholesky_solve(torch.eye(matrix.shape[1], dtype=torch.float64, device=device).expand_as(matrix), factor)
    inverse = inverse * inside[:, :, None] * inside[:, None, :]
    schur = torch.einsum("s,skl->kl", weight, inverse)
    unused = ~mask.any(dim=0)
    schur.diagonal().add_(unused.double())
    levels_of, failed = torch.linalg.cholesky_ex(schur)
    if bool(failed):
        raise np.linalg.LinAlgError("the system of the levels is not positive definite")
    d, levels = torch.zeros_like(right), torch.zeros_like(want)
    for _ in range(3):  # the first solves, the others bring back the digits that nearly singular blocks lose
        rest = torch.where(mask, right + levels - torch.einsum("skl,sl->sk", matrix, d), 0.0)
        own = torch.einsum("skl,sl->sk", inverse, rest)
        missing = torch.where(unused, 0.0, want - weight @ (d + own))
        lift = torch.cholesky_solve(missing[:, None], levels_of)[:, 0]
        d = d + own + torch.einsum("skl,l->sk", inverse, lift)
        levels = levels + lift
    step: Floats = d.cpu().numpy()
    return step
