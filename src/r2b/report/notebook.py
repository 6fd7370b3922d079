"""Results as fragments of HTML for notebooks: the same facts as their plain text, no script, styles that touch nothing else on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from r2b._data.arrays import plain_value
from r2b._labels.summary import largest_changes, means_of
from r2b.report import svg, views, words
from r2b.report.html import environment, source

if TYPE_CHECKING:
    from r2b._audit import Audit, Comparison, Frontier
    from r2b._labels import FairLabels

_SHOWN = 10


def fair_html(fair: FairLabels) -> str:
    """Render fair labels: status, parity by family, cost, certificate, largest changes.

    Examples
    --------
    >>> import r2b
    >>> fair = r2b.debias(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], epsilon=0.1)
    >>> "already fair" in fair_html(fair)
    True
    """
    proof = fair.certificate
    families = [
        {
            "name": words.family_name(family.name),
            "bound": words.BOUNDS[family.bound]
            + ("" if family.offsets is None else words.WITH_OFFSETS.rstrip(",")),
            "before": float(family.measure_before.max()),
            "after": float(family.measure.max()),
            "epsilon": words.epsilon(family.epsilon.tolist()),
        }
        for family in proof.families[:_SHOWN]
    ]
    changes, means = largest_changes(fair, _SHOWN)
    changes = [] if fair.dataset is None else changes
    return _rendered(
        "fair",
        fair=fair,
        proof=proof,
        rows=None if fair.dataset is None else fair.dataset.n_rows,
        families=families,
        more=len(proof.families) - len(families),
        changes=[
            (str(plain_value(c.group)), plain_value(c.old), plain_value(c.new), c.weight, c.share)
            for c in changes
        ],
        weighted=fair.dataset is not None and fair.dataset.weight is not None,
        means=[(str(plain_value(c.group)), plain_value(c.label), c.before, c.after) for c in means],
        means_of=means_of(fair),
        absent=[f"{each.group} in {each.stratum}" for each in fair.families.absent],
    )


def audit_html(found: Audit) -> str:
    """Render an audit: every family with chance and interval, and the groups farthest from all rows.

    Examples
    --------
    >>> from r2b._audit import audit
    >>> found = audit(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], n_boot=0)
    >>> "4 rows" in audit_html(found)
    True
    """
    facts = found.to_json()
    listed = views.evidence(facts)[:_SHOWN]
    return _rendered(
        "audit",
        found=facts,
        listed=listed,
        more=len(found.families) + len(found.continuous) - len(listed),
    )


def frontier_html(path: Frontier) -> str:
    """Render a frontier: the curve, and every point as a table.

    Examples
    --------
    >>> import r2b
    >>> path = r2b.frontier(["a", "b", "b", "a"], sensitive_features=["f", "f", "f", "m"], epsilons=3)
    >>> frontier_html(path).count("<tr")
    4
    """
    points = [{"epsilon": p.epsilon, "expected_changes": p.expected_changes} for p in path]
    cost = {"points": points, "chosen": None, "chance": path.chance}
    picture = svg.frontier(cost, 0.0, "epsilon accepted, times 100") if len(points) > 1 else None
    return _rendered("frontier", path=list(path), svg=picture)


def comparison_html(found: Comparison) -> str:
    """Render a comparison of bounds: what each costs, and which others it meets.

    Examples
    --------
    >>> import r2b
    >>> found = r2b.compare(["a", "b", "b", "a"], sensitive_features=["f", "f", "f", "m"], choices={"strict": {"epsilon": 0.0}})
    >>> "strict" in comparison_html(found)
    True
    """
    rows = [
        {
            "name": name,
            "proof": fair.certificate,
            "proven": fair.status.ok,
            "also": ", ".join(
                other for other in found.names if other != name and found.meets(name, other)
            )
            or "none",
        }
        for name, fair in found.labels.items()
    ]
    return _rendered("comparison", rows=rows)


def _rendered(block: str, **values: Any) -> str:
    page: str = (
        environment()
        .get_template("notebook.html.j2")
        .render(block=block, words=words, style=source("notebook.css"), **values)
    )
    return page
