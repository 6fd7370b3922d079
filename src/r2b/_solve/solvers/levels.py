"""Linear systems of groups that are cells: one block per group, one common level per class."""

from __future__ import annotations

import numpy as np

from r2b._data.arrays import Flags, Floats
from r2b._data.compute import parts_of
from r2b._solve.solvers.inverses import SPREAD, inverse, inverses

_REFINEMENTS = 2
_ROUNDING = 1e-14  # of the right-hand side: where nothing is left to refine


def groups_in_parts(n_groups: int, n_classes: int) -> list[slice]:
    """Cut the groups into parts for threads: one each where blocks are large, else all together."""
    return parts_of(n_groups, 1 if n_classes >= SPREAD else n_groups)


def products(blocks: Floats, vectors: Floats) -> Floats:
    """Multiply each group's block by its vector; as a product of matrices, which is several times faster than einsum here."""
    return np.asarray(np.matmul(blocks, vectors[:, :, None])[:, :, 0])


class LevelSystem:
    """The linear system that Newton and the interior points share: one block per group, one common level per class.

    Find d (groups x classes) and levels l (classes) such that, with M_s symmetric positive definite,

        (M_s d_s)_k = r_sk + g_sk l_k          where ``free[s, k]``,      d_sk = 0 elsewhere,
        sum_s W_s g_sk d_sk + o_k l_k = b_k    for every class k with a free entry.

    For the paper's bound all slopes g are 1 and o is 0. Eliminating the groups leaves one L x L system for the levels. It is factorised
    once and solved for several right-hand sides.

    Parameters
    ----------
    blocks : ndarray of shape (n_groups, n_classes, n_classes)
        The matrices M_s; overwritten.
    free : ndarray of bool, shape (n_groups, n_classes), or None
        None for all of them.
    weight : ndarray of shape (n_groups,)
    slope : ndarray of shape (n_groups, n_classes), optional
    corner : ndarray of shape (n_classes,), optional
    """

    def __init__(
        self, blocks: Floats, free: Flags | None, weight: Floats, slope: Floats | None = None, corner: Floats | None = None
    ) -> None:
        if free is None:
            self.blocks, self.weight, self.slope, self.corner = blocks, weight, None, None
            self.all_free = self.all_used = True
            self.inverse = inverses(blocks)
            self.levels = inverse((weight @ self.inverse.reshape(len(weight), -1)).reshape(blocks.shape[1:]))
            return
        self.all_free = bool(free.all())
        if not self.all_free:
            blocks *= free[:, :, None]
            blocks *= free[:, None, :]
            np.einsum("skk->sk", blocks)[~free] = 1.0
        self.blocks = blocks
        self.inverse = inverses(blocks)
        self.free = free
        self.weight = weight
        self.slope, self.corner = slope, corner
        self.unused = ~free.any(axis=0) if slope is None else ~(free & (slope != 0)).any(axis=0)
        apart = self.inverse if self.all_free else self.inverse * (free[:, :, None] & free[:, None, :])
        apart = apart if slope is None else apart * slope[:, :, None] * slope[:, None, :]
        schur = (weight @ apart.reshape(len(weight), -1)).reshape(blocks.shape[1:])
        if corner is not None:
            np.einsum("kk->k", schur)[:] += corner
        self.all_used = not self.unused.any()
        if not self.all_used:
            schur[self.unused, self.unused] = 1.0
        self.levels = inverse(schur)

    def solve(self, right: Floats, balance: Floats) -> Floats:
        """Return d for right-hand sides r (groups x classes) and b (classes)."""
        return self.solve_with_levels(right, balance)[0]

    def solve_with_levels(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        """Return d and l."""
        d, levels = self.once(right, balance)
        enough = _ROUNDING * max(float(np.abs(right).max()), float(np.abs(balance).max()))
        # Explicit inverses of nearly singular blocks lose digits; refining against the blocks themselves brings them back.
        for _ in range(_REFINEMENTS):
            missing = balance - self._added(d) - (0.0 if self.corner is None else self.corner * levels)
            rest = right + self._sloped(levels) - products(self.blocks, d)
            rest = rest if self.all_free else np.where(self.free, rest, 0.0)
            missing = missing if self.all_used else np.where(self.unused, 0.0, missing)
            if np.abs(rest).max() <= enough and np.abs(missing).max() <= enough:
                break
            more, lift = self.once(rest, missing)
            d, levels = d + more, levels + lift
        return d, levels

    def once(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        """Return d and l without refinement."""
        own = self._apply(right)
        missing = balance - self._added(own)
        levels: Floats = self.levels @ (missing if self.all_used else np.where(self.unused, 0.0, missing))
        return own + self._apply(self._sloped(levels)), levels

    def _sloped(self, levels: Floats) -> Floats:
        return levels if self.slope is None else self.slope * levels

    def _added(self, d: Floats) -> Floats:
        return np.asarray(self.weight @ (d if self.slope is None else self.slope * d))

    def _apply(self, right: Floats) -> Floats:
        if self.all_free:
            return np.asarray(np.matmul(self.inverse, right)) if right.ndim == 1 else products(self.inverse, right)
        return products(self.inverse, np.where(self.free, right, 0.0)) * self.free


def level_step(curvature: Floats, clipped: Flags, gap: Floats, prices: Floats, share: Floats, damping: float, gamma: float) -> Floats:
    """Give the step of groups that are cells: entries inside the band go to price 0, those on it share one level per class."""
    return face_step(curvature, clipped, gap, prices, share, damping, gamma * (share @ np.where(clipped, gap, 0.0)))


def face_step(curvature: Floats, clipped: Flags, gap: Floats, prices: Floats, share: Floats, damping: float, balance: Floats) -> Floats:
    """Give the same step where what the prices on the band must add up to, by class, is given."""
    held = np.where(clipped, 0.0, -prices)
    blocks = curvature.copy()
    np.einsum("skk->sk", blocks)[:] += damping
    right = gap - products(curvature, held)
    return LevelSystem(blocks, clipped, share).solve(right, balance) + held
