"""Random edits of outputs and certificates of every form and format: none that changes what
is claimed is verified.

python tests/support/edit_campaign.py 3000
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from r2b._files.formats import format_of
from r2b._files.text import compress, table_of
from r2b._verify.output import fingerprints
from r2b._verify.record import read_records
from r2b._verify.table import column_marks
from r2b.cli import main
from r2b.engines.files import FileSource
from r2b.engines.roles import Decode

N = 120
CLASSES = ("--label", "job", "--sensitive", "sex", "--epsilon", "0.05")
RACE = ("--label", "job", "--sensitive", "race", "--epsilon", "0.05")
SCORES = ("--label-columns", "p_*", "--sensitive", "sex", "--epsilon", "0.01")
ALL, WHOLE = ("soft", "round", "sample", "expand"), ("round", "sample")
# what is asked, in which forms, and the format of input and output
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "classes": (CLASSES, ALL, "csv"),
    "probabilities": (SCORES, ALL, "parquet"),
    "row weights": ((*CLASSES, "--weight", "w"), ALL, "jsonl"),
    "weighted probabilities": ((*SCORES, "--weight", "w"), ALL, "csv.gz"),
    "tags": (
        ("--multilabel", "--labels", "t1,t2", "--sensitive", "sex", "--epsilon", "0.05"),
        ("soft", *WHOLE),
        "csv",
    ),
    "families": ((*CLASSES, "--sensitive", "race", "--families", "both"), WHOLE, "arrow"),
    "control": ((*CLASSES, "--control", "race"), ("soft", "expand"), "tsv"),
    "merged": (
        (*RACE, "--min-group-size", "40", "--small-groups", "merge"),
        ("soft", "round"),
        "parquet",
    ),
    "missing": ((*CLASSES, "--sensitive", "gap", "--na", "?", "--missing", "group"), ALL, "csv"),
    "left out": ((*CLASSES, "--sensitive", "gap", "--missing", "exclude"), ("soft",), "jsonl"),
    "outcomes": ((*CLASSES, "--outcomes", "works=boss,clerk"), WHOLE, "csv"),
    "another bound": ((*CLASSES, "--bound", "to_overall"), ("soft",), "tsv"),
    "agreement": ((*CLASSES, "--objective", "agreement"), ("soft", "round"), "csv"),
    "as they are": (("--label", "job", "--sensitive", "sex", "--epsilon", "0.9"), ALL, "csv"),
    "keys": ((*CLASSES, "--key", "id"), WHOLE, "parquet"),
    "continuous": (("--label", "job", "--continuous", "age", "--epsilon", "0.1"), ALL, "parquet"),
    "uncertain": (
        ("--label", "job", "--membership", "sex=m_f,m_m", "--epsilon", "0.05"),
        ("soft", "sample"),
        "csv",
    ),
    "a workbook": (CLASSES, ("round",), "xlsx"),
}


def people() -> dict[str, list[Any]]:
    """Return the columns of a table with labels, probabilities, tags and attributes of all
    kinds.
    """
    rng = np.random.default_rng(7)
    sex = rng.choice(["f", "m"], N)
    lean, share = np.where(sex == "f", 0.2, 0.6), np.round(rng.beta(2, 2, N), 3)
    member = np.where(sex == "f", 0.75, 0.25)
    columns: dict[str, Any] = {
        "id": np.arange(N)[::-1] * 3,
        "sex": sex,
        "race": rng.choice(["a", "b", "c"], N, p=[0.6, 0.25, 0.15]),
        "gap": rng.choice(["x", "y", "?"], N),
        "job": np.where(
            rng.random(N) < lean, "boss", np.where(rng.random(N) < 0.5, "clerk", "none")
        ),
        "age": rng.integers(20, 60, N),
        "w": rng.integers(1, 5, N).astype(float),
        "p_a": share,
        "p_b": 1.0 - share,
        "m_f": member,
        "m_m": 1.0 - member,
        "t1": (rng.random(N) < lean).astype(int),
        "t2": (rng.random(N) < 0.9 - lean).astype(int),
        "note": [f"note {row % 11}, or more" for row in range(N)],
    }
    return {name: list(map(_plain, values)) for name, values in columns.items()}


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def read(path: Path) -> dict[str, list[Any]]:
    """Read a file as lists; of text, as it is spelled."""
    source = FileSource.open(path)
    return {name: each.to_pylist() for name, each in source.columns(source.names).items()}


def write(path: Path, columns: dict[str, list[Any]]) -> None:
    """Write lists in the format of a file."""
    shape = format_of(path.name)
    assert shape is not None
    path.write_bytes(compress(table_of(columns, shape), shape.compression))


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a tree."""
    if not isinstance(tree, (dict, list)) or not tree:
        return [path]
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return [leaf for key, value in inner for leaf in leaves(value, (*path, key))]


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    """Return what stands at a path."""
    for step in path:
        tree = tree[step]
    return tree


def edit_certificate(rng: random.Random, content: Any) -> str | None:
    """Change, remove, add, swap or repeat something; return what was done."""
    path = rng.choice(leaves(content))
    above, last, old = at(content, path[:-1]), path[-1], at(content, path)
    way = rng.choice(["set", "set", "set", "remove", "add", "swap", "repeat"])
    if way == "set":
        choices: list[Any] = [None, "x", "", [], {}, -1, 0, 1, 0.123456, True, False, 10**30, "inf"]
        if isinstance(old, (int, float)):
            choices += [old + 1e-3, -old - 0.5, old * 2 + 1, old + 1]
        elif isinstance(old, str):
            others = [at(content, leaf) for leaf in leaves(content)]
            choices += [each for each in others if isinstance(each, str)] + [old + " ", old.upper()]
        above[last] = rng.choice(choices)
    elif way == "remove":
        del above[last]
    elif way == "add":
        above.append(copy.deepcopy(old)) if isinstance(above, list) else above.update(odd=old)
    elif isinstance(above, list) and len(above) > 1:
        other = rng.randrange(len(above))
        if way == "swap":
            above[last], above[other] = above[other], above[last]
        else:
            above[other] = copy.deepcopy(old)
    else:
        return None
    return f"{way} {path}: {old!r}"[:200]


def edit_output(rng: random.Random, columns: dict[str, list[Any]]) -> str | None:
    """Change a value, rows or columns; return what was done, None for nothing."""
    names, name = list(columns), rng.choice(list(columns))
    n, row = len(columns[name]), rng.randrange(len(columns[name]))
    other = rng.randrange(n)
    way = rng.choice(["value", "value", "value", "swap", "rows", "drop", "repeat", "columns"])
    if way == "value":
        old = columns[name][row]
        new = rng.choice([rng.choice(columns[name]), None, "zz", "0.5", ""])
        if isinstance(old, (int, float)):
            new = rng.choice([old + 1e-6, old + 1, -old, 0, None, rng.choice(columns[name])])
            new = new if new is None else type(old)(new)
        columns[name][row] = new
    elif way == "swap":
        each = columns[name]
        each[row], each[other] = each[other], each[row]
    elif way == "columns":
        second = rng.choice(names)
        columns[name], columns[second] = columns[second], columns[name]
    else:
        for each in columns.values():
            if way == "rows":
                each[row], each[other] = each[other], each[row]
            elif way == "drop":
                del each[row]
            else:
                each.insert(other, each[row])
    return f"{way} {name} {row} {other}"


def swap_names(rng: random.Random, content: Any, columns: dict[str, list[Any]]) -> str | None:
    """Swap the names of two new columns, in the table and in the certificate."""
    lists = [one["file"]["new"] for one in content.get("tags", [content])]
    places = [(each, number) for each in lists for number in range(len(each))]
    if len(places) < 2:
        return None
    (some, one), (others, other) = rng.sample(places, 2)
    first, second = some[one], others[other]
    some[one], others[other] = second, first
    columns[first], columns[second] = columns[second], columns[first]
    return f"swap the names {first} and {second}"


def with_new_checksums(output: Path, proof: Path, content: Any) -> None:
    """Do what someone would who wants an edit to pass, where the edited files can be read."""
    for one in content.get("tags", [content]):
        alone = proof.with_name("alone.json")
        alone.write_text(json.dumps(one))
        ((fair, record),) = read_records(str(alone)).values()
        source = FileSource.open(output, na=record.na)
        decode = Decode(record.columns, fair.schema)
        repeated = record.new[2] if record.form == "expand" else None
        one["file"]["fingerprints"] = fingerprints(source, decode, record.form, record.new)
        marks = column_marks(source, decode, record.new, repeated=repeated).marks
        one["file"]["table"] = [list(each) for each in marks]


def verified(output: Path) -> tuple[int, Any, str]:
    """Run the command; return its code, the claim and what it printed."""
    shown, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(errors):
        code = int(main(["verify", str(output), "--json"]))
    text = shown.getvalue() + errors.getvalue()
    facts = json.loads(shown.getvalue()) if shown.getvalue().strip() else {}
    claims = [each["claim"] for each in facts.get("tags", {"": facts}).values() if "claim" in each]
    for claim in filter(None, claims):  # what outcomes are called is the maker's own
        claim["outcomes"] = claim["outcomes"] and sorted(map(str, claim["outcomes"].values()))
        for family in claim["families"]:
            family.pop("name")
    return code, claims, text


def campaign(folder: Path, name: str, form: str, edits: int, seed: int = 0) -> Counter[str]:
    """Edit one output and its certificate so often, and check every verdict.

    Raises
    ------
    AssertionError
        A changed claim, or a changed column without a new checksum, was verified; or the command
        failed in another way than by a verdict or an error in words.
    """
    words, _, kind = CASES[name]
    columns = people()
    if "--na" not in words:
        columns["gap"] = [None if each == "?" else each for each in columns["gap"]]
    data, output = folder / f"people.{kind}", folder / f"fair.{kind}"
    write(data, columns)
    asked = ["debias", str(data), *words, "--form", form, "-o", str(output), "-q", "--force"]
    assert main(asked) == 0
    proof = Path(f"{output}.r2b.json")
    table, content = read(output), json.loads(proof.read_text())
    if "--na" in words:  # gaps are read as they are spelled
        table["gap"] = [each or "?" for each in table["gap"]]
    write(output, table)
    code, claims, text = verified(output)
    assert code == 0 and claims, text  # the table that is written again is the same
    rng, seen = random.Random(f"{name} {form} {seed}"), Counter[str]()
    while seen["edits"] < edits:
        edited, made = {n: [*each] for n, each in table.items()}, copy.deepcopy(content)
        what = rng.choice(["certificate", "output", "output", "both", "names"])
        done = [edit_certificate(rng, made)] if what in ("certificate", "both") else []
        done += [edit_output(rng, edited)] if what in ("output", "both") else []
        done += [swap_names(rng, made, edited)] if what == "names" else []
        if None in done or (edited == table and made == content):
            continue
        try:
            write(output, edited)
        except Exception:  # no file of this format can hold it
            continue
        again = what != "certificate" and rng.random() < 0.6
        if again:
            with contextlib.suppress(Exception):  # of what cannot be read there is no checksum
                with_new_checksums(output, proof, made)
        proof.write_text(json.dumps(made))
        code, now, text = verified(output)
        about = f"{name}, {form}, {what}, {done}, new checksums: {again}\n{text[:1500]}"
        assert code in (0, 1, 2, 3) and "Traceback" not in text, about
        if code == 0:
            assert now == claims, about
            assert again or edited == table or _alike(edited, table), about
        seen.update(["edits", what, "accepted" if code == 0 else "rejected"])
        seen.update(["with new checksums"] * again)
    return seen


def _alike(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> bool:
    """Return whether two tables hold the same numbers and texts, however numbers are spelled."""

    def value(each: Any) -> Any:
        try:
            return None if each in (None, "") else float(each)
        except ValueError:
            return each

    return list(one) == list(other) and all(
        list(map(value, one[name])) == list(map(value, other[name])) for name in one
    )


def run(edits: int, seed: int = 0) -> None:
    """Run all cases, and print how many edits of each were made and accepted."""
    pairs = [(name, form) for name, (_, forms, _) in CASES.items() for form in forms]
    total, begun = Counter[str](), time.monotonic()
    for name, form in pairs:
        with tempfile.TemporaryDirectory() as folder:
            try:
                seen = campaign(Path(folder), name, form, -(-edits // len(pairs)), seed)
            except AssertionError as error:
                seen = Counter(failed=1)
                print(error, flush=True)
        total += seen
        print(f"{name:24}{form:8}{CASES[name][2]:8}{dict(seen)}", flush=True)
    print(f"all: {dict(total)}, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
