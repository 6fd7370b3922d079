"""What is Spark's own about a Spark frame: names, types and gaps as Spark has them, partitions, what is kept and what is left behind.

That prices, proof and labels are those of rows in memory is tested for every place at once, in
test_scale_backends.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import r2b
from r2b._solve.oracle.blocks import BlockTask, Sums
from r2b.engines.spark import SparkBlocks, SparkSource
from r2b.errors import ProbabilityError

pa = pytest.importorskip("pyarrow")
DRAWN = {"key": "the.id", "random_state": 5}
FORMS = [("soft", {}), ("expand", {}), ("sample", DRAWN), ("round", DRAWN)]


@pytest.fixture(scope="module")
def strange(spark: Any) -> Any:
    """A frame with names that Spark reads in its own way, and types of many kinds."""
    rows = [
        (
            k,
            "abc"[k * k % 3],
            k % 4,
            "fm"[k % 5 // 3],
            Decimal(k),
            datetime(2024, 3, 10, k % 24),
            {"a": k},
            (k, "x"),
            k,
            -k,
        )
        for k in range(90)
    ]
    schema = (
        "`the.id` bigint NOT NULL, Job string NOT NULL COMMENT 'what they do', job int, `s``ex` string, `a b` decimal(12,2), "
        "seen timestamp, m map<string,int>, s struct<n: int NOT NULL, t: string>, twice int, twice int"
    )
    return spark.createDataFrame(rows, schema).repartition(3)


def soft_people(n: int, n_classes: int = 4) -> Any:
    rng = np.random.default_rng(n)
    sex = rng.integers(0, 2, n)
    labels = rng.dirichlet(np.ones(n_classes), n)
    labels[:, 0] *= 1 + 3 * sex
    labels /= labels.sum(axis=1, keepdims=True)
    return pa.table(
        {
            "id": np.arange(n),
            "p": pa.array(list(labels)),
            "sex": np.array(list("fm"))[sex],
            "w": rng.gamma(2.0, 1.0, n),
        }
    )


def matrix(table: Any, names: Iterable[str]) -> Any:
    return np.column_stack([table[name].to_numpy() for name in names])


@pytest.mark.parametrize(("form", "options"), FORMS)
def test_old_columns_keep_names_types_gaps_and_comments(
    strange: Any, form: Any, options: dict[str, Any]
) -> None:
    fair = r2b.scan(strange).debias("Job", sensitive_features="s`ex", epsilon=0.01)
    made = fair.frame(form, **options)
    old = strange.schema.fields
    assert made.schema.fields[: len(old)] == old
    assert [each.metadata for each in made.schema.fields[: len(old)]] == [
        each.metadata for each in old
    ]
    known = {row[0]: tuple(row) for row in strange.collect()}
    for row in made.collect():
        assert tuple(row)[: len(old)] == known[row[0]]
    if form != "soft":
        assert made.schema["Job_fair"].dataType == strange.schema.fields[1].dataType


def test_a_name_that_differs_in_capitals_is_another_column(strange: Any) -> None:
    by_number = r2b.scan(strange).debias("job", sensitive_features="s`ex", epsilon=0.01)
    by_name = r2b.scan(strange).debias("Job", sensitive_features="s`ex", epsilon=0.01)
    assert (
        by_number.classes.tolist() == [0, 1, 2, 3]
        and by_name.classes.tolist() == ["a", "b", "c"][: len(by_name.classes)]
    )


def test_nulls_and_nans_are_one_group_and_every_row_stays(spark: Any) -> None:
    rng = np.random.default_rng(1)
    ages = [None, float("nan"), 1.5, -0.0, 0.0]
    rows = [(k, "ab"[int(rng.random() < 0.2 + 0.1 * (k % 5))], ages[k % 5]) for k in range(300)]
    frame = spark.createDataFrame(rows, "id int, y string, age double").repartition(2)
    fair = r2b.scan(frame).debias("y", sensitive_features="age", epsilon=0.01, missing="group")
    y, age = [row[1] for row in rows], [row[2] for row in rows]
    known = r2b.debias(
        y, sensitive_features={"age": pa.array(age, pa.float64())}, epsilon=0.01, missing="group"
    )
    assert np.abs(fair.prices - known.prices).max() < 1e-9
    found = fair.frame("soft").toArrow().sort_by("id")
    assert found.num_rows == 300
    assert np.abs(matrix(found, ["y_fair_a", "y_fair_b"]) - known.soft_labels).max() < 1e-9
    assert fair.frame("round", key="id", random_state=2).toArrow().sort_by("id")[
        "y_fair"
    ].to_pylist() == list(known.round(2, key=[row[0] for row in rows]))


def test_texts_that_a_collation_holds_for_equal_are_two_classes(spark: Any) -> None:
    rows = [(k, "aAb"[k % 3], "fm"[k % 7 // 4]) for k in range(120)]
    frame = spark.createDataFrame(rows, "id int, y string collate UTF8_LCASE, sex string")
    fair = r2b.scan(frame).debias("y", sensitive_features="sex")
    assert fair.classes.tolist() == ["A", "a", "b"]
    known = r2b.debias(
        [row[1] for row in rows], sensitive_features={"sex": [row[2] for row in rows]}
    )
    rounded = sorted((row["id"], row["y_fair"]) for row in fair.frame("round", key="id").collect())
    assert [label for _, label in rounded] == list(known.round(0, key=np.arange(120)))
    expanded = fair.frame("expand").toArrow()
    assert abs(sum(expanded["y_fair_weight"].to_pylist()) - 120) < 1e-9


def test_moments_are_classes_in_any_time_zone(spark: Any) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = [(k, datetime(2024, 11, 3, k % 3), "fm"[k % 7 // 4]) for k in range(100)]
        frame = spark.createDataFrame(rows, "id int, seen timestamp, sex string")
        fair = r2b.scan(frame).debias("seen", sensitive_features="sex")
        assert fair.frame("soft").toArrow().num_rows == 100
        weights = fair.frame("expand").groupBy("id").sum("seen_fair_weight").collect()
        assert len(weights) == 100 and all(abs(row[1] - 1) < 1e-12 for row in weights)
        kept = fair.frame("sample", key="id").where("seen = seen_fair").count()
        assert 50 < kept <= 100
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_partitions_without_rows_do_no_harm(spark: Any) -> None:
    table = soft_people(12)
    frame = spark.createDataFrame(table).repartition(3).where("id < 7").repartition(6, "sex")
    fair = r2b.scan(frame).debias("p", sensitive_features="sex", epsilon=0.02, sample_entries=0)
    few = table.slice(0, 7)
    known = r2b.debias(
        np.array(few["p"].to_pylist()), sensitive_features={"sex": few["sex"]}, epsilon=0.02
    )
    found = fair.frame("soft").toArrow().sort_by("id")
    assert np.abs(matrix(found, [f"p_fair_{k}" for k in range(4)]) - known.soft_labels).max() < 1e-9


@pytest.fixture(scope="module")
def probabilities(spark: Any) -> Any:
    return spark.createDataFrame(soft_people(800)).repartition(4)


def test_a_solve_is_a_few_passes_and_leaves_nothing_behind(
    spark: Any, probabilities: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[str] = []
    plain = SparkBlocks.reduce

    def counted(self: SparkBlocks, task: BlockTask) -> Sums:
        passes.append(type(task).__name__)
        return plain(self, task)

    monkeypatch.setattr(SparkBlocks, "reduce", counted)
    settings = dict(spark.conf.getAll)
    fair = r2b.scan(probabilities).debias("p", sensitive_features="sex", epsilon=0.01)
    assert fair.status.ok
    # All rows are at hand: one pass brings them, the others confirm.
    assert passes[0] == "Draw" and len(passes) <= 5
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0
    assert dict(spark.conf.getAll) == settings


def test_results_that_spark_puts_together_are_those_put_together_here(
    spark: Any, probabilities: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = spark.createDataFrame(
        pa.table({"id": range(300), "job": list("aab" * 100), "sex": list("fmm" * 50 + "ffm" * 50)})
    )
    found = []
    for at_home in (1 << 26, -1):
        monkeypatch.setattr("r2b.engines.spark._AT_HOME", at_home)
        monkeypatch.setattr("r2b.engines.spark._REDUCERS", 2)
        prices = r2b.scan(probabilities).debias("p", sensitive_features="sex", epsilon=0.01).prices
        made = (
            r2b.scan(classes.repartition(4))
            .debias("job", sensitive_features="sex")
            .frame("round", key="id")
        )
        found.append((prices, {row["id"]: row["job_fair"] for row in made.collect()}))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-9)
    assert found[0][1] == found[1][1]
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0


def test_a_failed_solve_leaves_nothing_behind(spark: Any, probabilities: Any) -> None:
    from pyspark.sql import functions

    lower = functions.when(
        functions.col("id") == 700, functions.array(*[functions.lit(0.1)] * 4)
    ).otherwise(functions.col("p"))
    with pytest.raises(
        ProbabilityError, match=r"In partition \d, row \d+: .* sums to 0\.4"
    ) as caught:
        r2b.scan(probabilities.withColumn("p", lower)).debias("p", sensitive_features="sex")
    assert caught.value.facts["place"].startswith("partition")
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0


def test_rounded_probabilities_are_the_same_every_time_the_frame_is_used(
    probabilities: Any,
) -> None:
    fair = r2b.scan(probabilities).debias("p", sensitive_features="sex", epsilon=0.01)
    rounded = fair.frame("round", key="id", random_state=1)
    first, second = (rounded.toArrow().sort_by("id") for _ in range(2))
    assert first.equals(second)
    # Every class of every group is kept to within a row, over all partitions.
    soft = fair.frame("soft").toArrow().sort_by("id")
    for sex in "fm":
        mine = np.array(first["sex"].to_pylist()) == sex
        counts = np.bincount(first["p_fair"].to_numpy()[mine], minlength=4)
        assert (
            np.abs(counts - matrix(soft, [f"p_fair_{k}" for k in range(4)])[mine].sum(axis=0)).max()
            <= 1 + 1e-9
        )


def test_batches_come_partition_by_partition_with_their_place(probabilities: Any) -> None:
    batches = list(SparkSource(probabilities).batches(["id", "sex"]))
    assert [batch.place for batch in batches] == [f"partition {k}" for k in range(4)]
    assert sorted(
        number for batch in batches for number in batch.columns["id"].to_pylist()
    ) == list(range(800))


def test_a_weight_is_multiplied_in_when_rows_are_repeated(spark: Any) -> None:
    rows = [(k, "abc"[k * k % 3], "fm"[k % 5 // 3], k % 7) for k in range(90)]
    frame = spark.createDataFrame(rows, "id int, y string, sex string, times int").repartition(2)
    fair = r2b.scan(frame).debias(
        "y", sensitive_features="sex", sample_weight="times", epsilon=0.01
    )
    weights = {
        row["id"]: row["w"]
        for row in fair.frame("expand")
        .groupBy("id")
        .agg({"y_fair_weight": "sum"})
        .toDF("id", "w")
        .collect()
    }
    assert max(abs(weights[row[0]] - row[3]) for row in rows) < 1e-12


def test_a_column_may_be_called_count(spark: Any) -> None:
    rows = [(k, "abc"[k % 7 % 3], "fm"[k % 5 // 3]) for k in range(90)]
    named = spark.createDataFrame(rows, "id bigint, count string, rows string").repartition(3)
    known = r2b.debias(
        [row[1] for row in rows], sensitive_features=[row[2] for row in rows], epsilon=0.01
    )
    found = r2b.scan(named).debias("count", sensitive_features="rows", epsilon=0.01)
    assert found.classes.tolist() == ["a", "b", "c"]
    assert np.abs(found.prices - known.prices).max() < 1e-9
    assert found.frame("round", key="id").count() == 90
    other = r2b.scan(named).debias("rows", sensitive_features="count", epsilon=0.01)
    assert other.groups.tolist() == ["a", "b", "c"]
