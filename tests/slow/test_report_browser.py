"""The report in a browser: every figure beside its name, and every name inside its box."""

from __future__ import annotations

import runpy
from pathlib import Path

import browser
import numpy as np
import pytest

import r2b

pytestmark = pytest.mark.skipif(browser.find() is None, reason="needs Chromium")

ROOT = Path(__file__).resolve().parents[2]

LONG = "Fachkraft für Lebensmitteltechnik und Qualitätssicherung in der Außenstelle"
CLASSES = [
    LONG,
    f"{LONG}, zweiter Bildungsweg",
    "W" * 120,
    " blank before",
    "",
    "a  b\u00a0c",
    "漢字" * 40,
]
GROUPS = ["São Tomé e Príncipe", "e\u0301" * 70, "x" * 90, " ", LONG]
LEFT_OF_NAME = """[...document.querySelectorAll("dl.facts dd")].filter(figure => {
  let name = figure;
  while (name.tagName !== "DT") name = name.previousElementSibling;
  return figure.getBoundingClientRect().left <= name.getBoundingClientRect().left;
}).length"""
OUTSIDE = """[...document.querySelectorAll("svg text, td, th, dd, h1, figcaption, code")]
  .filter(each => each.getClientRects().length)
  .filter(each => {
    const picture = each.closest("svg.flow, svg.frontier");
    if (picture === null) return each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0;
    const own = each.getBoundingClientRect(), whole = picture.getBoundingClientRect();
    return own.left < whole.left - 1 || own.right > whole.right + 1;
  }).map(each => `${each.tagName} ${each.textContent.slice(0, 60)}`)"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    group, other = rng.choice(GROUPS, 1500), rng.choice(["f", "m"], 1500)
    shares = rng.dirichlet(np.ones(len(CLASSES)), len(GROUPS))
    y = [rng.choice(CLASSES, p=shares[GROUPS.index(each)]) for each in group]
    who = {"Herkunft oder Geburtsort der befragten Person": group, "sex": other}
    fair = r2b.debias(y, sensitive_features=who, families="both", epsilon=0.01)
    path = tmp_path_factory.mktemp("report") / "report.html"
    fair.report(path, form="round")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_figures_stand_beside_their_names_and_names_inside_their_boxes(
    chromium: browser.Browser, report: Path, width: int, dark: bool
) -> None:
    page = chromium.open(report.as_uri(), width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.querySelectorAll('#check dd').length") >= 4
    if width > 544:
        assert page.evaluate(LEFT_OF_NAME) == 0
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert page.evaluate(OUTSIDE) == []
    assert page.axe(every=True) == []
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_reports_of_weights_and_of_tags_can_be_read(
    chromium: browser.Browser, tmp_path: Path, width: int
) -> None:
    rng = np.random.default_rng(1)
    who = {"group": rng.choice(GROUPS, 600)}
    tags = {name: rng.random(600) < 0.4 for name in (LONG, "W" * 120)}
    weights = r2b.reweigh(rng.choice(CLASSES, 600), sensitive_features=who)
    fair = r2b.debias(tags, sensitive_features=who, multilabel=True)
    for name, report in (("weights", weights.report()), ("tags", fair.report(n_boot=0))):
        report.save(tmp_path / f"{name}.html")
        page = chromium.open((tmp_path / f"{name}.html").as_uri(), width=width, dark=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.axe(every=True) == [] and not page.console_errors
        page.close()


def test_the_screenshots_on_the_pages_are_current(
    chromium: browser.Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pytest.importorskip("PIL.Image")
    shown = runpy.run_path(str(ROOT / "scripts" / "make_screenshots.py"))
    folder = shown["IMAGES"]
    for name, take in (("model-report.png", shown["report"]), ("app.png", shown["app"])):
        monkeypatch.setitem(take.__globals__, "IMAGES", tmp_path)
        old, new = (
            np.asarray(image.open(each).convert("L"), np.float64)
            for each in (folder / name, take(chromium))
        )
        assert old.shape == new.shape and new.std() > 1.0
        # Another browser draws letters a little differently; a line that moved changes far more.
        assert (abs(old - new) > 64).mean() < 0.02, f"run scripts/make_screenshots.py: {name}"
