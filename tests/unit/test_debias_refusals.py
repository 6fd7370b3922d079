"""Bad input is refused before anything is solved, with a typed error that is built from facts and
ends in a remedy, and nothing is changed.
"""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest

import r2b
from r2b import Family, errors
from r2b.errors import (
    EmptyError,
    InputError,
    LengthError,
    MissingValueError,
    MixedTypeError,
    ParameterError,
    ProbabilityError,
    R2BError,
    ShapeError,
    WeightError,
)

SEX, RACE, JOB = list("ffmmffmmfm"), list("abababbaab"), list("xxxxxyyyyy")
Y = list("ppqqpqpqqp")
PEOPLE = {"sex": SEX, "race": RACE}
TOWN = {"town": list("aaaaabbbcd")}
ABSENT = {"sex": list("ffmmffffff")}
FREE_CLASS = np.insert(np.random.default_rng(0).dirichlet([1, 1], 10), 1, 0.0, axis=1)
GROUPS = ["f", "f", "m", "m"]
CLASSES = ["a", "b", "a", "a"]
SOFT = np.array([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75], [0.0, 1.0]])


def with_entry(row, column, value):
    y = np.tile([0.0, 1.0], (10, 1))
    y[row] = [1.0, 0.0] if column else [0.0, 0.0]
    y[row, column] = value
    return y


def case(words, remedy, *facts, kind=ParameterError, **asked):
    """Words of the message and of its remedy, names among its facts, and what is asked."""
    return words, remedy, facts, kind, asked


REFUSED = {
    "a name instead of a list": case("sex", "['sex']", families="sex"),
    "a family outside a list": case("Family", "[", families=Family("sex")),
    "no such choice of families": case("sex x race", "marginal", "families", families="sex x race"),
    "families that are nothing": case("None", "list", "families", families=None),
    "an empty list of families": case(r"\[\]", "list", "families", families=[]),
    "a family without columns": case("no columns", "'sex', 'race'", "columns", families=[[]]),
    "a family of a number": case("3", "'sex'", families=[3]),
    "a family of nothing": case("None", "'sex'", families=["sex", None]),
    "a family of True": case("True", "'sex'", families=[True]),
    "a column that is not there": case(
        "'age'", "'sex', 'race'", "family", "columns", families=["age"]
    ),
    "a column named twice": case("twice", "once", "family", families=[["sex", "sex"]]),
    "a list in a list in a list": case("sex", "'sex', 'race'", "family", families=[[["sex"]]]),
    "a control column as a family": case(
        "'job'", "'sex'", "family", families=["job"], control_features={"job": JOB}
    ),
    "columns of a frame": case(
        "MultiIndex", "list", "families", families=pd.MultiIndex.from_tuples([("sex", "race")])
    ),
    "a true value": case("True", "list", "families", families=np.bool_(True)),
    "no such bound": case("difference", "to_overall", "bound", bound="difference"),
    "no such bound of a family": case(
        "rnge", "range", "bound", families=[Family("sex", bound="rnge")]
    ),
    "a negative epsilon of a family": case(
        "-0.1", "at least 0", "epsilon", families=[Family("sex", epsilon=-0.1)]
    ),
    "an epsilon for too many classes": case(
        r"\(3,\)", "2", "shape", families=[Family("sex", epsilon=[0, 0, 0])]
    ),
    "an epsilon by family": case(
        "class", "'p', 'q'", "missing", "unknown", epsilon={"sex": 0.1, "race": 0.2}
    ),
    "an epsilon that is no number": case("nan", "at least 0", "epsilon", epsilon=float("nan")),
    "a target off the simplex": case("1.1", "sum", "total", bound="target", target=[0.5, 0.6]),
    "a target below 0": case(
        "'p' is 1.2", "between 0 and 1", "value", bound="target", target=[1.2, -0.2]
    ),
    "a target of one number": case("0.5", "population", "target", bound="target", target=0.5),
    "a target that is no word": case(
        "overall", "population", "target", bound="target", target="overall"
    ),
    "no target": case("no target", "population", "family", bound="target"),
    "a target for a range": case("range", "bound='target'", "bound", target="population"),
    "a target of a family for a range": case(
        "target", "bound", families=[Family("sex", target=[0.5, 0.5])]
    ),
    "a class that no target names": case(
        "'q'", "'p', 'q'", "missing", bound="target", target={"p": 1.0}
    ),
    "targets that contradict": case(
        "contradict",
        "larger epsilon",
        "families",
        "class_name",
        families=[
            Family("sex", bound="target", target=[0.9, 0.1]),
            Family("race", bound="target", target=[0.1, 0.9]),
        ],
    ),
    "a ratio with an empty class": case(
        "class 1 is empty", "epsilon of 1", "family", y=FREE_CLASS, bound="ratio", epsilon=0.2
    ),
    "a ratio above 1": case("1.5", "no percentage", "epsilon", bound="ratio", epsilon=1.5),
    "a name in both": case(
        "'sex'", "Rename", "column", "arguments", kind=ShapeError, control_features={"sex": SEX}
    ),
    "a group absent from a stratum": case(
        "'job=y' has no rows of the group 'sex=m'",
        "absent='report'",
        "stratum",
        "group",
        kind=InputError,
        sensitive_features=ABSENT,
        control_features={"job": JOB},
        absent="error",
    ),
    "strata without a second group": case(
        "nothing to compare",
        "coarser",
        "control_features",
        sensitive_features={"sex": list("fffffmmmmm")},
        control_features={"job": JOB},
    ),
    "no such choice for absent groups": case(
        "ignore", "'report', 'error'", "absent", absent="ignore"
    ),
    "small groups": case(
        r"'town=c' \(1 row\)",
        "merge",
        "groups",
        "counts",
        kind=InputError,
        sensitive_features=TOWN,
        min_group_size=2,
    ),
    "small groups within a stratum": case(
        "job=x", "merge", "groups", kind=InputError, control_features={"job": JOB}, min_group_size=2
    ),
    "small groups too small together": case(
        "2 rows even when put together",
        "Lower",
        "groups",
        kind=InputError,
        sensitive_features=TOWN,
        min_group_size=3,
        small_groups="merge",
    ),
    "a group already called other": case(
        "'other'",
        "Rename",
        "group",
        kind=InputError,
        sensitive_features=["other"] * 5 + list("abcab"),
        min_group_size=3,
        small_groups="merge",
    ),
    "half a row at least": case("2.5", "fewest rows", "min_group_size", min_group_size=2.5),
    "a value called missing": case(
        "'missing'",
        "Rename",
        "row",
        kind=InputError,
        sensitive_features=["missing", None, *SEX[2:]],
        missing="group",
    ),
    "a missing value": case(
        "'sex'",
        "exclude",
        "row",
        "count",
        kind=MissingValueError,
        sensitive_features={"sex": [None, *SEX[1:]]},
    ),
    "no value at all": case(
        "10 of 10",
        "column",
        "count",
        kind=MissingValueError,
        sensitive_features={"sex": [None] * 10},
        missing="exclude",
    ),
    "no row with both values": case(
        "'a x b'",
        "group",
        "family",
        kind=InputError,
        sensitive_features={"a": [None, "u"] * 5, "b": ["v", None] * 5},
        missing="exclude",
    ),
    "a group without weight": case(
        "sex=f",
        "weight",
        "group",
        kind=WeightError,
        sample_weight=[0.0 if each == "f" else 1.0 for each in SEX],
    ),
    "costs of the wrong shape": case(r"\(3, 3\)", "2 x 2", "shape", costs=np.ones((3, 3))),
    "a change for nothing": case("0.0", "above 0", "old", "new", costs=[[0, 0], [1, 0]]),
    "a price for keeping a label": case("class 'p'", "Keeping", "cost", costs=[[1, 1], [1, 1]]),
    "costs that are words": case("'high'", "'ordinal'", costs="high"),
    "an infinite cost": case("inf", "finite", "cost", costs=[[0, np.inf], [1, 0]]),
    "no such objective": case("agree", "'distance', 'agreement'", "objective", objective="agree"),
    "a lam of 0": case("lam is 0", "above 0", "lam", lam=0),
    "two levels of columns": case(
        "2 levels",
        "Flatten",
        "argument",
        kind=ShapeError,
        sensitive_features=pd.DataFrame({("s", "sex"): SEX, ("s", "race"): RACE}),
    ),
    "an index of two levels": case(
        "sensitive_features",
        "",
        kind=R2BError,
        sensitive_features=pd.MultiIndex.from_arrays([SEX, RACE]),
    ),
    "infinite probability": case(
        "row 2.*inf", "", kind=ProbabilityError, y=with_entry(2, 1, np.inf)
    ),
    "negative probability": case(
        "row 3.*-0.25.*negative", "", kind=ProbabilityError, y=with_entry(3, 0, -0.25)
    ),
    "row sum": case("row 1.*0.9", "normalize=True", kind=ProbabilityError, y=with_entry(1, 0, 0.9)),
    "row of zeros, to be normalised": case(
        "[Rr]ow 1.*every class", "", kind=ProbabilityError, y=with_entry(1, 0, 0.0), normalize=True
    ),
    "lengths of labels and groups": case(
        "10 rows.*3", "", kind=LengthError, sensitive_features=SEX[:3]
    ),
    "one class": case("'p'.*two classes", "", kind=EmptyError, y=["p"] * 10),
    "one column of probabilities": case("single column", "", kind=EmptyError, y=np.ones((10, 1))),
    "no rows": case("no rows", "", kind=EmptyError, y=[], sensitive_features=[]),
    "a single number": case("y", "", kind=InputError, y=3),
    "mixed types of groups": case(
        "str.*int", "", kind=MixedTypeError, sensitive_features=np.array(["f", 1] * 5, dtype=object)
    ),
    "epsilon of a class": case("'q'.*-0.2|-0.2.*'q'", "", epsilon=[0.1, -0.2]),
    "epsilon text": case("'small'", "", epsilon="small"),
    "lam infinite": case("lam.*inf", "", lam=np.inf),
    "tol zero": case("tol", "", tol=0.0),
    "max_iter negative": case("max_iter.*-1", "", max_iter=-1),
    "time_limit text": case("time_limit.*1 minute", "", time_limit="1 minute"),
    "threads zero": case("threads", "", threads=0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_the_facts_and_a_remedy(name):
    words, remedy, facts, kind, asked = REFUSED[name]
    arguments = {"y": Y, "sensitive_features": PEOPLE} | asked
    kept = copy.deepcopy(arguments)
    with pytest.raises(kind, match=words) as raised:
        r2b.debias(**arguments)
    error = raised.value
    assert isinstance(error, errors.R2BError) and isinstance(error, ValueError)
    assert str(error) == f"{error.problem} {error.remedy}" and error.problem.endswith(".")
    assert remedy in error.remedy
    assert error.remedy.endswith(".")
    assert error.remedy[0].isupper()
    assert len(error.remedy) > 15
    assert set(facts) <= set(error.facts)
    for key, value in kept.items():
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, arguments[key], equal_nan=value.dtype != object)


def test_normalize_is_the_remedy_that_it_says():
    y = SOFT * [[2.0], [0.9], [1.0], [3.0]]
    fair = r2b.debias(y, sensitive_features=GROUPS, normalize=True)
    same = r2b.debias(y / y.sum(axis=1, keepdims=True), sensitive_features=GROUPS)
    assert fair.status.ok and np.abs(fair.soft_labels - same.soft_labels).max() < 1e-12
    assert y[3].sum() == 3.0  # on a copy


@pytest.mark.parametrize(
    ("y", "groups", "kind", "pieces"),
    [
        (["c"], ["f"], errors.UnseenError, ["'c'", "'a', 'b'"]),
        (["a", "A"], ["f", "f"], errors.UnseenError, ["Row 1", "'A'"]),
        (["a"], ["x"], errors.UnseenError, ["'x'", "'f', 'm'"]),
        (["a"], [None], errors.MissingValueError, ["row 0"]),
        (["a", "b"], ["f"], errors.LengthError, ["2 rows", "1"]),
        ([[0.5, 0.5]], ["f"], errors.ShapeError, ["probabilities", "class labels"]),
        ([], [], errors.EmptyError, ["no rows"]),
    ],
)
def test_new_rows_that_do_not_fit_are_refused(y, groups, kind, pieces):
    fair = r2b.debias(CLASSES, sensitive_features=GROUPS)
    with pytest.raises(kind) as raised:
        fair.transform(y, sensitive_features=groups)
    assert [piece for piece in pieces if piece not in str(raised.value)] == []
    assert raised.value.remedy.endswith(".")


def test_new_probabilities_that_do_not_fit_are_refused():
    fair = r2b.debias(SOFT, sensitive_features=GROUPS)
    with pytest.raises(errors.UnseenError, match="columns 0, 1, 2, but"):
        fair.transform([[0.2, 0.3, 0.5]], sensitive_features=["f"])
    with pytest.raises(errors.ProbabilityError, match=r"row 0 sums to 0\.9"):
        fair.transform([[0.4, 0.5]], sensitive_features=["f"])
    normalised = fair.transform([[4.0, 5.0]], sensitive_features=["f"], normalize=True)
    assert (
        np.abs(normalised - fair.transform([[4 / 9, 5 / 9]], sensitive_features=["f"])).max()
        < 1e-12
    )
    with pytest.raises(errors.ShapeError, match="class labels"):
        fair.transform(["a"], sensitive_features=["f"])


def test_a_column_of_scores_is_not_a_column_of_classes():
    """Thousands of values that occur once each would be solved for as classes, at groups x
    classes^2 numbers.
    """
    scores = np.random.default_rng(0).random(5000)
    with pytest.raises(
        errors.InputError, match=r"5,000 distinct values in 5,000 rows.*pass two columns"
    ):
        r2b.debias((1e9 * scores).astype(int), sensitive_features=np.arange(5000) % 2)
    soft = np.column_stack([1 - scores, scores])
    assert r2b.debias(soft, sensitive_features=np.arange(5000) % 2).status.ok


@pytest.mark.parametrize("question", [r2b.debias, r2b.audit])
def test_a_matrix_of_several_labels_is_pointed_to_multilabel(question):
    tags = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 0]])
    with pytest.raises(errors.ProbabilityError, match=r"several labels.*multilabel=True") as caught:
        question(tags, sensitive_features=GROUPS)
    # dividing rows by their sums is for votes on one class
    assert caught.value.remedy.index("multilabel=True") < caught.value.remedy.index("normalize")
    assert question(tags, sensitive_features=GROUPS, multilabel=True)
