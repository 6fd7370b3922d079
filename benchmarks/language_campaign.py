"""Draw problems over the whole language of constraints; compare `debias` with other solvers.

    python benchmarks/language_campaign.py --seed 0 --count 500

A problem follows from its number alone: labels (classes or probabilities), weights, groups,
memberships (whole and partial), a continuous attribute, missing values, strata, families with
bounds of their own, epsilon, offsets, lam, costs and the objective. The other side is written out
row by row (`tests/support/families_qp.py`): the least violation by a linear programme (HiGHS)
tells whether any labels meet them, a quadratic programme (Clarabel) or the linear one what the best
cost. Every disagreement in status or optimum is printed with its number; the exit status is 1 where
there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from families_qp import Rule, Table, closest, fewest, indicators, least_violation, people, violation

import r2b
from r2b.errors import ParameterError

FEASIBLE, INFEASIBLE = 2e-9, 1e-7  # least violations up to and from which both sides must agree
CLOSE = 2e-6  # of the objective: the accuracy of the other side


@dataclass(frozen=True, eq=False)
class Drawn:
    """One problem in both languages."""

    y: object
    arguments: dict[str, object]
    table: Table
    what: str


def drawn(seed: int) -> Drawn:
    """Draw the problem of this number."""
    rng = np.random.default_rng([seed, 17])
    soft = bool(rng.random() < 0.4)
    who = people(seed, soft=soft)
    n, classes = len(who.y), who.n_classes
    agreement = not soft and rng.random() < 0.25
    missing = str(rng.choice(["none", "none", "exclude", "group"]))
    sensitive: dict[str, object] = {"sex": who.sex, "race": who.race}
    gone = np.zeros(n, dtype=bool)
    race = who.race.astype(object)
    if missing != "none":
        gone = rng.random(n) < 0.2
        gone[:3] = False
        gone[-1] = True
        race = np.where(gone, None, race)
        sensitive["race"] = race
    lam = (
        1.0 if missing == "exclude" or agreement else float(rng.choice([0.05, 0.3, 1.0, 1.0, 3.0]))
    )
    columns = {
        "sex": (who.sex, np.ones(n, bool)),
        "race": (
            np.where(gone, "zz", who.race),
            ~gone if missing == "exclude" else np.ones(n, bool),
        ),
    }
    extra = str(rng.choice(["none", "none", "membership", "tiny membership", "age"]))
    if "membership" in extra:
        chances = rng.dirichlet(np.full(3, 0.5), n)
        if extra.startswith("tiny"):
            chances = chances ** rng.integers(1, 12)
            chances /= chances.sum(axis=1, keepdims=True)
        also = np.random.default_rng([seed, 23])
        partial = bool(also.random() < 0.3)
        chances = chances * also.random((n, 1)) if partial else chances
        sensitive["town"] = r2b.Membership(chances, partial=partial)
        columns["town"] = (chances, np.ones(n, bool))
    if extra == "age":
        age = rng.integers(20, 40, n).astype(float)
        sensitive["age"] = r2b.Continuous(age, basis="linear")
        columns["age"] = (age, np.ones(n, bool))
    strata: list[tuple[str, np.ndarray]] = [("", np.ones(n, bool))]
    control = extra == "none" and rng.random() < 0.25
    if control:
        strata = [(value, who.job == value) for value in "uv"]
    arguments: dict[str, object] = {
        "sensitive_features": sensitive,
        "sample_weight": who.weight,
        "lam": lam,
    }
    if missing != "none":
        arguments["missing"] = missing
    if agreement:
        arguments |= {"objective": "agreement", "lam": 1.0}
    if control:
        arguments["control_features"] = {"job": who.job}
    costs = None
    if not soft and missing != "exclude" and rng.random() < 0.2:
        costs = rng.uniform(0.3, 2.0, (classes, classes))
        np.fill_diagonal(costs, 0.0)
        arguments["costs"] = costs
    families, rules, told = _families(rng, extra, strata, columns, who)
    arguments["families"] = families
    offsets = (
        {}
        if control or missing == "group"
        else _offsets(np.random.default_rng([seed, 29]), chosen_names(families), rules)
    )
    if offsets:
        arguments["offsets"] = offsets
        told.append(f"offsets of {', '.join(offsets)}")
    lam = 0.0 if agreement else lam
    table = Table(who.y, who.w, rules, lam, costs)
    also = f"{'strata, ' if control else ''}{'costs, ' if costs is not None else ''}"
    what = f"{'soft' if soft else 'class'}, lam {lam}, missing {missing}, {also}"
    return Drawn(who.given, arguments, table, what + "; ".join(told))


def _families(rng, extra, strata, columns, who):  # type: ignore[no-untyped-def]
    """Draw families with bounds of their own: for `debias`, as rules over rows, and in words."""
    families, rules, told = [], [], []
    classes = who.n_classes
    pool = (
        [("sex",), ("race",), ("sex", "race")]
        + ([("town",)] if "membership" in extra else [])
        + ([("age",)] if extra == "age" else [])
    )
    chosen = [
        pool[place]
        for place in sorted(
            rng.choice(len(pool), size=int(rng.integers(1, len(pool) + 1)), replace=False)
        )
    ]
    if extra != "none" and pool[-1] not in chosen:
        chosen.append(pool[-1])
    one_bound = (
        str(rng.choice(["range", "to_overall", "ratio", "target", "population"]))
        if rng.random() < 0.6
        else None
    )
    one_epsilon = _epsilon(rng, classes) if rng.random() < 0.7 else None
    for names in chosen:
        bound = one_bound or str(
            rng.choice(["range", "to_overall", "ratio", "target", "population"])
        )
        bound = "range" if names == ("age",) else bound
        epsilon = _epsilon(rng, classes) if one_epsilon is None else one_epsilon
        target = (
            rng.dirichlet(np.full(classes, 3.0))
            if bound == "target"
            else "population"
            if bound == "population"
            else None
        )
        kind = "target" if bound == "population" else bound
        families.append(r2b.Family(list(names), epsilon=epsilon, bound=kind, target=target))
        told.append(f"{' x '.join(names)} {bound} {np.round(epsilon, 6).tolist()}")
        for _, inside in strata:
            rules += _rules(names, kind, epsilon, target, inside, columns, who)
    return families, rules, told


def chosen_names(families: list[r2b.Family]) -> list[str]:
    """Name families as `debias` does."""
    return [" x ".join(family.names) for family in families]


def _offsets(
    rng: np.random.Generator, names: list[str], rules: list[Rule]
) -> dict[str, np.ndarray]:
    """Draw offsets for some families of one problem in three, and put them into their rules."""
    if len(names) != len(rules) or rng.random() > 1 / 3:
        return {}
    found, size = {}, rng.choice([0.003, 0.03, 0.15])
    for place, (name, rule) in enumerate(zip(names, rules, strict=True)):
        if rule.bound != "moments" and rng.random() < 0.8:
            drawn = rng.normal(0.0, size, (rule.counts.shape[1], len(rule.epsilon)))
            found[name] = drawn - drawn.mean(axis=1, keepdims=True)
            rules[place] = replace(rule, offsets=found[name])
    return found


def _epsilon(rng: np.random.Generator, classes: int) -> np.ndarray:
    shape = rng.choice(["zero", "tiny", "small", "wide", "array"])
    if shape == "array":
        return rng.choice([0.0, 1e-6, 0.01, 0.1, 0.3], classes)
    return np.full(
        classes,
        {"zero": 0.0, "tiny": 10.0 ** rng.uniform(-9, -4), "small": 0.02, "wide": 0.2}[str(shape)],
    )


def _rules(names, kind, epsilon, target, inside, columns, who):  # type: ignore[no-untyped-def]
    if names == ("town",):
        counts = columns["town"][0] * inside[:, None]
    elif names == ("age",):
        age = columns["age"][0]
        centred = age - who.w @ age / who.w.sum()
        # A value of exactly 0 would be taken for a row that is not counted.
        scaled = centred / np.sqrt(who.w @ centred**2 / who.w.sum())
        return [Rule(np.where(scaled == 0, 1e-300, scaled)[:, None], "moments", epsilon)]
    else:
        keep = inside.copy()
        for name in names:
            keep &= columns[name][1]
        counts = indicators(*(columns[name][0] for name in names), keep=keep)
    if counts.shape[1] < 2 and kind != "target":
        return []
    if isinstance(target, str):
        covered = who.w * counts.sum(axis=1)
        target = covered @ who.y / covered.sum()
    return [Rule(counts, kind, epsilon, target)]


def disagreement(problem: Drawn, limit: float = 60.0) -> str | None:
    """Say in what the two sides differ; None where they agree."""
    least = least_violation(problem.table)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fair = r2b.debias(problem.y, time_limit=limit, **problem.arguments)
    except ParameterError as error:
        if "contradict" in str(error) or "add up to 1" in str(error):
            return (
                None
                if least > FEASIBLE
                else f"refused, but labels within {least:.1e} of all bounds exist: {error}"
            )
        return None if "is empty in" in str(error) else f"refused: {error}"
    if fair.status is r2b.Status.INFEASIBLE:
        return (
            None
            if least > FEASIBLE
            else f"infeasible, but labels within {least:.1e} of all bounds exist"
        )
    if least >= INFEASIBLE:
        return f"{fair.status.value}, but no labels come nearer than {least:.1e} to all bounds"
    if not fair.status.ok:
        proof = fair.certificate
        return (
            f"{fair.status.value}, gap {proof.relative_gap:.1e}, excess {proof.excess:.1e}, "
            f"least {least:.1e}"
        )
    off = violation(problem.table, np.asarray(fair.soft_labels))
    if off > 1e-8:
        return f"{fair.status.value}, but labels are off a bound by {off:.1e}"
    mine = problem.table.value(np.asarray(fair.soft_labels))
    try:
        best = fewest(problem.table) if problem.table.lam == 0 else closest(problem.table)[0]
    except AssertionError:
        return None  # the other side has no answer to compare with
    return (
        f"costs {mine:.9f}, the other side {best:.9f}"
        if abs(mine - best) > CLOSE * max(1.0, abs(best))
        else None
    )


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="number of the first problem")
    parser.add_argument("--count", type=int, default=500)
    chosen = parser.parse_args()
    found, slowest = 0, (0.0, -1)
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        begun = time.process_time()
        problem = drawn(seed)
        fault = disagreement(problem)
        slowest = max(slowest, (time.process_time() - begun, seed))
        if fault is not None:
            found += 1
            print(f"{seed}: {fault}\n    {problem.what}", flush=True)
    print(
        f"{chosen.count} problems from {chosen.seed} on: {found} disagreements; "
        f"the slowest, {slowest[1]}, took {slowest[0]:.1f} s"
    )
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
