"""Prices that were stored, applied to what comes later: batches of a stream give the labels of the
whole, and what is new has a rule.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import r2b
from r2b.errors import UnseenError

LEVELS, FORMS = ["low", "middle", "high"], ("soft", "sample", "expand")


def people(n: int = 900, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    sex, region = rng.integers(0, 2, n), rng.integers(0, 3, n)
    level = np.minimum(rng.poisson(0.6 + 0.7 * sex), 2)
    columns = {
        "id": rng.permutation(n) * 11 + seed,
        "level": np.array(LEVELS)[level],
        "sex": np.array(["f", "m"])[sex],
    }
    return pa.table({**columns, "region": np.array(["n", "s", "w"])[region]})


PEOPLE = people()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> r2b.FairLabels:
    path = tmp_path_factory.mktemp("prices") / "prices.json"
    r2b.scan(PEOPLE).debias(
        "level", sensitive_features=["sex", "region"], families="marginal", epsilon=0.01
    ).save(path)
    return r2b.load(path)


def applied(batch: Any, fair: r2b.FairLabels, **options: Any) -> r2b.FairLabels:
    return r2b.scan(batch).transform(fair, "level", sensitive_features=["sex", "region"], **options)


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    new = [
        name
        for name in table.column_names
        if name.startswith("level_fair") and not name.endswith("_row")
    ]
    order = [("id", "ascending")] + ([("level_fair", "ascending")] if len(new) == 2 else [])
    return table.select(["id", *new]).sort_by(order).to_pylist()


def batches(table: pa.Table, cut: int = 250) -> list[pa.Table]:
    return [table.slice(start, cut) for start in range(0, table.num_rows, cut)]


NEW = {
    "id": [1, 2, 3, 4, 5],
    "level": ["low", "high", "top", "low", "middle"],
    "sex": ["x", "f", "f", "m", "m"],
}
NEW |= {"region": ["n", "e", "n", "s", "w"]}


def overall(fair: r2b.FairLabels) -> np.ndarray:
    """The mean of the fair labels of the fitted rows, from these labels."""
    labels = fair.transform(
        PEOPLE["level"], sensitive_features={"sex": PEOPLE["sex"], "region": PEOPLE["region"]}
    )
    return labels.mean(axis=0)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_new_gets_the_labels_of_all(stored: r2b.FairLabels, form: str) -> None:
    batch = pa.table(NEW)
    with pytest.raises(UnseenError, match="for which the prices were not found"):
        applied(batch, stored)
    frame = applied(batch, stored, unseen="overall")
    assert frame.status is stored.status
    soft = frame.frame("soft")
    assert soft.column_names[4:] == ["level_fair_high", "level_fair_low", "level_fair_middle"]
    matrix = np.column_stack([soft[name].to_numpy() for name in soft.column_names[4:]])
    assert np.abs(matrix[:3] - overall(stored)).max() < 1e-9  # a new sex, a new region, a new level
    known = applied(batch.slice(3), stored).frame("soft")
    assert np.array_equal(
        matrix[3:], np.column_stack([known[name].to_numpy() for name in known.column_names[4:]])
    )
    # The same in memory and, as it follows from the key, in batches of any size.
    features = {name: batch[name] for name in ("sex", "region")}
    assert np.array_equal(
        stored.transform(batch["level"], sensitive_features=features, unseen="overall"), matrix
    )
    key = {"key": "id"} if form == "sample" else {}
    parts = [
        applied(part, stored, unseen="overall").frame(form, **key) for part in batches(batch, 1)
    ]
    assert in_order(pa.concat_tables(parts)) == in_order(frame.frame(form, **key))


def test_what_is_new_gets_the_same_labels_on_every_engine(
    stored: r2b.FairLabels, tmp_path: Path
) -> None:
    duckdb, pl = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    pq = pytest.importorskip("pyarrow.parquet")
    later = pa.concat_tables([people(200, seed=7), pa.table(NEW, schema=PEOPLE.schema)])
    pq.write_table(later, tmp_path / "later.parquet")
    with duckdb.connect() as database:
        database.register("later", later)
        for form in FORMS:
            key = {"key": "id"} if form == "sample" else {}
            known = in_order(applied(later, stored, unseen="overall").frame(form, **key))
            relation = applied(database.table("later"), stored, unseen="overall")
            assert in_order(relation.frame(form, **key).to_arrow_table()) == known
            assert (
                in_order(
                    applied(pl.from_arrow(later).lazy(), stored, unseen="overall")
                    .frame(form, **key)
                    .collect()
                    .to_arrow()
                )
                == known
            )
            file = applied(tmp_path / "later.parquet", stored, unseen="overall")
            file.write(tmp_path / f"{form}.parquet", form, **key)
            assert in_order(pq.read_table(tmp_path / f"{form}.parquet")) == known
            made = relation.sql("duckdb", table="later", form=form, **key)
            assert in_order(database.sql(made.select).to_arrow_table()) == known
        rounded = applied(later, stored, unseen="overall").frame("round", key="id")
        assert set(rounded["level_fair"].to_pylist()) == set(LEVELS)


def test_a_new_crossing_of_known_values_has_their_prices_in_families_of_single_columns() -> None:
    table = PEOPLE.filter(
        pa.array(
            [
                not (s == "f" and r == "w")
                for s, r in zip(
                    PEOPLE["sex"].to_pylist(), PEOPLE["region"].to_pylist(), strict=True
                )
            ]
        )
    )
    missing = pa.table(
        {"id": [1, 2], "level": ["low", "high"], "sex": ["f", "f"], "region": ["w", "w"]}
    )
    features = {name: missing[name] for name in ("sex", "region")}
    for families, priced in (("marginal", True), ("crossed", False)):
        fair = r2b.scan(table).debias(
            "level", sensitive_features=["sex", "region"], families=families
        )
        found = applied(missing, fair, unseen="overall").frame("soft")
        matrix = np.column_stack([found[name].to_numpy() for name in found.column_names[4:]])
        if priced:
            assert np.array_equal(
                matrix,
                dataclasses.replace(fair, rows=None).transform(
                    missing["level"], sensitive_features=features
                ),
            )
        else:
            assert np.abs(matrix - fair.certificate.means.T @ fair.families.share).max() < 1e-9


@pytest.mark.parametrize("kind", ["distance", "agreement", "unchanged"])
def test_probabilities_of_a_new_group_are_those_of_all(kind: str) -> None:
    rng = np.random.default_rng(0)
    sex = np.array(["f", "m"])[rng.integers(0, 2, 300)]
    scores = rng.dirichlet([1, 2, 3], 300)
    scores[sex == "f"] = scores[sex == "f"][:, ::-1]
    settings: dict[str, Any] = {
        "unchanged": {"epsilon": 1.0},
        "agreement": {"objective": "agreement"},
    }.get(kind, {"epsilon": 0.01})
    fair = r2b.debias(scores, sensitive_features={"sex": sex}, **settings)
    new = fair.transform(scores[:4], sensitive_features={"sex": ["x", *sex[1:4]]}, unseen="overall")
    assert np.array_equal(
        new[1:], fair.transform(scores[1:4], sensitive_features={"sex": sex[1:4]})
    )
    assert np.abs(new[0] - fair.certificate.means.T @ fair.families.share).max() < 1e-9
    table = pa.table({"p": scores[:4].tolist(), "sex": ["x", *sex[1:4].tolist()]})
    found = (
        r2b.scan(table)
        .transform(fair, "p", sensitive_features="sex", unseen="overall")
        .frame("soft")
    )
    assert (
        np.abs(
            np.column_stack([found[name].to_numpy() for name in found.column_names[2:]]) - new
        ).max()
        < 1e-12
    )
