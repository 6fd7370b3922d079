"""Dermatology: predict conditions, fair to age and sex crossed, by fair training labels or by fair scores fitted on a tuning split.

The paper's cases are private. The code takes any table (:func:`debias_scores` and
:func:`train_and_measure` need arrays only) and is run on two public ones.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.coco import target_parity, targets_of
from experiments.coco_data import folder_of, scaled
from experiments.coco_softmax import linear_softmax
from experiments.dermatology_data import SHARES, Floats, Rows, cases_of, split_rows
from experiments.dermatology_page import METHODS_BY_USE, figures, section
from experiments.experiment import Configuration, Experiment, Row
from experiments.labelling import LABEL_METHODS, METHODS, repaired
from experiments.learners import measures_of
from experiments.read_dermatology import Cases
from r2b.errors import ParameterError
from r2b.methods import DPRemover
from r2b.metrics import demographic_parity_difference

SCHEDULE: Final = ((1e-3, 30), (1e-4, 15))
QUICK_SCHEDULE: Final = ((1e-3, 5), (1e-4, 2))


def debias_scores(
    method: str, tuning: Floats, tuning_groups: Any, scores: Floats, groups: Any, seed: int = 0
) -> Floats:
    """Fit a method on the scores of a tuning split and apply it to other scores, whose groups are known.

    Parameters
    ----------
    method : str
        "BL", "DPR" (every column of scores moved, rows divided by their sums), or a method on
        labels; "Exact" is :class:`r2b.sklearn.LabelDebiaser`.
    tuning, scores : ndarray of shape (n, n_classes)
        Distributions.
    tuning_groups, groups : array-like
    seed : int
        For the random ranks of DPR.

    Returns
    -------
    ndarray of the shape of ``scores``

    Examples
    --------
    >>> tuning = np.array([[0.9, 0.1], [0.5, 0.5], [0.4, 0.6], [0.2, 0.8]])
    >>> debias_scores("Exact", tuning, ["f", "f", "m", "m"], tuning[:1], ["f"]).round(3)
    array([[0.7, 0.3]])
    """
    if method == "BL":
        return scores
    if method == "DPR":
        remover = DPRemover(random_state=np.random.default_rng([seed, 23])).fit(
            tuning, sensitive_features=tuning_groups
        )
        moved = np.clip(remover.transform(scores, sensitive_features=groups), 1e-12, None)
        return np.asarray(moved / moved.sum(axis=1, keepdims=True))
    if method == "Exact":
        from r2b.sklearn import LabelDebiaser

        fair = (
            LabelDebiaser()
            .fit(tuning, sensitive_features=tuning_groups)
            .transform(scores, sensitive_features=groups)
        )
        return np.asarray(fair)
    if method not in LABEL_METHODS:
        remedy = f"Choose one of {', '.join(METHODS_BY_USE['scores'])}."
        raise ParameterError(f"{method!r} does not change scores.", remedy=remedy, method=method)
    return (
        LABEL_METHODS[method]()
        .fit(tuning, sensitive_features=tuning_groups)
        .transform(scores, sensitive_features=groups)
    )


def train_and_measure(
    cases: Cases,
    rows: Rows,
    method: str,
    seed: int,
    schedule: tuple[tuple[float, int], ...] = SCHEDULE,
) -> Row:
    """Train on what a method makes of the training labels (or, DPR, of the features), and measure on the test rows."""
    features, groups = scaled(cases.features, rows.train), cases.groups
    train, test = features[rows.train], features[rows.test]
    if method == "DPR":
        parts = train, groups[rows.train], test, groups[rows.test]
        train, test = repaired(*parts, np.random.default_rng([seed, 23]))
    targets = targets_of(method, cases.labels[rows.train], groups[rows.train])
    scores = linear_softmax(
        train, targets, test, rng=np.random.default_rng([seed, 22]), schedule=schedule
    )
    fitted = target_parity(targets, groups[rows.train])
    return {
        "fitted_parity": fitted,
        **measures_of(scores, cases.labels[rows.test], groups[rows.test]),
    }


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Do one method in one use on one split."""
    name, method = configuration["table"], configuration["method"]
    folder = folder_of(data, name).resolve()
    cases, rows = cases_of(name, folder), _rows(name, folder, seed)
    known: Row = {
        "n_train": len(rows.train),
        "n_tune": len(rows.tune),
        "n_test": len(rows.test),
        "n_left_out": cases.left_out,
        "n_classes": len(cases.classes),
        "smallest_group": int(np.unique(cases.groups[rows.test], return_counts=True)[1].min()),
        "data_parity": demographic_parity_difference(cases.labels, sensitive_features=cases.groups),
    }
    schedule = _schedule(configuration["epochs"])
    if configuration["use"] == "training":
        return known | train_and_measure(cases, rows, method, seed, schedule)
    tuning, scores = _scores(name, folder, seed, configuration["epochs"])
    groups, groups_test = cases.groups[rows.tune], cases.groups[rows.test]
    fair = debias_scores(method, tuning, groups, scores, groups_test, seed)
    fitted = demographic_parity_difference(
        debias_scores(method, tuning, groups, tuning, groups, seed), sensitive_features=groups
    )
    return known | {
        "fitted_parity": fitted,
        **measures_of(fair, cases.labels[rows.test], groups_test),
    }


def _schedule(epochs: int) -> tuple[tuple[float, int], ...]:
    return QUICK_SCHEDULE if epochs == sum(each for _, each in QUICK_SCHEDULE) else SCHEDULE


@lru_cache(maxsize=1)
def _rows(name: str, folder: Path, seed: int) -> Rows:
    return split_rows(cases_of(name, folder), SHARES[name], seed)


@lru_cache(maxsize=1)
def _scores(name: str, folder: Path, seed: int, epochs: int) -> tuple[Floats, Floats]:
    """Return the scores of the model that was trained on labels as they are, for the tuning and the test rows."""
    cases, rows = cases_of(name, folder), _rows(name, folder, seed)
    features = scaled(cases.features, rows.train)
    wanted = np.concatenate([rows.tune, rows.test])
    train, labels, rng = (
        features[rows.train],
        cases.labels[rows.train],
        np.random.default_rng([seed, 22]),
    )
    scores = linear_softmax(train, labels, features[wanted], rng=rng, schedule=_schedule(epochs))
    return scores[: len(rows.tune)], scores[len(rows.tune) :]


def configurations(quick: bool) -> list[Configuration]:
    """Both tables, both uses, all methods that have a meaning there."""
    epochs = sum(each for _, each in (QUICK_SCHEDULE if quick else SCHEDULE))
    return [
        {"table": table, "use": use, "method": method, "epochs": epochs}
        for table in SHARES
        for use, methods in METHODS_BY_USE.items()
        for method in METHODS
        if method in methods
    ]


def together(configuration: Configuration, seed: int) -> Hashable:
    """Name the table and the split."""
    return configuration["table"], seed


EXPERIMENT: Final = Experiment(
    name="dermatology",
    title="Dermatology",
    configurations=configurations,
    run=run,
    section=section,
    figures=figures,
    together=together,
    needs_data=True,
)
