"""Outputs in another format than the data: the same labels, that verify."""

from __future__ import annotations

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
