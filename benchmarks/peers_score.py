"""The scores of every method. Needs NumPy alone, so that any interpreter can run it."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 1 << 16
ENOUGH = 1e-6  # what counts as the same accuracy: parity, simplex and relative distance


class Table:
    """Labels (codes or probabilities) and group codes of one case, as its folder has them."""

    def __init__(self, folder: str) -> None:
        self.labels: Any = np.load(Path(folder) / "labels.npy")
        self.groups: Any = np.load(Path(folder) / "groups.npy")
        sizes = np.load(Path(folder) / "sizes.npy")
        self.n_classes, self.n_groups = int(sizes[0]), int(sizes[1])

    @property
    def soft(self) -> bool:
        """Whether the labels are probabilities."""
        return bool(self.labels.ndim == 2)

    @property
    def joint(self) -> Any:
        """Group and class of each row as one code; class labels only."""
        return self.groups * self.n_classes + self.labels

    def matrix(self, part: slice = slice(None)) -> Any:
        """Return rows as probabilities."""
        return self.labels[part] if self.soft else np.eye(self.n_classes)[self.labels[part]]


def scored(answer: Callable[[slice], Any], table: Table, epsilon: float) -> dict[str, float]:
    """Measure new labels against the old ones.

    Parameters
    ----------
    answer : callable
        Returns the new labels of some rows, as probabilities.
    table : Table
    epsilon : float

    Returns
    -------
    dict
        The largest difference between group means, what of it is above epsilon, how far rows are
        off the simplex, and the mean squared distance to the old labels.
    """
    sums, sizes = (
        np.zeros((table.n_groups, table.n_classes)),
        np.bincount(table.groups, minlength=table.n_groups),
    )
    violation, distance = 0.0, 0.0
    for start in range(0, len(table.groups), BLOCK):
        part = slice(start, start + BLOCK)
        x, mine = np.asarray(answer(part), dtype=np.float64), table.groups[part]
        for group in range(table.n_groups):
            sums[group] += x[mine == group].sum(axis=0)
        violation = max(violation, float(-x.min()), float(np.abs(x.sum(axis=1) - 1.0).max()))
        distance += float(((x - table.matrix(part)) ** 2).sum())
    disparity = float(np.ptp(sums / sizes[:, None], axis=0).max())
    return {
        "disparity": disparity,
        "excess": max(0.0, disparity - epsilon),
        "simplex": violation,
        "distance": distance / len(table.groups),
    }


def accurate(scores: dict[str, float], optimum: float) -> bool:
    """Tell whether disparity, simplex and relative distance are right to 1e-6."""
    return (
        max(scores["excess"], scores["simplex"], abs(scores["distance"] / optimum - 1.0)) <= ENOUGH
    )


def peak_of(call: Callable[[], Any]) -> tuple[Any, float | None]:
    """Call once; return the result and the rise of peak resident memory in bytes.

    The rise is None where the system does not report it.
    """
    gc.collect()
    before = _status("VmRSS")
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        before = None
    result = call()
    after = _status("VmHWM")
    return result, None if before is None or after is None else float(max(0, after - before))


def _status(name: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)


def fastest(call: Callable[[], Any], *, seconds: float = 1.0, repeats: int = 9) -> float:
    """Return the least seconds of several calls; after ``seconds`` no new one begins."""
    best, begun = float("inf"), time.perf_counter()
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() - begun > seconds:
            break
    return best


def scaled_seconds(
    one_class: Callable[[int], object], n_classes: int, rounds: int, patience: float
) -> tuple[float, int]:
    """Time the binary solves class by class; scale the least time to all classes and rounds.

    Every class takes the same steps over the same rows in every round, so the least time of any of
    them stands for all: a busy machine must not make a rival look slow.

    Returns
    -------
    tuple
        Seconds of a whole run, and how many of its binary solves were timed.
    """
    best, begun, done = float("inf"), time.perf_counter(), 0
    for k in range(n_classes):
        start = time.perf_counter()
        one_class(k)
        best, done = min(best, time.perf_counter() - start), done + 1
        if time.perf_counter() - begun > patience:
            break
    return best * n_classes * rounds, done


def limit_memory(most: float | None) -> None:
    """Let this process take no more address space than this."""
    if most is not None:
        resource.setrlimit(resource.RLIMIT_AS, (int(most), int(most)))
