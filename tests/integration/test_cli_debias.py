"""``r2b debias`` writes what ``r2b.debias`` finds, in every form and format, and leaves everything
else as it was.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_calls import Shell, csv_of, people, read_columns

import r2b
from r2b._files import Format, table_of
from r2b._files.text import compress

ASK = ("--label", "job", "--sensitive", "sex")
FORMATS = ["csv", "tsv", "jsonl", "parquet", "arrow", "csv.gz", "jsonl.bz2", "tsv.xz", "csv.zst"]


def fair_people(**options: Any) -> r2b.FairLabels:
    columns = people()
    return r2b.debias(columns["job"], sensitive_features={"sex": columns["sex"]}, **options)


def read(path: str) -> dict[str, list[Any]]:
    return read_columns(path)


def test_soft_labels_are_written_with_all_their_digits_after_the_text_that_was_there(
    shell: Shell,
) -> None:
    fair = fair_people(epsilon=0.05)
    done = shell("debias people.csv --epsilon 0.05 --output fair.csv", *ASK)
    assert (done.code, done.err) == (0, "")
    assert str(fair) in done.out
    old, new = (Path(f"{name}.csv").read_text().splitlines() for name in ("people", "fair"))
    assert all(line.startswith(f"{before},") for before, line in zip(old, new, strict=True))
    found = read("fair.csv")
    matrix = np.column_stack([found[f"job_fair_{name}"] for name in fair.classes]).astype(float)
    assert np.array_equal(matrix, fair.soft_labels)
    assert r2b.load("fair.csv.r2b.json").prices.tolist() == fair.prices.tolist()


def test_expanded_rows_repeat_the_table_with_weight_and_row_number(shell: Shell) -> None:
    rows, labels, weight = fair_people().expand()
    assert shell("debias people.csv --form expand -o fair.csv -q", *ASK).code == 0
    found, columns = read("fair.csv"), people()
    assert found["age"] == [columns["age"][row] for row in rows]
    assert found["job_fair"] == list(labels)
    assert [float(value) for value in found["job_fair_weight"]] == weight.tolist()
    assert [int(value) for value in found["job_fair_row"]] == rows.tolist()


@pytest.mark.parametrize("given", FORMATS)
@pytest.mark.parametrize("wanted", ["csv", "jsonl", "parquet"])
def test_every_format_goes_to_every_other_and_is_verified_there(
    shell: Shell, given: str, wanted: str
) -> None:
    pytest.importorskip("pyarrow")
    shape = Format(*given.split(".")) if "." in given else Format(given)
    shell.write(f"in.{given}", compress(table_of(people(), shape), shape.compression))
    assert shell(f"debias in.{given} --form round -o out.{wanted} -q", *ASK).code == 0
    found = read(f"out.{wanted}")
    assert {name: found[name] for name in people()} == people()
    assert found["job_fair"] == list(fair_people().round(0))
    assert shell("verify", f"out.{wanted}").code == 0


def test_options_are_those_of_the_function(shell: Shell) -> None:
    pytest.importorskip("pyarrow")
    columns = people()
    shell.write(
        "costs.csv", 'from,"none, yet",boss,clerk\nboss,2,0,1\nclerk,1,1,0\n"none, yet",0,3,1\n'
    )
    fair = r2b.debias(
        columns["job"],
        sensitive_features={
            "sex": columns["sex"],
            "race": columns["race"],
            "age": r2b.Continuous([float(age) for age in columns["age"]]),
        },
        epsilon={"boss": 0.02, "clerk": 0.1, "none, yet": 0.1},
        families=["sex", ["sex", "race"], "age"],
        bound="to_overall",
        sample_weight=[float(w) for w in columns["w"]],
        lam=0.7,
        costs=[[0, 1, 2], [1, 0, 1], [3, 1, 0]],
        min_group_size=5,
    )
    columns_asked = "--label job --sensitive sex,race --continuous age --weight w"
    families = "--family sex --family sex,race --family age --bound to_overall --min-group-size 5"
    bound = "--epsilon 0.1 --epsilon boss=0.02 --lam 0.7 --costs costs.csv"
    done = shell(f"debias people.csv {columns_asked} {families} {bound} -o fair.parquet --json")
    assert done.code == 0
    assert done.facts["certificate"] == json.loads(json.dumps(fair.certificate.to_json()))
    assert shell("verify fair.parquet").code == 0


def test_names_are_never_taken_twice(shell: Shell) -> None:
    assert shell("debias people.csv -o a.csv --form round -q", *ASK).code == 0
    done = shell("debias a.csv -o b.csv --form round", *ASK)
    assert done.code == 2
    assert (
        "'job_fair' would have the name of a column of a.csv. Choose another name with"
        " --new-column." in done.err
    )
    assert not Path("b.csv").exists()
    assert shell("debias a.csv -o b.csv --form round --new-column again -q", *ASK).code == 0


def test_files_that_are_there_are_refused_without_force(shell: Shell) -> None:
    words = ("debias", "people.csv", *ASK, "-o", "fair.csv", "-q")
    assert shell(*words).code == 0
    first = Path("fair.csv").read_bytes()
    done = shell(*words, "--epsilon", 0.1)
    assert (done.code, Path("fair.csv").read_bytes()) == (2, first)
    assert "--force" in done.err
    assert shell(*words, "--epsilon", 0.1, "--force").code == 0
    assert Path("fair.csv").read_bytes() != first
    Path("fair.csv").unlink()
    assert "fair.csv.r2b.json is there already" in shell(*words).err


def test_labels_that_are_not_proven_are_written_and_end_with_code_1(shell: Shell) -> None:
    done = shell("debias people.csv --max-iter 0 -o fair.csv -q", *ASK)
    assert done.code == 1
    assert done.err.startswith("Parity was not reached (out of iterations). Raise --max-iter")
    assert Path("fair.csv").exists()
    assert shell("verify fair.csv").code == 1


def test_reports_are_written_beside_the_output(shell: Shell) -> None:
    words = "--html fair.html --markdown fair.md --epsilon 0.05 --form round -o fair.csv -q"
    assert shell(f"debias people.csv {words}", *ASK).code == 0
    words = "--html audit.html --markdown audit.md --permutations 20 --bootstrap 0 -q"
    assert shell(f"audit people.csv {words} --suppress-below 1000", *ASK).code == 0
    made, audited = (Path(name).read_text(encoding="utf-8") for name in ("fair.md", "audit.md"))
    assert made.startswith("# ")
    assert "## What changed" in made
    assert "would bring" not in made
    assert "would bring" in audited
    # What the report states can be checked: the file that was read, the labels that left, and the
    # command that verifies them.
    stated = json.loads(Path("fair.csv.r2b.json").read_text(encoding="utf-8"))["file"]
    assert hashlib.sha256(Path("people.csv").read_bytes()).hexdigest() in made
    assert stated["fingerprints"]["labels"] in made
    assert f"{stated['realised']['disparity']:.6f}" in made
    command = next(line for line in made.splitlines() if line.startswith("    r2b verify"))
    assert shell(*command.split()[1:], "-q").code == 0
    assert "&lt;1000" in audited
    assert "&lt;1000" in Path("audit.html").read_text(encoding="utf-8")
    assert "&lt;" not in made


def test_hostile_names_and_values_survive_and_are_verified(shell: Shell) -> None:
    renamed = {
        "sex": "<img src=x onerror=alert(1)>",
        "job": '=cmd|"x",\nnew',
        "race": " ragged 'n\rodd ",
        "age": "年齢",
        "w": "[bold]w[/bold]",
    }
    columns = {renamed[name]: values for name, values in people().items()}
    columns[renamed["race"]] = ["=1+1", 'a "b"', "x\r\ny"] * 80
    content = csv_of(columns)
    shell.write("odd.csv", b"\xef\xbb\xbf" + content)
    words = ("--label", renamed["job"], "--sensitive", renamed["sex"], "--weight", renamed["w"])
    assert shell("debias", "odd.csv", *words, "--form", "round", "-o", "fair.csv").code == 0
    written = Path("fair.csv").read_bytes()
    assert written.startswith(b"\xef\xbb\xbf<img src=x")
    rows = list(csv.DictReader(io.StringIO(written.decode("utf-8-sig"), newline="")))
    assert {name: [row[name] for row in rows] for name in columns} == columns
    assert shell("verify fair.csv").code == 0


def test_outputs_of_a_private_table_are_private(shell: Shell) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    os.umask(umask := os.umask(0))
    words = ("--label", "job", "--sensitive", "sex", "-q")
    for given, wanted in ((0o600, 0o600), (0o644, 0o644), (0o640, 0o640)):
        (shell.folder / "people.csv").chmod(given)
        written = ("--html", "fair.html", "-o", "fair.csv", "--force")
        assert shell("debias people.csv", *words, *written).code == 0
        assert shell("frontier people.csv --points 2 -o cost.csv --force", *words).code == 0
        for name in ("fair.csv", "fair.csv.r2b.json", "fair.html", "cost.csv"):
            assert mode(shell.folder / name) == wanted & ~umask, name
            (shell.folder / name).chmod(0o644)  # of one that is replaced as well
    folder = shell.folder / "parts"
    folder.mkdir()
    shell.write("parts/a.csv", (shell.folder / "people.csv").read_bytes()).chmod(0o600)
    assert shell("debias parts -o fair", *words).code == 0
    assert [mode(shell.folder / name) for name in ("fair", "fair/a.csv")] == [0o700, 0o600]
