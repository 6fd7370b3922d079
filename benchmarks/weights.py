"""Row weights: exact ones beside those of Kamiran and Calders, on Adult, and models trained on them.

``python benchmarks/weights.py`` prints the tables of docs/weights.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import r2b
from r2b.metrics import demographic_parity_difference

FEATURES = ["workclass", "marital-status", "occupation", "relationship", "hours-per-week", "age"]


def learner() -> Any:
    """Return a plain model."""
    return make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=300))


def reached(y: Any, groups: Any, weight: Any) -> str:
    """Return disparity, effective sample and largest weight, as cells of a table."""
    disparity = demographic_parity_difference(y, sensitive_features=groups, sample_weight=weight)
    effective = weight.sum() ** 2 / (weight**2).sum() / len(weight)
    return f"{disparity:.4f} | {effective:.3f} | {weight.max():.1f}"


def weights_on_adult(adult: Any) -> None:
    """Compare weights for education by sex and race."""
    y, groups = adult["education"], adult[["sex", "race"]]
    crossed = groups["sex"] + ", " + groups["race"]
    print(
        "| weights | disparity | effective sample | largest | seconds |\n| --- | --- | --- | --- | --- |"
    )
    begun = time.process_time()
    usual = r2b.methods.Reweighing().fit_transform(y, sensitive_features=crossed)
    seconds = time.process_time() - begun
    print(f"| Kamiran and Calders | {reached(y, crossed, usual)} | {seconds:.2f} |")
    for asked in ({"epsilon": 0.0138}, {"epsilon": 0.005}, {"epsilon": 0.0, "max_weight": 3.0}):
        begun = time.process_time()
        found = r2b.reweigh(y, sensitive_features=groups, **asked)
        seconds = time.process_time() - begun
        said = ", ".join(f"{name} {value:g}" for name, value in asked.items())
        print(f"| exact, {said} | {reached(y, crossed, found.weights)} | {seconds:.2f} |")


def models_on_adult(adult: Any, label: str) -> None:
    """Train on weighted rows; the disparity is that of decisions drawn from the probabilities."""
    print(
        f"\n| {label} by sex | disparity of probabilities, % | accuracy, % |\n| --- | --- | --- |"
    )
    table: dict[str, list[tuple[float, float]]] = {}
    for seed in range(3):
        train, test = train_test_split(adult, test_size=0.3, random_state=seed)
        y, sex = train[label], train["sex"]
        guessed = cross_val_predict(learner(), train[FEATURES], sex, cv=5, method="predict_proba")
        visible = pd.DataFrame(guessed, columns=["Female", "Male"], index=train.index)
        weights = {
            "plain": np.ones(len(train)),
            "Kamiran and Calders": r2b.methods.Reweighing().fit_transform(
                y, sensitive_features=sex
            ),
            "exact, epsilon 0": r2b.reweigh(y, sensitive_features=sex).weights,
            "exact, epsilon 0, by predicted sex": r2b.reweigh(
                y, sensitive_features=r2b.Membership(visible)
            ).weights,
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
    for name, rows in table.items():
        disparity, accuracy = np.mean(rows, axis=0)
        worst = max(row[0] for row in rows)
        print(f"| {name} | {disparity:.1f} (worst {worst:.1f}) | {accuracy:.1f} |")


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    adult = r2b.datasets.load_adult(as_frame="pandas")
    weights_on_adult(adult)
    for label in ("education", "income"):
        models_on_adult(adult, label)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
