"""Measure fair models on GEG's seven data sets and folds, beside its published figures.

    python -m benchmarks.geg --folder FOLDER [--tables NAME ...]

FOLDER is ``experiments`` of github.com/giordanoDaloisio/GEG (or set R2B_GEG): its data and the
figures that it publishes for each fold are read from there. As there: ten shuffled folds of seed
42, logistic regression with its defaults, the attribute among the features, one positive class.
Writes JSON, from which ``scripts/make_models_page.py`` writes a part of docs/models.md.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from benchmarks.measure import write_rows
from r2b.sklearn import ParityPostprocessor

RESULTS = Path(__file__).resolve().parent / "results" / "geg.json"
# of each table the label, its positive class and the attribute, as in GEG's utils.py
TABLES: dict[str, tuple[str, int, str]] = {
    "cmc": ("contr_use", 2, "wife_religion"),
    "crime": ("ViolentCrimesClass", 100, "black_people"),
    "drug": ("y", 0, "race"),
    "law": ("gpa", 2, "race"),
    "obesity": ("y", 0, "Age"),
    "park": ("score_cut", 0, "sex"),
    "wine": ("quality", 6, "type"),
}
ODDS = ("equal_opportunity", "equal_false_positives")
PUBLISHED = {
    "plain, published": "results_baseline/{}_baseline_results.csv",
    "GEG, parity": "results_geg_new/{}_geg_dp_results.csv",
    "GEG, odds": "results_geg_new/{}_geg_eo_results.csv",
    "GEG, both": "results_geg_new/{}_geg_cp_results.csv",
    "DEMV": "results_demv/{}_results.csv",
}
MEASURES = ("accuracy", "statistical_parity", "equal_opportunity", "average_odds")


def models(positive: int) -> dict[str, Any]:
    """Return our models by name: the same criteria as GEG's, of the positive class."""
    parity = {"demographic_parity": {positive: 0.0}}
    odds = dict.fromkeys(ODDS, 0.0)
    asked: dict[str, dict[str, Any]] = {
        "parity": {"epsilon": {positive: 0.0}},
        "odds": {"criterion": ODDS, "epsilon": odds, "positive": positive},
        "both": {
            "criterion": ("demographic_parity", *ODDS),
            "epsilon": {**parity, **odds},
            "positive": positive,
        },
    }
    given = {"attribute": "given", "frontier": 0}
    return {
        f"r2b, {name}": ParityPostprocessor(LogisticRegression(), **given, **options)
        for name, options in asked.items()
    }


def measured(decided: Any, truth: Any, group: Any, positive: int) -> dict[str, float]:
    """Compare with the test rows as GEG's metrics.py does: rates of the positive class."""
    chosen, first = decided == positive, group == 0
    rates = [
        chosen[rows & first].mean() - chosen[rows & ~first].mean()
        for rows in (np.ones(len(truth), bool), truth == positive, truth != positive)
    ]
    found = (decided == truth).mean(), rates[0], rates[1], (rates[1] + rates[2]) / 2
    return dict(zip(MEASURES, map(float, found), strict=True))


def run(folder: Path, name: str) -> list[dict[str, Any]]:
    """Measure all folds of one table; the published figures come first."""
    frame = pd.read_csv(folder / "data" / f"{name}.csv")
    label, positive, attribute = TABLES[name]
    X, y, group = frame.drop(columns=label), frame[label].to_numpy(), frame[attribute].to_numpy()
    rows = []
    for title, place in PUBLISHED.items():
        of_folds = pd.read_csv(folder / place.format(name))
        rows.append({"method": title, **{each: of_folds[each].tolist() for each in MEASURES}})
    begun, found = time.process_time(), {}
    for train, test in KFold(10, shuffle=True, random_state=42).split(X):
        plain = LogisticRegression().fit(X.iloc[train], y[train])
        decisions = {"plain": plain.predict(X.iloc[test])}
        for title, model in models(positive).items():
            model.fit(X.iloc[train], y[train], sensitive_features=group[train])
            decisions[title] = model.predict(X.iloc[test], sensitive_features=group[test])
        for title, decided in decisions.items():
            here = measured(decided, y[test], group[test], positive)
            for each, value in here.items():
                found.setdefault(title, {}).setdefault(each, []).append(round(value, 5))
    print(f"{name}: {time.process_time() - begun:.0f} CPU seconds", flush=True)
    return [
        {"table": name, **row}
        for row in [*rows, *({"method": title, **of} for title, of in found.items())]
    ]


def main(arguments: list[str] | None = None) -> int:
    """Measure and write; without GEG's folder the figures stay as they are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=os.environ.get("R2B_GEG"))
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    if options.folder is None:
        print("GEG's tables are left out: set R2B_GEG to the folder experiments of its repository")
        return 0
    warnings.simplefilter("ignore")  # its learner is not scaled; parity is measured here
    rows: list[dict[str, Any]] = []
    for name in options.tables:
        rows += run(options.folder, name)
        write_rows(options.output, {}, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
