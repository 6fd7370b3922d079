"""Files are opened by their format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from r2b._files.formats import Format, opened, seen_instead
from r2b._files.text import refuse_growth
from r2b.engines.files.delimited import DelimitedStored
from r2b.engines.files.jsonl import JsonStored
from r2b.engines.files.listing import Part
from r2b.engines.files.reading import Stored, reading
from r2b.engines.files.typed import ArrowStored, ParquetStored, WorkbookStored
from r2b.engines.spool import copied
from r2b.errors import DamagedFileError


def open_stored(
    part: Part,
    shape: Format,
    delimiter: str | None,
    na: Sequence[str],
    encoding: str,
    scratch: str | None,
    sheet: str | None = None,
) -> Stored:
    """Open a file of any format; a compressed one that is no text is first unpacked to scratch.

    Raises
    ------
    InputError
        It is damaged.
    FileTooLargeError
        It grows beyond the limit of :mod:`r2b._files.formats`.
    """
    packed = part.path
    try:
        if not shape.is_text and shape.compression:
            size = os.path.getsize(packed)
            with reading(part), opened(packed, shape.compression) as file:
                path, held = copied(
                    part.name,
                    file.read,
                    scratch,
                    lambda total: refuse_growth(part.name, size, total),
                )
            part = replace(part, path=path, held=held)
        made: Stored
        match shape.kind:
            case "csv" | "tsv":
                made = DelimitedStored(part, shape, delimiter, na, encoding)
            case "jsonl":
                made = JsonStored(part, shape, encoding)
            case "parquet":
                made = ParquetStored(part)
            case "arrow":
                made = ArrowStored(part)
            case _:
                made = WorkbookStored(part, sheet)
        with reading(part):
            list(made.schema.names)  # names may be damaged text, which is only read here
        return made
    except DamagedFileError as error:
        with open(packed, "rb") as file:
            seen = seen_instead(file.read(64), shape)
        if seen is None:
            raise
        problem = f"{part.name} cannot be read as {shape}. {seen[0]}."
        raise error.changed(problem=problem, remedy=seen[1]) from error
