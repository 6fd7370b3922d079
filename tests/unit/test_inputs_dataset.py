"""Labels, groups and weights together, and new rows read with the codes of the fitted ones."""

import json
from decimal import Decimal

import numpy as np
import pytest
from test_inputs_columns import PLAIN, make

from r2b._data import Continuous, ContinuousSettings, Membership, Schema, read
from r2b._data.cells import read_cells
from r2b.errors import (
    InputError,
    LengthError,
    ParameterError,
    ShapeError,
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


@pytest.mark.parametrize(
    "library", ["list", "numpy", "pandas", "pandas nullable", "polars", "arrow"]
)
def test_weights_of_every_library(library):
    weight = make(library, [1.0, 0.0, 2.0, 0.5, 3.0])
    data = read(Y, sensitive_features=SEX, sample_weight=weight)
    assert data.weight.tolist() == [1, 0, 2, 0.5, 3]
    assert data.weight.dtype == np.float64
    assert not data.weight.flags.writeable
    if library == "numpy":
        assert weight.flags.writeable


@pytest.mark.parametrize("library", ["list", "numpy", "pandas", "polars"])
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, -np.inf])
def test_a_bad_weight_is_named(library, bad):
    weight = make(library, [1.0, 1.0, bad, 1.0, bad])
    with pytest.raises(WeightError) as caught:
        read(Y, sensitive_features=SEX, sample_weight=weight)
    assert (caught.value.facts["row"], caught.value.facts["count"]) == (2, 2)
    assert caught.value.facts["value"] == bad or np.isnan(bad)


def restored(schema):
    return Schema.from_json(json.loads(json.dumps(schema.to_json(), allow_nan=False)))


JOB = ["x", "x", "y", "x", "z"]
AGE = [39, 50, 39, 20.5, 17]


AGAIN = pytest.mark.parametrize(
    "again", [lambda schema: schema, restored], ids=["same", "restored"]
)


def test_a_name_in_both_arguments_is_refused():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(
        ShapeError, match="Both sensitive_features and control_features have a column named 'sex'"
    ) as caught:
        read(
            Y,
            sensitive_features={"sex": SEX, "job": JOB},
            control_features=pandas.Series(SEX, name="sex"),
        )
    assert caught.value.facts == {
        "column": "sex",
        "arguments": ("sensitive_features", "control_features"),
    }
    assert "Rename" in caught.value.remedy
    with pytest.raises(ShapeError, match="2 columns named 'sex'"):
        read(
            Y,
            sensitive_features=pandas.DataFrame(
                np.column_stack([SEX, JOB]), columns=["sex", "sex"]
            ),
        )
    for twice in ({1: SEX, "1": JOB}, {1: SEX, "1": Continuous(AGE)}):
        with pytest.raises(ShapeError, match="2 columns named '1'") as caught:
            read(Y, sensitive_features=twice)
        assert caught.value.facts["column"] == "1"


@pytest.mark.parametrize("library", [*PLAIN, "pandas nullable", "pandas arrow", "decimal"])
def test_numbers_of_every_library_are_one_attribute(library):
    if library == "decimal":
        values = [Decimal(str(value)) for value in AGE]
    else:
        values = make(library, AGE if library == "object" else [float(value) for value in AGE])
    before = repr(values)
    groups = read(
        Y, sensitive_features={"sex": SEX, "age": Continuous(values, basis="linear", knots=3)}
    ).cells
    assert groups.kinds == ("categorical", "continuous")
    assert groups.settings == (None, ContinuousSettings("linear", 3))
    assert groups.vocabularies[1].values.tolist() == [17, 20.5, 39, 50]
    assert groups.vocabularies[1].values.dtype == np.float64
    assert groups.vocabularies[1].values[groups.table[groups.codes, 1]].tolist() == AGE
    assert groups.names.tolist() == [
        "sex=f, age=17",
        "sex=f, age=39",
        "sex=m, age=20.5",
        "sex=m, age=50",
    ]
    assert groups.value_name(1, 1) == "20.5" and groups.value_name(0, 0) == "f"
    assert repr(values) == before


@pytest.mark.parametrize(
    ("values", "row", "value"),
    [
        ([1, 2, "three", 4, 5], 2, "three"),
        (np.array(["1", "2", "3", "4", "5"]), 0, "1"),
        ([1.5, None, 1, "x", 2], 3, "x"),
        ([1.0, 2.0, np.inf, 4.0, -np.inf], 2, np.inf),
        ([1, None, -(10**400), 2, 3], 2, -np.inf),
        (np.array([1, 2, 3, 4, 5], dtype="M8[D]"), 0, "1970-01-02"),
    ],
    ids=repr,
)
def test_what_is_not_a_finite_number_is_named(values, row, value):
    with pytest.raises(InputError) as caught:
        read(Y, sensitive_features={"age": Continuous(values)}, missing="exclude")
    facts = caught.value.facts
    assert (facts["column"], facts["row"], facts["value"]) == (
        "column 'age' of sensitive_features",
        row,
        value,
    )
    assert caught.value.problem.endswith(".") and caught.value.remedy.endswith(".")


def test_wrapped_attributes_are_refused_where_they_cannot_stand():
    for wrapped in (Continuous(AGE), Membership(np.eye(5))):
        with pytest.raises(ParameterError, match="control features are categories"):
            read(Y, sensitive_features=SEX, control_features=wrapped)
        with pytest.raises(ParameterError, match=r"control_features\['job'\]") as caught:
            read(Y, sensitive_features=SEX, control_features={"job": wrapped})
        assert caught.value.facts["column"] == "job"
        with pytest.raises(ShapeError, match="dictionary"):
            read(Y, sensitive_features=[wrapped, wrapped])
        with pytest.raises(ShapeError):
            read(wrapped, sensitive_features=SEX)
        with pytest.raises(ParameterError, match="only categories") as caught:
            read_cells({"sex": SEX, "other": wrapped})
        assert caught.value.facts["column"] == "other"
    with pytest.raises(ShapeError, match="2 columns"):
        read(Y, sensitive_features=Continuous(np.zeros((5, 2))))


@AGAIN
def test_other_attributes_than_those_fitted_are_refused(again):
    plain = again(read(Y, sensitive_features={"sex": SEX}).schema)
    with pytest.raises(
        ShapeError, match=r".control_features. is given, but none was fitted"
    ) as caught:
        plain.read([0], sensitive_features=["f"], control_features=["x"])
    assert "Leave control_features out" in caught.value.remedy
    controlled = again(
        read(Y, sensitive_features={"sex": SEX}, control_features={"job": JOB}).schema
    )
    with pytest.raises(
        ShapeError, match=r"control_features. is absent, but 'job' was fitted"
    ) as caught:
        controlled.read([0], sensitive_features=["f"])
    assert caught.value.facts["fitted"] == ("job",)
    both = again(read(Y, sensitive_features=SEX, control_features={"job": JOB, "city": SEX}).schema)
    with pytest.raises(ShapeError, match=r"control_features. has the columns 'job'") as caught:
        both.read([0], sensitive_features=["f"], control_features={"job": ["x"]})
    assert caught.value.remedy == "Add the column 'city'."
    with pytest.raises(LengthError, match="control_features"):
        controlled.read([0], sensitive_features=["f"], control_features=["x", "x"])
    with pytest.raises(ShapeError, match="continuous, but categorical was fitted") as caught:
        plain.read([0], sensitive_features={"sex": Continuous([1])})
    assert caught.value.facts["kind"] == "continuous"


def test_cells_may_weigh_nothing_where_no_mean_is_measured():
    weight = [1, 0, 1, 0, 0]
    with pytest.raises(WeightError, match="'m'"):
        read(Y, sensitive_features=SEX, sample_weight=weight, categorical_only=True)
    assert read(Y, sensitive_features=SEX, sample_weight=weight).weight.tolist() == weight
    with pytest.raises(WeightError, match="all 5 rows are zero"):
        read(Y, sensitive_features=SEX, sample_weight=[0] * 5)
    with pytest.raises(WeightError, match="infinity"):
        read(Y, sensitive_features=SEX, sample_weight=[1e308] * 5)
    schema = read(Y, sensitive_features=SEX).schema
    new = schema.read([0, 1], sensitive_features=["f", "m"], sample_weight=[1, 0])
    assert new.weight.tolist() == [1, 0]
