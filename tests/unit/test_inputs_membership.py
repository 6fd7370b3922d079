"""Memberships in probability: checked like probabilities of classes, and their distinct rows as
codes.
"""

import numpy as np
import pytest
from test_inputs_dataset import AGAIN, frame

from r2b._data import Membership, Mixtures, read
from r2b.errors import (
    EmptyError,
    InputError,
    ProbabilityError,
    ShapeError,
    UnseenError,
)

Y = [0, 1, 2, 1, 0]
SEX = ["f", "m", "f", "m", "f"]
SHARES = [[0.25, 0.75], [1.0, 0.0], [0.25, 0.75], [0.5, 0.5], [1.0, 0.0]]


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
    with pytest.raises(
        ProbabilityError, match=r"In .sensitive_features\['race'\]., row 3"
    ) as caught:
        read(Y, sensitive_features={"sex": SEX, "race": Membership(table)}, missing="exclude")
    facts = caught.value.facts
    assert facts["row"] == 3
    assert np.isnan(facts[fact]) if value is None else facts[fact] == value
    assert "normalize" not in str(caught.value) and "class" not in str(caught.value)
    if fact == "total":
        assert facts["count"] == 2
        assert caught.value.remedy.startswith(
            "Divide each row by its sum, with a column for every group."
        )
    else:
        assert facts["group_name"] in ("0", "1", "a", "b")


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
    for groups in (["f", "f"], ["f", "m", "x"], ["f"], "fm", 2):
        with pytest.raises(ShapeError, match=r"groups of .*'sex'.* for 2 columns\.") as caught:
            read(Y, sensitive_features={"sex": Membership(SHARES, groups=groups)})
        assert caught.value.facts["groups"] == groups
    with pytest.raises(ShapeError, match=r"\['b', 'a'\], for 2 columns, called 'a', 'b'") as caught:
        read(Y, sensitive_features=Membership(shares("pandas"), groups=["b", "a"]))
    assert "leave out groups" in caught.value.remedy
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ShapeError, match="2 columns named 'a'"):
        read(Y, sensitive_features=Membership(pandas.DataFrame(SHARES, columns=["a", "a"])))


ROWS = [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.125, 0.375, 0.5], [0.0, 0.0, 1.0]]
NAMES = ["no", "maybe", "yes"]
GROUPS = ["a", "b", "a", "b"]


def make(library, rows=ROWS, names=NAMES):
    """Make a table of a library from rows."""
    matrix = np.array(rows)
    columns = {name: matrix[:, k].copy() for k, name in enumerate(names)}
    if library == "list":
        return [list(row) for row in rows]
    if library == "numpy":
        return matrix
    if library == "dict":
        return columns
    if library == "pandas":
        return pytest.importorskip("pandas").DataFrame(
            columns, index=[f"row {i}" for i in range(len(rows))]
        )
    if library == "polars":
        return pytest.importorskip("polars").DataFrame(columns)
    arrow = pytest.importorskip("pyarrow")
    return arrow.table(columns) if library == "arrow" else arrow.RecordBatch.from_pydict(columns)


LIBRARIES = ["list", "numpy", "dict", "pandas", "polars", "arrow", "arrow batch"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gives_the_same_matrix_and_class_names(library):
    labels = read(make(library), sensitive_features=GROUPS).labels
    assert labels.is_soft and labels.codes is None
    assert (labels.n_rows, labels.n_classes) == (4, 3)
    np.testing.assert_array_equal(labels.matrix, ROWS)
    assert labels.vocabulary.values.tolist() == (
        [0, 1, 2] if library in ("list", "numpy") else NAMES
    )
    assert not labels.matrix.flags.writeable


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_users_memory_is_used_and_left_alone(dtype, order):
    matrix = np.array(ROWS, dtype=dtype, order=order)
    before = matrix.copy()
    labels = read(matrix, sensitive_features=GROUPS).labels
    assert np.shares_memory(labels.matrix, matrix)
    assert labels.matrix.dtype == matrix.dtype
    assert matrix.flags.writeable
    np.testing.assert_array_equal(matrix, before)
    normalized = read(matrix, sensitive_features=GROUPS, normalize=True).labels
    assert not np.shares_memory(normalized.matrix, matrix)
    np.testing.assert_array_equal(matrix, before)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.25])
def test_a_value_that_is_no_probability_is_named(library, value):
    rows = [row[:] for row in ROWS]
    rows[2][1] = value
    with pytest.raises(ProbabilityError) as caught:
        read(make(library, rows), sensitive_features=GROUPS)
    facts = caught.value.facts
    assert (facts["row"], facts["class_name"]) == (
        2,
        1 if library in ("list", "numpy") else "maybe",
    )
    assert facts["value"] == value or np.isnan(value)
    with pytest.raises(ProbabilityError):
        read(make(library, rows), sensitive_features=GROUPS, normalize=True)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("f4", 1e-5), ("f8", 1e-6)])
def test_row_sums_are_held_to_the_tolerance(dtype, tolerance, order):
    matrix = np.full((200_000, 4), 0.25, dtype=dtype, order=order)
    groups = np.arange(len(matrix)) % 2
    matrix[150_000, 3] += 0.6 * tolerance
    read(matrix, sensitive_features=groups)
    matrix[150_001:150_004, 3] += 1.5 * tolerance
    with pytest.raises(ProbabilityError) as caught:
        read(matrix, sensitive_features=groups)
    assert (caught.value.facts["row"], caught.value.facts["count"]) == (150_001, 3)
    assert caught.value.facts["total"] == pytest.approx(1 + 1.5 * tolerance, abs=tolerance / 10)
    assert "normalize=True" in caught.value.remedy
    normalized = read(matrix, sensitive_features=groups, normalize=True).labels.matrix
    assert np.abs(normalized.sum(axis=1, dtype=np.float64) - 1).max() < tolerance / 10


@pytest.mark.parametrize("library", ["list", "numpy", "dict", "pandas", "polars", "arrow"])
def test_a_single_column_is_classes_unless_it_could_be_one_probability(library):
    data = read(make(library, [["b"], ["a"], ["b"], ["a"]], ["label"]), sensitive_features=GROUPS)
    assert data.labels.codes.tolist() == [1, 0, 1, 0]
    data = read(make(library, [[3], [1], [1], [1]], ["label"]), sensitive_features=GROUPS)
    assert data.labels.codes.tolist() == [1, 0, 0, 0]
    with pytest.raises(EmptyError, match="at least two classes"):
        read(make(library, [[0.3], [0.1], [0.2], [0.9]], ["label"]), sensitive_features=GROUPS)


def test_tables_that_cannot_be_read_are_refused():
    with pytest.raises(InputError, match="complex"):
        read(np.array(ROWS) + 1j, sensitive_features=GROUPS)
    with pytest.raises(ShapeError):
        read(np.zeros((4, 2, 2)), sensitive_features=GROUPS)
    with pytest.raises(EmptyError):
        read(np.zeros((4, 0)), sensitive_features=GROUPS)
    with pytest.raises(EmptyError):
        read(np.zeros((0, 3)), sensitive_features=[])
    with pytest.raises(EmptyError):
        read({}, sensitive_features=[])


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
