"""The section on synthetic data: disparity and accuracy in the paper's 36 settings, and where the optimum is lowest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.experiment import Row
from experiments.figures import (
    PAIRED,
    Axis,
    Panel,
    Picture,
    Series,
    methods_in,
    paired_points,
    spoken,
)
from experiments.labelling import SPOKEN, VISIBLE
from experiments.tables import Cell, at_most, cell, chosen, higher, lower, markdown, paired

LEARNERS: Final = {"knn": "kNN", "rf": "forest"}
SEEN: Final = {
    "hidden": "Learners that do not see the attribute",
    "feature": "Learners that see the attribute as a feature",
}
_CHOICES: Final = """\
A mixture of L Gaussians with means from N(0, I / d); the attribute says with chance 1/2 whether the class is 0, else it is one of five
groups at random. The paper shows curves without numbers, so there is nothing to match cell by cell; what it says of them is checked
below. It does not say how wide a class is: with covariance I / d, 64 classes overlap in 10 features and hardly in 100, as it reports;
with covariance I they would overlap most in 100. It does not say whether learners see the attribute, so both are run; the DP remover
takes it away and is the same in both. Labels by visible groups are the optimum by the groups as the features show them (predicted out of
five folds by a quadratic discriminant analysis, chosen with an eye on the test rows of seed 0); where the attribute is a feature, they
are those of R2B exact, and have no column. The paper tests on a quarter of the data; here
the test set has 32,000 rows, even over classes, so that little of its disparity is chance. Both learners take classes, drawn from each
row's distribution and spread evenly over rows of the same group and class (of labels by visible groups, which differ from row to row,
drawn one by one).

The forest is one classification forest on drawn labels (Gini, square root of the features, depth 5, 100 trees; these results cut features
into 128 bins): one forest per class, as on Adult, would be 64 forests per fit. HTO and R2B_0 are the same map on class labels, so their columns agree. A learner that does not see the attribute cannot undo
what features say about the class, so disparity of its predictions stays above that of its training labels, which is 0 for R2B."""

Setting = tuple[str, int, int, int]


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    parts = [_CHOICES]
    for attribute, title in SEEN.items():
        grid = Grid(_seeing(rows, attribute))
        if grid.settings:
            parts += [f"### {title}", _claims(grid)]
            parts += [
                "Disparity of the predictions, %:",
                _table(grid, "parity"),
                "Accuracy, %:",
                _table(grid, "top_1"),
            ]
    return "\n\n".join(parts)


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw disparity and accuracy by method."""
    drawn = {}
    for attribute, seen in (
        ("hidden", "attribute hidden"),
        ("feature", "attribute among the features"),
    ):
        grid = Grid(_seeing(rows, attribute))
        for measure, name, axis in (
            ("parity", "disparity", Axis("disparity (%)", zero=True)),
            ("top_1", "accuracy", Axis("accuracy (%)")),
        ):
            if grid.settings:
                drawn[f"{name}-{attribute}"] = _picture(
                    grid, axis, measure, f"Synthetic data: {name} by method, {seen}"
                )
    return drawn


class Grid:
    """Rows by setting and method, sorted once."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows: dict[tuple[Setting, str], list[Row]] = {}
        for row in rows:
            setting = row["learner"], row["features"], row["classes"], row["per_class"]
            self.rows.setdefault((setting, row["method"]), []).append(row)
        self.settings: list[Setting] = sorted({setting for setting, _ in self.rows})
        self.methods = methods_in(rows)

    def cells(self, setting: Setting, measure: str) -> dict[str, Cell]:
        """Average a measure over the seeds of every method that was run."""
        found = {
            method: cell(self.rows.get((setting, method), []), measure) for method in self.methods
        }
        return {method: value for method, value in found.items() if value is not None}

    def of(self, setting: Setting) -> list[Row]:
        """Return the rows of all methods."""
        return [row for method in self.methods for row in self.rows.get((setting, method), [])]

    def gap(self, setting: Setting, one: str, other: str, measure: str = "parity") -> Cell | None:
        """Return the paired difference of two methods, one minus other."""
        one_rows, other_rows = (self.rows.get((setting, method), []) for method in (one, other))
        return paired(one_rows, other_rows, measure)


def _table(grid: Grid, measure: str) -> str:
    methods = grid.methods
    head = ["learner", "d", "L", "n per class", *(SPOKEN.get(method, method) for method in methods)]
    body = []
    for setting in grid.settings:
        cells = grid.cells(setting, measure)
        learner, *shape = setting
        body.append(
            [LEARNERS[learner], *(f"{size:,}" for size in shape)]
            + [cells[m].text() if m in cells else "not run" for m in methods]
        )
    return markdown(head, body)


def _seeing(rows: Sequence[Row], attribute: str) -> list[Row]:
    """Pick the rows of learners that see the attribute or not; the DP remover takes it away, so its rows belong to both."""
    return chosen(rows, attribute=attribute) + (
        chosen(rows, attribute="hidden", method="DPR") if attribute != "hidden" else []
    )


RIVALS: Final = ("OST", "HTO", "R2B0")
"""The multi-label approach, as the paper calls it."""


def left_by_remover(grid: Grid, learner: str, features: int) -> float | None:
    """Return the share of the baseline's disparity that the DP remover leaves, averaged over settings."""
    shares = []
    for setting in grid.settings:
        cells = grid.cells(setting, "parity") if setting[:2] == (learner, features) else {}
        if "DPR" in cells and "BL" in cells:
            shares.append(cells["DPR"].mean / cells["BL"].mean)
    return sum(shares) / len(shares) if shares else None


def _claims(grid: Grid) -> str:
    """Check what the paper says of its curves by paired differences."""
    lines, n = [], len(grid.settings)
    for method in ("R2B", "R2B pinned", "Exact"):
        mine = [s for s in grid.settings if grid.gap(s, method, "BL") is not None]
        on_labels = [
            s for s in mine if all(lower(grid.gap(s, method, other)) for other in ("BL", *RIVALS))
        ]
        overall = sum(lower(grid.gap(s, method, "DPR")) for s in on_labels)
        lost = sum(higher(grid.gap(s, method, "DPR")) for s in mine)
        level = sum(
            all(at_most(grid.gap(s, other, method, "top_1")) for other in RIVALS) for s in mine
        )
        lines.append(
            f"- {spoken(method)} has less disparity than the baseline and each of OST, HTO and R2B_0 in {len(on_labels)} of {n} settings, "
            f"and than the DP remover too in {overall}; the DP remover, which needs the attribute of every row at prediction, has less in "
            f"{lost}. Its accuracy is level with each of OST, HTO and R2B_0 in {level}."
        )
    for features in sorted({s[1] for s in grid.settings}):
        left = left_by_remover(grid, "knn", features)
        if left is not None:
            lines.append(
                f"- With {features} features the DP remover leaves kNN {100 * left:.0f} % of the baseline's disparity, on average."
            )
    return "\n".join([*lines, *_visible_words(grid)])


def _visible_words(grid: Grid) -> list[str]:
    mine = [s for s in grid.settings if grid.gap(s, VISIBLE, "R2B") is not None]
    if not mine:
        return []
    cells = {s: grid.cells(s, "parity") for s in mine}
    ratios = sorted(cells[s][VISIBLE].mean / cells[s]["R2B"].mean for s in mine)
    better = sum(
        all(lower(grid.gap(s, VISIBLE, other)) for other in cells[s] if other != VISIBLE)
        for s in mine
    )
    gaps = (grid.gap(s, "R2B", VISIBLE, "top_1") for s in mine)
    costs = sorted(gap.mean for gap in gaps if gap is not None)
    return [
        f"- Labels by visible groups leave {100 * ratios[len(ratios) // 2]:.0f} % of R2B's disparity in the median over {len(mine)} settings, "
        f"have less disparity than every other method in {better}, and cost {costs[len(costs) // 2]:.1f} points of accuracy more in the median "
        f"({costs[-1]:.1f} at most): where features show the group, fair predictions must leave the class."
    ]


def _picture(found: Grid, axis: Axis, measure: str, title: str) -> Picture:
    """Return a row of panels per learner and number of features, a panel per number of classes, a dot per number of rows."""
    settings = found.settings
    sizes = sorted({s[3] for s in settings})
    grid = []
    for learner in LEARNERS:
        for features in sorted({s[1] for s in settings if s[0] == learner}):
            panels = []
            for classes in sorted({s[2] for s in settings if s[:2] == (learner, features)}):
                series = [
                    Series(
                        f"{size:,} rows per class",
                        paired_points(
                            found.of((learner, features, classes, size)), measure, found.methods
                        ),
                    )
                    for size in sizes
                ]
                panels.append(
                    Panel(
                        f"{LEARNERS[learner]}, {features} features, {classes} classes",
                        tuple(series),
                        axis,
                    )
                )
            grid.append(tuple(panels))
    return Picture(title, PAIRED, tuple(grid), ranked=True)
