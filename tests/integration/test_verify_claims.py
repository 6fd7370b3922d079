"""Claims that are true and empty: each is printed, fails what a reader requires, and is not the
plain reading.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_calls import Shell

import r2b

SEX, RACE, BOTH = (f"--label job --sensitive {names}" for names in ("sex", "race", "sex,race"))
SEX_0, RACE_0, BOTH_0 = (f"{words} --epsilon 0" for words in (SEX, RACE, BOTH))

MERGED = f"{SEX} --min-group-size 1600 --small-groups merge"
# what is asked of debias, what a reader of the issue would require, the exit code of that, and what
# the printed claim reveals
FORGERIES = {
    MERGED: (SEX_0, 1, "merged            sex=other: f, m"),
    f"{RACE} --min-group-size 1000 --small-groups merge": (
        RACE_0,
        0,
        "merged            race=other: b, c",
    ),
    f"{RACE} --min-group-size 700 --small-groups exclude": (
        RACE_0,
        0,
        "in no group, among them race=c",
    ),
    f"{RACE} --na b --na c --missing group": (RACE_0, 0, "missing values    'b' in "),
    f"{RACE} --na a --na b --missing exclude": (RACE_0, 1, "of the rows, in no group"),
    f"{BOTH} --family race": (BOTH_0, 1, "bound             race: largest difference"),
    f"{BOTH} --families marginal": (BOTH_0, 0, "bound             race:"),
    f"{SEX} --bound to_overall --epsilon 0.1": (f"{SEX} --epsilon 0.1", 1, "at most 0.1"),
    f"{SEX} --bound ratio --epsilon 0.2": (f"{SEX} --epsilon 0.2", 1, "ratio"),
    f"{SEX} --weight w": (SEX_0, 0, "weights           w, from 1e-09 to 1"),
    f"{SEX} --control ctl": (SEX_0, 0, "within            ctl"),
    f"{SEX} --control odd": (SEX_0, 0, "within            odd"),
    f"{SEX} --outcomes any=boss,clerk --epsilon 0": (
        SEX_0,
        0,
        "outcome           any: boss, clerk",
    ),
    f"{SEX} --outcomes all=boss,clerk,none --epsilon 0": (
        f"{SEX} --outcomes all=boss,clerk,none --epsilon 0",
        1,
        "nothing is compared",
    ),
    f"{SEX} --epsilon none=0.01": (f"{SEX} --epsilon 0.01", 1, "at most 0.01, for 1 of 3 classes"),
    f"{SEX} --epsilon 1": (SEX, 1, "compared          the bound limits nothing"),
    "--label job --continuous age --epsilon 0.1": (
        "--label job --sensitive age --epsilon 0.1",
        0,
        "largest moment",
    ),
    f"{SEX} --form sample --key key": (SEX_0, 0, "by key)"),
}


def table(n: int = 3000) -> str:
    rng = np.random.default_rng(0)
    sex, race = rng.choice(["f", "m"], n), rng.choice(list("abc"), n, p=[0.5, 0.3, 0.2])
    lean = np.where(sex == "f", 0.2, 0.4) + np.where(race == "b", 0.1, 0.0)
    job = np.where(rng.random(n) < lean, "boss", np.where(rng.random(n) < 0.5, "clerk", "none"))
    lines = ["sex,race,job,w,ctl,odd,age,key"]
    for row, (s, r, j) in enumerate(zip(sex, race, job, strict=True)):
        weight, odd = 1e-9 if j == "boss" else 1.0, "x" if row < 20 else row
        lines.append(f"{s},{r},{j},{weight},{j},{odd},{20 + row % 40},{j}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def shell(shell: Shell) -> Shell:
    shell.write("people.csv", table())
    return shell


@pytest.mark.parametrize("asked", FORGERIES)
def test_a_claim_that_says_less_is_shown_and_is_not_the_plain_reading(
    shell: Shell, asked: str
) -> None:
    required, code, shown = FORGERIES[asked]
    assert shell(f"debias people.csv -o fair.csv -q {asked}").code == 0
    done = shell(f"verify fair.csv {required}")
    assert (done.code, shown in done.out) == (code, True), done.out
    assert shell(f"verify fair.csv --strict {required}").code == 1
    assert shell("verify fair.csv --strict -q").code == 1


@pytest.mark.parametrize("form", ["soft", "round", "sample", "expand"])
def test_the_plain_reading_passes(shell: Shell, form: str) -> None:
    assert shell(f"debias people.csv -o fair.csv -q --epsilon 0.01 --form {form} {BOTH}").code == 0
    words = f"{BOTH} --epsilon 0.02 --form {form} --min-group-size 100"
    done = shell(f"verify fair.csv --strict {words}")
    assert done.code == 0, done.out
    assert "    rows            sex=f, race=a 7" in done.out
    assert done.out.startswith(f"Verified: fair.csv, {form}\n  label             job\n  columns  ")
    assert shell("verify fair.csv -q").out == ""
    assert shell("verify fair.csv --strict --min-group-size 1000").code == 1
    assert shell("verify fair.csv --columns job_fair").code == (
        0 if form in ("round", "sample") else 1
    )


def test_what_is_required_by_name_may_differ_from_the_plain_reading(shell: Shell) -> None:
    words = f"{BOTH} --families marginal --weight w --epsilon 0.01".split(" ")
    assert shell("debias people.csv -o fair.csv -q", *words).code == 0
    assert shell("verify fair.csv --strict", *words).code == 0
    for left in (0, 2, 4, 6):
        fewer = [word for place, word in enumerate(words) if place // 2 != left // 2]
        wanted = 0 if left in (0, 2) else 1
        assert shell("verify fair.csv --strict", *fewer).code == wanted, fewer
    assert shell("verify fair.csv --weight", "").code == 1
    assert shell("verify fair.csv --control", "").code == 0
    assert shell("verify fair.csv --epsilon 0.001").code == 1


def test_python_requires_the_same(shell: Shell) -> None:
    words = f"{SEX} --control odd --bound to_overall --epsilon boss=0.1"
    assert shell(f"debias people.csv -o fair.csv -q {words}").code == 0
    same: dict[str, Any] = {"label": "job", "sensitive_features": ["sex"], "strict": True}
    same |= {"control_features": "odd", "bound": "to_overall", "epsilon": {"boss": 0.1}}
    found = r2b.verify("fair.csv", **same, missing="error", small_groups="error")
    assert not found.ok  # rows of one sex alone, in nearly all of the strata, are left out
    assert {check.name for check in found.checks if not check.ok} == {"no rows are left out"}
    assert found.claim is not None and found.claim["left_out_rows"] > 2900


def test_one_group_is_not_proven(shell: Shell) -> None:
    assert shell(f"debias people.csv -o fair.csv -q {MERGED}").code == 0
    done = shell("verify fair.csv --json")
    assert (done.code, done.facts["verified"], done.facts["verdict"]) == (1, False, "not proven")
    assert shell("verify fair.csv").out.startswith("NOT PROVEN: fair.csv, soft\n")
    assert done.facts["disparity"]["plain"] == pytest.approx(0.2, abs=0.05)
    assert done.facts["claim"]["merged"] == {"sex=other": ["f", "m"]}


def test_columns_that_look_like_fair_labels_are_named(shell: Shell) -> None:
    lines = table().splitlines()
    rows = [f"{line},{'final,fairer' if not n else 'boss,1'}" for n, line in enumerate(lines)]
    shell.write("more.csv", "\n".join(rows) + "\n")
    assert shell(f"debias more.csv -o fair.csv -q --form round --epsilon 0.01 {SEX}").code == 0
    done = shell("verify fair.csv")
    assert "  columns           job_fair\n" in done.out
    assert "  not verified      ctl, fairer, final, key: they look like fair labels\n" in done.out
    assert "  not checked       command, history, residual, r2b, names of outcomes" in done.out
    similar = shell("verify fair.csv --json").facts["similar_columns"]
    assert similar == ["ctl", "fairer", "final", "key"]


def test_a_file_that_reads_as_two_tables_is_not_plain(shell: Shell) -> None:
    rng = np.random.default_rng(0)
    rows = [
        f"{'fm'[s]};{'ab'[j]};x,{'fm'[s]},{'ab'[max(s, j)]},y"
        for s, j in rng.integers(0, 2, (200, 2))
    ]
    shell.write("people.csv", "\n".join(["sex;job;x,sex,job,y", *rows]) + "\n")
    assert shell(f"debias people.csv -o fair.csv -q --delimiter ';' --form round {SEX}").code == 0
    assert (
        "  read with         delimiter ';'; the file shows another\n"
        in shell("verify fair.csv").out
    )
    assert shell("verify fair.csv --strict").code == 1
    assert shell("verify fair.csv --strict --delimiter ';'").code == 0


def test_claims_about_tags_are_shown_and_the_plain_reading_is_required_of_each(
    shell: Shell,
) -> None:
    rng = np.random.default_rng(0)
    drawn = zip(rng.choice(["f", "m"], 3000), rng.random((3000, 2)), strict=True)
    rows = [(s, int(t[0] < (0.2 if s == "f" else 0.4)), int(t[1] < 0.5)) for s, t in drawn]
    lines = [f"{s},{one},{two},{1e-9 if one else 1}" for s, one, two in rows]
    shell.write("tags.csv", "\n".join(["sex,one,two,w", *lines]) + "\n")
    words = "-q --force --multilabel --labels one,two --sensitive sex"
    forgeries = {
        "--min-group-size 1600 --small-groups merge": "merged            sex=other: f, m",
        "--weight w": "0.18",
        "--bound to_overall --epsilon 0.1": "from all rows at most 0.1",
    }
    for asked, shown in forgeries.items():
        assert shell(f"debias tags.csv -o fair.csv {words} {asked}").code == 0
        done = shell("verify fair.csv")
        assert shown in done.out, done.out
        assert shell("verify fair.csv --strict -q").code == 1
    assert shell(f"debias tags.csv -o fair.csv {words} --epsilon 0.01").code == 0
    plain = "--sensitive sex --label one,two --epsilon 0.01"
    assert shell(f"verify fair.csv --strict {plain}").code == 0


def test_swapped_names_of_new_columns_are_not_verified(shell: Shell) -> None:
    """A column of one class that holds the probabilities of another, with new checksums."""
    one, other = "job_fair_boss", "job_fair_none"
    assert shell(f"debias people.csv -o fair.csv -q {SEX}").code == 0
    header, rest = Path("fair.csv").read_text().split("\n", 1)
    swapped = header.replace(one, "?").replace(other, one).replace("?", other)
    shell.write("fair.csv", f"{swapped}\n{rest}")
    content = json.loads(Path("fair.csv.r2b.json").read_text())
    content["file"]["new"].reverse()
    shell.write("fair.csv.r2b.json", json.dumps(content))
    done = shell("verify fair.csv")
    assert done.code == 1
    assert [line.split("  ")[2] for line in done.out.splitlines() if "FAIL" in line] == [
        "columns are named for what they hold"
    ]


def test_strict_wants_the_usual_names_or_those_that_are_required(shell: Shell) -> None:
    """Labels of someone's own under the usual name would pass for those that were verified."""
    words = f"{SEX} --form round --new-column zz"
    assert shell(f"debias people.csv -o fair.csv -q {words}").code == 0
    assert shell(f"verify fair.csv {SEX}").code == 0
    assert shell(f"verify fair.csv --strict {SEX}").code == 1
    assert shell(f"verify fair.csv --strict --columns zz {SEX}").code == 0


def test_a_file_that_shows_another_encoding_decimal_mark_or_format_is_not_plain(
    shell: Shell,
) -> None:
    asked = {
        "--encoding utf-7": "encoding 'utf-7'",
        "--decimal ,": "decimal ','",
        "--output-format tsv": "format 'tsv'",
    }
    own = f"{SEX} --weight age"
    for words, shown in asked.items():
        assert shell(f"debias people.csv -o fair.csv -q --force {own} {words}").code == 0
        done = shell(f"verify fair.csv --strict {own}")
        assert (done.code, f"  read with         {shown}; the file" in done.out) == (1, True)
        typed = words.replace("output-", "")
        assert shell(f"verify fair.csv --strict {own} {typed}").code == 0


def test_an_attribute_that_is_known_in_probability_is_no_plain_column(shell: Shell) -> None:
    lines = [f"{line},{'p,q' if not n else '0.5,0.5'}" for n, line in enumerate(table().split())]
    shell.write("people.csv", "\n".join(lines) + "\n")
    words = "--label job --membership sex=p,q"
    assert shell(f"debias people.csv -o fair.csv -q {words}").code == 0
    assert "sex is known in probability, from p, q\n" in shell(f"verify fair.csv {SEX}").out
    assert shell(f"verify fair.csv --strict {SEX}").code == 1


@pytest.mark.parametrize(("row", "said"), [("1,1", ", divided by their sums"), (".5,.5", "")])
def test_rows_that_were_divided_by_their_sums_are_told(shell: Shell, row: str, said: str) -> None:
    shell.write("people.csv", f"sex,a,b\nf,{row}\nm,0,1\nf,1,0\nm,1,0\n")
    words = "--label-columns a,b --sensitive sex --normalize"
    assert shell(f"debias people.csv -o fair.csv -q {words}").code == 0
    assert f"  label             2 columns of probabilities{said}\n" in shell("verify fair.csv").out


def test_classes_without_a_bound_are_named(shell: Shell) -> None:
    words = f"{SEX} --epsilon 0.01 --epsilon clerk=0.05 --epsilon none=inf"
    assert shell(f"debias people.csv -o fair.csv -q {words}").code == 0
    done = shell("verify fair.csv --epsilon 0.05")
    assert "at most 0.01 to 0.05 by class, for 2 of 3 classes\n    not bound       none" in done.out
    assert "epsilon as required                      some classes have no bound" in done.out


def test_rows_left_out_of_some_families_are_counted(shell: Shell) -> None:
    lines = table().splitlines()
    lines[1:11] = ["," + line.partition(",")[2] for line in lines[1:11]]
    shell.write("people.csv", "\n".join(lines) + "\n")
    asked = f"{BOTH} --families marginal --missing exclude --epsilon 0.01"
    assert shell(f"debias people.csv -o fair.csv -q {asked}").code == 0
    out = shell("verify fair.csv").out
    assert out.count("    left out        10 rows") == 1 and "left out          none" not in out
    sex = out.index("bound             sex: ")
    assert sex < out.index("left out        10 rows") < out.index("bound             race: ")
