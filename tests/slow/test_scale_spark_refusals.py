"""What a Spark frame is refused for: typed errors that name column, partition and row, although the rows are in another process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import r2b
from r2b.engines.spark import SparkSource, mapped
from r2b.errors import (
    EmptyError,
    InputError,
    MissingExtraError,
    MissingValueError,
    ParameterError,
    ProbabilityError,
    R2BError,
    WeightError,
)

PEOPLE = "y string, p array<double>, sex string, w double"
FINE = [
    ("a", [0.5, 0.5], "f", 1.0),
    ("b", [0.2, 0.8], "m", 2.0),
    ("a", [0.9, 0.1], "m", 1.0),
    ("b", [0.4, 0.6], "f", 0.5),
]


def with_row(**wrong: Any) -> list[tuple[Any, ...]]:
    """Give fine rows and, as the last, one that is not."""
    row = {"y": "a", "p": [0.5, 0.5], "sex": "f", "w": 1.0} | wrong
    return [*FINE, tuple(row.values())]


BAD_ROWS: list[tuple[dict[str, Any], str, dict[str, Any], type[R2BError], str]] = [
    ({"y": None}, "y", {}, MissingValueError, "'y'"),
    ({"sex": None}, "y", {}, MissingValueError, "'sex'"),
    ({"sex": None}, "p", {}, MissingValueError, "'sex'"),
    ({"w": -1.0}, "y", {"sample_weight": "w"}, WeightError, "-1.0"),
    ({"w": None}, "p", {"sample_weight": "w"}, WeightError, "Row 4 has no weight in 'w'"),
    ({"p": [0.5, 0.6]}, "p", {}, ProbabilityError, "sums to 1.1"),
    ({"p": [1.0]}, "p", {}, ProbabilityError, "1 probabilities in 'p', not of 2"),
    ({"p": None}, "p", {}, ProbabilityError, "no list"),
    ({"p": [0.5, None]}, "p", {}, ProbabilityError, "missing probability"),
]


@pytest.mark.parametrize(
    ("wrong", "label", "options", "kind", "says"),
    BAD_ROWS,
    ids=[f"{wrong} {label}" for wrong, label, *_ in BAD_ROWS],
)
def test_a_bad_row_is_named_by_partition_and_place(
    spark: Any,
    wrong: dict[str, Any],
    label: str,
    options: dict[str, Any],
    kind: type[R2BError],
    says: str,
) -> None:
    frame = spark.createDataFrame(with_row(**wrong), PEOPLE).coalesce(1)
    with pytest.raises(kind, match=r"In partition 0, row 4: ") as caught:
        r2b.scan(frame).debias(label, sensitive_features="sex", **options)
    assert says in str(caught.value) and caught.value.remedy
    assert caught.value.facts["row_in_place"] == 4


def test_a_first_list_that_is_missing_is_named(spark: Any) -> None:
    frame = spark.createDataFrame(with_row(p=None)[::-1], PEOPLE).coalesce(1)
    with pytest.raises(MissingValueError, match="partition 0, row 0"):
        r2b.scan(frame).debias("p", sensitive_features="sex")


@pytest.mark.parametrize("label", ["y", "p"])
def test_a_frame_without_rows_is_refused(spark: Any, label: str) -> None:
    with pytest.raises(EmptyError, match="no rows"):
        r2b.scan(spark.createDataFrame([], PEOPLE)).debias(label, sensitive_features="sex")


def test_a_column_of_too_many_values_is_refused_by_name(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("spark", "tally"):
        monkeypatch.setattr(f"r2b.engines.{module}.MOST_COMBINATIONS", 50)
    frame = spark.range(200).selectExpr("id", "if(id % 2 = 0, 'f', 'm') AS sex")
    with pytest.raises(InputError, match=r"more than 50 combinations.*'id' alone has 51 values"):
        r2b.scan(frame).debias("id", sensitive_features="sex")


def lists_of_text(frame: Any) -> Any:
    return frame.selectExpr("array(y) as p", "sex")


def vectors(frame: Any) -> Any:
    from pyspark.ml.functions import array_to_vector

    return frame.select(array_to_vector("p").alias("p"), "sex")


def twice(frame: Any) -> Any:
    return frame.selectExpr("p", "sex", "w as sex")


def stream(frame: Any) -> Any:
    return (
        frame.sparkSession.readStream.format("rate")
        .load()
        .selectExpr("timestamp as p", "value as sex")
    )


@pytest.mark.parametrize(
    ("made", "kind", "says"),
    [
        (lists_of_text, InputError, "'p' holds lists of string"),
        (vectors, ParameterError, "vector_to_array"),
        (twice, ParameterError, "2 columns named 'sex'"),
        (stream, ParameterError, "a stream"),
    ],
)
def test_a_frame_that_cannot_be_used_is_refused_with_a_remedy(
    spark: Any, made: Callable[[Any], Any], kind: type[R2BError], says: str
) -> None:
    frame = made(spark.createDataFrame(FINE, PEOPLE))
    with pytest.raises(kind) as caught:
        r2b.scan(frame).debias("p", sensitive_features="sex")
    assert says in str(caught.value)


class OnSpark:
    """As much of a pandas frame on Spark as is looked at: making one warns about pandas itself."""

    columns = ("y",)


class Old:
    """As much of a frame of Spark 3 as is looked at."""

    isStreaming = False

    def mapInArrow(self) -> None: ...


def test_frames_that_only_look_like_spark_frames_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"pandas frame on Spark.*to_spark"):
        SparkSource(OnSpark())
    with pytest.raises(MissingExtraError, match=r"before 4\.0.*r2b\[spark\]"):
        SparkSource(Old())


def test_new_names_that_spark_could_not_tell_apart_are_refused(spark: Any) -> None:
    rows = [(k, "aAb"[k % 3], "fm"[k % 7 // 4]) for k in range(60)]
    fair = r2b.scan(spark.createDataFrame(rows, "id int, y string, sex string")).debias(
        "y", sensitive_features="sex"
    )
    with pytest.raises(
        ParameterError, match=r"'y_fair_a' differs from 'y_fair_A' in capitals only.*caseSensitive"
    ):
        fair.frame("soft")
    with pytest.raises(ParameterError, match="'SEX' differs from 'sex'"):
        fair.frame("sample", key="id", new_column="SEX")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert fair.frame("soft").toArrow().num_rows == 60
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_rows_without_an_order_need_a_key_and_a_frame_is_not_written(spark: Any) -> None:
    fair = r2b.scan(spark.createDataFrame(FINE, PEOPLE)).debias("y", sensitive_features="sex")
    with pytest.raises(ParameterError, match="no order"):
        fair.frame("round")
    with pytest.raises(InputError, match=r"not a file.*frame\("):
        fair.write("somewhere")


@pytest.mark.parametrize("form", ["soft", "sample"])
def test_a_frame_that_grew_since_it_was_counted_fails_when_it_is_used(
    spark: Any, tmp_path: Path, form: Any
) -> None:
    errors = pytest.importorskip("pyspark.errors")
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

    people = spark.createDataFrame(FINE, PEOPLE).coalesce(1)
    fair = r2b.scan(mapped(people, growing, people.schema)).debias("y", sensitive_features="sex")
    made = fair.frame(form, **({"key": "y"} if form == "sample" else {}))
    assert len(made.collect()) == 4
    Path(late).touch()
    with pytest.raises(errors.PySparkException, match="zebra"):
        made.collect()
