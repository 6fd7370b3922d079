"""Arrow: checks of what the library reads, and what the messages of its files say of themselves.

What a file says about itself is not to be believed: an offset that points outside of its buffer
makes Arrow read memory that is not there, and the process ends. So :func:`sound` comes before any
other use of what was read.

Arrow has no function for the codec of a message and the size that it unpacks to. The metadata of a
message are a flatbuffer: Message.header (field 2) is a RecordBatch, or a DictionaryBatch whose
field 1 is one. A RecordBatch has its buffers in field 2, as pairs of offset and length, and a
BodyCompression in field 3, whose field 0 is the codec. A compressed buffer begins with the size
that it unpacks to.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from r2b.errors import require

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
    compute, types, kind, unfolded = pyarrow_compute(), pyarrow().types, array.type, 0
    if types.is_dictionary(kind):
        unfolded = _largest(compute.sum, _lengths(array.dictionary).take(array.indices))
    elif types.is_run_end_encoded(kind):
        unfolded = len(array) * _largest(compute.max, _lengths(array.values))
    elif types.is_list_view(kind) or types.is_large_list_view(kind):
        n_values = _largest(compute.sum, compute.list_value_length(array))
        unfolded = n_values * _largest(compute.max, _lengths(array.values))
    elif str(kind) in _VIEWS:
        unfolded = _largest(compute.sum, _lengths(array))
    elif hasattr(array, "flatten"):  # lists have one child, structs a list of them
        inner = array.flatten()
        unfolded = sum(map(_unfolded, inner if isinstance(inner, list) else [inner]))
    # A value takes a byte at the least, also where a file holds no bytes for it at all.
    return max(int(array.nbytes), len(array), unfolded)


def _largest(reduce: Any, sizes: Any) -> int:
    return int(reduce(sizes).as_py() or 0)


_VIEWS = ("string_view", "binary_view")


def _lengths(values: Any) -> Any:
    """Return the bytes of each value; of a nested one an upper bound."""
    arrow, compute, kind = pyarrow(), pyarrow_compute(), str(values.type)
    if kind in _VIEWS:
        # few at a time: views may all look at the same long text
        parts = [values.slice(first, 4096) for first in range(0, len(values), 4096)]
        plain = f"large_{kind.removesuffix('_view')}"
        return arrow.chunked_array([_lengths(part.cast(plain)) for part in parts], arrow.int64())
    if kind.removeprefix("large_") in ("string", "binary"):
        return compute.binary_length(values).cast(arrow.int64())
    most = max(int(values.nbytes), 1) if arrow.types.is_nested(values.type) else 8
    return arrow.repeat(arrow.scalar(most, arrow.int64()), len(values))


def unpacked(message: Any) -> tuple[str | None, int]:
    """Return how a message is compressed ("lz4", "zstd" or None), and the bytes it unpacks to.

    Parameters
    ----------
    message : pyarrow.ipc.Message
        With a record batch or a dictionary.
    """
    metadata, body = message.metadata.to_pybytes(), message.body
    batch = _table(metadata, _integer(metadata, 0, 4), 2)
    if message.type == "dictionary":
        batch = _table(metadata, batch, 1)
    packing, buffers = _table(metadata, batch, 3), _table(metadata, batch, 2)
    if not packing:
        return None, int(body.size)
    codec, total = _field(metadata, packing, 0), 0
    for pair in range(buffers + 4, buffers + 4 + 16 * _integer(metadata, buffers, 4), 16):
        offset, length = _integer(metadata, pair, 8), _integer(metadata, pair + 8, 8)
        if length >= 8 and 0 <= offset <= body.size - 8:
            size = _integer(body[offset : offset + 8].to_pybytes(), 0, 8)
            total += length if size < 0 else size
    return _CODECS.get(_integer(metadata, codec, 1) if codec else 0), total


def _table(buffer: bytes, table: int, number: int) -> int:
    """Return the place of a table, or a vector, that a field of a flatbuffer table points to."""
    place = _field(buffer, table, number)
    return place and place + _integer(buffer, place, 4)


def _field(buffer: bytes, table: int, number: int) -> int:
    """Return the place of a field of a flatbuffer table; 0 for none."""
    layout, slot = table - _integer(buffer, table, 4), 4 + 2 * number
    if not table or slot >= _integer(buffer, layout, 2):
        return 0
    offset = _integer(buffer, layout + slot, 2)
    return offset and table + offset


def _integer(buffer: bytes, place: int, size: int) -> int:
    return int.from_bytes(buffer[place : place + size], "little", signed=size != 2)
