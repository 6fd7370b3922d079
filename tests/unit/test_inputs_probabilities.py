"""Tables of probabilities: accepted from every library without a copy where possible, and refused with the row at fault."""

import numpy as np
import pytest

from r2b._data import read
from r2b.errors import EmptyError, InputError, ProbabilityError, ShapeError

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


def test_classes_drawn_from_a_frame_leave_as_a_column_of_its_library():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    codes = np.array([2, 0, 1, 1])
    series = read(make("pandas"), sensitive_features=GROUPS).labels.vocabulary.decode(codes)
    pandas.testing.assert_series_equal(
        series, pandas.Series(["yes", "no", "maybe", "maybe"], index=[f"row {i}" for i in range(4)])
    )
    series = read(make("polars"), sensitive_features=GROUPS).labels.vocabulary.decode(codes)
    assert isinstance(series, polars.Series) and series.to_list() == ["yes", "no", "maybe", "maybe"]


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


def test_a_pandas_frame_of_one_block_is_not_copied():
    pandas = pytest.importorskip("pandas")
    matrix = np.array(ROWS)
    frame = pandas.DataFrame(matrix, copy=False)
    labels = read(frame, sensitive_features=GROUPS).labels
    assert np.shares_memory(labels.matrix, matrix)
    doubled = read(frame * 2, sensitive_features=GROUPS, normalize=True).labels
    np.testing.assert_array_equal(doubled.matrix, ROWS)
    assert frame.to_numpy().max() == 1


@pytest.mark.parametrize("dtype", ["f2", ">f4", ">f8", "g"])
def test_other_floats_are_converted(dtype):
    labels = read(np.array(ROWS, dtype=dtype), sensitive_features=GROUPS).labels
    assert labels.matrix.dtype == (np.float32 if dtype in ("f2", ">f4") else np.float64)
    assert labels.matrix.dtype.isnative
    np.testing.assert_array_equal(labels.matrix, ROWS)


def test_strided_matrices_are_read_in_place():
    wide = np.repeat(np.array(ROWS), 2, axis=1)[::-1, ::2]
    labels = read(wide, sensitive_features=GROUPS).labels
    np.testing.assert_array_equal(labels.matrix, ROWS[::-1])
    assert np.shares_memory(labels.matrix, wide)


@pytest.mark.parametrize(
    ("dtype", "library"),
    # frames of objects are for NumPy alone
    [
        *(
            (dtype, library)
            for dtype in (bool, np.int8, np.uint64)
            for library in ("numpy", "pandas", "polars", "arrow")
        ),
        (object, "numpy"),
    ],
)
def test_one_hot_rows_give_the_same_as_floats(dtype, library):
    eye = np.eye(3)[[0, 2, 1, 1]]
    given = eye.astype(dtype)
    if library != "numpy":
        given = make(library, given)
    labels = read(given, sensitive_features=GROUPS).labels
    assert labels.matrix.dtype == np.float64
    np.testing.assert_array_equal(labels.matrix, eye)


def test_frames_of_several_number_types():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {
            "a": pandas.Series([0, 1], dtype="Int64"),
            "b": pandas.Series([0.25, 0.0], dtype="Float32"),
            "c": pandas.Series([0.75, 0.0], dtype="double[pyarrow]"),
            "d": [False, False],
        }
    )
    labels = read(frame, sensitive_features=[0, 1]).labels
    np.testing.assert_array_equal(labels.matrix, [[0, 0.25, 0.75, 0], [1, 0, 0, 0]])
    with pytest.raises(ProbabilityError) as caught:
        read(frame.reindex([0, 1, 7]), sensitive_features=[0, 1, 1])
    assert caught.value.facts["row"] == 2


def test_decimals_of_a_frame_are_numbers():
    from decimal import Decimal

    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [Decimal("0.5"), Decimal(1)], "b": [Decimal("0.5"), Decimal(0)]})
    assert read(frame, sensitive_features=[0, 1]).labels.matrix.tolist() == [[0.5, 0.5], [1, 0]]


def test_numbers_and_missing_ones_in_lists():
    assert read([[1, 0], [0.5, 0.5]], sensitive_features=[0, 1]).labels.matrix.dtype == np.float64
    with pytest.raises(ProbabilityError) as caught:
        read([[1, 0], [None, 1]], sensitive_features=[0, 1])
    assert (caught.value.facts["row"], caught.value.facts["class_name"]) == (1, 0)


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


def test_many_classes_in_single_precision_are_not_refused_for_rounding():
    rng = np.random.default_rng(0)
    matrix = rng.dirichlet(np.ones(5000), size=50).astype(np.float32)
    assert read(matrix, sensitive_features=np.arange(50) % 2).labels.n_classes == 5000


def test_normalize_divides_and_refuses_a_row_of_zeros():
    counts = np.array([[2, 6], [5, 0]])
    np.testing.assert_array_equal(
        read(counts, sensitive_features=[0, 1], normalize=True).labels.matrix,
        [[0.25, 0.75], [1, 0]],
    )
    assert counts.tolist() == [[2, 6], [5, 0]]
    with pytest.raises(ProbabilityError) as caught:
        read([[2, 6], [0, 0]], sensitive_features=[0, 1], normalize=True)
    assert caught.value.facts["row"] == 1


@pytest.mark.parametrize("library", ["list", "numpy", "dict", "pandas", "polars", "arrow"])
def test_a_single_column_is_classes_unless_it_could_be_one_probability(library):
    data = read(make(library, [["b"], ["a"], ["b"], ["a"]], ["label"]), sensitive_features=GROUPS)
    assert data.labels.codes.tolist() == [1, 0, 1, 0]
    data = read(make(library, [[3], [1], [1], [1]], ["label"]), sensitive_features=GROUPS)
    assert data.labels.codes.tolist() == [1, 0, 0, 0]
    with pytest.raises(EmptyError, match="at least two classes"):
        read(make(library, [[0.3], [0.1], [0.2], [0.9]], ["label"]), sensitive_features=GROUPS)


@pytest.mark.parametrize("library", LIBRARIES)
def test_text_in_a_table_of_probabilities_is_refused(library):
    with pytest.raises(InputError, match="probabilit"):
        read(
            make(library, [["b", "c"], ["a", "d"], ["a", "d"], ["a", "d"]], ["p", "q"]),
            sensitive_features=GROUPS,
        )


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


def test_two_columns_of_one_name_are_refused():
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(np.eye(2), columns=["a", "a"])
    for table in (frame, arrow.table([[1.0], [0.0]], names=["a", "a"])):
        with pytest.raises(ShapeError, match="'a'"):
            read(table, sensitive_features=[0, 1])
    with pytest.raises(ShapeError, match="'a'"):
        read([0, 1], sensitive_features=frame)


def test_a_missing_value_of_a_masked_matrix_is_refused():
    matrix = np.ma.MaskedArray(ROWS, mask=np.zeros((4, 3)))
    read(matrix, sensitive_features=GROUPS)
    matrix[1, 2] = np.ma.masked
    with pytest.raises(ProbabilityError):
        read(matrix, sensitive_features=GROUPS)
