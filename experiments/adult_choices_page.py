"""The section on what was tried on Adult: one line per choice, the paper's numbers above them; then the learners of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.adult_page import LEARNERS, READ_AS, SETTINGS
from experiments.experiment import Row
from experiments.labelling import METHODS, SPOKEN, VISIBLE
from experiments.paper_numbers import ADULT, ADULT_DATA_PARITY, MEASURES
from experiments.tables import MISSING, Cell, cell, chosen, markdown

SCIKIT: Final = {"rf": "scikit-learn", "knn": "scikit-learn knn"}
"""The learner of scikit-learn that takes the place of ours."""

_CHOICES: Final = ("features", "order", "repair", "labels", "ties")
_SHOWN: Final = ("parity", "top-1", "top-2", "top-3", "error parity")
_HEAD: Final = ("p", "learner", "method", "features", "classes by", "repair", "labels", "ties", "bias of the data", *_SHOWN)

_WORDS: Final = """\
Means over seeds. "mixed", "education-num", "columns", "drawn" and ties "at random" are the choices of the section above; "frequency"
numbers classes from the most to the least common one; "codes" repairs coded columns one by one, so that one-hot columns take values
between 0 and 1; "shares" repairs texts as categories, which move from those too common in a group to those too rare; "numbers" and "texts"
repair only these; "soft" averages the neighbours' probabilities instead of labels drawn from them; "lowest" gives a tie between classes to
the lowest one, as scikit-learn does. A method that the paper does not have stands beside the column that it may be read as."""

_LEARNERS: Final = """\
### The learners of scikit-learn

`RandomForestRegressor` (one per class, depth 5, 20 trees) and `KNeighborsClassifier` (5 neighbours, ties between classes to the lowest),
for all methods, beside ours (100 trees; ties at random) on the same splits and the same drawn labels. Its votes take no weights of rows,
so that kNN has no line for reweighing."""


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    body = []
    for p, learner in SETTINGS:
        mine = chosen(rows, p=p, learner=learner)
        for method in (*METHODS, VISIBLE):
            found = chosen(mine, method=method)
            known = {**READ_AS, "Exact": "R2B", VISIBLE: "R2B"}.get(method, method)
            if found:
                paper = [ADULT_DATA_PARITY[p], *(ADULT[measure, p, learner, known] for measure in MEASURES)]
                numbers = [f"{value.mean:.1f}" for value in paper]
                body.append([f"{p:g}", LEARNERS[learner], SPOKEN.get(known, known), "*paper*", "", "", "", "", *numbers])
            choices = dict.fromkeys(tuple(row.get(name) for name in _CHOICES) for row in found)
            body += [_line(chosen(found, **dict(zip(_CHOICES, choice, strict=True)))) for choice in choices]
    return f"{_WORDS}\n\n{markdown(_HEAD, body)}\n\n{_LEARNERS}\n\n{_scikit(rows)}"


def _line(rows: Sequence[Row]) -> list[str]:
    first = rows[0]
    knn = first["learner"] == "knn"
    labels, ties = ((first.get("labels") or "drawn"), (first.get("ties") or "at random")) if knn else ("", "")
    repair = first["repair"] if first["method"] == "DPR" else ""
    cells = [cell(rows, measure) for measure in ("data_parity", *MEASURES)]
    numbers = [MISSING if value is None else f"{value.mean:.1f}" for value in cells]
    named = SPOKEN.get(first["method"], first["method"])
    return [f"{first['p']:g}", LEARNERS[first["learner"]], named, first["features"], first["order"], repair, labels, ties, *numbers]


def scikit_cell(rows: Sequence[Row], measure: str, p: float, learner: str, method: str) -> Cell | None:
    """Average a measure of a learner of scikit-learn; ``learner`` is ours that it takes the place of."""
    return cell(chosen(rows, p=p, learner=SCIKIT[learner], method=method), measure)


def _scikit(rows: Sequence[Row]) -> str:
    body = []
    for p, learner in SETTINGS:
        for method in (*METHODS, VISIBLE):
            cells = [scikit_cell(rows, measure, p, learner, method) for measure in MEASURES]
            if any(value is not None for value in cells):
                numbers = [MISSING if value is None else value.text() for value in cells]
                body.append([f"{p:g}", LEARNERS[learner], SPOKEN.get(method, method), *numbers])
    return markdown(["p", "learner", "method", *_SHOWN], body)
