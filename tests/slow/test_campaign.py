"""The campaign of drawn problems: what is drawn, and who judges it."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import r2b

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("campaign_draws")


@pytest.fixture
def judging(draws: ModuleType) -> ModuleType:
    return importlib.import_module("campaign_judge")


def judged(judging: ModuleType, problem: Any, fair: r2b.FairLabels, **other: Any) -> dict[str, Any]:
    given = {
        "answer": fair.soft_labels,
        "prices": fair.prices,
        "names": [str(name) for name in fair.groups],
        **other,
    }
    verdict: dict[str, Any] = judging.judge(problem, **given)
    return verdict


def small(draws: ModuleType, bound: str, count: int) -> list[Any]:
    """Some problems of few classes, with bounds that are closed or not all but closed."""
    several = (draws.draw(0, number) for number in range(400))
    return [
        one
        for one in several
        if one.facts["bound"] == bound
        and one.facts["classes"] <= 12
        and not 0 < one.facts["epsilon"] < 1e-5
        and one.facts["lam"] > 0.3
    ][:count]


def test_draws_follow_from_seed_and_number_and_keep_to_what_is_stated(draws: ModuleType) -> None:
    several = [draws.draw(3, number) for number in range(150)]
    again = draws.draw(3, 7)
    assert again.facts == several[7].facts
    assert np.array_equal(again.labels, several[7].labels)
    assert np.array_equal(again.weight, several[7].weight)
    assert draws.draw(4, 7).facts != again.facts
    for one in several:
        facts = one.facts
        assert 20 <= facts["rows"] <= 3000
        assert 2 <= facts["classes"] <= 150
        assert 0.05 <= facts["lam"] <= 10
        assert facts["epsilon"] == 0 or 1e-9 <= facts["epsilon"] <= 1
        assert all(2 <= len(member) <= 36 for member in one.members)
        assert np.allclose(one.labels.sum(axis=1), 1.0, atol=1e-14)
    for name, options in (
        ("labels", draws.LABELS),
        ("bound", draws.BOUNDS),
        ("families", draws.FAMILIES),
    ):
        assert {one.facts[name] for one in several} == set(options)
    assert {one.facts["attribute"] for one in several} == {"column", "columns", "membership"}


@pytest.mark.parametrize("bound", ["range", "to_overall", "ratio", "target"])
def test_the_judge_agrees_with_the_certificate_and_sees_what_is_wrong(
    draws: ModuleType, judging: ModuleType, bound: str
) -> None:
    changed = 0
    for problem in small(draws, bound, 6):
        fair = r2b.debias(**problem.arguments)
        verdict = judged(judging, problem, fair)
        assert fair.status.ok and judging.clean(verdict), problem.facts
        assert verdict["gap"] == pytest.approx(fair.certificate.relative_gap, abs=1e-10)
        assert not judging.clean(judged(judging, problem, fair, answer=1.001 * fair.soft_labels))
        assert not judging.clean(
            judged(judging, problem, fair, names=[f"{name}!" for name in fair.groups])
        )
        # labels that had to move: the old ones, and prices of zero, do not pass
        if fair.certificate.distance > 1e-4:
            changed += 1
            assert not judging.clean(judged(judging, problem, fair, answer=problem.labels))
            assert not judging.clean(
                judged(judging, problem, fair, prices=np.zeros_like(fair.prices))
            )
    assert changed >= 2


@pytest.mark.parametrize("bound", ["range", "to_overall", "ratio", "target"])
def test_the_judges_support_functions_are_the_most_that_allowed_means_reach(
    judging: ModuleType, bound: str
) -> None:
    from scipy.optimize import linprog

    rng = np.random.default_rng(0)
    for epsilon in (0.0, 0.1, 0.7):
        n_groups, target = 4, rng.dirichlet(np.ones(1))
        weight, prices = rng.dirichlet(np.ones(n_groups)), rng.standard_normal((n_groups, 1))
        if bound in ("range", "to_overall"):
            prices -= weight @ prices
        one, eye = np.ones((n_groups, 1)), np.eye(n_groups)
        pairs = np.array(
            [eye[i] - eye[j] for i in range(n_groups) for j in range(n_groups) if i != j]
        )
        table, most = {
            "range": (pairs, np.full(len(pairs), epsilon)),
            "to_overall": (
                np.concatenate([eye - one * weight, one * weight - eye]),
                np.full(2 * n_groups, epsilon),
            ),
            "ratio": (np.where(pairs < 0, -1.0, (1 - epsilon) * (pairs > 0)), np.zeros(len(pairs))),
            "target": (
                np.concatenate([eye, -eye]),
                np.concatenate(
                    [target + epsilon / 2] * n_groups + [epsilon / 2 - target] * n_groups
                ),
            ),
        }[bound]
        # Means of groups beyond 0 and 1 are cut off for the cone alone: the others are bounded once
        # the prices balance.
        limits = (0, 1) if bound == "ratio" else (-5, 5)
        best = linprog(-(weight * prices[:, 0]), A_ub=table, b_ub=most, bounds=[limits] * n_groups)
        found = judging._support(bound, prices, weight, epsilon, target)
        assert found == pytest.approx(-best.fun, abs=1e-9)


def campaign(tmp_path: Path, *options: str) -> tuple[int, dict[str, Any]]:
    output = tmp_path / "campaign.json"
    command = [sys.executable, str(BENCHMARKS / "campaign.py"), "--output", str(output), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert output.exists(), done.stderr
    return done.returncode, json.loads(output.read_text(encoding="utf-8"))


def test_a_campaign_counts_every_problem_once(tmp_path: Path) -> None:
    status, report = campaign(
        tmp_path, "--seed", "1", "--first", "6", "--count", "6", "--processes", "2"
    )
    assert (status, report["seed"], report["first"]) == (0, 1, 6)
    assert (report["problems"], report["clean"], report["wrong"]) == (6, 6, 0)
    assert report["not_clean"] == []
    assert 0 < report["median_seconds"] <= report["longest_seconds"]
