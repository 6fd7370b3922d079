"""Memberships in probability: checked like probabilities of classes, and their distinct rows as codes."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from test_inputs_dataset import frame

from r2b._data import Continuous, Membership, Mixtures, Schema, mixtures, read
from r2b._data.mixtures import distinct_rows
from r2b.errors import InputError, ParameterError, ProbabilityError, ShapeError, UnseenError

Y = [0, 1, 2, 1, 0]
SEX = ["f", "m", "f", "m", "f"]
SHARES = [[0.25, 0.75], [1.0, 0.0], [0.25, 0.75], [0.5, 0.5], [1.0, 0.0]]


def restored(schema):
    return Schema.from_json(json.loads(json.dumps(schema.to_json(), allow_nan=False)))


AGAIN = pytest.mark.parametrize(
    "again", [lambda schema: schema, restored], ids=["same", "restored"]
)


def shares(library, names=("a", "b"), rows=SHARES):
    if library == "list":
        return rows
    if library.startswith("numpy"):
        return np.array(rows, dtype=library.removeprefix("numpy ") if " " in library else None)
    return frame(library, {name: [row[j] for row in rows] for j, name in enumerate(names)})


@pytest.mark.parametrize(
    "library", ["list", "numpy", "numpy f4", "numpy >f8", "dict", "pandas", "polars", "arrow"]
)
def test_distinct_rows_are_the_codes_in_every_library(library):
    table = shares(library)
    before = repr(table)
    groups = read(Y, sensitive_features={"sex": SEX, "race": Membership(table)}).cells
    assert groups.kinds == ("categorical", "membership") and groups.settings == (None, None)
    mixtures = groups.vocabularies[1]
    assert isinstance(mixtures, Mixtures)
    assert mixtures.matrix.tolist() == [[0.25, 0.75], [1, 0], [0.5, 0.5]]
    assert mixtures.matrix.dtype == np.float64 and not mixtures.matrix.flags.writeable
    assert mixtures.groups == (
        ("0", "1") if library == "list" or library.startswith("numpy") else ("a", "b")
    )
    assert mixtures.rows.tolist() == [0, 1, 3]
    assert mixtures.matrix[groups.table[groups.codes, 1]].tolist() == SHARES
    assert groups.names.tolist() == [
        "sex=f, race=row 0",
        "sex=f, race=row 1",
        "sex=m, race=row 1",
        "sex=m, race=row 3",
    ]
    assert groups.missing_codes == (None, None)
    assert repr(table) == before
    if library.startswith("numpy"):
        assert table.flags.writeable and not np.may_share_memory(table, mixtures.matrix)


def test_a_membership_alone_and_the_names_of_its_groups():
    groups = read(Y, sensitive_features=Membership(SHARES, groups=["f", 1], name="sex")).cells
    assert groups.columns == ("sex",) and groups.vocabularies[0].groups == ("f", "1")
    assert groups.names.tolist() == ["row 0", "row 1", "row 3"]
    assert read(Y, sensitive_features=Membership(SHARES)).cells.columns == ("",)
    assert read(
        Y, sensitive_features=Membership(shares("pandas"), groups=("a", "b"))
    ).cells.vocabularies[0].groups == ("a", "b")
    assert read(Y, sensitive_features=Membership(np.ones((5, 1)))).n_cells == 1


SIDES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12)


@given(hnp.arrays(np.float64, SIDES, elements=st.sampled_from([0.0, 0.25, 0.5, 1 / 3])))
def test_distinct_rows_agree_with_a_dictionary(matrix):
    codes, first = distinct_rows(matrix)
    seen = {}
    expected = [seen.setdefault(row.tobytes(), len(seen)) for row in matrix]
    assert codes.tolist() == expected
    assert first.tolist() == [expected.index(code) for code in range(len(seen))]


def test_rows_that_share_a_key_are_still_told_apart(monkeypatch):
    monkeypatch.setattr(
        mixtures, "row_hashes", lambda matrix: np.zeros(len(matrix), dtype=np.uint64)
    )
    codes, first = distinct_rows(np.array([[5.0, 1.0], [6.0, 1.0], [5.0, 1.0], [7.0, 2.0]]))
    assert codes.tolist() == [0, 1, 0, 2] and first.tolist() == [0, 1, 3]


def test_a_negative_zero_is_a_zero():
    groups = read([0, 1], sensitive_features=Membership([[1.0, -0.0], [1.0, 0.0]])).cells
    assert groups.n_cells == 1


@pytest.mark.parametrize(
    "library", ["list", "numpy", "numpy f4", "dict", "pandas", "polars", "arrow"]
)
@pytest.mark.parametrize(
    ("bad", "fact", "value"),
    [
        ([0.25, 0.5], "total", 0.75),
        ([1.25, -0.25], "value", -0.25),
        ([np.nan, 1.0], "value", None),
        ([np.inf, 0.0], "value", np.inf),
    ],
    ids=["sum", "negative", "nan", "infinite"],
)
def test_a_row_that_is_not_a_distribution_is_named(library, bad, fact, value):
    table = shares(library, rows=[*SHARES[:3], bad, bad])
    with pytest.raises(ProbabilityError, match=r"In sensitive_features\['race'\], row 3") as caught:
        read(Y, sensitive_features={"sex": SEX, "race": Membership(table)}, missing="exclude")
    facts = caught.value.facts
    assert facts["row"] == 3
    assert np.isnan(facts[fact]) if value is None else facts[fact] == value
    assert "normalize" not in str(caught.value) and "class" not in str(caught.value)
    if fact == "total":
        assert facts["count"] == 2 and caught.value.remedy.startswith(
            "Divide each row by its sum, or pass `partial=True`"
        )
    else:
        assert facts["group_name"] in ("0", "1", "a", "b")


def test_rounding_within_the_tolerance_is_kept_as_it_is():
    rows = np.array([[1 / 3, 2 / 3 + 5e-7], [0.5, 0.5]])
    groups = read([0, 1], sensitive_features=Membership(rows)).cells
    np.testing.assert_array_equal(groups.vocabularies[0].matrix, rows)


def test_a_membership_of_another_shape_or_type_is_refused():
    with pytest.raises(ShapeError, match="one dimension") as caught:
        read(Y, sensitive_features={"sex": Membership([0.5] * 5)})
    assert caught.value.facts["column"] == "sex"
    for table in (np.array([["a", "b"]] * 5), [["a", 0.5]] * 5, {"a": ["x"] * 5, "b": [1.0] * 5}):
        with pytest.raises(InputError) as caught:
            read(Y, sensitive_features={"sex": Membership(table)})
        assert caught.value.remedy == "Pass one numeric column of probabilities per group."
    with pytest.raises(ShapeError, match=r"under 'sex' has the name 'race'"):
        read(Y, sensitive_features={"sex": Membership(SHARES, name="race")})


def test_group_names_are_distinct_as_many_as_columns_and_those_of_the_frame():
    with pytest.raises(
        ShapeError, match=r"groups of sensitive_features\['sex'\] name 'f' 2 times"
    ) as caught:
        read(Y, sensitive_features={"sex": Membership(SHARES, groups=["f", "f"])})
    assert caught.value.facts["group"] == "f"
    with pytest.raises(ShapeError, match="2 columns, but groups names 3") as caught:
        read(Y, sensitive_features=Membership(SHARES, groups=["f", "m", "x"]))
    assert (caught.value.facts["n_columns"], caught.value.facts["n_groups"]) == (2, 3)
    with pytest.raises(ShapeError, match="are named 'a', 'b', but groups says 'b', 'a'") as caught:
        read(Y, sensitive_features=Membership(shares("pandas"), groups=["b", "a"]))
    assert "Leave out groups" in caught.value.remedy
    for groups in ("fm", 2):
        with pytest.raises(ParameterError, match="not a list of names") as caught:
            read(Y, sensitive_features=Membership(SHARES, groups=groups))
        assert caught.value.facts["value"] == groups
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ShapeError, match="2 columns named 'a'"):
        read(Y, sensitive_features=Membership(pandas.DataFrame(SHARES, columns=["a", "a"])))


@AGAIN
@pytest.mark.parametrize("library", ["dict", "pandas", "polars", "arrow"])
def test_new_rows_may_mix_groups_anew(library, again):
    data = read(Y, sensitive_features={"sex": SEX, "race": Membership(shares(library))})
    schema = again(data.schema)
    assert schema.vocabularies[1].groups == ("a", "b") and schema.kinds == (
        "categorical",
        "membership",
    )
    assert schema.names.tolist() == data.cells.names.tolist()
    turned = Membership(shares(library, ("b", "a"), [[0.75, 0.25], [0.125, 0.875]]))
    new = schema.read(
        [0, 1], sensitive_features={"race": turned, "sex": ["m", "f"]}, known_crossings=False
    )
    mixtures = new.cells.vocabularies[1]
    assert mixtures.groups == ("a", "b")
    assert mixtures.matrix[new.cells.table[new.cells.codes, 1]].tolist() == [
        [0.25, 0.75],
        [0.875, 0.125],
    ]
    assert new.cells.table[new.cells.codes, 0].tolist() == [1, 0]
    bare = schema.read([0], sensitive_features={"race": Membership([[0.5, 0.5]]), "sex": ["m"]})
    assert bare.cells.names[bare.cells.codes].tolist() == ["sex=m, race=row 3"]
    with pytest.raises(UnseenError, match="memberships that were not fitted") as caught:
        schema.read([0, 1], sensitive_features={"race": turned, "sex": ["m", "f"]})
    assert (
        caught.value.facts["row"],
        caught.value.facts["count"],
        caught.value.facts["value"],
    ) == (1, 1, [0.875, 0.125])


@AGAIN
@pytest.mark.parametrize("known", [True, False])
def test_new_rows_must_have_the_fitted_groups(known, again):
    schema = again(
        read(Y, sensitive_features=Membership(SHARES, groups=["f", "m"], name="sex")).schema
    )
    with pytest.raises(ShapeError, match=r"3 groups, but 2 were fitted: 'f', 'm'") as caught:
        schema.read([0], sensitive_features=Membership([[0.5, 0.25, 0.25]]), known_crossings=known)
    assert (caught.value.facts["n_columns"], caught.value.facts["n_groups"]) == (3, 2)
    with pytest.raises(
        UnseenError, match=r"The group 'x' of .* is not among the fitted 'f', 'm'"
    ) as caught:
        schema.read(
            [0],
            sensitive_features=Membership([[0.5, 0.5]], groups=["f", "x"]),
            known_crossings=known,
        )
    assert caught.value.facts["value"] == "x"
    for other in (["f"], Continuous([0.5])):
        with pytest.raises(ShapeError, match="but membership was fitted") as caught:
            schema.read([0], sensitive_features=other, known_crossings=known)
        assert "r2b.Membership" in caught.value.remedy
    with pytest.raises(ProbabilityError, match=r"In sensitive_features\['sex'\], row 0"):
        schema.read([0], sensitive_features=Membership([[0.5, 0.25]]), known_crossings=known)
