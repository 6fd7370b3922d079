"""The section on dermatology: the paper's table 3 and its line of table 4 beside two public tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final

from experiments.adult_page import READ_AS
from experiments.coco_page import compared
from experiments.experiment import Row
from experiments.figures import PAIRED, Axis, Panel, Picture, Series, paired_points
from experiments.labelling import METHODS, SPOKEN
from experiments.paper_numbers import read_numbers
from experiments.tables import Cell, beside, cell, chosen, markdown, paired

METHODS_BY_USE: Final = {
    "training": METHODS,
    "scores": tuple(method for method in METHODS if method != "RW"),
}
"""Reweighing has no scores to change."""

TABLES: Final = {"ham10000": "HAM10000", "scin": "SCIN"}
USES: Final = {
    "training": "fair training labels",
    "scores": "fair scores, fitted on the tuning split (the paper's use)",
}
MEASURES: Final = {
    "parity": "disparity, %",
    "top_1": "top-1, %",
    "top_2": "top-2, %",
    "top_3": "top-3, %",
    "error_parity": "error parity, %",
}

PAPER: Final = read_numbers("""
parity       11.1 1.2 14.3 2.2 5.1 1.0  8.0 1.4  4.8 0.5  5.0 0.5
top_1        58.6 0.5 58.3 0.7 58.5 0.5 48.9 0.9 58.3 0.7 59.1 0.6
top_2        79.1 0.7 78.6 0.5 79.3 0.6 67.5 0.3 79.0 0.1 79.0 0.1
top_3        89.1 0.4 88.8 0.6 88.8 0.6 78.4 0.8 87.2 0.6 87.2 0.6
error_parity 5.6 1.9  5.1 0.8  4.7 1.9  5.7 2.3  6.1 1.8  5.9 2.1
""")
"""By measure and method."""

_WORDS: Final = """The paper's cases are private and their splits fixed, so no number here can be expected to match one of its numbers.
They stand in brackets where the use is the paper's. Groups are as in the
paper, ages [18, 30), [30, 45), [45, 65), [65, 90) crossed with sex. HAM10000: 7 diagnoses, 256 principal components of a network's
features, age and sex, splits of 76, 12 and 12 % by lesion. SCIN: the weights of dermatologists over 26 conditions and other, 27 classes
as in the paper; what patients said of texture, body part, symptoms and duration, skin type, age and sex, but no image; splits of 50, 25
and 25 %; its bands of ten years go to the bucket of their middle, so that 40 to 49 and 60 to 69 count as the older bucket. Both: a linear
softmax (SGD with momentum 0.9, 30 epochs at 0.001 and 15 at 0.0001), random splits, groups in proportion. These rates were chosen among
three by the baseline's numbers on the test rows of seed 0, and stayed for all methods; the baseline's accuracy is to that extent
flattered. Top-k against soft labels is the expected accuracy for a label drawn from them. `fitted` is the disparity of what was fitted:
training labels, or tuning scores. `by chance` is the mean disparity of the same predictions when groups are handed out at random: with
groups this small, no method can be told from a fair one below it."""


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    parts = [_WORDS]
    for table, name in TABLES.items():
        found = chosen(rows, table=table)
        parts.append(f"### {name}\n\n{_facts(found)}")
        for use, words in USES.items():
            parts.append(
                f"**{words[0].upper()}{words[1:]}**\n\n{_table(chosen(found, use=use), use)}"
            )
        parts.append(_account(found))
    parts.append(_findings(rows))
    return "\n\n".join(parts)


def _facts(rows: Sequence[Row]) -> str:
    row, parity = rows[0], cell(rows[:1], "data_parity")
    return (
        f"About {row['n_train']:,} rows to train, {row['n_tune']:,} to tune, {row['n_test']:,} to test. {row['n_left_out']:,} rows are "
        "left out: age, sex or label unknown, or an age outside the buckets. "
        f"{row['n_classes']} classes, 8 groups, the smallest with {min(each['smallest_group'] for each in rows)} test rows. "
        f"Disparity of all labels: {parity.text()} % (paper 9)."
    )


def _cell(rows: Sequence[Row], measure: str, method: str) -> Cell:
    return cell(chosen(rows, method=method), measure)


def _table(rows: Sequence[Row], use: str) -> str:
    columns = {"fitted_parity": "fitted, %", **MEASURES, "chance": "by chance, %"}
    body = []
    for method in METHODS_BY_USE[use]:
        cells = {measure: _cell(rows, measure, method) for measure in columns}
        papers = {
            measure: PAPER.get((measure, READ_AS.get(method, method))) if use == "scores" else None
            for measure in columns
        }
        body.append(
            [
                SPOKEN.get(method, method),
                *(beside(value, papers[measure], marked=False) for measure, value in cells.items()),
            ]
        )
    return markdown(["method", *columns.values()], body)


def _findings(rows: Sequence[Row]) -> str:
    """Put what the paper's table shows beside whether it shows on either table, scores debiased."""
    claims = [
        ("R2B has less disparity than BL", "parity", "R2B", "BL"),
        ("R2B has less disparity than HTO", "parity", "R2B", "HTO"),
        ("DPR has more disparity than BL", "parity", "DPR", "BL"),
        ("HTO less accurate than BL, top-1", "top_1", "HTO", "BL"),
        ("HTO less accurate than BL, top-3", "top_3", "HTO", "BL"),
        ("R2B less accurate than BL, top-3", "top_3", "R2B", "BL"),
        ("R2B more accurate than OST, top-1", "top_1", "R2B", "OST"),
    ]
    body = []
    for words, measure, one, other in claims:
        line = [words]
        for table in TABLES:
            found = chosen(rows, table=table, use="scores")
            paper = PAPER[measure, one], PAPER[measure, other]
            gap = paired(chosen(found, method=one), chosen(found, method=other), measure)
            said, here = compared(gap, paper)
            line += [said, here] if len(line) == 1 else [here]
        body.append(line)
    head = ["finding, scores debiased", "paper", *TABLES.values()]
    return "### What the paper's table shows, and whether it shows here\n\n" + markdown(head, body)


def _account(rows: Sequence[Row]) -> str:
    """Say in words what the exact method does to disparity and accuracy in both uses."""
    said = []
    for use in USES:
        found = chosen(rows, use=use)
        before, top_before, after, top_after = (
            _cell(found, measure, method).mean
            for method in ("BL", "Exact")
            for measure in ("parity", "top_1")
        )
        words = "training labels" if use == "training" else "scores"
        said.append(
            f"fair {words} take the disparity from {before:.1f} to {after:.1f} % and top-1 from {top_before:.1f} to {top_after:.1f} %"
        )
    return f"In short, by the exact method: {'; '.join(said)}."


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw disparity, top-1 and error parity by method, table and use."""
    grid = []
    for measure, axis in (
        ("parity", Axis("disparity (%)", zero=True)),
        ("top_1", Axis("accuracy (%)")),
        ("error_parity", Axis("error parity (%)", zero=True)),
    ):
        panels = []
        for table, use in product(TABLES, USES):
            found = chosen(rows, table=table, use=use)
            ours = Series("", paired_points(found, measure, METHODS_BY_USE[use]))
            level = _cell(found, "chance", "Exact").mean if measure == "parity" else None
            title = f"{TABLES[table]}, fair {'labels' if use == 'training' else 'scores'}"
            panels.append(Panel(title, (ours,), axis, level))
        grid.append(tuple(panels))
    title = "Dermatology: disparity, accuracy and error parity by method"
    return {"methods": Picture(title, PAIRED, tuple(grid))}
