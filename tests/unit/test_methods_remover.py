"""The DP remover: groups coincide after repair, ties do not leak, tables keep their form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from r2b.errors import (
    InputError,
    LengthError,
    MissingValueError,
    RowLabelError,
    ShapeError,
    WeightError,
)
from r2b.methods import DPRemover

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

Array = np.ndarray[Any, np.dtype[Any]]


def distance(x: Array, s: Array) -> float:
    """The largest Kolmogorov-Smirnov distance between two groups."""
    at, groups = np.unique(x), [np.sort(x[s == group]) for group in np.unique(s)]
    cdfs = [np.searchsorted(each, at, side="right") / len(each) for each in groups]
    return float(max(np.abs(a - b).max() for a in cdfs for b in cdfs))


def sampling_level(s: Array) -> float:
    """What two samples of one distribution exceed with a chance below 0.001, for the two smallest
    groups.
    """
    small = np.sort(np.unique(s, return_counts=True)[1])[:2]
    return float(1.95 * np.sqrt((1 / small).sum()))


def proportions(column: Any, s: Array) -> Array:
    values = np.asarray(column)
    return np.array(
        [[np.mean(values[s == g] == v) for v in np.unique(values)] for g in np.unique(s)]
    )


def sample(shape: str, n_groups: int, rng: np.random.Generator, n: int = 6000) -> Any:
    """Rows whose distribution differs by group in place, spread and form."""
    shares = np.arange(1, n_groups + 1)
    s = rng.choice(n_groups, n, p=shares / shares.sum())
    if shape == "skewed":
        return np.exp(rng.normal(0.5 * s, 0.5 + 0.2 * s)), s
    if shape == "tied":
        return np.maximum(rng.normal(-0.8 + 0.4 * s, 1), 0), s
    return rng.normal(0, 0.3, n) + np.where(rng.random(n) < 0.2 + 0.1 * s, 5.0 + s, -3.0), s


def moved_by(remover: DPRemover, x: Array, s: Array) -> Array:
    moved: Array = remover.transform(x[:, None], sensitive_features=s)[:, 0]
    return moved


@pytest.mark.parametrize("n_bins", [100, None])
@pytest.mark.parametrize("n_groups", [2, 5])
@pytest.mark.parametrize("shape", ["skewed", "multimodal", "tied"])
def test_groups_coincide_on_training_and_new_rows_and_keep_their_order(
    shape: str, n_groups: int, n_bins: int | None
) -> None:
    rng = np.random.default_rng(1)
    (x, s), (new_x, new_s) = sample(shape, n_groups, rng), sample(shape, n_groups, rng)
    remover = DPRemover(n_bins=n_bins).fit(x[:, None], sensitive_features=s)
    moved, new = moved_by(remover, x, s), moved_by(remover, new_x, new_s)
    assert distance(x, s) > 2 * sampling_level(s)
    # Training ranks are spread evenly, which is better than a sample; new rows are samples, against
    # CDFs that are samples too.
    assert distance(moved, s) < 3 / np.unique(s, return_counts=True)[1].min()
    assert distance(new, new_s) < np.sqrt(2) * sampling_level(new_s)
    both = np.concatenate([x, new_x]), np.concatenate([s, new_s])
    for (values, groups), answers in (((x, s), moved), (both, moved_by(remover, *both))):
        for group in range(n_groups if shape != "tied" else 0):
            in_order = answers[groups == group][np.argsort(values[groups == group])]
            assert (np.diff(in_order) >= 0).all()


def test_the_shared_distribution_is_the_average_of_two_and_the_median_of_three() -> None:
    x, s = np.array([1.0, 2, 3, 11, 12, 13, 104, 105, 106]), np.repeat([0, 1, 2], 3)
    two = DPRemover(n_bins=None).fit(x[:6, None], sensitive_features=s[:6])
    np.testing.assert_array_equal(moved_by(two, x[:6], s[:6]), [6, 7, 8, 6, 7, 8])
    three = DPRemover(n_bins=None).fit(x[:, None], sensitive_features=s)
    np.testing.assert_array_equal(moved_by(three, x, s), [11, 12, 13] * 3)


@pytest.mark.parametrize("n_groups", [2, 5])
def test_categories_come_together_with_the_least_moved_rows(n_groups: int) -> None:
    rng = np.random.default_rng(8)
    s = rng.integers(0, n_groups, 9000)
    upto = np.cumsum(rng.dirichlet(np.ones(4), n_groups), axis=1)[s]
    x, new = (
        np.array(list("wxyz"))[(rng.random((len(s), 1)) > upto).sum(axis=1).clip(max=3)]
        for _ in range(2)
    )
    remover = DPRemover().fit({"kind": x}, sensitive_features=s)
    moved, moved_new = (
        remover.transform({"kind": v}, sensitive_features=s)["kind"] for v in (x, new)
    )
    before, after, later = (proportions(v, s) for v in (x, moved, moved_new))
    assert np.ptp(before, axis=0).max() > 0.15
    assert np.ptp(after, axis=0).max() < 0.005
    assert np.ptp(later, axis=0).max() < np.sqrt(2) * sampling_level(s)
    for g in range(n_groups):
        least = 0.5 * np.abs(before[g] - after[g]).sum()  # the total variation between the two
        assert np.mean(x[s == g] != moved[s == g]) == pytest.approx(least, abs=1e-9)


def test_partial_repair_is_monotone_and_one_group_stays_as_it_is() -> None:
    rng = np.random.default_rng(10)
    x, s = sample("skewed", 2, rng)
    kind = np.where(rng.random(len(s)) < 0.2 + 0.5 * s, "p", "q")
    frame = pd.DataFrame({"x": x, "kind": kind})
    numbers, gaps = [], []
    for amount in (0, 0.25, 0.5, 0.75, 1):
        moved = DPRemover(amount=amount).fit_transform(frame, sensitive_features=s)
        numbers.append(distance(moved["x"].to_numpy(), s))
        gaps.append(float(np.ptp(proportions(moved["kind"], s), axis=0).max()))
        if amount == 0:
            pd.testing.assert_frame_equal(moved, frame)
    assert (np.diff(numbers) < 0).all() and (np.diff(gaps) < 0).all()
    np.testing.assert_allclose(gaps, gaps[0] * np.array([1, 0.75, 0.5, 0.25, 0]), atol=0.002)
    alone = DPRemover().fit_transform(frame, sensitive_features=["all"] * len(frame))
    pd.testing.assert_frame_equal(alone, frame)


def test_training_cdfs_are_used_on_new_rows() -> None:
    x = np.concatenate([np.arange(101.0), 1000 + np.arange(101.0)])
    remover = DPRemover(n_bins=None).fit(x[:, None], sensitive_features=["a"] * 101 + ["b"] * 101)
    # Alone in their call, these rows go where the training rows of group a say, not to the
    # quartiles of the four.
    new = moved_by(remover, np.array([-50.0, 50.0, 70.0, 500.0]), np.array(["a"] * 4))
    np.testing.assert_array_equal(new, [500, 550, 570, 600])
    assert remover.transform([[1050.0]], sensitive_features=["b"])[0, 0] == 550


def test_weights_count_as_repeated_rows() -> None:
    rng = np.random.default_rng(13)
    X, s, w = rng.normal(size=(40, 1)), np.arange(40) % 2, rng.integers(0, 4, 40)
    many, seen = np.repeat(np.arange(40), w), w > 0
    weighted = DPRemover().fit(X, sensitive_features=s, sample_weight=w)
    repeated = DPRemover().fit(X[many], sensitive_features=s[many])
    one, two = (
        each.transform(X[seen], sensitive_features=s[seen]) for each in (weighted, repeated)
    )
    np.testing.assert_allclose(one, two)


def test_tables_keep_names_rows_and_types_whatever_their_library() -> None:
    rng, n = np.random.default_rng(14), 400
    s = np.arange(n) % 2
    columns = {
        "x": rng.normal(s, 1),
        "count": rng.poisson(2 + s),
        "flag": rng.random(n) < 0.3 + 0.4 * s,
        "kind": np.where(rng.random(n) < 0.2 + 0.5 * s, "p", "q"),
    }
    frame = pd.DataFrame(columns, index=np.arange(n)[::-1] * 10)
    sizes = np.where(rng.random(n) < 0.5, "big", "small")
    frame = frame.assign(size=pd.Categorical(sizes, categories=["big", "small"]))
    before, sex = frame.copy(), pd.Series(s, index=frame.index, name="sex")
    moved = DPRemover().fit_transform(frame, sensitive_features=sex)
    pd.testing.assert_frame_equal(frame, before)
    assert list(moved.columns) == list(frame.columns)
    pd.testing.assert_index_equal(moved.index, frame.index)
    assert moved["x"].dtype == moved["count"].dtype == np.float64
    assert all(moved[name].dtype == frame[name].dtype for name in ("flag", "kind", "size"))
    # Columns are found by name, and objects by what they hold.
    remover = DPRemover().fit(frame, sensitive_features=s)
    turned = remover.transform(frame[["kind", "x", "size", "flag", "count"]], sensitive_features=s)
    pd.testing.assert_frame_equal(turned[list(frame.columns)], moved)
    plain = DPRemover().fit_transform(frame.to_numpy(dtype=object), sensitive_features=s)
    assert plain.dtype == object and plain[:, 3].tolist() == moved["kind"].tolist()
    np.testing.assert_array_equal(plain[:, 1].astype(float), moved["count"])
    flags = DPRemover().fit_transform(frame[["flag"]].to_numpy(), sensitive_features=s)
    assert flags.dtype == bool
    for table in (pl.from_pandas(frame), pa.Table.from_pandas(frame, preserve_index=False)):
        other = DPRemover().fit_transform(table, sensitive_features=s)
        assert type(other) is type(table)
        back = other.to_pandas()
        assert list(back) == list(frame) and back["kind"].tolist() == moved["kind"].tolist()
        np.testing.assert_allclose(back["x"], moved["x"])
    listed = DPRemover().fit_transform(columns, sensitive_features=s)
    assert list(listed) == list(columns)


@pytest.mark.parametrize(
    "bad",
    [
        pd.DataFrame({"a": [1.0, None, 2.0]}),
        pl.DataFrame({"a": [1, None, 2]}),
        pa.table({"a": ["x", None, "y"]}),
    ],
)
def test_missing_values_are_named(bad: Any) -> None:
    with pytest.raises(MissingValueError, match=r"column 'a' of X.*row 1") as caught:
        DPRemover().fit(bad, sensitive_features=[0, 1, 1])
    assert caught.value.facts["row"] == 1


X = np.arange(4.0)[:, None]
TIMES = pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2021-01-01"] * 2)})


@pytest.mark.parametrize(
    ("kind", "table", "given"),
    [
        (LengthError, X, {"sensitive_features": [0, 1]}),
        (ShapeError, X[:, 0], {}),
        (InputError, [[1.0], [np.inf], [2.0], [3.0]], {}),
        (InputError, TIMES, {}),
        (WeightError, X, {"sample_weight": [1, 0, 1, 0]}),
        (LengthError, X, {"sample_weight": [1]}),
        (
            RowLabelError,
            pd.DataFrame(X),
            {"sensitive_features": pd.Series([0, 1, 0, 1], index=[3, 2, 1, 0])},
        ),
    ],
)
def test_refusals_at_fit(kind: Any, table: Any, given: dict[str, Any]) -> None:
    with pytest.raises(kind):
        DPRemover().fit(table, **{"sensitive_features": [0, 1, 0, 1], **given})


def test_other_columns_than_the_fitted_ones_are_refused() -> None:
    known = {"sensitive_features": [0, 1, 0, 1]}
    fitted = DPRemover().fit(pd.DataFrame(X, columns=["a"]), **known)
    for other in (pd.DataFrame(X, columns=["b"]), np.hstack([X, X]), TIMES):
        with pytest.raises(ShapeError):
            fitted.transform(other, **known)
    with pytest.raises(InputError, match="not numbers, but numbers were fitted"):
        fitted.transform(pd.DataFrame({"a": list("wxyz")}), **known)
