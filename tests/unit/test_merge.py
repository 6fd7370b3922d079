"""Merging keeps the table: every row finds its stand-in, weights add up, and no answer changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2b._data import arrays, read
from r2b._data.merge import merge


def tabulated(labels, groups, weight):
    """Total weight of every distinct (label row, group), straight from the definition."""
    totals: dict[tuple, float] = {}
    for row, group, own in zip(labels, groups, weight, strict=True):
        key = (*row.tolist(), int(group))
        totals[key] = totals.get(key, 0.0) + own
    return totals


@settings(max_examples=100, deadline=None)
@given(
    st.integers(20, 60),
    st.integers(2, 5),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(["<f4", "<f8"]),
    st.integers(0, 2**32 - 1),
)
def test_merged_probabilities_stand_for_their_rows(n, n_classes, n_groups, weighted, dtype, seed):
    rng = np.random.default_rng(seed)
    few = rng.dirichlet(np.ones(n_classes), 3).astype(dtype)
    y, groups = (
        np.tile(few[rng.integers(0, 3, n)], (4, 1)),
        np.tile(rng.integers(0, n_groups, n), 4),
    )
    y[0], groups[0] = 1 / n_classes, 0
    weight = rng.uniform(0.5, 2, 4 * n) if weighted else None
    data = read(y, sensitive_features=groups, sample_weight=weight)
    rows, codes = merge(data), data.cells.codes
    assert rows.distinct and rows.labels.dtype == np.dtype(dtype)
    expected = tabulated(y, codes, np.ones(4 * n) if weight is None else weight)
    found = tabulated(rows.labels, rows.cells, rows.weight)
    assert len(rows.labels) == len(expected) and found == pytest.approx(expected)
    # Order of first appearance, whatever the hash.
    assert list(found) == list(expected)


def test_rows_that_differ_in_the_last_bit_are_two_rows():
    y = np.full((4, 2), 0.5)
    y[1] = [np.nextafter(0.5, 1), np.nextafter(0.5, 0)]
    assert len(merge(read(y, sensitive_features=[0, 0, 0, 0])).labels) == 2


def test_a_collision_of_hashes_merges_nothing_wrong(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.dirichlet(np.ones(3), 50)
    data = read(np.concatenate([y, y]), sensitive_features=np.arange(100) % 2)
    monkeypatch.setattr(
        arrays, "row_hashes", lambda matrix, groups: np.zeros(len(matrix), np.uint64)
    )
    rows = merge(data)
    assert len(rows.labels) == 100 and np.array_equal(rows.labels, data.labels.matrix)
    assert rows.cell_weight.tolist() == [50, 50]
