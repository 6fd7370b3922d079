"""Write docs/models.md and its figure from models.json and geg.json of benchmarks/results.

``python -m benchmarks.models`` and ``python -m benchmarks.geg`` make the results.

``python scripts/make_models_page.py`` writes them; ``--check`` only says whether they are what
would be written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median, stdev
from textwrap import fill

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from models_figure import Report, Row, figure  # noqa: E402 - after the path

from benchmarks.models_judge import Duel, Verdict, duels, extremes, mean, verdicts  # noqa: E402
from experiments.figures import update  # noqa: E402
from experiments.tables import markdown  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "models.json"
GEG = RESULTS.with_name("geg.json")
PAGE = ROOT / "docs" / "models.md"
PICTURE = ROOT / "docs" / "images" / "models.svg"
NOTHING = "-"
MEASURES = (
    "probabilities",
    "probabilities_chance",
    "decisions",
    "decisions_chance",
    "accuracy",
    "drawn",
)
BEST = (False, None, False, None, True, True, False)  # of them and of seconds: the largest?
ORDER = (
    "plain",
    "labels by true group",
    "labels by visible group",
    "ParityClassifier",
    "ParityPostprocessor",
    "ParityPostprocessor, attribute given",
    "LinearPost",
    "LinearPost, calibrated",
    "FairProjection",
    "ExponentiatedGradient",
    "ThresholdOptimizer, attribute given",
)

HEAD = """# Fair models, measured

What parity costs a model in accuracy, for decisions and for probabilities, on rows that no method
has seen: ours beside other methods, and first where the others are better. Made by
`scripts/make_models_page.py` from `benchmarks/results/models.json` and `geg.json`; do not edit it
by hand. In all tables **bold** marks the best value, whoever has it: the least disparity, the most
accuracy, the least time.
"""

RUN = """## This run

{splits} of at most {rows:,} rows of a table, two thirds of them to train on: {minutes:.0f} minutes
of one processor. Versions: {versions}.
{left_out}
    make bench-models                                              # ten splits; MODELS='--splits 3 --rows 6000' for less
    python -m benchmarks.models --linearpost FOLDER                # beside LinearPost: the folder that holds its postprocess.py
    python -m benchmarks.models --fairprojection FOLDER --fairprojection-python PYTHON    # its coreMP.py; a Python with TensorFlow
    R2B_DATA=FOLDER python -m benchmarks.models --tables compas students diagnosis-age    # tables that are not part of the package
    python -m benchmarks.geg --folder FOLDER                       # GEG's tables: the folder experiments of its repository

![Accuracy against disparity of decisions](images/models.svg)
"""

HOW = """## What is compared

| method | what it is | attribute at prediction |
| --- | --- | --- |
| plain | the learner on the labels as they came; the most probable class | no |
| labels by true group | `ParityClassifier(groups="given", decisions="likeliest")`: the paper | no |
| labels by visible group | the learner that `ParityClassifier` trains on labels fair by visible groups, without prices | no |
| ParityClassifier | as it comes: epsilon 0, visible groups, prices that unseen rows choose | no |
| ParityPostprocessor | as it comes: the plain learner, prices that unseen rows choose | no |
| ..., attribute given | the same with `attribute="given"` | yes |
| LinearPost | a linear programme over all rows and classes, solved by HiGHS; its default tolerance of 0.001 | no |
| LinearPost, calibrated | the same after sigmoids for each class and group, as in its notebooks | no |
| FairProjection | projection of the probabilities in relative entropy, by ADMM | no |
| ExponentiatedGradient | fairlearn's reduction, two classes | no |
| ThresholdOptimizer | fairlearn's thresholds per group, two classes | yes |

## How it was measured

- **Disparity** is the largest difference between two true groups in the mean of any class, on the
  test rows. **By chance** is its mean when the groups of the test rows are permuted, or of the
  lesions where rows belong to lesions. All figures are means over splits, in percent.
- The table of diagnoses by age is here because it has three groups. Illness depends on age, so
  equal shares of diagnoses at all ages are not a goal to recommend; compare within age instead,
  with control features.
- **Accuracy** is that of decisions. **Drawn** is the chance that a class drawn from the
  probabilities is right.
- **Seconds** are of the processor, of training and prediction. Fits that methods have in common are
  made once and charged to each. Those of FairProjection contain a process of its own, in which
  TensorFlow is loaded.
- **Learners** are small: logistic regression, LightGBM with 30 trees of 15 leaves, and with
  `--learners "random forest"` one of 20 trees of depth 8. None has the attribute among its
  features.
- LinearPost and FairProjection are handed the same scores and the same predictions of the group as
  ours, by the same learner, out of fold.
- Adult has the 45,222 rows without a question mark. HAM10000 has 24 picture features; pictures of
  one lesion stay on one side of a split and in one fold. Ages are under 45, 45 to 64, and 65 and
  over. COMPAS, students (Open University) and the Dutch census are those of
  `benchmarks/small_groups.py`, their attributes crossed, without groups of fewer than 150 rows; the
  synthetic table is made there.
"""

OF_GEG = """## GEG's tables

GEG (Generalized Exponentiated Gradient) makes models fair for one positive class and two groups.
These are its seven public data sets, its ten folds, its learner (logistic regression as it comes)
and its measures; the columns of GEG and DEMV are what its repository publishes. Ours is
`ParityPostprocessor(attribute="given")` at epsilon 0 for that class; GEG has the attribute among
its features. In percent: means over folds of accuracy and of the absolute differences between the
two groups in the positive class, *disparity* in its share and *odds* in the mean of its true and
false positive rates. *both* bounds all of them; there GEG accepts differences of 5.
"""


def results() -> Report:
    found: Report = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def percent(row: Row, measure: str) -> str:
    return f"{100 * mean(row, measure):.1f}" if measure in row else NOTHING


def with_bold(columns: Sequence[Sequence[str]], largest: Sequence[bool | None]) -> list[list[str]]:
    """Set the best number of each column in bold: the largest, the smallest, or none."""
    found = []
    for cells, high in zip(columns, largest, strict=True):
        numbers = [float(cell) for cell in cells if cell != NOTHING]
        best = None if high is None or not numbers else (max if high else min)(numbers)
        found.append(
            [f"**{cell}**" if cell != NOTHING and float(cell) == best else cell for cell in cells]
        )
    return found


def table_lines(report: Report, facts: Row) -> list[str]:
    """Write the figures of one table, learner after learner."""
    head = [
        "learner",
        "method",
        "probabilities",
        "by chance",
        "decisions",
        "by chance",
        "accuracy",
        "drawn",
        "seconds",
    ]
    rows = [
        row for row in report["rows"] if row["table"] == facts["name"] and row["method"] in ORDER
    ]
    splits, body = max(len(row["splits"]) for row in rows), []
    for learner in dict.fromkeys(row["learner"] for row in rows):
        here = sorted(
            (row for row in rows if row["learner"] == learner),
            key=lambda row: ORDER.index(row["method"]),
        )
        columns = [[percent(row, name) for row in here] for name in MEASURES]
        spent = [f"{mean(row, 'seconds'):.1f}" if "seconds" in row else NOTHING for row in here]
        cells = zip(*with_bold([*columns, spent], BEST), strict=True)
        for place, (row, values) in enumerate(zip(here, cells, strict=True)):
            fewer = f" ({count(len(row['splits']))})" if len(row["splits"]) < splits else ""
            name = row["method"] + fewer if row["splits"] else f"{row['method']}: {row['status']}"
            body.append([learner if place == 0 else "", name, *values])
    size = (
        f"{facts['rows']:,} rows, {facts['features']} features, {facts['classes']} classes,"
        f" {facts['groups']} groups; {count(splits)}."
    )
    # of both parts of a split
    drawn = min(1.0, report["setting"]["rows"] / facts["rows"]) * facts["smallest_rows"]
    share = report["setting"]["test_share"]
    parts = f"{drawn * (1 - share):,.0f} rows to train on and {drawn * share:,.0f} to measure on"
    small = f"The smallest group, {facts['smallest']}, has about {parts}."
    return [f"### {facts['title']}", "", size, small, "", markdown(head, body), ""]


def count(splits: int) -> str:
    return f"{splits} split{'s' if splits != 1 else ''}"


def named(report: Report, one: Verdict) -> str:
    titles = {facts["name"]: facts["title"] for facts in report["setting"]["tables"]}
    return (
        f"{titles[one.table]}, {one.learner}: {100 * one.value:.1f} (limit {100 * one.limit:.1f})"
    )


def verdict_lines(report: Report) -> list[str]:
    """Say what holds, the worst beside the best, and name everything that is missed."""
    judged = verdicts(report["rows"])
    head = ["method", "what, in percent", "hold", "worst", "best"]
    body = [
        [worst.method, worst.what, f"{holding} of {n}", named(report, worst), named(report, best)]
        for worst, best, holding, n in extremes(judged)
    ]
    missed = [
        f"- {one.method}, {one.what}: {named(report, one)}." for one in judged if not one.holds
    ]
    rule = [
        (
            "Limits: disparity at most 1.5 times chance plus 0.3 points for probabilities and 0.5"
            " points for decisions; accuracy at most 0.3"
        ),
        (
            "points below LinearPost's at LinearPost's disparity, read off the path of"
            " `ParityPostprocessor` along epsilons."
        ),
    ]
    n_missed = sum(not one.holds for one in judged)
    said = (
        ["All of them hold."]
        if not missed
        else [f"Missed, {n_missed} of {len(judged)}:", "", *missed]
    )
    return ["## What holds", "", *rule, "", markdown(head, body), "", *said, ""]


def loss_lines(report: Report, geg: list[Row]) -> list[str]:
    """Say where a rival is better, before anything else."""
    every = duels(report["rows"])
    lost, won = [one for one in every if one.lost], sum(one.won for one in every)
    lost.sort(key=lambda one: one.ours[1] - one.theirs[1] + one.theirs[0] - one.ours[0])
    titles = {facts["name"]: facts["title"] for facts in report["setting"]["tables"]}

    def shown(one: Duel) -> list[str]:
        numbers = [f"{100 * value:.2f}" for pair in (one.theirs, one.ours) for value in pair]
        return [titles[one.table], one.learner, one.rival, *numbers]

    unsure = " and ".join(
        f"{100 * standard_error(report['rows'], each):.1f} points of {name}"
        for each, name in (("decisions", "disparity"), ("accuracy", "accuracy"))
    )
    said = [
        (
            f"Of {len(every)} comparisons of decisions with another method that knows as much at"
            " prediction (disparity and accuracy, means over"
        ),
        (
            f"splits), the other method is better in one and worse in neither in {len(lost)}, and"
            f" ours in {won}; in the others each is better in one."
        ),
        (
            f"Such a mean has a standard error of {unsure} (medians), so that small differences say"
            " little."
        ),
        "",
    ]
    head = [
        "table",
        "learner",
        "better method",
        "disparity",
        "accuracy",
        "our disparity",
        "our accuracy",
    ]
    if lost:
        said += [markdown(head, list(map(shown, lost))), ""]
    for what, measures in CRITERIA.items():
        names = sorted({row["table"] for row in geg})
        pairs = {
            name: [geg_values(geg, name, f"{who}, {what}", measures) for who in ("GEG", "r2b")]
            for name in names
        }
        better = [name for name, (theirs, ours) in pairs.items() if dominates(theirs, ours)]
        beaten = [name for name, (theirs, ours) in pairs.items() if dominates(ours, theirs)]
        if names:
            sentence = (
                f"- On GEG's tables, {what}: GEG is better in one measure and worse in none on "
                f"{listed(better)}, ours on {listed(beaten)}."
            )
            said.append(fill(sentence, 140, subsequent_indent="  "))
    return ["## Where other methods are better", "", *said, ""]


def standard_error(rows: list[Row], measure: str) -> float:
    """Return the median standard error of means over splits."""
    known = [row[measure] for row in rows if len(row.get(measure, ())) > 1]
    return float(median([stdev(each) / len(each) ** 0.5 for each in known] or [0.0]))


def listed(names: Sequence[str]) -> str:
    return f"{len(names)} of 7 ({', '.join(names)})" if names else "none of 7"


def dominates(one: Sequence[float], two: Sequence[float]) -> bool:
    """Whether accuracy, then disparities, are nowhere worse and somewhere better."""
    gains = [one[0] - two[0], *(b - a for a, b in zip(one[1:], two[1:], strict=True))]
    return min(gains) >= 0 and max(gains) > 0


CRITERIA = {
    "parity": ("accuracy", "statistical_parity"),
    "odds": ("accuracy", "average_odds"),
    "both": ("accuracy", "statistical_parity", "average_odds"),
}


def geg_values(rows: list[Row], name: str, method: str, measures: Sequence[str]) -> list[float]:
    (row,) = (row for row in rows if (row["table"], row["method"]) == (name, method))
    return [sum(map(abs, row[each])) / len(row[each]) for each in measures]


def geg_lines(rows: list[Row]) -> list[str]:
    """Write a table for each of GEG's three criteria."""
    if not rows:
        return []
    lines = [OF_GEG]
    for what, measures in CRITERIA.items():
        methods = ("plain", f"GEG, {what}", "DEMV", f"r2b, {what}")
        head = ["table", "measure", *(method.partition(",")[0] for method in methods)]
        body = []
        for name in dict.fromkeys(row["table"] for row in rows):
            found = [geg_values(rows, name, method, measures) for method in methods]
            for place, measure in enumerate(measures):
                values = [f"{100 * each[place]:.1f}" for each in found]
                (cells,) = with_bold([values], [measure == "accuracy"])
                title = {"statistical_parity": "disparity", "average_odds": "odds"}.get(
                    measure, measure
                )
                body.append([name if place == 0 else "", title, *cells])
        lines += [f"### {what.capitalize()}", "", markdown(head, body), ""]
    return lines


def page_of(report: Report, geg: list[Row] | None = None) -> str:
    """Write the page."""
    most = {len(row["splits"]) for row in report["rows"] if row["splits"]}
    splits = count(max(most)) + ("" if len(most) == 1 else ", fewer where a method says so,")
    left_out = "".join(
        f"\nLeft out: {name}, because {reason}.\n"
        for name, reason in report["setting"]["left_out"].items()
    )
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    minutes = sum(sum(row.get("seconds", ())) for row in report["rows"]) / 60
    facts = {"rows": report["setting"]["rows"], "versions": versions, "left_out": left_out}
    run = RUN.format(splits=splits, minutes=minutes, **facts)
    geg, parts = geg or [], [HEAD]
    parts += [*loss_lines(report, geg), run, *verdict_lines(report), *geg_lines(geg), HOW]
    shown = report["setting"]["tables"]
    tables = [line for each in shown for line in table_lines(report, each)]
    return "\n".join([*parts, "## All figures", "", *tables]).rstrip("\n") + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write or check."""
    report = results()
    geg = json.loads(GEG.read_text(encoding="utf-8"))["rows"] if GEG.exists() else []
    return update({PAGE: page_of(report, geg), PICTURE: figure(report)}, arguments)


if __name__ == "__main__":
    sys.exit(main())
