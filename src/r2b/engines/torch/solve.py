"""Solving for rows on a device: the house's Newton and its driver, with samples and linear algebra that stay on the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from r2b._data.compute import one_blas_thread
from r2b._labels.task import Task
from r2b._solve.certificate import Problem
from r2b._solve.solvers import Limits, Outcome
from r2b._solve.solvers.driver import Stage, run
from r2b._solve.solvers.newton import Newton, NewtonState
from r2b._solve.solvers.plan import exact_plan
from r2b.engines.torch.levels import DeviceCurvature, level_step
from r2b.engines.torch.oracle import DeviceOracle

Floats = NDArray[np.float64]

_NEAR = 1e-3  # residual at which a stage on an easier problem has done its part
_SAMPLED = 1e-5  # residual on the sample: below, what the sample lacks decides
_PATIENCE = 15  # steps with an estimated curvature; four or five are the rule


@dataclass(frozen=True, eq=False)
class DeviceNewton(Newton):
    """Newton with the curvature left on the device; prices and means, which are small, are the host's."""

    def step(self, state: NewtonState) -> NewtonState:
        """One accepted step, as :meth:`r2b._solve.solvers.newton.Newton.step`."""
        oracle: Any = self.sample or self.oracle
        if state.curvature is None and self.parity.simple:
            measured: Any = DeviceCurvature(oracle.curvature(state.prices, self.lam))
            state = replace(state, curvature=measured)
        return super().step(state)

    def _step_on_sample(self, state: NewtonState) -> NewtonState | None:
        """Take no steps on the sample in between: there a step costs as much as a walk over all rows, which is short on a device."""
        return None

    def _direction(self, state: NewtonState, damping: float) -> Floats:
        curvature: Any = state.curvature
        if not isinstance(curvature, DeviceCurvature):
            return super()._direction(state, damping)
        try:
            return level_step(curvature.blocks, state.target, state.gap, state.prices, self.parity.share, damping / self.lam, self.gamma)
        except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined, unused-ignore]
            raise np.linalg.LinAlgError(str(error)) from error


def device_plan(problem: Problem, oracle: DeviceOracle, tol: float) -> Iterator[Stage]:
    """Stages that lead to the optimum: on a sample, on all rows with the sample's curvature, on all rows; then as anywhere."""
    lam, parity = float(problem.lam), problem.parity
    sample = oracle.sample()
    newton = partial(DeviceNewton, parity=parity)
    small = oracle if sample is None else sample
    thirds = int(np.ceil(np.log(1.0 / lam) / np.log(3.0))) if lam < 1.0 else 0
    stages = [(small, lam * 3.0**power, _NEAR) for power in range(thirds, 0, -1)]
    if sample is not None:
        stages.append((sample, lam, max(_SAMPLED, tol)))
    for step, (walker, easier, near) in enumerate(stages):
        gentler = newton(walker, lam=easier, name=f"prepare, lam {easier:.3g}")
        yield Stage(gentler, near, 20, final=False, refine=partial(_shifted, gentler) if step == 0 else None)
    if sample is not None:
        sampled = newton(oracle, lam=lam, sample=sample, name="newton, sampled curvature")
        yield Stage(sampled, tol, _PATIENCE, refine=_afresh)
    whole = newton(oracle, lam=lam)
    yield Stage(whole, tol, 40, refine=None if stages else partial(_shifted, whole))
    yield from exact_plan(problem, oracle, None, tol)


def _shifted(newton: Newton, state: NewtonState, last: object) -> Iterator[Floats]:
    yield newton.mean_shift(state)


def _afresh(state: NewtonState, last: NewtonState) -> Iterator[Floats]:
    # A sample may have no answer where a bound is met at the border of the simplex alone; its prices are then worth nothing.
    if last.residual > _NEAR:
        yield np.zeros_like(state.prices)


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceTask(Task):
    """Rows on a device, what is asked of their groups, and the means to solve it."""

    oracle: DeviceOracle

    def _found(self, problem: Problem, limits: Limits, start: Floats | None) -> Outcome:
        prices = np.zeros((problem.n_groups, problem.n_classes)) if start is None else start
        with one_blas_thread():
            outcome = run(device_plan(problem, self.oracle, self.settings.tol), prices, limits, problem.parity)
        # Within rounding prices have parts that buy nothing, such as a constant per class; the certificate wants them gone.
        outcome.prices = problem.parity.canonical(outcome.prices, problem.reach)
        return outcome
