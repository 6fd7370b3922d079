"""COCO's soft labels before and after each method, without a learner: parity on fitted and on held-out rows, and how far labels moved."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from experiments.coco_data import TEST_SHARE, Codes, Floats, folder_of, images_of, injected
from experiments.coco_labels_page import figures, section
from experiments.experiment import Configuration, Experiment, Row
from experiments.labelling import LABEL_METHODS, METHODS
from experiments.learners import PERMUTATIONS
from r2b.methods import Reweighing, Unchanged
from r2b.metrics import demographic_parity_difference
from r2b.metrics.chance import sampling_level

QUICK_ROWS: Final = 2_000


@lru_cache(maxsize=1)
def _parts(
    folder: Path, p: float, n_rows: int | None, seed: int
) -> tuple[str, Floats, Codes, Floats, Codes]:
    images = images_of(folder, trained=False, person=False)
    order = np.random.default_rng([seed, 11]).permutation(len(images.shares))[:n_rows]
    labels = injected(images.shares, images.groups, p, seed)
    cut = round(len(order) * (1 - TEST_SHARE))
    fitted, held = np.sort(order[:cut]), np.sort(order[cut:])
    return images.source, labels[fitted], images.groups[fitted], labels[held], images.groups[held]


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Fit one method on three quarters of the rows, apply it to them and to the others, and measure labels."""
    source, Y, groups, Y_held, groups_held = _parts(
        folder_of(data, "coco").resolve(), configuration["p"], configuration["rows"], seed
    )
    row: Row = {
        "source": source,
        "n_fitted": len(Y),
        "n_held_out": len(Y_held),
        "n_classes": Y.shape[1],
        "data_parity": demographic_parity_difference(Y, sensitive_features=groups),
        "chance": sampling_level(
            Y_held, sensitive_features=groups_held, n_permutations=PERMUTATIONS, random_state=0
        ).mean,
    }
    if configuration["method"] == "RW":
        # Weights of (row, class) pairs: no label moves, and a mean is the share of a group's
        # weight.
        return row | {"label_parity": Reweighing().fit(Y, sensitive_features=groups).parity_}
    method = LABEL_METHODS.get(configuration["method"], Unchanged)().fit(
        Y, sensitive_features=groups
    )
    fair = method.transform(Y, sensitive_features=groups)
    fair_held = method.transform(Y_held, sensitive_features=groups_held)
    return row | {
        "label_parity": demographic_parity_difference(fair, sensitive_features=groups),
        "held_out_parity": demographic_parity_difference(fair_held, sensitive_features=groups_held),
        "squared_distance": float(((fair - Y) ** 2).sum(axis=1).mean()),
        "tv_distance": float(np.abs(fair - Y).sum(axis=1).mean() / 2),
    }


def configurations(quick: bool) -> list[Configuration]:
    """All methods on labels and reweighing, with and without injected bias."""
    return [
        {"p": p, "method": method, "rows": QUICK_ROWS if quick else None}
        for p in (0.0, 0.5)
        for method in METHODS
        if method != "DPR"
    ]


def together(configuration: Configuration, seed: int) -> Hashable:
    """Name the rows."""
    return configuration["p"], seed


EXPERIMENT: Final = Experiment(
    name="coco_labels",
    title="COCO, labels alone",
    configurations=configurations,
    run=run,
    section=section,
    figures=figures,
    together=together,
    needs_data=True,
)
