"""What fairness costs a model, and a verdict for every group on rows that it was not trained on."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from r2b._data.arrays import Floats, Whole, plain_value
from r2b._data.frames import Backend, frame_of
from r2b._plot import COLOURS, INK, Measure, curves, measures, percent
from r2b.metrics.chance import Verdict, verdict_of
from r2b.sklearn.groups import Comparison, TrueGroups
from r2b.sklearn.prices import ROUGH
from r2b.sklearn.rule import (
    PLAN,
    Plan,
    ScoreRows,
    deviations,
    fit_prices,
)


@dataclass(frozen=True, eq=False)
class ModelFrontier:
    """Decisions along a path of epsilons, on rows that the models were not trained on.

    Attributes
    ----------
    epsilons : ndarray of shape (m,)
        In rising order.
    accuracy, disparity : ndarray of shape (m,)
        Where the attribute is predicted from the features; disparity is by true group. NaN where it
        cannot be predicted.
    accuracy_given, disparity_given : ndarray of shape (m,)
        Where the attribute is known at prediction.
    plain_accuracy, plain_disparity : float
        Of the most probable class of the plain model.
    chance : float
        The disparity that chance alone shows on as many rows.
    n_rows : int

    Examples
    --------
    >>> numbers = np.array([0.70]), np.array([0.01]), np.array([0.74]), np.array([0.0])
    >>> print(ModelFrontier(np.array([0.0]), *numbers, 0.78, 0.2, 0.01, 500).cost)
    Accuracy at epsilon 0: 70.0 % without the attribute, 74.0 % with it at prediction; 78.0 %
    without parity.
    """

    epsilons: Floats
    accuracy: Floats
    disparity: Floats
    accuracy_given: Floats
    disparity_given: Floats
    plain_accuracy: float
    plain_disparity: float
    chance: float
    n_rows: int

    @property
    def cost(self) -> str:
        """What the smallest epsilon costs in accuracy, in one line."""
        blind = "unknown" if np.isnan(self.accuracy[0]) else f"{100 * self.accuracy[0]:.1f} %"
        given, plain = f"{100 * self.accuracy_given[0]:.1f} %", f"{100 * self.plain_accuracy:.1f} %"
        known = f"{blind} without the attribute, {given} with it at prediction"
        return f"Accuracy at epsilon {self.epsilons[0]:g}: {known}; {plain} without parity."

    def _columns(self) -> dict[str, Floats]:
        names = ("epsilons", "accuracy", "disparity", "accuracy_given", "disparity_given")
        return {name.removesuffix("s"): getattr(self, name) for name in names}

    def __str__(self) -> str:
        lines = ["  epsilon  accuracy blind: disparity  accuracy given: disparity"]
        for epsilon, *row in zip(*self._columns().values(), strict=True):
            lines.append(
                f"{epsilon:>9.3f}{row[0]:>10.3f}{row[1]:>17.3f}{row[2]:>10.3f}{row[3]:>17.3f}"
            )
        lines.append(f"{'plain':>9}{self.plain_accuracy:>10.3f}{self.plain_disparity:>17.3f}")
        chance = f"Chance alone shows {self.chance:.3f} on {self.n_rows:,} rows."
        return "\n".join([*lines, f"{chance} {self.cost}"])

    def to_frame(self, *, backend: Backend | None = None) -> Any:
        """Return one row per epsilon as a frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            pandas by default or, where it is not installed, Polars.

        Examples
        --------
        >>> numbers = np.array([0.70]), np.array([0.01]), np.array([0.74]), np.array([0.0])
        >>> path = ModelFrontier(np.array([0.0]), *numbers, 0.78, 0.2, 0.01, 500)
        >>> path.to_frame(backend="pyarrow").column_names
        ['epsilon', 'accuracy', 'disparity', 'accuracy_given', 'disparity_given']
        """
        return frame_of(self._columns(), backend)

    def plot(self, ax: Any = None) -> Any:
        """Draw accuracy against disparity, blind and with the attribute, beside the plain model.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on new Axes by default.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> accuracy, disparity = np.array([0.70, 0.76]), np.array([0.01, 0.1])
        >>> path = accuracy, disparity, accuracy + 0.02, disparity
        >>> ax = ModelFrontier(np.array([0.0, 0.1]), *path, 0.78, 0.2, 0.01, 500).plot()
        >>> ax.get_xlabel()
        'disparity of decisions, by true group (%)'
        """
        plain = np.array([self.plain_disparity]), np.array([self.plain_accuracy])
        given = self.disparity_given, self.accuracy_given
        found = [
            (
                name,
                100 * x,
                100 * y,
                {"marker": marker, "color": colour, "linestyle": line, "markersize": 6},
            )
            for name, (x, y), marker, colour, line in (
                ("attribute predicted", (self.disparity, self.accuracy), "o", COLOURS[0], "-"),
                ("attribute known", given, "s", COLOURS[1], "--"),
                ("plain model", plain, "^", INK, "none"),
            )
        ]
        scales = "disparity of decisions, by true group (%)", "accuracy (%)"
        ax = curves(ax, "ModelFrontier", [self.cost], scales, found, 100 * self.chance)
        ax.set_xlim(left=0)
        return ax


FRONTIER_ROWS = 4_000
"""On more rows the frontier is no clearer, and takes longer."""


def trace_frontier(
    rows: ScoreRows, codes: Floats | None, n_points: int, plan: Plan | None, seed: int
) -> ModelFrontier:
    """Solve for epsilons from what was asked for up to the disparity of the plain decisions.

    Prices are found on one half of the rows, and every point is measured on the other half.

    Parameters
    ----------
    rows : ScoreRows
        Decisions out of fold.
    codes : ndarray of shape (n, n_codes) or None
        Probabilities of the codes, out of fold; None where groups cannot be predicted.
    n_points : int
    plan : Plan, optional
        How predicted groups are followed.
    seed : int
    """
    chosen = np.random.default_rng(seed).permutation(len(rows.scores))[:FRONTIER_ROWS]
    halves = chosen[::2], chosen[1::2]
    groups = rows.groups
    known = replace(rows, codes=groups.given(rows.scores))
    new = known.part(halves[1])
    disparity = largest_disparity(new.groups, new.plain)
    asked = min(float(np.min(each.bound.epsilon)) for each in groups.comparisons)
    # Denser where parity is close, which is where accuracy is lost.
    epsilons = asked + (max(disparity, asked) - asked) * np.linspace(0.0, 1.0, n_points) ** 2
    blind = None if codes is None else replace(rows, codes=codes)
    plan = plan or PLAN
    path = *_path(blind, plan, halves, epsilons), *_path(known, plan, halves, epsilons)
    chance = float(np.median([each.chance for each in parity_of_groups(new.groups, new.plain)[0]]))
    accuracy = new.accuracy(new.plain)
    return ModelFrontier(epsilons, *path, accuracy, disparity, chance, len(new.scores))


def _path(
    rows: ScoreRows | None, plan: Plan, halves: tuple[Whole, Whole], epsilons: Floats
) -> tuple[Floats, Floats]:
    """Return accuracy and disparity along a path; NaN where groups cannot be predicted."""
    found = np.full((2, len(epsilons)), np.nan)
    if rows is not None and not rows.hidden:
        old, new = (rows.part(half) for half in halves)
        prices = None
        for k, epsilon in enumerate(epsilons.tolist()):
            asked = replace(old, groups=old.groups.at(epsilon))
            prices = fit_prices(asked, plan, prices, ROUGH)
            fair = new.apply(prices)
            found[:, k] = new.accuracy(fair), largest_disparity(new.groups, fair)
    return found[0], found[1]


NOTICED = 0.025
"""Below this, one standard deviation of chance is no reason to warn."""


@dataclass(frozen=True)
class GroupParity:
    """What rows show of one group in one comparison.

    Attributes
    ----------
    family, criterion, group : str
    other : str
        The group that it is compared with; empty for all others together.
    class_name : object
        The class that is surely above epsilon, or else the one that may be farthest above it; None
        where right predictions are compared.
    n_rows : float
        Of weighted rows Kish's effective number.
    disparity, epsilon : float
        In that class, by what the bound limits. In the report of ``fit`` at least one standard
        deviation of chance: prices follow the noise of the rows that they were found on, and new
        rows have other noise.
    chance : float
        What chance alone explains: in 99 of 100 reports on fair rows no entry is above it.
    verdict : {"met", "not shown", "not met"}
        "not met" where the disparity of a class is above epsilon by more than chance explains;
        "met" where that of no class is above epsilon and half of that (added as squares, as noise
        is), nor with chance on top above epsilon by more than 0.1; otherwise "not shown".
    likely : bool
        In the report of ``fit``: whether new rows are likely to show a disparity above epsilon,
        because one standard deviation of chance is above twice epsilon and 0.025.
    """

    family: str
    criterion: str
    group: str
    other: str
    class_name: Any
    n_rows: float
    disparity: float
    epsilon: float
    chance: float
    verdict: Verdict
    likely: bool = False


@dataclass(frozen=True, eq=False)
class ParityReport:
    """A verdict for every group, on rows that the model was not trained on.

    Attributes
    ----------
    kind : {"probabilities", "decisions"}
    groups : tuple of GroupParity
        Each group against all others of its family, for every criterion.
    pairs : tuple of GroupParity
        Each pair of groups.
    disparity : float
        The largest of all families, by what their bounds limit.
    accuracy, majority : float or None
        Of the decisions, and of the most frequent class; None where true classes are not known.
    n_rows : int

    Examples
    --------
    >>> group = GroupParity("sex", "demographic_parity", "f", "", "yes", 90, 0.2, 0, 0.1, "not met")
    >>> print(ParityReport("decisions", (group,), (), 0.2, 0.8, 0.6, 400))
    Disparity of decisions on 400 unseen rows: 0.200; accuracy 0.800 (most frequent class 0.600)
    family  criterion            group  class  rows  disparity  chance  verdict
    sex     demographic_parity   f      yes      90      0.200   0.100  not met
    """

    kind: str
    groups: tuple[GroupParity, ...]
    pairs: tuple[GroupParity, ...]
    disparity: float
    accuracy: float | None
    majority: float | None
    n_rows: int

    @property
    def not_met(self) -> tuple[GroupParity, ...]:
        """The groups whose disparity is more than chance explains."""
        return tuple(each for each in self.groups if each.verdict == "not met")

    @property
    def likely(self) -> tuple[GroupParity, ...]:
        """The other groups that are likely to be above epsilon on new rows."""
        return tuple(each for each in self.groups if each.likely)

    def problems(self, *, tags: bool = False) -> list[str]:
        """Write which groups are not in parity, and which are likely not to be on new rows.

        Parameters
        ----------
        tags : bool
            Classes are tags, and named.
        """
        found = []
        for groups, problem in (
            (self.not_met, "Decisions on unseen rows are not in parity"),
            (self.likely, "Decisions on new rows are likely to exceed epsilon"),
        ):
            worst = sorted(groups, key=lambda each: each.epsilon - each.disparity)
            named = [
                f"{f'{each.class_name!r} of ' if tags else ''}{each.family}={each.group} "
                f"({each.n_rows:,.0f} rows): {each.disparity:.3f}, where epsilon is "
                f"{each.epsilon:g} and chance explains {each.chance:.3f}"
                for each in worst[:3]
            ]
            more = f", and {len(worst) - 3} more" if len(worst) > 3 else ""
            if worst:
                found.append(f"{problem}: {'; '.join(named)}{more}.")
        return found

    def __str__(self) -> str:
        title = f"Disparity of {self.kind} on {self.n_rows:,} unseen rows: {self.disparity:.3f}"
        if self.accuracy is not None:
            title += f"; accuracy {self.accuracy:.3f} (most frequent class {self.majority:.3f})"
        wide = max([6, *(len(each.family) for each in self.groups)])
        long = max([5, *(len(each.group) for each in self.groups)])
        start = f"{'family':<{wide}}  {'criterion':<19}  {'group':<{long}}  class"
        lines = [title, f"{start}  rows  disparity  chance  verdict"]
        for each in self.groups:
            name = "" if each.class_name is None else str(each.class_name)
            start = f"{each.family:<{wide}}  {each.criterion:<19}  {each.group:<{long}}  {name:<5}"
            found = f"{each.n_rows:>5.0f}{each.disparity:>11.3f}{each.chance:>8.3f}"
            lines.append(f"{start} {found}  {each.verdict}")
        return "\n".join(lines)

    def to_frame(self, *, pairs: bool = False, backend: Backend | None = None) -> Any:
        """Return one row per group, or per pair of groups, as a frame.

        Parameters
        ----------
        pairs : bool
            One row per pair of groups, instead of one per group.
        backend : {"pandas", "polars", "pyarrow"}, optional
            pandas by default or, where it is not installed, Polars.
        """
        shown = self.pairs if pairs else self.groups
        names = [each.name for each in fields(GroupParity)]
        columns = {name: [getattr(each, name) for each in shown] for name in names}
        columns["class_name"] = [str(name) for name in columns["class_name"]]
        return frame_of(columns, backend)

    def plot(self, ax: Any = None) -> Any:
        """Draw the disparity of every group beside what chance explains.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on new Axes by default.

        Returns
        -------
        matplotlib Axes
        """
        found = [
            Measure(
                f"{each.family}: {each.group}",
                each.disparity,
                chance=each.epsilon + each.chance,
                beside=f"{percent(each.disparity)}, {each.verdict}",
            )
            for each in self.groups
        ]
        title = f"Disparity of {self.kind} on {self.n_rows:,} unseen rows"
        return measures(ax, "ParityReport", [title], "disparity", found, samples="99 of 100")


def largest_disparity(groups: TrueGroups, rows: Floats) -> float:
    """Return the largest disparity of all comparisons, by what their bounds limit."""
    found = 0.0
    means = zip(groups.comparisons, groups.means(rows), groups.sizes(), strict=True)
    for each, mean, size in means:
        bounded = np.isfinite(np.atleast_2d(each.bound.epsilon)).any(axis=0)
        found = max(found, float(each.bound.measure(mean, size)[bounded].max(initial=0.0)))
    return found


def parity_of_groups(
    groups: TrueGroups, rows: Floats, fitted: bool = False
) -> tuple[tuple[GroupParity, ...], tuple[GroupParity, ...]]:
    """Judge each group against all others, and each pair of groups.

    Parameters
    ----------
    groups : TrueGroups
    rows : ndarray of shape (n, L)
    fitted : bool
        Whether prices were found on these rows.
    """
    every: list[GroupParity] = []
    pairs: list[GroupParity] = []
    n_tests = sum(len(each.groups) * each.bound.epsilon.shape[-1] for each in groups.comparisons)
    n_tests *= groups.judged_together
    # every fit makes a report: in 99 of 100 fair ones nothing is above chance
    quantile = NormalDist().inv_cdf(1.0 - 0.005 / n_tests)
    means, sizes, sd = groups.means(rows), groups.sizes(), deviations(groups, rows)
    for each, mean, size, own in zip(groups.comparisons, means, sizes, sd, strict=True):
        for g in range(len(each.groups)):
            rest = np.arange(len(size)) != g
            others = size[rest] @ mean[rest] / size[rest].sum()
            error = own[g] * np.sqrt(1.0 + size[g] / size[rest].sum())
            cases: list[Any] = [(every, "", others, error, size[g])]
            for h, name in enumerate(each.groups[:g]):
                error = np.hypot(own[g], own[h])
                cases.append((pairs, name, mean[h], error, min(size[g], size[h])))
            for found, other, against, error, n_rows in cases:
                # Bernstein's term: of rare outcomes a single row is far from the mean
                noise = quantile * error + quantile**2 / (6.0 * n_rows), error * fitted
                found.append(_judged(groups, each, size, mean, g, other, against, *noise))
    return tuple(every), tuple(pairs)


def _judged(
    groups: TrueGroups,
    each: Comparison,
    size: Floats,
    means: Floats,
    one: int,
    other: str,
    others: Floats,
    chance: Floats,
    least: Floats,
) -> GroupParity:
    """Judge one group against others by what the bound limits."""
    bound = each.bound
    if bound.level == "none":
        others = means[one]
    elif bound.on_level(len(means)).any():
        others = bound.level_of(means, size)
    against = np.tile(others, (len(means), 1))
    against[one] = means[one]
    disparity = np.maximum(bound.measure(against, size), least)
    epsilon = bound.epsilon if bound.epsilon.ndim == 1 else bound.epsilon[one]
    verdict, over = verdict_of(disparity, epsilon, chance), disparity - epsilon
    # of classes that are not beyond chance the least certain one is shown
    k = int((over - chance if verdict == "not met" else over + chance).argmax())
    known = groups.schema.classes.values if groups.outcomes is None else groups.outcomes.names
    name = None if each.n_right else plain_value(known[k])
    numbers = float(size[one]), float(disparity[k]), float(epsilon[k]), min(1.0, float(chance[k]))
    # with a standard deviation of 2 epsilon, 3 of 5 normal draws are above epsilon
    likely = verdict != "not met" and bool((least > np.maximum(2 * epsilon, NOTICED)).any())
    names = each.name, each.criterion, each.groups[one], other, name
    return GroupParity(*names, *numbers, verdict, likely)


def report_of(
    kind: str,
    groups: TrueGroups,
    rows: Floats,
    labels: Floats | None,
    weight: Floats,
    fitted: bool = False,
) -> ParityReport:
    """Judge rows by the true groups of a table.

    Parameters
    ----------
    kind : {"probabilities", "decisions"}
    groups : TrueGroups
    rows : ndarray of shape (n, L)
        Predicted distributions; of decisions ones and zeros.
    labels : ndarray of shape (n, L), optional
        True classes.
    weight : ndarray of shape (n,)
        Adds up to 1.
    fitted : bool
        Whether prices were found on these rows.
    """
    accuracy = majority = None
    if labels is not None:
        accuracy = float(weight @ (rows * labels).sum(axis=1))
        majority = float((weight @ labels).max())
    disparity = largest_disparity(groups, rows)
    judged = parity_of_groups(groups, rows, fitted)
    if fitted:
        disparity = max([disparity, *(each.disparity for part in judged for each in part)])
    return ParityReport(kind, *judged, disparity, accuracy, majority, len(rows))
