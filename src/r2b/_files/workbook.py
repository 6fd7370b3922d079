"""Workbooks of Excel: a sheet is read into an Arrow table, and written as a new workbook.

The first row has the names. A sheet has a type per cell: a column is of numbers, dates or truth
values where all its cells are, else it is text. Formulas count by the values saved with them.
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

from r2b._files.arrow import pyarrow
from r2b._files.formats import field_text
from r2b._files.text import refuse_growth
from r2b.errors import (
    DamagedFileError,
    EmptyError,
    InputError,
    ParameterError,
    R2BError,
    require,
)

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
            parts = archive.infolist()
        packed = sum(each.compress_size for each in parts)
        refuse_growth(name, packed, sum(each.file_size for each in parts))
        book = library.load_workbook(file, read_only=True, data_only=True)
        sheet = _sheet(book, name, wanted)
        names = _names(sheet, name)
        columns = list(zip(*_rows(sheet, name, len(names)), strict=True)) or [()] * len(names)
        # One text may stand in many cells.
        texts = (value for column in columns for value in column if isinstance(value, str))
        refuse_growth(name, packed, sum(map(len, texts)))
        arrays = [_array(*each) for each in zip(columns, names, strict=True)]
        if any(array.null_count for array in arrays):
            _refuse_unsaved(library, file, name, sheet.title)
        return sheet.title, pyarrow().Table.from_arrays(arrays, names=names)
    except R2BError:
        raise
    except Exception as cause:  # damaged: the library has no errors of its own
        reason = str(cause).rstrip(".") or type(cause).__name__
        raise DamagedFileError(
            f"{name} cannot be read as a workbook: {reason}.",
            remedy="Open it in Excel and save it as .xlsx, or as CSV in UTF-8.",
            path=name,
        ) from cause


def _sheet(book: Any, name: str, wanted: str | None) -> Any:
    sheets = {each.title: each for each in book.worksheets}
    for each in sheets.values():
        each.reset_dimensions()  # what a file says of them is often wrong
    used = [
        title
        for title, each in sheets.items()
        # a sheet that is used has a cell in its first rows
        if any(cell.value is not None for row in islice(each.rows, 9) for cell in row)
    ]
    if wanted is not None:
        if wanted not in sheets:
            remedy = f"Its sheets are {', '.join(map(repr, sheets))}."
            facts = {"path": name, "sheet": wanted, "sheets": list(sheets)}
            raise ParameterError(f"{name} has no sheet {wanted!r}.", remedy=remedy, **facts)
        return sheets[wanted]
    if len(used) > 1:
        problem = f"{name} has {len(used)} sheets: {', '.join(map(repr, used))}."
        remedy = f"Say which, such as `sheet={used[0]!r}`."
        raise ParameterError(problem, remedy=remedy, path=name, sheets=used)
    if not used:
        remedy = "Pass a sheet with names in its first row, and rows below."
        raise EmptyError(f"{name} is empty.", remedy=remedy, path=name)
    return sheets[used[0]]


def _names(sheet: Any, name: str) -> list[str]:
    first = next(iter(sheet.rows), ())
    names = [field_text(cell.value, "name", 0) for cell in first]
    while names and first[len(names) - 1].value is None:
        del names[-1]
    empty = [place for place in range(len(names)) if first[place].value is None]
    if empty or not names:
        what = "is empty, where the name of a column should be"
        remedy = "Put the names of the columns into the first row."
        raise _wrong(name, f"{_letters(empty[0] if empty else 0)}1", what, remedy)
    return names


def _rows(sheet: Any, name: str, width: int) -> Iterator[tuple[Any, ...]]:
    """Yield the values of every row but empty ones at the end."""
    empty = 0
    for number, cells in enumerate(islice(sheet.rows, 1, None), 2):
        values = [cell.value for cell in cells]
        if all(value is None for value in values):
            empty = empty or number
            continue
        if empty:
            problem = f"Row {empty} of {name} is blank."
            raise InputError(problem, remedy="Remove it.", path=name, row=empty - 2)
        for place, cell in enumerate(cells):
            if cell.data_type == "e":
                what, remedy = f"holds the error {cell.value}", "Correct it, or clear the cell."
                raise _wrong(name, cell.coordinate, what, remedy)
            if place >= width and cell.value is not None:
                what = "lies beside the table: its column has no name"
                raise _wrong(name, cell.coordinate, what, "Name it, or clear the cell.")
        yield tuple(values[:width]) + (None,) * (width - len(values))


def _refuse_unsaved(library: Any, file: BinaryIO, name: str, title: str) -> None:
    """Refuse formulas whose value was not saved: they would read as missing values."""
    with ZipFile(file) as archive:
        sheets = [each for each in archive.namelist() if each.startswith("xl/worksheets/")]
        if not any(b"<f" in archive.read(each) for each in sheets):
            return
    values, formulas = (
        library.load_workbook(file, read_only=True, data_only=only)[title] for only in (True, False)
    )
    for row, other in zip(values.rows, formulas.rows, strict=True):
        for value, formula in zip(row, other, strict=True):
            if value.value is None and formula.data_type == "f":
                remedy = (
                    "Open the workbook in Excel and save it, which computes them, or save the "
                    "sheet as CSV in UTF-8."
                )
                what = "holds a formula whose value was not saved"
                raise _wrong(name, formula.coordinate, what, remedy)


def _wrong(name: str, cell: str, what: str, remedy: str) -> InputError:
    return InputError(f"The cell {cell} of {name} {what}.", remedy=remedy, path=name, cell=cell)


def _letters(column: int) -> str:
    """Name a column as spreadsheets do.

    Examples
    --------
    >>> _letters(0), _letters(25), _letters(26), _letters(16_383)
    ('A', 'Z', 'AA', 'XFD')
    """
    more, last = divmod(column, 26)
    return (_letters(more - 1) if more else "") + chr(ord("A") + last)


def _array(values: Sequence[Any], name: str) -> Any:
    """Return values with the type that holds them all; text where there is none.

    Examples
    --------
    >>> _array([1, 2.5], "x").type, _array([1, True], "x").to_pylist()
    (DataType(double), ['1', 'true'])
    """
    arrow = pyarrow()
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {int, float}:
        # a workbook rounds larger whole numbers
        whole = kinds == {int} and all(abs(value or 0) <= 2**53 for value in values)
        return arrow.array(values if whole else _floats(values), None if whole else arrow.float64())
    if kinds and kinds <= {date, datetime}:
        moments = [
            value if value is None or type(value) is datetime else datetime.combine(value, time())
            for value in values
        ]
        days = all(value is None or value.time() == time() for value in moments)
        return arrow.array(moments, arrow.timestamp("us")).cast(
            "date32" if days else "timestamp[us]"
        )
    if kinds in ({bool}, {time}, {timedelta}):
        return arrow.array(values)
    texts = [
        None if value is None else field_text(value, name, row) for row, value in enumerate(values)
    ]
    return arrow.array(texts, arrow.string())


def _floats(values: Sequence[Any]) -> list[float | None]:
    return [None if value is None else float(value) for value in values]


class SheetWriter:
    """Writes a workbook of one sheet; equal tables make equal files.

    Parameters
    ----------
    file : binary file
        It stays open.
    names : sequence of str
    title : str
        Of the sheet.
    n_rows : int, optional
        How many rows will come: readers that are told do not look for the last one first.

    Raises
    ------
    InputError
        There are more columns or rows than a sheet holds, or a value that a cell does not hold
        exactly.
    """

    # A library would keep rows in a file on the disk, round numbers to 16 digits, cut long texts
    # and take some for formulas.
    def __init__(
        self, file: Any, names: Sequence[str], title: str = "Sheet1", n_rows: int | None = None
    ) -> None:
        if len(names) > 16_384:
            problem = f"The table has {len(names):,} columns, and a sheet holds 16,384."
            raise InputError(problem, remedy="Write CSV or Parquet.", columns=len(names))
        self.names, self._rows, self._size = list(names), 0, 0
        self._texts: dict[str, int] = {}
        self._places = [_letters(place) for place in range(len(names))]
        self._archive = ZipFile(file, "w", ZIP_DEFLATED)
        for place, text in _PARTS.items():
            self._archive.writestr(
                ZipInfo(place), _XML + text.format(title=quoteattr(title)), ZIP_DEFLATED
            )
        entry = ZipInfo("xl/worksheets/sheet1.xml")
        entry.compress_type = ZIP_DEFLATED
        self._sheet = self._archive.open(entry, "w")
        last = (
            ""
            if n_rows is None or not names
            else f'<dimension ref="A1:{self._places[-1]}{n_rows + 1}"/>'
        )
        self._write(f'{_XML}<worksheet xmlns="{_MAIN}">{last}<sheetData>')
        self._append([self.names])

    def take(self, record: Any) -> None:
        """Write the rows of a record batch or a table."""
        if self._rows + record.num_rows > 1_048_576:
            raise InputError(
                "The table has more rows than a sheet holds, which is 1,048,575 below the names.",
                remedy="Write CSV or Parquet, which have no limit.",
                limit=1_048_575,
            )
        self._append(zip(*(column.to_pylist() for column in record.columns), strict=True))

    def close(self) -> None:
        """End the workbook."""
        self._write("</sheetData></worksheet>")
        self._sheet.close()
        texts = "".join(f"<si>{_text(each)}</si>" for each in self._texts)
        content = f'{_XML}<sst xmlns="{_MAIN}">{texts}</sst>'
        self._archive.writestr(ZipInfo("xl/sharedStrings.xml"), content, ZIP_DEFLATED)
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
        if self._size > 2_000_000_000:  # archives of the old kind hold no more
            raise InputError(
                "The table is larger than a workbook can be.",
                remedy="Write CSV or Parquet.",
                size=self._size,
            )

    def _cell(self, value: Any, name: str) -> str:
        """Write the rest of a cell that holds exactly this value."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "/>"
        if isinstance(value, str) and len(value) <= 32_767 and not _UNHELD.search(value):
            # Texts that repeat stand once in a table, which is also faster to read; a table of all
            # texts of a large sheet would fill the memory.
            place = self._texts.get(value)
            if place is None and len(self._texts) < 1 << 16:
                place = self._texts[value] = len(self._texts)
            if place is not None:
                return f' t="s"><v>{place}</v></c>'
            return f' t="inlineStr"><is>{_text(value)}</is></c>'
        if isinstance(value, bool):
            return f' t="b"><v>{value:d}</v></c>'
        if (isinstance(value, int) and abs(value) <= 2**53) or (
            isinstance(value, float) and math.isfinite(value)
        ):
            return f"><v>{value!r}</v></c>"
        style, days = _days(value)
        if not style:
            row = self._rows - 1
            raise InputError(
                f"In the column {name!r}, row {row} holds {repr(value)[:60]}, which a cell of a "
                "workbook cannot hold exactly.",
                remedy="Write CSV or Parquet, or leave the column out.",
                column=name,
                row=row,
            )
        return f' s="{style}"><v>{days!r}</v></c>'


def _text(value: str) -> str:
    return f'<t xml:space="preserve">{escape(value)}</t>'


def _days(value: Any) -> tuple[int, float]:
    """Return the style and the number of a date or time, in days after 1899; style 0 if inexact."""
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
    '<Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_KIND}.sheet.main+xml"/>'
    f'<Override PartName="/xl/styles.xml" ContentType="{_KIND}.styles+xml"/>'
    f'<Override PartName="/xl/sharedStrings.xml" ContentType="{_KIND}.sharedStrings+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_KIND}.worksheet+xml"/></Types>',
    "_rels/.rels": f'{_LINKS}<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" '
    'Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
    '<sheet name={title} sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'{_LINKS}<Relationship Id="rId1" Type="{_OFFICE}/worksheet" '
    'Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="rId2" Type="{_OFFICE}/styles" Target="styles.xml"/>'
    f'<Relationship Id="rId3" Type="{_OFFICE}/sharedStrings" Target="sharedStrings.xml"/>'
    "</Relationships>",
    "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><fonts count="1"><font><sz val="11"/>'
    '<name val="Calibri"/></font></fonts>'
    '<fills count="2"><fill><patternFill patternType="none"/></fill>'
    '<fill><patternFill patternType="gray125"/></fill></fills>'
    '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>'
    f'<cellXfs count="5">{_FORMATS}</cellXfs>'
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>'
    "</styleSheet>",
}
