"""Answers for rows on a device: the ``Oracle`` of tensors. Only tables of the size of the prices leave the device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from types import ModuleType
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from r2b._solve.oracle.protocol import Evaluation, Inspection
from r2b.engines.torch import plain
from r2b.engines.torch.rows import DeviceRows
from r2b.errors import MissingExtraError

Floats = NDArray[np.float64]
Tensor = torch.Tensor
KernelChoice = Literal["auto", "triton", "torch"]

_THIN_FROM = 1 << 21  # entries from which a solve starts on a sample
_THIN = 16  # one row in 16, to find prices and to estimate the curvature
_MOST_SAMPLED = 1 << 26  # entries of a sample, however many rows there are
_FEWEST_SAMPLED = 1 << 12  # rows, however many classes
_SUPPORT_ENTRIES = 1 << 26  # of supports that are written down at once


def choose_kernel(choice: KernelChoice, y: Tensor) -> ModuleType:
    """Pick the kernel: Triton's on a CUDA device where it is installed, else plain torch.

    Raises
    ------
    MissingExtraError
        Triton was asked for by name and is not installed.
    """
    if choice == "torch" or (choice == "auto" and not y.is_cuda):
        return plain
    try:
        from r2b.engines.torch import kernels
    except ImportError as cause:
        if choice == "auto":
            return plain
        raise MissingExtraError(
            "The fused kernels need Triton, which is not installed.",
            remedy="Install it with: pip install triton, or pass kernel='torch'.",
            library="triton",
        ) from cause
    return plain if choice == "auto" and y.shape[1] > kernels.MOST_CLASSES else kernels


class TensorSource(Protocol):
    """Where labels come from: one tensor on the device, or batches that are brought to it."""

    n_cells: int
    n_classes: int
    rows: DeviceRows

    @property
    def mass(self) -> Floats:
        """Weight of the rows of each cell."""
        ...

    def parts(self) -> Iterator[tuple[Tensor, DeviceRows]]:
        """Give labels and rows, part after part, on the device."""
        ...

    def take(self, n_rows: int) -> tuple[Tensor, DeviceRows]:
        """Give about this many rows that stand for all of them, on the device."""
        ...


class Resident:
    """Labels that are on the device as a whole."""

    def __init__(self, y: Tensor, rows: DeviceRows) -> None:
        self.y, self.rows = y, rows
        self.n_cells, self.n_classes = rows.n_cells, int(y.shape[1])

    @property
    def mass(self) -> Floats:
        """Weight of the rows of each cell."""
        return self.rows.mass

    def parts(self) -> Iterator[tuple[Tensor, DeviceRows]]:
        """Give them."""
        yield self.y, self.rows

    def take(self, n_rows: int) -> tuple[Tensor, DeviceRows]:
        """Give about this many rows that stand for all of them."""
        numbers, some = self.rows.sample(n_rows)
        return self.y[numbers], some


class DeviceOracle:
    """Answers for rows on a device.

    Parameters
    ----------
    source : TensorSource
    cell_weight : ndarray of shape (n_cells,)
        What each cell counts. Means are taken over the rows that are here, so a sample answers for the whole.
    kernel : {"auto", "triton", "torch"}

    Examples
    --------
    >>> rows = DeviceRows(torch.tensor([0, 1]), 2, np.array([1, 1]))
    >>> oracle = DeviceOracle(Resident(torch.tensor([[0.7, 0.3], [0.2, 0.8]], dtype=torch.float64), rows), np.ones(2))
    >>> oracle.evaluate(np.array([[0.1, -0.1], [0.0, 0.0]]), 1.0, curvature=False).means
    array([[0.6, 0.4],
           [0.2, 0.8]])
    """

    def __init__(self, source: TensorSource, cell_weight: Floats, kernel: KernelChoice = "auto") -> None:
        self.source = source
        self.cell_weight = cell_weight
        self.kernel: KernelChoice = kernel
        self.reads = 0  # walks over all labels, for those who count them

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool) -> Evaluation:
        """Evaluate all rows at these prices."""
        sums = self._added(lambda kernel, y, rows, line: kernel.walk(y, rows, line), prices, lam)
        mean = sums / self._cell_mass[:, None]
        share = self.cell_weight / self.cell_weight.sum()
        curve = self.curvature(prices, lam).cpu().numpy() if curvature else None
        return Evaluation(np.ascontiguousarray(mean[:, :-1]), float(share @ mean[:, -1]), curve)

    def inspect(self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Floats | None = None) -> Inspection:
        """Recompute the evidence from the data and the labels that go out at these prices."""
        assert answers is None, "answers row by row belong to rows in memory"
        worst = 0.0
        sums = np.zeros((self.source.n_cells, self.source.n_classes + 5))
        self.reads += 1
        for y, rows in self.source.parts():
            found, off = choose_kernel(self.kernel, y).inspect(y, rows, line_of(prices, lam, y.device), unchanged=unchanged)
            sums += found.cpu().numpy()
            worst = max(worst, float(off))
        mass = self._cell_mass
        slack, squared_norm, agreement, squared_distance, moved = (sums[:, -5:].sum(axis=0) / self.source.mass.sum()).tolist()
        return Inspection(sums[:, :-5] / mass[:, None], slack, squared_norm, agreement, squared_distance, moved, worst)

    def label_means(self) -> Floats:
        """Cell means of the labels as they came in."""
        means: Floats = self.looked[0] / self._cell_mass[:, None]
        return means

    @cached_property
    def looked(self) -> tuple[Floats, float, float]:
        """Sums of the labels by cell, the least entry, and how far the worst row sum is from 1: seen once, in one walk."""
        sums = np.zeros((self.source.n_cells, self.source.n_classes))
        least, off = 0.0, 0.0
        self.reads += 1
        for y, rows in self.source.parts():
            found, worst = choose_kernel(self.kernel, y).label_sums(y, rows)
            sums += found.cpu().numpy()
            low, high = worst.tolist()
            least, off = min(least, low), max(off, high)
        return sums, least, off

    def curvature(self, prices: Floats, lam: float) -> Tensor:
        """Minus the derivative of the cells' means by their prices, of shape (n_cells, n_classes, n_classes), on the device."""
        folded: Tensor | None = None
        for y, rows in self.source.parts():
            found = _pairs(choose_kernel(self.kernel, y), y, rows, line_of(prices, lam, y.device))
            folded = found if folded is None else folded + found
        assert folded is not None
        self.reads += 1
        folded /= torch.from_numpy(self._cell_mass * lam).to(folded.device)[:, None, None]
        # Each row of 1_A 1_A' / |A| sums to 1 on the support, so the sums of the rows are the diagonal that is wanted.
        return torch.diag_embed(folded.sum(dim=2)) - folded

    def fold(self, prices: Floats, lam: float, design: Floats) -> Floats:
        """Add up the curvature of rows by pairs of columns of the design."""
        curve = self.curvature(prices, lam)
        share = self.cell_weight / self.cell_weight.sum()
        counted = torch.tensor(design, device=curve.device)
        scaled = torch.from_numpy(share[:, None] * design).to(curve.device)
        folded: Floats = torch.einsum("jg,jkl,jh->gkhl", scaled, curve, counted).cpu().numpy()
        return folded

    def sample(self) -> DeviceOracle | None:
        """Give a sample of the rows, for a solver to come near with; None where all rows are cheap to walk."""
        n_rows, n_classes = len(self.source.rows), self.source.n_classes
        if n_rows * n_classes < _THIN_FROM:
            return None
        wanted = max(_FEWEST_SAMPLED, min(n_rows // _THIN, _MOST_SAMPLED // n_classes))
        return DeviceOracle(Resident(*self.source.take(wanted)), self.cell_weight, self.kernel)

    def samples(self) -> tuple[DeviceOracle, DeviceOracle] | None:
        """Give a small and a larger sample, which are the same here."""
        sample = self.sample()
        return None if sample is None else (sample, sample)

    def _added(self, task: _Task, prices: Floats, lam: float) -> Floats:
        self.reads += 1
        total: Floats | None = None
        for y, rows in self.source.parts():
            found = task(choose_kernel(self.kernel, y), y, rows, line_of(prices, lam, y.device)).cpu().numpy()
            total = found if total is None else total + found
        assert total is not None
        return total

    @cached_property
    def _cell_mass(self) -> Floats:
        mass = self.source.mass
        # A cell without weight has no mean; nothing counts it, and 0 stands in for it.
        return np.where(mass > 0, mass, 1.0)


class _Task(Protocol):
    def __call__(self, kernel: ModuleType, y: Tensor, rows: DeviceRows, line: Tensor) -> Tensor: ...


def line_of(prices: Floats, lam: float, device: torch.device) -> Tensor:
    """Put lam and the prices in one line, so that one copy takes both to the device in float64."""
    return torch.from_numpy(np.concatenate([[lam], np.ascontiguousarray(prices, dtype=np.float64).ravel()])).to(device)


def _pairs(kernel: ModuleType, y: Tensor, rows: DeviceRows, line: Tensor) -> Tensor:
    """Add up ``w 1_A 1_A' / |A|`` by cell."""
    n_classes, lanes = y.shape[1], rows.lanes
    total = torch.zeros(rows.n_cells, n_classes, n_classes, dtype=torch.float64, device=y.device)
    most = max(int((lanes.stops - lanes.starts).max()), _SUPPORT_ENTRIES // n_classes)
    room = torch.empty(min(most, len(rows)), n_classes, dtype=y.dtype, device=y.device)
    for part in lanes.parts(most):
        kernel.supports(y, rows, line, part, room)
        begin = int(lanes.starts[part.start])
        cells = lanes.cells[part]
        edges = [*(np.flatnonzero(np.diff(cells, prepend=-1)) + part.start), part.stop]
        for first, last in pairwise(edges):
            here = room[int(lanes.starts[first]) - begin : int(lanes.stops[last - 1]) - begin]
            total[int(lanes.cells[first])] += here.T @ here
    return total
