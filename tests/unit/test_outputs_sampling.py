"""Sampling by its definition: the class whose stretch of the cumulative sums the uniform number falls into, never an impossible one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2b._labels.forms import sampling
from r2b._labels.forms.sampling import sample_rows, sample_table
from r2b.errors import (
    EmptyError,
    LengthError,
    ParameterError,
    ProbabilityError,
    R2BError,
    ShapeError,
)

HIGHEST = 1 - 2.0**-53  # The largest float64 below 1.


def make_rows(n: int, n_classes: int, seed: int) -> np.ndarray:
    """Distributions with zeros at random places, first and last classes included."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(n_classes, 0.5), size=n) * (rng.random((n, n_classes)) < 0.5)
    rows += 1e-6 * np.eye(n_classes)[rng.integers(0, n_classes, n)]
    return rows / rows.sum(axis=1, keepdims=True)


def by_definition(row: np.ndarray, uniform: float) -> int:
    reached = 0.0
    total = 0.0
    for chance in row:  # one by one: from Python 3.12 on, sum() makes up for the rounding of floats
        total += float(chance)
    for k, chance in enumerate(row):
        reached += float(chance)
        if uniform * total < reached:
            return k
    raise AssertionError("no class reached")


@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, 40),
    st.integers(1, 30),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 2**32),
)
def test_class_of_the_uniform_number(n: int, n_classes: int, dtype: type, seed: int) -> None:
    rows = make_rows(n, n_classes, seed).astype(dtype)
    uniforms = np.random.default_rng(seed).random(n)
    uniforms[::5] = HIGHEST
    uniforms[1::5] = 0.0
    codes = sample_rows(rows, uniforms)
    assert codes.dtype == np.uint8
    assert codes.tolist() == [by_definition(row, u) for row, u in zip(rows, uniforms, strict=True)]
    assert (rows[np.arange(n), codes] > 0).all()


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 100), st.integers(1, 20), st.integers(1, 40), st.integers(0, 2**32))
def test_table_gives_what_its_rows_give(n: int, n_table: int, n_classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = make_rows(n_table, n_classes, seed)
    index = rng.integers(0, n_table, n).astype(np.uint8)
    uniforms = rng.random(n)
    uniforms[::5] = HIGHEST
    uniforms[1::5] = 0.0
    assert np.array_equal(sample_table(index, table, uniforms), sample_rows(table[index], uniforms))


@pytest.mark.parametrize("scale", [1.0, 1 - 1e-16, 1 - 1e-6, 1 + 1e-6])
def test_sums_off_one_never_reach_an_impossible_class(scale: float) -> None:
    row = np.array([0.0, 0.1, 0.0, 0.2, 0.7, 0.0, 0.0]) * scale
    uniforms = np.array([0.0, np.nextafter(0.1, 0), 0.11, 0.299, 0.31, HIGHEST])
    expected = [1, 1, 3, 3, 4, 4]
    assert sample_rows(np.tile(row, (6, 1)), uniforms).tolist() == expected
    assert sample_table(np.zeros(6, np.int64), row[None], uniforms).tolist() == expected


def test_frequencies_are_the_probabilities() -> None:
    table = make_rows(4, 5, 1)
    draws = 20_000
    index = np.repeat(np.arange(4), draws)
    codes = sample_table(index, table, np.random.default_rng(4).random(index.size))
    found = np.zeros(table.shape)
    np.add.at(found, (index, codes), 1 / draws)
    spread = np.sqrt(np.maximum(table * (1 - table), 1e-12) / draws)
    assert np.abs((found - table) / spread).max() < 5


def test_block_size_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table, index, uniforms = make_rows(30, 11, 2), rng.integers(0, 30, 500), rng.random(500)
    expected = sample_rows(table[index], uniforms)
    for entries in (4, 28, 10**7):
        monkeypatch.setattr(sampling, "BLOCK_ENTRIES", entries)
        assert np.array_equal(sample_rows(table[index], uniforms), expected)
        assert np.array_equal(sample_table(index, table, uniforms), expected)


def test_large_tables_keep_the_last_digits_of_the_uniforms() -> None:
    # Searching index + uniform in one long list would lose 1e-14 of 0.5 at row 5,000 and answer 1.
    table = np.full((5001, 2), 0.5)
    assert sample_table([5000], table, [np.nextafter(0.5, 0)]).tolist() == [0]
    assert sample_table([5000], table, [HIGHEST]).tolist() == [1]


def test_more_than_256_classes() -> None:
    assert sample_rows(np.eye(300)[[299, 0]], [0.5, 0.5]).tolist() == [299, 0]
    assert sample_table([299, 0], np.eye(300), [0.5, 0.5]).dtype == np.uint16


@pytest.mark.parametrize(
    ("rows", "uniforms", "kind"),
    [
        ([0.5, 0.5], [0.1], ShapeError),
        (np.zeros((1, 0)), [0.1], EmptyError),
        ([[0.5, 0.5]], [0.1, 0.2], LengthError),
        ([[0.5, 0.5]], [1.0], ParameterError),
        ([[0.5, 0.5]], [-0.1], ParameterError),
        ([[0.5, 0.5]], [np.nan], ParameterError),
        ([[0.5, 0.6]], [0.1], ProbabilityError),
        ([[0.0, 0.0]], [0.1], ProbabilityError),
        ([[-0.5, 1.5]], [0.1], ProbabilityError),
        ([[np.nan, 1.0]], [0.1], ProbabilityError),
    ],
)
def test_rows_that_cannot_be_sampled_are_refused(
    rows: object, uniforms: object, kind: type[R2BError]
) -> None:
    with pytest.raises(kind):
        sample_rows(rows, uniforms)
    with pytest.raises(kind):
        sample_table([0] * len(uniforms) if kind is not LengthError else [0], rows, uniforms)


def test_the_error_names_the_row_of_the_whole_not_of_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "BLOCK_ENTRIES", 4)
    rows = np.full((9, 2), 0.5)
    rows[7, 0] = 0.1
    with pytest.raises(ProbabilityError, match="Row 7 ") as caught:
        sample_rows(rows, np.zeros(9))
    assert caught.value.facts["row"] == 7


@pytest.mark.parametrize(
    ("index", "kind"),
    [([1], ParameterError), ([-1], ParameterError), ([0.0], ShapeError), ([[0]], ShapeError)],
)
def test_index_outside_the_table_is_refused(index: object, kind: type[R2BError]) -> None:
    with pytest.raises(kind):
        sample_table(index, [[0.5, 0.5]], [0.1])
