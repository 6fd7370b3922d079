"""Labels as tensors: the answers of rows in memory, on the host and on a CUDA device if any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import r2b  # noqa: E402
import r2b.engines.torch  # noqa: E402
from r2b._data import read  # noqa: E402
from r2b._data.merge import merge  # noqa: E402
from r2b._solve.oracle import Oracle  # noqa: E402
from r2b.engines.torch import kernel  # noqa: E402
from r2b.engines.torch.oracle import DeviceBlocks  # noqa: E402
from r2b.errors import (  # noqa: E402
    EmptyError,
    InputError,
    LengthError,
    NotSolvedWarning,
    ParameterError,
    ProbabilityError,
    R2BError,
    ShapeError,
    UnseenError,
    WeightError,
)
from r2b.metrics import demographic_parity_difference  # noqa: E402

Array = np.ndarray[Any, np.dtype[Any]]

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_cuda)])


def soft_rows(
    n_rows: int, n_classes: int, n_groups: int, *, dtype: str = "float64"
) -> tuple[Array, Array]:
    """Return probabilities whose group means differ, and groups; every group occurs."""
    rng = np.random.default_rng(0)
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n_rows - n_groups)])
    scores = 1.5 * rng.standard_normal((n_rows, n_classes))
    scores += rng.standard_normal((n_groups, n_classes))[groups]
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (odds / odds.sum(axis=1, keepdims=True)).astype(dtype), groups


def sent(array: Array, device: str) -> Any:
    return torch.from_numpy(array).to(device)


def solved(device: str = "cpu", **asked: Any) -> tuple[Any, Array, Array]:
    y, groups = soft_rows(800, 5, 3)
    asked = {"sensitive_features": sent(groups, device), "epsilon": 0.02} | asked
    return r2b.engines.torch.debias(sent(y, device), **asked), y, groups


@devices
@pytest.mark.parametrize(("n_rows", "n_classes", "n_groups"), [(257, 100, 4), (200, 2, 70)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lam", [1.0, 0.3])
def test_the_kernel_computes_what_that_of_memory_does(
    n_rows: int, n_classes: int, n_groups: int, weighted: bool, lam: float, device: str
) -> None:
    y, groups = soft_rows(n_rows, n_classes, n_groups)
    weight = np.random.default_rng(1).random(n_rows) + 0.1 if weighted else None
    rows = merge(read(y, sensitive_features=groups, sample_weight=weight))
    host = Oracle.of(rows, kernel="numpy")
    there = DeviceBlocks(sent(y, device), groups, weight, n_groups, torch.device(device)).oracle()
    prices = 0.1 * np.random.default_rng(2).standard_normal((n_groups, n_classes))
    design, both = np.random.default_rng(3).random((n_groups, 2)), [np.arange(2)]
    np.testing.assert_allclose(there.label_means(), host.label_means(), atol=1e-12)
    np.testing.assert_allclose(
        there.curvature(prices, lam, both, design), host.curvature(prices, lam, both, design)
    )
    for expected, found in (
        (oracle.evaluate(prices, lam, curvature=True) for oracle in (host, there)),
        *(
            (oracle.inspect(prices, lam, unchanged=unchanged) for oracle in (host, there))
            for unchanged in (False, True)
        ),
    ):
        for name, value in vars(expected).items():
            np.testing.assert_allclose(vars(found)[name], value, atol=1e-12, err_msg=name)


@devices
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "asked",
    [
        {"epsilon": 0.0},
        {"epsilon": 0.02, "lam": 0.2},
        {"epsilon": 0.05, "bound": "ratio", "families": "both"},
        {"epsilon": 0.05, "bound": "target", "target": "population"},
    ],
)
def test_labels_are_those_of_memory(asked: dict[str, Any], dtype: str, device: str) -> None:
    y, sex = soft_rows(900, 4, 2, dtype=dtype)
    race, weight = np.random.default_rng(5).integers(0, 3, 900), np.linspace(0.1, 2, 900)
    host = r2b.debias(
        y, sensitive_features={"sex": sex, "race": race}, sample_weight=weight, **asked
    )
    fair = r2b.engines.torch.debias(
        sent(y, device),
        sensitive_features={"sex": sent(sex, device), "race": sent(race, device)},
        sample_weight=sent(weight, device),
        **asked,
    )
    assert fair.status is host.status and fair.certificate.holds
    assert fair.groups.tolist() == host.groups.tolist()
    assert fair.soft_labels.device.type == device
    np.testing.assert_allclose(fair.soft_labels.cpu().numpy(), host.soft_labels, atol=1e-9)
    assert fair.certificate.objective == pytest.approx(host.certificate.objective, abs=1e-9)


@devices
def test_a_large_table_is_solved_from_a_sample_to_the_same_prices(device: str) -> None:
    y, groups = soft_rows(60_000, 40, 3, dtype="float32")
    fair = r2b.engines.torch.debias(
        sent(y, device), sensitive_features=sent(groups, device), epsilon=0.01
    )
    assert any("sampled" in step.stage for step in fair.history)
    assert fair.status.ok
    host = r2b.debias(y, sensitive_features=groups, epsilon=0.01)
    assert np.abs(fair.prices - host.prices).max() <= 1e-9


@devices
def test_labels_of_the_host_go_through_the_device_in_parts(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, y, groups = solved(device)
    monkeypatch.setattr(kernel, "_PART_ENTRIES", 999)
    asked = {"sensitive_features": groups, "epsilon": 0.02, "device": device}
    runs = [r2b.engines.torch.debias(torch.from_numpy(y), **asked) for _ in range(2)]
    assert runs[0].soft_labels.device.type == "cpu"
    np.testing.assert_allclose(
        runs[0].soft_labels.numpy(), whole.soft_labels.cpu().numpy(), atol=1e-9
    )
    assert torch.equal(runs[0].soft_labels, runs[1].soft_labels)  # the same bits every time


KEYS: dict[str, Callable[[Any], Any]] = {
    "none": lambda cells: None,
    "tensor": lambda cells: 7 * torch.arange(len(cells), device=cells.device).flip(0),
    "text": lambda cells: [f"row {number}" for number in range(len(cells))],
}


@devices
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", ["classes", "float64", "float32"])
def test_whole_labels_are_those_of_memory_bit_for_bit(
    kind: str, weighted: bool, key: str, device: str
) -> None:
    soft, groups = soft_rows(700, 4, 3, dtype="float32" if kind == "float32" else "float64")
    y = np.random.default_rng(3).integers(0, 4, 700) % (2 + groups) if kind == "classes" else soft
    weight = np.random.default_rng(1).random(700) + 0.1 if weighted else None
    host = r2b.debias(y, sensitive_features=groups, sample_weight=weight, epsilon=0.02)
    cells = sent(groups, device)
    fair = r2b.engines.torch.debias(
        sent(y, device),
        sensitive_features=cells,
        sample_weight=None if weight is None else sent(weight, device),
        epsilon=0.02,
    )
    named = KEYS[key](cells)
    ours = named.cpu().numpy() if isinstance(named, torch.Tensor) else named
    for form in ("round", "sample"):
        given, expected = getattr(fair, form)(7, key=named), getattr(host, form)(7, key=ours)
        assert given.device == cells.device
        assert given.dtype == torch.from_numpy(expected).dtype
        assert given.cpu().numpy().tolist() == expected.tolist()


@devices
def test_repeated_rows_have_the_certified_disparity(device: str) -> None:
    fair, y, groups = solved(device)
    index, labels, weight = (each.cpu() for each in fair.expand())
    parity = demographic_parity_difference(
        labels.numpy(), sensitive_features=groups[index.numpy()], sample_weight=weight.numpy()
    )
    assert parity == pytest.approx(fair.certificate.disparity, abs=1e-9)
    taken, _, _ = fair.expand(sent(y, device))
    assert torch.equal(taken.cpu(), torch.from_numpy(y)[index])
    with pytest.raises(LengthError, match="`X` has 5"):
        fair.expand(sent(y[:5], device))


@devices
def test_blocks_of_labels_are_the_labels(device: str) -> None:
    fair, _, _ = solved(device)
    assert torch.allclose(torch.cat(list(fair.iter_soft(130))), fair.soft_labels, atol=1e-15)
    assert fair.soft(torch.float32).dtype == fair.soft(np.float32).dtype == torch.float32
    with pytest.raises(ParameterError, match="dtype is"):
        fair.soft(torch.int64)
    with pytest.raises(ParameterError, match="block_rows is"):
        fair.iter_soft(0)


def test_labels_that_are_fair_leave_as_they_came() -> None:
    y, _ = soft_rows(200, 3, 2)
    there = torch.from_numpy(np.concatenate([y, y]))
    fair = r2b.engines.torch.debias(there, sensitive_features=torch.arange(400) // 200)
    assert fair.status is r2b.Status.ALREADY_FAIR
    assert fair.soft_labels.data_ptr() == there.data_ptr()


@devices
def test_classes_have_every_objective_cost_and_attribute(device: str) -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, 900)
    y = (rng.random(900) * (2 + groups)).astype(np.int64) * 10
    for asked in (
        {"sample_weight": rng.random(900)},
        {"objective": "agreement"},
        {"costs": {"ordinal": [0, 10, 20, 30]}},
        {"sensitive_features": r2b.Continuous(rng.random(900) + groups, knots=3)},
    ):
        asked = {"sensitive_features": groups, "epsilon": 0.02} | asked
        host = r2b.debias(y, **asked)
        fair = r2b.engines.torch.debias(sent(y, device), **asked)
        assert fair.classes.tolist() == host.classes.tolist()
        np.testing.assert_allclose(fair.soft_labels.cpu().numpy(), host.soft_labels, atol=1e-9)
        assert fair.round(3).tolist() == host.round(3).tolist()


@devices
@pytest.mark.parametrize("form", ["soft", "round", "sample"])
@pytest.mark.parametrize("soft", [False, True])
def test_new_rows_get_the_labels_of_memory(form: Any, soft: bool, device: str) -> None:
    y, groups = soft_rows(600, 4, 3)
    y = y if soft else y.argmax(axis=1)
    there, cells = sent(y, device), sent(groups, device)
    fair = r2b.engines.torch.debias(there, sensitive_features=cells, epsilon=0.02)
    asked = {"form": form, "random_state": 5}
    expected = fair.in_memory().transform(y[:250], sensitive_features=groups[:250], **asked)
    given = fair.transform(there[:250], sensitive_features=cells[:250], **asked)
    np.testing.assert_allclose(given.cpu().numpy(), expected, atol=1e-12)


def test_new_rows_that_were_not_fitted_are_refused() -> None:
    fair, y, _ = solved()
    one = torch.tensor([0, 1])
    with pytest.raises(UnseenError):
        fair.transform(torch.from_numpy(y[:2]), sensitive_features=torch.tensor([0, 9]))
    with pytest.raises(UnseenError, match="but the classes 0, 1, 2, 3, 4 were fitted"):
        fair.transform(torch.full((2, 4), 0.25), sensitive_features=one)
    with pytest.raises(ShapeError, match="probabilities were fitted"):
        fair.transform(one, sensitive_features=one)
    with pytest.raises(ProbabilityError, match="row 1"):
        fair.transform(torch.tensor([[0.2] * 5, [0.3] * 5]), sensitive_features=one)
    y, groups = torch.tensor([0, 3, 3, 0, 0, 0]), torch.tensor([0, 0, 0, 1, 1, 1])
    fair = r2b.engines.torch.debias(y, sensitive_features=groups)
    with pytest.raises(UnseenError, match="Row 1 of y holds 2"):
        fair.transform(torch.tensor([3, 2]), sensitive_features=torch.tensor([1, 1]))


def test_it_is_saved_loaded_and_measured_as_any_other(tmp_path: Path) -> None:
    fair, y, groups = solved()
    fair.save(tmp_path / "fair.json")
    loaded = r2b.load(tmp_path / "fair.json")
    made = loaded.transform(y, sensitive_features=groups)
    np.testing.assert_allclose(made, fair.soft_labels.numpy(), atol=1e-12)
    host, drawn = r2b.debias(y, sensitive_features=groups, epsilon=0.02), fair.sample(7)
    assert str(fair).splitlines()[1] == str(host).splitlines()[1]
    parity = demographic_parity_difference(drawn.numpy(), sensitive_features=groups)
    assert fair.realised(drawn).disparity == pytest.approx(parity, abs=1e-12)


def test_normalising_divides_rows_by_their_sums() -> None:
    y, groups = soft_rows(100, 3, 2)
    asked = {"sensitive_features": torch.from_numpy(groups), "epsilon": 0.01}
    whole = r2b.engines.torch.debias(torch.from_numpy(y), **asked)
    scaled = r2b.engines.torch.debias(torch.from_numpy(3 * y), normalize=True, **asked)
    assert np.abs(scaled.prices - whole.prices).max() <= 1e-9
    for wrong in (0.0, -y[4]):
        y[4] = wrong
        with pytest.raises(ProbabilityError, match="row 4"):
            r2b.engines.torch.debias(torch.from_numpy(y), normalize=True, **asked)


def test_a_run_without_steps_says_so() -> None:
    with pytest.warns(NotSolvedWarning, match="out of iterations"):
        fair, y, groups = solved(max_iter=0)
    best = r2b.debias(y, sensitive_features=groups, epsilon=0.02).certificate.objective
    assert fair.certificate.lower_bound <= best + 1e-12
    assert not fair.certificate.holds


@on_cuda
@pytest.mark.parametrize("library", ["cupy", "jax.numpy"])
def test_arrays_of_other_libraries_come_back_as_they_came(library: str) -> None:
    namespace = pytest.importorskip(library)
    y, groups = soft_rows(900, 5, 3, dtype="float32")
    fair = r2b.debias(namespace.asarray(y), sensitive_features=namespace.asarray(groups))
    assert type(fair.soft_labels) is type(namespace.asarray(y))
    assert type(fair.sample(1)) is type(namespace.asarray(y))


def spoilt(row: int, column: int, value: float) -> Any:
    y, _ = soft_rows(90, 3, 2)
    y[row, column] = value
    return torch.from_numpy(y)


GROUPS = torch.arange(90) % 2
SOUND = torch.from_numpy(soft_rows(90, 3, 2)[0])
AGES = r2b.Continuous(np.random.default_rng(0).random(90), knots=3)
REFUSALS: list[tuple[type[R2BError], str, Any, dict[str, Any]]] = [
    (ProbabilityError, "row 7 has the probability -0.5 for class 1", spoilt(7, 1, -0.5), {}),
    (ProbabilityError, "row 8 has the probability nan for class 0", spoilt(8, 0, float("nan")), {}),
    (ProbabilityError, "row 9 has the probability inf for class 2", spoilt(9, 2, float("inf")), {}),
    (ProbabilityError, "row 3 sums to", spoilt(3, 1, 0.99), {}),
    (InputError, "y.float()", SOUND.half(), {}),
    (InputError, "sparse", SOUND.to_sparse(), {}),
    (ShapeError, "3 dimensions", torch.zeros(2, 2, 2), {}),
    (ShapeError, "y.cpu", torch.zeros(90), {}),
    (EmptyError, "single column", torch.ones(90, 1), {}),
    (EmptyError, "one class", torch.zeros(90, dtype=torch.int64), {}),
    (LengthError, "`y` has 90 rows", SOUND, {"sensitive_features": GROUPS[:5]}),
    (LengthError, "sample_weight", SOUND, {"sample_weight": torch.ones(3)}),
    (
        WeightError,
        "row 2 in sample_weight is -1.0",
        SOUND,
        {"sample_weight": torch.tensor([1.0, 1.0, -1.0] * 30)},
    ),
    (WeightError, "all 90 rows are zero", SOUND, {"sample_weight": torch.zeros(90)}),
    (R2BError, "5", SOUND, {"sensitive_features": torch.arange(90) // 85, "min_group_size": 10}),
    (ParameterError, "y.cpu", SOUND, {"costs": np.ones((3, 3))}),
    (ParameterError, "agreement", SOUND, {"objective": "agreement"}),
    (ParameterError, "y.cpu", SOUND, {"sensitive_features": AGES}),
    (ParameterError, "device is 'nowhere'", SOUND, {"device": "nowhere"}),
    (ParameterError, "Move the labels to the host", SOUND, {"device": "mps"}),
]


@pytest.mark.parametrize(
    ("error", "words", "y", "asked"), REFUSALS, ids=[words for _, words, _, _ in REFUSALS]
)
def test_what_cannot_be_used_is_refused_by_name(
    error: type[R2BError], words: str, y: Any, asked: dict[str, Any]
) -> None:
    with pytest.raises(error) as raised:
        r2b.engines.torch.debias(y, **{"sensitive_features": GROUPS, **asked})
    assert words in str(raised.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ParameterError, match="finds no CUDA device"):
        r2b.engines.torch.debias(SOUND, sensitive_features=GROUPS, device="cuda")
