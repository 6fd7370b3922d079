"""Answers that are not results: what went wrong, in sentences, with the control it concerns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, Response

from r2b._data.values import directions_kept
from r2b.errors import MissingValueError, R2BError, WeightError

# Errors speak of arguments and options; here there are controls.
_SPOKEN: Sequence[tuple[str, str]] = (
    (r"To keep them, use missing=[^.]* where it is offered\.", "Or say under missing values what becomes of them."),
    (r"[Pp]ass missing='group'(?: to [^,.;]*)?", "Under missing values choose a group of their own"),
    (r"missing='exclude'", "leave these rows out"),
    (r"\bmissing='group'", "a group of their own under missing values"),
    (r"\bThe argument y\b", "The label"),
    (r"\b([Ii]n|of) y\b(?=[ ,.])", r"\1 the label"),
    (r"\b[Tt]he argument sensitive_features\b", "The sensitive columns"),
    (r"\bsensitive_features\b", "the sensitive columns"),
    (r"\bcontrol_features\b", "the columns to compare within"),
    (r"\bsample_weight\b", "the weight"),
    (r", or say how fields are separated with --delimiter", ""),
    (r": pass --delimiter '[^']*'\.", ": save it with commas, or use r2b on the command line with --delimiter."),
    (r"; where the header does not tell the delimiter, pass it with --delimiter", ""),
    (r"(?:Say how it is encoded with|Pass) --encoding[^.]*\.", "Save it as UTF-8, or use r2b on the command line with --encoding."),
    (r"Pass --format ([\w.]+)\.$", r"Let its name end in .\1."),
    (r", and say what it is with --format(?:, such as [\w .]*)?(?=\.$)", ""),
    (r"Say which it is with format=.*$", "Give it an ending that does: .csv, .tsv, .jsonl, .parquet or .arrow."),
    (r" with --output-format", ""),
    (r", or say which text means missing with --na", ""),
)
_CONTROLS = ("epsilon", "bound", "families", "missing", "form")


def spoken(text: str) -> str:
    """Say in words of the page what an error says in words of arguments and options.

    Examples
    --------
    >>> spoken("The argument y has no rows."), spoken("Correct the line, or say how fields are separated with --delimiter.")
    ('The label has no rows.', 'Correct the line.')
    """
    for pattern, words in _SPOKEN:
        text = re.sub(pattern, words, text)
    return directions_kept(_OURS.sub(lambda found: found[0].capitalize(), text))


# The first word where it is one of ours: names of files and columns stay as they are written.
_OURS = re.compile(r"^(?:the sensitive|the columns|the weight|leave these|a group of|standard input)", re.ASCII)


def control_of(error: R2BError, choice: dict[str, Any] | None) -> str:
    """Name the control that an error concerns; "general" where there is none."""
    facts, chosen = error.facts, choice or {}
    if "control" in facts:
        return str(facts["control"])
    column = facts.get("column")
    if column is not None and column in ("y", chosen.get("label")):
        return "label"
    if isinstance(error, WeightError) or (column is not None and column in ("sample_weight", chosen.get("weight"))):
        return "weight"
    if isinstance(error, MissingValueError):
        return "missing"
    for part in ("sensitive", "control"):
        if column is not None and column in (chosen.get(part) or ()):
            return part
    named = next((name for name in _CONTROLS if name in facts), None)
    if named is not None:
        return named
    if "family" in facts or "groups" in facts or "stratum" in facts or "control_features" in facts:
        return "families"
    return "label" if re.search(r"\bargument y\b|\bclass", error.problem) else "general"


def fault(error: R2BError, choice: dict[str, Any] | None = None, status: int = 400) -> Response:
    """Answer with an error."""
    content = {"problem": spoken(error.problem), "remedy": spoken(error.remedy), "control": control_of(error, choice)}
    return JSONResponse(content, status_code=status)


def refusal(status: int, problem: str, remedy: str, *, page: bool = False) -> Response:
    """Answer with a refusal, to a person who opened an address as a page, to a script as JSON."""
    if page:
        from r2b.app.pages import render

        return HTMLResponse(render("refused.html.j2", problem=problem, remedy=remedy), status_code=status)
    return JSONResponse({"problem": problem, "remedy": remedy, "control": "general"}, status_code=status)


def reads_pages(method: str, accept: str) -> bool:
    """Tell whether a request comes from the address line of a browser.

    Examples
    --------
    >>> reads_pages("GET", "text/html,application/xhtml+xml"), reads_pages("GET", "*/*")
    (True, False)
    """
    return method == "GET" and "text/html" in accept
