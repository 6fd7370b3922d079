"""Labels as tensors: the oracle, the solver and the batches of a device, on tensors of the host where there is no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from device_rows import disagreement, soft_rows, two_oracles  # noqa: E402

import r2b  # noqa: E402
import r2b.engines.torch  # noqa: E402
from r2b._constraints.parity import RangeBound  # noqa: E402
from r2b._solve.solvers import Status  # noqa: E402
from r2b._solve.solvers.newton import level_step  # noqa: E402
from r2b.engines.torch import newton, oracle, plain  # noqa: E402
from r2b.engines.torch.labels import TensorRows  # noqa: E402
from r2b.engines.torch.newton import device_level_step  # noqa: E402
from r2b.engines.torch.oracle import DeviceOracle, LabelBatches  # noqa: E402
from r2b.engines.torch.rows import DeviceRows, add_by_cell  # noqa: E402
from r2b.errors import NotSolvedWarning  # noqa: E402

SHAPES = [(300, 5, 3), (257, 100, 4), (200, 2, 70)]


def tensors(y: Any, groups: Any) -> tuple[Any, Any]:
    return torch.from_numpy(y), torch.from_numpy(groups)


@pytest.mark.parametrize(("n_rows", "n_classes", "n_groups"), SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lam", [1.0, 0.3])
def test_the_plain_kernel_answers_as_the_rows_in_memory_do(
    n_rows: int, n_classes: int, n_groups: int, weighted: bool, lam: float
) -> None:
    y, groups = soft_rows(n_rows, n_classes, n_groups)
    weight = np.random.default_rng(1).random(n_rows) + 0.1 if weighted else None
    prices = 0.1 * np.random.default_rng(2).standard_normal((n_groups, n_classes))
    found = disagreement(*two_oracles(y, groups, weight), prices, lam)
    assert max(found.values()) <= 1e-12, found


def test_single_precision_loses_nothing_but_the_digits_of_the_curvature() -> None:
    y, groups = soft_rows(400, 20, 3, dtype="float32")
    found = disagreement(
        *two_oracles(y, groups), 0.05 * np.random.default_rng(2).standard_normal((3, 20)), 1.0
    )
    assert found.pop("curvature") <= 1e-6
    assert found.pop("fold") <= 1e-6
    assert max(found.values()) <= 1e-12, found


def test_a_projection_is_nearer_than_any_point_of_a_grid() -> None:
    rng = np.random.default_rng(0)
    rows = torch.from_numpy(rng.standard_normal((20, 3)))
    grid = np.array([(a, b, 20 - a - b) for a in range(21) for b in range(21 - a)]) / 20
    x, _ = plain.project(rows, torch.ones((), dtype=torch.float64))
    assert np.allclose(x.sum(1).numpy(), 1.0)
    nearest = ((grid[None] - rows.numpy()[:, None]) ** 2).sum(2).min(1)
    assert (((x - rows) ** 2).sum(1).numpy() <= nearest + 1e-12).all()


@pytest.mark.parametrize("epsilon", [0.0, 0.02])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("lam", [1.0, 0.2])
def test_prices_are_those_of_the_host(epsilon: float, dtype: str, lam: float) -> None:
    y, groups = soft_rows(900, 6, 3, dtype=dtype)
    host = r2b.debias(y, sensitive_features=groups, epsilon=epsilon, lam=lam)
    y_there, groups_there = tensors(y, groups)
    fair = r2b.engines.torch.debias(
        y_there, sensitive_features=groups_there, epsilon=epsilon, lam=lam
    )
    assert fair.status is host.status
    assert fair.certificate.holds
    assert np.abs(fair.prices - host.prices).max() <= (1e-8 if dtype == "float64" else 1e-5)
    assert fair.certificate.objective == pytest.approx(host.certificate.objective, abs=1e-9)
    assert np.abs(fair.soft_labels.numpy() - host.soft_labels).max() <= 1e-7


@pytest.mark.parametrize("bound", ["to_overall", "ratio", "target"])
def test_other_bounds_and_marginal_families_are_solved_as_on_the_host(bound: str) -> None:
    y, sex = soft_rows(600, 4, 2)
    race = np.random.default_rng(5).integers(0, 3, 600)
    asked: dict[str, Any] = {"epsilon": 0.05, "bound": bound, "families": "both"}
    if bound == "target":
        asked["target"] = "population"
    host = r2b.debias(y, sensitive_features={"sex": sex, "race": race}, **asked)
    there = {"sex": torch.from_numpy(sex), "race": torch.from_numpy(race)}
    fair = r2b.engines.torch.debias(torch.from_numpy(y), sensitive_features=there, **asked)
    assert fair.status.ok
    assert fair.groups.tolist() == host.groups.tolist()
    assert fair.certificate.objective == pytest.approx(host.certificate.objective, abs=1e-8)


def test_a_large_table_is_solved_from_a_sample_to_the_same_prices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(newton, "_LONG", 1)
    monkeypatch.setattr(oracle, "_THIN_MODELLED_FROM", 1)
    monkeypatch.setattr(oracle, "_ROWS_PER_PRICE", 1)
    y, groups = soft_rows(20_000, 40, 3, dtype="float32")
    fair = r2b.engines.torch.debias(
        *tensors(y, groups)[:1], sensitive_features=torch.from_numpy(groups), epsilon=0.01
    )
    assert {step.stage for step in fair.history} >= {"prepare, lam 1", "newton, sampled curvature"}
    assert fair.status.ok
    assert abs(fair.certificate.relative_gap) <= 1e-9
    host = r2b.debias(y, sensitive_features=groups, epsilon=0.01)
    assert np.abs(fair.prices - host.prices).max() <= 1e-5
    assert isinstance(fair.rows, TensorRows)
    assert 3 <= fair.rows.reads <= 100


def test_a_sample_that_cannot_tell_the_answer_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "_THIN_MODELLED_FROM", 1)
    y, groups = soft_rows(60_000, 40, 3)
    device = DeviceOracle(
        LabelBatches(
            torch.from_numpy(y), DeviceRows(torch.from_numpy(groups), 3, np.bincount(groups))
        ),
        np.ones(3),
    )
    sampled = device.samples()
    assert sampled is not None
    assert sampled.error == pytest.approx(device.label_means() - sampled.small.label_means(), abs=0)
    assert device.samples(modelled=True) is None


@pytest.mark.parametrize("epsilon", [0.0, 0.01])
def test_weights_over_six_decades_have_the_labels_of_the_host(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newton, "_LONG", 1)
    y, groups = soft_rows(3000, 12, 4)
    weight = 10.0 ** np.random.default_rng(1).uniform(-3, 3, 3000)
    host = r2b.debias(y, sensitive_features=groups, sample_weight=weight, epsilon=epsilon)
    there, cells, own = (torch.from_numpy(each) for each in (y, groups, weight))
    fair = r2b.engines.torch.debias(
        there, sensitive_features=cells, sample_weight=own, epsilon=epsilon
    )
    assert fair.status.ok
    assert np.abs(fair.soft_labels.numpy() - host.soft_labels).max() <= 1e-8


def test_sharp_rows_in_a_narrow_band_take_few_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton, "_LONG", 1)
    y, groups = soft_rows(4000, 40, 6)
    sharp = y**4 / (y**4).sum(axis=1, keepdims=True)
    fair = r2b.engines.torch.debias(
        torch.from_numpy(sharp), sensitive_features=torch.from_numpy(groups), epsilon=0.001
    )
    host = r2b.debias(sharp, sensitive_features=groups, epsilon=0.001)
    assert fair.status.ok
    assert fair.rows.reads <= 40  # by linear algebra alone it takes 49
    assert np.abs(fair.prices - host.prices).max() <= 1e-7
    assert fair.certificate.objective == pytest.approx(host.certificate.objective, abs=1e-10)


def test_prices_on_the_model_answer_their_means() -> None:
    y, groups = soft_rows(500, 12, 4)
    _, device = two_oracles(y, groups)
    prices, share = (
        0.05 * np.random.default_rng(0).standard_normal((4, 12)),
        np.bincount(groups) / 500,
    )
    means = device.evaluate(prices, 1.0, curvature=False).means
    blocks, bound = device.curvature_and_bound(prices, 1.0)
    # what makes steps by the bound safe
    assert torch.linalg.eigvalsh(torch.diag_embed(bound) - blocks).min() >= -1e-12
    sides = np.concatenate([[1e-12, 1.0, 0.0], share, np.full(12, 0.01)])
    found, left = plain.descend(blocks, bound.amax(dim=0), np.stack([means, prices]), sides, 1000)
    there = means - np.einsum("skl,sl->sk", blocks.numpy(), found - prices)
    assert left <= 1e-12
    assert (
        np.abs(there - RangeBound(np.full(12, 0.01)).project(there + found, share).means).max()
        <= 1e-10
    )


def test_the_same_rows_give_the_same_bits() -> None:
    y, groups = soft_rows(20_000, 40, 3, dtype="float32")
    runs = [
        r2b.engines.torch.debias(
            torch.from_numpy(y), sensitive_features=torch.from_numpy(groups), epsilon=0.01
        )
        for _ in range(2)
    ]
    assert (runs[0].prices == runs[1].prices).all()
    assert torch.equal(runs[0].soft_labels, runs[1].soft_labels)
    assert torch.equal(runs[0].sample(3), runs[1].sample(3))


@pytest.mark.parametrize("weighted", [False, True])
def test_batches_answer_as_the_whole_does(weighted: bool) -> None:
    y, groups = soft_rows(1000, 7, 4)
    weight = np.random.default_rng(1).random(1000) if weighted else None
    host, whole = two_oracles(y, groups, weight)
    rows = whole.source.rows
    cut = DeviceOracle(LabelBatches(torch.from_numpy(y), rows, 137), host.rows.group_weight)
    found = disagreement(host, cut, 0.1 * np.random.default_rng(3).standard_normal((4, 7)), 1.0)
    assert max(found.values()) <= 1e-12, found


def test_labels_in_batches_have_the_prices_and_labels_of_the_whole() -> None:
    y, groups = soft_rows(2000, 5, 3)
    asked: dict[str, Any] = {"sensitive_features": torch.from_numpy(groups), "epsilon": 0.01}
    whole = r2b.engines.torch.debias(torch.from_numpy(y), **asked)
    cut = r2b.engines.torch.debias(torch.from_numpy(y), **asked, device="cpu", batch_rows=300)
    assert np.abs(whole.prices - cut.prices).max() <= 1e-10
    assert torch.allclose(whole.soft_labels, cut.soft_labels, atol=1e-9, rtol=0)


def test_labels_that_are_fair_go_out_as_they_came() -> None:
    y, _ = soft_rows(200, 3, 2)
    there = torch.from_numpy(np.concatenate([y, y]))
    fair = r2b.engines.torch.debias(there, sensitive_features=torch.arange(400) // 200)
    assert fair.status is Status.ALREADY_FAIR
    assert fair.soft_labels.data_ptr() == there.data_ptr()


def test_a_sample_keeps_every_cell_and_knows_no_row_twice() -> None:
    cells = torch.from_numpy(
        np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [5000, 40, 1]))
    )
    numbers, some = DeviceRows(cells, 3, np.array([5000, 40, 1])).sample(600)
    assert (torch.bincount(cells[numbers]).numpy() == some.counts).all()
    assert some.counts.tolist()[1:] == [40, 1]
    assert len(torch.unique(numbers)) == len(numbers)


def test_the_step_on_the_device_is_the_step_on_the_host() -> None:
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((3, 8, 8))
    blocks = roots @ roots.transpose(0, 2, 1)
    free = rng.random((3, 8)) < 0.7
    free[:, 2] = False
    rest = (
        free,
        rng.standard_normal((3, 8)),
        rng.standard_normal((3, 8)),
        np.array([0.2, 0.3, 0.5]),
        1e-3,
        0.95,
    )
    assert np.allclose(
        level_step(blocks, *rest), device_level_step(torch.from_numpy(blocks), *rest), atol=1e-9
    )


def test_a_step_leaves_classes_alone_that_take_no_part() -> None:
    y, groups = soft_rows(3000, 30, 2)
    fair = r2b.engines.torch.debias(
        torch.from_numpy(y), sensitive_features=torch.from_numpy(groups), epsilon=0.05
    )
    host = r2b.debias(y, sensitive_features=groups, epsilon=0.05)
    untouched = (host.prices == 0).all(axis=0)
    assert 0 < untouched.sum() < 30
    assert (fair.prices[:, untouched] == 0).all()


@pytest.mark.parametrize("n_cells", [3, 200])
def test_sums_by_cell_are_those_of_a_loop(n_cells: int) -> None:
    rng = np.random.default_rng(0)
    cells, rows = rng.integers(0, n_cells, 500), rng.random((500, 2))
    expected = np.zeros((n_cells, 2))
    for cell, row in zip(cells, rows, strict=True):
        expected[cell] += row
    assert np.allclose(
        add_by_cell(torch.from_numpy(rows), torch.from_numpy(cells), n_cells).numpy(), expected
    )


def test_a_run_without_steps_says_so_and_its_certificate_still_holds_water() -> None:
    y, groups = soft_rows(500, 4, 2)
    with pytest.warns(NotSolvedWarning, match="out of iterations"):
        fair = r2b.engines.torch.debias(
            torch.from_numpy(y), sensitive_features=torch.from_numpy(groups), max_iter=0
        )
    best = r2b.debias(y, sensitive_features=groups).certificate.objective
    assert fair.certificate.lower_bound <= best + 1e-12
    assert not fair.certificate.holds
