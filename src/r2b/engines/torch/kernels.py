# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, misc"
"""The row kernels in Triton: one program per lane, rows held in registers, sums in float64.

The threshold of a row is found by Newton on ``t -> sum_k max(v_k - t, 0) - lam`` from that of the last pass. From any start the first step
lands at or below the root and the others climb to it; once the support repeats the threshold is exact. All arithmetic is in double
precision, whatever the data: the answer is as exact as on the host, and a start in single precision was slower. No two programs write to
the same place, so the result does not depend on which is first.
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]

from r2b.engines.torch.rows import DeviceRows

Tensor = torch.Tensor

_TILE = 256  # entries that one warp holds; measured: half and twice as many are slower
_NARROW = 256  # columns up to which a thread has room for sums by column
MOST_CLASSES = 1 << 14


@triton.jit
def _settle(v, level, lam, most):
    """Find the thresholds of the rows of a tile; padding is minus infinity."""
    moving = 1
    steps = 0
    while (moving > 0) & (steps < most):
        kept = v > level[:, None]
        count = tl.sum(kept.to(tl.int32), axis=1)
        total = tl.sum(tl.where(kept, v, 0.0), axis=1)
        # Nothing above: the last level is of no use, and everything is below the root from minus infinity on.
        better = tl.where(count > 0, (total - lam) / tl.maximum(count, 1).to(v.dtype), float("-inf"))
        # After the first step levels climb to the root. One that does not is there: the same support gives the same bits, and entries
        # tied with the level may trade places within rounding, either choice being right.
        climbing = (better > level) | ((better != level) & (steps == 0))
        level = tl.where(climbing, better, level)
        moving = tl.max(climbing.to(tl.int32), axis=0)
        steps += 1
    return level


@triton.jit
def _places(first, stop, order, BN: tl.constexpr, ORDERED: tl.constexpr):
    place = first + tl.arange(0, BN)
    there = place < stop
    row = tl.load(order + place, mask=there, other=0).to(tl.int64) if ORDERED else place
    return place, there, row


@triton.jit
def _threshold(v, levels, place, there, lam, most):
    level = tl.load(levels + place, mask=there, other=0.0)
    level = _settle(v, level, lam, most)
    tl.store(levels + place, level, mask=there)
    return level


@triton.jit
def _weights(weight, row, there, WEIGHTED: tl.constexpr):
    return tl.load(weight + row, mask=there, other=0.0) if WEIGHTED else there.to(tl.float64)


@triton.jit(do_not_specialize=["n_lanes"])
def _walk(
    y, stride, order, lanes, n_lanes, weight, prices, levels, slots, n_classes,
    BN: tl.constexpr, BL: tl.constexpr, AXIS: tl.constexpr, WIDTH: tl.constexpr,
    ORDERED: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0)
    start, stop, cell = tl.load(lanes + lane), tl.load(lanes + n_lanes + lane), tl.load(lanes + 2 * n_lanes + lane)
    col = tl.arange(0, BL)
    inside = col < n_classes
    lam = tl.load(prices)
    nu = tl.load(prices + 1 + cell * n_classes + col, mask=inside, other=0.0)
    sums = tl.zeros((BL,), tl.float64)
    squares = tl.zeros((WIDTH,), tl.float64)
    value = tl.zeros((BN,), tl.float64)
    for first in range(start, stop, BN):
        place, there, row = _places(first, stop, order, BN, ORDERED)
        tile = tl.load(y + row[:, None] * stride + col[None, :], mask=there[:, None] & inside[None, :], other=0.0)
        v = tl.where(inside[None, :], tile.to(tl.float64) - nu[None, :], float("-inf"))
        level = _threshold(v, levels, place, there, lam, n_classes + 8)
        above = tl.where(v > level[:, None], v - level[:, None], 0.0)
        own = _weights(weight, row, there, WEIGHTED)
        sums += tl.sum(above * own[:, None], axis=0)
        # lam/2 |x|^2 - <x, v> with x = above / lam, hence <x, v> = |above|^2 / lam + level.
        squares += tl.sum(above * above * own[:, None], axis=AXIS)
        value += own * level
    wide = n_classes + 1
    tl.store(slots + lane.to(tl.int64) * wide + col, sums / lam, mask=inside)
    tl.store(slots + lane.to(tl.int64) * wide + n_classes, -tl.sum(value, axis=0) - 0.5 * tl.sum(squares, axis=0) / lam)


@triton.jit(do_not_specialize=["n_lanes"])
def _inspect(
    y, stride, order, lanes, n_lanes, weight, prices, levels, slots, worst, n_classes,
    BN: tl.constexpr, BL: tl.constexpr, AXIS: tl.constexpr, WIDTH: tl.constexpr,
    ORDERED: tl.constexpr, WEIGHTED: tl.constexpr, UNCHANGED: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0)
    start, stop, cell = tl.load(lanes + lane), tl.load(lanes + n_lanes + lane), tl.load(lanes + 2 * n_lanes + lane)
    col = tl.arange(0, BL)
    inside = col < n_classes
    lam = tl.load(prices)
    nu = tl.load(prices + 1 + cell * n_classes + col, mask=inside, other=0.0)
    inverse = 1.0 / lam
    sums = tl.zeros((BL,), tl.float64)
    least = tl.zeros((BN,), tl.float64)
    paid = tl.zeros((WIDTH,), tl.float64)
    norm = tl.zeros((WIDTH,), tl.float64)
    agreement = tl.zeros((WIDTH,), tl.float64)
    distance = tl.zeros((WIDTH,), tl.float64)
    moved = tl.zeros((WIDTH,), tl.float64)
    lowest = tl.zeros((WIDTH,), tl.float64)
    off = tl.zeros((BN,), tl.float64)
    for first in range(start, stop, BN):
        place, there, row = _places(first, stop, order, BN, ORDERED)
        both = there[:, None] & inside[None, :]
        truth = tl.load(y + row[:, None] * stride + col[None, :], mask=both, other=0.0).to(tl.float64)
        if UNCHANGED:
            x = truth
        else:
            v = tl.where(inside[None, :], truth - nu[None, :], float("-inf"))
            level = _threshold(v, levels, place, there, lam, n_classes + 8)
            x = tl.where(v > level[:, None], v - level[:, None], 0.0) * inverse
        own = _weights(weight, row, there, WEIGHTED)
        gradient = lam * x - truth + nu[None, :]
        least += own * tl.min(tl.where(inside[None, :], gradient, float("inf")), axis=1)
        off = tl.maximum(off, tl.where(there, tl.abs(tl.sum(x, axis=1) - 1.0), 0.0))
        lowest = tl.minimum(lowest, tl.min(x, axis=AXIS))
        weighed = x * own[:, None]
        sums += tl.sum(weighed, axis=0)
        paid += tl.sum(weighed * gradient, axis=AXIS)
        norm += tl.sum(weighed * x, axis=AXIS)
        agreement += tl.sum(weighed * truth, axis=AXIS)
        apart = x - truth
        distance += tl.sum(apart * apart * own[:, None], axis=AXIS)
        moved += tl.sum(tl.abs(apart) * own[:, None], axis=AXIS)
    at = slots + lane.to(tl.int64) * (n_classes + 5)
    tl.store(at + col, sums, mask=inside)
    tl.store(at + n_classes, tl.sum(paid, axis=0) - tl.sum(least, axis=0))
    tl.store(at + n_classes + 1, tl.sum(norm, axis=0))
    tl.store(at + n_classes + 2, tl.sum(agreement, axis=0))
    tl.store(at + n_classes + 3, tl.sum(distance, axis=0))
    tl.store(at + n_classes + 4, 0.5 * tl.sum(moved, axis=0))
    tl.store(worst + lane, tl.maximum(tl.max(off, axis=0), -tl.min(lowest, axis=0)))


@triton.jit(do_not_specialize=["n_lanes"])
def _add(
    y, stride, order, lanes, n_lanes, weight, slots, worst, n_classes,
    BN: tl.constexpr, BL: tl.constexpr, ORDERED: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0)
    start, stop = tl.load(lanes + lane), tl.load(lanes + n_lanes + lane)
    col = tl.arange(0, BL)
    inside = col < n_classes
    sums = tl.zeros((BL,), tl.float64)
    least = tl.zeros((BN,), tl.float64)
    off = tl.zeros((BN,), tl.float64)
    for first in range(start, stop, BN):
        _, there, row = _places(first, stop, order, BN, ORDERED)
        both = there[:, None] & inside[None, :]
        tile = tl.load(y + row[:, None] * stride + col[None, :], mask=both, other=0.0).to(tl.float64)
        own = _weights(weight, row, there, WEIGHTED)
        total = tl.abs(tl.sum(tile, axis=1) - 1.0)
        # NaN passes no comparison, so it is asked for what is right and infinity stands for the rest.
        off = tl.maximum(off, tl.where(there, tl.where(total < 1.0e300, total, float("inf")), 0.0))
        least = tl.minimum(least, tl.min(tile, axis=1))
        sums += tl.sum(tile * own[:, None], axis=0)
    tl.store(slots + lane.to(tl.int64) * n_classes + col, sums, mask=inside)
    tl.store(worst + lane, tl.min(least, axis=0))
    tl.store(worst + n_lanes + lane, tl.max(off, axis=0))


@triton.jit(do_not_specialize=["n_lanes"])
def _answer(
    y, stride, order, lanes, n_lanes, prices, levels, out, n_classes,
    BN: tl.constexpr, BL: tl.constexpr, ORDERED: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0)
    start, stop, cell = tl.load(lanes + lane), tl.load(lanes + n_lanes + lane), tl.load(lanes + 2 * n_lanes + lane)
    col = tl.arange(0, BL)
    inside = col < n_classes
    lam = tl.load(prices)
    nu = tl.load(prices + 1 + cell * n_classes + col, mask=inside, other=0.0)
    inverse = 1.0 / lam
    for first in range(start, stop, BN):
        place, there, row = _places(first, stop, order, BN, ORDERED)
        both = there[:, None] & inside[None, :]
        tile = tl.load(y + row[:, None] * stride + col[None, :], mask=both, other=0.0)
        v = tl.where(inside[None, :], tile.to(tl.float64) - nu[None, :], float("-inf"))
        level = _threshold(v, levels, place, there, lam, n_classes + 8)
        x = tl.where(v > level[:, None], v - level[:, None], 0.0) * inverse
        tl.store(out + row[:, None] * n_classes + col[None, :], x.to(out.dtype.element_ty), mask=both)


@triton.jit(do_not_specialize=["n_lanes", "begin"])
def _support(
    y, stride, order, begin, lanes, n_lanes, weight, prices, levels, out, n_classes,
    BN: tl.constexpr, BL: tl.constexpr, ORDERED: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0)
    start, stop, cell = tl.load(lanes + lane), tl.load(lanes + n_lanes + lane), tl.load(lanes + 2 * n_lanes + lane)
    col = tl.arange(0, BL)
    inside = col < n_classes
    lam = tl.load(prices)
    nu = tl.load(prices + 1 + cell * n_classes + col, mask=inside, other=0.0)
    for first in range(start, stop, BN):
        place, there, row = _places(first, stop, order, BN, ORDERED)
        both = there[:, None] & inside[None, :]
        tile = tl.load(y + row[:, None] * stride + col[None, :], mask=both, other=0.0)
        v = tl.where(inside[None, :], tile.to(tl.float64) - nu[None, :], float("-inf"))
        level = _threshold(v, levels, place, there, lam, n_classes + 8)
        kept = v > level[:, None]
        own = _weights(weight, row, there, WEIGHTED)
        root = tl.sqrt(own / tl.maximum(tl.sum(kept.to(tl.int32), axis=1), 1).to(tl.float64))
        scaled = tl.where(kept, root[:, None], 0.0)
        tl.store(out + (place - begin)[:, None] * n_classes + col[None, :], scaled.to(out.dtype.element_ty), mask=both)


def _shape(y: Tensor) -> dict[str, int]:
    wide = max(2, triton.next_power_of_2(y.shape[1]))
    return {"BN": max(1, _TILE // wide), "BL": wide, "num_warps": max(1, wide // 1024)}


def _gathering(y: Tensor) -> dict[str, int]:
    """Say how a tile is added up: by column, which needs no exchange between threads, where so many sums find room in them."""
    shape = _shape(y)
    narrow = shape["BL"] <= _NARROW
    return {"AXIS": 0 if narrow else 1, "WIDTH": shape["BL"] if narrow else shape["BN"]}


def _common(y: Tensor, rows: DeviceRows) -> tuple[Any, ...]:
    order = rows.cells if rows.order is None else rows.order
    return y, y.stride(0), order


def _flags(rows: DeviceRows) -> dict[str, bool]:
    return {"ORDERED": rows.order is not None, "WEIGHTED": rows.weight is not None}


def _weight(rows: DeviceRows) -> Tensor:
    return rows.levels if rows.weight is None else rows.weight


def walk(y: Tensor, rows: DeviceRows, prices: Tensor) -> Tensor:
    """Give sums of the responses by cell, and their values in the last column; ``prices`` is lam and the prices in one line."""
    n_classes, lanes = y.shape[1], rows.lanes
    slots = torch.empty(len(lanes), n_classes + 1, dtype=torch.float64, device=y.device)
    with _on(y):
        _walk[(len(lanes),)](
            *_common(y, rows), lanes.table, len(lanes), _weight(rows), prices, rows.levels, slots, n_classes,
            **_shape(y), **_gathering(y), **_flags(rows),
        )  # fmt: skip
    return lanes.by_cell(slots)


def inspect(y: Tensor, rows: DeviceRows, prices: Tensor, *, unchanged: bool) -> tuple[Tensor, Tensor]:
    """Give sums of the labels that go out by cell, then slack, |x|^2, <x, y>, |x - y|^2 and |x - y|_1 / 2; and the worst row."""
    n_classes, lanes = y.shape[1], rows.lanes
    slots = torch.empty(len(lanes), n_classes + 5, dtype=torch.float64, device=y.device)
    worst = torch.empty(len(lanes), dtype=torch.float64, device=y.device)
    with _on(y):
        _inspect[(len(lanes),)](
            *_common(y, rows), lanes.table, len(lanes), _weight(rows), prices, rows.levels, slots, worst, n_classes,
            **_shape(y), **_gathering(y), **_flags(rows), UNCHANGED=unchanged,
        )  # fmt: skip
    return lanes.by_cell(slots), worst.max()


def label_sums(y: Tensor, rows: DeviceRows) -> tuple[Tensor, Tensor]:
    """Give sums of the labels that came in by cell; and the least entry and how far the worst row sum is from 1."""
    n_classes, lanes = y.shape[1], rows.lanes
    slots = torch.empty(len(lanes), n_classes, dtype=torch.float64, device=y.device)
    worst = torch.empty(2, len(lanes), dtype=torch.float64, device=y.device)
    with _on(y):
        _add[(len(lanes),)](*_common(y, rows), lanes.table, len(lanes), _weight(rows), slots, worst, n_classes, **_shape(y), **_flags(rows))
    return lanes.by_cell(slots), torch.stack([worst[0].min(), worst[1].max()])


def answer(y: Tensor, rows: DeviceRows, prices: Tensor, out: Tensor) -> None:
    """Write the response of each row into ``out``."""
    lanes = rows.lanes
    with _on(y):
        _answer[(len(lanes),)](
            *_common(y, rows), lanes.table, len(lanes), prices, rows.levels, out, y.shape[1],
            **_shape(y), ORDERED=rows.order is not None,
        )  # fmt: skip


def supports(y: Tensor, rows: DeviceRows, prices: Tensor, part: slice, out: Tensor) -> None:
    """Write ``sqrt(w / |A|)`` on the support A of each row, for some lanes, into ``out`` in the order of the rows."""
    table = rows.lanes.table[:, part].contiguous()
    begin = int(rows.lanes.starts[part.start])
    with _on(y):
        _support[(table.shape[1],)](
            *_common(y, rows), begin, table, table.shape[1], _weight(rows), prices, rows.levels, out, y.shape[1],
            **_shape(y), **_flags(rows),
        )  # fmt: skip


def _on(y: Tensor) -> Any:
    # Triton launches on the current device, which need not be the one that holds the rows.
    from contextlib import nullcontext

    return torch.cuda.device(y.device) if y.is_cuda else nullcontext()
