"""What normalising does to labels that were debiased class by class: disparity before and after, and the bound of appendix A.2.

Appendix A.2 argues that normalising does little harm where debiasing class by class acts like a
random perturbation E of the labels: with H = Y + E, the additive normalisation moves no class mean
of a group by more than ``|1'H1 - n| / n``, which is then below epsilon with probability ``1 - sum_s
2 exp(-epsilon^2 n_s / (2 L^2))``. Nothing is trained here.
"""

from __future__ import annotations

from functools import lru_cache
from math import log, sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from experiments.adult import split_of
from experiments.experiment import Configuration, Experiment, Row
from experiments.learners import nearest, vote
from experiments.normalising_page import section
from experiments.synthetic import CLASSES, N_GROUPS, PER_CLASS, biased_groups, sample_of
from experiments.theory_figures import normalising
from r2b.methods import HTO, OST, R2B0
from r2b.methods.binary import answer, divided_by_sums
from r2b.methods.ost import transform_scores

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

METHODS: Final = {"OST": OST, "HTO": HTO, "R2B0": R2B0}
DRAWS: Final = 20
DELTA: Final = 0.05
TABLES: Final = 100
"""Of the kind "drawn", per seed."""
STRONG: Final = 0.9


def separately(method: str, labels: Any, groups: Codes, rows: Floats, of: Codes) -> Floats:
    """Debias every class by itself and do not normalise: H of label rows ``rows`` of groups ``of``.

    Examples
    --------
    >>> y, s = np.array([0, 1, 0, 0]), np.array([0, 0, 1, 1])
    >>> separately("HTO", y, s, np.eye(2), np.array([0, 0])).round(3)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    fitted: Any = METHODS[method]().fit(labels, sensitive_features=groups)
    if method == "OST":
        return transform_scores(rows, fitted.prices_[of])
    return answer(rows, fitted.thresholds_[of], fitted.gamma)


def _means(rows: Floats, of: Codes, count: Floats) -> Floats:
    """Return the mean of every column in every group."""
    return np.stack(
        [
            np.average(rows[of == s], axis=0, weights=count[of == s])
            for s in range(int(of.max()) + 1)
        ]
    )


def _parity(rows: Floats, of: Codes, count: Floats) -> float:
    return float(np.ptp(_means(rows, of, count), axis=0).max())


@lru_cache(maxsize=1)
def _labels(kind: str, classes: int, per_class: int, seed: int) -> tuple[Any, Codes]:
    """Return labels and groups of a kind: see the page."""
    if kind.startswith("Adult"):
        split = split_of(
            {"order": "education-num", "rows": None, "p": 0.5 if "injected" in kind else 0.0}, seed
        )
        return split.y, split.sex
    if kind == "scores":
        sample = sample_of(classes, 10, per_class, classes, seed)
        return vote(nearest(sample.X, sample.X), sample.y, classes), sample.groups
    rng = np.random.default_rng([seed, classes, per_class])
    y = np.repeat(np.arange(classes), per_class)
    if kind == "labels":
        return y, biased_groups(y, rng)
    said = rng.random(len(y)) < STRONG
    return y, np.where(said, (y == 0).astype(np.int64), rng.integers(N_GROUPS, size=len(y)))


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Measure what one method leaves before and after normalising, and what draws add to it."""
    kind, method = configuration["kind"], configuration["method"]
    y, groups = (
        _worst_of_drawn(method, seed)
        if kind == "drawn"
        else _labels(kind, configuration["classes"], configuration["per_class"], seed)
    )
    rng = np.random.default_rng([seed, 41])
    rows, of, count = _cells(y, groups)
    h = separately(method, y, groups, rows, of)
    n_classes, sizes = rows.shape[1], np.bincount(of, weights=count)
    smallest = sizes.min()
    # A soft row may be below the threshold of every class; it gets the overall means, as in HTO.
    divided = divided_by_sums(h, np.average(rows, axis=0, weights=count))
    shifted = h - (h.sum(axis=1, keepdims=True) - 1.0) / n_classes
    excess = np.abs(_means(h, of, count).sum(axis=1) - 1.0)
    # The inequality of A.2 in every group: the largest change of a class mean against the excess.
    change = (_means(shifted, of, count) - _means(h, of, count)).max(axis=1)
    sampled, drawn = [], []
    for _ in range(DRAWS):
        # Every class drawn by itself, as many rows as the cell has: the perturbation of A.2, whose
        # mean is 0 by construction.
        hits = rng.binomial(count[:, None].astype(np.int64), np.clip(h, 0.0, 1.0)) / count[:, None]
        sampled.append(np.abs(_means(hits - h, of, count).sum(axis=1)).max())
        # One class per row, as learners get it.
        shares = np.stack(
            [rng.multinomial(int(n), p / p.sum()) for n, p in zip(count, divided, strict=True)]
        )
        drawn.append(_parity(shares / count[:, None], of, count))
    root = sqrt(log(2 * n_classes * len(sizes) / DELTA) / (2 * smallest))
    return {
        "data_parity": _parity(rows, of, count),
        "before": _parity(h, of, count),
        "divided": _parity(divided, of, count),
        "shifted": _parity(shifted, of, count),
        "excess": float(excess.max()),
        "change_over_excess": float((change - excess).max()),
        "printed_change_over_excess": float((sizes * change - excess).max()),
        "hoeffding": n_classes * sqrt(2 * log(2 * len(sizes) / DELTA) / smallest),
        "sampled_excess": float(np.quantile(sampled, 1 - DELTA)),
        "drawn": float(np.mean(drawn)),
        "drawn_bound": _parity(divided, of, count) + 2 * root,
    }


def _cells(y: Any, groups: Codes) -> tuple[Floats, Codes, Floats]:
    """Return distinct label rows, their groups, and how many there are of each."""
    if np.ndim(y) == 2:
        return np.asarray(y, dtype=np.float64), groups, np.ones(len(groups))
    n_classes = int(y.max()) + 1
    count = np.bincount(
        groups * n_classes + y, minlength=(int(groups.max()) + 1) * n_classes
    ).astype(np.float64)
    there = np.flatnonzero(count)
    return np.eye(n_classes)[there % n_classes], there // n_classes, count[there]


@lru_cache(maxsize=1)
def _worst_of_drawn(method: str, seed: int) -> tuple[Codes, Codes]:
    """Draw tables of two to seven classes and two to five groups, and keep the one that normalising harms most."""
    rng = np.random.default_rng([seed, 42])
    worst, kept = -1.0, None
    for _ in range(TABLES):
        n_classes, n_groups = int(rng.integers(2, 8)), int(rng.integers(2, 6))
        shares = rng.dirichlet(np.full(n_classes, rng.choice([0.1, 0.3, 1.0])), size=n_groups)
        sizes = 30 + (3_000 * rng.dirichlet(np.full(n_groups, rng.choice([0.3, 1.0, 5.0])))).astype(
            int
        )
        y = np.concatenate(
            [rng.choice(n_classes, size=n, p=p) for n, p in zip(sizes, shares, strict=True)]
        )
        _, y = np.unique(y, return_inverse=True)
        groups = np.repeat(np.arange(n_groups), sizes)
        rows, of, count = _cells(y, groups)
        if rows.shape[1] < 2:
            continue
        h = separately(method, y, groups, rows, of)
        found = _parity(h / h.sum(axis=1, keepdims=True), of, count)
        if found > worst:
            worst, kept = found, (y, groups)
    assert kept is not None
    return kept


def configurations(quick: bool) -> list[Configuration]:
    """Both Adults, the paper's synthetic labels, stronger bias, scores in place of labels, and drawn tables; three methods."""
    shapes: list[tuple[str, int | None, int | None]] = [
        ("Adult", None, None),
        ("Adult, injected", None, None),
    ]
    sizes = [(c, n) for c in CLASSES for n in PER_CLASS]
    shapes += [("labels", *size) for size in (sizes[:1] if quick else sizes)]
    shapes += [("stronger", *size) for size in (sizes[:1] if quick else sizes)]
    shapes += [("scores", c, PER_CLASS[0]) for c in (CLASSES[:1] if quick else CLASSES[:2])]
    shapes += [] if quick else [("drawn", None, None)]
    return [
        {"kind": kind, "classes": c, "per_class": n, "method": method}
        for kind, c, n in shapes
        for method in METHODS
    ]


EXPERIMENT: Final = Experiment(
    name="normalising",
    title="Appendix A: normalising what was debiased class by class",
    configurations=configurations,
    run=run,
    section=section,
    figures=normalising,
    revision=2,
)
