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
        given = {name: asked.get(name) for name in ("encoding", "delimiter", "sheet")}
        made = cls(**{name: text for name, text in given.items() if isinstance(text, str)})
        if made.encoding and made.encoding not in ENCODINGS:
            problem = f"The encoding is {made.encoding!r}."
            remedy = f"Choose one of {', '.join(ENCODINGS)}."
            raise ParameterError(problem, remedy=remedy, control="file", encoding=made.encoding)
        return made

    def arguments(self) -> dict[str, str]:
        """Return what is known, as :func:`r2b.scan` takes it."""
        known = {"encoding": self.encoding, "delimiter": self.delimiter, "sheet": self.sheet}
        usual = ("encoding", "utf-8"), ("delimiter", ",")
        return {name: text for name, text in known.items() if text and (name, text) not in usual}


def guessed(content: bytes, kind: str, asked: Reading) -> Reading:
    r"""Guess how text is written where nobody said.

    Examples
    --------
    >>> guessed("Größe;a, b\n1;2\n".encode("cp1252"), "csv", Reading())
    Reading(encoding='cp1252', delimiter=';', sheet='')
    >>> guessed(b"a,b\n1,2\n", "csv", Reading())
    Reading(encoding='utf-8', delimiter=',', sheet='')
    """
    encoding, delimiter = asked.encoding or _encoding_of(content), ""
    if kind == "csv":
        head = content[: 1 << 16]
        lines = head.decode(encoding, "ignore").splitlines()
        whole = lines if len(head) == len(content) else lines[:-1]
        delimiter = asked.delimiter or _delimiter_of(whole[:50])
    return replace(asked, encoding=encoding, delimiter=delimiter)


def _encoding_of(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    for name in ("utf-8", "cp1252", "latin-1") if b"\0" not in content else ():
        with suppress(UnicodeDecodeError):
            content.decode(name)
            return name
    return "utf-8"  # whose error says which byte is none


def _delimiter_of(lines: list[str]) -> str:
    """Return the mark that cuts lines into equally many fields, a comma first."""
    for mark in DELIMITERS:
        with suppress(csv.Error):
            fields = {len(row) for row in csv.reader(lines, delimiter=mark) if row}
            if len(fields) == 1 and fields != {1}:
                return mark
    return ""


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
        grown = f"{name} grows to more than {megabytes(GROWTH * limit)} when it is unpacked"
        raise too_large(grown, limit, size) from error


def opened_file(path: Path, asked: Reading | None = None) -> tuple[FileSource, Reading]:
    """Open a file of this machine; the encoding of plain text is guessed where nobody said."""
    shape = format_of(path.name)
    if shape is None or not shape.is_text or shape.compression or not path.is_file():
        return checked(FileSource.open(path)), Reading()
    with open(path, "rb") as file:
        reading = guessed(file.read(_SEEN), shape.kind, asked or Reading())
    return checked(FileSource.open(path, **_text_arguments(reading))), reading


def read_again(source: FileSource, asked: Reading) -> tuple[FileSource, Reading]:
    """Read text that is open in another way.

    Raises
    ------
    InputError
        It cannot be read so.
    """
    place, path = source.listing.parts[0], Path(source.listing.parts[0].path)
    if place.held is None:
        return opened_file(path, asked)
    found, reading = _opened_text(place.name, path.read_bytes(), source.listing.format.kind, asked)
    return checked(found), reading


def preview(source: FileSource, first: int = 5) -> list[list[str]]:
    """Return the first rows of a table, as text."""
    rows = next(iter(source.batches(None))).record.slice(0, first).to_pylist()
    return [["" if value is None else str(value)[:40] for value in row.values()] for row in rows]


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
        content = parsed(content, name, format, most, asked.sheet)
        if not format.is_text:
            source = FileSource.open(name, "arrow", stream=io.BytesIO(content))
            return source, Reading(sheet=asked.sheet)
    elif format is None or format.compression:
        format = FileSource.open(name, stream=io.BytesIO(content)).listing.format
        if format.compression:
            # Unpacked as a whole, within the limit: what is read part by part has none.
            content = decompress(content, format.compression, name)
    return _opened_text(name, content, format.kind, asked)


def _opened_text(
    name: str, content: bytes, kind: str, asked: Reading
) -> tuple[FileSource, Reading]:
    reading = guessed(content, kind, asked)
    stream, how = io.BytesIO(content), _text_arguments(reading)
    return FileSource.open(name, kind, stream=stream, **how), reading


_SEEN = 1 << 26  # bytes of a file of this machine by which its encoding is guessed


def open_adult() -> FileSource:
    """Open the Adult data; numbers are numbers."""
    content = table_of(load_adult().columns, Format("arrow"))
    return checked(FileSource.open("adult.arrow", stream=io.BytesIO(content)))


CHILD = "from r2b.app.files import child; child()"
SECONDS = 60


def parsed(content: bytes, name: str, format: Format, most: int, sheet: str = "") -> bytes:
    """Read a file in another process: compressed text as plain text, all else as Arrow.

    Parameters
    ----------
    content : bytes
    name : str
    format : Format
    most : int
        Bytes that it may grow to.
    sheet : str
        Of a workbook; empty for the only one.

    Raises
    ------
    DamagedFileError
        It cannot be read, or the process that read it broke down.
    FileTooLargeError
        It grows beyond the limit, or takes too much memory or time.
    """
    asked: dict[str, Any] = {"name": name, "kind": format.kind, "compression": format.compression}
    asked |= {"most": most, "n_bytes": len(content), "sheet": sheet}
    # One thread and the plain allocator: threads and pools take address space, which is what is
    # limited.
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    env = {**os.environ, **one, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        done = subprocess.run(
            [sys.executable, "-c", CHILD],
            input=json.dumps(asked).encode() + b"\n" + content,
            capture_output=True,
            env=env,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        problem = f"{name} takes more than {SECONDS} seconds to read."
        remedy = "Send a part of its rows, or use r2b on the command line."
        raise FileTooLargeError(problem, remedy=remedy, path=name) from None
    line, _, rest = done.stdout.partition(b"\n")
    code = done.returncode
    if code or not line:
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise DamagedFileError(
            f"{name} is damaged: the program that reads {format} ended on it, with {ending}.",
            remedy="Check that the file is whole; write it again where it is not.",
            path=name,
            returncode=code,
        )
    answer = json.loads(line)
    if "error" in answer:
        kinds = DamagedFileError, FileTooLargeError, ParameterError
        kind = {kind.__name__: kind for kind in kinds}.get(answer["error"], InputError)
        raise kind(answer["problem"], remedy=answer["remedy"], **answer["facts"])
    return rest


def child() -> None:
    """Read one file from standard input and write what it holds to standard output."""
    line, _, content = sys.stdin.buffer.read().partition(b"\n")
    asked = json.loads(line)
    # Up to four copies of a table are held while it is read.
    _confine((1 << 30) + 4 * (asked["most"] + asked["n_bytes"]))
    format, body = Format(asked["kind"], asked["compression"]), b""
    answer: dict[str, Any] = {}
    try:
        with unpacked_within(asked["most"]):
            body = _normal(content, asked["name"], format, asked["sheet"] or None)
    except MemoryError:
        problem = f"{asked['name']} takes more memory than the app gives to one file."
        answer = _said(FileTooLargeError(problem, remedy="Use r2b on the command line."))
    except R2BError as error:
        answer = _said(error)
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
    # No clean-up: memory that the file has damaged is not walked once more.
    os._exit(0)


def _said(error: R2BError) -> dict[str, Any]:
    """Return an error as JSON holds it, with the facts that it can hold."""
    facts = {key: fact for key, fact in error.facts.items() if isinstance(fact, str | int | list)}
    said = {"problem": error.problem, "remedy": error.remedy, "facts": facts}
    return {"error": type(error).__name__, **said}


def _normal(content: bytes, name: str, format: Format, sheet: str | None) -> Any:
    if format.is_text:
        return decompress(content, format.compression, name)
    arrow, sink, total, writer = pyarrow(), io.BytesIO(), 0, None
    stream = io.BytesIO(content)
    source = FileSource.open(name, str(format), sheet=sheet, threads=1, stream=stream)
    for batch in source.batches(None):
        total += unfolded_bytes(batch.record)
        refuse_growth(name, len(content), total)
        writer = writer or arrow.ipc.new_stream(sink, batch.record.schema)
        writer.write_batch(batch.record)
    (writer or arrow.ipc.new_stream(sink, source.files[0].schema)).close()
    return sink.getbuffer()


def _confine(memory: int) -> None:
    """Bound the memory and the time of this process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    used = 0
    with suppress(OSError), open("/proc/self/statm", "rb") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limits = {resource.RLIMIT_AS: used + memory, resource.RLIMIT_CPU: SECONDS}
    for what, most in {**limits, resource.RLIMIT_CORE: 0}.items():
        hard = resource.getrlimit(what)[1]
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (soft, hard))
