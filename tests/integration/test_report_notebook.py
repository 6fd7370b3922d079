"""Results in a notebook: fragments that say what the plain text says, touch nothing around them,
and show names as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from html import unescape
from pathlib import Path

import browser
import numpy as np
import pytest

import r2b
from r2b._audit import audit
from r2b.report import render as notebook

HOSTILE = "<img src=x onerror=alert(1)>"


def table() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", HOSTILE], 400)
    y = np.where(
        rng.random(400) < np.where(sex == "f", 0.7, 0.4), HOSTILE, rng.choice(["b", "c"], 400)
    )
    return y, {"sex": sex, "race": rng.choice(["x", "y"], 400)}


def fragments() -> dict[str, tuple[str, str]]:
    y, who = table()
    fair = r2b.debias(y, sensitive_features=who, epsilon=0.02, families="both")
    found = audit(y, sensitive_features=who, n_permutations=20, n_boot=20)
    path = r2b.frontier(y, sensitive_features=who, epsilons=5)
    choices = {
        "strict": {"epsilon": 0.0},
        "four fifths": {"bound": "ratio", "epsilon": 0.2},
        HOSTILE: {"epsilon": 0.1},
    }
    compared = r2b.compare(y, sensitive_features=who, choices=choices)
    return {
        "fair": (notebook.fair_html(fair), str(fair)),
        "audit": (notebook.audit_html(found), str(found)),
        "frontier": (notebook.frontier_html(path), str(path)),
        "comparison": (notebook.comparison_html(compared), str(compared)),
    }


FRAGMENTS = fragments()


def words_of(fragment: str) -> str:
    without_style = re.sub(r"<style>.*?</style>", " ", fragment, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", without_style)).split())


@pytest.mark.parametrize("name", FRAGMENTS)
def test_a_fragment_is_one_element_without_scripts_or_addresses(name: str) -> None:
    fragment, _ = FRAGMENTS[name]
    assert fragment.startswith('<div class="r2b">') and fragment.rstrip().endswith("</div>")
    assert not re.search(r"<(html|body|head|script|link|iframe)\b|https?:|<img", fragment)


@pytest.mark.parametrize("name", FRAGMENTS)
def test_every_rule_of_its_style_is_scoped(name: str) -> None:
    (style,) = re.findall(r"<style>(.*?)</style>", FRAGMENTS[name][0], flags=re.S)
    selectors = [
        part.strip() for rule in re.findall(r"([^{}]+)\{", style) for part in rule.split(",")
    ]
    assert selectors and all(selector.startswith(".r2b") for selector in selectors)


def test_fair_labels_say_what_their_text_says() -> None:
    fragment, text = FRAGMENTS["fair"]
    said = words_of(fragment)
    for fact in re.findall(r"\d\.\d{4}\b", text.split("largest changes")[0]):
        assert fact in said
    assert "solved" in said and "Certificate holds" in said and HOSTILE in said


def test_an_audit_says_what_its_text_says() -> None:
    fragment, text = FRAGMENTS["audit"]
    said = words_of(fragment)
    for family in ("sex", "race", "sex x race"):
        assert family in said and family in text
    assert said.count("beyond chance") == text.count("; beyond chance")
    assert HOSTILE in said


@pytest.mark.parametrize("name", ["frontier", "comparison"])
def test_a_table_has_every_number_of_its_text(name: str) -> None:
    fragment, text = FRAGMENTS[name]
    said = words_of(fragment)
    for fact in re.findall(r"\d\.\d{5,6}\b", text):
        assert fact in said


RENDERED: dict[str, Callable[[], str]] = {
    name: partial(FRAGMENTS[name].__getitem__, 0) for name in FRAGMENTS
}


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_fragments_are_legible_in_light_and_dark_pages(dark: bool, tmp_path: Path) -> None:
    colours = "background: #111; color: #eee" if dark else "background: #fff; color: #111"
    body = "".join(render() for render in RENDERED.values())
    page = (
        '<!doctype html><html lang="en"><title>t</title><body'
        f' style="{colours}"><main><h1>t</h1><h2>t</h2><h3>t</h3>{body}</main>'
    )
    (tmp_path / "notebook.html").write_text(page, encoding="utf-8")
    with browser.launch() as chromium:
        shown = chromium.open((tmp_path / "notebook.html").as_uri(), dark=dark)
        assert shown.console_errors == [] and shown.dialogs == [] and not shown.hosts
        assert shown.evaluate("document.images.length") == 0
        assert shown.axe() == []
