"""What a budget buys: the smallest epsilon whose optimum costs no more."""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b.errors import ParameterError
from r2b.job import Job
from r2b.questions.frontier import fair_as_they_are
from r2b.questions.opening import job_of
from r2b.solution import FairLabels

_CLOSE = 1e-9  # of the budget: how much of it may be left unspent
_NARROW = 1e-13  # bracket of epsilon below which the cost jumps within rounding
_MOST_TRIES = 80


def smallest_epsilon(
    y: Any, *, sensitive_features: Any, distance: float | None = None, changes: float | None = None, **options: Any
) -> FairLabels:
    """Find the smallest epsilon whose optimum keeps within a budget, and that optimum.

    Parameters
    ----------
    y, sensitive_features
        As for :func:`r2b.debias`.
    distance : float, optional
        Largest accepted mean squared distance to the labels that came in.
    changes : float, optional
        Largest accepted share of labels that are expected to change. With ``objective="agreement"`` no labels in parity change fewer;
        with the distance, the closest labels do not change more.
    **options
        Everything else that :func:`r2b.debias` takes but ``epsilon``.

    Returns
    -------
    FairLabels
        ``certificate.epsilon`` is the epsilon that was found.

    Raises
    ------
    ParameterError
        Not exactly one budget, one that is not a number of at least 0, or one that no epsilon keeps.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
    >>> fair = r2b.smallest_epsilon(y, sensitive_features=sex, changes=0.1)
    >>> float(fair.certificate.epsilon[0].round(4)), round(fair.certificate.expected_changes, 6)
    (0.4667, 0.1)
    """
    if (distance is None) == (changes is None):
        raise ParameterError("There must be one budget, of distance or of changes.", remedy="Pass distance=0.01, or changes=0.05.")
    name, budget = ("distance", distance) if distance is not None else ("changes", changes)
    if not isinstance(budget, (int, float, np.number)) or isinstance(budget, bool) or not 0 <= float(budget) < np.inf:
        raise ParameterError(f"The budget of {name} is {budget!r}.", remedy="Pass a number of at least 0.", **{name: budget})
    job = job_of(y, {"sensitive_features": sensitive_features, **options}, decided=("epsilon",))
    return _search(job, name, float(budget))


def _spent(fair: FairLabels, name: str) -> float:
    return fair.certificate.distance if name == "distance" else fair.certificate.expected_changes


def _search(job: Job, name: str, budget: float) -> FairLabels:
    """Close in on the budget from both sides; the side that keeps it is the answer."""
    dear = job.solve(job.parity.at(0.0), stacklevel=4)
    if _spent(dear, name) <= budget:
        return dear
    high = fair_as_they_are(job)
    cheap = job.solve(job.parity.at(high), stacklevel=4)
    if _spent(cheap, name) > budget:
        raise ParameterError(
            f"Even without any parity the labels cost {_spent(cheap, name):.6g} in {name}, more than the budget of {budget:.6g}.",
            remedy="Raise the budget, or pass lam=1, which leaves fair labels as they are.",
            budget=budget,
            least=_spent(cheap, name),
        )
    low, over, under = 0.0, _spent(dear, name) - budget, budget - _spent(cheap, name)
    for attempt in range(_MOST_TRIES):
        if under <= _CLOSE * budget or high - low <= _NARROW:
            break
        # A line between the ends, kept off them; every third time the middle, which no shape of curve can slow down.
        part = 0.5 if attempt % 3 == 2 else min(max(over / (over + under), 0.02), 0.98)
        epsilon = low + part * (high - low)
        start = None if dear.table is not None else (1 - part) * dear.prices + part * cheap.prices
        found = job.solve(job.parity.at(epsilon), start, stacklevel=4)
        left = budget - _spent(found, name)
        if left >= 0:
            high, cheap, under = epsilon, found, left
        else:
            low, dear, over = epsilon, found, -left
    return cheap
