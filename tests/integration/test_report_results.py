"""Reports that results write of themselves: what they state is measured again here, and nothing
small can be read from them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import r2b
from r2b.errors import ParameterError, RowsUnavailableError
from r2b.report import fingerprint
from r2b.report.views import four_fifths

FEW = {"n_permutations": 20, "n_boot": 0}


def people(n: int = 900, seed: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    sex, race = rng.choice(["f", "m"], n), rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    place = (rng.integers(0, 3, n) * (rng.random(n) < np.where(sex == "f", 0.9, 0.6))).astype(int)
    return np.array(["clerk", "nurse", "cook"])[place], {"sex": sex, "race": race}


@pytest.fixture(scope="module")
def fair() -> r2b.FairLabels:
    y, who = people()
    return r2b.debias(y, sensitive_features=who, epsilon=0.02)


@pytest.mark.parametrize("form", ["soft", "round", "sample", "expand"])
def test_the_after_table_is_measured_on_the_labels_that_left(
    fair: r2b.FairLabels, form: str
) -> None:
    y, who = people()
    audit = r2b.audit(y, sensitive_features=who, **FEW)
    facts = fair.report(form=form, random_state=3, audit=audit, date=False).facts
    labels = {"round": lambda: fair.round(3), "sample": lambda: fair.sample(3)}.get(
        form, lambda: fair.soft_labels
    )()
    again = r2b.audit(labels, sensitive_features=who, n_permutations=0, n_boot=0)
    assert [each["name"] for each in facts["after"]] == ["sex", "race", "sex x race"]
    for family in again.families:
        after = next(each for each in facts["after"] if each["name"] == family.name)
        assert np.array(after["means"]) == pytest.approx(family.means)
        assert after["ratio_by_class"] == pytest.approx(family.ratio_by_class)
        assert after["disparity"] == pytest.approx(family.disparity)
    assert facts["made"]["form"] == form
    assert facts["made"]["disparity"] == pytest.approx(again.families[-1].disparity)
    assert facts["trace"]["output"]["sha256"] == fingerprint(labels)
    assert facts["trace"]["input"]["sha256"] == fingerprint(y, sensitive_features=who)


def test_the_four_fifths_ratios_are_those_counted_by_hand(fair: r2b.FairLabels) -> None:
    y, who = people()
    page = fair.report(
        form="round", audit=r2b.audit(y, sensitive_features={**who}, families="marginal", **FEW)
    ).to_markdown()
    labels, shares = fair.round(), []
    for column in (y, labels):
        rates = [float((column[who["sex"] == s] == "cook").mean()) for s in ("f", "m")]
        shares.append(f"{min(rates) / max(rates):.2f}")
    assert f"| cook | {shares[0]} | {shares[1]} |" in page.split("## Four fifths")[1]


@pytest.mark.parametrize("ending", ["html", "md", "json"])
def test_the_same_input_and_date_give_the_same_bytes(
    fair: r2b.FairLabels, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (tmp_path / f"{n}.{ending}" for n in range(3))
    fair.report(first, date="2026-11-16", **FEW)
    fair.report(second, date="2026-11-16", **FEW)
    assert first.read_bytes() == second.read_bytes() and b"2026" in first.read_bytes()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    fair.report(third, **FEW)
    assert b"2001" in third.read_bytes() and third.read_bytes() != first.read_bytes()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    with pytest.raises(ParameterError, match="SOURCE_DATE_EPOCH"):
        fair.report(**FEW)


def test_what_was_made_is_told_in_the_past_and_what_was_not_as_a_possibility(
    fair: r2b.FairLabels,
) -> None:
    y, who = people()
    made = fair.report(form="round", **FEW).to_markdown()
    assert "## What changed" in made and "brought this down" in made and " went from " in made
    assert "would" not in made.split("## What this does not say")[0].replace(
        "would differ by chance", ""
    ).replace("would undo", "")
    possible = r2b.report.to_markdown(
        r2b.report.gather(y, sensitive_features=who, frontier_points=0, **FEW)
    )
    assert "## What debiasing would change" in possible
    assert "would bring this down" in possible
    assert " would go from " in possible
    audited = r2b.audit(y, sensitive_features=who, **FEW).report().to_markdown()
    assert "Nothing was changed." in audited
    assert "## The certificate" not in audited
    assert "debiasing" not in audited


def test_the_fingerprint_is_of_values_and_their_order_and_not_of_a_library() -> None:
    pandas = pytest.importorskip("pandas")
    y, who = people(60)
    first = fingerprint(y, sensitive_features=who)
    frame = pandas.DataFrame(who)
    assert fingerprint(pandas.Series(y, dtype="category"), sensitive_features=frame) == first
    assert (
        fingerprint(y[::-1], sensitive_features=who)
        != first
        != fingerprint(y, sensitive_features={"sex": who["sex"]})
    )
    assert fingerprint(y, sensitive_features=who, sample_weight=np.ones(60)) != first
    codes = np.array([["clerk", "cook", "nurse"].index(each) for each in y], "<i8")
    assert (
        fingerprint(y)
        == hashlib.sha256(b'str["clerk","cook","nurse"]' + codes.tobytes()).hexdigest()
    )
    soft = np.random.default_rng(0).dirichlet(np.ones(3), 40)
    assert (
        fingerprint(soft) == hashlib.sha256(np.ascontiguousarray(soft, "<f8").tobytes()).hexdigest()
    )


def test_a_table_of_files_is_reported_with_the_checksums_of_its_files(tmp_path: Path) -> None:
    y, who = people(300)
    rows = [f"{who['sex'][i]},{who['race'][i]},{y[i]}" for i in range(300)]
    data, out = tmp_path / "people.csv", tmp_path / "fair.csv"
    data.write_text("\n".join(["sex,race,job", *rows]), encoding="utf-8")
    fair = r2b.scan(data).debias("job", sensitive_features=["sex", "race"], epsilon=0.05)
    fair.write(out, "round", random_state=1)
    facts = fair.report(form="round", random_state=1, output=out, **FEW).facts
    for part, path in (("input", data), ("output", out)):
        assert facts["trace"][part]["files"] == [
            {
                "name": path.name,
                "bytes": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
        ]
    assert facts["trace"]["input"]["sha256"] == fingerprint(y, sensitive_features=who, counted=True)
    assert "counted=True" in facts["trace"]["verify"]
    labels = np.array([line.split(",")[-1] for line in out.read_text(encoding="utf-8").split()[1:]])
    assert facts["label"] == "job"
    assert facts["made"]["disparity"] == pytest.approx(
        r2b.audit(labels, sensitive_features=who, **FEW).families[-1].disparity
    )
    with pytest.raises(ParameterError, match="cannot be read"):
        fair.report(output=tmp_path / "absent.csv", **FEW)


def small() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return three groups, of which one has 4 rows, and a class that one group has 3 times."""
    city = np.repeat(["north", "south", "tiny"], [300, 191, 4])
    y = np.concatenate(
        [
            np.repeat(["yes", "no", "rare"], [200, 97, 3]),
            np.repeat(["yes", "no", "rare"], [80, 91, 20]),
            ["yes"] * 3 + ["no"],
        ]
    )
    return y, {"city": city}


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for each in value.values() for number in numbers_in(each)]
    if isinstance(value, list):
        return [number for each in value for number in numbers_in(each)]
    return [float(value)] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


@pytest.mark.parametrize("alone", [False, True])
def test_figures_of_small_cells_are_nowhere_and_do_not_follow_from_the_others(alone: bool) -> None:
    y, who = small()
    audit = r2b.audit(y, sensitive_features=who, **FEW)
    made = r2b.debias(y, sensitive_features=who, epsilon=0.05)
    report = (
        audit.report(suppress_below=10)
        if alone
        else made.report(form="round", audit=audit, suppress_below=10)
    )
    (family,) = report.facts["audit"]["families"]
    shown = np.array([[not isinstance(mean, str) for mean in row] for row in family["means"]])
    assert not shown[2].any() and not shown[0, report.facts["data"]["classes"].index("rare")]
    # One unknown in a group or in a class could be worked out from what is left.
    assert all(hidden != 1 for hidden in [*(~shown).sum(axis=0), *(~shown).sum(axis=1)])
    assert family["rows"].count("<10") == 2
    written = json.loads(report.to_json())
    known = numbers_in(
        [
            written["audit"]["families"],
            written["audit"]["ranked"],
            written["headline"],
            written["change"],
        ]
    )
    # 191 rows, and all rows, would give those of the small group
    for secret in (3 / 300, 3 / 4, 1 / 4, 4 / 495, 4, 191, 191 / 495):
        assert not np.isclose(known, secret, atol=1e-12).any()
    assert "fewer than 10 rows" in report.to_markdown()
    assert all("&lt;10" in page for page in (report.to_markdown(), report.to_html()))
    assert "191 rows" not in report.to_markdown() and "191 rows" not in report.to_html()
    assert "has 4 rows" not in report.to_markdown() and "(4 rows)" not in report.to_html()


def test_a_class_with_hidden_cells_shows_no_difference_and_no_ratio() -> None:
    shares = {"A": (50, 30, 20), "B": (50, 30, 20), "C": (60, 38, 2), "D": (60, 38, 2)}
    y = [
        name
        for counts in shares.values()
        for name, n in zip("xyz", counts, strict=True)
        for _ in range(n)
    ]
    group = [name for name in shares for _ in range(100)]
    report = r2b.audit(y, sensitive_features={"g": group}, **FEW).report(suppress_below=10)
    (family,) = report.facts["audit"]["families"]
    assert family["ratio_by_class"] == [50 / 60, "<10", "<10"] and family["ratio"] == "<10"
    assert family["disparity_by_class"][1:] == ["<10", "<10"]
    (ratios,) = four_fifths(report.facts)
    assert (ratios["below"], ratios["classes"], ratios["hidden"]) == (0, 1, 2)
    page = report.to_html()
    assert "0 of 1 class below 0.8. 2 classes with small cells not shown." in page
    assert "lowest share of a group over the highest" not in page
    assert "A class with such cells shows no difference and no ratio" in page


def test_what_cannot_be_reported_is_refused(fair: r2b.FairLabels, tmp_path: Path) -> None:
    fair.save(tmp_path / "fair.json")
    with pytest.raises(RowsUnavailableError):
        r2b.load(tmp_path / "fair.json").report(**FEW)
    with pytest.raises(ParameterError, match=r"\.html, \.md or \.json"):
        fair.report(tmp_path / "report.pdf", **FEW)
    for wrong in (
        {"form": "argmax"},
        {"colour": "red"},
        {"suppress_below": -1},
        {"suppress_below": True},
    ):
        with pytest.raises(ParameterError):
            fair.report(**{**FEW, **wrong})
    y, who = people(400, seed=5)
    other = r2b.scan(pytest.importorskip("pyarrow").table({"job": y, **who}))
    with pytest.raises(ParameterError, match="of other rows"):
        other.transform(fair, "job", sensitive_features=["sex", "race"]).report(**FEW)


def test_a_report_is_made_again_from_its_facts_in_json(fair: r2b.FairLabels) -> None:
    report = fair.report(form="round", date=False, **FEW)
    again = r2b.report.Report(json.loads(report.to_json()))
    assert again.facts == report.facts and repr(again) == repr(report)
    assert again.to_markdown() == report.to_markdown() and again.to_html() == report.to_html()
