"""What parity costs a model: accuracy and parity out of fold along a path of epsilons, blind and with the attribute known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._data.arrays import Floats, Whole
from r2b._data.frames import Backend, frame_of
from r2b._plot import COLOURS, INK, SHADE, Key, axes, keyed, scaled, titled
from r2b.errors import InputError
from r2b.sklearn.scores import ScoreTask, expected_accuracy, likeliest
from r2b.sklearn.visible import TrueGroups

_MOST_ROWS = 10_000  # of a long table, rows that the path is traced on


@dataclass(frozen=True, eq=False)
class ModelFrontier:
    """Decisions along a path of epsilons, on rows that the models were not trained on.

    Attributes
    ----------
    epsilons : ndarray of shape (m,)
        In rising order.
    accuracy, disparity : ndarray of shape (m,)
        Where the attribute is predicted from the features; parity is by true group. NaN where it
        cannot be predicted.
    accuracy_given, disparity_given : ndarray of shape (m,)
        Where the attribute is known at prediction.
    plain_accuracy, plain_parity : float
        Of the likeliest class of the plain model.
    chance : float
        The parity that chance alone shows on as many rows.
    n_rows : int

    Examples
    --------
    >>> numbers = np.array([0.70]), np.array([0.01]), np.array([0.74]), np.array([0.0])
    >>> print(ModelFrontier(np.array([0.0]), *numbers, 0.78, 0.2, 0.01, 500).price)
    Accuracy at epsilon 0: 70.0 % without the attribute, 74.0 % with it at prediction; 78.0 %
    without parity.
    """

    epsilons: Floats
    accuracy: Floats
    disparity: Floats
    accuracy_given: Floats
    disparity_given: Floats
    plain_accuracy: float
    plain_parity: float
    chance: float
    n_rows: int

    @property
    def price(self) -> str:
        """What the smallest epsilon costs, in one line."""
        blind = "unknown" if np.isnan(self.accuracy[0]) else f"{100 * self.accuracy[0]:.1f} %"
        given, plain = f"{100 * self.accuracy_given[0]:.1f} %", f"{100 * self.plain_accuracy:.1f} %"
        paid = (
            f"{blind} without the attribute, {given} with it at prediction; {plain} without parity"
        )
        return f"Accuracy at epsilon {self.epsilons[0]:g}: {paid}."

    def __str__(self) -> str:
        lines = [
            f"{'epsilon':>9}{'blind: parity':>15}{'accuracy':>10}{'given: parity':>15}{'accuracy':>10}"
        ]
        columns = (
            self.epsilons,
            self.disparity,
            self.accuracy,
            self.disparity_given,
            self.accuracy_given,
        )
        for epsilon, *numbers in zip(*columns, strict=True):
            lines.append(
                f"{epsilon:>9.3f}{numbers[0]:>15.3f}{numbers[1]:>10.3f}{numbers[2]:>15.3f}{numbers[3]:>10.3f}"
            )
        lines.append(f"{'plain':>9}{self.plain_parity:>15.3f}{self.plain_accuracy:>10.3f}")
        return "\n".join(
            [*lines, f"Chance alone shows {self.chance:.3f} on {self.n_rows:,} rows. {self.price}"]
        )

    def to_frame(self, *, backend: Backend | None = None) -> Any:
        """Give one row per epsilon as a frame: accuracy and parity, blind and where the attribute is known at prediction.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            pandas by default or, where it is not installed, Polars.

        Examples
        --------
        >>> numbers = np.array([0.70]), np.array([0.01]), np.array([0.74]), np.array([0.0])
        >>> ModelFrontier(np.array([0.0]), *numbers, 0.78, 0.2, 0.01, 500).to_frame(backend="pyarrow").to_pylist()
        [{'epsilon': 0.0, 'accuracy': 0.7, 'disparity': 0.01, 'accuracy_given': 0.74, 'disparity_given':
        0.0}]
        """
        columns = {
            name: getattr(self, name)
            for name in ("accuracy", "disparity", "accuracy_given", "disparity_given")
        }
        return frame_of({"epsilon": self.epsilons, **columns}, backend)

    def plot(self, ax: Any = None) -> Any:
        """Draw accuracy against parity, blind and with the attribute, beside the plain model.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> numbers = np.array([0.70, 0.76]), np.array([0.01, 0.1]), np.array([0.74, 0.77]), np.array([0.0, 0.1])
        >>> ax = ModelFrontier(np.array([0.0, 0.1]), *numbers, 0.78, 0.2, 0.01, 500).plot()
        >>> print(ax.get_title("left"))
        Accuracy at epsilon 0: 70.0 % without the attribute, 74.0 % with
        it at prediction; 78.0 % without parity.
        """
        ax = axes(ax, "ModelFrontier")
        looks: list[Key] = [
            ("attribute predicted", {"marker": "o", "color": COLOURS[0], "linestyle": "-"}),
            ("attribute known", {"marker": "s", "color": COLOURS[1], "linestyle": "--"}),
            ("plain model", {"marker": "^", "color": INK, "linestyle": "none"}),
        ]
        plain = np.array([self.plain_parity]), np.array([self.plain_accuracy])
        points = [
            (self.disparity, self.accuracy),
            (self.disparity_given, self.accuracy_given),
            plain,
        ]
        shown = [
            (key, x, y) for key, (x, y) in zip(looks, points, strict=True) if np.isfinite(y).any()
        ]
        for (_, look), parity, accuracy in shown:
            ax.plot(100 * parity, 100 * accuracy, **look, markersize=6, clip_on=False, zorder=3)
        ax.axvspan(0, 100 * self.chance, color=SHADE, zorder=0)
        keyed(
            ax,
            [
                *(key for key, *_ in shown),
                ("what chance shows", {"linestyle": "-", "linewidth": 8, "color": SHADE}),
            ],
        )
        scaled(ax.xaxis, "disparity of decisions, by true group (%)")
        scaled(ax.yaxis, "accuracy (%)")
        ax.set_xlim(left=0)
        titled(ax, self.price)
        return ax


def trace_frontier(
    scores: Floats,
    groups: TrueGroups,
    codes: Floats | None,
    truth: Whole,
    n_points: int,
    options: Mapping[str, Any],
) -> ModelFrontier:
    """Solve for epsilons from what was asked for up to where the plain decisions are, blind and with the attribute.

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
    if len(truth) > _MOST_ROWS:
        chosen = np.sort(np.random.default_rng(0).choice(len(truth), _MOST_ROWS, replace=False))
        scores, groups, truth = scores[chosen], groups.part(chosen), truth[chosen]
        codes = None if codes is None else codes[chosen]
    given = ScoreTask.of(
        scores, groups, groups.given(groups.cells, scores), truth, kind="decisions", options=options
    )
    blind = (
        None
        if codes is None
        else ScoreTask.of(scores, groups, codes, truth, kind="decisions", options=options)
    )
    plain = likeliest(scores)
    plain_parity = given.measured(plain)
    asked = min(float(np.min(np.asarray(family.epsilon))) for family in groups.families)
    # Denser where parity is close, which is where accuracy is lost.
    epsilons = asked + (max(plain_parity, asked) - asked) * np.linspace(0.0, 1.0, n_points) ** 2
    plain_accuracy = expected_accuracy(plain, truth, groups.weight)
    paths = [_path(blind, epsilons), _path(given, epsilons)]
    return ModelFrontier(
        epsilons, *paths[0], *paths[1], plain_accuracy, plain_parity, given.by_chance[0], len(truth)
    )


def _path(task: ScoreTask | None, epsilons: Floats) -> tuple[Floats, Floats]:
    """Give accuracy and parity along a path."""
    try:
        found = (
            [] if task is None else [task.solve(epsilon, rounds=1) for epsilon in epsilons.tolist()]
        )
    except InputError:  # nothing is seen of the groups
        found = []
    if not found:
        return np.full(len(epsilons), np.nan), np.full(len(epsilons), np.nan)
    return np.array([each.accuracy for each in found], np.float64), np.array(
        [each.disparity for each in found]
    )
