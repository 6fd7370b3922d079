"""The page: generated from committed results, cells and verdicts computed again by other means,
pictures that say what rows say.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from problems import parity_of

import r2b
from experiments import NAMES, coco, find, paper_numbers
from experiments.adult_page import SETTINGS, bold_there
from experiments.claims import (
    FAILS,
    HOLDS,
    NOT_RUN,
    PARTLY,
    STAND_IN,
    VERDICTS,
    all_claims,
    counted,
    section,
)
from experiments.figures import Picture
from experiments.guarantee import COUNTEREXAMPLE, Counterexample
from experiments.journal import results_path
from experiments.paper_numbers import Value
from experiments.report import page_of, results_of
from experiments.tables import Cell, beside, boldface, cell, lower, paired, verdict
from r2b.errors import ParameterError
from r2b.metrics import generalization_bound

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
PAGE = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def results() -> Any:
    if not results_path(RESULTS, "adult").exists():
        pytest.skip("the results files are not part of this distribution")
    return results_of(RESULTS)


def test_the_page_and_its_figures_are_what_the_results_files_say(results: Any) -> None:
    assert page_of(RESULTS) == PAGE
    for name, rows in results.items():
        drawn = find(name).figures(rows)
        stored = {path.name for path in RESULTS.glob(f"{name}-*.svg")}
        assert stored == {f"{name}-{stem}.svg" for stem in drawn}
        for stem, picture in drawn.items():
            assert_shows(picture, (RESULTS / f"{name}-{stem}.svg").read_text(encoding="utf-8"))


def assert_shows(picture: Picture, drawing: str) -> None:
    """Compare the numbers that a drawing says it shows, and every text in it: what no version of
    matplotlib changes.
    """
    root, kind = ElementTree.fromstring(drawing), "{http://www.w3.org/2000/svg}"
    references = set(re.findall(r'(?:url\(#|href="#)([^)"]*)', drawing))
    assert references <= {str(part.get("id")) for part in root.iter()}
    [said] = root.findall(f"{kind}desc")
    assert said.text == picture.facts
    texts = {"".join(text.itertext()) for text in root.iter(f"{kind}text")}
    series = [each for panel in picture.panels for each in panel.series]
    dots = {str(place) for each in series for place, *_ in each.points}
    names = dots if picture.along is None else {each.name for each in series if each.points}
    titles = {title for each in picture.panels for title in (each.title, each.value.title) if title}
    assert {picture.title, *names, *titles} <= texts


# Cells and verdicts.


def frame(name: str, **wanted: object) -> Any:
    """Read rows from the file alone, by pyarrow and pandas."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(RESULTS / f"{name}.parquet").to_pandas()
    for column, value in wanted.items():
        table = table[table[column].isna() if value is None else table[column] == value]
    return table


def interval(values: Any) -> tuple[float, float]:
    from scipy import stats

    return values.mean(), stats.sem(values) * stats.t.ppf(0.995, len(values) - 1)


def table_cell(page: str, heading: str, begins: tuple[str, ...], column: str) -> str:
    """Find a cell: the first table below a heading that has the column, the line that begins so."""
    head: list[str] = []
    for line in page[page.index(heading) :].splitlines():
        cells = [part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells or not head:
            head = cells
        elif column in head and tuple(cells[: len(begins)]) == begins:
            return cells[head.index(column)]
    raise AssertionError((heading, begins, column))


PLAIN = {"features": "mixed", "order": "education-num", "repair": "columns"}
TABLE_1 = {
    "parity": "### Disparity of the predictions, % (Table 1)",
    "top_1": "### Accuracy, % (Table 1)",
}
ON_ADULT = [
    ("parity", "forest per class", "OST", 0.0, "rf", None),
    ("parity", "kNN", "R2B", 0.5, "knn", None),
    ("parity", "forest", "BL", 0.0, "rf classifier", None),
    ("parity", "kNN", "HTO", 0.0, "knn", "kept"),
    ("top_1", "forest per class", "DPR", 0.5, "rf", None),
    ("top_1", "forest", "R2B", 0.5, "rf classifier", "kept"),
]
HIDDEN = "### Learners that do not see the attribute"
SMALL = {"features": 10, "classes": 4, "per_class": 1_000, "learner": "knn", "attribute": "hidden"}
CELLS = [
    *(
        (
            "reproduction",
            (TABLE_1[measure], (f"{p:g}", spoken, "48,842" if missing else "45,222"), method),
            "adult",
            measure,
            {**PLAIN, "p": p, "learner": learner, "method": method, "missing": missing},
        )
        for measure, spoken, method, p, learner, missing in ON_ADULT
    ),
    (
        "reproduction",
        ("**p = 0.5.**", ("R2B",), "disparity"),
        "coco",
        "parity",
        {"p": 0.5, "method": "R2B"},
    ),
    (
        "reproduction",
        ("**p = 0.**", ("DPR",), "accuracy"),
        "coco",
        "tv_accuracy",
        {"p": 0.0, "method": "DPR"},
    ),
    (
        "synthetic",
        (HIDDEN, ("kNN", "10", "4", "1,000"), "HTO"),
        "synthetic",
        "parity",
        {**SMALL, "method": "HTO"},
    ),
    (
        "guarantee",
        ("## Proposition 2", ("Adult", "forest"), "bound as printed"),
        "guarantee",
        "printed",
        {"data": "Adult", "learner": "rf"},
    ),
    (
        "dermatology",
        ("**Fair scores, fitted", ("R2B exact",), "top-1, %"),
        "dermatology",
        "top_1",
        {"table": "ham10000", "use": "scores", "method": "Exact"},
    ),
]


@pytest.mark.parametrize(("page", "place", "name", "measure", "wanted"), CELLS)
def test_a_cell_follows_from_the_results_file(page, place, name, measure, wanted, results):
    text = PAGE if page == "reproduction" else (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    said = table_cell(text, *place).replace("**", "")
    mean, half = interval(100 * frame(name, **wanted)[measure].to_numpy())
    assert said.split(" (")[0] == f"{mean:.1f} ± {half:.1f}"


def finding(results, part):
    [claim] = [claim for claim in all_claims() if part in claim.sentence]
    return claim.finding(results)


def gap(table, measure, one, other):
    """Return the mean and the half width of the paired difference, in points."""
    by_seed = [table[table.method == method].set_index("seed")[measure] for method in (one, other)]
    return interval(100 * (by_seed[0] - by_seed[1]).dropna().to_numpy())


def test_paired_verdicts_follow_from_the_results_files(results):
    adult = frame("adult", missing=None)
    adult = [rows for key, rows in adult.groupby(["p", "learner"]) if key[1] != "rf classifier"]
    synthetic = frame("synthetic", attribute="hidden")
    shapes = synthetic.groupby(["learner", "features", "classes", "per_class"])
    settings = [*adult, *(rows for _, rows in shapes)]
    assert len(settings) == 40
    others = ("BL", "DPR", "OST", "HTO", "R2B0")
    gaps = [[gap(rows, "parity", "R2B", other) for other in others] for rows in settings]
    level = sum(not any(mean > half for mean, half in each) for each in gaps)
    won = [all(mean + half < 0 for mean, half in each) for each in gaps]
    found = finding(results, "at least as well as the other baselines")
    assert f"no method is lower in {level} of 40 settings" in found.evidence
    assert found.verdict == PARTLY
    found = finding(results, "it outperforms other baselines")
    assert found.evidence.startswith(f"{sum(won)} of 40 settings") and found.verdict == PARTLY
    found = finding(results, "In most cases")
    assert f"others in {sum(won[:4])} of 4 settings" in found.evidence
    assert (found.verdict == HOLDS) == (sum(won[:4]) > 2)
    near = [(-mean, half) for each in gaps for mean, half in (each[2], each[4])]
    level = sum(mean + half < 1.0 for mean, half in near)
    found = finding(results, "competitive results in most")
    assert f"level with R2B in {level} of {len(near)} comparisons" in found.evidence
    unclear = sum(mean <= half for mean, half in near)
    assert f"without a clear difference in {unclear}" in found.evidence
    assert found.verdict == FAILS and level < len(near) / 2
    found = finding(results, "we do not observe an increase in error parity")
    skin = frame("dermatology", table="ham10000", use="scores")
    mean, half = gap(skin, "error_parity", "R2B", "BL")
    assert f"HAM10000 +{mean:.1f} ± {half:.1f} (stand-in)" in found.evidence
    assert mean > half and found.verdict == PARTLY


def test_every_claim_has_a_verdict_and_rows_to_show_for_it(results):
    claims = all_claims()
    assert len({(claim.where, claim.sentence) for claim in claims}) == len(claims) >= 50
    for claim in claims:
        assert set(claim.sources) <= set(NAMES)
        found = claim.finding(results)
        assert found.verdict in VERDICTS and found.verdict != NOT_RUN, (claim.sentence, found)
        assert found.evidence
    assert {claim.finding({}).verdict for claim in claims if claim.sources} == {NOT_RUN}
    for part in ("COCO: 22,616", "much better than DPR", "better overall", "Dermatology"):
        assert finding(results, part).verdict == STAND_IN
    # A bar in a claim does not end its cell.
    rows = [line for line in section(results).splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {4}


def test_other_rows_get_another_verdict(results):
    worse = [
        {**row, "round_100": row["epsilon"] + row["round_0"] + 0.01} for row in results["rounds"]
    ]
    assert finding({**results, "rounds": worse}, "converges to the minimum").verdict == FAILS
    much = [{**row, "parity": 1.0} if row["method"] == "R2B" else row for row in results["adult"]]
    assert finding({**results, "adult": much}, "In most cases").verdict == FAILS
    assert [counted(n, 3, "").verdict for n in (3, 2, 0)] == [HOLDS, PARTLY, FAILS]


@pytest.mark.parametrize("counts", [(380, 610), (350, 650), (400, 560)])
def test_the_counterexample_debiases_as_the_package_does(counts):
    """f is fixed, so its labels debiased with epsilon 0 and its own bound come from the package."""
    n = 1_000
    f = np.concatenate([np.arange(n) < count for count in counts]).astype(int)
    groups = np.repeat([0, 1], n)
    fair = r2b.debias(f, sensitive_features=groups, epsilon=0.0).soft_labels
    assert parity_of(fair, groups).max() < 1e-9
    bound = generalization_bound(
        fair, np.eye(2)[f], sensitive_features=groups, complexity=0.0, delta=1e-4
    )
    case = Counterexample(n)
    assert bound.fit_gap == pytest.approx(case.fit_gap()[counts], abs=1e-9)
    assert bound.confidence == pytest.approx(case.root)
    assert (bound.printed < case.disparity) == (counts == (400, 560))
    assert bound.proven > case.disparity


def test_proposition_2_as_printed_fails_more_often_than_delta():
    from scipy.stats import binom

    case, counts = COUNTEREXAMPLE, np.arange(1_001)
    assert (case.n, case.low, case.high, case.delta) == (1_000, 0.35, 0.65, 1e-4)
    chance = np.outer(binom.pmf(counts, 1_000, 0.35), binom.pmf(counts, 1_000, 0.65))
    printed = chance[2 * case.fit_gap() + case.root < 0.3].sum()
    assert printed == pytest.approx(1.449e-4, rel=1e-3)
    assert case.failure("printed") == pytest.approx(printed) and printed > case.delta
    assert case.failure("proven") < 1e-11


# Tables.


def test_verdicts_follow_their_definition() -> None:
    paper = Value(3.8, 0.2)
    # 0.1 of ours, 0.2 of the paper's, 0.05 of its rounding.
    words = [verdict(Cell(mean, 0.1, 10), paper).split()[1] for mean in (3.46, 3.44, 4.14, 4.16)]
    assert words == ["overlap", "apart", "overlap", "apart"]
    assert verdict(Cell(50.3, 0.3, 10), Value(48.0)) == "intervals apart"
    assert beside(Cell(3.75, 0.12, 10), paper) == "3.8 ± 0.1 (3.8 ± 0.2) ✓"
    assert beside(Cell(3.75, 0.12, 10), Value(4.4, 0.1), bold=True) == "**3.8 ± 0.1** (4.4 ± 0.1) ✗"


def test_boldface_is_the_papers_own() -> None:
    # Table 1 prints DPR, R2B, R2B, R2B in bold, Table 2 R2B twice.
    assert [bold_there(p, learner) for p, learner in SETTINGS] == ["DPR", "R2B", "R2B", "R2B"]
    for p in (0.0, 0.5):
        printed = [
            {m: coco.PAPER[measure, p, m] for m in paper_numbers.METHODS}
            for measure in ("parity", "tv_accuracy")
        ]
        assert boldface(*printed) == "R2B"
    parity = {"A": Cell(1.0, 0.2, 10), "B": Cell(1.3, 0.2, 10), "C": Cell(1.6, 0.3, 10)}
    accuracy = {"A": Cell(30.0, 1.0, 10), "B": Cell(31.0, 1.0, 10), "C": Cell(40.0, 1.0, 10)}
    assert boldface(parity, accuracy) == "B"


def test_intervals_are_students_and_paired_differences_leave_out_what_splits_share() -> None:
    from scipy import stats

    values = [0.11, 0.13, 0.12, 0.16]
    found = cell([{"m": value} for value in values], "m", scale=1.0)
    low, high = stats.t.interval(0.99, 3, loc=0.13, scale=stats.sem(values))
    assert (found.mean, found.half_width) == pytest.approx((0.13, (high - low) / 2), rel=1e-4)
    one = [{"seed": seed, "m": seed / 10 + 0.01} for seed in range(10)]
    other = [{"seed": seed, "m": seed / 10 + 0.02 * (seed % 2)} for seed in (*range(9, -1, -1), 11)]
    gap = paired(one, other, "m")
    assert (gap.seeds, gap.mean) == (10, pytest.approx(0.0))
    assert gap.half_width == pytest.approx(1.083, rel=1e-3)
    assert not lower(gap) and lower(Cell(-2.0, 1.9, 10))
    with pytest.raises(ParameterError, match="'m'"):
        paired(one, [{"seed": 99, "m": 0.1}], "m")


# Pictures.
