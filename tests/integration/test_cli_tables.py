"""The command line on files, folders and patterns: what is written is checked again from the files, and one edited label is seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import file_tables
import numpy as np
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
    made = shell(
        "debias", place, *ASK, "--epsilon", "0.02", "--form", form, "--output", out, "--json"
    )
    assert made.code == 0, made.err
    assert made.facts["status"] == "solved"
    assert (shell.folder / f"{out.name}.r2b.json").exists()
    checked = shell("verify", out, "--json")
    assert failed(checked) == set()
    assert checked.code == 0


@pytest.mark.parametrize("form", ["soft", "round", "sample", "expand"])
@pytest.mark.parametrize("way", ["parquet", "csv"])
def test_a_single_edited_label_is_seen(form: str, way: str, shell: Shell) -> None:
    place = given(way, shell.folder)
    out = out_of(way, place, shell.folder)
    assert shell("debias", place, *ASK, "--form", form, "--output", out, "--quiet").code == 0
    if way == "parquet":
        table = pq.read_table(out)
        name = "job_fair_boss" if form == "soft" else "job_fair"
        column = table[name].to_pylist()
        column[777] = (
            0.25
            if form == "soft"
            else next(value for value in ("boss", "none") if value != column[777])
        )
        pq.write_table(
            table.set_column(table.schema.get_field_index(name), name, pa.array(column)),
            out,
            row_group_size=500,
        )
    else:
        lines = out.read_bytes().split(b"\n")
        body = lines[700].split(b",")
        place_of = {"soft": -1, "round": -1, "sample": -1, "expand": -3}[form]
        body[place_of] = (
            b"0.25" if form == "soft" else b"boss" if body[place_of] != b"boss" else b"none"
        )
        lines[700] = b",".join(body)
        out.write_bytes(b"\n".join(lines))
    checked = shell("verify", out, "--json")
    assert checked.code == 1
    assert "labels are those that were written" in failed(checked)
    # Without the checksum it is still seen, from the prices.
    proof = Path(f"{out}.r2b.json")
    content = json.loads(proof.read_text())
    again = next(
        check["found"]
        for check in checked.facts["checks"]
        if check["name"] == "labels are those that were written"
    )
    assert content["file"]["fingerprints"]["labels"][:12] in again
    assert failed(checked) & {
        "labels follow from the prices",
        "labels are probabilities",
        "labels are on the simplex",
    }


def test_labels_swapped_between_two_rows_alike_are_seen_by_drawing_again(shell: Shell) -> None:
    place = given("parquet", shell.folder)
    out = shell.folder / "out.parquet"
    assert (
        shell(
            "debias", place, *ASK, "--form", "round", "--output", out, "--key", "id", "--quiet"
        ).code
        == 0
    )
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
    seen = failed(shell("verify", out, "--json"))
    assert seen == {"labels are those that were written", "labels follow from the prices"}


def test_an_edited_price_or_attribute_is_seen(shell: Shell) -> None:
    place, out = given("parquet", shell.folder), shell.folder / "out.parquet"
    assert shell("debias", place, *ASK, "--output", out, "--quiet").code == 0
    proof = Path(f"{out}.r2b.json")
    kept = proof.read_text()
    content = json.loads(kept)
    content["prices"][0][0] += 0.01
    proof.write_text(json.dumps(content))
    assert shell("verify", out).code == 1
    proof.write_text(kept)
    table = pq.read_table(out)
    sexes = table["sex"].to_pylist()
    sexes[3] = "m" if sexes[3] == "f" else "f"
    pq.write_table(table.set_column(2, "sex", pa.array(sexes)), out)
    assert "data are those that were debiased" in failed(shell("verify", out, "--json"))
    # the labels are those of the data, whatever else stands beside them
    assert shell("verify", out, "--data", place).code == 0


@pytest.mark.parametrize("key", [(), ("--key", "id")])
def test_files_of_every_format_get_the_labels_that_memory_gives(
    key: tuple[str, ...], shell: Shell
) -> None:
    fair = r2b.debias(PEOPLE["job"], sensitive_features={"sex": PEOPLE["sex"]}, epsilon=0.02)
    wanted = fair.round(0, key=PEOPLE["id"] if key else None).to_pylist()
    for way in ("csv", "parquet", "tsv", "csv.gz", "stream"):
        place = given(way, shell.folder / way.replace(".", "-"))
        out = shell.folder / f"{way}.parquet"
        assert (
            shell(
                "debias",
                place,
                *ASK,
                "--form",
                "round",
                *key,
                "--epsilon",
                "0.02",
                "--quiet",
                "--output",
                out,
            ).code
            == 0
        )
        assert pq.read_table(out)["job_fair"].to_pylist() == wanted
        assert shell("verify", out).code == 0


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
    checked = shell("verify", out, "--json")
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
        assert shell("verify", out).code == 1


def test_lists_of_probabilities_are_a_label_too(shell: Shell) -> None:
    _, table = file_tables.scores(900)
    place, out = file_tables.write(table, shell.folder / "p.parquet"), shell.folder / "out.parquet"
    words = ("debias", place, "--label", "p", "--sensitive", "g", "--output", out)
    assert shell(*words, "--html", shell.folder / "r.html").code == 0
    assert "Parity" in (shell.folder / "r.html").read_text()
    assert shell("verify", out).code == 0
    assert pq.read_schema(out).names[-5:] == [f"p_fair_{k}" for k in range(5)]


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


@pytest.mark.parametrize("way", ["parquet", "csv folder"])
def test_weights_and_missing_values_go_through(way: str, shell: Shell) -> None:
    sexes = PEOPLE["sex"].to_pylist()
    sexes[10:40] = [None] * 30
    table = PEOPLE.set_column(2, "sex", pa.array(sexes))
    table = table.set_column(5, "w", pa.array([float(value) for value in table["w"].to_pylist()]))
    place = given(way, shell.folder, table)
    for form in ("soft", "expand", "round", "sample"):
        out = shell.folder / f"{form}{'' if 'folder' in way else '.parquet'}"
        words = (*ASK, "--weight", "w", "--missing", "group", "--output", out, "--form", form)
        assert shell("debias", place, *words).code == 0
        assert failed(shell("verify", out, "--json")) == set()
    refused = shell(
        "debias",
        place,
        *ASK,
        "--output",
        shell.folder / f"no{'' if 'folder' in way else '.parquet'}",
    )
    assert refused.code == 3
    assert "has no value in 'sex'" in refused.err


def test_audits_are_the_same_from_one_file_and_from_several(shell: Shell) -> None:
    one = given("csv", shell.folder)
    several = given("folder", shell.folder)
    words = (*ASK, "--permutations", "20", "--bootstrap", "20", "--json")
    whole = shell("audit", one, *words).facts
    for place in (one, several):
        part = shell("audit", place, *words).facts
        assert {**part, "data": ""} == {**whole, "data": ""}
    assert shell("audit", several, *words, "--max-disparity", "0.0001").code == 1


@pytest.mark.parametrize("weight", [None, "w"])
def test_reports_from_counts_say_what_reports_from_rows_say(
    weight: str | None, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    weights = [1 + k % 3 for k in range(len(PEOPLE))]
    table = PEOPLE.set_column(5, "w", pa.array(weights))
    path = given("parquet", shell.folder, table)
    words = ("audit", path, *ASK, *(("--weight", weight) if weight else ()), "--permutations", "20")
    words = (
        *words,
        "--bootstrap",
        "20",
        "--quiet",
        "--markdown",
        shell.folder / "a.md",
        "--html",
        shell.folder / "a.html",
    )
    assert shell(*words).code == 0
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


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("{folder}", "--label", "jbo", "--sensitive", "sex"), "Did you mean 'job'"),
        (("{folder}", *ASK, "--key", "idd"), "Did you mean 'id'"),
        (("{folder}", *ASK, "--epsilon", "bos=0.1"), "Did you mean 'boss'"),
        (("{folder}", *ASK, "--new-column", "note", "--form", "round"), "--new-column"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_remedy(
    words: tuple[str, ...], match: str, shell: Shell
) -> None:
    places = {"folder": given("folder", shell.folder)}
    ended = shell(
        "debias", *(word.format(**places) for word in words), "--output", shell.folder / "out"
    )
    assert ended.code == 2
    assert match in ended.err
    assert not (shell.folder / "out").exists()


def test_rows_are_counted_on_a_terminal_and_nowhere_else(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("r2b.cli.output._DELAY", -1.0)
    place = given("parquet", shell.folder)
    words = (
        "debias",
        place,
        *ASK,
        "--form",
        "round",
        "--force",
        "--output",
        shell.folder / "out.parquet",
    )
    assert shell(*words).err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    shown = shell(*words)
    assert shown.code == 0
    assert "1,200 rows" in shown.err
    assert shell(*words, "--quiet").err == ""


def test_nothing_is_written_over_and_the_input_never(shell: Shell) -> None:
    place = given("folder", shell.folder)
    assert shell("debias", place, *ASK, "--output", shell.folder / "out").code == 0
    again = shell("debias", place, *ASK, "--output", shell.folder / "out")
    assert (again.code, "there already" in again.err) == (2, True)
    assert (
        shell(
            "debias", place, *ASK, "--form", "round", "--output", shell.folder / "out", "--force"
        ).code
        == 0
    )
    assert shell("verify", shell.folder / "out").code == 0
    for where in (place, place / "in"):
        assert shell("debias", place, *ASK, "--output", where, "--force").code == 2
    assert r2b.scan(place).names == tuple(PEOPLE.column_names)
    assert sorted(path.name for path in shell.folder.iterdir()) == ["out", "out.r2b.json", "people"]


def test_another_format_and_another_type_are_verified(shell: Shell) -> None:
    numbers = np.array([{"f": 0, "m": 1}[value] for value in PEOPLE["sex"].to_pylist()])
    place = given("parquet", shell.folder, PEOPLE.set_column(2, "sex", pa.array(numbers)))
    for form in ("round", "soft"):
        assert (
            shell(
                "debias", place, *ASK, "--form", form, "--output", shell.folder / f"{form}.csv"
            ).code
            == 0
        )
        assert failed(shell("verify", shell.folder / f"{form}.csv", "--json")) == set()


@pytest.mark.parametrize("way", ["parquet", "csv", "folder", "pattern"])
def test_a_frontier_is_the_same_from_every_kind_of_file(way: str, shell: Shell) -> None:
    place = given(way, shell.folder)
    file_tables.WAYS["parquet"](PEOPLE, shell.folder / "whole")
    path = ("--epsilons", "0,0.02,0.1", "--json")
    streamed = shell("frontier", place, *ASK, *path, "--output", shell.folder / "cost.csv")
    whole = shell("frontier", next((shell.folder / "whole").rglob("*.parquet")), *ASK, *path)
    assert streamed.code == whole.code == 0, streamed.err
    for one, other in zip(streamed.facts["points"], whole.facts["points"], strict=True):
        assert one == pytest.approx(other, abs=1e-9)
    assert (shell.folder / "cost.csv").read_text().count("\n") == 4


@pytest.mark.parametrize("command", ["frontier", "audit"])
def test_nothing_is_written_into_a_folder_that_is_read(command: str, shell: Shell) -> None:
    place = given("folder", shell.folder)
    part = next(each for each in sorted(place.rglob("*")) if each.is_file())
    before = part.read_bytes()
    option = "--output" if command == "frontier" else "--html"
    for target in (part, place / "new.csv"):
        refused = shell(command, place, *ASK, option, target, "--force")
        assert refused.code == 2
        assert "which is read" in refused.err
    assert part.read_bytes() == before
    assert not (place / "new.csv").exists()
