"""Which means lean on which side of their band: the quadratic model of the rows solved together with the bands as they are.

Inside its band a mean has no price, on a side of it the price has that side's sign. Taking sides for given, as a step of Newton's does,
finds one change of sign at a time, and in narrow bands there are thousands. Here rows and bands take turns (the method of multipliers,
also called ADMM): the model gives the prices that rows ask for, the projection those that bands allow, and multipliers make them agree.
A turn costs products of matrices and vectors; the matrices are inverted once.
"""

from __future__ import annotations

import numpy as np

from r2b._constraints.parity import Parity
from r2b._constraints.parity.bounds import Projected
from r2b._data.arrays import Floats
from r2b._solve.solvers.inverses import inverses

_TURNS = 100  # at most; thirty are the rule
_ENOUGH = 0.01  # of the residual: where rows and bands agree so far, sides are told
_STIFF, _SOFT = 1.0, 1e-3  # multipliers in units of the curvature of a class, and the least of them in those of the stiffest class


def sided(
    parity: Parity, curvature: Floats, prices: Floats, means: Floats, target: Projected, damping: float, residual: float
) -> Projected:
    """Project the means of the quadratic model's own answer: what they are, and which of them lean on their band.

    Parameters
    ----------
    parity : Parity
        Whose bounds go class by class, and whose groups are cells.
    curvature : ndarray of shape (n_groups, n_classes, n_classes)
        Minus the derivative of the means by the prices.
    prices, means : ndarray of shape (n_groups, n_classes)
        Where the model touches the rows.
    target : Projected
        The projection there, to begin with.
    damping : float
        Added to the curvature.
    residual : float
        How far prices are from the answer, in units of means.
    """
    # Classes that no mean leans on and nobody pays for stay so in the model; the next step sees those that come in.
    active = np.flatnonzero(target.clipped.any(axis=0) | (prices != 0).any(axis=0))
    blocks = curvature[:, active[:, None], active] if len(active) < len(curvature[0]) else curvature.copy()
    rho = parity.share @ np.einsum("skk->sk", blocks)
    rho = np.maximum(_STIFF * rho, _SOFT * rho.max(initial=0.0)) + damping
    np.einsum("skk->sk", blocks)[:] += rho + damping
    inverted = inverses(blocks)
    scale = np.ones(len(curvature[0]))
    scale[active] = rho
    allowed, asked, seen = prices, prices.copy(), target
    for _ in range(_TURNS):
        pull = (means - seen.means + scale * (allowed - prices))[:, active]
        asked[:, active] = prices[:, active] + np.matmul(inverted, pull[:, :, None])[:, :, 0]
        last, seen = seen, parity.project(seen.means + scale * asked)
        before, allowed = allowed, asked + (last.means - seen.means) / scale
        if max(np.abs(scale * (allowed - before)).max(), np.abs(seen.means - last.means).max()) <= _ENOUGH * residual:
            break
    return seen
