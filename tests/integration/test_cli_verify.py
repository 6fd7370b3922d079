"""``r2b verify`` believes nothing: a label, a price, an epsilon or a datum that was touched makes it fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_calls import Shell, csv_of, people, read_columns

from r2b._verify.output import fingerprints
from r2b._verify.record import read_record
from r2b.engines.files import FileSource
from r2b.engines.roles import Decode

ASK = ("--label", "job", "--sensitive", "sex", "--epsilon", "0.05")
IN_FILE = "the labels in the file have this disparity"
FORMS = ["soft", "round", "sample", "expand"]


@pytest.fixture
def shell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Shell:
    monkeypatch.chdir(tmp_path)
    made = Shell(capsys, tmp_path)
    made.write("people.csv", csv_of(people()))
    return made


def debiased(shell: Shell, form: str) -> None:
    assert shell("debias", "people.csv", *ASK, "--form", form, "-o", "fair.csv", "-q").code == 0


def failing(shell: Shell, *words: str) -> set[str]:
    done = shell("verify", "fair.csv", "--json", *words)
    failed = {check["name"] for check in done.facts["checks"] if not check["ok"]}
    assert done.code == (1 if failed else 0)
    assert done.facts["verified"] is not bool(failed)
    return failed


def edited(column: str, row: int, value: str) -> None:
    lines = [
        line.split(",")
        for line in Path("fair.csv").read_text().replace("none, yet", "none; yet").splitlines()
    ]
    lines[row + 1][lines[0].index(column)] = value
    Path("fair.csv").write_text(
        "\n".join(map(",".join, lines)).replace("none; yet", "none, yet") + "\n"
    )


def certificate(change: Any) -> None:
    path = Path("fair.csv.r2b.json")
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def with_new_checksums() -> None:
    """Do what someone would who wants an edit to pass."""

    def change(content: dict[str, Any]) -> None:
        fair, record = read_record("fair.csv.r2b.json")
        decode = Decode(record.columns, fair.schema)
        content["file"]["fingerprints"] = fingerprints(
            FileSource.open("fair.csv"), decode, record.form, record.new
        )

    certificate(change)


@pytest.mark.parametrize("form", FORMS)
def test_an_untouched_output_is_verified(shell: Shell, form: str) -> None:
    debiased(shell, form)
    assert failing(shell) == set()
    done = shell("verify", "fair.csv")
    assert done.out.startswith(
        f"Verified: fair.csv, {form}\n  label             job\n  sensitive         sex\n"
    )
    assert shell("verify", "fair.csv", "-q").out == ""


@pytest.mark.parametrize("form", ["round", "sample"])
def test_one_edited_class_fails_even_with_new_checksums(shell: Shell, form: str) -> None:
    debiased(shell, form)
    old = read_columns("fair.csv")["job_fair"][17]
    edited("job_fair", 17, "clerk" if old == "boss" else "boss")
    assert failing(shell) >= {
        "labels are those that were written",
        "labels follow from the prices",
        IN_FILE,
    }
    with_new_checksums()
    assert "labels follow from the prices" in failing(shell)
    assert "NOT VERIFIED" in shell("verify", "fair.csv", "-q").out


def test_one_edited_probability_fails_however_small_the_edit(shell: Shell) -> None:
    debiased(shell, "soft")
    written = read_columns("fair.csv")
    names = [name for name in written if name.startswith("job_fair")][:2]
    columns = {name: written[name] for name in names}
    row = next(
        row
        for row, texts in enumerate(zip(*columns.values(), strict=True))
        if all(0.01 < float(text) < 0.99 for text in texts)
    )
    for name, sign in zip(names, (1, -1), strict=True):
        edited(name, row, repr(float(columns[name][row]) + sign * 1e-6))
    assert "labels are those that were written" in failing(shell)
    with_new_checksums()
    assert "labels follow from the prices" in failing(shell)
    edited(names[0], row, "99")
    assert {"labels are on the simplex", "labels meet the bound"} <= failing(shell)
    edited(names[0], row, "much")
    assert "labels are probabilities" in failing(shell)


def test_an_edited_weight_of_a_repeated_row_fails(shell: Shell) -> None:
    debiased(shell, "expand")
    edited("job_fair_weight", 3, "5")
    with_new_checksums()
    assert "weights of a row add up to its own" in failing(shell)
    edited("job_fair_row", 3, "9000")
    assert failing(shell) == {"rows are as many as were debiased"}


@pytest.mark.parametrize("form", ["soft", "round"])
def test_an_edited_datum_fails_even_with_new_checksums(shell: Shell, form: str) -> None:
    debiased(shell, form)
    old = read_columns("fair.csv")["sex"][5]
    edited("sex", 5, "m" if old == "f" else "f")
    assert "data are those that were debiased" in failing(shell)
    with_new_checksums()
    assert failing(shell) >= {
        f"no {'labels' if form == 'soft' else 'probabilities'} in parity are closer"
    }


def test_edited_prices_fail(shell: Shell) -> None:
    debiased(shell, "soft")

    def change(content: dict[str, Any]) -> None:
        content["prices"][0][0] += 1e-3

    certificate(change)
    assert failing(shell) >= {"labels follow from the prices"}


@pytest.mark.parametrize("claimed", [0.0, 0.2])
def test_an_epsilon_that_was_not_asked_for_fails(shell: Shell, claimed: float) -> None:
    debiased(shell, "soft")
    wanted = "labels meet the bound" if claimed == 0 else "no labels in parity are closer"
    assert wanted in failing(shell, "--epsilon", str(claimed))

    def change(content: dict[str, Any]) -> None:
        content["file"]["options"]["epsilon"] = claimed

    certificate(change)
    assert wanted in failing(shell)


def test_stored_measurements_are_not_believed(shell: Shell) -> None:
    assert shell("debias", "people.csv", *ASK, "--max-iter", 0, "-o", "fair.csv", "-q").code == 1
    fair = shell("debias", "people.csv", *ASK, "-o", "other.csv", "-q")
    assert fair.code == 0
    good = json.loads(Path("other.csv.r2b.json").read_text())

    def change(content: dict[str, Any]) -> None:
        content.update(
            status=good["status"], residual=good["residual"], certificate=good["certificate"]
        )

    certificate(change)
    assert "labels meet the bound" in failing(shell)


def test_labels_alone_are_verified_against_the_data_they_came_from(shell: Shell) -> None:
    debiased(shell, "soft")
    written = read_columns("fair.csv")
    shell.write(
        "labels.csv",
        csv_of({name: values for name, values in written.items() if name.startswith("job_fair")}),
    )
    words = ("verify", "labels.csv", "--certificate", "fair.csv.r2b.json")
    done = shell(*words)
    assert done.code == 2
    assert (
        "no longer has the column 'job', which was read. Pass the table that was debiased with --data."
        in done.err
    )
    assert shell(*words, "--data", "people.csv").code == 0
    columns = people()
    columns["sex"] = columns["sex"][::-1]
    shell.write("reversed.csv", csv_of(columns))
    assert shell(*words, "--data", "reversed.csv").code == 1


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "r2b-solution", "version": 99}'])
def test_a_file_that_is_no_certificate_is_bad_data(shell: Shell, content: str) -> None:
    debiased(shell, "soft")
    shell.write("other.json", content)
    assert shell("verify", "fair.csv", "--certificate", "other.json").code == 3


def test_a_saved_solution_without_the_record_of_a_file_is_refused(shell: Shell) -> None:
    debiased(shell, "soft")
    certificate(lambda content: content.pop("file"))
    done = shell("verify", "fair.csv")
    assert done.code == 3
    assert "does not say how the labels were made" in done.err


def test_the_certificate_records_the_command_as_it_was_typed(shell: Shell) -> None:
    debiased(shell, "round")
    command = json.loads(Path("fair.csv.r2b.json").read_text())["file"]["command"]
    assert (
        command
        == "r2b debias people.csv --label job --sensitive sex --epsilon 0.05 --form round -o fair.csv -q"
    )
