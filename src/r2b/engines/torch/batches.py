# mypy: disable-error-code="no-untyped-call"
"""Labels that are larger than the device: batches of the host's memory, copied while the one before is computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from r2b.engines.torch.rows import DeviceRows

Floats = NDArray[np.float64]
Tensor = torch.Tensor


class Batches:
    """Labels on the host, cells and weights on the device.

    Cells, thresholds and the order of the rows take some twenty bytes a row and stay on the device; labels come and go.

    Parameters
    ----------
    y : tensor of shape (N, n_classes), on the host
        Copies overlap with computing where it is pinned (``y.pin_memory()``); else each batch goes through a pinned one.
    rows : DeviceRows
    batch_rows : int

    Examples
    --------
    >>> y = torch.tensor([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]])
    >>> batches = Batches(y, DeviceRows(torch.tensor([0, 1, 1]), 2, np.array([1, 2])), batch_rows=2)
    >>> [part.shape[0] for part, _ in batches.parts()], batches.mass
    ([2, 1], array([1., 2.]))
    """

    def __init__(self, y: Tensor, rows: DeviceRows, batch_rows: int) -> None:
        self.y, self.rows = y, rows
        self.n_cells, self.n_classes = rows.n_cells, int(y.shape[1])
        self.device = rows.device
        self.slices = [slice(start, min(start + batch_rows, len(rows))) for start in range(0, len(rows), batch_rows)]
        self.batches = [rows.part(each) for each in self.slices]
        self._rooms: list[_Room] = []

    @property
    def mass(self) -> Floats:
        """Weight of the rows of each cell."""
        return self.rows.mass

    def parts(self) -> Iterator[tuple[Tensor, DeviceRows]]:
        """Bring one batch after another; the next is on its way while the last is computed."""
        if self.device.type != "cuda":
            yield from ((self.y[each].to(self.device), rows) for each, rows in zip(self.slices, self.batches, strict=True))
            return
        if not self._rooms:
            most = self.slices[0].stop
            self._rooms = [_Room(most, self.y, self.device) for _ in range(min(2, len(self.slices)))]
        coming = self._rooms[0].bring(self.y[self.slices[0]])
        for number, rows in enumerate(self.batches):
            labels, room = coming, self._rooms[number % 2]
            if number + 1 < len(self.batches):
                coming = self._rooms[(number + 1) % 2].bring(self.y[self.slices[number + 1]])
            room.wait()
            yield labels, rows
            room.leave()

    def take(self, n_rows: int) -> tuple[Tensor, DeviceRows]:
        """Give about this many rows that stand for all of them, on the device."""
        numbers, some = self.rows.sample(n_rows)
        return self.y[numbers.cpu()].to(self.device), some


class _Room:
    """Place on the device for one batch, and a pinned one on the host where labels are not pinned themselves."""

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

    def wait(self) -> None:
        torch.cuda.current_stream(self.here.device).wait_event(self.arrived)

    def leave(self) -> None:
        self.left.record(torch.cuda.current_stream(self.here.device))


def batch_rows_for(y: Tensor, device: torch.device) -> int:
    """Choose the rows of a batch: two of them in half of what the device has free, and no more than 4 GB each."""
    row = y.shape[1] * y.element_size()
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 1 << 30
    return max(1, min(free // 4, 1 << 32) // row)
