"""The compiled kernels at their seams: ends of rows and arrays, eights of rows, patterns dense and sparse, samples that are corrected."""

from __future__ import annotations

import numpy as np
import pytest

from r2b import debias
from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.oracle import MemoryOracle, reference


@pytest.fixture(scope="module")
def compiled():
    pytest.importorskip("numba")
    from r2b._solve.oracle import compiled

    return compiled


def rows_of(rng, n, n_classes, n_groups=3, dtype=np.float64, sharp=1.0):
    labels = rng.dirichlet(np.full(n_classes, sharp), n).astype(dtype)
    return (
        labels,
        rng.integers(0, n_groups, n).astype(np.uint8),
        rng.uniform(0.5, 2, n),
        rng.normal(0, 0.5 / n_classes, (n_groups, n_classes)),
    )


def walked(kernel, labels, groups, weight, prices, lam, levels=None, curved=False):
    n_groups, n_classes = prices.shape
    out = [
        np.zeros(prices.shape),
        np.zeros(1),
        np.zeros((n_groups, n_classes, n_classes) if curved else (0, 0, 0)),
    ]
    kernel.evaluate(
        labels,
        groups,
        weight,
        prices,
        lam,
        np.zeros(len(labels)) if levels is None else levels,
        out,
    )
    return out


def same(mine, theirs, size=1.0):
    for one, other in zip(mine, theirs, strict=True):
        assert np.abs(one - other).max(initial=0.0) <= 1e-12 * size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 25, 33, 64, 100, 257])
def test_any_number_of_classes_and_rows_is_walked(compiled, n_classes, dtype):
    rng = np.random.default_rng(n_classes)
    for n in (1, 7, 8, 9, 300):
        labels, groups, weight, prices = rows_of(rng, n, n_classes, dtype=dtype)
        for own in (weight, np.empty(0)):
            same(
                walked(reference, labels, groups, own, prices, 0.7),
                walked(compiled, labels, groups, own, prices, 0.7),
                size=n,
            )


@pytest.mark.parametrize("n_classes", [3, 8, 20, 100])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("lam", [0.05, 1.0, 10.0])
def test_the_proof_is_that_of_the_answers(compiled, n_classes, weighted, lam):
    rng = np.random.default_rng(1)
    labels, groups, weight, prices = rows_of(rng, 203, n_classes, dtype=np.float32)
    own = weight if weighted else np.empty(0)
    answers = np.empty(labels.shape)
    compiled.answer(labels, groups, prices, lam, np.zeros(203), answers)
    assert np.abs(answers - reference.respond(labels, groups, prices, lam)).max() < 1e-13 / lam
    seen = []
    for kernel in (compiled, reference):
        apart, at_once = (
            [np.zeros(prices.shape), np.zeros(6)],
            [np.zeros(prices.shape), np.zeros(6)],
        )
        kernel.inspect(labels, groups, own, prices, lam, answers, apart)
        kernel.prove(labels, groups, own, prices, lam, np.zeros(203), at_once)
        seen += [apart, at_once]
    for other in seen[1:]:
        same(seen[0], other, size=203)


@pytest.mark.parametrize("n_classes", [3, 12, 100])
@pytest.mark.parametrize("n", [1, 5, 64, 65])
def test_nothing_beyond_the_rows_is_used_or_written(compiled, n_classes, n):
    """The rows lie in the middle of a table of NaN, the answers in one of -1."""
    rng = np.random.default_rng(2)
    labels, groups, weight, prices = rows_of(rng, n, n_classes)
    table, wide = np.full((n + 40, n_classes), np.nan), np.full((n + 40, n_classes), -1.0)
    table[20 : 20 + n] = labels
    inside = slice(20, 20 + n)
    compiled.answer(table[inside], groups, prices, 1.0, np.zeros(n), wide[inside])
    assert (wide[:20] == -1).all() and (wide[20 + n :] == -1).all()
    assert np.abs(wide[inside] - reference.respond(labels, groups, prices, 1.0)).max() < 1e-14
    for curved in (False, True):
        mine = walked(reference, labels, groups, weight, prices, 1.0, curved=curved)
        same(
            mine,
            walked(compiled, table[inside], groups, weight, prices, 1.0, curved=curved),
            size=n,
        )
    sums, totals = np.zeros(prices.shape), np.zeros(6)
    compiled.prove(table[inside], groups, weight, prices, 1.0, np.zeros(n), [sums, totals])
    assert np.isfinite(sums).all() and np.isfinite(totals).all()


@pytest.mark.parametrize("layout", ["fortran", "every other row", "every other class"])
def test_rows_that_are_not_one_after_the_other_are_walked(compiled, layout):
    rng = np.random.default_rng(3)
    labels, groups, weight, prices = rows_of(rng, 900, 101)
    other = {
        "fortran": np.asfortranarray(labels),
        "every other row": np.repeat(labels, 2, axis=0)[::2],
        "every other class": np.repeat(labels, 2, axis=1)[:, ::2],
    }[layout]
    assert not other.flags.c_contiguous
    same(
        walked(compiled, labels, groups, weight, prices, 1.0),
        walked(compiled, other, groups, weight, prices, 1.0),
        size=900,
    )
    out, into = np.empty(labels.shape), np.empty((900, 202))[:, ::2]
    compiled.answer(labels, groups, prices, 1.0, np.zeros(900), out)
    compiled.answer(other, groups, prices, 1.0, np.zeros(900), into)
    assert np.abs(out - into).max() < 1e-15
    seen = [[np.zeros(prices.shape), np.zeros(6)] for _ in range(2)]
    compiled.inspect(labels, groups, weight, prices, 1.0, out, seen[0])
    compiled.inspect(other, groups, weight, prices, 1.0, into, seen[1])
    same(*seen, size=900)


@pytest.mark.parametrize("n_classes", [5, 16, 30, 100])
@pytest.mark.parametrize("start", [np.nan, np.inf, -np.inf, -1e6, 1e6, "any"])
def test_rows_settle_from_any_level(compiled, n_classes, start):
    rng = np.random.default_rng(4)
    labels, groups, weight, prices = rows_of(rng, 83, n_classes, sharp=0.2)
    levels = rng.normal(0, 1, 83) if start == "any" else np.full(83, start)
    same(
        walked(reference, labels, groups, weight, prices, 0.3),
        walked(compiled, labels, groups, weight, prices, 0.3, levels),
        size=83,
    )
    # What is left behind is the threshold itself, from which a second pass goes on.
    assert (
        np.abs(np.maximum(labels - prices[groups] - levels[:, None], 0).sum(axis=1) - 0.3).max()
        < 1e-13
    )


@pytest.mark.parametrize("n_classes", [4, 40])
def test_a_lam_that_vanishes_beside_the_labels_leaves_finite_sums(compiled, n_classes):
    labels = np.random.default_rng(5).normal(0, 1e20, (20, n_classes))
    sums, totals, _ = walked(
        compiled, labels, np.zeros(20, np.uint8), np.empty(0), np.zeros((1, n_classes)), 1.0
    )
    assert np.isfinite(sums).all() and np.isfinite(totals).all()


@pytest.mark.parametrize("sharp", [0.01, 0.2, 5.0])
@pytest.mark.parametrize(("n", "n_groups"), [(40, 3), (3_000, 3), (2_000, 200)])
def test_curvature_of_sparse_and_dense_patterns(compiled, sharp, n, n_groups):
    rng = np.random.default_rng(6)
    labels, groups, weight, prices = rows_of(rng, n, 70, n_groups, sharp=sharp)
    mine, theirs = (
        walked(kernel, labels, groups, weight, prices, 0.5, curved=True)
        for kernel in (reference, compiled)
    )
    same(mine, theirs, size=n)
    # a constant added to a group's prices changes nothing
    assert np.abs(theirs[2].sum(axis=2)).max() < 1e-9
    assert np.array_equal(theirs[2], theirs[2].transpose(0, 2, 1))


# --- samples ---


def large_table(rng, n_classes=12, rows=180_000, sharp=1.0):
    groups = rng.integers(0, 3, rows)
    shape = sharp * np.exp(0.5 * rng.standard_normal((3, n_classes)))
    labels = rng.standard_gamma(shape[groups]) + 1e-12
    return labels / labels.sum(axis=1, keepdims=True), groups


@pytest.mark.parametrize("sharp", [0.05, 1.0])
@pytest.mark.parametrize("lam", [0.3, 1.0, 3.0])
def test_a_sample_on_the_way_leads_to_the_answer_of_all_rows(sharp, lam):
    y, groups = large_table(np.random.default_rng(8), sharp=sharp)
    fair = debias(y, sensitive_features=groups, epsilon=0.002, lam=lam)
    assert fair.status.ok and fair.certificate.holds
    rows = merge(read(y, sensitive_features=groups), "never")
    means = MemoryOracle(rows, "numpy").evaluate(fair.prices, lam, curvature=False).means
    assert np.ptp(means, axis=0).max() <= 0.002 + 1e-9


@pytest.mark.slow
def test_a_bound_that_only_the_border_meets_is_met_though_samples_cannot():
    """A corrected sample has no labels of mean 0 in a class whose sample is off; the table has."""
    y, groups = large_table(np.random.default_rng(9))
    target = np.array([0.0] + [1 / 11] * 11)
    fair = debias(y, sensitive_features=groups, epsilon=0.0, bound="target", target=target)
    assert fair.status.ok
    assert np.abs(fair.certificate.means - target).max() < 1e-9
