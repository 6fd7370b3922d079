"""A file that cannot be read is told apart from one that is broken, and the remedy in the error works when it is followed."""

from __future__ import annotations

import gzip
import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from r2b._files import Table, read_table
from r2b._files.formats import format_for
from r2b._files.plain import as_numbers
from r2b.errors import InputError, ParameterError

PEOPLE = "id;sex;job, now\n1;f;x\n2;m;y\n"


def of(content: bytes | str, name: str = "t.csv", **options: Any) -> Table:
    return read_table(name, stream=io.BytesIO(content.encode() if isinstance(content, str) else content), **options)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("people.XLSX", "as CSV"),
        ("people.ods", "as CSV"),
        ("people.json", ".jsonl"),
        ("people.sav", "Parquet"),
        ("people.zip", "Unpack it"),
    ],
)
def test_a_file_of_another_kind_is_named_and_told_what_to_save_instead(name: str, remedy: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(name)) as refused:
        of("anything", name)
    assert "which r2b does not read" in refused.value.problem and remedy in refused.value.remedy
    assert "--format" not in refused.value.remedy


def test_a_workbook_cannot_be_written_but_another_format_can_under_its_name() -> None:
    with pytest.raises(ParameterError, match=r"that r2b writes: \.xlsx is a workbook"):
        format_for("fair.xlsx", None)
    assert str(format_for("fair.xlsx", "csv")) == "csv"


@pytest.mark.parametrize(
    ("content", "seen", "remedy"),
    [
        (gzip.compress(b"sex,job\nf,x\n"), "compressed with gz", "format='csv.gz'"),
        ("sex,job\nf,x\n".encode("utf-16"), "like UTF-16", "encoding='utf-16'"),
        (b"PK\x03\x04" + bytes(range(256)), "a workbook or an archive", "as CSV"),
        (b"PAR1" + bytes(range(256)), "like Parquet", "format='parquet'"),
        ("sex,job\nf,é\n".encode("latin-1"), "cannot be read", "encoding='latin-1'"),
    ],
    ids=["gz", "utf-16", "workbook", "parquet", "latin-1"],
)
def test_bytes_that_are_no_text_are_told_by_how_they_begin(content: bytes, seen: str, remedy: str) -> None:
    with pytest.raises(InputError, match=r"t\.csv is not utf-8: byte \d+") as refused:
        of(content)
    assert seen in refused.value.problem and remedy in refused.value.remedy


def test_what_the_errors_about_bytes_advise_reads_the_file() -> None:
    assert of(gzip.compress(b"sex,job\nf,x\n"), format="csv.gz").names == ("sex", "job")
    assert of("sex,job\nf,x\n".encode("utf-16"), encoding="utf-16").names == ("sex", "job")


@pytest.mark.parametrize(
    ("name", "text", "mark"), [("t.csv", PEOPLE, ";"), ("t.tsv", "sex,job\nf,x\n", ","), ("t.csv", "a, b\tsex\nf\tx\n", "\t")]
)
def test_a_header_split_at_the_wrong_mark_is_told_the_right_one(name: str, text: str, mark: str) -> None:
    table = of(text, name)
    spelled = {"\t": "\\t"}.get(mark, mark)
    with pytest.raises(ParameterError, match="has no column 'sex'") as refused:
        table.check(["sex"], "--sensitive")
    assert (
        refused.value.remedy
        == f"Fields seem to be separated by '{spelled}': delimiter='{spelled}', --delimiter '{spelled}' on the command line."
    )
    assert len(of(text, name, delimiter=mark).columns(["sex"])["sex"]) == text.count("\n") - 1


def test_a_ragged_line_that_another_mark_would_mend_is_told_so() -> None:
    with pytest.raises(InputError, match=r"Line 2 of t\.csv has 1 field, but the header has 2") as refused:
        of(PEOPLE).columns(())
    assert refused.value.remedy == "Fields seem to be separated by ';': delimiter=';', --delimiter ';' on the command line."
    with pytest.raises(InputError, match="Correct the line"):
        of("a,b\n1,2\n3\n").columns(())


def test_a_mark_at_the_end_of_every_line_but_the_header_is_seen() -> None:
    with pytest.raises(InputError, match="has 3 fields, but the header has 2") as refused:
        of("a,b\n1,2,\n3,4,\n").columns(())
    assert refused.value.remedy == "Take the ',' from the end of every line, or put one at the end of the header."
    assert of("a,b,\n1,2,\n3,4,\n").columns(["a"]) == {"a": ["1", "3"]}


def test_the_note_that_spreadsheets_put_first_is_no_header() -> None:
    with pytest.raises(InputError, match=r"The first line of t\.csv, 'sep=;', is a note") as refused:
        of("sep=;\nsex;job\nf;x\n")
    assert refused.value.remedy.startswith("Remove the line")
    assert of("sep=x;job\nf;x\n").names == ("sep=x", "job")


@pytest.mark.parametrize("value", ["1,234", "0,5", "1.234,5", "1 234", "1'234.5", "-1,5"])
def test_a_number_as_it_is_written_elsewhere_is_told_how_to_be_written_here(value: str) -> None:
    with pytest.raises(InputError, match=f"holds {value!r}, which is not a number".replace("'", ".")) as refused:
        as_numbers([value], of('w\n"1"\n'), "w")
    assert refused.value.remedy.endswith("nothing between thousands: 1234.5.")


def test_text_for_missing_is_only_advised_where_it_would_be_taken() -> None:
    table = of("w\nnone\n")
    with pytest.raises(InputError) as refused:
        as_numbers(["none"], table, "w")
    assert refused.value.remedy == "Correct it."
    with pytest.raises(InputError, match="say which text means missing with --na"):
        as_numbers(["none"], table, "w", missing=("",))
    assert str(as_numbers(["none"], table, "w", missing=("none",))[0]) == "nan"


def test_what_another_library_says_ends_in_one_full_stop() -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="cannot be read as parquet") as refused:
        of("sex,job\nf,x\n", "people.parquet")
    assert refused.value.problem.endswith(".") and ".." not in refused.value.problem


def test_an_empty_name_and_closed_standard_input_are_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match="The name of the file is empty"):
        read_table("")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ParameterError, match="Standard input is closed"):
        read_table("-")


def test_standard_input_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A file that is open for writing alone is one that the system refuses to read.
    with (tmp_path / "out").open("wb", buffering=0) as closed:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.FileIO(closed.fileno(), "rb", closefd=False))))
        with pytest.raises(ParameterError, match="Standard input cannot be read: Bad file descriptor"):
            read_table("-")
