"""Newton's steps where groups share cells or count by parts: what leaves the face of the projection is solved for, the rest is known.

The projection onto the allowed means moves along a face there. Directions within it take no
curvature: the step is the safe one. What is left is one linear system for each component of the
constraint, over orthonormal directions that leave the face.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from r2b._constraints.parity import Parity
from r2b._constraints.parity.bounds import Projected
from r2b._data.arrays import Flags, Floats, Places

# of 1 / lam: families that imply each other leave directions without any curvature
_LEAST_DAMPING = 1e-11

_DENSE = 256  # prices up to which one dense table is faster

Steps = Callable[[float], Floats]


@dataclass(frozen=True, eq=False)
class Curvature:
    """Minus the derivative of the group means by the prices.

    Attributes
    ----------
    blocks : ndarray of shape (n_groups, n_classes, n_classes) or None
        Where every group is a cell.
    components : list of ndarray of shape (n, n_classes, n, n_classes)
        Else, for each component of the constraint with n groups, the derivative times the share of
        the group it is of: symmetric.
    entries : ndarray of bool, shape (n_groups, n_classes), optional
        The prices that it is known for, where it is not all of them.
    """

    blocks: Floats | None
    components: list[Floats]
    entries: Flags | None = None


class FaceSteps:
    """The steps from one place, for any damping: all that damping does not change is made once.

    Parameters
    ----------
    parity : Parity
    target : Projected
        Where the projection landed.
    gap : ndarray of shape (n_groups, n_classes)
    components : sequence of ndarray of shape (n, n_classes, n, n_classes)
        The curvature of the groups of each component, times the share of the group that it is of.
    within : ndarray of shape (n_groups, n_classes)
    length : float
        The step in directions within the face is this long along those.
    """

    def __init__(
        self,
        parity: Parity,
        target: Projected,
        gap: Floats,
        components: Sequence[Floats],
        within: Floats,
        length: float,
    ) -> None:
        faces = []
        for member in parity.members:
            mine = Projected(
                target.means[member.groups],
                target.clipped[member.groups],
                target.slope[member.groups],
            )
            faces.append(
                (member.groups, member.bound.derivative(mine, parity.share[member.groups]))
            )
        self.along = length * np.concatenate(
            [np.matmul(face, within[groups].T[:, :, None])[:, :, 0].T for groups, face in faces]
        )
        self.parts = []
        for groups, block in zip(parity.components, components, strict=True):
            normals = _normals(
                [each for each in faces if each[0].start in groups], groups, parity.share
            )
            self.parts.append(
                _Across(
                    groups,
                    block,
                    normals,
                    np.sqrt(parity.share[groups]),
                    gap[groups],
                    self.along[groups],
                )
            )

    def __call__(self, damping: float) -> Floats:
        """Give the step; a system that is singular to the last bit raises LinAlgError."""
        step = self.along.copy()
        for part in self.parts:
            step[part.groups] += part.solve(max(damping, _LEAST_DAMPING))
        return step


class _Across:
    """The system of one component. With c = D^(1/2) d, D the shares, projectors are orthogonal and it is symmetric.

    Few prices are taken as one dense table, those that can move alone: of many families most
    classes are often unbounded. Many are taken class by class, since a direction is one of a single
    class.
    """

    def __init__(
        self,
        groups: Places,
        block: Floats,
        normals: Floats,
        root: Floats,
        gap: Floats,
        along: Floats,
    ) -> None:
        self.groups, self.normals, self.root = groups, normals, root[:, None]
        self.used = np.flatnonzero(normals.any(axis=1))  # of the directions of all classes
        moving = np.flatnonzero(normals.any(axis=2) | (along != 0).T)  # classes x groups
        build = self._dense if len(moving) <= _DENSE else self._by_class
        self.system, self.right = build(moving, block, self.root * gap, self.root * along)

    def _dense(
        self, moving: Places, block: Floats, gap: Floats, along: Floats
    ) -> tuple[Floats, Floats]:
        n_classes, n_groups, n_normals = self.normals.shape
        classes, groups = np.divmod(moving, n_groups)
        root = self.root[groups, 0]
        scaled = block[groups[:, None], classes[:, None], groups, classes] / root / root[:, None]
        across = np.zeros((len(moving), n_classes, n_normals))
        across[np.arange(len(moving)), classes] = self.normals[classes, groups]
        columns = across.reshape(len(moving), n_classes * n_normals)[:, self.used]
        right = gap[groups, classes] - scaled @ along[groups, classes]
        return columns.T @ (scaled @ columns), columns.T @ right

    def _by_class(
        self, moving: Places, block: Floats, gap: Floats, along: Floats
    ) -> tuple[Floats, Floats]:
        root = self.root[:, 0]
        # classes x classes x groups x groups
        scaled = (block / root[:, None, None, None] / root[:, None]).transpose(1, 3, 0, 2)
        turned = np.ascontiguousarray(self.normals.transpose(0, 2, 1))
        system = np.matmul(turned[:, None], np.matmul(scaled, self.normals[None])).transpose(
            0, 2, 1, 3
        )
        size = self.normals.shape[0] * self.normals.shape[2]
        apart = np.matmul(scaled, along.T[None, :, :, None])[:, :, :, 0].sum(axis=1)
        right = np.matmul(turned, (gap.T - apart)[:, :, None]).ravel()[self.used]
        return system.reshape(size, size)[np.ix_(self.used, self.used)], right

    def solve(self, damping: float) -> Floats:
        system = self.system.copy()
        system.flat[:: len(system) + 1] += damping
        n_classes, _, n_normals = self.normals.shape
        found = np.zeros(n_classes * n_normals)
        found[self.used] = np.linalg.solve(system, self.right)
        step = np.matmul(self.normals, found.reshape(n_classes, n_normals, 1))[:, :, 0].T
        return np.asarray(step / self.root)


def _normals(faces: Sequence[tuple[slice, Floats]], groups: Places, share: Floats) -> Floats:
    """Give for each class an orthonormal basis of the directions of these groups that leave the face: its first columns, others are 0."""
    n_classes = len(faces[0][1])
    columns = np.zeros((n_classes, len(groups), len(groups)))
    for mine, face in faces:
        root = np.sqrt(share[mine])
        leaving = np.eye(len(root)) - root[:, None] * face / root
        lengths, vectors = np.linalg.eigh(0.5 * (leaving + leaving.transpose(0, 2, 1)))
        place = np.searchsorted(groups, mine.start)
        here = slice(place, place + len(root))
        columns[:, here, here] = vectors * (lengths > 0.5)[:, None, :]
    used = columns.any(axis=1)
    first = np.argsort(~used, axis=1, kind="stable")[:, : used.sum(axis=1).max(initial=0)]
    return np.take_along_axis(columns, first[:, None, :], axis=2)
