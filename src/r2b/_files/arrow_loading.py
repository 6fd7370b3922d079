"""Parquet and Arrow files into memory: every batch is checked in full before anything looks into it, and growth is bounded.

What a file says about itself is not to be believed: an offset that points outside of its buffer makes Arrow read memory that is not there,
and the process ends. So :func:`sound` comes before any other use of what was read.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from r2b._files.arrow import pyarrow
from r2b._files.limits import most_unpacked, refuse_growth
from r2b._files.messages import MAGIC, batch_messages, unpacked_bytes

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_FEW_ROWS = 4096  # of a batch whose values may be of any length


def sound(data: Any) -> Any:
    """Give a table or a record batch back after all of it was checked: offsets, codes of dictionaries, text.

    Raises
    ------
    pyarrow.ArrowInvalid
        It is damaged.
    """
    data.validate(full=True)
    return data


def load(content: bytes, name: str, kind: str) -> Any:
    """Read a Parquet file, an Arrow file or an Arrow stream into a table.

    Raises
    ------
    FileTooLargeError
        It grows beyond the limit.
    pyarrow.ArrowException, OSError
        It is damaged.
    """
    arrow, total = pyarrow(), 0
    pieces = _row_groups(content, name) if kind == "parquet" else _record_batches(arrow, content, name)
    schema, tables = next(pieces), []
    list(schema.names)  # text too, and read only when it is asked for
    for piece in pieces:
        total += unfolded_bytes(sound(piece))
        refuse_growth(name, len(content), total)
        tables.append(piece)
    return arrow.Table.from_batches([batch for table in tables for batch in table.to_batches()], schema)


def _record_batches(arrow: Any, content: bytes, name: str) -> Iterator[Any]:
    source = arrow.BufferReader(content)
    refuse_growth(name, len(content), sum(map(unpacked_bytes, batch_messages(arrow, source))))
    streamed = not content.startswith(MAGIC)
    with (arrow.ipc.open_stream if streamed else arrow.ipc.open_file)(arrow.BufferReader(content)) as reader:
        yield reader.schema
        batches = reader if streamed else (reader.get_batch(number) for number in range(reader.num_record_batches))
        for batch in batches:
            # Before a table is made of it, which looks at lengths only.
            sound(batch)
            yield arrow.Table.from_batches([batch])


def _row_groups(content: bytes, name: str) -> Iterator[Any]:
    parquet, arrow = importlib.import_module("pyarrow.parquet"), pyarrow()
    # As one file: a reader of datasets would take columns of the same name for one.
    with parquet.ParquetFile(arrow.BufferReader(content), page_checksum_verification=True) as file:
        chunks = list(_column_chunks(file))
        refuse_growth(name, len(content), sum(_told(chunk, length) for chunk, length in chunks))
        worst = sum(chunk.num_values * chunk.total_uncompressed_size for chunk, _ in chunks if chunk.physical_type == "BYTE_ARRAY")
        if worst > most_unpacked():
            _refuse_long_texts(parquet, content, name, file.schema_arrow)
        yield file.schema_arrow
        for number in range(file.metadata.num_row_groups):
            yield file.read_row_group(number)


def _column_chunks(file: Any) -> Iterator[tuple[Any, int]]:
    """Give what the footer says about every column of every row group, and the length of its values where they have one."""
    footer = file.metadata
    for number in range(footer.num_row_groups):
        # To ask a damaged footer about a column ends the process, to read from it raises an error. So a row is read first.
        for _ in file.iter_batches(1, [number]):
            break
        else:
            continue
        group = footer.row_group(number)
        for place in range(group.num_columns):
            yield group.column(place), footer.schema.column(place).length


def _told(chunk: Any, length: int) -> int:
    """Give the bytes of the pages unpacked, or of every value written out where that is more."""
    return int(max(chunk.total_uncompressed_size, chunk.num_values * _WIDTHS.get(chunk.physical_type, max(length, 4))))


def _refuse_long_texts(parquet: Any, content: bytes, name: str, schema: Any) -> None:
    """Refuse text that is short in the file because it repeats: read as codes it stays short, and its size can be counted."""
    arrow = pyarrow()
    texts = [field.name for field in schema if _is_text(arrow, field.type)]
    if not texts or len(set(schema.names)) < len(schema):
        return
    total = 0
    with parquet.ParquetFile(arrow.BufferReader(content), read_dictionary=texts) as coded:
        for batch in coded.iter_batches(_FEW_ROWS, columns=texts):
            total += unfolded_bytes(sound(batch))
            refuse_growth(name, len(content), total)


def _is_text(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind))


def unfolded_bytes(data: Any) -> int:
    """Give the bytes of a table with every value written out: a code, or a run, stands for a text of any length.

    Parameters
    ----------
    data : pyarrow.Table or pyarrow.RecordBatch
        That is sound.

    Examples
    --------
    >>> import pyarrow
    >>> unfolded_bytes(pyarrow.table({"x": pyarrow.array(["long text"] * 1000).dictionary_encode()})) >= 9000
    True
    """
    chunks = [chunk for column in data.columns for chunk in getattr(column, "chunks", [column])]
    return sum(map(_unfolded, chunks))


def _unfolded(array: Any) -> int:
    arrow, compute, kind = pyarrow(), importlib.import_module("pyarrow.compute"), array.type
    # A value takes a byte at the least, also where a file holds no bytes for it at all.
    least = max(int(array.nbytes), len(array))
    if arrow.types.is_dictionary(kind):
        return max(least, int(compute.sum(_lengths(array.dictionary).take(array.indices)).as_py() or 0))
    if arrow.types.is_run_end_encoded(kind):
        return max(least, len(array) * int(compute.max(_lengths(array.values)).as_py() or 0))
    if str(kind) in ("string_view", "binary_view"):
        return max(least, int(compute.sum(_lengths(array)).as_py() or 0))
    if arrow.types.is_list_view(kind) or arrow.types.is_large_list_view(kind):
        values = int(compute.sum(compute.list_value_length(array)).as_py() or 0)
        return max(least, values * int(compute.max(_lengths(array.values)).as_py() or 0))
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind):
        return max(least, _unfolded(array.flatten()))
    if arrow.types.is_struct(kind):
        return max(least, sum(map(_unfolded, array.flatten())))
    return least


def _lengths(values: Any) -> Any:
    """Give the bytes of each value; of a nested one all that there are, which is more than it has."""
    arrow, compute, kind = pyarrow(), importlib.import_module("pyarrow.compute"), values.type
    if str(kind) in ("string_view", "binary_view"):  # few at a time: views may all look at the same long text
        plain = arrow.large_string() if str(kind) == "string_view" else arrow.large_binary()
        parts = [_lengths(values.slice(first, _FEW_ROWS).cast(plain)) for first in range(0, len(values), _FEW_ROWS)]
        return arrow.chunked_array(parts, arrow.int64())
    if _is_text(arrow, values.type):
        return compute.binary_length(values).cast(arrow.int64())
    return arrow.repeat(arrow.scalar(max(int(values.nbytes), 1) if arrow.types.is_nested(kind) else 8, arrow.int64()), len(values))
