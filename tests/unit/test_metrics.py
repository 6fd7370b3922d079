"""Measures of parity: by definition on rows, by metamorphosis, and on the means alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2b._data import read
from r2b.errors import InputError, ParameterError
from r2b.metrics import (
    demographic_parity_difference,
    demographic_parity_difference_by_class,
    group_means,
)
from r2b.metrics.means import disparity_by_class, disparity_of_means, means_of, overall_mean

METHODS = ["between_groups", "to_overall"]


def table(seed, n_rows=400, n_classes=4, n_groups=3):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_rows - n_classes)])
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n_rows - n_groups)])
    return codes, groups, rng.random(n_rows) + 0.1, rng.dirichlet(np.ones(n_classes), n_rows)


def by_definition(rows, groups, weight, method):
    """Eq. (2) of the paper, written as loops over groups and classes."""
    means = [
        np.average(rows[groups == s], axis=0, weights=weight[groups == s])
        for s in np.unique(groups)
    ]
    overall = np.average(rows, axis=0, weights=weight)
    if method == "to_overall":
        return max(abs(mean[k] - overall[k]) for mean in means for k in range(rows.shape[1]))
    return max(one[k] - two[k] for one in means for two in means for k in range(rows.shape[1]))


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 10_000))
def test_parity_by_its_definition(method, seed):
    codes, groups, weight, rows = table(seed, n_rows=40)
    found = demographic_parity_difference(
        codes, sensitive_features=groups, sample_weight=weight, method=method
    )
    assert found == pytest.approx(
        by_definition(np.eye(4)[codes], groups, weight, method), abs=1e-12
    )
    found = demographic_parity_difference(rows, sensitive_features=groups, method=method)
    assert found == pytest.approx(by_definition(rows, groups, np.ones(40), method), abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_what_must_not_change_the_answer(method):
    codes, groups, weight, rows = table(7)
    shuffled = np.random.default_rng(0).permutation(len(codes))
    for y in (codes, rows):
        plain = demographic_parity_difference(
            y, sensitive_features=groups, sample_weight=weight, method=method
        )
        assert plain > 0.01
        same = demographic_parity_difference(
            y[shuffled],
            sensitive_features=groups[shuffled],
            sample_weight=weight[shuffled],
            method=method,
        )
        assert same == pytest.approx(plain, abs=1e-12)
        assert demographic_parity_difference(
            y, sensitive_features=groups, sample_weight=7 * weight, method=method
        ) == pytest.approx(plain, abs=1e-12)
        names = np.array(["z", "k", "a"])[groups]
        assert demographic_parity_difference(
            y, sensitive_features=names, sample_weight=weight, method=method
        ) == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_a_weight_is_a_repetition(method):
    codes, groups, _, rows = table(8)
    times = np.random.default_rng(1).integers(1, 4, len(codes))
    for y in (codes, rows):
        repeated = demographic_parity_difference(
            np.repeat(y, times, axis=0), sensitive_features=np.repeat(groups, times), method=method
        )
        assert demographic_parity_difference(
            y, sensitive_features=groups, sample_weight=times, method=method
        ) == pytest.approx(repeated, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_weight_zero_do_not_count(method):
    codes, groups, weight, _ = table(9)
    weight[::3] = 0
    kept = weight > 0
    left_out = demographic_parity_difference(
        codes[kept], sensitive_features=groups[kept], sample_weight=weight[kept], method=method
    )
    assert demographic_parity_difference(
        codes, sensitive_features=groups, sample_weight=weight, method=method
    ) == pytest.approx(left_out, abs=1e-12)


def test_the_results_carry_their_names():
    found = group_means(
        ["x", "y", "x"],
        sensitive_features={"sex": ["f", "f", "m"], "old": [True, True, False]},
        sample_weight=[1, 3, 2],
    )
    assert found.means.tolist() == [[0.25, 0.75], [1, 0]]
    assert found.classes.tolist() == ["x", "y"]
    assert found.groups.tolist() == ["sex=f, old=True", "sex=m, old=False"]
    assert found.weights.tolist() == [4, 2]
    assert found.overall.tolist() == [0.5, 0.5]
    assert not found.means.flags.writeable
    by_class = demographic_parity_difference_by_class(
        [0, 2, 5, 0], sensitive_features=["a", "a", "b", "b"]
    )
    assert by_class.as_dict() == {0: 0, 2: 0.5, 5: 0.5}


def test_groups_without_rows_do_not_count():
    schema = read([0, 1, 1], sensitive_features=["a", "b", "c"]).schema
    means, weights = means_of(schema.read([0, 1, 0], sensitive_features=["a", "c", "c"]))
    assert weights.tolist() == [1, 0, 2]
    assert np.isnan(means[1]).all()
    assert disparity_of_means(means, weights) == 0.5
    assert overall_mean(means, weights) == pytest.approx([2 / 3, 1 / 3])
    assert disparity_by_class(means, weights, "to_overall") == pytest.approx([1 / 3, 1 / 3])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library):
    _, groups, weight, rows = table(6)
    module = pytest.importorskip(library)
    frame = module.DataFrame({f"class {k}": rows[:, k] for k in range(4)})
    plain = demographic_parity_difference(rows, sensitive_features=groups, sample_weight=weight)
    given_frames = demographic_parity_difference(
        frame, sensitive_features=module.Series(groups), sample_weight=module.Series(weight)
    )
    assert given_frames == pytest.approx(plain, abs=1e-14)


def test_a_method_that_is_not_known_is_refused():
    with pytest.raises(ParameterError, match=r"'between_groups', 'to_overall'"):
        demographic_parity_difference([0, 1], sensitive_features=[0, 1], method="ratio")
    with pytest.raises(InputError):
        demographic_parity_difference([0, None], sensitive_features=[0, 1])
