"""The section on appendix A: what normalising brings back, and the bound on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.experiment import Row
from experiments.labelling import SPOKEN
from experiments.tables import cell, chosen, markdown

PAPER_BEFORE: Final = 0.01
PAPER_AFTER: Final = 0.22
"""The paper's example: OST on synthetic data, disparity of the training labels before and after normalising."""

KINDS: Final = {
    "Adult": "Adult",
    "Adult, injected": "Adult, p = 0.5",
    "labels": "the paper's synthetic labels",
    "stronger": "the same, attribute from the class with chance 0.9",
    "scores": "shares of classes among 5 neighbours, in place of labels",
    "drawn": "the worst of 100 drawn tables per seed",
}

_WORDS: Final = """\
Section 4.1: "the level of DP in the training labels is reduced to less than 0.01 after debiasing labels separately using OST but bias
increases to over 0.22 following normalization". Every class is debiased by itself (`before`), then rows are divided by their sums
(`divided`, what the paper's baselines do) or shifted by the additive step of Algorithm 1 (`shifted`, what appendix A.2 analyses; entries
may be negative). Largest over seeds and sizes, in %. What was tried to reach 0.22: the paper's data at all sizes, a stronger bias, scores
of a learner in place of labels, injected bias on Adult, and tables drawn at random. {found}"""

_A2: Final = """\
### Appendix A.2: when does it succeed?

Its bound is about E = H - Y with mean 0. `excess` is `|1'H1 - n| / n`, the most that the additive step can move a class mean, for the
methods as they are (largest over seeds and groups). `drawn apart` is the 95 % quantile of the same where every entry of H is drawn as 0 or
1 by itself, a perturbation with mean 0; `bound` is the epsilon at which the paper's sum of exponentials is 5 %. `one class drawn` is the
disparity of labels drawn row by row, one class each, as learners get them, beside what Hoeffding's inequality allows with 95 %."""


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    return "\n\n".join(
        [_WORDS.format(found=_found(rows)), _table(rows), _A2, _bounds(rows), _account(rows)]
    )


def largest(rows: Sequence[Row], measure: str, **wanted: object) -> float:
    """Return the largest of a measure."""
    return float(max(row[measure] for row in chosen(rows, **wanted)))


def _found(rows: Sequence[Row]) -> str:
    synthetic, drawn = (
        largest(rows, "divided", kind="labels", method="OST"),
        largest(rows, "divided", kind="drawn", method="OST"),
    )
    tried = max(row["divided"] for row in chosen(rows, method="OST") if row["kind"] != "drawn")
    return (
        f"On the paper's data OST ends at most at {synthetic:.3f}; the largest of everything else but drawn tables is {tried:.3f}, of drawn "
        f"tables {drawn:.3f}. OST is solved exactly here; a solver that has not converged can leave anything."
    )


def _table(rows: Sequence[Row]) -> str:
    body = []
    for kind, spoken in KINDS.items():
        for method in ("OST", "HTO", "R2B0"):
            found = [
                largest(rows, measure, kind=kind, method=method)
                for measure in ("data_parity", "before", "divided", "shifted")
            ]
            numbers = [f"{100 * value:.2g}" if value > 1e-9 else "0" for value in found]
            body.append([spoken, SPOKEN.get(method, method), *numbers])
    return markdown(["labels", "method", "data, %", "before, %", "divided, %", "shifted, %"], body)


def _bounds(rows: Sequence[Row]) -> str:
    body = []
    for kind, spoken in KINDS.items():
        shapes = sorted(
            {(row["classes"] or 0, row["per_class"] or 0) for row in chosen(rows, kind=kind)}
        )
        for classes, per_class in (shapes[0], shapes[-1]) if len(shapes) > 1 else shapes:
            for method in ("OST", "R2B0"):
                found = chosen(
                    rows,
                    kind=kind,
                    classes=classes or None,
                    per_class=per_class or None,
                    method=method,
                )
                measures = ("excess", "sampled_excess", "hoeffding", "drawn", "drawn_bound")
                size = f", L = {classes}, n = {per_class:,}" if classes else ""
                numbers = [f"{cell(found, name).mean:.2f}" for name in measures]
                body.append([spoken + size, SPOKEN.get(method, method), *numbers])
    head = [
        "labels",
        "method",
        "excess, %",
        "drawn apart, %",
        "bound, %",
        "one class drawn, %",
        "its bound, %",
    ]
    return markdown(head, body)


def _account(rows: Sequence[Row]) -> str:
    kept = sum(row["sampled_excess"] <= row["hoeffding"] for row in rows)
    ratio = sorted(
        row["hoeffding"] / row["sampled_excess"] for row in rows if row["sampled_excess"] > 0
    )
    pinned = max(row["excess"] for row in rows if row["method"] != "OST")
    ost = largest(rows, "excess", method="OST")
    return (
        f"The bound holds in {kept} of {len(rows)} runs for a perturbation with mean 0, and is {ratio[len(ratio) // 2]:.0f} times what is "
        "seen (median): it has L in place of the spread of a row sum. The methods are no such perturbation. HTO and R2B_0 pin every "
        f"class to its overall mean, so that the means of a group add up to 1 (excess {pinned:.0e}) and the additive step changes no mean "
        "at all, whatever the number of rows; what they lose, they lose by dividing. OST chooses its own means, which add up to 1 only by "
        f"chance: its excess reaches {100 * ost:.0f} % and does not fall with n. As it is the same in all groups, the additive step still "
        "keeps parity. The argument explains success of the additive step, and not of the division that the baselines use."
    )
