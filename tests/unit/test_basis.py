"""Basis functions of a continuous attribute: by definition, against independent splines, by
metamorphosis; then every refusal.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2b._data.basis import Basis, fit_basis
from r2b.errors import (
    FileFormatError,
    InputError,
    ParameterError,
)

AGES = np.arange(17.0, 91.0)
SHARES = np.exp(-(((AGES - 38) / 18) ** 2)) + 0.01


def square(v):
    return v * v


def above_40(v):
    return v >= 40


KINDS = {
    "linear": "linear",
    "spline": "spline",
    "one function": np.sqrt,
    "functions": [above_40, square, np.log],
}


def moments(basis, values, weight):
    b, share = basis.evaluate(values), weight / weight.sum()
    return share @ b, (b * share[:, None]).T @ b


def projector(columns, weight):
    """The orthogonal projector, in the weighted norm, onto the span of some columns and the
    constant: a span, whatever its basis.
    """
    root = np.sqrt(weight)[:, None]
    q, r = np.linalg.qr(
        root * np.column_stack([np.ones(len(columns)), columns / np.abs(columns).max(axis=0)])
    )
    assert np.abs(np.diag(r)).min() > 1e-9
    return q @ q.T


def truncated_powers(values, knots):
    """The textbook's natural splines: ``d_j - d_{K-1}``, differences of cubes cut off at the knots,
    and the line.
    """

    def d(j):
        return (np.maximum(values - knots[j], 0) ** 3 - np.maximum(values - knots[-1], 0) ** 3) / (
            knots[-1] - knots[j]
        )

    return np.column_stack([values, *(d(j) - d(len(knots) - 2) for j in range(len(knots) - 2))])


@pytest.mark.parametrize("choice", KINDS.values(), ids=KINDS.keys())
def test_functions_are_centred_and_orthonormal(choice):
    basis = fit_basis(AGES, SHARES, basis=choice)
    mean, covariance = moments(basis, AGES, SHARES)
    np.testing.assert_allclose(mean, 0, atol=1e-15)
    np.testing.assert_allclose(covariance, np.eye(basis.n_functions), atol=1e-11)


@given(
    seed=st.integers(0, 100_000),
    n=st.integers(2, 60),
    knots=st.integers(2, 9),
    decades=st.sampled_from([0.0, 3.0, 8.0]),
)
def test_splines_of_any_distribution_are_centred_and_orthonormal_or_refused(
    seed, n, knots, decades
):
    rng = np.random.default_rng(seed)
    values = [
        rng.normal(size=n),
        rng.integers(0, 12, n).astype(float),
        1.7e9 + rng.random(n),
        np.exp(4 * rng.normal(size=n)),
    ][seed % 4]
    weight = 10.0 ** rng.uniform(-decades, 0, n)
    try:
        basis = fit_basis(values, weight, knots=knots)
    except (ParameterError, InputError) as error:
        assert (
            "too close" in str(error)
            or "same value" in str(error)
            or "linear combination" in str(error)
        )
        return
    assert basis.n_functions == len(basis.knots) - 1 <= knots - 1
    assert np.isin(basis.knots, values).all()
    mean, covariance = moments(basis, values, weight)
    np.testing.assert_allclose(mean, 0, atol=1e-13)
    np.testing.assert_allclose(covariance, np.eye(basis.n_functions), atol=1e-7)


@pytest.mark.parametrize("knots", [3, 4, 5, 8])
def test_splines_span_what_the_textbook_basis_spans(knots):
    basis = fit_basis(AGES, SHARES, knots=knots)
    ours, theirs = basis.evaluate(AGES), truncated_powers(AGES, basis.knots)
    assert ours.shape == theirs.shape == (len(AGES), knots - 1)
    np.testing.assert_allclose(projector(ours, SHARES), projector(theirs, SHARES), atol=1e-8)


def test_knots_are_quantiles_of_the_weighted_values():
    rows = np.repeat(AGES, 20)
    found = fit_basis(rows, np.ones(len(rows)), knots=5).knots
    np.testing.assert_array_equal(
        found, np.quantile(rows, [0.05, 0.275, 0.5, 0.725, 0.95], method="inverted_cdf")
    )


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "functions"},
        {"kind": "cubic"},
        {"names": []},
        {"names": ["a"]},
        {"knots": [1.0, 1.0, 2.0, 3.0, 4.0]},
        {"knots": [1.0, 2.0]},
        {"transform": [[1.0]]},
        {"scale": [0.0, 1.0, 1.0, 1.0]},
        {"origin": ["x", 1.0, 1.0, 1.0]},
        {"centre": [float("nan"), 1.0, 1.0, 1.0]},
        {"fitted_range": [1.0]},
        {"knots_asked": None},
    ],
    ids=str,
)
def test_a_file_that_holds_no_basis_is_refused(change):
    stored = fit_basis(AGES, SHARES).to_json()
    with pytest.raises(FileFormatError, match="Save the object again"):
        Basis.from_json(stored | change)
    with pytest.raises(FileFormatError):
        Basis.from_json({key: value for key, value in stored.items() if key not in change})


REFUSED = {
    "constant": (
        [np.ones_like],
        r"'age, ones_like' is on these values a linear combination of a constant.* Leave it out",
        {"function": "age, ones_like"},
    ),
    "dependent": (
        [square, np.negative, lambda v: 2 * v + square(v)],
        "'age, function 3' is on these values a linear combination",
        {},
    ),
    "not finite": (
        [square, lambda v: np.log(v - 20)],
        r"'age, function 2' returned nan at the value 17.0",
        {"value": 17.0},
    ),
    "wrong length": (
        lambda v: v[1:],
        r"returned the shape \(73,\) for values of shape \(74,\)",
        {"shape": (73,)},
    ),
    "raises": (
        lambda v: v.nothing,
        r"raised AttributeError .* Correct the function",
        {"function": "age, function 1"},
    ),
    "looks at other values": (
        [square, lambda v: v - v.mean()],
        "'age, function 2' returns another result",
        {},
    ),
    "too far apart": (
        lambda v: np.where(v > 40, 1.7e308, -1.7e308),
        "is on these values a linear combination",
        {},
    ),
    "not a function": ([square, "linear"], "a list of functions", {}),
    "unknown": ("cubic", "'cubic' is not known. Choose", {"basis": "cubic"}),
}


@pytest.mark.parametrize(("choice", "message", "facts"), REFUSED.values(), ids=REFUSED.keys())
def test_a_function_that_cannot_be_used_is_refused_by_name(choice, message, facts):
    with pytest.raises(ParameterError, match=message) as caught:
        fit_basis(AGES, SHARES, basis=choice, name="age")
    assert caught.value.facts.items() >= facts.items()


@pytest.mark.parametrize(
    "knots",
    [1, True, 2.5, "5", [5.0], [2.0, 1.0], [1.0, np.inf], []],
)
def test_knots_that_make_no_spline_are_refused(knots):
    with pytest.raises(
        ParameterError, match="at least 2, or at least two increasing finite numbers"
    ):
        fit_basis(AGES, SHARES, knots=knots)


def test_knots_where_no_values_are_and_knots_too_near_are_refused():
    for knots in ([20, 40, 60, 200, 300, 400], [200, 300, 400]):
        with pytest.raises(
            ParameterError,
            match=r"'age, spline \d' .* Use fewer knots, put them where values are",
        ):
            fit_basis(AGES, SHARES, knots=knots, name="age")
    with pytest.raises(
        ParameterError, match=r"knots of the attribute are too close: \[20\.0, 20\.0"
    ) as caught:
        fit_basis(AGES, SHARES, knots=[20.0, np.nextafter(20.0, 21.0), 60.0])
    assert caught.value.facts["knots"] == [20.0, np.nextafter(20.0, 21.0), 60.0]


@pytest.mark.parametrize("kind", ["linear", "spline"])
def test_new_values_at_which_functions_overflow_are_refused(kind):
    basis = fit_basis(AGES * 1e-20, SHARES, basis=kind)
    with pytest.raises(InputError, match=r"overflow at 1e\+300") as caught:
        basis.evaluate([1e-20, 1e300])
    assert caught.value.facts == {"value": 1e300, "fitted_range": basis.fitted_range}
