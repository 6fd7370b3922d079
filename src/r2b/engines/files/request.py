"""What written files follow from, as a fingerprint: two writes that share it give the same bytes, so that one can go on with the other."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from r2b._files.formats import Format
from r2b.engines.source import Relabel

if TYPE_CHECKING:
    from r2b.engines.files import FileSource

_MADE_BY = ("r2b", "numpy", "pyarrow", "numba")
_TOLD = ("encoding", "mark", "na", "dialect", "sheet")  # of a file of text: how it is read


def request_of(source: FileSource, relabel: Relabel, shape: Format) -> str:
    """Give the fingerprint of a write: files that are read, rule, form, draws, format, and versions of what makes the bytes.

    A file is known by its place on its disk, its size and the times of its last changes, one of
    which no program can set.

    Raises
    ------
    InputError
        A file was changed since the table was opened.
    """
    taken = blake2b(digest_size=20)
    files = []
    for number, (file, part) in enumerate(zip(source.files, source.listing.parts, strict=True)):
        source.refuse_changed(number)
        seen = os.stat(part.path)
        place = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
        # As text, at once: files may be many.
        files.append(
            repr((part.name, part.keys, place, [getattr(file, name, None) for name in _TOLD]))
        )
    numbers = sorted(source.with_numbers(relabel.decode.roles.numbers).numbers)
    for word in _words(
        (list(map(_version, _MADE_BY)), str(shape), numbers, "\n".join(files), relabel)
    ):
        taken.update(word)
    return taken.hexdigest()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


def _words(value: Any) -> Iterator[bytes]:
    """Write a value so that different ones differ; of objects what they are made of, not what they have worked out meanwhile.

    Examples
    --------
    >>> b"".join(_words([1, "a"])) == b"".join(_words([1, "a"])), b"".join(_words([1, "a"])) == b"".join(_words(["1", "a"]))
    (True, False)
    """
    yield f"{type(value).__name__}:".encode()
    if isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield f"{each.name}=".encode()
            yield from _words(getattr(value, each.name))
    elif isinstance(value, Mapping):
        yield from _words([item for pair in value.items() for item in pair])
    elif isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes)):
        yield f"{len(value)}[".encode()
        for each in value:
            yield from _words(each)
    elif value is None or isinstance(value, (str, bytes, int, float)):
        text = repr(value)
        yield f"{len(text)}:{text}".encode("utf-8", "surrogatepass")
    else:
        yield pickle.dumps(value)
