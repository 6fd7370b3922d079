"""Probabilities on a device: where a pass over rows runs in PyTorch.

Labels that are on the host are taken to the device a part at a time, on every pass, so that they
may be larger than its memory. Prices, means and samples are small and are on the host.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from r2b._data.arrays import Array, Floats
from r2b._data.merge import Rows
from r2b._solve.oracle import Oracle, merged
from r2b._solve.oracle.oracle import sample_of_cells, sample_sizes
from r2b._solve.settings import SETTINGS
from r2b.engines.torch import kernel
from r2b.engines.torch.kernel import Part, parts_for

Tensor = torch.Tensor


class DeviceBlocks:
    """Rows on a device.

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
    >>> oracle = DeviceBlocks(y, np.array([0, 1]), None, 2, torch.device("cpu")).oracle()
    >>> oracle.evaluate(np.array([[0.1, -0.1], [0.0, 0.0]]), 1.0).means
    array([[0.6, 0.4],
           [0.2, 0.8]])
    """

    def __init__(
        self, y: Tensor, cells: Array, weight: Floats | None, n_cells: int, device: torch.device
    ) -> None:
        self.y, self.device, self.n_classes = y, device, int(y.shape[1])
        self.rows = Rows(np.arange(len(y))[:, None], cells, weight, n_cells, None)
        self._cells = torch.from_numpy(cells.astype(np.int32)).to(device)
        self._weight = self._there(weight)

    def oracle(self) -> Oracle:
        """Return the oracle of these rows, with a sample in memory where they are many."""
        n_rows, near = len(self.y), None
        if n_rows * self.n_classes >= SETTINGS.sample_from:
            _, size = sample_sizes(n_rows, self.rows.n_cells * self.n_classes)
            chosen, weight = sample_of_cells(self.rows, size)
            some = self.y[torch.from_numpy(chosen).to(self.y.device)].cpu().numpy()
            cells = self.rows.cells[chosen]
            near = Oracle.of(replace(self.rows, matrix=some, cells=cells, weight=weight))
        return Oracle(self, self.rows.cell_weight, self.n_classes, near=near)

    def reduce(self, task: Any) -> Any:
        """Make the sums of every part on the device, and merge them in order."""
        places = self._places(1 if task.members is None else task.members.shape[1])
        there = replace(task, prices=self._there(task.prices), members=self._there(task.members))
        sums = (there.sums(kernel, self._part(place)) for place in places)
        return merged(task, ([np.atleast_1d(each.cpu().numpy()) for each in part] for part in sums))

    def answer(self, prices: Floats, lam: float, rows: slice, out: Tensor) -> None:
        """Write the best responses of some rows into ``out``."""
        nu = self._there(prices)
        for place in self._places(first=rows.start, last=rows.stop):
            here = slice(place.start - rows.start, place.stop - rows.start)
            out[here] = kernel.respond(self._part(place), nu, lam).to(out.dtype).to(out.device)

    def _places(self, width: int = 1, first: int = 0, last: int | None = None) -> list[slice]:
        numbers = width * (self.n_classes + self.rows.n_cells)
        return parts_for(len(self.y) if last is None else last, numbers, first)

    def _part(self, place: slice) -> Part:
        labels, cells = self.y[place].to(self.device).double(), self._cells[place].long()
        weight = torch.ones_like(labels[:, 0]) if self._weight is None else self._weight[place]
        return Part(labels, cells, weight)

    def _there(self, array: Floats | None) -> Any:
        """Return numbers as a tensor on the device."""
        if array is None:
            return None
        return torch.from_numpy(np.array(array, dtype=np.float64)).to(self.device)
