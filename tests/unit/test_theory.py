"""Proposition 2 term by term, complexity by random signs, and the parity of chance."""

from math import log, sqrt
from typing import Any

import numpy as np
import pytest

from r2b.errors import InputError, ParameterError, UnseenError
from r2b.metrics import (
    GeneralizationBound,
    generalization_bound,
    rademacher_complexity,
    sampling_level,
)

H = np.array([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [0.0, 1.0], [0.2, 0.8]])
F = np.array([[0.7, 0.3], [0.5, 0.5], [0.8, 0.2], [0.2, 0.8], [0.2, 0.8]])
KNOWN: dict[str, Any] = {"sensitive_features": ["f", "f", "m", "m", "m"], "complexity": 0.0}


def test_every_term_by_hand():
    bound = generalization_bound(H, F, **{**KNOWN, "complexity": 0.1}, delta=0.1)
    # means of h: f .5, m .4; of f: f .6, m .4
    terms = bound.disparity, bound.fit_gap, bound.predicted_disparity
    assert terms == pytest.approx((0.1, 0.1, 0.2))
    assert (bound.n_smallest, bound.n_classes, bound.n_groups) == (2, 2, 2)
    root = sqrt(log(2 * 2 * 2 / 0.1) / (2 * 2))
    assert bound.confidence == pytest.approx(root)
    assert bound.printed == pytest.approx(0.1 + 0.2 + 0.2 + root)
    assert bound.proven == pytest.approx(0.1 + 0.2 + 0.4 + 2 * root)
    assert bound.direct == pytest.approx(0.2 + 0.4 + 2 * root)
    assert bound.vacuous


def test_predictions_are_read_with_the_classes_of_the_labels():
    names, turned = {"a": H[:, 0], "b": H[:, 1]}, {"b": F[:, 1], "a": F[:, 0]}
    assert generalization_bound(names, turned, **KNOWN) == generalization_bound(H, F, **KNOWN)
    y, four = ["a", "b", "a", "b"], {"sensitive_features": [0, 0, 1, 1], "complexity": 0.0}
    never = generalization_bound(y, ["a"] * 4, **four)
    assert (never.fit_gap, never.predicted_disparity, never.n_classes) == (0.5, 0.0, 2)
    mixed = generalization_bound(y, [[0.5, 0.5]] * 4, **four)
    assert (mixed.fit_gap, mixed.disparity) == (0.0, 0.0)
    with pytest.raises(UnseenError):
        generalization_bound(y, ["a", "c", "a", "a"], **four)
    with pytest.raises(InputError):
        generalization_bound(H, F[:4], **KNOWN)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"delta": value} for value in (0.0, "0.05", None)),
        *({"complexity": value} for value in (-0.1, "small", np.inf)),
        {"n_smallest": 0},
    ],
)
def test_refused_bounds(wrong):
    sizes = {"n_smallest": 500, "n_classes": 4, "n_groups": 3}
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        GeneralizationBound(
            **{"disparity": 0.01, "fit_gap": 0.02, "complexity": 0.03, **sizes, **wrong}
        )


def test_the_bound_holds_for_a_fixed_function_where_the_sample_alone_does_not():
    # A class of one function has complexity 0. Its parity in the population is .2; that of a sample
    # lies below in half the cases.
    rng, groups = np.random.default_rng(0), np.arange(60) % 2
    bounds = []
    for _ in range(100):
        score = rng.random(60) < 0.3 + 0.2 * groups
        rows = np.column_stack([score, ~score]).astype(float)
        bounds.append(generalization_bound(rows, rows, sensitive_features=groups, complexity=0.0))
    assert np.mean([bound.disparity >= 0.2 for bound in bounds]) == pytest.approx(0.5, abs=0.2)
    assert np.mean([bound.direct >= 0.2 for bound in bounds]) >= 0.95
    assert all(bound.direct <= bound.proven + 1e-12 for bound in bounds)


def constant(X: Any, y: Any) -> Any:
    return np.tile(np.bincount(y, minlength=3) / len(y), (len(y), 1))


def memorising(X: Any, y: Any) -> Any:
    return np.eye(3)[y]


def linear(X: Any, y: Any) -> Any:
    A = np.column_stack([np.ones(len(X)), X])
    return np.clip(A @ np.linalg.lstsq(A, np.eye(3)[y], rcond=None)[0], 0, 1)


def test_complexity_of_learners():
    X = np.random.default_rng(0).normal(size=(2_000, 5))
    assert abs(rademacher_complexity(constant, X, 3).mean) < 0.01
    found = rademacher_complexity(memorising, X, 3)
    # The largest correlation of signs with numbers in [0, 1] is the share of positive signs: 1/2,
    # not 1.
    assert found.mean == pytest.approx(0.5, abs=0.01)
    assert found.relative == pytest.approx(1, abs=0.02)
    assert found.error < 0.01 and len(found.draws) == 20
    sizes = [rademacher_complexity(linear, X[:n], 3).mean for n in (20, 100, 500, 2_000)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 5 * sizes[-1] > 0
    with pytest.raises(ParameterError, match="whole numbers"):
        rademacher_complexity(memorising, X, 3, n_draws=2.5)


def fair_table(seed: int, n_rows: int = 600) -> Any:
    rng = np.random.default_rng(seed)
    codes = rng.choice(4, n_rows, p=[0.4, 0.3, 0.2, 0.1])
    return codes, np.concatenate([np.arange(3), rng.integers(0, 3, n_rows - 3)])


def test_tables_and_rows_are_permuted_alike():
    codes, groups = fair_table(0)
    rng = np.random.default_rng(4)
    many, few = 1 + rng.uniform(0, 1e-9, len(codes)), rng.choice([1.0, 5.0], len(codes))

    def draws(seed: int, y: Any, weight: Any = None) -> Any:
        options = {"n_permutations": 4_000, "random_state": seed}
        found = sampling_level(y, sensitive_features=groups, sample_weight=weight, **options)
        return np.sort(found.draws)

    # Class labels of one weight or a few are drawn as tables, the others row by row.
    for one, other in (
        (draws(1, codes), draws(2, codes, many)),
        (draws(1, codes), draws(3, np.eye(4)[codes])),
        (draws(5, codes, few), draws(6, codes, few * many)),
    ):
        grid = np.concatenate([one, other]) + 1e-8
        share = [np.searchsorted(each, grid) / 4_000 for each in (one, other)]
        # Kolmogorov-Smirnov at 0.1 %: 1.95 sqrt(2 / 4000)
        assert np.abs(share[0] - share[1]).max() < 0.044


@pytest.mark.parametrize("sizes", [(3000, 3000), (6000, 40), (6000, 5)])
def test_many_probabilities_are_drawn_as_their_rows_are(sizes, monkeypatch):
    rng = np.random.default_rng(5)
    y, groups = rng.dirichlet([0.2, 0.5, 1.0], sum(sizes)), np.repeat([0, 1], sizes)
    drawn = []
    for most in (0, 1 << 30):
        monkeypatch.setattr("r2b.metrics.resampling.MOST_EXACT", most)
        rows = {"sensitive_features": groups, "sample_weight": rng.uniform(0.5, 2.0, len(y))}
        quantiles = sampling_level(y, **rows, n_permutations=1500, quantiles=(0.1, 0.5, 0.9, 0.95))
        drawn.append(list(quantiles.quantiles.values()))
    np.testing.assert_allclose(drawn[0], drawn[1], rtol=0.1)


def test_permutations_by_hand():
    # Two rows of each class in two groups of two: 4 of the 6 ways to split give parity 0, the
    # others 1.
    rows = {"sensitive_features": [0, 0, 1, 1], "n_permutations": 6_000}
    draws = sampling_level([0, 1, 0, 1], **rows).draws
    assert set(draws) == {0.0, 1.0}
    assert draws.mean() == pytest.approx(1 / 3, abs=0.03)
