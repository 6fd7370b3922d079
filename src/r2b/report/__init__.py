"""Reports for people who did not run the code: facts first, in one versioned dictionary, then HTML, Markdown and JSON of them."""

from r2b.report.facts import facts_of, gather, gathered, to_json
from r2b.report.html import to_html
from r2b.report.markdown import to_markdown

__all__ = ["facts_of", "gather", "gathered", "to_html", "to_json", "to_markdown"]
