"""Names that turn the direction of text turn nothing but themselves."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import browser
import pytest
from app_server import Served, running

import r2b
from r2b._audit import audit
from r2b._data.values import directions_kept, written
from r2b._files import AtomicWriter
from r2b.errors import ParameterError
from r2b.report import gather, to_html, to_markdown, words
from r2b.report.render import audit_html, fair_html

OVERRIDE, CLOSING = "over\u202eride", "shut\u2069\u2067"
TURNING = re.compile("[\u202a-\u202e\u2066\u2067]")


def rows(n: int = 240) -> tuple[list[str], list[str]]:
    sex = [("f", "m", CLOSING)[row % 3] for row in range(n)]
    job = [OVERRIDE if (row * row // 7 + row % 3) % 3 else "plain" for row in range(n)]
    return job, sex


def test_every_rendering_shows_such_characters_and_obeys_none() -> None:
    job, sex = rows()
    facts = gather(
        job,
        sensitive_features={"sex": sex},
        epsilon=0.01,
        label_name=OVERRIDE,
        n_boot=0,
        n_permutations=0,
    )
    fair, found = (
        r2b.debias(job, sensitive_features=sex, epsilon=0.01),
        audit(job, sensitive_features=sex, n_boot=0),
    )
    for page in (
        to_html(facts),
        fair_html(fair),
        audit_html(found),
        to_markdown(facts),
        str(fair),
        str(found),
    ):
        assert not TURNING.search(page) and "u202e" in page
        assert page.count("\u2068") == page.count("\u2069")


def test_the_picture_of_changes_keeps_its_numbers_apart_from_names() -> None:
    job, sex = rows()
    facts = gather(job, sensitive_features={"sex": sex}, epsilon=0.01, n_boot=0, n_permutations=0)
    texts = re.findall(r"<text[^>]*>.*?</text>", to_html(facts), re.DOTALL)
    assert any("ride" in each and "much" in each for each in texts)
    assert not any(TURNING.search(each) for each in texts)


def test_a_name_cannot_close_the_isolate_it_is_put_in() -> None:
    name = f"\u05d0{CLOSING}"
    assert words.isolated(name) == "\u2068\u05d0shut\\u2069\\u2067\u2069"
    assert directions_kept(f"{words.isolated(name)} 18") == f"{words.isolated(name)} 18"
    assert directions_kept("\u2069 \u2068x") == "\\u2069 \\u2068x"
    assert written(OVERRIDE) == "over\\u202eride"


@pytest.fixture(scope="module")
def app() -> Iterator[Served]:
    with running(max_upload=1) as served:
        yield served


@pytest.mark.slow
def test_the_app_shows_them_and_still_finds_the_column(app: Served, tmp_path: Path) -> None:
    job, sex = rows()
    lines = io.StringIO(newline="")
    csv.writer(lines).writerows([(OVERRIDE, "sex"), *zip(job, sex, strict=True)])
    path = tmp_path / "a.csv"
    path.write_text(lines.getvalue(), newline="")
    with browser.launch() as chromium:
        page = chromium.open(app.address())
        page.wait("document.querySelector('#file')")
        page.upload("#file", path)
        for _ in range(3):
            try:
                page.wait("document.querySelector('#choice')")
                break
            except RuntimeError:  # the window goes to the page of the table meanwhile
                continue
        page.set_value("#label", OVERRIDE)
        page.click("input[name=sensitive][value=sex]")
        page.wait(
            "document.querySelector('#flows svg text .much') && !document.querySelector('.stale')"
        )
        shown = page.evaluate(
            "['#verdict', '#flows', '#channel', '#found', 'header'].map(e =>"
            " document.querySelector(e).textContent).join(' ')"
        )
        assert not TURNING.search(shown) and "u202e" in shown and not page.console_errors
        # Where the first and the last character of a number are drawn: from left to right.
        places = (
            "[...document.querySelectorAll('#flows .much')].filter(e => e.getNumberOfChars() > 1)"
        )
        ends = (
            f"{places}.map(e => [e.getStartPositionOfChar(0).x,"
            " e.getStartPositionOfChar(e.getNumberOfChars() - 1).x])"
        )
        drawn = page.evaluate(ends)
        assert drawn and all(first < last for first, last in drawn)


def test_a_link_that_leads_nowhere_is_not_followed_unless_forced(tmp_path: Path) -> None:
    target, link = tmp_path / "elsewhere" / "precious.csv", tmp_path / "out.csv"
    target.parent.mkdir()
    link.symlink_to(target)
    with AtomicWriter() as writer, pytest.raises(ParameterError, match="is a link to") as refused:
        writer.write(link, b"a")
    assert "force=True" in refused.value.remedy
    assert str(target) in refused.value.problem
    assert not target.exists()
    with AtomicWriter() as writer, pytest.raises(ParameterError, match="is a link to"):
        writer.reserve(link)
    with AtomicWriter(force=True) as writer:
        writer.write(link, b"a")
        writer.commit()
    assert target.read_bytes() == b"a" and link.is_symlink()
