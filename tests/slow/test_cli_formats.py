"""Outputs in another format than the data: the same labels, that verify."""

from __future__ import annotations

import numpy as np
import pytest
from cli_calls import Shell, csv_of, people

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def verified(shell: Shell, words: str, output: str) -> None:
    made = shell(f"debias {words} --output {output}")
    assert made.code == 0, made.err
    found = shell(f"verify {output}")
    assert found.code == 0, found.out


@pytest.mark.parametrize("form", ["soft", "round", "sample", "expand"])
@pytest.mark.parametrize("label", ["--label job", "--label-columns 'p_*'"])
def test_numbers_that_csv_spells_are_numbers_in_what_is_made_of_it(
    shell: Shell, label: str, form: str
) -> None:
    share = np.random.default_rng(2).integers(1, 8, 240) / 8
    scores = {"p_a": share.astype(str).tolist(), "p_b": (1 - share).astype(str).tolist()}
    shell.write("in.csv", csv_of({**people(), **scores}))
    words = f"in.csv {label} --weight w --sensitive sex --epsilon 0.01 --form {form}"
    verified(shell, words, "out.parquet")


@pytest.mark.parametrize("na", ["", "--na ?"])
@pytest.mark.parametrize("missing", ["group", "exclude"])
@pytest.mark.parametrize("form", ["soft", "round", "expand"])
def test_what_is_missing_in_csv_is_missing_in_other_formats(
    shell: Shell, form: str, missing: str, na: str
) -> None:
    table = people()
    gap = "?" if na else ""
    table["race"] = [gap if row % 7 == 0 else race for row, race in enumerate(table["race"])]
    shell.write("in.csv", csv_of(table))
    asked = f"in.csv --label job --sensitive race --missing {missing} {na} --form {form}"
    verified(shell, asked, "out.jsonl")
    verified(shell, asked, "out.parquet")
    assert pq.read_table("out.parquet")["race"].null_count


def test_a_text_for_missing_is_refused_for_a_format_that_says_it(shell: Shell) -> None:
    table = people()
    gaps = [
        None if row % 7 == 0 else "?" if row % 5 == 0 else race
        for row, race in enumerate(table["race"])
    ]
    pq.write_table(pa.table({**table, "race": gaps}), "in.parquet")
    asked = "in.parquet --label job --sensitive race --missing group"
    verified(shell, asked, "out.csv")
    refused = shell(f"debias {asked} --na ? --output none.csv")
    assert refused.code == 2 and "says itself what is missing" in refused.err
