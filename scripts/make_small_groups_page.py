"""Write docs/small-groups.md from benchmarks/results/small_groups.json.

``python -m benchmarks.small_groups`` makes the results.

``python scripts/make_small_groups_page.py`` writes the page; ``--check`` only says whether it is
what would be written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from textwrap import fill
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from experiments.figures import update  # noqa: E402 - after the path
from experiments.tables import markdown  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "small_groups.json"
PAGE = ROOT / "docs" / "small-groups.md"
MEASURES = ("accuracy", "disparity", "spread")
Row = dict[str, Any]

HEAD = """# Small and many groups, measured

How close to parity are fair models where groups are small or many, and are their warnings right?
Measured in November 2026 on {n_tables} tables and {n_fits} fits of `ParityPostprocessor` as it
comes, with 2,000 and 6,000 rows to train on and up to 10,000 new rows. Made by
`scripts/make_small_groups_page.py` from `benchmarks/results/small_groups.json`; do not edit it by
hand.

    R2B_DATA=FOLDER python -m benchmarks.small_groups --splits {splits}       # its first lines say where the tables come from

"""
WHAT = """Learners are logistic regression and LightGBM (50 rounds). The plan was chosen on these
and other tables: {chosen}. *Held out* are {held}: they had no part in the choice of the plan, but
the fallbacks and the rule of the warning were settled with all tables in view. Attributes are
compared one by one; those of {crossed} are crossed. Equalized odds are measured at epsilon 0,
demographic parity at 0 and .05."""

PLANS = """## How closely small groups are followed

Offsets are the difference between the means of true and of predicted groups. Chance moves them,
with a standard deviation *sd* that depends on the rows of the group. `fit` takes *sd*² from the
square of each offset, so that an offset smaller than its *sd* does not count. It lets each mean be
off by *sd*/4 for each unit of its price, so that what is dear to correct is corrected less. Groups
with many rows aim 2 *sd* below epsilon, because new rows add as much. Where the result is less
accurate on unseen rows than the most frequent class, prices without offsets are tried, then bands
that are wider by *sd* (*wide*), and then every row gets that class.

Means over tables, learners and sizes at epsilon 0, demographic parity, in percent. *Disparity* is
the largest difference between groups of at least 300 new rows. *Spread* is the root mean square
distance of all groups from epsilon, less what chance explains. *No offsets* is the optimum of
LinearPost for the same scores. The last row is what `fit` returns.
"""

WARNINGS = """## What a warning can know

Let a group and the others have the same mean on the rows of `fit`, which prices see to. Their means
in the population then differ by chance, with the standard deviation *sd* of that difference on
these rows. No rows are left to say in which direction or how much: a fit cannot know more of new
rows than *sd*. `fit` therefore warns where *sd* is above .025 and twice epsilon, so that 3 of 5
normal draws are above epsilon, or where unseen rows show a disparity above epsilon by more than
chance explains, and its report never says less than *sd*.

So warned, {seen} of the fits whose new rows are above epsilon by more than chance had a warning. Of
these warnings, {wrong} named only groups that are within epsilon on new rows; but in {unsure} new
rows could not tell the disparity from chance. Both numbers cannot be good at once: new rows showed
more than chance in {base} fits at epsilon 0, and which of them is decided by the noise of the rows
that the prices were found on.
"""

LIMITS = """## What these figures cannot say

- New rows have chance of their own. On one of a hundred fair models a report has an entry above its
  chance level, and no warning of `fit` can foresee that.
- The more new rows there are, the smaller are the disparities that they show. With 2,000 rows to
  train on, prices are off by chance, and 10,000 new rows show it.
- `frontier_` is found and measured on halves of at most 4,000 rows, on which the largest disparity
  of all groups is mostly that of the smallest one. Its `chance` says how much.
- Probabilities in parity cannot be calibrated where groups differ: if the truth of two groups
  differs by d, equal means are d/2 off in each. The calibration error of the most probable class
  shows it.
"""


def fill_paragraphs(text: str) -> str:
    """Break the lines of paragraphs anew."""
    return "\n\n".join(
        each if each.startswith("#") else fill(" ".join(each.split()), 138)
        for each in text.strip().split("\n\n")
    )


def percent(number: float) -> str:
    return f"{100 * number:.1f}" if number == number else "-"


def share(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({100 * part / whole:.1f} %)" if whole else "")


def beyond(row: Row, entry: list[Any], new: int) -> bool:
    """Return whether new rows show an entry above epsilon by more than chance explains."""
    disparity, chance = entry[5 + new]
    return bool(disparity > row["epsilon"] + chance)


def means_of(rows: Sequence[Row], method: str) -> list[float]:
    """Return the means of the measures of a method over rows that have it."""
    found = [row["methods"][method] for row in rows if method in row["methods"]]
    kept = [[each[name] for each in found if each[name] == each[name]] for name in MEASURES]
    return [fmean(each) if each else float("nan") for each in kept]


def dominated(rows: Sequence[Row]) -> list[str]:
    """Return tables on whose mean prices without offsets are better in both respects."""
    found = []
    for name in dict.fromkeys(row["table"] for row in rows):
        here = [each for each in rows if each["table"] == name and "no offsets" in each["methods"]]
        mine, other = means_of(here, "r2b"), means_of(here, "no offsets")
        if mine[0] < other[0] - 0.005 and mine[1] > other[1]:
            found.append(name)
    return found


def losses(rows: Sequence[Row]) -> list[str]:
    """Return where others are better, and what is missed."""
    worse = dominated(rows)
    found = [
        f"- {name}: less accurate than without offsets, and more disparity of large groups."
        for name in worse
    ]
    for name in dict.fromkeys(row["table"] for row in rows):
        here = [row for row in rows if row["table"] == name and "no offsets" in row["methods"]]
        mine, other = means_of(here, "r2b"), means_of(here, "no offsets")
        if name not in worse and mine[1] > other[1] + 0.01:
            numbers = [percent(each) for each in (mine[1], other[1], mine[0], other[0])]
            found.append(
                "- {}: disparity of large groups {}, without offsets {}; accuracy {} against "
                "{}.".format(name, *numbers)
            )
    unfair = [row for row in rows if any(beyond(row, each, 0) for each in row["entries"])]
    silent = sum(not row["warns"] for row in unfair)
    warned = [row for row in rows if row["warns_of_groups"]]
    unsure = sum(row not in unfair for row in warned)
    missed = [
        f"- In {share(silent, len(unfair))} fits whose disparity on all new rows is beyond chance, "
        "`fit` had not warned."
    ] * bool(silent)
    ratio = median(float(row["fit_ratio"]) for row in rows)
    calibration = max(float(row["calibration"][1] - row["calibration"][0]) for row in rows)
    return [
        *found,
        *missed,
        (
            f"- Of warnings about groups, {share(unsure, len(warned))} are not confirmed: new rows"
            " do not show more than chance."
        ),
        f"- The median fit takes {ratio:.0f} times as long as the plain fit of these small models.",
        f"- The calibration error rises by up to {percent(calibration)} points.",
    ]


def holds(rows: Sequence[Row]) -> list[str]:
    """Return the figures of what must hold."""
    silent = [row for row in rows if row["is_plain"] and not row["says"]]
    low = [row for row in rows if row["methods"]["r2b"]["accuracy"] < row["majority"] - 0.005]
    lines = [
        str(len(rows)),
        share(len(silent), sum(row["is_plain"] for row in rows)),
        share(len(dominated(rows)), len({row["table"] for row in rows})),
        share(len(low), len(rows)),
    ]
    for new in (1, 0):  # as many new rows as a third of all, and up to 10,000
        met = [(row, each) for row in rows for each in row["entries"] if each[1] == "met"]
        lines.append(share(sum(beyond(row, each, new) for row, each in met), len(met)))
        unfair = [row for row in rows if any(beyond(row, each, new) for each in row["entries"])]
        lines.append(share(sum(row["warns"] for row in unfair), len(unfair)))
        warned = [row for row in rows if row["warns_of_groups"]]
        false = [row for row in warned if row not in unfair]
        lines.append(share(len(false), len(warned)))
    warned = [row for row in rows if row["warns_of_groups"]]
    return [*lines, share(len(wrong(rows)), len(warned))]


def wrong(rows: Sequence[Row]) -> list[Row]:
    """Return fits that warned only of groups that new rows show within epsilon."""
    found = []
    for row in rows:
        named = [each[5][0] > row["epsilon"] for each in row["entries"] if each[7]]
        if row["warns_of_groups"] and not any(named):
            found.append(row)
    return found


def warnings_of(rows: Sequence[Row]) -> str:
    """Write how often warnings are right."""
    unfair = [row for row in rows if any(beyond(row, each, 0) for each in row["entries"])]
    warned = [row for row in rows if row["warns_of_groups"]]
    zero = [row for row in rows if row["epsilon"] == 0]
    return WARNINGS.format(
        seen=share(sum(row["warns"] for row in unfair), len(unfair)),
        wrong=share(len(wrong(rows)), len(warned)),
        unsure=share(sum(row not in unfair for row in warned), len(warned)),
        base=share(sum(row in unfair for row in zero), len(zero)),
    )


HOLDS = (
    "fits",
    "decisions of the plain model without a warning, of all such",
    "tables where no offsets are more accurate by .5 points and have less disparity",
    "fits less accurate on new rows than the most frequent class, by .5 points or more",
    "*met*, but above epsilon by more than chance on new rows, half as many as trained on",
    "fits that warned, of those where these new rows are above epsilon by more than chance",
    "warnings of groups that these new rows do not confirm",
    "*met*, but above epsilon by more than chance on all new rows",
    "fits that warned, of those where all new rows are above epsilon by more than chance",
    "warnings of groups that all new rows do not confirm",
    "warnings of groups none of which is above epsilon on all new rows",
)


def cost_lines(rows: Sequence[Row]) -> list[str]:
    """Write what fitting, predicting and calibration cost."""
    found = []
    measures: list[tuple[str, Callable[[Row], float]]] = [
        ("fit, times the plain fit", lambda row: float(row["fit_ratio"])),
        ("predict, times the plain prediction", lambda row: float(row["predict_ratio"])),
        (
            "calibration error less that of the plain model, points",
            lambda row: 100 * float(row["calibration"][1] - row["calibration"][0]),
        ),
        (
            "accuracy at the first epsilon of `frontier_` less that on new rows, points",
            lambda row: 100 * float(row["frontier"][0] - row["methods"]["r2b"]["accuracy"]),
        ),
        (
            "disparity at the first epsilon of `frontier_` less that on new rows, points",
            lambda row: 100 * float(row["frontier"][1] - row["disparity"]),
        ),
    ]
    for title, of in measures:
        for learner in dict.fromkeys(row["learner"] for row in rows):
            parity = [row for row in rows if row["learner"] == learner]
            numbers = [of(row) for row in parity if row["criterion"] == "demographic_parity"]
            odds = [of(row) for row in parity if row["criterion"] != "demographic_parity"]
            spread = f"{min(numbers):.1f} to {max(numbers):.1f}"
            found.append([title, learner, f"{median(numbers):.1f}", spread, f"{median(odds):.1f}"])
            title = ""
    head = ["", "learner", "median", "from, to", "median, equalized odds"]
    return [markdown(head, [list(each) for each in found])]


def page_of(rows: Sequence[Row]) -> str:
    """Write the page."""
    sets = {
        "chosen on": [row for row in rows if not row["held_out"]],
        "held out": [row for row in rows if row["held_out"]],
    }
    names = [", ".join(dict.fromkeys(row["table"] for row in each)) for each in sets.values()]
    head = HEAD.format(
        n_tables=len({row["table"] for row in rows}),
        n_fits=len(rows),
        splits=1 + max(row["split"] for row in rows),
    )
    what = WHAT.format(
        chosen=names[0],
        held=names[1],
        crossed=" and ".join(
            name
            for name in ("income by sex and race", "lesions by sex and age", "reoffending")
            if name in names[1]
        ),
    )
    zeros = sum(row["zeros"] for row in rows)
    columns = [holds(each) for each in sets.values()]
    body = [[title, *(each[k] for each in columns)] for k, title in enumerate(HOLDS)]
    zero = [row for row in rows if row["epsilon"] == 0 and row["criterion"] == "demographic_parity"]
    plans = []
    for method in ("plain", "no offsets", "full offsets", "wide", "r2b"):
        here = [
            means_of([row for row in zero if row["held_out"] == held], method)
            for held in (False, True)
        ]
        plans.append([method, *(percent(each) for part in here for each in part)])
    by_table = []
    for name in dict.fromkeys(row["table"] for row in zero):
        here_rows = [row for row in zero if row["table"] == name]
        cells = [means_of(here_rows, method) for method in ("plain", "no offsets", "r2b")]
        figures = [" / ".join(map(percent, each)) for each in cells]
        by_table.append([name + (" (held out)" if here_rows[0]["held_out"] else ""), *figures])
    return (
        "\n\n".join(
            [
                head.rstrip("\n"),
                fill(" ".join(what.split()), 138),
                "## Where it loses",
                "\n".join(losses(rows)),
                "## What holds",
                markdown(["", *sets], body),
                f"Probabilities that are 0 where those of the plain model are not: {zeros}.",
                PLANS.rstrip("\n"),
                markdown(["", *(f"{m}, {s}" for s in sets for m in MEASURES)], plans),
                "## By table",
                "Accuracy / disparity / spread at epsilon 0, demographic parity, in percent.",
                markdown(["table", "plain", "no offsets", "r2b"], by_table),
                fill_paragraphs(warnings_of(rows)),
                "## Time, calibration and forecasts",
                *cost_lines(rows),
                LIMITS.rstrip("\n"),
            ]
        )
        + "\n"
    )


def main(arguments: list[str] | None = None) -> int:
    """Write or check."""
    rows: list[Row] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return update({PAGE: page_of(rows)}, arguments)


if __name__ == "__main__":
    sys.exit(main())
