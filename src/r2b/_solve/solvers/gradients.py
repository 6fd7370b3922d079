"""Conjugate gradients for the prices of groups that share rows: what a table of all pairs of prices is too dear for.

A row binds its classes together by one number, its level. Without levels of rows the system falls
apart into classes, one small system of groups each, which take what the rows' levels leave of their
own diagonal and hold the levels of families exactly. Preconditioned by these five to fifty products
with the rows reach three digits, where the table would take rows x prices^2.
"""

from __future__ import annotations

import numpy as np

from r2b._data.arrays import Flags, Floats, Places
from r2b._solve.solvers.factors import RowCurvature

_LEAST, _MOST = 20, 150  # products with the rows; twenty to forty are the rule
# of what a factorisation costs that products may: a step solves three systems or more with one
_SHARE = 0.5
# of the energy's root that may be left: the next step repairs it. A path takes as many with 1e-7,
# and twice the products
EXACT = 1e-3
_DISTINCT = 1e-12  # of the longest direction set apart, below which one is a sum of others
# operations from which a factorisation takes longer than a few dozen products with the rows
_DEAR = 1e9


def worthwhile(n_rows: int, n_prices: int) -> bool:
    """Whether factorising costs more than a few solutions here."""
    table = n_prices**2 * (n_rows + n_prices / 3)
    return min(table, n_rows**2 * (n_prices + n_rows / 3)) > _DEAR


def most_products(n_rows: int, n_prices: int, work: float) -> int:
    """Give how many products with the rows are tried before a factorisation of so many operations."""
    return int(np.clip(_SHARE * work / (4.0 * n_rows * n_prices), _LEAST, _MOST))


class Gradients:
    """Solve ``K d + columns c = right, columns' d - omega c = balance`` with K the curvature of rows plus softness.

    Parameters
    ----------
    curvature : RowCurvature
    designs : list of (ndarray of shape (n_cells, n_groups), ndarray of int)
        The design of some classes, and which, in units where every share is 1.
    softness : ndarray of shape (n_groups, n_classes)
    free : ndarray of bool, same shape
        Entries that have a price.
    columns : ndarray of shape (n_families, n_groups, n_classes)
        How entries count in the levels of their class; 0 where they do not.
    omega : ndarray of shape (n_families, n_classes)
    exact : float
        Part of the energy's root that a solution may leave.
    """

    def __init__(
        self,
        curvature: RowCurvature,
        designs: list[tuple[Floats, Places]],
        softness: Floats,
        free: Flags,
        columns: Floats,
        omega: Floats,
        exact: float = EXACT,
    ) -> None:
        self.curvature, self.designs, self.free, self.columns = curvature, designs, free, columns
        self.softness, self.exact = softness, exact
        n_families, n_groups, n_classes = columns.shape
        self.weighed = curvature.weight[:, None] * curvature.d
        own = curvature.summed(self.weighed * (1.0 - curvature.d / curvature.d_sum[:, None]))
        blocks = np.zeros((n_classes, n_groups + n_families, n_groups + n_families))
        upper, lower = np.triu_indices(n_groups)
        for design, classes in designs:
            # each pair of groups once
            half = own[:, classes].T @ (design[:, upper] * design[:, lower])
            blocks[classes[:, None], upper, lower] = blocks[classes[:, None], lower, upper] = half
        np.einsum("kgg->kg", blocks)[:, :n_groups] += softness.T
        own_blocks = blocks[:, :n_groups, :n_groups].copy()
        blocks[:, :n_groups, n_groups:] = columns.transpose(2, 1, 0)
        blocks[:, n_groups:, :n_groups] = columns.transpose(2, 0, 1)
        self.leveled = columns.any(axis=1)
        alive = np.concatenate([free, self.leveled]).T
        blocks *= alive[:, :, None] & alive[:, None, :]
        diagonal = np.einsum("kgg->kg", blocks)
        diagonal[:, n_groups:] -= omega.T
        diagonal[~alive] = 1.0
        scale = 1.0 / np.sqrt(np.abs(np.where(diagonal == 0, 1.0, diagonal)))
        # A level has the size of what it is moved by where nothing of its own holds it.
        moved = ((blocks[:, n_groups:, :n_groups] * scale[:, None, :n_groups]) ** 2).sum(
            axis=2
        ) + np.abs(diagonal[:, n_groups:])
        scale[:, n_groups:] = 1.0 / np.sqrt(np.where(moved > 0, moved, 1.0))
        scale *= alive
        blocks *= scale[:, :, None] * scale[:, None, :]
        np.einsum("kgg->kg", blocks)[~alive] = 1.0
        self.inverse = np.linalg.inv(blocks) * scale[:, :, None] * scale[:, None, :]
        self._set_apart(own_blocks)

    def _set_apart(self, blocks: Floats) -> None:
        """Make the directions that are solved for apart: prices of a group alike in all classes, to which rows hardly answer."""
        n_groups, n_prices = len(self.free), self.free.size
        none = np.zeros(self.leveled.shape)
        if (unmoved := self._unmoved()) is not None:
            # Rows do not answer these, and no level moves with them: softness is all that they
            # meet.
            size = 1.0 / np.sqrt((unmoved**2) @ self.softness.sum(axis=1))
            alike = np.repeat((size[:, None] * unmoved)[:, :, None], self.softness.shape[1], axis=2)
            self.alike, self.products = (
                alike.reshape(len(size), -1),
                (alike * self.softness).reshape(len(size), -1),
            )
            self.lifts = np.zeros((len(size), none.size))
            self.coarse = _inverse(self.alike @ self.products.T)
            return
        self.alike, self.products = np.zeros((n_groups, n_prices)), np.zeros((n_groups, n_prices))
        self.lifts = np.zeros((n_groups, none.size))
        for g in range(n_groups):
            d, c = self._by_class(np.where(self.free, blocks[:, :, g].T * self.free[g], 0.0), none)
            product = self._times(d, c)
            size = np.sqrt(max(float((d * product).sum()), np.finfo(float).tiny))
            self.alike[g], self.lifts[g], self.products[g] = (
                d.ravel() / size,
                c.ravel() / size,
                product.ravel() / size,
            )
        self.coarse = _inverse(self.alike @ self.products.T)

    def _unmoved(self) -> Floats | None:
        """Give prices of groups, alike in all classes, that levels do not move with; None where classes differ in what they count for.

        Of a family with levels these are differences between its groups, next to each other by how
        soft they are.
        """
        counts, n_groups = self.columns[:, :, 0], len(self.free)
        if (
            len(self.designs) > 1
            or not self.free.all()
            or (self.columns != counts[:, :, None]).any()
        ):
            return None
        order = np.argsort(self.softness.sum(axis=1))
        found = [np.eye(n_groups)[np.flatnonzero(~counts.any(axis=0))]]
        for count in counts:
            mine = order[count[order] != 0]
            apart = np.zeros((max(0, len(mine) - 1), n_groups))
            pair = np.arange(len(apart))
            apart[pair, mine[:-1]], apart[pair, mine[1:]] = (
                1.0 / count[mine[:-1]],
                -1.0 / count[mine[1:]],
            )
            found.append(apart)
        return np.concatenate(found)

    def _apart(self, amount: Floats) -> tuple[Floats, Floats]:
        """Give what these amounts of the directions set apart add up to."""
        return (amount @ self.alike).reshape(self.free.shape), (amount @ self.lifts).reshape(
            self.leveled.shape
        )

    def solve(self, right: Floats, balance: Floats) -> tuple[Floats, Floats] | None:
        """Give the prices, groups x classes, and the levels, families x classes; None where it takes too long."""
        none = np.zeros_like(balance)
        d, c = self._by_class(right, balance)
        answered = self._times(d, none)
        whole = float((right * self._by_class(right, none)[0]).sum()) + float((d * answered).sum())
        missing = right * self.free - answered - self._lifted(c)
        amount = self.coarse @ (self.alike @ missing.ravel())
        more = self._apart(amount)
        d, c, missing = (
            d + more[0],
            c + more[1],
            missing - (amount @ self.products).reshape(d.shape),
        )
        along, last = (np.zeros_like(d), none), np.inf
        for _ in range(self.curvature.products):
            step, lift = self._by_class(missing, none)
            energy = float((missing * step).sum())
            if not energy > self.exact**2 * whole:
                return (d + step, c + lift) if np.isfinite(energy) else None
            known = self._apart(self.coarse @ (self.products @ step.ravel()))
            along = (
                step - known[0] + energy / last * along[0],
                lift - known[1] + energy / last * along[1],
            )
            last, product = energy, self._times(*along)
            bend = float((along[0] * product).sum())
            if not bend > 0:
                return None
            length = energy / bend
            d, c, missing = d + length * along[0], c + length * along[1], missing - length * product
        return None

    def _by_class(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        found = np.matmul(self.inverse, np.concatenate([right, balance]).T[:, :, None])[:, :, 0].T
        return found[: len(right)], found[len(right) :]

    def _times(self, d: Floats, c: Floats) -> Floats:
        found = self.softness * d + self._lifted(c)
        rows = self.curvature
        if len(self.designs) == 1:
            design = self.designs[0][0]
            found += design.T @ rows.summed(self._respond(rows.spread(design @ d)))
        else:
            shifts = np.empty((len(rows.design), d.shape[1]))
            for design, classes in self.designs:
                shifts[:, classes] = design @ d[:, classes]
            moved = rows.summed(self._respond(rows.spread(shifts)))
            for design, classes in self.designs:
                found[:, classes] += design.T @ moved[:, classes]
        return np.where(self.free, found, 0.0)

    def _lifted(self, c: Floats) -> Floats:
        """Give what levels add to the entries that have a price."""
        return np.where(self.free, np.einsum("fgk,fk->gk", self.columns, c), 0.0)

    def _respond(self, shifts: Floats) -> Floats:
        """Give what rows move for a shift, times their weight; in place."""
        level = np.matmul(self.curvature.d[:, None, :], shifts[:, :, None])[:, 0]
        level /= self.curvature.d_sum[:, None]
        shifts -= level
        shifts *= self.weighed
        return shifts


def _inverse(products: Floats) -> Floats:
    """Invert products of directions with each other, of which some may be sums of others."""
    lengths, turned = np.linalg.eigh(products)
    kept = lengths > _DISTINCT * lengths[-1:]
    return np.asarray((turned[:, kept] / lengths[kept]) @ turned[:, kept].T)
