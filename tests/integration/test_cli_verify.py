"""``r2b verify`` believes nothing: a label, a price, an epsilon or a datum that was touched makes
it fail.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from cli_calls import Shell, csv_of, people, read_columns

from r2b._verify.output import fingerprints
from r2b._verify.record import read_records
from r2b.engines.files import FileSource
from r2b.engines.roles import Decode
from r2b.errors import R2BError

ASK = ("--label", "job", "--sensitive", "sex", "--epsilon", "0.05")
FORMS = ["soft", "round", "sample", "expand"]


def debiased(shell: Shell, form: str) -> None:
    assert shell(f"debias people.csv --form {form} -o fair.csv -q", *ASK).code == 0


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
        fair, record = read_records("fair.csv.r2b.json")[None]
        decode = Decode(record.columns, fair.schema)
        content["file"]["fingerprints"] = fingerprints(
            FileSource.open("fair.csv"), decode, record.form, record.new
        )

    certificate(change)


def other_class(old: str) -> str:
    return "clerk" if old == "boss" else "boss"


FROM_PRICES = "labels follow from the prices"
EDITS = {
    "a rounded class": ("round", {"job_fair": other_class}, {FROM_PRICES}),
    "a drawn class": ("sample", {"job_fair": other_class}, {FROM_PRICES}),
    "a probability, by little": (
        "soft",
        {"job_fair_boss": lambda old: f"{float(old) + 1e-6!r}"},
        {FROM_PRICES},
    ),
    "a probability, by much": (
        "soft",
        {"job_fair_boss": lambda old: "99"},
        {"labels are on the simplex", "labels meet the bound"},
    ),
    "no probability": ("soft", {"job_fair_boss": lambda old: "much"}, {"labels are probabilities"}),
    "a weight": (
        "expand",
        {"job_fair_weight": lambda old: "5"},
        {"weights of a row add up to its own"},
    ),
    "the number of a row": (
        "expand",
        {"job_fair_row": lambda old: "9000"},
        {"rows are as many as were debiased"},
    ),
    "a datum": (
        "round",
        {"sex": lambda old: "m" if old == "f" else "f"},
        {"no probabilities in parity are closer"},
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_one_edit_fails_even_with_new_checksums(shell: Shell, name: str) -> None:
    form, edits, wanted = EDITS[name]
    debiased(shell, form)
    for column, edit in edits.items():
        edited(column, 17, edit(read_columns("fair.csv")[column][17]))
    assert failing(shell)
    with suppress(R2BError):  # what cannot be read has no checksum
        with_new_checksums()
    assert wanted <= failing(shell)
    assert "NOT VERIFIED" in shell("verify fair.csv -q").out


def test_edited_prices_fail(shell: Shell) -> None:
    debiased(shell, "soft")
    certificate(lambda content: content["prices"][0].__setitem__(0, content["prices"][0][0] + 1e-3))
    assert FROM_PRICES in failing(shell)


@pytest.mark.parametrize("claimed", [0.0, 0.2])
def test_an_epsilon_that_was_not_asked_for_fails(shell: Shell, claimed: float) -> None:
    debiased(shell, "soft")
    wanted = "labels meet the bound" if claimed == 0 else "no labels in parity are closer"
    # what is required is "at most"
    assert failing(shell, "--epsilon", str(claimed)) == (
        {"epsilon as required"} if not claimed else set()
    )

    def change(content: dict[str, Any]) -> None:
        content["file"]["options"]["epsilon"] = claimed

    certificate(change)
    assert wanted in failing(shell)


def test_stored_measurements_are_not_believed(shell: Shell) -> None:
    assert shell("debias people.csv --max-iter 0 -o fair.csv -q", *ASK).code == 1
    fair = shell("debias people.csv -o other.csv -q", *ASK)
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
        "no longer has the column 'job', which was read. Pass the table that was debiased with"
        " --data." in done.err
    )
    assert shell(*words, "--data", "people.csv").code == 0
    columns = people()
    columns["sex"] = columns["sex"][::-1]
    shell.write("reversed.csv", csv_of(columns))
    assert shell(*words, "--data", "reversed.csv").code == 1


def test_a_saved_solution_without_the_record_of_a_file_is_refused(shell: Shell) -> None:
    debiased(shell, "soft")
    certificate(lambda content: content.pop("file"))
    done = shell("verify fair.csv")
    assert done.code == 3
    assert "does not say how the labels were made" in done.err


def test_the_certificate_records_the_command_as_it_was_typed(shell: Shell) -> None:
    debiased(shell, "round")
    command = json.loads(Path("fair.csv.r2b.json").read_text())["file"]["command"]
    assert (
        command
        == "r2b debias people.csv --form round -o fair.csv -q --label job --sensitive sex --epsilon"
        " 0.05"
    )


def test_outcomes_are_named_and_an_edited_one_fails(shell: Shell) -> None:
    words = ("--outcomes", "works=boss,clerk", "--epsilon", "works=0.01")
    shell("debias people.csv --form round -o fair.csv -q --label job --sensitive sex", *words)
    done = shell("verify fair.csv --epsilon works=0.01")
    assert done.code == 0 and "  outcome           works: boss, clerk" in done.out
    assert failing(shell, "--epsilon", "works=0.001")

    def change(content: dict[str, Any]) -> None:
        content["families"]["outcomes"]["matrix"][0][:2] = [1.0, 0.0]

    certificate(change)
    assert failing(shell)


def test_an_empty_requirement_is_not_met(shell: Shell) -> None:
    """A variable of a shell that is not set must not require nothing."""
    debiased(shell, "round")
    for words in (("--sensitive", ""), ("--columns", ""), ("--label", "")):
        assert shell("verify fair.csv -q", *words).code == 1, words


def test_a_sheet_is_that_of_the_data(shell: Shell) -> None:
    debiased(shell, "round")
    book = openpyxl.Workbook()
    for values in zip(*([name, *each] for name, each in people().items()), strict=True):
        book.active.append(values)
    book.create_sheet("notes").append(["a"])
    book.save("people.xlsx")
    assert shell("verify fair.csv --data people.xlsx").code == 2
    assert shell("verify fair.csv --data people.xlsx --sheet", book.sheetnames[0]).code == 0
