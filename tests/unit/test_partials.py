"""Partials.

Made of some rows and merged, the same however the rows are cut, and never larger than they may
be.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import r2b
from r2b._solve.oracle import Block
from r2b.engines.sample import Draw, sample
from r2b.engines.spool import HeldBlocks

pa = pytest.importorskip("pyarrow")


def blocks_of(labels: Any, cells: Any, cuts: list[int]) -> list[Block]:
    places = [0, *sorted({cut % len(labels) for cut in cuts} - {0}), len(labels)]
    return [Block(labels[start:end], cells[start:end]) for start, end in pairwise(places)]


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 10_000), max_size=9),
    st.integers(0, 400),
    st.integers(1, 300),
    st.integers(1, 30),
    st.integers(0, 99),
)
def test_a_sample_is_the_same_however_rows_are_cut_and_no_larger_than_it_may_be(
    cuts: list[int], most: int, n_different: int, n_cells: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, n_different, 500)
    labels, cells = (
        rng.dirichlet(np.ones(3), n_different)[rows],
        rng.integers(0, n_cells, 500).astype(np.uint8),
    )
    draw = Draw(n_cells, min(1.0, most / n_different), most)
    found = []
    for several in (blocks_of(labels, cells, cuts), blocks_of(labels, cells, [])):
        found.append(draw.settled(reduce(draw.merge, map(draw.make, several))))
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))
    hashes, sampled, mine, weight = found[0]
    assert len(hashes) <= most + 2 * n_cells
    # Every cell is there, and every row that is there stands for all that are equal to it.
    assert np.array_equal(np.unique(mine), np.unique(cells))
    pairs = {(cell, *row) for cell, row in zip(mine.tolist(), sampled.tolist(), strict=True)}
    assert len(pairs) == len(mine)
    counts: dict[Any, int] = {}
    for cell, row in zip(cells.tolist(), labels.tolist(), strict=True):
        counts[cell, *row] = counts.get((cell, *row), 0) + 1
    assert [
        counts[cell, *row] for cell, row in zip(mine.tolist(), sampled.tolist(), strict=True)
    ] == weight.tolist()


def test_a_sample_has_about_as_many_rows_as_are_asked_for() -> None:
    rng = np.random.default_rng(0)
    block = Block(rng.dirichlet(np.ones(3), 40_000), rng.integers(0, 5, 40_000))
    (labels, *_), whole = sample(HeldBlocks(lambda: [block]), 5, 40_000, 5000)
    assert 4_000 < len(labels) <= 5001 and not whole
    (labels, *_), whole = sample(HeldBlocks(lambda: [block]), 5, 40_000, 60_000)
    assert len(labels) == 40_000 and whole


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
