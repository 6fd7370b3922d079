"""The forest where numba is missing or cannot write, and its own promise: sums stay, few rows are left."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from r2b._labels.forms import forest, rounding
from r2b._labels.forms.keyed import draws_of, row_numbers
from r2b._labels.forms.turns import round_rows


def make_rows(n: int, n_classes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=n)


@pytest.mark.parametrize("n_classes", [2, 3, 17])
def test_sums_stay_after_every_row_and_few_rows_are_left(n_classes: int) -> None:
    rows = make_rows(100, n_classes, 0)
    rng = np.random.default_rng(0)
    grown = forest.Forest(n_classes, n_classes, capped=False, compiled=False)
    decided = np.zeros(n_classes)
    for i, row in enumerate(rows):
        start = np.array([0, n_classes])
        _, hit = grown.add(
            start, np.arange(n_classes), row, np.array([i]), np.ones(1), rng.random(n_classes)
        )
        decided += np.bincount(hit, minlength=n_classes)
        owner, column, mass = grown.undecided()
        assert np.unique(owner).size < n_classes
        assert owner.size <= 2 * n_classes - 2
        np.testing.assert_allclose(
            decided + np.bincount(column, mass, n_classes), rows[: i + 1].sum(axis=0), atol=1e-11
        )
    assert decided.sum() >= 100 - n_classes + 1


def test_sure_rows_never_reach_the_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(forest, "settle", lambda start, *rest: given.append(len(start) - 1) or 0)
    sure = np.eye(4)[[0, 3, 3, 1]]
    rows = (1 - 3e-13) * sure + 1e-13 * (1 - sure)
    assert round_rows(rows, draws_of(row_numbers(0, len(rows)), 0)).tolist() == [0, 3, 3, 1]
    assert given == [0]


def test_without_numba_the_same_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_rows(300, 5, 0)
    expected = round_rows(rows, draws_of(row_numbers(0, len(rows)), 0))
    monkeypatch.setattr(rounding, "COMPILE_FROM", -1)
    monkeypatch.setitem(sys.modules, "numba", None)
    forest.compiled_settle.cache_clear()
    try:
        assert forest.compiled_settle() is None
        assert np.array_equal(round_rows(rows, draws_of(row_numbers(0, len(rows)), 0)), expected)
    finally:
        forest.compiled_settle.cache_clear()
