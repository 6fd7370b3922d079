"""Families that others imply cost nothing: the same labels, the same proof for all of them, without
their prices or their memory.
"""

from __future__ import annotations

import numpy as np
import pytest
from families_qp import asked, people
from hypothesis import given, settings
from hypothesis import strategies as st

import r2b
from r2b._audit.tradeoff import task_of
from r2b._constraints.parity import without_implied


@pytest.mark.parametrize("bound", ["range", "to_overall", "ratio"])
@pytest.mark.parametrize("lam", [0.3, 1.0])
def test_both_families_give_the_labels_of_the_crossings_and_prove_the_margins(bound, lam):
    who = people(4, decades=1.0)
    more = {
        "sensitive_features": who.sensitive,
        "sample_weight": who.weight,
        "bound": bound,
        "epsilon": 0.05,
        "lam": lam,
    }
    crossed, both = (
        r2b.debias(who.given, families=families, **more) for families in ("crossed", "both")
    )
    assert both.status.ok and both.certificate.holds
    np.testing.assert_allclose(both.soft_labels, crossed.soft_labels, atol=1e-9)
    assert [family.name for family in both.certificate.families] == ["sex", "race", "sex x race"]
    margins = both.prices[: both.certificate.families[1].groups.stop]
    assert not margins.any() and both.prices.any()


@pytest.mark.parametrize("bound", ["range", "to_overall", "ratio"])
def test_a_margin_that_is_bounded_more_closely_is_not_implied(bound):
    who = people(4, decades=0.0)
    families = [r2b.Family(["sex", "race"], epsilon=0.2), r2b.Family("sex", epsilon=0.01)]
    options = {"sensitive_features": who.sensitive, "families": families, "bound": bound}
    fair = r2b.debias(who.given, **options)
    assert fair.certificate.holds and fair.certificate.families[1].measure.max() <= 0.01 + 1e-9
    assert len(without_implied(task_of(who.given, options).parity).parity.members) == 2


def test_rows_that_the_crossings_leave_out_still_count_in_their_margin():
    who = people(4, decades=0.0)
    race = who.race.astype(object)
    race[::3] = None
    people_ = {"sex": who.sex, "race": race}
    job = task_of(
        who.given,
        {"sensitive_features": people_, "families": "both", "missing": "exclude", "epsilon": 0.0},
    )
    kept = [member.name for member in without_implied(job.parity).parity.members]
    # of race the crossings tell, of sex they do not: rows without a race are in no crossing
    assert kept == ["sex", "sex x race"]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["both", "list", "control"]),
    st.sampled_from(["range", "to_overall", "ratio", "population"]),
)
def test_prices_of_fewer_families_have_the_same_shifts(seed, families, bound):
    who = people(seed, decades=0.0)
    arguments, _ = asked(who, "both" if families == "list" else families, bound, "small", seed)
    parity = task_of(who.given, arguments).parity
    slim = without_implied(parity)
    fewer = np.random.default_rng(seed).normal(size=(slim.parity.n_groups, who.n_classes))
    np.testing.assert_allclose(
        parity.shifts(slim.whole(fewer)), slim.parity.shifts(fewer), atol=1e-12
    )
