"""Every combination of families, bounds and epsilons against programmes written row by row from the
definition.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from families_qp import BOUNDS, FAMILIES, SHAPES, Table, asked, closest, fewest, people, violation
from hypothesis import given, settings
from hypothesis import strategies as st

import r2b
from r2b.errors import ParameterError

# what the interior point method is good for with weights over four decades; most agree to 1e-10
WITHIN = 3e-7


def solved(who, arguments, **more):
    return r2b.debias(who.given, sample_weight=who.weight, **arguments, **more)


def check(fair, table, value):
    x = fair.soft_labels
    assert fair.status.ok and fair.certificate.holds, fair
    assert violation(table, x) <= 2e-9
    assert table.value(x) == pytest.approx(value, abs=WITHIN)
    if not fair.unchanged or (table.lam == 1 and table.costs is None):
        assert fair.certificate.objective == pytest.approx(table.value(x), abs=1e-12)
    assert fair.certificate.lower_bound <= value + WITHIN
    assert fair.certificate.distance == pytest.approx(
        table.weight @ ((x - table.y) ** 2).sum(axis=1), abs=1e-12
    )
    assert fair.certificate.expected_changes == pytest.approx(
        table.weight @ (0.5 * np.abs(x - table.y).sum(axis=1)), abs=1e-12
    )


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("families", FAMILIES)
def test_the_closest_labels_are_those_of_a_quadratic_programme(families, bound):
    number = FAMILIES.index(families) + 2 * BOUNDS.index(bound)
    shape, soft = list(itertools.product(SHAPES, (False, True)))[number % (2 * len(SHAPES))]
    who, lam = people(number, soft=soft), (1.0, 0.3, 2.0)[number % 3]
    arguments, rules = asked(who, families, bound, shape, number)
    table = Table(who.y, who.w, rules, lam)
    check(solved(who, arguments, lam=lam), table, closest(table)[0])


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("families", FAMILIES)
def test_the_fewest_changes_are_those_of_a_linear_programme(families, bound):
    number = FAMILIES.index(families) + BOUNDS.index(bound)
    who = people(100 + number, decades=(number % 2) * 2.0)
    arguments, rules = asked(who, families, bound, SHAPES[number % len(SHAPES)], number)
    table = Table(who.y, who.w, rules, 0.0)
    check(solved(who, arguments, objective="agreement"), table, fewest(table))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(FAMILIES),
    st.sampled_from(BOUNDS),
    st.sampled_from(SHAPES),
    st.booleans(),
    st.integers(1000, 10**6),
    st.sampled_from([0.1, 0.5, 1.0, 3.0]),
)
def test_any_request_on_any_people_is_solved_to_the_accuracy_of_a_quadratic_programme(
    families, bound, shape, soft, seed, lam
):
    who = people(seed, soft=soft, decades=0.0 if seed % 2 else 2.0)
    arguments, rules = asked(who, families, bound, shape, seed)
    table = Table(who.y, who.w, rules, lam)
    check(solved(who, arguments, lam=lam), table, closest(table)[0])


def test_the_measures_of_the_certificate_are_those_of_the_labels_in_every_family():
    who = people(3, decades=1.0)
    families = [
        r2b.Family("sex"),
        r2b.Family("race", bound="to_overall"),
        r2b.Family(["sex", "race"], bound="ratio", epsilon=0.3),
    ]
    fair = r2b.debias(
        who.given,
        sensitive_features=who.sensitive,
        sample_weight=who.weight,
        families=families,
        epsilon=0.05,
    )
    x, w = fair.soft_labels, who.w

    def means(labels, *columns):
        keys = list(zip(*columns, strict=True))
        return np.array(
            [
                np.average(
                    labels[[k == key for k in keys]], axis=0, weights=w[[k == key for k in keys]]
                )
                for key in sorted(set(keys))
            ]
        )

    for labels, name in ((x, "measure"), (who.y, "measure_before")):
        sex, race, both = (
            means(labels, who.sex),
            means(labels, who.race),
            means(labels, who.sex, who.race),
        )
        overall = np.average(labels, axis=0, weights=w)
        found = [getattr(family, name) for family in fair.certificate.families]
        np.testing.assert_allclose(found[0], np.ptp(sex, axis=0), atol=1e-12)
        np.testing.assert_allclose(found[1], np.abs(race - overall).max(axis=0), atol=1e-12)
        np.testing.assert_allclose(found[2], 1.0 - both.min(axis=0) / both.max(axis=0), atol=1e-12)
    assert [family.name for family in fair.certificate.families] == ["sex", "race", "sex x race"]
    assert [family.bound for family in fair.certificate.families] == [
        "range",
        "to_overall",
        "ratio",
    ]
    np.testing.assert_allclose(
        fair.certificate.means,
        np.concatenate([means(x, who.sex), means(x, who.race), means(x, who.sex, who.race)]),
        atol=1e-12,
    )
    assert fair.groups.tolist()[:3] == ["sex=f", "sex=m", "race=p"]


@pytest.mark.parametrize("bound", ["range", "to_overall", "ratio", "target"])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.05])
def test_education_by_sex_and_race_on_adult_is_certified_for_margins_and_intersections_together(
    bound, epsilon
):
    from r2b.datasets import load_adult

    adult = load_adult()
    people = {"sex": adult["sex"], "race": adult["race"]}
    target = "population" if bound == "target" else None
    fair = r2b.debias(
        adult["education"],
        sensitive_features=people,
        families="both",
        bound=bound,
        epsilon=epsilon,
        target=target,
    )
    assert fair.status.value == "solved" and fair.certificate.holds
    assert len(fair.groups) == 2 + 5 + 10
    x, before = fair.soft_labels, (adult["education"][:, None] == fair.classes).mean(axis=0)
    for columns in (["sex"], ["race"], ["sex", "race"]):
        key = np.array(
            [" ".join(values) for values in zip(*(people[name] for name in columns), strict=True)]
        )
        share = np.array([(key == each).mean() for each in np.unique(key)])
        means = np.array([x[key == each].mean(axis=0) for each in np.unique(key)])
        excess = {
            "range": np.ptp(means, axis=0) - epsilon,
            "to_overall": np.abs(means - share @ means).max(axis=0) - epsilon,
            "ratio": (1 - epsilon) * means.max(axis=0) - means.min(axis=0),
            "target": np.abs(means - before).max(axis=0) - epsilon / 2,
        }[bound]
        assert excess.max() <= 1e-9


def test_a_reference_is_named_by_value_tuple_or_family():
    people = {"sex": ["f", "f", "m", "m"] * 20, "race": ["a", "b"] * 40}
    y = ["x", "y", "y", "x", "x", "x", "y", "y"] * 10

    def asked(**options):
        return r2b.debias(y, sensitive_features=people, bound="to_reference", **options)

    crossed = asked(reference=("f", "a"))
    assert crossed.certificate.families[0].bound == "to_reference" and crossed.status.ok
    named = asked(reference="sex=f, race=a")
    np.testing.assert_allclose(named.soft_labels, crossed.soft_labels)
    families = [r2b.Family("sex", reference="m"), r2b.Family("race", reference="b")]
    assert asked(families=families).certificate.holds
    for options in ({}, {"reference": "z"}, {"families": "marginal", "reference": "m"}):
        with pytest.raises(ParameterError, match="such as `reference="):
            asked(**options)
    with pytest.raises(ParameterError, match="bound='to_reference'"):
        r2b.debias(y, sensitive_features=people, reference="f")


def test_the_fewest_changes_under_a_reference_are_certified():
    rng = np.random.default_rng(0)
    race, y = rng.choice(list("abc"), 300), rng.choice(["no", "yes", "may"], 300)
    fair = r2b.debias(
        y,
        sensitive_features=race,
        bound="to_reference",
        reference="b",
        epsilon=0.01,
        objective="agreement",
    )
    assert fair.status.ok and fair.certificate.holds
