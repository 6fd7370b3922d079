"""The promise about new rows: it holds as often as it says, it is not wider than it must be, and it
says what it rests on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import r2b
from r2b import metrics
from r2b.errors import InputError, ParameterError, WeightError
from r2b.metrics import demographic_parity_difference, parity_promise
from r2b.metrics.betting import block_means, n_pairs, ruled_out
from r2b.metrics.criteria import CRITERIA


def flips(p: float) -> Any:
    return p, lambda rng, shape: (rng.random(shape) < p).astype(float)


def betas(a: float, b: float) -> Any:
    return a / (a + b), lambda rng, shape: rng.beta(a, b, shape)


@pytest.mark.parametrize("sizes", [(12, 60), (40, 40), (12, 400), (100, 300)])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (flips(0.5), flips(0.4)),
        (flips(0.08), flips(0.01)),
        (flips(0.99), flips(0.5)),
        (betas(0.1, 1.5), betas(0.05, 2)),
        (betas(2, 30), betas(1, 30)),
    ],
)
def test_the_true_difference_is_seldom_ruled_out(first, second, sizes):
    rng, alpha, draws, n = np.random.default_rng(sizes), 0.05, 2_000, n_pairs(*sizes)
    one, two = (
        np.stack([block_means(column, n) for column in draw(rng, (size, draws)).T], 1)
        for (_, draw), size in zip((first, second), sizes, strict=True)
    )
    truth = np.full((draws, 1), first[0] - second[0])
    failed = ruled_out(one - two, truth, alpha).mean()
    assert failed <= alpha + 3 * (alpha * (1 - alpha) / draws) ** 0.5


def test_coverage_of_classes_in_a_small_group():
    groups, share = (np.repeat(each, [12, 40]) for each in (["few", "many"], [0.35, 0.1]))
    tables = np.random.default_rng(0).random((1_000, 52)) < share
    bounds = [parity_promise(table, sensitive_features=groups).bound for table in tables]
    assert np.mean(np.array(bounds) >= 0.25) >= 0.95
    assert np.mean(bounds) < 0.6  # Hoeffding's is .65


def test_coverage_of_probabilities_in_three_uneven_groups():
    rng, groups = np.random.default_rng(1), np.repeat([0, 1, 2], (9, 25, 60))
    # parity .3: (.5, .17, .33) against (.25, .42, .33)
    weights = np.array([[0.6, 0.2, 0.4], [0.3, 0.5, 0.4], [0.3, 0.3, 0.6]])
    truth, held = np.ptp(weights / weights.sum(axis=1, keepdims=True), axis=0).max(), 0
    for _ in range(250):
        drawn = rng.standard_gamma(weights[groups])
        drawn /= drawn.sum(axis=1, keepdims=True)
        held += parity_promise(drawn, sensitive_features=groups).bound >= truth
    assert held / 250 >= 0.95


@pytest.mark.parametrize("families", ["crossed", "marginal", "both", ["race"]])
@pytest.mark.parametrize("is_soft", [True, False])
def test_measured_is_the_measure(families, is_soft):
    rng, n = np.random.default_rng(6), 600
    sex, race, job, y = (rng.choice(list(values), n) for values in ("fm", "abc", "xy", "nou"))
    predicted = rng.dirichlet([1, 2, 3], n)
    if not is_soft:
        codes = (predicted.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
        predicted = np.array(list("nou"))[codes]
    options = {"sensitive_features": {"sex": sex, "race": race}, "families": families}
    options["control_features"] = job
    found = parity_promise(predicted, **options)
    assert found.measured == demographic_parity_difference(predicted, **options) < found.bound < 1
    for criterion, asked in CRITERIA.items():
        named = {**options, "classes": ["n", "o", "u"]}
        named |= {"positive": "o"} if asked.outcome == "own class" else {}
        found = parity_promise(predicted, y_true=y, criterion=criterion, **named)
        measured = getattr(metrics, f"{criterion}_difference")(y, predicted, **named)
        assert found.measured == pytest.approx(measured, abs=1e-12)
        assert found.measured < found.bound
    assert sum(next(iter(found.group_sizes.values())).values()) == found.n_rows == n


def test_the_group_that_limits_is_named():
    groups = np.repeat(["many", "more", "few"], [2_000, 3_000, 12])
    y = np.random.default_rng(7).integers(0, 2, len(groups))
    found = parity_promise(y, sensitive_features=groups, epsilon=0.05)
    assert "few" in (found.limit.group, found.limit.other) and 12 in found.limit.rows
    assert "'few' (12 rows)" in str(found) and found.holds is False


def test_sentences():
    y, known = (
        ["yes", "no", "no", "no"] * 1_000,
        {"sensitive_features": ["f"] * 2_000 + ["m"] * 2_000},
    )
    found = parity_promise(y, **known)
    assert found.epsilon is found.rows_needed is found.holds is None and found.n_differences == 4
    bound = f"{np.ceil(1000 * found.bound) / 1000:g}"
    basis = "measured 0 on 4,000 rows held back; betting on paired rows, 4 differences"
    said = f"demographic parity) is at most {bound} with confidence 95 % ({basis})."
    assert str(found).startswith(f"The disparity of new rows ({said}")
    short = parity_promise(y, **known, epsilon=0.01)
    never = parity_promise(y, **known, epsilon=0)
    apart = parity_promise(["yes"] * 100 + y[100:], **known, epsilon=0.01)
    assert never.rows_needed == apart.rows_needed == np.inf
    for promise, end in (
        (parity_promise(y, **known, epsilon=0.1), "Epsilon 0.1 is supported."),
        (short, f"cannot support epsilon 0.01; about {int(short.rows_needed):,} would."),
        (never, "These rows cannot support epsilon 0, and no number of rows can."),
        (apart, "would."),
    ):
        assert str(promise).endswith(end)
    assert "is not below it. Were all of it chance, about" in str(apart)


def test_a_group_without_rows_of_a_true_class_leaves_nothing_to_promise():
    y = ["no", "yes"] * 50 + ["no"] * 30
    known = {"y_true": y, "criterion": "equal_opportunity", "epsilon": 0.1}
    found = parity_promise(y, sensitive_features=["f"] * 100 + ["m"] * 30, **known)
    assert found.bound == 1 and found.limit is None and found.rows_needed == np.inf
    assert "Nothing is known where 'm' (groups) has no rows of true class 'yes'" in str(found)


def test_classes_that_nobody_was_predicted_may_still_come_and_those_without_a_column_say_nothing():
    known = {"sensitive_features": ["f", "m", "m"] * 100}
    found = parity_promise(["no"] * 300, **known)
    # so many of 100 rows may all have missed it
    assert found.measured == 0 and 3 / 100 < found.bound < 6 / 100
    assert parity_promise([[0.5, 0.5]] * 300, **known).bound > 3 / 100
    y_true, columns = ["a", "b", "c"] * 40, {"a": [0.3] * 120, "b": [0.7] * 120}
    rows = {"sensitive_features": ["f"] * 60 + ["m"] * 60, "criterion": "equal_opportunity"}
    found = parity_promise(columns, y_true=y_true, **rows)
    assert found.measured == 0 and found.n_differences == 4 and found.bound < 0.5


def test_weights_are_refused_unless_they_are_equal():
    y, known = ["a", "b"] * 50, {"sensitive_features": ["f"] * 50 + ["m"] * 50}
    equal = parity_promise(y, **known, sample_weight=[2.5] * 100)
    assert equal.bound == parity_promise(y, **known).bound
    with pytest.raises(WeightError, match=r"weights from 1 to 3, .* largest possible weight"):
        parity_promise(y, **known, sample_weight=[1.0, 3.0] * 50)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"confidence": 1}, ParameterError, "confidence is 1"),
        ({"confidence": True}, ParameterError, "confidence is True"),
        ({"epsilon": 2}, ParameterError, "epsilon is 2"),
        ({"epsilon": "0.1"}, ParameterError, "epsilon is '0.1'"),
        ({"criterion": "odds"}, ParameterError, "'odds'"),
        ({"criterion": "equalized_odds"}, ParameterError, "Pass `y_true=`"),
        ({"sensitive_features": ["f"] * 4}, InputError, r"groups: 'f' \(4 rows\)"),
        (
            {"sensitive_features": r2b.Membership([[0.5, 0.5]] * 4)},
            ParameterError,
            "'membership', .* true group of each row",
        ),
        (
            {"sensitive_features": r2b.Continuous([1.0, 2.0, 3.0, 4.0])},
            ParameterError,
            "continuous",
        ),
        ({"families": ["age"]}, ParameterError, "age"),
        ({"sensitive_features": ["f", "m"]}, InputError, "2"),
    ],
)
def test_refusals(options, error, says):
    known = {"sensitive_features": ["f", "f", "m", "m"], **options}
    with pytest.raises(error, match=says):
        parity_promise(["a", "b", "a", "b"], **known)
