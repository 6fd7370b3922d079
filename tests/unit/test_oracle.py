"""Row oracles: projections by definition, derivatives by differences, and the compiled kernels against the plain ones."""

from __future__ import annotations

import numpy as np
import pytest
from problems import project as by_bisection

from r2b import debias
from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.oracle import MemoryOracle, reference
from r2b._solve.oracle.blocks import choose_kernel
from r2b._solve.oracle.reference import project, thresholds
from r2b._solve.oracle.thinning import thin
from r2b.errors import MissingExtraError, ParameterError


def block(
    rng, n, n_classes, n_groups=3, dtype=np.float64, codes=np.uint8, weighted=True, spread=0.5
):
    labels = rng.dirichlet(np.full(n_classes, rng.choice([0.1, 1.0, 5.0])), n).astype(dtype)
    labels[rng.random(n) < 0.2] = np.eye(n_classes, dtype=dtype)[0]
    labels[rng.random(n) < 0.2] = dtype(1 / n_classes)
    weight = 10.0 ** rng.uniform(-6, 0, n) if weighted else np.empty(0)
    prices = rng.normal(0, spread, (n_groups, n_classes)) * (
        rng.random((n_groups, n_classes)) < 0.7
    )
    return labels, rng.integers(0, n_groups, n).astype(codes), weight, prices


# --- the projection onto the simplex ---


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 10, 100])
def test_no_distribution_is_closer_than_the_projection(scale, n_classes):
    rng = np.random.default_rng(n_classes)
    rows = rng.normal(0, 1, (50, n_classes)) * scale
    x = project(rows)
    assert x.min() >= 0 and np.abs(x.sum(axis=1) - 1).max() <= 1e-15 * max(scale, n_classes)
    others = np.concatenate(
        [rng.dirichlet(np.full(n_classes, a), 50) for a in (0.05, 1.0, 10.0)] + [np.eye(n_classes)]
    )
    # |x - v|^2 <= |o - v|^2 in the form that keeps its digits at any scale: <o - x, v - x> <= 0.
    reach = np.einsum("ijk,ik->ij", others[None] - x[:, None], rows - x)
    assert reach.max() <= 1e-14 * max(scale, 1.0) * n_classes


def test_a_grid_of_distributions_does_no_better():
    rng = np.random.default_rng(0)
    steps = np.arange(41) / 40
    grid = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1 + 1e-12])
    for row in rng.normal(0.3, 0.6, (60, 3)):
        costs = ((grid - row) ** 2).sum(axis=1)
        mine = float(((project(row[None])[0] - row) ** 2).sum())
        assert mine <= costs.min() + 1e-15
        assert mine >= costs.min() - 0.1


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_the_projection_agrees_with_bisection(scale):
    rows = np.random.default_rng(2).normal(0, 1, (200, 7)) * scale
    assert np.abs(project(rows) - by_bisection(rows)).max() < 1e-15 * scale * 10


def test_rows_far_from_the_simplex_end_on_it():
    rows = np.random.default_rng(5).random((200, 7)) + 1e9
    found = project(rows)
    assert np.abs(found.sum(axis=1) - 1).max() < 1e-15
    assert np.abs(found - project(rows - 1e9)).max() < 1e-15


def test_distributions_and_corners_stay_as_they_are():
    one_hot = np.eye(5)
    assert np.array_equal(project(one_hot), one_hot)
    rows = np.random.default_rng(1).dirichlet(np.ones(6), 100)
    assert np.abs(project(rows) - rows).max() < 1e-15
    assert np.abs(thresholds(rows)).max() < 1e-15


def test_equal_entries_share():
    assert project(np.full((1, 4), 7.0)).tolist() == [[0.25] * 4]
    assert project(np.array([[1e9, 1e9, 0.0]])).tolist() == [[0.5, 0.5, 0.0]]


# --- value, means and curvature ---


@pytest.mark.parametrize("kernel", ["numpy", "compiled"])
@pytest.mark.parametrize("lam", [0.05, 1.0, 10.0])
def test_means_are_the_derivative_of_the_value_and_curvature_that_of_the_means(kernel, lam):
    if kernel == "compiled":
        pytest.importorskip("numba")
    rng = np.random.default_rng(4)
    y, groups, weight = (
        rng.dirichlet(np.ones(4), 60),
        rng.integers(0, 3, 60),
        rng.uniform(0.5, 2, 60),
    )
    oracle = MemoryOracle(
        merge(read(y, sensitive_features=groups, sample_weight=weight), "never"), kernel
    )
    share = np.bincount(groups, weight) / weight.sum()
    prices = rng.normal(0, 0.1 * lam, (3, 4))
    here = oracle.evaluate(prices, lam, curvature=True)
    step = 1e-6 * lam
    for s in range(3):
        for k in range(4):
            moved = prices.copy()
            moved[s, k] += step
            ahead = oracle.evaluate(moved, lam, curvature=False)
            assert ahead.curvature is None
            assert (ahead.value - here.value) / step == pytest.approx(
                share[s] * here.means[s, k], abs=1e-5
            )
            # Exact while no row enters or leaves the support of a class, as here.
            assert (here.means[s] - ahead.means[s]) / step == pytest.approx(
                here.curvature[s, :, k], abs=1e-7 / lam
            )
            assert np.array_equal(
                np.delete(ahead.means, s, axis=0), np.delete(here.means, s, axis=0)
            )


def test_evaluation_by_its_definition():
    rng = np.random.default_rng(5)
    y, groups, weight = (
        rng.dirichlet(np.ones(3), 40),
        rng.integers(0, 2, 40),
        rng.uniform(0.5, 2, 40),
    )
    oracle = MemoryOracle(
        merge(read(y, sensitive_features=groups, sample_weight=weight), "never"), "numpy"
    )
    prices, lam = rng.normal(0, 0.3, (2, 3)), 0.7
    x = by_bisection((y - prices[groups]) / lam)
    seen = oracle.evaluate(prices, lam, curvature=True)
    w = weight / weight.sum()
    assert seen.value == pytest.approx(
        float(w @ (lam / 2 * (x * x).sum(1) - (x * (y - prices[groups])).sum(1))), abs=1e-13
    )
    for s in range(2):
        mine = groups == s
        own = weight[mine] / weight[mine].sum()
        assert seen.means[s] == pytest.approx(own @ x[mine], abs=1e-13)
        pieces = [np.diag(a) - np.outer(a, a) / a.sum() for a in (x[mine] > 0).astype(float)]
        assert seen.curvature[s] == pytest.approx(
            np.einsum("i,ijk->jk", own, pieces) / lam, abs=1e-12
        )
    assert oracle.label_means() == pytest.approx(
        np.stack([weight[groups == s] @ y[groups == s] / weight[groups == s].sum() for s in (0, 1)])
    )


# --- compiled == reference ---


@pytest.fixture(scope="module")
def compiled():
    pytest.importorskip("numba")
    from r2b._solve.oracle import compiled

    return compiled


SHAPES = [(1, 2), (31, 1), (33, 3), (64, 7), (70, 20), (5, 100), (97, 64)]


def both(compiled, kernel, *arrays, into):
    """Run one kernel of both kinds on the same arrays; return what each added to its outputs."""
    results = []
    for module in (reference, compiled):
        out = [np.full(shape, 0.5) for shape in into]  # kernels add to what is there
        getattr(module, kernel)(
            *(a.copy() if isinstance(a, np.ndarray) else a for a in arrays),
            out if len(out) > 1 else out[0],
        )
        results.append(out)
    return zip(*results, strict=True)


def assert_close(found, known):
    """All entries at once: pytest.approx would go through them one by one."""
    assert (
        found.shape == known.shape
        and (np.abs(found - known) <= 1e-12 * np.maximum(1.0, np.abs(known))).all()
    )


@pytest.mark.parametrize("codes", [np.uint8, np.uint16])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("lam", [0.05, 1.0, 10.0])
def test_compiled_kernels_equal_the_plain_ones(compiled, codes, dtype, weighted, lam):
    rng = np.random.default_rng(9)
    for n, n_classes in SHAPES:
        labels, groups, weight, prices = block(
            rng, n, n_classes, dtype=dtype, codes=codes, weighted=weighted
        )
        table, start = (3, n_classes), np.zeros(n)
        for curved in ((3, n_classes, n_classes), (0, 0, 0)):
            shapes = [table, (1,), curved]
            for mine, theirs in both(
                compiled, "evaluate", labels, groups, weight, prices, lam, start, into=shapes
            ):
                assert_close(theirs, mine)
        for mine, theirs in both(
            compiled, "answer", labels, groups, prices, lam, start, into=[(n, n_classes)]
        ):
            assert np.abs(theirs - mine).max() < 1e-13 / lam
        answers = reference.respond(labels, groups, prices, lam) + rng.normal(
            0, 1e-3, (n, n_classes)
        )
        for mine, theirs in both(
            compiled, "inspect", labels, groups, weight, prices, lam, answers, into=[table, (6,)]
        ):
            assert_close(theirs, mine)
        for mine, theirs in both(compiled, "add_rows", labels, groups, weight, into=[table]):
            assert_close(theirs, mine)


@pytest.mark.parametrize("guess", [np.nan, -1e6, 1e6, 0.3, "last"])
def test_thresholds_are_found_from_any_start(compiled, guess):
    rng = np.random.default_rng(10)
    labels, groups, weight, prices = block(rng, 75, 9)
    levels = rng.normal(0, 1, 75) if guess == "last" else np.full(75, guess)
    sums, totals = np.zeros((3, 9)), np.zeros(1)
    compiled.evaluate(
        labels, groups, weight, prices, 0.3, levels, [sums, totals, np.zeros((0, 0, 0))]
    )
    out = np.empty((75, 9))
    compiled.answer(labels, groups, prices, 0.3, levels.copy(), out)
    assert np.abs(out - reference.respond(labels, groups, prices, 0.3)).max() < 1e-13
    # What is left behind is the threshold itself.
    assert (
        np.abs(np.maximum(labels - prices[groups] - levels[:, None], 0).sum(axis=1) - 0.3).max()
        < 1e-13
    )


def test_tied_entries_do_not_trap_the_compiled_kernel(compiled):
    labels = np.tile(np.array([0.25, 0.25, 0.25, 0.25, 0.0]), (40, 1))
    prices = np.array([[0.1, 0.1, 0.1, 0.1 + 1e-17, -0.15]])
    out = np.empty((40, 5))
    compiled.answer(labels, np.zeros(40, np.uint8), prices, 1.0, np.zeros(40), out)
    assert np.abs(out - 0.2).max() < 1e-15


@pytest.mark.parametrize("layout", ["fortran", "strided", "read-only"])
def test_any_memory_layout_is_walked(compiled, layout):
    rng = np.random.default_rng(11)
    y, groups = rng.dirichlet(np.ones(6), 500), rng.integers(0, 3, 500)
    other = {
        "fortran": np.asfortranarray(y),
        "strided": np.repeat(y, 2, axis=0)[::2],
        "read-only": y.copy(),
    }[layout]
    if layout == "read-only":
        other.flags.writeable = False
    plain_one = debias(y, sensitive_features=groups, kernel="numpy").soft_labels
    assert (
        np.abs(
            debias(other, sensitive_features=groups, kernel="compiled").soft_labels - plain_one
        ).max()
        < 1e-9
    )


# --- lanes, threads, samples ---


@pytest.mark.parametrize("kernel", ["numpy", "compiled"])
def test_the_number_of_threads_never_shows(kernel):
    if kernel == "compiled":
        pytest.importorskip("numba")
    rng = np.random.default_rng(12)
    y, groups = rng.dirichlet(np.ones(8), 60_001), rng.integers(0, 3, 60_001)
    rows = merge(read(y, sensitive_features=groups), "never")
    prices = rng.normal(0, 0.1, (3, 8))
    one, two = (MemoryOracle(rows, kernel, threads) for threads in (1, 2))
    first, second = (oracle.evaluate(prices, 1.0, curvature=True) for oracle in (one, two))
    assert (
        np.array_equal(first.means, second.means)
        and np.array_equal(first.curvature, second.curvature)
        and first.value == second.value
    )
    seen, again = one.inspect(prices, 1.0), two.inspect(prices, 1.0)
    assert (
        np.array_equal(seen.means, again.means)
        and seen.slack == again.slack
        and seen.simplex_violation == again.simplex_violation
    )
    assert np.array_equal(one.label_means(), two.label_means())


def test_lanes_add_up_and_keep_the_worst_row():
    """Many lanes: sums are those of all rows, and the largest violation is the largest, not a sum of largest ones."""
    rng = np.random.default_rng(13)
    n = 150_000
    y = rng.dirichlet(np.ones(4), n)
    y[777] *= 1 + 5e-7  # within the tolerance of the inputs
    y[140_000] *= 1 - 9e-7
    groups, weight = rng.integers(0, 2, n), rng.uniform(0, 1, n)
    oracle = MemoryOracle(
        merge(read(y, sensitive_features=groups, sample_weight=weight), "never"), "numpy", 2
    )
    seen = oracle.inspect(np.zeros((2, 4)), 1.0, unchanged=True)
    assert seen.simplex_violation == pytest.approx(9e-7, rel=1e-6)
    assert seen.squared_distance == 0 and seen.moved == 0
    assert seen.squared_norm == pytest.approx(
        float(weight @ (y * y).sum(1) / weight.sum()), rel=1e-12
    )
    for s in (0, 1):
        assert seen.means[s] == pytest.approx(
            weight[groups == s] @ y[groups == s] / weight[groups == s].sum(), rel=1e-12
        )


def test_large_tables_start_on_samples_and_end_on_all_rows():
    rng = np.random.default_rng(14)
    distinct = rng.dirichlet(np.full(12, 0.5), 2_000)
    y, groups = (
        np.tile(distinct, (100, 1)),
        np.tile(np.concatenate([np.zeros(1_990, int), np.ones(10, int)]), 100),
    )
    assert MemoryOracle(merge(read(y, sensitive_features=groups), "never")).samples() is not None
    sampled = debias(y, sensitive_features=groups, epsilon=0.001, merge_rows="never")
    merged = debias(y, sensitive_features=groups, epsilon=0.001, merge_rows="always")
    assert sampled.status.ok and merged.status.ok
    assert len(sampled.history) != len(merged.history)  # two ways to one answer
    assert np.abs(sampled.soft_labels[:2_000] - merged.soft_labels[:2_000]).max() < 1e-9


@pytest.mark.parametrize("weighted", [True, False])
def test_a_sample_keeps_every_group_and_its_weight(weighted):
    rng = np.random.default_rng(15)
    # four rows of group 1, in step with any period
    groups = np.where(np.arange(20_000) % 5_000 == 0, 1, 0)
    weight = 10.0 ** rng.uniform(-6, 0, 20_000) if weighted else None
    rows = merge(
        read(rng.dirichlet(np.ones(3), 20_000), sensitive_features=groups, sample_weight=weight),
        "never",
    )
    some = thin(rows, 500)
    assert (
        400 <= len(some.labels) <= 600
        and (np.bincount(some.groups) == [len(some.groups) - 4, 4]).all()
    )
    assert some.group_weight == pytest.approx(rows.group_weight)
    again = thin(rows, 500)
    assert np.array_equal(again.labels, some.labels)


def test_without_numba_the_plain_kernel_or_an_error(monkeypatch):
    import sys

    monkeypatch.delitem(sys.modules, "r2b._solve.oracle.compiled", raising=False)
    monkeypatch.delattr("r2b._solve.oracle.compiled", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    assert choose_kernel("auto", 1 << 30) is reference
    with pytest.raises(MissingExtraError, match=r"pip install"):
        choose_kernel("compiled", 10)


@pytest.mark.parametrize(
    "wrong",
    [{"kernel": "gpu"}, {"kernel": None}, {"merge_rows": "sometimes"}, {"merge_rows": True}],
)
def test_a_choice_that_does_not_exist_is_refused(wrong):
    y = np.random.default_rng(0).dirichlet(np.ones(3), 10)
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        debias(y, sensitive_features=np.arange(10) % 2, **wrong)
