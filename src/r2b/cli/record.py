"""The certificate file beside an output: a saved solution, and under ``file`` what is needed to check it against the table again."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import r2b
from r2b import FairLabels
from r2b.cli.selection import Selection
from r2b.cli.speaking import strict
from r2b.errors import FileFormatError
from r2b.tables.plain import as_text

SUFFIX = ".r2b.json"
VERSION = 1


def beside(output: str) -> str:
    """Name the certificate of an output, which may be a folder.

    Examples
    --------
    >>> beside("fair.csv"), beside("fair/")
    ('fair.csv.r2b.json', 'fair.r2b.json')
    """
    return f"{output.rstrip('/' + os.sep) or output}{SUFFIX}"


@dataclass(frozen=True, eq=False)
class Record:
    """How an output was made.

    Attributes
    ----------
    selection : Selection
    options : dict
        Of ``r2b.debias``, as plain values; an epsilon by class is a list of pairs.
    form : str
    new : tuple of str
        Names of the new columns.
    random_state : int
    reading : dict
        Format, encoding and delimiter of the output.
    fingerprints : dict of str to str
        Of the columns that were read and of those that were made.
    n_rows : int
        Of the data.
    command : str
    numpy : str
        Release whose random numbers were drawn.
    key : tuple of str
        Columns that the draw of a row followed from.
    stream : dict or None
        Where the table was read part by part: what its fingerprints are of, and in how many parts its rows were rounded.
    """

    selection: Selection
    options: dict[str, Any]
    form: str
    new: tuple[str, ...]
    random_state: int
    reading: dict[str, str | None]
    fingerprints: dict[str, str]
    n_rows: int
    command: str
    numpy: str = np.__version__
    key: tuple[str, ...] = ()
    stream: dict[str, Any] | None = None

    def encoded(self, fair: FairLabels) -> bytes:
        """Give the file: everything that ``FairLabels.save`` writes, and this record."""
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "fair.json"
            fair.save(place)
            content = json.loads(place.read_text(encoding="utf-8"))
        stored = {name: getattr(self, name) for name in self.__dataclass_fields__}
        stored |= {"version": VERSION, "r2b": r2b.__version__, "selection": self.selection.to_json(), "options": _told(self.options)}
        content["file"] = strict(stored)
        return (json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def read_record(path: str) -> tuple[FairLabels, Record]:
    """Read a certificate file.

    Raises
    ------
    FileFormatError
        It is not one, or damaged.
    """
    fair = r2b.load(path)
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    try:
        stored = content["file"]
        if stored["version"] != VERSION:
            raise ValueError(f"version {stored['version']!r}")
        fields = {name: stored[name] for name in Record.__dataclass_fields__ if name not in _LATER or name in stored}
        fields |= {
            "selection": Selection.from_json(stored["selection"]),
            "new": tuple(stored["new"]),
            "key": tuple(stored.get("key", ())),
            "options": _untold(stored["options"]),
        }
        return fair, Record(**fields)
    except (LookupError, TypeError, ValueError, AttributeError) as cause:
        raise FileFormatError(
            f"{path} does not say how the labels were made: {type(cause).__name__} ({cause}).",
            remedy="Pass the file that r2b debias wrote beside its output.",
            path=path,
        ) from cause


_BY_CLASS = ("epsilon", "target")
_LATER = ("key", "stream")  # what certificates of earlier releases do not have


def _told(options: Mapping[str, Any]) -> dict[str, Any]:
    """Write numbers by class as pairs: the names of classes need not be text."""
    return {name: [list(pair) for pair in value.items()] if isinstance(value, dict) else value for name, value in options.items()}


def _untold(options: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(options)
    for name in _BY_CLASS:
        value = found.get(name)
        if isinstance(value, list):
            found[name] = {each: float(number) for each, number in value}
        elif value == "inf":
            found[name] = float("inf")
    return found


def fingerprint(columns: Mapping[str, Any]) -> str:
    """Give a checksum of the text of columns, the same whichever format they are read from."""
    seen = hashlib.sha256()
    for name, values in columns.items():
        seen.update(json.dumps([name, as_text(values, name)], ensure_ascii=True).encode())
    return seen.hexdigest()
