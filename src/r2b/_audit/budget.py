"""What a budget buys: the smallest epsilon whose optimum costs no more."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._audit.tradeoff import fair_as_they_are, task_of
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._labels import FairLabels
from r2b._labels.task import MemoryTask
from r2b.errors import ParameterError

Floats = NDArray[np.float64]

_CLOSE = 1e-9  # of the budget: how much of it may be left unspent
_NARROW = 1e-13  # bracket of epsilon below which the cost jumps within rounding
_BORDER = 1e-6  # the same where no labels meet smaller epsilons: at the border itself little can be proven
_MOST_TRIES = 80
_LOOKS = 33  # epsilons at which a cost that may fall and rise again is looked at


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

        What is minimised never falls as epsilon does: squared distance where ``lam`` is 1 and changes have no costs, expected changes where
        the objective is agreement without costs. Of such a budget the answer is the smallest epsilon. Any other may be kept, exceeded and
        kept again as epsilon rises; then the answer is the smallest found by looking at 32 epsilons and between the first that keeps the
        budget and the one before it. It keeps the budget, but a smaller epsilon between two of those may keep it as well.
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
    job = task_of(y, {"sensitive_features": sensitive_features, **options}, decided=("epsilon",))
    warn_of_doubts(job)
    return _search(job, name, float(budget))


def _spent(fair: FairLabels, name: str) -> float:
    return fair.certificate.distance if name == "distance" else fair.certificate.expected_changes


def _monotone(job: MemoryTask, name: str) -> bool:
    """Tell whether the budget is of what is minimised."""
    settings = job.settings
    own = "changes" if settings.objective == "agreement" else "distance" if settings.lam == 1 else ""
    return name == own and job.costs is None


def _over(fair: FairLabels, name: str, budget: float) -> float:
    """Give by how much labels exceed the budget; those that are not proven, as where bounds contradict each other, keep none."""
    return _spent(fair, name) - budget if fair.status.ok else np.inf


def _search(job: MemoryTask, name: str, budget: float) -> FairLabels:
    """Close in on the budget from both sides; the side that keeps it is the answer."""
    dear = job.solve(job.parity.at(0.0), stacklevel=4)
    if _over(dear, name, budget) <= 0:
        return dear
    low, high = 0.0, fair_as_they_are(job)
    cheap = job.solve(job.parity.at(high), stacklevel=4)
    if _monotone(job, name):
        if _over(cheap, name, budget) > 0:
            raise _beyond(cheap, name, budget)
        return _between(job, name, budget, (low, dear), (high, cheap))
    for epsilon in np.linspace(0.0, high, _LOOKS)[1:]:
        found = cheap if epsilon == high else job.solve(job.parity.at(float(epsilon)), _start(dear), stacklevel=4)
        if _over(found, name, budget) <= 0:
            return _between(job, name, budget, (low, dear), (float(epsilon), found))
        low, dear = float(epsilon), found
    raise _beyond(cheap, name, budget)


def _beyond(cheap: FairLabels, name: str, budget: float) -> ParameterError:
    return ParameterError(
        f"Even without any parity the labels cost {_spent(cheap, name):.6g} in {name}, more than the budget of {budget:.6g}.",
        remedy="Raise the budget, or pass lam=1, which leaves fair labels as they are.",
        budget=budget,
        least=_spent(cheap, name),
    )


def _start(fair: FairLabels) -> Floats | None:
    return None if fair.table is not None else fair.prices


def _between(job: MemoryTask, name: str, budget: float, below: tuple[float, FairLabels], above: tuple[float, FairLabels]) -> FairLabels:
    """Close in between an epsilon that exceeds the budget and one that keeps it."""
    (low, dear), (high, cheap) = below, above
    over, under = _over(dear, name, budget), -_over(cheap, name, budget)
    for attempt in range(_MOST_TRIES):
        if under <= _CLOSE * budget or high - low <= (_NARROW if np.isfinite(over) else _BORDER):
            break
        # A line between the ends, kept off them; every third time the middle, which no shape of curve can slow down.
        part = 0.5 if attempt % 3 == 2 or not np.isfinite(over) else min(max(over / (over + under), 0.02), 0.98)
        epsilon = low + part * (high - low)
        start = None if dear.table is not None else (1 - part) * dear.prices + part * cheap.prices
        found = job.solve(job.parity.at(epsilon), start, stacklevel=5)
        left = -_over(found, name, budget)
        if left >= 0:
            high, cheap, under = epsilon, found, left
        else:
            low, dear, over = epsilon, found, -left
    return cheap
