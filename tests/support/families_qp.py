"""The problem row by row, from its definition, for solvers that know nothing of prices.

A family is given as a matrix of what each row counts in each group. Its bound becomes plain
inequalities between means: every pair of groups for a range or a ratio, every group against the
mean over all, a target or a group. Nothing is merged and nothing here calls a solver of the
package.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import clarabel
import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from r2b import Family


@dataclass(frozen=True, eq=False)
class Rule:
    """One family: ``counts[i, g]`` is how much row i counts in group g."""

    counts: np.ndarray
    bound: str
    epsilon: np.ndarray
    target: np.ndarray | None = None
    offsets: np.ndarray | None = None
    outcomes: np.ndarray | None = None
    reference: np.ndarray | None = None

    @property
    def compared(self) -> np.ndarray:
        """How much each class counts in every share that is compared."""
        classes = len(self.epsilon)
        return np.eye(classes) if self.outcomes is None else self.outcomes


@dataclass
class Table:
    """Labels as a matrix, weights that add up to 1, families, and what is minimised."""

    y: np.ndarray
    weight: np.ndarray
    rules: list[Rule] = field(default_factory=list)
    lam: float = 1.0
    costs: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.weight = self.weight / self.weight.sum()

    @property
    def price(self) -> np.ndarray:
        """What each class costs each row: minus its label, or the cost of the change from it."""
        return -self.y if self.costs is None else self.y @ self.costs

    def value(self, x: np.ndarray) -> float:
        """The objective, per unit of weight."""
        return float(
            self.weight @ (0.5 * self.lam * (x * x).sum(axis=1) + (x * self.price).sum(axis=1))
        )


def indicators(*columns: np.ndarray, keep: np.ndarray | None = None) -> np.ndarray:
    """Which row is in which crossing of the columns; rows outside ``keep`` are in none."""
    keys = list(zip(*(np.asarray(column).tolist() for column in columns), strict=True))
    inside = [True] * len(keys) if keep is None else np.asarray(keep).tolist()
    found = sorted({key for key, here in zip(keys, inside, strict=True) if here}, key=repr)
    return np.array(
        [
            [float(here and key == group) for group in found]
            for key, here in zip(keys, inside, strict=True)
        ]
    )


def means_of(rule: Rule, weight: np.ndarray) -> np.ndarray:
    """The matrix that takes a column of labels to the means of the family's groups."""
    if rule.bound == "moments":
        return (rule.counts * weight[:, None]).T / weight[rule.counts.any(axis=1)].sum()
    return (rule.counts * weight[:, None]).T / (weight @ rule.counts)[:, None]


def limits(rule: Rule, weight: np.ndarray, k: int) -> list[tuple[np.ndarray, float, float]]:
    """The bound of class k as ``low <= row @ x_k <= high``, less the offsets."""
    means = means_of(rule, weight)
    offsets = np.zeros(len(means)) if rule.offsets is None else rule.offsets[:, k]
    return [
        (each @ means, low - each @ offsets, high - each @ offsets)
        for each, low, high in _asked(rule, weight, k)
    ]


def _asked(rule: Rule, weight: np.ndarray, k: int) -> list[tuple[np.ndarray, float, float]]:
    """The bound of class k as ``low <= row @ means_k <= high``."""
    epsilon, share = float(rule.epsilon[k]), weight @ rule.counts
    n = len(share)
    means = np.eye(n)
    if np.isinf(epsilon):
        return []
    if rule.bound == "ratio" and rule.offsets is not None:
        # Means with their offsets need not be shares: below 0 none of them has a ratio.
        below = [(row, 0.0, np.inf) for row in means] if epsilon < 1 else []
        return below + _asked(Rule(rule.counts, rule.bound, rule.epsilon), weight, k)
    if rule.bound == "range" or (rule.bound == "ratio" and epsilon == 0):
        pairs = (
            [(g, g + 1) for g in range(n - 1)]
            if epsilon == 0
            else [(g, h) for g in range(n) for h in range(g)]
        )
        return [(means[g] - means[h], -epsilon, epsilon) for g, h in pairs]
    if rule.bound == "ratio":
        return [
            (means[g] - (1.0 - epsilon) * means[h], 0.0, np.inf)
            for g in range(n)
            for h in range(n)
            if g != h
        ]
    if rule.bound == "to_overall":
        overall = share @ means / share.sum()
        return [(means[g] - overall, -epsilon, epsilon) for g in range(n if epsilon else n - 1)]
    if rule.bound == "to_reference":  # the first group, or one for each class
        place = 0 if rule.reference is None else int(rule.reference[k])
        return [
            (row - means[place], -epsilon, epsilon) for g, row in enumerate(means) if g != place
        ]
    if rule.bound == "target":
        return [(row, rule.target[k] - epsilon / 2, rule.target[k] + epsilon / 2) for row in means]
    assert rule.bound == "moments"
    return [(row, -epsilon, epsilon) for row in means]


def violation(table: Table, x: np.ndarray) -> float:
    """How far labels are from what the families and the simplex ask."""
    worst = max(float(-x.min()), float(np.abs(x.sum(axis=1) - 1.0).max()))
    for rule in table.rules:
        for k, counted in enumerate(rule.compared):
            for row, low, high in limits(rule, table.weight, k):
                share = row @ (x @ counted)
                worst = max(worst, low - share, share - high)
    return float(worst)


def _rows(table: Table) -> tuple[sparse.csc_array, np.ndarray, sparse.csc_array, np.ndarray]:
    n, classes = table.y.shape
    equal, level, above, top = (
        [np.kron(row, np.ones(classes)) for row in np.eye(n)],
        [1.0] * n,
        [],
        [],
    )
    for rule in table.rules:
        for k, counted in enumerate(rule.compared):
            for row, low, high in limits(rule, table.weight, k):
                wide = np.kron(row, counted)
                if low == high:
                    equal.append(wide)
                    level.append(low)
                    continue
                above.append(wide)
                top.append(high)
                above.append(-wide)
                top.append(-low)
    finite = np.isfinite(top)
    upper = np.array(above).reshape(-1, n * classes)[finite]
    return (
        sparse.csc_array(np.array(equal)),
        np.array(level),
        sparse.csc_array(upper),
        np.array(top)[finite],
    )


def closest(table: Table) -> tuple[float, np.ndarray]:
    """Value and labels of the quadratic programme, by an interior point method."""
    n, classes = table.y.shape
    equal, level, upper, top = _rows(table)
    scale = np.repeat(table.weight, classes)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    matrix = sparse.csc_matrix(sparse.vstack([equal, upper, -sparse.eye_array(n * classes)]))
    cones = [
        clarabel.ZeroConeT(equal.shape[0]),
        clarabel.NonnegativeConeT(upper.shape[0] + n * classes),
    ]
    found = clarabel.DefaultSolver(
        sparse.csc_matrix(sparse.diags_array(table.lam * scale)),
        scale * table.price.ravel(),
        matrix,
        np.concatenate([level, top, np.zeros(n * classes)]),
        cones,
        settings,
    ).solve()
    assert str(found.status) in ("Solved", "AlmostSolved"), found.status
    x = np.array(found.x).reshape(n, classes)
    return table.value(x), x


def least_violation(table: Table) -> float:
    """The largest violation of the labels for which it is smallest; 0 if some meet all bounds."""
    n, classes = table.y.shape
    rows, top = [], []
    for rule in table.rules:
        for k, counted in enumerate(rule.compared):
            for row, low, high in limits(rule, table.weight, k):
                wide = np.kron(row, counted)
                for sign, level in ((1.0, high), (-1.0, -low)):
                    if np.isfinite(level):
                        rows.append(sign * wide)
                        top.append(level)
    if not rows:
        return 0.0
    slack = np.full((len(rows), 1), -1.0)
    found = linprog(
        np.append(np.zeros(n * classes), 1.0),
        A_ub=np.hstack([np.array(rows), slack]),
        b_ub=np.array(top),
        A_eq=np.hstack([np.kron(np.eye(n), np.ones((1, classes))), np.zeros((n, 1))]),
        b_eq=np.ones(n),
        bounds=(0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert found.success, found.message
    return float(found.fun)


def fewest(table: Table) -> float:
    """Value of the linear programme (lam = 0)."""
    classes = table.y.shape[1]
    equal, level, upper, top = _rows(table)
    found = linprog(
        np.repeat(table.weight, classes) * table.price.ravel(),
        A_ub=upper if len(top) else None,
        b_ub=top if len(top) else None,
        A_eq=equal,
        b_eq=level,
        bounds=(0, None),
        method="highs-ds",
    )
    assert found.success, found.message
    return float(found.fun)


# --- random people, and what is asked of them in both languages ---


@dataclass(frozen=True, eq=False)
class People:
    """Rows with two sensitive attributes, a control feature, labels and perhaps weights."""

    sex: np.ndarray
    race: np.ndarray
    job: np.ndarray
    given: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None

    @property
    def w(self) -> np.ndarray:
        """Weights, 1 where none are given."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    @property
    def sensitive(self) -> dict[str, np.ndarray]:
        """The sensitive columns by name."""
        return {"sex": self.sex, "race": self.race}

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return self.y.shape[1]

    def mean(self, keep: np.ndarray | None = None) -> np.ndarray:
        """Class distribution of the rows kept."""
        w = self.w if keep is None else self.w * keep
        return w @ self.y / w.sum()


def people(
    seed: int, *, soft: bool = False, decades: float | None = None, classes: int | None = None
) -> People:
    """Draw people whose labels depend on both attributes; every value occurs."""
    rng = np.random.default_rng(seed)
    n_classes, n = classes or int(rng.integers(2, 5)), int(rng.integers(16, 32))
    sex, race, job = (rng.choice(list(values), n) for values in ("fm", "pqr", "uv"))
    sex[:2], race[:3] = ["f", "m"], ["p", "q", "r"]
    order = np.arange(n_classes)
    taste = 1.0 + (sex == "f")[:, None] * order + (race == "p")[:, None] * order[::-1]
    codes = (np.sqrt(rng.random((n, n_classes))) * taste).argmax(axis=1)
    codes[: 2 * n_classes] = [*order, *order]
    job[: 2 * n_classes] = ["u"] * n_classes + ["v"] * n_classes
    spread = rng.choice([0.0, 1.0, 4.0]) if decades is None else decades
    weight = 10.0 ** rng.uniform(-spread, 0.0, n) if spread else None
    if not soft:
        return People(
            sex,
            race,
            job,
            np.array([f"c{k}" for k in order])[codes],
            np.eye(n_classes)[codes],
            weight,
        )
    y = rng.dirichlet(np.full(n_classes, 0.6), n) * taste
    y /= y.sum(axis=1, keepdims=True)
    return People(sex, race, job, y, y, weight)


FAMILIES = ("crossed", "marginal", "both", "list", "control")
BOUNDS = ("range", "to_overall", "ratio", "target", "population", "to_reference")
SHAPES = ("zero", "tiny", "small", "array", "name", "inf")


def epsilon_of(
    shape: str, who: People, bound: str, rng: np.random.Generator
) -> tuple[object, np.ndarray]:
    """Epsilon as a user writes it, and one number per class with free classes as infinity."""
    n_classes, one = who.n_classes, {"zero": 0.0, "tiny": 1e-6, "small": 0.03}
    if shape in one:
        return one[shape], np.full(n_classes, one[shape])
    each = rng.uniform(0.0, 0.2, n_classes)
    if shape == "name":
        names = range(n_classes) if who.given.ndim == 2 else [f"c{k}" for k in range(n_classes)]
        return {
            name: float(value) for name, value in list(zip(names, each, strict=True))[::-1]
        }, each
    if shape == "inf":
        free = int(rng.integers(n_classes))
        each[free] = 1.0 if bound == "ratio" and rng.random() < 0.5 else np.inf
        return each, np.where(each == 1.0, np.inf, each)
    return each, each


def asked(
    who: People, families: str, bound: str, shape: str, seed: int
) -> tuple[dict[str, object], list[Rule]]:
    """One request in both languages: arguments of ``debias``, and the rules they stand for."""
    rng = np.random.default_rng(
        [seed, FAMILIES.index(families), BOUNDS.index(bound), SHAPES.index(shape)]
    )
    epsilon, each = epsilon_of(shape, who, bound, rng)
    kind = "target" if bound == "population" else bound
    given = rng.dirichlet(np.ones(who.n_classes)) if bound == "target" else None
    arguments: dict[str, object] = {
        "families": families,
        "bound": kind,
        "epsilon": epsilon,
        "sensitive_features": who.sensitive,
    }
    if kind == "target":
        arguments["target"] = "population" if given is None else given
    rules: list[Rule] = []

    def add(
        *columns: np.ndarray,
        keep: np.ndarray | None = None,
        bound: str = kind,
        limit: np.ndarray = each,
    ) -> None:
        counts = indicators(*columns, keep=keep)
        if counts.shape[1] > 1 or bound == "target":
            rules.append(Rule(counts, bound, limit, who.mean(keep) if given is None else given))

    if families in ("marginal", "both"):
        add(who.sex)
        add(who.race)
    if families in ("crossed", "both"):
        add(who.sex, who.race)
    if families == "list":
        own = rng.uniform(0.05, 0.3, who.n_classes)
        arguments["families"] = [
            Family("sex", reference="f" if kind == "to_reference" else None),
            Family(["sex", "race"], own, "range"),
            Family("race", 0.1, "to_overall"),
        ]
        add(who.sex)
        add(who.sex, who.race, bound="range", limit=own)
        add(who.race, bound="to_overall", limit=np.full(who.n_classes, 0.1))
    within = [(who.sex,), (who.race,), (who.sex, who.race)]
    if families == "control":
        arguments |= {"families": "both", "control_features": {"job": who.job}}
        if kind == "to_reference":  # a stratum may lack the reference of another family
            arguments["families"], within = [Family("sex", reference="f")], within[:1]
        for value in "uv":
            for columns in within:
                add(*columns, keep=who.job == value)
    elif kind == "to_reference" and families != "list":
        sex, race = Family("sex", reference="f"), Family("race", reference="p")
        both = Family(["sex", "race"], reference=("f", "p"))
        chosen = {"crossed": [both], "marginal": [sex, race], "both": [sex, race, both]}
        arguments["families"] = chosen[families]
    return arguments, rules
