"""The binary step: by definition (optimality conditions), with the mean free and pinned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from r2b.methods.binary import GroupedRows, answer, free_thresholds, pinned_thresholds


def problem(kind: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    n_groups = int(rng.integers(1, 5))
    n = n_groups + int(rng.integers(4, 40))
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)])
    weight = None if seed % 2 else rng.integers(1, 6, n) / 2.0
    scores = {
        "uniform": rng.uniform(0, 1, (n, 3)),
        "signed": rng.uniform(-1, 1, (n, 3)),
        "classes": rng.integers(0, 2, (n, 3)).astype(float),
        "tied": rng.integers(-2, 5, (n, 3)) / 4.0,
        "wide": rng.normal(0, 5, (n, 3)),
    }[kind]
    rows = GroupedRows.of(groups, weight, n_groups)
    return rows, scores[rows.order], rng


@pytest.mark.parametrize("epsilon", [0.0, 0.002, 0.1, 0.5])
@pytest.mark.parametrize("gamma", [0.01, 0.3, 1.0, 1.5])
@pytest.mark.parametrize("kind", ["uniform", "signed", "classes", "tied", "wide"])
def test_thresholds_meet_the_optimality_conditions(kind: str, gamma: float, epsilon: float) -> None:
    bound = np.full(3, epsilon)
    for seed in range(6):
        rows, scores, rng = problem(kind, seed)
        # A mean can be known to this: an answer is (f - t) / gamma, and f and t are rounded.
        unit = 1e-15 * (10.0 + np.abs(scores).max() / gamma)
        free = free_thresholds(rows, scores, gamma, bound)
        means = rows.means(answer(scores, free[rows.groups], gamma))
        top, bottom = means.max(axis=0), means.min(axis=0)
        assert (top - bottom).max() <= epsilon + unit
        # Prices balance, and only groups at an end of a full band have one, of the sign of that
        # end.
        size = 1.0 + np.abs(free).max()
        assert np.abs(rows.weight @ free).max() <= 1e-13 * size * rows.weight.sum()
        priced = np.abs(free) > 1e-12 * size
        off = np.where(free > 0, top - means, means - bottom)
        assert np.abs(off[priced]).max(initial=0.0) <= unit
        full = priced.any(axis=0)
        assert np.abs(top - bottom - epsilon)[full].max(initial=0.0) <= unit

        rho = np.concatenate([rng.uniform(0, 1, 2), [float(seed % 2)]])
        pinned = pinned_thresholds(rows, scores, gamma, rho, bound)
        means = rows.means(answer(scores, pinned[rows.groups], gamma))
        assert np.abs(means - rho).max() <= epsilon / 2 + unit
        wanted = np.clip(np.where(pinned > 0, rho + epsilon / 2, rho - epsilon / 2), 0, 1)
        assert np.abs(means - wanted)[pinned != 0].max(initial=0.0) <= unit
