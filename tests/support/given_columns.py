"""Tables written with columns that a test gives, through what writes labels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from r2b._files.formats import Format
from r2b.engines.batch import Batch
from r2b.engines.files import FileSource
from r2b.engines.files.writing import write_stream
from r2b.engines.roles import ColumnRoles
from r2b.engines.source import NewColumns


def of(content: bytes | str, name: str = "t.csv", **options: Any) -> FileSource:
    """Open some bytes as a file of this name."""
    return FileSource.open(
        name,
        stream=io.BytesIO(content.encode() if isinstance(content, str) else content),
        **options,
    )


def column(source: FileSource, name: str) -> list[Any]:
    """Return a whole column."""
    found: list[Any] = source.columns([name])[name].to_pylist()
    return found


class Given:
    """What makes new columns of rows, from columns given whole; ``rows`` repeats rows, each at
    least once and in order.
    """

    form, rows_at_once = "round", 1 << 20

    def __init__(
        self,
        source: FileSource,
        new: dict[str, Any],
        rows: Sequence[int] | None,
        values: Sequence[Any] = (),
    ) -> None:
        mixed = getattr(source.files[0], "mixed", ())
        label = next(
            name for name in source.names if source.names.count(name) == 1 and name not in mixed
        )
        self.names, self.needed = tuple(new), (label,)
        self.new, self.rows = (
            {name: pa.array(values) for name, values in new.items()},
            None if rows is None else np.array(rows),
        )
        vocabulary = SimpleNamespace(values=np.array(values, dtype=object))
        schema = SimpleNamespace(classes=vocabulary, columns=(), vocabularies=())
        self.roles = ColumnRoles((label,), False, ())
        self.decode = SimpleNamespace(schema=schema)

    def __call__(self, batch: Batch) -> NewColumns:
        """Return the new columns of a batch."""
        if self.rows is None:
            return NewColumns(
                {name: column.slice(batch.first, len(batch)) for name, column in self.new.items()}
            )
        mine = np.flatnonzero((self.rows >= batch.first) & (self.rows < batch.first + len(batch)))
        return NewColumns(
            {name: column.take(pa.array(mine)) for name, column in self.new.items()},
            self.rows[mine] - batch.first,
        )


def encoded(
    source: FileSource,
    new: dict[str, Any],
    shape: Format | None = None,
    rows: Sequence[int] | None = None,
) -> bytes:
    """Return a table with new columns as the bytes of a file, in its own format by default."""
    sink = io.BytesIO()
    made: Any = Given(source, new, rows)
    write_stream(source, made, sink, str(shape or source.listing.format))
    return sink.getvalue()
