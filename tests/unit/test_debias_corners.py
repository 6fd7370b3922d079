"""Corners that users meet: odd names, extreme weights, questions about other columns, keys and
seeds of every kind.
"""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import r2b
from r2b import errors
from r2b.metrics import demographic_parity_difference
from r2b.metrics.chance import sampling_level

RNG = np.random.default_rng(5)
SEX = RNG.choice(["f", "m"], 300)
RACE = RNG.choice(["p", "q", "r"], 300)
Y = np.where(RNG.random(300) < 0.3 * (SEX == "m"), "a", RNG.choice(["a", "b", "c"], 300))


@pytest.fixture(scope="module")
def fair():
    return r2b.debias(Y, sensitive_features=SEX, epsilon=0.01)


def test_names_of_any_kind_stay_on_their_line():
    y, sex = (
        np.where(Y == "a", "two\nlines", np.where(Y == "b", "x" * 5000, "c")),
        np.where(SEX == "f", "f\t\r", "m\x1b[31m"),
    )
    texts = [
        str(r2b.debias(y, sensitive_features={"s\nex": sex}, epsilon=0.01, families="both")),
        str(
            r2b.audit(
                y,
                sensitive_features={"s\nex": sex},
                control_features={"r\ace": RACE},
                n_permutations=5,
                n_boot=5,
            )
        ),
        str(r2b.compare(y, sensitive_features=sex, choices={"a\nb": {}, "c": {}})),
    ]
    for text in texts:
        assert all(line.isprintable() and len(line) < 1500 for line in text.split("\n"))
        assert len(text.split("\n")) < 60
    assert "two\\nlines" in texts[0] and "s\\nex" in texts[1] and "a\\nb" in texts[2]


def test_the_largest_changes_are_those_of_the_whole_channel(monkeypatch):
    fair = r2b.debias(Y, sensitive_features={"s": SEX, "r": RACE}, epsilon=0.01)
    wanted = fair.largest_changes(1000)
    flow = []
    for cell, name in enumerate(fair.cells):
        for old, label in enumerate(fair.classes):
            mine = (label == Y) & (
                np.char.add(np.char.add("s=", SEX), np.char.add(", r=", RACE)) == name
            )
            flow += [
                (mine.sum() * fair.channel[cell, old, new], name, label, fair.classes[new])
                for new in range(3)
                if new != old
            ]
    flow = [each for each in sorted(flow, key=lambda each: -each[0]) if each[0] > 1e-6]
    assert [change.weight for change in wanted] == pytest.approx([each[0] for each in flow])
    assert [(c.group, c.old, c.new) for c in wanted[:5]] == [each[1:] for each in flow[:5]]
    monkeypatch.setattr("r2b._labels.summary.FLOWS_AT_ONCE", 1)  # part by part, the same
    assert fair.largest_changes(1000) == wanted and fair.largest_changes(4) == wanted[:4]
    assert fair.largest_changes(0) == fair.largest_changes(-1) == []


def test_choices_may_have_columns_of_their_own():
    choices = {
        "sex": {},
        "race": {"sensitive_features": RACE},
        "within": {"control_features": RACE},
        "weighted": {"sample_weight": np.arange(300)},
    }
    found = r2b.compare(Y, sensitive_features=SEX, epsilon=0.01, choices=choices)
    for row, fair in enumerate(found.labels.values()):
        x = fair.soft_labels
        weight = np.arange(300.0)
        sex = np.ptp([x[s == SEX].mean(axis=0) for s in "fm"], axis=0)
        race = np.ptp([x[r == RACE].mean(axis=0) for r in "pqr"], axis=0)
        within = [
            np.ptp([x[(s == SEX) & (r == RACE)].mean(axis=0) for s in "fm"], axis=0) for r in "pqr"
        ]
        weighted = np.ptp(
            [np.average(x[s == SEX], axis=0, weights=weight[s == SEX]) for s in "fm"], axis=0
        )
        wanted = [max(np.max(each) - 0.01, 0.0) for each in (sex, race, within, weighted)]
        assert found.violation[row] == pytest.approx(wanted, abs=1e-9)
    assert found.meets("sex", "sex") and not found.meets("race", "sex")


def test_comparisons_refuse_what_they_cannot_name():
    with pytest.raises(errors.ParameterError, match=r"1, '1'.*name of its own"):
        r2b.compare(Y, sensitive_features=SEX, choices={1: {}, "1": {}})
    with pytest.raises(errors.ParameterError, match=r"'strict': 0\.1.*'epsilon'"):
        r2b.compare(Y, sensitive_features=SEX, choices={"strict": 0.1})
    with pytest.raises(errors.ParameterError, match=r"name is 'lax'.*'strict'"):
        r2b.compare(Y, sensitive_features=SEX, choices={"strict": {}}).meets("strict", "lax")


def test_keys_come_in_every_form(fair):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    numbers = np.arange(300)
    wanted = fair.sample(key=numbers)
    for key in (
        numbers.tolist(),
        {"id": numbers},
        pandas.Series(numbers, dtype="Int64"),
        polars.DataFrame({"id": numbers}),
        [numbers],
    ):
        assert np.array_equal(fair.sample(key=key), wanted)
    two = fair.sample(key=[numbers, numbers])
    assert np.array_equal(fair.sample(key=pandas.DataFrame({"a": numbers, "b": numbers})), two)
    assert np.array_equal(fair.sample(key=np.stack([numbers, numbers], axis=1)), two)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(int(day)) for day in numbers]
    assert np.array_equal(fair.sample(key=days), fair.sample(key=np.array(days, dtype="M8[D]")))


def test_keys_that_tell_nothing_are_refused(fair):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    gap = [1, 2, None, *range(3, 300)]
    for key in (
        [None] * 300,
        pandas.Series(gap, dtype="Int64"),
        polars.Series(gap),
        pandas.Series(gap, dtype="object"),
    ):
        with pytest.raises(errors.MissingValueError, match=r"Row \d has no value of the key"):
            fair.sample(key=key)
    for key in (5, "id", [], [[]]):
        with pytest.raises(errors.InputError, match="`key`"):
            fair.round(key=key)
    with pytest.raises(errors.LengthError, match="`key` has 2"):
        fair.round(key=[1, 2])
    with pytest.raises(errors.LengthError, match="`y` has 300 rows, but `key` has 301"):
        fair.round(key=[np.arange(300), np.arange(301)])


@pytest.mark.parametrize("seed", ["x", -1, 1.5, {}])
def test_what_is_no_seed_is_refused(fair, seed):
    for call in (
        fair.sample,
        fair.round,
        lambda random_state: sampling_level(Y, sensitive_features=SEX, random_state=random_state),
    ):
        with pytest.raises(errors.ParameterError, match=r"random_state is .*whole number"):
            call(random_state=seed)
    with pytest.raises(errors.ParameterError, match="random_state"):
        fair.transform(Y, sensitive_features=SEX, form="round", random_state=seed)


def test_forms_that_cannot_be_made_are_refused(fair):
    with pytest.raises(errors.ParameterError, match="'float32'"):
        fair.soft("x")
    for size in (0, 1.5, "x"):
        with pytest.raises(errors.ParameterError, match=f"block_rows is {size!r}"):
            fair.iter_soft(size)


@pytest.mark.parametrize("place", ["nowhere/fair.json", "folder"])
def test_a_file_that_cannot_be_written_is_called_by_its_name(fair, tmp_path, place):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=place) as caught:
        fair.save(tmp_path / place)
    assert caught.value.filename == str(tmp_path / place)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder"]


REFUSED = {
    "probability too large for a float": (
        {"y": [[10**400, 0]] * 300},
        errors.InputError,
        "row 0 has the probability inf",
    ),
    "epsilon too large for a float": ({"epsilon": 10**400}, errors.ParameterError, "not a number"),
    "progress that is no function": (
        {"progress": 1},
        errors.ParameterError,
        r"progress is 1\. Pass a function",
    ),
    "threads true": ({"threads": True}, errors.ParameterError, r"threads is True.*at least 1"),
    "costs of a class by name": (
        {"costs": [[0, 1, 0], [1, 0, 1], [1, 1, 0]]},
        errors.ParameterError,
        r"It costs 0\.0 to turn class 'a' into class 'c'",
    ),
    "mixed types in a list": (
        {"y": [1, "a"] * 150},
        errors.MixedTypeError,
        r"\[str\(v\) for v in column\]",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_with_a_remedy_that_works(case):
    arguments, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        r2b.debias(**({"y": Y, "sensitive_features": SEX} | arguments))


def test_costs_go_by_the_names_of_classes_not_by_how_they_are_written():
    pandas = pytest.importorskip("pandas")
    costs = pandas.DataFrame([[0.0, 1.0], [2.0, 0.0]], index=["1", "2"], columns=["1", "2"])
    with pytest.raises(errors.ParameterError, match="but the classes are of another type"):
        r2b.debias(np.where(Y == "a", 1, 2), sensitive_features=SEX, costs=costs)
    costs.index, costs.columns = [2, 1], [2, 1]
    fair = r2b.debias(np.where(Y == "a", 1, 2), sensitive_features=SEX, costs=costs)
    assert fair.costs.tolist() == [[0.0, 2.0], [1.0, 0.0]]


@pytest.mark.parametrize("kind", [np.array, list, lambda y: np.array(y, dtype=object)])
def test_probabilities_of_one_class_are_no_classes_and_both_ways_out_work(kind):
    scores, groups = [0.1, 0.7, 0.3, 0.9], list("aabb")
    for call in (r2b.debias, r2b.audit, demographic_parity_difference):
        with pytest.raises(errors.InputError, match=r"such as 0\.1; a decimal.*column_stack.*text"):
            call(kind(scores), sensitive_features=groups)
    both = np.column_stack([1 - np.array(scores), scores])
    assert demographic_parity_difference(both, sensitive_features=groups) == pytest.approx(0.2)
    assert (
        demographic_parity_difference([str(each) for each in scores], sensitive_features=groups)
        == 0.5
    )
    for ratings in ([1.0, 2.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0]):
        assert demographic_parity_difference(kind(ratings), sensitive_features=groups) == 0.5


def test_masked_numbers_are_missing_numbers():
    masked = np.ma.array([0.5, 0.5, 0.2, 0.1], mask=[False, False, True, False])
    with pytest.raises(errors.WeightError, match="The weight of row 2 in sample_weight is nan"):
        r2b.debias(list("abab"), sensitive_features=list("aabb"), sample_weight=masked)
    with pytest.raises(errors.InputError, match="row 2"):
        r2b.debias({"x": masked, "y": 1 - masked.data}, sensitive_features=list("aabb"))


@pytest.mark.parametrize("objective", ["distance", "agreement"])
def test_rows_without_weight_may_be_cells_of_their_own(objective):
    soft = [[1.0, 0.0], [0.2, 0.8], [0.0, 1.0]]
    uncertain = r2b.Membership([[0.6, 0.4], [0.1, 0.9], [0.9, 0.1]], groups=["p", "q"])
    crossed = {"a": ["x", "x", "y"], "b": ["u", "v", "v"]}
    for groups, families in ((uncertain, "marginal"), (crossed, "marginal")):
        fair = r2b.debias(
            soft,
            sensitive_features=groups,
            families=families,
            sample_weight=[1, 0, 1],
            epsilon=0.05,
            objective=objective,
        )
        assert fair.status is r2b.Status.SOLVED and fair.certificate.disparity < 0.05 + 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_equal_costs_of_all_changes_are_no_costs(seed):
    """Probabilities of 1e-20 beside 0 must not be taken for choices."""
    rng = np.random.default_rng(seed)
    soft, groups = rng.dirichlet([0.1, 0.1], 30), rng.integers(0, 2, 30)
    free, paid = (
        r2b.debias(
            soft, sensitive_features=groups, objective="agreement", costs=costs, epsilon=0.05
        )
        for costs in (None, [[0, 1], [1, 0]])
    )
    assert paid.status == free.status
    assert paid.soft_labels == pytest.approx(free.soft_labels, abs=1e-9)


def test_values_that_are_returned_name_groups_and_classes():
    days = pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01"] * 10))
    y = list("abbab" * 4)
    day = r2b.debias(y, sensitive_features=days, epsilon=0.1).groups[0]
    of_day = r2b.debias(
        y, sensitive_features=days, bound="to_reference", reference=day, epsilon=0.1
    )
    classes = r2b.debias(days, sensitive_features=y, epsilon=0.1).classes
    by_class = r2b.debias(days, sensitive_features=y, epsilon=dict.fromkeys(classes, 0.1))
    assert of_day.certificate.excess == by_class.certificate.excess == 0


def test_views_of_text_are_read_and_an_epsilon_of_none_is_refused():
    view = pa.array(["a", "b"] * 5, pa.string_view())
    fair = r2b.debias(view, sensitive_features=pa.table({"s": view}), epsilon=0.5)
    assert fair.certificate.excess == 0
    with pytest.raises(errors.ParameterError, match="`epsilon` is None"):
        r2b.debias(["a", "b"], sensitive_features=["x", "y"], epsilon=None)


def test_an_outcome_may_count_no_class():
    soft = [[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]
    for more in ({"objective": "agreement"}, {"lam": 0.05}):
        fair = r2b.debias(soft, sensitive_features=["a", "b"], outcomes=[[0, 0, 0]], **more)
        assert fair.certificate.excess == 0 and np.isfinite(fair.certificate.relative_gap)
