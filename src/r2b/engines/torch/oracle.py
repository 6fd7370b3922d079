# mypy: disable-error-code="no-untyped-call"
"""Answers for rows on a device: the ``Oracle`` of tensors. Only tables of the size of the prices leave the device.

Labels that are larger than the device stay in the host's memory; a batch is copied while the one
before is computed. Samples and curvature stay on the device; prices and means, which are small, are
on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch

from r2b._data.arrays import Floats
from r2b._data.compute import parts_of
from r2b._solve.oracle.reference import Answers, Evaluation, Inspection, Samples
from r2b.engines.torch import plain
from r2b.engines.torch.rows import DeviceRows
from r2b.errors import MissingExtraError

Tensor = torch.Tensor
DeviceKernel = Literal["auto", "triton", "torch"]

_THIN_FROM = 1 << 21  # entries from which a solve starts on a sample
# the same for few steps over labels on the device, where a walk costs little more than its launch
_THIN_MODELLED_FROM = 1 << 26
# up to which the curvature comes with every walk, and steps are made on the host
_CURVED_PRICES = 128
_ROWS_PER_PRICE = 100  # of a sample, to tell where the answer is
_THIN = 16  # one row in 16, to find prices and to estimate the curvature
_MOST_SAMPLED = 1 << 26  # entries of a sample, however many rows there are
_FEWEST_SAMPLED = 1 << 12  # rows, however many classes
_SUPPORT_BYTES = 1 << 29  # of supports that are written down at once
_ALIGNED = 8  # numbers in which matrices of half precision are read
_BUNDLE_ENTRIES = 1 << 24  # of the products of all bundles of rows together
_MOST_BUNDLES = 1 << 12
_BUNDLES_PER_CELL = 4  # at the least: a cell is filled up to whole bundles
_ROUNDING = 1e-14  # of prices: what balancing them once more changes
# from where on products of half precision come in single precision
_HALVES = torch.__version__ >= "2.8"


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
        raise MissingExtraError(
            "The fused kernels need Triton, which is not installed.",
            remedy=remedy,
            library="triton",
        ) from cause
    return plain if choice == "auto" and n_classes > kernels.MOST_CLASSES else kernels


class LabelBatches:
    """Labels on the device as a whole, or in the host's memory and brought to the device in batches.

    Cells, thresholds and the order of the rows take some twenty bytes a row and stay on the device;
    labels come and go.

    Parameters
    ----------
    y : tensor of shape (N, n_classes)
        Copies overlap with computing where it is pinned (``y.pin_memory()``); else each batch goes
        through pinned memory.
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
        self.batches = (
            [rows] if len(self.slices) == 1 else [rows.part(each) for each in self.slices]
        )
        self._buffers: list[_Buffer] = []

    def parts(self) -> Iterator[tuple[Tensor, DeviceRows]]:
        """Give labels and rows on the device, one batch after another; the next is on its way while the last is computed."""
        device = self.rows.device
        if self.y.device == device:
            yield from (
                (self.y[each], rows) for each, rows in zip(self.slices, self.batches, strict=True)
            )
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
        self.stage = (
            None
            if y.is_pinned()
            else torch.empty(n_rows, y.shape[1], dtype=y.dtype, pin_memory=True)
        )
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


@dataclass(frozen=True, eq=False)
class _Seen:
    """What one walk over a short table showed at some prices: means, value and curvature, and the evidence for a certificate."""

    prices: Floats
    lam: float
    evaluation: Evaluation
    evidence: Floats

    def at(self, prices: Floats, lam: float) -> bool:
        return (
            self.lam == lam
            and self.prices.shape == prices.shape
            and self.prices.tobytes() == prices.tobytes()
        )


class DeviceOracle:
    """Answers for rows on a device.

    Parameters
    ----------
    source : LabelBatches
    cell_weight : ndarray of shape (n_cells,)
        What each cell counts. Means are taken over the rows that are here, so a sample answers for
        the whole.
    kernel : {"auto", "triton", "torch"}

    Examples
    --------
    >>> rows = DeviceRows(torch.tensor([0, 1]), 2, np.array([1, 1]))
    >>> oracle = DeviceOracle(LabelBatches(torch.tensor([[0.7, 0.3], [0.2, 0.8]], dtype=torch.float64), rows), np.ones(2))
    >>> oracle.evaluate(np.array([[0.1, -0.1], [0.0, 0.0]]), 1.0, curvature=False).means
    array([[0.6, 0.4],
           [0.2, 0.8]])
    """

    def __init__(
        self, source: LabelBatches, cell_weight: Floats, kernel: DeviceKernel = "auto"
    ) -> None:
        self.source, self.cell_weight = source, cell_weight
        self.share = cell_weight / cell_weight.sum()
        self.kernel: DeviceKernel = kernel
        self.kernels = choose_kernel(kernel, source.rows.device, source.n_classes)
        self.reads = 0  # walks over all labels, for those who count them
        self._seen: _Seen | None = None

    @cached_property
    def curved(self) -> bool:
        """Whether a walk brings the curvature along: on tables so small that launches and looks cost more than walks do."""
        rows, n_classes = self.source.rows, self.source.n_classes
        fused = (
            self.kernels is not plain
            and n_classes <= self.kernels.CURVED_CLASSES
            and rows.n_cells * n_classes <= _CURVED_PRICES
        )
        return (
            fused and len(self.source.batches) == 1 and len(rows) * n_classes < _THIN_MODELLED_FROM
        )

    def as_seen(self, prices: Floats) -> Floats:
        """Give the prices of the last walk where rounding alone tells these from them: the evidence at those is known."""
        seen = None if self._seen is None else self._seen.prices
        same = (
            seen is not None
            and seen.shape == prices.shape
            and float(np.abs(seen - prices).max()) <= _ROUNDING
        )
        return seen if seen is not None and same else prices

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool) -> Evaluation:
        """Evaluate all rows at these prices."""
        if self.curved:
            return self._evaluate_curved(prices, lam)
        line = line_of(prices, lam, self.source.rows.device)
        sums, _ = self._walked(lambda y, rows: (self.kernels.walk(y, rows, line),))
        mean = sums / self._cell_mass[:, None]
        curve = self.curvature(prices, lam).cpu().numpy() if curvature else None
        return Evaluation(
            np.ascontiguousarray(mean[:, :-1]), float(self.share @ mean[:, -1]), curve
        )

    def _evaluate_curved(self, prices: Floats, lam: float) -> Evaluation:
        """Evaluate with curvature, and remember it for the step that is made from here, with the evidence of the same walk."""
        if self._seen is not None and self._seen.at(prices, lam):
            return self._seen.evaluation
        n_classes = self.source.n_classes
        self.reads += 1
        sums = self._short.walk(prices, lam)
        each = 1.0 / self._cell_mass
        pairs = sums[:, n_classes + 1 : -6] * (each / -lam)[:, None]
        curve = pairs.reshape(-1, n_classes, n_classes)
        pairs[:, :: n_classes + 1] -= curve.sum(axis=2)
        evaluation = Evaluation(
            sums[:, :n_classes] * each[:, None],
            float((self.share * each) @ sums[:, n_classes]),
            curve,
        )
        self._seen = _Seen(prices.copy(), lam, evaluation, sums[:, -6:])
        return evaluation

    @cached_property
    def _short(self) -> Any:
        from r2b.engines.torch.short import ShortTable  # needs Triton, as a curved walk does

        ((y, rows),) = self.source.parts()
        return ShortTable(y, rows)

    def inspect(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Answers | None = None
    ) -> Inspection:
        """Recompute the evidence from the data and the labels that go out at these prices.

        Of a short table the walk that evaluated these very prices has done so.
        """
        assert answers is None, "answers row by row belong to rows in memory"
        if self._seen is not None and self._seen.at(prices, lam) and not unchanged:
            means, sums, worst = (
                self._seen.evaluation.means,
                self._seen.evidence[:, :-1],
                float(self._seen.evidence[:, -1].max()),
            )
        else:
            line = line_of(prices, lam, self.source.rows.device)
            found, seen = self._walked(
                lambda y, rows: self.kernels.inspect(y, rows, line, unchanged=unchanged)
            )
            means, sums, worst = (
                found[:, :-5] / self._cell_mass[:, None],
                found[:, -5:],
                float(seen.max()),
            )
        return Inspection(
            means, *[*(sums.sum(axis=0) / self.source.rows.mass.sum()).tolist(), worst]
        )

    def label_means(self) -> Floats:
        """Cell means of the labels as they came in."""
        return np.asarray(self.label_sums[0] / self._cell_mass[:, None])

    @cached_property
    def label_sums(self) -> tuple[Floats, float, float]:
        """Sums of the labels by cell, the least entry, and how far the worst row sum is from 1: seen once, in one walk."""
        if self.curved:
            self.reads += 1
            found = self._short.label_sums()
            sums, worst = found[:, :-2], found[:, -2:]
        else:
            sums, worst = self._walked(self.kernels.label_sums)
        return sums, -float(worst[:, 0].max()), float(worst[:, 1].max())

    def curvature(self, prices: Floats, lam: float) -> Tensor:
        """Minus the derivative of the cells' means by their prices, of shape (n_cells, n_classes, n_classes), on the device."""
        return self.curvature_and_bound(prices, lam, self.source.y.dtype)[0]

    def curvature_and_bound(
        self, prices: Floats, lam: float, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """Give the curvature, and by cell and class a diagonal that bounds it from above.

        Rows are counted in a dtype; by default in half precision where the device multiplies in it,
        which a step of Newton's can do with.
        """
        device, n_classes = self.source.rows.device, self.source.n_classes
        if dtype is None:
            dtype = torch.float16 if device.type == "cuda" and _HALVES else self.source.y.dtype
        line, width = line_of(prices, lam, device), -(-n_classes // _ALIGNED) * _ALIGNED
        folded = torch.zeros(
            self.source.rows.n_cells, width, width, dtype=torch.float64, device=device
        )
        for y, rows in self.source.parts():
            scale = (
                None
                if rows.weight is None
                else torch.from_numpy(rows.relative[1]).to(device)[:, None, None]
            )
            mine = folded if scale is None else torch.zeros_like(folded)
            _add_pairs(self.kernels, y, rows, line, mine, dtype)
            folded = folded if scale is None else folded + scale * mine
        self.reads += 1
        folded = (
            folded[:, :n_classes, :n_classes]
            / torch.from_numpy(self._cell_mass * -lam).to(device)[:, None, None]
        )
        # Each row of 1_A 1_A' / |A| sums to 1 on the support, so the sums of the rows are the
        # diagonal that is wanted. It is the bound as well: a row's curvature is that of the support
        # less a projection.
        bound = -folded.sum(dim=2)
        folded.diagonal(dim1=1, dim2=2).add_(bound)
        return folded, bound

    def fold(self, prices: Floats, lam: float, design: Floats) -> Floats:
        """Add up the curvature of rows by pairs of columns of the design."""
        curve = self.curvature(prices, lam)
        counted = torch.tensor(design, device=curve.device)
        scaled = torch.from_numpy(self.share[:, None] * design).to(curve.device)
        return np.asarray(torch.einsum("jg,jkl,jh->gkhl", scaled, curve, counted).cpu().numpy())

    def samples(self, *, modelled: bool = False) -> Samples | None:
        """Give a small and a larger sample, which are the same here, for a solver to come near with; None where all rows are cheap.

        A solver that takes few steps (``modelled``) does better with all rows than with a sample of
        few rows for each price.
        """
        n_rows, n_classes = len(self.source.rows), self.source.n_classes
        if self.curved:
            return None
        wanted = max(_FEWEST_SAMPLED, min(n_rows // _THIN, _MOST_SAMPLED // n_classes))
        modelled = modelled and self.source.y.device == self.source.rows.device
        blurred = modelled and wanted < _ROWS_PER_PRICE * self.source.rows.n_cells * n_classes
        if n_rows * n_classes < (_THIN_MODELLED_FROM if modelled else _THIN_FROM) or blurred:
            return None
        sample = DeviceOracle(self.source.sample(wanted), self.cell_weight, self.kernel)
        # Prices of a sample that is put right by what its labels are off by are several times
        # nearer to those of all rows.
        return Samples(sample, sample, self.label_means() - sample.label_means())

    def _walked(
        self, walk: Callable[[Tensor, DeviceRows], tuple[Tensor, ...]]
    ) -> tuple[Floats, Floats]:
        """Walk all rows once: add up sums by cell, and list what the walk found about the rows of each batch."""
        self.reads += 1
        found = [_brought(walk(y, rows)) for y, rows in self.source.parts()]
        return sum((sums for sums, *_ in found), np.zeros(1)), np.array(
            [worst for _, *worst in found]
        ).reshape(len(found), -1)

    @cached_property
    def _cell_mass(self) -> Floats:
        mass = self.source.rows.mass
        # A cell without weight has no mean; nothing counts it, and 0 stands in for it.
        return np.where(mass > 0, mass, 1.0)


def _brought(tables: tuple[Tensor, ...]) -> list[Floats]:
    """Bring tables of float64 to the host by one copy: waiting for a device costs more than putting them in a line."""
    if len(tables) == 1:
        return [tables[0].cpu().numpy()]
    line, found, start = torch.cat([table.reshape(-1) for table in tables]).cpu().numpy(), [], 0
    for table in tables:
        found.append(line[start : start + table.numel()].reshape(table.shape))
        start += table.numel()
    return found


def line_of(prices: Floats, lam: float, device: torch.device) -> Tensor:
    """Put lam and the prices in one line, so that one copy takes both to the device in float64."""
    line = np.empty(prices.size + 1)
    line[0], line[1:] = lam, prices.ravel()
    return torch.from_numpy(line).to(device)


def _add_pairs(
    kernels: ModuleType,
    y: Tensor,
    rows: DeviceRows,
    line: Tensor,
    total: Tensor,
    dtype: torch.dtype,
) -> None:
    """Add up ``w 1_A 1_A' / |A|`` by cell, w relative to its cell, over rows with several classes in their support A."""
    width = total.shape[1]
    lanes = rows.bundles(
        max(_BUNDLES_PER_CELL * rows.n_cells, min(_BUNDLE_ENTRIES // width**2, _MOST_BUNDLES))
    )
    height = lanes.size * lanes.height  # of a bundle
    some = max(1, _SUPPORT_BYTES // (height * width * dtype.itemsize))
    supports = torch.zeros(
        min(some * height, len(lanes) * lanes.height), width, dtype=dtype, device=y.device
    )
    for part in parts_of(len(lanes) // lanes.size, some):
        here = slice(part.start * lanes.size, part.stop * lanes.size)
        kernels.supports(y, rows, line, lanes, here, supports)
        stack = supports[: (part.stop - part.start) * height].view(-1, height, width)
        made = torch.bmm(stack.mT, stack, **_wider(dtype))
        lanes.add_bundles(made.view(len(stack), -1).double(), part, total.view(len(total), -1))


def _wider(dtype: torch.dtype) -> dict[str, Any]:
    """Ask for sums in single precision where factors are in half."""
    return {"out_dtype": torch.float32} if dtype == torch.float16 else {}
