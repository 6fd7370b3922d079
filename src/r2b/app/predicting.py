"""What a model does: how far its predictions are from each criterion of fairness, beside what chance alone would show."""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b._data.arrays import plain_value
from r2b._files.arrow import pyarrow_compute
from r2b.app.choice import TaskChoice
from r2b.engines.files import FileSource
from r2b.metrics.criteria import CRITERIA, disparity, disparity_by_chance
from r2b.metrics.means import group_means


def measured(table: FileSource, choice: TaskChoice) -> dict[str, Any]:
    """Measure predictions.

    Returns
    -------
    dict
        ``criteria``: name, meaning, what was found and what chance explains; ``groups``: rows,
        share that is right, share of every prediction; ``classes``; ``accuracy``.
    """
    columns = table.columns([choice.label, choice.prediction, *choice.sensitive])
    true, predicted = columns[choice.label], columns[choice.prediction]
    rows: dict[str, Any] = {
        "sensitive_features": {name: columns[name] for name in choice.sensitive}
    }
    if choice.weight is not None:
        rows["sample_weight"] = table.with_numbers([choice.weight]).columns([choice.weight])[
            choice.weight
        ]
    criteria = []
    for criterion in CRITERIA.values():
        found = disparity(criterion.name, true, predicted, **rows)
        chance = disparity_by_chance(criterion.name, true, predicted, **rows)
        criteria.append(
            {
                "criterion": criterion.name,
                "name": criterion.title,
                "meaning": criterion.meaning,
                "found": 100 * found,
                "chance": 100 * chance,
            }
        )
    right = pyarrow_compute().equal(true.cast("string"), predicted.cast("string"))
    given, correct = group_means(predicted, **rows), group_means(right, **rows)
    place = (
        [str(plain_value(each)) for each in correct.classes].index("True")
        if any(np.asarray(right))
        else None
    )
    groups: list[dict[str, Any]] = [
        {
            "name": str(plain_value(name)),
            "weight": float(weight),
            "right": 0.0 if place is None else 100 * float(correct.means[at, place]),
            "shares": [100 * float(share) for share in given.means[at]],
        }
        for at, (name, weight) in enumerate(zip(given.groups, given.weights, strict=True))
    ]
    whole = sum(each["weight"] for each in groups)
    return {
        "criteria": criteria,
        "groups": groups,
        "classes": [str(plain_value(each)) for each in given.classes],
        "accuracy": sum(each["weight"] * each["right"] for each in groups) / whole,
    }
