"""What each option costs on the same table: other labels, weights, or prices on the model's scores.

``python -m benchmarks.options`` prints the tables of docs/options.md: Adult, income and
education by
sex, logistic regression, three splits. Disparity is that of decisions on rows that are new to all.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import r2b
from benchmarks.weights import FEATURES, learner
from experiments.tables import markdown
from r2b.metrics import demographic_parity_difference
from r2b.sklearn import ParityClassifier, ParityPostprocessor, WeightedClassifier


def models(seed: int) -> dict[str, tuple[Any, bool]]:
    """Return the options, and whether predictions are given the attribute."""
    plain, fast = learner(), {"frontier": 0, "random_state": seed, "cv": 3}
    labels = {**fast, "decisions": "likeliest", "form": "expand"}
    return {
        "nothing": (plain, False),
        "weights by given groups": (WeightedClassifier(plain, groups="given"), False),
        "weights by predicted groups": (WeightedClassifier(plain, cv=3), False),
        "labels by given groups": (ParityClassifier(plain, groups="given", **labels), False),
        "labels by predicted groups": (ParityClassifier(plain, **labels), False),
        "decisions, attribute predicted": (ParityPostprocessor(plain, **fast), False),
        "decisions, attribute given": (ParityPostprocessor(plain, attribute="given", **fast), True),
    }


def changed(name: str, model: Any) -> str:
    """Return what training or decisions change, as a cell of a table."""
    if name.startswith("labels"):
        return f"{100 * model.labels_.certificate.expected_changes:.1f} % of labels"
    if name.startswith("weights"):
        size = model.weights_.effective_sample_size / model.weights_.data.size
        return f"rows worth {100 * size:.1f} %"
    return "-"


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    adult = r2b.datasets.load_adult(as_frame="pandas")
    for label, table in (("income", adult), ("education", adult.sample(12_000, random_state=0))):
        found: dict[str, list[tuple[float, float, str]]] = {}
        for seed in range(3):
            old, new = train_test_split(table, test_size=0.3, random_state=seed)
            plain = None
            for name, (model, needs) in models(seed).items():
                groups = {} if name == "nothing" else {"sensitive_features": old["sex"]}
                model.fit(old[FEATURES], old[label], **groups)
                given = {"sensitive_features": new["sex"]} if needs else {}
                decided = model.predict(new[FEATURES], **given)
                plain = decided if plain is None else plain
                what = changed(name, model)
                if name.startswith("decisions"):
                    what = f"{100 * (decided != plain).mean():.1f} % of decisions"
                apart = demographic_parity_difference(decided, sensitive_features=new["sex"])
                right = float((decided == new[label]).mean())
                found.setdefault(name, []).append((100 * apart, 100 * right, what))
        body = []
        for name, rows in found.items():
            apart, right = np.mean([row[:2] for row in rows], axis=0)
            worst = max(row[0] for row in rows)
            body.append([name, rows[0][2], f"{apart:.1f}", f"{worst:.1f}", f"{right:.1f}"])
        head = [f"{label}: what is changed", "how much", "disparity", "worst", "accuracy"]
        print(f"\n{markdown(head, body)}", flush=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
