"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from r2b.sklearn import LabelDebiaser, ParityClassifier

GIVEN = {"groups": "given", "decisions": "likeliest"}  # what is trained on, without what is predicted out of fold


def attribute_of(X):
    """An attribute that has nothing to do with the classes but is a function of the row, so that moving or repeating rows moves it too."""
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if dense.dtype.kind not in "fiu" or dense.ndim != 2:
        return np.zeros(len(dense), int)
    digits = np.nan_to_num(np.abs(dense), posinf=0).astype(float).round(4).sum(axis=1)
    return (np.floor(digits * 10) % 2).astype(int)


class Supplied(ParityClassifier):
    """The classifier with an attribute supplied: the checks call ``fit(X, y)``, which a user must not be able to do by mistake."""

    def fit(self, X, y, *, sensitive_features=None, sample_weight=None):
        return super().fit(X, y, sensitive_features=attribute_of(X), sample_weight=sample_weight)


class SuppliedInBatches(Supplied):
    def partial_fit(self, X, y, *, sensitive_features=None, sample_weight=None, classes=None, labels=None):
        groups = np.zeros(len(X), int)
        return super().partial_fit(X, y, sensitive_features=groups, sample_weight=sample_weight, classes=classes, labels=labels)


LEARNERS = [
    Supplied(LogisticRegression(max_iter=1000), **GIVEN),
    Supplied(KNeighborsClassifier(), **GIVEN),
    Supplied(Ridge(), **GIVEN),
    Supplied(LinearSVC(), **GIVEN),
    SuppliedInBatches(GaussianNB(), **GIVEN),
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
    """Two kinds: weights refused for a learner that takes none, where the checks want them taken; and what the learner alone fails too."""
    if isinstance(estimator.estimator, LinearSVC):
        return dict.fromkeys(WEIGHTED[-2:], "liblinear does not count a weight as a repetition; scikit-learn expects this failure as well")
    if isinstance(estimator.estimator, KNeighborsClassifier):
        return dict.fromkeys(WEIGHTED, "KNeighborsClassifier takes no weights; they are refused instead of counting for the labels alone")
    return {}


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


def test_without_scikit_learn_the_import_names_the_extra():
    lines = [
        "import sys, r2b",
        "sys.modules['sklearn'] = None",
        "try:",
        "    import r2b.sklearn",
        "except r2b.errors.MissingExtraError as e:",
    ]
    program = "\n".join([*lines, "    print(e)"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'r2b[sklearn]'" in done.stdout
