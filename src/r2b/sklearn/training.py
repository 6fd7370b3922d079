"""Training on the rows of a fit: once on all of them, and once per fold for scores that no row was trained on for itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from r2b._data.arrays import Floats, Whole
from r2b._labels.labels import Form
from r2b.sklearn.crossfit import columns_of, out_of_fold, rows_at
from r2b.sklearn.forms import TrainingRows, fresh_learner, train
from r2b.sklearn.learners import class_scores
from r2b.sklearn.predictor import FitRows
from r2b.sklearn.visible import train_groups


def trained_on(learner: Any, rows: FitRows, training: TrainingRows, form: Form) -> Any:
    """Fit a clone of the learner on all rows."""
    return train(fresh_learner(learner, form), rows.X, training, form, rows.seed, rows.fit_params)


def scored(learner: Any, rows: FitRows, training: Sequence[TrainingRows], form: Form, n_jobs: int | None) -> Floats:
    """Give the probabilities of every row by a clone of the learner that was trained without its fold, on training rows for that fold."""

    def predict(left: Whole, held: Whole) -> Floats:
        own = training[int(rows.folds.number[held[0]])].among(left)
        model = train(fresh_learner(learner, form), rows.X, own, form, rows.seed, rows.fit_params)
        return class_scores(model, rows_at(rows.X, held), rows.classes, form)

    return out_of_fold(predict, rows.folds, len(rows.classes), n_jobs)


def codes_apart(learner: Any, rows: FitRows, codes: Floats) -> Iterator[Floats]:
    """For each fold give the probabilities of codes that nothing of that fold has entered: neither model that predicts them knows it.

    Labels that are debiased by predictions of groups depend on the true groups of the rows around. A model that is trained on such labels
    knows something of the group of a row that it never saw, and looks fairer there than it is for new rows; the closer learners follow
    single rows, as trees and neighbours do, the more.

    Parameters
    ----------
    learner : classifier
        Predicts the groups.
    rows : FitRows
    codes : ndarray of shape (n, n_codes)
        Predicted out of fold: what the rows of the fold itself get, which nothing is trained on.
    """
    folds, groups = rows.folds, rows.groups
    found = [codes.copy() for _ in range(folds.n)]
    for first, second in combinations(range(folds.n), 2):
        left = np.flatnonzero((folds.number != first) & (folds.number != second))
        if len(left) == 0 or (groups.codes[left] == groups.codes[left[0]]).all():
            continue  # two folds, or a group that is in these two alone: predictions out of fold are all there is
        model = train_groups(learner, rows_at(rows.X, left), groups.codes[left], None if groups.weight is None else groups.weight[left])
        for apart, held in ((first, second), (second, first)):
            there = np.flatnonzero(folds.number == held)
            found[apart][there] = columns_of(model, rows_at(rows.X, there), groups.n_codes)
    yield from found
