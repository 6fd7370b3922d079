"""The linear systems of the interior-point method and of Newton's method: prices and levels.

With d the prices of entries (group, class), l the levels of families, G the curvature of the rows
counted by pairs of groups, and W the shares of the groups,

    (G / W + softness) d + slope l = right,        sum_s W_s slope_s d_s - omega l = balance.

Where groups share no rows G has one block per group, and eliminating the groups leaves one small
system per family. Elsewhere the system is one symmetric matrix, factorised with pivots by LAPACK.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from r2b._constraints.parity import Parity
from r2b._data.arrays import Flags, Floats, Places
from r2b._data.compute import products

_ROUNDING = 1e-15  # added to a unit diagonal, so that rounding does not make it singular


@dataclass(frozen=True, eq=False)
class Entries:
    """A constraint entry by entry: ``low_slope c + low <= mean <= high_slope c + high``, c a level.

    Attributes
    ----------
    low, high, low_slope, high_slope : ndarray of shape (n_groups, n_classes)
    bound, equal : ndarray of bool, same shape
        Entries that are bounded; those of them whose two sides coincide.
    family : ndarray of shape (n_groups,)
    leveled : ndarray of bool, shape (n_families, n_classes)
        Where the level is an unknown.
    averaged : ndarray of bool, same shape
        Where it is the mean of the family. Means and prices then count by their distance from it.
    first : ndarray of shape (n_families,)
        The first group of each family.
    share : ndarray of shape (n_groups, 1)
    total : ndarray of shape (n_families, 1)
        Sum of the shares of a family.
    disjoint : bool
        Whether groups share no rows and no mean, so that each has a block of its own.
    """

    low: Floats
    high: Floats
    low_slope: Floats
    high_slope: Floats
    bound: Flags
    equal: Flags
    family: Places
    leveled: Flags
    averaged: Flags
    first: Places
    share: Floats
    total: Floats
    disjoint: bool

    @cached_property
    def band(self) -> Flags:
        """Bounded entries whose two sides are apart."""
        return self.bound & ~self.equal

    def family_sum(self, entries: Floats) -> Floats:
        """Sum over each family."""
        return np.add.reduceat(entries, self.first, axis=0)

    def family_mean(self, entries: Floats) -> Floats:
        """Average over each family by share."""
        return self.family_sum(self.share * entries) / self.total

    def centred(self, entries: Floats) -> Floats:
        """Subtract the mean of the family where that is the level."""
        if not self.averaged.any():
            return entries
        return entries - np.where(self.averaged, self.family_mean(entries), 0.0)[self.family]


def entries_of(parity: Parity) -> Entries:
    """Write out the two sides of every entry."""
    sizes = [member.n_groups for member in parity.members]
    family = np.repeat(np.arange(len(sizes)), sizes)
    sides, share = parity.sides, parity.share[:, None]
    first = np.array([member.groups.start for member in parity.members], dtype=np.intp)
    level = np.array([member.bound.level for member in parity.members])[:, None]
    band = sides.bounded & ~sides.equal
    averaged = np.logical_or.reduceat(band, first) & (level == "mean")
    leveled = np.logical_or.reduceat(sides.bounded, first) & (level != "none") & ~averaged
    alone = parity.design is None or int(parity.touching.sum()) == parity.n_groups
    return Entries(
        *sides,
        equal=sides.equal,
        family=family,
        leveled=leveled,
        averaged=averaged,
        first=first,
        share=share,
        total=np.add.reduceat(share, first),
        disjoint=bool(alone and not averaged.any()),
    )


@dataclass(frozen=True, eq=False)
class Held:
    """What entries and levels are held to; groups x classes, and families x classes for levels.

    Attributes
    ----------
    free : ndarray of bool
        Entries whose price is an unknown; the others are 0.
    softness, slope : ndarray of shape (n_groups, n_classes)
    leveled : ndarray of bool, shape (n_families, n_classes)
        Levels that are unknowns.
    omega : ndarray of shape (n_families, n_classes)
    """

    free: Flags
    softness: Floats
    slope: Floats
    leveled: Flags
    omega: Floats


Pair = tuple[Floats, Floats]


class _System(ABC):
    """A factorised system, refined against its own matrix."""

    def solve(self, right: Floats, balance: Floats) -> Pair:
        """Return prices (n_groups, n_classes) and levels (n_families, n_classes)."""
        found = best = self._solve(right, balance)
        last = np.inf
        for _ in range(8):  # each brings back digits that nearly singular blocks lose; two do
            missing = self._missing(found, right, balance)
            size = max(float(np.abs(part).max(initial=0.0)) for part in missing)
            if not size < last:
                break
            best = found
            if size == 0.0 or size > 0.5 * last:
                break
            last = size
            more = self._solve(*missing)
            found = found[0] + more[0], found[1] + more[1]
        return best

    @abstractmethod
    def _solve(self, right: Floats, balance: Floats) -> Pair: ...

    @abstractmethod
    def _missing(self, found: Pair, right: Floats, balance: Floats) -> Pair: ...


class BlockSystem(_System):
    """Groups that share no rows: ``blocks`` of shape (n_groups, n_classes, n_classes), G / W."""

    def __init__(self, entries: Entries, blocks: Floats, held: Held) -> None:
        self.entries, self.held = entries, held
        free = held.free
        blocks = np.where(free[:, :, None] & free[:, None, :], blocks, 0.0)
        np.einsum("gkk->gk", blocks)[:] += np.where(free, held.softness, 1.0)
        self.blocks, self.inverse = blocks, np.linalg.inv(blocks)
        slope = np.where(free & held.leveled[entries.family], held.slope, 0.0)
        self.slope, self.weight = slope, entries.share * slope
        levels = entries.family_sum(
            self.weight[:, :, None] * self.inverse * slope[:, None, :],
        )
        self.unused = entries.family_sum(np.abs(slope)) == 0
        np.einsum("fkk->fk", levels)[:] += np.where(self.unused, 1.0, held.omega)
        self.levels = np.linalg.inv(levels)

    def _solve(self, right: Floats, balance: Floats) -> Pair:
        own = products(self.inverse, np.where(self.held.free, right, 0.0))
        missing = self.entries.family_sum(self.weight * own) - balance
        levels = products(self.levels, np.where(self.unused, 0.0, missing))
        return own - products(self.inverse, self.slope * levels[self.entries.family]), levels

    def _missing(self, found: Pair, right: Floats, balance: Floats) -> Pair:
        d, levels = found
        answer = products(self.blocks, d) + self.slope * levels[self.entries.family]
        total = self.entries.family_sum(self.weight * d) - self.held.omega * levels
        return (
            np.where(self.held.free, right - answer, 0.0),
            np.where(self.unused, 0.0, balance - total),
        )


class DenseSystem(_System):
    """Groups that share rows, or a mean: the whole ``curvature`` G, of pairs of groups."""

    def __init__(self, entries: Entries, curvature: Floats, held: Held) -> None:
        self.entries, self.shape = entries, held.free.shape
        share = np.broadcast_to(entries.share, self.shape)
        slope = np.where(held.free & held.leveled[entries.family], held.slope, 0.0)
        self.free = np.flatnonzero(held.free)
        self.leveled = np.flatnonzero(entries.family_sum(np.abs(slope)) > 0)
        n_free, n_levels = len(self.free), len(self.leveled)
        matrix = np.zeros((n_free + n_levels,) * 2)
        size = held.free.size
        whole = _centred_curvature(entries, curvature).reshape(size, size)
        matrix[:n_free, :n_free] = whole[np.ix_(self.free, self.free)]
        matrix[np.arange(n_free), np.arange(n_free)] += (share * held.softness).flat[self.free]
        group, class_ = np.divmod(self.free, self.shape[1])
        place = np.full(held.omega.shape, -1)
        place.flat[self.leveled] = np.arange(n_levels)
        mine = place[entries.family[group], class_]
        on = np.flatnonzero(mine >= 0)
        across = (share * slope).flat[self.free[on]]
        matrix[on, n_free + mine[on]] = matrix[n_free + mine[on], on] = across
        levels = np.arange(n_free, n_free + n_levels)
        matrix[levels, levels] = -held.omega.flat[self.leveled]
        self.matrix = matrix
        self._factorise(n_free)

    def _factorise(self, n_free: int) -> None:
        diagonal = np.sqrt(np.abs(np.diagonal(self.matrix)[:n_free]))
        scale = np.where(diagonal > 0, 1.0 / np.where(diagonal > 0, diagonal, 1.0), 1.0)
        across = np.abs(self.matrix[n_free:, :n_free] * scale).max(axis=1, initial=0.0)
        self.scale = np.concatenate([scale, 1.0 / np.where(across > 0, across, 1.0)])
        scaled = self.scale[:, None] * self.matrix * self.scale
        signs = np.where(np.arange(len(scaled)) < n_free, 1.0, -1.0)
        np.einsum("ii->i", scaled)[:] += _ROUNDING * signs
        if not len(scaled):
            return
        work, _ = lapack.dsytrf_lwork(len(scaled), lower=1)
        self.factor, self.pivots, failed = lapack.dsytrf(
            scaled, lower=1, lwork=int(work), overwrite_a=1
        )
        if failed or not np.isfinite(self.factor).all():
            raise np.linalg.LinAlgError("a system of prices is singular")

    def _solve(self, right: Floats, balance: Floats) -> Pair:
        wanted = np.concatenate(
            [(self.entries.share * right).flat[self.free], balance.flat[self.leveled]]
        )
        found = wanted
        if len(wanted):
            found, _ = lapack.dsytrs(self.factor, self.pivots, self.scale * wanted, lower=1)
            found = self.scale * found
        return self._spread(found, balance)

    def _spread(self, found: Floats, like: Floats) -> Pair:
        d, levels = np.zeros(self.shape), np.zeros_like(like)
        d.flat[self.free], levels.flat[self.leveled] = np.split(found, [len(self.free)])
        return d, levels

    def _missing(self, found: Pair, right: Floats, balance: Floats) -> Pair:
        flat = np.concatenate([found[0].flat[self.free], found[1].flat[self.leveled]])
        answer, total = self._spread(self.matrix @ flat, balance)
        short, rest = np.zeros(self.shape), np.zeros_like(balance)
        short.flat[self.free] = (right - answer / self.entries.share).flat[self.free]
        rest.flat[self.leveled] = (balance - total).flat[self.leveled]
        return short, rest


def _centred_curvature(entries: Entries, curvature: Floats) -> Floats:
    """Return the curvature by prices of entries, which groups pay less the mean of the family."""
    if not entries.averaged.any():
        return curvature
    part = (entries.share / entries.total[entries.family])[:, 0]
    mean = entries.averaged[entries.family]
    ends = [*entries.first.tolist(), len(part)]
    whole = curvature.copy()
    for first, last in itertools.pairwise(ends):
        own, weight = slice(first, last), part[first:last]
        flags = mean[first]
        sums = whole[own].sum(axis=0) * flags[:, None, None]
        whole[own] -= weight[:, None, None, None] * sums
        sums = whole[:, :, own].sum(axis=2) * flags
        whole[:, :, own] -= weight[:, None] * sums[:, :, None]
    return whole


def system_of(entries: Entries, curvature: Floats, held: Held) -> BlockSystem | DenseSystem:
    """Factorise: blocks G / W where groups share no rows, else the whole of G."""
    if entries.disjoint:
        return BlockSystem(entries, curvature, held)
    return DenseSystem(entries, curvature, held)
