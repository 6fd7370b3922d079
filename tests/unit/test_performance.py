"""Accuracies and error parity: worked by hand, by metamorphosis, and the coverage of their intervals."""

from itertools import permutations

import numpy as np
import pytest

from r2b.errors import (
    InputError,
    LengthError,
    ParameterError,
    ProbabilityError,
    ShapeError,
    UnseenError,
    WeightError,
)
from r2b.metrics import disparity_interval, error_parity, top_k_accuracy, tv_accuracy

SCORES = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6], [0.4, 0.4, 0.2]])
Y = ["a", "c", "b", "a"]
TIES = ["strict", "average", "lenient"]


def test_top_k_by_hand():
    assert [top_k_accuracy(Y, SCORES, k=1, ties=ties).value for ties in TIES] == [0.25, 0.375, 0.5]
    # Row 2: "b" ties with "a" for the second place.
    assert [top_k_accuracy(Y, SCORES, k=2, ties=ties).value for ties in TIES] == [0.75, 0.875, 1.0]
    assert [top_k_accuracy(Y, SCORES, k=3, ties=ties).value for ties in TIES] == [1, 1, 1]
    np.testing.assert_array_equal(top_k_accuracy(Y, SCORES).rows, [1, 0, 0, 0.5])


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_average_is_the_mean_over_all_ways_to_break_ties(k):
    rng = np.random.default_rng(k)
    scores, y = rng.integers(0, 3, (30, 4)), rng.integers(0, 4, 30)
    y[:4] = range(4)
    found = []
    for order in permutations(range(4)):
        ranked = np.lexsort((np.broadcast_to(order, scores.shape), -scores), axis=1)[:, :k]
        found.append((ranked == y[:, None]).any(axis=1))
    found = np.array(found)
    average, strict, lenient = (
        top_k_accuracy(y, scores, k=k, ties=ties).rows for ties in ("average", "strict", "lenient")
    )
    np.testing.assert_allclose(average, found.mean(axis=0))
    np.testing.assert_array_equal(strict, found.min(axis=0))
    np.testing.assert_array_equal(lenient, found.max(axis=0))


def test_tv_accuracy_by_hand():
    assert tv_accuracy(Y, SCORES).value == pytest.approx((0.5 + 0.3 + 0.2 + 0.4) / 4)
    one_hot = np.eye(3)[[0, 2, 1, 0]]
    assert tv_accuracy(one_hot, SCORES).value == pytest.approx(tv_accuracy(Y, SCORES).value)
    assert tv_accuracy([[0.5, 0.5]], [[0.25, 0.75]]).value == 0.75
    with pytest.raises(ProbabilityError):
        tv_accuracy(Y, SCORES * 2)


@pytest.mark.parametrize("measure", [top_k_accuracy, tv_accuracy])
def test_weights_are_repetitions(measure):
    times, groups = np.array([2, 1, 0, 3]), np.array(["f", "m", "m", "f"])
    weighted = measure(Y, SCORES, sample_weight=times, classes=["a", "b", "c"])
    repeated = measure(
        np.repeat(Y, times), np.repeat(SCORES, times, axis=0), classes=["a", "b", "c"]
    )
    assert weighted.value == pytest.approx(repeated.value)
    one = error_parity(weighted, sensitive_features=groups)
    two = error_parity(repeated, sensitive_features=np.repeat(groups, times))
    np.testing.assert_allclose(one.losses, two.losses)


def test_classes_by_name():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(SCORES[:, [2, 0, 1]], columns=["c", "a", "b"])
    assert top_k_accuracy(Y, frame).value == top_k_accuracy(Y, SCORES).value
    assert (
        top_k_accuracy(Y, SCORES[:, [2, 0, 1]], classes=["c", "a", "b"]).value
        == top_k_accuracy(Y, SCORES).value
    )
    soft = pd.DataFrame(np.eye(3)[[0, 2, 1, 0]], columns=["a", "b", "c"])
    assert tv_accuracy(soft, frame).value == pytest.approx(tv_accuracy(Y, SCORES).value)
    assert (
        top_k_accuracy(pd.Series(Y), frame.to_dict("list")).value == top_k_accuracy(Y, SCORES).value
    )


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ShapeError, lambda: top_k_accuracy(["a", "b", "b", "a"], SCORES)),
        (ShapeError, lambda: top_k_accuracy(Y, SCORES, classes=["a", "b"])),
        (ShapeError, lambda: top_k_accuracy(Y, SCORES[:, 0])),
        (ShapeError, lambda: tv_accuracy(np.full((4, 2), 0.5), SCORES)),
        (UnseenError, lambda: top_k_accuracy(Y, SCORES, classes=["a", "b", "d"])),
        (InputError, lambda: top_k_accuracy(Y, SCORES, classes=["a", "b", "b"])),
        (InputError, lambda: top_k_accuracy(Y, SCORES * np.nan)),
        (LengthError, lambda: top_k_accuracy(Y[:3], SCORES)),
        (LengthError, lambda: top_k_accuracy(Y, SCORES, sample_weight=[1, 1])),
        (WeightError, lambda: top_k_accuracy(Y, SCORES, sample_weight=[0, 0, 0, 0])),
        (ParameterError, lambda: top_k_accuracy(Y, SCORES, k=4)),
        (ParameterError, lambda: top_k_accuracy(Y, SCORES, k=1.5)),
        (ParameterError, lambda: top_k_accuracy(Y, SCORES, ties="first")),
        (ParameterError, lambda: top_k_accuracy(Y, SCORES).interval(1.5)),
        (WeightError, lambda: top_k_accuracy(Y, SCORES, sample_weight=[1e308] * 4)),
        (InputError, lambda: error_parity([0.5, 2.0], sensitive_features=[0, 1])),
        (InputError, lambda: error_parity([0.5, np.nan], sensitive_features=[0, 1])),
        (
            InputError,
            lambda: error_parity(
                np.ma.masked_array([0.5, 0.1], [False, True]), sensitive_features=[0, 1]
            ),
        ),
        (LengthError, lambda: error_parity([0.5, 1.0], sensitive_features=[0, 1, 1])),
    ],
)
def test_refusals(error, call):
    with pytest.raises(error):
        call()


def test_the_remedy_for_scores_that_are_no_distribution_can_be_followed():
    with pytest.raises(ProbabilityError) as refused:
        tv_accuracy(Y, 2 * SCORES)
    assert str(refused.value).endswith("Divide each row by its sum.")
    tv_accuracy(Y, SCORES / SCORES.sum(axis=1, keepdims=True))


def test_error_parity_of_always_the_class_of_men():
    # As in the paper at p = .5: half the labels are the sex itself; who always says "male" is right
    # on those of men and wrong on women.
    y = np.array(["male"] * 50 + ["other"] * 50 + ["female"] * 50 + ["other"] * 50)
    sex = np.repeat(["m", "f"], 100)
    scores = np.tile([0.0, 1.0, 0.0], (200, 1))
    found = error_parity((y, scores, top_k_accuracy), sensitive_features=sex)
    assert found.value == 0.5
    assert found.as_dict() == {"f": 1.0, "m": 0.5}
    assert error_parity(top_k_accuracy(y, scores), sensitive_features=sex).value == 0.5
    assert error_parity([0.2, 0.4, 0.9], sensitive_features=[0, 0, 1]).value == pytest.approx(0.6)


def test_an_interval_of_a_mean_is_clopper_and_pearsons():
    from scipy.stats import binomtest

    found = top_k_accuracy([0, 1] * 20, np.eye(2)[[0, 1, 1, 1] * 10])
    exact = binomtest(30, 40).proportion_ci(0.9)
    low, high = found.interval(0.9)
    assert exact.low <= low + 1e-9 and high - 1e-9 <= exact.high  # or closer
    scaled = top_k_accuracy([0, 1] * 20, np.eye(2)[[0, 1, 1, 1] * 10], sample_weight=[9] * 40)
    assert tuple(scaled.interval(0.9)) == pytest.approx((low, high))
    alone = top_k_accuracy([0, 1], np.eye(2), sample_weight=[1, 0])
    assert alone.interval().low < 0.1 and alone.interval().high == 1.0


def coverage(simulate, n=200):
    inside = [low <= truth <= high for truth, (low, high) in map(simulate, range(n))]
    return np.mean(inside)


def test_intervals_of_means_cover():
    def simulate(seed):
        rng = np.random.default_rng(seed)
        scores = np.eye(2)[(rng.random(300) < 0.7).astype(int)]
        found = top_k_accuracy(
            np.ones(300, dtype=int), scores, classes=[0, 1], sample_weight=rng.gamma(2, size=300)
        )
        return 0.7, found.interval(0.9)

    assert 0.85 <= coverage(simulate) <= 0.98


@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_intervals_of_gaps_cover(gap):
    def drawn(seed):
        rng = np.random.default_rng(seed)
        groups = np.arange(400) % 2
        return groups, rng.random(400) < 0.3 + gap * groups

    def labels(seed):
        groups, codes = drawn(seed)
        return gap, disparity_interval(codes.astype(int), sensitive_features=groups, level=0.9)

    def errors(seed):
        groups, codes = drawn(seed)
        return gap, error_parity(codes, sensitive_features=groups).interval(0.9)

    # Conservative by construction: at least the level, within the error of 200 simulations.
    assert coverage(labels) >= 0.85
    assert coverage(errors) >= 0.85


def test_one_group_has_no_gap_and_a_group_of_one_row_says_little():
    assert tuple(disparity_interval([0, 1, 1], sensitive_features=["a"] * 3))[:2] == (0, 0)
    assert tuple(error_parity([0, 1], sensitive_features=["a", "a"]).interval())[:2] == (0, 0)
    low, high = disparity_interval([0, 1, 1], sensitive_features=["a", "b", "b"])
    assert low == 0 and high == 1
    low, high = error_parity([0, 1, 1], sensitive_features=["a", "b", "b"]).interval()
    assert low == 0 and high > 0.99
