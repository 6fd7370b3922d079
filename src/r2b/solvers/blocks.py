"""The linear system that both solvers share: one block per group, one common level per class.

Find d (groups x classes) and levels l (classes) such that, with M_s symmetric positive definite,

    (M_s d_s)_k = r_sk + l_k    where ``free[s, k]``,      d_sk = 0 elsewhere,
    sum_s W_s d_sk = b_k        for every class k with a free entry.

Eliminating the groups leaves one L x L system for the levels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class LevelSystem:
    """Factorise once, solve for several right-hand sides.

    Parameters
    ----------
    blocks : ndarray of shape (n_groups, n_classes, n_classes)
        The matrices M_s; overwritten.
    free : ndarray of bool, shape (n_groups, n_classes)
    weight : ndarray of shape (n_groups,)
    """

    def __init__(self, blocks: Floats, free: NDArray[np.bool_], weight: Floats) -> None:
        held = ~free
        blocks *= free[:, :, None]
        blocks *= free[:, None, :]
        diagonal = np.einsum("skk->sk", blocks)
        diagonal[held] = 1.0
        self.inverse = np.linalg.inv(blocks)
        self.free = free
        self.weight = weight
        masked = self.inverse * free[:, None, :]
        masked *= free[:, :, None]
        self.schur = np.tensordot(weight, masked, axes=1)
        unused = ~free.any(axis=0)
        self.schur[unused, unused] = 1.0
        self.unused = unused

    def solve(self, right: Floats, balance: Floats) -> Floats:
        """Return d for right-hand sides r (groups x classes) and b (classes)."""
        own = self._apply(right)
        missing = balance - self.weight @ own
        missing[self.unused] = 0.0
        levels = np.linalg.solve(self.schur, missing)
        return own + self._apply(np.broadcast_to(levels, right.shape))

    def _apply(self, right: Floats) -> Floats:
        masked = np.where(self.free, right, 0.0)
        out: Floats = np.einsum("skl,sl->sk", self.inverse, masked) * self.free
        return out
