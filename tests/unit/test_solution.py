"""Labels in every form keep parity, and new rows get what fitted rows got."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from problems import NAMES, drawn, parity_of

import r2b
from r2b import errors

CLASS = drawn("class", classes=5, groups=3, rows=400, kind="class", epsilon=0.01, seed=60)
SOFT = drawn("soft", classes=5, groups=3, rows=400, epsilon=0.01, seed=61)
CLASS_W = drawn("class, weights", classes=4, groups=3, rows=300, kind="class", decades=2.0, seed=62)
SOFT_W = drawn("soft, weights", classes=4, groups=3, rows=300, decades=2.0, seed=63)
FLOAT32 = drawn("float32", classes=5, groups=3, rows=200, epsilon=0.01, dtype=np.float32, seed=64)
LAM = drawn("class, lam .3", classes=4, groups=3, rows=200, kind="class", lam=0.3, seed=65)
EVERY = [CLASS, SOFT, CLASS_W, SOFT_W, FLOAT32, LAM]
every = pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)


def fair_of(case, **more):
    fair = r2b.debias(case.y, **case.arguments, **more)
    assert fair.status.ok
    return fair


def one_hot(labels, n_classes):
    return np.eye(n_classes)[np.asarray(labels)]


# --- soft and channel ---


@every
def test_soft_labels_in_any_dtype_and_in_blocks(case):
    fair = fair_of(case)
    whole = fair.soft_labels
    assert whole.dtype == np.float64 and whole.shape == case.matrix.shape
    for dtype in (np.float32, np.float64, "float32"):
        assert fair.soft(dtype).dtype == np.dtype(dtype)
        blocks = list(fair.iter_soft(37, dtype))
        assert {len(block) for block in blocks[:-1]} == {37} and blocks[0].dtype == np.dtype(dtype)
        assert np.array_equal(np.concatenate(blocks), fair.soft(dtype))
    assert np.abs(fair.soft(np.float32) - fair.soft(np.float64)).max() < 1e-7
    assert np.array_equal(np.concatenate(list(fair.iter_soft())), whole)


@every
def test_the_channel_is_the_answer_to_every_class(case):
    fair = fair_of(case)
    n_groups, n_classes = fair.prices.shape
    assert fair.channel.shape == (n_groups, n_classes, n_classes)
    assert fair.channel.min() >= 0 and np.abs(fair.channel.sum(axis=2) - 1).max() < 1e-12
    if case.y.ndim == 1:
        assert np.array_equal(fair.channel[case.groups, case.y], fair.soft_labels)
    else:
        sure = np.tile(np.eye(n_classes, dtype=case.y.dtype), (n_groups, 1))
        transformed = fair.transform(
            sure, sensitive_features=np.repeat(np.arange(n_groups), n_classes)
        )
        assert np.abs(transformed - fair.channel.reshape(-1, n_classes)).max() < 1e-6


# --- sample and round ---


@every
def test_samples_repeat_and_follow_the_distributions(case):
    fair = fair_of(case)
    assert np.array_equal(fair.sample(random_state=3), fair.sample(random_state=3))
    assert not np.array_equal(fair.sample(random_state=3), fair.sample(random_state=4))
    assert np.array_equal(
        fair.sample(np.random.default_rng(3)), fair.sample(np.random.default_rng(3))
    )
    assert np.array_equal(
        fair.sample(random_state=3), fair.sample(random_state=3, key=np.arange(len(case.y)))
    )
    x, w = fair.soft(np.float64), case.w
    n_classes = x.shape[1]
    share = np.bincount(case.groups, w)
    deviation = fair.sampling_deviation
    for s in range(3):
        mine = case.groups == s
        expected = np.sqrt((w[mine] ** 2) @ (x[mine] * (1 - x[mine]))) / share[s]
        assert deviation[s] == pytest.approx(expected, abs=1e-12)
    # 60 draws: the mean of their group means is normal around the optimum; no entry beyond 4.5 of
    # its deviations.
    draws = [one_hot(fair.sample(random_state=seed), n_classes) for seed in range(60)]
    means = np.stack(
        [
            [w[case.groups == s] @ drawn_x[case.groups == s] / share[s] for s in range(3)]
            for drawn_x in draws
        ]
    )
    z = (means.mean(axis=0) - fair.certificate.means) / np.maximum(deviation / np.sqrt(60), 1e-12)
    assert np.abs(z[deviation > 1e-9]).max() < 4.5
    assert means.std(axis=0)[deviation > 1e-9] == pytest.approx(
        deviation[deviation > 1e-9], rel=0.5
    )
    for drawn_x in draws[:5]:
        assert (x[drawn_x > 0] > 0).all()  # a class of probability zero is never drawn


@every
def test_rounded_labels_keep_the_group_means(case):
    fair = fair_of(case)
    x, n_classes = fair.soft(np.float64), case.matrix.shape[1]
    weight = np.ones(len(x)) if case.weight is None else case.weight
    for seed in range(5):
        rounded = one_hot(fair.round(random_state=seed), n_classes)
        assert np.array_equal(fair.round(random_state=seed), fair.round(random_state=seed))
        assert (x[rounded > 0] > 0).all()
        for s in range(3):
            mine = case.groups == s
            off = np.abs(weight[mine] @ (rounded[mine] - x[mine])) / weight[mine].sum()
            if case.weight is None:
                assert off.max() < 1 / mine.sum()
            else:
                assert (
                    off.max() <= (n_classes - 1) * weight[mine].max() / weight[mine].sum() + 1e-12
                )
        if case.weight is None:
            sizes = np.sort(np.bincount(case.groups))
            assert (
                parity_of(rounded, case.groups).max()
                <= fair.certificate.disparity + 1 / sizes[0] + 1 / sizes[1]
            )
    assert not np.array_equal(fair.round(random_state=0), fair.round(random_state=1))


def test_weighted_rounding_goes_by_the_weights():
    """With many rows the bound is far below what rounding counts alone, or drawing, would leave."""
    case = drawn("many", classes=4, groups=3, rows=15_000, kind="class", decades=2.0, seed=67)
    fair = fair_of(case)
    rounded, x = one_hot(fair.round(), 4), fair.soft_labels
    for s in range(3):
        mine = case.groups == s
        off = np.abs(case.weight[mine] @ (rounded[mine] - x[mine])).max() / case.weight[mine].sum()
        assert (
            off
            <= 3 * case.weight[mine].max() / case.weight[mine].sum()
            < 0.5 * fair.sampling_deviation[s].max()
        )


@pytest.mark.slow
def test_the_chance_of_a_rounded_label_is_its_probability():
    case = drawn("small", classes=3, groups=2, rows=12, kind="class", seed=66)
    fair = fair_of(case)
    total = sum(one_hot(fair.round(random_state=seed), 3) for seed in range(1000)) / 1000
    x = fair.soft_labels
    assert (np.abs(total - x) <= 4.5 * np.sqrt(x * (1 - x) / 1000) + 1e-12).all()


# --- names and types leave as they came ---


def test_pandas_series_keep_index_name_and_category():
    pandas = pytest.importorskip("pandas")
    names = pandas.Categorical.from_codes([0, 1, 1, 0, 0, 0], ["no", "yes"])
    y = pandas.Series(names, index=[10, 11, 12, 20, 21, 22], name="approved")
    groups = pandas.Series(["f", "f", "f", "m", "m", "m"], index=y.index)
    fair = r2b.debias(y, sensitive_features=groups)
    for leaving in (fair.round(), fair.sample()):
        assert isinstance(leaving, pandas.Series)
        assert leaving.dtype == y.dtype
        assert leaving.name == "approved"
        assert leaving.index.equals(y.index)
    assert fair.classes.tolist() == ["no", "yes"] and fair.groups.tolist() == ["f", "m"]


# --- expand ---


@every
def test_expanded_rows_have_exact_parity(case):
    fair = fair_of(case)
    index, y, weight = fair.expand()
    assert weight.min() > 0
    own = np.ones(len(case.y)) if case.weight is None else case.weight
    assert np.bincount(index, weight, minlength=len(own)) == pytest.approx(own, rel=1e-12)
    parity = r2b.metrics.demographic_parity_difference(
        y, sensitive_features=case.groups[index], sample_weight=weight
    )
    assert parity <= np.max(case.epsilon) + 1e-9
    rebuilt = np.zeros(case.matrix.shape)
    rebuilt[index, np.asarray(y)] = weight / own[index]
    assert np.abs(rebuilt - fair.soft(np.float64)).max() < 1e-6


def test_features_of_any_kind_go_along():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    fair = fair_of(CLASS)
    index = fair.expand()[0]
    X = np.random.default_rng(0).normal(size=(400, 3))
    assert np.array_equal(fair.expand(X)[0], X[index])
    frame = fair.expand(pandas.DataFrame(X, columns=list("abc")))[0]
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == list("abc")
    assert np.array_equal(frame.to_numpy(), X[index])
    frame = fair.expand(polars.DataFrame(X, schema=list("abc")))[0]
    assert isinstance(frame, polars.DataFrame) and np.array_equal(frame.to_numpy(), X[index])
    assert fair.expand(X.tolist())[0] == [X.tolist()[i] for i in index]
    with pytest.raises(errors.LengthError, match="399 rows, but `y` has 400"):
        fair.expand(X[:-1])


def test_sparse_features_go_along():
    sparse = pytest.importorskip("scipy.sparse")
    fair = fair_of(CLASS)
    X = np.random.default_rng(0).normal(size=(400, 3))
    assert np.array_equal(fair.expand(sparse.csr_matrix(X))[0].toarray(), X[fair.expand()[0]])


# --- transform, changes, text ---


@every
def test_transform_gives_fitted_rows_what_they_got(case):
    fair = fair_of(case)
    again = fair.transform(case.y, sensitive_features=case.groups)
    assert again.dtype == fair.soft_labels.dtype and np.array_equal(again, fair.soft_labels)
    part = np.random.default_rng(1).permutation(len(case.y))[:50]
    assert np.array_equal(
        fair.transform(case.y[part], sensitive_features=case.groups[part]), fair.soft_labels[part]
    )


def test_the_account_tells_what_holds():
    fair = r2b.debias(
        ["no", "yes", "yes", "no", "no", "no"],
        sensitive_features=["f", "f", "f", "m", "m", "m"],
        epsilon=0.01,
    )
    text = str(fair)
    for piece in (
        "6 rows",
        "2 classes",
        "2 groups",
        "solved",
        "0.6667 -> 0.0100",
        "epsilon 0.01",
        "f: yes -> no",
        "m: no -> yes",
        "% of",
    ):
        assert piece in text
    assert "nan" not in text and f"{100 * fair.certificate.expected_changes:.2f} %" in text
    assert "0 to 0.5 by class" in str(
        r2b.debias(NAMES["ties"].y, sensitive_features=NAMES["ties"].groups, epsilon=[0, 0.5, 0.1])
    )
    assert "1 group\n" in str(r2b.debias(["a", "b"], sensitive_features=["x", "x"]))
    assert "FairLabels" in repr(fair)


@pytest.mark.parametrize("seed", range(5))
def test_equals_that_differ_by_rounding_are_listed_in_their_order(seed: int) -> None:
    """Two groups bear the same cost; the last bit depends on the processor."""
    counts = np.random.default_rng(seed).integers(3, 60, 6)
    y, sex = np.repeat(list("abcabc"), counts), np.repeat(list("fffmmm"), counts)
    costs = r2b.debias(y, sensitive_features=sex).costliest_constraints(6)
    assert len(costs) >= 4
    for one, other in itertools.pairwise(costs):
        assert one.rate > other.rate - 1e-12
        assert one.rate > other.rate + 1e-9 or (one.group, one.label) < (other.group, other.label)
