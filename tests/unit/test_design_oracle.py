"""Rows that count in several groups or in parts: walked by themselves they answer as a table of cells does, at the cost of a pass."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from families_qp import Rule, Table, closest, indicators, people
from problems import range_bound

import r2b
from r2b._constraints.families import Request
from r2b._constraints.parity import Member, Parity
from r2b._data import mixtures, read
from r2b._data.arrays import compact_integers
from r2b._data.merge import Rows, merge
from r2b._labels import task as jobs
from r2b._labels.debiasing import Settings
from r2b._labels.task import MemoryTask
from r2b._solve.oracle import DesignOracle, MemoryOracle
from r2b._solve.oracle.reference import evaluated, folded_curvature, inspected
from r2b._solve.oracle.thinning import calibrated

KERNELS = ["numpy", "compiled"]


def drawn(n, n_classes=5, n_groups=3, seed=0, soft=False, sharp=1.0):
    """Memberships and labels that both follow from features, as a model would give them."""
    rng = np.random.default_rng([seed, 17])
    z = rng.normal(size=(n, 4))

    def softmax(scores):
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    matrix = softmax(sharp * z @ rng.normal(size=(4, n_groups)))
    p = softmax(0.7 * z @ rng.normal(size=(4, n_classes)) + rng.normal(size=n_classes))
    if soft:
        return p, matrix
    return (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=n_classes - 1), matrix


def a_table(n, kind, seed=0, n_classes=5):
    """Rows as the solver sees them, a design over them with parts below 0 too, and the two ways to walk them."""
    rng = np.random.default_rng(seed)
    y, matrix = drawn(n, n_classes, soft=kind != "classes", seed=seed)
    if kind == "classes":
        y[:n_classes] = np.arange(n_classes)  # every class occurs
    y = y.astype(np.float32) if kind == "single" else y
    dataset = read(
        y,
        sensitive_features=r2b.Membership(matrix),
        sample_weight=rng.uniform(0.1, 3, n) if kind != "soft" else None,
    )
    rows = merge(dataset, "never")
    design = np.column_stack([matrix, rng.normal(size=(n, 2)) * (rng.random((n, 2)) < 0.7)])
    weight = np.ones(n) if rows.weight is None else rows.weight
    share = np.concatenate([weight @ matrix / weight.sum(), np.ones(2)])
    bound = range_bound(0.01, n_classes)
    members = (Member("g", slice(0, 3), bound), Member("a", slice(3, 5), bound))
    return rows, Parity(members, np.arange(5), share, weight / weight.sum(), design)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["classes", "soft", "single"])
@pytest.mark.parametrize(("n", "n_classes"), [(7, 2), (203, 5), (9001, 8), (5003, 30)])
def test_walked_by_themselves_rows_answer_as_their_cells_do(kernel, kind, n, n_classes):
    if kernel == "compiled":
        pytest.importorskip("numba")
    rows, parity = a_table(n, kind, n, n_classes)
    prices = np.random.default_rng(1).normal(size=(5, n_classes)) * 0.1
    by_cell, by_row = MemoryOracle(rows, "numpy"), DesignOracle.of(rows, parity, kernel)
    np.testing.assert_allclose(
        by_row.label_means(), parity.means(by_cell.label_means()), atol=1e-12
    )
    for lam in (0.05, 1.0, 4.0):
        one, other = (evaluated(oracle, parity, prices, lam) for oracle in (by_cell, by_row))
        np.testing.assert_allclose(other.means, one.means, atol=1e-11)
        assert other.value == pytest.approx(one.value, abs=1e-11)
        seen, again = (inspected(oracle, parity, prices, lam) for oracle in (by_cell, by_row))
        np.testing.assert_allclose(again.means, seen.means, atol=1e-11)
        for name in (
            "slack",
            "squared_norm",
            "agreement",
            "squared_distance",
            "moved",
            "simplex_violation",
        ):
            assert getattr(again, name) == pytest.approx(getattr(seen, name), abs=1e-11)
        folded = zip(
            *(folded_curvature(oracle, parity, prices, lam) for oracle in (by_cell, by_row)),
            strict=True,
        )
        for cells, own in folded:
            np.testing.assert_allclose(own, cells, atol=1e-10)


@pytest.mark.parametrize("kind", ["soft", "classes"])
@pytest.mark.parametrize("part", [False, True])
def test_rows_of_few_classes_bend_the_dual_as_products_say(kind, part, monkeypatch):
    """At a small lambda rows have one to three of twelve classes: their curvature is added entry by entry."""
    pytest.importorskip("numba")
    rows, parity = a_table(400, kind, n_classes=12)
    prices = np.random.default_rng(2).normal(size=(5, 12)) * 0.02
    entries = np.ones((5, 12), dtype=bool)
    entries[1, 3:6] = not part
    calls = []
    compiled = DesignOracle.of(rows, parity, "compiled")
    fold = compiled._loops.fold_entries
    monkeypatch.setattr(
        compiled._loops, "fold_entries", lambda *given: calls.append(fold(*given)) or calls[-1]
    )
    ours = compiled.curvature(prices, 0.02, parity.components, entries)
    theirs = DesignOracle.of(rows, parity, "numpy").curvature(
        prices, 0.02, parity.components, entries
    )
    assert all(calls) and calls
    for mine, other in zip(ours, theirs, strict=True):
        both = entries[:, :, None, None] & entries
        np.testing.assert_allclose(np.where(both, mine, 0.0), other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["classes", "soft", "single"])
@pytest.mark.parametrize(("n", "n_classes"), [(7, 2), (203, 5), (1_001, 16), (300, 30), (150, 300)])
def test_rows_of_many_classes_bend_the_dual_as_products_say(kind, n, n_classes, monkeypatch):
    """Patterns are multiplied eight classes by eight; by groups that count nothing in a tile, or below 0, too."""
    pytest.importorskip("numba")
    rows, parity = a_table(max(n, n_classes), kind, n_classes)
    parity.design[: len(parity.design) // 2, 3] = 0.0
    prices = np.random.default_rng(2).normal(size=(5, n_classes)) * 0.3 / n_classes
    compiled, plain = (DesignOracle.of(rows, parity, kernel) for kernel in ("compiled", "numpy"))
    monkeypatch.setattr(compiled._loops, "fold_entries", lambda *given: False)
    for lam in (1.0, 4.0):
        for mine, other in zip(
            *(oracle.curvature(prices, lam, parity.components) for oracle in (compiled, plain)),
            strict=True,
        ):
            assert np.abs(other).max() > 1e-4
            np.testing.assert_allclose(mine, other, rtol=0, atol=1e-13 * np.abs(other).max())


@pytest.mark.parametrize(("part", "by_products"), [(1.0, True), (0.5, True), (0.2, False)])
def test_where_few_of_many_prices_matter_the_others_are_not_multiplied(
    part, by_products, monkeypatch
):
    pytest.importorskip("numba")
    rows, parity = a_table(400, "soft", n_classes=60)
    entries = np.zeros((5, 60), dtype=bool)
    entries[:, : int(part * 60)] = True
    compiled, calls = DesignOracle.of(rows, parity, "compiled"), []
    multiply = compiled._loops.fold_products
    monkeypatch.setattr(
        compiled._loops, "fold_products", lambda *given: calls.append(multiply(*given))
    )
    prices = np.random.default_rng(2).normal(size=(5, 60)) * 0.005
    ours = compiled.curvature(prices, 1.0, parity.components, entries)
    assert bool(calls) is by_products
    both = entries[:, :, None, None] & entries
    for mine, other in zip(
        ours,
        DesignOracle.of(rows, parity, "numpy").curvature(prices, 1.0, parity.components),
        strict=True,
    ):
        np.testing.assert_allclose(
            np.where(both, mine, 0.0), np.where(both, other, 0.0), rtol=0, atol=1e-12
        )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["classes", "soft"])
def test_the_number_of_threads_never_shows(kernel, kind, monkeypatch):
    if kernel == "compiled":
        pytest.importorskip("numba")
    monkeypatch.setattr(
        "r2b._solve.oracle.design._LANE_ENTRIES", 1 << 12
    )  # several lanes: so few rows would be one, whatever the number of threads
    y, matrix = drawn(4_001, soft=kind == "soft")
    found = [
        r2b.debias(
            y,
            sensitive_features=r2b.Membership(matrix),
            epsilon=1e-3,
            kernel=kernel,
            threads=threads,
        )
        for threads in (1, 2, 5)
    ]
    for other in found[1:]:
        assert np.array_equal(other.prices, found[0].prices)
        assert other.certificate.to_json() == found[0].certificate.to_json()


SENSITIVE = {
    "membership": lambda matrix, age, sex: {"g": r2b.Membership(matrix)},
    "membership and groups": lambda matrix, age, sex: {"g": r2b.Membership(matrix), "sex": sex},
    "continuous": lambda matrix, age, sex: {"age": r2b.Continuous(age)},
    "all three": lambda matrix, age, sex: {
        "g": r2b.Membership(matrix),
        "age": r2b.Continuous(age),
        "sex": sex,
    },
}


@pytest.mark.parametrize("lam", [0.05, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3])
@pytest.mark.parametrize("sensitive", SENSITIVE)
def test_the_optimum_is_that_of_the_table_of_cells(sensitive, epsilon, lam, monkeypatch):
    rng = np.random.default_rng(5)
    for soft in (False, True):
        y, matrix = drawn(400, soft=soft, sharp=4.0)
        age, sex = (
            rng.normal(40, 12, 400) + 5 * matrix[:, 0],
            np.where(rng.random(400) < 0.3 + 0.4 * matrix[:, 1], "f", "m"),
        )
        given = {
            "sensitive_features": SENSITIVE[sensitive](matrix, age, sex),
            "sample_weight": 10 ** rng.uniform(-1, 1, 400),
            "epsilon": epsilon,
            "lam": lam,
        }
        by_row = r2b.debias(y, **given)
        with monkeypatch.context() as patch:
            patch.setattr(jobs, "by_row", lambda cells, n_rows: False)
            by_cell = r2b.debias(y, **given)
        assert by_row.status.ok and by_row.certificate.holds and by_cell.status.ok
        assert by_row.certificate.objective == pytest.approx(
            by_cell.certificate.objective, abs=1e-9
        )
        np.testing.assert_allclose(by_row.soft_labels, by_cell.soft_labels, atol=1e-6)


@pytest.mark.parametrize("soft", [False, True])
def test_the_optimum_is_that_of_a_programme_written_out(soft):
    who = people(11, soft=soft, decades=1.0)
    matrix = np.random.default_rng(11).dirichlet(np.ones(3), len(who.y))
    fair = r2b.debias(
        who.given,
        sensitive_features={"g": r2b.Membership(matrix), "sex": who.sex},
        sample_weight=who.weight,
        epsilon=0.01,
        lam=0.3,
    )
    limit = np.full(who.n_classes, 0.01)
    table = Table(
        who.y, who.w, [Rule(matrix, "range", limit), Rule(indicators(who.sex), "range", limit)], 0.3
    )
    assert fair.certificate.holds
    assert table.value(fair.soft_labels) == pytest.approx(closest(table)[0], abs=1e-7)


def test_families_that_others_imply_are_left_out_of_the_walk_too():
    y, matrix = drawn(500)
    rng = np.random.default_rng(4)
    sex, race = rng.choice(["f", "m"], 500), rng.choice(["p", "q"], 500)
    sensitive = {"g": r2b.Membership(matrix), "sex": sex, "race": race}
    fair = r2b.debias(
        y, sensitive_features=sensitive, families=["g", "sex", ["sex", "race"]], epsilon=0.01
    )
    assert fair.status.ok and fair.certificate.holds and len(fair.groups) == 9
    assert not fair.prices[3:5].any()  # those of sex, which its crossings with race imply
    limit = np.full(5, 0.01)
    rules = [
        Rule(counts, "range", limit) for counts in (matrix, indicators(sex), indicators(sex, race))
    ]
    table = Table(np.eye(5)[y], np.ones(500), rules)
    assert table.value(fair.soft_labels) == pytest.approx(closest(table)[0], abs=1e-7)


def test_costs_of_changes_are_those_of_the_table_of_cells(monkeypatch):
    y, matrix = drawn(300)
    costs = np.random.default_rng(2).uniform(0.5, 2.0, (5, 5)) * (1 - np.eye(5))
    given = {"sensitive_features": r2b.Membership(matrix), "costs": costs, "lam": 0.4}
    by_row = r2b.debias(y, **given)
    monkeypatch.setattr(jobs, "by_row", lambda cells, n_rows: False)
    by_cell = r2b.debias(y, **given)
    assert by_row.certificate.holds
    assert by_row.certificate.objective == pytest.approx(by_cell.certificate.objective, abs=1e-9)
    assert by_row.certificate.distance == pytest.approx(by_cell.certificate.distance, abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("sharp", [1.0, 8.0])
def test_a_long_table_of_uncertain_groups_takes_few_passes_and_little_memory(soft, sharp):
    y, matrix = drawn(200_000, 16, 2, soft=soft, sharp=sharp)
    r2b.debias(y[:20_000], sensitive_features=r2b.Membership(matrix[:20_000]))  # kernels are loaded
    tracemalloc.start()
    fair = r2b.debias(y, sensitive_features=r2b.Membership(matrix))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fair.status.ok and fair.certificate.holds and fair.certificate.disparity <= 1e-9
    on_all_rows = [line for line in fair.history if not line.stage.startswith("prepare")]
    assert len(on_all_rows) <= 12 and {line.stage.partition(",")[0] for line in on_all_rows} == {
        "newton"
    }
    assert peak < 200_000 * 16 * 8  # no table of rows x classes, let alone x groups
    weights = matrix / matrix.sum(axis=0)
    np.testing.assert_allclose(
        weights[:, 0] @ fair.soft_labels, weights[:, 1] @ fair.soft_labels, atol=1e-9
    )


@pytest.mark.parametrize("soft", [False, True])
def test_a_continuous_attribute_of_distinct_values_takes_few_passes(soft):
    y, matrix = drawn(100_000, 8, 2, soft=soft)
    age = np.random.default_rng(3).normal(size=100_000) + 2 * matrix[:, 0]
    fair = r2b.debias(y, sensitive_features=r2b.Continuous(age, name="age"))
    assert fair.status.ok and fair.certificate.holds
    assert len([line for line in fair.history if not line.stage.startswith("prepare")]) <= 15
    x = fair.soft_labels
    # the linear function is among the moments
    assert np.abs((age - age.mean()) @ x / len(x)).max() <= 1e-8


@pytest.mark.parametrize("kind", ["classes", "soft"])
def test_samples_keep_the_share_of_every_group(kind):
    y, matrix = drawn(140_001, 16, 3, soft=kind == "soft")
    job = MemoryTask.of(read(y, sensitive_features=r2b.Membership(matrix)), Request(), Settings())
    assert isinstance(job.oracle, DesignOracle)
    small, large, _ = job.oracle.samples()
    for sample in (small, large):
        assert len(sample.rows.cells) < 140_001 / 10
        weight = sample.rows.weight / sample.total_weight
        np.testing.assert_allclose(weight @ sample.design, job.parity.share, atol=1e-12)
        np.testing.assert_allclose(sample.label_means().sum(axis=1), 1.0, atol=1e-12)


def test_no_sample_stands_for_a_group_that_hardly_anyone_is_in():
    y, matrix = drawn(140_001, 16, 2)
    few = np.where(np.arange(140_001) < 40, "few", "many")
    job = MemoryTask.of(
        read(y, sensitive_features={"g": r2b.Membership(matrix), "rare": few}),
        Request(families="marginal"),
        Settings(),
    )
    assert job.oracle.samples() is None
    fair = job.solve()
    assert fair.status.ok and fair.certificate.holds


def test_weights_that_would_be_negative_are_no_sample():
    design = np.array([[1.0, 0.0]] * 50 + [[0.0, 1.0]])
    assert calibrated(design, np.ones(51), np.array([2.0, -1.0])) is None


def test_a_long_membership_is_not_sorted_and_gives_the_same_labels(monkeypatch):
    y, matrix = drawn(5_000, 4, 2)
    sorted_out = r2b.debias(y, sensitive_features=r2b.Membership(matrix))
    monkeypatch.setattr(mixtures, "_LONG", 1_000)
    monkeypatch.setattr(mixtures, "_PROBE_ROWS", 100)
    matrix[1] = matrix[0]  # seldom enough for no probe to show it
    monkeypatch.setattr(
        mixtures,
        "distinct_rows",
        lambda rows: pytest.fail("sorted") if len(rows) > 200 else (rows, rows),
    )
    taken = r2b.debias(y, sensitive_features=r2b.Membership(matrix))
    monkeypatch.undo()
    again = r2b.debias(y, sensitive_features=r2b.Membership(matrix))
    assert again.schema.n_cells == 4_999 and taken.schema.n_cells == 5_000
    np.testing.assert_allclose(taken.soft_labels, again.soft_labels, atol=1e-9)
    assert sorted_out.status.ok and taken.certificate.holds


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_pairs_of_cell_and_class_merge_as_a_table_of_them_does(weighted):
    rng = np.random.default_rng(0)
    matrix = rng.dirichlet([1.0, 1.0], 60)[rng.integers(0, 60, 100)]
    y, weight = (
        rng.integers(0, 7, 100),
        np.where(rng.random(100) < 0.2, 0.0, rng.random(100)) if weighted else None,
    )
    dataset = read(
        y, sensitive_features=r2b.Membership(matrix), sample_weight=weight, weightless="allow"
    )
    rows = merge(dataset)
    expected = np.zeros((dataset.n_cells, 7))
    np.add.at(expected, (dataset.cells.codes, y), 1.0 if weight is None else weight)
    found = np.zeros_like(expected)
    found[rows.cells, rows.classes] = rows.weight
    assert (
        isinstance(rows, Rows)
        and (rows.weight > 0).all()
        and len(rows.cells) == (expected > 0).sum()
    )
    np.testing.assert_allclose(found, expected, atol=1e-15)
    part = rng.random(dataset.n_cells)
    counted = expected * part[:, None]
    np.testing.assert_allclose(rows.mean(part), counted.sum(axis=0) / counted.sum(), atol=1e-14)
    soft = replace(rows, matrix=np.eye(7)[rows.classes], classes=None)
    np.testing.assert_allclose(soft.mean(part), rows.mean(part), atol=1e-14)


@pytest.mark.parametrize("low", [-70_000, 0, 2**40])
def test_many_integers_are_ranked_by_a_table_as_by_sorting(low):
    rng = np.random.default_rng(1)
    for values in (rng.integers(0, 200_000, 100_000), rng.permutation(100_000)):
        present, expected = np.unique(values + low, return_inverse=True)
        codes, found = compact_integers(values + low)
        assert (
            np.array_equal(codes, expected)
            and np.array_equal(found, present)
            and found.dtype == values.dtype
        )
