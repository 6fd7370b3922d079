"""Rounding by its definition: floors and ceilings, exact sums, unchanged expectations; and the same labels however it is run."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from math import ceil, floor, fsum
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import r2b._labels.forms
from r2b._labels.forms import forest, rounding, turns
from r2b._labels.forms.keyed import SeededStream, draws_of, entry_uniforms, row_numbers
from r2b._labels.forms.rounding import handed_out, round_table
from r2b._labels.forms.turns import round_rows
from r2b.errors import (
    EmptyError,
    LengthError,
    ParameterError,
    ProbabilityError,
    R2BError,
    ShapeError,
    WeightError,
)

KINDS = ["dirichlet", "ties", "thirds", "sparse", "onehot", "near", "tiny", "copies"]
SAFE_Z = 5.0  # One entry in 1.7 million goes beyond this by chance, and the seeds are fixed.


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


def assert_rounded(found: int, target: float, tolerance: float) -> None:
    """An integer target must be met; any other may be rounded down or up."""
    assert floor(target + tolerance) <= found <= ceil(target - tolerance)


def assert_counts(codes: np.ndarray, rows: np.ndarray) -> None:
    rows = rows / rows.sum(axis=1, keepdims=True)
    counts = np.bincount(codes, minlength=rows.shape[1])
    for k in range(rows.shape[1]):
        assert_rounded(counts[k], fsum(rows[:, k]), 1e-8)
    assert (rows[np.arange(len(rows)), codes] > 0).all()


def assert_close_to_chance(frequency: np.ndarray, chance: np.ndarray, draws: int) -> None:
    spread = np.sqrt(np.maximum(chance * (1 - chance), 1e-12) / draws)
    assert np.abs((frequency - chance) / spread).max() < SAFE_Z


def assert_frequencies(chance: np.ndarray, draws: int, draw: Callable[[], np.ndarray]) -> None:
    frequency = np.zeros(chance.shape)
    for _ in range(draws):
        frequency[np.arange(len(chance)), draw()] += 1 / draws
    assert_close_to_chance(frequency, chance, draws)


# ---- tables ----


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


@pytest.mark.parametrize("seed", range(20))
def test_table_of_huge_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    totals = rng.integers(10**9, 4 * 10**9, 6)
    targets = rng.dirichlet(np.ones(16), size=6) * totals[:, None]
    result = round_table(targets, rng)
    assert result.sum(axis=1).tolist() == totals.tolist()
    assert (np.abs(result - targets) <= 1).all()
    assert (np.abs(result.sum(axis=0) - targets.sum(axis=0)) <= 1 + 1e-5).all()


@pytest.mark.parametrize("error", [-9e-7, -1e-8, 1e-8, 9e-7])
def test_table_rows_off_by_a_little_still_come_out_exact(error: float) -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        targets = rng.dirichlet(np.ones(5), size=7) * 10
        targets[:, 0] += error
        result = round_table(targets, rng)
        assert (result.sum(axis=1) == 10).all()
        assert (np.abs(result - targets) < 1 + 1e-6).all()


class Stubborn:
    """A generator that always draws the same number."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self, size: int) -> np.ndarray:
        return np.full(size, self.number)


@pytest.mark.parametrize("number", [0.0, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("n_rows", [3, 30])
def test_table_keeps_whole_sums_under_the_least_likely_draws(number: float, n_rows: int) -> None:
    for seed in range(20):
        # A table and its mirror image: whole sums of columns but for rounding errors, which no draw
        # may turn into a count.
        half = np.random.default_rng(seed).dirichlet([1.0, 1.0], size=n_rows) * 7
        result = round_table(np.vstack([half, half[:, ::-1]]), Stubborn(number))
        assert result.sum(axis=0).tolist() == [7 * n_rows, 7 * n_rows]
        assert (result.sum(axis=1) == 7).all()


def test_completed_rows_are_whole_and_in_range() -> None:
    rng = np.random.default_rng(0)
    parts = rng.random((50, 6)) * (rng.random((50, 6)) < 0.6)
    before = parts.copy()
    rounding._complete_rows(parts)
    np.testing.assert_allclose(parts.sum(axis=1), np.rint(before.sum(axis=1)), atol=1e-12)
    assert (parts >= 0).all() and (parts <= 1).all() and (parts[before == 0] == 0).all()


def test_table_rows_of_noise_alone() -> None:
    targets = np.array([[5e-10, 5e-10, 3 - 1e-9], [5e-7, 4e-7, 0.0], [1 - 5e-7, 1.0, 1 - 4e-7]])
    for seed in range(20):
        assert round_table(targets, np.random.default_rng(seed)).tolist() == [
            [0, 0, 3],
            [0, 0, 0],
            [1, 1, 1],
        ]


def test_table_of_integers_is_returned_as_it_is() -> None:
    targets = np.array([[3, 0, 10**9], [0, 0, 0], [1, 2, 3]])
    assert np.array_equal(round_table(targets, np.random.default_rng(0)), targets)
    assert round_table(np.zeros((0, 4)), np.random.default_rng(0)).shape == (0, 4)


@pytest.mark.slow
def test_table_changes_nothing_on_average() -> None:
    targets = np.array(
        [
            [0.3, 0.5, 1.2, 0.0],
            [2.1, 0.15, 0.75, 1.0],
            [0.02, 0.5, 0.18, 0.3],
            [0.25, 0.25, 0.25, 0.25],
        ]
    )
    rng = np.random.default_rng(11)
    mean = sum(round_table(targets, rng) for _ in range(6000)) / 6000
    assert_close_to_chance(mean - np.floor(targets), targets - np.floor(targets), 6000)


@pytest.mark.parametrize(
    ("targets", "kind"),
    [
        ([1.0, 2.0], ShapeError),
        (np.zeros((2, 0)), EmptyError),
        ([[0.5, 0.4]], ParameterError),
        ([[0.5, 0.50001]], ParameterError),
        ([[1.5, -0.5]], ParameterError),
        ([[np.nan, 1.0]], ParameterError),
        ([[np.inf, 1.0]], ParameterError),
    ],
)
def test_table_that_cannot_be_rounded_is_refused(targets: object, kind: type[R2BError]) -> None:
    with pytest.raises(kind):
        round_table(targets, np.random.default_rng(0))


def test_row_sum_error_names_the_row() -> None:
    with pytest.raises(ParameterError, match=r"Row 1 of targets sums to 1\.3"):
        round_table([[0.5, 0.5], [0.5, 0.8]], np.random.default_rng(0))


# ---- rows ----


def draws_for(n: int, seed: int) -> np.ndarray:
    return draws_of(row_numbers(0, n), seed)


@settings(deadline=None, max_examples=250)
@given(
    st.sampled_from(KINDS),
    st.integers(0, 60),
    st.integers(1, 30),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 2**32),
)
def test_class_counts_are_column_sums_rounded(
    kind: str, n: int, n_classes: int, dtype: type, seed: int
) -> None:
    rows = make_rows(kind, n, n_classes, seed).astype(dtype)
    codes = round_rows(rows, draws_for(len(rows), seed))
    assert codes.dtype == np.uint8
    assert_counts(codes, rows.astype(np.float64))


@pytest.mark.parametrize("scale", [1.0, 1 - 9e-5, 1 + 9e-5])
def test_whole_column_sums_are_met_exactly_after_rescaling(scale: float) -> None:
    # Every row also in reverse: the sums are whole, whatever the rows are.
    half = make_rows("dirichlet", 10_000, 2, 3)
    rows = np.vstack([half, half[:, ::-1]]) * scale
    assert np.bincount(round_rows(rows, draws_for(len(rows), 0))).tolist() == [10_000, 10_000]


def test_many_rows_and_many_classes() -> None:
    rows = make_rows("sparse", 3000, 300, 1)
    codes = round_rows(rows, draws_for(len(rows), 1))
    assert codes.dtype == np.uint16
    assert_counts(codes, rows)


MIXED = np.array(
    [
        [0.2, 0.3, 0.5],
        [0.6, 0.4, 0.0],
        [0.0, 0.05, 0.95],
        [1.0, 0.0, 0.0],
        [1 / 3, 1 / 3, 1 / 3],
        [0.01, 0.98, 0.01],
    ]
)


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 0.1, 5.0, 30.0, 0.0]])
def test_rows_get_classes_with_their_probabilities(weight: list[float] | None) -> None:
    rng = np.random.default_rng(5)
    assert_frequencies(
        MIXED, 6000, lambda: round_rows(MIXED, rng.integers(2**53, size=len(MIXED)), weight)
    )


def test_order_of_rows_does_not_change_the_probabilities() -> None:
    # The last rows meet a full forest, the first an empty one; both must keep their marginals.
    rows = make_rows("dirichlet", 40, 4, 2)
    rng = np.random.default_rng(6)
    assert_frequencies(rows, 1500, lambda: round_rows(rows, rng.integers(2**53, size=len(rows))))


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(KINDS),
    st.integers(1, 60),
    st.integers(1, 20),
    st.sampled_from([0.0, 1.0, 5.0]),
    st.integers(0, 2**32),
)
def test_weighted_shares_stay_within_the_stated_bound(
    kind: str, n: int, n_classes: int, spread: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = make_rows(kind, n, n_classes, seed)
    weight = rng.lognormal(0, spread, n) * (rng.random(n) < 0.9)
    weight[0] = 1.0  # Some weight there must be.
    made = []

    class Spied(forest.Forest):
        def __init__(self, *args: int, **kwargs: bool) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "Forest", Spied)
        codes = round_rows(rows, rng.integers(2**53, size=n), weight)
    owner, column, mass = made[0].undecided()
    undecided = np.unique(owner)
    assert undecided.size <= n_classes - 1

    # What the rotations leave: the decided rows and the masses of the others add up to the weighted
    # column sums.
    decided = np.delete(np.arange(n), undecided)
    decided = decided[weight[decided] > 0]
    kept = np.bincount(codes[decided], weight[decided], n_classes) + np.bincount(
        column, mass * weight.max(), n_classes
    )
    positive = weight > 0
    target = weight[positive] @ rows[positive]
    np.testing.assert_allclose(kept, target, atol=1e-10 * weight.sum())

    bound = (n_classes - 1) * (weight[undecided].max() if undecided.size else 0.0)
    found = np.bincount(codes, weight, n_classes)
    assert np.abs(found - target).max() <= bound + 1e-10 * weight.sum()
    assert (rows[np.arange(n), codes] > 0).all()


def test_equal_weights_are_no_weights() -> None:
    rows = make_rows("dirichlet", 200, 5, 4)
    plain, weighted = (
        round_rows(rows, draws_for(len(rows), 0), weight) for weight in (None, np.full(200, 3.7))
    )
    assert np.array_equal(plain, weighted)


@pytest.mark.parametrize(
    "weight",
    [[1e300, 1.0, 1e-300], [5e-324, 5e-324, 1e-310], [0.0, 0.0, 0.0], [1.0, 1e-149, 1e-151]],
)
def test_extreme_weights(weight: list[float]) -> None:
    rows = np.array([[0.5, 0.5, 0.0], [0.0, 1e-140, 1.0], [0.3, 0.3, 0.4]])
    for seed in range(50):
        codes = round_rows(rows, draws_for(len(rows), seed), weight)
        assert (rows[np.arange(3), codes] > 0).all()


@pytest.mark.parametrize(
    ("rows", "weight", "kind"),
    [
        ([0.5, 0.5], None, ShapeError),
        (np.zeros((3, 0)), None, EmptyError),
        ([[0.5, 0.5], [0.5, 0.4]], None, ProbabilityError),
        ([[0.5, 0.5], [1.5, -0.5]], None, ProbabilityError),
        ([[0.5, 0.5], [np.nan, 0.5]], None, ProbabilityError),
        ([[0.5, 0.5]], [1.0, 2.0], LengthError),
        ([[0.5, 0.5]], [-1.0], WeightError),
        ([[0.5, 0.5]], [np.nan], WeightError),
        ([[0.5, 0.5]], [np.inf], WeightError),
    ],
)
def test_rows_that_cannot_be_rounded_are_refused(
    rows: object, weight: object, kind: type[R2BError]
) -> None:
    with pytest.raises(kind):
        round_rows(rows, draws_for(len(rows), 0), weight)


# ---- however it is run ----


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
        monkeypatch.setattr(turns, "block_length", lambda n_classes, length=length: length)
        results.append(round_rows(rows, draws_for(len(rows), 3), weight))
    assert all(np.array_equal(result, results[0]) for result in results)


def test_same_seed_same_labels_other_seed_other_labels() -> None:
    rows = make_rows("dirichlet", 400, 5, 0)
    first, again, other = (round_rows(rows, draws_for(len(rows), seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_nothing_in_the_room_takes_the_most_likely_class() -> None:
    for path in Path(r2b._labels.forms.__file__).parent.glob("*.py"):
        names = {
            node.attr
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute)
        }
        assert not names & {"argmax", "nanargmax", "argpartition"}, path


# ---- class labels ----


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 200), st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**32))
def test_classes_that_are_handed_out_meet_the_table(
    n: int, n_old: int, n_new: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    old = rng.integers(0, n_old, n)
    counts = np.bincount(old, minlength=n_old)
    table = round_table(counts[:, None] * rng.dirichlet(np.ones(n_new), size=n_old), rng)
    new = handed_out(table, old, draws_for(n, seed))
    met = np.zeros_like(table)
    np.add.at(met, (old, new), 1)
    assert np.array_equal(met, table) and new.dtype == np.uint8


def test_every_row_of_an_old_class_has_the_same_chance() -> None:
    old = np.array([0, 1, 0, 0, 1, 0], dtype=np.int8)
    table = np.array([[1, 3, 0], [0, 1, 1]])
    rng = np.random.default_rng(3)
    drawn = (table / table.sum(axis=1, keepdims=True))[old]
    assert_frequencies(drawn, 5000, lambda: handed_out(table, old, rng.integers(2**53, size=6)))


def test_more_than_256_old_classes() -> None:
    old = np.random.default_rng(0).permutation(np.repeat(np.arange(300), 2))
    new = handed_out(2 * np.eye(300, dtype=np.int64)[:, ::-1], old, draws_for(600, 0))
    assert np.array_equal(new, 299 - old)


def test_streams_are_the_same_however_they_are_asked_and_apart_by_place() -> None:
    one, other = SeededStream(5, 1), SeededStream(5, 1)
    assert np.array_equal(
        np.concatenate([one.random(3), one.random(0), one.random(700)]), other.random(703)
    )
    apart = np.concatenate(
        [SeededStream(seed, place).random(500) for seed in range(4) for place in range(4)]
    )
    assert len(np.unique(apart)) == len(apart) and abs(apart.mean() - 0.5) < 0.02


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
