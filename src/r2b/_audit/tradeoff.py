"""What parity costs: the optimum along a path of epsilons, each solved from the last, and the smallest epsilon that a budget pays for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from r2b._audit.path import Frontier
from r2b._constraints.epsilon import refuse_percentages
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._data.arrays import Floats
from r2b._labels import FairLabels
from r2b._labels.debiasing import request_and_settings
from r2b._labels.task import MemoryTask, Task, open_job
from r2b.errors import ParameterError

_POINTS = 50
_CLOSE = 1e-9  # of the budget: how much of it may be left unspent
_NARROW = 1e-13  # bracket of epsilon below which the cost jumps within rounding
# the same where no labels meet smaller epsilons: at the border itself little can be proven
_BORDER = 1e-6
_MOST_TRIES = 80
_LOOKS = 33  # epsilons at which a cost that may fall and rise again is looked at

_DATA = ("sensitive_features", "control_features", "sample_weight")


def task_of(y: Any, options: dict[str, Any], *, decided: tuple[str, ...] = ()) -> MemoryTask:
    """Open a task from the keyword arguments of ``debias``.

    Parameters
    ----------
    y : array-like
    options : dict
        As ``debias`` takes them.
    decided : tuple of str
        Options that the question itself decides.

    Raises
    ------
    ParameterError
        An option that ``debias`` does not have, or that the question decides.
    """
    data = {name: options[name] for name in _DATA if name in options}
    options = {name: value for name, value in options.items() if name not in data}
    for name in set(decided) & set(options):
        raise ParameterError(
            f"The option {name!r} is what this question answers.",
            remedy="Leave it out.",
            option=name,
        )
    request, settings = request_and_settings(options)
    normalize, costs = options.get("normalize", False), options.get("costs")
    return open_job(y, **data, normalize=normalize, request=request, settings=settings, costs=costs)


def frontier(
    y: Any, *, sensitive_features: Any, epsilons: int | ArrayLike | None = None, **options: Any
) -> Frontier:
    """Solve along a path of epsilons, the same for all families and all classes that are bounded.

    Parameters
    ----------
    y, sensitive_features
        As for :func:`r2b.debias`.
    epsilons : int or array-like, optional
        The epsilons, or how many: that many evenly spaced ones from 0 to where the labels are fair
        as they are. 50 by default.
    **options
        Everything else that :func:`r2b.debias` takes. A class whose ``epsilon`` is infinite stays
        free.

    Returns
    -------
    Frontier

    Raises
    ------
    ParameterError
        An epsilon below 0 or not finite, or an option that does not exist.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
    >>> path = r2b.frontier(y, sensitive_features=sex, epsilons=[0.0, 0.2, 0.4])
    >>> path.distance.round(4)
    array([0.2667, 0.1307, 0.0427])
    """
    task = task_of(y, {"sensitive_features": sensitive_features, **options})
    warn_of_doubts(task)
    path = path_of(task, _POINTS if epsilons is None else epsilons)
    return Frontier(tuple(solved_along(task, path)), path)


def fair_as_they_are(task: Task) -> float:
    """Give the smallest epsilon at which the labels meet every bound as they came."""
    measured = [
        member.bound.measure(task.means_before[member.groups], task.parity.share[member.groups])[
            np.isfinite(member.bound.epsilon)
        ]
        for member in task.parity.members
    ]
    return float(np.concatenate(measured).max(initial=0.0))


def solved_along(task: Task, epsilons: Floats) -> list[FairLabels]:
    """Solve for epsilons in rising order, from the largest down: prices grow from nothing, and between kinks they are straight lines."""
    found: list[FairLabels] = []
    for epsilon in epsilons[::-1]:
        start = _extended(found, epsilons[::-1], len(found))
        found.append(task.solve(task.parity.at(float(epsilon)), start, stacklevel=4))
    return found[::-1]


def _extended(found: list[FairLabels], epsilons: Floats, place: int) -> Floats | None:
    """Extend the line through the last two solutions to the next epsilon."""
    if place == 0 or found[-1].table is not None:
        return None
    last = found[-1].prices
    if place == 1 or found[-2].unchanged or epsilons[place - 1] == epsilons[place - 2]:
        return last
    ratio = (epsilons[place] - epsilons[place - 1]) / (epsilons[place - 1] - epsilons[place - 2])
    return np.asarray(last + ratio * (last - found[-2].prices))


def path_of(task: Task, epsilons: int | ArrayLike) -> Floats:
    """Give the epsilons of a frontier in rising order, evenly spaced where only their number is asked for."""
    remedy = "Pass numbers of at least 0, such as [0.0, 0.01, 0.05], or how many."
    if isinstance(epsilons, (int, np.integer)) and not isinstance(epsilons, bool) and epsilons >= 1:
        return np.linspace(0.0, fair_as_they_are(task), int(epsilons))
    try:
        path = np.sort(
            np.array(
                [] if isinstance(epsilons, (int, np.integer)) else epsilons, dtype=np.float64
            ).ravel()
        )
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            f"epsilons is {epsilons!r}, which are not numbers.", remedy=remedy, epsilons=epsilons
        ) from None
    if not len(path) or not (np.isfinite(path) & (path >= 0)).all():
        raise ParameterError(f"epsilons is {epsilons!r}.", remedy=remedy, epsilons=epsilons)
    largest = max(member.bound.largest for member in task.parity.members)
    refuse_percentages("epsilons", path, largest)
    return path


def smallest_epsilon(
    y: Any,
    *,
    sensitive_features: Any,
    distance: float | None = None,
    changes: float | None = None,
    **options: Any,
) -> FairLabels:
    """Find the smallest epsilon whose optimum keeps within a budget, and that optimum.

    Parameters
    ----------
    y, sensitive_features
        As for :func:`r2b.debias`.
    distance : float, optional
        Largest accepted mean squared distance to the labels that came in.
    changes : float, optional
        Largest accepted share of labels that are expected to change. With ``objective="agreement"``
        no labels in parity change fewer; with the distance, the closest labels do not change more.

        What is minimised never falls as epsilon does: squared distance where ``lam`` is 1 and
        changes have no costs, expected changes where the objective is agreement without costs. Of
        such a budget the answer is the smallest epsilon. Any other may be kept, exceeded and kept
        again as epsilon rises; then the answer is the smallest found by looking at 32 epsilons and
        between the first that keeps the budget and the one before it. It keeps the budget, but a
        smaller epsilon between two of those may keep it as well.
    **options
        Everything else that :func:`r2b.debias` takes but ``epsilon``.

    Returns
    -------
    FairLabels
        ``epsilon`` is the epsilon that was found.

    Raises
    ------
    ParameterError
        Not exactly one budget, one that is not a number of at least 0, or one that no epsilon
        keeps.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
    >>> fair = r2b.smallest_epsilon(y, sensitive_features=sex, changes=0.1)
    >>> round(fair.epsilon, 4), round(fair.certificate.expected_changes, 6)
    (0.4667, 0.1)
    """
    if (distance is None) == (changes is None):
        raise ParameterError(
            "There must be one budget, of distance or of changes.",
            remedy="Pass distance=0.01, or changes=0.05.",
        )
    name, budget = ("distance", distance) if distance is not None else ("changes", changes)
    if (
        not isinstance(budget, (int, float, np.number))
        or isinstance(budget, bool)
        or not 0 <= float(budget) < np.inf
    ):
        raise ParameterError(
            f"The budget of {name} is {budget!r}.",
            remedy="Pass a number of at least 0.",
            **{name: budget},
        )
    task = task_of(y, {"sensitive_features": sensitive_features, **options}, decided=("epsilon",))
    warn_of_doubts(task)
    return _search(task, name, float(budget))


class _Tried(NamedTuple):
    epsilon: float
    fair: FairLabels
    over: float  # by how much the labels exceed the budget


def _search(task: MemoryTask, name: str, budget: float) -> FairLabels:
    """Close in on the budget from both sides; the side that keeps it is the answer."""

    def spent(fair: FairLabels) -> float:
        return (
            fair.certificate.distance if name == "distance" else fair.certificate.expected_changes
        )

    def tried(epsilon: float, start: Floats | None = None) -> _Tried:
        fair = task.solve(task.parity.at(epsilon), start, stacklevel=5)
        # Labels that are not proven, as where bounds contradict each other, keep no budget.
        return _Tried(epsilon, fair, spent(fair) - budget if fair.status.ok else np.inf)

    dear = tried(0.0)
    if dear.over <= 0:
        return dear.fair
    cheap = tried(fair_as_they_are(task))
    for epsilon in [] if _monotone(task, name) else np.linspace(0.0, cheap.epsilon, _LOOKS)[1:-1]:
        found = tried(float(epsilon), None if dear.fair.table is not None else dear.fair.prices)
        if found.over <= 0:
            cheap = found
            break
        dear = found
    if cheap.over > 0:
        raise ParameterError(
            f"Even without any parity the labels cost {spent(cheap.fair):.6g} in {name}, more than the budget of {budget:.6g}.",
            remedy="Raise the budget, or pass lam=1, which leaves fair labels as they are.",
            budget=budget,
            least=spent(cheap.fair),
        )
    for attempt in range(_MOST_TRIES):
        bracket, proven = cheap.epsilon - dear.epsilon, np.isfinite(dear.over)
        if -cheap.over <= _CLOSE * budget or bracket <= (_NARROW if proven else _BORDER):
            break
        # A line between the ends, kept off them; every third time the middle, which no shape of
        # curve can slow down.
        part = (
            0.5
            if attempt % 3 == 2 or not proven
            else min(max(dear.over / (dear.over - cheap.over), 0.02), 0.98)
        )
        start = (
            None
            if dear.fair.table is not None
            else (1 - part) * dear.fair.prices + part * cheap.fair.prices
        )
        found = tried(dear.epsilon + part * bracket, start)
        dear, cheap = (dear, found) if found.over <= 0 else (found, cheap)
    return cheap.fair


def _monotone(task: MemoryTask, name: str) -> bool:
    """Tell whether the budget is of what is minimised."""
    minimised = (
        "changes"
        if task.settings.objective == "agreement"
        else "distance"
        if task.settings.lam == 1
        else ""
    )
    return name == minimised and task.costs is None
