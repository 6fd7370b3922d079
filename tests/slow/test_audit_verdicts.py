"""An audit does not contradict itself: a verdict and the numbers beside it are one quantity,
whatever the groups and clusters.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_calls import Shell
from numpy.typing import NDArray

import r2b
from r2b._audit import audit
from r2b.errors import LengthError, MissingValueError, RowLabelError
from r2b.metrics.binomial import difference_bounds, variance_of_means
from r2b.report import gather, to_html, to_markdown
from r2b.report.render import audit_html

Floats = NDArray[np.float64]


def table(seed: int = 0, n: int = 400) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two groups that differ for sure, and one of three rows that are all alike."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    sex[:3] = "x"
    y = np.where(rng.random(n) < np.where(sex == "f", 0.7, 0.4), "yes", "no")
    y[:3] = "yes"
    return y, sex


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_permutations", [19, 38, 99])
def test_a_verdict_is_the_comparison_of_the_two_numbers_shown(
    seed: int, n_permutations: int
) -> None:
    rng = np.random.default_rng(seed)
    people = {"a": rng.integers(0, 4, 150), "b": rng.integers(0, 3, 150)}
    y = rng.integers(0, 3, 150) * (people["a"] != 1)
    found = audit(
        y, sensitive_features=people, n_permutations=n_permutations, n_boot=0, n_largest=99
    )
    text = str(found)
    for each in found.ranked:
        assert each.level is not None and each.p_adjusted is not None
        assert (
            each.beyond_chance == (each.deviation > each.level + 1e-12) == (each.p_adjusted <= 0.05)
        )
        verdict = "beyond" if each.beyond_chance else "within"
        assert (
            f"deviation {each.deviation:.4f}; {verdict} chance, which explains {each.level:.4f}"
            in text
        )
    for family in found.families:
        assert family.chance is not None
        assert (family.disparity > family.chance.quantile + 1e-12) == (
            family.chance.p_value <= 0.05
        )


def crossed(n: int = 600) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Two sexes that differ for sure, crossed with sites of which one has two rows: by chance
    those two are as far out as can be.
    """
    rng = np.random.default_rng(5)
    people = {
        "sex": rng.choice(["f", "m"], n),
        "site": np.array(["trunk", "face"] * (n // 2), dtype="<U5"),
    }
    people["site"][:2], people["sex"][:2] = "ear", ["f", "m"]
    return np.where(rng.random(n) < np.where(people["sex"] == "f", 0.8, 0.3), "yes", "no"), people


def test_where_p_value_and_verdict_differ_the_text_says_what_each_is_of() -> None:
    y, people = crossed()
    found = audit(y, sensitive_features=people, n_boot=0)
    by_name = {family.name: family for family in found.families}
    family = by_name["sex x site"]
    assert family.chance is not None
    assert family.chance.p_value > 0.05
    assert family.worst is not None
    assert family.verdicts_differ
    assert not by_name["sex"].verdicts_differ
    lines = [line for line in str(found).splitlines() if "p and verdict" in line]
    assert len(lines) == 1
    assert "largest difference between any two groups" in lines[0]
    assert "sizes of its own groups" in lines[0]
    facts = gather(y, sensitive_features=people, epsilon=0.1, n_boot=0, frontier_points=0)
    for page in (to_html(facts), to_markdown(facts), audit_html(found)):
        assert "The p-value of sex x site is of the largest difference" in page
    y, sex = table()
    facts = gather(y, sensitive_features=sex, epsilon=0.1, n_boot=0, frontier_points=0)
    assert "The p-value of" not in to_html(facts) + to_markdown(facts)


def test_too_few_permutations_give_no_verdict() -> None:
    y, sex = table()
    found = audit(y, sensitive_features=sex, n_permutations=18, n_boot=0)
    assert {each.beyond_chance for each in found.ranked} == {None}
    assert found.worst == found.largest


def test_the_worst_is_beyond_chance_and_the_same_in_text_json_and_report() -> None:
    y, sex = table()
    found = audit(y, sensitive_features={"sex": sex})
    assert found.largest is not None
    assert "x" in " ".join(found.largest.groups)
    assert found.largest.value > 0.6
    assert found.worst is not None and found.worst.beyond_chance
    assert found.worst.groups in (("sex=f", "sex=m"), ("sex=m", "sex=f"), ("f", "m"), ("m", "f"))
    assert found.worst.value < found.largest.value
    first = str(found).splitlines()[1]
    assert first.startswith("  worst ")
    assert f"difference {found.worst.value:.4f}" in first
    assert f"{found.worst.level:.4f}" in first
    facts = gather(y, sensitive_features={"sex": sex}, epsilon=0.1, frontier_points=0)
    assert facts["headline"]["difference"] == found.worst.value == found.to_json()["worst"]["value"]
    assert facts["headline"]["groups"] == list(found.worst.groups)
    assert facts["headline"]["verdict"] == "beyond chance"
    assert facts["headline"]["interval"] is None  # that of the family is of another difference
    assert "chance explains more of it for groups of these sizes" in to_markdown(facts)
    assert "by up to" not in to_markdown(facts).splitlines()[0]


def test_where_nothing_is_beyond_chance_nothing_is_the_worst() -> None:
    y, sex = table()
    found = audit(
        np.random.default_rng(5).permutation(y), sensitive_features=sex, n_permutations=99
    )
    assert found.worst is None and "none beyond chance; the largest is" in str(found)
    facts = gather(
        np.random.default_rng(5).permutation(y),
        sensitive_features=sex,
        epsilon=0.9,
        n_permutations=99,
        frontier_points=0,
    )
    assert (
        facts["headline"]["verdict"] == "within chance"
        and facts["headline"]["difference"] == found.largest.value
    )  # type: ignore[union-attr]


def test_the_least_p_value_is_an_upper_limit_wherever_it_is_shown() -> None:
    y, sex = table()
    found = audit(y[3:], sensitive_features=sex[3:])
    chance = found.families[0].chance
    assert chance is not None and chance.at_floor and "p at most 0.005" in str(found)
    facts = gather(y[3:], sensitive_features=sex[3:], epsilon=0.1, frontier_points=0)
    for shown in (audit_html(found), to_html(facts), to_markdown(facts)):
        assert "at most 0.005" in shown
    stored = found.to_json()
    assert stored["p_value_floor"] == 1 / 201
    assert stored["families"][0]["chance"]["at_floor"] is True
    fair = audit(np.random.default_rng(0).permutation(y[3:]), sensitive_features=sex[3:])
    assert fair.families[0].chance is not None
    assert not fair.families[0].chance.at_floor
    assert "p = 0." in str(fair)


def drawn(
    kind: str, truth: Floats, sizes: list[int], rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any], dict[str, Any]]:
    codes, more = np.repeat(np.arange(len(sizes)), sizes), {}
    if kind == "clusters":  # three rows of one person have one label
        unit = np.concatenate(
            [np.arange(size) // 3 + 1000 * group for group, size in enumerate(sizes)]
        )
        _, first, place = np.unique(unit, return_index=True, return_inverse=True)
        labels = np.array([rng.choice(truth.shape[1], p=truth[codes[row]]) for row in first])[place]
        return codes, labels, {"clusters": place}
    if kind == "probabilities":
        return codes, np.array([rng.dirichlet(0.5 * truth[group] + 1e-9) for group in codes]), more
    labels = np.array([rng.choice(truth.shape[1], p=truth[group]) for group in codes])
    return codes, labels, {"weight": rng.gamma(0.7, size=len(codes))} if kind == "weights" else more


@pytest.mark.parametrize("kind", ["classes", "weights", "probabilities", "clusters"])
@pytest.mark.parametrize("sizes", [[2, 3], [3, 120], [40, 40], [2, 6, 60]])
def test_intervals_of_tiny_and_uneven_groups_hold_the_truth_as_often_as_they_say(
    kind: str, sizes: list[int]
) -> None:
    rng = np.random.default_rng(len(sizes) + sizes[-1])
    truth = np.array([[0.2, 0.8], [0.55, 0.45], [0.4, 0.6]])[: len(sizes)]
    gap, held, times, level = float(np.ptp(truth, axis=0).max()), 0, 40, 0.9
    for _ in range(times):
        codes, labels, more = drawn(kind, truth, sizes, rng)
        weight = more.get("weight", np.ones(len(codes)))
        values = labels if labels.ndim == 2 else np.eye(2)[labels]
        means = np.array(
            [
                np.average(values[codes == g], axis=0, weights=weight[codes == g])
                for g in range(len(sizes))
            ]
        )
        low, high = difference_bounds(
            means, *variance_of_means(codes, labels, means, **more), level=level
        )
        held += low - 1e-12 <= gap <= high + 1e-12
    assert held / times >= level - 3 * (level * (1 - level) / times) ** 0.5


def test_uncertain_groups_of_few_rows_have_wide_intervals() -> None:
    y, sex = table()
    q = np.column_stack([sex == "f", sex == "m", sex == "x"]).astype(float)
    few = (
        audit(y, sensitive_features={"sex": r2b.Membership(q)}, n_permutations=0, n_boot=50)
        .families[0]
        .interval
    )
    large = (
        audit(
            y[3:],
            sensitive_features={"sex": r2b.Membership(q[3:, :2])},
            n_permutations=0,
            n_boot=50,
        )
        .families[0]
        .interval
    )
    assert few is not None and few.method == "binomial" and few.high - few.low > 0.3
    assert large is not None and large.method == "bootstrap"


def clustered(seed: int, *, varying: bool) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Fair labels of 30 people with six rows each, which are nearly alike; a group is the person's
    own, or differs between rows.
    """
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(30), 6)
    usual = rng.random(30) < 0.5
    y = np.where(rng.random(180) < 0.85, usual[person], ~usual[person])
    group = (
        rng.random(30)[person] * 2 + rng.random(180) > 1.5
        if varying
        else rng.integers(0, 2, 30)[person]
    )
    return y, group, person


@pytest.mark.parametrize("varying", [False, True])
def test_clusters_keep_fair_labels_from_being_beyond_chance(varying: bool) -> None:
    with_them, without, p_values, times = 0, 0, [], 50
    for seed in range(times):
        y, group, person = clustered(seed, varying=varying)
        found = audit(
            y,
            sensitive_features=group,
            clusters=person,
            n_permutations=59,
            n_boot=0,
            random_state=seed,
        )
        assert found.clusters == 30 and found.families[0].chance is not None
        p_values.append(found.families[0].chance.p_value)
        with_them += found.worst is not None
        without += (
            audit(y, sensitive_features=group, n_permutations=59, n_boot=0, random_state=seed).worst
            is not None
        )
    assert without / times > 0.1  # rows that are not independent look unfair
    assert with_them / times < 0.05 + 4 * (0.05 * 0.95 / times) ** 0.5
    assert np.mean(np.array(p_values) <= 0.5) == pytest.approx(0.5, abs=4 * (0.25 / times) ** 0.5)


def test_a_group_of_one_annotator_is_not_beyond_chance() -> None:
    rng = np.random.default_rng(4)
    annotator = np.repeat(np.arange(20), 49)
    group = np.where(annotator == 7, "x", "other")
    y = np.where(annotator == 7, rng.random(980) < 0.95, rng.random(980) < 0.5)
    assert audit(y, sensitive_features=group, n_boot=0).worst is not None
    alone = audit(y, sensitive_features=group, clusters=annotator)
    assert alone.worst is None and not any(each.beyond_chance for each in alone.ranked)
    assert alone.families[0].interval is not None and alone.families[0].interval.low == 0.0


def test_an_unfair_table_is_unfair_with_clusters_too_for_every_kind_of_attribute() -> None:
    rng = np.random.default_rng(6)
    person = np.repeat(np.arange(200), 3)
    sex = rng.integers(0, 2, 200)[person]
    y = np.where(rng.random(600) < np.where(sex == 1, 0.8, 0.3), "yes", "no")
    weight, age = rng.gamma(2.0, size=600), sex + rng.normal(size=600) / 4
    q = np.column_stack([0.9 - 0.8 * sex, 0.1 + 0.8 * sex])
    people = {"sex": sex, "q": r2b.Membership(q), "age": r2b.Continuous(age, basis="linear")}
    for labels in (y, {"no": 0.9 * (y == "no") + 0.05, "yes": 0.9 * (y == "yes") + 0.05}):
        found = audit(
            labels,
            sensitive_features=people,
            families="marginal",
            sample_weight=weight,
            clusters=person,
            n_boot=40,
        )
        assert found.worst is not None
        for each in (*found.families, *found.continuous):
            assert each.chance is not None
            assert each.chance.at_floor
            assert each.interval is not None
            assert each.interval.low > 0


def test_clusters_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(LengthError, match="clusters"):
        audit(["a", "b"], sensitive_features=["f", "m"], clusters=[1])
    with pytest.raises(RowLabelError, match="clusters"):
        audit(
            pd.Series(["a", "b"]),
            sensitive_features=["f", "m"],
            clusters=pd.Series(["p", "q"], index=[1, 0]),
        )
    with pytest.raises(MissingValueError, match="clusters"):
        audit(["a", "b"], sensitive_features=["f", "m"], clusters=["p", None])


def test_the_command_line_takes_clusters(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    call = Shell(capsys, tmp_path)
    y, group, person = clustered(1, varying=False)
    path = tmp_path / "people.csv"
    lines = [f"{label},{sex},p{who}" for label, sex, who in zip(y, group, person, strict=True)]
    path.write_text("label,sex,person\n" + "\n".join(lines) + "\n")
    words = f"audit {path} --label label --sensitive sex"
    plain = call(f"{words} --json --permutations 19")
    with_them = call(f"{words} --clusters person --json --permutations 19")
    assert (plain.code, with_them.code) == (0, 0)
    assert (json.loads(plain.out)["clusters"], json.loads(with_them.out)["clusters"]) == (None, 30)
    said = call(f"{words} --clusters person --html {tmp_path / 'r.html'}")
    assert "30 clusters" in said.out and "30 clusters" in (tmp_path / "r.html").read_text()
    scanned = r2b.scan(str(path)).audit(
        "label", sensitive_features="sex", clusters="person", n_permutations=19
    )
    assert scanned.clusters == 30
