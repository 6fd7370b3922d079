"""Calls of the command line for its tests: in this process for speed, and a small table whose
labels are far from parity.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from r2b.cli import main

R2B = [sys.executable, "-W", "error", "-m", "r2b"]
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}

# A program for several commands, which are its argument: one after the other, up to the first that
# fails.
ONE_BY_ONE = """
import ast, sys
from r2b.cli import main

for command in ast.literal_eval(sys.argv[1]):
    if main(command) != 0:
        sys.exit(f"r2b {command}")
"""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def facts(self) -> Any:
        """What it printed as JSON, read strictly."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not strict JSON")

        return json.loads(self.out, parse_constant=refuse)


class Shell:
    """Runs commands in a folder; the first word may be a line of several, as it is typed."""

    def __init__(self, capture: pytest.CaptureFixture[str], folder: Path) -> None:
        self.capture = capture
        self.folder = folder

    def __call__(self, line: object, *words: object) -> Ended:
        self.capture.readouterr()
        code = main([*shlex.split(str(line)), *map(str, words)])
        seen = self.capture.readouterr()
        return Ended(code, seen.out, seen.err)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


def people(n: int = 240, seed: int = 1) -> dict[str, list[str]]:
    """Three classes, two sexes, three races, ages and weights; the label depends on sex."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    race = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    chance = np.where(sex == "f", 0.2, 0.6)
    job = np.where(
        rng.random(n) < chance, "boss", np.where(rng.random(n) < 0.5, "clerk", "none, yet")
    )
    age = rng.integers(20, 60, n)
    weight = rng.integers(1, 5, n)
    return {
        "sex": sex.tolist(),
        "race": race.tolist(),
        "job": job.tolist(),
        "age": age.astype(str).tolist(),
        "w": weight.astype(str).tolist(),
    }


def read_columns(path: str | Path) -> dict[str, list[Any]]:
    """Return the columns of a file; an empty field of text is an empty text."""
    from r2b.engines.files import FileSource

    source = FileSource.open(path)
    text = source.listing.format.kind in ("csv", "tsv")
    columns = {name: column.to_pylist() for name, column in source.columns(source.names).items()}
    return {
        name: ["" if text and value is None else value for value in values]
        for name, values in columns.items()
    }


def csv_of(columns: dict[str, list[str]]) -> bytes:
    from r2b._files import Format, table_of

    return table_of(columns, Format("csv"))


def on_a_terminal(folder: Path, program: str, **asked: str) -> bytes:
    """Run Python with all its streams on a terminal of 100 columns, or as the environment asks, and
    give what it shows.
    """
    import pty

    leader, follower = pty.openpty()
    environment = {**ENVIRONMENT, "TERM": "xterm-256color", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    environment |= asked
    words = [sys.executable, "-c", program]
    with subprocess.Popen(
        words, stdin=follower, stdout=follower, stderr=follower, cwd=folder, env=environment
    ) as process:
        os.close(follower)
        seen = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # Linux says so when the last writer is gone
                break
            if not part:
                break
            seen += part
        process.wait()
    os.close(leader)
    return seen
