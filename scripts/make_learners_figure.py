"""Draw the picture and fill in the tables of docs/learners.md from benchmarks/results/learners.json.

``python scripts/make_learners_figure.py`` writes both; ``--check`` only says whether they are what would be written. The JSON is made by
``python -m benchmarks.learners``.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from make_figures import line, picture, text  # noqa: E402 - after the path

from benchmarks.learners import RESULTS, mean_and_half_width, table  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "learners.svg"
PAGE = ROOT / "docs" / "learners.md"
BIAS = 0.5
WANTED = 0.015  # the paper's level for random forest and kNN, and what it rounds to
ACCEPTS = {
    "logistic regression": "classes, weights",
    "random forest, one per class": "probabilities (regressor)",
    "random forest": "classes, weights",
    "gradient boosting": "classes, weights",
    "kNN": "classes",
    "MLP": "classes, weights",
    "LightGBM": "classes, weights; probabilities by `train_lightgbm`",
}
# Parity and accuracy in percent, before and after R2B: the paper's table of Adult.
PAPER = {
    (0.0, "random forest, one per class"): (3.8, 2.2, 42.6, 42.5),
    (0.0, "kNN"): (4.7, 2.1, 35.5, 35.5),
    (0.5, "random forest, one per class"): (22.8, 1.0, 42.0, 34.0),
    (0.5, "kNN"): (26.5, 1.1, 34.9, 31.1),
}
Row = dict[str, Any]


def mean(rows: list[Row], learner: str, way: str, measure: str, p: float = BIAS) -> float:
    """Give the mean over splits of one measure."""
    (row,) = [row for row in rows if (row["learner"], row["way"], row["p"]) == (learner, way, p)]
    return mean_and_half_width(row[measure])[0]


def lines_of(rows: list[Row]) -> list[tuple[str, str, str]]:
    """Give what the picture shows, a line each: learner, way, and the name of both."""
    chosen = [(row["learner"], row["way"], f"{row['learner']}: {row['way']}") for row in rows if row["auto"] and row["p"] == BIAS]
    place = next(n for n, (learner, *_) in enumerate(chosen) if learner == "kNN")
    return [*chosen[: place + 1], ("kNN", "sample, agreement", "kNN: sample, agreement"), *chosen[place + 1 :]]


def trade_off(rows: list[Row]) -> str:
    """Draw parity on a logarithmic scale on the left and accuracy on the right, from the baseline to fair labels, and the argmax."""
    shown = lines_of(rows)
    width, top, row_height = 920, 104, 34
    height = top + row_height * len(shown) + 84
    left, panel, right, right_panel = 250, 330, 640, 250
    low, high = 0.003, 0.5
    a_low, a_high = 0.22, 0.44

    def x_parity(value: float) -> float:
        return left + panel * math.log(value / low) / math.log(high / low)

    def x_accuracy(value: float) -> float:
        return right + right_panel * (value - a_low) / (a_high - a_low)

    bottom = top + row_height * len(shown)
    body = [
        text(20, 32, "What parity costs in accuracy, for the learners of this page", "title"),
        text(20, 54, "Adult, education by sex, bias injected with p = 0.5; means over ten test splits. The attribute is not a feature."),
        text(left, 84, "Parity of probabilities (logarithmic)", "strong"),
        text(right, 84, "Accuracy", "strong"),
    ]
    for tick in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4):
        body += [line(x_parity(tick), top - 6, x_parity(tick), bottom, "grid")]
        body += [text(x_parity(tick), bottom + 18, f"{100 * tick:g} %", "small", "middle")]
    for tick in (0.25, 0.3, 0.35, 0.4):
        body += [line(x_accuracy(tick), top - 6, x_accuracy(tick), bottom, "grid")]
        body += [text(x_accuracy(tick), bottom + 18, f"{100 * tick:g} %", "small", "middle")]
    body.append(f'<line x1="{x_parity(WANTED):.1f}" y1="{top - 6}" x2="{x_parity(WANTED):.1f}" y2="{bottom}" class="m-line"/>')
    body.append(text(x_parity(WANTED), bottom + 34, "1.5 %", "small strong", "middle"))
    for n, (learner, way, name) in enumerate(shown):
        y = top + row_height * (n + 0.5)
        body.append(text(left - 14, y + 4, name, "small", "end"))
        for measure, place in (("probability", x_parity), ("accuracy", x_accuracy)):
            before, fair, trap = (place(mean(rows, learner, one, measure)) for one in ("baseline", way, "argmax"))
            body.append(f'<line x1="{before:.1f}" y1="{y:g}" x2="{fair:.1f}" y2="{y:g}" class="span"/>')
            body.append(f'<circle class="old" cx="{before:.1f}" cy="{y:g}" r="6"/>')
            body.append(f'<circle class="dot keeps" cx="{fair:.1f}" cy="{y:g}" r="6.5"/>')
            cross = f"M{trap - 4:.1f} {y - 4:g}l8 8m0 -8l-8 8"
            body.append(f'<path class="trap" d="{cross}"/>')
    foot = height - 20
    body += [f'<circle class="old" cx="26" cy="{foot - 4}" r="6"/>', text(38, foot, "labels as they came")]
    body += [f'<circle class="keeps" cx="192" cy="{foot - 4}" r="6"/>', text(204, foot, "fair labels, by the strategy named")]
    body += [f'<path class="trap" d="M462 {foot - 8}l8 8m0 -8l-8 8"/>', text(478, foot, "argmax of the fair labels: the trap")]
    drawn = picture(width, height, "Parity and accuracy on Adult before and after fair labels, for seven learners", body)
    extra = "  .trap { stroke: #e34948; stroke-width: 2; fill: none } .m-line { stroke: #2a78d6; stroke-dasharray: 4 4 }\n"
    return drawn.replace("  @media", extra + "  @media", 1)


def summary(rows: list[Row]) -> list[str]:
    """Write one line per learner: what it takes, what is chosen, and what that changes."""
    lines = ["| learner | takes | `auto` chooses | parity before | parity | accuracy before | accuracy |", "| --- " * 7 + "|"]
    for row in rows:
        if not row["auto"] or row["p"] != BIAS:
            continue
        name = row["learner"]
        cells = [mean(rows, name, way, measure) for measure in ("probability", "accuracy") for way in ("baseline", row["way"])]
        figures = " | ".join(f"{100 * value:.1f} %" for value in cells)
        lines.append(f"| {name} | {ACCEPTS[name]} | `{row['way']}` | {figures} |")
    return lines


def against_paper(rows: list[Row]) -> list[str]:
    """Write our figures beside those of the paper, for every fair way that is measured on both biases."""
    heads = ("parity before", "parity", "accuracy before", "accuracy")
    lines = ["| p | learner | trained on | " + " | ".join(f"{head} (paper)" for head in heads) + " |", "| --- " * 7 + "|"]
    for (p, learner), theirs in PAPER.items():
        own = next(row["way"] for row in rows if row["auto"] and row["learner"] == learner)
        for way in (own, f"{own}, agreement"):
            ours = [100 * mean(rows, learner, one, measure, p) for measure in ("probability", "accuracy") for one in ("baseline", way)]
            cells = " | ".join(f"{our:.1f} ({their})" for our, their in zip(ours, theirs, strict=True))
            lines.append(f"| {p:g} | {learner} | {way} | {cells} |")
    return lines


def page(words: str, rows: list[Row]) -> str:
    """Put the tables between their marks."""
    parts = {"summary": summary(rows), "paper": against_paper(rows), "p = 0.5": table(rows, 0.5), "p = 0": table(rows, 0.0)}
    for name, lines in parts.items():
        mark = re.compile(rf"(<!-- figures: {re.escape(name)} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
        body = "\n" + "\n".join(lines) + "\n\n"
        words, found = mark.subn(lambda match, body=body: match.group(1) + body + match.group(2), words)  # type: ignore[misc]
        if found != 1:
            raise SystemExit(f"{PAGE.name} has {found} places for the table {name!r}; it needs one.")
    return words


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Draw the picture and fill in the tables of docs/learners.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is not what would be written")
    check = parser.parse_args(arguments).check
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    wanted = {PICTURE: trade_off(rows), PAGE: page(PAGE.read_text(encoding="utf-8"), rows)}
    stale = [path for path, words in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != words]
    for path in stale:
        if check:
            print(f"{path.name} is not what scripts/make_learners_figure.py writes; run it again.", file=sys.stderr)
        else:
            path.write_text(wanted[path], encoding="utf-8")
            print(f"{path.relative_to(ROOT)} written")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
