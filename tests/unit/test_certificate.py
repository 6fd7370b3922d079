"""The certificate, recomputed in plain NumPy, and shown wrong prices, labels and claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from problems import ALL, NAMES, SMALL, Case, group_means, objective_of, parity_of, range_bound
from problems import project as by_bisection

import r2b
from r2b._constraints.parity import Parity
from r2b._data import read
from r2b._data.merge import Rows, merge
from r2b._solve.certificate import Problem, certify
from r2b._solve.oracle import Oracle, respond


def setting(case: Case, kind=Oracle) -> tuple[Problem, Oracle]:
    rows = merge(read(case.y, sensitive_features=case.groups, sample_weight=case.weight))
    return Problem(
        rows,
        Parity.of_groups(range_bound(case.epsilon, rows.n_classes), rows.cell_weight),
        case.lam,
    ), kind.of(rows, kernel="numpy")


def lower_bound_of(case: Case, prices: np.ndarray) -> float:
    """Return the lower bound of any balanced prices, with another projection."""
    share = np.bincount(case.groups, case.w)
    assert np.abs(share @ prices).max() < 1e-12 * max(1.0, np.abs(prices).max())
    shifted = case.matrix - prices[case.groups]
    x = by_bisection(shifted / case.lam)
    value = case.w @ (0.5 * case.lam * (x * x).sum(axis=1) - (x * shifted).sum(axis=1))
    bounds, paid = case.bounds, share @ np.abs(prices)
    used = paid > 0
    return float(value - 0.5 * bounds[used] @ paid[used])


@pytest.mark.parametrize(
    "case", [case for case in ALL if case.matrix.shape[1] < 100], ids=lambda case: case.name
)
def test_every_number_is_recomputed(case):
    fair = r2b.debias(case.y, **case.arguments)
    proof, x, y, w = fair.certificate, fair.soft(np.float64), case.matrix, case.w
    by_class = parity_of(x, case.groups, w)
    assert proof.means == pytest.approx(group_means(x, case.groups, w), abs=1e-13)
    assert proof.means_before == pytest.approx(group_means(y, case.groups, w), abs=1e-13)
    assert proof.disparity_by_class == pytest.approx(by_class, abs=1e-13)
    assert proof.disparity == pytest.approx(by_class.max(), abs=1e-13)
    assert proof.disparity_before == pytest.approx(parity_of(y, case.groups, w).max(), abs=1e-13)
    assert proof.excess == pytest.approx(max((by_class - case.bounds).max(), 0.0), abs=1e-13)
    assert np.array_equal(proof.epsilon, case.bounds)
    assert proof.objective == pytest.approx(objective_of(case, x), abs=1e-13)
    assert proof.distance == pytest.approx(float(w @ ((x - y) ** 2).sum(axis=1)), abs=1e-13)
    assert proof.expected_changes == pytest.approx(
        float(w @ np.abs(x - y).sum(axis=1) / 2), abs=1e-13
    )
    assert proof.simplex_violation == pytest.approx(
        max(np.abs(x.sum(axis=1) - 1).max(), -x.min(), 0.0), abs=1e-14
    )
    assert proof.lower_bound == pytest.approx(lower_bound_of(case, fair.prices), abs=1e-12)
    scale = float(w @ (0.5 * case.lam * (x * x).sum(axis=1) + (x * y).sum(axis=1)))
    assert proof.relative_gap == pytest.approx(
        (proof.objective - proof.lower_bound) / scale, abs=1e-13
    )


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_the_certified_parity_is_that_of_the_metrics(case):
    fair = r2b.debias(case.y, **case.arguments)
    measured = r2b.metrics.demographic_parity_difference(
        fair.soft(np.float64), sensitive_features=case.groups, sample_weight=case.weight
    )
    assert measured == pytest.approx(fair.certificate.disparity, abs=1e-13)


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_no_feasible_labels_lie_below_the_lower_bound(case):
    """Candidates: rows pulled towards one distribution, so that all groups have its means."""
    rng = np.random.default_rng(0)
    fair = r2b.debias(case.y, **case.arguments)
    x, n_classes = fair.soft(np.float64), case.matrix.shape[1]
    candidates = [np.broadcast_to(rng.dirichlet(np.ones(n_classes)), x.shape) for _ in range(5)]
    candidates += [
        (1 - t) * x + t * constant for t in (0.001, 0.1, 0.5) for constant in candidates[:3]
    ]
    # Rows of one group may trade places with each other and with their labels as long as the means
    # stay: swap equal weights.
    swapped = x.copy()
    for s in np.unique(case.groups):
        mine = np.flatnonzero(case.groups == s)
        if case.weight is None:
            swapped[mine] = x[rng.permutation(mine)]
    candidates += [swapped, 0.9 * x + 0.1 * swapped]
    for labels in candidates:
        assert (parity_of(labels, case.groups, case.w) <= case.bounds + 1e-9).all()
        assert objective_of(case, labels) >= fair.certificate.lower_bound - 1e-9


@pytest.mark.parametrize(
    "name", ["class labels", "soft, bounds by class", "class labels, lam .05", "float32"]
)
@pytest.mark.parametrize("size", [1e-3, 0.1, 10.0])
def test_wrong_prices_do_not_pass_and_still_bound(name, size):
    case = NAMES[name]
    problem, oracle = setting(case)
    best = r2b.debias(case.y, **case.arguments).certificate
    rng = np.random.default_rng(1)
    for _ in range(5):
        prices = r2b.debias(case.y, **case.arguments).prices + rng.normal(
            0, size, (problem.n_groups, problem.n_classes)
        )
        prices = prices - problem.parity.share @ prices
        proof = certify(problem, oracle, prices, oracle.label_means())
        assert not proof.holds
        assert proof.lower_bound <= best.objective + 1e-12  # weak duality, for any prices
        assert proof.lower_bound == pytest.approx(
            lower_bound_of(case, prices), rel=1e-10, abs=1e-10
        )


def test_no_prices_at_all_do_not_pass():
    problem, oracle = setting(NAMES["class labels"])
    proof = certify(
        problem, oracle, np.zeros((problem.n_groups, problem.n_classes)), oracle.label_means()
    )
    assert not proof.holds and proof.excess == pytest.approx(proof.disparity_before - 0.01)
    assert not certify(
        problem,
        oracle,
        np.zeros((problem.n_groups, problem.n_classes)),
        oracle.label_means(),
        unchanged=True,
    ).holds


class Altered(Oracle):
    """Gives out other labels than the best responses to the prices."""

    def inspect(self, prices, lam, *, unchanged=False, answers=None):
        x = respond(self.rows.labels, self.rows.cells, prices, lam)
        self.alter(x)
        return super().inspect(prices, lam, answers=x)


def test_fair_but_far_labels_do_not_pass():
    """Uniform labels are in parity; the gap says that they are not the closest."""

    class Uniform(Altered):
        def alter(self, x):
            x[:] = 1 / x.shape[1]

    case = NAMES["class labels"]
    problem, oracle = setting(case, Uniform)
    proof = certify(
        problem, oracle, r2b.debias(case.y, **case.arguments).prices, oracle.label_means()
    )
    assert proof.disparity < 1e-15 and proof.excess == 0
    assert proof.relative_gap > 1e-3 and not proof.holds
    assert proof.lower_bound <= r2b.debias(case.y, **case.arguments).certificate.objective + 1e-12


@pytest.mark.parametrize("name", ["class labels", "soft, epsilon .2, lam .3"])
def test_labels_handed_to_the_wrong_rows_do_not_pass(name):
    """Two rows of one group trade their new labels: only the slack of rows can tell."""

    class Traded(Altered):
        def alter(self, x):
            mine = np.flatnonzero(self.rows.cells == 1)
            first, second = mine[0], mine[np.argmax(np.abs(x[mine] - x[mine[0]]).sum(axis=1))]
            x[[first, second]] = x[[second, first]]

    case = replace(NAMES[name], y=NAMES[name].matrix, weight=None)
    data = read(case.y, sensitive_features=case.groups)
    rows = Rows(data.labels.array, data.cells.codes, None, data.n_cells, data)
    problem = Problem(
        rows,
        Parity.of_groups(range_bound(case.epsilon, rows.n_classes), rows.cell_weight),
        case.lam,
    )
    fair = r2b.debias(case.y, **case.arguments)
    proof = certify(
        problem, Traded.of(rows, kernel="numpy"), fair.prices, fair.certificate.means_before
    )
    assert proof.means == pytest.approx(fair.certificate.means, abs=1e-14)
    assert proof.simplex_violation < 1e-15
    assert proof.relative_gap > 1e-4 and not proof.holds
    assert proof.lower_bound <= fair.certificate.objective + 1e-12


@pytest.mark.parametrize("name", ["class labels", "soft, epsilon .2, lam .3", "float32"])
@pytest.mark.parametrize("fault", ["sum", "negative", "moved"])
def test_tampered_labels_do_not_pass(name, fault):
    class Tampered(Altered):
        def alter(self, x):
            high, low = int(np.argmax(x[0])), int(np.argmin(x[0]))
            shift = {"sum": 0.0, "negative": 1e-7 + x[0, low], "moved": -1e-3}[fault]
            x[0, low] -= shift
            x[0, high] += shift + (1e-7 if fault == "sum" else 0.0)

    case = NAMES[name]
    problem, oracle = setting(case, Tampered)
    proof = certify(
        problem, oracle, r2b.debias(case.y, **case.arguments).prices, oracle.label_means()
    )
    assert not proof.holds
    if fault != "moved":
        assert proof.simplex_violation == pytest.approx(1e-7, rel=1e-2)


def test_prices_that_do_not_balance_prove_nothing():
    """Prices that do not balance must not certify labels that are not the closest.

    Both groups hold the same two rows, so the labels are fair and the optimum is to leave them
    alone. One price for everyone moves all rows alike, which is fair too, and is chosen so that
    what it pays, <nu, m> with m = (.3, .7), happens to cancel.
    """
    y = np.array([[0.6, 0.4], [0.4, 0.6], [0.6, 0.4], [0.4, 0.6]])
    case = Case("trap", y, np.array([0, 0, 1, 1]))
    problem, oracle = setting(case)
    prices = np.tile([0.28, -0.12], (2, 1))
    assert np.abs(by_bisection(y - prices[0]) - y).min() == pytest.approx(0.2)
    proof = certify(problem, oracle, prices, oracle.label_means())
    assert proof.lower_bound <= objective_of(case, y) + 1e-12, (
        "a lower bound above a feasible value"
    )
    assert not proof.holds


def test_an_oracle_that_lies_about_slack_is_not_believed_by_the_numbers():
    case = NAMES["class labels"]
    fair = r2b.debias(case.y, **case.arguments)
    tampered = replace(fair.certificate, relative_gap=1e-8)
    assert fair.certificate.holds and not tampered.holds
    assert not replace(fair.certificate, excess=2e-9).holds
    assert not replace(fair.certificate, simplex_violation=2e-9).holds
    # a "gap" below zero is as wrong as one above
    assert not replace(fair.certificate, relative_gap=-1e-8).holds
    assert not replace(fair.certificate, relative_gap=np.nan).holds
    assert not replace(fair.certificate, excess=np.nan).holds


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_called_optimal_is_certified(dtype):
    """``status.ok`` promises a certificate that holds, also for unchanged labels."""
    rng = np.random.default_rng(3)
    y = rng.dirichlet(np.ones(5), 40).astype(dtype)
    for arguments in (
        {"sensitive_features": np.arange(40) % 2, "epsilon": 1.0},
        {"sensitive_features": np.zeros(40)},
    ):
        fair = r2b.debias(y, **arguments)
        assert fair.status.ok
        assert fair.certificate.holds, fair.certificate.simplex_violation


def test_rows_just_off_a_sum_of_one_are_not_certified_unchanged_and_called_ok():
    y = np.array([[0.6, 0.4], [0.4, 0.6 + 5e-7], [0.6, 0.4], [0.4, 0.6]])
    fair = r2b.debias(y, sensitive_features=[0, 0, 1, 1], epsilon=0.5)
    assert fair.status.ok == fair.certificate.holds
