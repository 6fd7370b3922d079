"""What the page says of the paper: cells and verdicts computed again from the results files, by other means."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from experiments import MODULES
from experiments.adult_page import section as adult_section
from experiments.claims import FAILS, HOLDS, NOT_RUN, PARTLY, UNTESTED, all_claims, counted, section
from experiments.convergence_page import section as convergence_section
from experiments.journal import read_results, results_path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
PAGE = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.skipif(
    not results_path(RESULTS, "adult").exists(),
    reason="the results files are not part of this distribution",
)


@pytest.fixture(scope="module")
def results():
    return {
        name: read_results(results_path(RESULTS, name))
        for name in MODULES
        if results_path(RESULTS, name).exists()
    }


def table_cell(heading: str, begins: tuple[str, ...], column: str) -> str:
    """Find a cell of the page: the first table below a heading that has the column, the line that begins so."""
    lines = PAGE[PAGE.index(f"\n{heading}\n") :].splitlines()
    head: list[str] = []
    for line in lines:
        cells = [part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            head = []
        elif not head:
            head = cells
        elif column in head and tuple(cells[: len(begins)]) == begins:
            return cells[head.index(column)]
    raise AssertionError((heading, begins, column))


def from_file(name: str, measure: str, **wanted: object) -> str:
    """Average a measure with its 99 % interval from the file alone, by pyarrow and scipy."""
    import pyarrow.parquet
    from scipy import stats

    table = pyarrow.parquet.read_table(RESULTS / f"{name}.parquet").to_pandas()
    for column, value in wanted.items():
        table = table[table[column].isna() if value is None else table[column] == value]
    values = 100 * table[measure].to_numpy()
    half = stats.sem(values) * stats.t.ppf(0.995, len(values) - 1)
    return f"{values.mean():.1f} ± {half:.1f}"


LEARNERS = {"rf": "forest", "knn": "kNN"}


def on_adult(heading, p, learner, column, measure, method):
    wanted = {
        "features": "mixed",
        "order": "education-num",
        "repair": "columns",
        "p": p,
        "learner": learner,
        "method": method,
    }
    return "adult", f"### {heading}", (f"{p:g}", LEARNERS[learner]), column, measure, wanted


def on_synthetic(column, method):
    wanted = {
        "features": 10,
        "classes": 4,
        "per_class": 1_000,
        "learner": "knn",
        "attribute": "hidden",
        "method": method,
    }
    return (
        "synthetic",
        "### Learners that do not see the attribute",
        ("kNN", "10", "4", "1,000"),
        column,
        "parity",
        wanted,
    )


CELLS = [
    on_adult("Parity of the predictions, % (Table 1)", 0.0, "rf", "OST", "parity", "OST"),
    on_adult("Parity of the predictions, % (Table 1)", 0.5, "knn", "R2B", "parity", "R2B"),
    on_adult(
        "Parity of the predictions, % (Table 1)", 0.0, "knn", "visible groups", "parity", "Visible"
    ),
    on_adult("Accuracy, % (Table 1)", 0.5, "rf", "DPR", "top_1", "DPR"),
    on_adult("Top-2 accuracy, % (Table 5)", 0.5, "rf", "R2B, mean pinned", "top_2", "R2B pinned"),
    on_adult("Top-3 accuracy, % (Table 5)", 0.0, "knn", "R2B, 1 round", "top_3", "R2B1"),
    on_adult("Error parity, % (Table 4)", 0.5, "knn", "BL", "error_parity", "BL"),
    on_synthetic("HTO", "HTO"),
    on_synthetic("visible groups", "Visible"),
    (
        "coco",
        "### 80 classes",
        ("0.5",),
        "R2B",
        "parity",
        {"person": True, "p": 0.5, "method": "R2B"},
    ),
    (
        "guarantee",
        "## Proposition 2",
        ("Adult", "forest"),
        "bound as printed",
        "printed",
        {"data": "Adult", "learner": "rf"},
    ),
]


@pytest.mark.parametrize(("name", "heading", "begins", "column", "measure", "wanted"), CELLS)
def test_a_cell_of_the_page_follows_from_the_results_file(
    name, heading, begins, column, measure, wanted
):
    if not results_path(RESULTS, name).exists():
        pytest.skip("not run")
    said = table_cell(heading, begins, column).replace("**", "")
    assert said.split(" (")[0] == from_file(name, measure, **wanted)


def test_the_table_of_tau_is_that_of_the_results(results):
    said = convergence_section(results["convergence"])
    table = said[said.index("| tau |") : said.index("### By round")].strip()
    assert table in (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


def test_every_claim_has_a_verdict_and_rows_to_show_for_it(results):
    claims = all_claims()
    assert len(claims) >= 50
    assert len({(claim.where, claim.sentence) for claim in claims}) == len(claims)
    for claim in claims:
        assert set(claim.sources) <= set(MODULES)
        found = claim.finding(results)
        assert found.verdict in (HOLDS, PARTLY, FAILS, UNTESTED), (claim.sentence, found)
        assert found.evidence
    assert {claim.finding({}).verdict for claim in claims if claim.sources} == {NOT_RUN}


def finding(results, part):
    [claim] = [claim for claim in all_claims() if part in claim.sentence]
    return claim.finding(results)


def test_verdicts_are_what_the_rows_say(results):
    free = [row for row in results["rounds"] if row["target"] is None]
    near = sum(abs(row["round_100"] - min(row["epsilon"], row["round_0"])) <= 1e-3 for row in free)
    assert finding(results, "converges to the minimum").evidence.startswith(
        f"{near} of {len(free)} "
    )
    means = {}
    for row in results["adult"]:
        means.setdefault((row["p"], row["learner"], row["method"]), []).append(row["parity"])
    paper = ("BL", "DPR", "OST", "HTO", "R2B0", "R2B")
    won = sum(
        min(paper, key=lambda m: np.mean(means[p, learner, m])) == "R2B"
        for p in (0.0, 0.5)
        for learner in ("rf", "knn")
    )
    assert f"in {won} of 4 settings" in finding(results, "In most cases").evidence
    after = max(
        row["divided"]
        for row in results["normalising"]
        if (row["kind"], row["method"]) == ("labels", "OST")
    )
    assert (
        f"{after:.3f} at most on the paper's data"
        in finding(results, "reduced to less than 0.01").evidence
    )


def test_other_rows_get_another_verdict(results):
    worse = [
        {**row, "round_100": row["epsilon"] + row["round_0"] + 0.01} for row in results["rounds"]
    ]
    assert finding({**results, "rounds": worse}, "converges to the minimum").verdict == FAILS
    unfair = [{**row, "parity": 1.0} if row["method"] == "R2B" else row for row in results["adult"]]
    assert finding({**results, "adult": unfair}, "In most cases").verdict == FAILS
    above = [{**row, "parity": 2.0} for row in results["guarantee"]]
    assert (
        finding({**results, "guarantee": above}, "with a probability of at least").verdict == FAILS
    )


def test_counts_become_verdicts():
    assert [counted(n, 3, "").verdict for n in (3, 2, 0)] == [HOLDS, PARTLY, FAILS]


def test_a_bar_in_a_claim_does_not_end_its_cell(results):
    rows = [line for line in section(results).splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {6}


def test_numbers_in_the_words_on_adult_are_those_of_the_rows(results):
    words = adult_section(results["adult"])
    assert "{" not in words
    choices = results["adult_choices"]

    def mean(measure, **wanted):
        found = [
            row[measure]
            for row in choices
            if all(row.get(key) == value for key, value in wanted.items())
        ]
        return f"{100 * np.mean(found):.1f}"

    pinned = mean(
        "error_parity", p=0.5, learner="knn", method="R2B pinned", labels="soft", ties=None
    )
    assert f"has the paper's error parity ({pinned}," in words
    plain = {"order": "education-num", "method": "BL", "learner": "rf"}
    assert (
        f"raises the baseline's to {mean('parity', features='without income', p=0.0, **plain)};"
        in words
    )
    assert (
        f"brings the forest's to {mean('error_parity', features='ordinal', p=0.5, **plain)} and"
        in words
    )
    texts = [
        mean("parity", repair="texts", p=p, learner=learner, method="DPR")
        for p in (0.0, 0.5)
        for learner in ("rf", "knn")
    ]
    assert f"(parities {', '.join(texts[:3])} and {texts[3]})" in words
