"""Labels, groups and weights together, and new rows read with the codes of the fitted ones."""

import json
import subprocess
import sys

import numpy as np
import pytest

from r2b._data import Schema, read
from r2b._data.arrays import cross
from r2b.errors import (
    EmptyError,
    FileFormatError,
    InputError,
    LengthError,
    MissingValueError,
    RowLabelError,
    ShapeError,
    UnseenError,
    WeightError,
)

SEX = ["f", "m", "f", "m", "f"]
RACE = ["x", "x", "y", "x", "z"]
Y = [0, 1, 2, 1, 0]


def frame(library, columns):
    """Make a frame of a library from columns."""
    if library == "dict":
        return columns
    if library == "arrow":
        return pytest.importorskip("pyarrow").table(columns)
    return pytest.importorskip(library).DataFrame(columns)


FRAMES = ["dict", "pandas", "polars", "arrow"]


@pytest.mark.parametrize("library", FRAMES)
def test_several_attributes_are_crossed_and_named(library):
    groups = read(Y, sensitive_features=frame(library, {"sex": SEX, "race": RACE})).cells
    assert groups.columns == ("sex", "race")
    assert groups.names.tolist() == [
        "sex=f, race=x",
        "sex=f, race=y",
        "sex=f, race=z",
        "sex=m, race=x",
    ]
    assert groups.table.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0]]
    assert groups.codes.tolist() == [0, 3, 1, 3, 2]
    assert groups.codes.dtype == np.uint8


@pytest.mark.parametrize("library", FRAMES)
def test_one_attribute_keeps_its_name_and_values(library):
    groups = read(Y, sensitive_features=frame(library, {"age": [30, 20, 30, 20, 40]})).cells
    assert groups.columns == ("age",)
    assert groups.names.tolist() == [20, 30, 40]
    assert groups.names.dtype == np.int64


def test_attributes_without_names():
    assert read(Y, sensitive_features=SEX).cells.columns == ("",)
    both = np.column_stack([SEX, RACE])
    groups = read(Y, sensitive_features=both).cells
    assert groups.columns == ("attribute 0", "attribute 1")
    assert groups.names[3] == "attribute 0=m, attribute 1=x"
    assert read(Y, sensitive_features=both[:, :1]).cells.columns == ("",)
    rows = [["f", 1], ["m", 1], ["f", 2], ["m", 1], ["f", 3]]
    assert read(Y, sensitive_features=rows).cells.vocabularies[1].values.tolist() == [1, 2, 3]


def test_the_name_of_a_series_is_kept():
    pandas = pytest.importorskip("pandas")
    assert read(Y, sensitive_features=pandas.Series(SEX, name="sex")).cells.columns == ("sex",)


def test_one_group_is_enough_and_one_class_is_not():
    assert read(Y, sensitive_features=["f"] * 5).n_cells == 1
    with pytest.raises(EmptyError, match="two classes"):
        read([1] * 5, sensitive_features=SEX)


def test_crossing_many_attributes_finds_each_distinct_row():
    rng = np.random.default_rng(1)
    sizes = [300, 7, 70_000, 2, 400, 90_000, 50]
    table = np.column_stack([rng.integers(0, size, 500) for size in sizes])
    table = np.concatenate([table, table[::2]])
    codes, found = cross(list(table.T), sizes)
    expected, inverse = np.unique(table, axis=0, return_inverse=True)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(codes, inverse.ravel())


@pytest.mark.parametrize("library", FRAMES)
def test_a_missing_sensitive_value_names_its_column(library):
    with pytest.raises(MissingValueError) as caught:
        read(
            Y, sensitive_features=frame(library, {"sex": SEX, "race": ["x", "y", None, None, "x"]})
        )
    assert "'race'" in str(caught.value)
    assert (caught.value.facts["row"], caught.value.facts["count"]) == (2, 2)


def test_lengths_that_differ_are_both_named():
    with pytest.raises(LengthError, match=r"5 rows.*4"):
        read(Y, sensitive_features=SEX[:4])
    with pytest.raises(LengthError, match=r"5 rows.*sample_weight has 2"):
        read(Y, sensitive_features=SEX, sample_weight=[1, 2])
    with pytest.raises(LengthError, match="'race'"):
        read(Y, sensitive_features={"sex": SEX, "race": RACE[:3]})
    with pytest.raises(LengthError, match="dictionary"):
        read(Y, sensitive_features=[SEX, RACE])


def test_rows_that_are_not_there():
    for empty in ([], np.zeros(0), ()):
        with pytest.raises(EmptyError, match="no rows"):
            read(empty, sensitive_features=empty)


@pytest.mark.parametrize(
    "library", ["list", "numpy", "pandas", "pandas nullable", "polars", "arrow"]
)
def test_weights_of_every_library(library):
    weight = [1.0, 0.0, 2.0, 0.5, 3.0]
    if library == "numpy":
        weight = np.array(weight)
    if library.startswith("pandas"):
        weight = pytest.importorskip("pandas").Series(
            weight, dtype="Float64" if "nullable" in library else None
        )
    if library == "polars":
        weight = pytest.importorskip("polars").Series(weight)
    if library == "arrow":
        weight = pytest.importorskip("pyarrow").array(weight)
    data = read(Y, sensitive_features=SEX, sample_weight=weight)
    assert data.weight.tolist() == [1, 0, 2, 0.5, 3]
    assert data.weight.dtype == np.float64
    assert not data.weight.flags.writeable
    if library == "numpy":
        assert weight.flags.writeable


@pytest.mark.parametrize("library", ["list", "numpy", "pandas", "polars"])
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, -np.inf])
def test_a_bad_weight_is_named(library, bad):
    weight = [1.0, 1.0, bad, 1.0, bad]
    if library != "list":
        weight = (
            np.array(weight) if library == "numpy" else pytest.importorskip(library).Series(weight)
        )
    with pytest.raises(WeightError) as caught:
        read(Y, sensitive_features=SEX, sample_weight=weight)
    assert (caught.value.facts["row"], caught.value.facts["count"]) == (2, 2)
    assert caught.value.facts["value"] == bad or np.isnan(bad)


def test_weights_that_are_missing_text_or_too_large():
    polars = pytest.importorskip("polars")
    for weight in (
        [1, None, 1, 1, 1],
        polars.Series([1, None, 1, 1, 1]),
        ["1"] * 5,
        np.array([1j] * 5),
        [[1]] * 4 + [["a"]],
    ):
        with pytest.raises(WeightError):
            read(Y, sensitive_features=SEX, sample_weight=weight)
    with pytest.raises(WeightError, match="infinity"):
        read(Y, sensitive_features=SEX, sample_weight=[1e308] * 5)
    with pytest.raises(ShapeError):
        read(Y, sensitive_features=SEX, sample_weight=1.0)


def test_a_group_without_weight_is_named():
    with pytest.raises(WeightError, match="'m'") as caught:
        read(Y, sensitive_features=SEX, sample_weight=[1, 0, 1, 0, 1])
    assert caught.value.facts["count"] == 2


def test_pandas_rows_in_another_order_are_refused():
    pandas = pytest.importorskip("pandas")
    y, sex, weight = pandas.Series(Y), pandas.Series(SEX), pandas.Series(np.ones(5))
    with pytest.raises(
        InputError, match=r"sensitive_features.*different order.*at row 0 they are 0 and 4"
    ):
        read(y, sensitive_features=sex[::-1])
    with pytest.raises(InputError, match=r"sample_weight.*different order"):
        read(y, sensitive_features=sex, sample_weight=weight[::-1])
    with pytest.raises(InputError, match=r"different order"):
        read(y, sensitive_features=pandas.DataFrame({"sex": sex[::-1]}))
    read(y[::-1], sensitive_features=sex[::-1], sample_weight=weight[::-1])
    for index in (list("abcde"), [0, "a", 1, "b", 2]):
        with pytest.raises(RowLabelError):
            read(y, sensitive_features=pandas.Series(SEX, index=index))
    read(y, sensitive_features=sex[::-1].to_numpy())


def restored(schema):
    return Schema.from_json(json.loads(json.dumps(schema.to_json(), allow_nan=False)))


@pytest.mark.parametrize("again", [lambda schema: schema, restored], ids=["same", "restored"])
@pytest.mark.parametrize("library", FRAMES)
def test_new_rows_get_the_fitted_codes(library, again):
    data = read(
        ["b", "a", "c", "a", "b"], sensitive_features=frame(library, {"sex": SEX, "race": RACE})
    )
    schema = again(data.schema)
    assert schema.names.tolist() == data.cells.names.tolist()
    new = schema.read(
        ["c", "b"],
        sensitive_features=frame(library, {"extra": [0, 1], "race": ["z", "x"], "sex": ["f", "m"]}),
    )
    assert new.labels.codes.tolist() == [2, 1]
    assert new.cells.codes.tolist() == [2, 3]
    assert new.n_classes == 3 and new.n_cells == 4
    assert new.schema.to_json() == data.schema.to_json()


def test_new_rows_leave_in_their_own_library():
    pandas = pytest.importorskip("pandas")
    schema = restored(read(["b", "a", "c", "a", "b"], sensitive_features=SEX).schema)
    series = pandas.Series(["c", "b"], index=[4, 2], name="label")
    new = schema.read(series, sensitive_features=["f", "m"])
    pandas.testing.assert_series_equal(new.labels.vocabulary.decode(new.labels.codes), series)
    fitted = read(
        pandas.Series(["b", "a", "c", "a", "b"], name="old"), sensitive_features=SEX
    ).schema
    new = fitted.read(series, sensitive_features=["f", "m"])
    pandas.testing.assert_series_equal(new.labels.vocabulary.decode(new.labels.codes), series)


@pytest.mark.parametrize("again", [lambda schema: schema, restored], ids=["same", "restored"])
def test_what_was_not_fitted_is_refused(again):
    schema = again(read(Y, sensitive_features={"sex": SEX, "race": RACE}).schema)
    with pytest.raises(UnseenError, match=r"Row 1 of y holds 9"):
        schema.read([0, 9], sensitive_features={"sex": ["f", "f"], "race": ["x", "x"]})
    with pytest.raises(UnseenError, match=r"'q'.*'x'"):
        schema.read([0, 1], sensitive_features={"sex": ["f", "f"], "race": ["x", "q"]})
    with pytest.raises(UnseenError, match=r"sex=m, race=z") as caught:
        schema.read([0, 1], sensitive_features={"sex": ["f", "m"], "race": ["x", "z"]})
    assert caught.value.facts["row"] == 1
    with pytest.raises(ShapeError, match="'race'"):
        schema.read([0, 1], sensitive_features={"sex": ["f", "m"]})
    with pytest.raises(ShapeError, match="were fitted"):
        schema.read(np.eye(3)[:2], sensitive_features={"sex": ["f", "f"], "race": ["x", "x"]})


@pytest.mark.parametrize("again", [lambda schema: schema, restored], ids=["same", "restored"])
@pytest.mark.parametrize("library", FRAMES)
def test_new_probabilities_are_put_in_the_fitted_order(library, again):
    schema = again(
        read(
            frame(library, {"no": [0.25, 1.0], "yes": [0.75, 0.0]}), sensitive_features=["f", "m"]
        ).schema
    )
    new = schema.read(frame(library, {"yes": [0.125], "no": [0.875]}), sensitive_features=["m"])
    assert new.labels.matrix.tolist() == [[0.875, 0.125]]
    assert new.labels.vocabulary.values.tolist() == ["no", "yes"]
    assert [str(name) for name in new.labels.vocabulary.decode(np.array([1]))] == ["yes"]
    assert schema.read([[0.5, 0.5]], sensitive_features=["f"]).n_rows == 1
    with pytest.raises(UnseenError, match="'perhaps'"):
        schema.read(frame(library, {"perhaps": [0.125], "no": [0.875]}), sensitive_features=["m"])
    with pytest.raises(ShapeError, match="2 classes"):
        schema.read([[0.5, 0.25, 0.25]], sensitive_features=["f"])
    with pytest.raises(ShapeError, match="were fitted"):
        schema.read(["no"], sensitive_features=["f"])


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"columns": 3},
        {"columns": [], "vocabularies": [], "table": [], "classes": {}, "is_soft": False},
    ],
)
def test_a_damaged_schema_is_refused(stored):
    with pytest.raises(FileFormatError):
        Schema.from_json(stored)
    whole = read(Y, sensitive_features=SEX).schema.to_json()
    with pytest.raises(FileFormatError):
        Schema.from_json({**whole, "table": [[0], [2]]})


def test_errors_are_sentences_with_a_remedy():
    for y, groups in (
        ([1, None], [0, 1]),
        (["a", 1], [0, 1]),
        ([[0.5, 0.4]], [0]),
        ([1, 1], [0, 1]),
        ([1, 2], [0, 1, 2]),
    ):
        with pytest.raises(InputError) as caught:
            read(y, sensitive_features=groups)
        assert caught.value.problem.endswith(".") and caught.value.remedy.endswith(".")
        assert caught.value.facts


def test_reading_imports_no_frame_library():
    code = (
        "import sys, r2b._data, r2b.metrics\n"
        "r2b._data.read(['a', 'b'], sensitive_features={'s': [0, 1]})\n"
        "assert not {'pandas', 'polars', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
