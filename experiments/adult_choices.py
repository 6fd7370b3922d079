"""What was tried where the paper says too little: Adult coded, numbered and handed over otherwise.

Its rows are the evidence for the choices of :mod:`experiments.adult`, and for the numbers that no
choice reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.adult import ONE_HOT, QUICK_ROWS, QUICK_TREES, settings
from experiments.adult import run as run
from experiments.adult_page import LEARNERS, READ_AS, SETTINGS
from experiments.experiment import Configuration, Row, crossed
from experiments.figures import spoken
from experiments.labelling import LABEL_METHODS, METHODS, VISIBLE
from experiments.learners import TREES
from experiments.paper_numbers import ADULT, ADULT_DATA_PARITY, MEASURES
from experiments.tables import cell, chosen, grouped, markdown

TITLE: Final = "Adult under other choices"
SEEDS: Final = (0, 1, 2)


def configurations(quick: bool) -> list[Configuration]:
    """List other codes, numberings and repairs, and kNN on probabilities and with other ties."""
    rows, trees = (QUICK_ROWS, QUICK_TREES) if quick else (None, TREES)
    # on class labels R2B_0 is HTO
    kept = [method for method in (*LABEL_METHODS, VISIBLE) if method != "R2B0"]
    both = [
        *crossed(method=["BL"], features=ONE_HOT),
        *crossed(method=["BL", "Exact"], order=["frequency"]),
        *crossed(method=["DPR"], repair=["codes", "shares", "numbers", "texts"]),
    ]
    for_neighbours = [
        *crossed(method=kept, labels=["soft"]),
        *crossed(method=["BL", *kept], ties=["lowest"]),
        *crossed(method=kept, labels=["soft"], ties=["lowest"]),
    ]
    tried = (("knn", None), [*both, *for_neighbours]), (("rf", trees), both)
    return [
        configuration
        for learner, choices in tried
        for choice in choices
        for configuration in settings(learner, methods=[choice["method"]], rows=rows, **choice)
    ]


_CHOICES: Final = ("features", "order", "repair", "labels", "ties")
_SHOWN: Final = ("disparity", "top-1", "top-2", "top-3", "error parity")
_HEAD: Final = (
    "p",
    "learner",
    "method",
    "features",
    "classes by",
    "repair",
    "labels",
    "ties",
    "bias of the data",
    *_SHOWN,
)

_WORDS: Final = """\
Means over seeds. "mixed", "education-num", "columns", "drawn" and ties "at random" are the choices
of `adult.md`; "frequency" numbers classes from the most to the least common one; "codes" repairs
coded columns one by one, so that one-hot columns take values between 0 and 1; "shares" repairs
texts as categories, which move from those too common in a group to those too rare; "numbers" and
"texts" repair only these; "soft" averages the neighbours' probabilities instead of labels drawn
from them; "lowest" gives a tie between classes to the lowest one, as scikit-learn does. A method
that the paper does not have stands beside the column that it may be read as."""


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    body = []
    for p, learner in SETTINGS:
        last = ""
        for method in (*METHODS, VISIBLE):
            found = chosen(rows, p=p, learner=learner, method=method)
            known = {**READ_AS, "Exact": "R2B", VISIBLE: "R2B"}.get(method, method)
            if found and known != last:
                last = known
                theirs = [ADULT[measure, p, learner, known] for measure in MEASURES]
                numbers = [f"{value.mean:.1f}" for value in (ADULT_DATA_PARITY[p], *theirs)]
                named = [f"{p:g}", LEARNERS[learner], spoken(known), "*paper*"]
                body.append([*named, *[""] * (len(_CHOICES) - 1), *numbers])
            body += [_line(some) for some in grouped(found, *_CHOICES).values()]
    return f"{_WORDS}\n\n{markdown(_HEAD, body)}"


def _line(rows: Sequence[Row]) -> list[str]:
    first = rows[0]
    named = [f"{first['p']:g}", LEARNERS[first["learner"]], spoken(first["method"])]
    coded = [first["features"], first["order"]]
    repair = first["repair"] if first["method"] == "DPR" else ""
    draws = [first.get("labels") or "drawn", first.get("ties") or "at random"]
    draws = draws if first["learner"] == "knn" else ["", ""]
    numbers = [f"{cell(rows, measure).mean:.1f}" for measure in ("data_parity", *MEASURES)]
    return [*named, *coded, repair, *draws, *numbers]
