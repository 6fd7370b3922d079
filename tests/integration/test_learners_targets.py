"""What the adapters share: labels read a few rows at a time, and features of the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from learner_tables import small

import r2b
from r2b.errors import (
    InputError,
    LengthError,
    ParameterError,
    RowsUnavailableError,
    ShapeError,
    UnseenError,
    WeightError,
)
from r2b.models.targets import SoftTargets, refuse_other_rows


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
    with pytest.raises(LengthError, match=r"`X` has 2 rows, but `y` has 3"):
        refuse_other_rows([[1], [2]], targets)
