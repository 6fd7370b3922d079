"""Pages, the parts of one that a move of the slider replaces, and errors beside their controls.

Pictures, words and colours are the report's.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from r2b._audit.tradeoff import fair_as_they_are
from r2b._constraints.bounds import BOUNDS, CHOICES
from r2b._data.arrays import plain_value
from r2b._data.values import directions_kept
from r2b._files.formats import as_text
from r2b._files.text import megabytes
from r2b._labels import FairLabels
from r2b._labels.rows import FORMS
from r2b.app.choices import NEEDED, TASKS, Choice
from r2b.app.files import DELIMITERS, ENCODINGS, preview
from r2b.app.making import SEEN, Made
from r2b.app.tables import Workspace
from r2b.errors import MissingValueError, R2BError, WeightError
from r2b.report import facts_of, views, words
from r2b.report.render import environment as report_environment
from r2b.report.render import source as report_source

TOP_CLASSES, TOP_GROUPS = 16, 40  # of a table
_LEAST = 0.0005  # probability that is shown, since it rounds to 0.1 %
_ASSETS = ("report.css", "app.css", "app.js", "icon.svg")
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

_OF_FAMILIES = ("family", "groups", "stratum", "control_features")
"""Facts of errors that the choice of groups is to blame for."""

_NAMES = {
    "y": "the label",
    "y_true": "what is true",
    "y_pred": "what the model predicted",
    "sensitive_features": "the sensitive columns",
    "control_features": "the columns to compare within",
    "sample_weight": "the weight",
}
FIELDS: dict[str, tuple[str, dict[str, str]]] = {
    "missing": (
        "Missing values of sensitive columns",
        {
            "error": "Refuse them",
            "group": "A group of their own",
            "exclude": "Leave these rows as they are",
        },
    ),
    "families": (
        "Groups",
        {
            "crossed": "Crossed: every combination",
            "marginal": "Each alone: one column at a time",
            "both": "Both: crossed and each alone",
        },
    ),
    "bound": ("Compared how", {name: BOUNDS[name].title for name in CHOICES}),
    "epsilon": ("Largest difference accepted", {}),
    "encoding": ("Encoding", ENCODINGS),
    "delimiter": ("Fields are separated by a", DELIMITERS),
    "sheet": ("Sheet", {}),
    "normalize": ("Divide rows that do not add up to 1 by their sums", {}),
    "form": ("Form", {}),
    **{name: (name.capitalize(), {}) for needed in NEEDED.values() for name in needed},
}
"""Options of the library that have a field on the page: its title, and the words for values."""

_SHOWN = {
    "words": words,
    "fields": FIELDS,
    "bounds": BOUNDS,
    "needed": NEEDED,
    "tasks": TASKS,
    "megabytes": megabytes,
    "top_classes": TOP_CLASSES,
    "top_groups": TOP_GROUPS,
}


@cache
def environment() -> Any:
    """Return the report's environment with the app's templates before its own."""
    from jinja2 import ChoiceLoader, PackageLoader

    report = report_environment()
    own = PackageLoader("r2b.app", "templates")
    return report.overlay(loader=ChoiceLoader([own, report.loader]))


def render(name: str, **values: Any) -> str:
    """Render a template."""
    page: str = environment().get_template(name).render(_SHOWN, **values)
    return page


def asset(name: str) -> tuple[str, str] | None:
    """Return a file that pages load, with its type; None if there is no such file."""
    kind = _TYPES[name.rpartition(".")[2]] if name in _ASSETS else ""
    if name == "report.css":
        return str(report_source(name)), kind
    path = files("r2b.app").joinpath("templates", name)
    return (path.read_text(encoding="utf-8"), kind) if kind else None


def start_page(limit: int, fault: str = "") -> str:
    """Return the first page, with what went wrong before."""
    return render("start.html.j2", limit=limit, fault=fault)


def work_page(workspace: Workspace) -> str:
    """Return the page of an open table."""
    # Someone who tries the app sees an answer at once.
    label, sensitive = ("education", ["sex"]) if workspace.source == "adult" else (None, [])

    def unlikely(each: Any) -> tuple[bool, ...]:
        """Tell what puts a column at the end of a long list, where it is out of sight."""
        return each.name not in sensitive, (each.distinct or 0) > 100, each.distinct == 1

    return render(
        "work.html.j2",
        id=workspace.id,
        table=workspace.table,
        columns=workspace.columns,
        ordered=sorted(workspace.columns, key=unlikely),
        chosen={"label": label, "sensitive": sensitive},
        preview=preview(workspace.table),
        **_reading_of(workspace),
    )


def _reading_of(workspace: Workspace) -> dict[str, Any]:
    """Say how the file was read, and what else could be chosen."""
    format, reading = workspace.table.listing.format, workspace.reading
    dialect = getattr(workspace.table.files[0], "dialect", None)
    delimiter = "" if dialect is None else dialect.delimiter
    read_as = f"The file is read as {ENCODINGS[reading.encoding or 'utf-8']}"
    how = read_as if format.is_text else "The first rows"
    how += f" of the sheet {reading.sheet}" if reading.sheet else ""
    if format.kind == "csv":
        how += f", its fields separated by a {DELIMITERS.get(delimiter, repr(delimiter))}"
    return {
        "how_read": how,
        "is_text": workspace.source == "file" and format.is_text and not format.compression,
        "is_csv": format.kind == "csv",
        "read": {"encoding": reading.encoding, "delimiter": delimiter},
    }


def facts_for(
    workspace: Workspace, choice: Choice, *, known: bool = False, **shown: Any
) -> words.Facts:
    """Return the facts of what is chosen; with its cost if that is ``known``, or else solved."""
    fair, form = workspace.solve(choice), choice.form
    return facts_of(
        workspace.audit(choice),
        fair,
        workspace.frontier(choice, known=known),
        label_name=choice.label,
        leaving=(form, fair.realised_as(form)) if FORMS[form].drawn else None,
        **shown,
    )


def answer(workspace: Workspace, choice: Choice, cell: str | None = None) -> dict[str, Any]:
    """Return what a move changes on the page, and the channel of one cell."""
    fair, facts = workspace.solve(choice), facts_for(workspace, choice, known=True)
    change, proof = facts.change, facts.certificate
    shown = words.as_facts(facts | {"change": change | {"flows": change.flows[: views.TOP_FLOWS]}})
    cells = [str(plain_value(name)) for name in fair.cells]
    # By default the cell whose labels change most, so that the table has something to show.
    moved = np.abs(1.0 - np.einsum("jkk->jk", fair.channel)).sum(axis=1)
    place = cells.index(cell) if cell in cells else int(moved.argsort(kind="stable")[-1])
    parts: dict[str, dict[str, Any]] = {
        "verdict": {"hero": views.hero(facts), "sentence": words.summary(facts)[-1]},
        "proof": {},
        "cost": {"cost": views.cost(facts)},
        "flows": {"facts": shown, "flows": views.flows(shown), "groups": len(change.flows)},
        "channel": {"channel": channel_view(fair, place), "cell": cells[place]},
    }
    numbers = ("proven", "status", "disparity_before", "disparity", "expected_changes", "distance")
    proven = "proven optimal" if change.proven else f"not proven optimal: {change.status}"
    said = words.leaving(facts) or "These labels have the parity that the certificate proves."
    return {
        **{name: change[name] for name in numbers},
        "epsilon": choice.epsilon,
        "top": fair_as_they_are(workspace.task(choice)),
        "relative_gap": proof.relative_gap,
        "summary": f"{words.percent(change.expected_changes)} of labels change, largest "
        f"difference {words.points(change.disparity)}, {proven}.",
        "leaving": said,
        "realised": facts.leaving and facts.leaving.disparity,
        "cells": cells,
        "cell": cells[place],
        "html": {
            name: render(f"{name}.html.j2", **{"facts": facts, **values})
            for name, values in parts.items()
        },
    }


def audit_part(workspace: Workspace, choice: Choice) -> dict[str, str]:
    """Return what the choice of columns changes on the page."""
    facts = facts_for(workspace, choice, known=True)
    return {
        "title": words.title(facts),
        "found": " ".join(words.summary(facts)[:-1]),
        "audit": render(
            "audit.html.j2",
            facts=facts,
            heat_maps=views.heat_maps(facts)[:4],
            evidence=views.evidence(facts.audit),
        ),
    }


def made_part(choice: Choice, made: Made) -> str:
    """Return what was made of scores, or for a model."""
    fair, proof = made.fair, made.fair.certificate
    names = [name.rpartition(f"={SEEN}")[2] for name in as_text(fair.groups, "groups")]
    return render(
        "made.html.j2",
        task=choice.task,
        proof=proof,
        status=fair.status,
        advice=rendered(R2BError("", remedy=fair.status.advice))[1],
        likeliest=made.likeliest,
        by=" x ".join(choice.sensitive),
        classes=[*map(plain_value, fair.classes)],
        rows=list(zip(names, proof.means_before.tolist(), proof.means.tolist(), strict=True)),
    )


def predictions_part(choice: Choice, found: dict[str, Any]) -> str:
    """Return what was measured of predictions."""
    given, correct = found["given"], found["correct"]
    rows = zip(map(plain_value, given.groups), given.weights, correct, given.means, strict=True)
    return render(
        "predictions.html.j2",
        worst=max(found["criteria"], key=lambda each: float(each[1] - each[2])),
        criteria=found["criteria"],
        accuracy=np.average(correct, weights=given.weights),
        classes=[*map(plain_value, given.classes)],
        rows=list(rows),
        by=" x ".join(choice.sensitive),
        weighted=choice.weight is not None,
    )


def channel_view(fair: FairLabels, place: int) -> dict[str, Any]:
    """Lay out P(new class | old class) of one cell: the share that stays, then where others go.

    Columns that nobody moves to would be empty and are left out, so that what happens is seen
    without scrolling.
    """
    names = [str(plain_value(name)) for name in fair.classes]
    stays = np.diag(fair.channel[place])
    moves = fair.channel[place] - np.diag(stays)
    gaining = np.argsort(-moves.sum(axis=0), kind="stable")
    gaining = gaining[moves.max(axis=0)[gaining] >= _LEAST]
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
    column, of, role = name.rpartition(" of ")
    if of and role in _NAMES:
        return column
    if known not in FIELDS:
        return _NAMES.get(known)
    title, values = FIELDS[known]
    said = values.get(value, "" if values else value) if isinstance(value, str) else ""
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
    column = facts.get("column", facts.get("argument", ...))
    rules = [
        (column in ("y", choice.get("label")), "label"),
        (column in ("sample_weight", choice.get("weight")), "weight"),
        (isinstance(error, WeightError), "weight"),
        (isinstance(error, MissingValueError), "missing"),
        *((column in (choice.get(part) or ()), part) for part in ("sensitive", "control")),
        *((name in facts, name) for name in (*FIELDS, "task", "kind")),
        *((name in facts, "families") for name in _OF_FAMILIES),
        ("n_classes" in facts or "class_name" in facts, "label"),
    ]
    return next((control for concerned, control in rules if concerned), "general")


def fault(
    error: R2BError, status: int, choice: dict[str, Any] | None = None, *, page: bool = False
) -> Response:
    """Answer with an error, to a person who opened an address as a page, to a script as JSON."""
    problem, remedy = rendered(error)
    if page:
        shown = render("refused.html.j2", problem=problem, remedy=remedy)
        return HTMLResponse(shown, status_code=status)
    content: dict[str, Any] = {"problem": problem, "remedy": remedy}
    content["control"] = control_of(error, choice or {})
    content |= {name: fact for name, fact in error.facts.items() if name == "sheets"}
    return JSONResponse(content, status_code=status)


def reads_pages(request: Request) -> bool:
    """Tell whether a request comes from the address line of a browser."""
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")
