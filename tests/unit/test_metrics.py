"""Measures of parity: by definition on rows, by metamorphosis, and on the means alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2b.errors import InputError, ParameterError
from r2b.metrics import (
    demographic_parity_difference,
    demographic_parity_difference_by_class,
    group_means,
)

both_methods = pytest.mark.parametrize("method", ["between_groups", "to_overall"])


def table(seed: int, n_rows: int = 400) -> Any:
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(4), rng.integers(0, 4, n_rows - 4)])
    groups = np.concatenate([np.arange(3), rng.integers(0, 3, n_rows - 3)])
    return codes, groups, rng.random(n_rows) + 0.1, rng.dirichlet(np.ones(4), n_rows)


def measure(y: Any, groups: Any, weight: Any = None, **options: Any) -> float:
    return demographic_parity_difference(
        y, sensitive_features=groups, sample_weight=weight, **options
    )


@both_methods
@given(seed=st.integers(0, 10_000))
def test_parity_by_its_definition(method, seed):
    """Eq. (2) of the paper, written as loops over groups and classes."""
    codes, groups, weight, rows = table(seed, n_rows=40)
    for y, matrix, by in ((codes, np.eye(4)[codes], weight), (rows, rows, np.ones(40))):
        parts = [groups == s for s in np.unique(groups)]
        means = [np.average(matrix[part], axis=0, weights=by[part]) for part in parts]
        others = [np.average(matrix, axis=0, weights=by)] if method == "to_overall" else means
        expected = max(abs(one[k] - two[k]) for one in means for two in others for k in range(4))
        assert measure(y, groups, by, method=method) == pytest.approx(expected, abs=1e-12)


@both_methods
def test_what_must_not_change_the_answer(method):
    codes, groups, weight, rows = table(7)
    turned = np.random.default_rng(0).permutation(len(codes))
    times = np.random.default_rng(1).integers(0, 4, len(codes))
    for y in (codes, rows):
        plain = measure(y, groups, weight, method=method)
        for same in (
            measure(y[turned], groups[turned], weight[turned], method=method),
            measure(y, groups, 7 * weight, method=method),
            measure(y, np.array(["z", "k", "a"])[groups], weight, method=method),
        ):
            assert same == pytest.approx(plain, abs=1e-12) and plain > 0.01
        # A weight is a repetition, and weight zero is absence.
        repeated = measure(np.repeat(y, times, axis=0), np.repeat(groups, times), method=method)
        assert measure(y, groups, times, method=method) == pytest.approx(repeated, abs=1e-12)


def test_the_results_carry_their_names():
    people = {"sex": ["f", "f", "m"], "old": [True, True, False]}
    found = group_means(["x", "y", "x"], sensitive_features=people, sample_weight=[1, 3, 2])
    assert found.means.tolist() == [[0.25, 0.75], [1, 0]]
    assert found.classes.tolist() == ["x", "y"]
    assert found.groups.tolist() == ["sex=f, old=True", "sex=m, old=False"]
    assert (found.weights.tolist(), found.overall.tolist()) == ([4, 2], [0.5, 0.5])
    assert not found.means.flags.writeable
    by_class = demographic_parity_difference_by_class(
        [0, 2, 5, 0], sensitive_features=["a", "a", "b", "b"]
    )
    assert by_class.as_dict() == {0: 0, 2: 0.5, 5: 0.5}


def test_a_method_that_is_not_known_is_refused():
    with pytest.raises(ParameterError, match=r"'between_groups', 'to_overall'"):
        measure([0, 1], [0, 1], method="ratio")
    with pytest.raises(InputError):
        measure([0, None], [0, 1])
