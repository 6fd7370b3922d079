"""Answers for probabilities on a device: the oracle of tensors.

Labels that are on the host are taken to the device a part at a time, on every pass, so that they
may be larger than its memory. Prices, means and samples are small and are on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from r2b._data.arrays import Array, Floats
from r2b._data.merge import Rows
from r2b._solve.oracle import MemoryOracle, Samples
from r2b._solve.oracle.reference import Answers, Evaluation, Inspection
from r2b._solve.oracle.thinning import ROWS_PER_PRICE, THIN_FROM, sample_sizes, thin
from r2b.engines.torch import kernel
from r2b.engines.torch.kernel import Part, parts_for

Tensor = torch.Tensor


class DeviceOracle:
    """Answers for rows on a device.

    Parameters
    ----------
    y : tensor of shape (n, n_classes)
        Probabilities, float32 or float64, on the device or on the host.
    cells : ndarray of shape (n,)
        The cell of each row.
    weight : ndarray of shape (n,) or None
        None where each row weighs 1.
    n_cells : int
    device : torch.device

    Examples
    --------
    >>> y = torch.tensor([[0.7, 0.3], [0.2, 0.8]], dtype=torch.float64)
    >>> oracle = DeviceOracle(y, np.array([0, 1]), None, 2, torch.device("cpu"))
    >>> oracle.evaluate(np.array([[0.1, -0.1], [0.0, 0.0]]), 1.0, curvature=False).means
    array([[0.6, 0.4],
           [0.2, 0.8]])
    """

    def __init__(
        self, y: Tensor, cells: Array, weight: Floats | None, n_cells: int, device: torch.device
    ) -> None:
        self.y, self.device, self.n_classes = y, device, int(y.shape[1])
        self.rows = Rows(np.arange(len(y))[:, None], cells, weight, n_cells, None)
        self.mass = self.rows.group_weight
        self._cells = torch.from_numpy(cells.astype(np.int32)).to(device)
        self._weight = None if weight is None else self._there(weight)
        # A cell without weight has no mean; nothing counts it, and 0 stands in for it.
        self._divisor = np.where(self.mass > 0, self.mass, 1.0)[:, None]

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool) -> Evaluation:
        """Evaluate all rows at these prices."""
        nu = self._there(prices)
        sums, value = self._added(lambda part: kernel.evaluate(part, nu, lam))
        curve = None
        if curvature:
            (curve,) = self._added(lambda part: (kernel.curvature(part, nu, lam),))
            curve /= lam * self._divisor[:, :, None]
        return Evaluation(sums / self._divisor, float(value) / self.mass.sum(), curve)

    def inspect(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Answers | None = None
    ) -> Inspection:
        """Recompute the evidence from the data and the labels that go out at these prices."""
        assert answers is None, "answers row by row belong to rows in memory"
        nu = self._there(prices)
        worst = [0.0]

        def look(part: Part) -> tuple[Tensor, ...]:
            x = part.labels if unchanged else kernel.respond(part, nu, lam)
            *sums, most = kernel.inspect(part, nu, lam, x)
            worst.append(float(most))
            return tuple(sums)

        sums, totals = self._added(look)
        each = [*(totals / self.mass.sum()).tolist(), float(np.max(worst))]
        return Inspection(sums / self._divisor, *each)

    def fold(self, prices: Floats, lam: float, design: Floats) -> Floats:
        """Add up the curvature of rows by pairs of columns of the design."""
        nu, counted = self._there(prices), self._there(design)
        (table,) = self._added(
            lambda part: (kernel.fold(part, nu, lam, counted),), width=design.shape[1]
        )
        return np.asarray(table / (lam * self.mass.sum()))

    def label_means(self) -> Floats:
        """Return the cell means of the labels as they came in."""
        n_cells = self.rows.n_cells
        (sums,) = self._added(lambda part: (kernel.cell_sums(part, part.labels, n_cells),))
        return np.asarray(sums / self._divisor)

    def samples(self) -> Samples | None:
        """Return two samples of the rows in memory, or None where all rows are cheap to read."""
        n_rows, n_cells = len(self.y), self.rows.n_cells
        if n_rows * self.n_classes < THIN_FROM:
            return None
        enough = min(ROWS_PER_PRICE * n_cells * self.n_classes, n_rows // 4)
        small, large = (self._sample(size) for size in sample_sizes(n_rows, enough))
        return Samples(small, large, self.label_means() - small.label_means())

    def answer(self, prices: Floats, lam: float, rows: slice, out: Tensor) -> None:
        """Write the best responses of some rows into ``out``."""
        nu = self._there(prices)
        for place in self._places(first=rows.start, last=rows.stop):
            here = slice(place.start - rows.start, place.stop - rows.start)
            out[here] = kernel.respond(self._part(place), nu, lam).to(out.dtype).to(out.device)

    def _sample(self, size: int) -> MemoryOracle:
        some = thin(self.rows, size)
        chosen = torch.from_numpy(some.labels[:, 0]).to(self.y.device)
        return MemoryOracle(replace(some, matrix=self.y[chosen].cpu().numpy()))

    def _places(self, width: int = 1, first: int = 0, last: int | None = None) -> list[slice]:
        numbers = width * (self.n_classes + self.rows.n_cells)
        return parts_for(len(self.y) if last is None else last, numbers, first)

    def _part(self, place: slice) -> Part:
        labels, cells = self.y[place].to(self.device).double(), self._cells[place].long()
        weight = torch.ones_like(labels[:, 0]) if self._weight is None else self._weight[place]
        return Part(labels, cells, weight)

    def _added(self, work: Callable[[Part], tuple[Tensor, ...]], width: int = 1) -> list[Any]:
        """Add up what the kernel returns for the parts, in their order."""
        total: list[Tensor] = []
        for place in self._places(width):
            found = work(self._part(place))
            total = [a + b for a, b in zip(total, found, strict=True)] if total else [*found]
        return [each.cpu().numpy() for each in total]

    def _there(self, array: Floats) -> Tensor:
        return torch.from_numpy(np.array(array, dtype=np.float64)).to(self.device)
