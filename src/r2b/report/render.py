"""The facts as HTML, as Markdown and as fragments for notebooks: templates, which compute nothing.

A value is escaped by the environment of its template. The policy in the head of a page lets only
the script run whose hash it names, and nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from r2b._data.values import directions_kept, directions_shown
from r2b._labels.summary import SHOWN_FAMILIES, largest_changes, means_of
from r2b.report import charts, views, words

if TYPE_CHECKING:
    from r2b._audit import Audit, Comparison, Frontier
    from r2b._labels import FairLabels

_MARKS = re.compile(r"([\\`*_{}\[\]|~$^])")  # what Markdown reads inside a line
_FILTERS: tuple[str, ...] = (
    "percent",
    "points",
    "number",
    "count",
    "moved",
    "signed",
    "tiny",
    "p_value",
    "quoted",
)
_FILTERS += ("isolated", "rows_of", "ratio", "verdict")


def to_html(facts: dict[str, Any]) -> str:
    """Render the facts as a self-contained page.

    It loads no other file, and can be read without JavaScript, on a phone, in dark mode, in print
    and by a screen reader. Its size stays under 2 MB; the JSON has what is left out.

    Parameters
    ----------
    facts : dict
        From :func:`r2b.report.gather`.

    See Also
    --------
    r2b.report.gather : Audit, solve, and return all facts.
    r2b.report.to_markdown : The facts as Markdown.

    Examples
    --------
    >>> from r2b.report import gather
    >>> facts = gather(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], n_boot=0)
    >>> to_html(facts).startswith("<!doctype html>")
    True
    """
    more = {"style": source("report.css"), "script": source("report.js")}
    return _report(environment(), "report.html.j2", facts, **more, script_hash=script_hash())


def to_markdown(facts: dict[str, Any]) -> str:
    """Render the facts as Markdown, for a merge request or a wiki.

    Parameters
    ----------
    facts : dict
        From :func:`r2b.report.gather`.

    See Also
    --------
    r2b.report.to_html : The facts as a page.

    Examples
    --------
    >>> from r2b.report import gather
    >>> facts = gather(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], n_boot=0)
    >>> to_markdown(facts).splitlines()[0]
    '# Labels do not differ between groups'
    """
    page = _report(_markdown(), "report.md.j2", facts).replace(words.SPACE, " ")
    return re.sub(r"\n{3,}", "\n\n", page).rstrip("\n") + "\n"


def _report(found: Any, name: str, given: dict[str, Any], **more: Any) -> str:
    facts = words.as_facts(given)
    page: str = found.get_template(name).render(
        facts=facts,
        words=words,
        hero=views.hero(facts),
        heat_maps=views.heat_maps(facts),
        more_families=max(0, len(facts["audit"]["families"]) - SHOWN_FAMILIES),
        flows=views.flows(facts),
        cost=views.cost(facts),
        evidence=views.evidence(facts["audit"]),
        answer=words.answer(facts),
        left_out=words.left_out(facts),
        four_fifths=views.four_fifths(facts),
        grown=views.grown(facts),
        listed=views.LISTED_MOVES,
        **more,
    )
    return page


@cache
def environment() -> Any:
    """Return the environment that pages are rendered in: it escapes everything."""
    return _environment(words.shown)


@cache
def _markdown() -> Any:
    from markupsafe import Markup

    def text(value: Any) -> Any:
        return value if isinstance(value, Markup) else Markup(markdown_text(value))

    def code(lines: Any) -> Any:  # indented code has no fence that a line could close
        return Markup("\n".join(f"    {line}" for line in str(lines).splitlines()))

    found = _environment(text)
    found.filters["code"] = code
    return found


def _environment(finalize: Any) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("r2b.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
    found.filters |= {name: getattr(words, name) for name in _FILTERS}
    found.filters["named"] = named
    found.tests["short"] = words.is_short
    found.filters["hundred"] = lambda value: (
        value if isinstance(value, str) else words.number(100 * value)
    )
    return found


def markdown_text(value: Any) -> str:
    r"""Write a value so that Markdown, and the HTML in it, show it as it is.

    Examples
    --------
    >>> markdown_text("<img src=x>|a_b")
    '&lt;img src=x&gt;\\|a\\_b'
    """
    line = " ".join(directions_kept(str(value)).splitlines())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = _MARKS.sub(r"\\\1", line)
    return f"\\{line}" if line.startswith(("-", "+", "!", "(", "#")) else line


def named(name: Any, most: int = 60, *, narrow: bool = False) -> Any:
    """Write a name; of a long one the ends, and all of it where the mouse rests.

    In a narrow column lines may end after an equals sign.
    """
    from markupsafe import Markup, escape

    short = words.shortened(name, most)
    text = escape(words.isolated(short))
    if narrow:
        text = text.replace("=", Markup("=<wbr>"))
    if short == str(name):
        return text
    return Markup('<bdi title="{}">{}</bdi>').format(directions_shown(str(name)), text)


@cache
def source(name: str) -> Any:
    """Return one of the files beside the templates, to be put into a page as it is."""
    from markupsafe import Markup

    path = files("r2b.report").joinpath("templates", name)
    return Markup(path.read_text(encoding="utf-8").strip())


@cache
def script_hash() -> str:
    """Return the hash of the one script that a page may run."""
    return base64.b64encode(hashlib.sha256(source("report.js").encode()).digest()).decode()


def framed(page: str, name: str) -> str:
    """Put a page into a frame for a notebook, where it touches nothing else."""
    from markupsafe import escape

    style = "width: 100%; height: 42rem; border: 1px solid rgba(128, 128, 128, .4)"
    return (
        f'<iframe title="{escape(name)}" srcdoc="{escape(page)}" '
        f'sandbox="allow-scripts allow-modals" loading="lazy" style="{style}"></iframe>'
    )


def fair_html(fair: FairLabels) -> str:
    """Render fair labels for a notebook: status, disparity by family, cost, largest changes.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a"], ["f", "f", "m", "m"]
    >>> "already fair" in fair_html(r2b.debias(y, sensitive_features=sex, epsilon=0.1))
    True
    """
    changes, means = largest_changes(fair, 10)
    rows = fair.dataset
    return _fragment(
        "fair",
        fair=fair,
        proof=fair.certificate,
        rows=rows,
        changes=[] if rows is None else changes,
        means=means,
        means_of=means_of(fair),
    )


def audit_html(found: Audit) -> str:
    """Render an audit for a notebook: every family with chance and interval, and its groups.

    Examples
    --------
    >>> import r2b
    >>> found = r2b.audit(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], n_boot=0)
    >>> "4 rows" in audit_html(found)
    True
    """
    facts = words.as_facts(found.to_json())
    listed = views.evidence(facts)[:10]
    more = len(found.families) + len(found.continuous) - len(listed)
    return _fragment("audit", found=facts, listed=listed, more=more)


def frontier_html(path: Frontier) -> str:
    """Render a frontier for a notebook: the curve, and every point as a table.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a"], ["f", "f", "f", "m"]
    >>> frontier_html(r2b.frontier(y, sensitive_features=sex, epsilons=3)).count("<tr")
    4
    """
    cost = words.Facts(points=list(path), chosen=None, chance=path.chance)
    axis = "epsilon accepted, times 100"
    chart = charts.frontier(cost, 0.0, axis) if len(path) > 1 else None
    return _fragment("frontier", path=path, chart=chart)


def comparison_html(found: Comparison) -> str:
    """Render a comparison of bounds for a notebook: what each costs, and which others it meets.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a"], ["f", "f", "f", "m"]
    >>> found = r2b.compare(y, sensitive_features=sex, choices={"strict": {"epsilon": 0.0}})
    >>> "strict" in comparison_html(found)
    True
    """
    meets = {
        name: [other for other in found.names if other != name and found.meets(name, other)]
        for name in found.names
    }
    return _fragment("comparison", labels=found.labels, meets=meets)


def _fragment(block: str, **values: Any) -> str:
    template = environment().get_template("notebook.html.j2")
    page: str = template.render(block=block, words=words, style=source("notebook.css"), **values)
    return page
