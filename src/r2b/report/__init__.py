"""Reports for people who did not run the code: facts, then HTML, Markdown and JSON of them."""

from r2b.report.facts import SHARED, facts_of, facts_of_audit, gather, gathered, to_json
from r2b.report.render import to_html, to_markdown
from r2b.report.results import Report
from r2b.report.suppress import suppressed
from r2b.report.trace import files_of, fingerprint, mark_of, stamp

LARGEST = 10
__all__ = [
    "LARGEST",
    "SHARED",
    "Report",
    "facts_of",
    "facts_of_audit",
    "files_of",
    "fingerprint",
    "gather",
    "gathered",
    "mark_of",
    "stamp",
    "suppressed",
    "to_html",
    "to_json",
    "to_markdown",
]
