"""The real command in a process of its own: pipes, terminals, signals, and a kill at any moment."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_calls import ENVIRONMENT, R2B, csv_of, on_a_terminal, people
from forked import run_program

if sys.platform == "win32":
    pytest.skip("signals and terminals of POSIX", allow_module_level=True)

ASK = ["--label", "job", "--sensitive", "sex"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_bytes(csv_of(people()))
    return tmp_path


def run(folder: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*R2B, *words], input=given, capture_output=True, cwd=folder, env=ENVIRONMENT, check=False
    )


def test_tables_flow_through_pipes_and_nothing_else_does(folder: Path) -> None:
    content = (folder / "people.csv").read_bytes()
    done = run(folder, "debias", "-", *ASK, "--form", "round", "--output", "-", given=content)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.splitlines()
    assert [line.rpartition(b",")[0] for line in lines[:1]] == content.splitlines()[:1]
    assert len(lines) == 241
    again = run(
        folder,
        "audit",
        "-",
        "--label",
        "job_fair",
        "--sensitive",
        "sex",
        "--json",
        given=done.stdout,
    )
    assert again.returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == ["people.csv"]


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    command = (
        f'"{sys.executable}" -W error -m r2b datasets export adult - | head -n 1; exit'
        " ${PIPESTATUS[0]}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, cwd=folder, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"age,")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_says_so_and_leaves_nothing(
    folder: Path, number: signal.Signals, code: int
) -> None:
    words = [*R2B, "debias", "-", *ASK, "--output", "fair.csv"]
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdin is not None
        # More than a pipe holds: once this returns, the command is reading.
        process.stdin.write(b"sex,job\n" + b"f,x\n" * 100_000)
        process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)  # it waits for the rest
        process.send_signal(number)
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait() == code
    assert b"Traceback" not in said
    assert sorted(path.name for path in folder.iterdir()) == ["people.csv"]


KILLS = """
import json, os, random, signal, sys, time
from functools import partial
from pathlib import Path
import forked
from r2b.cli import main

def child(words):
    return forked.child(partial(main, [*words, "--quiet"]))

def told(path):
    # Only the times of the steps, and --force in the command, differ between runs.
    text = path.read_text() if path.exists() else None
    if text in (None, "older"):
        return text
    return {**json.loads(text.replace(" --force", "")), "history": []}

words = sys.argv[1:]
source, output, proof = Path("people.csv"), Path("fair.csv"), Path("fair.csv.r2b.json")
before = source.read_bytes()
forked.prepare(partial(main, [*words, "--quiet"]))  # imports are not what the others are killed at
for path in (output, proof):
    path.unlink()
begun = time.monotonic()
assert forked.ended(child(words)) == 0
wait = time.monotonic() - begun
whole, proven = output.read_bytes(), told(proof)
draw = random.Random(0)
landed = killed = 0
for number in range(50):
    # what else is there was left by one that was killed, and the next one removes it
    for path in (output, proof):
        path.unlink(missing_ok=True)
    forced = number % 2 == 1
    if forced:
        output.write_bytes(b"old")
        proof.write_text("older")
    process = child(words + ["--force"] * forced)
    time.sleep(wait * draw.uniform(0.7, 1.2) if number % 5 else wait * draw.random())
    os.kill(process, signal.SIGKILL)
    killed += forked.ended(process) < 0
    found, evidence = output.read_bytes() if output.exists() else None, told(proof)
    assert source.read_bytes() == before
    assert found in ((whole, b"old") if forced else (whole, None)), number
    assert evidence in ((proven, "older") if forced else (proven, None)), number
    assert found != whole or evidence == proven, number
    landed += found == whole
    # Close in on the moment when files are written and moved, from both sides.
    wait *= 0.93 if found == whole else 1.05
assert forked.ended(child(words + ["--force"])) == 0
assert sorted(os.listdir()) == ["fair.csv", "fair.csv.r2b.json", "people.csv"], os.listdir()
print(killed, landed)
"""


def test_a_kill_at_any_moment_leaves_the_target_absent_or_whole_and_the_input_alone(
    folder: Path,
) -> None:
    columns = people(4000)
    (folder / "people.csv").write_bytes(csv_of(columns))
    words = ["debias", "people.csv", *ASK, "--output", "fair.csv"]
    done = run_program(KILLS, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    killed, landed = map(int, done.stdout.split())
    assert killed >= 10
    assert landed >= 5


def test_a_terminal_sees_progress_with_the_time_left_and_a_heading_that_stands_out(
    folder: Path,
) -> None:
    # A solve of this size is over within a moment, so the moment is taken away.
    words = ["debias", "people.csv", *ASK, "-o", "fair.csv"]
    program = (
        "import r2b.cli.output as meter; meter._DELAY = -1.0; from r2b.cli import main;"
        f" main({words!r})"
    )
    seen = on_a_terminal(folder, program)
    assert b"Solving, step" in seen
    assert b"left" in seen
    assert b"\x1b[1mFair labels: 240 rows" in seen
    quiet = on_a_terminal(folder, program.replace("'-o'", "'-q', '--force', '-o'"))
    assert quiet == b""


def test_libraries_wait_until_they_are_needed(folder: Path) -> None:
    program = f"""
import sys
import r2b
assert not {{"click", "rich", "r2b.cli", "r2b._files"}} & set(sys.modules)
from r2b.cli import main
assert main({["audit", "people.csv", *ASK, "-q"]!r}) == 0
late = {{"rich", "polars", "numba", "sklearn", "jinja2", "starlette", "experiments"}}
late |= {{"r2b.report.render", "r2b.app"}}
print(*sorted(late & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=folder,
        env=ENVIRONMENT,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
