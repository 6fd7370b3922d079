"""Reports that results write of themselves: ``fair.report(...)`` and ``audit.report(...)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any

from r2b._audit import Audit
from r2b._audit.measure import Draws, audit_families
from r2b._data import Dataset
from r2b._data.values import one_of
from r2b._files import AtomicWriter
from r2b._labels import FairLabels
from r2b._labels.realised import Realised
from r2b._labels.rows import FORMS, Form, MemoryRows
from r2b.engines.table_rows import TableRows
from r2b.engines.tables import rows_for_audit
from r2b.errors import ParameterError
from r2b.report import words
from r2b.report.facts import facts_of, facts_of_audit, to_json
from r2b.report.render import framed, to_html, to_markdown
from r2b.report.suppress import suppressed
from r2b.report.trace import (
    Arranged,
    check_lines,
    files_of,
    fingerprint,
    mark_of,
    mark_of_blocks,
    stamp,
)
from r2b.report.words import Facts

OPTIONS: dict[str, Any] = {
    "label_name": None,
    "date": None,
    "suppress_below": 0,
    "verify": None,
    "n_permutations": 200,
    "n_boot": 500,
    "level": 0.95,
}


class Saved:
    """What all reports can do that are rendered as a page, as Markdown and as JSON."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report as ``.html``, ``.md`` or ``.json``, whole or not at all.

        Raises
        ------
        ParameterError
            The name ends in something else.
        """
        content = encoded(self, path)
        with AtomicWriter(force=True) as writer:
            writer.write(fspath(path), content)
            writer.commit()


@dataclass(frozen=True, eq=False)
class Report(Saved):
    """A report: its facts, and what renders them. In a notebook it shows itself.

    Attributes
    ----------
    facts : dict
        Everything it says, as plain values.

    Examples
    --------
    >>> import r2b
    >>> found = r2b.audit(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], n_boot=0)
    >>> report = found.report(date="2026-11-16")
    >>> report.to_markdown().splitlines()[0]
    '# Labels do not differ between groups'
    """

    facts: Facts

    def __post_init__(self) -> None:
        # facts that were read from JSON are plain dictionaries
        object.__setattr__(self, "facts", words.as_facts(self.facts))

    def __repr__(self) -> str:
        facts, made, model = self.facts, self.facts.made, self.facts.model
        found = "audited, nothing changed"
        if model is not None:
            largest = max((each.disparity for each in facts.audit.families), default=0.0)
            of = f" of {model.name}" if model.name else ""
            found = f"decisions{of}, disparity {largest:.4f}"
        elif made is not None:
            before = facts.certificate.disparity_before
            found = f"{made.form}, disparity {before:.4f} -> {made.disparity:.4f}"
        who = f"{facts.label} by {words.attributes(facts)}, {words.rows_of(facts.data.rows)}"
        return f"<Report: {who}; {found}>"

    def _repr_html_(self) -> str:
        return framed(self.to_html(), f"{words.kind(self.facts)}: {self.facts.label}")

    def to_html(self) -> str:
        """Return the report as one self-contained page."""
        return to_html(self.facts)

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        return to_markdown(self.facts)

    def to_json(self) -> str:
        """Return all facts as strict JSON."""
        return to_json(self.facts)


def encoded(report: Any, path: str | PathLike[str]) -> bytes:
    """Return a report in the form that the ending of the path names.

    Raises
    ------
    ParameterError
        The name ends in something else.
    """
    name, endings = fspath(path), {".html": "html", ".htm": "html", ".md": "markdown"}
    form = {**endings, ".json": "json"}.get(PurePath(name).suffix.lower())
    if form is None:
        problem = f"A report cannot be written to {name}: its ending says nothing of the form."
        raise ParameterError(problem, remedy="End the name in .html, .md or .json.", path=name)
    content: bytes = getattr(report, f"to_{form}")().encode("utf-8")
    return content


def report_of_audit(
    found: Any, label_name: str | None, date: Any, suppress_below: int, verify: str | None
) -> Report:
    """Make the report of an audit; arguments as for :meth:`r2b.Audit.report`."""
    assert isinstance(found, Audit) and found.data is not None
    draws = f"n_permutations={found.n_permutations}, n_boot={found.n_boot}"
    draws += f", random_state={found.random_state}"
    calls = _input_call(found.data.repeats is not None)
    calls[f"r2b.audit(y, sensitive_features=..., {draws})"] = "the same figures"
    trace = {
        "date": stamp(date),
        "input": mark_of(found.data),
        "output": None,
        "verify": verify or check_lines(calls),
    }
    facts = facts_of_audit(
        found, label_name=label_name or _origin(None, found.data)[2], trace=trace
    )
    return Report(suppressed(facts, suppress_below, found))


def report_of_labels(
    fair: Any,
    how: tuple[Any, Any, Any],
    labels: Any,
    output: Any,
    audit: Audit | None,
    frontier: Any,
    **options: Any,
) -> Report:
    """Make the report of fair labels; arguments as for :meth:`r2b.FairLabels.report`."""
    assert isinstance(fair, FairLabels)
    form, random_state, key = how
    one_of("form", form, list(FORMS))
    asked = options_of(options, OPTIONS)
    held = _held(fair)
    data = held.dataset
    assert data is not None
    if audit is None:
        draws = Draws(asked["n_permutations"], asked["n_boot"], asked["level"])
        audit = audit_families(data, fair.families, draws)
    arranged, files, label = _origin(fair.rows, data)
    left, mark = _left(fair, form, random_state, key, labels)
    whole = FORMS[form].drawn
    seed = "a new one each time" if random_state is None else random_state
    again = f"fair.{form}(random_state={random_state!r})" if whole else "fair.soft_labels"
    calls = _input_call(arranged == "counts")
    if mark is not None:
        calls[f"fingerprint({again})"] = "the checksum of the labels"
    measured = "labels" if mark is None else again
    calls[f"r2b.audit({measured}, sensitive_features=...).largest.value"] = "their disparity"
    facts = facts_of(
        audit,
        held,
        frontier,
        label_name=asked["label_name"] or label,
        settings={
            "epsilon": words.epsilon(fair.certificate.epsilon.tolist()),
            "bound": ", ".join(sorted({family.bound for family in fair.certificate.families})),
            "lam": fair.lam,
            "form": form,
            **({"random_state": seed} if whole else {}),
        },
        leaving=None if left is None else (form, left),
        form=form,
        trace={
            "date": stamp(asked["date"]),
            "input": {**mark_of(data, arranged), "files": files},
            "output": {"sha256": mark, "files": [] if output is None else files_of(output)},
            "verify": asked["verify"] or check_lines(calls),
        },
    )
    return Report(suppressed(facts, asked["suppress_below"], audit))


def options_of(given: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of a report: those given, and the known defaults of the others.

    Raises
    ------
    ParameterError
        One that a report does not have.
    """
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise ParameterError(
            f"A report has no option {unknown!r}.",
            remedy=f"Options are {', '.join(known)}.",
            option=unknown,
        )
    return {**known, **given}


def _held(fair: FairLabels) -> FairLabels:
    """Return the labels with their rows in memory or, of a table of classes, counted."""
    rows = fair.rows
    if isinstance(rows, TableRows):
        fair.largest_changes(0)
        gaps = any(code is not None for code in fair.schema.missing_codes)
        missing = "group" if gaps else "error"
        data: Dataset = rows.held or rows_for_audit(
            rows.source, rows.roles, missing, normalize=rows.normalize
        )
        return replace(fair, rows=MemoryRows(data))
    return fair if fair.dataset is not None else fair.in_memory()


def _left(
    fair: FairLabels, form: Form, random_state: Any, key: Any, labels: Any
) -> tuple[Realised | None, str | None]:
    """Measure the labels that were returned, and give their checksum where they are at hand."""
    if labels is not None:
        return fair.realised(labels), fingerprint(labels)
    if not FORMS[form].drawn:
        at_hand = not isinstance(fair.rows, TableRows)
        return None, mark_of_blocks(fair.iter_soft()) if at_hand else None
    if isinstance(fair.rows, TableRows):
        return fair.realised_as(form, random_state, key=key), None
    made = getattr(fair, form)(random_state, key=key)
    return fair.realised(made), fingerprint(made)


def _origin(rows: Any, data: Dataset) -> tuple[Arranged, list[dict[str, Any]], str | None]:
    """Return the order in which rows have a checksum, their files, and the name of the label."""
    if not isinstance(rows, TableRows):
        name = getattr(getattr(data.labels.vocabulary.source, "native", None), "name", None)
        return "rows", [], name if isinstance(name, str) else None
    listing = getattr(rows.source, "listing", None)
    files = [] if listing is None else files_of([part.path for part in listing.parts])
    if rows.roles.counted:
        return "counts", files, rows.roles.stem
    return "rows" if rows.source.ordered else "sorted", files, rows.roles.stem


def _input_call(counted: bool) -> dict[str, str]:
    call = f"fingerprint(y, sensitive_features=...{', counted=True' if counted else ''})"
    return {call: "the checksum of the input"}
