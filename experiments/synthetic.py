"""The synthetic data of the paper: a mixture of L Gaussians with a biased attribute of five groups.

Class means are drawn from N(0, I / d), rows from N(mean, I / d). With chance 1/2 the attribute says
whether the class is 0, otherwise it is one of five groups at random. One departure, and two things
the paper does not say:

- the paper tests on 25 % of the data. Here the test set has 32,000 rows whatever the size of the training set, evenly over classes: with
  1,000 to 4,000 rows per class a quarter would be too few to tell disparity from chance;
- the spread of a class. With I / d classes overlap in 10 features and hardly in 100, which is what the paper sees; with I they would
  overlap most in 100;
- whether learners see the attribute. Both are run: hidden, as on Adult, and among the features (not for the DP remover, which removes it,
  nor for labels by visible groups, which are then those of the exact optimum).

Both learners take classes, drawn from each row's distribution where a method gives one; draws are
spread evenly over rows of the same group and class, since groups are small.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Configuration, Experiment, Row
from experiments.labelling import (
    METHODS,
    VISIBLE,
    drawn_classes,
    labels_of,
    repaired,
    visible_labels,
    weights_of,
)
from experiments.learners import TREES, class_forest, measures_of, nearest, vote
from experiments.synthetic_page import figures, section
from r2b.metrics import demographic_parity_difference

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

CLASSES: Final = (4, 16, 64)
FEATURES: Final = (10, 100)
PER_CLASS: Final = (1_000, 2_000, 4_000)
N_GROUPS: Final = 5
TEST_ROWS: Final = 32_000
ONLY_HIDDEN: Final = ("DPR", VISIBLE)
"""Methods that are the same for learners that see the attribute: DPR takes it away; a group that is a feature is visible as it is."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Features, classes and groups of training and test rows."""

    X: Floats
    y: Codes
    groups: Codes
    X_test: Floats
    y_test: Codes
    groups_test: Codes


def biased_groups(y: Codes, rng: np.random.Generator) -> Codes:
    """Draw the attribute: with chance 1/2 whether the class is 0, otherwise 0 to 4 at random."""
    said = rng.random(len(y)) < 0.5
    groups: Codes = np.where(said, (y == 0).astype(np.int64), rng.integers(N_GROUPS, size=len(y)))
    return groups


@lru_cache(maxsize=1)
def sample_of(n_classes: int, n_features: int, per_class: int, test_rows: int, seed: int) -> Sample:
    """Draw training rows, ``per_class`` of each class, and test rows from the same mixture."""
    rng = np.random.default_rng([seed, n_classes, n_features, per_class])
    means = rng.normal(0.0, 1.0 / np.sqrt(n_features), (n_classes, n_features))
    parts: list[Any] = []
    for size in (per_class, test_rows // n_classes):
        y = np.repeat(np.arange(n_classes), size)
        X = means[y] + rng.normal(0.0, 1.0 / np.sqrt(n_features), (len(y), n_features))
        # Shuffled: row numbers break ties between neighbours, and must say nothing about the class.
        order = rng.permutation(len(y))
        parts += [X[order], y[order], biased_groups(y, rng)[order]]
    return Sample(*parts)


def _features(
    n_classes: int, n_features: int, per_class: int, test_rows: int, seed: int, seen: str
) -> tuple[Floats, Floats]:
    """Return training and test features: as they are ("hidden"), with the attribute as one more ("feature"), or repaired."""
    sample = sample_of(n_classes, n_features, per_class, test_rows, seed)
    parts = (sample.X, sample.groups), (sample.X_test, sample.groups_test)
    if seen == "hidden":
        return sample.X, sample.X_test
    if seen == "feature":
        train, test = (np.column_stack([X, groups]) for X, groups in parts)
        return train, test
    return repaired(*parts[0], *parts[1], seed)


@lru_cache(maxsize=1)
def _neighbours(*which: Any) -> Codes:
    return nearest(*_features(*which))


@lru_cache(maxsize=1)
def _visible(*shape: int) -> Floats:
    """Return labels that are fair to the groups as the features show them to a quadratic discriminant analysis."""
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    sample = sample_of(*shape)
    # Groups of fewer rows than features, as in the small setting, have no covariance of their own
    # to speak of.
    few = np.bincount(sample.groups).min() <= 2 * sample.X.shape[1]
    learner = QuadraticDiscriminantAnalysis(
        **({"solver": "eigen", "shrinkage": "auto"} if few else {})
    )
    return visible_labels(sample.X, sample.y, sample.groups, learner, shape[-1])


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Train one learner on what one method makes of one sample, and measure it on the test rows."""
    method, n_classes = configuration["method"], configuration["classes"]
    shape = (
        n_classes,
        configuration["features"],
        configuration["per_class"],
        configuration["test_rows"],
        seed,
    )
    sample, which = (
        sample_of(*shape),
        (*shape, "repaired" if method == "DPR" else configuration["attribute"]),
    )
    weight, rng = weights_of(method, sample.y, sample.groups), np.random.default_rng([seed, 3])
    if method == VISIBLE:
        soft = _visible(*shape)
        labels = drawn_classes(soft, rng)
    else:
        soft = labels_of(method, sample.y, sample.groups)
        labels = drawn_classes(soft, rng, cells=sample.groups * n_classes + sample.y)
    known: dict[str, Any] = {"sensitive_features": sample.groups}
    if configuration["learner"] == "knn":
        scores = vote(_neighbours(*which), labels, n_classes, weight)
    else:
        scores = class_forest(
            *_features(*which), labels, n_classes, weight, seed, configuration["trees"]
        )
    return {
        "data_parity": demographic_parity_difference(sample.y, **known),
        "label_parity": demographic_parity_difference(soft, **known),
        "drawn_parity": demographic_parity_difference(labels, **known),
        **measures_of(scores, sample.y_test, sample.groups_test),
    }


def configurations(quick: bool) -> list[Configuration]:
    """All 36 settings of the paper from the smallest up, all methods; the small setting has the smallest samples and few trees."""
    sizes, classes = ((250,), (4, 16)) if quick else (PER_CLASS, CLASSES)
    trees, test_rows = (10, 4_000) if quick else (TREES, TEST_ROWS)
    return [
        {
            "classes": n_classes,
            "features": n_features,
            "per_class": per_class,
            "learner": learner,
            "method": method,
            "attribute": attribute,
            "test_rows": test_rows,
            "trees": trees if learner == "rf" else None,
        }
        for n_classes in classes
        for per_class in sizes
        for n_features in FEATURES
        for learner in ("knn", "rf")
        for attribute in ("hidden", "feature")
        for method in (*METHODS, VISIBLE)
        if method not in ONLY_HIDDEN or attribute == "hidden"
    ]


def together(configuration: Configuration, seed: int) -> Hashable:
    """Name the sample and what the learner sees of it."""
    return (
        *(
            configuration[name]
            for name in ("classes", "features", "per_class", "learner", "attribute")
        ),
        seed,
    )


EXPERIMENT: Final = Experiment(
    name="synthetic",
    title="Synthetic data",
    configurations=configurations,
    run=run,
    section=section,
    figures=figures,
    together=together,
)
