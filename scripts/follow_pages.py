"""Follow only what the pages say, along three paths, and report how long each takes.

``python scripts/follow_pages.py`` runs with any interpreter that has r2b and the extras that the
pages name; every path starts in an empty folder.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
# What a path is called, its page, the sections in order (all that come before the first one that is
# not named), and the file or name that it must leave.
PATHS = (
    ("CSV to the report of the model", "guide.md", None, "From a finished model", "model.html"),
    ("finished XGBoost to fair decisions", "guide.md", None, "From here", "corrected.html"),
    ("the paper's algorithm to a comparison", "methods.md", "Side by side", "Symbols", "distance"),
)


def blocks(page: str, first: str | None, until: str) -> list[tuple[str, str]]:
    """Return the Python blocks of a page between two headings, each with its heading."""
    text = (DOCS / page).read_text(encoding="utf-8")
    parts = re.split(r"^##+ (.+)$", text, flags=re.MULTILINE)
    found, started = [], first is None
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        started = started or heading == first
        if heading.startswith(until):
            break
        code = re.findall(r"^```python\n(.*?)^```$", body, flags=re.MULTILINE | re.DOTALL)
        found += [(heading, each) for each in code if started]
    return found


def follow(page: str, first: str | None, until: str, left: str) -> float:
    """Run the blocks in an empty folder; return the seconds, and end if nothing is left."""
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        begun = time.perf_counter()
        for heading, code in blocks(page, first, until):
            at = time.perf_counter()
            exec(compile(code, f"{page}: {heading}", "exec"), names)
            print(f"    {heading}: {time.perf_counter() - at:.1f} s", flush=True)
        spent = time.perf_counter() - begun
        if not (Path(folder) / left).exists() and left not in names:
            sys.exit(f"{page} did not make {left}")
        os.chdir(DOCS)
    return spent


def main() -> None:
    for name, *path in PATHS:
        print(name, flush=True)
        print(f"  {name}: {follow(*path):.1f} s", flush=True)


if __name__ == "__main__":
    main()
