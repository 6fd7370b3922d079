# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, misc"
"""The search for the answer of a model in Triton: programs take some classes each, with all groups, and wait for each other after a round.

A small model is one program's. Programs read what all of them wrote in the round before, nothing of
their own round, and add up in a fixed order: the same model gives the same bits. Where programs
cannot wait for each other, as in Triton's interpreter, a round is one launch.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]

from r2b._data.arrays import Floats

Tensor = torch.Tensor


@triton.jit
def _kink(at, tops, means, share, left, right):
    """Narrow the piece that holds the level by the balance at one kink of each class."""
    here = at[None, :]
    balance = tl.sum(
        share[:, None] * (tl.maximum(tops - here, 0.0) - tl.maximum(here - means, 0.0)), axis=0
    )
    return tl.where(balance > 0, tl.maximum(left, at), left), tl.where(
        balance > 0, right, tl.minimum(right, at)
    )


@triton.jit
def _banded(point, band, share, group, known, n_groups):
    """Bring the means of groups within a band of each class, as in plain torch."""
    low = tl.min(tl.where(known[:, None], point, float("inf")), axis=0)
    high = tl.max(tl.where(known[:, None], point, float("-inf")), axis=0)
    tops = point - band[None, :]
    left, right = low - band, high
    for number in range(n_groups):
        kink = tl.sum(tl.where((group == number)[:, None], point, 0.0), axis=0)
        left, right = _kink(kink, tops, point, share, left, right)
        left, right = _kink(kink - band, tops, point, share, left, right)
    middle = 0.5 * (left + right)
    above, below = tops > middle[None, :], point < middle[None, :]
    cut = tl.sum(tl.where(above | below, share[:, None], 0.0), axis=0)
    level = tl.sum(
        share[:, None] * tl.where(above, tops, tl.where(below, point, 0.0)), axis=0
    ) / tl.where(cut > 0, cut, 1.0)
    target = tl.where(above, (level + band)[None, :], tl.where(below, level[None, :], point))
    return tl.where(((high - low <= band) & (band > 0))[None, :], point, target)


@triton.jit
def _meet(counter, arrivals):
    """Wait until so many arrivals are counted: what programs wrote before theirs is there for all after it."""
    tl.debug_barrier()
    arrived = tl.atomic_add(counter, 1, sem="acq_rel") + 1
    while arrived < arrivals:
        arrived = tl.atomic_add(counter, 0, sem="acq_rel")
    tl.debug_barrier()


@triton.jit
def _moved(
    blocks,
    origin,
    ahead,
    at,
    group,
    known,
    both,
    n_classes,
    BS: tl.constexpr,
    BK: tl.constexpr,
    BL: tl.constexpr,
):
    """Give what the blocks make of the way from where the steps began."""
    total = tl.zeros((BS, BK), tl.float64)
    for first in range(0, n_classes, BL):
        other = first + tl.arange(0, BL)
        there = other < n_classes
        place, some = group[:, None] * n_classes + other[None, :], known[:, None] & there[None, :]
        # What other programs wrote is read past the cache of this one's processor, which may still
        # hold what was there before.
        way = tl.load(ahead + place, mask=some, other=0.0, cache_modifier=".cg") - tl.load(
            origin + place, mask=some, other=0.0
        )
        entry = at.to(tl.int64)[:, :, None] * n_classes + other[None, None, :]
        block = tl.load(blocks + entry, mask=both[:, :, None] & there[None, None, :], other=0.0).to(
            tl.float64
        )
        total += tl.sum(block * way[:, None, :], axis=2)
    return total


@triton.jit(do_not_specialize=["turn", "rounds"])
def _descend(
    blocks, metric, table, counter, n_groups, n_classes, turn, rounds,
    BS: tl.constexpr, BK: tl.constexpr, BL: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    pid, programs = tl.program_id(0), tl.num_programs(0)
    size = n_groups * n_classes
    worst, state, origin = table + 2, table + 2 + 2 * BP, table + 2 + 2 * BP + 4 * size
    means, momentum = origin + size, origin + 2 * size
    sides = momentum + 2 + 2 * BP
    group, col, every = tl.arange(0, BS), pid * BK + tl.arange(0, BK), tl.arange(0, BP)
    known, mine = group < n_groups, col < n_classes
    both, at = known[:, None] & mine[None, :], group[:, None] * n_classes + col[None, :]
    limit, safe, damping = tl.load(sides), tl.load(sides + 1), tl.load(sides + 2)
    share = tl.load(sides + 3 + group, mask=known, other=0.0)
    band = tl.load(sides + 3 + n_groups + col, mask=mine, other=1.0)
    damped = damping * tl.load(metric + col, mask=mine, other=1.0)[None, :]
    slope = tl.load(metric + col, mask=mine, other=1.0)[None, :] + damped
    fixed = tl.load(means + at, mask=both, other=0.0) + damped * tl.load(
        origin + at, mask=both, other=0.0
    )
    left = limit + 1.0
    done = 0
    while (done < rounds) & (left > limit):
        odd, even = turn % 2, (turn + 1) % 2
        last, ahead = state + 2 * odd * size, state + (2 * odd + 1) * size
        step = tl.load(ahead + at, mask=both, other=0.0, cache_modifier=".cg")
        here = (
            fixed
            - damped * step
            - _moved(blocks, origin, ahead, at, group, known, both, n_classes, BS, BK, BL)
        )
        point = here + slope * step
        new = tl.where(
            both, (point - _banded(point, band, share, group, known, n_groups)) / slope, 0.0
        )
        move = new - tl.load(last + at, mask=both, other=0.0, cache_modifier=".cg")
        # Whether momentum still points downhill was found out by all programs of the last round.
        uphill = tl.sum(tl.load(momentum + 2 + odd * BP + every, cache_modifier=".cg"), axis=0)
        pace = tl.where(uphill > 0, 1.0, tl.load(momentum + odd, cache_modifier=".cg"))
        faster = 0.5 * (1.0 + tl.sqrt(1.0 + 4.0 * pace * pace))
        tl.store(state + 2 * even * size + at, new, mask=both)
        tl.store(state + (2 * even + 1) * size + at, new + (pace - 1.0) / faster * move, mask=both)
        against = tl.where(both, share[:, None] * slope * (step - new) * move, 0.0)
        tl.store(momentum + 2 + even * BP + pid, tl.sum(tl.sum(against, axis=1), axis=0))
        tl.store(momentum + even, faster)  # every program writes the same
        missing = tl.abs(here - _banded(here + safe * step, band, share, group, known, n_groups))
        tl.store(
            worst + even * BP + pid, tl.max(tl.max(tl.where(both, missing, 0.0), axis=1), axis=0)
        )
        turn += 1
        done += 1
        if done < rounds:
            _meet(counter, done * programs)
            left = tl.max(tl.load(worst + even * BP + every, cache_modifier=".cg"), axis=0)
    if pid == 0:
        tl.store(table + 1, turn.to(tl.float64))


_ALONE = 1 << 8  # prices up to which one program takes all of them: it need not wait for others
_BURST = 8  # rounds between two looks at what is left, where each is a launch
_PER_PROCESSOR = 4  # programs that any card runs together on one of its processors


def descend(
    blocks: Tensor, metric: Tensor, start: Floats, sides: Floats, rounds: int
) -> tuple[Floats, float]:
    """Find prices that answer their means within a band, as :func:`r2b.engines.torch.plain.descend` does."""
    _, n_groups, n_classes = start.shape
    groups, wide = max(2, triton.next_power_of_2(n_groups)), triton.next_power_of_2(n_classes)
    wide = wide if groups * wide <= _ALONE else max(1, 16 // groups)
    deep = min(triton.next_power_of_2(n_classes), max(1, 1024 // (groups * wide)))
    programs = triton.cdiv(n_classes, wide)
    most = max(2, triton.next_power_of_2(programs))
    # One copy takes everything there: arrivals and rounds, what is left, twice two states, where
    # they began, its means, momentum, sides.
    parts = [
        np.zeros(2 + 2 * most),
        *[start[1].ravel()] * 5,
        start[0].ravel(),
        np.ones(2),
        np.zeros(2 * most),
        sides,
    ]
    table = torch.from_numpy(np.concatenate(parts)).to(blocks.device)
    sizes: dict[str, Any] = {"BS": groups, "BK": wide, "BL": deep, "BP": most, "num_warps": 1}
    together = programs == 1 or _together(blocks.device, programs)
    if together and programs > 1:
        # all programs run at once, or the launch fails: none waits for one that cannot start
        sizes["launch_cooperative_grid"] = True
    turn, left = 0, float("inf")
    with torch.cuda.device(blocks.device) if blocks.is_cuda else nullcontext():
        while turn < rounds and not left <= sides[0]:
            for number in range(1 if together else _BURST):
                inputs = (blocks, metric, table, table.view(torch.int64))
                _descend[(programs,)](
                    *inputs, n_groups, n_classes, turn + number, rounds if together else 1, **sizes
                )
            found = table[: 2 + 2 * most + 4 * start[0].size].cpu().numpy()
            turn = int(found[1])
            left = float(found[2 + (turn % 2) * most :][:most].max())
    return found[2 + 2 * most :].reshape(4, n_groups, n_classes)[2 * (turn % 2)], left


def _together(device: torch.device, programs: int) -> bool:
    """Tell whether programs may wait for each other: where all of them run at once."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return (
        programs <= _PER_PROCESSOR * torch.cuda.get_device_properties(device).multi_processor_count
    )
