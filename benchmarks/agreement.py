"""Agreement with probabilities on drawn cases: `debias` against HiGHS on the whole linear programme, and against plain reads of the scores.

    python benchmarks/agreement.py --seed 0 --cases 40                  # sizes, sharpness, ties,
    groups and epsilon as they are drawn python benchmarks/agreement.py --rows 5000 --classes 16
    --highs     # seconds against HiGHS, and the difference of the optima python
    benchmarks/agreement.py --rows 1000000 --classes 16          # against the time of reading the
    scores once

Scores are drawn from Dirichlet(0.1), Dirichlet(1) or the softmax of normals, with factors of each
group, and may be rounded to two decimals, as those of trees tie. Rows have 2 to 20 groups, or
memberships (soft or of 0 and 1), and may have weights over four decades. Times are process CPU time
on one thread, or by the wall on all where asked; every case must be solved, and its certificate
hold.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import r2b

SCORES = ("sharp", "flat", "softmax")
GROUPS = ("groups", "groups", "soft membership", "hard membership")


@dataclass(frozen=True)
class Case:
    """One drawn table."""

    name: str
    scores: np.ndarray
    part: np.ndarray
    sensitive: Any
    weight: np.ndarray | None
    epsilon: float


def drawn(
    seed: int,
    n_rows: int | None,
    n_classes: int | None,
    n_groups: int | None,
    kind: str | None = None,
) -> Case:
    """Draw a case; what is given is not drawn."""
    rng = np.random.default_rng([seed, 7])
    kind_, member = rng.choice(SCORES), rng.choice(GROUPS)
    sizes = (
        int(10 ** rng.uniform(2, 4.3)),
        int(rng.choice([2, 3, 5, 8, 16, 30, 90])),
        int(rng.choice([2, 2, 3, 4, 8, 20])),
    )
    n, n_labels, n_parts = (
        drawn if given is None else given
        for drawn, given in zip(sizes, (n_rows, n_classes, n_groups), strict=True)
    )
    kind, ties, weighted, epsilon = (
        kind or kind_,
        rng.random() < 0.3,
        rng.random() < 0.3,
        float(rng.choice([0.0, 0.01, 0.1])),
    )
    group = np.append(np.arange(n_parts), rng.integers(0, n_parts, n - n_parts))
    if kind == "softmax":
        scores = np.exp(2.0 * rng.normal(size=(n, n_labels)))
    else:
        scores = rng.gamma(0.1 if kind == "sharp" else 1.0, size=(n, n_labels)) + 1e-12
    scores *= np.exp(0.5 * rng.normal(size=(n_parts, n_labels)))[group]
    scores /= scores.sum(axis=1, keepdims=True)
    if ties:
        scores = np.round(scores, 2) + 1e-4
        scores /= scores.sum(axis=1, keepdims=True)
    part, sensitive = np.eye(n_parts)[group], group
    if member != "groups":
        part = (
            0.4 * part + 0.6 * rng.dirichlet(np.ones(n_parts), n)
            if member == "soft membership"
            else part
        )
        sensitive = r2b.Membership(part)
    weight = 10 ** rng.uniform(-2, 2, n) if weighted else None
    name = f"{kind}{', ties' if ties else ''}{', weights' if weighted else ''}, {n} x {n_labels}, {n_parts} {member}, epsilon {epsilon}"
    return Case(name, scores, part, sensitive, weight, epsilon)


def by_highs(case: Case) -> float:
    """Give the optimum of the whole linear programme."""
    from scipy import sparse
    from scipy.optimize import linprog

    n, n_classes = case.scores.shape
    weight = np.ones(n) if case.weight is None else case.weight
    mass = case.part * weight[:, None]
    means = sparse.kron(
        sparse.csr_array((mass / mass.sum(axis=0)).T), sparse.eye_array(n_classes), format="csr"
    )
    level = sparse.kron(np.ones((case.part.shape[1], 1)), sparse.eye_array(n_classes))
    rows = sparse.hstack(
        [
            sparse.kron(sparse.eye_array(n), np.ones((1, n_classes))),
            sparse.csr_array((n, n_classes)),
        ]
    )
    found = linprog(
        np.append(-(weight[:, None] * case.scores).ravel() / weight.sum(), np.zeros(n_classes)),
        A_ub=sparse.vstack([sparse.hstack([means, -level]), sparse.hstack([-means, level])]),
        b_ub=np.full(2 * means.shape[0], case.epsilon / 2),
        A_eq=rows,
        b_eq=np.ones(n),
        bounds=[(0, None)] * (n * n_classes) + [(None, None)] * n_classes,
        method="highs",
    )
    return float(found.fun)


def report(
    case: Case, seed: int, highs: bool, threads: int | None, clock: Callable[[], float]
) -> tuple[float, float, float, bool]:
    """Solve one case, print a line; give seconds, the ratio to the other, the difference of the optima and whether it is certified."""
    begun = clock()
    fair = r2b.debias(
        case.scores,
        sensitive_features=case.sensitive,
        sample_weight=case.weight,
        epsilon=case.epsilon,
        objective="agreement",
        threads=threads,
    )
    ours, proof = clock() - begun, fair.certificate
    begun = clock()
    optimum = by_highs(case) if highs else float(case.scores.sum())
    other = clock() - begun
    apart = abs(optimum / proof.objective - 1.0) if highs else 0.0
    note = (
        f"HiGHS {other:7.2f} s, optima {apart:.0e} apart" if highs else f"{ours / other:7.1f} reads"
    )
    split = f"lam {fair.splits.lam:.0e}" if fair.splits is not None else ""
    what = f"{fair.status.value}, gap {proof.relative_gap:8.1e}, above epsilon {proof.excess:.0e}, {len(fair.history):4d} steps, {split}"
    print(f"seed {seed:4d} {case.name:70} {ours:7.3f} s {what}; {note}", flush=True)
    return ours, ours / other, apart, fair.status.ok


def main() -> None:
    """Draw cases, solve them, print the median and the worst."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first case; the others follow")
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--classes", type=int)
    parser.add_argument("--groups", type=int)
    parser.add_argument("--scores", choices=SCORES)
    parser.add_argument(
        "--highs",
        action="store_true",
        help="compare with HiGHS on the whole linear programme instead of a plain read",
    )
    parser.add_argument("--wall", action="store_true", help="time by the wall, on all cores")
    options = parser.parse_args()
    clock, threads = (time.perf_counter, None) if options.wall else (time.process_time, 1)
    found = []
    for seed in range(options.seed, options.seed + options.cases):
        case = drawn(seed, options.rows, options.classes, options.groups, options.scores)
        found.append(report(case, seed, options.highs, threads, clock))
    seconds, ratio, apart, ok = map(np.array, zip(*found, strict=True))
    what = "HiGHS" if options.highs else "a plain read"
    print(
        f"{ok.sum()} of {len(ok)} solved; seconds: median {np.median(seconds):.3f}, worst {seconds.max():.3f};",
        end=" ",
    )
    print(
        f"ratio to {what}: median {np.median(ratio):.3g}, best {ratio.min():.3g}, worst {ratio.max():.3g}",
        end="",
    )
    print(f"; optima apart: at most {apart.max():.0e}" if options.highs else "")


if __name__ == "__main__":
    main()
