"""The facts as one HTML file: no other file, no address, nothing worked out here.

Values reach the page through Jinja with autoescape, or through ``svg.tag``, which escapes too. The
policy in the page's head lets run only the script whose hash it names, and lets nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from r2b._data.values import directions_shown
from r2b.report import answer, views, words


def to_html(facts: dict[str, Any]) -> str:
    """Render the facts as a self-contained page.

    It needs no other file and asks for none, reads without JavaScript, on a phone, in dark mode, in
    print and by a screen reader. What it shows is bounded, so that its size stays under 2 MB
    however many classes and groups there are; the JSON has what is left out.

    Parameters
    ----------
    facts : dict
        From :func:`r2b.report.gather`.

    Returns
    -------
    str

    Examples
    --------
    >>> from r2b.report import gather
    >>> facts = gather(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], n_boot=0, n_permutations=0)
    >>> to_html(facts).startswith("<!doctype html>")
    True
    """
    script = source("report.js")
    page: str = (
        environment()
        .get_template("report.html.j2")
        .render(
            facts=facts,
            words=words,
            title=words.title(facts),
            summary=words.summary(facts),
            what_next=words.what_next(facts),
            hero=views.hero(facts),
            heat_maps=views.heat_maps(facts),
            more_families=max(0, len(facts["audit"]["families"]) - views.TOP_FAMILIES),
            flows=views.flows(facts),
            cost=views.cost(facts),
            evidence=views.evidence(facts["audit"]),
            certificate=[] if facts["certificate"] is None else words.certificate(facts),
            answer=answer.answer(facts),
            left_out=answer.left_out(facts),
            four_fifths=views.four_fifths(facts),
            style=source("report.css"),
            script=script,
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )
    return page


def framed(page: str, name: str) -> str:
    """Put a page into a frame for a notebook, where its styles and its script touch nothing else."""
    from markupsafe import escape

    return (
        f'<iframe title="{escape(name)}" srcdoc="{escape(page)}" sandbox="allow-scripts allow-modals" loading="lazy" '
        'style="width: 100%; height: 42rem; border: 1px solid rgba(128, 128, 128, .4); border-radius: 6px"></iframe>'
    )


def named(name: Any, most: int = 60) -> Any:
    """Write a name; of a long one its ends, and all of it where the mouse rests."""
    from markupsafe import Markup, escape

    short = words.shortened(name, most)
    text = escape(words.isolated(short))
    return (
        text
        if short == str(name)
        else Markup('<bdi title="{}">{}</bdi>').format(directions_shown(str(name)), text)
    )


@cache
def source(name: str) -> Any:
    """Give one of the files beside the templates, to be put into a page as it is."""
    from markupsafe import Markup

    return Markup(
        files("r2b.report").joinpath("templates", name).read_text(encoding="utf-8").strip()
    )


@cache
def environment() -> Any:
    """Give the one environment that all pages are rendered in: everything is escaped, and a name that is not there is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("r2b.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=words.shown,
    )
    for name in (
        "percent",
        "points",
        "number",
        "count",
        "moved",
        "signed",
        "tiny",
        "p_value",
        "quoted",
        "isolated",
        "rows_of",
    ):
        found.filters[name] = getattr(words, name)
    found.filters["named"] = named
    return found
