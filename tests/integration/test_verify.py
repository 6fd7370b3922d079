"""``r2b.verify``: one check for every form, kind of label and attribute, format and place of the
data.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import r2b
from r2b.cli import main
from r2b.errors import ParameterError

FORMS = ["soft", "round", "sample", "expand"]
CLASSES = "--label job --sensitive sex --epsilon 0.05"
SCORES = "--label-columns p_* --sensitive sex --epsilon 0.01"
ASKED = {
    "classes": CLASSES,
    "weighted": f"{CLASSES} --weight w",
    "families": "--label job --sensitive sex,race --families both --epsilon 0.05",
    "control": f"{CLASSES} --control race",
    "merged": "--label job --sensitive race --min-group-size 40 --small-groups exclude",
    "target": f"{CLASSES} --bound target --target population",
    "lam": f"{CLASSES} --lam 0.3",
    "ordered": f"{CLASSES} --outcomes ordinal=none,clerk,boss",
    "merged classes": f"{SCORES} --outcomes upper=p_b",
    "highest": f"{CLASSES} --bound to_reference --reference highest",
    "agreement": f"{CLASSES} --objective agreement",
    "fair as they are": "--label job --sensitive sex --epsilon 0.9",
    "probabilities": SCORES,
    "weighted probabilities": f"{SCORES} --weight w",
    "scores, fair as they are": "--label-columns p_* --sensitive sex --epsilon 0.9",
    "continuous": "--label job --continuous age --epsilon 0.1",
    "continuous beside sex": f"{CLASSES} --continuous age",
    "uncertain": "--label job --membership sex=m_f,m_m --epsilon 0.05",
    "continuous probabilities": "--label-columns p_* --continuous age --weight w --epsilon 0.1",
}


def people(n: int = 300) -> pa.Table:
    rng = np.random.default_rng(7)
    sex = rng.choice(["f", "m"], n)
    job = np.where(
        rng.random(n) < np.where(sex == "f", 0.2, 0.6),
        "boss",
        np.where(rng.random(n) < 0.5, "clerk", "none"),
    )
    share, member = np.round(rng.beta(2, 2, n), 3), np.round(np.where(sex == "f", 0.9, 0.2), 3)
    columns: dict[str, Any] = {
        "id": np.arange(n)[::-1] * 3,
        "sex": sex,
        "race": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1]),
        "job": job,
    }
    columns |= {"age": rng.integers(20, 60, n), "w": rng.integers(1, 5, n).astype(float)}
    columns |= {"p_a": share * 0.9, "p_b": 1.0 - share * 0.9, "m_f": member, "m_m": 1.0 - member}
    return pa.table(columns)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pq.write_table(people(), "people.parquet", row_group_size=70)
    return tmp_path


def debiased(words: str, output: str = "fair.parquet") -> Path:
    line = f"debias people.parquet {words} --quiet --output {output}"
    assert main(line.split()) == 0
    return Path(output)


def failed(found: r2b.Verification) -> set[str]:
    assert found.ok is not any(not check.ok for check in found.checks)
    return {check.name for check in found.checks if not check.ok}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("asked", ASKED)
def test_what_was_written_is_verified_and_so_are_its_labels_beside_the_data(
    asked: str, form: str, place: Path
) -> None:
    output = debiased(f"{ASKED[asked]} --form {form}")
    found = r2b.verify(output)
    assert failed(found) == set()
    table = pq.read_table(output)
    pq.write_table(
        table.select(table.column_names[len(people().column_names) :]),
        "labels.parquet",
        row_group_size=37,
    )
    alone = r2b.verify("labels.parquet", f"{output}.r2b.json", data="people.parquet")
    assert failed(alone) == set()
    assert [check.name for check in alone.checks] == [check.name for check in found.checks]
    assert [alone.disparity, alone.disparity_before] == pytest.approx(
        [found.disparity, found.disparity_before], abs=1e-12
    )
    assert alone.claim == found.claim


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("asked", ["classes", "weighted probabilities", "continuous"])
def test_one_edited_label_is_seen(asked: str, form: str, place: Path) -> None:
    output = debiased(f"{ASKED[asked]} --form {form}")
    table = pq.read_table(output)
    name = table.column_names[len(people().column_names) + (form == "expand")]
    column = table[name].to_pylist()
    column[150] = (
        column[150] + 1e-6
        if isinstance(column[150], float)
        else next(each for each in set(column) if each != column[150])
    )
    pq.write_table(table.set_column(table.column_names.index(name), name, pa.array(column)), output)
    seen = failed(r2b.verify(output))
    seen_from_prices = (
        "weights of a row add up to its own"
        if form == "expand"
        else "labels follow from the prices"
    )
    assert {"labels are those that were written", seen_from_prices} <= seen


def test_rows_of_the_data_must_be_those_of_the_labels(place: Path) -> None:
    output = debiased(f"{CLASSES} --form round --key id")
    table = people()
    for name, other in (
        ("fewer", table.slice(0, 299)),
        ("more", pa.concat_tables([table, table.slice(0, 1)])),
    ):
        pq.write_table(other, f"{name}.parquet")
        assert failed(r2b.verify(output, data=f"{name}.parquet")) == {
            "rows are as many as were debiased"
        }
    pq.write_table(table.take(np.arange(300)[::-1]), "turned.parquet")
    assert {"data are those that were debiased", "labels follow from the prices"} <= failed(
        r2b.verify(output, data="turned.parquet")
    )
    with pytest.raises(ParameterError, match="no column 'sex', which the certificate names"):
        pq.write_table(table.drop_columns("sex"), "other.parquet")
        r2b.verify(output, data="other.parquet")


def test_copies_of_a_row_must_be_equal_and_in_their_order(place: Path) -> None:
    output = debiased(f"{CLASSES} --form expand")
    table = pq.read_table(output)
    number = table["job_fair_row"].to_numpy()
    copy = int(np.flatnonzero(number[1:] == number[:-1])[0]) + 1
    sexes = table["sex"].to_pylist()
    sexes[copy] = "f" if sexes[copy] == "m" else "m"
    pq.write_table(
        table.set_column(table.column_names.index("sex"), "sex", pa.array(sexes)), output
    )
    assert "repeated rows are copies" in failed(r2b.verify(output))
    pq.write_table(table.take(np.append(np.arange(1, len(table)), 0)), output)
    assert failed(r2b.verify(output)) == {"rows are as many as were debiased"}


def test_what_is_claimed_can_be_insisted_on(place: Path) -> None:
    output = debiased(CLASSES)
    assert r2b.verify(output, label="job", sensitive_features=["sex"], epsilon=0.05).ok
    assert r2b.verify(output, epsilon={"boss": 0.05, "clerk": 0.05, "none": 0.05}).ok
    assert failed(r2b.verify(output, label="race", sensitive_features="sex")) == {
        "label as required"
    }
    assert failed(r2b.verify(output, sensitive_features=["sex", "race"])) == {
        "attributes as required"
    }
    assert not r2b.verify(output, epsilon=0.01).ok


def test_a_verification_tells_what_it_found(place: Path) -> None:
    found = r2b.verify(debiased(f"{CLASSES} --form round"))
    assert str(found).startswith("Verified: fair.parquet, round\n  label             job\n")
    facts = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert facts["verified"]
    assert facts["form"] == "round"
    assert facts["claim"]["families"][0]["epsilon"] == 0.05
    assert found.realised is not None
    assert facts["disparity"] == {
        "before": found.disparity_before,
        "probabilities": found.disparity,
        "file": found.realised.disparity,
        "plain": found.plain,
    }
    seen: list[Any] = []
    assert r2b.verify("fair.parquet", watch=seen.append).ok
    assert seen[-1].rows == 300
    assert seen[-1].share == 1.0


def test_files_that_are_not_there_are_named(place: Path) -> None:
    with pytest.raises(ParameterError, match=r"There is no file 'no\.csv'"):
        r2b.verify("no.csv")
    with pytest.raises(
        ParameterError, match=r"There is no certificate 'people\.parquet\.r2b\.json'"
    ):
        r2b.verify("people.parquet")
    with pytest.raises(ParameterError, match="'delimeter' is no way to read files"):
        r2b.verify("people.parquet", delimeter=";")


OTHERS = {
    "a value": lambda table: table.set_column(0, "id", pa.array([*range(299), 7])),
    "its type": lambda table: table.set_column(0, "id", table["id"].cast(pa.float32())),
    "a null": lambda table: table.set_column(0, "id", pa.array([None, *range(299)])),
    "a name": lambda table: table.rename_columns(["key", *table.column_names[1:]]),
    "the order of columns": lambda table: table.select([1, 0, *range(2, table.num_columns)]),
    "a column less": lambda table: table.drop_columns("id"),
    "a column more": lambda table: table.append_column("odd", table["id"]),
}


@pytest.mark.parametrize("edit", OTHERS)
def test_other_columns_are_as_they_were_written(edit: str, place: Path) -> None:
    output = debiased(f"{CLASSES} --form round")
    edited = OTHERS[edit](pq.read_table(output).take(np.arange(300)))
    pq.write_table(edited, output, row_group_size=11)
    found = r2b.verify(output)
    assert failed(found) == (set() if edit == "its type" else {"columns are as they were"})


def test_other_columns_of_copies_are_compared(place: Path) -> None:
    output = debiased(f"{CLASSES} --form expand")
    table = pq.read_table(output)
    number, ages = table["job_fair_row"].to_numpy(), table["age"].to_pylist()
    ages[int(np.flatnonzero(number[1:] == number[:-1])[0]) + 1] += 1
    pq.write_table(table.set_column(table.column_names.index("age"), "age", pa.array(ages)), output)
    found = r2b.verify(output)
    assert failed(found) == {"repeated rows are copies"}
    assert "copies differ in age" in str(found)


def test_columns_that_output_and_data_share_are_compared(place: Path) -> None:
    output, table = debiased(CLASSES), people()
    for name, wanted in (("age", {"columns are as they were"}), ("p_a", set())):
        other = table.set_column(
            table.column_names.index(name), name, table[name].take(np.arange(300)[::-1])
        )
        pq.write_table(other, "people.parquet")
        pq.write_table(pq.read_table(output).drop_columns("p_a"), "fewer.parquet")
        found = r2b.verify("fewer.parquet", f"{output}.r2b.json", data="people.parquet")
        assert failed(found) == wanted, name


def test_columns_that_cannot_be_read_are_seen(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"{s},{j},note {n}" for n, (s, j) in enumerate(zip("fm" * 50, "abbba" * 20, strict=True))
    ]
    Path("people.csv").write_text("\n".join(["sex,job,note", *rows]) + "\n")
    assert main(f"debias people.csv {CLASSES} -q -o fair.csv".split()) == 0
    written = Path("fair.csv").read_bytes()
    Path("fair.csv").write_bytes(written.replace(b"note 70", b"not\xe9 70"))
    assert main(["verify", "fair.csv"]) == 3
    assert "fair.csv is not utf-8: byte" in capsys.readouterr().err
    lines = written.splitlines(keepends=True)
    # rows that are alike but for another column
    lines[1], lines[11] = lines[11], lines[1]
    Path("fair.csv").write_bytes(b"".join(lines))
    assert failed(r2b.verify("fair.csv")) == {"columns are as they were"}
