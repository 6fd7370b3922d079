"""Natural cubic splines: where their knots go, and a well-conditioned set of functions that spans them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.basis.values import Floats, spoken
from r2b.errors import ParameterError

# The outermost knots leave a twentieth of the weight on either side: beyond them a spline is a straight line, so that a few far values
# cannot bend it.
OUTER_SHARE = 0.05
# Knots nearer than this, against the distance of the outermost, are one knot to the divided differences of a spline.
NEAREST_KNOTS = 1e-14


def knots_of(knots: int | ArrayLike, numbers: Floats, share: Floats, name: str) -> tuple[Floats, int]:
    """Give the knots to use and the number asked for."""
    given = np.asarray(knots)
    if given.dtype.kind not in "fiu" or given.ndim > 1 or (given.ndim == 0 and given.dtype.kind == "f"):
        raise _bad_knots(f"The knots are {knots!r}", knots)
    if given.ndim == 0:
        if given < 2:
            raise _bad_knots(f"A spline of {int(given)} knots was asked for", knots)
        # Sums of shares carry rounding, and a quantile that equals one must not slip over it.
        wanted = np.linspace(OUTER_SHARE, 1 - OUTER_SHARE, int(given)) - 1e-12
        used = np.unique(numbers[np.minimum(np.searchsorted(np.cumsum(share), wanted), len(numbers) - 1)])
        if len(used) < 2:
            raise ParameterError(
                f"All {int(given)} knots of {spoken(name)} fall on {float(used[0])!r}, which holds nearly all of the weight.",
                remedy='Pass the knots themselves as increasing numbers, or basis="linear".',
                knots=used.tolist(),
                asked=int(given),
                column=name,
            )
    else:
        used = given.astype(np.float64)
        if len(used) < 2 or not np.isfinite(used).all() or (np.diff(used) <= 0).any():
            raise _bad_knots(f"The knots are {given.tolist()!r}", knots)
    gaps = np.diff(used) / (used[-1] - used[0])
    nearest = int(np.argmin(gaps))
    if not gaps[nearest] > NEAREST_KNOTS:
        pair = float(used[nearest]), float(used[nearest + 1])
        raise ParameterError(
            f"The knots {pair[0]!r} and {pair[1]!r} of {spoken(name)} are too near each other beside the range of all knots.",
            remedy="Pass knots that are farther apart, or transform the attribute, for example by its logarithm.",
            knots=pair,
            column=name,
        )
    return used, int(given) if given.ndim == 0 else len(used)


def _bad_knots(found: str, knots: Any) -> ParameterError:
    return ParameterError(f"{found}.", remedy="Pass a whole number of at least 2, or at least two increasing finite numbers.", knots=knots)


def natural_splines(knots: Floats, numbers: Floats) -> Floats:
    """Give the value itself and, for each inner knot, the natural spline that is 1 there and 0 at all other knots.

    With the constant these span all natural splines of the knots. They are written by their values and second derivatives at the knots,
    which keeps digits that truncated powers lose.
    """
    reach = knots[-1] - knots[0]
    at, where = (knots - knots[0]) / reach, (numbers - knots[0]) / reach
    n_knots, gap = len(at), np.diff(at)
    level = np.eye(n_knots)[:, 1:-1]
    bend = np.zeros((n_knots, n_knots))  # second derivatives at the knots, none at the ends: that is what natural means
    if n_knots > 2:
        inner = np.diag((gap[:-1] + gap[1:]) / 3) + np.diag(gap[1:-1] / 6, 1) + np.diag(gap[1:-1] / 6, -1)
        bend[1:-1] = np.linalg.solve(inner, np.diff(np.diff(np.eye(n_knots), axis=0) / gap[:, None], axis=0))
    bend = bend[:, 1:-1]
    piece = np.clip(np.searchsorted(at, where, side="right") - 1, 0, n_knots - 2)
    width = gap[piece]
    right = (where - at[piece]) / width
    left = 1 - right

    def curve(part: Floats) -> Floats:
        # Clipped, the cubic term is gone beyond the outermost knots and the straight line of the boundary goes on.
        cubic: Floats = (width * width / 6 * (np.clip(part, 0, 1) ** 3 - part))[:, None]
        return cubic

    splines = left[:, None] * level[piece] + right[:, None] * level[piece + 1]
    splines += curve(left) * bend[piece] + curve(right) * bend[piece + 1]
    return np.column_stack([where, splines])
