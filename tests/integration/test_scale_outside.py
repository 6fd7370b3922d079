"""Prices and labels against arithmetic outside the package, by the key of each row.

That every engine gives what memory gives is tested in test_scale_backends.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import plain_arithmetic as plain
import pytest
from databases import open_database

import r2b

pa = pytest.importorskip("pyarrow")

N, SEED, CLOSE = 600, 5, 1e-9
KEY, LABEL, ATTRIBUTES = "the id", "a.b", ['"job"', "sex "]
CLASSES, SCORES = ["d'accord", "no", "per haps", "yes, 100%"], ["p.0", '"p"', "p ", "P 3"]
NAMES: dict[str, Any] = {"classes": LABEL, "probabilities": SCORES}
ASKED: dict[str, Any] = {"sensitive_features": ATTRIBUTES, "epsilon": 0.08, "tol": 1e-11}


@cache
def people() -> tuple[Any, dict[str, Any]]:
    """Return the table, with text in chunks, and its columns as codes and numbers."""
    rng = np.random.default_rng(4)
    job, sex = rng.integers(0, 2, N), rng.integers(0, 2, N)
    group, keys = 2 * job + sex, rng.permutation(N) * 7_000_000_001 - 10**12
    old = np.minimum(rng.poisson(0.9 + 0.25 * group), 3)
    scores = rng.dirichlet(np.full(4, 0.6), N)
    scores[:, 0] *= 1 + group
    scores[:, 1] *= 1 + 2 * (group == 2)
    scores /= scores.sum(axis=1, keepdims=True)
    text = np.array(CLASSES)[old], np.array(["clerk", "ünit head"])[job], np.array(["f", "m"])[sex]
    columns = {KEY: keys, **dict(zip([LABEL, *ATTRIBUTES], text, strict=True))}
    table = pa.table({**columns, **{name: scores[:, k] for k, name in enumerate(SCORES)}})
    chunked = pa.concat_tables([table.slice(start, 97) for start in range(0, N, 97)])
    return chunked, {"keys": keys, "old": old, "group": group, "scores": scores}


@cache
def known(case: str) -> dict[str, Any]:
    """Work out prices and labels, in the order of the rows."""
    given = people()[1]
    keys, group, old = given["keys"], given["group"], given["old"]
    y = np.eye(4)[old] if case == "classes" else given["scores"]
    prices, x = plain.optimum(y, np.ones(N), group, ASKED["epsilon"])
    rounded = plain.rounded_rows(x, group, keys, SEED)
    if case == "classes":
        rounded = plain.rounded_classes(old, x, group, keys, SEED)
    names = CLASSES if case == "classes" else SCORES
    codes = {"round": rounded, "sample": plain.sampled(x, keys, SEED)}
    return {"prices": prices, "soft": x} | {
        form: [names[code] for code in each] for form, each in codes.items()
    }


def test_the_arithmetic_moves_something() -> None:
    for case in NAMES:
        assert (np.abs(known(case)["prices"]) > 1e-3).sum() > 3
    changed = zip(known("classes")["round"], people()[0][LABEL].to_pylist(), strict=True)
    assert sum(new != old for new, old in changed) > 10


def check(fair: r2b.FairLabels, case: str, labels: dict[str, Any]) -> None:
    wanted = known(case)
    assert fair.status.value == "solved"
    assert np.abs(fair.prices - wanted["prices"]).max() < CLOSE
    assert np.abs(labels["soft"] - wanted["soft"]).max() < CLOSE
    assert labels["round"] == wanted["round"] and labels["sample"] == wanted["sample"]


def in_order(table: Any, form: str) -> Any:
    """Return the new columns of a table in the order of the rows."""
    place = {key: row for row, key in enumerate(map(int, table[KEY].to_pylist()))}
    table = table.take([place[key] for key in people()[1]["keys"].tolist()])
    if form != "soft":
        return table[table.column_names[-1]].to_pylist()
    return np.column_stack([table[name] for name in table.column_names[-4:]]).astype(float)


@pytest.mark.parametrize("case", NAMES)
def test_rows_in_memory(case: str) -> None:
    table, given = people()
    y = table[LABEL] if case == "classes" else {name: table[name] for name in SCORES}
    features = {name: table[name] for name in ATTRIBUTES}
    fair = r2b.debias(y, **ASKED | {"sensitive_features": features})
    drawn = {form: getattr(fair, form)(SEED, key=given["keys"]) for form in ("round", "sample")}
    check(
        fair,
        case,
        {"soft": fair.soft_labels}
        | {form: [str(each) for each in labels] for form, labels in drawn.items()},
    )


@pytest.mark.parametrize("case", NAMES)
@pytest.mark.parametrize("way", ["table", "CSV"])
def test_rows_of_a_scan(way: str, case: str, tmp_path: Path) -> None:
    """Few numbers are read into memory, so that probabilities are solved in blocks."""
    table: Any = people()[0]
    if way == "CSV":
        with (tmp_path / "people.csv").open("w", encoding="utf-8", newline="") as lines:
            rows = (row.values() for row in table.to_pylist())
            csv.writer(lines).writerows([table.column_names, *rows])
        table = tmp_path / "people.csv"
    fair = r2b.scan(table).debias(NAMES[case], **ASKED, sample_entries=200)
    labels = {}
    for form in ("soft", "round", "sample"):
        made = fair.frame(form, **({} if form == "soft" else {"key": KEY, "random_state": SEED}))
        made = pa.Table.from_batches(made) if way == "CSV" else made
        labels[form] = in_order(made, form)
    check(fair, case, labels)


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgres"])
def test_rows_of_a_database(dialect: str) -> None:
    table = people()[0]
    with open_database(dialect) as database:
        kinds = {KEY: "whole"} | dict.fromkeys([LABEL, *ATTRIBUTES], "text")
        database.fill(
            "people", {name: (kind, table[name].to_pylist()) for name, kind in kinds.items()}
        )
        query = r2b.count_query(dialect, "people", LABEL, sensitive_features=ATTRIBUTES)
        fair = r2b.debias_counts(database.columns(query), LABEL, **ASKED)
        labels = {}
        for form in ("soft", "round", "sample"):
            key = {} if form == "soft" else {"key": KEY, "random_state": SEED}
            made = fair.sql(dialect, table="people", form=form, **key)
            labels[form] = in_order(pa.table(database.columns(made.select)), form)
    check(fair, "classes", labels)
