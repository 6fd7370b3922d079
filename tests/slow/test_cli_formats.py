"""Outputs in another format than the data: the same labels, that verify."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from cli_calls import Shell, csv_of, people

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def shell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(capsys, tmp_path)


def verified(shell: Shell, *words: object) -> None:
    made = shell("debias", *words)
    assert made.code == 0, made.err
    found = shell("verify", words[-1])
    assert found.code == 0, found.out


KEYS = {
    "whole": pa.array(np.arange(240) - 40),
    "day": pa.array(np.datetime64("2019-11-30") + np.arange(240)),
    "moment": pa.array(
        np.datetime64("1969-12-31T23:59:00.5", "us") + np.arange(240).astype("m8[s]")
    ),
    "zone": pa.array(
        np.datetime64("2020-06-01T00:00", "us") + np.arange(240).astype("m8[m]"),
        pa.timestamp("us", "Europe/Paris"),
    ),
    "zeros": pa.array([f"{number:04d}" for number in range(240)]),
}


@pytest.mark.parametrize("form", ["round", "sample"])
@pytest.mark.parametrize("key", [*KEYS, "whole,flag"])
def test_draws_by_a_key_follow_it_into_a_format_without_types(
    shell: Shell, key: str, form: str
) -> None:
    flags = pa.array([number % 3 == 0 for number in range(240)])
    pq.write_table(pa.table({**people(), **KEYS, "flag": flags}), "in.parquet")
    asked = ("--label", "job", "--sensitive", "sex", "--form", form, "--key", key)
    verified(shell, "in.parquet", *asked, "--output", "out.csv")
    verified(shell, "in.parquet", *asked, "--output", "out.arrow")
    from_text = shell("debias", "out.csv", *asked, "--new-column", "again", "--output", "again.csv")
    assert from_text.code == 0, from_text.err
    rows = list(csv.DictReader(Path("again.csv").read_text().splitlines()))
    assert len(rows) == 240 and all(row["job_fair"] == row["again"] for row in rows)


@pytest.mark.parametrize("form", ["soft", "round", "sample", "expand"])
@pytest.mark.parametrize(
    "asked",
    [("--label", "job", "--weight", "w"), ("--label-columns", "p_*", "--weight", "w")],
    ids=["classes", "probabilities"],
)
def test_numbers_that_csv_spells_are_numbers_in_what_is_made_of_it(
    shell: Shell, asked: tuple[str, ...], form: str
) -> None:
    table = people()
    share = np.random.default_rng(2).integers(1, 8, 240) / 8
    shell.write(
        "in.csv",
        csv_of(
            {
                **table,
                "p_a": [str(each) for each in share],
                "p_b": [str(1 - each) for each in share],
            }
        ),
    )
    verified(
        shell,
        "in.csv",
        *asked,
        "--sensitive",
        "sex",
        "--epsilon",
        0.01,
        "--form",
        form,
        "--output",
        "out.parquet",
    )


@pytest.mark.parametrize("na", [(), ("--na", "?")])
@pytest.mark.parametrize("missing", ["group", "exclude"])
@pytest.mark.parametrize("form", ["soft", "round", "expand"])
def test_what_is_missing_in_csv_is_missing_in_other_formats(
    shell: Shell, form: str, missing: str, na: tuple[str, ...]
) -> None:
    table = people()
    gap = "?" if na else ""
    table["race"] = [gap if row % 7 == 0 else race for row, race in enumerate(table["race"])]
    shell.write("in.csv", csv_of(table))
    asked = (
        "in.csv",
        "--label",
        "job",
        "--sensitive",
        "race",
        "--missing",
        missing,
        *na,
        "--form",
        form,
    )
    verified(shell, *asked, "--output", "out.jsonl")
    verified(shell, *asked, "--output", "out.parquet")
    assert pq.read_table("out.parquet")["race"].null_count


def test_families_are_told_with_the_difference_that_the_labels_in_the_file_have(
    shell: Shell,
) -> None:
    shell.write("in.csv", csv_of(people()))
    asked = ("--label", "job", "--sensitive", "sex,race", "--families", "both", "--form", "sample")
    told = shell("debias", "in.csv", *asked, "--output", "out.csv").out
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    shares: dict[str, list[float]] = {}
    for sex in ("f", "m"):
        mine = [row["job_fair"] for row in rows if row["sex"] == sex]
        for job in ("boss", "clerk", "none, yet"):
            shares.setdefault(job, []).append(mine.count(job) / len(mine))
    found = max(abs(one - two) for one, two in shares.values())
    assert found > 0.01 and f"-> {found:.4f}, 0.0000 as probabilities  (epsilon 0)" in told


def test_a_report_says_at_its_top_what_parity_the_labels_in_the_file_have_and_lists_it_once(
    shell: Shell,
) -> None:
    shell.write("in.csv", csv_of(people()))
    asked = (
        "--label",
        "job",
        "--sensitive",
        "sex",
        "--form",
        "sample",
        "--markdown",
        "out.md",
        "--html",
        "out.html",
        "--json",
    )
    found = shell("debias", "in.csv", *asked, "--output", "out.csv").facts["disparity"]
    report = Path("out.md").read_text()
    top = report.split("## Who gets which label")[0]
    assert (
        found > 0.01
        and f"one class per row (sample) and a parity of {found:.4f}" in top
        and "points as probabilities" in top
    )
    assert report.count("parity of the labels (sample)") == 1
    assert (
        f"a parity of {found:.4f}" in Path("out.html").read_text().split("Who gets which label")[0]
    )


def test_a_text_for_missing_is_refused_for_a_format_that_says_it(shell: Shell) -> None:
    table = people()
    gaps = [
        None if row % 7 == 0 else "?" if row % 5 == 0 else race
        for row, race in enumerate(table["race"])
    ]
    pq.write_table(pa.table({**table, "race": gaps}), "in.parquet")
    asked = ("--label", "job", "--sensitive", "race", "--missing", "group")
    verified(shell, "in.parquet", *asked, "--output", "out.csv")
    refused = shell("debias", "in.parquet", *asked, "--na", "?", "--output", "none.csv")
    assert refused.code == 2 and "is for CSV and TSV" in refused.err
