"""The DP remover: groups coincide after repair, ties do not leak, tables keep their
form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from r2b.errors import (
    InputError,
    LengthError,
    MissingValueError,
    ParameterError,
    ShapeError,
    WeightError,
)
from r2b.methods.remover import DPRemover

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

Array = np.ndarray[Any, np.dtype[Any]]


def distance(x: Array, s: Array) -> float:
    """The largest Kolmogorov-Smirnov distance between two groups."""
    at = np.unique(x)
    cdfs = [
        np.searchsorted(np.sort(x[s == group]), at, side="right") / (s == group).sum()
        for group in np.unique(s)
    ]
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


def sample(
    shape: str, n_groups: int, rng: np.random.Generator, n: int = 6000
) -> tuple[Array, Array]:
    """Rows whose distribution differs by group in place, spread and form."""
    s = rng.choice(n_groups, n, p=np.arange(1, n_groups + 1) / np.arange(1, n_groups + 1).sum())
    if shape == "skewed":
        return np.exp(rng.normal(0.5 * s, 0.5 + 0.2 * s)), s
    return rng.normal(0, 0.3, n) + np.where(rng.random(n) < 0.2 + 0.1 * s, 5.0 + s, -3.0), s


def repaired(x: Array, s: Array, **settings: Any) -> Array:
    moved: Array = DPRemover(**settings).fit_transform(x[:, None], sensitive_features=s)[:, 0]
    return moved


@pytest.mark.parametrize("n_bins", [100, None])
@pytest.mark.parametrize("n_groups", [2, 5])
@pytest.mark.parametrize("shape", ["skewed", "multimodal"])
def test_groups_coincide_on_training_and_on_new_rows(
    shape: str, n_groups: int, n_bins: int | None
) -> None:
    rng = np.random.default_rng(1)
    x, s = sample(shape, n_groups, rng)
    new_x, new_s = sample(shape, n_groups, rng)
    remover = DPRemover(n_bins=n_bins).fit(x[:, None], sensitive_features=s)
    moved = remover.transform(x[:, None], sensitive_features=s)[:, 0]
    new = remover.transform(new_x[:, None], sensitive_features=new_s)[:, 0]
    assert distance(x, s) > 4 * sampling_level(s)
    # Training ranks are spread evenly, which is better than a sample; new rows are samples, against
    # CDFs that are samples too.
    assert distance(moved, s) < 3 / np.unique(s, return_counts=True)[1].min()
    assert distance(new, new_s) < np.sqrt(2) * sampling_level(new_s)


def test_the_shared_distribution_is_the_average_of_two_and_the_median_of_three() -> None:
    x = np.array([1.0, 2, 3, 11, 12, 13, 104, 105, 106])
    s = np.repeat([0, 1, 2], 3)
    np.testing.assert_array_equal(repaired(x[:6], s[:6], n_bins=None), [6, 7, 8, 6, 7, 8])
    np.testing.assert_array_equal(repaired(x, s, n_bins=None), [11, 12, 13] * 3)


@pytest.mark.parametrize("n_bins", [100, None])
def test_order_inside_a_group_is_kept(n_bins: int | None) -> None:
    rng = np.random.default_rng(2)
    x, s = sample("skewed", 3, rng)
    new_x, new_s = sample("skewed", 3, rng)
    remover = DPRemover(n_bins=n_bins).fit(x[:, None], sensitive_features=s)
    for values, groups in (
        (x, s),
        (new_x, new_s),
        (np.concatenate([x, new_x]), np.concatenate([s, new_s])),
    ):
        moved = remover.transform(values[:, None], sensitive_features=groups)[:, 0]
        for group in range(3):
            in_order = moved[groups == group][np.argsort(values[groups == group])]
            assert (np.diff(in_order) >= 0).all()


def relu(rng: np.random.Generator, n: int = 8000) -> tuple[Array, Array]:
    s = (rng.random(n) < 0.4).astype(int)
    return np.maximum(rng.normal(-0.8 + 0.6 * s, 1), 0), s


def test_random_ties_at_zero_leave_nothing_to_tell_groups_apart() -> None:
    x, s = relu(np.random.default_rng(3))
    tied = [np.mean(x[s == g] == 0) for g in (0, 1)]
    assert tied[0] > 0.7 and 0.5 < tied[1] < 0.65
    assert distance(repaired(x, s, n_bins=None), s) < 0.001
    new_x, new_s = relu(np.random.default_rng(4))
    new = (
        DPRemover()
        .fit(x[:, None], sensitive_features=s)
        .transform(new_x[:, None], sensitive_features=new_s)[:, 0]
    )
    assert distance(new, new_s) < np.sqrt(2) * sampling_level(new_s)


@pytest.mark.parametrize("n_groups", [2, 5])
def test_categories_come_together_with_the_least_moved_rows(n_groups: int) -> None:
    rng = np.random.default_rng(8)
    s = rng.integers(0, n_groups, 9000)
    shares = rng.dirichlet(np.ones(4), n_groups)

    def draw(s):
        return np.array(list("wxyz"))[
            (rng.random((len(s), 1)) > np.cumsum(shares[s], axis=1)).sum(axis=1).clip(max=3)
        ]

    x, new = draw(s), draw(s)
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


def test_partial_repair_is_monotone() -> None:
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


def test_training_cdfs_are_used_on_new_rows() -> None:
    x = np.concatenate([np.arange(101.0), 1000 + np.arange(101.0)])
    s = np.repeat(["a", "b"], 101)
    remover = DPRemover(n_bins=None).fit(x[:, None], sensitive_features=s)
    new = remover.transform(
        np.array([[-50.0], [50.0], [70.0], [500.0]]), sensitive_features=["a"] * 4
    )[:, 0]
    # Alone in their call, these rows go where the training rows of group a say, not to the
    # quartiles of the four.
    np.testing.assert_array_equal(new, [500, 550, 570, 600])
    assert remover.transform([[1050.0]], sensitive_features=["b"])[0, 0] == 550


@pytest.mark.parametrize("settings", [{}, {"n_bins": None}])
def test_one_group_stays_as_it_is(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(11)
    frame = pd.DataFrame(
        {"x": rng.normal(size=50), "n": rng.poisson(2, 50) * 1.0, "k": rng.choice(["a", "b"], 50)}
    )
    pd.testing.assert_frame_equal(
        DPRemover(**settings).fit_transform(frame, sensitive_features=["all"] * 50), frame
    )


def test_weights_count_as_repeated_rows() -> None:
    rng = np.random.default_rng(13)
    X, s, w = rng.normal(size=(40, 1)), np.arange(40) % 2, rng.integers(0, 4, 40)
    many = np.repeat(np.arange(40), w)
    weighted = DPRemover().fit(X, sensitive_features=s, sample_weight=w)
    repeated = DPRemover().fit(X[many], sensitive_features=s[many])
    seen = w > 0
    np.testing.assert_allclose(
        weighted.transform(X[seen], sensitive_features=s[seen]),
        repeated.transform(X[seen], sensitive_features=s[seen]),
    )


def mixed_frame(n: int = 400) -> tuple[Any, Array]:
    rng = np.random.default_rng(14)
    s = np.arange(n) % 2
    columns = {
        "x": rng.normal(s, 1),
        "count": rng.poisson(2 + s),
        "flag": rng.random(n) < 0.3 + 0.4 * s,
        "kind": np.where(rng.random(n) < 0.2 + 0.5 * s, "p", "q"),
    }
    frame = pd.DataFrame(columns, index=np.arange(n)[::-1] * 10)
    return frame.assign(
        size=pd.Categorical(
            np.where(rng.random(n) < 0.5, "big", "small"), categories=["big", "small"]
        )
    ), s


def test_pandas_keeps_names_index_and_types() -> None:
    frame, s = mixed_frame()
    before = frame.copy()
    moved = DPRemover().fit_transform(
        frame, sensitive_features=pd.Series(s, index=frame.index, name="sex")
    )
    pd.testing.assert_frame_equal(frame, before)
    assert list(moved.columns) == list(frame.columns)
    pd.testing.assert_index_equal(moved.index, frame.index)
    assert moved["x"].dtype == moved["count"].dtype == np.float64
    assert all(moved[name].dtype == frame[name].dtype for name in ("flag", "kind", "size"))


def test_columns_are_found_by_name_and_objects_by_what_they_hold() -> None:
    frame, s = mixed_frame()
    remover = DPRemover().fit(frame, sensitive_features=s)
    expected = remover.transform(frame, sensitive_features=s)
    turned = remover.transform(frame[["kind", "x", "size", "flag", "count"]], sensitive_features=s)
    pd.testing.assert_frame_equal(turned[list(frame.columns)], expected)
    plain = DPRemover().fit_transform(frame.to_numpy(dtype=object), sensitive_features=s)
    assert plain.dtype == object
    np.testing.assert_array_equal(plain[:, 1].astype(float), expected["count"])
    assert plain[:, 3].tolist() == expected["kind"].tolist()
    flags = DPRemover().fit_transform(frame[["flag"]].to_numpy(), sensitive_features=s)
    assert (
        flags.dtype == bool
        and flags[:, 0].tolist()
        == DPRemover().fit_transform(frame[["flag"]], sensitive_features=s)["flag"].tolist()
    )


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
    with pytest.raises(MissingValueError, match=r"column 0 of X.*row 2"):
        DPRemover().fit(
            np.ma.masked_array([[1], [2], [3]], [[False], [False], [True]]),
            sensitive_features=[0, 1, 1],
        )


def test_refusals_at_fit() -> None:
    X = np.arange(4.0)[:, None]
    with pytest.raises(LengthError):
        DPRemover().fit(X, sensitive_features=[0, 1])
    with pytest.raises(ShapeError, match="single column"):
        DPRemover().fit(X[:, 0], sensitive_features=[0, 1, 0, 1])
    with pytest.raises(InputError, match="inf"):
        DPRemover().fit([[1.0], [np.inf]], sensitive_features=[0, 1])
    with pytest.raises(InputError, match="times"):
        DPRemover().fit(
            pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2021-01-01"])}),
            sensitive_features=[0, 1],
        )
    with pytest.raises(WeightError):
        DPRemover().fit(X, sensitive_features=[0, 1, 0, 1], sample_weight=[1, 0, 1, 0])
    with pytest.raises(LengthError):
        DPRemover().fit(X, sensitive_features=[0, 1, 0, 1], sample_weight=[1])
    with pytest.raises(InputError, match="different order"):
        DPRemover().fit(
            pd.DataFrame({"a": [1, 2]}, index=[0, 1]),
            sensitive_features=pd.Series([0, 1], index=[1, 0]),
        )


@pytest.mark.parametrize(
    "settings",
    [
        {"amount": 1.5},
        {"amount": float("nan")},
        {"n_bins": 0},
        {"random_state": -1},
    ],
)
def test_parameters_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(settings))):
        DPRemover(**settings).fit([[1.0], [2.0]], sensitive_features=[0, 1])
