"""Measure fair models on tables with small or many groups, 2,000 and 6,000 rows to train on.

    R2B_DATA=FOLDER python -m benchmarks.small_groups [--splits 2] [--tables NAME ...]

Adult is part of the package. FOLDER may hold ``oulad_clean.csv``, ``law_school_clean.csv``,
``credit-card-clients.csv`` and ``dutch.csv`` (github.com/tailequy/fairness_dataset),
``compas-scores-two-years.csv`` (github.com/propublica/compas-analysis), and the tables of
github.com/giordanoDaloisio/GEG in ``geg``. Writes JSON for ``scripts/make_models_page.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.models_cases import _codes, education, income
from r2b.errors import DataWarning, NotFairWarning
from r2b.sklearn import ParityPostprocessor
from r2b.sklearn.evidence import ParityReport
from r2b.sklearn.rule import Plan

RESULTS = Path(
    os.environ.get("RESULTS", Path(__file__).resolve().parent / "results" / "small_groups.json")
)
LARGE = 300  # rows of a group that count as many, in training
MOST = 10_000  # rows to measure on
Table = tuple[Any, Any, pd.DataFrame]


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(os.environ["R2B_DATA"]) / name)


def _indicators(frame: pd.DataFrame, names: list[str]) -> Any:
    return pd.get_dummies(frame[names].astype(str)).to_numpy(float)


def _adult(label: str) -> Table:
    table = {"income": income, "education": education}[label]("race")
    return table.X, table.y, pd.DataFrame({"race": table.groups})


def students() -> Table:
    """Open University: passing or not, by gender, disability and age."""
    frame = _read("oulad_clean.csv")
    words = ["code_module", "code_presentation", "region", "highest_education", "imd_band"]
    numbers = frame[["num_of_prev_attempts", "studied_credits"]].to_numpy(float)
    X = np.column_stack([_indicators(frame, words), numbers])
    return X, _codes(frame.final_result.to_numpy()), frame[["gender", "disability", "age_band"]]


def compas() -> Table:
    """COMPAS: low, medium or high risk, by six races."""
    frame = _read("compas-scores-two-years.csv").dropna(subset=["score_text", "c_charge_degree"])
    counts = [f"juv_{each}_count" for each in ("fel", "misd", "other")]
    numbers = frame[["age", "priors_count", "two_year_recid", *counts]].to_numpy(float)
    X = np.column_stack([numbers, _indicators(frame, ["sex", "c_charge_degree"])])
    return X, _codes(frame.score_text.to_numpy(str)), frame[["race"]]


def law() -> Table:
    """Law school: quarters of the first year's marks, by two races."""
    frame = _read("law_school_clean.csv").dropna()
    X = frame[["lsat", "ugpa", "fulltime", "fam_inc", "male"]].to_numpy(float)
    return X, pd.qcut(frame.zfygpa, 4, labels=False).to_numpy(), frame[["race"]]


def credit() -> Table:
    """Credit cards: default or not, by sex, education and marriage."""
    frame, who = _read("credit-card-clients.csv"), ["SEX", "EDUCATION", "MARRIAGE"]
    y = frame.pop("default payment").to_numpy()
    return frame.drop(columns=who).to_numpy(float), y, frame[who].astype(str)


def dutch() -> Table:
    """Dutch census: two kinds of occupation, by sex and country of birth."""
    frame, who = _read("dutch.csv"), ["sex", "country_birth"]
    left_out = {*who, "age", "citizenship", "occupation"}
    X = _indicators(frame, [name for name in frame if name not in left_out])
    return X, frame.occupation.to_numpy(), frame[who].astype(str)


def geg(name: str, label: str, who: str) -> Callable[[], Table]:
    """Return a reader of a table of GEG."""

    def table() -> Table:
        frame = _read(f"geg/{name}.csv").iloc[:, 1:]
        X = frame.drop(columns=[label, who]).to_numpy(float)
        return X, _codes(frame[label].to_numpy()), frame[[who]].astype(str)

    return table


def synthetic(seed: int) -> Callable[[], Table]:
    """Return a reader of seven groups of which the smallest is a hundredth of the rows."""

    def table() -> Table:
        rng = np.random.default_rng(seed)
        group = rng.choice(7, 30_000, p=[0.5, 0.25, 0.12, 0.06, 0.04, 0.02, 0.01])
        X = rng.normal(size=(30_000, 6)) + 0.8 * rng.normal(size=(7, 6))[group]
        worth = X @ rng.normal(size=(6, 4)) + 0.5 * rng.normal(size=(7, 4))[group]
        y = (worth + 2 * rng.gumbel(size=worth.shape)).argmax(axis=1)
        return X, y, pd.DataFrame({"group": group.astype(str)})

    return table


CHOSEN_ON: dict[str, Callable[[], Table]] = {
    "income by race": lambda: _adult("income"),
    "education by race": lambda: _adult("education"),
    "students": students,
    "compas": compas,
    "law": law,
    "credit": credit,
    "dutch": dutch,
    "synthetic 0": synthetic(0),
}
"""Tables that the constants of ``r2b.sklearn.rule`` were chosen on."""

HELD_OUT: dict[str, Callable[[], Table]] = {
    "parkinson": geg("park", "score_cut", "sex"),
    "wine": geg("wine", "quality", "type"),
    "crime": geg("crime", "ViolentCrimesClass", "black_people"),
    "drugs": geg("drug", "y", "race"),
    "synthetic 1": synthetic(1),
    "synthetic 2": synthetic(2),
}


def learners() -> dict[str, Any]:
    """Return the learners."""
    from lightgbm import LGBMClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    trees = {"n_estimators": 30, "num_leaves": 15, "learning_rate": 0.15, "n_jobs": 1}
    return {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(tol=1e-3)),
        "LightGBM": LGBMClassifier(**trees, verbosity=-1, random_state=0),
    }


class Unshrunk(ParityPostprocessor):
    """Prices without offsets, bands or a choice: LinearPost's optimum."""

    def _rule(self, rows: Any, scores: Any, codes: Any, kind: Any) -> Any:
        import r2b.sklearn.rule as rule

        kept = rule.PLANS
        rule.PLANS = (Plan(give=0.0),)
        try:
            return super()._rule(rows, scores, codes, kind)
        finally:
            rule.PLANS = kept


def largest(report: ParityReport, fitted: ParityReport) -> float:
    """Return the largest difference between two groups of many rows."""
    many = {(each.family, each.group) for each in fitted.groups if each.n_rows >= LARGE}
    pairs = [
        each.disparity
        for each in report.pairs
        if {(each.family, each.group), (each.family, each.other)} <= many
    ]
    return max(pairs, default=0.0)


def measure(table: Table, learner: Any, n_rows: int, seed: int, epsilon: float) -> dict[str, Any]:
    """Fit on some rows and measure on others."""
    X, y, groups = table
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n_rows], order[n_rows : n_rows + MOST]
    groups = groups.reset_index(drop=True)
    names = groups.astype(str).agg("|".join, axis=1).to_numpy()
    # a value with a single row can be in one fold only
    train = train[pd.Series(names[train]).map(pd.Series(names[train]).value_counts()) > 1]
    test = test[np.isin(names[test], names[train]) & np.isin(y[test], y[train])]
    told = {"sensitive_features": groups.iloc[test], "y": y[test]}
    found: dict[str, Any] = {}
    begun = time.process_time()
    plain = learner.fit(X[train], y[train])
    found["plain_seconds"] = time.process_time() - begun
    found["plain_accuracy"] = float((plain.predict(X[test]) == y[test]).mean())
    options = {"epsilon": epsilon, "families": "marginal", "frontier": 0}
    for name, kind in (("r2b", ParityPostprocessor), ("no offsets", Unshrunk)):
        begun = time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = kind(learner, **options)
            model.fit(X[train], y[train], sensitive_features=groups.iloc[train])
        seconds = time.process_time() - begun
        report, fitted = model.parity_report(X[test], **told), model.parity_report()
        new = {
            (each.family, each.group, each.other): each for each in (*report.groups, *report.pairs)
        }
        met = [each for each in (*fitted.groups, *fitted.pairs) if each.verdict == "met"]
        again = [new[(each.family, each.group, each.other)] for each in met]
        found[name] = {
            "accuracy": report.accuracy,
            "majority": report.majority,
            "disparity": largest(report, fitted),
            "warns": any(issubclass(each.category, NotFairWarning) for each in caught),
            "says_plain": any(issubclass(each.category, DataWarning) for each in caught),
            "is_plain": model.decision_rule_.is_plain,
            "unfair": bool(report.not_met),
            "met": len(met),
            "met_wrongly": sum(each.disparity > each.epsilon + each.chance for each in again),
            "seconds": seconds,
        }
    return found


def main() -> None:
    """Measure all tables and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000, 6_000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.0, 0.05])
    parser.add_argument("--tables", nargs="+", default=[*CHOSEN_ON, *HELD_OUT])
    asked = parser.parse_args()
    rows = []
    for name in asked.tables:
        try:
            table = {**CHOSEN_ON, **HELD_OUT}[name]()
        except (FileNotFoundError, KeyError) as error:
            print(f"{name}: left out, {error}")
            continue
        sizes = sorted({min(n, int(0.67 * len(table[1]))) for n in asked.rows})
        for size in sizes:
            for title, learner in learners().items():
                for seed in range(asked.splits):
                    for epsilon in asked.epsilons:
                        facts = {"table": name, "held_out": name in HELD_OUT, "rows": size}
                        facts |= {"learner": title, "split": seed, "epsilon": epsilon}
                        found = measure(table, learner, size, seed, epsilon)
                        rows.append({**facts, **found})
                        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
        print(name, len(rows), flush=True)


if __name__ == "__main__":
    main()
