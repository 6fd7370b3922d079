"""Workbooks as files of a table: a sheet is read once into an Arrow file in memory, and leaves as a new workbook."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from r2b._files.arrow import pyarrow
from r2b._files.workbook import SheetWriter, read_sheet
from r2b.engines.files.listing import Part
from r2b.engines.files.outs import Out
from r2b.engines.files.typed import ArrowStored
from r2b.engines.spool import copied


class WorkbookStored(ArrowStored):
    """A sheet of a workbook.

    Parameters
    ----------
    part : Part
    sheet : str, optional
        Its name; may be left out where only one has cells.

    Attributes
    ----------
    sheet : str
    """

    def __init__(self, part: Part, sheet: str | None = None) -> None:
        with open(part.path, "rb") as file:
            self.sheet, table = read_sheet(file, part.name, sheet)
        sink = io.BytesIO()
        with pyarrow().ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        sink.seek(0)
        path, held = copied(part.name, sink.read, None, in_memory=True)
        super().__init__(replace(part, path=path, held=held))
        self.n_rows = table.num_rows


class WorkbookOut(Out):
    """A workbook that is being written.

    Parameters
    ----------
    target, compression
        As for :class:`Out`.
    names : sequence of str
    title : str
        Of its sheet.
    """

    def __init__(
        self, target: Path | BinaryIO, compression: str, names: Sequence[str], title: str
    ) -> None:
        super().__init__(target, compression)
        with self.abandoned_on_error():
            self._writer = SheetWriter(self._file, names, title)

    def take(self, piece: list[tuple[str, Any]]) -> None:
        """Write some rows."""
        for _, record in piece:
            self._writer.take(record)
