"""Rows without a value: refused by name, or read with a code of their own, whichever library they
came from.
"""

import datetime
import json
from decimal import Decimal

import numpy as np
import pytest
from test_inputs_columns import CATEGORICAL, as_list, make

from r2b._data import Continuous, Schema, read
from r2b._data.columns import column_of
from r2b._data.values import key_of
from r2b._data.vocabulary import read_vocabulary
from r2b.errors import InputError, MissingValueError

DAY, LATER = datetime.date(1960, 1, 1), datetime.date(2021, 1, 2)
MOMENT, AFTER = datetime.datetime(1960, 1, 1, 5), datetime.datetime(2021, 1, 2, 3)
# values, distinct values, codes: the missing row has the code after the last value
GAPS = {
    "text": (["b", None, "a", "b", None], ["a", "b"], [1, 2, 0, 1, 2]),
    "whole numbers": ([10, None, -3, 10], [-3, 10], [1, 2, 0, 1]),
    "decimals": ([0.5, -1.25, None], [-1.25, 0.5], [1, 0, 2]),
    "booleans": ([None, True, False], [False, True], [2, 1, 0]),
    "dates": ([LATER, DAY, None], [DAY, LATER], [1, 0, 2]),
    "moments": ([AFTER, None, MOMENT], [MOMENT, AFTER], [1, 2, 0]),
    "one value": (["a", None], ["a"], [0, 1]),
}
LIBRARIES = [
    "list",
    "tuple",
    "object",
    "pandas",
    "polars",
    "narwhals",
    "arrow",
    "arrow chunked",
    *CATEGORICAL,
]
NUMBERS_AND_TEXT = [
    "Int64",
    "Float64",
    "string",
    "boolean",
    "object",
    "category",
    "int64[pyarrow]",
    "double[pyarrow]",
    "string[pyarrow]",
]
Y, SEX = [0, 1, 0, 1, 0], ["f", "m", "f", "m", "f"]


def kept(column):
    return read_vocabulary(column_of(column, what="sex"), what="sex", keep_missing=True)


def plain(values):
    return [None if value is None or value != value else value for value in values]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", GAPS)
def test_missing_rows_get_the_last_code_in_every_library(library, kind):
    values, distinct, codes = GAPS[kind]
    column = make(library, values)
    before = as_list(column) if not isinstance(column, (list, tuple)) else list(column)
    found, vocabulary = kept(column)
    assert found.tolist() == codes
    assert vocabulary.has_missing
    assert (len(vocabulary), vocabulary.n_codes, vocabulary.missing_code) == (
        len(distinct),
        len(distinct) + 1,
        len(distinct),
    )
    assert [key_of(value) for value in vocabulary.values] == [key_of(value) for value in distinct]
    assert repr(as_list(column) if not isinstance(column, (list, tuple)) else list(column)) == repr(
        before
    )


@pytest.mark.parametrize(
    "library", ["object", "pandas", "polars", "arrow", "arrow chunked", *CATEGORICAL]
)
@pytest.mark.parametrize("kind", ["text", "decimals", "moments"])
def test_decode_gives_missing_rows_back_as_missing(library, kind):
    column = make(library, GAPS[kind][0])
    codes, vocabulary = kept(column)
    back = vocabulary.decode(codes)
    assert type(back) is type(column)
    assert plain(as_list(back)) == plain(as_list(column))
    again = vocabulary.like(column_of(column, what="sex")).decode(codes)
    assert plain(as_list(again)) == plain(as_list(column))
    numpy = vocabulary.like(column_of(GAPS[kind][0], what="sex")).decode(codes)
    assert [value is None or value != value for value in numpy] == [
        value is None for value in GAPS[kind][0]
    ]


@pytest.mark.parametrize(
    "column",
    [
        np.array([2.0, np.nan, 1.0]),
        np.array([2.0, np.nan, 1.0], dtype=np.float32),
        [2.0, float("nan"), 1.0],
        [Decimal(2), Decimal("nan"), Decimal(1)],
        np.array(["2020-01-02", "NaT", "2020-01-01"], dtype="M8[D]"),
        np.array([2, "NaT", 1], dtype="m8[s]"),
        np.ma.MaskedArray([2, 5, 1], mask=[False, True, False]),
        np.ma.MaskedArray(["b", "c", "a"], mask=[False, True, False]),
        np.array(["b", np.nan, "a"], dtype=object),
        ["b", float("nan"), "a"],
    ],
    ids=repr,
)
def test_what_stands_for_missing_in_numpy_and_python(column):
    codes, vocabulary = kept(column)
    assert codes.tolist() == [1, 2, 0]
    assert len(vocabulary) == 2


@pytest.mark.parametrize(
    "dtype",
    [*NUMBERS_AND_TEXT, "datetime64[ns]", "datetime64[ns, UTC]", "Sparse[float]"],
)
def test_missing_rows_of_every_dtype_of_pandas(dtype):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    series = pandas.Series([1, 0], dtype="object")
    series = series.astype(str if "string" in dtype else "int64").astype(dtype).reindex([0, 5, 1])
    before = series.copy()
    codes, vocabulary = kept(series)
    assert codes.tolist() == [1, 2, 0]
    assert vocabulary.index is series.index or vocabulary.index.equals(series.index)
    pandas.testing.assert_series_equal(series, before)
    assert vocabulary.encode(series[::-1], what="s").tolist() == [0, 2, 1]


def test_nan_of_polars_and_pyarrow_is_missing_and_so_is_a_null_inside_a_dictionary():
    polars, arrow, pandas = (pytest.importorskip(name) for name in ("polars", "pyarrow", "pandas"))
    hidden = arrow.DictionaryArray.from_arrays(
        arrow.array([0, 1, 2, None]), arrow.array(["b", None, "a"])
    )
    inside = arrow.DictionaryArray.from_arrays(
        arrow.array([0, 1, 2, 1]), arrow.array([2.0, np.nan, 1.0])
    )
    numbers = [2.0, np.nan, 1.0, None]
    columns = [
        polars.Series(numbers, strict=False),
        arrow.array(numbers),
        hidden,
        inside,
        arrow.chunked_array([hidden, hidden])[:4],
    ]
    nullable = pandas.array([2.0, 0.0, 1.0, None], dtype="Float64")
    columns += [
        pandas.Series(arrow.array(numbers), dtype=pandas.ArrowDtype(arrow.float64())),
        pandas.Series(nullable / pandas.array([1, 0, 1, 1])),
    ]
    for column in columns:
        codes, vocabulary = kept(column)
        assert codes.tolist() == [1, 2, 0, 2], column
        assert len(vocabulary) == 2


@pytest.mark.parametrize("missing", ["group", "exclude"])
@pytest.mark.parametrize("library", ["dict", "pandas", "polars", "arrow"])
def test_missing_rows_become_cells_that_are_named(library, missing):
    columns = {"sex": ["f", None, "m", "f", "m"], "age": [1, 2, None, 1, 2]}
    control = {"job": ["x", "x", "y", None, "x"]}
    if library != "dict":
        module = pytest.importorskip("pyarrow" if library == "arrow" else library)
        columns, control = (
            (module.table if library == "arrow" else module.DataFrame)(table)
            for table in (columns, control)
        )
    groups = read(Y, sensitive_features=columns, control_features=control, missing=missing).cells
    assert groups.missing_codes == (2, 2, 2)
    assert groups.table.tolist() == [[0, 0, 0], [0, 0, 2], [1, 1, 0], [1, 2, 1], [2, 1, 0]]
    assert groups.codes.tolist() == [0, 4, 3, 1, 2]
    assert [name.replace(".0", "") for name in groups.names] == [
        "sex=f, age=1, job=x",
        "sex=f, age=1, job=missing",
        "sex=m, age=2, job=x",
        "sex=m, age=missing, job=y",
        "sex=missing, age=2, job=x",
    ]


def test_the_default_refuses_and_says_what_else_there_is():
    with pytest.raises(MissingValueError) as caught:
        read(Y, sensitive_features=SEX, control_features={"job": ["x", None, "x", None, "y"]})
    assert "column 'job' of control_features" in caught.value.problem
    assert (caught.value.facts["row"], caught.value.facts["count"]) == (1, 2)
    assert "`missing='group'` or `missing='exclude'`" in caught.value.remedy
    assert "unknown" in caught.value.remedy
    for missing in ("group", "exclude"):
        with pytest.raises(MissingValueError) as caught:
            read([0, None, 1, 0, 1], sensitive_features=SEX, missing=missing)
        assert "In `y`" in caught.value.problem and "missing=" not in caught.value.remedy


def test_a_column_without_any_value_is_refused():
    with pytest.raises(MissingValueError, match="5 of 5 rows have no value") as caught:
        read(Y, sensitive_features={"sex": SEX, "race": [None] * 5}, missing="group")
    assert caught.value.facts["column"] == "column 'race' of sensitive_features"
    with pytest.raises(MissingValueError, match="5 of 5 rows"):
        read(Y, sensitive_features=Continuous([None] * 5), missing="exclude")


@pytest.mark.parametrize("missing", ["group", "exclude"])
def test_a_value_with_the_name_of_missing_rows_is_refused(missing):
    column = ["f", "missing", None, "m", "missing"]
    with pytest.raises(InputError, match="has no value") as caught:
        read(Y, sensitive_features={"sex": column}, missing=missing)
    facts = caught.value.facts
    assert (facts["column"], facts["row"], facts["missing_row"]) == (
        "column 'sex' of sensitive_features",
        1,
        2,
    )
    assert "Rename" in caught.value.remedy
    assert (
        read(
            Y, sensitive_features={"sex": [*column[:2], "m", *column[3:]]}, missing=missing
        ).n_cells
        == 3
    )


def restored(schema):
    return Schema.from_json(json.loads(json.dumps(schema.to_json(), allow_nan=False)))


@pytest.mark.parametrize("again", [lambda schema: schema, restored], ids=["same", "restored"])
@pytest.mark.parametrize("known", [True, False])
def test_new_rows_may_be_missing_only_where_fitted_ones_were(again, known):
    table = {"sex": SEX, "race": ["x", None, "y", "x", "y"]}
    data = read(Y, sensitive_features=table, missing="group")
    schema = again(data.schema)
    assert schema.missing_codes == (None, 2)
    assert schema.names.tolist() == data.cells.names.tolist()
    new = schema.read(
        [0, 1], sensitive_features={"race": [None, "x"], "sex": ["m", "f"]}, known_crossings=known
    )
    assert new.cells.names[new.cells.codes].tolist() == ["sex=m, race=missing", "sex=f, race=x"]
    assert new.cells.table[new.cells.codes].tolist() == [[1, 2], [0, 0]]
    with pytest.raises(MissingValueError, match="column 'sex'"):
        schema.read(
            [0, 1],
            sensitive_features={"race": ["x", "x"], "sex": ["m", None]},
            known_crossings=known,
        )
