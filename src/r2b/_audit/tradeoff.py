"""What parity costs: optima along a path of epsilons, and the smallest epsilon within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from r2b._audit.measure import Draws, places_of
from r2b._constraints.epsilon import refuse_percentages
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.fitted import Crossings
from r2b._constraints.families.request import is_a
from r2b._data.arrays import Array, Floats
from r2b._data.frames import Backend, frame_of
from r2b._data.numbers import refuse_other_number
from r2b._labels import FairLabels
from r2b._labels.summary import counted
from r2b._labels.tags import FairTags, put_together, tasks_of
from r2b._labels.task import ROWS, Task, task_of
from r2b._plot import COLOURS, curves, percent
from r2b.errors import ParameterError
from r2b.metrics.chance import critical
from r2b.metrics.resampling import FamilyRows, kinds_of

OUTCOME = ("disparity", "distance", "expected_changes", "relative_gap")
OUTCOME_HEAD = " disparity  squared distance  expected changes  proven"


def outcome_columns(labels: Iterable[FairLabels | FairTags]) -> dict[str, Array]:
    """Return what optima reach and cost, and whether they are proven, as columns."""
    every = list(labels)
    found = {name: [getattr(fair.certificate, name) for fair in every] for name in OUTCOME}
    columns = {name: np.array(numbers, np.float64) for name, numbers in found.items()}
    return columns | {"solved": np.array([fair.status.ok for fair in every], bool)}


def outcome_line(fair: FairLabels | FairTags) -> str:
    """Write what an optimum reaches and costs below :data:`OUTCOME_HEAD`."""
    proof, proven = fair.certificate, "yes" if fair.status.ok else "no"
    share = f"{100 * proof.expected_changes:.2f} %"
    return f"{proof.disparity:10.5f}{proof.distance:18.6f}{share:>18}{proven:>8}"


@dataclass(frozen=True)
class FrontierPoint:
    """The optimum at one epsilon.

    Attributes
    ----------
    epsilon : float
    disparity : float
        Largest difference between two groups of a family in any class.
    distance : float
        Mean squared distance to the old labels.
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
    labels : tuple of FairLabels, or of FairTags
        One per point, to be used like the result of ``debias``.
    epsilon : ndarray of shape (n_points,)
    """

    labels: tuple[FairLabels | FairTags, ...]
    epsilon: Floats

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Frontier(self.labels[place], self.epsilon[place])
        fair = self.labels[place]
        measured = {name: getattr(fair.certificate, name) for name in OUTCOME}
        return FrontierPoint(float(self.epsilon[place]), **measured, solved=fair.status.ok)

    @property
    def distance(self) -> Floats:
        """Mean squared distance at each epsilon."""
        return outcome_columns(self.labels)["distance"]

    @property
    def expected_changes(self) -> Floats:
        """Share of the weight whose label changes, at each epsilon."""
        return outcome_columns(self.labels)["expected_changes"]

    @property
    def disparity(self) -> Floats:
        """Parity reached at each epsilon."""
        return outcome_columns(self.labels)["disparity"]

    @cached_property
    def chance(self) -> float | None:
        """The disparity that chance alone shows in fair labels of this number, 19 times in 20.

        A smaller epsilon gains nothing that lasts. As :func:`r2b.audit` finds it. None if it cannot
        be compared with epsilon (several families, bounds other than on differences), and for
        probabilities, many weights and missing rows, which would take long or need the rows.
        """
        return chance_along(self.labels[0]) if self.labels else None

    def __repr__(self) -> str:
        if not len(self):
            return "<Frontier: no points>"
        chance = "" if self.chance is None else f", chance shows up to {self.chance:.4g}"
        path = f"epsilon {self.epsilon.min():.4g} to {self.epsilon.max():.4g}"
        return f"<Frontier: {counted(len(self), 'point')}, {path}{chance}>"

    def _repr_html_(self) -> str:
        from r2b.report.render import frontier_html

        return frontier_html(self)

    def __str__(self) -> str:
        lines = [f"   epsilon{OUTCOME_HEAD}"]
        n_shown = min(len(self), 11)
        for place in np.linspace(0, len(self) - 1, n_shown).round().astype(int):
            epsilon, line = float(self.epsilon[place]), outcome_line(self.labels[place])
            within = self.chance is not None and epsilon < self.chance
            lines.append(f"{epsilon:10.5f}{line}{'  within chance' * within}")
        if self.chance is not None:
            lines.append(f"Chance alone shows up to {self.chance:.4f}.")
        if len(self) > n_shown:
            lines.append(f"{n_shown} of {len(self)} points; to_frame() has all.")
        return "\n".join(lines)

    def to_frame(self, *, backend: Backend | None = None) -> Any:
        """Return one row per point as a frame, with the fields of a point as columns.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default the library that the data came in; of data that came in none, pandas or, if
            it is not installed, Polars.

        Examples
        --------
        >>> import r2b
        >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
        >>> path = r2b.frontier(y, sensitive_features=sex, epsilons=[0.0, 0.2, 0.4])
        >>> path.to_frame(backend="pyarrow").column("expected_changes").to_numpy().round(4)
        array([0.3333, 0.2333, 0.1333])
        """
        rows = self.labels[0].rows if self.labels else None
        columns = {"epsilon": self.epsilon, **outcome_columns(self.labels)}
        return frame_of(columns, backend, "" if rows is None else rows.came_as)

    def plot(self, ax: Any = None) -> Any:
        """Draw the share of labels that change against epsilon, and what chance alone shows.

        Points that are not proven are hollow.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on new Axes by default.

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
        changes = 100 * self.expected_changes
        look = {"marker": "o", "color": COLOURS[0], "markersize": 5}
        found = [("", self.epsilon, changes, look)]
        unproven = ~outcome_columns(self.labels)["solved"]
        hollow = {**look, "markerfacecolor": "white", "linestyle": ""}
        if unproven.any():
            found.append(("not proven", self.epsilon[unproven], changes[unproven], hollow))
        ends = [
            f"{percent(point.expected_changes)} at epsilon {point.epsilon:.4g}"
            for point in (*self[:1], *self[1:][-1:])
        ]
        lines = ["What parity costs", f"labels that change: {', '.join(ends)}" if ends else ""]
        scales = "epsilon", "labels expected to change (%)"
        ax = curves(ax, "Frontier", lines, scales, found, self.chance)
        ax.set_ylim(bottom=0)
        return ax


def chance_along(fair: FairLabels | FairTags) -> float | None:
    """Return the disparity that chance shows in labels of this number.

    None if it cannot be compared with epsilon, or would take long.
    """
    if isinstance(fair, FairTags):
        return None
    families, data = fair.families, None if fair.rows is None else fair.rows.counts
    if data is None or data.labels.is_soft or len(families.members) != 1:
        return None
    (counting,), (proof,) = families.counting, fair.certificate.families
    plain = proof.bound == "range" and proof.offsets is None
    if not plain or not isinstance(counting, Crossings):
        return None
    places, _ = places_of(data.cells, counting)
    rows = FamilyRows(data, kinds_of(data), places, outcomes=families.outcomes)
    if not rows.counted and rows.n_rows > 1 << 17:  # each is permuted
        return None
    draws = Draws()
    return float(critical(rows.disparities_by_chance(draws.n_permutations, draws.rng(proof.name))))


def frontier(
    y: Any,
    *,
    sensitive_features: Any,
    epsilons: int | ArrayLike | None = None,
    multilabel: bool = False,
    **options: Any,
) -> Frontier:
    """Solve along a path of epsilons, the same for all families and all classes that are bounded.

    Parameters
    ----------
    y, sensitive_features
        As for :func:`r2b.debias`.
    epsilons : int or array-like, optional
        The epsilons, or how many: that many evenly spaced ones from 0 to where the labels are fair
        as they are. 50 by default.
    multilabel : bool
        Whether ``y`` has a column for each of several tags, as for :func:`r2b.debias`.
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

    See Also
    --------
    r2b.smallest_epsilon : The least epsilon within a budget of changes.
    r2b.compare : Several bounds side by side.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
    >>> path = r2b.frontier(y, sensitive_features=sex, epsilons=[0.0, 0.2, 0.4])
    >>> path.distance.round(4)
    array([0.2667, 0.1307, 0.0427])
    """
    number = 50 if epsilons is None else epsilons
    given = {"sensitive_features": sensitive_features, **options}
    if multilabel:
        rows = {name: given.pop(name, None) for name in ROWS}
        tags, tasks = tasks_of(y, rows, given)
        path = path_of(max(tasks, key=fair_as_they_are), number)
        along = zip(*(solved_along(task, path) for task in tasks), strict=True)
        return Frontier(tuple(put_together(tags, each) for each in along), path)
    task = task_of(y, given)
    warn_of_doubts(task)
    path = path_of(task, number)
    return Frontier(tuple(solved_along(task, path)), path)


def fair_as_they_are(task: Task) -> float:
    """Return the smallest epsilon at which the labels meet every bound as they came in."""
    measured = [
        member.bound.measure(task.means_before[member.groups], task.parity.share[member.groups])[
            np.isfinite(member.bound.epsilon)
        ]
        for member in task.parity.members
    ]
    return float(np.concatenate(measured).max(initial=0.0))


def solved_along(task: Task, epsilons: Floats) -> list[FairLabels]:
    """Solve for epsilons in rising order, from the largest down.

    Prices grow from zero, and between kinks they are straight lines.
    """
    found: list[FairLabels] = []
    for epsilon in epsilons[::-1]:
        start = _extended(found, epsilons[::-1], len(found))
        found.append(task.solve(task.parity.at(float(epsilon)), start))
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
    """Return the epsilons of a frontier in rising order; a number means evenly spaced ones."""
    if is_a(Integral, epsilons) and epsilons >= 1:  # type: ignore[operator]
        return np.linspace(0.0, fair_as_they_are(task), int(epsilons))  # type: ignore[arg-type]
    try:
        path = np.sort(np.array(epsilons, dtype=np.float64).ravel())
    except (TypeError, ValueError, OverflowError):
        path = np.zeros(0)
    sound = len(path) and (np.isfinite(path) & (path >= 0)).all()
    if isinstance(epsilons, (int, np.integer)) or not sound:
        remedy = "Pass numbers of at least 0, such as [0.0, 0.01, 0.05], or how many."
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
        Largest accepted mean squared distance to the old labels.
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

    See Also
    --------
    r2b.frontier : What every epsilon costs.

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
            remedy="Pass `distance=0.01`, or `changes=0.05`.",
        )
    name, budget = ("distance", distance) if distance is not None else ("changes", changes)
    remedy = "Pass a budget of at least 0."
    refuse_other_number(name, budget, remedy, lambda value: 0 <= value < np.inf)
    if "epsilon" in options:
        problem = "The option 'epsilon' is what this question answers."
        raise ParameterError(problem, remedy="Leave it out.", option="epsilon")
    task = task_of(y, {"sensitive_features": sensitive_features, **options})
    warn_of_doubts(task)
    return _search(task, name, float(budget))  # type: ignore[arg-type]


class _Tried(NamedTuple):
    epsilon: float
    fair: FairLabels
    over: float  # by how much the labels exceed the budget


def _search(task: Task, name: str, budget: float) -> FairLabels:
    """Close in on the budget from both sides; the side that keeps it is the answer."""
    cost = {"distance": "distance", "changes": "expected_changes"}[name]

    def tried(epsilon: float, start: Floats | None = None) -> _Tried:
        fair = task.solve(task.parity.at(epsilon), start)
        # Labels that are not proven, as where bounds contradict each other, keep no budget.
        over = getattr(fair.certificate, cost) - budget if fair.status.ok else np.inf
        return _Tried(epsilon, fair, over)

    def between(part: float) -> Floats | None:
        """Return prices between those of both sides; None where prices do not tell the answer."""
        if dear.fair.table is not None:
            return None
        return (1 - part) * dear.fair.prices + part * cheap.fair.prices

    dear = tried(0.0)
    if dear.over <= 0:
        return dear.fair
    cheap = tried(fair_as_they_are(task))
    # If the cost may fall and rise again, a grid finds where it first keeps the budget.
    for epsilon in [] if _monotone(task, name) else np.linspace(0.0, cheap.epsilon, 33)[1:-1]:
        found = tried(float(epsilon), between(0.0))
        if found.over <= 0:
            cheap = found
            break
        dear = found
    if cheap.over > 0:
        least = getattr(cheap.fair.certificate, cost)
        raise ParameterError(
            f"Even without any parity the labels cost {least:.6g} in {name}, more than "
            f"the budget of {budget:.6g}.",
            remedy="Raise the budget, or pass `lam=1`, which leaves fair labels as they are.",
            budget=budget,
            least=least,
        )
    for attempt in range(80):
        bracket, proven = cheap.epsilon - dear.epsilon, np.isfinite(dear.over)
        # The budget is spent, or the cost jumps; next to epsilons that no labels meet little can
        # be proven.
        if -cheap.over <= 1e-9 * budget or bracket <= (1e-13 if proven else 1e-6):
            break
        # A line between the ends, kept off them; every third time the middle, which no shape of
        # curve can slow down.
        part = 0.5
        if attempt % 3 < 2 and proven:
            part = min(max(dear.over / (dear.over - cheap.over), 0.02), 0.98)
        found = tried(dear.epsilon + part * bracket, between(part))
        dear, cheap = (dear, found) if found.over <= 0 else (found, cheap)
    return cheap.fair


def _monotone(task: Task, name: str) -> bool:
    """Return whether the budget is of what is minimised."""
    if task.costs is not None:
        return False
    agreement = task.settings.objective == "agreement"
    return name == "changes" if agreement else name == "distance" and task.settings.lam == 1
