"""Groups known only in probability: certain ones are groups, uncertain ones the programme's; what
is no distribution is refused.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from families_qp import BOUNDS, Rule, Table, closest, indicators, people, violation
from hypothesis import given, settings
from hypothesis import strategies as st

import r2b
from r2b.errors import (
    InputError,
    ParameterError,
    ShapeError,
    UnseenError,
    WeightError,
)

SEEDS = st.integers(0, 10**6)
few = settings(max_examples=12, deadline=None)


def chances(seed, n, groups=3):
    return np.random.default_rng([seed, 8]).dirichlet(np.full(groups, 0.5), n)


@few
@given(
    SEEDS,
    st.booleans(),
    st.sampled_from(["range", "to_overall", "ratio", "target"]),
    st.sampled_from([0.0, 0.05]),
)
def test_certain_memberships_are_groups(seed, soft, bound, epsilon):
    who = people(seed, soft=soft)
    more = {
        "bound": bound,
        "epsilon": epsilon,
        "sample_weight": who.weight,
        "target": "population" if bound == "target" else None,
    }
    certain = r2b.Membership(indicators(who.race), groups=list("pqr"))
    uncertain = r2b.debias(who.given, sensitive_features={"race": certain}, **more)
    groups = r2b.debias(who.given, sensitive_features={"race": who.race}, **more)
    np.testing.assert_allclose(uncertain.soft_labels, groups.soft_labels, atol=1e-7)
    np.testing.assert_allclose(uncertain.certificate.means, groups.certificate.means, atol=1e-9)
    assert uncertain.groups.tolist() == ["race=p", "race=q", "race=r"]


@few
@given(SEEDS, st.booleans(), st.sampled_from(BOUNDS), st.sampled_from([0.0, 0.02]))
def test_uncertain_memberships_are_those_of_a_programme(seed, soft, bound, epsilon):
    who = people(seed, soft=soft, decades=1.0)
    matrix, kind = chances(seed, len(who.y)), "target" if bound == "population" else bound
    target = {"target": np.full(who.n_classes, 1 / who.n_classes), "population": who.mean()}.get(
        bound
    )
    fair = r2b.debias(
        who.given,
        sensitive_features={"race": r2b.Membership(matrix), "sex": who.sex},
        sample_weight=who.weight,
        bound=kind,
        target="population" if bound == "population" else target,
        epsilon=epsilon,
        families=[r2b.Family("race", reference="0"), r2b.Family("sex", reference="f")]
        if bound == "to_reference"
        else "crossed",
    )
    limit = np.full(who.n_classes, epsilon)
    table = Table(
        who.y,
        who.w,
        [Rule(matrix, kind, limit, target), Rule(indicators(who.sex), kind, limit, target)],
    )
    assert fair.certificate.holds and violation(table, fair.soft_labels) <= 1e-8
    assert table.value(fair.soft_labels) == pytest.approx(closest(table)[0], abs=1e-7)


def test_memberships_within_strata_are_those_of_each_stratum():
    who = people(7, decades=0.0)
    matrix = chances(7, len(who.y), 2)
    fair = r2b.debias(
        who.given, sensitive_features={"g": r2b.Membership(matrix)}, control_features=who.job
    )
    for value in "uv":
        rows = who.job == value
        alone = r2b.debias(who.given[rows], sensitive_features={"g": r2b.Membership(matrix[rows])})
        np.testing.assert_allclose(fair.soft_labels[rows], alone.soft_labels, atol=1e-7)


def test_new_rows_have_chances_of_their_own_and_columns_go_by_name(tmp_path):
    who = people(9, decades=0.0)
    matrix = chances(9, len(who.y), 2)
    fair = r2b.debias(
        who.given,
        sensitive_features={"sex": r2b.Membership(pd.DataFrame(matrix, columns=["f", "m"]))},
    )
    fair.save(tmp_path / "fair.json")
    json.loads(
        (tmp_path / "fair.json").read_text(),
        parse_constant=lambda word: pytest.fail(f"{word} is not strict JSON"),
    )
    new = pd.DataFrame({"m": [0.9, 0.5], "f": [0.1, 0.5]})
    shift = new[["f", "m"]].to_numpy() @ fair.prices
    worth = (who.given[:2, None] == fair.classes) - shift
    level = np.array(
        [
            max((np.sort(row)[::-1][:k].sum() - 1) / k for k in range(1, len(row) + 1))
            for row in worth
        ]
    )
    expected = np.maximum(worth - level[:, None], 0.0)
    for each in (fair, r2b.load(tmp_path / "fair.json")):
        np.testing.assert_allclose(
            each.transform(who.given[:2], sensitive_features={"sex": r2b.Membership(new)}),
            expected,
            atol=1e-12,
        )
        with pytest.raises(UnseenError, match="'x'"):
            each.transform(
                who.given[:2],
                sensitive_features={"sex": r2b.Membership(new.rename(columns={"f": "x"}))},
            )
        with pytest.raises(ShapeError, match="membership"):
            each.transform(who.given[:2], sensitive_features={"sex": ["f", "m"]})


P = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0], [0.3, 0.7]])
REFUSED = {
    "too few rows": (r2b.Membership(P[:3]), {}, InputError, "3"),
    "a group that nobody is in": (
        r2b.Membership(np.tile([1.0, 0.0], (4, 1)), groups=["f", "m"], name="sex"),
        {},
        WeightError,
        "sex=m",
    ),
    "a crossing": (
        {"g": r2b.Membership(P), "sex": list("ffmm")},
        {"families": [["g", "sex"]]},
        ParameterError,
        "'g'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_with_its_facts_and_a_remedy(name):
    sensitive, more, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words) as caught:
        r2b.debias(list("abab"), sensitive_features=sensitive, **more)
    assert caught.value.remedy.endswith(".") and caught.value.facts


def test_a_minimum_size_counts_expected_rows():
    # Four rows: the second group is expected to hold two of them.
    with pytest.raises(InputError, match="fewer than 3"):
        r2b.debias(list("abab"), sensitive_features={"g": r2b.Membership(P)}, min_group_size=3)
