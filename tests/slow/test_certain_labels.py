"""A matrix of zeros and ones is classes to the solver, and probabilities to whoever brought it."""

from __future__ import annotations

import numpy as np
import pytest

import r2b
from r2b._data import read
from r2b._data.merge import merge


def heavy(seed, classes=20, groups=6, n=400):
    """Classes of groups with tastes of their own, weights over six decades."""
    rng = np.random.default_rng(seed)
    groups_ = rng.integers(0, groups, n)
    taste = rng.dirichlet(np.full(classes, 0.5), groups)
    y = np.array([rng.choice(classes, p=taste[group]) for group in groups_])
    y[:classes] = np.arange(classes)
    return y, groups_, 10.0 ** rng.uniform(-3, 3, n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, bool])
def test_one_hot_rows_merge_like_the_classes_they_are(dtype):
    y, groups, weight = heavy(0)
    certain = merge(
        read(np.eye(20)[y].astype(dtype), sensitive_features=groups, sample_weight=weight)
    )
    named = merge(read(y, sensitive_features=groups, sample_weight=weight))
    np.testing.assert_array_equal(certain.classes, named.classes)
    np.testing.assert_array_equal(certain.weight, named.weight)
    np.testing.assert_array_equal(certain.cells, named.cells)


def test_one_row_in_doubt_makes_them_probabilities():
    y, groups, _ = heavy(0)
    matrix = np.eye(20)[y]
    matrix[-1] = 0.05
    assert merge(read(matrix, sensitive_features=groups)).classes is None


@pytest.mark.parametrize("lam", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("families", ["crossed", "marginal"])
def test_one_hot_rows_get_the_labels_of_classes(lam, families):
    y, groups, weight = heavy(1)
    asked = {
        "sensitive_features": {"a": groups, "b": groups % 2},
        "sample_weight": weight,
        "lam": lam,
        "families": families,
    }
    certain, named = (
        r2b.debias(np.eye(20)[y], epsilon=0.01, **asked),
        r2b.debias(y, epsilon=0.01, **asked),
    )
    assert certain.status.ok and certain.schema.is_soft
    np.testing.assert_array_equal(certain.soft_labels, named.soft_labels)
    assert certain.certificate.objective == named.certificate.objective


def test_a_column_that_no_row_has_stays_a_class():
    y, groups, _ = heavy(2)
    matrix = np.eye(22)[y]
    fair = r2b.debias(matrix, sensitive_features=groups, epsilon=0.01)
    assert fair.status.ok and fair.soft_labels.shape == matrix.shape
