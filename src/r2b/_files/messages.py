"""What the messages of an Arrow file say about themselves, for which Arrow has no function: their codec, and the size they unpack to.

The metadata of a message are a flatbuffer. Message.header (field 2) is a RecordBatch, or a DictionaryBatch whose field 1 is one. A
RecordBatch has its buffers in field 2, as pairs of offset and length, and a BodyCompression in field 3, whose field 0 is the codec. A
compressed buffer begins with the size that it unpacks to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MAGIC = b"ARROW1"
_CODECS = {0: "lz4", 1: "zstd"}


def batch_messages(arrow: Any, source: Any) -> Iterator[Any]:
    """Give the messages that hold record batches and dictionaries.

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
    """Give the bytes that a message unpacks to; what is not compressed has the size it has in the file."""
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
            told = _integer(body[offset : offset + 8].to_pybytes(), 0, 8)
            total += length if told < 0 else told
    return total


def _batch(message: Any, metadata: bytes) -> int | None:
    """Give the place of the RecordBatch."""
    header = _table(metadata, _integer(metadata, 0, 4), 2)
    return header if header is None or message.type == "record batch" else _table(metadata, header, 1)


def _compression(metadata: bytes, batch: int | None) -> int | None:
    return None if batch is None else _table(metadata, batch, 3)


def _table(buffer: bytes, table: int, number: int) -> int | None:
    place = _field(buffer, table, number)
    return None if place is None else _followed(buffer, place)


def _field(buffer: bytes, table: int, number: int) -> int | None:
    """Give the place of a field of a flatbuffer table; None where it has its default."""
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
