"""Sums over rows and their new labels, and the certificate that follows.

No code here is shared with a solver.

For any labels x that meet the bound and any prices, the gap bounds how much better other labels can
be, see :mod:`r2b._solve.certificate`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from r2b._constraints.families import Families
from r2b._constraints.parity import Parity
from r2b._data.arrays import Array, Floats
from r2b._data.cells import Layout
from r2b._data.compute import parts_of
from r2b._data.merge import cell_sums, joint_codes
from r2b._data.probabilities import TOLERANCE
from r2b._labels import FairLabels
from r2b._labels.realised import rounding_bound
from r2b._solve.certificate import PROVEN, Certificate, stated_as
from r2b._verify.record import WrittenRows
from r2b.engines.source import Relabel

Seen = tuple[dict[str, Any], dict[str, float], int | None]

_ENTRIES = 1 << 20
_TERMS = ("slack", "squared_norm", "agreement", "distance", "moved")


class RowSums:
    """Adds up rows of an output.

    Parameters
    ----------
    relabel : Relabel
        Makes the labels again, from the prices and what the certificate says was asked for.

    Attributes
    ----------
    response : Response
        What the prices make of old labels.
    sums : dict
        Arrays and numbers that are added up: of labels before and after by cell, of rows, and the
        terms of the gap.
    most : dict
        Numbers of which the largest is kept: how far off rows are.
    first : int or None
        The first row whose label does not follow from the prices.
    """

    def __init__(self, relabel: Relabel) -> None:
        self.relabel, self.whole = relabel, relabel.form in ("round", "sample")
        self.response = relabel.response
        self.sums: dict[str, Any] = defaultdict(float)
        self.most: dict[str, float] = defaultdict(float)
        self.first: int | None = None

    def look(self, rows: WrittenRows) -> tuple[Seen, WrittenRows]:
        """Look at some rows, and give them back; it may be done in any thread."""
        # numbers that are none are found, not warned of
        with np.errstate(invalid="ignore", over="ignore"):
            return self._look(rows), rows

    def _look(self, rows: WrittenRows) -> Seen:
        data, fair = rows.data, self.relabel.rows(rows.data)
        self.response = fair.response
        n_cells, n_classes = self.response.shifts.shape
        cells, weight = (
            data.cells.codes.astype(np.int64),
            np.ones(len(rows.batch)) if rows.weight is None else rows.weight,
        )
        expected = (
            np.asarray(fair.matrix(np.float64)) if data.labels.is_soft or not self.whole else None
        )
        sums: dict[str, Any] = {
            "rows": len(rows.batch),
            "unknown": int((rows.made[0] < 0).sum()),
            "copies": rows.copies,
        }
        most = {"weight": float(weight.max())}
        mass, sums["before"] = cell_sums(data.labels, data.cells, rows.weight)
        if data.labels.is_soft:
            assert expected is not None
            sums |= {"count": np.bincount(cells, minlength=n_cells), "mass": mass}
            terms, most["simplex"] = self._terms(
                np.asarray(data.labels.array, np.float64), cells, weight, expected
            )
            sums |= terms
        else:
            sums["count"] = np.bincount(joint_codes(data), minlength=n_cells * n_classes).reshape(
                n_cells, n_classes
            )
        if not self.whole:
            assert expected is not None
            x = (
                rows.labels
                if rows.total is None
                else np.where(rows.total[:, None] > 0, rows.labels, expected)
            )
            sums["after"] = _by_cell(cells, weight, x, n_cells)
            away, most["off"] = np.abs(x - expected).max(axis=1), _off_simplex(x)
        else:
            there = rows.labels >= 0
            pairs = cells[there] * n_classes + rows.labels[there]
            sums["after"] = np.bincount(pairs, weight[there], n_cells * n_classes).reshape(
                n_cells, n_classes
            )
            away = (rows.labels != self.relabel.codes(rows.batch, data)).astype(np.float64)
        wrong = np.flatnonzero(~(away <= PROVEN))
        sums["wrong"], most["away"] = len(wrong), float(away.max())
        if rows.total is not None:
            apart = np.abs(rows.total - weight) / np.maximum(1.0, rows.total)
            most["apart"] = float(apart.max()) if np.isfinite(apart).all() else np.inf
        return sums, most, rows.batch.first + int(wrong[0]) if len(wrong) else None

    def add(self, sums: dict[str, Any], most: dict[str, float], first: int | None) -> None:
        """Add what was seen of the next rows."""
        for name, value in sums.items():
            self.sums[name] = self.sums[name] + value
        for name, value in most.items():
            self.most[name] = value if np.isnan(value) else max(self.most[name], value)
        self.first = first if self.first is None else self.first

    def finish(self) -> None:
        """Add the terms of class labels, which are the same for all rows of a cell and a class."""
        if "slack" in self.sums:
            return
        n_classes, before = self.response.shifts.shape[1], self.sums["before"]
        self.sums["mass"] = before.sum(axis=1)
        places = np.flatnonzero(self.sums["count"])
        for part in parts_of(len(places), max(1, _ENTRIES // n_classes)):
            cells, classes = np.divmod(places[part], n_classes)
            labels = np.zeros((len(cells), n_classes))
            labels[np.arange(len(cells)), classes] = 1.0
            table = self.response.table
            x = (
                self.response.of_rows(labels, cells)
                if table is None or self.response.unchanged
                else table[cells, classes]
            )
            terms, simplex = self._terms(labels, cells, before.ravel()[places[part]], x)
            self.add(terms, {"simplex": simplex}, None)

    def _terms(
        self, labels: Floats, cells: Array, weight: Floats, x: Floats
    ) -> tuple[dict[str, Any], float]:
        response = self.response
        worth = labels if response.costs is None else labels @ -response.costs
        slope, apart = response.lam * x - worth + response.shifts[cells], x - labels
        each = [
            (x * slope).sum(axis=1) - slope.min(axis=1),
            (x * x).sum(axis=1),
            (x * worth).sum(axis=1),
            (apart * apart).sum(axis=1),
            0.5 * np.abs(apart).sum(axis=1),
        ]
        found: dict[str, Any] = {
            name: float(weight @ term) for name, term in zip(_TERMS, each, strict=True)
        }
        return found | {"expected": _by_cell(cells, weight, x, len(response.shifts))}, _off_simplex(
            x
        )

    def cell_means(self, name: str) -> Floats:
        """Return means of cells from the sums of this name; a cell without weight has none."""
        mass = self.sums["mass"][:, None]
        return np.asarray(
            np.divide(self.sums[name], mass, out=np.zeros_like(self.sums[name]), where=mass > 0)
        )

    def certificate(self, fair: FairLabels, parity: Parity, lam: float) -> Certificate:
        """Certify the labels as they are or, for one class per row, their distributions."""
        total = float(self.sums["mass"].sum())
        slack, squared_norm, agreement, distance, moved = (
            self.sums[name] / total for name in _TERMS
        )
        means, before = (
            parity.means(self.cell_means(name))
            for name in ("expected" if self.whole else "after", "before")
        )
        settled, size = parity.settle(fair.prices), 0.5 * lam * squared_norm
        # The slack of a row changes by at most twice what its prices do.
        beyond = parity.largest_shift(settled - fair.prices) + float(
            np.abs(parity.shifts(fair.prices) - self.response.shifts).max()
        )
        gap = slack + 2.0 * beyond + parity.support(settled) - parity.product(settled, means)
        # Labels that go out as they came in may be farther off the simplex, by the type in which
        # they came.
        stated = fair.certificate.simplex_allowance
        allowance = stated if stated in TOLERANCE.values() else TOLERANCE[np.dtype(np.float64)]
        costliest = 0.0 if fair.costs is None else float(fair.costs.max())
        off_simplex = {
            "simplex_violation": self.most["simplex"],
            "simplex_allowance": allowance if fair.unchanged else PROVEN,
        }
        return stated_as(
            parity,
            means,
            before,
            size,
            agreement,
            gap,
            costliest,
            distance=distance,
            expected_changes=moved,
            **off_simplex,
        )

    def beyond_promise(
        self, cells: Layout, families: Families, parity: Parity, *, weighted: bool
    ) -> tuple[float, float]:
        """Return how far group means of rounded labels are from the optimum, and beyond promise."""
        count = (
            self.sums["count"].reshape(len(self.sums["mass"]), -1).sum(axis=1).astype(np.float64)
        )
        heaviest = self.most["weight"] if weighted else None
        allowed = rounding_bound(
            families, cells, count, self.sums["mass"], heaviest, self.response.shifts.shape[1]
        )
        away = np.abs(parity.means(self.cell_means("after") - self.cell_means("expected"))).max(
            axis=1
        )
        return float(away.max()), float((away - allowed).max())


def _by_cell(cells: Array, weight: Floats, values: Array, n_cells: int) -> Floats:
    return np.column_stack([np.bincount(cells, weight * column, n_cells) for column in values.T])


def _off_simplex(x: Array) -> float:
    return (
        float(max(0.0, -x.min(), np.abs(x.sum(axis=1) - 1.0).max()))
        if np.isfinite(x).all()
        else np.inf
    )
