"""What a solution is: the rule that turns old labels into new ones, and the evidence about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.families import Families
from r2b._data import Schema
from r2b._data.compute import refuse_beyond_memory
from r2b._data.groups import Layout
from r2b._solve.certificate import Certificate
from r2b._solve.oracle.plain import respond
from r2b._solve.solvers import Progress, Status

Floats = NDArray[np.float64]
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Response:
    """The map from (old label, cell) to the distribution of the new label.

    Attributes
    ----------
    shifts : ndarray of shape (n_cells, n_classes)
        What the prices of its groups add up to for each cell.
    lam : float
        0 where the table decides.
    unchanged : bool
        Labels go out as they came in.
    costs : ndarray of shape (n_classes, n_classes), optional
        What it costs to turn one class into another.
    table : ndarray of shape (n_cells, n_classes, n_classes), optional
        P(new class | old class, cell), where prices do not tell it.

    Examples
    --------
    >>> Response(np.array([[0.2, -0.2]]), 1.0).of_rows(np.array([[1.0, 0.0]]), np.array([0]))
    array([[0.8, 0.2]])
    """

    shifts: Floats
    lam: float
    unchanged: bool = False
    costs: Floats | None = None
    table: Floats | None = None

    def of_rows(self, labels: Array, cells: Array) -> Array:
        """Give the new label of rows of probabilities."""
        if self.unchanged:
            return labels
        worth = labels if self.costs is None else labels @ -self.costs
        return respond(worth, cells, self.shifts, self.lam)

    def channel(self) -> Floats:
        """Answer of every cell to every pure class: P(new class | old class, cell)."""
        if self.table is not None:
            return self.table
        n_cells, n_classes = self.shifts.shape
        needed = n_cells * n_classes**2 * 8
        remedy = "Use iter_soft(), sample() or round(), which need no such table, or put rare classes and small groups together."
        refuse_beyond_memory(needed, f"The table of {n_cells:,} cells and {n_classes:,} x {n_classes:,} classes", remedy)
        one_hot = np.eye(n_classes)
        if self.unchanged:
            return np.broadcast_to(one_hot, (n_cells, n_classes, n_classes)).copy()
        return np.stack([self.of_rows(one_hot, np.full(n_classes, cell)) for cell in range(n_cells)])


@dataclass(frozen=True, eq=False)
class Rule:
    """Prices, and the classes and groups for which they were found.

    Attributes
    ----------
    schema : Schema
    families : Families
    prices : ndarray of shape (n_groups, n_classes)
    lam : float
        0 for agreement.
    unchanged : bool
        The labels go out as they came in, bit for bit.
    costs : ndarray of shape (n_classes, n_classes) or None
    table : ndarray of shape (n_cells, n_classes, n_classes) or None
        The channel, where prices do not tell it: for agreement.
    """

    schema: Schema
    families: Families
    prices: Floats
    lam: float
    unchanged: bool = False
    costs: Floats | None = field(default=None, repr=False)
    table: Floats | None = field(default=None, repr=False)

    def response(self, cells: Layout) -> Response:
        """Give the map from old to new labels in these cells."""
        return Response(self.families.shifts(cells, self.prices), self.lam, self.unchanged, self.costs, self.table)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known about the labels of a rule.

    Attributes
    ----------
    status : Status
    certificate : Certificate
    residual : float
    history : sequence of Progress
    """

    status: Status
    certificate: Certificate
    residual: float
    history: Sequence[Progress] = ()


@dataclass(frozen=True, eq=False)
class Solution:
    """A rule with its evidence, and no rows.

    Attributes
    ----------
    rule : Rule
    evidence : Evidence
    """

    rule: Rule
    evidence: Evidence

    @property
    def schema(self) -> Schema:
        """Classes and groups, as they came in."""
        return self.rule.schema

    @property
    def families(self) -> Families:
        """Which groups agree with each other, and how closely."""
        return self.rule.families

    @property
    def prices(self) -> Floats:
        """What it costs to be labelled k in group s, of shape (n_groups, n_classes).

        The new label of a row is ``P((y - prices[s]) / lam)``, P the projection onto the simplex; the prices of a row in several groups
        add up.
        """
        return self.rule.prices

    @property
    def lam(self) -> float:
        """What the size of new labels counts against agreement with the old; 0 for agreement."""
        return self.rule.lam

    @property
    def unchanged(self) -> bool:
        """Whether the labels go out as they came in, bit for bit."""
        return self.rule.unchanged

    @property
    def costs(self) -> Floats | None:
        """What it costs to turn one class into another, of shape (n_classes, n_classes)."""
        return self.rule.costs

    @property
    def table(self) -> Floats | None:
        """The channel of every cell, where prices do not tell it: for agreement."""
        return self.rule.table

    @property
    def status(self) -> Status:
        """What happened and, in ``status.advice``, what to do about it. ``status.ok`` means proven optimal."""
        return self.evidence.status

    @property
    def certificate(self) -> Certificate:
        """The proof, recomputed from the data and the labels given out."""
        return self.evidence.certificate

    @property
    def residual(self) -> float:
        """How far the prices are from optimal, in units of group means."""
        return self.evidence.residual

    @property
    def history(self) -> Sequence[Progress]:
        """The steps of the solver."""
        return self.evidence.history

    @property
    def classes(self) -> Array:
        """Names of the classes, with the dtype they came in."""
        return self.schema.classes.values

    @property
    def groups(self) -> Array:
        """Names of the groups, family after family."""
        return self.families.names

    @property
    def cells(self) -> Array:
        """Names of the cells: the crossings of all sensitive and control columns. For one family of crossings these are the groups."""
        return self.schema.names

    @cached_property
    def channel(self) -> Floats:
        """P(new class | old class, cell), of shape (n_cells, n_classes, n_classes).

        For probabilities: what a row certain of its class becomes.
        """
        return self.rule.response(self.schema).channel()
