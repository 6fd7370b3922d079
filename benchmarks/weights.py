"""Row weights: exact ones beside those of Kamiran and Calders, on Adult, and models trained
on them.

``python -m benchmarks.weights`` prints the tables of docs/weights.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import r2b
from experiments.tables import markdown
from r2b.methods import Reweighing
from r2b.metrics import demographic_parity_difference

FEATURES = ["workclass", "marital-status", "occupation", "relationship", "hours-per-week", "age"]


def learner() -> Any:
    """Return a plain model."""
    return make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=300))


def weights_on_adult(adult: Any) -> str:
    """Compare weights for education by sex and race."""
    y, groups = adult["education"], adult[["sex", "race"]]
    crossed = groups["sex"] + ", " + groups["race"]
    ways: dict[str, Callable[[], Any]] = {
        "Kamiran and Calders": lambda: Reweighing().fit_transform(y, sensitive_features=crossed)
    }
    for asked in ({"epsilon": 0.0138}, {"epsilon": 0.005}, {"epsilon": 0.0, "max_weight": 3.0}):
        said = ", ".join(f"{name} {value:g}" for name, value in asked.items())
        ways[f"exact, {said}"] = partial(exact_weights, y, groups, **asked)
    body = []
    for name, way in ways.items():
        begun = time.process_time()
        weight = way()
        seconds = time.process_time() - begun
        apart = demographic_parity_difference(y, sensitive_features=crossed, sample_weight=weight)
        effective = weight.sum() ** 2 / (weight**2).sum() / len(weight)
        numbers = [f"{apart:.4f}", f"{effective:.3f}", f"{weight.max():.1f}", f"{seconds:.2f}"]
        body.append([name, *numbers])
    return markdown(["weights", "disparity", "effective sample", "largest", "seconds"], body)


def exact_weights(y: Any, groups: Any, **options: Any) -> Any:
    """Return the weights of ``r2b.reweigh``."""
    return r2b.reweigh(y, sensitive_features=groups, **options).weights


def models_on_adult(adult: Any, label: str) -> str:
    """Train on weighted rows; the disparity is that of decisions drawn from the probabilities."""
    table: dict[str, list[tuple[float, float]]] = {}
    for seed in range(3):
        train, test = train_test_split(adult, test_size=0.3, random_state=seed)
        y, sex = train[label], train["sex"]
        guessed = cross_val_predict(learner(), train[FEATURES], sex, cv=5, method="predict_proba")
        visible = pd.DataFrame(guessed, columns=["Female", "Male"], index=train.index)
        weights = {
            "plain": np.ones(len(train)),
            "Kamiran and Calders": Reweighing().fit_transform(y, sensitive_features=sex),
            "exact, epsilon 0": exact_weights(y, sex),
            "exact, epsilon 0, by predicted sex": exact_weights(y, r2b.Membership(visible)),
        }
        for name, weight in weights.items():
            model = learner()
            model.fit(train[FEATURES], y, logisticregression__sample_weight=weight)
            shares = model.predict_proba(test[FEATURES])
            apart = demographic_parity_difference(
                pd.DataFrame(shares, columns=model.classes_, index=test.index),
                sensitive_features=test["sex"],
            )
            right = float((model.predict(test[FEATURES]) == test[label]).mean())
            table.setdefault(name, []).append((100 * apart, 100 * right))
    body = []
    for name, rows in table.items():
        disparity, accuracy = np.mean(rows, axis=0)
        worst = max(row[0] for row in rows)
        body.append([name, f"{disparity:.1f} (worst {worst:.1f})", f"{accuracy:.1f}"])
    head = [f"{label} by sex", "disparity of probabilities, %", "accuracy, %"]
    return markdown(head, body)


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    adult = r2b.datasets.load_adult(as_frame="pandas")
    print(weights_on_adult(adult))
    for label in ("education", "income"):
        print(f"\n{models_on_adult(adult, label)}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
