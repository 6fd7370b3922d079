"""Appendix B: the DP remover with bins of equal mass or width on the paper's groups, one feature.

One group is a narrow normal distribution around 0; the other is half that and half the same around
1. Widths by Freedman and Diaconis follow the distance between the quartiles, which is that between
the modes, and each mode falls into one bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from experiments.experiment import Array, Configuration, Floats, Row, crossed
from experiments.figures import Axis, Panel, Picture, Series, points
from experiments.tables import cell, chosen, grouped, markdown
from r2b.methods import DPRemover
from r2b.methods.quantiles import RankCdf

TITLE: Final = "Appendix B: bins of equal mass and of equal width"

SPREADS: Final = (1.0, 0.3, 0.1, 0.03, 0.01, 0.001)
SIZES: Final = (500, 4_000)
BINS: Final = {"equal_mass": "equal mass", "equal_width": "equal width"}


def distance(one: Array, other: Array) -> float:
    """Return the largest difference between two distribution functions (Kolmogorov and Smirnov).

    Examples
    --------
    >>> distance(np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    0.5
    """
    values = np.union1d(one, other)
    shares = [
        np.searchsorted(np.sort(each), values, side="right") / len(each) for each in (one, other)
    ]
    return float(np.abs(shares[0] - shares[1]).max())


@dataclass(frozen=True, eq=False)
class WidthCdf(RankCdf):
    """A distribution as a histogram of equal widths, which shows how that rule fails.

    The widths are those of Freedman and Diaconis.

    The CDF is a staircase: all rows of a bin get the share up to the bin's end, as in the paper's
    appendix. Where a group has two far modes, its quartiles lie in different modes, the width ``2
    IQR n^(-1/3)`` swallows each mode whole, and the group has two ranks left.

    Attributes
    ----------
    start, width : float
    bins : ndarray of shape (m,)
        The bins that hold rows, ascending.
    upto : ndarray of shape (m,)
        Share of the weight up to the end of each bin.
    """

    start: float
    width: float
    bins: Floats
    upto: Floats

    @classmethod
    def fit(cls, values: Floats, weight: Floats) -> WidthCdf:
        """Learn from training values; if the quartiles are equal there is one bin."""
        exact = RankCdf.fit(values, weight)
        low, high = exact.quantiles(np.array([0.25, 0.75]))
        start, reach = float(exact.values[0]), float(exact.values[-1] - exact.values[0])
        width = 2 * float(high - low) * exact.n_rows ** (-1 / 3)
        if width <= 0:
            # Slightly more than the range, so that the largest value is in the same bin.
            width = reach * (1 + 1e-9) if reach > 0 else 1.0
        bins, inverse = np.unique(np.floor((exact.values - start) / width), return_inverse=True)
        upto = np.cumsum(np.bincount(inverse, weights=np.diff(exact.below)))
        whole = exact.values, exact.below, exact.n_rows
        return cls(*whole, start, width, bins, upto / upto[-1])

    def ranks(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Return the share up to the end of each value's bin; nothing is random here."""
        bins = np.floor((values - self.start) / self.width)
        return np.asarray(
            np.concatenate([[0.0], self.upto])[np.searchsorted(self.bins, bins, side="right")]
        )

    def quantiles(self, u: Floats) -> Floats:
        """Invert the histogram's CDF, linear inside a bin."""
        left = self.start + self.width * self.bins
        edges = np.column_stack([left, left + self.width]).ravel()
        shares = np.column_stack([np.concatenate([[0.0], self.upto[:-1]]), self.upto]).ravel()
        return np.interp(u, shares, edges)


class EqualWidthRemover(DPRemover):
    """The DP remover with bins of equal width."""

    _cdf = WidthCdf


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Repair one sample, and a second one of its distribution; see how far the groups lie apart."""
    spread, size = configuration["spread"], configuration["size"]
    rng = np.random.default_rng([seed, 31])
    groups = np.repeat([0, 1], size)

    def drawn() -> Array:
        x: Array = spread * rng.standard_normal(2 * size)
        x[size:] += rng.random(size) < 0.5
        return x[:, None]

    x, new = drawn(), drawn()
    wide = configuration["bins"] == "equal_width"
    remover = (
        EqualWidthRemover(n_bins=None, random_state=seed) if wide else DPRemover(random_state=seed)
    ).fit(x, sensitive_features=groups)
    moved, moved_new = (
        remover.transform(each, sensitive_features=groups).ravel() for each in (x, new)
    )
    return {
        "distance_before": distance(x[:size, 0], x[size:, 0]),
        "distance_after": distance(moved[:size], moved[size:]),
        "distance_new_rows": distance(moved_new[:size], moved_new[size:]),
        "mean_gap_after": float(abs(moved[:size].mean() - moved[size:].mean())),
        "values_one_mode": len(np.unique(moved[:size])),
        "values_two_modes": len(np.unique(moved[size:])),
    }


def configurations(quick: bool) -> list[Configuration]:
    """Both ways to bin, by spread and sample size."""
    return crossed(size=SIZES[:1] if quick else SIZES, spread=SPREADS, bins=BINS)


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    words = """How far the groups lie apart after the repair, as the largest difference between
their distribution functions, in %: 0 is a repaired feature, and (1 + distance) / 2 is how often the
better of two guesses by one threshold names the group. `values` counts the distinct values that the
group of two modes is left with. The paper argues that equal widths leave it three at most once the
spread is small enough for the sample, and shows no number."""
    body = []
    for (size, spread), both in grouped(rows, "size", "spread").items():
        before = cell(chosen(both, bins="equal_mass"), "distance_before")
        line = [f"{size:,}", f"{spread:g}", before.text()]
        for (_,), found in grouped(both, "bins").items():
            shares = [cell(found, name).text() for name in ("distance_after", "distance_new_rows")]
            line += [*shares, cell(found, "values_two_modes", 1.0).text(0)]
        body.append(line)
    head = ["rows per group", "spread", "before, %"]
    head += [
        f"{spoken}: {name}"
        for spoken in BINS.values()
        for name in ("after, %", "new rows, %", "values")
    ]
    return f"{words}\n\n{markdown(head, body)}"


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw the distance after repair by spread."""
    lines = {
        "before": ("equal_mass", "distance_before"),
        **{spoken: (bins, "distance_new_rows") for bins, spoken in BINS.items()},
    }
    panels = []
    for size in sorted({row["size"] for row in rows}):
        series = [
            Series(
                name,
                points(
                    (spread, cell(chosen(rows, size=size, spread=spread, bins=bins), measure))
                    for spread in SPREADS[::-1]
                ),
            )
            for name, (bins, measure) in lines.items()
        ]
        axis = Axis("distance of the groups (%)", zero=True)
        panels.append(Panel(f"{size:,} rows per group", tuple(series), axis))
    words = (
        "The largest difference between their distribution functions, after repair on new rows; 99"
        " % intervals. 0 is repaired."
    )
    along = Axis("spread of a mode (logarithmic)", "log", (0.001, 0.01, 0.1, 1.0))
    title = "DP remover: how far groups lie apart, by bins"
    return {"distance": Picture(title, words, (tuple(panels),), along)}
