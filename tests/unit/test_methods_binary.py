"""The binary step: by definition (optimality conditions) and by an independent QP."""

from __future__ import annotations

import numpy as np
import pytest

from r2b.methods.binary import GroupedRows, answer, free_thresholds, pinned_thresholds

KINDS = ("uniform", "signed", "classes", "tied", "wide")


def problem(kind: str, seed: int, n_classes: int = 3):
    rng = np.random.default_rng(seed)
    n_groups = int(rng.integers(1, 5))
    n = n_groups + int(rng.integers(4, 40))
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)])
    weight = None if seed % 2 else rng.integers(1, 6, n) / 2.0
    shape = (n, n_classes)
    scores = {
        "uniform": lambda: rng.uniform(0, 1, shape),
        "signed": lambda: rng.uniform(-1, 1, shape),
        "classes": lambda: rng.integers(0, 2, shape).astype(float),
        "tied": lambda: rng.integers(-2, 5, shape) / 4.0,
        "wide": lambda: rng.normal(0, 5, shape),
    }[kind]()
    return GroupedRows.of(groups, weight, n_groups), scores, rng


def rounding(scores, gamma):
    """What a mean can be known to: an answer is (f - t) / gamma, and f and t are rounded."""
    return 1e-15 * (10.0 + np.abs(scores).max() / gamma)


def solved(rows, scores, gamma, epsilon, rho=None):
    ordered = scores[rows.order]
    bound = np.broadcast_to(np.asarray(epsilon, float), (scores.shape[1],))
    found = (
        free_thresholds(rows, ordered, gamma, bound)
        if rho is None
        else pinned_thresholds(rows, ordered, gamma, rho, bound)
    )
    return found, answer(ordered, found[rows.groups], gamma)


@pytest.mark.parametrize("epsilon", [0.0, 0.002, 0.1, 0.5])
@pytest.mark.parametrize("gamma", [0.01, 0.3, 1.0, 1.5])
@pytest.mark.parametrize("kind", KINDS)
def test_free_mean_meets_the_optimality_conditions(kind, gamma, epsilon):
    for seed in range(6):
        rows, scores, _ = problem(kind, seed)
        thresholds, h = solved(rows, scores, gamma, epsilon)
        means, unit = rows.means(h), rounding(scores, gamma)
        top, bottom = means.max(axis=0), means.min(axis=0)
        assert (top - bottom).max() <= epsilon + unit
        # Prices balance, and only groups at an end of a full band have one, of the sign of that
        # end.
        size = 1.0 + np.abs(thresholds).max()
        assert np.abs(rows.weight @ thresholds).max() <= 1e-13 * size * rows.weight.sum()
        priced = np.abs(thresholds) > 1e-12 * size
        assert (
            np.abs(np.where(thresholds > 0, top - means, means - bottom)[priced]).max(initial=0.0)
            <= unit
        )
        full = priced.any(axis=0)
        assert np.abs(top - bottom - epsilon)[full].max(initial=0.0) <= unit


@pytest.mark.parametrize("epsilon", [0.0, 0.002, 0.1, 0.5])
@pytest.mark.parametrize("gamma", [0.01, 1.0, 1.5])
@pytest.mark.parametrize("kind", KINDS)
def test_pinned_mean_meets_the_optimality_conditions(kind, gamma, epsilon):
    for seed in range(6):
        rows, scores, rng = problem(kind, seed)
        rho = np.concatenate([rng.uniform(0, 1, scores.shape[1] - 1), [float(seed % 2)]])
        thresholds, h = solved(rows, scores, gamma, epsilon, rho)
        means, unit = rows.means(h), rounding(scores, gamma)
        assert np.abs(means - rho).max() <= epsilon / 2 + unit
        wanted = np.clip(np.where(thresholds > 0, rho + epsilon / 2, rho - epsilon / 2), 0, 1)
        assert np.abs(means - wanted)[thresholds != 0].max(initial=0.0) <= unit


def test_a_weight_is_a_repetition_and_weight_zero_is_absence():
    rng = np.random.default_rng(5)
    scores, groups, weight = rng.uniform(0, 1, (30, 4)), np.arange(30) % 3, rng.integers(0, 4, 30)
    weight[:3] = 1
    weighted, _ = solved(GroupedRows.of(groups, weight.astype(float), 3), scores, 1.5, 0.02)
    repeated, _ = solved(
        GroupedRows.of(np.repeat(groups, weight), None, 3),
        np.repeat(scores, weight, axis=0),
        1.5,
        0.02,
    )
    np.testing.assert_allclose(weighted, repeated, atol=1e-13)
