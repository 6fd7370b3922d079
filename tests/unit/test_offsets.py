"""Offsets: numbers that are added to group means before the bound is asked. Against a row-by-row
programme, and by what they mean.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from families_qp import Rule, Table, closest, fewest, indicators, least_violation, people, violation

import r2b
from r2b.errors import FileFormatError, ParameterError

BOUNDS = ["range", "to_overall", "ratio", "target"]


def drawn(rng, n_groups, n_classes, size):
    """Offsets whose rows add up to 0."""
    offsets = rng.normal(0.0, size, (n_groups, n_classes))
    return offsets - offsets.mean(axis=1, keepdims=True)


def sexes(seed=0, size=0.05, **kinds):
    who = people(seed, decades=0.0, classes=3, **kinds)
    return who, drawn(np.random.default_rng(seed), 2, 3, size)


# --- the optimum ---


@pytest.mark.parametrize(
    ("soft", "lam", "seed"), [(False, 0.1, 1), (False, 1.0, 2), (True, 1.0, 3)]
)
@pytest.mark.parametrize("bound", BOUNDS)
def test_the_optimum_is_that_of_the_problem_written_out(bound, soft, lam, seed):
    who = people(seed, soft=soft)
    rng = np.random.default_rng([seed, 3])
    crossed = indicators(who.sex, who.race)
    chances = rng.dirichlet(np.full(3, 0.5), len(who.y))
    offsets = {
        "sex x race": drawn(rng, crossed.shape[1], who.n_classes, 0.03),
        "town": drawn(rng, 3, who.n_classes, 0.02),
    }
    epsilon, target = np.full(who.n_classes, 0.05 if bound != "ratio" else 0.3), who.mean()
    rules = [
        Rule(counts, bound, epsilon, target, offsets[name])
        for name, counts in (("sex x race", crossed), ("town", chances))
    ]
    table = Table(who.y, who.w, rules, lam)
    options = {
        "bound": bound,
        "epsilon": epsilon[0],
        "lam": lam,
        **({"target": "population"} if bound == "target" else {}),
    }
    fair = r2b.debias(
        who.given,
        sensitive_features={**who.sensitive, "town": r2b.Membership(chances)},
        sample_weight=who.weight,
        offsets=offsets,
        **options,
    )
    if least_violation(table) > 1e-7:
        assert fair.status is r2b.Status.INFEASIBLE
        return
    assert fair.status is r2b.Status.SOLVED and fair.certificate.holds
    labels = np.asarray(fair.soft_labels)
    assert violation(table, labels) <= 1e-8
    assert table.value(labels) == pytest.approx(closest(table)[0], abs=1e-6)


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_fewest_changes_are_those_of_the_programme_written_out(bound):
    who, offsets = sexes(5, 0.03)
    epsilon, sex = np.full(3, 0.3 if bound == "ratio" else 0.02), indicators(who.sex)
    table = Table(who.y, who.w, [Rule(sex, bound, epsilon, who.mean(), offsets)], 0.0)
    more = {"target": "population"} if bound == "target" else {}
    fair = r2b.debias(
        who.given,
        sensitive_features=who.sex,
        offsets=offsets,
        bound=bound,
        epsilon=epsilon,
        objective="agreement",
        **more,
    )
    assert fair.status is r2b.Status.SOLVED and fair.certificate.holds
    assert table.value(np.asarray(fair.soft_labels)) == pytest.approx(fewest(table), abs=1e-9)


def test_means_whose_offsets_take_them_below_0_have_no_ratio():
    # Without a floor at 0 both groups meet a level of -.15, whose ratio means nothing.
    y, sex = np.arange(40) % 20 > 0, np.arange(40) // 20
    fair = r2b.debias(
        y,
        sensitive_features=sex,
        bound="ratio",
        epsilon=0,
        offsets=[[-0.2, 0.2], [-0.2, 0.2]],
        objective="agreement",
    )
    assert fair.status is r2b.Status.SOLVED and fair.certificate.excess <= 1e-9
    np.testing.assert_allclose(fair.certificate.means[:, 0], 0.2, atol=1e-9)


@pytest.mark.parametrize("soft", [False, True])
def test_means_with_their_offsets_are_equal_and_raw_means_are_not(soft):
    who, offsets = sexes(3, soft=soft)
    fair = r2b.debias(who.given, sensitive_features=who.sex, offsets=offsets)
    proof = fair.certificate
    (family,) = proof.families
    assert fair.status is r2b.Status.SOLVED and proof.holds and proof.excess <= 1e-9
    np.testing.assert_allclose(np.ptp(proof.means + offsets, axis=0), 0.0, atol=1e-9)
    assert family.bound == "range" and family.measure.max() <= 1e-9
    np.testing.assert_array_equal(family.offsets, offsets - offsets.mean(axis=1, keepdims=True))
    assert proof.disparity == pytest.approx(np.ptp(offsets, axis=0).max(), abs=1e-9)  # of raw means
    assert "of means with their offsets" in str(fair)


def test_offsets_that_no_labels_can_meet_are_proven_infeasible():
    y, sex = ["a", "b"] * 10, ["f"] * 10 + ["m"] * 10
    far = [[1.2, -1.2], [0.0, 0.0]]
    for objective in ("distance", "agreement"):
        with pytest.warns(r2b.errors.NotSolvedWarning, match="infeasible"):
            fair = r2b.debias(y, sensitive_features=sex, offsets=far, objective=objective)
        assert fair.status is r2b.Status.INFEASIBLE and not fair.certificate.holds
    assert (
        r2b.debias(y, sensitive_features=sex, offsets=[[0.9, -0.9], [0.0, 0.0]]).status
        is r2b.Status.SOLVED
    )


# --- how they are written ---


def same(one, other):
    np.testing.assert_allclose(one.soft_labels, other.soft_labels, atol=1e-12)


def test_every_way_of_writing_them_says_the_same():
    who, offsets = sexes(7)
    sexed = {"sex": who.sex}
    fair = r2b.debias(who.given, sensitive_features=sexed, offsets=offsets)
    rows = {"sex=f": offsets[0], "sex=m": dict(zip(["c0", "c1", "c2"], offsets[1], strict=True))}
    frame = pd.DataFrame(offsets[::-1, ::-1], index=["sex=m", "sex=f"], columns=["c2", "c1", "c0"])
    values = dict(zip("fm", offsets, strict=True))
    for written in (
        offsets.tolist(),
        rows,
        values,
        frame,
        {"sex": offsets},
        {"sex": rows},
        {"sex": frame},
        pd.DataFrame(offsets),
    ):
        same(r2b.debias(who.given, sensitive_features=sexed, offsets=written), fair)
    same(
        r2b.debias(
            who.given, sensitive_features=sexed, families=[r2b.Family("sex", offsets=frame)]
        ),
        fair,
    )
    numbered = r2b.debias(
        who.given,
        sensitive_features=(who.sex == "m").astype(int),
        offsets={1: offsets[1], 0: offsets[0]},
    )
    same(numbered, fair)


def test_strata_have_offsets_by_their_own_names():
    who, offsets = sexes(8)
    options = {"sensitive_features": {"sex": who.sex}, "control_features": {"job": who.job}}
    fair = r2b.debias(who.given, **options, offsets={"sex | job=u": offsets})
    first, second = fair.certificate.families
    assert fair.certificate.holds and first.offsets is not None and second.offsets is None
    with pytest.raises(
        ParameterError, match=r"names 'sex', which is not a family\..*'sex \| job=u'"
    ):
        r2b.debias(who.given, **options, offsets={"sex": offsets})
    with pytest.raises(ParameterError, match="its groups differ by control features"):
        r2b.debias(who.given, **options, families=[r2b.Family("sex", offsets=offsets)])


@pytest.mark.parametrize(
    ("written", "match"),
    [
        ([[0.1, 0.0, 0.0], [0, 0, 0]], r"group 'f' add up to 0\.1, not to 0.*Subtract their mean"),
        ([[0.1, -0.1, np.nan], [0, 0, 0]], "group 'f' add up to nan"),
        ([[0.1, -0.1, 0]], "has 1 rows, but there are 2 groups.*'f', 'm'"),
        ([[0.1, -0.1], [0, 0]], r"shape \(2, 2\).*each of the 3 classes"),
        ({"sex=f": [0, 0, 0], "sex=d": [0, 0, 0]}, "names 'sex=d', which is not a group"),
        ({"sex=f": [0, 0, 0]}, "is without the group 'm'"),
        (
            {"sex=f": {"c0": 0.1, "c1": -0.1, "c9": 0}, "sex=m": [0, 0, 0]},
            "names 'c9', which is not a class",
        ),
        ({"sex=f": {"c0": 0.1, "c1": -0.1}, "sex=m": [0, 0, 0]}, "is without the class 'c2'"),
        ({"race": [[0, 0, 0]]}, "names 'race', which is not a group"),
        (0.1, "no table of numbers"),
        ("sex", "no table of numbers"),
        (pd.DataFrame(np.zeros((2, 3)), index=["sex=f", "sex=f"]), "names a group twice"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_names(written, match):
    who, _ = sexes(7)
    with pytest.raises(ParameterError, match=match):
        r2b.debias(who.given, sensitive_features={"sex": who.sex}, offsets=written)


def test_offsets_of_several_families_must_say_which():
    who, offsets = sexes(7)
    both = {"sensitive_features": who.sensitive, "families": "marginal"}
    with pytest.raises(ParameterError, match="does not say for which family"):
        r2b.debias(who.given, **both, offsets=offsets)
    with pytest.raises(ParameterError, match="names 'town', which is not a family"):
        r2b.debias(who.given, **both, offsets={"town": offsets})
    with pytest.raises(ParameterError, match="are given twice"):
        families = [r2b.Family("sex", offsets=offsets), "race"]
        r2b.debias(
            who.given, sensitive_features=who.sensitive, families=families, offsets={"sex": offsets}
        )
    with pytest.raises(ParameterError, match="which is continuous and has no group"):
        age = {"age": r2b.Continuous(np.arange(len(who.sex)))}
        r2b.debias(who.given, sensitive_features=age, offsets=offsets)


# --- what is kept, and other ways to the same answer ---


def test_a_saved_result_keeps_offsets_and_says_so_by_its_version(tmp_path):
    who, offsets = sexes(9)
    fair = r2b.debias(who.given, sensitive_features=who.sex, offsets=offsets, epsilon=0.01)
    fair.save(tmp_path / "fair.json")
    again = r2b.load(tmp_path / "fair.json")
    text = (tmp_path / "fair.json").read_text()
    assert again.certificate.to_json() == fair.certificate.to_json()
    np.testing.assert_array_equal(
        again.families.members[0].offsets, fair.families.members[0].offsets
    )
    same_labels = again.transform(who.given, sensitive_features=who.sex)
    np.testing.assert_allclose(same_labels, fair.soft_labels, atol=1e-12)
    (tmp_path / "bad.json").write_text(text.replace('"offsets": [[', '"offsets": [[0.5], [', 1))
    with pytest.raises(FileFormatError, match="damaged"):
        r2b.load(tmp_path / "bad.json")
