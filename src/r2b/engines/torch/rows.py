"""Rows on a device: which cell each is in, in which order they are walked, and samples of them.

Nothing here looks at labels. Lanes depend on the cells alone and are added up in order, so the same
rows give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from r2b._data.arrays import Floats, Whole

Tensor = torch.Tensor

_LANES = 1 << 14  # enough to fill any card several times over; each leaves one row of sums
# enough to fill a card; rows of a lane up to which no more are laid: they cost more than they help
_FEW_LANES, _FEW_ROWS = 1 << 12, 64
NARROW = 32  # classes up to which a lane holds many rows at once
_FEWER_LANES, _MORE_ROWS = 1 << 10, 256  # what _FEW_LANES and _FEW_ROWS are for such rows
_FEWEST_ROWS = 16  # of a lane: below, its row of sums costs as much as its rows
_FEW_CELLS = 64  # up to which a product with a table of ones is the fastest sum by cell
_MEMBERS = 1 << 26  # entries of that table: 512 MB
# rows up to which a card orders them in no more time than it takes to ask whether they are in order
_SHORT = 1 << 20
_GOLDEN = 0.6180339887498949


@dataclass(eq=False)
class DeviceRows:
    """The cells, weights and thresholds of rows on a device.

    Attributes
    ----------
    cells : tensor of shape (n,), int64, int32, int16 or uint8
        The cell of each row.
    n_cells : int
    counts : ndarray of shape (n_cells,)
        Rows of each cell.
    weight : tensor of shape (n,), float64, or None where each row weighs 1
    narrow : bool
        Whether labels of a row are so few numbers that fewer lanes serve a short table better.
    """

    cells: Tensor
    n_cells: int
    counts: Whole
    weight: Tensor | None = None
    narrow: bool = False
    _bundles: dict[int, Lanes] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return int(self.cells.shape[0])

    @property
    def device(self) -> torch.device:
        """Where the rows live."""
        return self.cells.device

    @cached_property
    def order(self) -> Tensor | None:
        """Row numbers ordered by cell, int32 where they fit; None where rows come in that order and are so many that it pays to ask."""
        asking = len(self) > _SHORT or not self.cells.is_cuda
        if self.n_cells == 1 or (asking and not bool((self.cells[1:] < self.cells[:-1]).any())):
            return None
        order = torch.sort(self.cells, stable=True).indices
        return order.to(torch.int32) if len(self) < 2**31 else order

    @cached_property
    def levels(self) -> Tensor:
        """The threshold of each row (by its place in the order) in the last pass, from which the next starts."""
        # Zero is the threshold of a distribution itself, where a solve with lam = 1 begins.
        return torch.zeros(len(self), dtype=torch.float64, device=self.device)

    @cached_property
    def ends(self) -> Whole:
        """Where each cell begins in the order, and where the last ends."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @cached_property
    def mass(self) -> Floats:
        """Weight of the rows of each cell."""
        if self.weight is None:
            return self.counts.astype(np.float64)
        return add_by_cell(self.weight[:, None], self.cells, self.n_cells)[:, 0].cpu().numpy()

    @cached_property
    def relative(self) -> tuple[Tensor | None, Floats]:
        """Weights in units of the heaviest row of their cell, which half precision holds; and those units, by cell."""
        if self.weight is None:
            return None, np.ones(self.n_cells)
        cells, peak = (
            self.cells.long(),
            torch.zeros(self.n_cells, dtype=torch.float64, device=self.device),
        )
        peak = peak.scatter_reduce_(0, cells, self.weight, "amax")
        peak = torch.where(peak > 0, peak, 1.0)
        return self.weight / peak[cells], peak.cpu().numpy()

    @cached_property
    def lanes(self) -> Lanes:
        """Stretches of rows of one cell each."""
        return self.bundles(_LANES)

    def bundles(self, n_bundles: int) -> Lanes:
        """Lay the lanes in about so many bundles of one cell each, all of one size: cells are filled up with lanes that are empty."""
        if n_bundles not in self._bundles:
            self._bundles[n_bundles] = self._laid(n_bundles)
        return self._bundles[n_bundles]

    def _laid(self, n_bundles: int) -> Lanes:
        few, tall = (_FEWER_LANES, _MORE_ROWS) if self.narrow else (_FEW_LANES, _FEW_ROWS)
        height = max(_FEWEST_ROWS, min(tall, -(-len(self) // few)), -(-len(self) // _LANES))
        lanes = -(-self.counts // height)
        size = max(1, int(lanes.sum()) // n_bundles)
        lanes = size * -(-lanes // size)
        ends, before = self.ends, np.cumsum(lanes) - lanes
        cells, last = np.repeat(np.arange(self.n_cells), lanes), np.repeat(ends[1:], lanes)
        starts = np.repeat(ends[:-1] - height * before, lanes) + height * np.arange(len(cells))
        parts = (
            np.minimum(starts, last),
            np.minimum(starts + height, last),
            cells,
            before,
            [len(cells)],
        )
        line = torch.from_numpy(np.concatenate(parts)).to(self.device)
        return Lanes(
            line[: 3 * len(cells)].view(3, -1), line[3 * len(cells) :], cells, height, size
        )

    def row_numbers(self, places: Tensor) -> Tensor:
        """Give the rows at places of the order."""
        return places if self.order is None else self.order[places].long()

    def part(self, rows: slice) -> DeviceRows:
        """Give some of the rows, with the same cells."""
        cells = self.cells[rows]
        counts = torch.bincount(cells.long(), minlength=self.n_cells).cpu().numpy()
        return DeviceRows(
            cells,
            self.n_cells,
            counts,
            None if self.weight is None else self.weight[rows],
            self.narrow,
        )

    def sample(self, n_rows: int) -> tuple[Tensor, DeviceRows]:
        """Take about ``n_rows`` rows, from each cell its share but no fewer than an even part, ordered by cell.

        Rows are spread evenly over each cell with a fixed jitter: the same rows give the same
        sample, and no period in their order can hide a part of them. A cell without sampled weight
        takes part with equal weights.

        Returns
        -------
        numbers : tensor of int64
        sample : DeviceRows
            Its ``mass`` is that of the sample; means by cell need no other.
        """
        fewest = n_rows // (2 * self.n_cells) + 1
        wanted = np.maximum((self.counts * (n_rows / max(len(self), 1))).astype(np.int64), fewest)
        counts = np.minimum(self.counts, wanted)
        cells = torch.repeat_interleave(
            torch.arange(self.n_cells, device=self.device), torch.tensor(counts, device=self.device)
        )
        table = np.stack(
            [np.cumsum(counts) - counts, self.ends[:-1], self.counts / np.maximum(counts, 1)]
        ).astype(np.float64)
        first, begin, step = torch.from_numpy(table).to(self.device)[:, cells]
        number = torch.arange(len(cells), dtype=torch.float64, device=self.device) - first
        jitter = torch.frac(number * _GOLDEN)
        places = (begin + torch.floor((number + jitter) * step)).long()
        last = torch.from_numpy(self.ends[1:] - 1).to(self.device)[cells]
        numbers = self.row_numbers(torch.minimum(places, last))
        weight = None if self.weight is None else self._sampled_weight(self.weight[numbers], cells)
        return numbers, DeviceRows(
            cells.to(self.cells.dtype), self.n_cells, counts, weight, self.narrow
        )

    def _sampled_weight(self, weight: Tensor, cells: Tensor) -> Tensor:
        heaviest = torch.zeros(
            self.n_cells, dtype=torch.float64, device=self.device
        ).scatter_reduce_(0, cells, weight, "amax")
        return torch.where(heaviest[cells] == 0, 1.0, weight)


@dataclass(eq=False)
class Lanes:
    """Stretches of rows of one cell each; one program walks each of them.

    Attributes
    ----------
    table : tensor of shape (3, n), int64
        Where each starts and stops in the order, and its cell.
    first : tensor of shape (n_cells + 1,), int64
        The first lane of each cell, and the number of lanes.
    cells : ndarray of shape (n,)
        The same on the host.
    height : int
        The most rows of a lane.
    size : int
        Lanes of a bundle.
    """

    table: Tensor
    first: Tensor
    cells: Whole
    height: int
    size: int
    _members: dict[int, Tensor] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return int(self.table.shape[1])

    @property
    def n_cells(self) -> int:
        """Of the rows."""
        return len(self.first) - 1

    def by_cell(self, slots: Tensor) -> Tensor:
        """Add up what the lanes left, in a fixed order."""
        if self.n_cells > _FEW_CELLS:
            return add_by_cell(slots, self.table[2], self.n_cells, ordered=True)
        return self._member(1) @ slots

    def add_bundles(self, slots: Tensor, part: slice, total: Tensor) -> None:
        """Add what some of the bundles left to the totals of the cells."""
        cells = self.cells[part.start * self.size : part.stop * self.size]
        first, last = int(cells[0]), int(cells[-1]) + 1
        if self.n_cells > _FEW_CELLS:
            places = self.table[2, :: self.size][part] - first
            total[first:last] += add_by_cell(slots, places, last - first, ordered=True)
        else:
            total[first:last].addmm_(self._member(self.size)[first:last, part], slots)

    def _member(self, size: int) -> Tensor:
        """Tell which of the bundles of so many lanes belong to each cell."""
        if size not in self._members:
            self._members[size] = (
                self.table[2, ::size]
                == torch.arange(self.n_cells, device=self.table.device)[:, None]
            ).double()
        return self._members[size]


def add_by_cell(rows: Tensor, cells: Tensor, n_cells: int, *, ordered: bool = False) -> Tensor:
    """Add up rows of float64 by cell, the same way every time; additions to an index come in any order on a GPU.

    Examples
    --------
    >>> rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64)
    >>> add_by_cell(rows, torch.tensor([1, 0, 1]), 2).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    wide = cells.long()
    if n_cells <= _FEW_CELLS:
        numbers, size = (
            torch.arange(n_cells, device=cells.device)[:, None],
            max(1, _MEMBERS // n_cells),
        )
        total = torch.zeros(n_cells, rows.shape[1], dtype=torch.float64, device=cells.device)
        # the table of ones of all rows may be larger than their labels
        for start in range(0, len(wide), size):
            member = wide[None, start : start + size] == numbers
            total += member.double() @ rows[start : start + size]
        return total
    if not ordered:
        wide, order = torch.sort(wide, stable=True)
        rows = rows[order]
    lengths = torch.bincount(wide, minlength=n_cells)
    return torch.segment_reduce(rows.contiguous(), "sum", lengths=lengths, axis=0)
