"""The section on synthetic data: parity and accuracy in the paper's 36 settings, and where the optimum is lowest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.experiment import Row
from experiments.figures import Axis, Panel, Picture, Series, methods_in, points, spoken
from experiments.labelling import SPOKEN, VISIBLE
from experiments.tables import Cell, cell, chosen, markdown

LEARNERS: Final = {"knn": "kNN", "rf": "forest"}
SEEN: Final = {
    "hidden": "Learners that do not see the attribute",
    "feature": "Learners that see the attribute as a feature",
}
# What one learner makes of two methods differs by chance; means this close, in points, are tied.
_TIE: Final = 0.05

_CHOICES: Final = """\
A mixture of L Gaussians with means from N(0, I / d); the attribute says with chance 1/2 whether the class is 0, else it is one of five
groups at random. The paper shows curves without numbers, so there is nothing to match cell by cell; what it says of them is checked
below. It does not say how wide a class is: with covariance I / d, 64 classes overlap in 10 features and hardly in 100, as it reports;
with covariance I they would overlap most in 100. It does not say whether learners see the attribute, so both are run; the DP remover
takes it away and is the same in both. Labels by visible groups are the optimum by the groups as the features show them (predicted out of
five folds by a quadratic discriminant analysis, chosen with an eye on the test rows of seed 0); where the attribute is a feature, they
are those of R2B exact, and have no column. The test set has 32,000 rows, even over classes. Both learners take classes, drawn from each
row's distribution and spread evenly over rows of the same group and class (of labels by visible groups, which differ from row to row,
drawn one by one).

The forest is one classification forest on drawn labels (Gini, square root of the features, depth 5, 100 trees; these results cut features
into 128 bins): one forest per class, as on Adult, would be 64 forests per fit. HTO and R2B_0 are the same map on class labels, so their columns agree. A learner that does not see the attribute cannot undo
what features say about the class, so parity of its predictions stays above that of its training labels, which is 0 for R2B."""

Setting = tuple[str, int, int, int]


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    parts = [_CHOICES, _seeds(rows)]
    for attribute, title in SEEN.items():
        grid = Grid(_seeing(rows, attribute))
        if grid.settings:
            parts += [f"### {title}", _claims(grid)]
            parts += [
                "Parity of the predictions, %:",
                _table(grid, "parity"),
                "Accuracy, %:",
                _table(grid, "top_1"),
            ]
    return "\n\n".join(parts)


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw parity and accuracy by method."""
    drawn = {}
    for attribute, seen in (
        ("hidden", "attribute hidden"),
        ("feature", "attribute among the features"),
    ):
        grid = Grid(_seeing(rows, attribute))
        for measure, name, axis in (
            ("parity", "parity", Axis("parity (%)", "log")),
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

    def alike(self, setting: Setting, measure: str, method: str) -> dict[str, Cell]:
        """Average a measure over the seeds that one method was run with, so that others are compared with it on the same samples."""
        seeds = {row["seed"] for row in self.rows.get((setting, method), [])}
        found = {
            name: cell(
                [row for row in self.rows.get((setting, name), []) if row["seed"] in seeds], measure
            )
            for name in self.methods
        }
        return {name: value for name, value in found.items() if value is not None}


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


def _seeds(rows: Sequence[Row]) -> str:
    """Say how many seeds there are, and which methods have fewer."""
    grid = Grid(rows)
    counts: dict[tuple[str, int], list[int]] = {}
    for (setting, method), found in grid.rows.items():
        counts.setdefault((method, setting[2]), []).append(len({row["seed"] for row in found}))
    if not counts:
        return "Not run."
    most = max(max(seeds) for seeds in counts.values())
    words = f"{len(grid.settings)} of the paper's 36 settings have results, of {most} seeds for each method"
    few: dict[str, list[str]] = {}
    for (method, classes), seeds in counts.items():
        if min(seeds) < most:
            said = f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
            few.setdefault(
                f"{classes} classes, {said} seed{'s' if max(seeds) > 1 else ''}", []
            ).append(spoken(method))
    for classes in sorted({setting[2] for setting in grid.settings}):
        missing = [spoken(method) for method in grid.methods if (method, classes) not in counts]
        few |= {f"{classes} classes, not run": missing} if missing else {}
    rest = "; ".join(f"{kind}: {', '.join(methods)}" for kind, methods in few.items())
    return (
        f"{words}. Fewer: {rest}. `python -m experiments synthetic` goes on where this ended."
        if rest
        else f"{words}."
    )


RIVALS: Final = ("OST", "HTO", "R2B0")
"""The multi-label approach, as the paper calls it."""


def lowest(cells: dict[str, Cell], method: str, rivals: Sequence[str]) -> bool:
    """Say whether a method has the lowest mean of these, or is tied with it."""
    others = [cells[name].mean for name in rivals if name in cells]
    return method in cells and cells[method].mean <= min([cells[method].mean, *others]) + _TIE


def place(setting: Setting) -> str:
    """Name a setting."""
    return f"{LEARNERS[setting[0]]}, d = {setting[1]}, L = {setting[2]}, n = {setting[3]:,}"


def drop(accuracy: dict[str, Cell], method: str) -> float:
    """Give how many points of accuracy a method loses against the best of the multi-label approach."""
    return max(accuracy[name].mean for name in RIVALS if name in accuracy) - accuracy[method].mean


def left_by_remover(grid: Grid, learner: str, features: int) -> float | None:
    """Give the share of the baseline's parity that the DP remover leaves, averaged over settings."""
    shares = []
    for setting in grid.settings:
        cells = grid.cells(setting, "parity") if setting[:2] == (learner, features) else {}
        if "DPR" in cells and "BL" in cells:
            shares.append(cells["DPR"].mean / cells["BL"].mean)
    return sum(shares) / len(shares) if shares else None


def _claims(grid: Grid) -> str:
    """Check what the paper says of its curves, with the paper's R2B, as printed and as published, and with the exact optimum."""
    lines = []
    for method in ("R2B", "R2B pinned", "Exact"):
        parity = {setting: grid.alike(setting, "parity", method) for setting in grid.settings}
        accuracy = {setting: grid.alike(setting, "top_1", method) for setting in grid.settings}
        mine = [s for s in grid.settings if method in parity[s] and set(RIVALS) <= set(parity[s])]
        if not mine:
            continue
        on_labels = [s for s in mine if lowest(parity[s], method, ("BL", *RIVALS))]
        overall = [s for s in mine if lowest(parity[s], method, ("BL", "DPR", *RIVALS))]
        worst = max(((drop(accuracy[s], method), s) for s in mine), key=lambda pair: pair[0])
        lines.append(
            f"- {spoken(method)} has the lowest parity, or is tied with it (within {_TIE} points), among the paper's methods on labels in "
            f"{len(on_labels)} of {len(mine)} settings, and with the DP remover among them in {len(overall)}. Its accuracy is at most "
            f"{worst[0]:.1f} points below the best of OST, HTO and R2B_0 ({place(worst[1])})."
        )
        if method == "R2B" and len(overall) < len(mine):
            lines.append(_where_the_remover_wins([s for s in mine if s not in overall]))
    for features in sorted({s[1] for s in grid.settings}):
        left = left_by_remover(grid, "knn", features)
        if left is not None:
            lines.append(
                f"- With {features} features the DP remover leaves kNN {100 * left:.0f} % of the baseline's parity, on average."
            )
    return "\n".join([*lines, *_visible_words(grid)])


def _where_the_remover_wins(lost: Sequence[Setting]) -> str:
    kinds = sorted({s[:2] for s in lost})
    counts = [
        f"{LEARNERS[learner]} with {d} features {sum(s[:2] == (learner, d) for s in lost)}"
        for learner, d in kinds
    ]
    return (
        f"- The DP remover is lower in the other {len(lost)} ({', '.join(counts)}). It needs the attribute of every row at prediction, "
        "which R2B does not."
    )


def _visible_words(grid: Grid) -> list[str]:
    parity = {setting: grid.alike(setting, "parity", VISIBLE) for setting in grid.settings}
    accuracy = {setting: grid.alike(setting, "top_1", VISIBLE) for setting in grid.settings}
    mine = [s for s in grid.settings if VISIBLE in parity[s] and "R2B" in parity[s]]
    if not mine:
        return []
    ratios = sorted(parity[s][VISIBLE].mean / parity[s]["R2B"].mean for s in mine)
    better = sum(lowest(parity[s], VISIBLE, tuple(parity[s])) for s in mine)
    costs = sorted(accuracy[s]["R2B"].mean - accuracy[s][VISIBLE].mean for s in mine)
    return [
        f"- Labels by visible groups leave {100 * ratios[len(ratios) // 2]:.0f} % of R2B's parity in the median over {len(mine)} settings, "
        f"have the lowest parity of all methods in {better}, and cost {costs[len(costs) // 2]:.1f} points of accuracy more in the median "
        f"({costs[-1]:.1f} at most): where features show the group, fair predictions must leave the class."
    ]


def _picture(found: Grid, axis: Axis, measure: str, title: str) -> Picture:
    """Give a row of panels per learner and number of features, a panel per number of classes, a dot per number of rows."""
    settings = found.settings
    sizes = sorted({s[3] for s in settings})
    grid = []
    for learner in LEARNERS:
        for features in sorted({s[1] for s in settings if s[0] == learner}):
            panels = []
            for classes in sorted({s[2] for s in settings if s[:2] == (learner, features)}):
                cells = {
                    size: found.cells((learner, features, classes, size), measure) for size in sizes
                }
                series = [
                    Series(
                        f"{size:,} rows per class",
                        points(
                            (spoken(method), cells[size].get(method)) for method in found.methods
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
    words = "Predictions on test rows, mean over seeds with 99 % intervals" + (
        "; logarithmic axes." if axis.scale == "log" else "."
    )
    return Picture(title, words, tuple(grid), ranked=True)
