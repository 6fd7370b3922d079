"""Take the pictures of the report on a model and of the app, in headless Chromium.

``python scripts/make_screenshots.py`` writes docs/images/model-report.png and docs/images/app.png;
the build of the site calls it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pandas as pd
from sklearn.linear_model import LogisticRegression

import r2b
from r2b.sklearn import ParityPostprocessor

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT, SCALE = 1000, 1000, 1.5

sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "slow")]
import app_server  # noqa: E402
import browser  # noqa: E402
from test_app_browser import READY, arrive  # noqa: E402


def report(chromium: browser.Browser) -> Path:
    """Show the report on a model that decides about incomes."""
    people = r2b.datasets.load_adult(as_frame="pandas").iloc[::3]
    X = pd.get_dummies(people[["education-num", "relationship", "workclass"]], dtype=float)
    y, who, train = people["income"], people[["sex"]], people["split"] == "train"
    model = ParityPostprocessor(LogisticRegression(max_iter=200), epsilon=0.05, frontier=0)
    model.fit(X[train], y[train], sensitive_features=who[train])
    about = {"purpose": "Predicts who earns more than 50,000 dollars.", "owner": "Data team"}
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "model.html"
        given = {"sensitive_features": who[~train], "label_name": "income", "date": False}
        model.report(page, X[~train], y[~train], **given, **about)
        opened = chromium.open(page.as_uri(), width=WIDTH, height=HEIGHT)
        opened.screenshot(IMAGES / "model-report.png", whole=False, scale=SCALE)
        opened.close()
    return IMAGES / "model-report.png"


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
