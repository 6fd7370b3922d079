"""The section on what was tried on Adult: one line per choice, the paper's numbers above them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.adult_page import LEARNERS, SETTINGS
from experiments.experiment import Row
from experiments.paper_numbers import ADULT, ADULT_DATA_PARITY, MEASURES
from experiments.tables import cell, chosen, markdown

_CHOICES: Final = ("learner", "features", "order", "repair", "labels")
_SHOWN: Final = ("parity", "top-1", "top-2", "top-3", "error parity")
_HEAD: Final = ("p", "learner", "method", "features", "classes by", "repair", "labels", "bias of the data", *_SHOWN)

_WORDS: Final = """\
Means over seeds. "mixed", "education-num", "columns" and "drawn" are the choices of the section above; "frequency" numbers classes from
the most to the least common one; "codes" repairs coded columns one by one, so that one-hot columns take values between 0 and 1; "shares"
repairs texts as categories, which move from those too common in a group to those too rare; "numbers" and "texts" repair only these; "soft"
averages the neighbours' probabilities instead of labels drawn from them; "scikit-learn" is its forest (20 trees per class) in place of
ours."""


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    body = []
    for p, learner in SETTINGS:
        mine = [row for row in chosen(rows, p=p) if row["learner"] in (learner, "scikit-learn" if learner == "rf" else None)]
        for method in ("BL", "DPR", "OST", "HTO", "Exact"):
            found = chosen(mine, method=method)
            known = "R2B" if method == "Exact" else method
            paper = [ADULT_DATA_PARITY[p], *(ADULT[measure, p, learner, known] for measure in MEASURES)]
            if found:
                body.append([f"{p:g}", LEARNERS[learner], known, "*paper*", "", "", "", *(f"{value.mean:.1f}" for value in paper)])
            choices = dict.fromkeys(tuple(row.get(name) for name in _CHOICES) for row in found)
            body += [_line(chosen(found, **dict(zip(_CHOICES, choice, strict=True)))) for choice in choices]
    return f"{_WORDS}\n\n{markdown(_HEAD, body)}"


def _line(rows: Sequence[Row]) -> list[str]:
    first = rows[0]
    labels = (first.get("labels") or "drawn") if first["learner"] == "knn" else ""
    repair = first["repair"] if first["method"] == "DPR" else ""
    cells = [cell(rows, measure) for measure in ("data_parity", *MEASURES)]
    numbers = ["not run" if value is None else f"{value.mean:.1f}" for value in cells]
    return [
        f"{first['p']:g}",
        LEARNERS.get(first["learner"], first["learner"]),
        first["method"],
        first["features"],
        first["order"],
        repair,
        labels,
        *numbers,
    ]
