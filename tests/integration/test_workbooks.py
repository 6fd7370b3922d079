"""Workbooks: sheets that are read as tables, what no cell says is refused by its name, and labels
that leave in one and verify.
"""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any

import pytest
from cli_calls import Shell, people

import r2b
from r2b._files import Format, table_of
from r2b._files.workbook import SheetWriter, read_sheet
from r2b.errors import DamagedFileError, EmptyError, InputError, ParameterError

openpyxl = pytest.importorskip("openpyxl")
pa = pytest.importorskip("pyarrow")
ASK = ("--label", "job", "--sensitive", "sex")


def book(*sheets: list[list[Any]], names: tuple[str, ...] = ("one", "two", "three")) -> io.BytesIO:
    """Make a workbook with the library itself, as other programs do."""
    made = openpyxl.Workbook()
    made.remove(made.active)
    for name, rows in zip(names, sheets, strict=False):
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    file = io.BytesIO()
    made.save(file)
    file.seek(0)
    return file


def test_a_column_has_the_type_that_all_its_cells_have() -> None:
    day, moment = datetime(2024, 1, 31), datetime(2024, 1, 31, 12, 30)
    rows = [
        ["whole", "number", "mixed", "day", "moment", "truth", "gap"],
        [1, 1, 1, day, day, True, None],
    ]
    rows += [[2, 2.5, "x", day, moment, False, "y"]]
    _, table = read_sheet(book(rows), "a.xlsx")
    kinds = ["int64", "double", "string", "date32[day]", "timestamp[us]", "bool", "string"]
    assert [str(each.type) for each in table.schema] == kinds
    assert table["mixed"].to_pylist() == ["1", "x"] and table["gap"].to_pylist() == [None, "y"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([["a", None, "b"], [1, 2, 3]], "The cell B1 of a.xlsx is empty, where the name"),
        ([["a"], [1], [None], [2]], "Row 3 of a.xlsx is blank"),
        ([["a"], [1, 2]], "The cell B2 of a.xlsx lies beside the table"),
        ([["a"], ["#N/A"]], "The cell A2 of a.xlsx holds the error #N/A"),
        (
            [["a", "b"], [1, "=A2+1"]],
            "The cell B2 of a.xlsx holds a formula whose value was not saved",
        ),
    ],
)
def test_what_is_no_table_is_refused_by_its_cell(rows: list[list[Any]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_sheet(book(rows), "a.xlsx")


def test_of_several_sheets_one_is_named_and_empty_ones_do_not_count() -> None:
    rows = [["a"], [1]]
    assert read_sheet(book([], rows), "a.xlsx")[0] == "two"
    assert read_sheet(book(rows, [["b"], [2]]), "a.xlsx", "two")[1]["b"].to_pylist() == [2]
    with pytest.raises(
        ParameterError, match=r"2 sheets: 'one', 'two'\. Say which, such as `sheet='one'`"
    ):
        read_sheet(book(rows, rows), "a.xlsx")
    with pytest.raises(ParameterError, match="no sheet 'twice'"):
        read_sheet(book(rows), "a.xlsx", "twice")
    with pytest.raises(EmptyError):
        read_sheet(book([]), "a.xlsx")
    with pytest.raises(DamagedFileError, match="cannot be read as a workbook"):
        read_sheet(io.BytesIO(b"PK\x03\x04 and no more"), "a.xlsx")


def test_what_is_written_reads_as_it_was_and_twice_the_same() -> None:
    text = ["=1+1", "#N/A", " blank ", "0012", "a\nb", "é☃"]
    columns = {
        "text": text,
        "number": [0.1 + 0.2, 1e300, -0.0, 1.5, 5e-324, 2.0],
        "gap": [None, "x", None, "y", None, "z"],
    }
    columns["when"] = [datetime(2020, 2, 29, 13, 59, 59, 123000), *[datetime(1999, 1, 1)] * 5]
    made = table_of(columns, Format("xlsx"))
    assert made == table_of(columns, Format("xlsx"))
    _, table = read_sheet(io.BytesIO(made), "a.xlsx")
    assert table.to_pydict() == columns


@pytest.mark.parametrize(
    "value",
    ["x" * 40_000, "a\x01", 1 << 60, float("inf"), [1], datetime(2020, 1, 1, microsecond=1)],
)
def test_what_a_cell_cannot_hold_exactly_is_refused_by_column_and_row(value: Any) -> None:
    with pytest.raises(InputError, match=r"In the column 'x', row 0 holds"):
        SheetWriter(io.BytesIO(), ["x"]).take(pa.table({"x": [value]}))


def test_labels_leave_in_a_workbook_and_verify(shell: Shell) -> None:
    columns = people()
    shell.write("people.xlsx", table_of(columns, Format("xlsx")))
    done = shell("debias", "people.xlsx", *ASK, "--form", "round", "-o", "fair.xlsx")
    assert done.code == 0, done.err
    assert shell("verify", "fair.xlsx").code == 0
    shell.write("people.csv", table_of(columns, Format("csv")))
    fair = r2b.scan("people.csv").debias("job", sensitive_features="sex")
    with open("fair.xlsx", "rb") as file:
        _, table = read_sheet(file, "fair.xlsx")
    assert table["job_fair"].to_pylist() == fair.round(0).to_pylist()
    assert table["age"].to_pylist() == columns["age"]


def test_the_sheet_is_asked_for_by_its_option_and_has_none_elsewhere(shell: Shell) -> None:
    rows = [
        list(row)
        for row in zip(*([name, *values] for name, values in people().items()), strict=True)
    ]
    shell.write("two.xlsx", book(rows, rows, names=("2023", "2024")).getvalue())
    assert shell("audit", "two.xlsx", *ASK).err.endswith("Say which, such as --sheet 2023.\n")
    assert shell("audit", "two.xlsx", *ASK, "--sheet", "2024", "--permutations", "0").code == 0
    shell.write("a.csv", "sex,job\nf,x\nm,y\n")
    assert "which has no sheets" in shell("audit", "a.csv", *ASK, "--sheet", "x").err
