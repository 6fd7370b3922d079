"""The facts of a report against independent arithmetic, and their Markdown and JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import r2b
from r2b.errors import ParameterError
from r2b.report import gather, to_html, to_json, to_markdown

HOSTILE = "<img src=x onerror=alert(1)>"
FEW = {"n_permutations": 20, "n_boot": 20, "frontier_points": 4}


def people(
    n: int = 600, n_classes: int = 4, seed: int = 0
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    sex, race = rng.choice(["f", "m"], n), rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    place = (
        rng.integers(0, n_classes, n) * (rng.random(n) < np.where(sex == "f", 0.9, 0.6))
    ).astype(int)
    return np.array([f"class {k}" for k in range(n_classes)])[place], {"sex": sex, "race": race}


def soft(n: int = 400) -> np.ndarray:
    return np.random.default_rng(1).dirichlet(np.ones(3), n)


def test_facts_are_strict_json_and_say_what_they_are() -> None:
    y, who = people()
    facts = gather(y, sensitive_features=who, label_name="job", command="r2b audit", **FEW)
    assert json.loads(to_json(facts)) == facts
    assert (facts["format"], facts["version"], facts["package"]) == (
        "r2b-report",
        1,
        r2b.__version__,
    )
    assert (facts["label"], facts["command"], facts["data"]["rows"]) == ("job", "r2b audit", 600)
    assert facts["data"]["class_rows"] == [
        int((y == name).sum()) for name in facts["data"]["classes"]
    ]


def test_the_headline_is_the_largest_difference_counted_by_hand() -> None:
    y, who = people()
    found = gather(y, sensitive_features={"sex": who["sex"]}, **FEW)["headline"]
    shares = {s: {c: float((y[who["sex"] == s] == c).mean()) for c in set(y)} for s in ("f", "m")}
    expected = max(set(y), key=lambda c: abs(shares["f"][c] - shares["m"][c]))
    assert found["class"] == expected
    assert found["difference"] == pytest.approx(abs(shares["f"][expected] - shares["m"][expected]))
    assert found["means"] == pytest.approx(
        sorted((shares["f"][expected], shares["m"][expected]), reverse=True)
    )
    assert found["verdict"] == "beyond chance"


def test_a_small_group_far_out_by_chance_does_not_make_the_headline() -> None:
    rng = np.random.default_rng(5)
    n = 4000
    sex = rng.choice(["f", "m"], n)
    y = np.where(rng.random(n) < np.where(sex == "f", 0.55, 0.45), "yes", "no")
    odd = np.where(np.arange(n) < 4, "rare", "usual")
    facts = gather(
        y,
        sensitive_features={"sex": sex, "odd": odd},
        families="marginal",
        **{**FEW, "n_permutations": 199},
    )
    by_name = {family["name"]: family["disparity"] for family in facts["audit"]["families"]}
    assert by_name["odd"] > by_name["sex"]
    assert facts["headline"]["family"] in ("sex", "sex x odd")
    assert "rare" not in " ".join(facts["headline"]["groups"])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("families", ["crossed", "marginal"])
def test_the_flow_is_what_the_soft_labels_say_row_by_row(families: str, weighted: bool) -> None:
    y, who = people()
    weight = np.random.default_rng(2).uniform(0.5, 3, len(y)) if weighted else None
    facts = gather(
        y, sensitive_features=who, sample_weight=weight, families=families, epsilon=0.02, **FEW
    )
    fair = r2b.debias(
        y, sensitive_features=who, sample_weight=weight, families=families, epsilon=0.02
    )
    w, classes = np.ones(len(y)) if weight is None else weight, facts["data"]["classes"]
    assert len(facts["change"]["flows"]) == (6 if families == "crossed" else 5)
    for entry in facts["change"]["flows"]:
        pairs = [part.split("=") for part in entry["group"].split(", ")]
        inside = np.all([who[name] == value for name, value in pairs], axis=0)
        table = np.array(
            [
                (w[inside & (y == old), None] * fair.soft_labels[inside & (y == old)]).sum(axis=0)
                for old in classes
            ]
        )
        assert entry["before"] == pytest.approx(table.sum(axis=1))
        assert entry["after"] == pytest.approx(table.sum(axis=0))
        np.fill_diagonal(table, 0.0)
        assert entry["changed"] == pytest.approx(table.sum())
        for old, new, moved in entry["moves"]:
            assert moved == pytest.approx(table[old, new])
        assert sum(moved for _, _, moved in entry["moves"]) == pytest.approx(table.sum())


def test_the_frontier_holds_the_epsilon_asked_for_and_agrees_with_debias() -> None:
    y, who = people()
    facts = gather(
        y, sensitive_features=who, epsilon=0.03, n_permutations=0, n_boot=0, frontier_points=6
    )
    points = facts["cost"]["points"]
    assert len(points) == 7 and points[0]["epsilon"] == 0.0
    (chosen,) = [point for point in points if point["epsilon"] == 0.03]
    assert facts["cost"]["chosen"] == 0.03
    assert chosen["distance"] == pytest.approx(
        r2b.debias(y, sensitive_features=who, epsilon=0.03).certificate.distance, rel=1e-6
    )
    changes = [point["distance"] for point in points]
    assert changes == sorted(changes, reverse=True) and points[-1]["expected_changes"] == 0.0
    assert (
        gather(y, sensitive_features=who, n_permutations=0, n_boot=0, frontier_points=0)["cost"]
        is None
    )


CASES: dict[str, dict[str, Any]] = {
    "one attribute without a name": {"sensitive_features": people()[1]["sex"]},
    "control features": {
        "sensitive_features": {"sex": people()[1]["sex"]},
        "control_features": {"race": people()[1]["race"]},
    },
    "weights": {"sensitive_features": people()[1], "sample_weight": np.linspace(0.1, 5, 600)},
    "both": {"sensitive_features": people()[1], "families": "both"},
    "four fifths": {"sensitive_features": people()[1]["sex"], "bound": "ratio", "epsilon": 0.2},
    "a free class": {
        "sensitive_features": people()[1]["sex"],
        "epsilon": [0.01, 0.01, 0.01, np.inf],
    },
    "agreement": {"sensitive_features": people()[1]["sex"], "objective": "agreement"},
    "already fair": {"sensitive_features": people()[1]["sex"], "epsilon": 1.0},
    "one group": {"sensitive_features": np.full(600, "all")},
    "continuous": {"sensitive_features": {"age": r2b.Continuous(np.linspace(18, 90, 600).round())}},
    "missing": {
        "sensitive_features": {"sex": [None, *people()[1]["sex"][1:]]},
        "missing": "exclude",
    },
}


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_question_renders_without_a_gap(name: str) -> None:
    if name == "agreement":
        pytest.importorskip("scipy")
    facts = gather(people()[0], **{"epsilon": 0.02, **CASES[name]}, **FEW)
    assert json.loads(to_json(facts)) == facts
    for page in (to_html(facts), to_markdown(facts)):
        assert not any(
            f"{gap}{end}" in page for gap in ("nan", "None", "undefined") for end in (" ", "<", ".")
        )


def test_more_groups_than_classes_become_the_rows() -> None:
    rng = np.random.default_rng(0)
    town = np.array([f"town {k}" for k in range(30)])[rng.integers(0, 30, 3000)]
    y = np.where(rng.random(3000) < np.where(town == "town 7", 0.9, 0.5), "yes", "no")
    page = to_markdown(gather(y, sensitive_features={"town": town}, epsilon=1.0, **FEW))
    (head,) = [line for line in page.splitlines() if line.startswith("| Group | Farthest from all")]
    assert page.split(head)[1].splitlines()[2].startswith("| town 7 |")
    assert "Shown: 2 of 2 classes, 20 of 30 groups, those farthest apart." in page


def test_probabilities_show_shares_before_and_after() -> None:
    p = soft()
    group = np.where(p[:, 0] > 0.4, "a", "b")
    facts = gather(p, sensitive_features=group, **FEW)
    assert facts["change"]["flows"][0]["moves"] is None and facts["change"]["flows_note"]
    assert "Shares before and after" in to_html(facts)
    doubled = gather(2 * p, sensitive_features=group, normalize=True, **FEW)
    assert doubled["headline"]["difference"] == pytest.approx(facts["headline"]["difference"])


@pytest.mark.parametrize(
    "wrong", [{"frontier_points": -1}, {"frontier_points": 2.5}, {"epsilons": 3}, {"n_boot": -1}]
)
def test_wrong_arguments_are_refused_by_name(wrong: dict[str, Any]) -> None:
    y, who = people(60)
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        gather(y, sensitive_features=who, **wrong)


def test_markdown_shows_hostile_names_as_text() -> None:
    y, who = people()
    y = np.where(y == "class 0", f"{HOSTILE}|`x`\n# *y*", y)
    page = to_markdown(
        gather(
            y,
            sensitive_features={HOSTILE: who["sex"]},
            label_name=HOSTILE,
            command="a\n```\n<b>",
            **FEW,
        )
    )
    body = page.split("The command")[0].split("## How it was made")[0]
    assert "<img" not in body and "&lt;img src=x onerror=alert(1)&gt;\\|\\`x\\` # \\*y\\*" in body
    assert page.endswith("\n    a\n    ```\n    <b>\n")
    widths = {
        line.replace("\\|", "").count("|")
        for line in body.splitlines()
        if line.startswith("| ") and "class 1" in line and "(" in line
    }
    assert len(widths) == 1
