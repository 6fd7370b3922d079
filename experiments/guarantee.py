"""Proposition 2, evaluated: the bound on the disparity of a classifier, term by term, beside the disparity that its predictions show.

The learners are those of the tables, trained on the labels of Algorithm 1 after 100 rounds. Of the
bound's terms only the Rademacher complexity is an estimate: the learner is trained on random signs,
on rows of the smallest group, and its correlation with them is a lower bound on the supremum. The
bound that is shown is to that extent too small, never too large.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from experiments import adult, synthetic
from experiments.experiment import Configuration, Experiment, Row
from experiments.guarantee_page import section
from experiments.labelling import drawn_classes, labels_of
from experiments.learners import TREES, class_forest, nearest, per_class_forest, vote
from experiments.theory_figures import guarantee
from r2b.metrics import demographic_parity_difference
from r2b.metrics.theory import generalization_bound, rademacher_complexity

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

SHAPES: Final = ((4, 10, 1_000), (16, 10, 1_000), (16, 100, 1_000))
DRAWS: Final = 4
QUICK_TREES: Final = 10


@lru_cache(maxsize=1)
def _table(
    data_name: str,
    classes: int | None,
    features: int | None,
    per_class: int | None,
    rows: int | None,
    seed: int,
) -> Any:
    """Return features, classes and groups of training and test rows, and the number of classes."""
    if classes is not None and features is not None and per_class is not None:
        sample = synthetic.sample_of(classes, features, per_class, synthetic.TEST_ROWS, seed)
        return sample.X, sample.y, sample.groups, sample.X_test, sample.groups_test, classes
    split = adult.split_of(
        {"order": "education-num", "rows": rows, "p": 0.5 if "injected" in data_name else 0.0}, seed
    )
    X, X_test = adult.scaled_features("mixed", rows, seed, None)
    return X, split.y, split.sex, X_test, split.sex_test, adult.N_CLASSES


def _predict(
    learner: str,
    X: Floats,
    asked: Floats,
    labels: Codes,
    soft: Floats | None,
    n_classes: int,
    trees: int,
) -> Floats:
    """Train on labels (a forest of Adult: on probabilities) and give the scores of the rows that are asked for."""
    if learner == "knn":
        return vote(nearest(X, asked), labels, n_classes)
    if soft is not None:
        return per_class_forest(X, asked, soft, None, 4, trees)
    return class_forest(X, asked, labels, n_classes, None, 4, trees)


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Train one learner on fair labels, evaluate every term of the bound on the training rows, and the disparity on the test rows."""
    shape = (configuration[name] for name in ("data", "classes", "features", "per_class", "rows"))
    X, y, groups, X_test, groups_test, n_classes = _table(*shape, seed)
    learner, trees = configuration["learner"], configuration["trees"] or 0
    on_adult = configuration["classes"] is None
    soft = labels_of("R2B", y, groups)
    cells = None if on_adult else groups * n_classes + y
    drawn = drawn_classes(soft, np.random.default_rng([seed, 3]), cells)
    per_class = learner == "rf" and on_adult
    targets = soft if per_class else np.eye(n_classes)[drawn]
    given = targets if per_class else None
    asked = np.concatenate([X, X_test])
    scores = _predict(learner, X, asked, drawn, given, n_classes, trees)
    smallest = X[groups == np.argmin(np.bincount(groups))]

    def fitted(rows: Any, codes: Codes) -> Floats:
        if not per_class:
            return _predict(learner, rows, rows, codes, None, n_classes, trees)
        # The estimate looks at class 0 alone, and so does a forest per class.
        first = (codes == 0).astype(np.float64)
        scores = _predict(
            learner, rows, rows, codes, np.column_stack([first, 1.0 - first]), 2, trees
        )
        return np.column_stack([scores[:, :1], np.zeros((len(rows), n_classes - 1))])

    complexity = rademacher_complexity(
        fitted, smallest, n_classes, n_draws=DRAWS, random_state=seed
    )
    bound = generalization_bound(
        targets, scores[: len(X)], sensitive_features=groups, complexity=complexity.mean
    )
    return {
        "label_parity": bound.disparity,
        "fit_gap": bound.fit_gap,
        "complexity": complexity.mean,
        "smallest_group": int(bound.n_smallest),
        "confidence": bound.confidence,
        "printed": bound.printed,
        "proven": bound.proven,
        "direct": bound.direct,
        "trained_parity": bound.predicted_disparity,
        "parity": demographic_parity_difference(scores[len(X) :], sensitive_features=groups_test),
    }


def configurations(quick: bool) -> list[Configuration]:
    """Both Adults and three samples of the synthetic data, both learners."""
    trees, rows = (QUICK_TREES, adult.QUICK_ROWS) if quick else (TREES, None)
    named: list[tuple[str, int | None, int | None, int | None]] = [
        ("Adult", None, None, None),
        ("Adult, injected", None, None, None),
    ]
    named += [("synthetic", *shape) for shape in (SHAPES[:1] if quick else SHAPES)]
    return [
        {
            "data": name,
            "classes": classes,
            "features": features,
            "per_class": per_class,
            "rows": rows if classes is None else None,
            "learner": learner,
            "trees": trees if learner == "rf" else None,
        }
        for name, classes, features, per_class in named
        for learner in ("knn", "rf")
    ]


EXPERIMENT: Final = Experiment(
    name="guarantee",
    title="Proposition 2",
    configurations=configurations,
    run=run,
    section=section,
    figures=guarantee,
    seeds=(0, 1, 2),
)
