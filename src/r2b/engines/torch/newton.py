# mypy: disable-error-code="no-untyped-call"
"""Newton on rows of a device, whose steps end where a quadratic model of the rows has its answer.

The curvature stays on the device, and so does the search for that answer: it takes the bound as it
is, so that the entries that lean on it are found without a walk over the rows. Where it does not
get there, a step of linear algebra is taken, as in memory. Classes that no group holds and no price
touches take no part in that one. Those that do are few where epsilon is not: differences of means
add up to 2 at most, so fewer than 2 / epsilon classes can be held apart between two groups. A small
system is solved on the host, where NumPy is faster than the launch of so many small kernels; a
large one on the device. Of short tables every walk brings the curvature along, and steps are those
of rows in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from r2b._constraints.parity import Parity
from r2b._data.arrays import Flags, Floats
from r2b._labels.task import Task
from r2b._solve.certificate import Problem
from r2b._solve.oracle.reference import AnyOracle
from r2b._solve.solvers import Limits, Outcome, solve
from r2b._solve.solvers.bands import BandNewton, Bands
from r2b._solve.solvers.faces import Curvature, Steps
from r2b._solve.solvers.newton import Newton, NewtonState, level_step
from r2b.engines.torch import plain
from r2b.engines.torch.oracle import DeviceOracle

Tensor = torch.Tensor

_ON_HOST = 192  # classes up to which the host solves
_MOST_GROUPS = 64  # of a model
_LONG = 1 << 20  # entries of labels from which a model pays on the host
_ROUNDS = 192  # steps on a model
_GOAL, _ENOUGH = 1e-3, 0.1  # of the residual: what is to be left on the model, and what may be
_TRIES, _DAMPED = 4, 0.1  # of a step, and the damping of the second: of the metric
_KEEPS = 0.03  # a step must gain this much for its curvature to be kept
# of the bound on curvature, in units of 1 / lam: what a class is given that no row trades
_FLATTEST = 1e-4
_WIDEST = 1e3  # a band that holds all means


def _modelled(parity: Parity, oracle: DeviceOracle) -> bool:
    """Whether steps go to the answer of a model: with kernels that find it on the device; on the host where a walk costs more than that."""
    rows = oracle.source.rows
    long = rows.device.type == "cpu" and len(rows) * oracle.source.n_classes >= _LONG
    return (
        parity.simple and parity.n_groups <= _MOST_GROUPS and (oracle.kernels is not plain or long)
    )


@dataclass(frozen=True, eq=False)
class DeviceCurvature(Curvature):
    """Blocks on the device, with a diagonal above those of all groups.

    Attributes
    ----------
    metric : tensor of shape (n_classes,), float64
    rough : tensor of shape (n_groups, n_classes, n_classes)
        The blocks in single precision, where those are on a GPU.
    """

    metric: Any = None
    rough: Any = None


@dataclass(frozen=True, eq=False)
class DeviceNewton(Newton):
    """Newton with the curvature left on the device, and steps to the answer of the model that it makes."""

    def step(self, state: NewtonState) -> NewtonState:
        """Go where the model of the rows has its answer; where that brings nothing, take a step of linear algebra."""
        assert isinstance(self.oracle, DeviceOracle)
        if not _modelled(self.parity, self.oracle):
            return super().step(state)
        curvature, damping = self._serving(state, self.sample or self.oracle), state.damping
        assert isinstance(curvature, DeviceCurvature)
        for _ in range(_TRIES):
            prices = self._on_model(state, curvature, damping)
            if prices is None:
                break
            found = self._evaluate(prices, damping=max(damping / 20, 1e-13))
            if self._accept(state, found):
                return (
                    replace(found, curvature=curvature)
                    if found.residual <= _KEEPS * state.residual
                    else found
                )
            damping = max(8 * damping, _DAMPED)
        return super().step(replace(state, curvature=curvature))

    def _on_model(
        self, state: NewtonState, curvature: DeviceCurvature, damping: float
    ) -> Floats | None:
        """Give the prices that answer their means, if these follow the curvature; None where they were not found."""
        oracle, parity = self.oracle, self.parity
        assert isinstance(oracle, DeviceOracle)
        start, settings = (
            np.stack([state.means, state.prices]),
            [_GOAL * state.residual, 1.0 / self.gamma, damping],
        )
        sides = np.concatenate([settings, parity.share, np.minimum(parity.bound.epsilon, _WIDEST)])
        prices, left = oracle.kernels.descend(
            curvature.rough, curvature.metric, start, sides, _ROUNDS
        )
        return np.asarray(prices) if left <= _ENOUGH * state.residual else None

    def _curvature(
        self, oracle: AnyOracle, prices: Floats, entries: Flags | None = None
    ) -> Curvature:
        if not self.parity.by_levels:
            return super()._curvature(oracle, prices, entries)
        assert isinstance(oracle, DeviceOracle)
        blocks, bound = oracle.curvature_and_bound(prices, self.lam)
        metric = torch.clamp(bound.amax(dim=0), min=_FLATTEST / self.lam)
        found: Any = blocks
        return DeviceCurvature(
            found, [], metric=metric, rough=blocks.float() if blocks.is_cuda else blocks
        )

    def _step_on_sample(self, state: NewtonState) -> NewtonState | None:
        """Take no steps on the sample in between: there a step costs as much as a walk over all rows, which is short on a device."""
        return None

    def _steps(self, state: NewtonState, *, sides: bool = True) -> Steps:
        blocks: Any = None if state.curvature is None else state.curvature.blocks
        return (
            super()._steps(state, sides=sides)
            if blocks is None
            else partial(self._by_levels, state, blocks)
        )

    def _by_levels(self, state: NewtonState, blocks: Any, damping: float) -> Floats:
        step, clipped = np.zeros_like(state.prices), state.target.clipped
        active = np.flatnonzero(clipped.any(axis=0) | (state.prices != 0).any(axis=0))
        if not len(active):
            return step
        if len(active) < blocks.shape[1]:
            index = torch.from_numpy(active).to(blocks.device)
            blocks = blocks[:, index[:, None], index]
        mine = (
            clipped[:, active],
            state.gap[:, active],
            state.prices[:, active],
            self.parity.share,
            damping,
            self.gamma,
        )
        by_device = len(active) > _ON_HOST and blocks.is_cuda
        step[:, active] = (
            device_level_step(blocks, *mine)
            if by_device
            else level_step(blocks.cpu().numpy(), *mine)
        )
        return step


def device_level_step(
    blocks: Tensor,
    clipped: Flags,
    gap: Floats,
    prices: Floats,
    share: Floats,
    damping: float,
    gamma: float,
) -> Floats:
    """Give the step as :func:`r2b._solve.solvers.newton.level_step` does, with Cholesky factors instead of inverses.

    Raises
    ------
    numpy.linalg.LinAlgError
        A system is not positive definite.
    """
    device, start = blocks.device, np.where(clipped, 0.0, -prices)
    free, right, held, weight = (
        torch.tensor(each, device=device) for each in (clipped, gap, start, share)
    )
    balance = gamma * (weight @ torch.where(free, right, 0.0))
    right = right - torch.einsum("skl,sl->sk", blocks, held)
    inside = free.double()
    matrix = blocks * inside[:, :, None] * inside[:, None, :]
    matrix.diagonal(dim1=1, dim2=2).add_(torch.where(free, damping, 1.0))
    inverse = torch.cholesky_solve(
        torch.eye(matrix.shape[1], dtype=torch.float64, device=device).expand_as(matrix),
        _factor(matrix),
    )
    inverse = inverse * inside[:, :, None] * inside[:, None, :]
    schur = torch.einsum("s,skl->kl", weight, inverse)
    unused = ~free.any(dim=0)
    schur.diagonal().add_(unused.double())
    factor = _factor(schur)
    d, levels = torch.zeros_like(right), torch.zeros_like(balance)
    # the first solves, the others bring back the digits that nearly singular blocks lose
    for _ in range(3):
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
        newton = (
            DeviceNewton
            if not self.oracle.curved
            else partial(BandNewton, bands=Bands.of(problem.parity))
        )
        samples = self.oracle.samples(modelled=_modelled(problem.parity, self.oracle))
        if (
            start is None
            and samples is None
            and problem.lam == 1.0
            and problem.parity.design is None
        ):
            # Where nothing is asked of them yet rows answer with their labels, whose means are
            # known.
            start = self.before - problem.parity.project(self.before).means
        outcome = solve(
            problem,
            self.oracle,
            samples=samples,
            tol=self.settings.tol,
            limits=limits,
            start=start,
            newton=newton,
        )
        if problem.parity.design is None:
            outcome.prices = self.oracle.as_seen(outcome.prices)
        return outcome
