"""A user of the package, for the type checker alone: nothing here is run (see ``files`` of mypy in
pyproject.toml).
"""

from __future__ import annotations

import numpy as np

import r2b
from r2b.metrics import demographic_parity_difference


def watch(progress: r2b.Progress) -> bool:
    return progress.residual > 1e-3


def use() -> list[float]:
    adult = r2b.datasets.load_adult()
    y, people = adult["education"], {"sex": adult["sex"], "age": r2b.Continuous(adult["age"])}
    fair: r2b.FairLabels = r2b.debias(
        y, sensitive_features=people, epsilon={"Masters": 0.1}, costs=np.eye(16), progress=watch
    )
    parity: float = demographic_parity_difference(fair.soft_labels, sensitive_features=adult["sex"])
    proven: bool = fair.status.ok and fair.certificate.holds
    path: r2b.Frontier = r2b.frontier(y, sensitive_features=people, epsilons=[0.0, 0.1])
    near: r2b.FairLabels = r2b.smallest_epsilon(y, sensitive_features=people, changes=0.01)
    ordered: r2b.FairLabels = r2b.debias(
        y, sensitive_features=people, costs={"ordinal": ["Masters", "Doctorate"]}
    )
    size: float = near.epsilon + ordered.disparity + len(fair) + fair.soft().sum()
    fair.to_frame("changes", backend="polars").write_csv("changes.csv")
    found: r2b.Audit = r2b.audit(y, sensitive_features=people)
    columns = r2b.scan("people.parquet")
    table: r2b.FairLabels = columns.debias(
        "education",
        sensitive_features=["sex", "race"],
        families=[r2b.Family("sex"), ["sex", "race"]],
    )
    table.write("fair.parquet", "round")
    try:
        r2b.load("fair.json").transform(y, sensitive_features=people)
    except r2b.errors.InputError as error:
        print(error.facts, error.remedy, parity, proven, size, found)
    return [point.expected_changes for point in path]
