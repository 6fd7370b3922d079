"""Measure coverage and width of `parity_promise` on populations drawn at random.

It is compared with Hoeffding, Clopper and Pearson, and a naive bootstrap.

    python benchmarks/promise.py    # 10 populations of seed 0, 1,000 tables of each: 2 minutes
    python benchmarks/promise.py --seed 7 --cases 4 --draws 200 --times 10    # more rows

A population has 2 to 4 groups of 8 to 600 rows and 2 to 6 classes. Predictions are classes, also
such as are nearly always the same ("seldom"), or probabilities that are spread, narrow, or alike
but for rare rows of one group ("rare"). From each drawn table every method bounds the parity of the
population, which is known; coverage is how often it does, width the mean of bound - measured
parity. All but Clopper and Pearson take the largest of one bound per difference; theirs has
Bonferroni's level for each mean. The bootstrap is the quantile of the parity over 200 resamples of
the rows of each group. It is expected to fail where groups are small or probabilities skewed; the
others must not.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from math import log

import numpy as np

from r2b.metrics import parity_promise
from r2b.metrics.binomial import clopper_pearson

METHODS = ("promise", "hoeffding", "clopper-pearson", "bootstrap")
RESAMPLES = 200


@dataclass(frozen=True)
class Population:
    """What a table is drawn from: of each group its rows, and a mixture of two kinds of rows."""

    kind: str
    sizes: np.ndarray
    means: np.ndarray  # groups x 2 kinds x classes
    rare: np.ndarray  # share of the second kind in each group
    spread: float  # concentration of the Dirichlet law of probabilities; 0 for classes

    @property
    def parity(self) -> float:
        mean = self.means[:, 0] * (1 - self.rare)[:, None] + self.means[:, 1] * self.rare[:, None]
        return float((mean.max(axis=0) - mean.min(axis=0)).max())

    def table(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows: probabilities, or ones and zeros for classes, and groups."""
        groups = np.repeat(np.arange(len(self.sizes)), self.sizes)
        base = self.means[groups, (rng.random(len(groups)) < self.rare[groups]).astype(int)]
        if self.spread:
            drawn = rng.standard_gamma(base * self.spread + 1e-12) + 1e-300
            return drawn / drawn.sum(axis=1, keepdims=True), groups
        codes = (
            (base.cumsum(axis=1) < rng.random((len(groups), 1)))
            .sum(axis=1)
            .clip(max=base.shape[1] - 1)
        )
        return np.eye(base.shape[1])[codes], groups


def population(rng: np.random.Generator) -> Population:
    """Draw one; groups are uneven, the first is small."""
    kind = str(rng.choice(["classes", "seldom", "spread", "narrow", "rare"]))
    n_groups, n_classes = int(rng.choice([2, 2, 3, 4])), int(rng.choice([2, 2, 3, 6]))
    sizes = np.concatenate(
        [
            rng.integers(8, 40, 1),
            np.geomspace(20, 600, 64)[rng.integers(0, 64, n_groups - 1)].astype(int),
        ]
    )
    shared, apart, rare = (
        rng.dirichlet(np.full(n_classes, 2.0)),
        rng.choice([0.05, 0.2, 0.5]),
        np.zeros(n_groups),
    )
    if kind in ("seldom", "rare"):  # all groups alike, but for a few rows of the first one
        apart, shared = 0.0, shared if kind == "rare" else np.eye(n_classes)[0]
        rare[0] = rng.uniform(0.01, 0.08)
    means = (1 - apart) * shared + apart * rng.dirichlet(
        np.ones(n_classes), size=(n_groups, 1)
    ).repeat(2, axis=1)
    means[rare > 0, 1] = np.eye(n_classes)[1] * 0.98 + 0.02 / n_classes
    return Population(
        kind, sizes, means, rare, {"spread": 1.5, "narrow": 60.0, "rare": 200.0}.get(kind, 0.0)
    )


def group_means(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return (
        np.add.reduceat(values, np.concatenate([[0], np.cumsum(sizes)[:-1]]), axis=0)
        / sizes[:, None]
    )


def parity(means: np.ndarray) -> float:
    return float((means.max(axis=-2) - means.min(axis=-2)).max())


def hoeffding(means: np.ndarray, sizes: np.ndarray, alpha: float) -> float:
    reach = np.sqrt(log(1 / alpha) / 2 * (1 / sizes[:, None] + 1 / sizes[None, :]))
    apart = (means[:, None] - means[None, :]).max(axis=2) + reach
    return min(1.0, float(apart[~np.eye(len(sizes), dtype=bool)].max()))


def exact_shares(means: np.ndarray, sizes: np.ndarray, alpha: float) -> float:
    columns = 1 if means.shape[1] == 2 else means.shape[1]
    low, high = clopper_pearson(
        means,
        np.broadcast_to(sizes[:, None], means.shape).astype(float),
        alpha / (2 * columns * len(sizes)),
    )
    return float((high.max(axis=0) - low.min(axis=0)).max())


def bootstrap(
    values: np.ndarray, sizes: np.ndarray, alpha: float, rng: np.random.Generator
) -> float:
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    means = [
        values[rng.integers(0, n, (RESAMPLES, n)) + start].mean(axis=1)
        for n, start in zip(sizes, starts, strict=True)
    ]
    drawn = np.stack(means, axis=1)
    return float(np.quantile((drawn.max(axis=1) - drawn.min(axis=1)).max(axis=1), 1 - alpha))


def measured(
    case: Population, draws: int, confidence: float, rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """Coverage and width of every method."""
    alpha, truth = 1 - confidence, case.parity
    bounds: dict[str, list[float]] = {name: [] for name in METHODS}
    found = []
    for _ in range(draws):
        values, groups = case.table(rng)
        means = group_means(values, case.sizes)
        predicted = values if case.spread else values.argmax(axis=1)
        bounds["promise"].append(
            parity_promise(predicted, sensitive_features=groups, confidence=confidence).bound
        )
        bounds["hoeffding"].append(hoeffding(means, case.sizes, alpha))
        bounds["clopper-pearson"].append(
            np.nan if case.spread else exact_shares(means, case.sizes, alpha)
        )
        bounds["bootstrap"].append(bootstrap(values, case.sizes, alpha, rng))
        found.append(parity(means))
    return {
        name: (float(np.mean(np.array(each) >= truth)), float(np.mean(each) - np.mean(found)))
        for name, each in bounds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--confidence", type=float, default=0.95)
    options = parser.parse_args()
    print(
        "| rows | classes | group sizes | parity | "
        + " | ".join(f"{name}: coverage, width" for name in METHODS)
        + " |"
    )
    print("| --- " * (4 + len(METHODS)) + "|")
    for number in range(options.cases):
        rng = np.random.default_rng([options.seed, number])
        case = population(rng)
        case = replace(case, sizes=options.times * case.sizes)
        results = measured(case, options.draws, options.confidence, rng)
        cells = [
            "" if np.isnan(width) else f"{100 * share:.1f} %, {width:.3f}"
            for share, width in results.values()
        ]
        sizes = " ".join(map(str, case.sizes))
        print(
            f"| {case.kind} | {case.means.shape[2]} | {sizes} | {case.parity:.3f} | "
            + " | ".join(cells)
            + " |",
            flush=True,
        )


if __name__ == "__main__":
    main()
