"""Files to tables, within limits of size; how text is read is guessed, and shown."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from r2b._files import format_of, table_of
from r2b._files.arrow import pyarrow, unfolded_bytes
from r2b._files.formats import Format, unpacked_within
from r2b._files.text import decompress, megabytes, refuse_growth
from r2b.datasets import load_adult
from r2b.engines.files import FileSource
from r2b.errors import DamagedFileError, FileTooLargeError, InputError, ParameterError, R2BError

ENCODINGS = {
    "utf-8": "UTF-8",
    "cp1252": "Windows (Western Europe)",
    "latin-1": "Latin-1",
    "utf-16": "UTF-16",
    "cp1250": "Windows (Central Europe)",
}
ENCODINGS |= {
    "cp1251": "Windows (Cyrillic)",
    "shift_jis": "Shift JIS",
    "gb18030": "GB 18030",
    "mac_roman": "Mac",
}
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
GROWTH = 5  # times the limit of an upload that it may grow to when it is unpacked


async def body_within(stream: AsyncIterator[bytes], limit: int) -> bytes:
    """Read what is sent, within a limit.

    More is read to its end and dropped: a browser shows an answer only after it has sent all.

    Raises
    ------
    FileTooLargeError
        Says how much was sent and how much is taken.
    """
    content, total = bytearray(), 0
    async for chunk in stream:
        total += len(chunk)
        if total <= limit:
            content += chunk
        else:
            content.clear()
    if total > limit:
        raise too_large(f"The file has {megabytes(total)}", limit, total)
    return bytes(content)


def too_large(found: str, limit: int, size: int) -> FileTooLargeError:
    """Say that a file is too large, and what can be done."""
    return FileTooLargeError(
        f"{found}, and this app takes {megabytes(limit)}.",
        remedy="Start it with a larger --max-upload, or use r2b on the command line.",
        control="file",
        limit=limit,
        size=size,
    )


@dataclass(frozen=True)
class Reading:
    """How a file is read: what was said, the rest guessed.

    Attributes
    ----------
    encoding, delimiter, sheet : str
        Empty where it is to be guessed, or does not matter.
    """

    encoding: str = ""
    delimiter: str = ""
    sheet: str = ""

    @classmethod
    def of(cls, asked: Any) -> Reading:
        """Read what a request says; what is no text says nothing.

        Raises
        ------
        ParameterError
            An encoding that is not among those offered: not every codec of Python reads text.
        """
        found = {name: asked.get(name) or "" for name in ("encoding", "delimiter", "sheet")}
        made = cls(
            **{name: value if isinstance(value, str) else "" for name, value in found.items()}
        )
        if made.encoding and made.encoding not in ENCODINGS:
            remedy = f"Choose one of {', '.join(ENCODINGS)}."
            raise ParameterError(
                f"The encoding is {made.encoding!r}.",
                remedy=remedy,
                control="file",
                encoding=made.encoding,
            )
        return made

    def arguments(self) -> dict[str, str]:
        """Return what is known, as :func:`r2b.scan` takes it."""
        usual = {"encoding": "utf-8", "delimiter": ","}
        known = {
            name: getattr(self, name)
            for name in ("encoding", "delimiter", "sheet")
            if getattr(self, name) != usual.get(name)
        }
        return {name: value for name, value in known.items() if value}


def guessed(content: bytes, kind: str, asked: Reading) -> Reading:
    r"""Guess how text is written where nobody said.

    Examples
    --------
    >>> guessed("Größe;a, b\n1;2\n".encode("cp1252"), "csv", Reading())
    Reading(encoding='cp1252', delimiter=';', sheet='')
    >>> guessed(b"a,b\n1,2\n", "csv", Reading())
    Reading(encoding='utf-8', delimiter=',', sheet='')
    """
    encoding = asked.encoding or _encoding_of(content)
    delimiter = asked.delimiter
    if kind == "csv" and not delimiter:
        with suppress(csv.Error):
            delimiter = _delimiter_of(
                content[: 1 << 16].decode(encoding, "ignore"), whole=len(content) <= 1 << 16
            )
    return replace(asked, encoding=encoding, delimiter=delimiter if kind == "csv" else "")


def _encoding_of(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    for name in ("utf-8", "cp1252", "latin-1") if b"\0" not in content else ("utf-8",):
        with suppress(UnicodeDecodeError):
            content.decode(name)
            return name
    return "utf-8"  # whose error says which byte is none


def _delimiter_of(text: str, *, whole: bool) -> str:
    """Return the mark that cuts the first lines into equally many fields, a comma first."""
    lines = text.splitlines()
    lines = lines[: 50 if whole or len(lines) > 50 else len(lines) - 1]
    found = [
        mark
        for mark in DELIMITERS
        if len({len(row) for row in csv.reader(lines, delimiter=mark) if row} - {1}) == 1
    ]
    even = [
        mark
        for mark in found
        if len({len(row) for row in csv.reader(lines, delimiter=mark) if row}) == 1
    ]
    return even[0] if even else ""


def read_upload(
    name: str, content: bytes, limit: int, asked: Reading | None = None
) -> tuple[FileSource, Reading]:
    """Read a table from what was sent; give it with how it was read.

    Raises
    ------
    InputError
        It is empty, damaged, too large when it is unpacked, or not what its name says.
    ParameterError
        Its name does not tell a format, or it has several sheets.
    """
    # Only the last part: a browser may send a path, and names are shown.
    name = name.replace("\\", "/").rpartition("/")[2].strip() or "upload"
    found = format_of(name) if "." in name else None
    try:
        with unpacked_within(GROWTH * limit):
            source, reading = _opened(name, content, found, GROWTH * limit, asked or Reading())
            return checked(source), reading
    except FileTooLargeError as error:
        size = error.facts.get("size")
        if not isinstance(size, int):  # it takes too much time or memory, and says so
            raise
        raise too_large(
            f"{name} grows to more than {megabytes(GROWTH * limit)} when it is unpacked",
            limit,
            size,
        ) from error
    except R2BError as error:
        if isinstance(error, ParameterError) and "sheets" not in error.facts:
            raise
        raise error.changed(control="file") from error


def opened_file(path: Path) -> tuple[FileSource, Reading]:
    """Open a file of this machine; the encoding of plain text is guessed."""
    found = (
        FileSource.open(path)
        if not (shape := format_of(path.name)) or not shape.is_text or shape.compression
        else None
    )
    if found is not None:
        return checked(found), Reading()
    assert shape is not None
    head = b""
    if path.is_file():
        with open(path, "rb") as file:
            head = file.read(_SEEN)
    reading = guessed(head, shape.kind, Reading())
    return checked(FileSource.open(path, **_text_arguments(reading))), reading


def read_again(source: FileSource, asked: Reading) -> tuple[FileSource, Reading]:
    """Read text that is open in another way.

    Raises
    ------
    InputError
        It cannot be read so.
    """
    place, format = source.listing.parts[0], source.listing.format
    with open(place.path, "rb") as file:
        reading = guessed(file.read(_SEEN), format.kind, asked)
        file.seek(0)
        # A file of this machine is read where it lies; what was sent is held in memory, and copied
        # there.
        stream = None if place.held is None else io.BytesIO(file.read())
    found = FileSource.open(
        place.path if stream is None else place.name,
        str(format),
        stream=stream,
        **_text_arguments(reading),
    )
    return checked(found), reading


def preview(source: FileSource, first: int = 5) -> list[list[str]]:
    """Return the first rows of a table, as text."""
    batch = next(source.batches(None), None)
    columns = (
        []
        if batch is None
        else [column.slice(0, first).to_pylist() for column in batch.record.columns]
    )
    return [
        ["" if value is None else str(value)[:40] for value in row]
        for row in zip(*columns, strict=True)
    ]


def checked(source: FileSource) -> FileSource:
    """Read every row once, so that errors in a file are found when it is opened."""
    source = replace(source, spelled=True)
    if not source.names or not sum(source.run(None, len)):
        raise InputError(f"{source.name} has no rows.", remedy="Pass a file with at least one.")
    return source


def _text_arguments(reading: Reading) -> dict[str, Any]:
    return {"encoding": reading.encoding or "utf-8", "delimiter": reading.delimiter or None}


def _opened(
    name: str, content: bytes, format: Format | None, most: int, asked: Reading
) -> tuple[FileSource, Reading]:
    """Open text here, and other formats, which may break their reader, in another process."""
    if format is not None and (not format.is_text or format.compression == "zst"):
        clean, content = parsed(content, name, format, most, asked.sheet)
        if not clean.is_text:
            return FileSource.open(name, str(clean), stream=io.BytesIO(content)), Reading(
                sheet=asked.sheet
            )
        format = clean
    elif format is None or format.compression:
        source = FileSource.open(name, stream=io.BytesIO(content))
        format = source.listing.format
        if format.compression:
            # Unpacked as a whole, within the limit: what is read part by part has none.
            content = decompress(content, format.compression, name)
    reading = guessed(content, format.kind, asked)
    return FileSource.open(
        name, format.kind, stream=io.BytesIO(content), **_text_arguments(reading)
    ), reading


_SEEN = 1 << 26  # bytes of a file of this machine by which its encoding is guessed


def open_adult() -> FileSource:
    """Open the Adult data; numbers are numbers."""
    return checked(
        FileSource.open(
            "adult.arrow", stream=io.BytesIO(table_of(load_adult().columns, Format("arrow")))
        )
    )


CHILD = "from r2b.app.files import child; child()"
SECONDS = 60


def parsed(
    content: bytes, name: str, format: Format, most: int, sheet: str = ""
) -> tuple[Format, bytes]:
    """Read a file in another process.

    Parameters
    ----------
    content : bytes
    name : str
    format : Format
    most : int
        Bytes that it may grow to.
    sheet : str
        Of a workbook; empty for the only one.

    Returns
    -------
    Format
        Of the bytes that follow: text without compression, or Arrow.
    bytes

    Raises
    ------
    DamagedFileError
        It cannot be read, or the process that read it broke down.
    FileTooLargeError
        It grows beyond the limit, or takes too much memory or time.
    """
    asked = {
        "name": name,
        "kind": format.kind,
        "compression": format.compression,
        "most": most,
        "n_bytes": len(content),
    }
    asked["sheet"] = sheet
    command = [sys.executable, "-c", CHILD]
    # One thread and the plain allocator: threads and pools take address space, which is what is
    # limited.
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    env["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
    try:
        done = subprocess.run(
            command,
            input=json.dumps(asked).encode() + b"\n" + content,
            capture_output=True,
            env=env,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        problem = f"{name} takes more than {SECONDS} seconds to read."
        raise FileTooLargeError(
            problem, remedy="Send a part of its rows, or use r2b on the command line.", path=name
        ) from None
    line, _, rest = done.stdout.partition(b"\n")
    if done.returncode != 0 or not line:
        ending = (
            f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        )
        raise DamagedFileError(
            f"{name} is damaged: the program that reads {format} ended on it, with {ending}.",
            remedy="Check that the file is whole; write it again where it is not.",
            path=name,
            returncode=done.returncode,
        )
    answer = json.loads(line)
    if "error" in answer:
        kinds: dict[str, type[R2BError]] = {
            kind.__name__: kind for kind in (DamagedFileError, FileTooLargeError, ParameterError)
        }
        raise kinds.get(answer["error"], InputError)(
            answer["problem"], remedy=answer["remedy"], **answer["facts"]
        )
    return Format(answer["kind"]), rest


def child() -> None:
    """Read one file from standard input and write what it holds to standard output."""
    line, _, content = sys.stdin.buffer.read().partition(b"\n")
    asked = json.loads(line)
    # Up to four copies of a table are held while it is read.
    _confine((1 << 30) + 4 * (asked["most"] + asked["n_bytes"]))
    out = sys.stdout.buffer
    try:
        with unpacked_within(asked["most"]):
            kind, body = _normal(
                content,
                asked["name"],
                Format(asked["kind"], asked["compression"]),
                asked["sheet"] or None,
            )
        answer: dict[str, Any] = {"kind": kind}
    except R2BError as error:
        facts = {
            key: value for key, value in error.facts.items() if isinstance(value, (str, int, list))
        }
        answer, body = (
            {
                "error": type(error).__name__,
                "problem": error.problem,
                "remedy": error.remedy,
                "facts": facts,
            },
            b"",
        )
    except MemoryError:
        problem = f"{asked['name']} takes more memory than the app gives to one file."
        answer, body = (
            {
                "error": "FileTooLargeError",
                "problem": problem,
                "remedy": "Use r2b on the command line.",
                "facts": {},
            },
            b"",
        )
    out.write(json.dumps(answer).encode() + b"\n")
    out.write(body)
    out.flush()
    # No clean-up: memory that the file has damaged is not walked once more.
    os._exit(0)


def _normal(content: bytes, name: str, format: Format, sheet: str | None) -> tuple[str, Any]:
    if format.is_text:
        return format.kind, decompress(content, format.compression, name)
    arrow, source = (
        pyarrow(),
        FileSource.open(name, str(format), sheet=sheet, threads=1, stream=io.BytesIO(content)),
    )
    sink, total = io.BytesIO(), 0
    writer = None
    for batch in source.batches(None):
        total += unfolded_bytes(batch.record)
        refuse_growth(name, len(content), total)
        writer = writer or arrow.ipc.new_stream(sink, batch.record.schema)
        writer.write_batch(batch.record)
    if writer is None:
        writer = arrow.ipc.new_stream(sink, source.files[0].schema)
    writer.close()
    return "arrow", sink.getbuffer()


def _confine(memory: int) -> None:
    """Bound the memory and the time of this process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    with (
        open("/proc/self/statm", "rb")
        if os.path.exists("/proc/self/statm")
        else io.BytesIO(b"0") as file
    ):
        used = int(file.read().split()[0]) * resource.getpagesize()
    for what, most in (
        (resource.RLIMIT_AS, used + memory),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(
            what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
        )
