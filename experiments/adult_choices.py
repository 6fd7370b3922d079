"""What was tried where the paper says too little: Adult under other ways to code features, to number classes and to hand over labels.

Its rows are the evidence for the choices of :mod:`experiments.adult`, and for the numbers that no
choice reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.adult import ONE_HOT, QUICK_ROWS, QUICK_TREES, run, together
from experiments.adult_page import LEARNERS, READ_AS, SETTINGS
from experiments.experiment import Configuration, Experiment, Row
from experiments.figures import spoken
from experiments.labelling import LABEL_METHODS, METHODS, VISIBLE
from experiments.learners import TREES
from experiments.paper_numbers import ADULT, ADULT_DATA_PARITY, MEASURES
from experiments.tables import cell, chosen, markdown

_AS_IT_IS: Final = {"features": "mixed", "order": "education-num", "repair": "columns"}


def configurations(quick: bool) -> list[Configuration]:
    """List other codes, numberings and repairs, and kNN on probabilities and with other ties."""
    n_rows, trees = (QUICK_ROWS, QUICK_TREES) if quick else (None, TREES)
    both: list[Configuration] = [
        {"method": "BL", **_AS_IT_IS, "features": features} for features in ONE_HOT
    ]
    both += [{"method": method, **_AS_IT_IS, "order": "frequency"} for method in ("BL", "Exact")]
    both += [
        {"method": "DPR", **_AS_IT_IS, "repair": repair}
        for repair in ("codes", "shares", "numbers", "texts")
    ]
    # on class labels R2B_0 is HTO
    kept = [method for method in (*LABEL_METHODS, VISIBLE) if method != "R2B0"]
    soft: list[Configuration] = [
        {"method": method, **_AS_IT_IS, "labels": "soft"} for method in kept
    ]
    lowest: list[Configuration] = [
        {"method": method, **_AS_IT_IS, "ties": "lowest"} for method in ("BL", *kept)
    ]
    lowest += [{**each, "ties": "lowest"} for each in soft]
    return [
        {
            "learner": learner,
            "p": p,
            "rows": n_rows,
            "trees": trees if learner == "rf" else None,
            **choice,
        }
        for learner in ("knn", "rf")
        for p in (0.0, 0.5)
        for choice in (both + soft + lowest if learner == "knn" else both)
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
Means over seeds. "mixed", "education-num", "columns", "drawn" and ties "at random" are the choices of `adult.md`; "frequency"
numbers classes from the most to the least common one; "codes" repairs coded columns one by one, so that one-hot columns take values
between 0 and 1; "shares" repairs texts as categories, which move from those too common in a group to those too rare; "numbers" and "texts"
repair only these; "soft" averages the neighbours' probabilities instead of labels drawn from them; "lowest" gives a tie between classes to
the lowest one, as scikit-learn does. A method that the paper does not have stands beside the column that it may be read as."""


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    body = []
    for p, learner in SETTINGS:
        mine, last = chosen(rows, p=p, learner=learner), ""
        for method in (*METHODS, VISIBLE):
            found = chosen(mine, method=method)
            known = {**READ_AS, "Exact": "R2B", VISIBLE: "R2B"}.get(method, method)
            if found and known != last:
                last = known
                paper = [
                    ADULT_DATA_PARITY[p],
                    *(ADULT[measure, p, learner, known] for measure in MEASURES),
                ]
                numbers = [f"{value.mean:.1f}" for value in paper]
                body.append(
                    [
                        f"{p:g}",
                        LEARNERS[learner],
                        spoken(known),
                        "*paper*",
                        "",
                        "",
                        "",
                        "",
                        *numbers,
                    ]
                )
            choices = dict.fromkeys(tuple(row.get(name) for name in _CHOICES) for row in found)
            body += [
                _line(chosen(found, **dict(zip(_CHOICES, choice, strict=True))))
                for choice in choices
            ]
    return f"{_WORDS}\n\n{markdown(_HEAD, body)}"


def _line(rows: Sequence[Row]) -> list[str]:
    first = rows[0]
    knn = first["learner"] == "knn"
    labels, ties = (
        ((first.get("labels") or "drawn"), (first.get("ties") or "at random")) if knn else ("", "")
    )
    repair = first["repair"] if first["method"] == "DPR" else ""
    numbers = [f"{cell(rows, measure).mean:.1f}" for measure in ("data_parity", *MEASURES)]
    named = spoken(first["method"])
    return [
        f"{first['p']:g}",
        LEARNERS[first["learner"]],
        named,
        first["features"],
        first["order"],
        repair,
        labels,
        ties,
        *numbers,
    ]


EXPERIMENT: Final = Experiment(
    name="adult_choices",
    title="Adult under other choices",
    configurations=configurations,
    run=run,
    section=section,
    together=together,
    seeds=(0, 1, 2),
)
