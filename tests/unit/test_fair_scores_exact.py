"""Fair probabilities and decisions from scores, for every criterion: CVXPY's optimum of the problem written out, the proof, the bounds."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
from families_qp import Rule, Table, limits, violation

import r2b
from r2b._constraints.families import Request
from r2b._labels import FairLabels
from r2b.metrics.criteria import CRITERIA
from r2b.sklearn.groups import TrueGroups, true_groups
from r2b.sklearn.rule import ScoreTask, _shifted

KINDS = ("decisions", "probabilities")
SHAPES = ("flat", "sharp", "tied", "certain")


@dataclass(frozen=True)
class Draw:
    """What is drawn for one problem."""

    seed: int
    criterion: str = "demographic_parity"
    kind: str = "decisions"
    n: int = 60
    n_classes: int = 3
    n_groups: int = 2
    families: str = "crossed"
    bound: str = "range"
    epsilon: float = 0.0
    shape: str = "flat"
    member: str = "soft"
    weighted: bool = False
    control: bool = False
    offsets: float = 0.0


def drawn_scores(rng: np.random.Generator, draw: Draw) -> np.ndarray:
    """Scores: flat, sharp, from few leaves that are rounded so that rows and classes tie, or certain of one class."""
    n, n_classes = draw.n, draw.n_classes
    if draw.shape == "tied":
        leaves = np.round(rng.dirichlet(np.ones(n_classes), max(n // 10, 2)), 1) + 1e-3
        drawn = leaves[rng.integers(0, len(leaves), n)]
    elif draw.shape == "certain":
        drawn = np.eye(n_classes)[rng.integers(0, n_classes, n)]
    else:
        drawn = (
            rng.dirichlet(np.full(n_classes, {"flat": 1.0, "sharp": 0.1}[draw.shape]), n) + 1e-12
        )
    return drawn / drawn.sum(axis=1, keepdims=True)


def problem(draw: Draw) -> tuple[ScoreTask, TrueGroups, np.ndarray, np.ndarray, np.ndarray | None]:
    """Draw true groups and classes, scores, what is predicted of groups, and offsets that some scores would need."""
    rng = np.random.default_rng(
        [draw.seed, list(CRITERIA).index(draw.criterion), draw.n_classes, draw.n_groups]
    )
    first = np.append(
        np.arange(draw.n_groups), rng.integers(0, draw.n_groups, draw.n - draw.n_groups)
    )
    people = (
        {"sex": first}
        if draw.families == "crossed"
        else {"sex": first, "race": rng.integers(0, 2, draw.n)}
    )
    control = {"job": rng.integers(0, 2, draw.n)} if draw.control else None
    scores = drawn_scores(rng, draw)
    if draw.shape != "tied":
        scores = scores * np.exp(0.7 * rng.normal(size=(draw.n_groups, draw.n_classes)))[first]
        scores /= scores.sum(axis=1, keepdims=True)
    truth = (
        (scores.cumsum(axis=1) < rng.random((draw.n, 1))).sum(axis=1).clip(max=draw.n_classes - 1)
    )
    truth[: draw.n_classes] = np.arange(draw.n_classes)
    weight = 10.0 ** rng.uniform(-1, 1, draw.n) if draw.weighted else None
    data = {
        "sensitive_features": people,
        "control_features": control,
        "sample_weight": weight,
        "normalize": False,
    }
    more = {"target": "population"} if draw.bound == "target" else {}
    request = Request(
        epsilon=draw.epsilon, bound=draw.bound, families=draw.families, absent="report", **more
    )
    groups, _ = true_groups(truth, data, request, draw.criterion)
    codes = np.eye(groups.n_codes)[groups.codes]
    if draw.member == "soft":
        codes = 0.5 * codes + 0.5 * rng.dirichlet(np.ones(groups.n_codes), draw.n)
    task = ScoreTask.of(scores, groups, codes, truth, kind=draw.kind, options={})
    offsets = None
    if draw.offsets:
        offsets = rng.normal(0.0, draw.offsets, (task.task.parity.n_groups, draw.n_classes))
        offsets -= offsets.mean(axis=1, keepdims=True)
    return task, groups, scores, codes, offsets


def solved(draw: Draw) -> tuple[FairLabels, Table]:
    """Solve a draw, and write its problem out."""
    task, groups, scores, codes, offsets = problem(draw)
    parity = task.task.parity if offsets is None else _shifted(task.task.parity, offsets)
    found = task.solve(parity)
    rules, begun = [], 0
    for each in groups.comparisons:
        n_groups = len(each.groups)
        counts = np.column_stack(
            [codes[:, each.place == group].sum(axis=1) for group in range(n_groups)]
        )
        epsilon = np.broadcast_to(np.asarray(each.family.epsilon, float), draw.n_classes)
        own = None if offsets is None else offsets[begun : begun + n_groups]
        target = None if each.family.target is None else np.asarray(each.family.target)
        rules.append(Rule(counts, each.family.bound, epsilon, target, own))
        begun += n_groups
    weight = np.ones(draw.n) if groups.weight is None else groups.weight
    return found, Table(scores, weight, rules, 0.0 if draw.kind == "decisions" else 1.0)


def optimum(table: Table) -> float | None:
    """Ask CVXPY for the least value; None where it finds that no labels meet the bounds."""
    x = cp.Variable(table.y.shape, nonneg=True)
    asked = [cp.sum(x, axis=1) == 1]
    for k in range(table.y.shape[1]):
        found = [each for rule in table.rules for each in limits(rule, table.weight, k)]
        rows, low, high = (
            np.array([row for row, *_ in found]),
            np.array([each[1] for each in found]),
            np.array([each[2] for each in found]),
        )
        same, below, above = (
            low == high,
            (low < high) & np.isfinite(low),
            (low < high) & np.isfinite(high),
        )
        asked += [rows[same] @ x[:, k] == low[same]] if same.any() else []
        asked += [rows[below] @ x[:, k] >= low[below]] if below.any() else []
        asked += [rows[above] @ x[:, k] <= high[above]] if above.any() else []
    worth = -cp.sum(cp.multiply(table.weight[:, None] * table.y, x))
    if not table.lam:
        written = cp.Problem(cp.Minimize(worth), asked)
        written.solve(solver=cp.HIGHS)
    else:
        size = cp.sum_squares(cp.multiply(np.sqrt(table.weight)[:, None], x))
        written = cp.Problem(cp.Minimize(worth + 0.5 * table.lam * size), asked)
        written.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(written.value) if written.status in ("optimal", "optimal_inaccurate") else None


def judge(draw: Draw) -> None:
    """Check status, proof, bounds and value of a draw."""
    found, table = solved(draw)
    least = optimum(table)
    if least is None:
        assert found.status is r2b.Status.INFEASIBLE
        return
    assert found.status is r2b.Status.SOLVED or found.status is r2b.Status.ALREADY_FAIR, (
        found.status
    )
    assert found.certificate.holds
    labels = np.asarray(found.soft_labels)
    assert violation(table, labels) <= 1e-8
    # decisions are those of a small lambda, which costs some of the objective
    within = 5e-6 if draw.kind == "decisions" else 1e-6
    assert table.value(labels) == pytest.approx(least, abs=within)


MORE = (
    {},
    {"epsilon": 0.03, "weighted": True, "shape": "sharp"},
    {"epsilon": 0.02, "families": "both", "n": 40, "offsets": 0.005},
    {"member": "one-hot", "shape": "tied", "n_groups": 4},
    {
        "member": "one-hot",
        "families": "marginal",
        "epsilon": 0.05,
        "bound": "to_overall",
        "weighted": True,
    },
    {"control": True, "epsilon": 0.05, "n_classes": 2, "n": 100},
    {"shape": "certain", "offsets": 0.002, "epsilon": 0.01, "n_classes": 5},
    {"bound": "ratio", "epsilon": 0.2, "shape": "tied", "weighted": True},
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("seed", range(len(MORE)))
def test_the_optimum_is_cvxpys(seed, criterion, kind):
    judge(Draw(seed, criterion, kind, **MORE[seed]))
