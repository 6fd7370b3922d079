"""The section on what was tried on Adult: one line per choice, the paper's numbers above them; then the learners of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from experiments.adult_page import LEARNERS, READ_AS, SETTINGS
from experiments.experiment import Row
from experiments.labelling import LABEL_METHODS, METHODS, SPOKEN, VISIBLE
from experiments.paper_numbers import ADULT, ADULT_DATA_PARITY, MEASURES
from experiments.tables import MISSING, cell, chosen, markdown

SCIKIT: Final = {"rf": "scikit-learn", "knn": "scikit-learn knn"}
"""The learner of scikit-learn that takes the place of ours."""

_CHOICES: Final = ("features", "order", "repair", "labels", "ties")
_SHOWN: Final = ("parity", "top-1", "top-2", "top-3", "error parity")
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
Means over seeds. "mixed", "education-num", "columns", "drawn" and ties "at random" are the choices of the section above; "frequency"
numbers classes from the most to the least common one; "codes" repairs coded columns one by one, so that one-hot columns take values
between 0 and 1; "shares" repairs texts as categories, which move from those too common in a group to those too rare; "numbers" and "texts"
repair only these; "soft" averages the neighbours' probabilities instead of labels drawn from them; "lowest" gives a tie between classes to
the lowest one, as scikit-learn does. A method that the paper does not have stands beside the column that it may be read as."""

_LEARNERS: Final = """\
### The learners of scikit-learn

Ours / scikit-learn's: `RandomForestRegressor` (one per class, depth 5, 20 trees) beside our forest of 100 trees, and
`KNeighborsClassifier` (5 neighbours) beside our kNN; all methods, the same splits and the same drawn labels, means over the seeds that both
were run with. Where it ties between classes scikit-learn takes the lowest and ours takes one at random, which moves top-k and error parity
of kNN and not its parity. Its votes take no weights of rows, so that kNN has no line for reweighing."""


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
                        SPOKEN.get(known, known),
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
    cells = [cell(rows, measure) for measure in ("data_parity", *MEASURES)]
    numbers = [MISSING if value is None else f"{value.mean:.1f}" for value in cells]
    named = SPOKEN.get(first["method"], first["method"])
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


def beside_ours(results: Mapping[str, Sequence[Row]]) -> str:
    """Put the learners of scikit-learn beside ours, from the rows of both experiments."""
    ours, theirs = results.get("adult", []), results.get("adult_choices", [])
    body, apart = [], {}
    for p, learner in SETTINGS:
        for method in (*METHODS, VISIBLE):
            known = chosen(theirs, p=p, learner=SCIKIT[learner], method=method)
            seeds = {row["seed"] for row in known}
            same = [
                row
                for row in chosen(ours, p=p, learner=learner, method=method)
                if row["seed"] in seeds
            ]
            pairs = [(cell(same, measure), cell(known, measure)) for measure in MEASURES]
            numbers = [
                f"{one.mean:.1f} / {other.mean:.1f}"
                for one, other in pairs
                if one is not None and other is not None
            ]
            if len(numbers) == len(MEASURES):
                body.append(
                    [
                        f"{p:g}",
                        LEARNERS[learner],
                        SPOKEN.get(method, method),
                        str(len(seeds)),
                        *numbers,
                    ]
                )
                one, other = pairs[0]
                apart[f"{SPOKEN.get(method, method)}, {LEARNERS[learner]}, p = {p:g}", method] = (
                    abs(one.mean - other.mean) if one and other else 0.0
                )
    if not body:
        return ""
    table = markdown(["p", "learner", "method", "seeds", *_SHOWN], body)
    place, method = max(apart, key=lambda key: apart[key])
    on_labels = max(
        (value for (_, name), value in apart.items() if name in LABEL_METHODS or name == VISIBLE),
        default=0.0,
    )
    words = f"Parities differ by {apart[place, method]:.1f} points at most ({place}), of methods on labels by {on_labels:.1f}."
    return f"{_LEARNERS}\n\n{table}\n\n{words}"
