"""What fairness costs a model, and the parity of its predictions on other rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._data.arrays import Array, Floats, Whole
from r2b._data.columns import refuse_lengths, refuse_other_index, row_labels
from r2b._data.frames import Backend, frame_of
from r2b._plot import COLOURS, INK, Measure, curves, measures, percent
from r2b.errors import InputError, ShapeError
from r2b.metrics.chance import SamplingLevel, format_p_value, sampling_level
from r2b.metrics.criteria import demographic_parity_difference
from r2b.sklearn.groups import TrueGroups
from r2b.sklearn.labels import weight_column
from r2b.sklearn.rule import ScoreTask, find_prices, measure


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
        Of the likeliest class of the plain model.
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


def trace_frontier(
    scores: Floats,
    groups: TrueGroups,
    codes: Floats | None,
    truth: Whole,
    n_points: int,
    options: Mapping[str, Any],
) -> ModelFrontier:
    """Solve for epsilons from what was asked for up to the disparity of the plain decisions.

    Parameters
    ----------
    scores : ndarray of shape (n, L)
        Out of fold.
    groups : TrueGroups
    codes : ndarray of shape (n, n_codes) or None
        Their probabilities, out of fold; None where groups cannot be predicted.
    truth : ndarray of shape (n,)
    n_points : int
    options : mapping
        As for ``debias``.
    """
    if len(truth) > 10_000:
        rng = np.random.default_rng(0)
        chosen = np.sort(rng.choice(len(truth), 10_000, replace=False))
        scores, groups, truth = scores[chosen], groups.part(chosen), truth[chosen]
        codes = None if codes is None else codes[chosen]
    known = groups.given(groups.cells, scores)
    given, blind = (
        None
        if each is None
        else ScoreTask.of(scores, groups, each, truth, kind="decisions", options=options)
        for each in (known, codes)
    )
    assert given is not None
    plain = given.plain.soft_labels
    disparity = measure(given.task.parity, groups, plain)[0]
    asked = min(float(np.min(np.asarray(family.epsilon))) for family in groups.families)
    # Denser where parity is close, which is where accuracy is lost.
    epsilons = asked + (max(disparity, asked) - asked) * np.linspace(0.0, 1.0, n_points) ** 2
    path = *_path(blind, epsilons), *_path(given, epsilons)
    accuracy = given.accuracy(plain)
    assert accuracy is not None
    return ModelFrontier(epsilons, *path, accuracy, disparity, given.by_chance[0], len(truth))


def _path(task: ScoreTask | None, epsilons: Floats) -> tuple[Floats, Floats]:
    """Return accuracy and disparity along a path; NaN where groups cannot be predicted."""
    try:
        each = [] if task is None else epsilons.tolist()
        found = [find_prices(task, epsilon, rounds=1) for epsilon in each]  # type: ignore[arg-type]
    except InputError:  # nothing is seen of the groups
        found = []
    if not found:
        return np.full(len(epsilons), np.nan), np.full(len(epsilons), np.nan)
    accuracy = np.array([rule.accuracy for rule in found], np.float64)
    return accuracy, np.array([rule.disparity for rule in found])


@dataclass(frozen=True, eq=False)
class PredictionParity:
    """How far predictions are from demographic parity.

    Attributes
    ----------
    probability : float or None
        Disparity of the predicted probabilities; None for a learner that predicts none.
    hard : float
        Disparity of the predicted classes. Fair labels do not promise it: a model that is fair on
        average still predicts the most probable class of every row, and small differences decide
        which that is.
    probability_level, hard_level : SamplingLevel or None
        What chance alone would show on rows of this number: mean, quantiles, p-value. None where it
        was not asked for.
    accuracy : float or None
        Share of rows whose predicted class is y; None without y.
    n_rows : int
    """

    probability: float | None
    hard: float
    probability_level: SamplingLevel | None
    hard_level: SamplingLevel | None
    accuracy: float | None
    n_rows: int

    def _found(self) -> list[tuple[str, float, SamplingLevel | None]]:
        """Return name, disparity and level of chance of what was predicted."""
        both = [
            ("probabilities", self.probability, self.probability_level),
            ("classes", self.hard, self.hard_level),
        ]
        return [(name, value, level) for name, value, level in both if value is not None]

    def __str__(self) -> str:
        lines = [f"Disparity of predictions on {self.n_rows:,} rows"]
        for name, value, level in self._found():
            line = f"  {name:<14}{value:.4f}"
            if level is not None:
                p = format_p_value(level.p_value, len(level.draws))
                line += f" (chance: {level.mean:.4f} on average, p {p})"
            lines.append(line)
        if self.accuracy is not None:
            lines.append(f"  {'accuracy':<14}{self.accuracy:.4f}")
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Draw the disparity of probabilities and classes beside what chance shows.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> ax = PredictionParity(0.031, 0.12, None, None, 0.81, 2_000).plot()
        >>> ax.get_title("left"), [text.get_text() for text in ax.texts]
        ('Disparity of predictions on 2,000 rows, accuracy 81.00 %', ['3.10 %', '12.00 %'])
        """
        found = []
        for name, value, level in self._found():
            beside, chance = percent(value), None
            if level is not None:
                beside += f", p {format_p_value(level.p_value, len(level.draws))}"
                chance = float(np.quantile(level.draws, 0.95))
            found.append(Measure(name, value, chance=chance, beside=beside))
        title = f"Disparity of predictions on {self.n_rows:,} rows"
        if self.accuracy is not None:
            title += f", accuracy {percent(self.accuracy)}"
        return measures(ax, "PredictionParity", [title], "disparity", found)


def measure_predictions(
    probabilities: Array | None,
    predicted: Array,
    *,
    sensitive_features: Any,
    y: Any = None,
    sample_weight: Any = None,
    n_permutations: int = 200,
    random_state: int = 0,
) -> PredictionParity:
    """Measure the disparity of predictions that were already made.

    Parameters
    ----------
    probabilities : ndarray of shape (n, L), optional
    predicted : ndarray of shape (n,)
    sensitive_features, sample_weight
        As for :func:`r2b.metrics.demographic_parity_difference`.
    y : array-like of shape (n,), optional
        True classes, for the accuracy.
    n_permutations : int
        0 leaves out the levels of chance, which take that many passes over the rows.
    random_state : int

    Returns
    -------
    PredictionParity

    Examples
    --------
    >>> predicted, sex = np.array(["no", "yes", "no", "no"]), ["f", "f", "m", "m"]
    >>> measure_predictions(None, predicted, sensitive_features=sex, n_permutations=0).hard
    0.5
    """
    rows = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
    chance = {**rows, "n_permutations": n_permutations, "random_state": random_state}
    disparity: list[float | None] = []
    level: list[SamplingLevel | None] = []
    for each in (probabilities, predicted):
        known = each is not None
        disparity.append(demographic_parity_difference(each, **rows) if known else None)
        level.append(sampling_level(each, **chance) if known and n_permutations else None)
    accuracy = None
    if y is not None:
        weight = None if sample_weight is None else weight_column(sample_weight)
        right = _right(predicted, y, sensitive_features)
        accuracy = float(np.average(right, weights=weight))
    hard = disparity[1]
    assert hard is not None
    return PredictionParity(disparity[0], hard, level[0], level[1], accuracy, len(predicted))


def _right(predicted: Array, y: Any, sensitive_features: Any) -> Array:
    """Tell which rows were predicted right; a table of one column is a column."""
    true = np.asarray(y)
    true = true[:, 0] if true.ndim == 2 and true.shape[1] == 1 else true
    if true.ndim != 1:
        problem = f"`y` has shape {true.shape}."
        remedy = "Pass one true class per row."
        raise ShapeError(problem, remedy=remedy, argument="y", shape=true.shape)
    refuse_lengths("X", len(predicted), "y", len(true))
    refuse_other_index(("y", row_labels(y)), ("sensitive_features", row_labels(sensitive_features)))
    return np.asarray(true == predicted)
