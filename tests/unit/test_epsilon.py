"""What epsilon may be: a share, not a percentage; by name for some classes, and the account says
which are free.
"""

import math

import numpy as np
import pandas as pd
import pytest

import r2b
from r2b.errors import ParameterError
from r2b.report import gather, to_markdown
from r2b.sklearn import LabelDebiaser

N = 400
RNG = np.random.default_rng(0)
SEX = np.where(np.arange(N) < N // 2, "f", "m")
Y = np.where(
    SEX == "f",
    RNG.choice(["a", "b", "c"], N, p=[0.6, 0.3, 0.1]),
    RNG.choice(["a", "b", "c"], N, p=[0.2, 0.3, 0.5]),
)
PERCENT = r"is 5\b.*never exceeds 1\. It is a share and no percentage: for 5 % pass 0\.05"

CALLS = {
    "debias": lambda epsilon: r2b.debias(Y, sensitive_features=SEX, epsilon=epsilon),
    "to_overall": lambda epsilon: r2b.debias(
        Y, sensitive_features=SEX, epsilon=epsilon, bound="to_overall"
    ),
    "ratio": lambda epsilon: r2b.debias(Y, sensitive_features=SEX, epsilon=epsilon, bound="ratio"),
    "family": lambda epsilon: r2b.debias(
        Y, sensitive_features={"sex": SEX}, families=[r2b.Family("sex", epsilon=epsilon)]
    ),
    "continuous": lambda epsilon: r2b.debias(
        Y, sensitive_features=r2b.Continuous(np.arange(N)), epsilon=epsilon
    ),
    "by class": lambda epsilon: r2b.debias(
        Y, sensitive_features=SEX, epsilon={"a": 0.1, "b": epsilon, "c": 0.1}
    ),
    "compare": lambda epsilon: r2b.compare(
        Y, sensitive_features=SEX, choices={"one": {"epsilon": epsilon}}
    ),
    "frontier": lambda epsilon: r2b.frontier(Y, sensitive_features=SEX, epsilons=[0.0, epsilon]),
    "audit": lambda epsilon: r2b.audit(
        Y, sensitive_features=SEX, n_permutations=0, n_boot=0
    ).exceeds(epsilon),
    "sklearn": lambda epsilon: LabelDebiaser(epsilon=epsilon).fit(Y, sensitive_features=SEX),
    "OST": lambda epsilon: r2b.methods.OST(epsilon).fit(Y, sensitive_features=SEX),
    "R2B": lambda epsilon: r2b.methods.R2B(epsilon, max_rounds=2).fit(Y, sensitive_features=SEX),
    "RTO": lambda epsilon: r2b.methods.RTO(epsilon),
    "Exact": lambda epsilon: r2b.methods.Exact(epsilon).fit(Y, sensitive_features=SEX),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_percentage_is_refused(call):
    with pytest.raises(ParameterError, match=PERCENT) as caught:
        CALLS[call](5)
    assert caught.value.facts["epsilon"] == 5


@pytest.mark.parametrize("call", [call for call in CALLS if call not in ("frontier", "RTO")])
def test_one_and_infinity_bound_nothing_and_are_accepted(call):
    for epsilon in (1, math.inf):
        assert CALLS[call](epsilon) is not None


def test_a_target_may_be_missed_by_two():
    r2b.debias(Y, sensitive_features=SEX, bound="target", target="population", epsilon=1.5)
    with pytest.raises(ParameterError, match=r"is 5, but what it bounds never exceeds 2.*0\.05"):
        r2b.debias(Y, sensitive_features=SEX, bound="target", target="population", epsilon=5)
    r2b.frontier(
        Y, sensitive_features=SEX, bound="target", target="population", epsilons=[0.1, 1.5]
    )
    with pytest.raises(ParameterError, match="`epsilons` is 3"):
        r2b.frontier(
            Y, sensitive_features=SEX, bound="target", target="population", epsilons=[0.1, 3]
        )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"b": 0.1}, [math.inf, 0.1, math.inf]),
        ({"b": 0.1, ...: 0.2}, [0.2, 0.1, 0.2]),
        ({...: 0.2}, [0.2, 0.2, 0.2]),
        (pd.Series({"b": 0.1}), [math.inf, 0.1, math.inf]),
        ({"a": 0.1, "b": 0.2, "c": 0.3}, [0.1, 0.2, 0.3]),
    ],
)
def test_a_mapping_bounds_the_classes_that_it_names(given, wanted):
    fair = r2b.debias(Y, sensitive_features=SEX, epsilon=given)
    assert fair.certificate.epsilon.tolist() == wanted
    assert (fair.certificate.disparity_by_class <= np.array(wanted) + 1e-9).all()


def test_classes_that_are_not_named_are_free_and_the_account_says_so():
    fair = r2b.debias(Y, sensitive_features=SEX, epsilon={"b": 0.001})
    free = r2b.debias(Y, sensitive_features=SEX, epsilon={"b": 0.001, "a": math.inf, "c": math.inf})
    np.testing.assert_array_equal(fair.prices, free.prices)
    assert "(epsilon 0.001, for 1 of 3 classes)" in str(fair)
    assert "not bound         2 of 3 classes: a, c" in str(fair)
    assert "not bound" not in str(r2b.debias(Y, sensitive_features=SEX, epsilon=0.1))
    assert "0.001, for 1 of 3 classes" in to_markdown(
        gather(Y, sensitive_features=SEX, epsilon={"b": 0.001})
    )


def test_names_that_are_no_class_are_refused():
    for epsilon, found in (({"d": 0.1}, "names 'd', which is not a class"), ({}, "names no class")):
        with pytest.raises(ParameterError, match=f"{found}.*'a', 'b', 'c'"):
            r2b.debias(Y, sensitive_features=SEX, epsilon=epsilon)
    with pytest.raises(ParameterError, match="is without the class 'c'"):
        r2b.debias(Y, sensitive_features=SEX, bound="target", target={"a": 0.5, "b": 0.5})
    with pytest.raises(ParameterError, match=r"`epsilon` is -1\.0 for class 'b'"):
        r2b.debias(Y, sensitive_features=SEX, epsilon={"b": -1.0})
