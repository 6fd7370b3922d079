"""Newton for rows on a device: samples and curvature stay there; prices and means, which are small, are on the host.

Classes that no group holds and no price touches take no part in a step. Those that do are few where epsilon is not: differences of means
add up to 2 at most, so fewer than 2 / epsilon classes can be held apart between two groups. A small system is solved on the host, where
NumPy is faster than the launch of so many small kernels; a large one on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from r2b._data.arrays import Flags, Floats
from r2b._labels.task import Task
from r2b._solve.certificate import Problem
from r2b._solve.oracle.reference import AnyOracle
from r2b._solve.solvers import Limits, Outcome, solve
from r2b._solve.solvers.newton import Curvature, Newton, NewtonState, level_step
from r2b.engines.torch.oracle import DeviceOracle

Tensor = torch.Tensor

_ON_HOST = 192  # classes up to which the host solves


@dataclass(frozen=True, eq=False)
class DeviceNewton(Newton):
    """Newton with the curvature left on the device."""

    near: ClassVar[float] = 1e-5  # closer than in memory: here one more step on the sample is cheaper than one more pass

    def _curvature(self, oracle: AnyOracle, prices: Floats, entries: Flags | None = None) -> Curvature:
        if not self.parity.by_levels:
            return super()._curvature(oracle, prices, entries)
        assert isinstance(oracle, DeviceOracle)
        blocks: Any = oracle.curvature(prices, self.lam)
        return Curvature(blocks, [])

    def _step_on_sample(self, state: NewtonState) -> NewtonState | None:
        """Take no steps on the sample in between: there a step costs as much as a walk over all rows, which is short on a device."""
        return None

    def _direction(self, state: NewtonState, damping: float) -> Floats:
        blocks: Any = None if state.curvature is None else state.curvature.blocks
        if blocks is None:
            return super()._direction(state, damping)
        step, clipped = np.zeros_like(state.prices), state.target.clipped
        active = np.flatnonzero(clipped.any(axis=0) | (state.prices != 0).any(axis=0))
        if not len(active):
            return step
        if len(active) < blocks.shape[1]:
            index = torch.from_numpy(active).to(blocks.device)
            blocks = blocks[:, index[:, None], index]
        mine = (clipped[:, active], state.gap[:, active], state.prices[:, active], self.parity.share, damping / self.lam, self.gamma)
        by_device = len(active) > _ON_HOST and blocks.is_cuda
        step[:, active] = device_level_step(blocks, *mine) if by_device else level_step(blocks.cpu().numpy(), *mine)
        return step


def device_level_step(blocks: Tensor, clipped: Flags, gap: Floats, prices: Floats, share: Floats, damping: float, gamma: float) -> Floats:
    """Give the step as :func:`r2b._solve.solvers.newton.level_step` does, with Cholesky factors instead of inverses.

    Raises
    ------
    numpy.linalg.LinAlgError
        A system is not positive definite.
    """
    device, start = blocks.device, np.where(clipped, 0.0, -prices)
    free, right, held, weight = (torch.tensor(each, device=device) for each in (clipped, gap, start, share))
    balance = gamma * (weight @ torch.where(free, right, 0.0))
    right = right - torch.einsum("skl,sl->sk", blocks, held)
    inside = free.double()
    matrix = blocks * inside[:, :, None] * inside[:, None, :]
    matrix.diagonal(dim1=1, dim2=2).add_(torch.where(free, damping, 1.0))
    inverse = torch.cholesky_solve(torch.eye(matrix.shape[1], dtype=torch.float64, device=device).expand_as(matrix), _factor(matrix))
    inverse = inverse * inside[:, :, None] * inside[:, None, :]
    schur = torch.einsum("s,skl->kl", weight, inverse)
    unused = ~free.any(dim=0)
    schur.diagonal().add_(unused.double())
    factor = _factor(schur)
    d, levels = torch.zeros_like(right), torch.zeros_like(balance)
    for _ in range(3):  # the first solves, the others bring back the digits that nearly singular blocks lose
        rest = torch.where(free, right + levels - torch.einsum("skl,sl->sk", matrix, d), 0.0)
        own = torch.einsum("skl,sl->sk", inverse, rest)
        missing = torch.where(unused, 0.0, balance - weight @ (d + own))
        lift = torch.cholesky_solve(missing[:, None], factor)[:, 0]
        d = d + own + torch.einsum("skl,l->sk", inverse, lift)
        levels = levels + lift
    return np.asarray((d + held).cpu().numpy())


def _factor(matrix: Tensor) -> Tensor:
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if bool(failed.any()):
        raise np.linalg.LinAlgError("a system is not positive definite")
    return factor


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceTask(Task):
    """Rows on a device, what is asked of their groups, and the means to solve it."""

    oracle: DeviceOracle

    def _found(self, problem: Problem, limits: Limits, start: Floats | None) -> Outcome:
        samples = self.oracle.samples()
        return solve(problem, self.oracle, samples=samples, tol=self.settings.tol, limits=limits, start=start, newton=DeviceNewton)
