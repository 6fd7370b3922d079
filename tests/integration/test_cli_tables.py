"""The command line on files, folders and patterns: what is written is checked again from the files,
and one edited label is seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import file_tables
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_calls import Ended, Shell
from file_tables import WAYS

import r2b
from r2b.engines.files import FileSource
from r2b.report import fingerprint, gather, to_markdown
from r2b.report.trace import files_of

PEOPLE = file_tables.people(1_200)
ASK = ("--label", "job", "--sensitive", "sex")


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Shell:
    return Shell(capsys, tmp_path)


def given(way: str, folder: Path, table: pa.Table = PEOPLE) -> Any:
    return WAYS[way](table, folder)


def out_of(way: str, place: Any, folder: Path) -> Path:
    return folder / (
        "out" if "folder" in way or way == "pattern" else f"out{''.join(Path(place).suffixes)}"
    )


def failed(ended: Ended) -> set[str]:
    return {check["name"] for check in ended.facts["checks"] if not check["ok"]}


@pytest.mark.parametrize(
    "way", ["parquet", "csv", "tsv", "csv.gz", "stream", "folder", "csv folder", "pattern"]
)
@pytest.mark.parametrize("form", ["soft", "round", "sample", "expand"])
def test_what_is_written_part_by_part_is_verified(way: str, form: str, shell: Shell) -> None:
    place = given(way, shell.folder)
    out = out_of(way, place, shell.folder)
    made = shell(f"debias {place} --epsilon 0.02 --form {form} --output {out} --json", *ASK)
    assert made.code == 0, made.err
    assert made.facts["status"] == "solved"
    assert (shell.folder / f"{out.name}.r2b.json").exists()
    checked = shell(f"verify {out} --json")
    assert failed(checked) == set()
    assert checked.code == 0


def test_labels_swapped_between_two_rows_alike_are_seen_by_drawing_again(shell: Shell) -> None:
    place = given("parquet", shell.folder)
    out = shell.folder / "out.parquet"
    assert shell(f"debias {place} --form round --output {out} --key id --quiet", *ASK).code == 0
    table = pq.read_table(out)
    keys = list(zip(table["job"].to_pylist(), table["sex"].to_pylist(), strict=True))
    labels = table["job_fair"].to_pylist()
    one, other = next(
        (i, j)
        for i in range(200)
        for j in range(i, 200)
        if keys[i] == keys[j] and labels[i] != labels[j]
    )
    labels[one], labels[other] = labels[other], labels[one]
    pq.write_table(table.set_column(table.num_columns - 1, "job_fair", pa.array(labels)), out)
    seen = failed(shell(f"verify {out} --json"))
    assert seen == {"labels are those that were written", "labels follow from the prices"}


@pytest.mark.parametrize("form", ["soft", "round", "sample", "expand"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_probabilities_are_written_and_verified_part_by_part(
    form: str, suffix: str, shell: Shell
) -> None:
    _, table = file_tables.scores(1_500)
    place = file_tables.write(table.drop_columns("p"), shell.folder / f"p{suffix}")
    out = shell.folder / f"out{suffix}"
    columns = ("--label-columns", "p?", "--sensitive", "g", "--weight", "w")
    made = shell(
        "debias", place, *columns, "--epsilon", "0.01", "--form", form, "--output", out, "--json"
    )
    assert made.code == 0, made.err
    checked = shell(f"verify {out} --json")
    assert failed(checked) == set()
    if suffix == ".parquet":
        written = pq.read_table(out)
        name = (
            "p0_fair"
            if form == "soft"
            else "label_fair_weight"
            if form == "expand"
            else "label_fair"
        )
        column = written[name].to_pylist()
        column[5] = (
            column[5] + 0.3 if isinstance(column[5], float) else "p4" if column[5] != "p4" else "p3"
        )
        pq.write_table(
            written.set_column(written.schema.get_field_index(name), name, pa.array(column)), out
        )
        assert shell(f"verify {out}").code == 1


def test_folders_with_columns_in_their_names_are_debiased_and_verified(shell: Shell) -> None:
    place = file_tables.hive(PEOPLE, shell.folder)
    words = ("--label", "job", "--sensitive", "sex,region", "--families", "both")
    assert (
        shell("debias", place, *words, "--form", "round", "--output", f"{shell.folder}/out/").code
        == 0
    )
    assert (shell.folder / "out.r2b.json").exists()
    assert shell("verify", f"{shell.folder}/out/").code == 0
    assert FileSource.open(shell.folder / "out").names == (
        "id",
        "job",
        "sex",
        "w",
        "note",
        "job_fair",
        "year",
        "region",
    )


@pytest.mark.parametrize("weight", [None, "w"])
def test_reports_from_counts_say_what_reports_from_rows_say(
    weight: str | None, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    weights = [1 + k % 3 for k in range(len(PEOPLE))]
    table = PEOPLE.set_column(5, "w", pa.array(weights))
    path = given("parquet", shell.folder, table)
    words = f"audit {path} --permutations 20 --bootstrap 20 --quiet"
    words += f" --markdown {shell.folder / 'a.md'} --html {shell.folder / 'a.html'}"
    more = () if weight is None else ("--weight", weight)
    assert shell(words, *ASK, *more).code == 0
    own = {} if weight is None else {"sample_weight": table["w"]}
    asked = {
        "missing": "error",
        "min_group_size": 0,
        "small_groups": "error",
        "absent": "report",
        "families": "both",
        "normalize": False,
    }
    draws = {"n_permutations": 20, "n_boot": 20, "label_name": "job", "epsilon": 0.01, **asked}
    columns = {"sensitive_features": {"sex": table["sex"]}, **own}
    facts = gather(table["job"], **columns, **draws, date=None)
    facts["trace"]["input"] |= {
        "sha256": fingerprint(table["job"], **columns, counted=True),
        "files": files_of(path),
    }
    found = (shell.folder / "a.md").read_text()
    assert (
        found.split("r2b audit")[0]
        == to_markdown({**facts, "command": "r2b audit"}).split("r2b audit")[0]
    )
    assert "1,200" in found
    assert (shell.folder / "a.html").read_text().startswith("<!doctype html>")


def test_rows_are_counted_on_a_terminal_and_nowhere_else(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("r2b.cli.output._DELAY", -1.0)
    place = given("parquet", shell.folder)
    words = (f"debias {place} --form round --force --output {shell.folder / 'out.parquet'}", *ASK)
    assert shell(*words).err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    shown = shell(*words)
    assert shown.code == 0
    assert "1,200 rows" in shown.err
    assert shell(*words, "--quiet").err == ""


def test_nothing_is_written_over_and_the_input_never(shell: Shell) -> None:
    place = given("folder", shell.folder)
    assert shell(f"debias {place} --output {shell.folder / 'out'}", *ASK).code == 0
    again = shell(f"debias {place} --output {shell.folder / 'out'}", *ASK)
    assert (again.code, "there already" in again.err) == (2, True)
    assert (
        shell(f"debias {place} --form round --output {shell.folder / 'out'} --force", *ASK).code
        == 0
    )
    assert shell(f"verify {shell.folder / 'out'}").code == 0
    for where in (place, place / "in"):
        assert shell("debias", place, *ASK, "--output", where, "--force").code == 2
    assert r2b.scan(place).names == tuple(PEOPLE.column_names)
    assert sorted(path.name for path in shell.folder.iterdir()) == ["out", "out.r2b.json", "people"]
