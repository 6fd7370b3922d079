# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, misc"
"""Walks over a short table, time after time, where going to the card and back takes longer than a walk.

Prices come from memory of the host that the card reads by itself, and sums go to such, so that a
look at the rows is three starts and a wait. Sums are written there by few programs; prices, which
all lanes read, are brought to the card first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]

from r2b._data.arrays import Floats
from r2b.engines.torch.kernels import add, launch, walk_rows
from r2b.engines.torch.rows import DeviceRows
from r2b.engines.torch.starting import start

Tensor = torch.Tensor

_SQUARE = 16  # rows and columns of a tile whose product is taken, at the least
_LANES, _COLUMNS = 64, 32  # of a tile of what lanes left


@triton.jit(do_not_specialize=["width", "n_lanes"])
def _join(
    slots, worst, first, out, width, n_lanes, MOST: tl.constexpr, BH: tl.constexpr, BW: tl.constexpr
):
    """Add up what the lanes of a cell left, in their order, and take the largest of each kind of worst."""
    cell = tl.program_id(0)
    col = tl.program_id(1) * BW + tl.arange(0, BW)
    inside = col < width
    begin, end = tl.load(first + cell), tl.load(first + cell + 1)
    out += cell * (width + MOST)
    sums = tl.zeros((BW,), tl.float64)
    for lane in range(begin, end, BH):
        place = lane + tl.arange(0, BH)
        both = (place < end)[:, None] & inside[None, :]
        sums += tl.sum(
            tl.load(slots + place[:, None] * width + col[None, :], mask=both, other=0.0), axis=0
        )
    tl.store(out + col, sums, mask=inside)
    if tl.program_id(1) == 0:
        for kind in tl.static_range(MOST):
            most = tl.full((BH,), float("-inf"), tl.float64)
            for lane in range(begin, end, BH):
                place = lane + tl.arange(0, BH)
                most = tl.maximum(
                    most,
                    tl.load(worst + kind * n_lanes + place, mask=place < end, other=float("-inf")),
                )
            tl.store(out + width + kind, tl.max(most, axis=0))


class ShortTable:
    """One short table on a device.

    Parameters
    ----------
    y : tensor of shape (N, n_classes)
    rows : DeviceRows
    """

    def __init__(self, y: Tensor, rows: DeviceRows) -> None:
        self.y, self.rows, lanes = y, rows, rows.lanes
        n_cells, n_classes = rows.n_cells, int(y.shape[1])
        self.width = n_classes * (n_classes + 1) + 6
        self._slots = torch.empty(
            (self.width + 2) * len(lanes), dtype=torch.float64, device=y.device
        )
        self._worst = self._slots[self.width * len(lanes) :]
        sizes = 1 + n_cells * n_classes, n_cells * (self.width + 2)
        self._line, self._found = (
            torch.empty(size, dtype=torch.float64, pin_memory=y.is_cuda) for size in sizes
        )
        self._prices = torch.empty(sizes[0], dtype=torch.float64, device=y.device)
        self._stream: Any = torch.cuda.current_stream(y.device) if y.is_cuda else None

    def walk(self, prices: Floats, lam: float) -> Floats:
        """Give by cell what :func:`r2b.engines.torch.kernels.walk` does, pairs of classes, evidence, and how far the worst row is off.

        Pairs are sums of ``w 1_A 1_A' / |A|`` over rows with several classes in their support A;
        the evidence is what :func:`r2b.engines.torch.kernels.inspect` adds.
        """
        line = self._line.numpy()
        line[0], line[1:] = lam, prices.ravel()
        self._prices.copy_(self._line, non_blocking=True)
        rest = self._prices, self.rows.levels, self._slots, self._worst
        launch(walk_rows, self.y, self.rows, *rest, gather=True, least=_SQUARE, CURVED=True)
        return self._joined(self.width, 1)

    def label_sums(self) -> Floats:
        """Give by cell what :func:`r2b.engines.torch.kernels.label_sums` does."""
        launch(add, self.y, self.rows, self._slots, self._worst)
        return self._joined(int(self.y.shape[1]), 2)

    def _joined(self, width: int, worst: int) -> Floats:
        """Wait for sums by cell; they are the caller's own."""
        lanes, shape = self.rows.lanes, (self.rows.n_cells, width + worst)
        arguments = self._slots, self._worst, lanes.first, self._found, width, len(lanes)
        sizes = {"MOST": worst, "BH": _LANES, "BW": _COLUMNS, "num_warps": 4}
        start(_join, (shape[0], -(-width // _COLUMNS)), arguments, sizes)
        if self._stream is not None:
            self._stream.synchronize()
        return np.array(self._found[: shape[0] * shape[1]].numpy()).reshape(shape)
