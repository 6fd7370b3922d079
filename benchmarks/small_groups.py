"""Measure fair models on tables with small or many groups, 2,000 and 6,000 rows to train on.

    R2B_DATA=FOLDER python -m benchmarks.small_groups [--splits 2] [--tables NAME ...]

Adult is part of the package. FOLDER may hold ``oulad_clean.csv``, ``law_school_clean.csv``,
``credit-card-clients.csv``, ``bank-full.csv`` and ``dutch.csv``
(github.com/tailequy/fairness_dataset), ``compas-scores-two-years.csv``
(github.com/propublica/compas-analysis), ``ham10000``, and the tables of
github.com/giordanoDaloisio/GEG in ``geg``. Writes JSON for ``scripts/make_small_groups_page.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from benchmarks.models_cases import Unavailable, _codes, _dermatology, education, income
from benchmarks.models_cases import _adult as _adult_table
from r2b._data.arrays import Floats
from r2b.errors import NotFairWarning
from r2b.sklearn import ParityPostprocessor
from r2b.sklearn.evidence import GroupParity, ParityReport, report_of
from r2b.sklearn.folds import code_probabilities
from r2b.sklearn.groups import TrueGroups
from r2b.sklearn.rule import FALLBACKS, Plan, ScoreRows, deviations, fit_prices, limits

RESULTS = Path(
    os.environ.get("RESULTS", Path(__file__).resolve().parent / "results" / "small_groups.json")
)
LARGE = 300  # new rows of a group that count as many
MOST = 10_000  # rows to measure on
Table = tuple[Any, Any, pd.DataFrame]


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(os.environ["R2B_DATA"]) / name)


def _indicators(frame: pd.DataFrame, names: list[str]) -> Any:
    return pd.get_dummies(frame[names].astype(str)).to_numpy(float)


def _adult(label: str, *who: str) -> Callable[[], Table]:
    def table() -> Table:
        found = {"income": income, "education": education}[label]("race")
        people = {name: _adult_table()[name].astype(str) for name in who}
        return found.X, found.y, pd.DataFrame(people)

    return table


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


def reoffending() -> Table:
    """COMPAS: an offence within two years or not, by race and sex."""
    frame = _read("compas-scores-two-years.csv").dropna(subset=["score_text", "c_charge_degree"])
    counts = [f"juv_{each}_count" for each in ("fel", "misd", "other")]
    numbers = frame[["age", "priors_count", *counts]].to_numpy(float)
    X = np.column_stack([numbers, _indicators(frame, ["c_charge_degree"])])
    return X, frame.two_year_recid.to_numpy(), frame[["race", "sex"]]


def lesions(*who: str) -> Callable[[], Table]:
    """Return a reader of HAM10000: seven diagnoses from picture features."""

    def table() -> Table:
        X, people = _dermatology()
        known = people.sex.isin(["male", "female"]).to_numpy()
        ages = pd.cut(people.age.fillna(50), [-1, 29, 44, 64, 200])
        found = people.assign(age_group=ages.astype(str))[known]
        return X[known], _codes(found.dx.to_numpy(str)), found[list(who)]

    return table


def bank() -> Table:
    """A bank's customers: a deposit or none, by marriage, age and education."""
    frame = _read("bank-full.csv")
    numbers = ["balance", "day", "duration", "campaign", "pdays", "previous"]
    words = ["job", "default", "housing", "loan", "contact", "month", "poutcome"]
    X = np.column_stack([frame[numbers].to_numpy(float), _indicators(frame, words)])
    ages = pd.cut(frame.age, [0, 30, 40, 50, 60, 100]).astype(str)
    people = frame.assign(age_group=ages)[["marital", "age_group", "education"]]
    return X, _codes(frame.y.to_numpy(str)), people


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
    "income by race": _adult("income", "race"),
    "education by race": _adult("education", "race"),
    "students": students,
    "compas": compas,
    "law": law,
    "credit": credit,
    "dutch": dutch,
    "lesions by age": lesions("age_group"),
    "synthetic 0": synthetic(0),
}
"""Tables that the plan of ``r2b.sklearn.rule`` was chosen on."""

HELD_OUT: dict[str, Callable[[], Table]] = {
    "income by sex and race": _adult("income", "sex", "race"),
    "education by sex and race": _adult("education", "sex", "race"),
    "lesions by sex and age": lesions("sex", "age_group"),
    "reoffending": reoffending,
    "bank": bank,
    "parkinson": geg("park", "score_cut", "sex"),
    "wine": geg("wine", "quality", "type"),
    "crime": geg("crime", "ViolentCrimesClass", "black_people"),
    "drugs": geg("drug", "y", "race"),
    "synthetic 1": synthetic(1),
    "synthetic 2": synthetic(2),
}
CROSSED = ("income by sex and race", "lesions by sex and age", "reoffending")
ODDS = ("income by race", "compas", "students", "dutch", "bank", "parkinson", "reoffending")
"""Tables that are measured by equalized odds as well."""

PLANS = {
    "no offsets": Plan(rounds=0, give=0.0),
    "full offsets": Plan(shrink=0.0),
    "wide": FALLBACKS[1],
}
"""Compared on all tables; "no offsets" is LinearPost's optimum."""


def learners() -> dict[str, Any]:
    """Return the learners."""
    from lightgbm import LGBMClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
        "LightGBM": LGBMClassifier(n_estimators=50, n_jobs=1, verbosity=-1, random_state=0),
    }


class Kept(ParityPostprocessor):
    """Keeps out-of-fold rows, so that plans can be compared on them."""

    def _fit_rules(self, rows: Any, scores: Any, codes: Any) -> None:
        self.rows = ScoreRows("decisions", scores, codes, rows.groups, rows.labels)
        super()._fit_rules(rows, scores, codes)


def largest(report: ParityReport, groups: TrueGroups) -> float:
    """Return the largest difference between two groups of many new rows."""
    many = {
        (each.name, each.criterion, group)
        for each, sizes in zip(groups.comparisons, groups.sizes(), strict=True)
        for group, size in zip(each.groups, sizes, strict=True)
        if size >= LARGE
    }
    pairs = [
        each.disparity
        for each in report.pairs
        if (each.family, each.criterion, each.group) in many
        and (each.family, each.criterion, each.other) in many
    ]
    return max(pairs, default=float("nan"))


def unfairness(rows: ScoreRows, fair: Floats) -> float:
    """Return how far group means are outside epsilon, in root mean square and less its noise.

    Groups count by their rows; of several comparisons the worst counts.
    """
    means = rows.groups.means(fair)
    worst, sd = 0.0, deviations(rows.groups, fair)
    for each, m, s, size in zip(
        rows.groups.comparisons, means, sd, rows.groups.sizes(), strict=True
    ):
        level, low, high = limits(each.bound, m, size)
        over = np.maximum(np.maximum(m - level - high, low - (m - level)), 0.0)
        excess = np.where(over > 0, over**2 - s**2, 0.0)
        worst = max(worst, float((size @ excess).sum() / size.sum()))
    return float(np.sqrt(worst))


def calibration_error(chances: Floats, right: Floats) -> float:
    """Return how far the largest probability is from being right, over 15 bins."""
    sure = chances.max(axis=1)
    hit = (chances == sure[:, None])[right > 0]
    places = np.minimum((15 * sure).astype(int), 14)
    return float(np.abs(np.bincount(places, hit - sure, 15)).sum() / len(sure))


def seconds_of(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor's seconds of a call, and its result."""
    begun = time.process_time()
    result = call()
    return time.process_time() - begun, result


def key_of(each: GroupParity) -> tuple[str, ...]:
    """Return what tells an entry of a report from others."""
    return each.family, each.criterion, each.group, each.other


def measure(
    name: str, table: Table, learner: Any, size: int, seed: int, criterion: str, epsilon: float
) -> dict[str, Any]:
    """Fit on some rows and measure on others."""
    X, y, groups = table
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:size], order[size : size + MOST]
    groups = groups.reset_index(drop=True).astype(str)
    names = groups.agg("|".join, axis=1).to_numpy()
    # folds need several rows of a crossing
    train = train[pd.Series(names[train]).map(pd.Series(names[train]).value_counts()) > 4]
    test = test[np.isin(names[test], names[train]) & np.isin(y[test], y[train])]
    told = {"sensitive_features": groups.iloc[test], "y": y[test]}
    plain_seconds, plain = seconds_of(lambda: clone(learner).fit(X[train], y[train]))
    plain_predicts, _ = seconds_of(lambda: plain.predict(X[test]))
    families = "crossed" if name in CROSSED else "marginal"
    model = Kept(learner, epsilon=epsilon, criterion=criterion, families=families)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seconds, _ = seconds_of(
            lambda: model.fit(X[train], y[train], sensitive_features=groups.iloc[train])
        )
    predicts, _ = seconds_of(lambda: model.predict(X[test]))
    report, fitted = model.parity_report(X[test], **told), model.parity_report()
    # what a third of the rows would have shown
    part = np.arange(len(test)) < max(len(train) // 2, 500)
    told_part = {"sensitive_features": groups.iloc[test[part]], "y": y[test[part]]}
    smaller = model.parity_report(X[test[part]], **told_part)
    entries, warned = [], {key_of(each) for each in (*fitted.not_met, *fitted.likely)}
    for each in (*fitted.groups, *fitted.pairs):
        new = [
            [other.disparity, other.chance]
            for there in (report, smaller)
            for other in (*there.groups, *there.pairs)
            if key_of(other) == key_of(each)
        ]
        if len(new) == 2:
            pair = bool(each.other)
            named = key_of(each) in warned
            found = [pair, each.verdict, each.n_rows, each.disparity, each.chance, *new, named]
            entries.append(found)
    classes = model.comparisons_.schema.classes.values
    right = np.asarray(y[test][:, None] == classes, np.float64)
    cells = model.comparisons_.cells_of(groups.iloc[test], None, len(test))
    here = model.comparisons_.of_rows(cells, right.argmax(axis=1), None).present()
    scores = model._scores(X[test])
    codes = code_probabilities(model.group_estimator_, X[test], here.n_codes)
    weight, rule = np.full(len(test), 1.0 / len(test)), model.decision_rule_
    decided = {"plain": np.eye(len(classes))[scores.argmax(axis=1)]}
    if epsilon == 0.0 and criterion == "demographic_parity":
        for title, plan in PLANS.items():
            other = replace(rule, prices=fit_prices(model.rows, plan))
            decided[title] = other.apply(scores, model.comparisons_, codes)
    decided["r2b"] = rule.apply(scores, model.comparisons_, codes)
    methods = {}
    for title, rows in decided.items():
        found = report_of("decisions", here, rows, right, weight)
        new_rows = ScoreRows("decisions", scores, codes, here, right)
        methods[title] = {
            "accuracy": found.accuracy,
            "disparity": largest(found, here),
            "spread": unfairness(new_rows, rows),
        }
    chances = model.probability_rule_.apply(scores, model.comparisons_, codes)
    frontier = model.frontier_
    return {
        "methods": methods,
        "majority": report.majority,
        "is_plain": model.decision_rule_.is_plain,
        "warns": any(issubclass(each.category, NotFairWarning) for each in caught),
        "warns_of_groups": bool(warned),
        "says": len(caught),
        "entries": entries,
        "fit_ratio": seconds / plain_seconds,
        "predict_ratio": predicts / plain_predicts,
        "calibration": [calibration_error(each, right) for each in (scores, chances)],
        "zeros": int((chances == 0).sum() - (scores == 0).sum()),
        "frontier": [frontier.accuracy[0], frontier.disparity[0]],
        "disparity": report.disparity,
    }


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
        except (FileNotFoundError, KeyError, Unavailable) as error:
            print(f"{name}: left out, {error}")
            continue
        sizes = sorted({min(n, int(0.67 * len(table[1]))) for n in asked.rows})
        criteria = ["demographic_parity"] + ["equalized_odds"] * (name in ODDS)
        for case in product(learners(), sizes, range(asked.splits), criteria, asked.epsilons):
            learner, size, split, criterion, epsilon = case
            if criterion != "demographic_parity" and epsilon:
                continue
            facts = {"table": name, "held_out": name in HELD_OUT, "rows": size, "split": split}
            facts |= {"learner": learner, "criterion": criterion, "epsilon": epsilon}
            found = measure(name, table, learners()[learner], size, split, criterion, epsilon)
            rows.append({**facts, **found})
            RESULTS.write_text(json.dumps(rows, default=float) + "\n")
        print(name, len(rows), flush=True)


if __name__ == "__main__":
    main()
