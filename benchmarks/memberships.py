"""Uncertain groups on drawn cases: `debias` against L-BFGS on the same dual, and against plain reads of the matrices.

    python benchmarks/memberships.py --seeds 0 1 2              # 34,000 x 16 x 2 against L-BFGS,
    both to 1e-9 python benchmarks/memberships.py --rows 1000000 --reads     # against the time of
    reading labels and memberships once

Each seed draws features, memberships that follow from them (logistic, and sharp: eight times the
scores), labels that follow from them too, lambda 1 and epsilon 0 or 0.001. L-BFGS is SciPy's, on
the dual in double precision: for two groups at epsilon 0 that is smooth in one price per class.
Times are process CPU time on one thread, or by the wall where asked, the least of several; ratios
are within one run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

import r2b

N_CLASSES, N_GROUPS, FEATURES = 16, 2, 4
SHARPNESS = {"logistic": 1.0, "sharp": 8.0}


@dataclass(frozen=True)
class Case:
    """One drawn table."""

    kind: str
    soft: bool
    seed: int
    labels: np.ndarray
    membership: np.ndarray

    @property
    def matrix(self) -> np.ndarray:
        """Labels as a matrix of rows x classes."""
        return self.labels if self.soft else np.eye(N_CLASSES)[self.labels]


def softmax(scores: np.ndarray) -> np.ndarray:
    """Scores to distributions."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def drawn(kind: str, soft: bool, seed: int, n_rows: int) -> Case:
    """Draw features, and from them memberships and labels."""
    rng = np.random.default_rng([seed, n_rows, soft])
    z = rng.normal(size=(n_rows, FEATURES))
    membership = softmax(SHARPNESS[kind] * z @ rng.normal(size=(FEATURES, N_GROUPS)))
    p = softmax(0.7 * z @ rng.normal(size=(FEATURES, N_CLASSES)) + rng.normal(size=N_CLASSES))
    labels = (
        p
        if soft
        else (p.cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1).clip(max=N_CLASSES - 1)
    )
    return Case(kind, soft, seed, labels, membership)


def project(rows: np.ndarray) -> np.ndarray:
    """Closest points of the simplex."""
    falling = -np.sort(-rows, axis=1)
    levels = (np.cumsum(falling, axis=1) - 1.0) / np.arange(1, rows.shape[1] + 1)
    size = (falling > levels).sum(axis=1)
    return np.maximum(rows - levels[np.arange(len(rows)), size - 1][:, None], 0.0)


def by_lbfgs(case: Case) -> tuple[float, float]:
    """Solve the dual at epsilon 0; give the largest difference between group means, and the number of evaluations."""
    y, share = case.matrix, case.membership.mean(axis=0)
    # Prices of the two groups balance, so that one vector tells both; rows are shifted by what
    # their memberships make of it.
    direction = case.membership @ np.array([1.0 / share[0], -1.0 / share[1]])

    def dual(t: np.ndarray) -> tuple[float, np.ndarray]:
        v = y - direction[:, None] * t
        x = project(v)
        value = np.einsum("ik,ik->", x, 0.5 * x - v) / len(y)
        return -value, -(direction @ x) / len(y)

    # The gradient is the difference of group means, so this is the accuracy that is asked of both.
    found = minimize(
        dual,
        np.zeros(N_CLASSES),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": 1e-9, "ftol": 0.0, "maxiter": 5000},
    )
    return float(np.abs(found.jac).max()), found.nfev


def timed(call: Callable[[], Any], times: int, clock: Callable[[], float]) -> tuple[float, Any]:
    """Give the least time of some calls and the last answer."""
    least = np.inf
    for _ in range(times):
        begun = clock()
        answer = call()
        least = min(least, clock() - begun)
    return least, answer


def cases(seeds: list[int], n_rows: int, soft: list[bool]) -> Iterator[Case]:
    """Draw every kind of case for every seed."""
    for seed in seeds:
        for kind in SHARPNESS:
            for probabilities in soft:
                yield drawn(kind, probabilities, seed, n_rows)


def report(
    case: Case, against: str, times: int, epsilon: float, threads: int, clock: Callable[[], float]
) -> float:
    """Time one case, print a line and give the ratio of our time to the other's."""
    sensitive = r2b.Membership(case.membership)
    ours, fair = timed(
        lambda: r2b.debias(
            case.labels, sensitive_features=sensitive, epsilon=epsilon, threads=threads
        ),
        times,
        clock,
    )
    if against == "reads":
        matrix = case.matrix
        other, _ = timed(lambda: matrix.sum() + case.membership.sum(), 5, clock)
        note = f"{ours / other:6.1f} reads"
    else:
        other, (residual, passes) = timed(lambda: by_lbfgs(case), 1, clock)
        note = f"L-BFGS {other:6.2f} s, {passes} passes to {residual:.0e}: ratio {ours / other:.3f}"
    what = (
        f"{case.kind:>8} {'soft' if case.soft else 'classes':>7} seed {case.seed} epsilon {epsilon}"
    )
    certified = "certified" if fair.certificate.holds else "NOT CERTIFIED"
    print(
        f"{what}: {ours:6.3f} s, {len(fair.history)} steps, {fair.status.value}, {certified}; {note}",
        flush=True,
    )
    return ours / other


def main() -> None:
    """Draw cases, time them, print the median and the worst ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--rows", type=int, default=34_000)
    parser.add_argument(
        "--reads",
        action="store_true",
        help="compare with plain reads of the matrices instead of L-BFGS",
    )
    parser.add_argument("--soft", choices=["both", "yes", "no"], default="both")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--wall",
        action="store_true",
        help="time by the wall, for a machine that does nothing else, not by the processor",
    )
    parser.add_argument(
        "--epsilon", type=float, default=0.0, help="for --reads; L-BFGS solves epsilon 0 alone"
    )
    options = parser.parse_args()
    soft = {"both": [False, True], "yes": [True], "no": [False]}[options.soft]
    against = "reads" if options.reads else "L-BFGS"
    epsilon = options.epsilon if options.reads else 0.0
    clock = time.perf_counter if options.wall else time.process_time
    every = cases(options.seeds, options.rows, soft)
    ratios = [
        report(case, against, options.times, epsilon, options.threads, clock) for case in every
    ]
    print(
        f"{len(ratios)} cases of {options.rows:,} x {N_CLASSES} x {N_GROUPS} against {against}:",
        end=" ",
    )
    print(f"median {np.median(ratios):.3f}, worst {max(ratios):.3f}")


if __name__ == "__main__":
    main()
