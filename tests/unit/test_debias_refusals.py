"""Bad input gets a typed error that is built from facts and ends in a remedy, and nothing is
changed.
"""

from __future__ import annotations

import numpy as np
import pytest

import r2b
from r2b import errors

GROUPS = ["f", "f", "m", "m"]
CLASSES = ["a", "b", "a", "a"]
SOFT = np.array([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75], [0.0, 1.0]])


def with_entry(row, column, value):
    y = SOFT.copy()
    y[row, column] = value
    return y


# What is handed in, the error, and pieces of its message: the facts.
BAD = {
    "infinite probability": (
        {"y": with_entry(2, 1, np.inf)},
        errors.ProbabilityError,
        ["row 2", "inf"],
    ),
    "negative probability": (
        {"y": with_entry(3, 0, -0.25)},
        errors.ProbabilityError,
        ["row 3", "-0.25", "negative"],
    ),
    "row sum": (
        {"y": with_entry(1, 0, 0.9)},
        errors.ProbabilityError,
        ["row 1", "0.9", "normalize=True"],
    ),
    "row of zeros, to be normalised": (
        {"y": SOFT * [[1], [0], [1], [1]], "normalize": True},
        errors.ProbabilityError,
        ["row 1", "every class"],
    ),
    "lengths of labels and groups": (
        {"sensitive_features": GROUPS[:3]},
        errors.LengthError,
        ["4 rows", "3"],
    ),
    "missing group": (
        {"sensitive_features": ["f", None, "m", "m"]},
        errors.MissingValueError,
        ["row 1"],
    ),
    "group of no weight": (
        {"sample_weight": [1.0, 1.0, 0.0, 0.0]},
        errors.WeightError,
        ["'m'", "2 rows", "zero"],
    ),
    "one class": ({"y": ["a"] * 4}, errors.EmptyError, ["'a'", "two classes"]),
    "one column of probabilities": ({"y": np.ones((4, 1))}, errors.EmptyError, ["single column"]),
    "epsilon negative": ({"epsilon": -0.01}, errors.ParameterError, ["epsilon", "-0.01"]),
    "epsilon of a class": ({"epsilon": [0.1, -0.2]}, errors.ParameterError, ["-0.2", "'b'"]),
    "epsilons too many": (
        {"epsilon": [0.1, 0.2, 0.3]},
        errors.ParameterError,
        ["(3,)", "2 classes"],
    ),
    "epsilon text": ({"epsilon": "small"}, errors.ParameterError, ["'small'"]),
    "lam negative": ({"lam": -1}, errors.ParameterError, ["lam", "-1"]),
    "lam infinite": ({"lam": np.inf}, errors.ParameterError, ["lam", "inf"]),
    "tol zero": ({"tol": 0.0}, errors.ParameterError, ["tol"]),
    "max_iter negative": ({"max_iter": -1}, errors.ParameterError, ["max_iter", "-1"]),
    "time_limit text": (
        {"time_limit": "1 minute"},
        errors.ParameterError,
        ["time_limit", "1 minute"],
    ),
    "threads zero": ({"threads": 0}, errors.ParameterError, ["threads"]),
    "no rows": ({"y": [], "sensitive_features": []}, errors.EmptyError, ["no rows"]),
    "a single number": ({"y": 3}, errors.InputError, ["y"]),
    "mixed types of groups": (
        {"sensitive_features": np.array(["f", 1, "f", 1], dtype=object)},
        errors.MixedTypeError,
        ["str", "int"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_it_is_refused_with_the_facts_and_a_remedy(name):
    handed, kind, pieces = BAD[name]
    arguments = {"y": CLASSES, "sensitive_features": GROUPS} | handed
    kept = {key: value.copy() for key, value in arguments.items() if isinstance(value, np.ndarray)}
    with pytest.raises(kind) as raised:
        r2b.debias(arguments.pop("y"), **arguments)
    error = raised.value
    assert isinstance(error, errors.R2BError) and isinstance(error, ValueError)
    message = str(error)
    assert [piece for piece in pieces if piece not in message] == []
    assert message == f"{error.problem} {error.remedy}"
    assert error.problem.endswith(".")
    assert error.remedy.endswith(".")
    assert error.remedy[0].isupper()
    assert len(error.remedy) > 15
    for key, value in kept.items():
        assert np.array_equal(value, handed[key], equal_nan=value.dtype != object)


def test_normalize_is_the_remedy_that_it_says():
    y = with_entry(1, 0, 0.9) * [[2.0], [1.0], [1.0], [3.0]]
    fair = r2b.debias(y, sensitive_features=GROUPS, normalize=True)
    same = r2b.debias(y / y.sum(axis=1, keepdims=True), sensitive_features=GROUPS)
    assert fair.status.ok and np.abs(fair.soft_labels - same.soft_labels).max() < 1e-12
    assert y[3].sum() == 3.0  # on a copy


@pytest.mark.parametrize(
    ("y", "groups", "kind", "pieces"),
    [
        (["c"], ["f"], errors.UnseenError, ["'c'", "'a', 'b'"]),
        (["a", "A"], ["f", "f"], errors.UnseenError, ["Row 1", "'A'"]),
        (["a"], ["x"], errors.UnseenError, ["'x'", "'f', 'm'"]),
        (["a"], [None], errors.MissingValueError, ["row 0"]),
        (["a", "b"], ["f"], errors.LengthError, ["2 rows", "1"]),
        ([[0.5, 0.5]], ["f"], errors.ShapeError, ["probabilities", "class labels"]),
        ([], [], errors.EmptyError, ["no rows"]),
    ],
)
def test_new_rows_that_do_not_fit_are_refused(y, groups, kind, pieces):
    fair = r2b.debias(CLASSES, sensitive_features=GROUPS)
    with pytest.raises(kind) as raised:
        fair.transform(y, sensitive_features=groups)
    assert [piece for piece in pieces if piece not in str(raised.value)] == []
    assert raised.value.remedy.endswith(".")


def test_new_probabilities_that_do_not_fit_are_refused():
    fair = r2b.debias(SOFT, sensitive_features=GROUPS)
    with pytest.raises(errors.UnseenError, match="columns 0, 1, 2, but"):
        fair.transform([[0.2, 0.3, 0.5]], sensitive_features=["f"])
    with pytest.raises(errors.ProbabilityError, match=r"row 0 sums to 0\.9"):
        fair.transform([[0.4, 0.5]], sensitive_features=["f"])
    normalised = fair.transform([[4.0, 5.0]], sensitive_features=["f"], normalize=True)
    assert (
        np.abs(normalised - fair.transform([[4 / 9, 5 / 9]], sensitive_features=["f"])).max()
        < 1e-12
    )
    with pytest.raises(errors.ShapeError, match="class labels"):
        fair.transform(["a"], sensitive_features=["f"])


def test_a_column_of_scores_is_not_a_column_of_classes():
    """Thousands of values that occur once each would be solved for as classes, at groups x
    classes^2 numbers.
    """
    scores = np.random.default_rng(0).random(5000)
    with pytest.raises(
        errors.InputError, match=r"5,000 distinct values in 5,000 rows.*pass two columns"
    ):
        r2b.debias((1e9 * scores).astype(int), sensitive_features=np.arange(5000) % 2)
    soft = np.column_stack([1 - scores, scores])
    assert r2b.debias(soft, sensitive_features=np.arange(5000) % 2).status.ok


@pytest.mark.parametrize("question", [r2b.debias, r2b.audit])
def test_a_matrix_of_several_labels_is_pointed_to_multilabel(question):
    tags = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 0]])
    with pytest.raises(errors.ProbabilityError, match=r"several labels.*multilabel=True") as caught:
        question(tags, sensitive_features=GROUPS)
    # dividing rows by their sums is for votes on one class
    assert caught.value.remedy.index("multilabel=True") < caught.value.remedy.index("normalize")
    assert question(tags, sensitive_features=GROUPS, multilabel=True)
