"""Tables nobody chose: what the benchmarks draw, from a seed. Device and host draw from the same distribution, in sizes of their own.

Classes are log-uniform from 4 to 1,000 and entries too, from 1 to 20 million (on a device from 20
million to a billion), which makes the rows, 1,000 at least; groups are log-uniform from 2 to 20.
Rows are softmax draws of a normal times a sharpness, log-uniform from .3 to 10: from all but
uniform to all but sure of a class. Logits differ by group with standard deviation .5, and classes
are even half of the time, else the k-th is as common as 1 / k. Epsilon is 0 one time in five, else
log-uniform from 1e-4 to .1; lambda is 1 half of the time, else log-uniform from .2 to 5; numbers
are float32 half of the time, on a device always.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

HOST_ENTRIES = (1_000_000, 20_000_000)
DEVICE_ENTRIES = (20_000_000, 1_000_000_000)


@dataclass(frozen=True)
class Spec:
    """One table and what is asked of it."""

    rows: int
    n_classes: int
    n_groups: int
    sharp: float
    zipf: float
    dtype: str
    epsilon: float
    lam: float
    seed: int

    def __str__(self) -> str:
        size = f"{self.rows:,} x {self.n_classes} {self.dtype}, {self.n_groups} groups"
        return f"{size}, sharp {self.sharp:.2g}, eps {self.epsilon:.2g}, lam {self.lam:.2g}"

    def to_json(self) -> dict[str, Any]:
        """Give the draw as plain values."""
        return asdict(self)


def specs(seed: int, count: int, entries: tuple[int, int]) -> list[Spec]:
    """Draw ``count`` tables; the first ones are the same for any count."""
    return [
        _spec(np.random.default_rng([seed, number]), 1000 * seed + number, entries)
        for number in range(count)
    ]


def _spec(rng: np.random.Generator, seed: int, entries: tuple[int, int]) -> Spec:
    n_classes = round(_log_uniform(rng, 4, 1000))
    return Spec(
        rows=max(1000, round(_log_uniform(rng, *entries) / n_classes)),
        n_classes=n_classes,
        n_groups=round(_log_uniform(rng, 2, 20)),
        sharp=_log_uniform(rng, 0.3, 10.0),
        zipf=float(rng.integers(2)),
        dtype=("float32", "float64")[rng.integers(2)],
        epsilon=0.0 if rng.random() < 0.2 else _log_uniform(rng, 1e-4, 0.1),
        lam=1.0 if rng.random() < 0.5 else _log_uniform(rng, 0.2, 5.0),
        seed=seed,
    )


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def build(spec: Spec) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Make the probabilities and the groups of a draw, a block of rows at a time."""
    rng = np.random.default_rng(spec.seed)
    groups = rng.integers(0, spec.n_groups, spec.rows)
    shift = 0.5 * rng.standard_normal((spec.n_groups, spec.n_classes)) - spec.zipf * np.log(
        np.arange(1, spec.n_classes + 1)
    )
    y = np.empty((spec.rows, spec.n_classes), spec.dtype)
    size = max(1, 1_000_000 // spec.n_classes)
    for start in range(0, spec.rows, size):
        mine = groups[start : start + size]
        logits = spec.sharp * rng.standard_normal((len(mine), spec.n_classes)) + shift[mine]
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        y[start : start + size] = logits
    return y, groups


def summary(ratios: Sequence[float]) -> dict[str, float]:
    """Give the median and the worst of some ratios.

    >>> summary([4.0, 2.0, 9.0])
    {'median': 4.0, 'worst': 9.0}
    """
    return {"median": statistics.median(ratios), "worst": max(ratios)}
