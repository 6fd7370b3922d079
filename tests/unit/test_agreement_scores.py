"""Agreement with probabilities: the optimum of the linear programme, its proof, rows that tie, new rows, and results on disk."""

from __future__ import annotations

import numpy as np
import pytest
from r2b._solve.oracle.screening import screened
from scipy import sparse
from scipy.optimize import linprog

import r2b
from r2b._constraints.families import Request
from r2b._labels.debiasing import Settings
from r2b._labels.task import open_job
from r2b._solve.oracle.reference import evaluated

GROUPS = {"disjoint": None, "uncertain": "soft", "one-hot membership": "hard"}


def scores(seed, n, n_classes, kind):
    rng = np.random.default_rng(seed)
    if kind == "flat":
        drawn = rng.dirichlet(np.ones(n_classes), n)
    elif kind == "sharp":
        drawn = rng.dirichlet(np.full(n_classes, 0.1), n)
    elif kind == "softmax":
        drawn = np.exp(2 * rng.normal(size=(n, n_classes)))
    else:  # leaves of a tree: few distinct rows, and many ties
        drawn = (
            np.round(rng.dirichlet(np.ones(n_classes), max(n // 20, 2)), 1)[
                rng.integers(0, max(n // 20, 2), n)
            ]
            + 1e-3
        )
    return drawn / drawn.sum(axis=1, keepdims=True)


def case(seed, n=120, n_classes=4, n_groups=3, kind="flat", groups="disjoint", weighted=False):
    """Scores that depend on the group, how much each row counts in each group, the argument for it, and weights."""
    rng = np.random.default_rng([seed, 1])
    group = np.append(np.arange(n_groups), rng.integers(0, n_groups, n - n_groups))
    y = (
        scores(seed, n, n_classes, kind)
        * np.exp(0.5 * rng.normal(size=(n_groups, n_classes)))[group]
    )
    y /= y.sum(axis=1, keepdims=True)
    part = np.eye(n_groups)[group]
    if groups == "uncertain":
        part = 0.4 * part + 0.6 * rng.dirichlet(np.ones(n_groups), n)
    names = [f"g{place}" for place in range(n_groups)]
    who = group if groups == "disjoint" else r2b.Membership(part, groups=names)
    return y, part, who, 10 ** rng.uniform(-2, 2, n) if weighted else None


def best(worth, part, epsilon, weight=None):
    """The optimum of the linear programme: rows of the simplex whose group means differ by at most epsilon."""
    n, n_classes = worth.shape
    weight = np.ones(n) if weight is None else weight
    counted = (part * weight[:, None]).T / (part * weight[:, None]).sum(axis=0)[:, None]
    means = sparse.kron(sparse.csr_array(counted), sparse.eye_array(n_classes), format="csr")
    level = sparse.kron(np.ones((part.shape[1], 1)), sparse.eye_array(n_classes))
    rows = sparse.hstack(
        [
            sparse.kron(sparse.eye_array(n), np.ones((1, n_classes))),
            sparse.csr_array((n, n_classes)),
        ]
    )
    found = linprog(
        np.append(-(weight[:, None] * worth).ravel() / weight.sum(), np.zeros(n_classes)),
        A_ub=sparse.vstack([sparse.hstack([means, -level]), sparse.hstack([-means, level])]),
        b_ub=np.full(2 * means.shape[0], epsilon / 2),
        A_eq=rows,
        b_eq=np.ones(n),
        bounds=[(0, None)] * (n * n_classes) + [(None, None)] * n_classes,
        method="highs",
    )
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("kind", ["flat", "sharp", "softmax", "tree"])
def test_the_optimum_is_that_of_the_linear_programme(kind, groups):
    for seed, epsilon in enumerate((0.0, 0.01, 0.1)):
        y, part, who, weight = case(seed, kind=kind, groups=groups, weighted=seed == 1)
        fair = r2b.debias(
            y, sensitive_features=who, epsilon=epsilon, sample_weight=weight, objective="agreement"
        )
        proof = fair.certificate
        assert fair.status is r2b.Status.SOLVED and proof.holds and fair.lam == 0
        assert proof.objective == pytest.approx(best(y, part, epsilon, weight), rel=1e-7)
        # The proof again, from the labels that leave.
        x, weight = fair.soft_labels, np.ones(len(y)) if weight is None else weight
        means = (part * weight[:, None]).T @ x / (part * weight[:, None]).sum(axis=0)[:, None]
        assert np.ptp(means, axis=0).max() <= epsilon + 1e-9
        assert -weight @ (x * y).sum(axis=1) / weight.sum() == pytest.approx(
            proof.objective, abs=1e-12
        )


def test_more_groups_than_rows_can_serve_and_costs_are_solved_too():
    y, part, who, _ = case(5, n=60, n_classes=6, n_groups=8)
    costs = np.random.default_rng(0).uniform(0.2, 3.0, (6, 6)) * (1 - np.eye(6))
    fair = r2b.debias(y, sensitive_features=who, objective="agreement", costs=costs)
    assert fair.status.ok and fair.certificate.objective == pytest.approx(
        best(-y @ costs, part, 0.0), rel=1e-7
    )


@pytest.mark.parametrize("bound", ["range", "to_overall", "ratio", "target"])
@pytest.mark.parametrize("families", ["crossed", "marginal", "both"])
def test_every_bound_and_family_is_certified(bound, families):
    y, *_ = case(3, n=200)
    rng = np.random.default_rng(3)
    who = {"sex": rng.choice(["f", "m"], 200), "race": rng.choice(["p", "q", "r"], 200)}
    target = "population" if bound == "target" else None
    fair = r2b.debias(
        y,
        sensitive_features=who,
        families=families,
        bound=bound,
        target=target,
        epsilon=0.05,
        objective="agreement",
    )
    assert fair.status.ok and fair.certificate.holds


def test_one_group_gives_each_row_to_its_best_class_and_splits_ties_evenly():
    y = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8]])
    fair = r2b.debias(y, sensitive_features=["a"] * 3, objective="agreement")
    assert fair.status.ok
    np.testing.assert_allclose(fair.soft_labels, [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]], atol=1e-9)


def test_equal_rows_of_a_cell_are_split_alike_whatever_their_order():
    y, _, who, _ = case(7, n=400, kind="tree")
    more = {"epsilon": 0.01, "objective": "agreement", "merge_rows": "never"}
    x = r2b.debias(y, sensitive_features=who, **more).soft_labels
    split = (x > 1e-9).sum(axis=1) > 1
    _, same = np.unique(np.column_stack([y, who]), axis=0, return_inverse=True)
    assert (
        split.any()
        and max(np.ptp(x[same.ravel() == each], axis=0).max() for each in range(same.max() + 1))
        <= 1e-12
    )
    order = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_allclose(
        r2b.debias(y[order], sensitive_features=who[order], **more).soft_labels, x[order], atol=1e-7
    )


@pytest.mark.parametrize("groups", GROUPS)
def test_new_rows_get_labels_by_the_same_prices_also_from_disk(groups, tmp_path):
    y, _, who, _ = case(2, n=300, groups=groups)
    fair = r2b.debias(y, sensitive_features=who, epsilon=0.01, objective="agreement")
    np.testing.assert_array_equal(fair.transform(y, sensitive_features=who), fair.soft_labels)
    new, part, others, _ = case(99, n=50, groups=groups)
    shifts = (part if groups == "uncertain" else np.eye(3)[part.argmax(axis=1)]) @ fair.prices
    x = fair.transform(new, sensitive_features=others)
    # No class beats the one that a row gets by more than rounding and the small lam that splits
    # ties.
    worth = new - shifts
    assert (worth.max(axis=1) - (x * worth).sum(axis=1)).max() <= 10 * fair.splits.lam
    fair.save(tmp_path / "fair.json")
    again = r2b.load(tmp_path / "fair.json")
    np.testing.assert_array_equal(again.transform(new, sensitive_features=others), x)
    for form in ("round", "sample"):
        drawn = [
            each.transform(new, sensitive_features=others, form=form, random_state=1)
            for each in (fair, again)
        ]
        np.testing.assert_array_equal(*drawn)
        # Rows that are not split keep their class in every form.
        sure = x.max(axis=1) > 1 - 1e-9
        assert sure.mean() > 0.9 and (drawn[0][sure] == x[sure].argmax(axis=1)).all()


def test_class_labels_with_uncertain_groups_take_new_rows():
    rng = np.random.default_rng(0)
    y, part = rng.integers(0, 3, 200), rng.dirichlet(np.ones(2), 200)
    fair = r2b.debias(
        y, sensitive_features=r2b.Membership(part, groups=["f", "m"]), objective="agreement"
    )
    assert fair.status.ok and fair.certificate.objective == pytest.approx(
        best(np.eye(3)[y], part, 0.0), rel=1e-7
    )
    new = fair.transform(
        [0, 1], sensitive_features=r2b.Membership([[0.25, 0.75], [0.5, 0.5]], groups=["f", "m"])
    )
    np.testing.assert_allclose(new.sum(axis=1), 1.0, atol=1e-9)


def test_a_run_that_is_stopped_says_so_and_gives_out_distributions():
    y, _, who, _ = case(1, n=300, n_classes=6)
    seen = []
    with pytest.warns(r2b.errors.NotSolvedWarning, match="progress"):
        fair = r2b.debias(
            y,
            sensitive_features=who,
            objective="agreement",
            progress=lambda step: (seen.append(step), step.iteration < 6)[1],
        )
    assert fair.status is r2b.Status.INTERRUPTED and not fair.certificate.holds
    np.testing.assert_allclose(fair.soft_labels.sum(axis=1), 1.0, atol=1e-9)
    assert [step.iteration for step in seen] == sorted(step.iteration for step in seen) and seen[
        -1
    ].iteration >= 6


def test_offsets_that_no_labels_meet_are_found_infeasible():
    y, _, who, _ = case(1, n_groups=2)
    with pytest.warns(r2b.errors.NotSolvedWarning, match="infeasible"):
        fair = r2b.debias(
            y,
            sensitive_features=who,
            offsets=[[2.0, -2.0, 0, 0], [0, 0, 0, 0]],
            objective="agreement",
        )
    assert fair.status is r2b.Status.INFEASIBLE


def test_rows_that_are_sure_leave_prices_a_choice_and_are_solved_all_the_same():
    # Probabilities of 0 and 1 tie in masses: many prices are as good, and the path of prices points
    # to none of them.
    rng = np.random.default_rng(38)
    group = np.append(np.arange(3), rng.integers(0, 3, 906))
    y = np.array([rng.choice(3, p=each) for each in rng.dirichlet(np.full(3, 0.7), 3)[group]])
    sure = r2b.debias(np.eye(3)[y], sensitive_features=group, epsilon=0.01, objective="agreement")
    classes = r2b.debias(y, sensitive_features=group, epsilon=0.01, objective="agreement")
    assert (
        sure.status is classes.status is r2b.Status.SOLVED
        and sure.splits is not None
        and classes.table is not None
    )
    assert sure.certificate.objective == pytest.approx(classes.certificate.objective, abs=1e-9)
    # of all optima the one of least norm
    assert sure.certificate.distance <= classes.certificate.distance + 1e-9


def test_few_rows_stand_for_all_near_their_prices():
    y, part, who, weight = case(4, n=500, weighted=True)
    for groups in (who, r2b.Membership(part)):
        job = open_job(
            y,
            sensitive_features=groups,
            sample_weight=weight,
            request=Request(epsilon=0.01),
            settings=Settings(),
        )
        prices = 0.05 * np.random.default_rng(0).normal(size=(3, 4))
        few = screened(job.oracle, job.parity, prices, margin=0.1)
        assert few.open_share < 0.8 and len(few.oracle.rows.cells) < 400
        moved = prices + 0.02 * np.random.default_rng(1).uniform(-1, 1, prices.shape)
        assert few.serves(moved, 0.01) and not few.serves(moved, 0.09)
        found = [
            evaluated(oracle, parity, moved, 0.01)
            for oracle, parity in ((job.oracle, job.parity), (few.oracle, few.parity))
        ]
        np.testing.assert_allclose(found[0].means, found[1].means, atol=1e-12)
