"""Expansion by its definition: one entry per possible class, weights that add up, the same from rows and from a table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2b._labels.forms import sampling as expansion
from r2b._labels.forms.sampling import expanded
from r2b.errors import (
    LengthError,
    ParameterError,
    ProbabilityError,
    R2BError,
    ShapeError,
    WeightError,
)


def make_rows(n: int, n_classes: int, seed: int) -> np.ndarray:
    """Distributions with zeros and tiny entries at random places."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(n_classes), size=n) * rng.choice(
        [0.0, 1e-13, 1.0], size=(n, n_classes)
    )
    rows += 1e-3 * np.eye(n_classes)[rng.integers(0, n_classes, n)]
    return rows / rows.sum(axis=1, keepdims=True)


def by_definition(rows: np.ndarray, weight: np.ndarray) -> list[tuple[int, int, float]]:
    return [
        (i, k, float(rows[i, k]) / float(rows[i].astype(np.float64).sum()) * weight[i])
        for i in range(rows.shape[0])
        for k in range(rows.shape[1])
        if rows[i, k] > 0
    ]


@settings(deadline=None, max_examples=120)
@given(
    st.integers(0, 30),
    st.integers(1, 30),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 2**32),
)
def test_entries_are_those_of_the_definition(
    n: int, n_classes: int, dtype: type, seed: int
) -> None:
    rows = make_rows(n, n_classes, seed).astype(dtype)
    weight = np.random.default_rng(seed).lognormal(0, 3, n)
    row_index, class_codes, weights = expanded(rows, weight=weight)
    assert (row_index.dtype, class_codes.dtype, weights.dtype) == (np.int64, np.uint8, np.float64)
    expected = by_definition(rows, weight)
    assert list(zip(row_index.tolist(), class_codes.tolist(), strict=True)) == [
        entry[:2] for entry in expected
    ]
    np.testing.assert_allclose(weights, [entry[2] for entry in expected], rtol=1e-12)
    np.testing.assert_allclose(np.bincount(row_index, weights, n), weight, rtol=1e-12)


@settings(deadline=None, max_examples=120)
@given(
    st.integers(0, 100),
    st.integers(1, 12),
    st.integers(1, 30),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_table_gives_what_its_rows_give(
    n: int, n_table: int, n_classes: int, weighted: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    table = make_rows(n_table, n_classes, seed)
    index = rng.integers(0, n_table, n).astype(np.uint8)
    weight = rng.random(n) if weighted else None
    for found, expected in zip(
        expanded(table, index, weight), expanded(table[index], weight=weight), strict=True
    ):
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


def test_weighted_class_shares_are_kept() -> None:
    rows = make_rows(1000, 7, 0)
    weight = np.random.default_rng(0).lognormal(0, 2, 1000)
    _, class_codes, weights = expanded(rows, weight=weight)
    np.testing.assert_allclose(np.bincount(class_codes, weights, 7), weight @ rows, rtol=1e-12)


def test_rows_off_one_are_rescaled_to_their_weight() -> None:
    rows = make_rows(50, 5, 1) * (1 + 1e-5)
    row_index, _, weights = expanded(rows)
    np.testing.assert_allclose(np.bincount(row_index, weights), 1, rtol=1e-12)


def test_rows_without_weight_keep_their_entries() -> None:
    row_index, class_codes, weights = expanded([[0.5, 0.5], [1.0, 0.0]], weight=[0.0, 2.0])
    assert (row_index.tolist(), class_codes.tolist(), weights.tolist()) == (
        [0, 0, 1],
        [0, 1, 0],
        [0.0, 0.0, 2.0],
    )


def test_block_size_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_rows(200, 9, 3)
    index = np.random.default_rng(0).integers(0, 200, 500)
    weight = np.random.default_rng(1).random(500)
    expected = expanded(rows[index], weight=weight)
    for block in (1, 13, 500, 10**6):
        monkeypatch.setattr(expansion, "BLOCK_ENTRIES", 4 * block)
        for found, one in zip(expanded(rows, index, weight), expected, strict=True):
            assert np.array_equal(found, one)


def test_no_rows_give_empty_arrays_of_the_right_types() -> None:
    for row_index, class_codes, weights in (
        expanded(np.zeros((0, 300))),
        expanded(np.eye(300), np.zeros(0, np.int64)),
    ):
        assert (row_index.size, class_codes.size, weights.size) == (0, 0, 0)
        assert (row_index.dtype, class_codes.dtype, weights.dtype) == (
            np.int64,
            np.uint16,
            np.float64,
        )


@pytest.mark.parametrize(
    ("rows", "weight", "kind"),
    [
        ([0.5, 0.5], None, ShapeError),
        ([[0.5, 0.4]], None, ProbabilityError),
        ([[-0.5, 1.5]], None, ProbabilityError),
        ([[0.5, 0.5]], [1.0, 1.0], LengthError),
        ([[0.5, 0.5]], [-1.0], WeightError),
    ],
)
def test_rows_that_cannot_be_expanded_are_refused(
    rows: object, weight: object, kind: type[R2BError]
) -> None:
    with pytest.raises(kind):
        expanded(rows, weight=weight)
    with pytest.raises(kind):
        expanded(rows, [0], weight)


def test_rows_that_the_table_does_not_have_are_refused() -> None:
    with pytest.raises(ParameterError):
        expanded([[0.5, 0.5]], [1])
