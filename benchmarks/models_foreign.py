"""FairProjection, run by an interpreter that has TensorFlow.

    python benchmarks/models_foreign.py REQUEST    # a request as JSON

Reads scores from ``given.npz`` and writes fair probabilities of the test rows to ``found.npy``;
prints a note. The rival's own functions solve and predict; the constraint matrix is built here as
its documentation of statistical parity says.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ALPHA = 0.001  # its ratio between a group's mean and the mean of all may differ from 1 by this
FUDGE = 1e-4  # its own: scores are moved off the faces of the simplex
ROUNDS = 500


def constraints(groups: Any, share: Any, n_classes: int) -> Any:
    """Return rows x classes x constraints: for each class and group an upper and a lower limit."""
    ratio = groups / share
    parts = []
    for k in range(n_classes):
        upper, lower = (np.zeros((len(groups), n_classes, groups.shape[1])) for _ in range(2))
        upper[:, k], lower[:, k] = ratio - (1 + ALPHA), (1 - ALPHA) - ratio
        parts += [upper, lower]
    return np.concatenate(parts, axis=2)


def inside(scores: Any) -> Any:
    return ((scores + FUDGE) / (scores + FUDGE).sum(axis=1, keepdims=True))[:, :, None]


def main(request: dict[str, str]) -> None:
    sys.path.insert(0, request["folder"])
    import coreMP  # type: ignore[import-not-found]

    place = Path(request["place"])
    given = np.load(place / "given.npz")
    share, n_classes = given["groups"].mean(axis=0), given["classes"].shape[1]
    prices = coreMP.admm_tf(
        constraints(given["groups"], share, n_classes), inside(given["classes"]), max_iter=ROUNDS
    )
    found = coreMP.predict(
        prices, constraints(given["test_groups"], share, n_classes), inside(given["test_classes"])
    )
    np.save(place / "found.npy", found[:, :, 0])
    print(f"{ROUNDS} rounds")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
