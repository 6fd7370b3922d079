"""Probabilities of few different rows are solved from a sample that holds them all."""

from __future__ import annotations

import numpy as np
import pytest

import r2b

pa = pytest.importorskip("pyarrow")


def test_probabilities_of_few_different_rows_are_solved_from_the_sample_alone() -> None:
    rng = np.random.default_rng(1)
    scores, sex = (
        np.array([[0.1, 0.9], [0.4, 0.6], [0.75, 0.25]])[rng.integers(0, 3, 5000)],
        rng.integers(0, 2, 5000),
    )
    scores[(sex == 1) & (rng.random(5000) < 0.4)] = [0.9, 0.1]
    table = pa.table({"p": list(scores), "sex": [f"s{each}" for each in sex]})
    small = r2b.scan(table).debias("p", sensitive_features="sex", epsilon=0.01, sample_entries=2000)
    known = r2b.debias(
        scores, sensitive_features={"sex": [f"s{each}" for each in sex]}, epsilon=0.01
    )
    np.testing.assert_allclose(small.prices, known.prices, atol=1e-9)
