"""The share of a class's variance that an attribute explains: against least squares, by
metamorphosis, and what is refused.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2b.errors import InputError, LengthError, MissingValueError, ParameterError, ShapeError
from r2b.metrics.explained import explained_variation

CHOICES = ["linear", "spline", [np.sin, np.tanh]]


def table(seed, n_rows=400, n_classes=3):
    """Ages, classes that depend on them, probabilities that do too, and weights."""
    rng = np.random.default_rng(seed)
    age = rng.integers(17, 80, n_rows) / 10
    scores = np.column_stack([age, (age - 4) ** 2, rng.normal(size=(n_rows, n_classes - 2))])[
        :, :n_classes
    ] + rng.normal(size=(n_rows, n_classes))
    rows = np.exp(scores - scores.max(axis=1, keepdims=True))
    rows /= rows.sum(axis=1, keepdims=True)
    classes = np.concatenate(
        [
            np.arange(n_classes),
            (rows.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)[n_classes:],
        ]
    )
    return age, classes, rows, rng.random(n_rows) + 0.1


def r_squared(target, columns, weight):
    """R squared of weighted least squares with an intercept."""
    root = np.sqrt(weight)
    design = root[:, None] * np.column_stack([np.ones(len(columns)), columns])
    coefficients, *_ = np.linalg.lstsq(design, root * target, rcond=None)
    residual = root * target - design @ coefficients
    return 1 - residual @ residual / (weight @ (target - np.average(target, weights=weight)) ** 2)


def natural_splines(values, knots):
    """The textbook's truncated powers."""

    def d(j):
        return (np.maximum(values - knots[j], 0) ** 3 - np.maximum(values - knots[-1], 0) ** 3) / (
            knots[-1] - knots[j]
        )

    return np.column_stack([values, *(d(j) - d(len(knots) - 2) for j in range(len(knots) - 2))])


@given(seed=st.integers(0, 10_000))
def test_class_labels_have_the_r_squared_of_a_regression(seed):
    age, classes, _, weight = table(seed)
    knots = np.quantile(age, [0.05, 0.35, 0.65, 0.95])
    designs = [
        ("linear", age[:, None]),
        ("spline", natural_splines(age, knots)),
        ([np.sin, np.tanh], np.column_stack([np.sin(age), np.tanh(age)])),
    ]
    for basis, columns in designs:
        found = explained_variation(classes, age, sample_weight=weight, basis=basis, knots=knots)
        expected = [r_squared((classes == k).astype(float), columns, weight) for k in range(3)]
        np.testing.assert_allclose(found.by_class, expected, atol=1e-9)
        assert found.largest == found.by_class.max()


@pytest.mark.parametrize("basis", CHOICES, ids=str)
def test_probabilities_explain_what_labels_drawn_from_them_would(basis):
    # Every row becomes one weighted row per class: the distribution of a label drawn from it.
    age, _, rows, weight = table(3)
    drawn = np.tile(np.arange(3), len(age))
    expected = explained_variation(
        drawn, np.repeat(age, 3), sample_weight=(weight[:, None] * rows).ravel(), basis=basis
    )
    found = explained_variation(rows, age, sample_weight=weight, basis=basis)
    np.testing.assert_allclose(found.by_class, expected.by_class, atol=1e-12)


@given(seed=st.integers(0, 10_000))
def test_a_share_lies_between_0_and_1_and_grows_with_the_basis(seed):
    age, _, rows, weight = table(seed, n_rows=60)
    linear = explained_variation(rows, age, sample_weight=weight, basis="linear").by_class
    spline = explained_variation(rows, age, sample_weight=weight).by_class
    assert (linear >= 0).all() and (spline <= 1).all()
    assert (spline >= linear - 1e-12).all()


@pytest.mark.parametrize("basis", ["linear", "spline"])
def test_weights_are_copies_and_order_and_unit_do_not_matter(basis):
    rng = np.random.default_rng(8)
    age, classes, rows, _ = table(8)
    copies, order = rng.integers(0, 4, len(age)), rng.permutation(len(age))
    for y in (classes, rows):
        found = explained_variation(y, age, sample_weight=copies, basis=basis).by_class
        repeated = explained_variation(
            np.repeat(y, copies, axis=0), np.repeat(age, copies), basis=basis
        ).by_class
        other = explained_variation(
            y[order], 12 * age[order] - 3, sample_weight=copies[order] / 7, basis=basis
        ).by_class
        np.testing.assert_allclose(found, repeated, atol=1e-12)
        np.testing.assert_allclose(found, other, atol=1e-12)


def test_a_class_without_variance_has_nothing_to_explain():
    age = [1.0, 2.0, 3.0, 4.0]
    assert explained_variation(["a"] * 4, age, basis="linear").as_dict() == {"a": 0.0}
    rows = np.column_stack([[0.0, 0.25, 0.5, 1.0], np.zeros(4), [1.0, 0.75, 0.5, 0.0]])
    found = explained_variation(rows, age, basis="linear").by_class
    assert found[1] == 0.0
    assert found[0] == pytest.approx(found[2], rel=1e-12)
    # A class that only rows without weight have.
    assert (
        explained_variation(
            ["a", "b", "a", "c"], age, sample_weight=[1, 1, 1, 0], basis="linear"
        ).as_dict()["c"]
        == 0.0
    )


@pytest.mark.parametrize(
    ("values", "row", "value"),
    [
        ([1, "old", "old"], 1, "old"),
        (np.array(["2000-01-01", "2001-01-01", "2002-01-01"], dtype="M8[D]"), 0, "2000-01-01"),
        ([1.0, 2.0, np.inf], 2, np.inf),
        (pd.Categorical(["a", "b", "a"]), 0, "a"),
    ],
    ids=["text", "dates", "infinity", "categories"],
)
def test_an_attribute_that_is_not_numeric_is_refused_with_its_column_row_and_value(
    values, row, value
):
    with pytest.raises(InputError, match=f"column 'age' of attribute`?, row {row} holds") as caught:
        explained_variation([0, 1, 1], {"age": values})
    assert (
        caught.value.facts.items()
        >= {"column": "column 'age' of attribute", "row": row, "value": value}.items()
    )


def test_rows_that_do_not_fit_together_are_refused():
    y = [0, 1, 0, 1]
    with pytest.raises(LengthError, match="`y` has 4 rows, but `attribute` has 3"):
        explained_variation(y, [1.0, 2.0, 3.0])
    with pytest.raises(LengthError, match="`y` has 4 rows, but `sample_weight` has 3"):
        explained_variation(y, [1.0, 2.0, 3.0, 4.0], sample_weight=[1, 1, 1])
    with pytest.raises(ShapeError, match=r"attribute`? has 2 columns"):
        explained_variation(y, {"age": [1.0, 2.0, 3.0, 4.0], "income": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(
        MissingValueError, match=r"attribute`?, 1 row has no value; the first is row 2"
    ):
        explained_variation(y, [1.0, 2.0, np.nan, 4.0])
    with pytest.raises(InputError, match="different order"):
        explained_variation(pd.Series(y), pd.Series([1.0, 2.0, 3.0, 4.0], index=[3, 2, 1, 0]))
    with pytest.raises(InputError, match=r"the same value 2\.0 of the attribute"):
        explained_variation(y, [2, 2, 2, 2])
    with pytest.raises(ParameterError, match="'ones_like' is on these values a linear"):
        explained_variation(y, [1.0, 2.0, 3.0, 4.0], basis=np.ones_like)
