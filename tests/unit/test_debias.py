"""The front door: the paper's example by hand, what must not change the answer, what a run says
about itself, data that is fair already.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
from problems import NAMES, Case, drawn, parity_of

import r2b
from r2b import Status
from r2b.errors import NotSolvedWarning

BASES = [
    drawn("class labels", classes=5, groups=3, rows=60, kind="class", epsilon=0.01, seed=50),
    drawn(
        "class labels, lam .05, epsilon 0",
        classes=4,
        groups=3,
        rows=40,
        kind="class",
        lam=0.05,
        seed=51,
    ),
    drawn("soft", classes=4, groups=3, rows=50, epsilon=0.02, seed=52),
    drawn("soft, weights", classes=4, groups=4, rows=50, epsilon=1e-4, decades=6.0, seed=53),
    drawn(
        "soft, bounds by class",
        classes=4,
        groups=3,
        rows=40,
        epsilon=np.array([0.0, 0.1, 1e-3, 1.0]),
        lam=0.3,
        seed=54,
    ),
    drawn("ties, lam 10", classes=4, groups=3, rows=40, kind="ties", lam=10.0, seed=55),
    NAMES["8 classes, 4 groups, on the border, epsilon .01"],
    NAMES["group of one row, class labels, epsilon 1e-4"],
]
bases = pytest.mark.parametrize("case", BASES, ids=lambda case: case.name)


def answer(y, groups, weight=None, epsilon=0.0, lam=1.0, **more) -> np.ndarray:
    fair = r2b.debias(
        y, sensitive_features=groups, sample_weight=weight, epsilon=epsilon, lam=lam, **more
    )
    assert fair.status.ok
    return fair.soft(np.float64)


def original(case: Case) -> np.ndarray:
    return answer(case.y, case.groups, case.weight, case.epsilon, case.lam)


# --- the paper's figure 1, by hand ---


def test_figure_1_of_the_paper():
    """Group 0 is rows 1 and 3, group 1 is row 2.

    Means of Y: group 0 (1/4, 1/4, 1/2), group 1 (1, 0, 0); the largest difference is 3/4. Debiasing
    each class on its own gives equal means (1/2, 1/4, 1/2), which do not sum to 1; after dividing
    each row by its sum (3/2, 5/4, 1) the groups differ by 0.1.
    """
    s = np.array([0, 1, 0])
    y = np.array([[1 / 2, 1 / 2, 0], [1, 0, 0], [0, 0, 1]])
    assert r2b.metrics.demographic_parity_difference(y, sensitive_features=s) == 3 / 4
    apart = np.array([[1, 1 / 2, 0], [1 / 2, 1 / 4, 1 / 2], [0, 0, 1]])
    assert parity_of(apart, s).tolist() == [0, 0, 0]
    rescaled = apart / apart.sum(axis=1, keepdims=True)
    assert r2b.metrics.demographic_parity_difference(
        rescaled, sensitive_features=s
    ) == pytest.approx(0.1, abs=1e-15)

    fair = r2b.debias(y, sensitive_features=s, epsilon=0)
    assert fair.status is Status.SOLVED and fair.certificate.holds
    assert fair.certificate.disparity_before == 3 / 4
    assert r2b.metrics.demographic_parity_difference(fair.soft_labels, sensitive_features=s) < 1e-12
    # By hand: the rows of group 0 must average to row 2. With every entry of row 2 positive, row 1
    # without class 3 and row 3 without class 2, two unknowns are left. Let d be what row 1 gains of
    # class 1 and e what row 3 gains of it: rows (1/2+d, 1/2-d, 0), (e, 0, 1-e), mean ((1/2+d+e)/2,
    # (1/2-d)/2, (1-e)/2). Minimising 2d^2 + 2e^2 + |mean - (1,0,0)|^2: 4d - (3/2-d-e)/2 - (1/2-d)/2
    # = 0 and 4e - (3/2-d-e)/2 - (1-e)/2 = 0, hence 10d + e = 2 and d + 10e = 5/2.
    d, e = 17.5 / 99, 23 / 99
    mean = np.array([1 / 2 + d + e, 1 / 2 - d, 1 - e]) / 2
    by_hand = np.array([[1 / 2 + d, 1 / 2 - d, 0], mean, [e, 0, 1 - e]])
    assert parity_of(by_hand, s).max() < 1e-15
    assert np.abs(fair.soft_labels - by_hand).max() < 1e-10


def test_two_groups_two_classes_by_hand():
    """Every "b" of f moves by t and every "a" of m by u: (1 + 2t) / 3 = 1 - u, and 2t^2 + 3u^2 is
    least at t = u = 2/5.
    """
    x = answer(["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"])
    assert x == pytest.approx(
        np.array([[1, 0], [0.4, 0.6], [0.4, 0.6], [0.6, 0.4], [0.6, 0.4], [0.6, 0.4]]), abs=1e-10
    )


# --- metamorphic relations: the same answer to 1e-9 ---


@bases
def test_permuting_rows(case):
    order = np.random.default_rng(0).permutation(len(case.y))
    moved = answer(
        case.y[order],
        case.groups[order],
        None if case.weight is None else case.weight[order],
        case.epsilon,
        case.lam,
    )
    assert np.abs(moved - original(case)[order]).max() < 1e-9


@bases
def test_renaming_and_reordering_groups(case):
    names = np.array(["zeta", "alpha", "mu", "Beta", "0"])[: case.groups.max() + 1]
    moved = answer(case.y, names[case.groups], case.weight, case.epsilon, case.lam)
    assert np.abs(moved - original(case)).max() < 1e-9
    crossed = {"one": case.groups % 2, "two": case.groups // 2}
    assert (
        np.abs(answer(case.y, crossed, case.weight, case.epsilon, case.lam) - original(case)).max()
        < 1e-9
    )


@bases
def test_renaming_and_reordering_classes(case):
    order = np.random.default_rng(1).permutation(case.matrix.shape[1])
    epsilon = case.epsilon if np.ndim(case.epsilon) == 0 else case.epsilon[order]
    if case.y.ndim == 2:
        moved = answer(case.y[:, order], case.groups, case.weight, epsilon, case.lam)
        assert np.abs(moved - original(case)[:, order]).max() < 1e-9
        return
    place = np.argsort(order)  # class k is now called place[k]
    moved = answer(
        np.array([f"class {i:03}" for i in range(len(order))])[place[case.y]],
        case.groups,
        case.weight,
        epsilon,
        case.lam,
    )
    assert np.abs(moved - original(case)[:, order]).max() < 1e-9


@bases
def test_repeating_rows_is_weighting_them(case):
    times = np.random.default_rng(2).integers(1, 5, len(case.y))
    if case.weight is None:
        weighted = answer(case.y, case.groups, times.astype(float), case.epsilon, case.lam)
        repeated = answer(
            np.repeat(case.y, times, axis=0),
            np.repeat(case.groups, times),
            None,
            case.epsilon,
            case.lam,
        )
    else:
        weighted = answer(case.y, case.groups, case.weight * times, case.epsilon, case.lam)
        whole = np.repeat(case.weight, times)
        repeated = answer(
            np.repeat(case.y, times, axis=0),
            np.repeat(case.groups, times),
            whole,
            case.epsilon,
            case.lam,
        )
    first = np.cumsum(times) - times
    assert np.abs(repeated[first] - weighted).max() < 1e-9


@bases
@pytest.mark.parametrize("scale", [1e6, 1e-6, 1e150, 1e-150])
def test_scaling_weights(case, scale):
    weight = np.ones(len(case.y)) if case.weight is None else case.weight
    assert (
        np.abs(
            answer(case.y, case.groups, weight * scale, case.epsilon, case.lam) - original(case)
        ).max()
        < 1e-9
    )


@bases
def test_rows_without_weight_change_nothing(case):
    extra = np.random.default_rng(3).integers(0, len(case.y), 10)
    weight = np.ones(len(case.y)) if case.weight is None else case.weight
    y = np.concatenate([case.y, case.y[extra]])
    # in other groups than the rows they copy
    groups = np.concatenate([case.groups, case.groups[np.roll(extra, 3)]])
    moved = answer(y, groups, np.concatenate([weight, np.zeros(10)]), case.epsilon, case.lam)
    assert np.abs(moved[: len(weight)] - original(case)).max() < 1e-9


@bases
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_how_it_is_computed_does_not_show(case, compiled, threads, monkeypatch):
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr("r2b._solve.oracle.blocks._COMPILED_FROM", 0)
    found = answer(case.y, case.groups, case.weight, case.epsilon, case.lam, threads=threads)
    assert np.abs(found - original(case)).max() < 1e-9


@bases
def test_the_same_call_gives_the_same_bits(case):
    first, second = (r2b.debias(case.y, **case.arguments) for _ in range(2))
    assert np.array_equal(first.prices, second.prices)
    assert np.array_equal(first.soft_labels, second.soft_labels)
    assert first.certificate.to_json() == second.certificate.to_json()


@bases
def test_inputs_are_left_alone_and_refitting_leaves_nothing_behind(case):
    y, groups, weight = (
        case.y.copy(),
        case.groups.copy(),
        None if case.weight is None else case.weight.copy(),
    )
    first = answer(y, groups, weight, case.epsilon, case.lam)
    other = NAMES["12 classes, 20 groups"]
    r2b.debias(other.y, **other.arguments)
    assert np.array_equal(answer(y, groups, weight, case.epsilon, case.lam), first)
    assert np.array_equal(y, case.y)
    assert np.array_equal(groups, case.groups)
    assert y.flags.writeable
    assert groups.flags.writeable
    assert weight is None or np.array_equal(weight, case.weight)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float32, np.float16])
def test_one_hot_of_any_type_is_the_same_as_float_and_as_classes(dtype):
    case = BASES[0]
    one_hot = case.matrix
    plain = answer(one_hot, case.groups, epsilon=0.01)
    assert np.abs(answer(one_hot.astype(dtype), case.groups, epsilon=0.01) - plain).max() < 1e-12
    assert np.abs(answer(case.y, case.groups, epsilon=0.01) - plain).max() < 1e-9


# --- what a run says about itself ---


@pytest.mark.parametrize(
    ("limit", "status", "advice"),
    [
        ({"max_iter": 0}, Status.OUT_OF_ITERATIONS, "max_iter"),
        ({"max_iter": 1}, Status.OUT_OF_ITERATIONS, "max_iter"),
        ({"time_limit": 1e-9}, Status.OUT_OF_TIME, "time_limit"),
        ({"progress": lambda step: False}, Status.INTERRUPTED, "progress"),
        ({"progress": lambda step: step.iteration < 2}, Status.INTERRUPTED, "progress"),
    ],
)
@pytest.mark.parametrize(
    "case",
    [NAMES["class labels"], NAMES["class labels, lam .05"], NAMES["12 classes, 20 groups"]],
    ids=lambda c: c.name,
)
def test_a_run_that_is_cut_short_says_so(case, limit, status, advice):
    with pytest.warns(NotSolvedWarning, match=status.value) as caught:
        fair = r2b.debias(case.y, **case.arguments, **limit)
    said = caught.pop(NotSolvedWarning)  # small groups are warned of as well
    assert advice in str(said.message) and said.filename == __file__
    assert fair.status is status and not fair.status.ok and advice in fair.status.advice
    assert not fair.certificate.holds
    x = fair.soft(np.float64)  # distributions all the same, and the certificate is theirs
    assert x.min() >= 0 and np.abs(x.sum(axis=1) - 1).max() < 1e-12
    assert fair.certificate.disparity == pytest.approx(
        parity_of(x, case.groups, case.w).max(), abs=1e-13
    )
    assert (
        fair.certificate.lower_bound
        <= r2b.debias(case.y, **case.arguments).certificate.objective + 1e-12
    )
    assert status.value in str(fair)


# --- data that is fair already ---


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [True, False])
def test_fair_probabilities_come_back_bit_for_bit(dtype, weighted):
    rng = np.random.default_rng(4)
    y = rng.dirichlet(np.ones(4), 60).astype(dtype)
    weight = rng.uniform(0.1, 1, 60) if weighted else None
    parity = parity_of(y, np.arange(60) % 3, weight).max()
    fair = r2b.debias(
        y, sensitive_features=np.arange(60) % 3, epsilon=parity * 1.001, sample_weight=weight
    )
    assert fair.status is Status.ALREADY_FAIR and fair.unchanged
    assert fair.soft_labels.dtype == dtype and np.array_equal(fair.soft_labels, y)
    assert fair.certificate.distance == 0
    assert fair.certificate.expected_changes == 0
    assert not fair.prices.any()
    assert np.array_equal(np.concatenate(list(fair.iter_soft(7))), y)
    assert np.array_equal(fair.transform(y, sensitive_features=np.arange(60) % 3), y)
    barely = r2b.debias(
        y, sensitive_features=np.arange(60) % 3, epsilon=parity * 0.99, sample_weight=weight
    )
    assert barely.status is Status.SOLVED and barely.certificate.distance > 0


@pytest.mark.parametrize("lam", [0.05, 1.0])
def test_fair_classes_come_back_as_they_came(lam):
    y = np.array(["b", "a", "b", "a", "c", "c"])
    fair = r2b.debias(y, sensitive_features=[0, 0, 1, 1, 0, 1], lam=lam)
    assert fair.status is Status.ALREADY_FAIR and fair.status.ok and fair.certificate.holds
    assert fair.round().tolist() == fair.sample().tolist() == y.tolist()
    assert fair.round().dtype == y.dtype
    assert np.array_equal(fair.soft_labels, np.eye(3)[[1, 0, 1, 0, 2, 2]])
    assert np.array_equal(fair.channel, np.broadcast_to(np.eye(3), (2, 3, 3)))


def test_a_difference_of_exactly_epsilon_is_fair():
    """4 of 10 and 3 of 10 differ by 0.1, although 0.4 - 0.3 > 0.1 in floating point."""
    soft = np.tile([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3]], (3, 1))
    assert np.array_equal(
        r2b.debias(soft, sensitive_features=[0, 1] * 3, epsilon=0.1).soft_labels, soft
    )
    y, groups = np.repeat([1, 0, 1, 0], [4, 6, 3, 7]), np.repeat([0, 1], 10)
    fair = r2b.debias(y, sensitive_features=groups, epsilon=0.1)
    assert np.array_equal(fair.round(), y) and np.array_equal(fair.soft_labels, np.eye(2)[y])
    assert fair.status is Status.ALREADY_FAIR


def test_one_group_is_an_identity_with_a_status_of_its_own():
    y = np.random.default_rng(7).dirichlet(np.ones(3), 10)
    for labels in (y, np.arange(10) % 3):
        fair = r2b.debias(labels, sensitive_features=["all"] * 10)
        assert fair.status is Status.ONE_GROUP
        assert fair.status.ok
        assert "one group" in fair.status.advice
        assert fair.certificate.disparity == 0 and fair.certificate.holds
    assert np.array_equal(r2b.debias(y, sensitive_features=["all"] * 10).soft_labels, y)


def test_the_result_is_frozen():
    fair = r2b.debias(BASES[0].y, **BASES[0].arguments)
    with pytest.raises(ValueError, match="read-only"):
        fair.prices[0, 0] = 1.0
    with pytest.raises(AttributeError):
        fair.lam = 2.0
    assert copy.copy(fair).status is fair.status
