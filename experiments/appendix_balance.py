"""Appendix C, third effect: samples are uneven in equal classes, rare ones measured badly."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from pathlib import Path
from typing import Final

import numpy as np

from experiments.experiment import Configuration, Row, crossed
from experiments.figures import Axis, Panel, Picture, Series, along
from experiments.tables import cell, chosen, grouped, markdown

TITLE: Final = "Appendix C: balance of the classes"

CLASSES: Final = (4, 16, 64, 256)
SIZES: Final = (1_000, 4_000, 16_000, 64_000)
SAMPLES: Final = 100
GAP: Final = 0.5
"""How much more probable the last class is in the second group, as a share of its probability."""


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """See how samples of equal classes differ, and how well a known disparity is measured."""
    classes, size = configuration["classes"], configuration["size"]
    rng = np.random.default_rng([seed, 34])
    counts = rng.multinomial(size, np.full(classes, 1 / classes), size=SAMPLES)
    pairs = np.abs(counts[:, 0] - counts[:, 1])
    # Two groups of equal size; the last class has a known difference, the others make room for it.
    shares = np.full((2, classes), 1 / classes)
    shares[1, -1] *= 1 + GAP
    shares[1, :-1] *= (1 - shares[1, -1]) / shares[1, :-1].sum()
    halves = np.stack(
        [rng.multinomial(size // 2, part, size=SAMPLES) / (size // 2) for part in shares]
    )
    measured = halves[1, :, -1] - halves[0, :, -1]
    return {
        "mean_gap": float(pairs.mean()),
        "relative_gap": float(pairs.mean() / (size / classes)),
        "rarest": float(counts.min(axis=1).mean() / (size / classes)),
        "true_difference": float(shares[1, -1] - shares[0, -1]),
        "relative_error": float(np.abs(measured / (shares[1, -1] - shares[0, -1]) - 1).mean()),
    }


def configurations(quick: bool) -> list[Configuration]:
    """By classes and rows."""
    sizes, classes = (SIZES[:2], CLASSES[::2]) if quick else (SIZES, CLASSES)
    return crossed(size=sizes, classes=classes)


def constant(rows: Sequence[Row], classes: int, size: int) -> float:
    """Return the constant of the paper's Theta: a class difference's mean over sqrt(n / L)."""
    found = cell(chosen(rows, classes=classes, size=size), "mean_gap", 1.0)
    return found.mean / sqrt(size / classes)


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    words = f"""The paper: with L equally probable classes and n rows, "E|n_k - n_j| = Theta(sqrt(n
/ L))", so that n must be much larger than L for classes to be balanced, and "the estimate of
epsilon might be less reliable if n_k is small". The first column of results is the mean difference
between two classes over sqrt(n / L), which for many rows is 2 / sqrt(pi) = {2 / sqrt(pi):.2f}; then
the same difference and the rarest class, over n / L; then how far a known difference of one class
between two groups (half of its probability) is measured off, on average, in % of it."""
    measures = ("relative_gap", "rarest", "relative_error")
    body = []
    for (size, classes), found in grouped(rows, "size", "classes").items():
        numbers = [f"{cell(found, name).mean:.0f} %" for name in measures]
        of_paper = f"{constant(rows, classes, size):.2f}"
        body.append([f"{size:,}", str(classes), of_paper, *numbers])
    head = [
        "rows",
        "classes",
        "difference / sqrt(n / L)",
        "difference / (n / L)",
        "rarest / (n / L)",
        "disparity of a class off by",
    ]
    return f"{words}\n\n{markdown(head, body)}"


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw how uneven equal classes are, and how badly a known disparity is measured, by rows."""
    shown = {
        "relative_gap": ("two classes differ by", "mean difference over n / L (%, log)"),
        "relative_error": ("a known disparity is off by", "mean error over the disparity (%, log)"),
    }
    panels = []
    for measure, (title, name) in shown.items():
        series = tuple(
            Series(f"{classes} classes", along(found, "size", measure))
            for (classes,), found in grouped(rows, "classes").items()
        )
        panels.append(Panel(title, series, Axis(name, "log")))
    words = "Equally probable classes; mean over seeds with 99 % intervals."
    axis = Axis("rows (logarithmic)", "log", (1_000.0, 4_000.0, 16_000.0, 64_000.0))
    title = "Balance of classes and the disparity measured, by rows"
    return {"rows": Picture(title, words, (tuple(panels),), axis)}
