"""The report on a model: every figure is that of the measures on held-out rows, and everyone can
read the page.
"""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import r2b
from r2b.cli import main
from r2b.errors import InputError, NotFairWarning, ParameterError
from r2b.metrics import (
    demographic_parity_difference,
    equal_opportunity_difference,
    equalized_odds_difference,
    parity_promise,
)
from r2b.report import fingerprint, predictions_report
from r2b.sklearn import ParityClassifier, ParityPostprocessor, WeightedClassifier

N = 4_000
RNG = np.random.default_rng(0)
GENDER = RNG.choice(["women", "men"], N)
ORIGIN = RNG.choice(["Alba", "Bora"], N, p=[0.7, 0.3])
X = RNG.normal(size=(N, 3)) + np.outer(GENDER == "men", [1.2, 0, 0])
X[:, 1] += 0.6 * (ORIGIN == "Bora")
JOB = np.array([f"job {k}" for k in range(5)])[
    (X @ RNG.normal(size=(3, 5)) + RNG.gumbel(size=(N, 5))).argmax(axis=1)
]
OLD, NEW = slice(N // 2), slice(N // 2, None)
GROUPS = {"gender": GENDER[NEW], "origin": ORIGIN[NEW]}
PICTURES = Path(__file__).resolve().parents[1] / "artefacts"


@pytest.fixture(scope="module")
def fair() -> Any:
    model = ParityPostprocessor(LogisticRegression(), epsilon=0.05, cv=3, frontier=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotFairWarning)
        old = {"gender": GENDER[OLD], "origin": ORIGIN[OLD]}
        return model.fit(X[OLD], JOB[OLD], sensitive_features=old)


@pytest.fixture(scope="module")
def report(fair: Any) -> Any:
    return fair.report(
        None,
        X[NEW],
        JOB[NEW],
        sensitive_features=GROUPS,
        label_name="job",
        purpose="Suggests jobs.",
        owner="Data team",
        date="2026-11-19",
    )


def criterion(facts: dict[str, Any], name: str, family: str) -> dict[str, Any]:
    [found] = [
        each
        for each in facts["model"]["criteria"]
        if (each["criterion"], each["family"]) == (name, family)
    ]
    return found


def test_criteria_are_those_of_the_measures_on_the_held_out_rows(fair: Any, report: Any) -> None:
    decided, facts = fair.predict(X[NEW]), report.facts
    families = [("gender", [["gender"]]), ("gender x origin", [["gender", "origin"]])]
    for family, columns in families:
        rows: Any = {"sensitive_features": GROUPS, "families": columns}
        for name, measure in (
            ("Equal opportunity", equal_opportunity_difference),
            ("Equalized odds", equalized_odds_difference),
        ):
            found = criterion(facts, name, family)
            assert found["found"] == pytest.approx(measure(JOB[NEW], decided, **rows))
            plain = measure(JOB[NEW], fair.estimator_.predict(X[NEW]), **rows)
            assert found["plain"] == pytest.approx(plain)
            assert found["beyond"] == (found["found"] > found["chance"])
        parity = next(each for each in facts["audit"]["families"] if each["name"] == family)
        assert parity["disparity"] == pytest.approx(demographic_parity_difference(decided, **rows))


def test_verdicts_are_those_of_the_model(fair: Any, report: Any) -> None:
    found = fair.parity_report(X[NEW], y=JOB[NEW], sensitive_features=GROUPS)
    stated = report.facts["model"]["asked"]
    assert [each["verdict"] for each in stated] == [each.verdict for each in found.groups]
    unmet = sum(each.verdict == "not met" for each in found.groups)
    assert ("is not met" in report.to_markdown().splitlines()[0]) == bool(unmet)


def test_accuracy_is_counted_by_group_and_beside_the_plain_model(fair: Any, report: Any) -> None:
    accuracy = report.facts["model"]["accuracy"]
    right = fair.predict(X[NEW]) == JOB[NEW]
    plain = fair.estimator_.predict(X[NEW]) == JOB[NEW]
    assert accuracy["all"] == pytest.approx(right.mean())
    assert accuracy["plain"] == pytest.approx(plain.mean())
    place = next(n for n, each in enumerate(accuracy["families"]) if each["name"] == "gender")
    family = accuracy["families"][place]
    for group, (mean, _), was in zip(
        family["groups"], family["means"], accuracy["before"][place], strict=True
    ):
        here = GENDER[NEW] == group.removeprefix("gender=")
        assert mean == pytest.approx(right[here].mean())
        assert was == pytest.approx(plain[here].mean())


def test_changes_and_gaps_are_those_against_the_plain_decisions(fair: Any, report: Any) -> None:
    decided, plain = fair.predict(X[NEW]), fair.predict_plain(X[NEW])
    assert (plain == fair.estimator_.predict(X[NEW])).all()
    model = report.facts["model"]
    assert model["plain"]["changed"] == pytest.approx((decided != plain).mean())
    by_group = {each["group"]: each for each in model["plain"]["flows"]}
    men = GENDER[NEW] == "men"
    found = by_group["gender=men"]
    assert found["weight"] == men.sum() and found["changed"] == (decided != plain)[men].sum()

    def gap(rows: Any, group: str, other: str, job: str) -> float:
        one, two = (
            np.logical_and.reduce(
                [
                    GROUPS[name][:] == value
                    for name, value in (part.split("=") for part in each.split(", "))
                ]
            )
            for each in (group, other)
        )
        return float(abs((rows[one] == job).mean() - (rows[two] == job).mean()))

    assert model["increased"]["count"] >= len(model["increased"]["listed"]) > 0
    for each in model["increased"]["listed"]:
        assert each["now"] == pytest.approx(gap(decided, *each["groups"], each["class"]))
        assert each["plain"] == pytest.approx(gap(plain, *each["groups"], each["class"]))
        assert each["now"] > each["plain"]


def test_the_promise_is_that_of_these_rows(fair: Any, report: Any) -> None:
    found = parity_promise(
        fair.predict(X[NEW]), sensitive_features=GROUPS, families="both", epsilon=0.05
    )
    stated = report.facts["model"]["promise"]
    assert (stated["bound"], stated["holds"]) == (found.bound, found.holds)
    assert stated["said"] == str(found)
    weight = np.linspace(1.0, 2.0, N // 2)
    uneven = r2b.model_report(
        fair, X[NEW], JOB[NEW], sensitive_features=GROUPS, sample_weight=weight, n_permutations=0
    )
    assert uneven.facts["model"]["promise"]["bound"] is None
    assert "No promise can be made: The rows have weights" in uneven.to_markdown()


@pytest.mark.parametrize("weight", [None, np.linspace(1.0, 2.0, 2000)], ids=["plain", "weighted"])
def test_whether_an_epsilon_that_is_stated_is_met_stands_in_the_report(weight: Any) -> None:
    sex = np.repeat(["f", "m"], 1000)
    decided = np.where(np.arange(2000) % 10 < np.where(sex == "f", 6, 3), "yes", "no")
    given = {"sensitive_features": {"sex": sex}, "sample_weight": weight, "n_boot": 0}
    for epsilon, verdict in ((0.05, "not met"), (0.3, "met"), (0.28, "not shown")):
        report = predictions_report(decided, epsilon=epsilon, **given)
        (asked,) = report.facts["model"]["asked"]
        assert (asked["epsilon"], asked["verdict"]) == (epsilon, verdict)
        page = report.to_markdown()
        assert f"the bound of {100 * epsilon:.1f} points is" in page
        assert "The two groups of a family that differ most are compared." in report.to_html()
    report = predictions_report(decided, epsilon=0.05, n_permutations=0, **given)
    assert report.facts["model"]["asked"] is None
    assert "whether it is met was not tested" in report.to_markdown()


def test_checksums_date_versions_purpose_and_owner_are_stated(fair: Any, report: Any) -> None:
    trace = report.facts["trace"]
    assert trace["input"]["sha256"] == fingerprint(JOB[NEW], sensitive_features=GROUPS)
    assert trace["output"]["sha256"] == fingerprint(fair.predict(X[NEW]))
    assert trace["date"] == "2026-11-19" and {"r2b", "Python", "sklearn"} <= set(trace["versions"])
    for text in (report.to_html(), report.to_markdown()):
        assert "Suggests jobs." in text and "Data team" in text
        assert "set no threshold" in text and trace["output"]["sha256"] in text
    assert json.loads(report.to_json())["model"]["cost"]["plain_accuracy"] > 0.2


def test_every_model_reports_and_a_plain_one_has_only_what_is_known_of_it() -> None:
    plain = LogisticRegression().fit(X[OLD], JOB[OLD])
    weighted = WeightedClassifier(LogisticRegression(), cv=3, max_weight=5)
    weighted.fit(X[OLD], JOB[OLD], sensitive_features=GENDER[OLD])
    given = ParityClassifier(LogisticRegression(), attribute="given", cv=2, frontier=0)
    given.fit(X[OLD], JOB[OLD], sensitive_features=GENDER[OLD])
    quick: Any = {"sensitive_features": GENDER[NEW], "n_permutations": 20, "n_boot": 0}
    found = weighted.report(None, X[NEW], JOB[NEW], plain=plain, **quick).facts["model"]
    assert found["name"] == "WeightedClassifier of LogisticRegression"
    assert found["plain"]["name"] == "LogisticRegression" and found["asked"] is None
    found = given.report(None, X[NEW], JOB[NEW], **quick).facts["model"]
    assert found["asked"] and found["plain"]["name"] == "the plain model"
    alone = r2b.model_report(plain, X[NEW], **quick)
    model = alone.facts["model"]
    assert [model[name] for name in ("accuracy", "plain", "asked", "cost")] == [None] * 4
    assert {each["criterion"] for each in model["criteria"]} == {"Demographic parity"}
    assert "Accuracy by group" not in alone.to_html()


def test_small_cells_do_not_leave(fair: Any) -> None:
    few = {**GROUPS, "origin": np.where(np.arange(N // 2) < 7, "rare", GROUPS["origin"])}
    plain = LogisticRegression().fit(X[OLD], JOB[OLD])
    report = r2b.model_report(
        plain, X[NEW], JOB[NEW], sensitive_features=few, plain=fair, suppress_below=10
    )
    accuracy = report.facts["model"]["accuracy"]["families"]
    shown = dict(zip(accuracy[1]["groups"], accuracy[1]["means"], strict=True))
    assert shown["origin=rare"] == ["<10", "<10"] and report.facts["after"] is None
    assert report.facts["model"]["increased"] is None
    assert not report.facts["model"]["plain"]["flows"]
    for text in (report.to_html(), report.to_markdown()):
        assert "(7 rows)" not in text and "0.0" in text


def test_wrong_rows_and_endings_are_refused(fair: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        predictions_report(JOB[NEW], JOB[OLD][:-1], sensitive_features=GENDER[NEW])
    with pytest.raises(ParameterError, match="no option 'n_bot'"):
        predictions_report(JOB[NEW], sensitive_features=GENDER[NEW], n_bot=5)  # type: ignore[call-arg]
    with pytest.raises(ParameterError, match="confidence"):
        predictions_report(JOB[NEW], sensitive_features=GENDER[NEW], confidence=2.0)
    with pytest.raises(ParameterError, match="ending"):
        fair.report(tmp_path / "model.txt", X[NEW], sensitive_features=GROUPS)


def test_the_command_reports_on_a_file_of_predictions(
    fair: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    decided, plain = fair.predict(X[NEW]), fair.predict_plain(X[NEW])
    with open("decided.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["gender", "origin", "job", "decision", "before"])
        rows.writerows(zip(GENDER[NEW], ORIGIN[NEW], JOB[NEW], decided, plain, strict=True))
    command = ["report", "decided.csv", "--prediction", "decision", "--label", "job", "--quiet"]
    command += ["--sensitive", "gender,origin", "--plain", "before", "--owner", "Data team"]
    assert main([*command, "-o", "model.json"]) == 0
    facts = json.loads(Path("model.json").read_text(encoding="utf-8"))
    same = predictions_report(
        decided, JOB[NEW], sensitive_features=GROUPS, plain=plain, label_name="job"
    ).facts
    assert facts["model"]["criteria"] == same["model"]["criteria"]
    assert facts["trace"]["input"]["files"][0]["name"] == "decided.csv"
    assert facts["model"]["owner"] == "Data team" and "r2b report" in facts["command"]
    assert main([*command, "-o", "model.html", "--max-disparity", "0.001"]) == 1
    assert "against the column before" in Path("model.html").read_text().lower()
    assert main([*command, "-o", "model.html"]) == 2  # it is there already


@pytest.fixture(scope="module")
def page(report: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("model") / "model.html"
    report.save(path)
    return path


@pytest.mark.parametrize("printed", [False, True])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_everyone_can_read_the_page(
    chromium: browser.Browser, page: Path, width: int, dark: bool, printed: bool
) -> None:
    shown = chromium.open(page.as_uri(), width=width, dark=dark)
    assert shown.console_errors == [] and shown.requests == [page.as_uri()]
    if printed:
        shown.send("Emulation.setEmulatedMedia", media="print")
    shown.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert shown.axe(every=True) == []
    if not printed:
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
    PICTURES.mkdir(exist_ok=True)
    name = f"model-{width}{'-dark' if dark else ''}{'-printed' if printed else ''}.png"
    shown.screenshot(PICTURES / name, scale=0.6)
    shown.close()


RARE = {"rare": ["job 3", "job 4"], "job 0": ["job 0"]}


def test_a_model_of_outcomes_is_judged_by_its_outcomes() -> None:
    model = ParityPostprocessor(LogisticRegression(), epsilon=0.05, cv=3, frontier=0, outcomes=RARE)
    model.fit(X[OLD], JOB[OLD], sensitive_features={"gender": GENDER[OLD]})
    new = {"gender": GENDER[NEW]}
    facts = model.report(None, X[NEW], JOB[NEW], sensitive_features=new).facts
    decided = model.predict(X[NEW])
    found = demographic_parity_difference(decided, sensitive_features=new, outcomes=RARE)
    assert facts["headline"]["difference"] == pytest.approx(found)
    assert facts["audit"]["families"][0]["classes"] == list(RARE)
    assert facts["model"]["promise"]["measured"] == pytest.approx(found)
    assert criterion(facts, "Demographic parity of outcomes", "gender")["found"] == found


def test_a_bound_on_error_rates_is_named_and_needs_true_classes() -> None:
    given = {"criterion": "equalized_odds", "epsilon": 0.1, "cv": 3, "frontier": 0}
    model = ParityPostprocessor(LogisticRegression(), **given)
    groups = {"gender": GENDER[OLD]}, {"gender": GENDER[NEW]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotFairWarning)
        model.fit(X[OLD], JOB[OLD], sensitive_features=groups[0])
    report = model.report(None, X[NEW], JOB[NEW], sensitive_features=groups[1])
    page = report.to_markdown()
    assert "on equalized odds is" in page.splitlines()[0] and "comparisons" in page.splitlines()[0]
    assert "no bound was asked" not in page and "| equalized odds \\| job 0 |" in page
    blind = model.report(None, X[NEW], sensitive_features=groups[1])
    assert blind.facts["model"]["asked"] is None and blind.facts["model"]["accuracy"] is None
    assert "true class" in blind.facts["model"]["promise"]["said"]


def test_names_of_blanks_are_named_and_groups_below_their_family_are_short() -> None:
    names = np.where(JOB == "job 0", "", np.where(JOB == "job 1", " ", JOB))
    page = predictions_report(names, sensitive_features={"gender": GENDER, "origin": ORIGIN})
    html = page.to_html()
    assert "(empty)" in html and "(blank)" in html
    assert '<th scope="col">women<span>' in html and "gender=women" in html


LISTS = """[...document.querySelectorAll('table:not(.heat)')].map(each => {
  const rows = [...each.tBodies[0].rows];
  const shown = rows.filter(row => getComputedStyle(row).display !== 'none');
  return [rows.length, shown.length, getComputedStyle(each.caption, '::after').content];
})"""


def test_long_lists_print_their_first_rows_and_say_so(
    chromium: browser.Browser, tmp_path: Path
) -> None:
    town, job = (
        RNG.choice([f"{name} {k}" for k in range(n)], N) for name, n in (("town", 24), ("job", 16))
    )
    report = predictions_report(job, sensitive_features={"town": town}, n_permutations=0, n_boot=0)
    report.save(tmp_path / "wide.html")
    page = chromium.open((tmp_path / "wide.html").as_uri())
    on_screen = page.evaluate(LISTS)
    assert [shown for _, shown, _ in on_screen] == [rows for rows, _, _ in on_screen]
    page.send("Emulation.setEmulatedMedia", media="print")
    printed = page.evaluate(LISTS)
    assert max(rows for rows, _, _ in printed) == 24 * 16
    for rows, shown, said in printed:
        assert shown == min(rows, 40) and ("Printed: the first 40 rows" in said) == (rows > 40)
    last = "th[aria-sort=ascending]"
    ratios = (
        f"[...document.querySelector('{last}').closest('table').tBodies[0].rows].map(row =>"
        " row.lastElementChild.textContent)"
    )
    listed = [float(each) for each in page.evaluate(ratios)]
    assert listed == sorted(listed)
    page.close()
