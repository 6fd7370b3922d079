"""Row weights in one JSON file, with a version and without pickle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from r2b._constraints.families import Families
from r2b._data import Schema
from r2b._data.values import json_value
from r2b._labels.storage import VERSION, WEIGHTS, array_of
from r2b._solve.solvers import Status
from r2b._weights.result import RowWeights, WeightCertificate, WeightRule

_NUMBERS = (
    "disparity",
    "disparity_before",
    "excess",
    "objective",
    "lower_bound",
    "smallest",
    "largest",
)


def content_of(weights: RowWeights) -> dict[str, Any]:
    """Return everything but the rows as plain values."""
    rule, proof = weights.rule, weights.certificate
    content: dict[str, Any] = json_value(
        {
            "format": WEIGHTS,
            "version": VERSION,
            "schema": rule.schema.to_json(),
            "families": rule.families.to_json(),
            "prices": rule.prices,
            "largest": None if math.isinf(rule.largest) else rule.largest,
            "status": weights.status.value,
            "certificate": {name: getattr(proof, name) for name in _NUMBERS}
            | {"means": proof.means, "means_before": proof.means_before},
        }
    )
    return content


def restored(content: dict[str, Any]) -> RowWeights:
    """Restore weights from :func:`content_of`; the proof of each family is not kept."""
    schema = Schema.from_json(content["schema"])
    families = Families.from_json(content["families"], schema)
    n_groups, stored = len(families.names), content["certificate"]
    means = np.array(stored["means"], dtype=np.float64)
    shape = (n_groups, means.shape[-1])
    largest = content["largest"]
    proof = WeightCertificate(
        means=array_of(stored["means"], shape),
        means_before=array_of(stored["means_before"], shape),
        families=(),
        **{name: float(stored[name]) for name in _NUMBERS},
    )
    prices = array_of(content["prices"], (n_groups, shape[1] + 1))
    limit = math.inf if largest is None else float(largest)
    if not limit >= 1.0:
        raise ValueError(f"largest is {largest!r}")
    return RowWeights(WeightRule(schema, families, prices, limit), proof, Status(content["status"]))
