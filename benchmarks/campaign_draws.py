"""Draw one problem for every pair of a seed and a number.

The distribution: 2 to 150 classes, 2 to 25 groups and 20 to 3,000 rows, each log-uniform; epsilon 0
one time in five and else log-uniform from 1e-9 to 1; lambda 1 one time in four and else log-uniform
from .05 to 10; weights 10^U(-3, 3) half of the time; labels as classes, one-hot rows, soft rows of
drawn sharpness or rows on a grid; groups of one column, of two (families crossed, marginal or both)
or memberships in probability; the paper's bound half of the time, else to_overall, ratio or target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LABELS = ("classes", "one-hot", "soft", "grid")
BOUNDS = ("range", "to_overall", "ratio", "target")
FAMILIES = ("crossed", "marginal", "both")


@dataclass(frozen=True, eq=False)
class Drawn:
    """One problem.

    Attributes
    ----------
    facts : dict
        What was drawn, as plain values.
    arguments : dict
        What ``r2b.debias`` is called with.
    labels : ndarray of shape (N, L)
        The labels as probabilities.
    weight : ndarray of shape (N,)
    members : list of dict
        For each family, group name to the part of each row in the group.
    target : ndarray of shape (L,) or None
    """

    facts: dict[str, Any]
    arguments: dict[str, Any]
    labels: Floats
    weight: Floats
    members: list[dict[str, Floats]]
    target: Floats | None


def draw(seed: int, number: int) -> Drawn:
    """Draw the problem with this number."""
    rng = np.random.default_rng([seed, number])
    n_rows, n_classes, n_groups = (
        round(_log_uniform(rng, *span)) for span in ((20, 3000), (2, 150), (2, 25))
    )
    epsilon = 0.0 if rng.random() < 0.2 else _log_uniform(rng, 1e-9, 1.0)
    lam = 1.0 if rng.random() < 0.25 else _log_uniform(rng, 0.05, 10.0)
    weight = 10.0 ** rng.uniform(-3, 3, n_rows) if rng.random() < 0.5 else np.ones(n_rows)
    bound = "range" if rng.random() < 0.5 else str(rng.choice(BOUNDS[1:]))
    kind = str(rng.choice(("column", "columns", "membership"), p=(0.5, 0.3, 0.2)))
    families = str(rng.choice(FAMILIES)) if kind == "columns" else "crossed"
    features, members, tilt = _groups(rng, kind, families, n_rows, n_groups)
    form = str(rng.choice(LABELS))
    y, labels = _labels(rng, form, tilt, n_classes)
    # an empty class has no ratio between groups, and is refused by name
    if bound == "ratio" and form != "classes":
        y = labels = labels[:, labels.any(axis=0)]
    n_classes = labels.shape[1]
    arguments: dict[str, Any] = {
        "y": y,
        "sensitive_features": features,
        "epsilon": epsilon,
        "lam": lam,
        "bound": bound,
        "families": families,
    }
    if (weight != 1).any():
        arguments["sample_weight"] = weight
    target = None
    if bound == "target":
        population = rng.random() < 0.5
        target = weight @ labels / weight.sum() if population else rng.dirichlet(np.ones(n_classes))
        arguments["target"] = "population" if population else target
    facts = {
        "seed": seed,
        "number": number,
        "rows": n_rows,
        "classes": n_classes,
        "groups": sum(map(len, members)),
        "epsilon": epsilon,
        "lam": lam,
        "weights": bool((weight != 1).any()),
        "labels": form,
        "attribute": kind,
        "families": families,
        "bound": bound,
    }
    return Drawn(facts, arguments, labels, weight, members, target)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _groups(
    rng: np.random.Generator, kind: str, families: str, n_rows: int, n_groups: int
) -> tuple[Any, list[dict[str, Floats]], NDArray[np.int64]]:
    """Return the attributes, the part of each row in each group, and what labels depend on."""
    import r2b

    if kind == "membership":
        part = rng.dirichlet(np.full(n_groups, _log_uniform(rng, 0.1, 3.0)), n_rows)
        if rng.random() < 0.5:  # few distinct rows, as of a table of names or places
            part = part[rng.integers(0, min(n_rows, int(_log_uniform(rng, 3, 100))), n_rows)]
        return (
            r2b.Membership(part),
            [{str(j): part[:, j] for j in range(n_groups)}],
            part.argmax(axis=1),
        )
    if kind == "column":
        codes = _codes(rng, n_rows, n_groups)
        return codes, [_indicators(codes, codes.astype(str))], codes
    first = _codes(rng, n_rows, max(2, round(float(np.sqrt(n_groups)))))
    second = _codes(rng, n_rows, max(2, round(n_groups / int(first.max() + 1))))
    crossed = first * (second.max() + 1) + second
    names = [
        np.array([f"a={value}" for value in first]),
        np.array([f"b={value}" for value in second]),
    ]
    both = np.array([f"{one}, {other}" for one, other in zip(*names, strict=True)])
    members = (
        [_indicators(first, names[0]), _indicators(second, names[1])]
        if families != "crossed"
        else []
    )
    if families != "marginal":
        members.append(_indicators(crossed, both))
    return {"a": first, "b": second}, members, crossed


def _codes(rng: np.random.Generator, n_rows: int, n_groups: int) -> NDArray[np.int64]:
    """Return groups of unequal sizes; at least two occur."""
    codes = rng.choice(
        n_groups, n_rows, p=rng.dirichlet(np.full(n_groups, _log_uniform(rng, 0.3, 10.0)))
    )
    codes[:2] = (0, 1)
    return np.asarray(codes, dtype=np.int64)


def _indicators(codes: NDArray[np.int64], names: NDArray[Any]) -> dict[str, Floats]:
    _, first = np.unique(codes, return_index=True)
    return {str(names[row]): (codes == codes[row]).astype(np.float64) for row in first}


def _labels(
    rng: np.random.Generator, form: str, tilt: NDArray[np.int64], n_classes: int
) -> tuple[Any, Floats]:
    """Return the labels as they are passed and as probabilities; two classes or more occur."""
    n_rows = len(tilt)
    logits = (
        _log_uniform(rng, 0.1, 2.0) * rng.standard_normal((int(tilt.max()) + 1, n_classes))[tilt]
    )
    logits -= rng.choice((0.0, 1.0)) * np.log(np.arange(1, n_classes + 1))
    if form in ("classes", "one-hot"):
        codes = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        codes[:2] = (0, 1)
        if form == "classes":  # classes that no row has are not there
            values, codes = np.unique(codes, return_inverse=True)
            return values[codes], np.eye(len(values))[codes]
        matrix = np.eye(n_classes)[codes]
        return matrix, matrix
    probabilities = _softmax(
        logits + _log_uniform(rng, 0.1, 10.0) * rng.standard_normal(logits.shape)
    )
    if form == "grid":
        steps = int(rng.choice((1, 2, 4, 8, 16)))
        # some rows are sure of a class, as labels of one annotator are
        sure = rng.random(n_rows) < rng.random()
        counts = np.array([rng.multinomial(steps, row) for row in probabilities])
        counts[sure] = steps * np.eye(n_classes, dtype=np.int64)[probabilities[sure].argmax(axis=1)]
        probabilities = counts / steps
        probabilities[:2] = np.eye(n_classes)[:2]
    return probabilities, probabilities


def _softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
