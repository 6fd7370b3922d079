"""Take the pictures of report and app for the documentation, in headless Chromium.

``python scripts/make_screenshots.py`` writes docs/images/report.png and docs/images/app.png.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import r2b
from r2b.report import gather, to_html

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT, SCALE = 1100, 1500, 1.5
COMMAND = (
    "r2b audit adult.csv --label education --sensitive sex --sensitive race --html report.html"
)

sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "slow")]
import app_server  # noqa: E402
import browser  # noqa: E402
from test_app_browser import READY, arrive  # noqa: E402


def report(chromium: browser.Browser) -> Path:
    adult = r2b.datasets.load_adult()
    who = {"sex": adult["sex"], "race": adult["race"]}
    facts = gather(
        adult["education"], sensitive_features=who, label_name="education", command=COMMAND
    )
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(to_html(facts), encoding="utf-8")
        opened = chromium.open(page.as_uri(), width=WIDTH, height=HEIGHT)
        opened.screenshot(IMAGES / "report.png", whole=False, scale=SCALE)
        opened.close()
    return IMAGES / "report.png"


def app(chromium: browser.Browser) -> Path:
    """Open the app on the Adult data and move epsilon."""
    with app_server.running() as served:
        page = chromium.open(served.address(), width=WIDTH, height=HEIGHT)
        arrive(page, "document.querySelector('#adult')")
        page.click("#adult")
        arrive(page, READY)
        page.screenshot(IMAGES / "app.png", whole=False, scale=SCALE)
        page.close()
    return IMAGES / "app.png"


def main() -> int:
    if browser.find() is None:
        print("chromium is not installed: no pictures were taken.", file=sys.stderr)
        return 1
    IMAGES.mkdir(parents=True, exist_ok=True)
    with browser.launch() as chromium:
        for path in (report(chromium), app(chromium)):
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
