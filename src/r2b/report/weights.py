"""The report of row weights: what they reach, and the weight of every class in every group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from r2b._plot import percent
from r2b._weights import RowWeights
from r2b.report.facts import to_json
from r2b.report.tables import Table, TableReport
from r2b.report.trace import stamp


@dataclass(frozen=True, eq=False)
class WeightReport(TableReport):
    """A report of row weights.

    Attributes
    ----------
    title : str
    facts : dict
        The numbers, and a row for each class of each group.

    Examples
    --------
    >>> import r2b
    >>> weights = r2b.reweigh(["a", "b", "b", "a", "a", "b"], sensitive_features=list("fffmmm"))
    >>> weights.report(date="2026-11-16").to_markdown().splitlines()[0]
    '# Row weights: disparity 0.3333 before, 0.0000 after'
    """

    title: str
    facts: dict[str, Any] = field(repr=False)

    @property
    def _tables(self) -> list[Table]:
        numbers = [[name, str(value)] for name, value in self.facts["numbers"].items()]
        rows = [[*each[:2], percent(each[2]), percent(each[3])] for each in self.facts["shares"]]
        kept = [[*each[:2], f"{each[2]:.3f}"] for each in self.facts["weights"]]
        return [
            ("What the weights reach", ["what", "value"], numbers),
            ("Shares of weight", ["group", "compared", "share before", "share after"], rows),
            (
                "Mean weight of the rows; they count less below 1",
                ["group", "class", "mean weight"],
                kept,
            ),
        ]

    def to_json(self) -> str:
        """Return all facts as strict JSON."""
        return to_json({"title": self.title, **self.facts})


def report_of_weights(weights: RowWeights, date: Any) -> WeightReport:
    """Make the report; ``date`` is today by default."""
    proof, rule = weights.certificate, weights.rule
    before, after = f"{proof.disparity_before:.4f} before", f"{proof.disparity:.4f} after"
    cap = "none" if np.isinf(rule.largest) else f"{rule.largest:g}"
    numbers = {
        "status": weights.status.value,
        "proven": "yes" if proof.holds else "no",
        "disparity": f"{before}, {after}",
        "above the bound": f"{proof.excess:.0e}",
        "smallest and largest weight": f"{proof.smallest:.3f}, {proof.largest:.3f}",
        "largest that was allowed": cap,
        "distance from 1 (half the mean square)": f"{proof.objective:.6f}",
        "date": stamp(date),
    }
    tables: dict[str, list[list[Any]]] = {"shares": [], "weights": []}
    if weights.data is not None:
        rows, size = weights.data.size, weights.effective_sample_size
        numbers["rows"] = f"{rows:,}, worth {size:,.1f} of equal weight"
        for group, of_classes in zip(weights.groups.tolist(), weights.table, strict=True):
            for name, each in zip(weights.classes.tolist(), of_classes.tolist(), strict=True):
                tables["weights"].append([str(group), str(name), each])
    means = zip(weights.groups.tolist(), proof.means_before, proof.means, strict=True)
    for group, *shares in means:
        for name, one, two in zip(weights.outcomes.tolist(), *shares, strict=True):
            tables["shares"].append([str(group), str(name), float(one), float(two)])
    return WeightReport(f"Row weights: disparity {before}, {after}", {"numbers": numbers, **tables})
