"""What cannot be asked is refused before anything is solved, with the facts and what to do about
it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import r2b
from r2b.errors import (
    InputError,
    MissingValueError,
    ParameterError,
    R2BError,
    ShapeError,
    WeightError,
)

SEX, RACE, JOB = list("ffmmffmmfm"), list("abababbaab"), list("xxxxxyyyyy")
Y = list("ppqqpqpqqp")
PEOPLE = {"sex": SEX, "race": RACE}
Family = r2b.Family
TOWN = {"town": list("aaaaabbbcd")}
ABSENT = {"sex": list("ffmmffffff")}
FREE_CLASS = np.insert(np.random.default_rng(0).dirichlet([1, 1], 10), 1, 0.0, axis=1)


def case(words, remedy, *facts, kind=ParameterError, y=Y, **asked):
    """Words of the message and of its remedy, names among its facts, and what is asked."""
    return words, remedy, facts, kind, y, {"sensitive_features": PEOPLE} | asked


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
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name):
    words, remedy, facts, kind, labels, asked = REFUSED[name]
    with pytest.raises(kind, match=words) as caught:
        r2b.debias(labels, **asked)
    assert remedy in caught.value.remedy and caught.value.remedy.endswith(".")
    assert set(facts) <= set(caught.value.facts)


def test_targets_that_contradict_on_almost_the_same_rows_are_refused_or_said_to_be_infeasible():
    # One row has no race: what holds for nine of ten rows still contradicts what holds for ten.
    families = [
        Family("sex", bound="target", target=[0.9, 0.1]),
        Family("race", bound="target", target=[0.1, 0.9]),
    ]
    people = {"sex": SEX, "race": [None, *RACE[1:]]}
    with pytest.warns(r2b.errors.NotSolvedWarning, match="infeasible"):
        fair = r2b.debias(Y, sensitive_features=people, missing="exclude", families=families)
    assert fair.status is r2b.Status.INFEASIBLE and not fair.certificate.holds


# Numbers with names must go by them: a position would give a class the bound of another without a
# word.
BACKWARDS = ["q", "p"]


def test_a_target_with_class_names_goes_by_them():
    by_name = r2b.debias(Y, sensitive_features=PEOPLE, bound="target", target={"p": 0.3, "q": 0.7})
    series = r2b.debias(
        Y, sensitive_features=PEOPLE, bound="target", target=pd.Series([0.7, 0.3], index=BACKWARDS)
    )
    np.testing.assert_allclose(series.certificate.means, by_name.certificate.means, atol=1e-9)


def test_absent_groups_are_listed_and_their_stratum_does_without_them():
    people = {"sex": list("ffmmffffmf"), "race": list("abababbaab")}
    fair = r2b.debias(
        Y, sensitive_features=people, control_features={"job": JOB}, families="crossed"
    )
    assert fair.certificate.holds
    assert {(each.family, each.stratum, each.group) for each in fair.families.absent} == {
        ("sex x race", "job=y", "sex=m, race=b")
    }
    assert sum("job=y" in name for name in fair.groups) == 3


def test_a_ratio_of_an_empty_class_is_free_on_request():
    fair = r2b.debias(FREE_CLASS, sensitive_features=SEX, bound="ratio", epsilon=[0.2, 1.0, 0.2])
    assert fair.certificate.holds
    means = np.array([fair.soft_labels[np.array(SEX) == each].mean(axis=0) for each in "fm"])[
        :, [0, 2]
    ]
    assert (means.min(axis=0) >= 0.8 * means.max(axis=0) - 1e-9).all()


def test_what_a_user_may_write_in_other_ways_is_understood():
    usual = r2b.debias(Y, sensitive_features=PEOPLE, families=["sex", ["sex", "race"]])
    for families in [
        ("sex", ("sex", "race")),
        [Family("sex"), Family(("sex", "race"))],
        [np.str_("sex"), Family(np.array(["sex", "race"]))],
    ]:
        np.testing.assert_array_equal(
            r2b.debias(Y, sensitive_features=PEOPLE, families=families).prices, usual.prices
        )
    matrix = r2b.debias(
        Y,
        sensitive_features=np.array([SEX, RACE]).T,
        families=["attribute 0", ["attribute 0", "attribute 1"]],
    )
    frame = r2b.debias(
        Y, sensitive_features=pd.DataFrame(PEOPLE), families=["sex", ["sex", "race"]]
    )
    np.testing.assert_allclose(matrix.soft_labels, usual.soft_labels, atol=1e-9)
    np.testing.assert_array_equal(frame.soft_labels, usual.soft_labels)
    truth = r2b.debias(Y, sensitive_features={"sex": np.array(SEX) == "f"}, families=["sex"])
    assert truth.groups.tolist() == [False, True]
