"""The system that is left when rows and slacks are eliminated: prices and levels of one component of a general constraint.

With d the prices of entries and c the levels (one for each class of a family that has one to find),
G the curvature times share:

    (G / share + softness) d + slope c = r,        sum share (slope d) - omega c = b.

Where the level of a band is the mean of its family, the price of an entry is passed on to its group
less the mean of the family's. Taking it as the unknown, rather than the price of the group, keeps
entries inside the band from drowning the curvature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from r2b._data.arrays import Flags, Floats, Places
from r2b._data.compute import products
from r2b._solve.solvers.factors import (
    Cholesky,
    Factor,
    RowCurvature,
    RowFactor,
    TableFactor,
    cholesky,
)
from r2b._solve.solvers.gradients import EXACT, Gradients
from r2b._solve.solvers.newton import LevelSystem
from r2b._solve.solvers.systems import Component, Curved, SystemLayout

_REFINEMENTS = 6
# each takes a part of the damping back, the smaller the nearer to singular a system is
_UNDAMPING = 20
_GAIN = 0.2  # what a refinement must leave of it for another to be made
_LOST = 1e-6  # of it that no refinement finds: parts that nearly cancel are then put together first
# prices that are put together for it: a table of more takes longer than the whole path
_MOST_TOGETHER = 5_000
# the same where a table of all pairs of prices would be made for it: the next step repairs as much
_REPAIRED = 1e-3
_ROUNDING = 1e-14  # of the right-hand side: where nothing is left to refine


@dataclass(frozen=True, eq=False)
class Conditions:
    """What entries and levels are held to; groups x classes, and families x classes for levels.

    Attributes
    ----------
    free : ndarray of bool
        Entries that have a price.
    softness, slope : ndarray
    leveled : ndarray of bool, shape (n_families, n_classes)
        Levels to find.
    omega : ndarray of shape (n_families, n_classes)
    damping : float
        Added to the curvature where it alone leaves a choice.
    exact : float
        What conjugate gradients may leave.
    """

    free: Flags
    softness: Floats
    slope: Floats
    leveled: Flags
    omega: Floats
    damping: float = 0.0
    exact: float = EXACT


def system_of(
    layout: SystemLayout,
    component: Component,
    curvature: Curved,
    conditions: Conditions,
    by_rows: Callable[[], RowCurvature | None] | None = None,
) -> _Disjoint | _Averaged | _Shared:
    """Factorise the system of one component; ``curvature`` is what :func:`curvature_of` gives for it.

    Its ``solve`` gives the prices of the component's entries, and all levels: those of other
    components are 0. What loses digits by groups is solved for by its rows, where ``by_rows`` gives
    them.
    """
    if not component.disjoint:
        return _Shared(layout, component.groups, curvature, conditions)
    assert not isinstance(curvature, RowCurvature)
    if layout.averaged[layout.family[component.groups[0]]].any():
        return _Averaged(layout, component.groups, curvature, conditions, by_rows)
    return _Disjoint(layout, component.groups, curvature, conditions)


class _Disjoint:
    """Groups that share no cells: one factorisation per group, and one for the levels."""

    def __init__(
        self, layout: SystemLayout, groups: Places, block: Floats, held: Conditions
    ) -> None:
        self.family, share = int(layout.family[groups[0]]), layout.share[groups, 0]
        blocks = block / share[:, None, None]
        np.einsum("gkk->gk", blocks)[:] += held.softness[groups] + held.damping
        slope = np.where(held.leveled[self.family], held.slope[groups], 0.0)
        self.system = LevelSystem(blocks, held.free[groups], share, slope, held.omega[self.family])

    def solve(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        c = np.zeros_like(balance)
        d, levels = self.system.solve_with_levels(right, balance[self.family])
        c[self.family] = -levels
        return d, c


class _Averaged:
    """The same where prices d are passed on to groups less their mean r, as n = d - r; S is softness, and means are by share.

    With c minus the mean of what the rows then move, one per class as r is,

        curvature n + S d + c = right        where an entry has a price; elsewhere d = 0,
        mean(n) = 0,        c + mean(curvature n) = 0.

    One factorisation per group, of curvature + S, and one for what groups share. Two things would
    drown there, and are unknowns of their own instead. Rows do not answer a price that is alike in
    all classes: one entry of a group is pinned at 0, and what all of them are above that is found
    last, with the curvature that it has, which is none. And an entry that leans on a side is soft
    as nothing is, and one inside its band as good as held: the unknown is n where the curvature is
    larger, and d where softness is. A class whose means are all equal has a level instead.
    """

    def __init__(
        self,
        layout: SystemLayout,
        groups: Places,
        block: Floats,
        held: Conditions,
        by_rows: Callable[[], RowCurvature | None] | None = None,
    ) -> None:
        self.family, self.share = int(layout.family[groups[0]]), layout.share[groups]

        @cache
        def together() -> _Shared:
            rows = None if by_rows is None else by_rows()
            if rows is None or not rows.by_rows:
                return _Shared(
                    layout, groups, np.einsum("gkl,gh->gkhl", block, np.eye(len(block))), held
                )
            # digits were lost: gradients would find but three
            return _Shared(layout, groups, replace(rows, products=0), held)

        self._together = together
        self.mean, self.free = layout.averaged[self.family], held.free[groups]
        self.blocks = block / self.share[:, :, None]
        self.softness, own = held.softness[groups], np.einsum("gkk->gk", self.blocks)
        self.slope = np.where(held.leveled[self.family], held.slope[groups], 0.0)
        self.omega = np.where(self.mean, 0.0, held.omega[self.family])
        self.refinements = _UNDAMPING if held.damping else _REFINEMENTS
        soft = self.softness + held.damping
        stiff = self.mean & (~self.free | (soft > own))
        self.passed = self.mean & ~stiff  # entries whose unknown is n
        alive = self.free.copy()
        # the pinned ones
        alive[np.arange(len(own)), np.where(self.free, own, -1.0).argmax(axis=1)] = False
        blocks = self.blocks * (alive[:, :, None] & alive[:, None, :])
        np.einsum("gkk->gk", blocks)[:] += np.where(alive, soft, 1.0)
        scale = 1.0 / np.sqrt(np.einsum("gkk->gk", blocks))
        half = (
            np.linalg.inv(cholesky(blocks * scale[:, :, None] * scale[:, None, :]))
            * (scale * alive)[:, None, :]
        )
        self.inverse = half.transpose(0, 2, 1) @ half
        self._border(soft, stiff, alive)
        self._eliminate(soft, stiff)

    def _border(self, soft: Floats, stiff: Flags, alive: Flags) -> None:
        """Make what c and r of every class, and last what is alike in a group, do to the equations of entries, and to their sum."""
        n_classes, dead = len(self.mean), ~self.free
        columns = np.zeros((*self.free.shape, 2 * n_classes + 1))
        c, r = columns[:, :, :n_classes], columns[:, :, n_classes:-1]
        np.einsum("gkk->gk", c)[:] = np.where(self.mean, 1.0, self.slope)
        r[:] = -self.blocks * stiff[:, None, :]
        np.einsum("gkk->gk", r)[:] += np.where(self.passed, soft, 0.0)
        # What rows answer to a price alike in some classes is minus what they answer to one in the
        # others.
        answer = -np.einsum("gkl,gl->gk", self.blocks, dead.astype(np.float64))
        columns[:, :, -1] = soft + answer
        columns *= alive[:, :, None]
        sums = [
            np.where(self.mean, 1.0, self.slope) * self.free,
            np.where(self.passed, soft, 0.0) - np.where(stiff, answer, 0.0),
        ]
        last = np.where(self.free, soft, 0.0).sum(axis=1) - np.where(dead, answer, 0.0).sum(axis=1)
        self.columns, self.sums = columns, np.concatenate([*sums, last[:, None]], axis=1)

    def _eliminate(self, soft: Floats, stiff: Flags) -> None:
        n_classes, n_groups = len(self.mean), len(self.free)
        c, r, alike = (
            np.einsum("gkk->gk", self.columns[:, :, :n_classes]),
            self.columns[:, :, n_classes:-1],
            self.columns[:, :, -1],
        )
        moved, weighed = self.inverse @ r, self.share * c
        corner = np.zeros((2 * n_classes + n_groups,) * 2)
        levels, means, groups = (
            slice(n_classes),
            slice(n_classes, 2 * n_classes),
            slice(2 * n_classes, None),
        )
        corner[levels, levels] = -(weighed[:, :, None] * self.inverse * c[:, None, :]).sum(axis=0)
        np.einsum("kk->k", corner[levels, levels])[:] -= self.omega
        across = -(weighed[:, :, None] * moved).sum(axis=0)
        np.einsum("kk->k", across)[:] -= (self.share * stiff).sum(axis=0)
        corner[levels, means], corner[means, levels] = across, across.T
        within = ((self.share * stiff)[:, :, None] * self.blocks * stiff[:, None, :]).sum(axis=0)
        within -= (self.share[:, :, None] * r).reshape(-1, n_classes).T @ moved.reshape(
            -1, n_classes
        )
        np.einsum("kk->k", within)[:] += np.where(self.passed, self.share * soft, 0.0).sum(axis=0)
        corner[means, means] = within
        lift = products(self.inverse, alike)
        sums = self.sums[:, :-1] - np.concatenate(
            [c * lift, np.matmul(lift[:, None, :], r)[:, 0]], axis=1
        )
        corner[groups, : 2 * n_classes] = self.share * sums
        corner[: 2 * n_classes, groups] = corner[groups, : 2 * n_classes].T
        np.einsum("gg->g", corner[groups, groups])[:] = self.share[:, 0] * (
            self.sums[:, -1] - (alike * lift).sum(axis=1)
        )
        self.used = np.flatnonzero(np.abs(corner).sum(axis=1))
        corner = corner[np.ix_(self.used, self.used)]
        size = 1.0 / np.sqrt(np.abs(corner).max(axis=1))
        self.corner = size[:, None] * np.linalg.inv(size[:, None] * corner * size) * size

    def solve(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        wanted = np.where(self.mean, 0.0, balance[self.family])
        right = np.where(self.free, right, 0.0)
        (d, levels), missing = _refined(self._times, self._solve, (right, wanted), self.refinements)
        if (
            missing > _LOST
            and self.refinements == _REFINEMENTS
            and self.free.size <= _MOST_TOGETHER
        ):
            return self._together().solve(right, balance)
        c = np.zeros_like(balance)
        c[self.family] = np.where(self.mean, 0.0, levels)
        return d, c

    def _centred(self, d: Floats) -> Floats:
        return d - np.where(self.mean, (self.share * d).sum(axis=0) / self.share.sum(), 0.0)

    def _times(self, d: Floats, levels: Floats) -> tuple[Floats, Floats]:
        found = self._centred(products(self.blocks, self._centred(d))) + self.softness * d
        found += self.slope * np.where(self.mean, 0.0, levels)
        return np.where(self.free, found, 0.0), np.where(
            self.mean, 0.0, (self.share * self.slope * d).sum(axis=0) - self.omega * levels
        )

    def _solve(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        n_classes = len(self.mean)
        own = products(self.inverse, right)
        answered = np.matmul((self.share * own)[:, None, :], self.columns)[:, 0]
        asked = np.concatenate(
            [
                balance,
                np.where(self.passed, self.share * right, 0.0).sum(axis=0),
                (self.share * right).sum(axis=1),
            ]
        )
        asked[: 2 * n_classes] -= answered[:, :-1].sum(axis=0)
        asked[2 * n_classes :] -= answered[:, -1]
        found = np.zeros(len(asked))
        found[self.used] = self.corner @ asked[self.used]
        shared, alike = found[: 2 * n_classes], found[2 * n_classes :, None]
        d = (
            own
            - products(
                self.inverse, self.columns[:, :, :-1] @ shared + self.columns[:, :, -1] * alike
            )
            + alike
        )
        return np.where(self.free, d + np.where(self.passed, shared[n_classes:], 0.0), 0.0), shared[
            :n_classes
        ]


class _Shared:
    """Groups that touch each other: by conjugate gradients where those are asked for and get there, else factorised."""

    def __init__(
        self, layout: SystemLayout, groups: Places, curvature: Curved, held: Conditions
    ) -> None:
        self.family, self.free, self.held = layout.family[groups], held.free[groups], held
        self.layout, self.groups, self.curvature = layout, groups, curvature
        self._together = cache(lambda: _Shared(layout, groups, self._table(), held))
        self.root = np.sqrt(layout.share[groups])
        self.places = [
            (f, k)
            for f in np.unique(self.family)
            for k in np.flatnonzero(
                held.leveled[f] & (self.free & (self.family == f)[:, None]).any(axis=0)
            )
        ]
        self.refinements = _UNDAMPING if held.damping else _REFINEMENTS
        self.gradients: Gradients | None = None
        if (
            isinstance(curvature, RowCurvature)
            and curvature.products
            and not held.damping
            and self.free.any()
        ):
            self.gradients = self._gradients(curvature)

    def _gradients(self, curvature: RowCurvature) -> Gradients | None:
        families = np.unique(self.family)
        columns = np.zeros((len(families), *self.free.shape))
        for place, f in enumerate(families):
            mine = self.free & (self.family == f)[:, None] & self.held.leveled[f]
            columns[place] = np.where(mine, self.root * self.held.slope[self.groups], 0.0)
        designs = _designs(curvature.design, self.layout, self.groups)
        try:
            held = self.held
            return Gradients(
                curvature,
                designs,
                held.softness[self.groups],
                self.free,
                columns,
                held.omega[families],
                held.exact,
            )
        except np.linalg.LinAlgError:
            return None

    @cached_property
    def columns(self) -> Floats:
        """How the entries that have a price count in the levels."""
        columns = np.zeros((*self.free.shape, len(self.places)))
        for place, (f, k) in enumerate(self.places):
            columns[:, k, place] = np.where(
                self.family == f, self.root[:, 0] * self.held.slope[self.groups, k], 0.0
            )
        return np.asarray(columns[self.free])

    @cached_property
    def omega(self) -> Floats:
        """What the levels that are to be found have of their own."""
        return np.array([self.held.omega[place] for place in self.places])

    @cached_property
    def levels(self) -> Cholesky:
        """The system of the levels."""
        return Cholesky(self.factor.square(self.columns) + np.diag(self.omega))

    def _table(self) -> Floats:
        return (
            self.curvature.table() if isinstance(self.curvature, RowCurvature) else self.curvature
        )

    @cached_property
    def factor(self) -> Factor:
        """The matrix of the prices, factorised."""
        layout, groups, curvature, held = self.layout, self.groups, self.curvature, self.held
        if isinstance(curvature, RowCurvature) and curvature.by_rows:
            return RowFactor(
                curvature,
                _designs(curvature.design, layout, groups),
                held.softness[groups],
                self.free,
                held.damping,
            )
        matrix = _centred(self._table(), layout, groups)
        np.einsum("gkgk->gk", matrix)[:] += held.softness[groups]
        flat, alive = matrix.reshape(self.free.size, -1), np.flatnonzero(self.free.ravel())
        return TableFactor(
            flat if len(alive) == len(flat) else flat[np.ix_(alive, alive)], held.damping
        )

    def solve(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        d, c = np.zeros(self.free.shape), np.zeros_like(balance)
        if not self.free.any():
            return d, c
        if self.gradients is not None:
            mine = np.unique(self.family)
            found = self.gradients.solve(
                np.where(self.free, self.root * right, 0.0),
                np.where(self.gradients.leveled, balance[mine], 0.0),
            )
            if found is not None:
                c[mine] = found[1]
                return found[0] / self.root, c
            self.gradients = None
        wanted = (self.root * right)[self.free], np.array([balance[place] for place in self.places])
        (d[self.free], levels), missing = _refined(
            self._times, self._solve, wanted, self.refinements
        )
        if (
            missing > _REPAIRED
            and self.refinements == _REFINEMENTS
            and isinstance(self.factor, RowFactor)
        ):
            return self._together().solve(right, balance)
        for place, level in zip(self.places, levels, strict=True):
            c[place] = level
        return d / self.root, c

    def _times(self, d: Floats, levels: Floats) -> tuple[Floats, Floats]:
        found = self.factor.times(d)
        return (
            (found + self.columns @ levels, d @ self.columns - self.omega * levels)
            if self.places
            else (found, levels)
        )

    def _solve(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        own = self.factor.solve(right)
        if not self.places:
            return own, balance
        levels = self.levels.solve(own @ self.columns - balance)
        return own - self.factor.solve(self.columns @ levels), levels


Pair = tuple[Floats, Floats]


def _refined(
    times: Callable[[Floats, Floats], Pair],
    solve: Callable[[Floats, Floats], Pair],
    wanted: Pair,
    most: int,
) -> tuple[Pair, float]:
    """Solve, and solve for what is missing as long as that gets less; give what is missing in the end, in units of what is wanted."""
    best = found = solve(*wanted)
    whole = max(_largest(wanted), np.finfo(float).tiny)
    enough, last = _ROUNDING * whole, np.inf
    for _ in range(most):
        missing = [one - other for one, other in zip(wanted, times(*found), strict=True)]
        size = _largest(missing)
        if not size < last:
            break
        hopeful = most == _UNDAMPING or size < _GAIN * last
        best, last = found, size
        if size <= enough or not hopeful:
            break
        more = solve(*missing)
        found = found[0] + more[0], found[1] + more[1]
    return best, last / whole


def _largest(pair: Sequence[Floats]) -> float:
    return max(float(np.abs(each).max(initial=0.0)) for each in pair)


def _designs(design: Floats, layout: SystemLayout, groups: Places) -> list[tuple[Floats, Places]]:
    """Give the design by entries' prices, in units where every share is 1: of some classes, and which; those of one kind together."""
    root, family = np.sqrt(layout.share[groups, 0]), layout.family[groups]
    mine = np.unique(family)
    kinds, kind = np.unique(layout.averaged[mine], axis=1, return_inverse=True)
    found = []
    for place, averaged in enumerate(kinds.T):
        own = design / root
        for f in mine[averaged]:
            length = np.where(family == f, root, 0.0) / np.sqrt(layout.total[f, 0])
            own = own - np.outer(own @ length, length)
        found.append((own, np.flatnonzero(kind.ravel() == place)))
    return found


def _centred(block: Floats, layout: SystemLayout, groups: Places) -> Floats:
    """Give the curvature of a component by its entries' prices, in units where every share is 1."""
    root = np.sqrt(layout.share[groups, 0])
    matrix: Floats = block / root[:, None, None, None] / root[None, None, :, None]
    for f in np.unique(layout.family[groups]):
        columns = np.flatnonzero(layout.averaged[f])
        mine = np.flatnonzero(layout.family[groups] == f)
        if len(columns) == matrix.shape[1] and len(mine) == len(groups):  # all of it, in place
            matrix -= root[:, None, None, None] * (
                np.tensordot(root, matrix, 1) / layout.total[f, 0]
            )
            matrix -= root[:, None] * (np.matmul(root, matrix) / layout.total[f, 0])[:, :, None, :]
        elif len(columns):
            part = matrix[mine[:, None], columns]
            matrix[mine[:, None], columns] = (
                part
                - root[mine, None, None, None]
                * np.tensordot(root[mine], part, 1)
                / layout.total[f, 0]
            )
            part = matrix[:, :, mine[:, None], columns]
            mean = np.einsum("g,abgk->abk", root[mine], part)[:, :, None, :] / layout.total[f, 0]
            matrix[:, :, mine[:, None], columns] = part - root[mine, None] * mean
    return matrix
