"""Optima along a path of epsilons: points, a short table with the level of chance, a frame and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from r2b._audit.families import audit_groups
from r2b._audit.measure import places_of
from r2b._audit.resampling import Draws, FamilyRows, Kinds
from r2b._constraints.families.fitted import Crossings
from r2b._data.arrays import Floats
from r2b._data.frames import Backend, frame_of, records
from r2b._labels import FairLabels
from r2b._plot import COLOURS, SHADE, axes, keyed, percent, scaled, titled

_SHOWN = 11  # points of a long path that are written
_FEW = 1 << 17  # rows that are handed about by chance one by one


@dataclass(frozen=True)
class FrontierPoint:
    """The optimum at one epsilon.

    Attributes
    ----------
    epsilon : float
    disparity : float
        Largest difference between two groups of a family in any class.
    distance : float
        Mean squared distance to the labels that came in.
    expected_changes : float
        Share of the weight whose label changes.
    relative_gap : float
        The proof that no labels in parity are closer.
    solved : bool
        Whether the certificate holds.
    """

    epsilon: float
    disparity: float
    distance: float
    expected_changes: float
    relative_gap: float
    solved: bool


@dataclass(frozen=True, eq=False)
class Frontier(Sequence[FrontierPoint]):
    """Optima along a path, by rising epsilon.

    Attributes
    ----------
    labels : tuple of FairLabels
        One per point, to be used like the result of ``debias``.
    epsilon : ndarray of shape (n_points,)
    """

    labels: tuple[FairLabels, ...]
    epsilon: Floats

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Frontier(self.labels[place], self.epsilon[place])
        fair, proof = self.labels[place], self.labels[place].certificate
        measured = (proof.disparity, proof.distance, proof.expected_changes, proof.relative_gap)
        return FrontierPoint(float(self.epsilon[place]), *measured, fair.status.ok)

    @property
    def distance(self) -> Floats:
        """Mean squared distance at each epsilon."""
        return np.array([fair.certificate.distance for fair in self.labels])

    @property
    def expected_changes(self) -> Floats:
        """Share of the weight whose label changes, at each epsilon."""
        return np.array([fair.certificate.expected_changes for fair in self.labels])

    @property
    def disparity(self) -> Floats:
        """Parity reached at each epsilon."""
        return np.array([fair.certificate.disparity for fair in self.labels])

    @cached_property
    def chance(self) -> float | None:
        """The parity that chance alone shows in fair labels of this number, 19 times in 20: below it an epsilon gains nothing that lasts.

        As :func:`r2b.audit` finds it. None where it does not stand beside epsilon (several
        families, bounds other than on differences), and for probabilities, many weights and rows
        that are not there, which would take long or need the rows.
        """
        return chance_along(self.labels[0]) if self.labels else None

    def __repr__(self) -> str:
        if not len(self):
            return "<Frontier: no points>"
        points = f"{len(self)} point{'s' if len(self) > 1 else ''}"
        chance = "" if self.chance is None else f", chance shows up to {self.chance:.4g}"
        return f"<Frontier: {points}, epsilon {self.epsilon.min():.4g} to {self.epsilon.max():.4g}{chance}>"

    def _repr_html_(self) -> str:
        from r2b.report.notebook import frontier_html

        return frontier_html(self)

    def __str__(self) -> str:
        lines = ["   epsilon    parity  squared distance  expected changes  proven"]
        shown = (
            range(len(self))
            if len(self) <= _SHOWN
            else np.linspace(0, len(self) - 1, _SHOWN).round().astype(int)
        )
        for point in (self[place] for place in shown):
            share, proven = f"{100 * point.expected_changes:.2f} %", "yes" if point.solved else "no"
            within = (
                "  within chance" if self.chance is not None and point.epsilon < self.chance else ""
            )
            lines.append(
                f"{point.epsilon:10.5f}{point.disparity:10.5f}{point.distance:18.6f}{share:>18}{proven:>8}{within}"
            )
        lines += [] if self.chance is None else [f"Chance alone shows up to {self.chance:.4f}."]
        return "\n".join(
            lines
            + (
                [f"{_SHOWN} of {len(self)} points; to_frame() has all."]
                if len(self) > _SHOWN
                else []
            )
        )

    def to_frame(self, *, backend: Backend | None = None) -> Any:
        """Give one row per point as a frame, with the fields of a point as columns.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default the library that the data came in; of data that came in none, pandas or,
            where it is not installed, Polars.

        Examples
        --------
        >>> import r2b
        >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
        >>> path = r2b.frontier(y, sensitive_features=sex, epsilons=[0.0, 0.2, 0.4])
        >>> path.to_frame(backend="pyarrow").column("expected_changes").to_numpy().round(4)
        array([0.3333, 0.2333, 0.1333])
        """
        rows = self.labels[0].rows if self.labels else None
        return frame_of(records(FrontierPoint, self), backend, "" if rows is None else rows.came_as)

    def plot(self, ax: Any = None) -> Any:
        """Draw the share of labels that change against epsilon, and where chance alone shows as much; points not proven are hollow.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> import r2b
        >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
        >>> ax = r2b.frontier(y, sensitive_features=sex, epsilons=[0.0, 0.2, 0.4]).plot()
        >>> ax.get_ylabel(), ax.lines[0].get_ydata().round(1)
        ('labels expected to change (%)', array([33.3, 23.3, 13.3]))
        """
        ax = axes(ax, "Frontier")
        ax.plot(
            self.epsilon,
            100 * self.expected_changes,
            "o-",
            color=COLOURS[0],
            markersize=5,
            clip_on=False,
            zorder=3,
        )
        open_points = [point for point in self if not point.solved]
        shown = []
        if self.chance is not None:
            ax.axvspan(0, self.chance, color=SHADE, zorder=0)
            shown.append(("what chance shows", {"linestyle": "-", "linewidth": 8, "color": SHADE}))
        if open_points:
            places = (
                [point.epsilon for point in open_points],
                [100 * point.expected_changes for point in open_points],
            )
            ax.plot(*places, "o", color=COLOURS[0], markerfacecolor="white", markersize=5, zorder=4)
            shown.append(
                ("not proven", {"marker": "o", "color": COLOURS[0], "markerfacecolor": "white"})
            )
        if shown:
            keyed(ax, shown)
        scaled(ax.xaxis, "epsilon")
        scaled(ax.yaxis, "labels expected to change (%)")
        ax.set_ylim(bottom=0)
        ends = [
            f"{percent(point.expected_changes)} at epsilon {point.epsilon:.4g}"
            for point in (*self[:1], *self[1:][-1:])
        ]
        titled(ax, "What parity costs", f"labels that change: {', '.join(ends)}" if ends else "")
        return ax


def chance_along(fair: FairLabels) -> float | None:
    """Give the parity that chance shows in labels of this number; None where it does not stand beside epsilon, or would take long."""
    proofs, families, data = (
        fair.certificate.families,
        fair.families,
        None if fair.rows is None else fair.rows.counts,
    )
    if (
        data is None
        or data.labels.is_soft
        or len(proofs) != 1
        or proofs[0].bound != "range"
        or proofs[0].offsets is not None
    ):
        return None
    (counting,), proof = families.counting, proofs[0]
    if not isinstance(counting, Crossings):
        return None
    design = None if families.by_cell else counting.design(data.cells)
    rows = FamilyRows(data, Kinds.of(data), *places_of(data.cells, counting, design))
    if not rows.counted and rows.n_rows > _FEW:
        return None
    names = tuple(map(str, fair.groups[proof.groups]))
    means, share = fair.certificate.means_before[proof.groups].copy(), families.share[proof.groups]
    found, _ = audit_groups(proof.name, rows, names, means, share, Draws(n_boot=0), 0)
    return None if found.chance is None else found.chance.quantile
