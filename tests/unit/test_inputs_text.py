"""Fixed-width text to codes: by a hash where strings are few, by their characters where they are not, the same either way."""

from __future__ import annotations

import numpy as np
import pytest

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
