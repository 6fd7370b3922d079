"""Pages, the parts of one that a move of the slider replaces, and errors beside their controls.

Pictures, words and colours are the report's.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from starlette.responses import HTMLResponse, JSONResponse, Response

from r2b._audit import Audit
from r2b._constraints.bounds import BOUNDS as ALL_BOUNDS
from r2b._constraints.bounds import CHOICES
from r2b._data.arrays import plain_value
from r2b._data.values import directions_kept
from r2b._files.text import megabytes
from r2b._labels import FairLabels
from r2b.app.choices import TASKS, PageChoice, TaskChoice
from r2b.app.files import DELIMITERS, ENCODINGS, preview
from r2b.app.making import Made, leaving, shares
from r2b.app.tables import Bounded, Workspace
from r2b.errors import MissingValueError, R2BError, WeightError
from r2b.report import facts_of, views, words
from r2b.report.render import environment as report_environment
from r2b.report.render import source as report_source

TOP_CLASSES = 16  # that gain, of those that a channel shows
_LEAST = 0.0005  # probability that is shown, since it rounds to 0.1 %
_MOST_ROWS = 40  # groups of a table that is made on request
_TEACH = (
    "Train on them without the columns seen_..., with the weights if rows are repeated, and "
    "measure the model by the true groups."
)
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

BOUNDS = {
    name: (ALL_BOUNDS[name].title, f"Accepted at most: {ALL_BOUNDS[name].description}")
    for name in CHOICES
    if set(ALL_BOUNDS[name].parameters) <= set(ALL_BOUNDS[name].defaults)
}
FAMILIES = {
    "crossed": ("Crossed", "every combination"),
    "marginal": ("Each alone", "one column at a time"),
    "both": ("Both", "crossed and each alone"),
}
MISSING = {
    "error": "Refuse them",
    "group": "A group of their own",
    "exclude": "Leave these rows as they are",
}

_NAMES = {
    "y": "the label",
    "y_true": "what is true",
    "y_pred": "what the model predicted",
    "sensitive_features": "the sensitive columns",
    "control_features": "the columns to compare within",
    "sample_weight": "the weight",
}
_FIELDS = {
    "missing": ("Missing values of sensitive columns", MISSING),
    "families": ("Groups", {name: title for name, (title, _) in FAMILIES.items()}),
    "bound": ("Compared how", {name: title for name, (title, _) in BOUNDS.items()}),
    "epsilon": ("Largest difference accepted", {}),
    "encoding": ("Encoding", ENCODINGS),
    "delimiter": ("Fields are separated by a", DELIMITERS),
    "sheet": ("Sheet", {}),
    "normalize": ("Divide rows that do not add up to 1 by their sums", {}),
    "form": ("Form", {}),
}
"""Options of the library that have a field on the page, and the words for their values there."""


@cache
def environment() -> Any:
    """Return the report's environment with the app's templates."""
    from jinja2 import PackageLoader

    return report_environment().overlay(loader=PackageLoader("r2b.app", "templates"))


def render(name: str, **values: Any) -> str:
    """Render a template."""
    page: str = environment().get_template(name).render(words=words, **values)
    return page


def asset(name: str) -> tuple[str, str] | None:
    """Return a file that pages load, with its type; None if there is no such file."""
    if name == "report.css":
        return str(report_source(name)), _TYPES["css"]
    if name not in ("app.css", "app.js", "icon.svg"):
        return None
    return files("r2b.app").joinpath("templates", name).read_text(encoding="utf-8"), _TYPES[
        name.rpartition(".")[2]
    ]


def start_page(limit: int, fault: str = "") -> str:
    """Return the first page, with what went wrong before."""
    return render(
        "start.html.j2",
        limit=limit,
        megabytes=megabytes(limit),
        fault=fault,
        encodings=ENCODINGS,
        delimiters=DELIMITERS,
    )


def work_page(workspace: Workspace) -> str:
    """Return the page of an open table."""
    # A stranger who tries the app sees an answer at once.
    label, sensitive = ("education", ["sex"]) if workspace.source == "adult" else (None, [])
    # Likely columns of groups first: in a long list they would be out of sight.
    ordered = sorted(
        workspace.columns,
        key=lambda each: (
            each.name not in sensitive,
            (each.distinct or 0) > 100,
            each.distinct == 1,
        ),
    )
    return render(
        "work.html.j2",
        table=workspace.table,
        ordered=ordered,
        columns=workspace.columns,
        chosen={"label": label, "sensitive": sensitive},
        id=workspace.id,
        bounds=BOUNDS,
        families=FAMILIES,
        missing=MISSING,
        tasks=TASKS,
        preview=preview(workspace.table),
        **_reading_of(workspace),
    )


def _reading_of(workspace: Workspace) -> dict[str, Any]:
    """Say how the file was read, and what else could be chosen."""
    format, reading = workspace.table.listing.format, workspace.reading
    dialect = getattr(workspace.table.files[0], "dialect", None)
    delimiter = "" if dialect is None else dialect.delimiter
    how = (
        f"The file is read as {ENCODINGS.get(reading.encoding, reading.encoding or 'UTF-8')}"
        if format.is_text
        else "The first rows"
    )
    how += f" of the sheet {reading.sheet}" if reading.sheet else ""
    if format.kind == "csv":
        how += f", its fields separated by a {DELIMITERS.get(delimiter, repr(delimiter))}"
    known = {
        "encodings": ENCODINGS
        | {
            reading.encoding or "utf-8": ENCODINGS.get(
                reading.encoding, reading.encoding or "UTF-8"
            )
        }
    }
    known["delimiters"] = DELIMITERS
    may = workspace.source == "file" and format.is_text and not format.compression
    return {
        "how_read": how,
        "is_text": may,
        "is_csv": format.kind == "csv",
        "reading": reading,
        "delimiter": delimiter,
        **known,
    }


def answer(
    choice: PageChoice,
    found: Audit,
    bounded: Bounded,
    fair: FairLabels,
    cell: str | None,
    form: str = "soft",
) -> dict[str, Any]:
    """Return what a move changes on the page; ``form`` is that in which labels would leave."""
    facts = facts_of(
        found, fair, bounded.path, label_name=choice.label, leaving=leaving(fair, form)
    )
    change, proof = facts["change"], facts["certificate"]
    shown = {**facts, "change": {**change, "flows": change["flows"][: views.TOP_FLOWS]}}
    cells = [str(plain_value(name)) for name in fair.cells]
    # By default the cell whose labels change most, so that the table has something to show.
    moved = np.abs(1.0 - np.einsum("jkk->jk", fair.channel)).sum(axis=1)
    place = cells.index(cell) if cell in cells else int(moved.argsort(kind="stable")[-1])
    cost = views.cost(facts)
    return {
        **{
            name: change[name]
            for name in (
                "proven",
                "status",
                "disparity_before",
                "disparity",
                "expected_changes",
                "distance",
            )
        },
        "epsilon": choice.epsilon,
        "top": bounded.top,
        "relative_gap": proof["relative_gap"],
        "summary": _summary(facts),
        "leaving": words.leaving(facts)
        or "These labels have the parity that the certificate proves.",
        "realised": None if facts["leaving"] is None else facts["leaving"]["disparity"],
        "cells": cells,
        "cell": cells[place],
        "html": {
            "verdict": render(
                "verdict.html.j2",
                facts=facts,
                hero=views.hero(facts),
                sentence=words.summary(facts)[-1],
            ),
            "proof": render("proof.html.j2", facts=facts, certificate=words.certificate(facts)),
            "flows": render(
                "flows.html.j2", facts=shown, flows=views.flows(shown), groups=len(change["flows"])
            ),
            "channel": render(
                "channel.html.j2", facts=facts, channel=channel_view(fair, place), cell=cells[place]
            ),
            "cost": "" if cost is None or cost["svg"] is None else str(cost["svg"]),
        },
    }


def audit_part(choice: PageChoice, found: Audit, fair: FairLabels) -> dict[str, str]:
    """Return what the choice of columns changes on the page."""
    facts = facts_of(found, fair, label_name=choice.label)
    return {
        "title": words.title(facts),
        "found": " ".join(words.summary(facts)[:-1]),
        "audit": render(
            "audit.html.j2",
            facts=facts,
            heat_maps=views.heat_maps(facts)[:4],
            evidence=views.evidence(facts["audit"]),
        ),
    }


def made_part(choice: TaskChoice, made: Made) -> str:
    """Return what was made of scores, or for a model."""
    fair, proof, decisions = made.fair, made.fair.certificate, choice.task == "decisions"
    rows = shares(fair)
    classes = [str(plain_value(name)) for name in fair.classes]
    cut = _cut(len(rows), len(classes))
    by = " x ".join(choice.sensitive)
    if decisions:
        sentence = (
            "These are the decisions that are right most often, if the probabilities are, among "
            "all with so little difference."
        )
        if made.likeliest is not None:
            right, apart = (f"{100 * each:.1f}" for each in made.likeliest)
            sentence += (
                f" The likeliest class of every row would be right in {right} % and differ by "
                f"{apart} points between groups."
            )
        tile = ("Expected to be right", 1.0 - proof.expected_changes, "if the probabilities are")
    else:
        sentence = (
            f"Differences are those between groups of {by} as the columns that the model sees "
            f"show them. {_TEACH}"
        )
        tile = ("Labels that change", proof.expected_changes, "expected")
    names = ("changed_name", "changed", "changed_note")
    return render(
        "made.html.j2",
        parity=proof.disparity,
        before=proof.disparity_before,
        **dict(zip(names, tile, strict=True)),
        proven=fair.status.ok,
        status=fair.status.value,
        gap=abs(proof.relative_gap),
        sentence=sentence if fair.status.ok else f"{sentence} {_advice(fair)}",
        corner=by,
        classes=classes[:TOP_CLASSES],
        rows=[{**row, "cells": row["cells"][:TOP_CLASSES]} for row in rows[:_MOST_ROWS]],
        cut=cut,
    )


def _cut(n_groups: int, n_classes: int) -> str:
    """Say how much of a table is shown; nothing if all of it is."""
    if n_groups <= _MOST_ROWS and n_classes <= TOP_CLASSES:
        return ""
    groups, classes = min(n_groups, _MOST_ROWS), min(n_classes, TOP_CLASSES)
    return f"{groups} of {n_groups} groups, {classes} of {n_classes} classes"


def _advice(fair: FairLabels) -> str:
    return rendered(R2BError("", remedy=fair.status.advice))[1]


def predictions_part(choice: TaskChoice, found: dict[str, Any]) -> str:
    """Return what was measured of predictions."""
    worst = max(found["criteria"], key=lambda each: float(each["found"] - each["chance"]))
    title = (
        f"The model treats groups differently by up to {worst['found']:.1f} percentage points "
        f"({worst['name'].lower()})."
    )
    if all(each["found"] <= each["chance"] for each in found["criteria"]):
        title = "No difference between groups is larger than chance alone may explain."
    classes, groups = found["classes"], found["groups"]
    cut = _cut(len(groups), len(classes))
    return render(
        "predictions.html.j2",
        title=title,
        criteria=found["criteria"],
        accuracy=found["accuracy"],
        classes=classes[:TOP_CLASSES],
        groups=[{**each, "shares": each["shares"][:TOP_CLASSES]} for each in groups[:_MOST_ROWS]],
        corner=" x ".join(choice.sensitive),
        weighted=choice.weight is not None,
        cut=cut,
    )


def _summary(facts: dict[str, Any]) -> str:
    change = facts["change"]
    proven = "proven optimal" if change["proven"] else f"not proven optimal: {change['status']}"
    changed = words.percent(change["expected_changes"])
    largest = words.points(change["disparity"])
    return f"{changed} of labels change, largest difference {largest}, {proven}."


def channel_view(fair: FairLabels, place: int) -> dict[str, Any]:
    """Lay out P(new class | old class) of one cell: the share that stays, then where others go.

    Columns that nobody moves to would be empty and are left out, so that what happens is seen
    without scrolling.
    """
    names = [str(plain_value(name)) for name in fair.classes]
    stays = np.diag(fair.channel[place])
    moves = fair.channel[place] - np.diag(stays)
    gaining = np.flatnonzero(moves.max(axis=0) >= _LEAST)
    gaining = gaining[np.argsort(-moves[:, gaining].sum(axis=0), kind="stable")]
    losing = np.argsort(stays, kind="stable")
    losing = losing[stays[losing] <= 1.0 - _LEAST]
    news, olds = gaining[:TOP_CLASSES], losing[: 2 * TOP_CLASSES]
    rows = [
        {
            "name": names[old],
            "stays": _cell(float(stays[old]), "d"),
            "cells": [_cell(float(moves[old, new]), "u") for new in news],
        }
        for old in olds
    ]
    cut = f"{len(olds)} of {len(losing)} classes that lose, {len(news)} of {len(gaining)} that gain"
    whole = len(news) == len(gaining) and len(olds) == len(losing)
    return {
        "columns": [names[new] for new in news],
        "rows": rows,
        "still": len(names) - len(losing),
        "cut": "" if whole else cut,
    }


def _cell(probability: float, colour: str) -> tuple[str, str]:
    """Return a probability in percent and the class of its colour."""
    step = sum(probability >= edge for edge in (_LEAST, 0.05, 0.2, 0.4, 0.7))
    shown = "" if probability < _LEAST else f"{100 * probability:.1f}"
    return shown, f"{colour}{step}" if step else ""


def phrase(name: str, value: Any) -> str | None:
    """Return the words of the page for an option of the library; None if it has no field.

    Examples
    --------
    >>> phrase("missing", "group")
    '“A group of their own” under “Missing values of sensitive columns”'
    >>> phrase("max_iter", None) is None
    True
    """
    known, element, key = name.partition("[")
    if element:
        return f"the column {key.removesuffix(']')}"
    if known in _NAMES:
        return _NAMES[known]
    if known not in _FIELDS:
        return None
    title, words = _FIELDS[known]
    words = words or {value: value}
    said = words.get(value) if isinstance(value, str) else None
    return f"“{said}” under “{title}”" if said else f"“{title}”"


def rendered(error: R2BError) -> tuple[str, str]:
    """Return problem and remedy in words of the page."""
    otherwise = "Choose other columns, or use r2b on the command line or in Python."
    problem, remedy = error.render(phrase, otherwise)
    return directions_kept(problem), directions_kept(remedy)


def control_of(error: R2BError, choice: dict[str, Any]) -> str:
    """Name the control that an error concerns; "general" if there is none."""
    facts = error.facts
    if "control" in facts:
        return str(facts["control"])
    column = facts.get("column", facts.get("argument"))
    if column is not None and column in ("y", choice.get("label")):
        return "label"
    if isinstance(error, WeightError) or column in ("sample_weight", choice.get("weight") or ""):
        return "weight"
    if isinstance(error, MissingValueError):
        return "missing"
    for part in ("sensitive", "control"):
        if column is not None and column in (choice.get(part) or ()):
            return part
    named = [name for name in ("epsilon", "bound", "families", "missing", "form") if name in facts]
    if named:
        return named[0]
    if {"family", "groups", "stratum", "control_features"} & set(facts):
        return "families"
    return "label" if {"n_classes", "class_name"} & set(facts) else "general"


def fault(error: R2BError, choice: dict[str, Any] | None = None, status: int = 400) -> Response:
    """Answer with an error."""
    problem, remedy = rendered(error)
    control = control_of(error, choice or {})
    content: dict[str, Any] = {"problem": problem, "remedy": remedy, "control": control}
    if "sheets" in error.facts:
        content["sheets"] = error.facts["sheets"]
    return JSONResponse(content, status_code=status)


def refusal(status: int, problem: str, remedy: str, *, page: bool = False) -> Response:
    """Answer with a refusal, to a person who opened an address as a page, to a script as JSON."""
    if page:
        return HTMLResponse(
            render("refused.html.j2", problem=problem, remedy=remedy), status_code=status
        )
    return JSONResponse(
        {"problem": problem, "remedy": remedy, "control": "general"}, status_code=status
    )


def reads_pages(method: str, accept: str) -> bool:
    """Tell whether a request comes from the address line of a browser.

    Examples
    --------
    >>> reads_pages("GET", "text/html,application/xhtml+xml"), reads_pages("GET", "*/*")
    (True, False)
    """
    return method == "GET" and "text/html" in accept
