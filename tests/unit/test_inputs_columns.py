"""Columns of every library: the same codes in, the same kind of column out."""

import datetime
import json

import narwhals as nw
import numpy as np
import pytest

from r2b._data import Vocabulary
from r2b._data.columns import column_of
from r2b._data.values import key_of
from r2b._data.vocabulary import read_vocabulary
from r2b.errors import InputError, MissingValueError, MixedTypeError, ShapeError, UnseenError


def make(library, values):
    """Make a column of a library from Python values."""
    if library == "list":
        return list(values)
    if library == "tuple":
        return tuple(values)
    if library == "numpy":
        return np.array(values)
    if library == "object":
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    if library.startswith("pandas"):
        pandas = pytest.importorskip("pandas")
        dtypes = {"categorical": "category", "nullable": "Float64", "arrow": "double[pyarrow]"}
        return pandas.Series(values, name="name", dtype=dtypes.get(library.split(" ")[-1]))
    if library == "narwhals":
        return nw.from_native(
            pytest.importorskip("polars").Series("name", values), series_only=True
        )
    if library.startswith("polars"):
        polars = pytest.importorskip("polars")
        series = polars.Series("name", values)
        return (
            series.cast(polars.String).cast(polars.Categorical)
            if library.endswith("categorical")
            else series
        )
    arrow = pytest.importorskip("pyarrow")
    if library == "arrow chunked":
        whole = arrow.array(values)
        return arrow.chunked_array([whole[:1], whole[1:]])
    return (
        arrow.array(values).dictionary_encode()
        if library == "arrow dictionary"
        else arrow.array(values)
    )


PLAIN = [
    "list",
    "tuple",
    "numpy",
    "object",
    "pandas",
    "polars",
    "narwhals",
    "arrow",
    "arrow chunked",
]
CATEGORICAL = ["pandas categorical", "arrow dictionary"]
COLUMNS = {
    "text": (["b", "é", "a", "b", "Z"], ["Z", "a", "b", "é"], [2, 3, 1, 2, 0]),
    "integers": ([10, -3, 10, 2], [-3, 2, 10], [2, 0, 2, 1]),
    "booleans": ([True, False, True], [False, True], [1, 0, 1]),
    "whole floats": ([2.0, 1.0, 2.0], [1.0, 2.0], [1, 0, 1]),
    "floats": ([0.5, -1.25, 0.5, 1e300], [-1.25, 0.5, 1e300], [1, 0, 1, 2]),
    "dates": (
        [datetime.date(2021, 1, 2), datetime.date(1960, 1, 1), datetime.date(2021, 1, 2)],
        [datetime.date(1960, 1, 1), datetime.date(2021, 1, 2)],
        [1, 0, 1],
    ),
    "moments": (
        [datetime.datetime(2021, 1, 2, 3), datetime.datetime(1960, 1, 1, 5, 6, 7, 89)],
        [datetime.datetime(1960, 1, 1, 5, 6, 7, 89), datetime.datetime(2021, 1, 2, 3)],
        [1, 0],
    ),
}


def encoded(column):
    return read_vocabulary(column_of(column, what="y"), what="y")


def as_list(column):
    native = nw.to_native(column, pass_through=True)
    if hasattr(native, "to_pylist"):
        return native.to_pylist()
    return native.to_list() if hasattr(native, "to_list") else native.tolist()


@pytest.mark.parametrize("library", PLAIN + CATEGORICAL)
@pytest.mark.parametrize("kind", COLUMNS)
def test_codes_and_values_are_the_same_in_every_library(library, kind):
    values, distinct, codes = COLUMNS[kind]
    found, vocabulary = encoded(make(library, values))
    assert found.tolist() == codes
    assert found.dtype == np.uint8
    assert [key_of(value) for value in vocabulary.values] == [key_of(value) for value in distinct]


@pytest.mark.parametrize(
    ("library", "kind"),
    # polars categoricals hold text only
    [
        *((library, kind) for library in PLAIN + CATEGORICAL for kind in COLUMNS),
        ("polars categorical", "text"),
    ],
)
def test_decode_gives_back_the_kind_and_dtype_that_came_in(library, kind):
    column = make(library, COLUMNS[kind][0])
    codes, vocabulary = encoded(column)
    back = vocabulary.decode(codes)
    if library in ("list", "tuple"):
        assert isinstance(back, np.ndarray)
        assert back.tolist() == list(column)
        return
    assert type(back) is type(column)
    assert as_list(back) == as_list(column)
    for fact in ("dtype", "type", "name"):
        if hasattr(column, fact):
            assert getattr(back, fact) == getattr(column, fact)


@pytest.mark.parametrize(
    "dtype",
    [
        "Int8",
        "boolean",
        "Float32",
        "string",
        "int8[pyarrow]",
        "string[pyarrow]",
        "bool[pyarrow]",
        "datetime64[ns, CET]",
        "Sparse[int64]",
    ],
)
def test_pandas_extension_dtypes(dtype):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    series = pandas.Series([1, 0, 1], index=[5, 3, 9], name="s")
    series = series.astype(str).astype(dtype) if "string" in dtype else series.astype(dtype)
    codes, vocabulary = encoded(series)
    assert codes.tolist() == [1, 0, 1]
    pandas.testing.assert_series_equal(vocabulary.decode(codes), series)


def test_a_pandas_categorical_keeps_its_order_and_drops_what_does_not_occur():
    pandas = pytest.importorskip("pandas")
    for ordered in (True, False):
        dtype = pandas.CategoricalDtype(["low", "high", "never", "mid"], ordered=ordered)
        series = pandas.Series(["mid", "low", "high"], dtype=dtype, index=list("xyz"))
        codes, vocabulary = encoded(series)
        assert vocabulary.values.tolist() == ["low", "high", "mid"]
        pandas.testing.assert_series_equal(vocabulary.decode(codes), series)
        assert vocabulary.decode(np.array([0])).dtype == dtype


def test_a_polars_enum_keeps_its_order_and_a_categorical_is_sorted():
    polars = pytest.importorskip("polars")
    enum = polars.Series(["low", "mid", "low"], dtype=polars.Enum(["mid", "never", "low"]))
    codes, vocabulary = encoded(enum)
    assert vocabulary.values.tolist() == ["mid", "low"]
    assert codes.tolist() == [1, 0, 1]
    categorical = polars.Series(["z", "b", "z", "a"], dtype=polars.Categorical)
    codes, vocabulary = encoded(categorical)
    assert vocabulary.values.tolist() == ["a", "b", "z"]
    assert codes.tolist() == [2, 1, 2, 0]


def test_a_pyarrow_dictionary_keeps_its_order_only_where_it_declares_one():
    arrow = pytest.importorskip("pyarrow")
    indices, names = arrow.array([2, 0, 2], arrow.int8()), arrow.array(["z", "never", "a"])
    unordered = arrow.DictionaryArray.from_arrays(indices, names)
    ordered = arrow.DictionaryArray.from_arrays(indices, names, ordered=True)
    assert encoded(unordered)[1].values.tolist() == ["a", "z"]
    assert encoded(ordered)[1].values.tolist() == ["z", "a"]
    chunked = arrow.chunked_array(
        [unordered, arrow.array(["q", "a"]).dictionary_encode().cast(unordered.type)]
    )
    codes, vocabulary = encoded(chunked)
    assert vocabulary.values.tolist() == ["a", "q", "z"]
    assert vocabulary.decode(codes).to_pylist() == ["a", "z", "a", "q", "a"]
    hidden = arrow.DictionaryArray.from_arrays(arrow.array([0, 0, 1, 1]), arrow.array(["a", None]))
    with pytest.raises(MissingValueError) as caught:
        encoded(hidden)
    assert (caught.value.facts["row"], caught.value.facts["count"]) == (2, 2)


@pytest.mark.parametrize(
    ("values", "rows", "types"),
    [
        (["a", "b", 3], (0, 2), ("str", "int")),
        ([1, 2.5], (0, 1), ("int", "float")),
        ([0, 1, True], (0, 2), ("int", "bool")),
        ([b"a", "a"], (0, 1), ("bytes", "str")),
    ],
)
@pytest.mark.parametrize("library", ["list", "object", "pandas"])
def test_mixed_types_are_named_with_two_rows(values, rows, types, library):
    column = make("object" if library != "list" else "list", values)
    if library == "pandas":
        column = pytest.importorskip("pandas").Series(column)
        assert column.dtype == "object"
    with pytest.raises(MixedTypeError) as caught:
        encoded(column)
    assert caught.value.facts["rows"] == rows
    assert caught.value.facts["types"] == types


@pytest.mark.parametrize(
    ("column", "error"),
    [
        (np.array([1j, 2]), InputError),
        ([1j, 2j], InputError),
        ([{"a": 1}, {"b": 2}], InputError),
        (np.zeros((2, 2, 2)), ShapeError),
        (np.array(3), ShapeError),
        ("text", ShapeError),
        ({1, 2}, ShapeError),
        (3, ShapeError),
        (None, ShapeError),
        ([[1, 2], [3]], ShapeError),
        ([[1], 2], ShapeError),
        (np.zeros(2, dtype=[("a", int), ("b", int)]), InputError),
        (np.zeros(2, dtype="V4"), InputError),
    ],
    ids=repr,
)
def test_what_is_not_a_column_is_refused(column, error):
    with pytest.raises(error):
        encoded(column)


def test_lazy_nested_and_listed_columns_are_refused():
    polars, arrow, pandas = (pytest.importorskip(name) for name in ("polars", "pyarrow", "pandas"))
    with pytest.raises(ShapeError, match="collect"):
        encoded(polars.LazyFrame({"a": [1]}))
    with pytest.raises(InputError, match="nested"):
        encoded(polars.Series([[1], [2]]))
    with pytest.raises(InputError, match="nested"):
        encoded(arrow.array([[1], [2]]))
    with pytest.raises(ShapeError, match="dictionary"):
        encoded([pandas.Series([1, 2]), pandas.Series([1, 2])])


@pytest.mark.parametrize("library", PLAIN + CATEGORICAL)
def test_an_unseen_value_is_named_with_its_row_and_the_nearest_known_one(library):
    vocabulary = Vocabulary(np.array(["Female", "Male"]))
    with pytest.raises(UnseenError) as caught:
        vocabulary.encode(make(library, ["Male", "Femal", "Femal"]), what="sex")
    facts = caught.value.facts
    assert (facts["row"], facts["value"], facts["count"], facts["known"]) == (
        1,
        "Femal",
        2,
        ["Female", "Male"],
    )
    assert "Did you mean 'Female'?" in str(caught.value)


def test_whole_numbers_match_across_dtypes_but_not_booleans():
    vocabulary = Vocabulary(np.array([0, 1, 5]))
    assert vocabulary.encode(np.array([5.0, 1.0]), what="y").tolist() == [2, 1]
    assert vocabulary.encode(np.array([5, 0], dtype=np.uint8), what="y").tolist() == [2, 0]
    with pytest.raises(UnseenError):
        vocabulary.encode([True], what="y")


def test_moments_with_a_time_zone_are_compared_in_utc():
    pandas = pytest.importorskip("pandas")
    utc = pandas.Series(
        pandas.to_datetime(["2020-01-01 11:00", "2020-01-01 12:00"]).tz_localize("UTC")
    )
    vocabulary = encoded(utc)[1]
    assert vocabulary.encode(utc.dt.tz_convert("CET"), what="t").tolist() == [0, 1]
    plus_one = datetime.timezone(datetime.timedelta(hours=1))
    assert vocabulary.encode(
        [datetime.datetime(2020, 1, 1, 13, tzinfo=plus_one)], what="t"
    ).tolist() == [1]


def adverse_columns():
    from decimal import Decimal
    from enum import Enum

    colour = Enum("colour", ["red", "green"])
    hour = datetime.timedelta(hours=1)
    yield "enum", [colour.green, colour.red]
    yield "decimal", [Decimal("1.5"), Decimal("-2")]
    yield "time", [datetime.time(5), datetime.time(4)]
    yield "span", [2 * hour, hour]
    yield "bytes", [b"b", b"a"]
    yield "moment of NumPy", [np.datetime64("2021-01-01"), np.datetime64("2020-01-01")]
    yield "large integers", [2**63, -1]
    yield "huge integers", [2**70, 1]
    yield "infinite", [np.inf, 1.0]
    yield "booleans of NumPy", [np.True_, False]


@pytest.mark.parametrize("library", ["list", "object"])
@pytest.mark.parametrize(
    "values", [pytest.param(values, id=name) for name, values in adverse_columns()]
)
def test_unusual_values_are_kept_and_survive_json(library, values):
    codes, vocabulary = encoded(make(library, values))
    assert sorted(codes.tolist()) == [0, 1]
    assert (
        vocabulary.decode(codes).tolist()
        == np.array(values, dtype=vocabulary.values.dtype).tolist()
    )
    restored = Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json(), allow_nan=False)))
    assert restored.encode(make(library, values), what="y").tolist() == codes.tolist()


LETTERS = np.array(list("abcdeéü✓ z"))


def words(rng, n, n_distinct, width):
    vocabulary = np.unique(
        np.array(
            ["".join(rng.choice(LETTERS, rng.integers(0, width + 1))) for _ in range(n_distinct)],
            dtype=f"U{width}",
        )
    )
    return vocabulary[rng.integers(0, len(vocabulary), n)]


@pytest.mark.parametrize("n_distinct", [1, 2, 40, 290, 3000])
@pytest.mark.parametrize("width", [1, 2, 3, 7, 12, 26, 64])
def test_codes_and_values_are_those_of_a_sort(n_distinct, width):
    column = words(np.random.default_rng([n_distinct, width]), 5_000, n_distinct, width)
    for array in (
        column,
        column[::-2],
        column.astype(f">U{width}"),
        np.char.encode(column, "utf-8"),
    ):
        codes, vocabulary = encoded(array)
        values = vocabulary.values
        wanted, places = np.unique(array, return_inverse=True)
        assert values.tolist() == wanted.tolist() and values.dtype == array.dtype
        assert np.array_equal(codes, places) and codes.dtype == np.min_scalar_type(len(wanted) - 1)
