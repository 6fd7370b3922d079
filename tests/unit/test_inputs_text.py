"""Fixed-width text to codes: by a hash where strings are few, by their characters where they are not, the same either way."""

from __future__ import annotations

import numpy as np
import pytest

from r2b._data import arrays as text
from r2b._data.arrays import encode_text

LETTERS = np.array(list("abcdeéü✓ z"))


def words(rng, n, n_distinct, width):
    vocabulary = np.unique(
        np.array(
            ["".join(rng.choice(LETTERS, rng.integers(0, width + 1))) for _ in range(n_distinct)],
            dtype=f"U{width}",
        )
    )
    return vocabulary[rng.integers(0, len(vocabulary), n)]


@pytest.mark.parametrize("n_distinct", [1, 2, 40, 290, 3000])
@pytest.mark.parametrize("width", [1, 2, 3, 7, 12, 26, 64])
def test_codes_and_values_are_those_of_a_sort(n_distinct, width):
    column = words(np.random.default_rng([n_distinct, width]), 5_000, n_distinct, width)
    for array in (
        column,
        column[::-2],
        column.astype(f">U{width}"),
        np.char.encode(column, "utf-8"),
    ):
        codes, values = encode_text(array)
        wanted, places = np.unique(array, return_inverse=True)
        assert values.tolist() == wanted.tolist() and values.dtype == array.dtype
        assert np.array_equal(codes, places) and codes.dtype == np.min_scalar_type(len(wanted) - 1)


def test_strings_that_share_a_bucket_are_told_apart(monkeypatch):
    column = words(np.random.default_rng(0), 3_000, 50, 9)
    wanted = encode_text(column)
    monkeypatch.setattr(text, "_GOLDEN", np.uint64(0))  # every string in one bucket
    assert text._hashed(column) is None
    for one, other in zip(encode_text(column), wanted, strict=True):
        assert np.array_equal(one, other)


def test_blocks_agree_on_their_strings(monkeypatch):
    column = words(np.random.default_rng(1), 3_000, 200, 5)
    wanted = encode_text(column)
    monkeypatch.setattr(text, "BLOCK_ROWS", 64)
    for one, other in zip(encode_text(column), wanted, strict=True):
        assert np.array_equal(one, other)
