"""What experiments train: trees equal to scikit-learn's, neighbours with ties by row, labels drawn as their distribution says."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import neighbours
from experiments.forest import DEPTH, Bins, _kernels, classification_forest, regression_forest
from experiments.labelling import (
    LABEL_METHODS,
    channel_of,
    drawn_labels,
    parity_of_channel,
    weights_of,
)
from experiments.learners import measures_of, vote
from experiments.neighbours import nearest
from r2b.metrics import demographic_parity

pytest.importorskip("numba")
pytest.importorskip("sklearn")


def table(n_rows: int, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    return X, X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * rng.normal(size=n_rows)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_regression_tree_equals_that_of_scikit_learn(weighted: bool) -> None:
    from sklearn.tree import DecisionTreeRegressor

    X, target = table(250, 6, seed=1)
    weight = np.random.default_rng(2).uniform(0.5, 2, 250) if weighted else np.ones(250)
    bins = Bins.of(X, X)
    feature, cut, value = _kernels().grow_regression(
        bins.train, bins.offsets, target, weight, np.arange(250), DEPTH
    )
    ours = np.zeros((250, 1))
    _kernels().add_predictions(bins.test, feature, cut, value, ours)
    theirs = (
        DecisionTreeRegressor(max_depth=DEPTH, random_state=0)
        .fit(X, target, sample_weight=weight)
        .predict(X)
    )
    np.testing.assert_allclose(ours[:, 0], theirs, atol=1e-9)


def test_a_classification_tree_equals_that_of_scikit_learn() -> None:
    from sklearn.tree import DecisionTreeClassifier

    X, target = table(250, 6, seed=3)
    y = np.digitize(target, [-1.0, 0.0, 1.0])
    weight = np.random.default_rng(4).uniform(0.5, 2, 250)
    bins = Bins.of(X, X)
    everything = np.tile(np.arange(6), (2**DEPTH - 1, 1))
    grown = _kernels().grow_classification(
        np.ascontiguousarray(bins.train.T), y, 4, weight, np.arange(250), everything, DEPTH
    )
    ours = np.zeros((250, 4))
    _kernels().add_predictions(bins.test, *grown, ours)
    theirs = (
        DecisionTreeClassifier(max_depth=DEPTH, random_state=0)
        .fit(X, y, sample_weight=weight)
        .predict_proba(X)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_forests_predict_what_those_of_scikit_learn_predict() -> None:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    X, target = table(4_000, 9, seed=5)
    y = np.digitize(target, [-1.0, 0.0, 1.0])
    X_test, target_test = table(2_000, 9, seed=6)
    bins = Bins.of(X, X_test, max_bins=128)
    ours = regression_forest(bins, target, None, np.random.default_rng(0), trees=40)
    theirs = (
        RandomForestRegressor(40, max_depth=DEPTH, random_state=0).fit(X, target).predict(X_test)
    )
    # Two forests of scikit-learn with different seeds are about 0.05 apart here; the target's own
    # spread is 1.2.
    assert np.abs(ours - theirs).mean() < 0.08
    assert abs(((ours - target_test) ** 2).mean() - ((theirs - target_test) ** 2).mean()) < 0.02
    shares = classification_forest(bins, y, 4, None, np.random.default_rng(0), trees=60)
    known = (
        RandomForestClassifier(60, max_depth=DEPTH, random_state=0).fit(X, y).predict_proba(X_test)
    )
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert np.abs(shares - known).mean() < 0.03


def test_neighbours_are_those_of_scikit_learn_where_nothing_ties() -> None:
    from sklearn.neighbors import NearestNeighbors

    rng = np.random.default_rng(0)
    train, query = rng.normal(size=(3_000, 8)), rng.normal(size=(500, 8))
    theirs = (
        NearestNeighbors(n_neighbors=5, algorithm="brute")
        .fit(train)
        .kneighbors(query, return_distance=False)
    )
    np.testing.assert_array_equal(nearest(train, query, 5), theirs)


def test_equally_distant_rows_come_in_their_order() -> None:
    rng = np.random.default_rng(1)
    train = rng.integers(0, 3, (2_000, 4)) / 7
    query = train[:50]
    exact = ((train[None] - query[:, None]) ** 2).sum(axis=2).round(9)
    np.testing.assert_array_equal(
        nearest(train, query, 5), np.argsort(exact, axis=1, kind="stable")[:, :5]
    )


@pytest.mark.parametrize("ties", [False, True])
def test_two_precisions_find_the_neighbours_of_one(ties: bool) -> None:
    # Double precision for all pairs is the reference; single precision only proposes candidates.
    rng = np.random.default_rng(2)
    train, query = rng.normal(size=(6_000, 12)), rng.normal(size=(300, 12))
    if ties:
        train, query = train[:, :3].round(1), query[:, :3].round(1)
    squares = (train**2).sum(axis=1), (query**2).sum(axis=1)
    reference = neighbours._on_cpu(train, query, squares, 5, neighbours._bits(train))
    np.testing.assert_array_equal(neighbours._in_two_steps(train, query, squares, 5), reference)


def test_ties_between_classes_go_to_the_lowest_where_asked() -> None:
    scores = np.array([[0.4, 0.2, 0.4], [0.2, 0.4, 0.4]])
    y, groups = np.array([2, 1]), np.array([0, 1])
    assert measures_of(scores, y, groups)["top_1"] == pytest.approx(0.5)
    assert measures_of(scores, y, groups, ties="lowest")["top_1"] == pytest.approx(0.5)
    assert measures_of(scores, np.array([0, 1]), groups, ties="lowest")["top_1"] == 1.0
    assert measures_of(scores, np.array([2, 2]), groups, ties="lowest")["top_1"] == 0.0


def test_votes_count_neighbours_by_weight() -> None:
    found, labels = np.array([[0, 2], [1, 2]]), np.array([0, 1, 2])
    np.testing.assert_allclose(
        vote(found, labels, 3, np.array([3.0, 1.0, 1.0])), [[0.75, 0, 0.25], [0, 0.5, 0.5]]
    )


@pytest.mark.parametrize("method", LABEL_METHODS)
def test_a_channel_is_the_method_on_every_row(method: str) -> None:
    rng = np.random.default_rng(2)
    groups = rng.integers(0, 3, 600)
    y = np.minimum(rng.integers(0, 4, 600) + (groups == 1), 3)
    channel = channel_of(method, y, groups, 4)
    rows = LABEL_METHODS[method]().fit_transform(y, sensitive_features=groups)
    np.testing.assert_allclose(channel[groups, y], rows, atol=1e-12)
    assert parity_of_channel(channel, y, groups) == pytest.approx(
        demographic_parity(rows, sensitive_features=groups), abs=1e-12
    )


@pytest.mark.parametrize("even", [False, True])
def test_labels_are_drawn_with_their_chances(even: bool) -> None:
    channel = np.array([[[0.2, 0.8, 0.0], [0.0, 1.0, 0.0], [0.1, 0.3, 0.6]]])
    y, groups = np.repeat([0, 1, 2], 5_000), np.zeros(15_000, dtype=int)
    drawn = drawn_labels(channel, y, groups, np.random.default_rng(0), even=even)
    shares = np.stack([np.bincount(drawn[y == k], minlength=3) / 5_000 for k in range(3)])
    # Even draws are exact to within one row of 5,000.
    np.testing.assert_allclose(shares, channel[0], atol=2.1e-4 if even else 0.025)
    one = [
        drawn_labels(channel, y, groups, np.random.default_rng(seed), even=even)[12_000]
        for seed in range(400)
    ]
    np.testing.assert_allclose(np.bincount(one, minlength=3) / 400, channel[0, 2], atol=0.1)


def test_only_reweighing_gives_weights() -> None:
    y, groups = np.array([0, 1, 0, 0]), np.array([0, 0, 1, 1])
    assert weights_of("R2B", y, groups) is None
    weight = weights_of("RW", np.array([0, 1, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 1, 0]))
    assert weight is not None
    assert weight.std() > 0


def test_measures_are_those_of_the_definitions() -> None:
    scores = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4], [0.5, 0.4, 0.1]])
    found = measures_of(scores, np.array([0, 1, 0, 2]), np.array([0, 0, 1, 1]))
    assert found["disparity"] == pytest.approx(0.05)
    assert found["top_1"] == pytest.approx(0.5)
    assert found["top_2"] == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert found["error_parity"] == pytest.approx(1.0)
