"""Files of foreign formats read in a process of their own, with little memory and time: what breaks the reader cannot break the app.

The parent sends a line of JSON and the file; the child answers with a line of JSON and the table,
written anew: bytes of text, or an Arrow stream without compression. Both go through pipes, so that
no name and no byte of a table is seen by others or left on disk.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import Any

from r2b._files.arrow import pyarrow, unfolded_bytes
from r2b._files.formats import Format, unpacked_within
from r2b._files.text import decompress, refuse_growth
from r2b.engines.files import FileSource
from r2b.errors import DamagedFileError, FileTooLargeError, InputError, ParameterError, R2BError

CHILD = "from r2b.app.parsing import child; child()"
SECONDS = 60
_ROOM = 1 << 30  # bytes of memory beside what tables take
_COPIES = 4  # of a table that are held while it is read


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
    _confine(_ROOM + _COPIES * (asked["most"] + asked["n_bytes"]))
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
