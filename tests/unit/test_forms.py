"""Labels of one class per row and repeated rows: exact sums, unchanged expectations."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import reduce
from math import ceil, floor, fsum
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2b._data.compute import parts_of
from r2b._labels import rounding
from r2b._labels.draws import BITS, SeededStream, draws_of, entry_uniforms, row_numbers
from r2b._labels.rounding import (
    Look,
    RowRounding,
    assign_in_order,
    classes_after,
    find_borders,
    padded,
    round_table,
    whole_counts,
)
from r2b._labels.rows import FORMS, Form
from r2b._labels.sampling import expanded, sample_rows
from r2b.app.making import _LAST
from r2b.errors import InputError, ProbabilityError

APP = Path(rounding.__file__).parents[1] / "app"
KINDS = ["dirichlet", "ties", "thirds", "sparse", "onehot", "near", "tiny", "copies"]


def make_rows(kind: str, n: int, n_classes: int, seed: int) -> np.ndarray:
    """Distributions of a kind that has broken a rounding somewhere."""
    rng = np.random.default_rng(seed)
    # Many entries hit 0 or 1 at once, exactly (quarters) or but for rounding errors (thirds).
    if kind in ("ties", "thirds"):
        parts = 4 if kind == "ties" else 3
        return rng.multinomial(parts, np.full(n_classes, 1 / n_classes), size=n) / parts
    if kind == "onehot":
        return np.eye(n_classes)[rng.integers(0, n_classes, n)]
    rows = rng.dirichlet(np.ones(n_classes), size=n)
    if kind == "sparse":
        rows = (
            rows * (rng.random(rows.shape) < 0.3)
            + 1e-3 * np.eye(n_classes)[rng.integers(0, n_classes, n)]
        )
    if kind == "near":
        rows = 5e-10 * rows + np.eye(n_classes)[rng.integers(0, n_classes, n)]
    if kind == "tiny":
        rows = np.where(rng.random(rows.shape) < 0.5, 1e-13 * rows, rows)
    if kind == "copies":
        rows = rows[np.zeros(n, np.intp)]
    return rows / rows.sum(axis=1, keepdims=True)


def round_rows(rows: Any, draws: Any, weight: Any = None) -> Any:
    """Round the rows of one group to one class each."""
    matrix, large = np.asarray(rows), np.size(rows) > rounding.COMPILE_FROM
    values = None if weight is None else np.asarray(weight, np.float64)
    heaviest = None if values is None else np.array([values.max(initial=0.0)])
    seed = int(draws[0]) if len(matrix) else 0
    found = RowRounding(1, matrix.shape[1], seed, heaviest, compiled=large)
    found.add(np.zeros(len(matrix), np.intp), draws, values, 0, lambda mine: matrix[mine])
    return found.finish()


def assert_rounded(found: int, target: float, tolerance: float) -> None:
    """An integer target must be met; any other may be rounded down or up."""
    assert floor(target + tolerance) <= found <= ceil(target - tolerance)


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(KINDS),
    st.integers(0, 12),
    st.integers(1, 30),
    st.sampled_from([1, 3, 1000, 10**6]),
    st.integers(0, 2**32),
)
def test_table_is_rounded_down_or_up_with_exact_rows(
    kind: str, n_rows: int, n_classes: int, scale: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    totals = rng.integers(0, scale + 1, n_rows)
    targets = make_rows(kind, n_rows, n_classes, seed) * totals[:, None]
    result = round_table(targets, rng)
    assert result.dtype == np.int64 and result.shape == targets.shape
    assert result.sum(axis=1).tolist() == totals.tolist()
    for found, target in zip(result.ravel(), targets.ravel(), strict=True):
        assert_rounded(found, target, 1e-9)
    for k in range(n_classes):
        assert_rounded(result[:, k].sum(), fsum(targets[:, k]), 1e-9 if scale < 10**6 else 1e-8)


def draws_for(n: int, seed: int) -> np.ndarray:
    return draws_of(row_numbers(0, n), seed)


@pytest.mark.parametrize(
    "weight",
    [[1e300, 1.0, 1e-300], [5e-324, 5e-324, 1e-310], [0.0, 0.0, 0.0], [1.0, 1e-149, 1e-151]],
)
def test_extreme_weights(weight: list[float]) -> None:
    rows = np.array([[0.5, 0.5, 0.0], [0.0, 1e-140, 1.0], [0.3, 0.3, 0.4]])
    for seed in range(50):
        codes = round_rows(rows, draws_for(len(rows), seed), weight)
        assert (rows[np.arange(3), codes] > 0).all()


@pytest.fixture
def run_both(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[], np.ndarray]], list[np.ndarray]]:
    """Run a function compiled, then interpreted."""
    pytest.importorskip("numba")

    def run(function: Callable[[], np.ndarray]) -> list[np.ndarray]:
        results = []
        for threshold in (-1, sys.maxsize):
            monkeypatch.setattr(rounding, "COMPILE_FROM", threshold)
            results.append(function())
        return results

    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_rows_equal_interpreted_rows(
    kind: str, weighted: bool, run_both: Callable
) -> None:
    rows = make_rows(kind, 2000, 9, 7)
    weight = np.random.default_rng(8).lognormal(0, 2, 2000) if weighted else None
    compiled, interpreted = run_both(lambda: round_rows(rows, draws_for(len(rows), 9), weight))
    assert np.array_equal(compiled, interpreted)


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_table_equals_interpreted_table(kind: str, run_both: Callable) -> None:
    targets = make_rows(kind, 30, 20, 7) * 17
    compiled, interpreted = run_both(lambda: round_table(targets, np.random.default_rng(9)))
    assert np.array_equal(compiled, interpreted)


@pytest.mark.parametrize("weighted", [False, True])
def test_block_size_does_not_matter(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.vstack([make_rows(kind, 40, 6, 1) for kind in KINDS])
    rng = np.random.default_rng(2)
    weight = rng.random(len(rows)) * (rng.random(len(rows)) < 0.8) if weighted else None
    results = []
    for length in (1, 7, 10**6):
        monkeypatch.setattr(rounding, "block_length", lambda n_classes, length=length: length)
        results.append(round_rows(rows, draws_for(len(rows), 3), weight))
    assert all(np.array_equal(result, results[0]) for result in results)


def test_draws_are_those_of_the_first_release() -> None:
    # Labels that were written are drawn again by r2b verify: these numbers must never change.
    assert draws_of(row_numbers(0, 3), 0).tolist() == [
        7423912196166763,
        7956156453446585,
        2454567507334121,
    ]
    assert (SeededStream(0, 2).random(2) * 2**53).astype(np.int64).tolist() == [
        5238972636649460,
        6759544592394296,
    ]
    assert (entry_uniforms(np.array([1, 1]), np.array([0, 3])) * 2**53).astype(
        np.int64
    ).tolist() == [3316356330981164, 6236995356031757]


@pytest.mark.parametrize(
    "rows", [[[0.5, 0.5], [0.5, 0.4]], [[0.5, 0.5], [1.5, -0.5]], [[0.5, 0.5], [np.nan, 0.5]]]
)
def test_rows_that_are_no_distributions_are_refused_by_number(rows: Any) -> None:
    for refuse in (
        lambda: round_rows(rows, draws_for(2, 0)),
        lambda: sample_rows(rows, [0.1, 0.1]),
        lambda: sample_rows(rows, [0.1], [0]),
        lambda: expanded(rows),
    ):
        with pytest.raises(ProbabilityError, match="Row 1 "):
            refuse()


def test_without_numba_the_same_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_rows("dirichlet", 300, 5, 0)
    expected = round_rows(rows, draws_for(len(rows), 0))
    monkeypatch.setattr(rounding, "COMPILE_FROM", -1)
    monkeypatch.setitem(sys.modules, "numba", None)
    rounding._compiled_settle.cache_clear()
    try:
        assert np.array_equal(round_rows(rows, draws_for(len(rows), 0)), expected)
    finally:
        rounding._compiled_settle.cache_clear()


def searched(counts: np.ndarray, pairs: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, int]:
    """Find borders in passes over batches of rows, as where rows are elsewhere."""
    passes = []

    def look_at(look: Look) -> Any:
        passes.append(look)
        parts = parts_of(len(pairs), 130)
        return reduce(Look.merge, (look(pairs[rows], draws[rows]) for rows in parts))

    ends = padded(find_borders(counts, look_at))
    return classes_after(pairs, draws, ends, counts.shape[1]), len(passes)


@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, 10_000), st.integers(1, 4), st.integers(2, 6), st.sampled_from([0.5, 5.0, 50.0])
)
def test_whole_counts_are_met_in_memory_and_elsewhere(
    seed: int, n_cells: int, n_classes: int, width: float
) -> None:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, n_cells * n_classes, 500)
    channel = rng.dirichlet(np.full(n_classes, 0.5), (n_cells, n_classes))
    rows = np.bincount(pairs, minlength=n_cells * n_classes).reshape(n_cells, n_classes)
    whole, fair = whole_counts(rows, channel, seed), rows[:, :, None] * channel
    for axis in ((), (1,), (2,)):
        assert np.abs((whole - fair).sum(axis=axis)).max() < 1.0 + 1e-9
    draws, counts = draws_for(500, seed), whole.reshape(-1, n_classes)
    codes = assign_in_order(counts, pairs, draws)
    made = np.zeros_like(counts)
    np.add.at(made, (pairs, codes), 1)
    assert np.array_equal(made, counts) and codes.dtype == np.uint8
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rounding, "DEVIATIONS", width)
        assert np.array_equal(searched(counts, pairs, draws)[0], codes)


def test_a_border_outside_its_window_takes_another_pass() -> None:
    # All draws in the first eighth: the windows are elsewhere.
    draws = np.sort(np.random.default_rng(0).integers(0, 1 << (BITS - 3), 10_000))
    new, passes = searched(np.array([[3_000, 5_000, 2_000]]), np.zeros(10_000, int), draws)
    assert passes > 1
    assert np.bincount(new).tolist() == [3_000, 5_000, 2_000]


HIGHEST = 1 - 2.0**-53  # The largest float64 below 1.


def class_by_definition(row: np.ndarray, uniform: float) -> int:
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
    rows = make_rows("sparse", n, n_classes, seed).astype(dtype)
    uniforms = np.random.default_rng(seed).random(n)
    uniforms[::5] = HIGHEST
    uniforms[1::5] = 0.0
    codes = sample_rows(rows, uniforms)
    assert codes.dtype == np.uint8
    assert codes.tolist() == [
        class_by_definition(row, u) for row, u in zip(rows, uniforms, strict=True)
    ]
    assert (rows[np.arange(n), codes] > 0).all()


def test_rows_that_are_not_those_counted_before_are_refused() -> None:
    draws, pairs = draws_for(4_000, 0), np.arange(4_000) % 4
    with pytest.raises(InputError, match="not those that were counted before"):
        find_borders(np.tile([500, 500], (4, 1)), lambda look: look(pairs[1:], draws[1:]))


def test_every_form_has_its_traits_and_is_offered_by_the_app() -> None:
    assert tuple(FORMS) == get_args(Form)
    page = (APP / "templates" / "work.html.j2").read_text(encoding="utf-8")
    assert {form for form in FORMS if f'<option value="{form}">' in page} == set(FORMS)
    assert set(_LAST) == set(FORMS)
