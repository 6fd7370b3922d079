"""The command where people use it: narrow and plain terminals, closed streams, full disks, names
that are no text, a press of Tab.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_calls import ENVIRONMENT, R2B, Shell, csv_of, on_a_terminal, people

if sys.platform == "win32":
    pytest.skip("shells and terminals of POSIX", allow_module_level=True)

ASK = ["--label", "job", "--sensitive", "sex"]
DASHES = "-" * 7


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_bytes(csv_of(people()))
    return tmp_path


def through(
    folder: Path, streams: str, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command with streams as a shell is told to set them."""
    command = ["sh", "-c", f'exec "$@" {streams}', "sh", *R2B, *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**ENVIRONMENT, **environment},
        check=False,
    )


def called(*commands: list[str]) -> str:
    """Return a program that runs commands, with a line of dashes after each; no bar comes, however
    slow the machine is.
    """
    begin = "import r2b.cli.output as meter; meter._DELAY = 1e9; from r2b.cli import main"
    return "; ".join(
        [begin, *(f"main({words!r}); print('{DASHES}', flush=True)" for words in commands)]
    )


def shown(folder: Path, *commands: list[str], **asked: str) -> list[str]:
    """Return what a terminal shows of each command; one process runs them all."""
    *seen, rest = (
        on_a_terminal(folder, called(*commands), **asked)
        .decode()
        .replace("\r\n", "\n")
        .split(f"{DASHES}\n")
    )
    assert len(seen) == len(commands) and rest == ""
    return seen


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "people.csv"],
        ["audit", "people.csv", "--json"],
        ["debias", "people.csv", "-o", "-"],
    ],
)
def test_a_full_disk_behind_standard_output_is_one_paragraph(
    folder: Path, words: list[str]
) -> None:
    done = through(folder, ">/dev/full", *words, *ASK)
    assert done.returncode == 2
    assert (
        done.stderr
        == "Error: Standard output cannot be written: No space left on device. Write to a file, or"
        " make room.\n"
    )


def test_closed_streams_are_said_to_be_closed(folder: Path) -> None:
    done = through(folder, ">&-", "debias", "people.csv", *ASK, "-o", "fair.csv")
    assert (done.returncode, done.stderr) == (
        2,
        "Error: Standard output is closed. Send it to a file or to /dev/null.\n",
    )
    done = through(folder, "<&-", "audit", "-", *ASK)
    assert done.returncode == 2 and done.stderr.startswith("Error: Standard input is closed.")
    assert through(folder, "2>&-", "audit", "none.csv", *ASK).returncode == 2
    assert sorted(path.name for path in folder.iterdir()) == ["people.csv"]


def test_names_that_are_no_text_are_spelled_and_files_are_made_all_the_same(
    folder: Path, shell: Shell
) -> None:
    odd = os.fsdecode(b"caf\xe9.csv")
    try:
        (folder / odd).write_bytes((folder / "people.csv").read_bytes())
    except OSError:
        pytest.skip("this file system takes text alone")
    words = [
        odd,
        *ASK,
        "--html",
        "r.html",
        "--markdown",
        "r.md",
        "-o",
        os.fsdecode(b"fair\xe9.csv"),
    ]
    done = through(folder, "", "debias", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "fair\\udce9.csv" in done.stdout
    assert "caf\\udce9.csv" in (folder / "r.html").read_text(encoding="utf-8")
    assert shell("verify", os.fsdecode(b"fair\xe9.csv")).code == 0
    assert shell("audit", odd, *ASK, "--json").facts["data"] == "caf\\udce9.csv"


def test_a_terminal_that_asks_for_no_colour_gets_none(folder: Path) -> None:
    commands = ["audit", "none.csv", *ASK], ["audit", "people.csv", *ASK]
    assert ["\x1b" in each for each in shown(folder, *commands)] == [True, True]
    for asked in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert ["\x1b" in each for each in shown(folder, *commands, **asked)] == [False, False]


def test_probabilities_that_do_not_add_up_can_be_audited_as_the_error_says(shell: Shell) -> None:
    shell.write("soft.csv", "a,b,sex\n0.5,0.4,f\n0.2,0.6,m\n0.3,0.6,f\n")
    words = ("audit", "soft.csv", "--label-columns", "a,b", "--sensitive", "sex")
    done = shell(*words)
    assert done.code == 3
    assert done.err.endswith("Divide each row by its sum, which --normalize does.\n")
    facts = shell(*words, "--normalize", "--json", "--html", "r.html").facts
    assert facts["families"][0]["means"] == [
        pytest.approx([(5 / 9 + 3 / 9) / 2, (4 / 9 + 6 / 9) / 2]),
        pytest.approx([0.25, 0.75]),
    ]
    assert "normalize" in Path("r.html").read_text(encoding="utf-8")


def test_what_was_checked_is_green_or_red_on_a_terminal_alone(folder: Path, shell: Shell) -> None:
    shell("debias people.csv --form round -o fair.csv", *ASK)
    shown = on_a_terminal(folder, called(["verify", "fair.csv"]))
    assert b"\x1b[32mok\x1b[39m" in shown
    assert b"\x1b[32mVerified\x1b[39m" in shown
    assert b"\x1b[31m" not in shown
    assert "\x1b" not in shell("verify fair.csv").out
    Path("fair.csv").write_text(Path("fair.csv").read_text().replace("boss\n", "clerk\n"))
    wrong = on_a_terminal(folder, called(["verify", "fair.csv"]))
    assert b"\x1b[31mFAIL\x1b[39m" in wrong
    assert b"\x1b[31mNOT VERIFIED\x1b[39m" in wrong
    assert b"\x1b[32mok\x1b[39m" in wrong


def test_an_order_of_the_classes_is_typed_instead_of_a_table_of_costs(shell: Shell) -> None:
    rows = [["f", "Fail"]] * 6 + [["f", "Pass"]] * 3 + [["m", "Pass"]] * 3 + [["m", "Top"]] * 6
    shell.write("grades.csv", "sex,grade\n" + "".join(f"{','.join(row)}\n" for row in rows * 4))
    words = ("debias grades.csv --label grade --sensitive sex --force -o fair.csv -q",)
    assert shell(*words, "--costs", "ordinal=Fail,Pass,Top", "--html", "r.html").code == 0
    assert shell("verify fair.csv").code == 0
    costs = json.loads(Path("fair.csv.r2b.json").read_text())["costs"]
    assert costs == [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    assert "is without the class 'Top'" in shell(*words, "--costs", "ordinal=Fail,Pass").err
    done = shell(*words, "--costs", "ordinal")
    assert done.code == 2 and "--costs ordinal=" in done.err and "{" not in done.err


OFFERS = """
import os, sys
from r2b.cli import main

sys.argv[1:], lines = [], sys.argv[1:]
os.environ["_R2B_COMPLETE"] = "bash_complete"
for line in lines:
    os.environ |= {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    main()
    print("---", flush=True)
"""


def offered(folder: Path, *lines: str) -> list[list[str]]:
    """Return what a shell is offered at the end of each line."""
    command = [sys.executable, "-W", "error", "-c", OFFERS, *lines]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=ENVIRONMENT, check=False
    )
    assert done.stderr == ""
    return [each.split() for each in done.stdout.split("---\n")[:-1]]


def test_tab_offers_commands_files_and_choices(folder: Path) -> None:
    wanted = {
        "r2b fro": ["plain,frontier"],
        "r2b audit peo": ["file,peo"],
        "r2b debias people.csv --output fa": ["file,fa"],
        "r2b datasets export a": ["plain,adult"],
    }
    found = offered(folder, *wanted)
    assert dict(zip(wanted, found, strict=True)) == wanted


@pytest.mark.parametrize(
    ("manner", "wanted"),
    [
        (
            "--json",
            (
                r'\{"format": "r2b-serve", "version": 1, "address":'
                r' "(http://127\.0\.0\.1:\d+/#token=[\w-]+)"\}'
            ),
        ),
        ("-q", r"r2b runs at (http://\S+)"),
    ],
)
def test_serve_says_its_address_in_the_manner_asked_for_and_ends_well(
    folder: Path, manner: str, wanted: str
) -> None:
    pytest.importorskip("uvicorn")
    words = [*R2B, "serve", manner, "--no-browser"]
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=60)
    assert re.fullmatch(wanted, line.strip()) and rest == ""
    assert (process.returncode, said.strip()) == (0, "Stopped. Nothing was kept.")
