"""Workbooks of Excel: one sheet is a table, its first row the names. Read once into a table of Arrow; written as a new workbook.

A sheet has a type per cell. A column is of numbers, dates or truth values where all its cells are;
else it is text. Formulas count by the values that were saved with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any, BinaryIO
from xml.sax.saxutils import escape, quoteattr
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from r2b._files.arrow import pyarrow, unfolded_bytes
from r2b._files.formats import field_text, most_unpacked
from r2b.errors import (
    DamagedFileError,
    EmptyError,
    FileTooLargeError,
    InputError,
    ParameterError,
    R2BError,
    require,
)

# of a sheet, the names among the rows; characters of a cell
MOST_ROWS, MOST_COLUMNS, LONGEST = 1_048_576, 16_384, 32_767
_WHOLE = 1 << 53  # up to which a number of a workbook is exact
_ROWS = 1 << 13  # that are converted at once
_HOLDS = {frozenset(("whole", "number")): "number", frozenset(("day", "moment")): "moment"}
# XML holds none of these as they are
_UNHELD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\r\ufffe\uffff]")


def openpyxl() -> Any:
    """Import the library, or say what to install."""
    return require(
        "openpyxl",
        "Workbooks (.xlsx) need openpyxl",
        extra="excel",
        otherwise=", or save the sheet as CSV in UTF-8",
    )


def read_sheet(file: BinaryIO, name: str, wanted: str | None = None) -> tuple[str, Any]:
    """Read a sheet of a workbook.

    Parameters
    ----------
    file : binary file
    name : str
        How errors call it.
    wanted : str, optional
        The sheet; may be left out where only one has cells.

    Returns
    -------
    str
        The name of the sheet.
    pyarrow.Table

    Raises
    ------
    ParameterError
        There is no such sheet, or several have cells; the error names them.
    InputError
        A cell holds an error, a formula without its value, or lies beside the table; the error
        names it.
    DamagedFileError
        It is no workbook.
    """
    library = openpyxl()
    try:
        with ZipFile(file) as archive:
            _refuse_growth(name, sum(each.file_size for each in archive.infolist()))
        return _read(library, file, name, wanted)
    except R2BError:
        raise
    except Exception as cause:  # damaged: the library has no errors of its own
        problem = f"{name} cannot be read as a workbook: {str(cause).rstrip('.') or type(cause).__name__}."
        raise DamagedFileError(
            problem, remedy="Open it in Excel and save it as .xlsx, or as CSV in UTF-8.", path=name
        ) from cause


def _refuse_growth(name: str, size: int) -> None:
    if size > most_unpacked():
        problem = f"{name} grows to {size / 1e6:,.0f} MB or more when it is unpacked; the limit is {most_unpacked() / 1e6:,.0f} MB."
        raise FileTooLargeError(
            problem,
            remedy="Save the sheet as CSV in UTF-8, or raise the limit.",
            path=name,
            size=size,
        )


def _read(library: Any, file: BinaryIO, name: str, wanted: str | None) -> tuple[str, Any]:
    sheet = _sheet(library.load_workbook(file, read_only=True, data_only=True), name, wanted)
    names = _names(sheet, name)
    kinds, blocks = _blocks(sheet, name, names, None)
    if blocks is None:  # the first rows did not show what a column is
        kinds, blocks = _blocks(sheet, name, names, kinds)
    arrow = pyarrow()
    schema = arrow.schema([(each, _type(kind)) for each, kind in zip(names, kinds, strict=True)])
    table = arrow.Table.from_batches(blocks or [], schema)
    if any(column.null_count for column in table.columns):
        _refuse_unsaved(library, file, name, sheet.title)
    return sheet.title, table


def _sheet(book: Any, name: str, wanted: str | None) -> Any:
    sheets = {each.title: each for each in book.worksheets}
    for each in sheets.values():
        each.reset_dimensions()  # what a file says of them is often wrong
    used = [
        title
        for title, each in sheets.items()
        if any(cell.value is not None for row in islice(each.rows, 9) for cell in row)
    ]
    if wanted is not None and wanted not in sheets:
        problem, remedy = (
            f"{name} has no sheet {wanted!r}.",
            f"Its sheets are {', '.join(map(repr, sheets))}.",
        )
        raise ParameterError(problem, remedy=remedy, path=name, sheet=wanted, sheets=list(sheets))
    if wanted is None and len(used) > 1:
        problem, remedy = (
            f"{name} has {len(used)} sheets: {', '.join(map(repr, used))}.",
            f"Say which, such as `sheet={used[0]!r}`.",
        )
        raise ParameterError(problem, remedy=remedy, path=name, sheets=used)
    if wanted is None and not used:
        raise EmptyError(
            f"{name} is empty.",
            remedy="Pass a sheet with names in its first row, and rows below.",
            path=name,
        )
    return sheets[used[0] if wanted is None else wanted]


def _names(sheet: Any, name: str) -> list[str]:
    first = next(iter(sheet.rows), ())
    names = [None if cell.value is None else field_text(cell.value, "name", 0) for cell in first]
    while names and names[-1] is None:
        del names[-1]
    if None in names or not names:
        where = _place(1, names.index(None) if names else 0)
        raise _wrong(
            name,
            where,
            "is empty, where the name of a column should be",
            "Put the names of the columns into the first row.",
        )
    return [each for each in names if each is not None]


def _blocks(
    sheet: Any, name: str, names: Sequence[str], known: list[str] | None
) -> tuple[list[str], list[Any] | None]:
    """Convert the rows below the names; None where what is known of the columns, or shown by the first rows, does not hold for all."""
    kinds, blocks, total = known, [], 0
    rows = _rows(sheet, name, len(names))
    holds = True
    while part_of := list(islice(rows, _ROWS)):
        columns = list(zip(*part_of, strict=True))
        found = [_kind(values) for values in columns]
        wider = (
            found if kinds is None else [_wider(*pair) for pair in zip(kinds, found, strict=True)]
        )
        holds = holds and kinds in (None, wider)
        kinds = wider
        if holds:
            arrays = [_array(*each) for each in zip(columns, kinds, names, strict=True)]
            blocks.append(pyarrow().record_batch(arrays, names=[*names]))
            total += unfolded_bytes(blocks[-1])
            _refuse_growth(name, total)
    return kinds or ["nothing"] * len(names), blocks if holds else None


def _rows(sheet: Any, name: str, width: int) -> Iterator[tuple[Any, ...]]:
    """Give the values of every row; empty rows at the end are none of the table."""
    empty = 0
    for number, cells in enumerate(islice(sheet.rows, 1, None), 2):
        values = [cell.value for cell in cells]
        if all(value is None for value in values):
            empty = empty or number
            continue
        if empty:
            raise InputError(
                f"Row {empty} of {name} is blank.", remedy="Remove it.", path=name, row=empty - 2
            )
        for place, cell in enumerate(cells):
            if cell.data_type == "e":
                raise _wrong(
                    name,
                    _place(number, place),
                    f"holds the error {cell.value}",
                    "Correct it, or clear the cell.",
                )
        beyond = next(
            (place for place, value in enumerate(values) if place >= width and value is not None),
            None,
        )
        if beyond is not None:
            raise _wrong(
                name,
                _place(number, beyond),
                "lies beside the table: its column has no name",
                "Name it, or clear the cell.",
            )
        yield tuple(values[:width]) + (None,) * (width - len(values))


def _refuse_unsaved(library: Any, file: BinaryIO, name: str, title: str) -> None:
    """Refuse formulas without a value, as programs leave that cannot compute: they would read as missing values."""
    with ZipFile(file) as archive:
        if not any(
            b"<f" in archive.read(each)
            for each in archive.namelist()
            if each.startswith("xl/worksheets/")
        ):
            return
    both = [
        library.load_workbook(file, read_only=True, data_only=only)[title] for only in (True, False)
    ]
    for values, formulas in zip(*(each.rows for each in both), strict=True):
        for value, formula in zip(values, formulas, strict=True):
            if value.value is None and formula.data_type == "f":
                remedy = "Open the workbook in Excel and save it, which computes them, or save the sheet as CSV in UTF-8."
                raise _wrong(
                    name, formula.coordinate, "holds a formula whose value was not saved", remedy
                )


def _wrong(name: str, cell: str, what: str, remedy: str) -> InputError:
    return InputError(f"The cell {cell} of {name} {what}.", remedy=remedy, path=name, cell=cell)


def _place(row: int, column: int) -> str:
    return f"{_letters(column)}{row}"


def _letters(column: int) -> str:
    """Name a column as spreadsheets do.

    Examples
    --------
    >>> _letters(0), _letters(25), _letters(26), _letters(16_383)
    ('A', 'Z', 'AA', 'XFD')
    """
    more, last = divmod(column, 26)
    return (_letters(more - 1) if more else "") + chr(ord("A") + last)


def _kind(values: Sequence[Any]) -> str:
    kind = "nothing"
    for each in {_kind_of(value) for value in values}:
        kind = _wider(kind, each)
    return kind


def _kind_of(value: Any) -> str:
    if isinstance(value, datetime):
        return "day" if value.time() == time() else "moment"
    if isinstance(value, int) and not isinstance(value, bool):
        return "whole" if abs(value) <= _WHOLE else "number"
    known = {
        type(None): "nothing",
        bool: "truth",
        float: "number",
        date: "day",
        time: "time",
        timedelta: "span",
    }
    return known.get(type(value), "text")


def _wider(one: str, other: str) -> str:
    """Give the kind that holds two others.

    Examples
    --------
    >>> _wider("whole", "number"), _wider("nothing", "day"), _wider("whole", "truth")
    ('number', 'day', 'text')
    """
    if one == other or other == "nothing":
        return one
    return other if one == "nothing" else _HOLDS.get(frozenset((one, other)), "text")


def _type(kind: str) -> Any:
    arrow = pyarrow()
    if kind in ("moment", "span"):
        return arrow.timestamp("us") if kind == "moment" else arrow.duration("us")
    if kind == "time":
        return arrow.time64("us")
    types = {
        "truth": arrow.bool_(),
        "whole": arrow.int64(),
        "number": arrow.float64(),
        "day": arrow.date32(),
    }
    return types.get(kind, arrow.string())


def _array(values: Sequence[Any], kind: str, name: str) -> Any:
    if kind == "text":
        values = [
            None if value is None else field_text(value, name, row)
            for row, value in enumerate(values)
        ]
    elif kind == "day":
        values = [value.date() if isinstance(value, datetime) else value for value in values]
    elif kind == "number":
        values = [None if value is None else float(value) for value in values]
    return pyarrow().array(values, _type(kind))


class SheetWriter:
    """Writes a workbook of one sheet, row by row as they come, without a time of writing inside, or no two would be alike.

    Parameters
    ----------
    file : binary file
        It stays open.
    names : sequence of str
    title : str
        Of the sheet.

    Raises
    ------
    InputError
        There are more columns or rows than a sheet holds, or a value that a cell does not hold
        exactly.
    """

    # A library would keep rows in a file on the disk, round numbers to 16 digits, cut long texts
    # and take some for formulas.
    def __init__(self, file: Any, names: Sequence[str], title: str = "Sheet1") -> None:
        if len(names) > MOST_COLUMNS:
            problem = f"The table has {len(names):,} columns, and a sheet holds {MOST_COLUMNS:,}."
            raise InputError(problem, remedy="Write CSV or Parquet.", columns=len(names))
        self.names, self._rows, self._size = list(names), 0, 0
        self._places = [_letters(place) for place in range(len(names))]
        self._archive = ZipFile(file, "w", ZIP_DEFLATED)
        for place, text in _PARTS.items():
            self._archive.writestr(
                ZipInfo(place), _XML + text.format(title=quoteattr(title)), ZIP_DEFLATED
            )
        entry = ZipInfo("xl/worksheets/sheet1.xml")
        entry.compress_type = ZIP_DEFLATED
        self._sheet = self._archive.open(entry, "w")
        self._write(f'{_XML}<worksheet xmlns="{_MAIN}"><sheetData>')
        self._append([self.names])

    def take(self, record: Any) -> None:
        """Write the rows of a record batch or a table."""
        if self._rows + record.num_rows > MOST_ROWS:
            problem = f"The table has more rows than a sheet holds, which is {MOST_ROWS - 1:,} below the names."
            raise InputError(
                problem, remedy="Write CSV or Parquet, which have no limit.", limit=MOST_ROWS - 1
            )
        self._append(zip(*(column.to_pylist() for column in record.columns), strict=True))

    def close(self) -> None:
        """End the workbook."""
        self._write("</sheetData></worksheet>")
        self._sheet.close()
        self._archive.close()

    def _append(self, rows: Iterable[Sequence[Any]]) -> None:
        made = []
        for values in rows:
            row = self._rows + 1
            cells = "".join(
                f'<c r="{place}{row}"{self._cell(*each)}'
                for place, *each in zip(self._places, values, self.names, strict=True)
            )
            made.append(f'<row r="{row}">{cells}</row>')
            self._rows = row
        self._write("".join(made))

    def _write(self, text: str) -> None:
        self._size += self._sheet.write(text.encode())
        if self._size > _LARGEST:
            raise InputError(
                "The table is larger than a workbook can be.",
                remedy="Write CSV or Parquet.",
                size=self._size,
            )

    def _cell(self, value: Any, name: str) -> str:
        """Write the rest of a cell that holds exactly this value."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "/>"
        if isinstance(value, str) and len(value) <= LONGEST and not _UNHELD.search(value):
            return f' t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
        if isinstance(value, bool):
            return f' t="b"><v>{value:d}</v></c>'
        if (isinstance(value, int) and abs(value) <= _WHOLE) or (
            isinstance(value, float) and math.isfinite(value)
        ):
            return f"><v>{value!r}</v></c>"
        style, days = _days(value)
        if not style:
            row = self._rows - 1
            problem = f"In the column {name!r}, row {row} holds {repr(value)[:60]}, which a cell of a workbook cannot hold exactly."
            raise InputError(
                problem,
                remedy="Write CSV or Parquet, or leave the column out.",
                column=name,
                row=row,
            )
        return f' s="{style}"><v>{days!r}</v></c>'


def _days(value: Any) -> tuple[int, float]:
    """Give the style and the number of a date or a time, days after the end of 1899; no style where it is none, or not exact."""
    style = 0
    if isinstance(value, datetime) and value.tzinfo is None:
        style, span = 2, value - _ZERO
    elif type(value) is date:
        style, span = 1, datetime.combine(value, time()) - _ZERO
    elif isinstance(value, time) and value.tzinfo is None:
        style, span = 3, datetime.combine(_ZERO, value) - _ZERO
    elif isinstance(value, timedelta):
        style, span = 4, value
    # Excel has a 29 February in 1900, and keeps thousandths of seconds.
    exact = (
        style
        and not span.microseconds % 1000
        and (style > 2 or span.days > 60)
        and span >= timedelta()
    )
    return (style, span / timedelta(days=1)) if exact else (0, 0.0)


_ZERO = datetime(1899, 12, 30)
_LARGEST = 2_000_000_000  # bytes of a sheet, of which archives of the old kind hold no more
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_LINKS = f'<Relationships xmlns="{_PACKAGE}/relationships">'
_FORMATS = "".join(
    f'<xf numFmtId="{each}" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
    for each in (0, 14, 22, 21, 46)
)
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_KIND}.sheet.main+xml"/>'
    f'<Override PartName="/xl/styles.xml" ContentType="{_KIND}.styles+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_KIND}.worksheet+xml"/></Types>',
    "_rels/.rels": f'{_LINKS}<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
    '<sheet name={title} sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'{_LINKS}<Relationship Id="rId1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="rId2" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
    "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><fonts count="1"><font><sz val="11"/><name val="Calibri"/></font></fonts>'
    '<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>'
    '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>'
    f'<cellXfs count="5">{_FORMATS}</cellXfs>'
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>',
}
