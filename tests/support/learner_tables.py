"""The sample of Adult that learners are trained on, and small tables of fair labels."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

import r2b
from r2b.datasets import load_adult


class Split(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    sex: np.ndarray


@cache
def injected_adult(n_rows: int = 6_000) -> tuple[Split, Split]:
    """Adult's education by sex, half of the labels set by sex as in the paper: two thirds of
    the rows to learn from, the others held out.

    Features include sex itself, so that a learner can take up all of the bias.
    """
    table, rng = load_adult(), np.random.default_rng(0)
    rows = rng.permutation(len(table))[:n_rows]
    sex = table["sex"][rows]
    by_sex = np.where(sex == "Male", table.education_order[0], table.education_order[1])
    y = np.where(rng.random(n_rows) < 0.5, by_sex, table["education"][rows])
    numbers = [
        table[name][rows] for name in ("age", "hours-per-week", "capital-gain", "capital-loss")
    ]
    names = ("workclass", "occupation", "marital-status", "relationship", "sex", "race", "income")
    codes = [np.unique(table[name][rows], return_inverse=True)[1] for name in names]
    X = np.column_stack(numbers + codes).astype(np.float64)
    cut = n_rows * 2 // 3
    return Split(X[:cut], y[:cut], sex[:cut]), Split(X[cut:], y[cut:], sex[cut:])


@cache
def fair_adult() -> r2b.FairLabels:
    train, _ = injected_adult()
    return r2b.debias(train.y, sensitive_features=train.sex)


def small(soft: bool, weighted: bool) -> r2b.FairLabels:
    rng = np.random.default_rng(1)
    groups = rng.choice(["f", "m", "x"], 60)
    y = (
        rng.dirichlet(np.ones(4), 60)
        if soft
        else rng.choice(list("abcd"), 60, p=[0.4, 0.3, 0.2, 0.1])
    )
    return r2b.debias(
        y, sensitive_features=groups, sample_weight=rng.random(60) + 0.1 if weighted else None
    )
