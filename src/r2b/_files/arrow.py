"""Arrow: checks of what the library reads, and what the messages of its files say of themselves.

What a file says about itself is not to be believed: an offset that points outside of its buffer
makes Arrow read memory that is not there, and the process ends. So :func:`sound` comes before any
other use of what was read.

For the codec of a message and the size that it unpacks to, Arrow has no function. The metadata of a
message are a flatbuffer: Message.header (field 2) is a RecordBatch, or a DictionaryBatch whose
field 1 is one. A RecordBatch has its buffers in field 2, as pairs of offset and length, and a
BodyCompression in field 3, whose field 0 is the codec. A compressed buffer begins with the size
that it unpacks to.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from typing import Any

from r2b.errors import require

MAGIC = b"ARROW1"
_CODECS = {0: "lz4", 1: "zstd"}


@cache
def pyarrow() -> Any:
    """Import the library, or say what to install."""
    return require("pyarrow", "Tables in files need pyarrow", extra="frames")


def pyarrow_compute() -> Any:
    """Import the part of the library that computes."""
    return importlib.import_module("pyarrow.compute")


def first_line(cause: Exception) -> str:
    """Return the first line of what another library says, without its full stop."""
    return str(cause).splitlines()[0].rstrip(". ") if str(cause).strip() else type(cause).__name__


def sound(data: Any) -> Any:
    """Return a table or a record batch after checking all of it: offsets, codes and text.

    Raises
    ------
    pyarrow.ArrowInvalid
        It is damaged.
    """
    data.validate(full=True)
    return data


def unfolded_bytes(data: Any) -> int:
    """Return the bytes of a table with every value written out.

    A code of a dictionary, or a run, can stand for a text of any length.

    Parameters
    ----------
    data : pyarrow.Table or pyarrow.RecordBatch
        That is sound.

    Examples
    --------
    >>> import pyarrow
    >>> column = pyarrow.array(["long text"] * 1000).dictionary_encode()
    >>> unfolded_bytes(pyarrow.table({"x": column})) >= 9000
    True
    """
    chunks = [chunk for column in data.columns for chunk in getattr(column, "chunks", [column])]
    return sum(map(_unfolded, chunks))


def _unfolded(array: Any) -> int:
    arrow, compute, kind = pyarrow(), pyarrow_compute(), array.type
    # A value takes a byte at the least, also where a file holds no bytes for it at all.
    least = max(int(array.nbytes), len(array))
    if arrow.types.is_dictionary(kind):
        return max(
            least, int(compute.sum(_lengths(array.dictionary).take(array.indices)).as_py() or 0)
        )
    if arrow.types.is_run_end_encoded(kind):
        return max(least, len(array) * int(compute.max(_lengths(array.values)).as_py() or 0))
    if str(kind) in ("string_view", "binary_view"):
        return max(least, int(compute.sum(_lengths(array)).as_py() or 0))
    if arrow.types.is_list_view(kind) or arrow.types.is_large_list_view(kind):
        values = int(compute.sum(compute.list_value_length(array)).as_py() or 0)
        return max(least, values * int(compute.max(_lengths(array.values)).as_py() or 0))
    if (
        arrow.types.is_list(kind)
        or arrow.types.is_large_list(kind)
        or arrow.types.is_fixed_size_list(kind)
    ):
        return max(least, _unfolded(array.flatten()))
    if arrow.types.is_struct(kind):
        return max(least, sum(map(_unfolded, array.flatten())))
    return least


def _lengths(values: Any) -> Any:
    """Return the bytes of each value; of a nested one an upper bound."""
    arrow, compute, kind = pyarrow(), pyarrow_compute(), values.type
    # few at a time: views may all look at the same long text
    if str(kind) in ("string_view", "binary_view"):
        plain = arrow.large_string() if str(kind) == "string_view" else arrow.large_binary()
        parts = [
            _lengths(values.slice(first, 4096).cast(plain)) for first in range(0, len(values), 4096)
        ]
        return arrow.chunked_array(parts, arrow.int64())
    if str(kind) in ("string", "large_string", "binary", "large_binary"):
        return compute.binary_length(values).cast(arrow.int64())
    return arrow.repeat(
        arrow.scalar(
            max(int(values.nbytes), 1) if arrow.types.is_nested(kind) else 8, arrow.int64()
        ),
        len(values),
    )


def batch_messages(arrow: Any, source: Any) -> Iterator[Any]:
    """Yield the messages that hold record batches and dictionaries.

    Parameters
    ----------
    arrow : module
    source : pyarrow.NativeFile
        A file or a stream, at its start.
    """
    if source.read(len(MAGIC)) == MAGIC:
        source.seek(8)  # the magic word and its padding: messages follow as in a stream
    else:
        source.seek(0)
    for message in arrow.ipc.MessageReader.open_stream(source):
        if message.type in ("record batch", "dictionary"):
            yield message


def codec_of(message: Any) -> str | None:
    """Tell how a message is compressed: "lz4", "zstd" or None."""
    metadata = message.metadata.to_pybytes()
    squeezed = _compression(metadata, _batch(message, metadata))
    if squeezed is None:
        return None
    codec = _field(metadata, squeezed, 0)
    return _CODECS.get(0 if codec is None else _integer(metadata, codec, 1))


def unpacked_bytes(message: Any) -> int:
    """Return the bytes that a message unpacks to."""
    body = message.body
    metadata = message.metadata.to_pybytes()
    batch = _batch(message, metadata)
    if batch is None or _compression(metadata, batch) is None:
        return int(body.size)
    place = _field(metadata, batch, 2)
    if place is None:
        return 0
    vector = _followed(metadata, place)
    total = 0
    for each in range(_integer(metadata, vector, 4)):
        pair = vector + 4 + 16 * each
        offset, length = _integer(metadata, pair, 8), _integer(metadata, pair + 8, 8)
        if length >= 8 and 0 <= offset <= body.size - 8:
            size = _integer(body[offset : offset + 8].to_pybytes(), 0, 8)
            total += length if size < 0 else size
    return total


def _batch(message: Any, metadata: bytes) -> int | None:
    """Return the place of the RecordBatch."""
    header = _table(metadata, _integer(metadata, 0, 4), 2)
    return (
        header if header is None or message.type == "record batch" else _table(metadata, header, 1)
    )


def _compression(metadata: bytes, batch: int | None) -> int | None:
    return None if batch is None else _table(metadata, batch, 3)


def _table(buffer: bytes, table: int, number: int) -> int | None:
    place = _field(buffer, table, number)
    return None if place is None else _followed(buffer, place)


def _field(buffer: bytes, table: int, number: int) -> int | None:
    """Return the place of a field of a flatbuffer table; None where it has its default."""
    layout = table - _integer(buffer, table, 4)
    slot = 4 + 2 * number
    if slot >= _integer(buffer, layout, 2):
        return None
    offset = _integer(buffer, layout + slot, 2)
    return table + offset if offset else None


def _followed(buffer: bytes, place: int) -> int:
    return place + _integer(buffer, place, 4)


def _integer(buffer: bytes, place: int, size: int) -> int:
    return int.from_bytes(buffer[place : place + size], "little", signed=size != 2)
