"""Rows for the tests of labels on a device: soft labels with group differences, and the two oracles that must agree about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.oracle import MemoryOracle
from r2b.engines.torch.oracle import DeviceOracle, KernelChoice, LabelBatches
from r2b.engines.torch.rows import DeviceRows

Array = np.ndarray[Any, np.dtype[Any]]


def soft_rows(n_rows: int, n_classes: int, n_groups: int, *, dtype: str = "float64", seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
    """Give probabilities whose group means differ, and groups; every group occurs."""
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n_rows - n_groups)])
    scores = 1.5 * rng.standard_normal((n_rows, n_classes)) + rng.standard_normal((n_groups, n_classes))[groups]
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (odds / odds.sum(axis=1, keepdims=True)).astype(dtype), groups


def two_oracles(
    y: Array, groups: Array, weight: Array | None = None, *, kernel: KernelChoice = "auto", device: str = "cpu"
) -> tuple[MemoryOracle, DeviceOracle]:
    """Give the same rows to the oracle of the host and to that of a device."""
    rows = merge(read(y, sensitive_features=groups, sample_weight=weight), "never")
    own = None if weight is None else torch.from_numpy(weight).to(device)
    held = DeviceRows(torch.from_numpy(groups).to(device), rows.n_groups, np.bincount(groups, minlength=rows.n_groups), own)
    return MemoryOracle(rows, "numpy", 1), DeviceOracle(LabelBatches(torch.from_numpy(y).to(device), held), rows.group_weight, kernel)


def disagreement(host: MemoryOracle, device: DeviceOracle, prices: Array, lam: float) -> dict[str, float]:
    """Say by how much two oracles differ in anything that may be asked of them."""
    one, other = (oracle.evaluate(prices, lam, curvature=True) for oracle in (host, device))
    found = {"label means": _apart(host.label_means(), device.label_means()), "value": abs(one.value - other.value)}
    found |= {"means": _apart(one.means, other.means), "curvature": _apart(one.curvature, other.curvature)}
    design = np.random.default_rng(0).random((len(prices), 2))
    found["fold"] = _apart(host.fold(prices, lam, design), device.fold(prices, lam, design))
    for unchanged in (False, True):
        seen, there = (vars(oracle.inspect(prices, lam, unchanged=unchanged)) for oracle in (host, device))
        found |= {f"{name}, {unchanged=}": _apart(seen[name], there[name]) for name in seen}
    return found


def _apart(one: Any, other: Any) -> float:
    return float(np.abs(np.asarray(one) - np.asarray(other)).max())
