"""Parity of what a model predicts on rows that it was not trained on, beside the parity that chance alone would show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.columns import refuse_lengths, refuse_other_index, row_labels
from r2b._plot import Measure, measures, percent
from r2b.errors import ShapeError
from r2b.metrics.chance import SamplingLevel, format_p_value, sampling_level
from r2b.metrics.criteria import demographic_parity_difference
from r2b.sklearn.labels import weight_column


@dataclass(frozen=True, eq=False)
class PredictionParity:
    """How far predictions are from demographic parity.

    Attributes
    ----------
    probability : float or None
        Parity of the predicted probabilities; None for a learner that gives none.
    hard : float
        Parity of the predicted classes. Fair labels do not promise it: a model that is fair on
        average still gives every row its most probable class, and small differences decide which
        that is.
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

    def __str__(self) -> str:
        lines = [f"Parity of predictions on {self.n_rows:,} rows"]
        for name, value, level in [
            ("probability", self.probability, self.probability_level),
            ("hard", self.hard, self.hard_level),
        ]:
            if value is not None:
                chance = (
                    ""
                    if level is None
                    else f" (chance: {level.mean:.4f} on average, p {format_p_value(level.p_value, len(level.draws))})"
                )
                lines.append(f"  {name:<12}{value:.4f}{chance}")
        return "\n".join(
            lines if self.accuracy is None else [*lines, f"  {'accuracy':<12}{self.accuracy:.4f}"]
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the parity of probabilities and of classes beside what chance shows on as many rows.

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
        ('Parity of predictions on 2,000 rows, accuracy 81.00 %', ['3.10 %', '12.00 %'])
        """
        found = []
        for name, value, level in [
            ("probabilities", self.probability, self.probability_level),
            ("classes", self.hard, self.hard_level),
        ]:
            if value is not None:
                p = (
                    ""
                    if level is None
                    else f", p {format_p_value(level.p_value, len(level.draws))}"
                )
                chance = None if level is None else float(np.quantile(level.draws, 0.95))
                found.append(Measure(name, value, chance=chance, beside=percent(value) + p))
        right = "" if self.accuracy is None else f", accuracy {percent(self.accuracy)}"
        return measures(
            ax,
            "PredictionParity",
            [f"Parity of predictions on {self.n_rows:,} rows{right}"],
            "parity",
            found,
        )


def measure(
    probabilities: Array | None,
    predicted: Array,
    *,
    sensitive_features: Any,
    y: Any = None,
    sample_weight: Any = None,
    n_permutations: int = 200,
    random_state: int = 0,
) -> PredictionParity:
    """Measure the parity of predictions that were already made.

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
    >>> found = measure(None, np.array(["no", "yes", "no", "no"]), sensitive_features=["f", "f", "m", "m"], n_permutations=0)
    >>> found.hard, found.probability
    (0.5, None)
    """
    rows = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
    chance = {**rows, "n_permutations": n_permutations, "random_state": random_state}
    soft, weight = (
        probabilities is not None,
        None if sample_weight is None else weight_column(sample_weight),
    )
    right = None if y is None else _right(predicted, y, sensitive_features)
    return PredictionParity(
        probability=demographic_parity_difference(probabilities, **rows) if soft else None,
        hard=demographic_parity_difference(predicted, **rows),
        probability_level=sampling_level(probabilities, **chance)
        if soft and n_permutations
        else None,
        hard_level=sampling_level(predicted, **chance) if n_permutations else None,
        accuracy=None if right is None else float(np.average(right, weights=weight)),
        n_rows=len(predicted),
    )


def _right(predicted: Array, y: Any, sensitive_features: Any) -> Array:
    """Tell which rows were predicted right; a table of one column is a column, and anything wider is no list of true classes."""
    true = np.asarray(y)
    true = true[:, 0] if true.ndim == 2 and true.shape[1] == 1 else true
    if true.ndim != 1:
        raise ShapeError(
            f"The argument y has shape {true.shape}.",
            remedy="Pass one true class per row.",
            argument="y",
            shape=true.shape,
        )
    refuse_lengths("X", len(predicted), "y", len(true))
    refuse_other_index(("y", row_labels(y)), ("sensitive_features", row_labels(sensitive_features)))
    return np.asarray(true == predicted)
