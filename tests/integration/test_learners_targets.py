"""What the adapters share: labels read a few rows at a time, features of the same rows; and the sample of Adult that they learn from."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import NamedTuple

import numpy as np
import pytest

import r2b
from r2b.datasets import load_adult
from r2b.errors import (
    InputError,
    LengthError,
    MissingExtraError,
    ParameterError,
    RowsUnavailableError,
    ShapeError,
    UnseenError,
    WeightError,
    require,
)
from r2b.models.targets import SoftTargets, refuse_other_rows


class Split(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    sex: np.ndarray


@cache
def injected_adult(n_rows: int = 6_000) -> tuple[Split, Split]:
    """Adult's education by sex, half of the labels set by sex as in the paper: two thirds of the rows to learn from, the others held out.

    Features include sex itself, so that a learner can take up all of the bias.
    """
    table, rng = load_adult(), np.random.default_rng(0)
    rows = rng.permutation(len(table))[:n_rows]
    sex = table["sex"][rows]
    by_sex = np.where(sex == "Male", table.education_order[0], table.education_order[1])
    y = np.where(rng.random(n_rows) < 0.5, by_sex, table["education"][rows])
    numbers = [
        table[name][rows] for name in ("age", "hours-per-week", "capital-gain", "capital-loss")
    ]
    names = ("workclass", "occupation", "marital-status", "relationship", "sex", "race", "income")
    codes = [np.unique(table[name][rows], return_inverse=True)[1] for name in names]
    X = np.column_stack(numbers + codes).astype(np.float64)
    cut = n_rows * 2 // 3
    return Split(X[:cut], y[:cut], sex[:cut]), Split(X[cut:], y[cut:], sex[cut:])


@cache
def fair_adult() -> r2b.FairLabels:
    train, _ = injected_adult()
    return r2b.debias(train.y, sensitive_features=train.sex)


def small(soft: bool, weighted: bool) -> r2b.FairLabels:
    rng = np.random.default_rng(1)
    groups = rng.choice(["f", "m", "x"], 60)
    y = (
        rng.dirichlet(np.ones(4), 60)
        if soft
        else rng.choice(list("abcd"), 60, p=[0.4, 0.3, 0.2, 0.1])
    )
    return r2b.debias(
        y, sensitive_features=groups, sample_weight=rng.random(60) + 0.1 if weighted else None
    )


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_and_mean_are_those_of_the_matrix(soft, weighted):
    fair = small(soft, weighted)
    targets = SoftTargets.of(fair)
    np.testing.assert_array_equal(targets.rows(slice(0, 60)), fair.soft_labels)
    np.testing.assert_array_equal(targets.rows(np.array([7, 3, 3])), fair.soft_labels[[7, 3, 3]])
    np.testing.assert_allclose(
        targets.mean(),
        np.average(fair.soft_labels, axis=0, weights=fair.dataset.weight),
        atol=1e-14,
    )
    assert targets.classes.tolist() == fair.classes.tolist()


def test_class_labels_are_kept_as_a_table_and_codes():
    targets = SoftTargets.of(fair_adult())
    n_classes = len(targets.classes)
    assert targets.table.shape == (2 * n_classes, n_classes)
    assert targets.codes is not None
    assert targets.codes.itemsize == 1


def test_probabilities_that_are_fair_already_are_not_copied():
    y = np.tile([[0.25, 0.75], [0.5, 0.5]], (4, 1)).astype(np.float32)
    fair = r2b.debias(y, sensitive_features=["f", "f", "m", "m"] * 2)
    assert np.shares_memory(SoftTargets.of(fair).table, y)


def test_weights_beside_fair_labels_are_refused():
    with pytest.raises(ParameterError, match=r"sample_weight .* Pass it to debias"):
        SoftTargets.of(small(False, False), np.ones(60))


def test_fair_labels_from_a_file_have_no_rows(tmp_path):
    small(False, False).save(tmp_path / "fair.json")
    with pytest.raises(RowsUnavailableError, match=r"transform"):
        SoftTargets.of(r2b.load(tmp_path / "fair.json"))


@pytest.mark.parametrize(
    ("labels", "weight", "error"),
    [
        ([[0.5, 0.4], [1.0, 0.0]], None, InputError),
        (["a", "b"], [1.0], LengthError),
        (["a", "b"], [1.0, -1.0], WeightError),
        (["a", "b"], [0.0, 0.0], WeightError),
        (["a", "a"], None, InputError),
    ],
)
def test_labels_and_weights_are_checked(labels, weight, error):
    with pytest.raises(error):
        SoftTargets.of(labels, weight)


def test_labels_to_watch_have_the_classes_trained_on():
    trained = SoftTargets.of(["a", "b", "c"])
    assert SoftTargets.of(["c", "c"], like=trained).rows(slice(0, 2)).tolist() == [
        [0, 0, 1],
        [0, 0, 1],
    ]
    assert SoftTargets.of(np.full((2, 3), 1 / 3), like=trained).classes.tolist() == ["a", "b", "c"]
    with pytest.raises(UnseenError, match=r"'d'"):
        SoftTargets.of(["a", "d"], like=trained)
    with pytest.raises(ShapeError, match=r"classes 0, 1 are not those trained on, 'a', 'b', 'c'"):
        SoftTargets.of(np.full((2, 2), 0.5), like=trained)
    with pytest.raises(ShapeError, match=r"'b', 'a', 'c'"):
        SoftTargets.of({"b": [0.5], "a": [0.5], "c": [0.0]}, like=trained)


def test_features_of_other_rows_are_refused():
    pd = pytest.importorskip("pandas")
    y = pd.Series(["a", "b", "a"], index=[10, 11, 12])
    targets = SoftTargets.of(y)
    refuse_other_rows(pd.DataFrame({"x": [1, 2, 3]}, index=y.index), targets)
    with pytest.raises(InputError, match=r"different order"):
        refuse_other_rows(pd.DataFrame({"x": [1, 2, 3]}, index=[12, 11, 10]), targets)
    with pytest.raises(LengthError, match=r"X has 2 rows, but y has 3"):
        refuse_other_rows([[1], [2]], targets)


def test_features_to_watch_are_compared_with_their_own_labels():
    pd = pytest.importorskip("pandas")
    trained = SoftTargets.of(pd.Series(["a", "b", "a"], index=[2, 0, 1]))
    watched = SoftTargets.of(pd.Series(["b", "b", "a"], index=[0, 1, 2]), like=trained)
    refuse_other_rows(pd.DataFrame({"x": [1, 2, 3]}), watched)
    with pytest.raises(InputError):
        refuse_other_rows(pd.DataFrame({"x": [1, 2, 3]}), trained)


@pytest.mark.parametrize(
    ("library", "extra"),
    [
        ("lightgbm", "lightgbm"),
        ("xgboost", "xgboost"),
        ("torch", "torch"),
        ("imblearn", "imblearn"),
    ],
)
def test_a_library_that_is_not_there_is_named_with_its_extra(monkeypatch, library, extra):
    names = [name for name in sys.modules if name.split(".")[0] == library]
    for name in [*names, f"r2b.models.{library}"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"r2b\[{extra}\]") as caught:
        if library in ("lightgbm", "xgboost"):
            getattr(import_module("r2b.models.boosting"), f"train_{library}")(
                ["a", "b"], [[1], [2]]
            )
        else:
            import_module(f"r2b.models.{library}")
    assert caught.value.facts["extra"] == extra
    assert isinstance(caught.value, ImportError)


def test_a_broken_library_is_not_called_missing(monkeypatch, tmp_path):
    (tmp_path / "half_installed.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match=r"not_there_at_all") as caught:
        require("half_installed", "This test needs half_installed", extra="none")
    assert not isinstance(caught.value, MissingExtraError)


def test_scores_of_one_class_are_refused_since_they_would_pass_for_classes():
    scores = np.array([0.1, 0.7, 0.7, 0.4])
    with pytest.raises(InputError, match=r"such as 0\.1.*column_stack"):
        SoftTargets.of(scores)
    assert SoftTargets.of(np.column_stack([1 - scores, scores])).classes.tolist() == [0, 1]
    assert SoftTargets.of([0.0, 1.0, 1.0]).classes.tolist() == [0.0, 1.0]
