"""The table of small named problems that every solver and kernel is held to.

``KNOWN`` ones are built backwards: prices, group means and rows that satisfy the optimality
conditions are chosen first, and labels that make them optimal follow. Nothing here calls the
package, so that an answer cannot be wrong in the same way twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from r2b._constraints.bounds import RangeBound
from r2b._constraints.epsilon import epsilon_per_class


@dataclass(frozen=True, eq=False)
class Case:
    """One problem, with its unique optimum and prices that prove it where they are known."""

    name: str
    y: np.ndarray
    groups: np.ndarray
    weight: np.ndarray | None = None
    epsilon: float | np.ndarray = 0.0
    lam: float = 1.0
    answer: np.ndarray | None = None
    prices: np.ndarray | None = None

    @property
    def matrix(self) -> np.ndarray:
        """Labels as an N x L matrix; class labels are codes 0..L-1 that all occur."""
        return (
            np.asarray(self.y, np.float64)
            if self.y.ndim == 2
            else np.eye(int(self.y.max()) + 1)[self.y]
        )

    @property
    def w(self) -> np.ndarray:
        """Weights that add up to 1."""
        weight = np.ones(len(self.y)) if self.weight is None else self.weight.astype(float)
        return weight / weight.sum()

    @property
    def bounds(self) -> np.ndarray:
        """One epsilon per class."""
        return np.broadcast_to(np.asarray(self.epsilon, float), (self.matrix.shape[1],))

    @property
    def arguments(self) -> dict[str, object]:
        """All that ``debias`` takes besides the labels."""
        return {
            "sensitive_features": self.groups,
            "sample_weight": self.weight,
            "epsilon": self.epsilon,
            "lam": self.lam,
        }


def group_means(x: np.ndarray, groups: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weighted means by group, straight from the definition."""
    return np.stack(
        [
            weight[groups == s] @ x[groups == s] / weight[groups == s].sum()
            for s in np.unique(groups)
        ]
    )


def parity_of(x: np.ndarray, groups: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Largest difference between group means, per class."""
    return np.ptp(
        group_means(np.asarray(x, float), groups, np.ones(len(x)) if weight is None else weight),
        axis=0,
    )


def objective_of(case: Case, x: np.ndarray) -> float:
    """Paper eq. (4) with weights, per unit of weight."""
    return float(case.w @ (0.5 * case.lam * (x * x).sum(axis=1) - (x * case.matrix).sum(axis=1)))


def spread_weights(rng: np.random.Generator, n: int, decades: float) -> np.ndarray | None:
    """Weights over so many orders of magnitude."""
    return 10.0 ** rng.uniform(-decades, 0.0, n) if decades else None


# --- optima built backwards ---


def _prices_and_means(
    rng: np.random.Generator, share: np.ndarray, epsilon: np.ndarray, size: float
) -> tuple[np.ndarray, np.ndarray]:
    """Choose balanced prices and deviations from a common mean that they support.

    Where the price is positive the group sits at the top of the band, where it is negative at the
    bottom, and where it is zero anywhere inside. Classes come in pairs with opposite deviations, so
    that every group's deviations add up to 0; an odd class is left alone.
    """
    n_groups, n_classes = len(share), len(epsilon)
    prices, deviation = np.zeros((n_groups, n_classes)), np.zeros((n_groups, n_classes))
    for k in range(0, n_classes - 1, 2):
        side = rng.permutation(np.resize([1, -1, 0] if n_groups > 2 else [1, -1], n_groups))
        half = 0.5 * min(epsilon[k], epsilon[k + 1])
        deviation[:, k] = half * np.where(side == 0, rng.uniform(-0.9, 0.9, n_groups), side)
        deviation[:, k + 1] = -deviation[:, k]
        for column, sign in ((k, 1), (k + 1, -1)):
            # its band is wider than its partner's: the class is free and costs nothing
            if epsilon[column] > 2 * half:
                continue
            raw = rng.uniform(0.2, 1.0, n_groups)
            high, low = side * sign > 0, side * sign < 0
            prices[high, column] = raw[high] / (share[high] @ raw[high])
            prices[low, column] = -raw[low] / (share[low] @ raw[low])
    largest = np.abs(prices).max()
    return prices * (size / largest if largest else 0.0), deviation


def backwards(
    name: str,
    *,
    classes: int,
    groups: int,
    rows: int,
    epsilon=0.0,
    lam: float = 1.0,
    decades: float = 0.0,
    border: bool = False,
    seed: int = 0,
) -> Case:
    """Choose the optimum and find labels for it: ``y = lam x + nu + t - z`` with z >= 0.

    Rows come in pairs around their group's mean; with ``border`` the first of a pair has a class of
    probability 0 whose multiplier z is positive, so that the projection onto the simplex takes
    part.
    """
    rng = np.random.default_rng(seed)
    bounds = np.broadcast_to(np.asarray(epsilon, float), (classes,))
    half = np.concatenate([np.arange(groups), rng.integers(0, groups, max(rows // 2 - groups, 0))])
    codes = np.repeat(half, 2)
    weight = spread_weights(rng, len(half), decades)
    weight = None if weight is None else np.repeat(weight, 2)
    w = np.ones(len(codes)) if weight is None else weight
    share = np.bincount(codes, w) / w.sum()
    # rows below this cannot come from a distribution when lam > 1
    least = max(0.0, 1.0 - 1.0 / lam) / classes
    room = (1.0 / classes - least) * 0.5
    prices, deviation = _prices_and_means(rng, share, bounds, 0.4 * lam * room)
    common = 1.0 / classes + 0.2 * room * (lambda v: v - v.mean())(rng.uniform(-1, 1, classes))
    means = common + deviation
    swing = rng.uniform(-1, 1, (len(half), classes))
    swing *= 0.1 * room / np.abs(swing).max()
    swing -= swing.mean(axis=1, keepdims=True)
    if border:
        for i, s in enumerate(half):
            order = np.argsort(-prices[s], kind="stable")
            # of all classes the costliest: its label can stay a distribution while the class is
            # left out
            gone = order[0]
            takes = max((k for k in range(classes) if k != gone), key=lambda k: means[s, k])
            left = (
                lam * (means[s, takes] - means[s, gone])
                + prices[s, takes]
                - prices[s].mean()
                + (1 - lam) / classes
            )
            # the other row of the pair must come from a distribution as well
            if means[s, takes] >= means[s, gone] and left >= 0:
                swing[i] = 0.0
                swing[i, gone], swing[i, takes] = -means[s, gone], means[s, gone]
    x = np.repeat(means[half], 2, axis=0) + np.stack([swing, -swing], axis=1).reshape(-1, classes)
    x = np.where(np.abs(x) < 1e-15, 0.0, x)
    y = lam * x + prices[codes]
    empty = x == 0
    y += (1.0 - y.sum(axis=1, keepdims=True)) / classes
    # half of what a missing class could have had is its multiplier, spread over the others by the
    # level
    if empty.any():
        off = np.where(empty, 0.5 * y, 0.0)
        y = (
            y
            - off
            + np.where(
                empty, 0.0, off.sum(axis=1, keepdims=True) / (~empty).sum(axis=1, keepdims=True)
            )
        )
    assert (x >= 0).all() and (y >= 0).all(), name
    return Case(name, y, codes, weight, epsilon, lam, x, prices)


def backwards_classes(
    name: str, *, classes: int, groups: int, lam: float = 1.0, seed: int = 0
) -> Case:
    """Choose prices of class labels, and weights at which the group means then agree."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(groups, 4.0))
    prices = rng.uniform(-1, 1, (groups, classes)) * 0.15 * lam / classes
    prices -= share @ prices
    channel = np.stack([project((np.eye(classes) - prices[s]) / lam) for s in range(groups)])
    overall = channel.mean(axis=(0, 1)) if lam > 1 else rng.dirichlet(np.full(classes, 30.0))
    mix = np.stack([np.linalg.solve(channel[s].T, overall) for s in range(groups)])
    assert (mix > 0).all(), name
    codes, y = (
        part.ravel() for part in np.meshgrid(np.arange(groups), np.arange(classes), indexing="ij")
    )
    return Case(
        name,
        y,
        codes,
        (share[:, None] * mix).ravel(),
        0.0,
        lam,
        channel.reshape(-1, classes),
        prices,
    )


def project(rows: np.ndarray) -> np.ndarray:
    """Project onto the simplex by bisection on the threshold, unlike the package."""
    low, high = rows.min(axis=1) - 1.0, rows.max(axis=1)
    for _ in range(200):
        middle = 0.5 * (low + high)
        above = np.maximum(rows - middle[:, None], 0.0).sum(axis=1) > 1.0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.maximum(rows - (0.5 * (low + high))[:, None], 0.0)


# --- problems whose answer an independent solver must find ---


def tied_rows(rng: np.random.Generator, n: int, classes: int) -> np.ndarray:
    """Distributions of few distinct values, so that many entries are equal."""
    y = rng.integers(0, 3, (n, classes)).astype(float)
    y[:, 0] += y.sum(axis=1) == 0
    return y / y.sum(axis=1, keepdims=True)


def lumpy_rows(rng: np.random.Generator, n: int, classes: int) -> np.ndarray:
    """Half of the classes used with certainty, the others only by uniform rows."""
    y = np.eye(classes)[rng.integers(0, max(1, classes // 2), n)]
    y[::3] = 1.0 / classes
    return y


def drawn(
    name: str,
    *,
    classes: int,
    groups: int,
    rows: int,
    epsilon=0.0,
    lam: float = 1.0,
    decades: float = 0.0,
    kind: str = "soft",
    single: bool = False,
    seed: int = 0,
    dtype=np.float64,
) -> Case:
    """Draw labels: soft, class, ties (few distinct values) or lumpy (few classes used)."""
    rng = np.random.default_rng(seed)
    first = np.arange(groups)
    # group 0 keeps its one row
    rest = rng.integers(1 if single and groups > 1 else 0, groups, max(rows - groups, 0))
    codes = np.concatenate([first, rest])
    n = len(codes)
    if kind == "class":
        taste = rng.dirichlet(np.full(classes, 0.5), groups)
        y = np.array([rng.choice(classes, p=taste[s]) for s in codes])
        # every class occurs, so that codes are classes
        y[: min(classes, n)] = np.arange(min(classes, n))
    elif kind == "soft":
        y = rng.dirichlet(np.full(classes, 0.7), n) * (
            1 + codes[:, None] * np.linspace(0, 1, classes)
        )
        y /= y.sum(axis=1, keepdims=True)
    else:
        y = tied_rows(rng, n, classes) if kind == "ties" else lumpy_rows(rng, n, classes)
    y = y if kind == "class" else y.astype(dtype)
    return Case(name, y, codes, spread_weights(rng, n, decades), epsilon, lam)


def _absent() -> Case:
    # Class 2 occurs in group 0 only, class 0 never in group 1.
    return Case(
        "class absent from a group",
        np.array([0, 0, 1, 2, 2, 1, 1, 1, 3, 3]),
        np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1]),
        epsilon=0.05,
    )


def _unused() -> Case:
    y = np.random.default_rng(3).dirichlet(np.ones(3), 12)
    return Case(
        "class that no row uses", np.insert(y, 1, 0.0, axis=1), np.arange(12) % 3, epsilon=0.02
    )


# name, classes, groups, rows, and what else is unusual; the place is the seed
_BACKWARDS: list[tuple[str, int, int, int, dict[str, object]]] = [
    ("2 classes, 2 groups", 2, 2, 8, {}),
    ("4 classes, 3 groups, epsilon 1e-6", 4, 3, 20, {"epsilon": 1e-6}),
    ("4 classes, 3 groups, epsilon .01", 4, 3, 20, {"epsilon": 0.01}),
    ("3 classes, 4 groups, lam .05", 3, 4, 24, {"epsilon": 0.02, "lam": 0.05}),
    ("6 classes, 5 groups, lam 10", 6, 5, 30, {"epsilon": 0.001, "lam": 10.0}),
    ("bounds by class", 4, 3, 20, {"epsilon": np.array([0.01, 0.03, 0.0, 0.0])}),
    ("six decades of weight", 4, 3, 40, {"epsilon": 0.01, "decades": 6.0}),
    ("on the border", 4, 2, 20, {"border": True}),
    (
        "8 classes, 4 groups, on the border, epsilon .01",
        8,
        4,
        60,
        {"epsilon": 0.01, "border": True},
    ),
    ("on the border, lam .3", 4, 3, 30, {"epsilon": 0.01, "lam": 0.3, "border": True}),
    ("10 classes, 50 groups", 10, 50, 300, {"epsilon": 0.001}),
    ("200 classes, 5 groups", 200, 5, 60, {"epsilon": 1e-4}),
    ("150 classes, 3 groups, on the border", 150, 3, 60, {"border": True}),
    ("on the border, lam .05", 3, 3, 30, {"epsilon": 0.01, "lam": 0.05, "border": True}),
    ("on the border, weights", 5, 6, 60, {"epsilon": 1e-3, "decades": 6.0, "border": True}),
]

KNOWN = [
    backwards(name, classes=classes, groups=groups, rows=rows, seed=seed, **more)
    for seed, (name, classes, groups, rows, more) in enumerate(_BACKWARDS)
]
KNOWN += [
    backwards_classes("class labels, 2 classes, 2 groups", classes=2, groups=2),
    backwards_classes("class labels, 5 classes, 4 groups", classes=5, groups=4, seed=1),
    backwards_classes("class labels, 30 classes, 3 groups", classes=30, groups=3, seed=2),
    backwards_classes("class labels, lam 2", classes=4, groups=3, lam=2.0, seed=3),
]

_CLASS: dict[str, object] = {"kind": "class"}
_DRAWN: list[tuple[str, int, int, int, dict[str, object]]] = [
    ("ties", 3, 3, 30, {"kind": "ties"}),
    ("ties, epsilon 1e-6, lam .05", 4, 3, 40, {"kind": "ties", "epsilon": 1e-6, "lam": 0.05}),
    ("lumpy, half of the classes unused", 8, 3, 40, {"kind": "lumpy", "epsilon": 0.01}),
    ("group of one row", 4, 3, 30, {"single": True}),
    (
        "group of one row, class labels, epsilon 1e-4",
        4,
        3,
        30,
        _CLASS | {"single": True, "epsilon": 1e-4},
    ),
    ("every group of one row", 3, 8, 8, {"epsilon": 1e-3}),
    ("class labels", 5, 3, 60, _CLASS | {"epsilon": 0.01}),
    ("class labels, lam .05", 4, 3, 40, _CLASS | {"epsilon": 1e-3, "lam": 0.05}),
    ("class labels, lam .3, six decades", 4, 3, 40, _CLASS | {"lam": 0.3, "decades": 6.0}),
    ("class labels, lam 10, epsilon .2", 4, 3, 40, _CLASS | {"epsilon": 0.2, "lam": 10.0}),
    ("soft, six decades, epsilon 1e-6", 5, 4, 60, {"epsilon": 1e-6, "decades": 6.0}),
    ("soft, epsilon .2, lam .3", 5, 4, 60, {"epsilon": 0.2, "lam": 0.3}),
    ("soft, epsilon 1", 3, 3, 20, {"epsilon": 1.0}),
    ("soft, epsilon 1, lam 2", 3, 3, 20, {"epsilon": 1.0, "lam": 2.0}),
    ("soft, bounds by class", 4, 3, 40, {"epsilon": np.array([0.0, 0.2, 1e-4, 1.0])}),
    ("soft, a class without a bound", 3, 3, 30, {"epsilon": np.array([np.inf, 0.01, 0.01])}),
    ("float32", 5, 3, 50, {"epsilon": 0.01, "dtype": np.float32}),
    ("float32, weights", 5, 3, 50, {"dtype": np.float32, "decades": 3.0}),
    ("one group", 4, 1, 20, {}),
    ("one group, lam 2", 4, 1, 20, {"lam": 2.0}),
    ("12 classes, 20 groups", 12, 20, 120, {"epsilon": 0.01}),
    ("class labels, 10 classes, 50 groups", 10, 50, 400, _CLASS | {"epsilon": 0.01}),
    ("class labels, 200 classes, 5 groups", 200, 5, 2000, _CLASS | {"epsilon": 1e-3}),
    ("soft, 200 classes, 5 groups", 200, 5, 60, {"epsilon": 1e-3}),
]

DRAWN = [_absent(), _unused()]
DRAWN += [
    drawn(name, classes=classes, groups=groups, rows=rows, seed=seed, **more)
    for seed, (name, classes, groups, rows, more) in enumerate(_DRAWN, start=20)
]

ALL = KNOWN + DRAWN
NAMES = {case.name: case for case in ALL}
assert len(NAMES) == len(ALL)
SMALL = [case for case in ALL if case.matrix.size <= 1_500]


def range_bound(epsilon: object, n_classes: int) -> RangeBound:
    """The paper's bound, from epsilon as a user writes it."""
    return RangeBound(epsilon_per_class(epsilon, range(n_classes)))  # type: ignore[arg-type]
