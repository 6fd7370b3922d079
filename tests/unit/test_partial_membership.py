"""Memberships whose rows add up to less than 1: with the rest a row belongs to no group. Against
the problem written out row by row.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from families_qp import Rule, Table, closest, fewest, indicators, people, violation

import r2b
from r2b.errors import DataWarning, ParameterError, ProbabilityError


def chances(seed, n, groups=2, rest=0.5):
    """Partial rows, some of them in no group at all."""
    matrix = np.random.default_rng([seed, 5]).dirichlet(np.append(np.full(groups, 0.5), rest), n)[
        :, :groups
    ]
    matrix[3] = 0.0
    return matrix


@pytest.mark.parametrize(("soft", "lam"), [(True, 1.0), (False, 0.2)])
@pytest.mark.parametrize("bound", ["range", "to_overall", "ratio", "target"])
def test_the_optimum_is_that_of_the_problem_written_out(bound, soft, lam):
    who = people(4, soft=soft, decades=1.0)
    first, second = chances(1, len(who.y)), chances(2, len(who.y), 3)
    epsilon = np.full(who.n_classes, 0.3 if bound == "ratio" else 0.03)
    # The population of a family is what it counts, in the parts in which it does.
    populations = [
        (who.w * each.sum(axis=1)) @ who.y / (who.w @ each.sum(axis=1)) for each in (first, second)
    ]
    rules = [
        Rule(counts, bound, epsilon, target)
        for counts, target in zip((first, second), populations, strict=True)
    ]
    table = Table(who.y, who.w, rules, lam)
    fair = r2b.debias(
        who.given,
        sensitive_features={
            "a": r2b.Membership(first, partial=True),
            "b": r2b.Membership(second, partial=True),
        },
        sample_weight=who.weight,
        bound=bound,
        epsilon=epsilon[0],
        target="population" if bound == "target" else None,
        lam=lam,
    )
    labels = np.asarray(fair.soft_labels)
    assert fair.status.ok and fair.certificate.holds and violation(table, labels) <= 1e-8
    assert table.value(labels) == pytest.approx(closest(table)[0], abs=1e-6)
    np.testing.assert_allclose(
        fair.families.share, who.w @ np.hstack([first, second]) / who.w.sum(), rtol=1e-12
    )


def test_agreement_and_offsets_with_partial_memberships():
    who = people(6, decades=0.0, classes=3)
    matrix, offsets = chances(6, len(who.y)), np.array([[0.03, -0.01, -0.02], [-0.02, 0.02, 0.0]])
    member = r2b.Membership(matrix, groups=["f", "m"], partial=True)
    table = Table(who.y, who.w, [Rule(matrix, "range", np.full(3, 0.02), None, offsets)], 0.0)
    fair = r2b.debias(
        who.given, sensitive_features=member, offsets=offsets, epsilon=0.02, objective="agreement"
    )
    assert fair.certificate.holds
    assert table.value(np.asarray(fair.soft_labels)) == pytest.approx(fewest(table), abs=1e-9)


def test_certain_parts_are_groups_of_the_rows_that_are_in_them():
    who = people(5, decades=0.0)
    inside = who.job == "u"
    partial = r2b.Membership(indicators(who.sex) * inside[:, None], groups=["f", "m"], partial=True)
    fair = r2b.debias(who.given, sensitive_features=partial)
    alone = r2b.debias(who.given[inside], sensitive_features=who.sex[inside])
    np.testing.assert_allclose(np.asarray(fair.soft_labels)[inside], alone.soft_labels, atol=1e-7)
    np.testing.assert_array_equal(np.asarray(fair.soft_labels)[~inside], who.y[~inside])
    assert fair.families.left_out == pytest.approx(float(1 - inside.mean()))
    assert "in no group, with labels as they were" in str(fair)
    moved = r2b.debias(who.y, sensitive_features=partial, lam=2.0)
    assert "in no group" in str(moved) and "as they were" not in str(moved)


def test_equal_opportunity_from_joint_chances_of_group_and_class():
    rng = np.random.default_rng(0)
    n, classes = 400, 4
    truth, sex = rng.integers(0, classes, n), rng.integers(0, 2, n)
    scores = (
        rng.dirichlet(np.ones(classes), n) * 0.4
        + 0.6 * np.eye(classes)[np.where((sex == 1) & (rng.random(n) < 0.3), 0, truth)]
    )
    joint = {
        f"c{c}": r2b.Membership(
            indicators(sex) * (truth == c)[:, None], groups=["f", "m"], partial=True
        )
        for c in range(classes)
    }
    families = [r2b.Family(f"c{c}", epsilon={c: 0.01}) for c in range(classes)]
    fair = r2b.debias(scores, sensitive_features=joint, families=families)
    assert fair.status is r2b.Status.SOLVED and fair.certificate.holds
    labels = np.asarray(fair.soft_labels)
    rates = [[labels[(truth == c) & (sex == s), c].mean() for s in (0, 1)] for c in range(classes)]
    assert np.ptp(rates, axis=1).max() <= 0.01 + 1e-9
    before = [[scores[(truth == c) & (sex == s), c].mean() for s in (0, 1)] for c in range(classes)]
    assert np.ptp(before, axis=1).max() > 0.05


# --- what is refused, kept and measured ---


def test_sums_above_one_and_other_numbers_are_refused():
    y = ["a", "b", "a"]
    for matrix, match in [
        (
            [[0.5, 0.6], [0, 0], [0.2, 0.1]],
            r"row 0 sums to 1\.1, which is more than 1; it is the only such row.*Divide such rows",
        ),
        (
            [[0.5, 0.4], [-0.1, 0], [0.2, 0.1]],
            r"row 1 has the probability -0\.1 for group '0', which is negative",
        ),
        ([[0.5, np.nan], [0, 0], [0.2, 0.1]], "is not a finite number"),
    ]:
        with pytest.raises(ProbabilityError, match=match):
            r2b.debias(y, sensitive_features=r2b.Membership(matrix, partial=True))
    with pytest.raises(
        ProbabilityError, match=r"row 0 sums to 0\.9, not to 1.*pass `partial=True`"
    ):
        r2b.debias(y, sensitive_features=r2b.Membership([[0.5, 0.4], [0.5, 0.5], [1, 0]]))
    with pytest.raises(ParameterError, match="partial='yes'"):
        r2b.debias(
            y, sensitive_features=r2b.Membership([[0.5, 0.4], [0.5, 0.5], [1, 0]], partial="yes")
        )


def test_measures_and_audits_weigh_rows_by_their_parts():
    who = people(8, soft=True, decades=0.0)
    matrix = chances(8, len(who.y))
    member = r2b.Membership(matrix, groups=["f", "m"], partial=True)
    means = matrix.T @ who.y / matrix.sum(axis=0)[:, None]
    parity = np.ptp(means, axis=0).max()
    assert r2b.metrics.demographic_parity_difference(
        who.given, sensitive_features=member
    ) == pytest.approx(parity)
    with pytest.warns(DataWarning):  # these groups are small
        found = r2b.audit(
            who.given, sensitive_features={"sex": member}, n_boot=50, n_permutations=50
        )
    (family,) = found.families
    np.testing.assert_allclose(family.means, means, atol=1e-12)
    np.testing.assert_allclose(family.rows, matrix.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(
        family.overall, matrix.sum(axis=1) @ who.y / matrix.sum(), atol=1e-12
    )


def test_a_saved_result_reads_new_rows_as_partial_too(tmp_path):
    who = people(9, soft=True, decades=0.0)
    frame = pd.DataFrame(chances(9, len(who.y)), columns=["f", "m"])
    fair = r2b.debias(who.given, sensitive_features={"sex": r2b.Membership(frame, partial=True)})
    fair.save(tmp_path / "fair.json")
    again = r2b.load(tmp_path / "fair.json")
    assert again.schema.vocabularies[0].partial
    # what was fitted decides
    for member in (r2b.Membership(frame[["m", "f"]], partial=True), r2b.Membership(frame)):
        np.testing.assert_allclose(
            again.transform(who.given, sensitive_features={"sex": member}),
            fair.soft_labels,
            atol=1e-12,
        )
    with pytest.raises(ProbabilityError, match="which is more than 1"):
        again.transform(who.given, sensitive_features={"sex": r2b.Membership(frame + 0.9)})
    whole = r2b.debias(
        who.given,
        sensitive_features={"sex": r2b.Membership(frame.assign(rest=1 - frame.sum(axis=1)))},
    )
    with pytest.raises(ProbabilityError, match="not to 1"):
        whole.transform(
            who.given,
            sensitive_features={"sex": r2b.Membership(frame.assign(rest=0.0), partial=True)},
        )
