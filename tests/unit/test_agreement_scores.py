"""Agreement with probabilities: a small lam comes within a millionth of the linear programme."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

import r2b
from r2b._solve.settings import SETTINGS

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
    """Draw scores that depend on the group, how rows count in groups, and weights."""
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
    """Return the optimum of the linear programme."""
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
        assert fair.status is r2b.Status.SOLVED and proof.holds
        assert fair.lam == SETTINGS.agreement_lam
        # The proof again, from the labels that leave.
        x, weight = fair.soft_labels, np.ones(len(y)) if weight is None else weight
        means = (part * weight[:, None]).T @ x / (part * weight[:, None]).sum(axis=0)[:, None]
        assert np.ptp(means, axis=0).max() <= epsilon + 1e-9
        agreement = weight @ (x * y).sum(axis=1) / weight.sum()
        assert (
            -best(y, part, epsilon, weight) - 2e-5
            <= agreement
            <= -best(y, part, epsilon, weight) + 1e-9
        )


def test_more_groups_than_rows_can_serve_and_costs_are_solved_too():
    y, part, who, _ = case(5, n=60, n_classes=6, n_groups=8)
    costs = np.random.default_rng(0).uniform(0.2, 3.0, (6, 6)) * (1 - np.eye(6))
    fair = r2b.debias(y, sensitive_features=who, objective="agreement", costs=costs)
    worth = -y @ costs
    assert fair.status.ok
    assert -(fair.soft_labels * worth).sum(axis=1).mean() == pytest.approx(
        best(worth, part, 0.0), abs=2e-4
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
    assert (worth.max(axis=1) - (x * worth).sum(axis=1)).max() <= 10 * fair.lam
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
    assert fair.status.ok
    agreement = fair.soft_labels[np.arange(200), y].mean()
    assert -agreement == pytest.approx(best(np.eye(3)[y], part, 0.0), abs=2e-5)
    new = fair.transform(
        [0, 1], sensitive_features=r2b.Membership([[0.25, 0.75], [0.5, 0.5]], groups=["f", "m"])
    )
    np.testing.assert_allclose(new.sum(axis=1), 1.0, atol=1e-9)
