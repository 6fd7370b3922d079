# mypy: disable-error-code="no-untyped-call"
"""Answers for rows on a device: the ``Oracle`` of tensors, and Newton on it. Only tables of the size of the prices leave the device.

Labels that are larger than the device stay in the host's memory; a batch is copied while the one before is computed. Samples and curvature
stay on the device; prices and means, which are small, are on the host.

Classes that no group holds and no price touches take no part in a step. Those that do are few where epsilon is not: differences of means
add up to 2 at most, so fewer than 2 / epsilon classes can be held apart between two groups. A small system is solved on the host, where
NumPy is faster than the launch of so many small kernels; a large one on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from types import ModuleType
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from r2b._data.arrays import Flags, Floats
from r2b._data.compute import parts_of
from r2b._labels.task import Task
from r2b._solve.certificate import Problem
from r2b._solve.oracle.reference import Answers, AnyOracle, Evaluation, Inspection, Samples
from r2b._solve.solvers import Limits, Outcome, solve
from r2b._solve.solvers.faces import Steps
from r2b._solve.solvers.newton import Curvature, Newton, NewtonState, level_step
from r2b.engines.torch import plain
from r2b.engines.torch.rows import DeviceRows
from r2b.errors import MissingExtraError

Tensor = torch.Tensor
DeviceKernel = Literal["auto", "triton", "torch"]

_THIN_FROM = 1 << 21  # entries from which a solve starts on a sample
_THIN = 16  # one row in 16, to find prices and to estimate the curvature
_MOST_SAMPLED = 1 << 26  # entries of a sample, however many rows there are
_FEWEST_SAMPLED = 1 << 12  # rows, however many classes
_SUPPORT_ENTRIES = 1 << 26  # of supports that are written down at once


def choose_kernel(choice: DeviceKernel, device: torch.device, n_classes: int) -> ModuleType:
    """Pick the kernel: Triton's on a CUDA device where it is installed, else plain torch.

    Raises
    ------
    MissingExtraError
        Triton was asked for by name and is not installed.
    """
    if choice == "torch" or (choice == "auto" and device.type != "cuda"):
        return plain
    try:
        from r2b.engines.torch import kernels
    except ImportError as cause:
        if choice == "auto":
            return plain
        remedy = "Install it with: pip install triton, or pass kernel='torch'."
        raise MissingExtraError("The fused kernels need Triton, which is not installed.", remedy=remedy, library="triton") from cause
    return plain if choice == "auto" and n_classes > kernels.MOST_CLASSES else kernels


class LabelBatches:
    """Labels on the device as a whole, or in the host's memory and brought to the device in batches.

    Cells, thresholds and the order of the rows take some twenty bytes a row and stay on the device; labels come and go.

    Parameters
    ----------
    y : tensor of shape (N, n_classes)
        Copies overlap with computing where it is pinned (``y.pin_memory()``); else each batch goes through pinned memory.
    rows : DeviceRows
    batch_rows : int, optional
        All rows by default.

    Examples
    --------
    >>> y = torch.tensor([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]])
    >>> batches = LabelBatches(y, DeviceRows(torch.tensor([0, 1, 1]), 2, np.array([1, 2])), batch_rows=2)
    >>> [part.shape[0] for part, _ in batches.parts()]
    [2, 1]
    """

    def __init__(self, y: Tensor, rows: DeviceRows, batch_rows: int | None = None) -> None:
        self.y, self.rows, self.n_classes = y, rows, int(y.shape[1])
        self.slices = parts_of(len(rows), batch_rows or len(rows))
        self.batches = [rows] if len(self.slices) == 1 else [rows.part(each) for each in self.slices]
        self._buffers: list[_Buffer] = []

    def parts(self) -> Iterator[tuple[Tensor, DeviceRows]]:
        """Give labels and rows on the device, one batch after another; the next is on its way while the last is computed."""
        device = self.rows.device
        if self.y.device == device:
            yield from ((self.y[each], rows) for each, rows in zip(self.slices, self.batches, strict=True))
            return
        if not self._buffers:
            self._buffers = [_Buffer(self.slices[0].stop, self.y, device) for _ in self.slices[:2]]
        coming = self._buffers[0].bring(self.y[self.slices[0]])
        for number, rows in enumerate(self.batches):
            labels, buffer = coming, self._buffers[number % 2]
            if number + 1 < len(self.batches):
                coming = self._buffers[(number + 1) % 2].bring(self.y[self.slices[number + 1]])
            torch.cuda.current_stream(device).wait_event(buffer.arrived)
            yield labels, rows
            buffer.left.record(torch.cuda.current_stream(device))

    def sample(self, n_rows: int) -> LabelBatches:
        """Give about this many rows that stand for all of them, on the device."""
        numbers, some = self.rows.sample(n_rows)
        return LabelBatches(self.y[numbers.to(self.y.device)].to(self.rows.device), some)


class _Buffer:
    """Memory on the device for one batch, and pinned memory on the host where labels are not pinned themselves."""

    def __init__(self, n_rows: int, y: Tensor, device: torch.device) -> None:
        self.here = torch.empty(n_rows, y.shape[1], dtype=y.dtype, device=device)
        self.stage = None if y.is_pinned() else torch.empty(n_rows, y.shape[1], dtype=y.dtype, pin_memory=True)
        self.stream: Any = torch.cuda.Stream(device)
        self.arrived: Any = torch.cuda.Event()
        self.left: Any = torch.cuda.Event()
        self.left.record(torch.cuda.current_stream(device))

    def bring(self, batch: Tensor) -> Tensor:
        if self.stage is not None:
            self.arrived.synchronize()  # the copy before may still read the stage
            self.stage[: len(batch)].copy_(batch)
            batch = self.stage[: len(batch)]
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.left)
            self.here[: len(batch)].copy_(batch, non_blocking=True)
            self.arrived.record(self.stream)
        return self.here[: len(batch)]


def batch_rows_for(y: Tensor, device: torch.device) -> int:
    """Choose the rows of a batch: two of them in half of what the device has free, and no more than 4 GB each."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 1 << 30
    return int(max(1, min(free // 4, 1 << 32) // (y.shape[1] * y.element_size())))


class DeviceOracle:
    """Answers for rows on a device.

    Parameters
    ----------
    source : LabelBatches
    cell_weight : ndarray of shape (n_cells,)
        What each cell counts. Means are taken over the rows that are here, so a sample answers for the whole.
    kernel : {"auto", "triton", "torch"}

    Examples
    --------
    >>> rows = DeviceRows(torch.tensor([0, 1]), 2, np.array([1, 1]))
    >>> oracle = DeviceOracle(LabelBatches(torch.tensor([[0.7, 0.3], [0.2, 0.8]], dtype=torch.float64), rows), np.ones(2))
    >>> oracle.evaluate(np.array([[0.1, -0.1], [0.0, 0.0]]), 1.0, curvature=False).means
    array([[0.6, 0.4],
           [0.2, 0.8]])
    """

    def __init__(self, source: LabelBatches, cell_weight: Floats, kernel: DeviceKernel = "auto") -> None:
        self.source, self.cell_weight = source, cell_weight
        self.share = cell_weight / cell_weight.sum()
        self.kernel: DeviceKernel = kernel
        self.kernels = choose_kernel(kernel, source.rows.device, source.n_classes)
        self.reads = 0  # walks over all labels, for those who count them

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool) -> Evaluation:
        """Evaluate all rows at these prices."""
        line = line_of(prices, lam, self.source.rows.device)
        sums, _ = self._walked(lambda y, rows: (self.kernels.walk(y, rows, line),))
        mean = sums / self._cell_mass[:, None]
        curve = self.curvature(prices, lam).cpu().numpy() if curvature else None
        return Evaluation(np.ascontiguousarray(mean[:, :-1]), float(self.share @ mean[:, -1]), curve)

    def inspect(self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Answers | None = None) -> Inspection:
        """Recompute the evidence from the data and the labels that go out at these prices."""
        assert answers is None, "answers row by row belong to rows in memory"
        line = line_of(prices, lam, self.source.rows.device)
        sums, worst = self._walked(lambda y, rows: self.kernels.inspect(y, rows, line, unchanged=unchanged))
        evidence = [*(sums[:, -5:].sum(axis=0) / self.source.rows.mass.sum()).tolist(), float(worst.max())]
        return Inspection(sums[:, :-5] / self._cell_mass[:, None], *evidence)

    def label_means(self) -> Floats:
        """Cell means of the labels as they came in."""
        return np.asarray(self.label_sums[0] / self._cell_mass[:, None])

    @cached_property
    def label_sums(self) -> tuple[Floats, float, float]:
        """Sums of the labels by cell, the least entry, and how far the worst row sum is from 1: seen once, in one walk."""
        sums, worst = self._walked(self.kernels.label_sums)
        return sums, float(worst[:, 0].min()), float(worst[:, 1].max())

    def curvature(self, prices: Floats, lam: float) -> Tensor:
        """Minus the derivative of the cells' means by their prices, of shape (n_cells, n_classes, n_classes), on the device."""
        device, n_classes = self.source.rows.device, self.source.n_classes
        line = line_of(prices, lam, device)
        folded = torch.zeros(self.source.rows.n_cells, n_classes, n_classes, dtype=torch.float64, device=device)
        for y, rows in self.source.parts():
            _add_pairs(self.kernels, y, rows, line, folded)
        self.reads += 1
        folded /= torch.from_numpy(self._cell_mass * lam).to(device)[:, None, None]
        # Each row of 1_A 1_A' / |A| sums to 1 on the support, so the sums of the rows are the diagonal that is wanted.
        return torch.diag_embed(folded.sum(dim=2)) - folded

    def fold(self, prices: Floats, lam: float, design: Floats) -> Floats:
        """Add up the curvature of rows by pairs of columns of the design."""
        curve = self.curvature(prices, lam)
        counted = torch.tensor(design, device=curve.device)
        scaled = torch.from_numpy(self.share[:, None] * design).to(curve.device)
        return np.asarray(torch.einsum("jg,jkl,jh->gkhl", scaled, curve, counted).cpu().numpy())

    def samples(self) -> Samples | None:
        """Give a small and a larger sample, which are the same here, for a solver to come near with; None where all rows are cheap."""
        n_rows, n_classes = len(self.source.rows), self.source.n_classes
        if n_rows * n_classes < _THIN_FROM:
            return None
        wanted = max(_FEWEST_SAMPLED, min(n_rows // _THIN, _MOST_SAMPLED // n_classes))
        sample = DeviceOracle(self.source.sample(wanted), self.cell_weight, self.kernel)
        return Samples(sample, sample)

    def _walked(self, walk: Callable[[Tensor, DeviceRows], tuple[Tensor, ...]]) -> tuple[Floats, Floats]:
        """Walk all rows once: add up sums by cell, and list what the walk found about the rows of each batch."""
        self.reads += 1
        found = [[each.cpu().numpy() for each in walk(y, rows)] for y, rows in self.source.parts()]
        return sum((sums for sums, *_ in found), np.zeros(1)), np.array([worst for _, *worst in found]).reshape(len(found), -1)

    @cached_property
    def _cell_mass(self) -> Floats:
        mass = self.source.rows.mass
        # A cell without weight has no mean; nothing counts it, and 0 stands in for it.
        return np.where(mass > 0, mass, 1.0)


def line_of(prices: Floats, lam: float, device: torch.device) -> Tensor:
    """Put lam and the prices in one line, so that one copy takes both to the device in float64."""
    return torch.from_numpy(np.concatenate([[lam], np.ascontiguousarray(prices, dtype=np.float64).ravel()])).to(device)


def _add_pairs(kernels: ModuleType, y: Tensor, rows: DeviceRows, line: Tensor, total: Tensor) -> None:
    """Add up ``w 1_A 1_A' / |A|`` by cell."""
    n_classes, lanes = y.shape[1], rows.lanes
    most = max(int((lanes.stops - lanes.starts).max()), _SUPPORT_ENTRIES // n_classes)
    supports = torch.empty(min(most, len(rows)), n_classes, dtype=y.dtype, device=y.device)
    for part in lanes.parts(most):
        kernels.supports(y, rows, line, part, supports)
        begin, cells = int(lanes.starts[part.start]), lanes.cells[part]
        edges = [*(np.flatnonzero(np.diff(cells, prepend=-1)) + part.start), part.stop]
        for first, last in pairwise(edges):
            here = supports[int(lanes.starts[first]) - begin : int(lanes.stops[last - 1]) - begin]
            total[int(lanes.cells[first])] += here.T @ here


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

    def _steps(self, state: NewtonState) -> Steps:
        blocks: Any = None if state.curvature is None else state.curvature.blocks
        return super()._steps(state) if blocks is None else partial(self._by_levels, state, blocks)

    def _by_levels(self, state: NewtonState, blocks: Any, damping: float) -> Floats:
        step, clipped = np.zeros_like(state.prices), state.target.clipped
        active = np.flatnonzero(clipped.any(axis=0) | (state.prices != 0).any(axis=0))
        if not len(active):
            return step
        if len(active) < blocks.shape[1]:
            index = torch.from_numpy(active).to(blocks.device)
            blocks = blocks[:, index[:, None], index]
        mine = (clipped[:, active], state.gap[:, active], state.prices[:, active], self.parity.share, damping, self.gamma)
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
