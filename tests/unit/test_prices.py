"""Prices on scores: the optimum of the problem written out as a linear programme, for every
bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

pytest.importorskip("sklearn")

from r2b._labels.debiasing import request_and_settings
from r2b.sklearn.groups import true_groups
from r2b.sklearn.rule import Plan, ScoreRows, fit_prices

EXACT = Plan(rounds=0, give=0.0)
BOUNDS: dict[str, dict[str, Any]] = {
    "range": {},
    "to_overall": {"bound": "to_overall"},
    "to_reference": {"bound": "to_reference", "reference": "a"},
    "target": {"bound": "target", "target": [0.5, 0.3, 0.2]},
}


def problem(
    criteria: tuple[str, ...] = ("demographic_parity",), n: int = 400, **options: Any
) -> Any:
    """Draw scores, memberships and true classes, and settle who is compared."""
    rng = np.random.default_rng(3)
    group, truth = rng.choice(3, n, p=[0.5, 0.3, 0.2]), rng.choice(3, n)
    scores = rng.dirichlet(np.ones(3), n) + 0.15 * np.eye(3)[group]
    scores /= scores.sum(axis=1, keepdims=True)
    data: dict[str, Any] = {"sensitive_features": np.array(list("abc"))[group]}
    data |= {"control_features": None, "sample_weight": None}
    request = request_and_settings(options)[0]
    groups = true_groups(np.array(list("xyz"))[truth], data, request, criteria)[0]
    codes = rng.dirichlet(np.ones(groups.n_codes) / 4, n) + np.eye(groups.n_codes)[groups.codes]
    return ScoreRows("decisions", scores, codes / 2, groups, np.eye(3)[truth])


def optimum(rows: ScoreRows) -> float:
    """Return the largest mean score of rows that meet the bound, by a linear programme."""
    (each,), (part,), (share,) = rows.groups.comparisons, rows.parts, rows.shares
    (n, n_classes), n_groups = rows.scores.shape, len(share)
    design = (part / share / n).T
    epsilon, level = np.broadcast_to(each.bound.epsilon, n_classes), np.zeros((n_groups, n_groups))
    if each.bound.name == "to_overall":
        level[:] = share / share.sum()
    if each.bound.name == "to_reference":
        level[:, each.bound.reference] = 1.0  # type: ignore[attr-defined]
    upper, limit = [], []
    for k in range(n_classes):
        block = np.zeros((n_groups, n, n_classes))
        block[:, :, k] = (np.eye(n_groups) - level) @ design
        flat = block.reshape(n_groups, -1)
        if each.bound.name == "range":
            flat = (flat[:, None] - flat[None]).reshape(n_groups**2, -1)
        centre = each.bound.target[k] if each.bound.name == "target" else 0.0  # type: ignore[attr-defined]
        wide = epsilon[k] / 2 if each.bound.name == "target" else epsilon[k]
        upper += [flat, -flat]
        wide += 1e-7  # means of all classes add up to 1 but for rounding
        limit += [np.full(len(flat), wide + centre), np.full(len(flat), wide - centre)]
    simplex = np.kron(np.eye(n), np.ones(n_classes))
    found = linprog(
        -rows.scores.ravel() / n,
        np.concatenate(upper),
        np.concatenate(limit),
        simplex,
        np.ones(n),
        method="highs",
    )
    return float(-found.fun)


@pytest.mark.parametrize("name", list(BOUNDS))
def test_decisions_are_the_most_accurate_ones_of_the_linear_programme(name: str) -> None:
    rows = problem(epsilon=0.0, **BOUNDS[name])
    fair = rows.apply(fit_prices(rows, EXACT))
    (means,), (share,), (each,) = rows.seen_means(fair), rows.shares, rows.groups.comparisons
    assert each.bound.measure(means, share).max() < 2e-3
    assert rows.weight @ (fair * rows.scores).sum(axis=1) == pytest.approx(optimum(rows), abs=2e-3)
