"""Names that turn the direction of text turn nothing but themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
