"""What families and targets are given in other ways is understood; what leaves nothing to compare
is listed.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_debias_refusals import FREE_CLASS, JOB, PEOPLE, RACE, SEX, Y

import r2b
from r2b import Family


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
