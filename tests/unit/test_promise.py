"""The promise about new rows: it holds as often as it says, it is not wider than it must be, and it says what it rests on."""

from __future__ import annotations

import numpy as np
import pytest

import r2b
from r2b import metrics
from r2b.errors import InputError, ParameterError, WeightError
from r2b.metrics import (
    demographic_parity_difference,
    parity_promise,
)
from r2b.metrics.betting import block_means, n_pairs, ruled_out
from r2b.metrics.criteria import CRITERIA

DRAWS = 1_000


def flips(p):
    return p, lambda rng, shape: (rng.random(shape) < p).astype(float)


def betas(a, b):
    return a / (a + b), lambda rng, shape: rng.beta(a, b, shape)


def paired(one, two):
    n = n_pairs(len(one), len(two))
    return np.stack([block_means(column, n) for column in one.T], 1) - np.stack(
        [block_means(column, n) for column in two.T], 1
    )


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
    rng, alpha, draws = np.random.default_rng(sizes), 0.05, 2 * DRAWS
    differences = paired(first[1](rng, (sizes[0], draws)), second[1](rng, (sizes[1], draws)))
    failed = ruled_out(differences, np.full((draws, 1), first[0] - second[0]), alpha).mean()
    assert failed <= alpha + 3 * (alpha * (1 - alpha) / draws) ** 0.5


def test_coverage_of_classes_in_a_small_group():
    rng, groups, share = (
        np.random.default_rng(0),
        np.repeat(["few", "many"], [12, 40]),
        np.repeat([0.35, 0.1], [12, 40]),
    )
    tables = rng.random((DRAWS, 52)) < share
    bounds = [parity_promise(table, sensitive_features=groups).bound for table in tables]
    assert np.mean(np.array(bounds) >= 0.25) >= 0.95
    assert np.mean(bounds) < 0.6  # Hoeffding's is .65


def test_coverage_of_probabilities_in_three_uneven_groups():
    rng, sizes = np.random.default_rng(1), (9, 25, 60)
    # parity .3: (.5, .17, .33) against (.25, .42, .33)
    weights = np.array([[0.6, 0.2, 0.4], [0.3, 0.5, 0.4], [0.3, 0.3, 0.6]])
    means = weights / weights.sum(axis=1, keepdims=True)
    truth, groups = (means.max(axis=0) - means.min(axis=0)).max(), np.repeat([0, 1, 2], sizes)
    held = 0
    for _ in range(250):
        drawn = rng.standard_gamma(weights[groups])
        held += (
            parity_promise(
                drawn / drawn.sum(axis=1, keepdims=True), sensitive_features=groups
            ).bound
            >= truth
        )
    assert held / 250 >= 0.95


def test_the_bound_is_near_the_normal_one_on_many_rows():
    rng, n = np.random.default_rng(3), 4_000
    y, groups = (rng.random(2 * n) < 0.3).astype(int), np.repeat([0, 1], n)
    error = (2 * 0.3 * 0.7 / n) ** 0.5
    found = parity_promise(y, sensitive_features=groups)
    assert 1.645 * error < found.bound - found.measured < 2.1 * error


def table(n=600):
    rng = np.random.default_rng(6)
    sex, race, job, y = (rng.choice(list(values), n) for values in ("fm", "abc", "xy", "nou"))
    soft = rng.dirichlet([1, 2, 3], n)
    return (
        {"sex": sex, "race": race},
        job,
        y,
        soft,
        np.array(list("nou"))[(soft.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)],
    )


@pytest.mark.parametrize("families", ["crossed", "marginal", "both", ["race"]])
@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_measured_is_the_measure(families, kind):
    people, job, y, soft, hard = table()
    predicted = soft if kind == "soft" else hard
    options = {"sensitive_features": people, "families": families, "control_features": job}
    found = parity_promise(predicted, **options)
    assert found.measured == demographic_parity_difference(predicted, **options) < found.bound < 1
    for criterion, asked in CRITERIA.items():
        measure = getattr(metrics, f"{criterion}_difference")
        named = {**options, "classes": ["n", "o", "u"]}
        named |= {"positive": "o"} if asked.outcome == "own class" else {}
        found = parity_promise(predicted, y_true=y, criterion=criterion, **named)
        assert found.measured == pytest.approx(measure(y, predicted, **named), abs=1e-12)
        assert found.measured < found.bound
    assert sum(found.group_sizes[next(iter(found.group_sizes))].values()) == found.n_rows == 600


def test_the_group_that_limits_is_named():
    rng = np.random.default_rng(7)
    groups = np.repeat(["many", "more", "few"], [2_000, 3_000, 12])
    found = parity_promise(rng.integers(0, 2, len(groups)), sensitive_features=groups, epsilon=0.05)
    assert "few" in (found.limit.group, found.limit.other) and 12 in found.limit.rows
    assert (
        "'few' (12 rows)" in str(found)
        and "cannot support epsilon 0.05" in str(found)
        and found.holds is False
    )


def test_sentences():
    y, groups = ["yes", "no", "no", "no"] * 1_000, ["f"] * 2_000 + ["m"] * 2_000
    found = parity_promise(y, sensitive_features=groups)
    assert found.epsilon is found.rows_needed is found.holds is None and found.n_differences == 4
    basis = "measured 0 on 4,000 rows held back; betting on paired rows, 4 differences"
    assert str(found).startswith(
        f"The disparity of new rows (demographic parity) is at most {np.ceil(1000 * found.bound) / 1000:g} with confidence 95 % ({basis})."
    )
    assert str(parity_promise(y, sensitive_features=groups, epsilon=0.1)).endswith(
        "Epsilon 0.1 is supported."
    )
    short = parity_promise(y, sensitive_features=groups, epsilon=0.01)
    assert str(short).endswith(
        f"These rows cannot support epsilon 0.01; about {int(short.rows_needed):,} would."
    )
    never = parity_promise(y, sensitive_features=groups, epsilon=0)
    assert never.rows_needed == np.inf and str(never).endswith(
        "These rows cannot support epsilon 0, and no number of rows can."
    )
    apart = parity_promise(["yes"] * 100 + y[100:], sensitive_features=groups, epsilon=0.01)
    assert apart.rows_needed == np.inf and "is not below it. Were all of it chance, about" in str(
        apart
    )


def test_a_group_without_rows_of_a_true_class_leaves_nothing_to_promise():
    y_true, y_pred = ["no", "yes"] * 50 + ["no"] * 30, ["no", "yes"] * 50 + ["no"] * 30
    groups = ["f"] * 100 + ["m"] * 30
    found = parity_promise(
        y_pred, y_true=y_true, sensitive_features=groups, criterion="equal_opportunity", epsilon=0.1
    )
    assert found.bound == 1 and found.limit is None and found.rows_needed == np.inf
    assert "Nothing is known where 'm' (groups) has no rows of true class 'yes'" in str(found)


def test_a_class_that_nobody_was_predicted_may_still_come():
    found = parity_promise(["no"] * 300, sensitive_features=["f", "m", "m"] * 100)
    # so many of 100 rows may all have missed it
    assert found.measured == 0 and 3 / 100 < found.bound < 6 / 100
    assert (
        parity_promise([[0.5, 0.5]] * 300, sensitive_features=["f", "m", "m"] * 100).bound > 3 / 100
    )


def test_a_true_class_without_a_column_says_nothing():
    y_true, columns = ["a", "b", "c"] * 40, {"a": [0.3] * 120, "b": [0.7] * 120}
    rows = {"sensitive_features": ["f"] * 60 + ["m"] * 60, "criterion": "equal_opportunity"}
    found = parity_promise(columns, y_true=y_true, **rows)
    assert found.measured == 0 and found.n_differences == 4 and found.bound < 0.5


def test_weights_are_refused_unless_they_are_equal():
    y, groups = ["a", "b"] * 50, ["f"] * 50 + ["m"] * 50
    plain = parity_promise(y, sensitive_features=groups)
    assert (
        parity_promise(y, sensitive_features=groups, sample_weight=[2.5] * 100).bound == plain.bound
    )
    with pytest.raises(
        WeightError,
        match=r"weights from 1 to 3, .* Keep each row with probability weight / largest possible weight",
    ):
        parity_promise(y, sensitive_features=groups, sample_weight=[1.0, 3.0] * 50)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"confidence": 1}, ParameterError, "confidence is 1"),
        ({"confidence": True}, ParameterError, "confidence is True"),
        ({"epsilon": 2}, ParameterError, "epsilon is 2"),
        ({"epsilon": "0.1"}, ParameterError, "epsilon is '0.1'"),
        ({"criterion": "odds"}, ParameterError, "'odds'"),
        ({"criterion": "equalized_odds"}, ParameterError, "Pass `y_true=`"),
        (
            {"sensitive_features": ["f"] * 4},
            InputError,
            r"No two groups have rows that can be compared \(groups: 'f' \(4 rows\)\)",
        ),
        (
            {"sensitive_features": r2b.Membership([[0.5, 0.5]] * 4)},
            ParameterError,
            "'membership', .* true group of each row",
        ),
        (
            {"sensitive_features": r2b.Continuous([1.0, 2.0, 3.0, 4.0])},
            ParameterError,
            "'continuous'",
        ),
        ({"families": ["age"]}, ParameterError, "age"),
        ({"sensitive_features": ["f", "m"]}, InputError, "2"),
    ],
)
def test_refusals(options, error, says):
    with pytest.raises(error, match=says):
        parity_promise(
            ["a", "b", "a", "b"], **{"sensitive_features": ["f", "f", "m", "m"], **options}
        )
