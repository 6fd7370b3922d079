"""Data that are rarely meant so: one typed warning per call that names column and values, on every
way in.
"""

import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cli_calls import Shell

import r2b
from r2b.errors import DataWarning, InputError, ParameterError
from r2b.report import gather
from r2b.sklearn import LabelDebiaser

N = 400
RNG = np.random.default_rng(0)
Y = RNG.choice(["no", "yes"], N)
SEX = np.where(np.arange(N) % 2 == 0, "f", "m")
PLAIN = {"sex": SEX}


def kinds(**given):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        r2b.debias(given.pop("y", Y), **{"sensitive_features": PLAIN, "epsilon": 0.5, **given})
    found = [each.message for each in caught if isinstance(each.message, DataWarning)]
    assert len(found) <= 1
    return {doubt.kind: doubt for doubt in found[0].facts["doubts"]} if found else {}


def few(*values, rows=3):
    """Two groups of half the rows each, but for some rows of further values."""
    column = SEX.astype(object)
    for place, value in enumerate(values):
        column[place * rows : (place + 1) * rows] = value
    return {"sex": column.tolist()}


def test_nothing_is_said_where_nothing_is_doubtful():
    assert kinds() == {}
    assert kinds(sensitive_features={"sex": SEX, "grade": np.arange(N) % 12}) == {}
    assert (
        kinds(sensitive_features={"dose": np.array([0.5, 1.0, 1.5, 2.0])[np.arange(N) % 4]}) == {}
    )


def test_one_group():
    found = kinds(sensitive_features={"sex": ["f"] * N})
    assert list(found) == ["one group"]
    assert found["one group"].values == ("f",)
    assert found["one group"].column == "sex"
    assert "nothing to compare" in found["one group"].problem
    assert kinds(sensitive_features={"sex": ["f"] * N}, bound="target", target="population") == {}


@pytest.mark.parametrize(
    "column",
    [RNG.random(N).round(4), RNG.random(N).round(4).astype(str).tolist()],
    ids=["numbers", "text"],
)
def test_groups_of_decimal_numbers(column):
    found = kinds(sensitive_features={"score": column})
    assert "decimal numbers" in found and found["decimal numbers"].column == "score"
    assert f"{len(np.unique(column))} different numbers" in found["decimal numbers"].problem
    assert "r2b.Continuous" in found["decimal numbers"].remedy
    assert "decimal numbers" not in kinds(
        sensitive_features={"score": r2b.Continuous(np.asarray(column, float))}
    )


def test_small_groups():
    found = kinds(sensitive_features=few("x", "y"))["small groups"]
    assert set(found.values) == {"x", "y"}
    assert "2 groups have fewer than 10 rows" in found.problem
    assert "'sex=x' (3)" in found.problem
    assert "small_groups='exclude'" in found.remedy
    assert "small groups" not in kinds(sensitive_features=few("x", rows=10))
    crossed = {"sex": SEX, "race": np.where(np.arange(N) < 5, "a", "b")}
    assert len(kinds(sensitive_features=crossed, families="both")["small groups"].values) == 3
    assert "small groups" not in kinds(
        sensitive_features=few("x", "y"), min_group_size=6, small_groups="exclude"
    )


@pytest.mark.parametrize("value", ["?", "Unknown", "N/A", " ", "none", "-", "NaN"])
def test_placeholders(value):
    found = kinds(sensitive_features=few(value, rows=20))
    assert found["placeholders"].values == (value,)
    assert found["placeholders"].column == "sex"
    assert repr(value) in found["placeholders"].problem
    within = kinds(control_features={"job": ["clerk", "boss", value, value] * (N // 4)})
    assert within["placeholders"].column == "job"


def test_values_that_look_alike():
    found = kinds(sensitive_features=few("M", "m ", rows=20))["look alike"]
    assert found.column == "sex"
    assert found.values == ("M", "m", "m ")
    assert "'M' and 'm' and 'm '" in found.problem
    labels = kinds(y=np.where(np.arange(N) % 3 == 0, "Yes", Y).tolist())
    assert labels["look alike"].values == ("Yes", "yes")
    assert "The label" in labels["look alike"].problem


def test_one_warning_lists_everything_and_keeps_its_facts():
    with pytest.warns(DataWarning) as caught:
        r2b.debias(Y, sensitive_features=few("?", "M", "m "), epsilon=0.5)
    assert len(caught) == 1 and caught[0].filename == __file__
    message = caught[0].message
    for part in ("3 groups have fewer", "'?'", "'M' and 'm' and 'm '"):
        assert part in str(message)
    again = pickle.loads(pickle.dumps(message))
    assert str(again) == str(message) and again.facts == message.facts


def _frame():
    return pd.DataFrame({"y": Y, **few("?", "x")})


def _table(columns=None):
    return pa.table(columns or {"y": Y, **few("?", "x")})


CALLS = {
    "debias": lambda: r2b.debias(Y, sensitive_features=few("?", "x"), epsilon=0.5),
    "audit": lambda: r2b.audit(Y, sensitive_features=few("?", "x"), n_permutations=0, n_boot=0),
    "frontier": lambda: r2b.frontier(Y, sensitive_features=few("?", "x"), epsilons=[0.5, 0.6]),
    "smallest_epsilon": lambda: r2b.smallest_epsilon(
        Y, sensitive_features=few("?", "x"), changes=0.5
    ),
    "compare": lambda: r2b.compare(
        Y, sensitive_features=few("?", "x"), choices={"a": {"epsilon": 0.5}, "b": {"epsilon": 0.6}}
    ),
    "scan": lambda: r2b.scan(_table()).debias(label="y", sensitive_features="sex", epsilon=0.5),
    "scan, audit": lambda: r2b.scan(_table()).audit(
        label="y", sensitive_features="sex", n_permutations=0, n_boot=0
    ),
    "scan, probabilities": lambda: r2b.scan(
        _table({"a": [0.5] * N, "b": [0.5] * N, **few("?", "x")})
    ).debias(label=["a", "b"], sensitive_features="sex", epsilon=0.5),
    "sklearn": lambda: LabelDebiaser(epsilon=0.5).fit(Y, sensitive_features=few("?", "x")),
    "report": lambda: gather(Y, sensitive_features=few("?", "x"), epsilon=0.5),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_way_in_warns_once(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[call]()
    told = [each.message for each in caught if issubclass(each.category, DataWarning)]
    assert len(told) == 1 and "'?'" in str(told[0]) and "'sex=x' (3)" in str(told[0])


@pytest.mark.parametrize(
    "words", [("audit",), ("debias", "-o", "fair.csv"), ("frontier", "--epsilons", "0.4,0.5")]
)
def test_the_command_line_says_it(capsys, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    shell = Shell(capsys, tmp_path)
    _frame().to_csv("people.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as python -W error does
        done = shell(words[0], "people.csv", "--label", "y", "--sensitive", "sex", *words[1:])
        quiet = shell(
            words[0],
            "people.csv",
            "--label",
            "y",
            "--sensitive",
            "sex",
            *words[1:],
            "-q",
            *(["--force"] if "-o" in words else []),
        )
    assert done.code == quiet.code == 0 and quiet.err == ""
    (note,) = [line for line in done.err.splitlines() if line.startswith("Note:")]
    assert "'?'" in note
    assert "--missing" in note
    assert "--small-groups exclude" in note
    assert "DataWarning" not in note


# Small groups that are left out.


def far():
    sex = np.array(few("x", "z", rows=6)["sex"])
    y = np.where(
        sex == "f",
        RNG.choice(["no", "yes"], N, p=[0.7, 0.3]),
        RNG.choice(["no", "yes"], N, p=[0.3, 0.7]),
    )
    return y, sex


def test_small_groups_are_left_out_and_keep_their_labels(tmp_path):
    y, sex = far()
    fair = r2b.debias(
        y, sensitive_features=sex, epsilon=0.01, min_group_size=10, small_groups="exclude"
    )
    small = np.isin(sex, ["x", "z"])
    assert fair.status.value == "solved" and fair.certificate.holds
    assert fair.groups.tolist() == ["f", "m"] and fair.families.excluded == ("x", "z")
    np.testing.assert_array_equal(
        fair.soft_labels[small], np.stack([y[small] == "no", y[small] == "yes"], axis=1)
    )
    np.testing.assert_array_equal(np.asarray(fair.round())[small], y[small])
    alone = r2b.debias(y[~small], sensitive_features=sex[~small], epsilon=0.01)
    np.testing.assert_allclose(fair.soft_labels[~small], alone.soft_labels, atol=1e-9)
    assert fair.families.left_out == pytest.approx(small.mean())
    assert "left out          3.00 % of the rows, in no group, with labels as they were" in str(
        fair
    )
    assert "too small         x; z" in str(fair)
    fair.save(tmp_path / "fair.json")
    again = r2b.load(tmp_path / "fair.json")
    assert again.families.excluded == ("x", "z")
    np.testing.assert_allclose(
        again.transform(y, sensitive_features=sex), fair.soft_labels, atol=1e-12
    )


def test_small_groups_of_strata_and_families():
    y, sex = far()
    job = np.where(np.arange(N) < 12, "rare", np.where(np.arange(N) % 3 == 0, "clerk", "boss"))
    within = r2b.debias(
        y,
        sensitive_features={"sex": sex},
        control_features={"job": job},
        epsilon=0.05,
        min_group_size=10,
        small_groups="exclude",
    )
    assert "sex=x | job=rare" in within.families.excluded
    assert not any("rare" in family.name for family in within.certificate.families)
    rare = job == "rare"
    np.testing.assert_array_equal(
        within.soft_labels[rare].argmax(axis=1), (y[rare] == "yes").astype(int)
    )
    race = np.where(np.arange(N) % 5 < 2, "a", "b")
    both = r2b.debias(
        y,
        sensitive_features={"sex": sex, "race": race},
        families="both",
        epsilon=0.05,
        min_group_size=10,
        small_groups="exclude",
    )
    # their rows still count by race
    assert both.families.left_out == 0 and "sex=x" in both.families.excluded


def test_what_cannot_be_left_out():
    y, sex = far()
    with pytest.raises(
        ParameterError, match=r"min_group_size is 0, so that no group is small.*min_group_size=10"
    ):
        r2b.debias(y, sensitive_features=sex, small_groups="exclude")
    with pytest.raises(InputError, match=r"4 groups of fewer than 1000 rows.*Lower"):
        r2b.debias(y, sensitive_features=sex, min_group_size=1000, small_groups="exclude")
    with pytest.raises(ParameterError, match=r"left out and keep their labels, but lam is 3\.0"):
        r2b.debias(y, sensitive_features=sex, min_group_size=10, small_groups="exclude", lam=3.0)
