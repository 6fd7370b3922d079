"""What a result says about itself: weights are not called rows, and rows of uncertain groups are
not listed one by one.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import r2b
from r2b.report import gather, to_markdown
from r2b.report.render import fair_html


def people(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], n)
    return np.where((sex == "f") & (rng.random(n) < 0.7), "a", "b"), sex, rng


def test_moved_weight_is_not_called_rows() -> None:
    y, sex, rng = people()
    plain = r2b.debias(y, sensitive_features=sex)
    weighted = r2b.debias(
        y, sensitive_features=sex, sample_weight=1000 * rng.gamma(2.0, size=len(y))
    )
    assert " rows (" in str(plain) and "weight " not in str(plain)
    change = weighted.largest_changes(1)[0]
    assert f"weight {change.weight:,.1f} (" in str(weighted) and " rows (" not in str(weighted)
    assert "Weight expected" in fair_html(weighted) and "Rows expected" in fair_html(plain)


def test_accounts_of_memberships_give_group_means_before_and_after() -> None:
    y, sex, rng = people()
    q = np.clip(
        np.column_stack([sex == "f", sex == "m"]) + rng.uniform(-0.3, 0.3, (len(y), 1)) * [1, -1],
        0,
        1,
    )
    who = {"sex": r2b.Membership(q / q.sum(axis=1, keepdims=True), groups=["f", "m"])}
    fair = r2b.debias(y, sensitive_features=who)
    proof = fair.certificate
    # the classes of two mirror each other
    moved = np.abs(proof.means - proof.means_before).round(12)
    group, k = np.unravel_index(moved.argmax(), moved.shape)
    before, after = proof.means_before[group, k], proof.means[group, k]
    line = f"{fair.groups[group]}: {fair.classes[k]} {before:.4f} -> {after:.4f}"
    assert "largest changes of group means" in str(fair)
    assert line in str(fair)
    facts = gather(y, sensitive_features=who, epsilon=0.0, n_permutations=0, n_boot=0)
    for text in (str(fair), fair_html(fair), to_markdown(facts)):
        assert re.search(r"row \d+:", text) is None and "group means" in text
    first = facts["change"]["means"][0]
    assert (first["before"], first["after"]) == pytest.approx(
        (proof.means_before[group, k], proof.means[group, k])
    )
    assert facts["change"]["largest"] == []


def test_accounts_of_continuous_attributes_give_moments() -> None:
    rng = np.random.default_rng(3)
    age = rng.normal(size=200)
    fair = r2b.debias(
        np.where(age + rng.normal(size=200) > 0, "a", "b"),
        sensitive_features={"age": r2b.Continuous(age)},
    )
    text = str(fair)
    assert "largest changes of moments" in text and "age, linear: a" in text
    assert "-0.0000" not in text and " rows (" not in text
