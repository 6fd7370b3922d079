"""Spark frames: names, types and gaps as Spark has them, typed errors, streams, pipelines.

That prices, certificate and labels are those of rows in memory is tested for every kind of table at
once, in test_scale_backends.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spark_sessions import skip_without_spark

import r2b
from r2b._solve.oracle import Reduction
from r2b._solve.oracle.blocks import Sums
from r2b.errors import (
    EmptyError,
    InputError,
    MissingExtraError,
    MissingValueError,
    ParameterError,
    ProbabilityError,
    R2BError,
    UnseenError,
    WeightError,
)

skip_without_spark()

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from pyspark.errors import PySparkException  # noqa: E402
from pyspark.ml import Pipeline, PipelineModel  # noqa: E402
from pyspark.ml.feature import SQLTransformer  # noqa: E402

from r2b.engines.spark import SparkBlocks, SparkSource, mapped, set_up_errors  # noqa: E402
from r2b.engines.spark_ml import LabelDebiaser, LabelDebiaserModel  # noqa: E402

N = 300
FORMS = ("soft", "expand", "sample", "round")


def people(n: int = N, seed: int = 1) -> Any:
    """Return rows with a key, classes, probabilities, weights and two attributes."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    scores = rng.dirichlet(np.ones(3), n)
    scores[:, 0] *= 1 + 3 * sex
    return pa.table(
        {
            "id": rng.permutation(n),
            "level": np.array(["low", "middle", "high"])[np.minimum(rng.poisson(1.0 + sex), 2)],
            "p": pa.array(list(scores / scores.sum(axis=1, keepdims=True))),
            "sex": np.array(["f", "m"])[sex],
            "region": np.array(["n", "s"])[rng.integers(0, 2, n)],
            "w": rng.integers(0, 7, n),
        }
    )


PEOPLE = people()
ASKED: dict[str, Any] = {"sensitive_features": ["sex", "region"], "families": "marginal"}
ASKED |= {"epsilon": 0.01}


def drawn(form: str) -> dict[str, Any]:
    return {"key": "id", "random_state": 4} if form in ("sample", "round") else {}


def in_order(table: Any, label: str = "level") -> list[dict[str, Any]]:
    """Return the new columns by key; rows of Spark have no order."""
    table = table if isinstance(table, pa.Table) else table.toArrow()
    new = [name for name in table.column_names if name.startswith(f"{label}_fair")]
    new = [name for name in new if not name.endswith("_row")]
    order = [("id", "ascending"), (new[0], "ascending")]
    return table.select(["id", *new]).sort_by(order).to_pylist()


def known(form: str, table: Any = PEOPLE) -> list[dict[str, Any]]:
    return in_order(r2b.scan(table).debias("level", **ASKED).frame(form, **drawn(form)))


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return spark.createDataFrame(PEOPLE).coalesce(2)


def test_old_columns_keep_names_types_gaps_and_comments(spark: Any) -> None:
    rows = [
        (
            *(k, "abc"[k * k % 3], k % 4, "fm"[k % 5 // 3], Decimal(k)),
            *(datetime(2024, 3, 10, k % 24), {"a": k}, (k, "x"), k, -k),
        )
        for k in range(60)
    ]
    schema = (
        "`the.id` bigint NOT NULL, Job string NOT NULL COMMENT 'what they do', job int, "
        "`s``ex` string, `a b` decimal(12,2), seen timestamp, m map<string,int>, "
        "s struct<n: int NOT NULL, t: string>, twice int, twice int"
    )
    strange = spark.createDataFrame(rows, schema).coalesce(1)
    fair = r2b.scan(strange).debias("Job", sensitive_features="s`ex", epsilon=0.01)
    old = strange.schema.fields
    known = {row[0]: tuple(row) for row in strange.collect()}
    for form in ("expand", "sample"):
        made = fair.frame(form, **({"key": "the.id"} if form == "sample" else {}))
        assert made.schema.fields[: len(old)] == old
        assert [each.metadata for each in made.schema.fields[: len(old)]] == [
            each.metadata for each in old
        ]
        assert made.schema["Job_fair"].dataType == old[1].dataType
        for row in made.collect():
            assert tuple(row)[: len(old)] == known[row[0]]
    # A name that differs in capitals is another column.
    other = r2b.scan(strange).debias("job", sensitive_features="s`ex", epsilon=0.01)
    assert fair.classes.tolist() == ["a", "b"] and other.classes.tolist() == [0, 1, 2, 3]


def test_nulls_and_nans_are_one_group_and_every_row_stays(spark: Any) -> None:
    rng = np.random.default_rng(1)
    ages = [None, float("nan"), 1.5, -0.0, 0.0]
    rows = [(k, "ab"[int(rng.random() < 0.2 + 0.1 * (k % 5))], ages[k % 5]) for k in range(200)]
    frame = spark.createDataFrame(rows, "id int, y string, age double").coalesce(2)
    fair = r2b.scan(frame).debias("y", sensitive_features="age", epsilon=0.01, missing="group")
    table = pa.table({"id": range(200), "y": [row[1] for row in rows], "age": [r[2] for r in rows]})
    expected = r2b.scan(table).debias("y", sensitive_features="age", epsilon=0.01, missing="group")
    assert np.abs(fair.prices - expected.prices).max() < 1e-9
    for form in ("soft", "round"):
        made = (each.frame(form, **drawn(form)) for each in (fair, expected))
        assert [*map(str, in_order(next(made), "y"))] == [*map(str, in_order(next(made), "y"))]


def test_texts_that_a_collation_holds_for_equal_are_two_classes(spark: Any) -> None:
    rows = [(k, "aAb"[k % 3], "fm"[k % 7 // 4]) for k in range(60)]
    frame = spark.createDataFrame(rows, "id int, y string collate UTF8_LCASE, sex string")
    fair = r2b.scan(frame.coalesce(1)).debias("y", sensitive_features="sex")
    assert fair.classes.tolist() == ["A", "a", "b"]
    expanded = fair.frame("expand").toArrow()
    assert abs(sum(expanded["y_fair_weight"].to_pylist()) - 60) < 1e-9
    with pytest.raises(ParameterError, match=r"differs from 'y_fair_A' in capitals only.*caseSens"):
        fair.frame("soft")


def test_moments_are_classes_in_any_time_zone_and_a_column_may_be_called_count(spark: Any) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = [(k, datetime(2024, 11, 3, k % 3), "fm"[k % 7 // 4]) for k in range(60)]
        frame = spark.createDataFrame(rows, "id int, count timestamp, rows string").coalesce(1)
        fair = r2b.scan(frame).debias("count", sensitive_features="rows")
        weights = fair.frame("expand").groupBy("id").sum("count_fair_weight").collect()
        assert len(weights) == 60 and all(abs(row[1] - 1) < 1e-12 for row in weights)
        assert 30 < fair.frame("sample", key="id").where("count = count_fair").count() <= 60
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_a_solve_is_a_few_passes_over_any_partitions_and_leaves_nothing_behind(
    spark: Any, frame: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[str] = []
    plain = SparkBlocks.reduce

    def counted(self: SparkBlocks, task: Reduction) -> Sums:
        passes.append(type(task).__name__)
        return plain(self, task)

    monkeypatch.setattr(SparkBlocks, "reduce", counted)
    monkeypatch.setattr("r2b.engines.spark.MERGED_AT_ONCE", 2)  # so that results are merged there
    settings, held = dict(spark.conf.getAll), spark.sparkContext._jsc.getPersistentRDDs().size()
    some = frame.where("id < 100").repartition(5, "sex")  # some partitions have no rows
    fair = r2b.scan(some).debias("p", sensitive_features="sex", epsilon=0.01, sample_entries=60)
    few = PEOPLE.filter(pa.compute.less(PEOPLE["id"], 100))
    expected = r2b.scan(few).debias("p", sensitive_features="sex", epsilon=0.01)
    np.testing.assert_allclose(fair.prices, expected.prices, atol=1e-9)
    assert passes[:2] == ["Pass", "Draw"] and len(passes) <= 12
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == held
    assert dict(spark.conf.getAll) == settings
    # Counts are kept over the whole table, and the labels are the same however often it is used.
    rounded = fair.frame("round", key="id", random_state=4)
    found = in_order(rounded, "p")
    assert (
        found
        == in_order(rounded, "p")
        == in_order(expected.frame("round", key="id", random_state=4), "p")
    )


FINE = [
    ("a", [0.5, 0.5], "f", 1.0),
    ("b", [0.2, 0.8], "m", 2.0),
    ("a", [0.9, 0.1], "m", 1.0),
    ("b", [0.4, 0.6], "f", 0.5),
]
SCHEMA = "y string, p array<double>, sex string, w double"
BAD_ROWS: list[tuple[dict[str, Any], str, dict[str, Any], type[R2BError], str]] = [
    ({"y": None}, "y", {}, MissingValueError, "'y'"),
    ({"sex": None}, "p", {}, MissingValueError, "'sex'"),
    ({"w": -1.0}, "y", {"sample_weight": "w"}, WeightError, "-1.0"),
    (
        {"w": None},
        "p",
        {"sample_weight": "w"},
        WeightError,
        "row 4: The weight of row 4 in the column 'w' is nan",
    ),
    ({"p": [0.5, 0.6]}, "p", {}, ProbabilityError, "sums to 1.1"),
    ({"p": [0.5, None]}, "p", {}, ProbabilityError, "missing probability"),
]


@pytest.mark.parametrize(("wrong", "label", "options", "kind", "says"), BAD_ROWS)
def test_a_bad_row_is_named_by_partition_and_place(
    spark: Any,
    wrong: dict[str, Any],
    label: str,
    options: dict[str, Any],
    kind: type[R2BError],
    says: str,
) -> None:
    row = {"y": "a", "p": [0.5, 0.5], "sex": "f", "w": 1.0} | wrong
    held = spark.sparkContext._jsc.getPersistentRDDs().size()
    frame = spark.createDataFrame([*FINE, tuple(row.values())], SCHEMA).coalesce(1)
    with pytest.raises(kind, match=r"In partition 0, row 4(: | has )") as caught:
        r2b.scan(frame).debias(label, sensitive_features="sex", **options)
    assert says in str(caught.value) and caught.value.remedy
    assert caught.value.facts["row_in_place"] == 4
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == held


def vectors(frame: Any) -> Any:
    from pyspark.ml.functions import array_to_vector

    return frame.select(array_to_vector("p").alias("p"), "sex")


def stream(frame: Any) -> Any:
    rate = frame.sparkSession.readStream.format("rate").load()
    return rate.selectExpr("timestamp as p", "value as sex")


@pytest.mark.parametrize(
    ("made", "kind", "says"),
    [
        (lambda frame: frame.where("false"), EmptyError, "no rows"),
        (lambda frame: frame.selectExpr("array(y) as p", "sex"), InputError, "lists of string"),
        (lambda frame: frame.selectExpr("p", "sex", "w as sex"), InputError, "2 columns called"),
        (vectors, ParameterError, "vector_to_array"),
        (stream, ParameterError, "a stream"),
    ],
)
def test_a_frame_that_cannot_be_used_is_refused_with_a_remedy(
    spark: Any, made: Callable[[Any], Any], kind: type[R2BError], says: str
) -> None:
    frame = made(spark.createDataFrame(FINE, SCHEMA))
    with pytest.raises(kind, match=says):
        r2b.scan(frame).debias("p", sensitive_features="sex")


class OnSpark:
    """As much of a pandas frame on Spark as is looked at."""

    columns = ("y",)


class Old:
    """As much of a frame of Spark 3 as is looked at."""

    isStreaming = False

    def mapInArrow(self) -> None: ...


def test_frames_and_forms_that_spark_does_not_have_are_refused(
    frame: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ParameterError, match=r"pandas frame on Spark.*to_spark"):
        SparkSource(OnSpark())
    with pytest.raises(MissingExtraError, match=r"before 4\.0.*pip install.*pyspark>=4"):
        SparkSource(Old())
    fair = r2b.scan(frame).debias("level", sensitive_features="sex")
    with pytest.raises(ParameterError, match="no order"):
        fair.frame("round")
    with pytest.raises(InputError, match=r"not a file.*frame\("):
        fair.write("somewhere")
    for module in ("spark", "tally"):
        monkeypatch.setattr(f"r2b.engines.{module}.MOST_COMBINATIONS", 50)
    with pytest.raises(InputError, match=r"more than 50 combinations.*'id' alone has 51 values"):
        r2b.scan(frame).debias("id", sensitive_features="sex")


def test_a_frame_that_grew_since_it_was_counted_fails_when_it_is_used(
    spark: Any, tmp_path: Path
) -> None:
    late = str(tmp_path / "late")

    def growing(records: Any) -> Any:
        import os

        import pyarrow

        for record in records:
            yield record
            if os.path.exists(late):
                zebra = [["zebra"], [[1.0, 0.0]], ["f"], [1.0]]
                yield pyarrow.RecordBatch.from_arrays(
                    [pyarrow.array(each) for each in zebra], names=record.schema.names
                )

    few = spark.createDataFrame(FINE, SCHEMA).coalesce(1)
    fair = r2b.scan(mapped(few, growing, few.schema)).debias("y", sensitive_features="sex")
    made = [fair.frame("soft"), fair.frame("sample", key="y")]
    assert len(made[0].collect()) == 4
    Path(late).touch()
    for each in made:
        with pytest.raises(PySparkException, match="zebra"):
            each.collect()


def test_every_batch_of_a_stream_gets_the_labels_of_the_whole(spark: Any, tmp_path: Path) -> None:
    table = PEOPLE.select(["id", "level", "sex", "region"])
    r2b.scan(table).debias("level", **ASKED).save(tmp_path / "prices.json")
    stored = r2b.load(tmp_path / "prices.json")
    new = {"id": [-1], "level": ["top"], "sex": ["x"], "region": ["n"]}
    later = people(60, seed=6).select(table.column_names)
    later = pa.concat_tables([later, pa.table(new, schema=later.schema)])
    (tmp_path / "incoming").mkdir()
    for number in range(2):
        pq.write_table(later.slice(40 * number, 40), tmp_path / "incoming" / f"{number}.parquet")
    found = []

    def labelled(batch: Any) -> Any:
        roles = {"sensitive_features": ["sex", "region"], "unseen": "overall"}
        return (
            r2b.scan(batch).transform(stored, "level", **roles).frame("sample", **drawn("sample"))
        )

    stream = spark.readStream.schema("id long, level string, sex string, region string")
    stream = stream.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "incoming"))
    query = stream.writeStream.foreachBatch(
        lambda batch, _: found.append(labelled(batch).toArrow())
    )
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = query.trigger(availableNow=True).start()
    assert running.awaitTermination(120) and running.exception() is None
    assert sorted(map(len, found)) == [21, 40]
    assert in_order(pa.concat_tables(found)) == in_order(labelled(later))
    none = labelled(spark.createDataFrame(later).filter("false")).toArrow()
    assert none.num_rows == 0 and none.column_names[4:] == ["level_fair"]


STAGE = {"labelCol": "level", "sensitiveCols": ["sex", "region"], "epsilon": 0.01}
STAGE |= {"options": {"families": "marginal"}}


def test_a_pipeline_is_fitted_saved_and_loaded_and_lets_rows_without_labels_pass(
    frame: Any, tmp_path: Path
) -> None:
    statement = SQLTransformer(statement="SELECT *, 1 AS one FROM __THIS__")
    fitted = Pipeline(stages=[LabelDebiaser(**STAGE, form="expand"), statement]).fit(frame)
    fitted.write().save(str(tmp_path / "model"))
    again = PipelineModel.load(str(tmp_path / "model"))
    assert isinstance(again.stages[0], LabelDebiaserModel) and fitted.stages[0].fair.status.ok
    assert np.array_equal(again.stages[0].fair.prices, fitted.stages[0].fair.prices)
    found = again.transform(frame).toArrow()
    assert in_order(found) == known("expand") and found.column_names[-1] == "one"
    assert again.transform(frame.select("id", "sex")).columns == ["id", "sex", "one"]


def test_the_model_gives_the_labels_of_memory_before_and_after_it_is_saved(
    spark: Any, frame: Any, tmp_path: Path
) -> None:
    estimator = LabelDebiaser(**STAGE, form="sample", keyCols=["id"], seed=4)
    estimator.save(str(tmp_path / "estimator"))
    again = LabelDebiaser.load(str(tmp_path / "estimator"))
    assert again.getOrDefault("options") == STAGE["options"]
    model = again.fit(frame)
    model.save(str(tmp_path / "model"))
    loaded = LabelDebiaserModel.load(str(tmp_path / "model"))
    assert in_order(loaded.transform(frame)) == known("sample")
    assert loaded.fair.certificate.disparity == model.fair.certificate.disparity
    new = spark.createDataFrame(
        [(1, "low", "x", "n")], "id long, level string, sex string, region string"
    )
    with pytest.raises(UnseenError, match="'sex' 'x'"):
        model.transform(new)
    [row] = model.setParams(unseen="overall", form="soft").transform(new).collect()
    assert abs(sum(row[4:]) - 1) < 1e-9
    # Prices of another engine are a stage too.
    fair = r2b.debias(PEOPLE["level"], sensitive_features={"sex": PEOPLE["sex"]}, epsilon=0.01)
    stage = LabelDebiaserModel(fair).setParams(labelCol="level", sensitiveCols=["sex"])
    found = stage.transform(frame).toArrow().sort_by("id")["level_fair_low"].to_numpy()
    order = np.argsort(np.asarray(PEOPLE["id"]))
    assert np.abs(found - fair.soft_labels[order, 1]).max() < 1e-12


def test_options_that_do_not_exist_are_refused_at_once() -> None:
    with pytest.raises(ParameterError, match="'familys' is not an option"):
        LabelDebiaser(labelCol="level", sensitiveCols=["sex"], options={"familys": "marginal"})
    with pytest.raises(ParameterError, match="Did you mean 'sensitiveCols'"):
        LabelDebiaser(sensitiveCol=["sex"])


SETTING = "spark.sql.execution.pyspark.python"


def test_executors_need_no_python_for_counts_soft_and_expanded_classes(
    spark: Any, frame: Any, tmp_path: Path
) -> None:
    spark.conf.set(SETTING, str(tmp_path / "no python here"))
    try:
        fair = r2b.scan(frame).debias("level", **ASKED)
        for form in ("soft", "expand"):
            assert in_order(fair.frame(form)) == known(form)
        with pytest.raises(Exception, match="no python here"):
            fair.frame("sample", key="id").collect()
    finally:
        spark.conf.unset(SETTING)


def test_executors_need_a_few_wheels_and_the_package_as_a_zip_for_the_rest(
    spark: Any, frame: Any, tmp_path: Path
) -> None:
    # What --py-files sends, and these libraries in a folder; nothing else of this environment.
    shutil.make_archive(str(tmp_path / "r2b"), "zip", Path(r2b.__file__).parents[1], "r2b")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for library in ("numpy", "pyarrow", "narwhals", "scipy"):
        spec = find_spec(library)
        assert spec is not None and spec.origin is not None
        site = Path(spec.origin).parents[1]
        for part in (*site.glob(library), *site.glob(f"{library}.libs")):
            (wheels / part.name).symlink_to(part)
    python = tmp_path / "python"
    paths = f"{tmp_path}/r2b.zip:{wheels}"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{paths}:$PYTHONPATH" exec "{sys.executable}" -S -s "$@"\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    fair = r2b.scan(frame).debias("level", **ASKED)
    spark.conf.set(SETTING, str(python))
    try:
        for form in ("sample", "round"):
            assert in_order(fair.frame(form, **drawn(form))) == known(form)
        soft = r2b.scan(frame).debias("p", sensitive_features="sex", epsilon=0.01)
        assert soft.status.ok
    finally:
        spark.conf.unset(SETTING)


@pytest.mark.parametrize(
    ("message", "library", "says"),
    [
        ("ModuleNotFoundError: No module named 'r2b.engines'; ...", "r2b", "cannot import r2b.eng"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker", "python", "another version of Python"),
        ("Can't get attribute 'Pass' on <module 'r2b.engines' from", "r2b", "another version of r"),
        ('Cannot run program "/opt/none/python3": error=2', "python", "found no Python"),
    ],
)
def test_a_worker_that_cannot_start_is_reported_with_a_remedy(
    message: str, library: str, says: str
) -> None:
    with pytest.raises(MissingExtraError, match=says) as caught, set_up_errors():
        raise PySparkException(f"{message}\n at org.apache.spark.api.python ...")
    assert "PYSPARK_PYTHON" in caught.value.remedy and caught.value.facts["library"] == library
    assert "org.apache" not in str(caught.value) and "org.apache" in caught.value.facts["spark"]
