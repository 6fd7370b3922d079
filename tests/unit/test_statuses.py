"""How runs end: infeasible is proven, solved is certified, the best prices are carried on."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from families_qp import people
from hypothesis import given, settings
from hypothesis import strategies as st

import r2b
from r2b._audit.tradeoff import task_of
from r2b._constraints.bounds import MomentBound, OverallBound, RangeBound, RatioBound, TargetBound
from r2b._constraints.parity import Member, Parity, proves_infeasible, surely_feasible
from r2b._solve.certificate import PROVEN
from r2b._solve.solvers import Limits, Outcome, Stage, Status, final_status, run

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from language_campaign import disagreement, drawn

SEEDS = st.integers(0, 10**6)


# Each was told wrong by a version of the solver: infeasible ones as stalled or out of iterations,
# feasible ones as infeasible or stalled.
@pytest.mark.parametrize(
    "seed",
    [
        47,
        1001,
        1007,
        1088,
        1119,
        1121,
        1137,
        1155,
        1246,
        1279,
        1326,
        1340,
        2206,
        2243,
        400065,
        400316,
    ],
)
def test_what_the_campaign_found_is_told_as_it_is(seed):
    assert disagreement(drawn(seed)) is None


def nested_targets(seed):
    """Targets of two populations, so that closed bounds contradict each other."""
    who = people(seed, decades=0.0)
    race = who.race.astype(object)
    race[np.random.default_rng(seed).random(len(race)) < 0.3] = None
    return who, {
        "sensitive_features": {"sex": who.sex, "race": race},
        "families": "both",
        "bound": "target",
        "target": "population",
    }


def test_targets_of_nested_families_that_no_labels_meet_are_infeasible():
    told = set()
    for seed in range(40):
        who, asked = nested_targets(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fair = r2b.debias(who.given, missing="exclude", **asked)
        told.add(fair.status)
        assert fair.status in (Status.SOLVED, Status.INFEASIBLE, Status.ALREADY_FAIR), seed
    assert told >= {Status.SOLVED, Status.INFEASIBLE}


@settings(max_examples=300, deadline=None)
@given(SEEDS)
def test_no_prices_prove_what_labels_contradict(seed):
    """Bounds hold for labels that exist, so that no prices may prove the contrary."""
    rng = np.random.default_rng(seed)
    cells, classes = int(rng.integers(1, 8)), int(rng.integers(2, 5))
    share = rng.dirichlet(np.full(cells, 0.5)) + 1e-12
    share /= share.sum()
    labels = rng.dirichlet(np.full(classes, 0.3), cells)
    members, columns, shares, start = [], [], [], 0
    for kind in rng.choice(
        ["range", "overall", "ratio", "target", "moment"], int(rng.integers(1, 4))
    ):
        part = (
            rng.dirichlet(np.full(3, 0.3), cells)
            if rng.random() < 0.5
            else np.eye(3)[rng.integers(0, 3, cells)]
        )
        part = part[:, share @ part > 0] if kind != "moment" else rng.normal(size=(cells, 2))
        own = np.ones(2) if kind == "moment" else share @ part
        means = part.T @ (share[:, None] * labels) / own[:, None]
        none = np.zeros(classes)
        bound = {
            "range": RangeBound(none),
            "overall": OverallBound(none),
            "ratio": RatioBound(none),
            "target": TargetBound(none, means.mean(axis=0)),
            "moment": MomentBound(none),
        }[kind]
        bound = bound.at(bound.measure(means, own))
        members.append(Member(str(start), slice(start, start + len(own)), bound))
        columns.append(part)
        shares.append(own)
        start += len(own)
    parity = Parity(
        tuple(members),
        np.arange(start),
        np.concatenate(shares),
        share,
        np.concatenate(columns, axis=1),
    )
    assert parity.violation(parity.means(labels)) <= 1e-12
    for _ in range(20):
        prices = rng.normal(size=(start, classes)) * 10.0 ** rng.uniform(-8, 8, (start, 1))
        assert not proves_infeasible(parity, prices)


def test_a_contradiction_is_proven_beyond_the_excess_of_a_certificate():
    for apart, wanted in ((1e-6, True), (1e-8, True), (1e-10, False)):
        one, other = (TargetBound(np.zeros(2), np.array([0.5 + d, 0.5 - d])) for d in (0.0, apart))
        members = (Member("a", slice(0, 1), one), Member("b", slice(1, 2), other))
        parity = Parity(members, np.arange(2), np.ones(2), np.ones(1), np.ones((1, 2)))
        assert surely_feasible(parity) is not wanted
        assert proves_infeasible(parity, np.array([[1.0, -1.0], [-1.0, 1.0]])) is wanted
        assert not proves_infeasible(parity, np.array([[-1.0, 1.0], [1.0, -1.0]]))


@pytest.mark.parametrize("status", list(Status))
def test_every_end_is_judged_by_the_certificate(status):
    fair = r2b.debias(list("aabbab"), sensitive_features=list("fffmmm"))
    outcome = Outcome(fair.prices, 0.0, status)
    assert fair.certificate.holds and final_status(outcome, fair.certificate, 1e-10).ok
    short = replace(fair.certificate, relative_gap=10 * PROVEN)
    assert not final_status(outcome, short, 1e-10).ok


@pytest.mark.parametrize(
    "limit", [{"progress": lambda step: False}, {"time_limit": 1e-9}, {"max_iter": 0}]
)
def test_a_run_that_is_stopped_at_the_answer_is_solved(limit):
    y = np.random.default_rng(0).dirichlet(np.ones(3), 30)
    case = {"sensitive_features": list("fm" * 15)}
    answer = r2b.debias(y, **case).prices
    job = task_of(y, {**case, **limit})
    fair = job.solve(start=answer + 3e-10 * np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]]))
    assert fair.residual > 1e-10, "the run was to end before its tolerance"
    assert fair.certificate.holds and fair.status is Status.SOLVED


@dataclass(frozen=True)
class _Wanderer:
    """A solver that passes its best point: the residual is the distance of the price from 3."""

    name: str = "wanderer"

    def start(self, prices):
        return _Place(prices)

    def step(self, state):
        return _Place(state.prices + 1.0)


@dataclass(frozen=True)
class _Place:
    prices: np.ndarray
    stalled: bool = False

    @property
    def residual(self):
        return abs(float(self.prices[0, 0]) - 3.0)


@pytest.mark.parametrize("final", [True, False])
def test_the_next_stage_begins_at_the_best_prices(final):
    begun = []

    class Watched(_Wanderer):
        def start(self, prices):
            begun.append(float(prices[0, 0]))
            return super().start(prices)

    stages = [Stage(_Wanderer(), -1.0, 7, final=final), Stage(Watched(), -1.0, 0)]
    outcome = run(stages, np.zeros((1, 1)), Limits())
    assert begun == [3.0] and float(outcome.prices[0, 0]) == 3.0


@pytest.mark.parametrize(("seed", "budget"), [(1, 0.24), (24, 0.25)])
def test_a_budget_that_is_kept_exceeded_and_kept_again_gives_the_first_epsilon(seed, budget):
    who = people(seed)
    asked = {
        "sensitive_features": who.sensitive,
        "sample_weight": who.weight,
        "bound": "ratio",
        "lam": 0.05,
    }
    found = r2b.smallest_epsilon(who.given, distance=budget, **asked)
    path = r2b.frontier(who.given, epsilons=np.linspace(0.0, 1.0, 51), **asked)
    assert (np.diff(path.distance) > 1e-3).any(), "the cost was to rise somewhere"
    assert found.certificate.distance <= budget
    assert (
        found.certificate.epsilon[0]
        <= path.epsilon[np.flatnonzero(path.distance <= budget)[0]] + 1e-9
    )


def test_a_budget_is_not_kept_by_labels_that_miss_their_bounds():
    # Closed bounds contradict each other, so that what comes back for epsilon 0 is within no
    # budget.
    who, asked = nested_targets(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert r2b.debias(who.given, missing="exclude", **asked).status is Status.INFEASIBLE
        found = r2b.smallest_epsilon(who.given, distance=2.0, missing="exclude", **asked)
    assert found.status.ok and found.certificate.epsilon[0] > 0
