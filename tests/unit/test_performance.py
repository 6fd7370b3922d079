"""Accuracies and error parity: worked by hand, by metamorphosis, and the coverage of their
intervals.
"""

from itertools import permutations
from typing import Any

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
Y, ABC = ["a", "c", "b", "a"], ["a", "b", "c"]
TIES = ["strict", "average", "lenient"]


def test_top_k_by_hand():
    def values(k: int) -> list[float]:
        return [top_k_accuracy(Y, SCORES, k=k, ties=ties).value for ties in TIES]

    # Row 2: "b" ties with "a" for the second place.
    assert (values(1), values(2)) == ([0.25, 0.375, 0.5], [0.75, 0.875, 1.0])
    assert values(3) == [1, 1, 1]
    np.testing.assert_array_equal(top_k_accuracy(Y, SCORES).rows, [1, 0, 0, 0.5])


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_average_is_the_mean_over_all_ways_to_break_ties(k):
    rng = np.random.default_rng(k)
    scores, y = rng.integers(0, 3, (30, 4)), rng.integers(0, 4, 30)
    y[:4] = range(4)
    orders = [np.broadcast_to(order, scores.shape) for order in permutations(range(4))]
    ranked = [np.lexsort((order, -scores), axis=1)[:, :k] for order in orders]
    found = np.array([(each == y[:, None]).any(axis=1) for each in ranked])
    strict, average, lenient = (top_k_accuracy(y, scores, k=k, ties=ties).rows for ties in TIES)
    np.testing.assert_allclose(average, found.mean(axis=0))
    np.testing.assert_array_equal(strict, found.min(axis=0))
    np.testing.assert_array_equal(lenient, found.max(axis=0))


def test_tv_accuracy_by_hand():
    by_hand = (0.5 + 0.3 + 0.2 + 0.4) / 4
    assert tv_accuracy(Y, SCORES).value == pytest.approx(by_hand)
    one_hot = np.eye(3)[[0, 2, 1, 0]]
    assert tv_accuracy(one_hot, SCORES).value == pytest.approx(by_hand)
    assert tv_accuracy([[0.5, 0.5]], [[0.25, 0.75]]).value == 0.75


@pytest.mark.parametrize("measure", [top_k_accuracy, tv_accuracy])
def test_weights_are_repetitions(measure):
    times, groups = np.array([2, 1, 0, 3]), np.array(["f", "m", "m", "f"])
    weighted = measure(Y, SCORES, sample_weight=times, classes=ABC)
    repeated = measure(np.repeat(Y, times), np.repeat(SCORES, times, axis=0), classes=ABC)
    assert weighted.value == pytest.approx(repeated.value)
    one = error_parity(weighted, sensitive_features=groups)
    two = error_parity(repeated, sensitive_features=np.repeat(groups, times))
    np.testing.assert_allclose(one.losses, two.losses)


def test_classes_by_name():
    pd = pytest.importorskip("pandas")
    turned = SCORES[:, [2, 0, 1]]
    frame, plain = pd.DataFrame(turned, columns=["c", "a", "b"]), top_k_accuracy(Y, SCORES).value
    assert top_k_accuracy(Y, frame).value == plain
    assert top_k_accuracy(Y, turned, classes=["c", "a", "b"]).value == plain
    assert top_k_accuracy(pd.Series(Y), frame.to_dict("list")).value == plain
    soft = pd.DataFrame(np.eye(3)[[0, 2, 1, 0]], columns=ABC)
    assert tv_accuracy(soft, frame).value == pytest.approx(tv_accuracy(Y, SCORES).value)


@pytest.mark.parametrize(
    ("error", "y", "scores", "options"),
    [
        (ShapeError, ["a", "b", "b", "a"], SCORES, {}),
        (ShapeError, Y, SCORES, {"classes": ["a", "b"]}),
        (ShapeError, Y, SCORES[:, 0], {}),
        (UnseenError, Y, SCORES, {"classes": ["a", "b", "d"]}),
        (InputError, Y, SCORES, {"classes": ["a", "b", "b"]}),
        (InputError, Y, SCORES * np.nan, {}),
        (LengthError, Y[:3], SCORES, {}),
        (LengthError, Y, SCORES, {"sample_weight": [1, 1]}),
        (WeightError, Y, SCORES, {"sample_weight": [0, 0, 0, 0]}),
        (WeightError, Y, SCORES, {"sample_weight": [1e308] * 4}),
        (ParameterError, Y, SCORES, {"k": 4}),
        (ParameterError, Y, SCORES, {"k": 1.5}),
        (ParameterError, Y, SCORES, {"ties": "first"}),
    ],
)
def test_scores_that_cannot_be_used_are_refused(error, y, scores, options):
    with pytest.raises(error):
        top_k_accuracy(y, scores, **options)


def test_other_refusals():
    with pytest.raises(ShapeError):
        tv_accuracy(np.full((4, 2), 0.5), SCORES)
    with pytest.raises(ParameterError):
        top_k_accuracy(Y, SCORES).interval(1.5)
    masked = np.ma.masked_array([0.5, 0.1], [False, True])
    for wrong, kind in (
        ([0.5, 2.0], InputError),
        ([0.5, np.nan], InputError),
        (masked, InputError),
        ([0.5], LengthError),
    ):
        with pytest.raises(kind):
            error_parity(wrong, sensitive_features=[0, 1])
    with pytest.raises(ProbabilityError) as refused:
        tv_accuracy(Y, 2 * SCORES)
    assert str(refused.value).endswith("Divide each row by its sum.")


def test_error_parity_of_always_the_class_of_men():
    # As in the paper at p = .5: half the labels are the sex itself; who always says "male" is right
    # on those of men and wrong on women.
    y = np.repeat(["male", "other", "female", "other"], 50)
    sex, scores = np.repeat(["m", "f"], 100), np.tile([0.0, 1.0, 0.0], (200, 1))
    found = error_parity((y, scores, top_k_accuracy), sensitive_features=sex)
    assert found.value == 0.5 and found.as_dict() == {"f": 1.0, "m": 0.5}
    assert error_parity(top_k_accuracy(y, scores), sensitive_features=sex).value == 0.5
    assert error_parity([0.2, 0.4, 0.9], sensitive_features=[0, 0, 1]).value == pytest.approx(0.6)


def test_an_interval_of_a_mean_is_clopper_and_pearsons():
    from scipy.stats import binomtest

    y, scores = [0, 1] * 20, np.eye(2)[[0, 1, 1, 1] * 10]
    exact = binomtest(30, 40).proportion_ci(0.9)
    low, high = top_k_accuracy(y, scores).interval(0.9)
    assert exact.low <= low + 1e-9 and high - 1e-9 <= exact.high  # or closer
    scaled = top_k_accuracy(y, scores, sample_weight=[9] * 40)
    assert tuple(scaled.interval(0.9)) == pytest.approx((low, high))
    alone = top_k_accuracy([0, 1], np.eye(2), sample_weight=[1, 0])
    assert alone.interval().low < 0.1 and alone.interval().high == 1.0


def coverage(truth: float, intervals: Any) -> float:
    return float(np.mean([low <= truth <= high for low, high in intervals]))


def test_intervals_of_means_cover():
    def simulate(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        scores, weight = np.eye(2)[(rng.random(300) < 0.7).astype(int)], rng.gamma(2, size=300)
        ones = np.ones(300, dtype=int)
        return top_k_accuracy(ones, scores, classes=[0, 1], sample_weight=weight).interval(0.9)

    assert 0.85 <= coverage(0.7, map(simulate, range(200))) <= 0.98


@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_intervals_of_gaps_cover(gap):
    groups, labels, errors = np.arange(400) % 2, [], []
    for seed in range(200):
        codes = np.random.default_rng(seed).random(400) < 0.3 + gap * groups
        known = {"sensitive_features": groups}
        labels.append(disparity_interval(codes.astype(int), **known, level=0.9))
        errors.append(error_parity(codes, **known).interval(0.9))
    # Conservative by construction: at least the level, within the error of 200 simulations.
    assert coverage(gap, labels) >= 0.85 and coverage(gap, errors) >= 0.85


def test_one_group_has_no_gap_and_a_group_of_one_row_says_little():
    for groups, widest in ((["a", "a", "a"], 0.0), (["a", "b", "b"], 1.0)):
        low, high = disparity_interval([0, 1, 1], sensitive_features=groups)
        assert (low, high) == (0, widest)
        low, high = error_parity([0, 1, 1], sensitive_features=groups).interval()
        assert low == 0 and high == pytest.approx(widest, abs=0.01)
