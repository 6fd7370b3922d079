"""What cannot be asked is refused before anything is solved, with the facts and what to do about it."""

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

# What is asked: labels, arguments; then the error, words of its message, words of its remedy, and
# names among its facts.
REFUSED = {
    "no such choice of families": (
        Y,
        {"families": "sex x race"},
        ParameterError,
        "sex x race",
        "marginal",
        ["families"],
    ),
    "families that are nothing": (
        Y,
        {"families": None},
        ParameterError,
        "None",
        "list",
        ["families"],
    ),
    "an empty list of families": (
        Y,
        {"families": []},
        ParameterError,
        r"\[\]",
        "list",
        ["families"],
    ),
    "a family without columns": (
        Y,
        {"families": [[]]},
        ParameterError,
        "no columns",
        "'sex', 'race'",
        ["columns"],
    ),
    "a family of a number": (Y, {"families": [3]}, ParameterError, "3", "'sex'", []),
    "a family of nothing": (Y, {"families": ["sex", None]}, ParameterError, "None", "'sex'", []),
    "a family of True": (Y, {"families": [True]}, ParameterError, "True", "'sex'", []),
    "a column that is not there": (
        Y,
        {"families": ["age"]},
        ParameterError,
        "'age'",
        "'sex', 'race'",
        ["family", "columns"],
    ),
    "a column named twice": (
        Y,
        {"families": [["sex", "sex"]]},
        ParameterError,
        "twice",
        "once",
        ["family"],
    ),
    "a list in a list in a list": (
        Y,
        {"families": [[["sex"]]]},
        ParameterError,
        "sex",
        "'sex', 'race'",
        ["family"],
    ),
    "a control column as a family": (
        Y,
        {"families": ["job"], "control_features": {"job": JOB}},
        ParameterError,
        "'job'",
        "'sex'",
        ["family"],
    ),
    "columns of a frame": (
        Y,
        {"families": pd.MultiIndex.from_tuples([("sex", "race")])},
        ParameterError,
        "MultiIndex",
        "list",
        ["families"],
    ),
    "a true value": (Y, {"families": np.bool_(True)}, ParameterError, "True", "list", ["families"]),
    "no such bound": (
        Y,
        {"bound": "difference"},
        ParameterError,
        "difference",
        "to_overall",
        ["bound"],
    ),
    "no such bound of a family": (
        Y,
        {"families": [Family("sex", bound="rnge")]},
        ParameterError,
        "rnge",
        "range",
        ["bound"],
    ),
    "a negative epsilon of a family": (
        Y,
        {"families": [Family("sex", epsilon=-0.1)]},
        ParameterError,
        "-0.1",
        "at least 0",
        ["epsilon"],
    ),
    "an epsilon for too many classes": (
        Y,
        {"families": [Family("sex", epsilon=[0, 0, 0])]},
        ParameterError,
        r"\(3,\)",
        "2",
        ["shape"],
    ),
    "an epsilon by family": (
        Y,
        {"epsilon": {"sex": 0.1, "race": 0.2}},
        ParameterError,
        "class",
        "'p', 'q'",
        ["missing", "unknown"],
    ),
    "an epsilon that is no number": (
        Y,
        {"epsilon": float("nan")},
        ParameterError,
        "nan",
        "at least 0",
        ["epsilon"],
    ),
    "a target off the simplex": (
        Y,
        {"bound": "target", "target": [0.5, 0.6]},
        ParameterError,
        "1.1",
        "sum",
        ["total"],
    ),
    "a target below 0": (
        Y,
        {"bound": "target", "target": [1.2, -0.2]},
        ParameterError,
        "'p' is 1.2",
        "between 0 and 1",
        ["value"],
    ),
    "a target of one number": (
        Y,
        {"bound": "target", "target": 0.5},
        ParameterError,
        "0.5",
        "population",
        ["target"],
    ),
    "a target that is no word": (
        Y,
        {"bound": "target", "target": "overall"},
        ParameterError,
        "overall",
        "population",
        ["target"],
    ),
    "no target": (Y, {"bound": "target"}, ParameterError, "no target", "population", ["family"]),
    "a target for a range": (
        Y,
        {"target": "population"},
        ParameterError,
        "range",
        "bound='target'",
        ["bound"],
    ),
    "a target of a family for a range": (
        Y,
        {"families": [Family("sex", target=[0.5, 0.5])]},
        ParameterError,
        "target",
        "bound",
        [],
    ),
    "a class that no target names": (
        Y,
        {"bound": "target", "target": {"p": 1.0}},
        ParameterError,
        "'q'",
        "'p', 'q'",
        ["missing"],
    ),
    "targets that contradict": (
        Y,
        {
            "families": [
                Family("sex", bound="target", target=[0.9, 0.1]),
                Family("race", bound="target", target=[0.1, 0.9]),
            ]
        },
        ParameterError,
        "contradict",
        "larger epsilon",
        ["families", "class_name"],
    ),
    "a ratio with an empty class": (
        FREE_CLASS,
        {"bound": "ratio", "epsilon": 0.2},
        ParameterError,
        "class 1 is empty",
        "epsilon of 1",
        ["family"],
    ),
    "a ratio above 1": (
        Y,
        {"bound": "ratio", "epsilon": 1.5},
        ParameterError,
        "1.5",
        "no percentage",
        ["epsilon"],
    ),
    "a name in both": (
        Y,
        {"control_features": {"sex": SEX}},
        ShapeError,
        "'sex'",
        "Rename",
        ["column", "arguments"],
    ),
    "a group absent from a stratum": (
        Y,
        {"sensitive_features": ABSENT, "control_features": {"job": JOB}, "absent": "error"},
        InputError,
        "'job=y' has no rows of the group 'sex=m'",
        "absent='report'",
        ["stratum", "group"],
    ),
    "strata without a second group": (
        Y,
        {"sensitive_features": {"sex": list("fffffmmmmm")}, "control_features": {"job": JOB}},
        ParameterError,
        "nothing to compare",
        "coarser",
        ["control_features"],
    ),
    "no such choice for absent groups": (
        Y,
        {"absent": "ignore"},
        ParameterError,
        "ignore",
        "'report', 'error'",
        ["absent"],
    ),
    "small groups": (
        Y,
        {"sensitive_features": TOWN, "min_group_size": 2},
        InputError,
        r"'town=c' \(1 row\)",
        "merge",
        ["groups", "counts"],
    ),
    "small groups within a stratum": (
        Y,
        {"control_features": {"job": JOB}, "min_group_size": 2},
        InputError,
        "job=x",
        "merge",
        ["groups"],
    ),
    "small groups too small together": (
        Y,
        {"sensitive_features": TOWN, "min_group_size": 3, "small_groups": "merge"},
        InputError,
        "2 rows even when put together",
        "Lower",
        ["groups"],
    ),
    "a group already called other": (
        Y,
        {
            "sensitive_features": ["other"] * 5 + list("abcab"),
            "min_group_size": 3,
            "small_groups": "merge",
        },
        InputError,
        "'other'",
        "Rename",
        ["group"],
    ),
    "half a row at least": (
        Y,
        {"min_group_size": 2.5},
        ParameterError,
        "2.5",
        "fewest rows",
        ["min_group_size"],
    ),
    "a value called missing": (
        Y,
        {"sensitive_features": ["missing", None, *SEX[2:]], "missing": "group"},
        InputError,
        "'missing'",
        "Rename",
        ["row"],
    ),
    "a missing value": (
        Y,
        {"sensitive_features": {"sex": [None, *SEX[1:]]}},
        MissingValueError,
        "'sex'",
        "exclude",
        ["row", "count"],
    ),
    "no value at all": (
        Y,
        {"sensitive_features": {"sex": [None] * 10}, "missing": "exclude"},
        MissingValueError,
        "none of the 10",
        "column",
        ["count"],
    ),
    "no row with both values": (
        Y,
        {"sensitive_features": {"a": [None, "u"] * 5, "b": ["v", None] * 5}, "missing": "exclude"},
        InputError,
        "'a x b'",
        "group",
        ["family"],
    ),
    "a group without weight": (
        Y,
        {"sample_weight": [0.0 if each == "f" else 1.0 for each in SEX]},
        WeightError,
        "sex=f",
        "weight",
        ["group"],
    ),
    "costs of the wrong shape": (
        Y,
        {"costs": np.ones((3, 3))},
        ParameterError,
        r"\(3, 3\)",
        "2 x 2",
        ["shape"],
    ),
    "a change for nothing": (
        Y,
        {"costs": [[0, 0], [1, 0]]},
        ParameterError,
        "0.0",
        "above 0",
        ["old", "new"],
    ),
    "a price for keeping a label": (
        Y,
        {"costs": [[1, 1], [1, 1]]},
        ParameterError,
        "class 'p'",
        "Keeping",
        ["cost"],
    ),
    "costs that are words": (Y, {"costs": "high"}, ParameterError, "'high'", "'ordinal'", []),
    "an infinite cost": (
        Y,
        {"costs": [[0, np.inf], [1, 0]]},
        ParameterError,
        "inf",
        "finite",
        ["cost"],
    ),
    "no such objective": (
        Y,
        {"objective": "agree"},
        ParameterError,
        "agree",
        "'distance', 'agreement'",
        ["objective"],
    ),
    "a lam of 0": (Y, {"lam": 0}, ParameterError, "lam is 0", "above 0", ["lam"]),
    "two levels of columns": (
        Y,
        {"sensitive_features": pd.DataFrame({("s", "sex"): SEX, ("s", "race"): RACE})},
        ShapeError,
        "2 levels",
        "Flatten",
        ["argument"],
    ),
    "an index of two levels": (
        Y,
        {"sensitive_features": pd.MultiIndex.from_arrays([SEX, RACE])},
        R2BError,
        "sensitive_features",
        "",
        [],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name):
    labels, more, kind, words, remedy, facts = REFUSED[name]
    with pytest.raises(kind, match=words) as caught:
        r2b.debias(labels, **({"sensitive_features": PEOPLE} | more))
    assert remedy in caught.value.remedy and caught.value.remedy.endswith(".")
    assert set(facts) <= set(caught.value.facts)


def test_a_name_given_as_a_string_is_answered_with_the_list_it_should_be():
    with pytest.raises(ParameterError) as caught:
        r2b.debias(Y, sensitive_features=PEOPLE, families="sex")
    assert "['sex']" in caught.value.remedy


def test_a_family_outside_a_list_is_answered_with_the_list_it_should_be():
    with pytest.raises(ParameterError) as caught:
        r2b.debias(Y, sensitive_features=PEOPLE, families=Family("sex"))
    assert "[" in caught.value.remedy


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


def test_an_epsilon_with_class_names_goes_by_them():
    by_name = r2b.debias(Y, sensitive_features=PEOPLE, epsilon={"p": 0.5, "q": 0.1})
    series = r2b.debias(
        Y, sensitive_features=PEOPLE, epsilon=pd.Series([0.1, 0.5], index=BACKWARDS)
    )
    np.testing.assert_array_equal(series.certificate.epsilon, by_name.certificate.epsilon)


def test_a_target_with_class_names_goes_by_them():
    by_name = r2b.debias(Y, sensitive_features=PEOPLE, bound="target", target={"p": 0.3, "q": 0.7})
    series = r2b.debias(
        Y, sensitive_features=PEOPLE, bound="target", target=pd.Series([0.7, 0.3], index=BACKWARDS)
    )
    np.testing.assert_allclose(series.certificate.means, by_name.certificate.means, atol=1e-9)


def test_costs_with_class_names_go_by_them():
    table = pd.DataFrame([[0.0, 1.0], [2.0, 0.0]], index=BACKWARDS, columns=BACKWARDS)
    fair = r2b.debias(Y, sensitive_features=PEOPLE, costs=table)
    np.testing.assert_array_equal(fair.costs, [[0.0, 2.0], [1.0, 0.0]])


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
