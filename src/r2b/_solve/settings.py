"""Numbers that the solvers are tuned by; constants of a single module stand in that module."""

from __future__ import annotations

from dataclasses import dataclass

TOLERANCE = 1e-10  # a tenth of what the certificate allows


@dataclass(frozen=True)
class SolverSettings:
    """How the three solvers work; the defaults were chosen on drawn problems of many kinds.

    Attributes
    ----------
    interior_entries : int
        Rows times classes up to which the interior-point method is used. It keeps about ten arrays
        of this size.
    rows_per_price : float
        Rows for each price above which Newton's method is tried first: it then takes fewer steps.
    block_entries : int
        Groups times classes squared up to which there is a matrix of the classes for each group.
    dense_prices : int
        Prices that are solved for together where groups share rows: a matrix of 200 MB.
    starts : tuple of (float, float)
        Starting points of the interior-point method, tried in turn: how far rows begin from their
        labels towards the centre of the simplex, and the products of slacks and duals. The first
        serves nearly always.
    interior_steps : int
        Steps from one starting point; thirty are usual.
    to_boundary : float
        Part of the way to the boundary that a step goes. Nearer, one product would vanish beside
        the others and block the next step.
    regularisation : float
        Softness of an equality between means: smaller loses digits, larger leaves means apart.
    polish_below : float
        Complementarity below which the products may identify the active set.
    newton_steps : int
        Steps of Newton's method in one stage; ten are usual, and after the interior-point method
        two.
    step_length : float
        Of the safe step, in units of its Lipschitz bound. Below 1 the envelope is exact.
    least_decrease : float
        Part of the decrease guaranteed by the safe step that another step must bring.
    damping : float
        Of Newton's first step, in units of the largest curvature of a row, 1 / lam.
    near : float
        Residual at which an easier problem, a sample or a larger lam, has done its part.
    threshold_steps : int
        Steps on thresholds; ten are usual where lam is 1, a hundred where it is far below.
    agreement_lam : float
        The lam that stands for agreement with probabilities. It costs about a millionth of the
        agreement.
    sample_from : int
        Rows times classes from which a solve starts on samples.
    sampled : (int, int)
        One row in so many: to find prices, and to stand for all rows between passes.
    sampled_per_price : int
        Rows of the larger sample for each price, so that its curvature stands for that of all rows.
    """

    interior_entries: int = 2_000_000
    rows_per_price: float = 10.0
    block_entries: int = 20_000_000
    dense_prices: int = 5_000
    starts: tuple[tuple[float, float], ...] = ((0.7, 5.0), (0.7, 0.05), (1.0, 0.5))
    interior_steps: int = 300
    to_boundary: float = 0.995
    regularisation: float = 1e-9
    polish_below: float = 1e-7
    newton_steps: int = 60
    step_length: float = 0.95
    least_decrease: float = 1e-4
    damping: float = 1e-3
    near: float = 1e-4
    threshold_steps: int = 150
    agreement_lam: float = 1e-4
    sample_from: int = 1 << 21
    sampled: tuple[int, int] = (128, 32)
    sampled_per_price: int = 20


SETTINGS = SolverSettings()
