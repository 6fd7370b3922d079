"""Training on the rows of a fit: once on all of them, and once per fold for scores that no row was trained on for itself."""

from __future__ import annotations

from typing import Any

from r2b._data.arrays import Floats, Whole
from r2b._labels.labels import Form
from r2b.sklearn.crossfit import out_of_fold, rows_at
from r2b.sklearn.forms import TrainingRows, fresh_learner, train
from r2b.sklearn.learners import class_scores
from r2b.sklearn.predictor import FitRows


def trained_on(learner: Any, rows: FitRows, training: TrainingRows, form: Form) -> Any:
    """Fit a clone of the learner on all rows."""
    return train(fresh_learner(learner, form), rows.X, training, form, rows.seed, rows.fit_params)


def scored(learner: Any, rows: FitRows, training: TrainingRows, form: Form, n_jobs: int | None) -> Floats:
    """Give the probabilities of every row by a clone of the learner that was not trained on its fold."""

    def predict(left: Whole, held: Whole) -> Floats:
        model = train(fresh_learner(learner, form), rows.X, training.among(left), form, rows.seed, rows.fit_params)
        return class_scores(model, rows_at(rows.X, held), rows.classes, form)

    return out_of_fold(predict, rows.folds, len(rows.classes), n_jobs)
