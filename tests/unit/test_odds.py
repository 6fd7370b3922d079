"""Equalized odds and equal opportunity: by definition in plain loops, against fairlearn, and what
is named or refused.
"""

from functools import partial
from itertools import product
from typing import get_args

import numpy as np
import pytest

import r2b
from r2b import metrics
from r2b.errors import (
    InputError,
    LengthError,
    ParameterError,
    RowLabelError,
    ShapeError,
    UnseenError,
)
from r2b.metrics import (
    demographic_parity_difference,
    demographic_parity_difference_by_class,
    equal_accuracy_difference,
    equal_false_positives_difference,
    equal_false_positives_difference_by_class,
    equal_opportunity_difference,
    equal_opportunity_difference_by_class,
    equalized_odds_difference,
    equalized_odds_difference_by_class,
)
from r2b.metrics.criteria import CRITERIA, CriterionName

CLASSES = np.array(["a", "b", "c"])


def table(seed, n=120):
    rng = np.random.default_rng(seed)
    people = {
        "sex": rng.choice(["f", "m"], n),
        "race": rng.choice(["x", "y", "z"], n, p=[0.6, 0.3, 0.1]),
    }
    soft = rng.dirichlet(np.ones(3), n)
    crossed = np.array([" ".join(row) for row in zip(*people.values(), strict=True)])
    weight = np.where(rng.random(n) < 0.1, 0.0, rng.random(n))
    weight[np.unique(crossed, return_index=True)[1]] = 0.5  # a group without any weight is refused
    return (
        rng.choice(CLASSES, n),
        rng.choice(CLASSES, n),
        soft,
        people,
        weight,
        rng.choice(["p", "q"], n),
    )


def groups_of(people, family):
    return np.array([" ".join(row) for row in zip(*(people[name] for name in family), strict=True)])


def naive(true, rows, groupings, weight, strata, method, own=False, other=False, positive=None):
    """The definition as loops; groups without weight among the rows of a true class are passed
    over.
    """
    largest = 0.0
    for groups, c, here in product(groupings, np.unique(true), np.unique(strata)):
        part = ((true == c) != other) & (strata == here)
        if positive is not None and c != positive:
            continue
        weights = {s: weight[part & (groups == s)].sum() for s in np.unique(groups)}
        means = {
            s: (rows * weight[:, None])[part & (groups == s)].sum(axis=0) / w
            for s, w in weights.items()
            if w > 0
        }
        if len(means) < 2:
            continue
        overall = sum(means[s] * weights[s] for s in means) / sum(weights[s] for s in means)
        for k in range(len(overall)):
            if own and CLASSES[k] != c:
                continue
            values = [mean[k] for mean in means.values()]
            gap = (
                max(abs(v - overall[k]) for v in values)
                if method == "to_overall"
                else max(values) - min(values)
            )
            largest = max(largest, gap)
    return largest


@pytest.mark.parametrize("method", ["between_groups", "to_overall"])
@pytest.mark.parametrize("seed", range(3))
def test_by_definition_with_weights_families_and_strata(method, seed):
    true, hard, soft, people, weight, control = table(seed)
    cases = {
        "crossed": [("sex", "race")],
        "marginal": [("sex",), ("race",)],
        "both": [("sex",), ("race",), ("sex", "race")],
    }
    for (families, columns), strata in product(
        {**cases, ("race",): [("race",)]}.items(), (None, control)
    ):
        families = families if isinstance(families, str) else list(families)
        options = {
            "sensitive_features": people,
            "sample_weight": weight,
            "families": families,
            "method": method,
        }
        groupings = [groups_of(people, each) for each in columns]
        where = np.full(len(true), "all") if strata is None else strata
        for y_pred, rows in ((hard, (hard[:, None] == CLASSES) * 1.0), (soft, soft)):
            expected = partial(naive, true, rows, groupings, weight, where, method)
            options["control_features"] = strata
            assert equalized_odds_difference(true, y_pred, **options) == pytest.approx(
                expected(), abs=1e-12
            )
            assert equal_opportunity_difference(true, y_pred, **options) == pytest.approx(
                expected(own=True), abs=1e-12
            )
            named = options | {"positive": "b"}
            assert equal_opportunity_difference(true, y_pred, **named) == pytest.approx(
                expected(own=True, positive="b"), abs=1e-12
            )
            assert equal_false_positives_difference(true, y_pred, **options) == pytest.approx(
                expected(own=True, other=True), abs=1e-12
            )
            assert equal_false_positives_difference(true, y_pred, **named) == pytest.approx(
                expected(own=True, other=True, positive="b"), abs=1e-12
            )
            of_all = np.full(len(true), "a"), groupings, weight, where, method
            right = rows[np.arange(len(true)), np.searchsorted(CLASSES, true)][:, None]
            assert equal_accuracy_difference(true, y_pred, **options) == pytest.approx(
                naive(of_all[0], right, *of_all[1:]), abs=1e-12
            )
            everyone = naive(of_all[0], rows, *of_all[1:])
            assert demographic_parity_difference(true, y_pred, **options) == pytest.approx(
                everyone, abs=1e-12
            )
            assert demographic_parity_difference(
                y_pred, **options
            ) == demographic_parity_difference(true, y_pred, **options)


def test_two_classes_as_fairlearn_has_them():
    fairlearn = pytest.importorskip("fairlearn.metrics")
    for seed in range(2):
        rng = np.random.default_rng(seed)
        y_true, y_pred, groups, weight = (
            rng.integers(0, 2, 300),
            rng.integers(0, 2, 300),
            rng.integers(0, 4, 300),
            rng.random(300),
        )
        for rows in ({}, {"sample_weight": weight}):
            rows = {**rows, "sensitive_features": groups}
            assert equalized_odds_difference(y_true, y_pred, **rows) == pytest.approx(
                fairlearn.equalized_odds_difference(y_true, y_pred, **rows)
            )
            parity = fairlearn.demographic_parity_difference(y_true, y_pred, **rows)
            assert demographic_parity_difference(y_true, y_pred, **rows) == pytest.approx(parity)
            opportunity = fairlearn.equal_opportunity_difference(y_true, y_pred, **rows)
            found = equal_opportunity_difference_by_class(y_true, y_pred, **rows).as_dict()
            assert found[1] == pytest.approx(opportunity)
            found = equal_opportunity_difference(y_true, y_pred, positive=1, **rows)
            assert found == pytest.approx(opportunity)
            found = equal_false_positives_difference(y_true, y_pred, positive=1, **rows)
            rates = fairlearn.false_positive_rate_difference
            assert found == pytest.approx(rates(y_true, y_pred, **rows))
            found = equal_accuracy_difference(y_true, y_pred, **rows)
            rates = fairlearn.accuracy_score_difference
            assert found == pytest.approx(rates(y_true, y_pred, **rows))


def test_a_metric_frame_takes_the_measures():
    fairlearn = pytest.importorskip("fairlearn.metrics")
    true, hard, _, people, _, control = table(3)
    measures = {
        "disparity": demographic_parity_difference,
        "odds": equalized_odds_difference,
        "opportunity": equal_opportunity_difference,
    }
    params = {name: {"sensitive_features": people["sex"]} for name in measures}
    frame = fairlearn.MetricFrame(
        metrics=measures, y_true=true, y_pred=hard, sensitive_features=control, sample_params=params
    )
    for name, measure in measures.items():
        assert frame.overall[name] == measure(true, hard, sensitive_features=people["sex"])
        inside = control == "p"
        assert frame.by_group[name]["p"] == measure(
            true[inside], hard[inside], sensitive_features=people["sex"][inside]
        )


def test_certain_memberships_are_groups_and_uncertain_ones_weigh():
    true, hard, soft, people, weight, _ = table(5)
    certain = r2b.Membership((people["sex"][:, None] == ["f", "m"]) * 1.0, groups=["f", "m"])
    rng = np.random.default_rng(0)
    share = rng.dirichlet([1, 1], len(true))
    doubled = np.repeat(np.arange(len(true)), 2)
    split = {
        "sensitive_features": np.tile(["f", "m"], len(true)),
        "sample_weight": (share * weight[:, None]).ravel(),
    }
    for measure, y_pred in product(
        (demographic_parity_difference, equalized_odds_difference, equal_opportunity_difference),
        (hard, soft),
    ):
        expected = measure(true, y_pred, sensitive_features=people["sex"], sample_weight=weight)
        assert measure(
            true, y_pred, sensitive_features=certain, sample_weight=weight
        ) == pytest.approx(expected, abs=1e-12)
        # A row that is 30 % of one group and 70 % of another counts as two rows with these weights.
        uncertain = measure(
            true, y_pred, sensitive_features={"sex": r2b.Membership(share)}, sample_weight=weight
        )
        assert uncertain == pytest.approx(
            measure(true[doubled], y_pred[doubled], **split), abs=1e-12
        )


def test_groups_that_lack_a_true_class_are_named():
    y_true, y_pred = ["a", "b", "b", "b", "b", "c"], ["a", "b", "a", "b", "b", "c"]
    sex = {"sex": ["f", "f", "f", "m", "m", "m"]}
    odds = equalized_odds_difference_by_class(y_true, y_pred, sensitive_features=sex)
    assert odds.true_classes.tolist() == odds.classes.tolist() == ["a", "b", "c"]
    assert [(each.family, each.group, each.true_class) for each in odds.absent] == [
        ("sex", "m", "a"),
        ("sex", "f", "c"),
    ]
    assert np.isnan(odds.values[[0, 2]]).all()
    assert odds.as_dict()["b"] == {"a": 0.5, "b": 0.5, "c": 0.0}
    opportunity = equal_opportunity_difference_by_class(y_true, y_pred, sensitive_features=sex)
    assert opportunity.absent == odds.absent
    np.testing.assert_array_equal(opportunity.values, [np.nan, 0.5, np.nan])
    assert (
        equal_opportunity_difference(y_true, y_pred, sensitive_features=sex)
        == equalized_odds_difference(y_true, y_pred, sensitive_features=sex)
        == 0.5
    )
    with pytest.raises(InputError, match=r"'m' \(sex\) has no rows of true class 'a'") as caught:
        equalized_odds_difference(y_true, y_pred, sensitive_features=sex, absent="error")
    assert caught.value.facts["group"] == "m"


def test_one_class_may_be_named_and_groups_that_lack_all_others_are_told():
    y_true, y_pred = ["a", "b", "b", "b", "b", "c"], ["a", "b", "a", "b", "b", "a"]
    rows = {"sensitive_features": ["f", "f", "f", "m", "m", "m"]}
    found = equal_false_positives_difference_by_class(y_true, y_pred, positive="a", **rows)
    assert found.as_dict() == {"a": pytest.approx(1 / 2 - 1 / 3)}
    found = equal_opportunity_difference_by_class(y_true, y_pred, positive="b", **rows)
    assert found.as_dict() == {"b": 0.5} and not found.absent
    with pytest.raises(ParameterError, match="not among the true classes"):
        equal_opportunity_difference(y_true, y_pred, positive="d", **rows)
    for measure in (equalized_odds_difference, equal_accuracy_difference):
        with pytest.raises(ParameterError, match=r"looks at all classes.*'equal_opportunity'"):
            measure(y_true, y_pred, positive="a", **rows)
    with pytest.raises(InputError, match=r"'m' .* has no rows of true class 'not b'"):
        equal_false_positives_difference(
            ["a", "b", "b", "b"],
            ["a", "b", "a", "b"],
            sensitive_features=list("ffmm"),
            absent="error",
        )


def test_groups_that_a_stratum_lacks_are_named():
    y, sex, job = (
        ["a", "b", "a", "b", "a"],
        ["f", "m", "f", "m", "f"],
        {"job": ["x", "x", "x", "x", "z"]},
    )
    found = demographic_parity_difference_by_class(
        y, sensitive_features={"sex": sex}, control_features=job
    )
    assert [(each.group, each.stratum, each.true_class) for each in found.absent] == [
        ("m", "job=z", None)
    ]
    assert found.as_dict() == {"a": 1.0, "b": 1.0}
    with pytest.raises(InputError, match=r"'m' .* has no rows in 'job=z'"):
        demographic_parity_difference(
            y, sensitive_features={"sex": sex}, control_features=job, absent="error"
        )


def test_where_nothing_can_be_compared_the_measure_is_refused():
    with pytest.raises(InputError, match="No true class has rows of two groups"):
        equalized_odds_difference(
            ["a", "a", "b"], ["a", "b", "a"], sensitive_features=["f", "f", "m"]
        )
    # as demographic parity
    assert (
        equalized_odds_difference(
            ["a", "a", "b"], ["a", "b", "a"], sensitive_features=["f", "f", "f"]
        )
        == 0
    )


def test_classes_that_are_never_predicted_or_have_no_column():
    y_true, groups = ["a", "a", "b", "b"], ["f", "m", "f", "m"]
    assert equal_opportunity_difference_by_class(
        y_true, ["b", "b", "b", "b"], sensitive_features=groups
    ).as_dict() == {"a": 0, "b": 0}
    columns = {"b": [0.2, 0.4, 0.5, 0.5], "c": [0.8, 0.6, 0.5, 0.5]}
    assert equal_opportunity_difference_by_class(
        y_true, columns, sensitive_features=groups
    ).as_dict() == {"a": 0, "b": 0}
    assert equalized_odds_difference(y_true, columns, sensitive_features=groups) == pytest.approx(
        0.2
    )
    with pytest.raises(
        InputError, match="None of the true classes 'a', 'b' is among the predicted ones 'yes'"
    ):
        equal_opportunity_difference(y_true, ["yes"] * 4, sensitive_features=groups)
    # needs no common names
    assert (
        equalized_odds_difference(y_true, ["yes", "no", "yes", "no"], sensitive_features=groups)
        == 1
    )


def test_columns_are_named_and_not_guessed():
    pd = pytest.importorskip("pandas")
    y_true, groups = ["low", "high", "low", "high", "mid", "mid"], ["f", "f", "m", "m", "f", "m"]
    soft = np.random.default_rng(0).dirichlet(np.ones(3), 6)
    named = equal_opportunity_difference(
        y_true, pd.DataFrame(soft, columns=["high", "low", "mid"]), sensitive_features=groups
    )
    assert equal_opportunity_difference(y_true, soft, sensitive_features=groups) == named
    ordered = pd.Series(pd.Categorical(y_true, ["low", "mid", "high"]))
    assert (
        equal_opportunity_difference(
            ordered, soft, sensitive_features=groups, classes=["high", "low", "mid"]
        )
        == named
    )
    with pytest.raises(InputError, match="in an order of its own"):
        equal_opportunity_difference(ordered, soft, sensitive_features=groups)
    with pytest.raises(ShapeError, match=r"y_pred has 3 columns, but y_true holds 2 classes"):
        equalized_odds_difference(["a", "a", "b", "b", "a", "b"], soft, sensitive_features=groups)
    with pytest.raises(UnseenError, match="'mid'"):
        equalized_odds_difference(
            y_true, y_true, sensitive_features=groups, classes=["low", "high"]
        )
    by_number = equal_opportunity_difference(
        [0, 1, 0, 1, 2, 2], dict(zip("012", soft.T, strict=True)), sensitive_features=groups
    )
    assert by_number == equal_opportunity_difference(
        [0, 1, 0, 1, 2, 2], soft, sensitive_features=groups
    )


def test_wrong_calls_are_refused():
    true, hard, soft, people, _, _ = table(1)
    pd = pytest.importorskip("pandas")
    for measure in (
        demographic_parity_difference,
        equalized_odds_difference,
        equal_opportunity_difference,
    ):
        with pytest.raises(ShapeError, match=r"the order is \(y_true, y_pred\)"):
            measure(soft, true, sensitive_features=people)
        with pytest.raises(LengthError, match="`y_true` has 119 rows, but `y_pred` has 120"):
            measure(true[1:], hard, sensitive_features=people)
        with pytest.raises(
            InputError, match=r"decimal number is no class.*probabilities of one class"
        ):
            measure(true, soft[:, 0], sensitive_features=people)
        with pytest.raises(RowLabelError):
            measure(
                pd.Series(true),
                hard,
                sensitive_features=pd.Series(people["sex"], index=range(1, 121)),
            )
        with pytest.raises(ParameterError, match="'report', 'error'"):
            measure(true, hard, sensitive_features=people, absent="drop")
        with pytest.raises(ParameterError, match="'between_groups', 'to_overall'"):
            measure(true, hard, sensitive_features=people, method="ratio")
        with pytest.raises(ParameterError, match="explained_variation"):
            measure(true, hard, sensitive_features=r2b.Continuous(np.arange(120.0), name="age"))


@pytest.mark.parametrize(
    ("families", "message"),
    [
        ("each", "families is 'each'"),
        ([], "families is"),
        (["age"], "names the column 'age', which is not among `sensitive_features`"),
        ([["sex", "sex"]], "names a column twice"),
        ([[]], "has no columns"),
        ([["sex", "vote"]], "crosses 'vote'"),
    ],
)
def test_families_that_cannot_be(families, message):
    features = {"sex": ["f", "m"], "vote": r2b.Membership([[0.5, 0.5], [0.1, 0.9]])}
    with pytest.raises(ParameterError, match=message):
        demographic_parity_difference(["a", "b"], sensitive_features=features, families=families)


def test_families_of_the_library_name_their_columns():
    true, hard, _, people, _, _ = table(2)
    wanted = [r2b.Family("sex", epsilon=0.1), r2b.Family(["sex", "race"])]
    same = equalized_odds_difference(
        true, hard, sensitive_features=people, families=["sex", ["sex", "race"]]
    )
    assert equalized_odds_difference(true, hard, sensitive_features=people, families=wanted) == same


def test_every_criterion_has_its_name_and_its_measure():
    assert get_args(CriterionName) == tuple(CRITERIA)
    for name in CRITERIA:
        measure = getattr(metrics, f"{name}_difference")
        rows = {"sensitive_features": ["f", "f", "m", "m"]}
        assert measure([0, 1, 0, 1], [0, 1, 0, 1], **rows) <= 1.0
        assert f"{name}_difference" in metrics.__all__
