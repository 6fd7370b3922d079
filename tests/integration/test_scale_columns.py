"""Columns as tables in the world have them.

Names that engines read in their own way, text laid out in several ways, other files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_tables import people

import r2b
from r2b.errors import InputError, ParameterError

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")

LAYOUTS = [
    lambda column: column,
    lambda column: column.dictionary_encode(),
    lambda column: column.cast(pa.large_string()),
    lambda column: column.cast(pa.string_view()),
    lambda column: column.cast(pa.dictionary(pa.int8(), pa.string())),
]
FORMS = ("soft", "round", "sample", "expand")


def laid_out(table: Any, layout: Any) -> Any:
    for name in ("job", "sex"):
        table = table.set_column(table.schema.get_field_index(name), name, layout(table[name]))
    return table


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_that_lay_text_out_in_different_ways_are_one_table_and_leave_as_they_came(
    tmp_path: Path, kind: str, form: Any
) -> None:
    table = people(500).select(["id", "job", "sex"])
    (tmp_path / "in").mkdir()
    for number, layout in enumerate(LAYOUTS):
        part = laid_out(table.slice(100 * number, 100), layout)
        place = str(tmp_path / "in" / f"{number}.{kind}")
        pq.write_table(part, place) if kind == "parquet" else feather.write_feather(part, place)
    fair = r2b.scan(tmp_path / "in").debias("job", sensitive_features="sex", epsilon=0.02)
    plain = r2b.scan(table).debias("job", sensitive_features="sex", epsilon=0.02)
    assert np.abs(fair.prices - plain.prices).max() < 1e-12
    expected = plain.frame(form).to_pylist()
    together = pa.Table.from_batches(list(fair.frame(form)))
    assert together.to_pylist() == expected
    fair.write(tmp_path / "out", form)
    read = pq.read_table if kind == "parquet" else feather.read_table
    written = [read(str(tmp_path / "out" / f"{number}.{kind}")) for number in range(len(LAYOUTS))]
    assert [row for part in written for row in part.to_pylist()] == expected
    for number, part in enumerate(written):
        assert (
            part.schema.field("job").type
            == read(str(tmp_path / "in" / f"{number}.{kind}")).schema.field("job").type
        )
        assert form == "soft" or part.schema.field("job_fair").type == part.schema.field("job").type


@pytest.mark.parametrize("other", [{"z": pa.array([1, 2], pa.int32())}, {}])
def test_files_with_other_columns_are_refused_with_a_remedy_that_works(
    tmp_path: Path, other: Any
) -> None:
    duckdb = pytest.importorskip("duckdb")
    base = {"sex": ["f", "m"], "job": ["a", "b"]}
    pq.write_table(pa.table({**base, "z": pa.array([2**40, 1])}), tmp_path / "0.parquet")
    pq.write_table(pa.table({**base, **other}), tmp_path / "1.parquet")
    with pytest.raises(InputError, match=r"1\.parquet.*union_by_name=true") as caught:
        r2b.scan(tmp_path)
    query = (
        caught.value.remedy.partition("scan its relation: ")[2]
        .rstrip(".")
        .replace("...", f"{tmp_path}/*.parquet")
    )
    with duckdb.connect() as connection:
        assert (
            r2b.scan(connection.sql(query))
            .debias("job", sensitive_features="sex")
            .certificate.disparity_before
            == 1.0
        )


def test_duckdb_classes_that_differ_in_capitals_are_not_mixed_up() -> None:
    duckdb = pytest.importorskip("duckdb")
    table = pa.table(
        {"id": range(60), "sex": ["f", "m", "m"] * 20, "job": ["a", "A", "b", "b"] * 15}
    )
    with duckdb.connect() as connection:
        connection.register("people", table)
        fair = r2b.scan(connection.sql("FROM people")).debias(
            "job", sensitive_features="sex", epsilon=0.1
        )
        with pytest.raises(
            ParameterError,
            match="'job_fair_a' differs from 'job_fair_A' in capitals only, which DuckDB",
        ):
            fair.frame("soft")
        with pytest.raises(ParameterError, match="'JOB' differs from 'job'"):
            fair.frame("round", key="id", new_column="JOB")
        rounded = fair.frame("round", key="id").order("id").to_arrow_table()
    assert (
        rounded["job_fair"].to_pylist()
        == r2b.scan(table)
        .debias("job", sensitive_features="sex", epsilon=0.1)
        .frame("round", key="id")["job_fair"]
        .to_pylist()
    )


@pytest.mark.parametrize("name", ["*", "^s.*$"])
def test_polars_columns_that_read_as_patterns_are_refused_and_the_remedy_works(name: str) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.LazyFrame({name: ["f", "m"] * 5, "sex": ["x"] * 10, "job": ["a", "b"] * 5})
    with pytest.raises(
        ParameterError, match=r"of a column for a pattern of names. Rename it first"
    ) as caught:
        r2b.scan(frame)
    renamed = frame.rename({caught.value.facts["column"]: "other"})
    assert r2b.scan(renamed).debias("job", sensitive_features="other").groups.tolist() == ["f", "m"]


@pytest.mark.parametrize(
    "texts",
    [["[0.25, 0.75]", "[0.5, 0.5]"], ["[0.25 0.75]", "[1. 0.]"], ["(2.5e-1; 0.75)", "(0.5; 0.5)"]],
)
def test_probabilities_that_became_text_are_not_taken_for_classes(texts: list[str]) -> None:
    table = pa.table({"sex": ["f", "m"] * 3, "p": [*texts, *texts, *texts]})
    with pytest.raises(
        InputError, match=r"'p' holds lists of probabilities as text.*convert-string"
    ):
        r2b.scan(table).debias("p", sensitive_features="sex")


def test_classes_of_bytes_leave_in_every_form_that_has_no_column_per_class() -> None:
    table = pa.table(
        {"sex": ["f", "m", "m"] * 10, "job": [b"x", b"y", b"\xff", b"x", b"x", b"y"] * 5}
    )
    fair = r2b.scan(table).debias("job", sensitive_features="sex")
    with pytest.raises(
        ParameterError, match=r"is bytes, of which no name of a column can be made. Take 'round'"
    ):
        fair.frame("soft")
    for form in ("round", "sample", "expand"):
        assert fair.frame(form).schema.field("job_fair").type == pa.binary()


def test_a_nested_column_in_a_file_is_refused_by_its_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"sex": [{"a": 1}] * 4, "job": ["a", "b"] * 2}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="column 'sex' are of the nested type"):
        r2b.scan(tmp_path / "t.parquet").debias("job", sensitive_features="sex")


def test_an_error_in_a_batch_speaks_of_the_column_and_of_the_batch_alone() -> None:
    lists = [[0.5, 0.5]] * 30
    lists[7] = [0.5, 0.4]
    table = pa.table({"sex": ["f", "m"] * 15, "p": lists})
    with pytest.raises(
        InputError,
        match=(
            r"In the column 'p', row 7 sums to 0.9, not to 1; it is the only such row of this part"
        ),
    ):
        r2b.scan(table).debias("p", sensitive_features="sex")
