"""The criteria of fairness by name: how far predictions are from one, and how much of that chance explains on so many rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import erfc, sqrt
from typing import Any, Literal, get_args

import numpy as np

from r2b._data import Dataset, read
from r2b._data.arrays import Array
from r2b._data.columns import refuse_other_choice
from r2b.metrics.comparisons import CellFamily, Comparison, Families, families_of
from r2b.metrics.demographic import demographic_parity, means_of, overall_mean
from r2b.metrics.odds import equal_opportunity, equalized_odds, own_places, read_predictions

Criterion = Literal["demographic_parity", "equal_opportunity", "equalized_odds"]
_STEPS = 64


def unfairness(
    criterion: Criterion, y_true: Any, y_pred: Any, *, classes: Any = None, **rows: Any
) -> float:
    """Give how far predictions are from a criterion.

    Parameters
    ----------
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
    y_true, y_pred, classes, **rows
        As for :func:`r2b.metrics.odds.equalized_odds`.

    Examples
    --------
    >>> [unfairness(name, [0, 1, 0, 1], [1, 1, 0, 1], sensitive_features=["f", "f", "m", "m"]) for name in get_args(Criterion)]
    [0.5, 1.0, 1.0]
    """
    refuse_other_choice("criterion", criterion, get_args(Criterion))
    if criterion == "demographic_parity":  # it needs no names of classes
        return demographic_parity(y_true, y_pred, **rows)
    measure = equalized_odds if criterion == "equalized_odds" else equal_opportunity
    return measure(y_true, y_pred, classes=classes, **rows)


def unfairness_by_chance(
    criterion: Criterion,
    y_true: Any,
    y_pred: Any,
    *,
    classes: Any = None,
    families: Families = "crossed",
    level: float = 0.95,
    **rows: Any,
) -> float:
    """Give what chance explains of the measure of a criterion, as :func:`largest_by_chance` does.

    Parameters
    ----------
    criterion, y_true, y_pred, classes, families
        As for :func:`unfairness`.
    **rows
        Its ``sensitive_features``, ``control_features`` and ``sample_weight``.
    level : float

    Examples
    --------
    >>> y_true, y_pred, groups = [0, 0, 1, 1] * 100, [0, 0, 0, 0, 1, 1, 1, 1] * 50, [0, 1] * 200
    >>> [round(unfairness_by_chance(name, y_true, y_pred, sensitive_features=groups), 3) for name in get_args(Criterion)]
    [0.098, 0.158, 0.158]
    """
    refuse_other_choice("criterion", criterion, get_args(Criterion))
    if criterion == "demographic_parity":
        return largest_by_chance(
            read(y_pred, fewest_classes=1, weightless="allow", **rows), families, level
        )
    features = (rows["sensitive_features"], rows.get("control_features"), rows.get("sample_weight"))
    data, true = read_predictions(y_true, y_pred, *features, classes)
    own = (
        own_places(true.values, data.labels.vocabulary.values)
        if criterion == "equal_opportunity"
        else None
    )
    return largest_by_chance(data, families, level, own)


def largest_by_chance(
    data: Dataset, families: Families, level: float = 0.95, own: list[int | None] | None = None
) -> float:
    """Give what chance explains of the largest difference between groups, without drawing: so much is exceeded in few fair tables.

    Where a row's label does not depend on its group, the difference of groups a and b in class k
    has the variance ``v_k sum_i w_i^2 (m_ia / T_a - m_ib / T_b)^2``, with v_k the variance of the
    class in the stratum, m the memberships and T the total weights. Differences are taken as
    normal, and the chances of all to be exceeded add up to 1 - level.

    Parameters
    ----------
    data : Dataset
    families : {"crossed", "marginal", "both"} or list
        As for :func:`r2b.metrics.demographic_parity`.
    level : float
    own : list of int or None, optional
        For each true class, the last control feature, the one class that counts among its rows; all
        without it.

    Returns
    -------
    float
        0 where nothing is compared, or nothing varies.

    Examples
    --------
    >>> data = read(["no", "yes"] * 200, sensitive_features=["f"] * 200 + ["m"] * 200)
    >>> round(largest_by_chance(data, "crossed"), 3)  # 1.96 standard errors of the difference of two shares of 200
    0.098
    """
    means, weights = means_of(data)
    seconds, soft = means, data.labels.matrix  # the square of a label that is 0 or 1 is the label
    if soft is not None:
        seconds = means_of(
            replace(data, labels=replace(data.labels, matrix=soft.astype(np.float64) ** 2))
        )[0]
    squares = np.bincount(
        data.cells.codes, None if data.weight is None else data.weight**2, data.n_cells
    )
    # Of two classes the second mirrors the first.
    every: list[int | None] = list(range(1 if data.n_classes == 2 else data.n_classes))
    errors = [
        each
        for family in families_of(data.cells, families)
        for found in family.compared(data.cells, means, weights)
        if len(found.present) > 1
        for each in _standard_errors(
            family,
            found,
            every if own is None else [own[found.stratum[-1]]],
            seconds,
            weights,
            squares,
        )
    ]
    widest = max((float(each.max()) for each in errors), default=0.0)
    if widest == 0:
        return 0.0
    # Standard errors are rounded up to a few values, so that any number of differences takes the
    # same time.
    counts = np.sum(
        [
            np.bincount(np.ceil(each / widest * _STEPS).astype(np.intp), minlength=_STEPS + 1)
            for each in errors
        ],
        axis=0,
    )
    return widest * _exceeded_by(counts[1:], 1 - level)


def _standard_errors(
    family: CellFamily,
    found: Comparison,
    classes: list[int | None],
    seconds: Array,
    weights: Array,
    squares: Array,
) -> Iterator[Array]:
    """Give the standard errors of the differences between groups under chance, class by class."""
    here, weight = found.cells, weights[found.cells]
    variances = np.maximum(
        weight @ seconds[here] / weight.sum() - overall_mean(found.means, found.weights) ** 2, 0.0
    )
    part = family.parts[here]
    part = part[:, found.present] if part.ndim == 2 else part[:, None] == found.present
    part = part / found.weights
    gram = part.T @ (part * squares[here, None])
    one, two = np.triu_indices(len(found.present), 1)
    pairs = np.sqrt(np.maximum(gram[one, one] + gram[two, two] - 2 * gram[one, two], 0.0))
    for k in classes:
        if k is not None:  # a class that is never predicted does not vary
            yield sqrt(variances[k]) * pairs


def _exceeded_by(counts: Array, chance: float) -> float:
    """Give what so many normal numbers, of standard errors 1 / n to 1, exceed in absolute value with this chance between them."""
    there = [(int(count), (place + 1) / len(counts)) for place, count in enumerate(counts) if count]
    low, high = 0.0, 40.0
    for _ in range(50):
        middle = (low + high) / 2
        too_often = sum(count * erfc(middle / error / sqrt(2)) for count, error in there) > chance
        low, high = (middle, high) if too_often else (low, middle)
    return high
