"""The tables on which rivals are compared: Adult, the paper's mixture, and sizes that grow in rows and in classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tables
from numpy.typing import NDArray

from r2b.datasets import load_adult

PER_CLASS = 1_000  # rows of each class of the paper's mixture
PAPER, SCALED = 0.0, 0.01  # epsilon: the paper's experiments ask for exact parity
Columns = tuple[NDArray[Any], NDArray[np.int64]]


@dataclass(frozen=True)
class Case:
    """One table, and how long slow rivals are watched on it.

    Attributes
    ----------
    name, title : str
    build : callable
        Gives labels (codes or probabilities) and group codes.
    series : str
        "classes" or "soft" where it belongs to a figure, else "".
    patience : float
        Seconds that a rival with rounds may take to be run whole; the others are timed for a few
        binary solves and scaled.
    all_rows : bool
        Whether QP solvers also get class labels row by row.
    epsilon : float
    """

    name: str
    title: str
    build: Callable[[], Columns]
    series: str = ""
    patience: float = 3.0
    all_rows: bool = False
    epsilon: float = SCALED

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the table for the processes that measure, and say how large it is."""
        labels, groups = self.build()
        n_classes = labels.shape[1] if labels.ndim == 2 else 0
        if not n_classes:  # a class without a row would be no class to anyone
            names, labels = np.unique(labels, return_inverse=True)
            labels, n_classes = labels.astype(np.int64), len(names)
        n_groups = int(groups.max()) + 1
        np.save(folder / "labels.npy", labels)
        np.save(folder / "groups.npy", groups.astype(np.int64))
        np.save(folder / "sizes.npy", np.array([n_classes, n_groups]))
        kept = {
            name: value
            for name, value in asdict(self).items()
            if name not in ("build", "patience", "all_rows")
        }
        return {
            **kept,
            "soft": labels.ndim == 2,
            "rows": len(groups),
            "classes": n_classes,
            "groups": n_groups,
        }


def adult(*attributes: str) -> Columns:
    """Education by the crossing of attributes."""
    data = load_adult()
    crossed = [
        "|".join(values)
        for values in zip(*(np.asarray(data[name]).astype(str) for name in attributes), strict=True)
    ]
    return np.unique(data["education"], return_inverse=True)[1], np.unique(
        crossed, return_inverse=True
    )[1]


def mixture(n_classes: int) -> Columns:
    """Labels of the paper's mixture of Gaussians: as many rows of each class, five groups that know whether the class is 0."""
    from experiments.synthetic import biased_groups

    y = np.repeat(np.arange(n_classes), PER_CLASS)
    return y, biased_groups(y, np.random.default_rng([0, n_classes]))


def classes(rows: int, n_classes: int) -> Columns:
    """Class labels whose distributions differ between two groups."""
    table = tables.classes(rows, n_classes, n_groups=2)
    return table.labels, table.groups


def soft(rows: int, n_classes: int) -> Columns:
    """Probabilities whose distributions differ between two groups."""
    table = tables.soft(rows, n_classes, n_groups=2)
    return table.labels, table.groups


def _scaled(kind: str, rows: int, n_classes: int) -> Case:
    make = classes if kind == "classes" else soft
    what = "class labels" if kind == "classes" else "probabilities"
    return Case(
        f"{kind}-{rows}x{n_classes}",
        f"{rows:,} rows of {what}, {n_classes} classes",
        lambda: make(rows, n_classes),
        kind,
    )


def all_cases(quick: bool) -> list[Case]:
    """Give the cases, smaller sizes of a series before larger ones, so that it is known what is out of reach."""
    whole = {"patience": 1.0 if quick else 60.0, "all_rows": not quick, "epsilon": PAPER}
    by_sex = Case("adult-sex", "Adult, education by sex", lambda: adult("sex"), **whole)
    by_both = Case(
        "adult-sex-race",
        "Adult, education by sex and race",
        lambda: adult("sex", "race"),
        epsilon=PAPER,
    )
    paper = [
        Case(
            f"mixture-{n}",
            f"The paper's mixture, {n} classes",
            lambda n=n: mixture(n),
            epsilon=PAPER,
        )  # type: ignore[misc]
        for n in (4, 16, 64)
    ]
    if quick:
        sizes = {"classes": [(10_000, 16)], "soft": [(1_000, 16)]}
        chosen = [by_sex]
    else:
        sizes = {
            "classes": [
                (1_000, 16),
                (10_000, 16),
                (100_000, 4),
                (100_000, 16),
                (100_000, 100),
                (1_000_000, 16),
                (1_000_000, 100),
            ],
            "soft": [
                (1_000, 4),
                (1_000, 16),
                (1_000, 100),
                (10_000, 16),
                (100_000, 4),
                (100_000, 16),
                (100_000, 100),
                (1_000_000, 16),
            ],
        }
        chosen = [by_sex, by_both, *paper]
    return chosen + [
        _scaled(kind, rows, n_classes)
        for kind, shapes in sizes.items()
        for rows, n_classes in shapes
    ]
