"""Which means lean on which side of their band: the quadratic model of the rows solved together with the bands as they are.

Inside its band a mean has no price, on a side of it the price has that side's sign. Taking sides
for given, as a step of Newton's does, finds one change of sign at a time, and in narrow bands there
are thousands. Here rows and bands take turns (the method of multipliers, also called ADMM): the
model gives the prices that rows ask for, the projection those that bands allow, and multipliers
make them agree. A turn costs products of matrices and vectors; the matrices are inverted once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from r2b._constraints.parity import Parity
from r2b._constraints.parity.bounds import Projected
from r2b._data.arrays import Floats
from r2b._solve.solvers.faces import Curvature, FaceSteps
from r2b._solve.solvers.inverses import inverses

_TURNS, _SHARED_TURNS = 100, 200  # at most, thirty being the rule; and where groups share cells
_ENOUGH = 0.01  # of the residual: where rows and bands agree so far, sides are told
# Multipliers in units of the curvature of a class, where groups are cells and where they share
# some; the least in those of the stiffest.
_STIFF, _SHARED, _SOFT = 1.0, 0.1, 1e-3


def sided(
    parity: Parity,
    curvature: Floats,
    prices: Floats,
    means: Floats,
    target: Projected,
    damping: float,
    residual: float,
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
    # Classes that no mean leans on and nobody pays for stay so in the model; the next step sees
    # those that come in.
    active = np.flatnonzero(target.clipped.any(axis=0) | (prices != 0).any(axis=0))
    blocks = (
        curvature[:, active[:, None], active]
        if len(active) < len(curvature[0])
        else curvature.copy()
    )
    rho = parity.share @ np.einsum("skk->sk", blocks)
    rho = np.maximum(_STIFF * rho, _SOFT * rho.max(initial=0.0)) + damping
    np.einsum("skk->sk", blocks)[:] += rho + damping
    inverted = inverses(blocks)
    scale = np.ones(len(curvature[0]))
    scale[active] = rho

    def ask(pull: Floats) -> Floats:
        asked = prices.copy()
        asked[:, active] += np.matmul(inverted, pull[:, active, None])[:, :, 0]
        return asked

    return _in_turns(parity, ask, scale, (prices, means, target, residual), _TURNS)


def _in_turns(
    parity: Parity,
    ask: Callable[[Floats], Floats],
    scale: Floats,
    here: tuple[Floats, Floats, Projected, float],
    turns: int,
) -> Projected:
    """Let rows and bands take turns: ``ask`` gives the prices that rows ask for under a pull, ``scale`` are the multipliers' units."""
    prices, means, target, residual = here
    allowed, seen = prices, target
    for _ in range(turns):
        asked = ask(means - seen.means + scale * (allowed - prices))
        last, seen = seen, parity.project(seen.means + scale * asked)
        before, allowed = allowed, asked + (last.means - seen.means) / scale
        if (
            max(np.abs(scale * (allowed - before)).max(), np.abs(seen.means - last.means).max())
            <= _ENOUGH * residual
        ):
            break
    return seen


class SidedSteps:
    """Steps of groups that share cells, by their damping, to the face where the model of the rows has its answer.

    Parameters
    ----------
    parity : Parity
    curvature : Curvature
        Of the components; prices that it is not known for are 0 and stay so in the model.
    prices, means, target, residual
        As for :func:`sided`.
    """

    def __init__(
        self,
        parity: Parity,
        curvature: Curvature,
        prices: Floats,
        means: Floats,
        target: Projected,
        residual: float,
    ) -> None:
        self.parity, self.components, self.share = (
            parity,
            curvature.components,
            parity.share[:, None],
        )
        self.prices, self.means, self.here = prices, means, (prices, means, target, residual)
        known = (
            np.ones(prices.shape, dtype=bool) if curvature.entries is None else curvature.entries
        )
        self.tables, bend = [], np.zeros(prices.shape)
        for groups, block in zip(parity.components, self.components, strict=True):
            group, classes = np.nonzero(known[groups])
            table = block[group[:, None], classes[:, None], group, classes]
            self.tables.append((groups[group], classes, table))
            bend[groups[group], classes] = table.diagonal()
        self.scale = np.ones(prices.shape)
        for mine in (member.groups for member in parity.members):
            rho = bend[mine].sum(axis=0) / parity.share[mine].sum()
            self.scale[mine] = np.maximum(_SHARED * rho, _SOFT * rho.max()) if rho.any() else 1.0

    def __call__(self, damping: float) -> Floats:
        """Give the step; a system that is singular to the last bit raises LinAlgError."""
        scale, inverted = self.scale + damping, []
        for group, classes, table in self.tables:
            stiff = table.copy()
            stiff.flat[:: len(stiff) + 1] += self.share[group, 0] * (
                scale[group, classes] + damping
            )
            inverted.append(inverses(stiff))

        def ask(pull: Floats) -> Floats:
            asked, pull = self.prices.copy(), self.share * pull
            for (group, classes, _), inverse in zip(self.tables, inverted, strict=True):
                asked[group, classes] += inverse @ pull[group, classes]
            return asked

        seen = _in_turns(self.parity, ask, scale, self.here, _SHARED_TURNS)
        # Prices along the face of the model's answer are 0 there.
        return FaceSteps(
            self.parity, seen, self.means - seen.means, self.components, self.prices, -1.0
        )(damping)
