"""The disparity that chance alone would show; one below it says nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor, log10
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from r2b._data.arrays import SAME, Array, Floats
from r2b._data.compute import generator
from r2b.errors import ParameterError
from r2b.metrics.means import means_of, table_to_measure
from r2b.metrics.resampling import FamilyRows, kinds_of, ranges

RARE = 0.05  # what fewer fair tables than this show is beyond chance

Verdict = Literal["met", "not shown", "not met"]

WIDEST = 0.1
"""Where new rows may be farther above epsilon than this, parity is not shown."""


def verdict_of(
    disparity: Floats | float, epsilon: Floats | float, chance: Floats | float
) -> Verdict:
    """Judge disparities by what they may be and by what chance explains.

    "not met" where one is above epsilon by more than chance explains; "met" where none is above
    epsilon and half of that (added as squares, as noise is), nor with chance on top above epsilon
    by more than 0.1.

    Examples
    --------
    >>> [verdict_of(each, 0.05, 0.02) for each in (0.05, 0.06, 0.08)]
    ['met', 'not shown', 'not met']
    """
    over, noise = np.asarray(disparity) - epsilon, np.asarray(chance)
    if (over > noise).any():
        return "not met"
    within = (disparity <= np.hypot(epsilon, 0.5 * noise)).all()
    return "met" if within and (over + noise).max() <= WIDEST else "not shown"


@dataclass(frozen=True, eq=False)
class SamplingLevel:
    """The disparity that so many rows of these labels show with groups assigned by chance.

    Attributes
    ----------
    observed : float
        The disparity of the data.
    mean : float
        Mean disparity under chance.
    quantiles : dict
        Probability to quantile of the disparity under chance.
    p_value : float
        The share of (1 + permutations) that are at least as unfair as the data, the data among
        them: valid at every size.
    draws : ndarray of shape (n_permutations,)
    """

    observed: float
    mean: float
    quantiles: dict[float, float]
    p_value: float
    draws: Array = field(repr=False)

    @property
    def at_floor(self) -> bool:
        """Whether no permutation is as unfair as the data: no p-value could be smaller."""
        return self.p_value <= 1 / (1 + len(self.draws))


def format_p_value(p: float, n_permutations: int) -> str:
    """Write a p-value; the least that so many permutations can give is called an upper limit.

    Examples
    --------
    >>> format_p_value(1 / 201, 200), format_p_value(7 / 201, 200), format_p_value(1 / 1001, 1000)
    ('at most 0.005', '= 0.035', 'at most 0.001')
    """
    if p > 1 / (1 + n_permutations):
        return f"= {p:.2g}"
    places = 1 - floor(log10(p))  # two figures, rounded up: "at most" must hold
    return f"at most {ceil(round(p * 10**places, 9)) / 10**places:.2g}"


def sampling_level(
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    n_permutations: int = 200,
    quantiles: tuple[float, ...] = (0.5, 0.95),
    random_state: int = 0,
) -> SamplingLevel:
    """Return the disparity that a fair sample of this size would show, by permuting the groups.

    Appendix C (appendix:scaling) gives it the order sqrt(log L), leaving out that it falls with the
    square root of the group sizes.

    Parameters
    ----------
    y, sensitive_features, sample_weight
        As for :func:`r2b.metrics.demographic_parity_difference`. A weight stays with its label and
        moves between groups.
    n_permutations : int
        How often groups are permuted.
    quantiles : tuple of float
        Which quantiles of the disparity under chance are returned.
    random_state : int
        The same number gives the same draws.

    Returns
    -------
    SamplingLevel

    Raises
    ------
    ParameterError, InputError

    See Also
    --------
    r2b.audit : What groups differ in, and what chance explains of it.

    Examples
    --------
    >>> y, s = ["no", "yes"] * 200 + ["no"] * 400, ["f"] * 400 + ["m"] * 400
    >>> level = sampling_level(y, sensitive_features=s)
    >>> level.observed, level.quantiles[0.95] < 0.1, level.p_value < 0.01
    (0.5, True, True)
    """
    some = isinstance(n_permutations, Integral) and n_permutations >= 1
    if not (some and all(isinstance(q, Real) and 0 <= q <= 1 for q in quantiles)):
        remedy = "Pass a whole number of permutations, at least one, and quantiles between 0 and 1."
        raise ParameterError(
            f"There are {n_permutations} permutations and the quantiles {quantiles}.",
            remedy=remedy,
            quantiles=quantiles,
        )
    data = table_to_measure(y, sensitive_features, sample_weight)
    rows = FamilyRows(data, kinds_of(data), np.arange(data.n_cells))
    draws = rows.disparities_by_chance(n_permutations, generator(random_state))
    observed = float(ranges(means_of(data)[0][None])[0])
    by_chance = {float(q): float(np.quantile(draws, q)) for q in quantiles}
    return SamplingLevel(observed, float(draws.mean()), by_chance, p_value(observed, draws), draws)


def p_value(observed: float, drawn: Floats) -> float:
    """Return the share of the drawn numbers and the observed one that are at least as large."""
    return (1 + int((drawn >= observed - SAME).sum())) / (1 + len(drawn))


def critical(drawn: Floats) -> Floats:
    """Return the number, along the first axis, above which a measure has a p-value of 1 in 20.

    Fewer than 19 draws have none; the largest is returned.

    Examples
    --------
    >>> float(critical(np.arange(200.0)))
    190.0
    >>> p_value(190.0, np.arange(200.0)), p_value(190.1, np.arange(200.0))
    (0.0547..., 0.0497...)
    """
    place = max(1, int(RARE * (1 + len(drawn)) + 1e-9))
    return np.asarray(np.sort(drawn, axis=0)[-place])
