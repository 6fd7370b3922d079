"""A file that cannot be read is told apart from one that is broken, and the remedy in the error
works when it is followed.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
from pathlib import Path

import file_tables
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from given_columns import column, of

import r2b
from r2b.engines.files import FileSource
from r2b.engines.files.writing import write_stream
from r2b.errors import InputError, ParameterError

PEOPLE = "id;sex;job, now\n1;f;x\n2;m;y\n"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("people.XLS", "as CSV"),
        ("people.ods", "as CSV"),
        ("people.json", ".jsonl"),
        ("people.sav", "Parquet"),
        ("people.zip", "Unpack it"),
    ],
)
def test_a_file_of_another_kind_is_named_and_told_what_to_save_instead(
    name: str, remedy: str
) -> None:
    with pytest.raises(ParameterError, match=re.escape(name)) as refused:
        of("anything", name)
    assert "which r2b does not read" in refused.value.problem and remedy in refused.value.remedy
    assert "--format" not in refused.value.remedy


@pytest.mark.parametrize(
    ("content", "seen", "remedy"),
    [
        (gzip.compress(b"sex,job\nf,x\n"), "compressed with gz", "format='csv.gz'"),
        ("sex,job\nf,x\n".encode("utf-16"), "like UTF-16", "encoding='utf-16'"),
        ("sex,job\nf,x\n".encode("utf-32"), "like UTF-32", "encoding='utf-32'"),
        ("sex,job\nf,x\n".encode("utf-32-be"), "like UTF-32", "encoding='utf-32-be'"),
        (b"PK\x03\x04" + bytes(range(256)), "a workbook or an archive", "end in .xlsx"),
        (b"PAR1" + bytes(range(256)), "like Parquet", "format='parquet'"),
        ("sex,job\nf,é\n".encode("latin-1"), "cannot be read", "encoding='latin-1'"),
    ],
    ids=["gz", "utf-16", "utf-32", "utf-32-be", "workbook", "parquet", "latin-1"],
)
def test_bytes_that_are_no_text_are_told_by_how_they_begin(
    content: bytes, seen: str, remedy: str
) -> None:
    with pytest.raises(
        InputError, match=r"t\.csv (is not utf-8: byte \d+|cannot be read as csv)"
    ) as refused:
        of(content)
    assert seen in refused.value.problem and remedy in refused.value.remedy


@pytest.mark.parametrize(
    ("name", "text", "mark"),
    [
        ("t.csv", PEOPLE, ";"),
        ("t.tsv", "sex,job\nf,x\n", ","),
        ("t.csv", "a, b\tsex\nf\tx\n", "\t"),
    ],
)
def test_a_header_split_at_the_wrong_mark_is_told_the_right_one(
    name: str, text: str, mark: str
) -> None:
    spelled = {"\t": "\\t"}.get(mark, mark)
    with pytest.raises(ParameterError, match="has no column 'sex'") as refused:
        of(text, name).check([("--sensitive", ["sex"])])
    assert (
        refused.value.remedy
        == f"Fields seem to be separated by '{spelled}': pass `delimiter='{spelled}'`."
    )
    assert len(column(of(text, name, delimiter=mark), "sex")) == text.count("\n") - 1


def test_a_ragged_line_that_another_mark_would_mend_is_told_so() -> None:
    with pytest.raises(
        InputError, match=r"Line 2 of t\.csv has 1 field, but the header has 2"
    ) as refused:
        column(of(PEOPLE), " now")
    assert refused.value.remedy == "Fields seem to be separated by ';': pass `delimiter=';'`."
    with pytest.raises(InputError, match="Correct the line"):
        column(of("a,b\n1,2\n3\n"), "a")


def test_a_mark_at_the_end_of_every_line_but_the_header_is_seen() -> None:
    with pytest.raises(InputError, match="has 3 fields, but the header has 2") as refused:
        column(of("a,b\n1,2,\n3,4,\n"), "a")
    assert (
        refused.value.remedy
        == "Take the ',' from the end of every line, or put one at the end of the header."
    )
    assert column(of("a,b,\n1,2,\n3,4,\n"), "a") == ["1", "3"]


def test_the_note_that_spreadsheets_put_first_is_no_header() -> None:
    with pytest.raises(
        InputError, match=r"The first line of t\.csv, 'sep=;', is a note"
    ) as refused:
        of("sep=;\nsex;job\nf;x\n")
    assert refused.value.remedy.startswith("Remove the line")
    assert of("sep=x;job\nf;x\n").names == ("sep=x", "job")


@pytest.mark.parametrize("value", ["1,234", "0,5", "1.234,5", "1 234", "1'234.5", "-1,5"])
def test_a_number_as_it_is_written_elsewhere_is_told_how_to_be_written_here(value: str) -> None:
    with pytest.raises(
        InputError, match=f"holds {value!r}, which is not a number".replace("'", ".")
    ) as refused:
        column(of(f'w\n"{value}"\n').with_numbers(["w"]), "w")
    assert refused.value.remedy.endswith("nothing between thousands: 1234.5.")


def test_text_for_missing_is_only_advised_where_it_would_be_taken() -> None:
    with pytest.raises(InputError) as refused:
        column(of('{"w": "none"}\n', "t.jsonl").with_numbers(["w"]), "w")
    assert refused.value.remedy == "Correct it."
    with pytest.raises(InputError, match=r"or say that it means missing"):
        column(of("w\nnone\n").with_numbers(["w"]), "w")
    assert column(of("w\nnone\n", na="none").with_numbers(["w"]), "w") == [None]
    with pytest.raises(InputError, match=r"In the column 'w' of t\.csv, row 0 \(line 2\) is empty"):
        column(of('w\n""\n', na="none").with_numbers(["w"]), "w")


def test_an_empty_name_and_closed_standard_input_are_no_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match="The name of the file is empty"):
        FileSource.open("")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ParameterError, match="Standard input is closed"):
        FileSource.open("-")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".ipc"])
def test_standard_input_is_a_table_like_any_other(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = file_tables.write(file_tables.people(), tmp_path / f"p{suffix}")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with place.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        source = FileSource.open("-", scratch=str(scratch))
    assert list(scratch.iterdir()) == []  # the copy has no name
    fair, known = (
        r2b.scan(each).debias("job", sensitive_features="sex", epsilon=0.01)
        for each in (source, place)
    )
    shape = "".join(place.suffixes)[1:].replace("ipc", "arrow")
    known.write(tmp_path / f"q{suffix}", "round")
    sink = io.BytesIO()
    write_stream(source, fair.rows.relabel(fair.rule, "round"), sink, shape)
    assert sink.getvalue() == (tmp_path / f"q{suffix}").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n")))
    with pytest.raises(ParameterError, match=r"standard input cannot be kept in .*TMPDIR"):
        FileSource.open("-", scratch=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("column_", ["job", "sex"])
def test_a_value_that_is_the_empty_text_does_not_leave_for_a_format_in_which_it_is_missing(
    column_: str, tmp_path: Path
) -> None:
    table = {"sex": ["f", "f", "m", "m"], "job": ["a", "b", "b", "b"]}
    table[column_] = ["" if value in "af" else value for value in table[column_]]
    pq.write_table(pa.table(table), tmp_path / "p.parquet")
    fair = r2b.scan(tmp_path / "p.parquet").debias("job", sensitive_features="sex")
    for form in ("soft", "round"):
        with pytest.raises(
            InputError,
            match=(
                f"'{column_}' has a value that is the empty text, which CSV cannot tell from a"
                " missing one"
            ),
        ):
            fair.write(tmp_path / "q.csv", form)
        fair.write(tmp_path / f"{form}.jsonl", form)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "p.parquet",
        "round.jsonl",
        "soft.jsonl",
    ]
