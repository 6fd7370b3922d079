# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, misc"
"""The search for the answer of a model in Triton: programs take some classes each, with all groups, and a step of theirs is one launch.

A small model is one program's, which then takes all steps. Programs read what all of them wrote in the round before, nothing of their own
round, and add up in a fixed order: the same model gives the same bits.
"""

from __future__ import annotations

from contextlib import nullcontext

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
    balance = tl.sum(share[:, None] * (tl.maximum(tops - here, 0.0) - tl.maximum(here - means, 0.0)), axis=0)
    return tl.where(balance > 0, tl.maximum(left, at), left), tl.where(balance > 0, right, tl.minimum(right, at))


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
    level = tl.sum(share[:, None] * tl.where(above, tops, tl.where(below, point, 0.0)), axis=0) / tl.where(cut > 0, cut, 1.0)
    target = tl.where(above, (level + band)[None, :], tl.where(below, level[None, :], point))
    return tl.where(((high - low <= band) & (band > 0))[None, :], point, target)


@triton.jit
def _moved(blocks, origin, ahead, at, group, known, both, n_classes, BS: tl.constexpr, BK: tl.constexpr, BL: tl.constexpr):
    """Give what the blocks make of the way from where the steps began."""
    total = tl.zeros((BS, BK), tl.float64)
    for first in range(0, n_classes, BL):
        other = first + tl.arange(0, BL)
        there = other < n_classes
        place, some = group[:, None] * n_classes + other[None, :], known[:, None] & there[None, :]
        way = tl.load(ahead + place, mask=some, other=0.0) - tl.load(origin + place, mask=some, other=0.0)
        entry = at.to(tl.int64)[:, :, None] * n_classes + other[None, None, :]
        block = tl.load(blocks + entry, mask=both[:, :, None] & there[None, None, :], other=0.0).to(tl.float64)
        total += tl.sum(block * way[:, None, :], axis=2)
    return total


@triton.jit(do_not_specialize=["turn", "rounds"])
def _descend(
    blocks, metric, table, n_groups, n_classes, turn, rounds,
    BS: tl.constexpr, BK: tl.constexpr, BL: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    pid, programs = tl.program_id(0), tl.num_programs(0)
    size = n_groups * n_classes
    worst, state, origin, means, momentum = table, table + BP, table + BP + 4 * size, table + BP + 5 * size, table + BP + 6 * size
    sides = momentum + 2 + 2 * BP
    group, col = tl.arange(0, BS), pid * BK + tl.arange(0, BK)
    known, mine = group < n_groups, col < n_classes
    both, at = known[:, None] & mine[None, :], group[:, None] * n_classes + col[None, :]
    limit, safe, damping = tl.load(sides), tl.load(sides + 1), tl.load(sides + 2)
    share = tl.load(sides + 3 + group, mask=known, other=0.0)
    band = tl.load(sides + 3 + n_groups + col, mask=mine, other=1.0)
    damped = damping * tl.load(metric + col, mask=mine, other=1.0)[None, :]
    slope = tl.load(metric + col, mask=mine, other=1.0)[None, :] + damped
    fixed = tl.load(means + at, mask=both, other=0.0) + damped * tl.load(origin + at, mask=both, other=0.0)
    left = limit + 1.0
    done = 0
    while (done < rounds) & (left > limit):
        odd, even = turn % 2, (turn + 1) % 2
        last, ahead = state + 2 * odd * size, state + (2 * odd + 1) * size
        step = tl.load(ahead + at, mask=both, other=0.0)
        here = fixed - damped * step - _moved(blocks, origin, ahead, at, group, known, both, n_classes, BS, BK, BL)
        point = here + slope * step
        new = tl.where(both, (point - _banded(point, band, share, group, known, n_groups)) / slope, 0.0)
        move = new - tl.load(last + at, mask=both, other=0.0)
        # Whether momentum still points downhill was found out by all programs of the last round.
        uphill = tl.sum(tl.load(momentum + 2 + odd * BP + tl.arange(0, BP)), axis=0)
        pace = tl.where(uphill > 0, 1.0, tl.load(momentum + odd))
        faster = 0.5 * (1.0 + tl.sqrt(1.0 + 4.0 * pace * pace))
        tl.store(state + 2 * even * size + at, new, mask=both)
        tl.store(state + (2 * even + 1) * size + at, new + (pace - 1.0) / faster * move, mask=both)
        against = tl.where(both, share[:, None] * slope * (step - new) * move, 0.0)
        tl.store(momentum + 2 + even * BP + pid, tl.sum(tl.sum(against, axis=1), axis=0))
        tl.store(momentum + even, faster)  # every program writes the same
        missing = tl.abs(here - _banded(here + safe * step, band, share, group, known, n_groups))
        missing = tl.max(tl.max(tl.where(both, missing, 0.0), axis=1), axis=0)
        tl.store(worst + pid, missing)
        left = tl.where(programs == 1, missing, limit + 1.0)
        turn += 1
        done += 1
        tl.debug_barrier()
    if programs == 1:
        tl.store(worst + 1, turn.to(tl.float64))


_ALONE = 1 << 8  # prices up to which one program takes all steps: a launch costs more than its patience
_BURST = 8  # steps of many programs between two looks at what is left


def descend(blocks: Tensor, metric: Tensor, start: Floats, sides: Floats, rounds: int) -> tuple[Floats, float]:
    """Find prices that answer their means within a band, as :func:`r2b.engines.torch.plain.descend` does."""
    _, n_groups, n_classes = start.shape
    groups, wide = max(2, triton.next_power_of_2(n_groups)), triton.next_power_of_2(n_classes)
    alone = groups * wide <= _ALONE
    wide = wide if alone else max(1, 16 // groups)
    deep = min(triton.next_power_of_2(n_classes), max(1, 1024 // (groups * wide)))
    programs = triton.cdiv(n_classes, wide)
    most = max(2, triton.next_power_of_2(programs))
    # One copy takes everything there: what is left, twice two states, where they began and its means, momentum, and sides.
    parts = [np.zeros(most), *[start[1].ravel()] * 5, start[0].ravel(), np.ones(2), np.zeros(2 * most), sides]
    table = torch.from_numpy(np.concatenate(parts)).to(blocks.device)
    sizes = {"BS": groups, "BK": wide, "BL": deep, "BP": most, "num_warps": 1}
    turn, left = 0, float("inf")
    with torch.cuda.device(blocks.device) if blocks.is_cuda else nullcontext():
        while turn < rounds and not left <= sides[0]:
            for _ in range(1 if alone else _BURST):
                _descend[(programs,)](blocks, metric, table, n_groups, n_classes, turn, rounds if alone else 1, **sizes)
                turn += 1
            found = table[: most + 4 * start[0].size].cpu().numpy()
            left, turn = (float(found[0]), int(found[1])) if alone else (float(found[:most].max()), turn)
            if alone:
                break
    return found[most:].reshape(4, n_groups, n_classes)[2 * (turn % 2)], left
