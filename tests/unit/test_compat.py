"""The drop-in for the published class, against the published loop written anew from its
description.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from r2b.compat import Reduce2Binary
from r2b.datasets import load_adult
from r2b.errors import InputError, ParameterError
from r2b.methods import R2B


def threshold(scores: Any, low: float, high: float, gamma: float) -> float:
    """Return the shift t of least size with the mean of clip((scores - t) / gamma, 0, 1) in a
    band.
    """

    def mean(t: float) -> float:
        return float(np.clip((scores - t) / gamma, 0.0, 1.0).mean())

    if low <= mean(0.0) <= high:
        return 0.0
    wanted = low if mean(0.0) < low else high
    left, right = scores.min() - gamma, scores.max()  # means 1 and 0
    for _ in range(80):
        middle = (left + right) / 2
        left, right = (middle, right) if mean(middle) > wanted else (left, middle)
    return (left + right) / 2


def published_loop(y, groups, gamma=1.0, eps=0.0, eta=0.5, rounds=100, one_multiplier=False):
    """Do the published rounds: each class alone, its group means within eps / 2 of its first mean.

    ``one_multiplier`` is what the published code does up to eps = 0.002: without the second
    multiplier every group mean is the first mean plus eps / 2.
    """
    z, u, rho = np.zeros_like(y), np.zeros_like(y), y.mean(axis=0)
    for _ in range(rounds):
        scores = y + eta * (z - u)
        h = np.empty_like(y)
        for k in range(y.shape[1]):
            low = rho[k] + (eps / 2 if one_multiplier else -eps / 2)
            for group in np.unique(groups):
                own = scores[groups == group, k]
                t = threshold(own, low, rho[k] + eps / 2, gamma + eta)
                h[groups == group, k] = np.clip((own - t) / (gamma + eta), 0.0, 1.0)
        sums = (h + u).sum(axis=1, keepdims=True)
        z = h + u - (sums - 1.0) / y.shape[1]
        u = u + h - z
    z = np.maximum(z, 0.0)
    return z / z.sum(axis=1, keepdims=True)


def drawn(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(3), rng.integers(0, 3, 57)])
    powers = np.exp((groups[:, None] == np.arange(4) % 3) + rng.standard_normal((60, 4)))
    return powers / powers.sum(axis=1, keepdims=True), groups


@pytest.mark.parametrize(
    "settings",
    [{}, {"eps": 0.05}, {"eps": 0.001}, {"gamma": 0.3, "eta": 2.0}, {"eps": 0.3, "gamma": 3.0}],
)
def test_the_drop_in_returns_what_the_published_loop_returns(settings):
    soft, groups = drawn(1)
    empty = np.column_stack([soft, np.zeros(len(soft))])  # a class that nobody has
    for y in (soft, np.eye(4)[soft.argmax(axis=1)], empty):
        ours = Reduce2Binary(num_classes=y.shape[1], **settings).fit(y, groups, verbose=False)
        np.testing.assert_allclose(ours, published_loop(y, groups, **settings), atol=1e-9)


def test_it_is_r2b_with_the_mean_pinned_and_fits_afresh():
    drop_in, (y, groups) = Reduce2Binary(0.5, 0.02, 1.5, 4), drawn(2)
    drop_in.fit(*drawn(3))
    ours = drop_in.fit(y, groups, 1, 1, False, 8, 40)
    r2b = R2B(0.02, lam=0.5, tau=1.5, max_rounds=40, target="population")
    np.testing.assert_array_equal(ours, r2b.fit_transform(y, sensitive_features=groups))
    assert len(drop_in.method_.history_) == 40


def test_the_signature_is_the_published_one():
    made, fitted = (
        {name: each.default for name, each in inspect.signature(call).parameters.items()}
        for call in (Reduce2Binary, Reduce2Binary(num_classes=2).fit)
    )
    assert made == {"gamma": 1.0, "eps": 0.0, "eta": 0.5, "num_classes": 2}
    assert list(fitted)[:2] == ["y_orig", "group_feature"]
    assert dict(list(fitted.items())[2:]) == {
        "sgd_steps": 10_000,
        "full_gradient_epochs": 1_000,
        "verbose": True,
        "batch_size": 256,
        "max_admm_iter": 100,
    }


@pytest.mark.parametrize(
    ("made", "y", "error"),
    [
        ({"num_classes": 3}, np.eye(2), ParameterError),
        ({}, np.array([0.0, 1.0]), ParameterError),
        ({}, np.array([[0.5, 0.1], [0.2, 0.8]]), InputError),
        *(
            ({name: value}, np.eye(2), ParameterError)
            for name, value in (("gamma", 0), ("eps", -1))
        ),
        *(
            ({name: value}, np.eye(2), ParameterError)
            for name, value in (("eta", 0), ("num_classes", 1))
        ),
    ],
)
def test_what_does_not_fit_is_refused(made, y, error):
    with pytest.raises(error):
        Reduce2Binary(**made).fit(y, np.array([0, 1]))


def test_up_to_two_thousandths_the_published_code_solves_another_problem():
    table = load_adult()
    codes = np.unique(table["education"], return_inverse=True)[1]
    groups = (table["sex"] == "Male").astype(int)
    y, groups = np.eye(16)[codes[::40]], groups[::40]
    ours = Reduce2Binary(eps=0.002, num_classes=16).fit(y, groups, max_admm_iter=20)
    theirs = published_loop(y, groups, eps=0.002, rounds=20, one_multiplier=True)
    assert 1e-4 < np.abs(ours - theirs).max() < 1e-2
