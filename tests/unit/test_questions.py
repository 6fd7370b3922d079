"""Paths, budgets and comparisons: each answer is what single solves give, proven at every point."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import r2b
from r2b.errors import ParameterError


@cache
def small(kind):
    rng = np.random.default_rng(11)
    people = {
        "a": rng.choice(["f", "m"], 300),
        "b": rng.choice(["x", "y", "z"], 300, p=[0.5, 0.3, 0.2]),
    }
    shift = (people["a"] == "f").astype(float) + (people["b"] == "x")
    if kind == "soft":
        return np.stack(
            [rng.dirichlet(np.ones(4) + each * np.array([2.0, 0.0, 1.0, 0.0])) for each in shift]
        ), people
    return np.where(
        rng.random(300) < 0.3 * shift, "p", rng.choice(["p", "q", "r", "s"], 300)
    ), people


CHOICES = {
    "crossed": {},
    "both": {"families": "both"},
    "overall": {"families": "marginal", "bound": "to_overall"},
    "ratio": {"families": "both", "bound": "ratio"},
    "target": {"families": "marginal", "bound": "target", "target": "population"},
}


@pytest.mark.parametrize("kind", ["classes", "soft"])
@pytest.mark.parametrize("name", CHOICES)
def test_a_frontier_is_what_single_solves_give(name, kind):
    y, people = small(kind)
    path = r2b.frontier(y, sensitive_features=people, epsilons=12, **CHOICES[name])
    assert len(path) == 12 and path.epsilon[0] == 0.0
    assert all(point.solved and abs(point.relative_gap) <= 1e-9 for point in path)
    assert path[-1].distance == pytest.approx(0.0, abs=1e-12)
    assert (np.diff(path.distance) <= 1e-9).all()
    for place in (0, 5, 9):
        alone = r2b.debias(
            y, sensitive_features=people, epsilon=float(path.epsilon[place]), **CHOICES[name]
        )
        np.testing.assert_allclose(path.labels[place].soft_labels, alone.soft_labels, atol=1e-7)
        assert path[place].distance == pytest.approx(alone.certificate.distance, abs=1e-9)


def test_a_frontier_of_agreement_changes_no_more_than_one_of_distance():
    y, people = small("classes")
    fewest = r2b.frontier(y, sensitive_features=people, epsilons=5, objective="agreement")
    closest = r2b.frontier(y, sensitive_features=people, epsilons=fewest.epsilon)
    assert (fewest.expected_changes <= closest.expected_changes + 1e-9).all()
    assert (closest.distance <= fewest.distance + 1e-9).all()
    assert all(point.solved for point in fewest)


def test_a_free_class_stays_free_along_the_path():
    y, people = small("classes")
    path = r2b.frontier(
        y, sensitive_features=people, epsilon=[np.inf, 0, 0, 0], epsilons=[0.0, 0.1]
    )
    assert [float(fair.certificate.epsilon[0]) for fair in path.labels] == [np.inf, np.inf]
    assert path.labels[1].certificate.disparity_by_class[1:].max() <= 0.1 + 1e-9


@pytest.mark.parametrize("epsilons", [0, -1, [], [-0.1], [np.nan], [np.inf], "many"])
def test_epsilons_that_cannot_be_are_refused(epsilons):
    y, people = small("classes")
    with pytest.raises(ParameterError, match="epsilons is") as raised:
        r2b.frontier(y, sensitive_features=people, epsilons=epsilons)
    assert raised.value.remedy.endswith(".")


@pytest.mark.parametrize("kind", ["classes", "soft"])
@pytest.mark.parametrize("budget", ["distance", "changes"])
@pytest.mark.parametrize("name", ["crossed", "both", "ratio"])
def test_the_smallest_epsilon_spends_the_budget_and_no_smaller_one_keeps_it(name, budget, kind):
    y, people = small(kind)
    field = {"distance": "distance", "changes": "expected_changes"}[budget]
    most = getattr(r2b.debias(y, sensitive_features=people, **CHOICES[name]).certificate, field)
    fair = r2b.smallest_epsilon(
        y, sensitive_features=people, **{budget: 0.4 * most}, **CHOICES[name]
    )
    assert fair.status.ok
    assert 0.4 * most * (1 - 1e-6) <= getattr(fair.certificate, field) <= 0.4 * most * (1 + 1e-12)
    epsilon = float(fair.certificate.epsilon[0])
    tighter = r2b.debias(
        y, sensitive_features=people, epsilon=epsilon * (1 - 1e-4), **CHOICES[name]
    ).certificate
    assert getattr(tighter, field) > 0.4 * most


def test_budgets_at_the_ends():
    y, people = small("classes")
    assert (
        r2b.smallest_epsilon(y, sensitive_features=people, distance=10.0).certificate.epsilon.max()
        == 0.0
    )
    nothing = r2b.smallest_epsilon(y, sensitive_features=people, changes=0.0)
    assert nothing.certificate.expected_changes == 0.0
    assert nothing.certificate.epsilon.max() == pytest.approx(nothing.certificate.disparity_before)


def test_a_budget_of_fewest_changes_is_met_by_agreement():
    y, people = small("classes")
    fair = r2b.smallest_epsilon(y, sensitive_features=people, changes=0.02, objective="agreement")
    assert fair.certificate.expected_changes == pytest.approx(0.02, rel=1e-6)
    assert fair.certificate.holds
    closest = r2b.smallest_epsilon(y, sensitive_features=people, changes=0.02)
    assert fair.certificate.epsilon[0] <= closest.certificate.epsilon[0] + 1e-9


@pytest.mark.parametrize(
    "budget",
    [
        {},
        {"distance": 0.1, "changes": 0.1},
        {"distance": -1},
        {"changes": np.nan},
        {"changes": "few"},
    ],
)
def test_a_budget_that_cannot_be_is_refused(budget):
    y, people = small("classes")
    with pytest.raises(ParameterError, match="budget") as raised:
        r2b.smallest_epsilon(y, sensitive_features=people, **budget)
    assert raised.value.remedy.endswith(".")


def test_a_budget_that_no_epsilon_keeps_says_what_the_least_is():
    y, people = small("classes")
    with pytest.raises(ParameterError, match="Even without any parity") as raised:
        r2b.smallest_epsilon(y, sensitive_features=people, distance=1e-6, lam=4.0)
    assert raised.value.facts["least"] > 1e-6


def test_options_that_do_not_exist_are_refused_by_name():
    y, people = small("classes")
    with pytest.raises(ParameterError, match="'epsilom' is not an option"):
        r2b.frontier(y, sensitive_features=people, epsilom=0.1)
    with pytest.raises(ParameterError, match="'epsilon' is what this question answers"):
        r2b.smallest_epsilon(y, sensitive_features=people, changes=0.1, epsilon=0.1)


def test_a_comparison_tells_who_meets_whom():
    y, people = small("classes")
    choices = {
        "strict": {"epsilon": 0.0},
        "loose": {"epsilon": 0.1},
        "fewest": {"epsilon": 0.1, "objective": "agreement"},
        "margins": {"families": "marginal", "epsilon": 0.0},
        "dear": {"epsilon": 0.1, "costs": 2.0 * (1 - np.eye(4))},
    }
    found = r2b.compare(y, sensitive_features=people, choices=choices)
    assert found.names == list(choices)
    assert found.meets("strict", "loose")
    assert found.meets("strict", "margins")
    assert not found.meets("loose", "strict")
    assert found.meets("fewest", "loose") and not found.meets("margins", "strict")
    for name, options in choices.items():
        alone = r2b.debias(y, sensitive_features=people, **options).certificate
        assert found.labels[name].certificate.distance == pytest.approx(alone.distance, abs=1e-12)
    means = found.labels["margins"].soft_labels
    crossing = np.char.add(people["a"], people["b"])
    by_crossing = np.stack([means[crossing == each].mean(axis=0) for each in np.unique(crossing)])
    assert found.violation[3, 0] == pytest.approx(np.ptp(by_crossing, axis=0).max(), abs=1e-9)
    assert "also meets" in str(found) and "'strict'" in repr(found)


@pytest.mark.parametrize("choices", [{}, None, ["strict"]])
def test_a_comparison_of_nothing_is_refused(choices):
    y, people = small("classes")
    with pytest.raises(ParameterError, match="choices is"):
        r2b.compare(y, sensitive_features=people, choices=choices)


@pytest.mark.parametrize("kind", ["classes", "soft"])
def test_the_price_of_a_constraint_is_the_slope_of_the_optimum(kind):
    y, people = small(kind)
    # Equal bounds can hold each other in place (differences add up to zero), and then letting one
    # go alone brings less.
    bounds = np.array([0.05, 0.045, 0.04, 0.06])
    fair = r2b.debias(y, sensitive_features=people["a"], epsilon=bounds)
    costliest = fair.costliest_constraints(1)[0]
    label = list(fair.classes).index(costliest.label)
    step = 1e-5
    wider = r2b.debias(
        y, sensitive_features=people["a"], epsilon=bounds + step * (np.arange(4) == label)
    ).certificate
    assert (fair.certificate.objective - wider.objective) / step == pytest.approx(
        costliest.rate, rel=1e-2
    )
    rates = np.array([cost.rate for cost in fair.costliest_constraints(8)])
    assert (np.diff(rates) <= 1e-12).all()  # equals but for rounding stand in the order of groups
    assert fair.costliest_constraints(0) == []


def test_fair_labels_have_no_dear_constraints():
    y, people = small("classes")
    assert r2b.debias(y, sensitive_features=people, epsilon=1.0).costliest_constraints() == []
