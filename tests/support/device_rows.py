"""Rows for the tests of labels on a device: soft labels with group differences, and the two oracles that must agree about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import r2b
from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.oracle import MemoryOracle
from r2b.engines.torch import debias
from r2b.engines.torch.oracle import DeviceKernel, DeviceOracle, LabelBatches
from r2b.engines.torch.rows import DeviceRows

Array = np.ndarray[Any, np.dtype[Any]]


def soft_rows(
    n_rows: int, n_classes: int, n_groups: int, *, dtype: str = "float64", seed: int = 0
) -> tuple[Array, NDArray[np.int64]]:
    """Give probabilities whose group means differ, and groups; every group occurs."""
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n_rows - n_groups)])
    scores = (
        1.5 * rng.standard_normal((n_rows, n_classes))
        + rng.standard_normal((n_groups, n_classes))[groups]
    )
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (odds / odds.sum(axis=1, keepdims=True)).astype(dtype), groups


def two_oracles(
    y: Array,
    groups: Array,
    weight: Array | None = None,
    *,
    kernel: DeviceKernel = "auto",
    device: str = "cpu",
) -> tuple[MemoryOracle, DeviceOracle]:
    """Give the same rows to the oracle of the host and to that of a device."""
    rows = merge(read(y, sensitive_features=groups, sample_weight=weight), "never")
    own = None if weight is None else torch.from_numpy(weight).to(device)
    held = DeviceRows(
        torch.from_numpy(groups).to(device),
        rows.n_cells,
        np.bincount(groups, minlength=rows.n_cells),
        own,
    )
    return MemoryOracle(rows, "numpy", 1), DeviceOracle(
        LabelBatches(torch.from_numpy(y).to(device), held), rows.group_weight, kernel
    )


def disagreement(
    host: MemoryOracle, device: DeviceOracle, prices: Array, lam: float
) -> dict[str, float]:
    """Say by how much two oracles differ in anything that may be asked of them."""
    one, other = (oracle.evaluate(prices, lam, curvature=True) for oracle in (host, device))
    found = {
        "label means": _apart(host.label_means(), device.label_means()),
        "value": abs(one.value - other.value),
    }
    found |= {
        "means": _apart(one.means, other.means),
        "curvature": _apart(one.curvature, other.curvature),
    }
    design = np.random.default_rng(0).random((len(prices), 2))
    found["fold"] = _apart(host.fold(prices, lam, design), device.fold(prices, lam, design))
    for unchanged in (False, True):
        seen, there = (
            vars(oracle.inspect(prices, lam, unchanged=unchanged)) for oracle in (host, device)
        )
        found |= {f"{name}, {unchanged=}": _apart(seen[name], there[name]) for name in seen}
    return found


KEYS: dict[str, Callable[[torch.Tensor], Any]] = {
    "none": lambda cells: None,
    "array": lambda cells: 7 * np.arange(len(cells))[::-1],
    "tensor": lambda cells: 7 * torch.arange(len(cells), device=cells.device).flip(0),
    "two tensors": lambda cells: [cells, torch.arange(len(cells), device=cells.device)],
    "text": lambda cells: [f"row {number}" for number in range(len(cells))],
}


def whole_labels_differ(
    kind: str, weighted: bool, form: str, key: str, device: str, batch_rows: int | None = None
) -> list[str]:
    """Say where labels of one class per row differ from those of the same rows in memory, and of the host's own solve."""
    soft, groups = soft_rows(700, 4, 3, dtype="float32" if kind == "float32" else "float64")
    y = np.random.default_rng(3).integers(0, 4, 700) % (2 + groups) if kind == "classes" else soft
    weight = np.random.default_rng(1).random(700) + 0.1 if weighted else None
    host = r2b.debias(y, sensitive_features=groups, sample_weight=weight, epsilon=0.02)
    there = torch.from_numpy(y) if batch_rows else torch.from_numpy(y).to(device)
    cells, own = (
        torch.from_numpy(groups).to(device),
        None if weight is None else torch.from_numpy(weight).to(device),
    )
    fair = debias(
        there,
        sensitive_features=cells,
        sample_weight=own,
        epsilon=0.02,
        device=device,
        batch_rows=batch_rows,
    )
    found, named = [], KEYS[key](cells)
    for seed in (0, 7):
        given, expected = (
            getattr(fair, form)(seed, key=named),
            getattr(fair.in_memory(), form)(seed, key=_host(named)),
        )
        if given.device != cells.device or given.dtype != torch.from_numpy(expected).dtype:
            found.append(f"{given.dtype} on {given.device}")
        found += [] if np.array_equal(given.cpu().numpy(), expected) else [f"in memory, {seed=}"]
        found += (
            []
            if np.array_equal(expected, getattr(host, form)(seed, key=_host(named)))
            else [f"host, {seed=}"]
        )
    return found


def _host(key: Any) -> Any:
    if isinstance(key, list):
        return [_host(each) for each in key]
    return key.cpu().numpy() if isinstance(key, torch.Tensor) else key


def _apart(one: Any, other: Any) -> float:
    return float(np.abs(np.asarray(one) - np.asarray(other)).max())
