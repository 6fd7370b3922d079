"""What experiments train: trees equal to scikit-learn's, neighbours with ties by row, labels drawn as their distribution says."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.labelling import drawn_classes, weights_of
from experiments.learners import class_forest, measures_of, nearest, per_class_forest, vote

pytest.importorskip("sklearn")


def test_forests_return_distributions_over_all_classes() -> None:
    rng = np.random.default_rng(5)
    X, X_test = rng.normal(size=(300, 4)), rng.normal(size=(50, 4))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    shares = class_forest(X, X_test, y, 4, None, seed=0, trees=10)  # class 3 has no rows
    assert shares.shape == (50, 4) and not shares[:, 3].any()
    soft = per_class_forest(X, X_test, np.eye(3)[y], None, seed=0, trees=10)
    for scores, known in ((shares[:, :3], y), (soft, y)):
        np.testing.assert_allclose(scores.sum(axis=1), 1.0)
        right = scores.argmax(axis=1) == np.digitize(X_test[:, 0], [-0.5, 0.5])
        assert right.mean() > 0.9, known


def test_ties_between_classes_go_to_the_lowest_where_asked() -> None:
    scores = np.array([[0.4, 0.2, 0.4], [0.2, 0.4, 0.4]])
    y, groups = np.array([2, 1]), np.array([0, 1])
    assert measures_of(scores, y, groups)["top_1"] == pytest.approx(0.5)
    assert measures_of(scores, y, groups, ties="lowest")["top_1"] == pytest.approx(0.5)
    assert measures_of(scores, np.array([0, 1]), groups, ties="lowest")["top_1"] == 1.0
    assert measures_of(scores, np.array([2, 2]), groups, ties="lowest")["top_1"] == 0.0


def test_votes_of_the_nearest_rows_are_scikit_learns() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(3)
    X, asked, y = rng.normal(size=(200, 3)), rng.normal(size=(40, 3)), rng.integers(0, 4, 200)
    theirs = KNeighborsClassifier().fit(X, y).predict_proba(asked)
    np.testing.assert_allclose(vote(nearest(X, asked), y, 4), theirs)


def test_votes_count_neighbours_by_weight() -> None:
    found, labels = np.array([[0, 2], [1, 2]]), np.array([0, 1, 2])
    np.testing.assert_allclose(
        vote(found, labels, 3, np.array([3.0, 1.0, 1.0])), [[0.75, 0, 0.25], [0, 0.5, 0.5]]
    )


@pytest.mark.parametrize("even", [False, True])
def test_labels_are_drawn_with_their_chances(even: bool) -> None:
    channel = np.array([[0.2, 0.8, 0.0], [0.0, 1.0, 0.0], [0.1, 0.3, 0.6]])
    y = np.repeat([0, 1, 2], 5_000)

    def drawn(seed: int) -> np.ndarray:
        return drawn_classes(channel[y], np.random.default_rng(seed), y if even else None)

    shares = np.stack([np.bincount(drawn(0)[y == k], minlength=3) / 5_000 for k in range(3)])
    # Even draws are exact to within one row of 5,000.
    np.testing.assert_allclose(shares, channel, atol=2.1e-4 if even else 0.025)
    one = [drawn(seed)[12_000] for seed in range(400)]
    np.testing.assert_allclose(np.bincount(one, minlength=3) / 400, channel[2], atol=0.1)


def test_only_reweighing_gives_weights() -> None:
    y, groups = np.array([0, 1, 0, 0]), np.array([0, 0, 1, 1])
    assert weights_of("R2B", y, groups) is None
    weight = weights_of("RW", np.array([0, 1, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 1, 0]))
    assert weight is not None
    assert weight.std() > 0


def test_measures_are_those_of_the_definitions() -> None:
    scores = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4], [0.5, 0.4, 0.1]])
    found = measures_of(scores, np.array([0, 1, 0, 2]), np.array([0, 0, 1, 1]))
    assert found["parity"] == pytest.approx(0.05)
    assert found["top_1"] == pytest.approx(0.5)
    assert found["top_2"] == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert found["error_parity"] == pytest.approx(1.0)
