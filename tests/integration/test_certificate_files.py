"""Certificate files that nobody here wrote: each is refused in words, at once and without
memory.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_calls import ENVIRONMENT, Shell

HUGE = 10**400


@pytest.fixture
def shell(shell: Shell) -> Shell:
    words = "--label job --sensitive sex --epsilon 0.05 --form round"
    assert shell(f"debias people.csv -o fair.csv -q {words}").code == 0
    return shell


def at(*places: Any) -> Callable[[Any, Any], None]:
    """Set, in place, what stands at a path."""

    def change(content: Any, value: Any) -> None:
        for place in places[:-1]:
            content = content[place]
        content[places[-1]] = value

    return change


EDITS: dict[str, tuple[Callable[[Any, Any], None], Any]] = {
    "an unknown field": (at("odd"), 1),
    "an unknown field of the schema": (at("schema", "odd"), 1),
    "an unknown field of the classes": (at("schema", "classes", "odd"), 1),
    "an unknown field of a family": (at("families", "families", 0, "odd"), 1),
    "an unknown field of a bound": (at("families", "families", 0, "bound", "odd"), 1),
    "an unknown field of the numbers": (at("certificate", "odd"), 1),
    "an unknown field of the record": (at("file", "odd"), 1),
    "an unknown field of the columns": (at("file", "columns", "odd"), 1),
    "an unknown field of the reading": (at("file", "reading", "odd"), 1),
    "an unknown fingerprint": (at("file", "fingerprints", "odd"), "x"),
    "an unknown measurement": (at("file", "realised", "odd"), 1),
    "an unknown option": (at("file", "options", "odd"), 1),
    "an option that is not recorded": (at("file", "options", "threads"), 1),
    "no new column": (at("file", "new"), []),
    "a form that there is not": (at("file", "form"), "evil"),
    "a form without its columns": (at("file", "form"), "expand"),
    "rows that are text": (at("file", "n_rows"), "300"),
    "no fingerprints": (at("file", "fingerprints"), {}),
    "no reading": (at("file", "reading"), None),
    "options that are a list": (at("file", "options"), []),
    "a label of another kind": (at("file", "columns", "label"), [7]),
    "no label": (at("file", "columns", "label"), []),
    "a label that is not a list": (at("file", "columns", "label"), "job"),
    "a seed of text": (at("file", "random_state"), "0"),
    "an epsilon of text": (at("file", "options", "epsilon"), "much"),
    "families of numbers": (at("file", "options", "families"), [3]),
    "no realised parity": (at("file", "realised"), None),
    "another version": (at("file", "version"), 99),
    "a group that does not occur": (at("schema", "vocabularies", 0, "values"), ["f", "m", "x"]),
    "a label twice": (at("file", "columns", "label"), ["job", "job"]),
    "an attribute twice": (at("file", "columns", "sensitive"), ["sex", "sex"]),
    "a class twice": (at("schema", "classes", "values"), ["boss", "boss", "none, yet"]),
    "a group twice": (at("schema", "vocabularies", 0, "values"), ["f", "f"]),
    "a version that is true": (at("version"), True),
    "a version of the record that is true": (at("file", "version"), True),
    "a version that is a number with a point": (at("file", "version"), 1.0),
    "a huge version": (at("version"), HUGE),
    "huge rows": (at("file", "n_rows"), HUGE),
    "a huge seed": (at("file", "random_state"), HUGE),
    "a huge price": (at("prices", 0, 0), HUGE),
    "a huge epsilon": (at("file", "options", "epsilon"), HUGE),
    "a huge size of groups": (at("file", "options", "min_group_size"), HUGE),
    "a huge lambda": (at("lam"), HUGE),
    "a huge group": (at("families", "families", 0, "n_groups"), HUGE),
    "many groups": (at("families", "families", 0, "n_groups"), 10**12),
    "a huge cell": (at("schema", "table", 0, 0), HUGE),
    "a huge class": (at("schema", "classes", "values", 0), HUGE),
    "wide classes": (at("schema", "classes", "dtype"), "<U100000000"),
    "wide groups": (at("schema", "vocabularies", 0, "dtype"), "<U300000000"),
    "wide bytes": (at("schema", "classes", "dtype"), "|S1000000000"),
    "a structured type": (at("schema", "classes", "dtype"), "(1000000000,)f8"),
    "a void type": (at("schema", "classes", "dtype"), "|V1000000000"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_refused_in_words(shell: Shell, name: str) -> None:
    change, value = EDITS[name]
    content = json.loads(Path("fair.csv.r2b.json").read_text())
    change(content, value)
    Path("fair.csv.r2b.json").write_text(json.dumps(content))
    done = shell("verify fair.csv")
    assert done.code in (1, 3), done
    assert "NOT VERIFIED" in done.out or done.err.startswith("Error: "), done


def test_a_key_that_comes_twice_is_refused(shell: Shell) -> None:
    text = Path("fair.csv.r2b.json").read_text()
    shell.write("fair.csv.r2b.json", text.replace('"lam": ', '"lam": 2.0, "lam": ', 1))
    done = shell("verify fair.csv")
    assert (done.code, "repeats a key" in done.err) == (3, True)


def test_digits_without_end_and_brackets_without_end_are_no_fault_of_ours(shell: Shell) -> None:
    for content in (
        "",
        "{}",
        "[1]",
        "1" * 6000,
        "[" * 100_000,
        '{"version": ' + "9" * 5000 + "}",
        "\xff",
    ):
        shell.write("other.json", content.encode("latin-1"))
        assert shell("verify fair.csv --certificate other.json").code == 3


@pytest.mark.skipif(sys.platform == "win32", reason="needs /dev/zero and limits of memory")
@pytest.mark.parametrize("edit", ["a device without end", "wide groups"])
def test_memory_and_time_are_bounded(shell: Shell, edit: str) -> None:
    proof = "/dev/zero"
    if edit in EDITS:
        content = json.loads(Path("fair.csv.r2b.json").read_text())
        change, value = EDITS[edit]
        change(content, value)
        proof = str(shell.write("other.json", json.dumps(content)))
    words = [sys.executable, "-m", "r2b", "verify", "fair.csv", "--certificate", proof]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

    begun = time.monotonic()
    done = subprocess.run(
        words, capture_output=True, text=True, env=ENVIRONMENT, check=False, preexec_fn=limited
    )
    assert done.returncode in (1, 3), done
    assert "Traceback" not in done.stderr and time.monotonic() - begun < 60
