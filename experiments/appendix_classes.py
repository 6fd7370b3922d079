"""Appendix C: what the measure shows on fair samples, by the number of classes."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from pathlib import Path
from typing import Final

import numpy as np

from experiments.experiment import Codes, Configuration, Row, crossed
from experiments.figures import Axis, Panel, Picture, Series, along
from experiments.tables import cell, chosen, grouped, markdown
from r2b.metrics.chance import sampling_level

TITLE: Final = "Appendix C: the measure and the number of classes"

CLASSES: Final = (2, 4, 8, 16, 32, 64, 128, 256)
SIZES: Final = (1_000, 4_000, 16_000)
KINDS: Final = {"even": "classes equally frequent", "skewed": "the k-th class in proportion to 1/k"}
PERMUTATIONS: Final = 100
SAMPLES: Final = 40
LINES: Final = {
    "parity": "measured",
    "approximation": "sqrt(2 V log 2L)",
    "sharper": "the sharper bound",
}


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Draw labels and two groups independently of each other, many times, and measure."""
    classes, size = configuration["classes"], configuration["size"]
    rng = np.random.default_rng([seed, 32])
    shares = np.ones(classes) if configuration["kind"] == "even" else 1 / np.arange(1, classes + 1)
    shares /= shares.sum()
    largest = float((shares * (1 - shares)).max())
    observed, standardised = [], []
    for _ in range(SAMPLES):
        groups = rng.permutation(np.arange(size) % 2)
        y = rng.choice(classes, size=size, p=shares)
        counts = np.bincount(groups * classes + y, minlength=2 * classes).reshape(2, classes)
        parity = float(np.ptp(counts / counts.sum(axis=1, keepdims=True), axis=0).max())
        observed.append(parity)
        standardised.append(parity / sqrt(largest * 4 / size))
    # Of the last sample, knowing labels and groups alone.
    approximation, sharper = bounds_on_the_mean(np.asarray(y), groups)
    level = sampling_level(
        y, sensitive_features=groups, n_permutations=PERMUTATIONS, random_state=seed
    )
    return {
        "parity": float(np.mean(observed)),
        "standardised": float(np.mean(standardised)),
        "chance": level.mean,
        "approximation": approximation,
        "sharper": sharper,
    }


def bounds_on_the_mean(y: Codes, groups: Codes) -> tuple[float, float]:
    """Return two bounds on the mean disparity under chance, from variances of differences alone.

    There are M = L R (R - 1) signed differences, of variances V_j. For normal numbers X_j of any
    dependence, ``E max X <= log(sum_j exp(t^2 V_j / 2)) / t`` for every t > 0. With all V_j
    replaced by the largest, the best t gives sqrt(2 V log M), the first bound. The second keeps
    each V_j and takes the best t of a grid: rare classes then hardly count. Of two classes it
    counts one, which the other mirrors.
    """
    sizes, counts = np.bincount(groups), np.bincount(y)
    shares = counts[counts > 0] / len(y)
    one, two = np.triu_indices(len(sizes), 1)
    by_class = (shares * (1 - shares))[: 1 if len(shares) == 2 else None]
    variances = np.outer(by_class, 1 / sizes[one] + 1 / sizes[two]).ravel()
    largest = float(variances.max())
    top = sqrt(2 * log(len(shares) * len(sizes) * (len(sizes) - 1)))
    bounds = []
    for t in top * np.geomspace(0.25, 4, 41) / sqrt(largest):
        # The largest exponent is taken out, so that nothing overflows.
        exponents = np.exp(t * t * (variances - largest) / 2).sum()
        bounds.append((t * t * largest / 2 + log(2 * exponents)) / t)
    return top * sqrt(largest), float(min(bounds))


def configurations(quick: bool) -> list[Configuration]:
    """By the number of classes, the number of rows, and how frequent classes are."""
    sizes, classes = (SIZES[:1], CLASSES[::3]) if quick else (SIZES, CLASSES)
    return crossed(kind=KINDS, size=sizes, classes=classes)


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    words = f"""Labels and two groups of equal size, drawn independently: the true disparity is 0.
`measured` is the mean disparity of {SAMPLES} such samples per seed, `permuted` the package's
`sampling_level` of one of them, and the two bounds follow from variances without drawing.
`standardised` is the measured disparity divided by the largest standard deviation of a difference,
sqrt(V) with V = max p_k (1 - p_k) (1/n_1 + 1/n_2). The paper's Theta(sqrt(log L)) is about this
number. In disparity itself it is the smaller effect: V falls with 1/L where classes are even, which
is the paper's second effect, and with the number of rows, which it leaves out."""
    head = ["rows", "classes", "measured, %", "permuted, %", "sqrt(2 V log 2L), %"]
    head += ["sharper bound, %", "standardised", "sqrt(2 log 2L)"]
    parts = [words]
    for (kind,), of_kind in grouped(rows, "kind").items():
        body = []
        for (size, classes), found in grouped(of_kind, "size", "classes").items():
            measures = ("parity", "chance", "approximation", "sharper")
            numbers = [cell(found, measure).text(2) for measure in measures]
            standardised = cell(found, "standardised", 1.0).text(2)
            line = [f"{size:,}", str(classes), *numbers, standardised]
            body.append([*line, f"{sqrt(2 * log(2 * classes)):.2f}"])
        title = KINDS[kind][0].upper() + KINDS[kind][1:]
        parts.append(f"### {title}\n\n{markdown(head, body)}")
    return "\n\n".join([*parts, _growth(rows)])


def order(rows: Sequence[Row], kind: str) -> tuple[float, float]:
    """Return standardised disparity over sqrt(2 log 2L) of the largest samples: 4, most classes."""
    size = max(row["size"] for row in rows)
    few, many = (
        cell(chosen(rows, kind=kind, size=size, classes=classes), "standardised", 1.0).mean
        / sqrt(2 * log(2 * classes))
        for classes in (CLASSES[1], CLASSES[-1])
    )
    return few, many


def _growth(rows: Sequence[Row]) -> str:
    """Say how the standardised number compares with sqrt(2 log 2L) for few and for many classes."""
    size, ends = max(row["size"] for row in rows), (CLASSES[1], CLASSES[-1])
    said = []
    for kind in KINDS:
        few, many = order(rows, kind)
        levels = [
            cell(chosen(rows, kind=kind, size=size, classes=classes), "parity").mean
            for classes in ends
        ]
        said.append(
            f"{kind} classes: standardised disparity over sqrt(2 log 2L) goes from {few:.2f} to"
            f" {many:.2f}, disparity itself from {levels[0]:.2f} to {levels[1]:.2f} %"
        )
    return (
        f"From {ends[0]} to {ends[1]} classes, {size:,} rows: {'; '.join(said)}. With even classes"
        " the ratio rises towards 1: the order is sqrt(log L), as the paper says. With skewed ones"
        " it falls, since the most frequent classes decide: the paper's order needs classes of"
        " like variance."
    )


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw measured disparity and the bounds by the number of classes."""
    grid = []
    for (kind,), of_kind in grouped(rows, "kind").items():
        panels = []
        for (size,), found in grouped(of_kind, "size").items():
            series = [
                Series(name, along(found, "classes", measure)) for measure, name in LINES.items()
            ]
            axis = Axis("disparity (%)", "log")
            panels.append(Panel(f"{kind} classes, {size:,} rows", tuple(series), axis))
        grid.append(tuple(panels))
    words = "The true disparity is 0. Mean over seeds with 99 % intervals; both axes logarithmic."
    axis = Axis("classes", "log", tuple(map(float, CLASSES[::2])))
    title = "Disparity that fair samples show, by the number of classes"
    return {"parity": Picture(title, words, tuple(grid), axis)}
