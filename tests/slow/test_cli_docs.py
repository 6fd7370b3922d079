"""The page on the command line is complete and true: no command or option is missing, and what is
marked as run runs.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click
import pytest
from cli_calls import ONE_BY_ONE

from r2b.cli import output as exits
from r2b.cli.commands import group as r2b

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def commands(group: click.Group = r2b, path: str = "r2b") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def sections(text: str) -> dict[str, str]:
    """Return the text under each heading, up to the next heading of its level or above; commands
    are not led by their level.
    """
    found: dict[str, str] = {}
    parts = re.split(r"^(#+ .+)$", text, flags=re.MULTILINE)[1:]
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        found[heading.lstrip("# ").strip()] = body
    return found


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def missing_from(text: str) -> list[str]:
    """List what a page does not say: commands without a section, options neither there nor in a
    section it links to.
    """
    complaints = []
    bodies = sections(text)
    linked = {anchor(heading): body for heading, body in bodies.items()}
    for path, command in commands():
        if path not in bodies:
            complaints.append(path)
            continue
        body = bodies[path] + "".join(
            linked.get(name, "") for name in re.findall(r"\]\(#([\w-]+)\)", bodies[path])
        )
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                names = [*parameter.opts, *parameter.secondary_opts]
                complaints += [f"{path} {name}" for name in names if f"`{name}`" not in body]
    return complaints


def test_no_command_or_option_is_missing_from_the_page() -> None:
    assert len(list(commands())) == 9
    assert missing_from(PAGE) == []


def test_every_exit_code_is_on_the_page() -> None:
    table = sections(PAGE)["Exit codes"]
    codes = [int(code) for code in exits.Exit]
    assert sorted(codes) == [0, 1, 2, 3, 70, 130, 143]
    assert not [code for code in codes if not re.search(rf"\b{code}\b", table)]


@pytest.mark.parametrize(
    ("path", "command"), list(commands()), ids=[path for path, _ in commands()]
)
def test_every_command_has_help_with_an_example_and_every_option_a_word_of_help(
    path: str, command: click.Command
) -> None:
    assert command.help is not None
    assert re.search(rf"^ +(.*\| )?{path}\b", command.help, flags=re.MULTILINE)
    assert command.short_help
    assert not [
        option.name
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]


def runnable(text: str) -> list[str]:
    blocks = re.findall(r"^```sh run\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def script_of(lines: list[str]) -> str:
    """Return the script of some lines. Commands without pipes that follow each other share a
    process.
    """
    python = f"{shlex.quote(sys.executable)} -W error"
    script = ["set -e", f'r2b() {{ {python} -m r2b "$@"; }}']
    for plain, several in groupby(
        lines, lambda line: line.startswith("r2b ") and not set("|>&") & set(line)
    ):
        if plain:
            commands = repr([shlex.split(line)[1:] for line in several])
            script.append(
                f"{python} -c {shlex.quote(ONE_BY_ONE)} {shlex.quote(commands)} > /dev/null"
            )
        else:
            script += several
    return "\n".join(script)


def test_examples_marked_as_run_do_run_in_order(tmp_path: Path) -> None:
    lines = runnable(PAGE)
    assert len(lines) >= 8
    done = subprocess.run(
        ["bash", "-c", script_of(lines)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    made = {
        "adult.csv",
        "fair.csv",
        "fair.csv.r2b.json",
        "round.csv.gz",
        "repeated.csv",
        "cost.csv",
    }
    assert made <= {path.name for path in tmp_path.iterdir()}
