"""Reports for people who did not run the code: facts, then HTML, Markdown and JSON of them."""

from r2b.report.facts import facts_of, facts_of_audit, gather, to_json
from r2b.report.model import model_report, predictions_report
from r2b.report.render import to_html, to_markdown
from r2b.report.results import Report
from r2b.report.trace import fingerprint

__all__ = [
    "Report",
    "facts_of",
    "facts_of_audit",
    "fingerprint",
    "gather",
    "model_report",
    "predictions_report",
    "to_html",
    "to_json",
    "to_markdown",
]
