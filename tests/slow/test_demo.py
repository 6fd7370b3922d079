"""The demo says what it should, in 100 columns, alone or down a pipe."""

from __future__ import annotations

import html
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import demo


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return list(demo.account())


def line_with(lines: list[str], start: str, which: int = 0) -> str:
    return [line.strip() for line in lines if line.strip().startswith(start)][which]


def number(line: str, after: str) -> float:
    return float(line.split(after, 1)[1].split()[0])


def test_key_facts(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert "48,842 people" in text
    assert "Disparity is 5.28 %, at Some-college" in text
    assert "Disparity is 22.08 %, at Bachelors" in text
    assert "16 classes, 2 groups" in text
    assert "16 classes, 10 groups" in text
    assert text.count("solved. The labels are the optimum") == 2
    assert "NOT PROVEN" not in text


@pytest.mark.parametrize("which", [0, 1])
def test_certificate_is_ok_and_small(lines: list[str], which: int) -> None:
    assert line_with(lines, "ok ", which).endswith("within 1e-9")
    for name in ("duality gap", "above epsilon", "probabilities"):
        assert abs(number(line_with(lines, name, which), name)) <= 1e-9


@pytest.mark.parametrize(("which", "before"), [(0, 5.2822), (1, 22.0815)])
def test_every_form_keeps_parity_and_argmax_does_not(
    lines: list[str], which: int, before: float
) -> None:
    forms = ("soft", "expand", "round", "sample", "argmax")
    parity = {
        form: float(line_with(lines, f"{form} ", which).split(" %")[0].split()[-1])
        for form in forms
    }
    assert parity["soft"] == parity["expand"] == 1.0
    promised = number(line_with(lines, "round ", which), "within ")
    assert abs(parity["round"] - 1.0) <= promised
    assert parity["sample"] < 0.3 * before
    assert parity["argmax"] > 0.9 * before


def test_what_a_user_would_type_runs_and_is_what_was_run(lines: list[str]) -> None:
    for question in demo.QUESTIONS:
        names: dict[str, object] = {}
        exec(f"import r2b\nadult = r2b.datasets.load_adult()\n{question.typed}", names)
        fair = names["fair"]
        assert f"squared distance  {fair.certificate.distance:.6f} per row" in "\n".join(lines)  # type: ignore[attr-defined]
        assert all(f"    {typed}" in lines for typed in question.typed.split("\n"))


def test_runs_as_a_module_in_a_pipe_and_leaves_a_report(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", demo.__file__],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    report = tmp_path / done.stdout.rstrip().rpartition(": ")[2]
    assert report.parent == tmp_path / "r2b-demo" and "22.1" in report.read_text(encoding="utf-8")
    assert done.stderr == ""
    page = report.read_text(encoding="utf-8")
    assert "Parity report of 20" in page  # its date
    # the command that the page names makes the same page, in any folder
    command = html.unescape(page.split("The command that made this report:")[1])
    command = command.partition("<pre>")[2].partition("</pre>")[0]
    (tmp_path / "again").mkdir()
    shutil.copy(report.with_name("adult.csv"), tmp_path / "again")
    subprocess.run(
        [sys.executable, "-m", *shlex.split(command)], check=True, cwd=tmp_path / "again"
    )
    again = (tmp_path / "again" / report.name).read_text(encoding="utf-8")
    date = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC")
    assert date.sub("", again) == date.sub("", page)
    checked = subprocess.run(
        [sys.executable, "-m", "r2b", "verify", report.with_name("fair.csv")], cwd=tmp_path
    )
    assert checked.returncode == 0
    assert "5.28 %" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="pipes break differently elsewhere")
def test_a_reader_that_leaves_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-u", demo.__file__],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.returncode == 0
    assert done.stderr == ""
