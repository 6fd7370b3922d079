# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, misc"
"""The row kernels in Triton: one program per lane, rows held in registers, sums in float64.

The threshold of a row is found by Newton on ``t -> sum_k max(v_k - t, 0) - lam`` from that of the
last pass. From any start the first step lands at or below the root and the others climb to it; once
the support repeats the threshold is exact. All arithmetic is in double precision, whatever the
data: the answer is as exact as on the host, and a start in single precision was slower. No two
programs write to the same place, so the result does not depend on which is first.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]

from r2b.engines.torch.descent import descend as descend
from r2b.engines.torch.rows import DeviceRows, Lanes
from r2b.engines.torch.starting import start

Tensor = torch.Tensor

# entries that one warp holds, of rows up to 64 wide and of wider ones; measured at 6, 39, 100 and
# 1,000 classes
_TILE, _TALL = 256, 512
_NARROW = 256  # columns up to which the registers of a thread hold sums by column
# up to which a walk adds up the curvature as well: a lane leaves a table of all pairs of classes
CURVED_CLASSES = 32
MOST_CLASSES = 1 << 14


@triton.jit
def _settle(v, level, lam, most):
    """Find the thresholds of the rows of a tile; padding is minus infinity."""
    kept = v > level[:, None]
    moving = 1
    steps = 0
    while (moving > 0) & (steps < most):
        count = tl.sum(kept.to(tl.int32), axis=1)
        total = tl.sum(tl.where(kept, v, 0.0), axis=1)
        # Nothing above: the last level is of no use, and everything is below the root from minus
        # infinity on.
        better = tl.where(
            count > 0, (total - lam) / tl.maximum(count, 1).to(v.dtype), float("-inf")
        )
        # After the first step levels climb to the root. One that does not is there: the same
        # support gives the same bits, and entries tied with the level may trade places within
        # rounding, either choice being right.
        climbing = (better > level) | ((better != level) & (steps == 0))
        level = tl.where(climbing, better, level)
        above = v > level[:, None]
        moving = tl.max(tl.max((above != kept).to(tl.int32), axis=1), axis=0)
        kept = above
        steps += 1
    return level


@triton.jit
def _lane(lanes, n_lanes, n_classes, BL: tl.constexpr):
    """Give the number of a lane, where it starts and stops, and the columns of its rows."""
    lane = tl.program_id(0)
    col = tl.arange(0, BL)
    return (
        lane.to(tl.int64),
        tl.load(lanes + lane),
        tl.load(lanes + n_lanes + lane),
        col,
        col < n_classes,
    )


@triton.jit
def _prices(lane, lanes, n_lanes, prices, col, inside, n_classes):
    """Give lam and the prices of the cell of a lane."""
    cell = tl.load(lanes + 2 * n_lanes + lane)
    return tl.load(prices), tl.load(prices + 1 + cell * n_classes + col, mask=inside, other=0.0)


@triton.jit
def _tile(y, stride, order, first, stop, col, inside, BN: tl.constexpr, ORDERED: tl.constexpr):
    """Give the places of some rows in the order, which of them are there, the rows, which entries are there, and their labels."""
    place = first + tl.arange(0, BN)
    there = place < stop
    row = tl.load(order + place, mask=there, other=0).to(tl.int64) if ORDERED else place
    both = there[:, None] & inside[None, :]
    truth = tl.load(y + row[:, None] * stride + col[None, :], mask=both, other=0.0).to(tl.float64)
    return place, there, row, both, truth


@triton.jit
def _above(truth, nu, inside, levels, place, there, lam, most):
    """Give what the rows of a tile have above their thresholds, and the thresholds, from those of the last pass."""
    v = tl.where(inside[None, :], truth - nu[None, :], float("-inf"))
    level = _settle(v, tl.load(levels + place, mask=there, other=0.0), lam, most)
    tl.store(levels + place, level, mask=there)
    return tl.where(v > level[:, None], v - level[:, None], 0.0), level


@triton.jit
def _weights(weight, row, there, WEIGHTED: tl.constexpr):
    return tl.load(weight + row, mask=there, other=0.0) if WEIGHTED else there.to(tl.float64)


@triton.jit
def _evenly(above, own):
    """Spread the weight of each row over its support; a row with one class in it has no curvature, and leaves zeros."""
    kept = above > 0
    count = tl.sum(kept.to(tl.int32), axis=1)
    return tl.where(
        kept & (count > 1)[:, None], (own / tl.maximum(count, 1).to(tl.float64))[:, None], 0.0
    )


@triton.jit
def _nothing_seen(BN: tl.constexpr, WIDTH: tl.constexpr):
    """Begin with the evidence about the labels of a lane."""
    row, wide = tl.zeros((BN,), tl.float64), tl.zeros((WIDTH,), tl.float64)
    return row, wide, wide, wide, wide, wide, row


@triton.jit
def _seen(
    x,
    truth,
    nu,
    lam,
    own,
    there,
    inside,
    least,
    paid,
    agreement,
    distance,
    moved,
    lowest,
    off,
    AXIS: tl.constexpr,
):
    """Add the evidence about the labels x of a tile: what rows could still save, how far they went, and how far they are off."""
    gradient = lam * x - truth + nu[None, :]
    least += own * tl.min(tl.where(inside[None, :], gradient, float("inf")), axis=1)
    off = tl.maximum(off, tl.where(there, tl.abs(tl.sum(x, axis=1) - 1.0), 0.0))
    lowest = tl.minimum(lowest, tl.min(x, axis=AXIS))
    weighed, apart = x * own[:, None], x - truth
    paid += tl.sum(weighed * gradient, axis=AXIS)
    agreement += tl.sum(weighed * truth, axis=AXIS)
    distance += tl.sum(apart * apart * own[:, None], axis=AXIS)
    moved += tl.sum(tl.abs(apart) * own[:, None], axis=AXIS)
    return least, paid, agreement, distance, moved, lowest, off


@triton.jit
def _store_evidence(at, worst, least, paid, norm, agreement, distance, moved, lowest, off):
    """Leave slack, |x|^2, <x, y>, |x - y|^2 and |x - y|_1 / 2 of a lane, and how far its worst row is off."""
    tl.store(at, tl.sum(paid, axis=0) - tl.sum(least, axis=0))
    tl.store(at + 1, norm)
    tl.store(at + 2, tl.sum(agreement, axis=0))
    tl.store(at + 3, tl.sum(distance, axis=0))
    tl.store(at + 4, 0.5 * tl.sum(moved, axis=0))
    tl.store(worst, tl.maximum(tl.max(off, axis=0), -tl.min(lowest, axis=0)))


@triton.jit(do_not_specialize=["n_lanes"])
def walk_rows(
    y, stride, order, lanes, n_lanes, weight, n_classes, prices, levels, slots, worst,
    BN: tl.constexpr, BL: tl.constexpr, ORDERED: tl.constexpr, WEIGHTED: tl.constexpr, ALIGN: tl.constexpr,
    AXIS: tl.constexpr, WIDTH: tl.constexpr, CURVED: tl.constexpr,
):  # fmt: skip
    """Leave sums of the responses of a lane and their value; with curvature also pairs of classes, and the evidence about its labels."""
    stride, n_classes = stride * ALIGN, n_classes * ALIGN
    lane, start, stop, col, inside = _lane(lanes, n_lanes, n_classes, BL)
    lam, nu = _prices(lane, lanes, n_lanes, prices, col, inside, n_classes)
    sums = tl.zeros((BL,), tl.float64)
    if CURVED:
        inverse = 1.0 / lam
        pairs = tl.zeros((BL, BL), tl.float64)
        least, paid, agreement, distance, moved, lowest, off = _nothing_seen(BN, WIDTH)
    squares = tl.zeros((WIDTH,), tl.float64)
    value = tl.zeros((BN,), tl.float64)
    for first in range(start, stop, BN):
        place, there, row, _, truth = _tile(y, stride, order, first, stop, col, inside, BN, ORDERED)
        above, level = _above(truth, nu, inside, levels, place, there, lam, n_classes + 8)
        own = _weights(weight, row, there, WEIGHTED)
        sums += tl.sum(above * own[:, None], axis=0)
        # lam/2 |x|^2 - <x, v> with x = above / lam, hence <x, v> = |above|^2 / lam + level.
        squares += tl.sum(above * above * own[:, None], axis=AXIS)
        value += own * level
        if CURVED:
            pairs += tl.dot(tl.trans((above > 0).to(tl.float64)), _evenly(above, own))
            least, paid, agreement, distance, moved, lowest, off = _seen(
                above * inverse,
                truth,
                nu,
                lam,
                own,
                there,
                inside,
                least,
                paid,
                agreement,
                distance,
                moved,
                lowest,
                off,
                AXIS,
            )
    at = slots + lane * (n_classes + 1)
    if CURVED:
        at += lane * (n_classes * n_classes + 5)
    tl.store(at + col, sums / lam, mask=inside)
    tl.store(at + n_classes, -tl.sum(value, axis=0) - 0.5 * tl.sum(squares, axis=0) / lam)
    if CURVED:
        place = n_classes + 1 + col[:, None] * n_classes + col[None, :]
        tl.store(at + place, pairs, mask=inside[:, None] & inside[None, :])
        at += n_classes + 1 + n_classes * n_classes
        _store_evidence(
            at,
            worst + lane,
            least,
            paid,
            tl.sum(squares, axis=0) / (lam * lam),
            agreement,
            distance,
            moved,
            lowest,
            off,
        )


@triton.jit(do_not_specialize=["n_lanes"])
def _inspect(
    y, stride, order, lanes, n_lanes, weight, n_classes, prices, levels, slots, worst,
    BN: tl.constexpr, BL: tl.constexpr, ORDERED: tl.constexpr, WEIGHTED: tl.constexpr, ALIGN: tl.constexpr,
    AXIS: tl.constexpr, WIDTH: tl.constexpr,
    UNCHANGED: tl.constexpr,
):  # fmt: skip
    stride, n_classes = stride * ALIGN, n_classes * ALIGN
    lane, start, stop, col, inside = _lane(lanes, n_lanes, n_classes, BL)
    lam, nu = _prices(lane, lanes, n_lanes, prices, col, inside, n_classes)
    inverse = 1.0 / lam
    sums = tl.zeros((BL,), tl.float64)
    norm = tl.zeros((WIDTH,), tl.float64)
    least, paid, agreement, distance, moved, lowest, off = _nothing_seen(BN, WIDTH)
    for first in range(start, stop, BN):
        place, there, row, _, truth = _tile(y, stride, order, first, stop, col, inside, BN, ORDERED)
        if UNCHANGED:
            x = truth
        else:
            above, _ = _above(truth, nu, inside, levels, place, there, lam, n_classes + 8)
            x = above * inverse
        own = _weights(weight, row, there, WEIGHTED)
        sums += tl.sum(x * own[:, None], axis=0)
        norm += tl.sum(x * x * own[:, None], axis=AXIS)
        least, paid, agreement, distance, moved, lowest, off = _seen(
            x,
            truth,
            nu,
            lam,
            own,
            there,
            inside,
            least,
            paid,
            agreement,
            distance,
            moved,
            lowest,
            off,
            AXIS,
        )
    at = slots + lane * (n_classes + 5)
    tl.store(at + col, sums, mask=inside)
    _store_evidence(
        at + n_classes,
        worst + lane,
        least,
        paid,
        tl.sum(norm, axis=0),
        agreement,
        distance,
        moved,
        lowest,
        off,
    )


@triton.jit(do_not_specialize=["n_lanes"])
def add(
    y, stride, order, lanes, n_lanes, weight, n_classes, slots, worst,
    BN: tl.constexpr, BL: tl.constexpr, ORDERED: tl.constexpr, WEIGHTED: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """Leave sums of the labels of a lane that came in, minus the least entry, and how far the worst row sum is from 1."""
    stride, n_classes = stride * ALIGN, n_classes * ALIGN
    lane, start, stop, col, inside = _lane(lanes, n_lanes, n_classes, BL)
    sums = tl.zeros((BL,), tl.float64)
    least = tl.zeros((BN,), tl.float64)
    off = tl.zeros((BN,), tl.float64)
    for first in tl.range(start, stop, BN, num_stages=3):  # of little work, which waits for rows
        _, there, row, _, truth = _tile(y, stride, order, first, stop, col, inside, BN, ORDERED)
        own = _weights(weight, row, there, WEIGHTED)
        total = tl.abs(tl.sum(truth, axis=1) - 1.0)
        # NaN passes no comparison, so it is asked for what is right and infinity stands for the
        # rest.
        off = tl.maximum(off, tl.where(there, tl.where(total < 1.0e300, total, float("inf")), 0.0))
        least = tl.minimum(least, tl.min(truth, axis=1))
        sums += tl.sum(truth * own[:, None], axis=0)
    tl.store(slots + lane * n_classes + col, sums, mask=inside)
    tl.store(worst + lane, -tl.min(least, axis=0))
    tl.store(worst + n_lanes + lane, tl.max(off, axis=0))


@triton.jit(do_not_specialize=["n_lanes"])
def _answer(
    y, stride, order, lanes, n_lanes, weight, n_classes, prices, levels, out,
    BN: tl.constexpr, BL: tl.constexpr, ORDERED: tl.constexpr, WEIGHTED: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    stride, n_classes = stride * ALIGN, n_classes * ALIGN
    lane, start, stop, col, inside = _lane(lanes, n_lanes, n_classes, BL)
    lam, nu = _prices(lane, lanes, n_lanes, prices, col, inside, n_classes)
    inverse = 1.0 / lam
    for first in range(start, stop, BN):
        place, there, row, both, truth = _tile(
            y, stride, order, first, stop, col, inside, BN, ORDERED
        )
        above, _ = _above(truth, nu, inside, levels, place, there, lam, n_classes + 8)
        x = above * inverse
        tl.store(
            out + row[:, None] * n_classes + col[None, :], x.to(out.dtype.element_ty), mask=both
        )


@triton.jit(do_not_specialize=["n_lanes", "height"])
def _support(
    y, stride, order, lanes, n_lanes, weight, n_classes, prices, levels, out, width, height,
    BN: tl.constexpr, BL: tl.constexpr, ORDERED: tl.constexpr, WEIGHTED: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    stride, n_classes = stride * ALIGN, n_classes * ALIGN
    lane, start, stop, col, inside = _lane(lanes, n_lanes, n_classes, BL)
    lam, nu = _prices(lane, lanes, n_lanes, prices, col, inside, n_classes)
    for first in range(start, start + height, BN):
        place, there, row, _, truth = _tile(y, stride, order, first, stop, col, inside, BN, ORDERED)
        above, _ = _above(truth, nu, inside, levels, place, there, lam, n_classes + 8)
        kept = above > 0
        own = _weights(weight, row, there, WEIGHTED)
        count = tl.sum(kept.to(tl.int32), axis=1)
        root = tl.where(
            there & (count > 1), tl.sqrt(own / tl.maximum(count, 1).to(tl.float64)), 0.0
        )
        scaled = tl.where(kept, root[:, None], 0.0)
        at = lane * height + place - start
        mine = (place < start + height)[:, None] & inside[None, :]
        tl.store(
            out + at[:, None] * (width * 8) + col[None, :],
            scaled.to(out.dtype.element_ty),
            mask=mine,
        )


def launch(
    kernel: Any,
    y: Tensor,
    rows: DeviceRows,
    *rest: Any,
    lanes: Tensor | None = None,
    weight: Tensor | None = None,
    gather: bool = False,
    least: int = 1,
    **flags: bool,
) -> None:
    """Start a program per lane.

    With ``gather`` a tile is added up by column, which needs no exchange between threads, where
    their registers hold so many sums. A tile has at least so many rows and columns.
    """
    lanes = rows.lanes.table if lanes is None else lanes
    wide = max(2, least, triton.next_power_of_2(y.shape[1]))
    height = max(least, (_TILE if wide <= 64 else _TALL) // wide)
    sizes: dict[str, Any] = {"BN": height, "BL": wide, "num_warps": max(1, wide // 1024)}
    if gather:
        sizes |= {"AXIS": 0, "WIDTH": wide} if wide <= _NARROW else {"AXIS": 1, "WIDTH": height}
    order = rows.cells if rows.order is None else rows.order
    weight = rows.weight if weight is None else weight
    weight = rows.levels if weight is None else weight
    # What the compiler knows to be whole steps of 16 bytes it reads so.
    align = math.gcd(y.stride(0), y.shape[1], 16 // y.element_size())
    flags |= {"ORDERED": rows.order is not None, "WEIGHTED": rows.weight is not None}
    given = y, y.stride(0) // align, order, lanes, lanes.shape[1], weight, y.shape[1] // align
    start(kernel, (lanes.shape[1], 1), (*given, *rest), {"ALIGN": align, **sizes, **flags})


def walk(y: Tensor, rows: DeviceRows, prices: Tensor) -> Tensor:
    """Give sums of the responses by cell, then their values; ``prices`` is lam and the prices in one line."""
    slots = torch.empty(len(rows.lanes), y.shape[1] + 1, dtype=torch.float64, device=y.device)
    launch(walk_rows, y, rows, prices, rows.levels, slots, slots, gather=True, CURVED=False)
    return rows.lanes.by_cell(slots)


def inspect(
    y: Tensor, rows: DeviceRows, prices: Tensor, *, unchanged: bool
) -> tuple[Tensor, Tensor]:
    """Give sums of the labels that go out by cell, then slack, |x|^2, <x, y>, |x - y|^2 and |x - y|_1 / 2; and the worst row."""
    slots = torch.empty(len(rows.lanes), y.shape[1] + 5, dtype=torch.float64, device=y.device)
    worst = torch.empty(len(rows.lanes), dtype=torch.float64, device=y.device)
    launch(_inspect, y, rows, prices, rows.levels, slots, worst, gather=True, UNCHANGED=unchanged)
    return rows.lanes.by_cell(slots), worst.max()


def label_sums(y: Tensor, rows: DeviceRows) -> tuple[Tensor, Tensor]:
    """Give sums of the labels that came in by cell; and minus the least entry, and how far the worst row sum is from 1."""
    slots = torch.empty(len(rows.lanes), y.shape[1], dtype=torch.float64, device=y.device)
    worst = torch.empty(2, len(rows.lanes), dtype=torch.float64, device=y.device)
    launch(add, y, rows, slots, worst)
    return rows.lanes.by_cell(slots), worst.amax(dim=1)


def answer(y: Tensor, rows: DeviceRows, prices: Tensor, out: Tensor) -> None:
    """Write the response of each row into ``out``."""
    launch(_answer, y, rows, prices, rows.levels, out)


def supports(
    y: Tensor, rows: DeviceRows, prices: Tensor, lanes: Lanes, part: slice, out: Tensor
) -> None:
    """Write ``sqrt(w / |A|)`` on the supports of rows, as :func:`r2b.engines.torch.plain.supports` does."""
    some = lanes.table if part == slice(0, len(lanes)) else lanes.table[:, part].contiguous()
    launch(
        _support,
        y,
        rows,
        prices,
        rows.levels,
        out,
        out.shape[1] // 8,
        lanes.height,
        lanes=some,
        weight=rows.relative[0],
    )
