"""Integers to compact codes: the same answer as sorting, at the edges of every dtype."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from r2b._data.arrays import (
    BLOCK_ROWS,
    WIDEST_SPAN,
    compact_integers,
    first_rows,
    smallest_unsigned,
)

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i2", ">i8", ">u4"]


def assert_as_sorted(values):
    codes, present = compact_integers(values)
    expected, inverse = np.unique(values, return_inverse=True)
    np.testing.assert_array_equal(present, expected)
    np.testing.assert_array_equal(codes, inverse)
    assert present.dtype == values.dtype
    assert codes.dtype == smallest_unsigned(len(expected))


@given(st.sampled_from(INTEGERS).flatmap(lambda dtype: hnp.arrays(dtype, st.integers(1, 40))))
def test_codes_are_those_of_sorting(values):
    assert_as_sorted(values)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_ends_of_the_dtype(dtype):
    ends = np.iinfo(dtype)
    assert_as_sorted(np.array([ends.max, ends.min, ends.max], dtype=dtype))
    assert_as_sorted(np.array([ends.max, ends.max - 1], dtype=dtype))
    assert_as_sorted(np.array([ends.min + 3, ends.min], dtype=dtype))


@pytest.mark.parametrize("span", [255, 256, 257, WIDEST_SPAN - 1, WIDEST_SPAN, WIDEST_SPAN + 1])
@pytest.mark.parametrize("low", [-40_000, 0, 10**12])
def test_spans_around_the_limits(span, low):
    assert_as_sorted(np.array([low + span - 1, low, low + span // 2, low]))
    assert_as_sorted(np.arange(low, low + span)[::-1])


def test_a_value_that_occurs_in_the_last_block_only_is_found():
    values = np.zeros(2 * BLOCK_ROWS + 5, dtype=np.int64)
    values[-1] = 3
    codes, present = compact_integers(values)
    assert present.tolist() == [0, 3]
    assert codes[-1] == 1 and codes[:-1].max() == 0


def test_strided_rows():
    assert_as_sorted(np.arange(20)[::-3])
    assert_as_sorted(np.asfortranarray(np.arange(20).reshape(5, 4))[2])


def test_the_codes_are_a_copy():
    values = np.array([0, 1, 1], dtype=np.uint8)
    codes, _ = compact_integers(values)
    values[:] = 7
    assert codes.tolist() == [0, 1, 1]


@given(hnp.arrays(np.uint8, st.integers(1, 60), elements=st.integers(0, 5)))
def test_first_rows_by_definition(values):
    codes, present = compact_integers(values)
    found = first_rows(codes, len(present))
    assert found.tolist() == [values.tolist().index(value) for value in present]


def test_first_rows_across_blocks():
    codes = np.zeros(BLOCK_ROWS + 10, dtype=np.uint8)
    codes[BLOCK_ROWS + 4 :] = 1
    assert first_rows(codes, 2).tolist() == [0, BLOCK_ROWS + 4]
