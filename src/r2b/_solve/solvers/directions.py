"""The Newton step: ``((I - Q) K + Q / gamma) d = E``, K the derivative of minus the means, Q that of the projection.

Where groups are the cells, K has one block per group and the paper's bound leaves one unknown level per class (:mod:`blocks`). In general
cells sit in several groups; Q is a projector, so the step splits: ``Q d = gamma Q E``, and on the rest K alone decides, one symmetric
system per set of groups that touch each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.parity import Parity, Projected
from r2b._solve.oracle import AnyOracle, GroupOracle, folded_curvature
from r2b._solve.solvers.blocks import LevelSystem, products

Floats = NDArray[np.float64]

_LEAST_DAMPING = 1e-11  # of 1 / lam: families that imply each other leave directions without any curvature


@dataclass(frozen=True, eq=False)
class Curvature:
    """Minus the derivative of the group means by the prices.

    Attributes
    ----------
    blocks : ndarray of shape (n_groups, n_classes, n_classes) or None
        Where every group is a cell.
    components : list of ndarray of shape (n, n_classes, n, n_classes)
        Else, for each component of the constraint with n groups, the derivative times the share of the group it is of: symmetric.
    """

    blocks: Floats | None
    components: list[Floats]


def curvature_of(oracle: AnyOracle, parity: Parity, prices: Floats, lam: float) -> Curvature:
    """Measure the curvature at these prices."""
    if parity.simple and not isinstance(oracle, GroupOracle):
        return Curvature(oracle.evaluate(prices, lam, curvature=True).curvature, [])
    return Curvature(None, folded_curvature(oracle, parity, prices, lam))


def direction(parity: Parity, curvature: Curvature, target: Projected, gap: Floats, prices: Floats, damping: float, gamma: float) -> Floats:
    """Give the step from these prices.

    Raises
    ------
    numpy.linalg.LinAlgError
        The system is singular to the last bit.
    """
    if curvature.blocks is not None:
        return _by_levels(curvature.blocks, target, gap, prices, parity.share, damping, gamma)
    step = gamma * _along_face(parity, target, gap)
    for groups, block in zip(parity.components, curvature.components, strict=True):
        normals = _normals(parity, groups, target)
        step[groups] += _across_face(block, normals, parity.share[groups], gap[groups], step[groups], max(damping, _LEAST_DAMPING))
    return step


def _by_levels(curvature: Floats, target: Projected, gap: Floats, prices: Floats, share: Floats, damping: float, gamma: float) -> Floats:
    # Entries inside the band have their price driven to 0; those on it share one unknown level per class.
    clipped = target.clipped
    held = np.where(clipped, 0.0, -prices)
    blocks = curvature.copy()
    np.einsum("skk->sk", blocks)[:] += damping
    right = gap - products(curvature, held)
    balance = gamma * (share @ np.where(clipped, gap, 0.0))
    return LevelSystem(blocks, clipped, share).solve(right, balance) + held


def _along_face(parity: Parity, target: Projected, gap: Floats) -> Floats:
    parts = [np.einsum("kgh,hk->gk", face, gap[groups]) for groups, face in _faces(parity, target)]
    return np.concatenate(parts)


def _faces(parity: Parity, target: Projected) -> Iterator[tuple[slice, Floats]]:
    for member in parity.members:
        mine = Projected(target.means[member.groups], target.clipped[member.groups], target.slope[member.groups])
        yield member.groups, member.bound.derivative(mine, parity.share[member.groups])


def _across_face(block: Floats, normals: list[Floats], share: Floats, gap: Floats, along: Floats, damping: float) -> Floats:
    """Solve on what is left of some groups' directions when those along the face are taken away."""
    # With c = D^(1/2) d the projectors are orthogonal and the system is symmetric.
    root = np.sqrt(share)[:, None]
    scaled = block / root[:, :, None, None] / root[None, None, :, :]
    right = root * gap - np.einsum("gkhl,hl->gk", scaled, root * along)
    half = np.concatenate([scaled[:, :, :, k] @ normal for k, normal in enumerate(normals)], axis=2)
    system = np.concatenate([normal.T @ half[:, k, :] for k, normal in enumerate(normals)])
    system[np.diag_indices_from(system)] += damping
    found = np.linalg.solve(system, np.concatenate([normal.T @ right[:, k] for k, normal in enumerate(normals)]))
    ends = np.cumsum([normal.shape[1] for normal in normals])
    step = np.stack([normal @ part for normal, part in zip(normals, np.split(found, ends[:-1]), strict=True)], axis=1)
    return np.asarray(step / root)


def _normals(parity: Parity, groups: NDArray[np.intp], target: Projected) -> list[Floats]:
    """For each class an orthonormal basis of the directions of some groups that leave the face, as columns."""
    n_classes = target.means.shape[1]
    parts: list[list[Floats]] = [[] for _ in range(n_classes)]
    for mine, face in _faces(parity, target):
        if mine.start not in groups:
            continue
        root = np.sqrt(parity.share[mine])
        leaving = np.eye(len(root)) - root[:, None] * face / root
        lengths, vectors = np.linalg.eigh(0.5 * (leaving + leaving.transpose(0, 2, 1)))
        place = np.searchsorted(groups, mine.start)
        for k in range(n_classes):
            column = np.zeros((len(groups), int((lengths[k] > 0.5).sum())))
            column[place : place + len(root)] = vectors[k][:, lengths[k] > 0.5]
            parts[k].append(column)
    return [np.concatenate(columns, axis=1) for columns in parts]
