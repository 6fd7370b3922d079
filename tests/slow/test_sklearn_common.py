"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from r2b.sklearn import LabelDebiaser, ParityClassifier, ParityPostprocessor

# what is trained on, without what is predicted out of fold
GIVEN = {"groups": "given", "decisions": "likeliest"}


def attribute_of(X):
    """An attribute that has nothing to do with the classes but is a function of the row, so that
    moving or repeating rows moves it too.
    """
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    try:
        digits = np.nan_to_num(np.abs(dense.astype(float)), posinf=0).round(4).sum(axis=1)
    except (TypeError, ValueError, np.exceptions.AxisError, np.exceptions.ComplexWarning):
        # the check is about what X is refused for
        return np.arange(dense.shape[0] if dense.ndim else 1) % 2
    for scale in (10, 7.3):  # the second for whole numbers
        found = (np.floor(digits * scale) % 2).astype(int)
        if 1 < found.sum() < len(found) - 1:
            return found
    return np.arange(len(digits)) % 2


class Supplied(ParityClassifier):
    """The classifier with an attribute supplied: the checks call ``fit(X, y)``, which a user must
    not be able to do by mistake.
    """

    def fit(self, X, y, *, sensitive_features=None, sample_weight=None):
        return super().fit(X, y, sensitive_features=attribute_of(X), sample_weight=sample_weight)


class SuppliedAfter(ParityPostprocessor):
    """The same for models that are made fair after they were trained."""

    def fit(self, X, y, *, sensitive_features=None, sample_weight=None):
        return super().fit(X, y, sensitive_features=attribute_of(X), sample_weight=sample_weight)


class SuppliedInBatches(Supplied):
    def partial_fit(
        self, X, y, *, sensitive_features=None, sample_weight=None, classes=None, labels=None
    ):
        groups = np.zeros(len(X), int)
        return super().partial_fit(
            X,
            y,
            sensitive_features=groups,
            sample_weight=sample_weight,
            classes=classes,
            labels=labels,
        )


LEARNERS = [
    Supplied(LogisticRegression(max_iter=1000), **GIVEN),
    Supplied(KNeighborsClassifier(), **GIVEN),
    Supplied(Ridge(), **GIVEN),
    Supplied(LinearSVC(), **GIVEN),
    SuppliedInBatches(GaussianNB(), **GIVEN),
    Supplied(LogisticRegression(max_iter=1000), cv=2, frontier=0),
    SuppliedAfter(LogisticRegression(max_iter=1000), cv=2, frontier=0),
]
WEIGHTED = [
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
]


def expected_failures(estimator):
    """What is refused where the checks want it taken, what the learner alone fails too, and what
    fair decisions are not meant to do.
    """
    if getattr(estimator, "decisions", "fair") == "fair":
        folds = (
            "the check passes folds as a list, and cv is a number of folds, which are shuffled and"
            " alike in groups and classes"
        )
        decided = (
            "decisions are in parity by prices on the scores, and are not the most probable class"
            " of predict_proba, which would undo it"
        )
        found = dict.fromkeys(WEIGHTED[-2:], folds) | {"check_classifiers_train": decided}
        ranks = "decision_function is the learner's own, for ranking, and decisions are in parity"
        apart = (
            "decision_function is that of the learner trained on all rows, and probabilities are"
            " the mean of the folds, in parity"
        )
        own = {"check_classifiers_classes": ranks, "check_decision_proba_consistency": apart}
        return found | (own if hasattr(estimator, "decision_function") else {})
    if isinstance(estimator.estimator, LinearSVC):
        return dict.fromkeys(
            WEIGHTED[-2:],
            "liblinear does not count a weight as a repetition; scikit-learn expects this failure"
            " as well",
        )
    if isinstance(estimator.estimator, KNeighborsClassifier):
        return dict.fromkeys(
            WEIGHTED,
            "KNeighborsClassifier takes no weights; they are refused instead of counting for the"
            " labels alone",
        )
    return {}


# tables of 10 to 30 rows, with groups that no feature tells of
@pytest.mark.filterwarnings("ignore::r2b.errors.NotFairWarning")
@parametrize_with_checks(LEARNERS, expected_failed_checks=expected_failures)
def test_the_classifier_passes_the_common_checks(estimator, check):
    check(estimator)


# The suite as a whole is for estimators of features; these are its checks that fit nothing.
ABOUT_PARAMETERS = [
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
]


@pytest.mark.parametrize("check", ABOUT_PARAMETERS)
def test_the_transformer_passes_the_checks_of_parameters(check):
    getattr(estimator_checks, check)("LabelDebiaser", LabelDebiaser())
