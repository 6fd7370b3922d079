"""Outcomes: shares of ordered or merged classes, beside a solver that knows nothing of prices."""

from __future__ import annotations

import numpy as np
import pytest
from families_qp import People, Rule, Table, closest, indicators, least_violation, people
from families_qp import violation as missed

import r2b
from r2b import Family
from r2b.errors import ParameterError

BOUNDS = ("range", "to_overall", "ratio", "target", "population", "to_reference", "highest")
SHAPES = ("ordinal", "merged", "parts", "many")
SEEDS = range(30)


def drawn_outcomes(shape: str, classes: int, rng: np.random.Generator) -> np.ndarray:
    """How much each class counts in every outcome."""
    if shape == "ordinal":
        return np.tri(classes, dtype=float).T[1:]
    n = classes + 2 if shape == "many" else int(rng.integers(1, classes + 1))
    if shape == "parts":
        return rng.random((n, classes))
    found = rng.random((n, classes)) < 0.5
    found[:, 0] |= ~found.any(axis=1)
    return found.astype(float)


def drawn_problem(seed: int) -> tuple[People, dict[str, object], list[Rule]]:
    """People, options of ``debias``, and the rules that these stand for."""
    rng = np.random.default_rng([seed, 40])
    who = people(seed, soft=bool(seed % 2))
    bound, shape = BOUNDS[seed % len(BOUNDS)], SHAPES[seed % len(SHAPES)]
    outcomes = drawn_outcomes(shape, who.n_classes, rng)
    n = len(outcomes)
    shares = who.y @ outcomes.T
    empty = bound == "ratio" and (shares.mean(axis=0) <= 0).any()
    bound = "range" if empty else bound
    epsilon = rng.choice([0.0, 0.02, 0.1], n) if rng.random() < 0.5 else np.full(n, 0.03)
    if rng.random() < 0.3:
        epsilon[int(rng.integers(n))] = np.inf
    kind = {"population": "target", "highest": "to_reference"}.get(bound, bound)
    options: dict[str, object] = {"bound": kind, "epsilon": epsilon, "outcomes": outcomes}
    target = who.w @ shares / who.w.sum()
    if bound == "target":
        target = np.clip(target + rng.uniform(-0.2, 0.2, n), 0.0, 1.0)
    if kind == "target":
        options["target"] = "population" if bound == "population" else target
    columns: list[tuple[str, ...]] = [("sex",), ("race",), ("sex", "race")]
    columns = [columns[int(rng.integers(3))]] if rng.random() < 0.5 else columns[:2]
    families, rules = [], []
    for names in columns:
        counts = indicators(*(who.sensitive[name] for name in names))
        first = ("f", "p")[("sex", "race").index(names[0])], "p"
        highest = (counts * who.w[:, None]).T @ shares / (who.w @ counts)[:, None]
        own = {"highest": "highest", "to_reference": first[: len(names)]}.get(bound)
        families.append(Family(names, reference=own))
        place = (
            (highest >= highest.max(axis=0) - 1e-12).argmax(axis=0) if bound == "highest" else None
        )
        rules.append(Rule(counts, kind, epsilon, target, outcomes=outcomes, reference=place))
    return who, options | {"families": families, "sensitive_features": who.sensitive}, rules


def check_problem(seed: int) -> str:
    """Solve one problem both ways; return what became of it."""
    who, options, rules = drawn_problem(seed)
    weight = who.weight
    table = Table(who.y, who.w, rules)
    if least_violation(table) > 1e-7:
        with pytest.raises(ParameterError, match="targets of"):
            r2b.debias(who.given, sample_weight=weight, **options)
        return "infeasible"
    fair = r2b.debias(who.given, sample_weight=weight, **options)
    value, _ = closest(table)
    x = fair.soft_labels
    assert fair.status.ok and fair.certificate.holds
    assert missed(table, x) <= 1e-9
    assert table.value(x) == pytest.approx(value, abs=1e-6)
    return "solved"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_optimum_is_that_of_another_solver(seed: int) -> None:
    check_problem(seed)
