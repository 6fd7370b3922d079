"""What parity costs: the optimum along a path of epsilons, each solved from the last and proven like any other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.request import LARGEST
from r2b._constraints.parity import TargetBound
from r2b._constraints.parity.bounds import refuse_percentages
from r2b._labels import FairLabels
from r2b._labels.options import request_and_settings
from r2b._labels.task import MemoryTask, Task, open_job
from r2b.errors import ParameterError

_DATA = ("sensitive_features", "control_features", "sample_weight")


def task_of(y: Any, options: dict[str, Any], *, decided: tuple[str, ...] = ()) -> MemoryTask:
    """Open a job from the keyword arguments of ``debias``.

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
        raise ParameterError(f"The option {name!r} is what this question answers.", remedy="Leave it out.", option=name)
    request, settings = request_and_settings(options)
    normalize, costs = options.get("normalize", False), options.get("costs")
    return open_job(y, **data, normalize=normalize, request=request, settings=settings, costs=costs)


Floats = NDArray[np.float64]

_POINTS = 50


@dataclass(frozen=True)
class FrontierPoint:
    """The optimum at one epsilon.

    Attributes
    ----------
    epsilon : float
    parity : float
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
    parity: float
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
    """

    labels: tuple[FairLabels, ...]
    epsilon: Floats

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Frontier(self.labels[place], self.epsilon[place])
        proof = self.labels[place].certificate
        return FrontierPoint(
            float(self.epsilon[place]),
            proof.parity,
            proof.distance,
            proof.expected_changes,
            proof.relative_gap,
            self.labels[place].status.ok,
        )

    def __iter__(self) -> Iterator[FrontierPoint]:
        return (self[place] for place in range(len(self)))

    @property
    def distance(self) -> Floats:
        """Mean squared distance at each epsilon."""
        return np.array([fair.certificate.distance for fair in self.labels])

    @property
    def expected_changes(self) -> Floats:
        """Share of the weight whose label changes, at each epsilon."""
        return np.array([fair.certificate.expected_changes for fair in self.labels])

    @property
    def parity(self) -> Floats:
        """Parity reached at each epsilon."""
        return np.array([fair.certificate.parity for fair in self.labels])

    def __repr__(self) -> str:
        if not len(self):
            return "<Frontier: no points>"
        points = f"{len(self)} point{'s' if len(self) > 1 else ''}"
        return f"<Frontier: {points}, epsilon {self.epsilon.min():.4g} to {self.epsilon.max():.4g}>"

    def _repr_html_(self) -> str:
        from r2b.report.notebook import frontier_html

        return frontier_html(self)

    def __str__(self) -> str:
        lines = ["   epsilon    parity  squared distance  expected changes  proven"]
        for point in self:
            share = f"{100 * point.expected_changes:.2f} %"
            proven = "yes" if point.solved else "no"
            lines.append(f"{point.epsilon:10.5f}{point.parity:10.5f}{point.distance:18.6f}{share:>18}{proven:>8}")
        return "\n".join(lines)


def frontier(y: Any, *, sensitive_features: Any, epsilons: int | ArrayLike | None = None, **options: Any) -> Frontier:
    """Solve along a path of epsilons, the same for all families and all classes that are bounded.

    Parameters
    ----------
    y, sensitive_features
        As for :func:`r2b.debias`.
    epsilons : int or array-like, optional
        The epsilons, or how many: that many evenly spaced ones from 0 to where the labels are fair as they are. 50 by default.
    **options
        Everything else that :func:`r2b.debias` takes. A class whose ``epsilon`` is infinite stays free.

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
    job = task_of(y, {"sensitive_features": sensitive_features, **options})
    warn_of_doubts(job)
    path = path_of(job, _POINTS if epsilons is None else epsilons)
    return Frontier(tuple(solved_along(job, path)), path)


def fair_as_they_are(job: Task) -> float:
    """Give the smallest epsilon at which the labels meet every bound as they came."""
    means = job.means_before
    largest = 0.0
    for member in job.parity.members:
        bounded = np.isfinite(member.bound.epsilon)
        measured = member.bound.measure(means[member.groups], job.parity.share[member.groups])[bounded]
        largest = max(largest, float(measured.max(initial=0.0)))
    return largest


def solved_along(job: Task, epsilons: Floats) -> list[FairLabels]:
    """Solve for epsilons in rising order, from the largest down: prices grow from nothing, and between kinks they are straight lines."""
    found: list[FairLabels] = []
    for epsilon in epsilons[::-1]:
        start = _extended(found, epsilons[::-1], len(found))
        found.append(job.solve(job.parity.at(float(epsilon)), start, stacklevel=4))
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


def path_of(job: Task, epsilons: int | ArrayLike) -> Floats:
    """Give the epsilons of a frontier in rising order, evenly spaced where only their number is asked for."""
    remedy = "Pass numbers of at least 0, such as [0.0, 0.01, 0.05], or how many."
    if isinstance(epsilons, (int, np.integer)) and not isinstance(epsilons, bool):
        if epsilons < 1:
            raise ParameterError(f"epsilons is {epsilons}.", remedy=remedy, epsilons=epsilons)
        return np.linspace(0.0, fair_as_they_are(job), int(epsilons))
    if isinstance(epsilons, bool):
        raise ParameterError(f"epsilons is {epsilons}.", remedy=remedy, epsilons=epsilons)
    try:
        path = np.sort(np.array(epsilons, dtype=np.float64).ravel())
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"epsilons is {epsilons!r}, which are not numbers.", remedy=remedy, epsilons=epsilons) from None
    if not len(path) or not (np.isfinite(path) & (path >= 0)).all():
        raise ParameterError(f"epsilons is {epsilons!r}.", remedy=remedy, epsilons=epsilons)
    largest = max(LARGEST["target"] if isinstance(member.bound, TargetBound) else 1.0 for member in job.parity.members)
    refuse_percentages("epsilons", path, largest)
    return path
