"""Reweighing: independence of the weighted labels by definition, and what no weight can reach said
aloud.
"""

import numpy as np
import pytest

from r2b.datasets import load_adult
from r2b.errors import RowsUnavailableError, UnseenError
from r2b.methods.reweighing import Reweighing
from r2b.metrics import demographic_parity_difference


@pytest.fixture(scope="module")
def adult():
    return load_adult()


def by_definition(y, groups, weight):
    """AIF360's formula, one (group, class) mask at a time."""
    out = weight.astype(float).copy()
    total = weight.sum()
    for s in np.unique(groups):
        for k in np.unique(y):
            cell = (groups == s) & (y == k)
            if weight[cell].sum() > 0:
                out[cell] *= (
                    weight[groups == s].sum() * weight[y == k].sum() / (total * weight[cell].sum())
                )
    return out


def random_table(seed, n_rows=500, n_classes=4, n_groups=3):
    rng = np.random.default_rng(seed)
    y, groups = rng.integers(0, n_classes, n_rows), rng.integers(0, n_groups, n_rows)
    return y, groups, rng.random(n_rows) + 0.1, rng.dirichlet(np.ones(n_classes), n_rows)


def test_adult_by_sex_is_independent(adult):
    y, sex = adult["education"], adult["sex"]
    model = Reweighing()
    weight = model.fit_transform(y, sensitive_features=sex)
    assert demographic_parity_difference(y, sensitive_features=sex) > 0.01
    assert demographic_parity_difference(y, sensitive_features=sex, sample_weight=weight) < 1e-12
    assert model.unreachable_ == () and model.parity_ < 1e-12 and model.factors_.shape == (2, 16)
    np.testing.assert_allclose(weight, by_definition(y, sex, np.ones(len(y))), rtol=1e-12)
    for column in (y, sex):
        for value in np.unique(column):
            assert weight[column == value].sum() == pytest.approx(
                (column == value).sum(), rel=1e-12
            )


def test_an_unreachable_class_differs_by_what_is_said():
    y, groups = np.array([0, 1, 2, 0, 1, 0]), np.array(["a", "a", "a", "b", "b", "b"])
    model = Reweighing().fit(y, sensitive_features=groups)
    (cell,) = model.unreachable_
    assert (cell.group, cell.label) == ("b", 2)
    weight = model.transform(y, sensitive_features=groups)
    first = groups == "a"
    assert cell.disparity == pytest.approx(weight[first & (y == 2)].sum() / weight[first].sum())
    assert np.isfinite(model.factors_).all() and model.factors_[1, 2] == 1
    assert model.transform([2], sensitive_features=["b"], sample_weight=[3.0]).tolist() == [3.0]


@pytest.mark.parametrize("seed", range(5))
def test_weights_multiply_and_are_repetitions(seed):
    y, groups, weight, _ = random_table(seed)
    found = Reweighing().fit_transform(y, sensitive_features=groups, sample_weight=weight)
    np.testing.assert_allclose(found, by_definition(y, groups, weight), rtol=1e-12)
    assert demographic_parity_difference(y, sensitive_features=groups, sample_weight=found) < 1e-12
    times = np.random.default_rng(seed).integers(1, 4, len(y))
    once = Reweighing().fit(y, sensitive_features=groups, sample_weight=times)
    often = Reweighing().fit(np.repeat(y, times), sensitive_features=np.repeat(groups, times))
    np.testing.assert_allclose(once.factors_, often.factors_, rtol=1e-12)
    np.testing.assert_allclose(
        once.transform(y, sensitive_features=groups, sample_weight=weight),
        weight * once.transform(y, sensitive_features=groups),
        rtol=1e-15,
    )


@pytest.mark.parametrize("seed", range(5))
def test_probabilities_are_weighed_pair_by_pair(seed):
    y, groups, weight, rows = random_table(seed)
    model = Reweighing()
    found = model.fit_transform(rows, sensitive_features=groups, sample_weight=weight)
    assert found.shape == rows.shape
    pairs = np.tile(np.arange(4), len(rows))
    assert (
        demographic_parity_difference(
            pairs, sensitive_features=np.repeat(groups, 4), sample_weight=found.ravel()
        )
        < 1e-12
    )
    np.testing.assert_allclose(found.sum(axis=0), weight @ rows, rtol=1e-12)
    np.testing.assert_allclose(
        np.bincount(groups, found.sum(axis=1)), np.bincount(groups, weight), rtol=1e-12
    )
    hard = Reweighing().fit_transform(y, sensitive_features=groups, sample_weight=weight)
    soft = Reweighing().fit_transform(np.eye(4)[y], sensitive_features=groups, sample_weight=weight)
    np.testing.assert_allclose(soft, np.eye(4)[y] * hard[:, None], rtol=1e-12)


def test_refit_leaves_nothing_and_strangers_are_refused():
    y, groups, weight, _ = random_table(1)
    model = Reweighing()
    with pytest.raises(RowsUnavailableError):
        model.transform(y, sensitive_features=groups)
    model.fit(["a", "b", "a"], sensitive_features=["f", "f", "m"])
    assert model.unreachable_
    model.fit(y, sensitive_features=groups, sample_weight=weight)
    fresh = Reweighing().fit(y, sensitive_features=groups, sample_weight=weight)
    assert model.unreachable_ == fresh.unreachable_ == ()
    assert np.array_equal(model.factors_, fresh.factors_) and model.parity_ == fresh.parity_
    for stranger in ({"y": [9], "sensitive_features": [0]}, {"y": [0], "sensitive_features": [9]}):
        with pytest.raises(UnseenError):
            model.transform(**stranger)
