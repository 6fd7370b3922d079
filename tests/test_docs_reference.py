"""The reference page lists every public name, and is what the sources give."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import r2b

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "make_reference_page.py"
PAGE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference_page", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_sources_give() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_public_name_has_an_entry() -> None:
    names = {name for name in r2b.__all__ if not isinstance(getattr(r2b, name), ModuleType)}
    packages = {name for name in r2b.__all__ if isinstance(getattr(r2b, name), ModuleType)}
    assert not [name for name in names if f"### r2b.{name}\n" not in PAGE]
    assert not [package for package in packages if f"## r2b.{package}\n" not in PAGE]


def test_every_option_has_a_sentence_and_no_internal_module_a_heading() -> None:
    table = PAGE.partition("## Options\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \| \S", table, flags=re.MULTILINE) == list(inspect.signature(r2b.debias).parameters)[4:]
    assert not re.findall(r"^#+ .*\b_\w+", PAGE, flags=re.MULTILINE)


def test_every_entry_and_every_member_has_a_sentence() -> None:
    entries = PAGE.split("\n### ")[1:]
    assert len(entries) > 80
    prose = [[line for line in entry.splitlines()[1:] if line and not line.startswith(("    ", "|"))] for entry in entries]
    assert not [entry.splitlines()[0] for entry, lines in zip(entries, prose, strict=True) if not lines]
    assert not [line for line in PAGE.splitlines() if re.match(r"\| `.*` \|\s*\|$", line)]


def test_a_page_that_is_not_current_is_seen(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "PAGE", tmp_path / "reference.md")
    assert script.main(["--check"]) == 1
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    (tmp_path / "reference.md").write_text("stale")
    assert script.main(["--check"]) == 1


def test_names_are_followed_to_where_they_are_defined(script: ModuleType) -> None:
    home, node = script.resolve("r2b", "frontier")
    assert (home, node.name) == ("r2b._audit.tradeoff", "frontier")
    assert script.resolve("r2b", "metrics") is None
    assert next(kind.name for _, kind in script.ancestors(*script.resolve("r2b.methods", "R2B0"))) == "HTO"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("One. Two.", "One."),
        ("See eq. (2) of it: 0 is fair, 1.5 is not.\n\nMore.", "See eq. (2) of it: 0 is fair, 1.5 is not."),
        ("As :func:`~r2b.debias` or\n``R2B``.", "As `r2b.debias` or `R2B`."),
    ],
)
def test_the_first_sentence_is_taken_without_its_markup(script: ModuleType, text: str, sentence: str) -> None:
    assert script.first_sentence(text) == sentence


def test_a_long_call_keeps_what_must_be_given(script: ModuleType) -> None:
    call = "debias(label, *, sensitive_features, " + ", ".join(f"option_{i}=None" for i in range(20)) + ")"
    assert script.shortened(call) == "debias(label, *, sensitive_features, ...)"
    assert script.shortened("soft(dtype=None)") == "soft(dtype=None)"
