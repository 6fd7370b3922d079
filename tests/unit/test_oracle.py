"""The row kernels by definition, NumPy and compiled alike, and the oracle that adds up what they
give.
"""

from __future__ import annotations

import sys
from functools import reduce
from types import ModuleType

import numpy as np
import pytest
from problems import project as by_bisection

from r2b import debias
from r2b._constraints.bounds import RangeBound
from r2b._constraints.parity import Member, Parity
from r2b._data import read
from r2b._data.merge import Rows, merge
from r2b._solve.oracle import (
    Block,
    Oracle,
    Pass,
    evaluated,
    folded_curvature,
    inspected,
    project,
    reference,
    respond,
)
from r2b._solve.oracle.blocks import as_matrix, choose_kernel
from r2b._solve.oracle.oracle import calibrated, sample_of_cells
from r2b.errors import MissingExtraError

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


def test_rows_far_from_the_simplex_end_on_it():
    rows = np.random.default_rng(5).random((200, 7)) + 1e9
    found = project(rows)
    assert np.abs(found.sum(axis=1) - 1).max() < 1e-15
    assert np.abs(found - project(rows - 1e9)).max() < 1e-15


def test_distributions_stay_as_they_are_and_equal_entries_share():
    assert np.array_equal(project(np.eye(5)), np.eye(5))
    rows = np.random.default_rng(1).dirichlet(np.ones(6), 100)
    assert np.abs(project(rows) - rows).max() < 1e-15
    assert project(np.array([[1e9, 1e9, 0.0]])).tolist() == [[0.5, 0.5, 0.0]]


# --- the kernels by definition ---


@pytest.fixture(params=["numpy", "compiled"])
def kernel(request) -> ModuleType:
    if request.param == "compiled":
        pytest.importorskip("numba")
    return choose_kernel(request.param, 0)


def block_of(
    seed: int, n: int, n_classes: int, design: str, labels: str, weighted: bool = True
) -> tuple[Block, np.ndarray]:
    """Draw rows, some of them alike or certain, and prices."""
    rng = np.random.default_rng(seed)
    y = rng.dirichlet(np.full(n_classes, rng.choice([0.1, 1.0, 5.0])), n)
    y[rng.random(n) < 0.2] = np.eye(n_classes)[0]
    y[rng.random(n) < 0.2] = 1 / n_classes
    if labels == "classes":
        y = rng.integers(0, n_classes, n).astype(np.uint16)
    elif labels == "float32":
        y = y.astype(np.float32)
    counts = rng.integers(0, 3, n).astype(np.uint8)
    if design == "parts":
        counts = rng.normal(size=(n, 3)) * (rng.random((n, 3)) < 0.7)
    weight = 10.0 ** rng.uniform(-6, 0, n) if weighted else np.empty(0)
    prices = rng.normal(0, 0.5, (3, n_classes)) * (rng.random((3, n_classes)) < 0.7)
    return Block(y, counts, weight), prices


class Plain:
    """What kernels compute, row by row in Python, with another projection."""

    def __init__(self, block: Block, prices: np.ndarray, lam: float) -> None:
        self.n_classes, self.lam = prices.shape[1], lam
        self.y = as_matrix(block.labels, self.n_classes).astype(np.float64)
        self.b = np.eye(len(prices))[block.design] if block.design.ndim == 1 else block.design
        self.w = block.weight if len(block.weight) else np.ones(len(block))
        self.v = self.y - self.b @ prices
        self.x = by_bisection(self.v / lam)

    def sums(self, x: np.ndarray) -> np.ndarray:
        return sum(w * np.outer(b, row) for w, b, row in zip(self.w, self.b, x, strict=True))

    def value(self) -> float:
        return sum(
            w * (0.5 * self.lam * x @ x - x @ v)
            for w, x, v in zip(self.w, self.x, self.v, strict=True)
        )

    def evidence(self, x: np.ndarray, truth: np.ndarray) -> tuple[list[float], float]:
        totals, worst = np.zeros(5), 0.0
        for w, row, y, v, t in zip(self.w, x, self.y, self.v, truth, strict=True):
            gradient = self.lam * row - v
            totals += w * np.array(
                [
                    row @ gradient - gradient.min(),
                    row @ row,
                    row @ y,
                    (row - t) @ (row - t),
                    np.abs(row - t).sum() / 2,
                ]
            )
            worst = max(worst, abs(row.sum() - 1), -row.min())
        return totals, worst

    def curvature(self) -> np.ndarray:
        n = self.b.shape[1]
        table = np.zeros((n, self.n_classes, n, self.n_classes))
        for w, b, x in zip(self.w, self.b, self.x, strict=True):
            a = (x > 0).astype(float)
            table += w * np.einsum("g,h,kl->gkhl", b, b, np.diag(a) - np.outer(a, a) / a.sum())
        return table


def close(found, known, tolerance=1e-12):
    """Compare all entries at once: pytest.approx would go through them one by one."""
    found, known = np.asarray(found), np.asarray(known)
    assert found.shape == known.shape
    assert (np.abs(found - known) <= tolerance * np.maximum(1.0, np.abs(known))).all()


SHAPES = [(1, 2), (31, 1), (33, 3), (64, 8), (43, 25)]
with_designs = pytest.mark.parametrize("design", ["cells", "parts"])
with_labels = pytest.mark.parametrize("labels", ["float64", "float32", "classes"])
with_lams = pytest.mark.parametrize("lam", [0.05, 1.0, 10.0])


@with_designs
@with_labels
@with_lams
def test_kernels_by_definition(kernel, design, labels, lam):
    for seed, (n, n_classes) in enumerate(SHAPES):
        block, prices = block_of(seed, n, n_classes, design, labels, weighted=bool(seed % 2))
        plain = Plain(block, prices, lam)
        close(kernel.answer(block, prices, lam), plain.x, 1e-13 / lam)
        sums, value = kernel.evaluate(block, prices, lam)
        close(sums, plain.sums(plain.x), 1e-12 / lam)
        close(value, [plain.value()], 1e-12 / lam)
        sums, totals, worst = kernel.inspect(block, prices, lam)
        known, _ = plain.evidence(plain.x, plain.y)
        close(sums, plain.sums(plain.x), 1e-12 / lam)
        close(totals, known, 1e-12 / lam)
        assert 0 <= worst[0] < 1e-12 / lam


@with_designs
@with_labels
def test_evidence_about_other_labels_by_definition(kernel, design, labels):
    for seed, (n, n_classes) in enumerate(SHAPES):
        block, prices = block_of(seed, n, n_classes, design, labels, weighted=bool(seed % 2))
        plain, rng = Plain(block, prices, 0.7), np.random.default_rng(seed)
        answers = rng.dirichlet(np.ones(n_classes), n) + rng.normal(0, 1e-3, (n, n_classes))
        truth = rng.dirichlet(np.ones(n_classes), n)
        for given in (plain.y, truth):
            other = None if given is plain.y else given
            told = Block(block.labels, block.design, block.weight, other, answers)
            sums, totals, worst = kernel.inspect(told, prices, 0.7)
            known, most = plain.evidence(answers, given)
            close(sums, plain.sums(answers))
            close(totals, known)
            close(worst, [most])
            # the best responses, compared with a truth of their own
            told = Block(block.labels, block.design, block.weight, other)
            close(kernel.inspect(told, prices, 0.7)[1], plain.evidence(plain.x, given)[0])


@with_designs
@with_labels
@with_lams
def test_curvature_by_definition(kernel, design, labels, lam):
    for seed, (n, n_classes) in enumerate(SHAPES):
        block, prices = block_of(seed, n, n_classes, design, labels, weighted=bool(seed % 2))
        prices = prices + np.random.default_rng(seed).normal(0, 0.01, prices.shape)  # no ties
        known = Plain(block, prices, lam).curvature()
        if design == "parts":
            counts = block.design
        else:
            counts = np.eye(3)[block.design]
            by_cell = kernel.cell_curvature(block, prices, lam)
            close(by_cell, known[np.arange(3), :, np.arange(3)])
        close(kernel.group_curvature(block, prices, lam, counts), known)
        some = np.ascontiguousarray(counts[:, [2, 0]])
        found = kernel.group_curvature(block, prices, lam, some)
        close(found, known[[2, 0]][:, :, [2, 0]])


@with_designs
def test_curvature_of_rows_with_many_classes_each(kernel, design):
    """Rows whose support is wide are multiplied as matrices, not entry by entry."""
    block, prices = block_of(3, 500, 30, design, "float64")
    block = Block(np.full((500, 30), 1 / 30), block.design, block.weight)
    known = Plain(block, 0.01 * prices, 1.0).curvature()
    counts = block.design if design == "parts" else np.eye(3)[block.design]
    close(kernel.group_curvature(block, 0.01 * prices, 1.0, counts), known)
    if design == "cells":
        found = kernel.cell_curvature(block, 0.01 * prices, 1.0)
        close(found, known[np.arange(3), :, np.arange(3)])


@pytest.mark.parametrize("start", [np.nan, -1e6, 1e6, 0.3])
@pytest.mark.parametrize("n_classes", [2, 9, 30])
def test_thresholds_are_found_from_any_start(kernel, start, n_classes):
    block, prices = block_of(10, 75, n_classes, "cells", "float64")
    block = Block(block.labels, block.design, block.weight, levels=np.full(75, start))
    plain = Plain(block, prices, 0.3)
    close(kernel.evaluate(block, prices, 0.3)[0], plain.sums(plain.x))
    close(kernel.evaluate(block, prices, 0.3)[0], plain.sums(plain.x))  # from the last threshold


def test_tied_entries_do_not_trap_a_kernel(kernel):
    labels = np.tile(np.array([0.25, 0.25, 0.25, 0.25, 0.0]), (40, 1))
    prices = np.array([[0.1, 0.1, 0.1, 0.1 + 1e-17, -0.15]])
    close(kernel.answer(Block(labels, np.zeros(40, np.uint8)), prices, 1.0), np.full((40, 5), 0.2))


@pytest.mark.parametrize("layout", ["fortran", "strided", "read-only"])
def test_any_memory_layout_is_read(kernel, layout):
    block, prices = block_of(11, 500, 6, "cells", "float64")
    y = block.labels
    other = {"fortran": np.asfortranarray(y), "strided": np.repeat(y, 2, axis=0)[::2]}.get(
        layout, y.copy()
    )
    other.flags.writeable = layout != "read-only"
    found = kernel.evaluate(Block(other, block.design, block.weight), prices, 1.0)
    close(found[0], kernel.evaluate(block, prices, 1.0)[0])


# --- blocks and passes ---


@with_designs
@with_labels
def test_passes_over_parts_say_what_a_pass_over_all_rows_says(kernel, design, labels):
    block, prices = block_of(1, 90, 5, design, labels)
    name, plain = kernel.__name__.rpartition(".")[2], Plain(block, prices, 0.5)
    choice = "numpy" if name == "reference" else "compiled"
    parts = [block[slice(start, start + 40)] for start in (0, 40, 80)]
    for wanted in ("labels", "responses", "evidence", "curvature"):
        task = Pass(wanted, (3, 5), prices, 0.5, components=[np.arange(3)], kernel=choice)
        found = reduce(task.merge, map(task.make, parts))
        for one, other in zip(found, task.make(block), strict=True):
            close(one, other)
    sums, weight = Pass("labels", (3, 5)).make(block)
    close(sums, plain.sums(plain.y))
    close(weight, plain.b.T @ plain.w)


# --- the oracle ---


def soft(seed: int, n: int = 60, n_classes: int = 4) -> tuple[Rows, np.random.Generator]:
    rng = np.random.default_rng(seed)
    y, groups = rng.dirichlet(np.ones(n_classes), n), rng.integers(0, 3, n)
    weight = rng.uniform(0.5, 2, n)
    return merge(read(y, sensitive_features=groups, sample_weight=weight)), rng


def shared(rows: Rows, rng: np.random.Generator, outcomes: np.ndarray | None = None) -> Parity:
    """Three cells that count in four groups by any amount."""
    design = rng.uniform(0.1, 1.0, (3, 4))
    cell = rows.cell_weight / rows.cell_weight.sum()
    n_outcomes = rows.n_classes if outcomes is None else len(outcomes)
    member = Member("", slice(0, 4), RangeBound(np.zeros(n_outcomes)))
    return Parity((member,), np.arange(4), cell @ design, cell, design, outcomes=outcomes)


@pytest.mark.parametrize("choice", ["numpy", "compiled"])
@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("n_outcomes", [None, 2])
@pytest.mark.parametrize("lam", [0.05, 1.0, 10.0])
def test_means_are_the_derivative_of_the_value_and_curvature_that_of_the_means(
    choice, by_group, n_outcomes, lam
):
    if choice == "compiled":
        pytest.importorskip("numba")
    rows, rng = soft(4)
    outcomes = None if n_outcomes is None else rng.normal(size=(n_outcomes, 4))
    parity = shared(rows, rng, outcomes)
    oracle = Oracle.of(rows, parity if by_group else None, kernel=choice)
    prices = rng.normal(0, 0.05 * lam, (4, n_outcomes or 4))
    here = evaluated(oracle, parity, prices, lam)
    (curvature,) = folded_curvature(oracle, parity, prices, lam)
    step = 1e-6 * lam
    for g in range(4):
        for k in range(prices.shape[1]):
            moved = prices.copy()
            moved[g, k] += step
            ahead = evaluated(oracle, parity, moved, lam)
            slope = (ahead.value - here.value) / step
            assert slope == pytest.approx(parity.share[g] * here.means[g, k], abs=1e-5)
            # exact while no class enters or leaves the support of a row, as here
            fallen = parity.share[:, None] * (here.means - ahead.means) / step
            close(curvature[g, k], fallen, 1e-6 / lam)


@pytest.mark.parametrize("n_outcomes", [None, 2])
@pytest.mark.parametrize("many", [False, True])
def test_rows_by_cell_and_rows_by_group_say_the_same(many, n_outcomes, monkeypatch):
    if many:  # cells so many that their curvature is not held
        monkeypatch.setattr("r2b._solve.oracle.oracle._CELL_ENTRIES", 0)
    rows, rng = soft(6)
    outcomes = None if n_outcomes is None else rng.normal(size=(n_outcomes, 4))
    parity, prices = shared(rows, rng, outcomes), rng.normal(0, 0.2, (4, n_outcomes or 4))
    cells, groups = Oracle.of(rows), Oracle.of(rows, parity)
    one, other = (evaluated(oracle, parity, prices, 0.5) for oracle in (cells, groups))
    close(one.means, other.means)
    assert one.value == pytest.approx(other.value)
    for options in ({}, {"unchanged": True}):
        one, other = (
            inspected(oracle, parity, prices, 0.5, **options) for oracle in (cells, groups)
        )
        for name, value in vars(one).items():
            close(vars(other)[name], value)
    one, other = (folded_curvature(oracle, parity, prices, 0.5)[0] for oracle in (cells, groups))
    close(one, other)
    some = groups.among(np.array([3, 1]))
    close(some.label_means(), groups.label_means()[[3, 1]])
    means = groups.label_means()
    close(parity.means(cells.label_means()), means if outcomes is None else means @ outcomes.T)


def test_answers_that_are_given_are_inspected_row_by_row():
    rows, rng = soft(7)
    oracle, prices = Oracle.of(rows), rng.normal(0, 0.2, (3, 4))
    answers = respond(rows.labels, rows.cells, prices, 0.5)
    one, other = oracle.inspect(prices, 0.5), oracle.inspect(prices, 0.5, answers=answers)
    for name, value in vars(one).items():
        close(vars(other)[name], value)


@pytest.mark.parametrize("choice", ["numpy", "compiled"])
def test_the_number_of_threads_never_shows(choice):
    if choice == "compiled":
        pytest.importorskip("numba")
    rows, rng = soft(12, 60_001, 8)
    prices = rng.normal(0, 0.1, (3, 8))
    one, two = (Oracle.of(rows, threads=threads, kernel=choice) for threads in (1, 2))
    first, second = (oracle.evaluate(prices, 1.0, curvature=True) for oracle in (one, two))
    assert first.value == second.value
    assert np.array_equal(first.means, second.means)
    assert np.array_equal(first.curvature, second.curvature)
    seen, again = one.inspect(prices, 1.0), two.inspect(prices, 1.0)
    assert np.array_equal(seen.means, again.means) and seen.slack == again.slack
    assert np.array_equal(one.label_means(), two.label_means())


def test_lanes_add_up_and_keep_the_worst_row():
    rng = np.random.default_rng(13)
    n = 150_000
    y = rng.dirichlet(np.ones(4), n)
    y[777] *= 1 + 5e-7  # within the tolerance of the inputs
    y[140_000] *= 1 - 9e-7
    groups, weight = rng.integers(0, 2, n), rng.uniform(0, 1, n)
    rows = merge(read(y, sensitive_features=groups, sample_weight=weight))
    seen = Oracle.of(rows, threads=2).inspect(np.zeros((2, 4)), 1.0, unchanged=True)
    assert seen.simplex_violation == pytest.approx(9e-7, rel=1e-6)
    assert seen.squared_distance == 0 and seen.moved == 0
    mean = float(weight @ (y * y).sum(1) / weight.sum())
    assert seen.squared_norm == pytest.approx(mean, rel=1e-12)
    for s in (0, 1):
        mine = groups == s
        assert seen.means[s] == pytest.approx(weight[mine] @ y[mine] / weight[mine].sum())


# --- samples ---


def test_large_tables_start_on_samples_and_end_on_all_rows():
    rng = np.random.default_rng(14)
    y, groups = rng.dirichlet(np.full(12, 0.5), 200_000), rng.integers(0, 2, 200_000)
    samples = Oracle.of(merge(read(y, sensitive_features=groups))).samples()
    assert samples is not None and len(samples.small.table) < len(samples.large.table) < 50_000
    fair = debias(y, sensitive_features=groups, epsilon=0.001)
    assert fair.status.ok and fair.certificate.holds


@pytest.mark.parametrize("weighted", [True, False])
def test_a_sample_keeps_every_cell_and_its_weight(weighted):
    rng = np.random.default_rng(15)
    # four rows of cell 1, in step with any period
    cells = np.where(np.arange(20_000) % 5_000 == 0, 1, 0)
    weight = 10.0 ** rng.uniform(-6, 0, 20_000) if weighted else None
    y = rng.dirichlet(np.ones(3), 20_000)
    rows = merge(read(y, sensitive_features=cells, sample_weight=weight))
    chosen, own = sample_of_cells(rows, 500)
    assert 400 <= len(chosen) <= 600 and np.bincount(cells[chosen])[1] == 4
    assert np.bincount(cells[chosen], own) == pytest.approx(rows.cell_weight)
    assert np.array_equal(chosen, sample_of_cells(rows, 500)[0])


def test_a_sample_of_rows_in_groups_keeps_the_weight_of_groups_or_is_none():
    rows, rng = soft(8, 5_000)
    oracle = Oracle.of(rows, shared(rows, rng))
    some = oracle.sample(800)
    assert some is not None and len(some.table) < 1_000
    kept = (oracle.table.weights @ oracle.table.design) / oracle.total_weight
    assert (some.table.weights @ some.table.design) / some.total_weight == pytest.approx(kept)
    # a group in which no row of the sample counts
    design = np.zeros((20, 1))
    assert calibrated(design, np.ones(20), np.array([0.5])) is None


def test_without_numba_the_kernels_of_numpy_or_an_error(monkeypatch):
    for name in ("r2b._solve.oracle.compiled",):
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.delattr(name, raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in [name for name in sys.modules if name.startswith("r2b._solve.oracle.")]:
        if "compiled" in name or "vectors" in name or "loops" in name:
            monkeypatch.delitem(sys.modules, name)
            monkeypatch.delattr(name, raising=False)
    assert choose_kernel("auto", 1 << 30) is reference
    with pytest.raises(MissingExtraError, match=r"pip install"):
        choose_kernel("compiled", 10)
