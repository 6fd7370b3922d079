"""Training on one batch of rows after the other, with prices that stay as they are."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from r2b._data.columns import refuse_other_index, row_labels
from r2b._data.compute import seed_of
from r2b._labels.labels import Form
from r2b.errors import ParameterError
from r2b.sklearn.forms import fresh_learner, train_further, training_rows
from r2b.sklearn.labels import (
    check_same_rows,
    checked_labels,
    n_rows_of,
    note_features,
    refuse_unpriced,
    require_sensitive,
    solve,
    weight_column,
)
from r2b.sklearn.learners import FormChoice, choose
from r2b.sklearn.predictor import FairPredictor


class BatchTraining(FairPredictor):
    """``partial_fit`` of a classifier that trains on fair labels."""

    estimator_: Any
    form_: Form
    form_reason_: str
    n_batches_: int

    @available_if(lambda self: hasattr(self.estimator, "partial_fit"))  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        classes: Any = None,
        labels: Any = None,
    ) -> Self:
        """Train the learner on one more batch, with prices that stay as they are.

        The prices come from ``labels``, from an earlier :meth:`fit`, or else from the first batch
        alone, which then has to be large and like the others: parity of later batches holds as far
        as they are distributed like the rows that the prices were found on. A class or group that
        those rows did not have is refused. One pass over all labels is cheap and needs no X:
        ``labels=LabelDebiaser(epsilon).fit(all_y, sensitive_features=all_s)``.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight
            As for :meth:`fit`, of this batch.
        classes : array-like of shape (L,), optional
            All classes, in any order. Only compared with those that have prices, which may not be
            fewer.
        labels : LabelDebiaser or FairLabels, optional
            Where the prices come from; on the first call only.

        Returns
        -------
        ParityClassifier
            Itself.
        """
        if self.groups != "given" or self.decisions != "likeliest":
            problem = "partial_fit sees one batch at a time, and visible groups and fair decisions are predicted out of fold on all rows."
            remedy = "Pass groups='given' and decisions='likeliest', or fit on all rows and use ParityPostprocessor(prefit=True)."
            raise ParameterError(
                problem, remedy=remedy, groups=self.groups, decisions=self.decisions
            )
        first = not hasattr(self, "labels_")
        require_sensitive(sensitive_features, type(self).__name__, "partial_fit")
        y = checked_labels(y)
        groups = {"sensitive_features": sensitive_features, "control_features": control_features}
        handed = {"y": y, **groups, "sample_weight": sample_weight}
        check_same_rows(
            X,
            n_rows_of(y),
            refuse_other_index(*((name, row_labels(rows)) for name, rows in handed.items())),
        )
        if not first and labels is not None:
            problem = "The argument labels came with a later batch, but the prices were fixed by the first."
            remedy = "Pass labels with the first batch only, or start again from a clone."
            raise ParameterError(problem, remedy=remedy, n_batches=self.n_batches_)
        note_features(self, X, first=first)
        if first:
            solved = (
                solve(self, y, sample_weight=sample_weight, **groups)
                if labels is None
                else getattr(labels, "labels_", labels)
            )
            choice = choose(self.form, self.estimator, n_rows_of(y), "partial_fit")
            learner, batch = fresh_learner(self.estimator, choice.form), 0
        else:
            solved, choice = self.labels_, FormChoice(self.form_, self.form_reason_)
            learner, batch = self.estimator_, self.n_batches_
        refuse_unpriced(solved, classes)
        seed = int(np.random.SeedSequence([seed_of(self.random_state), batch]).generate_state(1)[0])
        weight = None if sample_weight is None else weight_column(sample_weight)
        given = solved.transform(
            y,
            sample_weight=sample_weight,
            normalize=self.normalize,
            form=choice.form,
            random_state=seed,
            **groups,
        )
        rows = training_rows(solved, choice.form, given, n_rows_of(y), weight)
        # A first batch that fails leaves nothing behind, so that the next one is the first again.
        self.estimator_ = train_further(learner, X, rows, solved.classes)
        self.form_, self.form_reason_, self.n_batches_ = choice.form, choice.reason, batch + 1
        self._publish(solved)
        if hasattr(self, "parity_"):
            delattr(self, "parity_")  # it is of the model before
        return self
