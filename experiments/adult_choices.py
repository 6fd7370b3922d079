"""What was tried where the paper says too little: Adult under other ways to code features, to number classes and to hand over labels.

Its rows are the evidence for the choices of :mod:`experiments.adult`, and for the numbers that no
choice reaches.
"""

from __future__ import annotations

from typing import Final

from experiments.adult import ONE_HOT, QUICK_ROWS, QUICK_TREES, run, together
from experiments.adult_choices_page import section
from experiments.experiment import Configuration, Experiment
from experiments.labelling import LABEL_METHODS, VISIBLE
from experiments.learners import TREES

_AS_IT_IS: Final = {"features": "mixed", "order": "education-num", "repair": "columns"}


def configurations(quick: bool) -> list[Configuration]:
    """List other codes, numberings and repairs, and kNN on probabilities and with other ties."""
    n_rows, trees = (QUICK_ROWS, QUICK_TREES) if quick else (None, TREES)
    both: list[Configuration] = [
        {"method": "BL", **_AS_IT_IS, "features": features} for features in ONE_HOT
    ]
    both += [{"method": method, **_AS_IT_IS, "order": "frequency"} for method in ("BL", "Exact")]
    both += [
        {"method": "DPR", **_AS_IT_IS, "repair": repair}
        for repair in ("codes", "shares", "numbers", "texts")
    ]
    # on class labels R2B_0 is HTO
    kept = [method for method in (*LABEL_METHODS, VISIBLE) if method != "R2B0"]
    soft: list[Configuration] = [
        {"method": method, **_AS_IT_IS, "labels": "soft"} for method in kept
    ]
    lowest: list[Configuration] = [
        {"method": method, **_AS_IT_IS, "ties": "lowest"} for method in ("BL", *kept)
    ]
    lowest += [{**each, "ties": "lowest"} for each in soft]
    return [
        {
            "learner": learner,
            "p": p,
            "rows": n_rows,
            "trees": trees if learner == "rf" else None,
            **choice,
        }
        for learner in ("knn", "rf")
        for p in (0.0, 0.5)
        for choice in (both + soft + lowest if learner == "knn" else both)
    ]


EXPERIMENT: Final = Experiment(
    name="adult_choices",
    title="Adult under other choices",
    configurations=configurations,
    run=run,
    section=section,
    together=together,
    seeds=(0, 1, 2),
)
