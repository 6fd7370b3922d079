"""The page in a real browser: it asks for nothing, shows names as text, sorts, has a cursor, and
can be read by everyone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import browser
import hostile_names
import numpy as np
import pytest

import r2b
from r2b.report import gather, to_html

# Pictures to be looked at are kept here, over those of the run before.
PICTURES = Path(__file__).resolve().parents[1] / "artefacts"
IMAGE, END = "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>"


@pytest.fixture(scope="module")
def adult() -> dict[str, Any]:
    table = r2b.datasets.load_adult()
    who = {"sex": table["sex"], "race": table["race"]}
    return gather(
        table["education"],
        sensitive_features=who,
        label_name="education",
        command="r2b audit",
        n_permutations=50,
        n_boot=50,
    )


@pytest.fixture(scope="module")
def page_of_adult(adult: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(to_html(adult), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    group = rng.choice([IMAGE, END, "'\"&"], 500)
    y = np.where(rng.random(500) < np.where(group == IMAGE, 0.8, 0.3), IMAGE, END)
    facts = gather(
        y,
        sensitive_features={IMAGE: group},
        label_name=END,
        command=END,
        n_permutations=20,
        n_boot=20,
        frontier_points=4,
    )
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    path.write_text(to_html(facts), encoding="utf-8")
    return path


def test_the_page_names_no_address_and_stays_small(adult: dict[str, Any]) -> None:
    page = to_html(adult)
    assert "http:" not in page
    assert "https:" not in page
    assert "//" not in page.replace("// The page", "")
    assert "url(" not in page.replace("url(#fade", "") and "@import" not in page
    assert len(page.encode()) < 200_000


@pytest.mark.parametrize(("n_classes", "n_groups", "epsilon"), [(211, 50, 1.0), (60, 25, 0.05)])
def test_many_classes_and_groups_are_folded_and_the_size_is_bounded(
    n_classes: int, n_groups: int, epsilon: float
) -> None:
    rng = np.random.default_rng(0)
    n = 60_000
    group = rng.integers(0, n_groups, n)
    y = np.array([f"class number {k}" for k in range(n_classes)])[
        rng.integers(0, n_classes, n) * (rng.random(n) > 0.1 * (group % 3))
    ]
    who = {"region": np.array([f"region {g}" for g in range(n_groups)])[group]}
    facts = gather(
        y, sensitive_features=who, epsilon=epsilon, n_permutations=10, n_boot=0, frontier_points=0
    )
    page = to_html(facts)
    assert f"Shown: 20 of {n_classes} classes, 10 of {n_groups} groups" in page
    assert f"All {n_classes} classes and {n_groups} groups" in page
    assert page.count('class="flow"') == (0 if epsilon == 1.0 else 12)
    assert len(page.encode()) < 1_000_000


@pytest.mark.parametrize("javascript", [True, False])
def test_the_page_loads_without_an_error_and_asks_no_host(
    chromium: browser.Browser, page_of_adult: Path, javascript: bool
) -> None:
    page = chromium.open(page_of_adult.as_uri(), javascript=javascript)
    assert page.requests == [page_of_adult.as_uri()] and not page.hosts
    assert page.console_errors == []
    page.close()


def test_axe_finds_nothing_in_what_is_folded(
    chromium: browser.Browser, page_of_adult: Path
) -> None:
    page = chromium.open(page_of_adult.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert page.axe(every=True) == []
    page.close()


def test_before_and_after_stand_beside_each_other_and_no_column_is_cut_off(
    chromium: browser.Browser, tmp_path: Path
) -> None:
    table = r2b.datasets.load_adult()
    fair = r2b.debias(table["education"], sensitive_features={"sex": table["sex"]}, epsilon=0.01)
    fair.report(tmp_path / "report.html", n_permutations=0, n_boot=0)
    page = chromium.open((tmp_path / "report.html").as_uri())
    scrolls = (
        "[...document.querySelectorAll('#who .pair')[0].children].map(each => [each.offsetTop,"
        " each.scrollWidth - each.clientWidth])"
    )
    (before, cut_before), (after, cut_after) = page.evaluate(scrolls)
    assert before == after and cut_before <= 0 and cut_after <= 0
    page.close()


def test_a_click_on_a_column_sorts_the_table_both_ways(
    chromium: browser.Browser, page_of_adult: Path
) -> None:
    page = chromium.open(page_of_adult.as_uri())
    values = (
        "[...document.querySelector('table.heat').tBodies[0].rows].map(row =>"
        " parseFloat(row.cells[4].textContent))"
    )
    head = "table.heat thead th:nth-child(5)"
    before = page.evaluate(values)
    page.click(f"{head} button")
    falling = page.evaluate(values)
    assert falling == sorted(before, reverse=True) != before
    page.press("Enter")
    assert page.evaluate(values) == sorted(before)
    assert (
        page.evaluate(f"document.querySelector({head!r}).getAttribute('aria-sort')") == "ascending"
    )
    page.click("table.heat thead th:first-child button")
    names = page.evaluate(
        "[...document.querySelector('table.heat').tBodies[0].rows].map(row =>"
        " row.cells[0].textContent)"
    )
    assert names[0] == "1st-4th" and names[-1] == "Some-college"
    page.close()


def test_the_cursor_follows_keys_and_mouse(
    chromium: browser.Browser, page_of_adult: Path, adult: dict[str, Any]
) -> None:
    page = chromium.open(page_of_adult.as_uri())
    points = adult["cost"]["points"]
    assert page.evaluate("document.getElementById('caption').textContent").startswith(
        "Epsilon 0.0100"
    )
    page.evaluate("document.getElementById('epsilon').focus()")
    page.press("End")
    assert page.evaluate("document.getElementById('caption').textContent").startswith(
        f"Epsilon {points[-1]['epsilon']:.4f}: 0"
    )
    page.press("Home")
    assert page.evaluate(
        "document.getElementById('epsilon').getAttribute('aria-valuetext')"
    ).startswith("Epsilon 0.0000")
    page.hover("svg.frontier")
    middle = int(page.evaluate("document.getElementById('epsilon').value"))
    assert 0 < middle < len(points) - 1
    place = page.evaluate("document.querySelector('.cursor circle').getAttribute('transform')")
    page.hover("svg.frontier", dx=60)
    assert int(page.evaluate("document.getElementById('epsilon').value")) > middle
    assert (
        page.evaluate("document.querySelector('.cursor circle').getAttribute('transform')") != place
    )
    page.close()


def test_hostile_names_are_text(chromium: browser.Browser, hostile: Path) -> None:
    page = chromium.open(hostile.as_uri())
    assert page.dialogs == [] and page.console_errors == [] and page.requests == [hostile.as_uri()]
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.scripts.length") == 2
    shown = page.evaluate("document.body.innerText")
    assert IMAGE in shown and END in shown
    assert page.evaluate(
        "[...document.querySelectorAll('*')].every(each => !each.hasAttribute('onerror'))"
    )
    page.close()


def test_an_injected_handler_would_not_run(chromium: browser.Browser, hostile: Path) -> None:
    page = chromium.open(hostile.as_uri())
    page.evaluate(
        "addEventListener('securitypolicyviolation', told => { blocked = told.violatedDirective });"
        "document.body.insertAdjacentHTML('beforeend', '<button id=bad"
        " onclick=alert(3)>x</button>')"
    )
    page.click("#bad")
    page.wait("window.blocked")
    assert page.evaluate("window.blocked").startswith("script-src") and page.dialogs == []
    page.close()


@pytest.fixture(scope="module")
def worst(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of 50 classes in 20 groups with names that try to break it."""
    y, who = hostile_names.hostile()
    path = tmp_path_factory.mktemp("worst") / "report.html"
    fair = r2b.debias(y, sensitive_features=who, epsilon=0.02)
    frontier = r2b.frontier(y, sensitive_features=who, epsilons=[0.02, 0.1, 0.3])
    fair.report(
        path,
        form="round",
        frontier=frontier,
        label_name=next(iter(who)),
        date="2026-11-16",
        n_permutations=20,
    )
    return path


# Texts of pictures that reach out of them, and elements that reach out of the page, those of tables
# that scroll left out.
OUTSIDE = """(() => {
  document.querySelectorAll('details').forEach(each => { each.open = true });
  const out = [], near = 1;
  for (const text of document.querySelectorAll('svg text')) {
    const svg = text.ownerSVGElement, view = svg.viewBox.baseVal, box = text.getBBox();
    const right = view && view.width ? view.width : svg.clientWidth;
    const bottom = view && view.height ? view.height : svg.clientHeight;
    const beside = box.x < -near || box.x + box.width > right + near;
    if (beside || box.y < -near || box.y + box.height > bottom + near)
      out.push([text.textContent, box.x, box.x + box.width, right]);
  }
  for (const each of document.querySelectorAll('body *:not(.skip)'))
    if (!each.closest('.scroll, svg') && each.getBoundingClientRect().right > innerWidth + near)
      out.push([each.tagName, each.className]);
  return out;
})()"""


def test_a_wide_report_prints_whole(chromium: browser.Browser, worst: Path) -> None:
    page = chromium.open(worst.as_uri(), width=695)  # A4 less its margins
    PICTURES.mkdir(exist_ok=True)
    page.pdf(PICTURES / "report.pdf")
    page.send("Emulation.setEmulatedMedia", media="print")
    folded = (
        "[...document.querySelectorAll('details')].filter(each =>"
        " each.lastElementChild.getBoundingClientRect().height < 1).length"
    )
    assert (
        page.evaluate(folded)
        == 0
        < page.evaluate("document.querySelectorAll('details:not([open])').length")
    )
    assert page.evaluate(OUTSIDE) == []
    wide = (
        "Math.max(...[...document.querySelectorAll('table, td, tbody th')].map(each =>"
        " each.getBoundingClientRect().right))"
    )
    assert page.evaluate(wide) <= 696
    heads = "[...document.querySelectorAll('thead')].map(each => getComputedStyle(each).display)"
    assert set(page.evaluate(heads)) == {"table-header-group"}
    assert page.evaluate(
        "[...document.querySelectorAll('th, th *')].every(each => getComputedStyle(each).position"
        " === 'static')"
    )
    page.close()
