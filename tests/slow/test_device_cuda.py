"""The fused kernels against the host: on a CUDA device, or in Triton's interpreter (TRITON_INTERPRET=1) where there is none."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from device_rows import KEYS, disagreement, soft_rows, two_oracles, whole_labels_differ  # noqa: E402

import r2b  # noqa: E402
import r2b.engines.torch  # noqa: E402
from r2b.engines.torch import plain  # noqa: E402
from r2b.engines.torch.oracle import DeviceOracle, LabelBatches  # noqa: E402
from r2b.engines.torch.reading import compact, memory_explained, read_device_cells  # noqa: E402
from r2b.engines.torch.rows import DeviceRows  # noqa: E402
from r2b.errors import InputError  # noqa: E402

CUDA = torch.cuda.is_available()
INTERPRETED = (
    importlib.util.find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") == "1"
)
on_cuda = pytest.mark.skipif(not CUDA, reason="no CUDA device")
DEVICE = "cuda" if CUDA and not INTERPRETED else "cpu"

SHAPES = [(300, 5, 3), (257, 100, 4), (150, 2, 70), (40, 200, 2), (30, 1000, 2), (12, 3000, 2)]


@pytest.mark.skipif(not (CUDA or INTERPRETED), reason="no CUDA device")
@pytest.mark.parametrize(("n_rows", "n_classes", "n_groups"), SHAPES)
@pytest.mark.parametrize(
    ("dtype", "weighted", "lam"),
    [("float64", True, 1.0), ("float32", False, 1.0), ("float32", True, 0.3)],
)
def test_the_fused_kernels_answer_as_the_rows_in_memory_do(
    n_rows: int, n_classes: int, n_groups: int, dtype: str, weighted: bool, lam: float
) -> None:
    y, groups = soft_rows(n_rows, n_classes, n_groups, dtype=dtype)
    y[3] = np.eye(n_classes, dtype=dtype)[1]
    weight = np.random.default_rng(1).random(n_rows) + 0.1 if weighted else None
    host, there = two_oracles(y, groups, weight, kernel="triton", device=DEVICE)
    # thresholds of one pass are the start of the next, however far they are from it
    for size in (0.1, 3.0, 0.0):
        prices = size * np.random.default_rng(2).standard_normal((n_groups, n_classes))
        found = disagreement(host, there, prices, lam)
        loose = 1e-12 if dtype == "float64" else 1e-5
        assert found.pop("curvature") <= loose
        assert found.pop("fold") <= loose
        assert max(found.values()) <= 1e-12, found


@pytest.mark.skipif(not (CUDA or INTERPRETED), reason="no CUDA device")
@pytest.mark.parametrize(
    ("n_classes", "n_groups", "epsilon", "damping"),
    [(2, 2, 0.05, 0.0), (16, 5, 0.0, 0.3), (60, 6, 0.002, 0.0)],
)
def test_the_fused_search_on_a_model_finds_what_the_plain_one_does(
    n_classes: int, n_groups: int, epsilon: float, damping: float
) -> None:
    from r2b.engines.torch import kernels

    y, groups = soft_rows(400, n_classes, n_groups)
    _, there = two_oracles(y, groups, kernel="triton", device=DEVICE)
    prices = 0.02 * np.random.default_rng(2).standard_normal((n_groups, n_classes))
    blocks, bound = there.curvature_and_bound(prices, 1.0, torch.float64)
    start = np.stack([there.evaluate(prices, 1.0, curvature=False).means, prices])
    sides = np.concatenate(
        [[1e-11, 1.0, damping], np.bincount(groups) / 400, np.full(n_classes, epsilon)]
    )
    metric = bound.amax(dim=0).clamp(min=1e-4)
    found, expected = (
        kernels.descend(blocks, metric, start, sides, 960),
        plain.descend(blocks.cpu(), metric.cpu(), start, sides, 960),
    )
    assert max(found[1], expected[1]) <= 1e-10
    assert np.abs(found[0] - expected[0]).max() <= 1e-7
    assert np.array_equal(found[0], kernels.descend(blocks, metric, start, sides, 960)[0])


@pytest.mark.skipif(not (CUDA or INTERPRETED), reason="no CUDA device")
@pytest.mark.parametrize(("n_classes", "weighted"), [(2, False), (11, True), (32, False)])
def test_a_walk_over_a_short_table_brings_the_curvature_that_a_second_one_adds_up(
    n_classes: int, weighted: bool
) -> None:
    y, groups = soft_rows(150, n_classes, 3, dtype="float32")
    weight = 10.0 ** np.random.default_rng(1).uniform(-3, 3, 150) if weighted else None
    _, there = two_oracles(y, groups, weight, kernel="triton", device=DEVICE)
    assert there.curved
    prices = 0.1 * np.random.default_rng(2).standard_normal((3, n_classes))
    found = there.evaluate(prices, 0.7, curvature=True)
    # a step begins where the last one was judged
    assert there.evaluate(prices, 0.7, curvature=False) is found
    assert there.evaluate(prices, 0.6, curvature=True) is not found
    expected = there.curvature_and_bound(prices, 0.7, torch.float64)[0].cpu().numpy()
    assert np.abs(found.curvature - expected).max() <= 1e-12


@pytest.mark.skipif(not (CUDA or INTERPRETED), reason="no CUDA device")
@pytest.mark.parametrize("weighted", [False, True])
def test_the_walk_that_evaluated_prices_of_a_short_table_is_the_evidence_for_them(
    weighted: bool,
) -> None:
    y, groups = soft_rows(150, 11, 3, dtype="float32")
    weight = 10.0 ** np.random.default_rng(1).uniform(-3, 3, 150) if weighted else None
    host, there = two_oracles(y, groups, weight, kernel="triton", device=DEVICE)
    prices = 0.1 * np.random.default_rng(2).standard_normal((3, 11))
    expected, walked = host.inspect(prices, 0.7), there.inspect(prices, 0.7)
    there.evaluate(prices, 0.7, curvature=False)
    reads, known = there.reads, there.inspect(prices, 0.7)
    assert there.reads == reads
    for found in (walked, known):
        assert found.means == pytest.approx(expected.means, abs=1e-12)
        for name in (
            "slack",
            "squared_norm",
            "agreement",
            "squared_distance",
            "moved",
            "simplex_violation",
        ):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-12), name
    assert there.as_seen(prices + 1e-16) is not prices and np.array_equal(
        there.as_seen(prices + 1e-16), prices
    )
    assert np.array_equal(there.as_seen(prices + 1e-9), prices + 1e-9)
    assert there.inspect(prices, 0.6).squared_norm != known.squared_norm
    assert there.inspect(prices, 0.7, unchanged=True).moved == 0.0
    assert there.reads == reads + 2


@on_cuda
@pytest.mark.parametrize(
    "values",
    [[3, 1, 3, 5], [0, 1023], [0, 1024], [1024], [0, 1025, 3], [-1, 0, 2], [0, 1 << 40, 5], [2, 2]],
)
def test_codes_on_the_card_are_ranks_among_what_occurs(values: list[int]) -> None:
    codes, present, counts = compact(torch.tensor(values).cuda())
    expected, inverse, numbers = np.unique(values, return_inverse=True, return_counts=True)
    assert (
        present.tolist() == expected.tolist()
        and codes.tolist() == inverse.tolist()
        and counts.tolist() == numbers.tolist()
    )


@on_cuda
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_programs_that_are_started_again_are_those_of_the_same_form(dtype: str) -> None:
    """Rows that begin in the middle of 16 bytes, or are apart, are not for a program that was compiled for others."""
    y, groups = soft_rows(200, 6, 3, dtype=dtype)
    prices = 0.1 * np.random.default_rng(2).standard_normal((3, 6))
    expected = two_oracles(y, groups)[0].evaluate(prices, 1.0, curvature=True)
    for offset, stride in [(0, 6), (1, 6), (0, 6), (2, 8), (3, 7), (0, 8)]:
        there = torch.zeros(offset + 200 * stride, dtype=getattr(torch, dtype), device="cuda")[
            offset:
        ].view(200, stride)[:, :6]
        there.copy_(torch.from_numpy(y))
        codes, cells = read_device_cells(
            torch.from_numpy(groups).cuda(), None, there.device, "error"
        )
        rows = DeviceRows(codes, cells.n_cells, cells.counts)
        found = DeviceOracle(LabelBatches(there, rows), rows.mass, "triton").evaluate(
            prices, 1.0, curvature=True
        )
        assert np.abs(found.means - expected.means).max() <= 1e-12
        assert np.abs(found.curvature - expected.curvature).max() <= 1e-12


@on_cuda
@pytest.mark.parametrize("epsilon", [0.0, 0.001, 0.02])
@pytest.mark.parametrize(("n_classes", "n_groups"), [(16, 5), (3, 2), (40, 4)])
def test_short_tables_on_the_card_have_the_labels_of_the_host(
    n_classes: int, n_groups: int, epsilon: float
) -> None:
    y, groups = soft_rows(4000, n_classes, n_groups)
    weight = 10.0 ** np.random.default_rng(1).uniform(-3, 3, 4000)
    host = r2b.debias(y, sensitive_features=groups, sample_weight=weight, epsilon=epsilon)
    there, cells, own = (torch.from_numpy(each).cuda() for each in (y, groups, weight))
    runs = [
        r2b.engines.torch.debias(
            there, sensitive_features=cells, sample_weight=own, epsilon=epsilon
        )
        for _ in range(2)
    ]
    assert runs[0].status.ok
    assert np.abs(runs[0].soft_labels.cpu().numpy() - host.soft_labels).max() <= 1e-8
    assert (runs[0].prices == runs[1].prices).all()


@on_cuda
@pytest.mark.parametrize("epsilon", [0.0, 0.001])
def test_sharp_rows_on_the_card_have_the_prices_of_the_host(epsilon: float) -> None:
    y, groups = soft_rows(6000, 40, 6)
    sharp = y**4 / (y**4).sum(axis=1, keepdims=True)
    weight = 10.0 ** np.random.default_rng(1).uniform(-3, 3, 6000)
    host = r2b.debias(sharp, sensitive_features=groups, sample_weight=weight, epsilon=epsilon)
    there, cells, own = (torch.from_numpy(each).cuda() for each in (sharp, groups, weight))
    fair = r2b.engines.torch.debias(
        there, sensitive_features=cells, sample_weight=own, epsilon=epsilon
    )
    assert fair.status.ok
    assert np.abs(fair.soft_labels.cpu().numpy() - host.soft_labels).max() <= 1e-7


@on_cuda
@pytest.mark.parametrize("kernel", ["triton", "torch"])
def test_prices_on_the_card_are_those_of_the_host(kernel: Any) -> None:
    y, groups = soft_rows(60_000, 60, 3, dtype="float32")
    host = r2b.debias(y, sensitive_features=groups, epsilon=0.01)
    asked = {"sensitive_features": torch.from_numpy(groups).cuda(), "epsilon": 0.01}
    runs = [
        r2b.engines.torch.debias(torch.from_numpy(y).cuda(), **asked, kernel=kernel)
        for _ in range(2)
    ]
    assert runs[0].status.ok
    assert runs[0].certificate.holds
    assert np.abs(runs[0].prices - host.prices).max() <= 1e-5
    assert (runs[0].prices == runs[1].prices).all()
    assert runs[0].soft_labels.is_cuda
    assert np.abs(runs[0].soft_labels.cpu().numpy() - host.soft_labels).max() <= 1e-5


@on_cuda
def test_many_classes_that_all_take_part_are_solved_on_the_card() -> None:
    y, groups = soft_rows(20_000, 300, 3)
    fair = r2b.engines.torch.debias(
        torch.from_numpy(y).cuda(), sensitive_features=torch.from_numpy(groups).cuda(), epsilon=0.0
    )
    assert fair.status.ok
    assert fair.certificate.disparity <= 1e-9


@on_cuda
@pytest.mark.parametrize("pinned", [False, True])
def test_batches_brought_to_the_card_have_the_prices_of_the_whole(pinned: bool) -> None:
    y, groups = soft_rows(30_000, 40, 3, dtype="float32")
    asked = {"sensitive_features": groups, "epsilon": 0.01}
    there = torch.from_numpy(y).pin_memory() if pinned else torch.from_numpy(y)
    cut = r2b.engines.torch.debias(there, **asked, device="cuda", batch_rows=3001)
    whole = r2b.engines.torch.debias(torch.from_numpy(y).cuda(), **asked)
    assert cut.status.ok
    assert np.abs(cut.prices - whole.prices).max() <= 1e-9
    assert cut.soft_labels.device.type == "cpu"
    assert torch.allclose(cut.soft_labels, whole.soft_labels.cpu(), atol=1e-8, rtol=0)


@on_cuda
def test_outputs_stay_on_the_card() -> None:
    y, groups = soft_rows(2000, 4, 2)
    fair = r2b.engines.torch.debias(
        torch.from_numpy(y).cuda(), sensitive_features=torch.from_numpy(groups).cuda(), epsilon=0.01
    )
    given = [fair.soft_labels, fair.sample(0), fair.round(0), *fair.expand()]
    assert all(each.is_cuda for each in given)
    classes = r2b.engines.torch.debias(
        fair.round(0), sensitive_features=torch.from_numpy(groups).cuda(), epsilon=0.0
    )
    assert classes.soft_labels.is_cuda


@on_cuda
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("form", ["round", "sample"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", ["classes", "float64", "float32"])
def test_whole_labels_on_the_card_are_those_in_memory_bit_for_bit(
    kind: str, weighted: bool, form: str, key: str
) -> None:
    assert whole_labels_differ(kind, weighted, form, key, "cuda:0") == []


@on_cuda
@pytest.mark.parametrize("library", ["cupy", "jax.numpy"])
def test_arrays_of_other_libraries_come_back_as_they_came(library: str) -> None:
    arrays = pytest.importorskip(library)
    y, groups = soft_rows(500, 4, 2, dtype="float32")
    there = arrays.asarray(y)
    fair = r2b.engines.torch.debias(
        there, sensitive_features=arrays.asarray(groups.astype(np.int32)), epsilon=0.01
    )
    host = r2b.debias(y, sensitive_features=groups, epsilon=0.01)
    soft = fair.soft(np.float32)
    assert type(soft) is type(there)
    assert (
        np.abs(np.asarray(soft.get() if hasattr(soft, "get") else soft) - host.soft_labels).max()
        <= 1e-5
    )


@on_cuda
def test_arguments_of_two_devices_are_brought_together_or_refused() -> None:
    y, groups = soft_rows(500, 4, 2)
    fair = r2b.engines.torch.debias(
        torch.from_numpy(y).cuda(), sensitive_features=torch.from_numpy(groups), epsilon=0.01
    )
    assert fair.soft_labels.is_cuda


@on_cuda
def test_a_card_that_is_full_is_named_with_the_way_out() -> None:
    with (
        pytest.raises(InputError, match=r"do not fit on cuda:0: CUDA out of memory.*in batches"),
        memory_explained(torch.device("cuda:0")),
    ):
        torch.empty(1 << 46, device="cuda:0")


@on_cuda
def test_rows_that_begin_anywhere_are_read_right() -> None:
    y, groups = soft_rows(500, 12, 3, dtype="float32")
    asked = {"sensitive_features": torch.from_numpy(groups).cuda(), "epsilon": 0.01}
    expected = r2b.engines.torch.debias(torch.from_numpy(y).cuda(), **asked).prices
    for offset, width in ((1, 17), (0, 16), (3, 15), (4, 20)):
        wide = torch.full((501, width), torch.nan, device="cuda")
        there = wide[1:, offset : offset + 12]
        there.copy_(torch.from_numpy(y))
        assert np.abs(r2b.engines.torch.debias(there, **asked).prices - expected).max() <= 1e-12


@on_cuda
@pytest.mark.parametrize("kernel", ["triton", "torch"])
def test_new_rows_that_lie_column_by_column_get_the_labels_of_their_copies(kernel: Any) -> None:
    y, groups = soft_rows(500, 12, 3)
    there, cells = torch.from_numpy(y).cuda(), torch.from_numpy(groups).cuda()
    fair = r2b.engines.torch.debias(there, sensitive_features=cells, epsilon=0.01, kernel=kernel)
    turned = there.T.contiguous().T
    assert turned.stride(1) != 1
    assert (
        fair.transform(turned, sensitive_features=cells) - fair.soft_labels
    ).abs().max() <= 1e-12
