"""The Adult section of the page: Tables 1, 4 and 5 of the paper, with its numbers in brackets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.experiment import Row
from experiments.figures import HERE, PAPER, Axis, Panel, Picture, Series, points, spoken
from experiments.labelling import VISIBLE
from experiments.paper_numbers import ADULT, ADULT_DATA_PARITY, MEASURES
from experiments.paper_numbers import METHODS as PAPER_METHODS
from experiments.tables import (
    OVERLAP,
    Cell,
    beside,
    boldface,
    cell,
    chosen,
    markdown,
    verdict,
)
from r2b.metrics import demographic_parity_difference

SETTINGS: Final = ((0.0, "rf"), (0.0, "knn"), (0.5, "rf"), (0.5, "knn"))
TITLES: Final = {
    "parity": "Disparity of the predictions, % (Table 1)",
    "top_1": "Accuracy, % (Table 1)",
    "top_2": "Top-2 accuracy, % (Table 5)",
    "top_3": "Top-3 accuracy, % (Table 5)",
    "error_parity": "Error parity, % (Table 4)",
}
LEARNERS: Final = {"rf classifier": "forest", "knn": "kNN", "rf": "forest per class"}
"""``RandomForestClassifier(max_depth=5)`` and ``KNeighborsClassifier`` as they come, then one
regression forest per class."""
IN_THE_PAPER: Final = {"rf classifier": "rf", "rf": "rf", "knn": "knn"}
ROWS: Final = {None: "45,222", "kept": "48,842"}
"""Rows without a missing value, and all rows."""

READ_AS: Final = {"R2B1": "R2B0", "R2B pinned": "R2B"}
"""Second readings of two columns of the paper: R2B_0 as one round of Algorithm 1, R2B as it was
published."""
MORE: Final = ("R2B1", "R2B pinned", "Exact", "RW", VISIBLE)
"""Methods beside those of the paper."""

CHOICES: Final = """\
Choices, where the paper leaves them open: classes numbered by `education-num` from 0, men 1 and
women 0, sex not among the features, disparity of predicted probabilities, 75/25 splits, ten of
them. The *mixed* coding has the paper's 29 columns: five numbers; workclass, marital status and
relationship as columns of 0 and 1; occupation, race, country and income by their place in the
alphabet. Features lie between 0 and 1. *forest* is scikit-learn's
`RandomForestClassifier(max_depth=5)` and *kNN* its `KNeighborsClassifier` (k = 5), both on labels
drawn from each row's distribution, the literal reading of the paper. *forest per class* is one
`RandomForestRegressor(max_depth=5)` per class on the probabilities themselves, rows of predictions
divided by their sums: the reading that comes closer to the paper's numbers. Forests have 100 trees;
those per class on all rows have {per_class}. Ties between classes are broken at random. The paper
counts {n_all} rows, which is all of them; their disparity is {all_rows} %, that of the {n_complete}
rows without a missing value {complete} %, and the paper says 5.0."""


def section(rows: Sequence[Row]) -> str:
    """Write the section with all measures, from result rows."""
    parts = [choices(rows), f"### Numbers of the paper within the intervals\n\n{counts(rows)}"]
    for measure, title in TITLES.items():
        parts.append(f"### {title}\n\n{table(rows, measure)}\n\n{_more(rows, measure)}")
    return "\n\n".join(parts)


def choices(rows: Sequence[Row]) -> str:
    """Say what was chosen, and how much disparity the labels have."""
    from r2b.datasets import load_adult

    everything = load_adult()
    known = [
        demographic_parity_difference(table["education"], sensitive_features=table["sex"])
        for table in (everything, everything.complete())
    ]
    return CHOICES.format(
        n_all=ROWS["kept"],
        n_complete=ROWS[None],
        all_rows=f"{100 * known[0]:.2f}",
        complete=f"{100 * known[1]:.2f}",
        per_class=per_class_on_all_rows(rows),
    )


def per_class_on_all_rows(rows: Sequence[Row]) -> str:
    """Say how many trees the forest per class has on all rows."""
    found = chosen(read(rows, "kept"), p=0.5, learner="rf", method="R2B")
    return f"{found[0]['trees']:.0f} trees"


def read(rows: Sequence[Row], missing: str | None = None) -> list[Row]:
    """Pick the rows of the tables."""
    wanted = {"features": "mixed", "order": "education-num", "repair": "columns"}
    return chosen(rows, **wanted, missing=missing)


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw disparity, accuracy and error parity of the paper's methods, beside the paper's."""
    kept = read(rows)
    per_class = f"{HERE}, a forest per class"
    grid = []
    for measure, axis in (
        ("parity", Axis("disparity (%)", "log")),
        ("top_1", Axis("accuracy (%)")),
        ("error_parity", Axis("error parity (%)", zero=True)),
    ):
        panels = []
        for p, papers_learner in SETTINGS:
            learners = {"rf": {"rf classifier": HERE, "rf": per_class}, "knn": {"knn": HERE}}
            series = [
                Series(
                    name,
                    points((spoken(m), _cell(kept, measure, p, each, m)) for m in PAPER_METHODS),
                )
                for each, name in learners[papers_learner].items()
            ]
            papers = points(
                (spoken(m), ADULT[measure, p, papers_learner, m]) for m in PAPER_METHODS
            )
            series.insert(1, Series(PAPER, papers))
            literal = next(iter(learners[papers_learner]))
            chance = _cell(kept, "chance", p, literal, "R2B").mean if measure == "parity" else None
            title = f"{LEARNERS[literal]}, p = {p:g}"
            panels.append(Panel(title, tuple(series), axis, chance))
        grid.append(tuple(panels))
    under = (
        "Predictions on test rows, 99 % intervals. p is the bias injected. Disparities on"
        " logarithmic axes."
    )
    title = "Adult: disparity, accuracy and error parity by method"
    return {"methods": Picture(title, under, tuple(grid))}


def _cell(rows: Sequence[Row], measure: str, p: float, learner: str, method: str) -> Cell:
    return cell(chosen(rows, p=p, learner=learner, method=method), measure)


def mean_of(
    rows: Sequence[Row],
    measure: str,
    p: float,
    learner: str,
    method: str,
    missing: str | None = None,
) -> str:
    """Write one mean of the tables."""
    return f"{_cell(read(rows, missing), measure, p, learner, method).mean:.1f}"


def bold_here(rows: Sequence[Row], p: float, learner: str) -> str:
    """Pick the method that the paper's rule highlights in our numbers, among its six."""
    return boldface(
        *(
            {method: _cell(rows, measure, p, learner, method) for method in PAPER_METHODS}
            for measure in ("parity", "top_1")
        )
    )


def bold_there(p: float, learner: str) -> str:
    """Pick the method that the same rule highlights in the paper's numbers."""
    return boldface(
        *(
            {method: ADULT[measure, p, learner, method] for method in PAPER_METHODS}
            for measure in ("parity", "top_1")
        )
    )


def table(rows: Sequence[Row], measure: str) -> str:
    """Write one measure: the paper's methods by learner and rows."""
    body = []
    for p in (0.0, 0.5):
        for learner, name in LEARNERS.items():
            for missing, number in ROWS.items():
                kept = read(rows, missing)
                bold = bold_here(kept, p, learner) if measure in ("parity", "top_1") else None
                line = [f"{p:g}", name, number]
                for method in PAPER_METHODS:
                    paper = ADULT[measure, p, IN_THE_PAPER[learner], method]
                    value = _cell(kept, measure, p, learner, method)
                    line.append(beside(value, paper, bold=method == bold))
                body.append(line)
    return markdown(["p", "learner", "rows", *map(spoken, PAPER_METHODS)], body)


def _more(rows: Sequence[Row], measure: str) -> str:
    """Write the same measure for the methods that the paper does not have."""
    columns = [(spoken(method), measure, method) for method in MORE]
    columns += [("by chance", "chance", "Exact")] if measure == "parity" else []
    body = []
    for p, learner in SETTINGS:
        cells = [_cell(read(rows), name, p, learner, method) for _, name, method in columns]
        body.append([f"{p:g}", LEARNERS[learner], *(value.text() for value in cells)])
    return markdown(["p", "learner", *(name for name, _, _ in columns)], body)


def overlaps(
    rows: Sequence[Row], measure: str, learner: str, missing: str | None
) -> tuple[int, int]:
    """Count the paper's numbers whose interval overlaps with ours, and all of them."""
    kept = read(rows, missing)
    found = [
        verdict(_cell(kept, measure, p, learner, method), paper)
        for (name, p, short, method), paper in ADULT.items()
        if name == measure and short == IN_THE_PAPER[learner]
    ]
    return found.count(OVERLAP), len(found)


def counts(rows: Sequence[Row]) -> str:
    """Write how many of the paper's numbers overlap, by measure, learner and rows."""
    body = []
    for learner, name in LEARNERS.items():
        for missing, number in ROWS.items():
            line = [name, number]
            for measure in MEASURES:
                overlap, total = overlaps(rows, measure, learner, missing)
                line.append(f"{overlap} of {total}")
            body.append(line)
    head = ["learner", "rows", "disparity", "top-1", "top-2", "top-3", "error parity"]
    return markdown(head, body)


def data_words(rows: Sequence[Row]) -> str:
    """Say how much disparity the labels have, with and without injected bias."""
    found = {
        p: cell(chosen(read(rows), p=p, learner="knn", method="BL"), "data_parity")
        for p in (0.0, 0.5)
    }
    return "; ".join(
        f"p = {p:g}: {beside(value, ADULT_DATA_PARITY[p])}" for p, value in found.items()
    )
