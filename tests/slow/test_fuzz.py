"""Problems of hard kinds: solved, proven, and checked from the labels themselves."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from problems import drawn, lumpy_rows, parity_of, tied_rows

import r2b

KINDS = st.sampled_from(["class", "soft", "ties", "lumpy"])
EPSILONS = st.sampled_from([0.0, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 1.0])
LAMS = st.sampled_from([0.05, 0.1, 0.3, 0.7, 1.0, 1.0, 1.0, 2.0, 10.0])
CROWDS = st.sampled_from(["spread", "crowded", "single"])


def bad_problem(kind, classes, groups, more_rows, crowd, decades, seed):
    """Draw labels, groups and weights; not all crowds leave groups more than a row."""
    rng = np.random.default_rng(seed)
    rest = {
        "spread": lambda: rng.integers(0, groups, more_rows),
        "crowded": lambda: (rng.random(more_rows) ** 4 * groups).astype(int),
        "single": lambda: np.full(more_rows, groups - 1),
    }[crowd]()
    codes = np.concatenate([np.arange(groups), rest])
    n = len(codes)
    if kind == "class":
        taste = rng.dirichlet(np.full(classes, 0.5), groups)
        y = np.eye(classes)[[rng.choice(classes, p=taste[s]) for s in codes]]
    elif kind == "soft":
        y = rng.dirichlet(np.full(classes, rng.choice([0.1, 1.0, 5.0])), n)
    else:
        y = tied_rows(rng, n, classes) if kind == "ties" else lumpy_rows(rng, n, classes)
    return y, codes, 10.0 ** rng.uniform(-decades, 0.0, n) if decades else None


@settings(
    max_examples=600, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(
    kind=KINDS,
    classes=st.integers(2, 24),
    groups=st.integers(1, 15),
    more_rows=st.integers(0, 150),
    crowd=CROWDS,
    decades=st.sampled_from([0, 0, 1, 6]),
    epsilon=EPSILONS,
    lam=LAMS,
    seed=st.integers(0, 999_999),
)
# Crude corners that random search rarely meets together.
@example(
    kind="class",
    classes=2,
    groups=2,
    more_rows=0,
    crowd="single",
    decades=6,
    epsilon=1e-6,
    lam=0.05,
    seed=0,
)
@example(
    kind="lumpy",
    classes=10,
    groups=6,
    more_rows=1,
    crowd="single",
    decades=6,
    epsilon=1e-6,
    lam=0.05,
    seed=1,
)
@example(
    kind="ties",
    classes=10,
    groups=6,
    more_rows=40,
    crowd="crowded",
    decades=6,
    epsilon=0.0,
    lam=0.05,
    seed=2,
)
def test_no_counterexample(kind, classes, groups, more_rows, crowd, decades, epsilon, lam, seed):
    y, codes, weight = bad_problem(kind, classes, groups, more_rows, crowd, decades, seed)
    # as a column of classes, which takes another way through the solvers than one-hot rows
    if kind == "class" and seed % 2:
        y = np.nonzero(y)[1]
        assume(len(np.unique(y)) > 1)
    fair = r2b.debias(y, sensitive_features=codes, sample_weight=weight, epsilon=epsilon, lam=lam)
    assert fair.status.ok and fair.certificate.holds, (
        fair.status,
        fair.certificate.relative_gap,
        fair.certificate.excess,
    )
    x = fair.soft_labels
    assert x.min() >= 0 and np.abs(x.sum(axis=1) - 1).max() < 1e-9
    assert parity_of(x, codes, weight).max() <= epsilon + 1e-9


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    classes=st.integers(2, 6),
    groups=st.integers(1, 5),
    rows=st.integers(5, 60),
    bounds=st.lists(
        st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 0.4, 1.0, np.inf]), min_size=6, max_size=6
    ),
    lam=LAMS,
    seed=st.integers(0, 999_999),
)
def test_no_counterexample_with_bounds_by_class(classes, groups, rows, bounds, lam, seed):
    epsilon = np.array(bounds[:classes])
    case = drawn(
        "drawn", classes=classes, groups=groups, rows=rows, epsilon=epsilon, lam=lam, seed=seed
    )
    fair = r2b.debias(case.y, **case.arguments)
    assert fair.status.ok and fair.certificate.holds
    assert (parity_of(fair.soft_labels, case.groups, case.w) <= epsilon + 1e-9).all()
