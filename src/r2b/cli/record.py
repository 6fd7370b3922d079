"""The certificate file beside an output: a saved solution, and under ``file`` what is needed to check it against the table again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import r2b
from r2b import FairLabels
from r2b._files.plain import as_text
from r2b._labels.options import DEFAULTS
from r2b._labels.storage import content_of
from r2b.cli.labelling import FORMS
from r2b.cli.selection import Selection, texts_of
from r2b.cli.speaking import strict
from r2b.errors import FileFormatError

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
    key : tuple of str
        Columns that the draw of a row followed from.
    realised : dict or None
        Parity of the labels as they stand, for one class per row; other forms have that of the certificate.
    stream : dict or None
        Where the table was read part by part: what its fingerprints are of, and in how many files it was.
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
    key: tuple[str, ...] = ()
    realised: dict[str, Any] | None = None
    stream: dict[str, Any] | None = None

    def encoded(self, fair: FairLabels) -> bytes:
        """Give the file: everything that ``FairLabels.save`` writes, and this record."""
        content = {**content_of(fair), "file": {"version": VERSION, "r2b": r2b.__version__, **self.to_json()}}
        return (json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")

    def to_json(self) -> dict[str, Any]:
        """Give the record as plain values."""
        stored = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain: dict[str, Any] = strict({**stored, "selection": self.selection.to_json(), "options": _told(self.options)})
        return plain


def read_record(path: str) -> tuple[FairLabels, Record]:
    """Read a certificate file.

    Raises
    ------
    FileFormatError
        It is not one, or damaged.
    """
    fair = r2b.load(path)
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    stored = content.pop("file", None)
    if not isinstance(stored, dict):
        raise FileFormatError(
            f"{path} does not say how the labels were made.", remedy="Pass the file that r2b debias wrote beside its output.", path=path
        )
    try:
        record = _record_of(stored, len(fair.classes))
        # What is read must be all that is there: no number that is taken for another, no name that is passed over.
        _refuse_other(content, content_of(fair))
        _refuse_other({name: value for name, value in stored.items() if name not in ("version", "r2b")}, record.to_json())
        return fair, record
    except (LookupError, TypeError, ValueError, AttributeError) as cause:
        raise FileFormatError(
            f"{path} cannot be followed: {type(cause).__name__} ({cause}).",
            remedy="Pass the file that r2b debias wrote beside its output, as it wrote it.",
            path=path,
            damaged=True,
        ) from cause


def _refuse_other(said: dict[str, Any], read: dict[str, Any]) -> None:
    """Refuse what is not spelled as it would be written."""
    odd = next((name for name in {**said, **read} if _spelled(said.get(name)) != _spelled(read.get(name))), None)
    if odd is not None or said.keys() != read.keys():
        raise ValueError(f"{odd} is not as it would be written")


def _spelled(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _record_of(stored: dict[str, Any], n_classes: int) -> Record:
    """Read a record; every field is looked at, since anyone may have written it."""
    if stored["version"] != VERSION:
        raise ValueError(f"version is {stored['version']!r}")
    form, new, key = stored["form"], texts_of("new", stored["new"]), texts_of("key", stored["key"])
    if form not in FORMS:
        raise ValueError(f"form is {form!r}")
    if len(new) != {"soft": n_classes, "expand": 3}.get(form, 1) or len(set(new)) != len(new):
        raise ValueError(f"new is {stored['new']!r}")
    numbers = (stored["n_rows"], stored["random_state"])
    if any(type(each) is not int for each in numbers) or not (0 < numbers[0] < 2**63 and 0 <= numbers[1] < 2**63):
        raise ValueError(f"n_rows and random_state are {numbers!r}")
    for name, parts in (("fingerprints", ("data", "labels")), ("reading", ("format", "encoding"))):
        if not isinstance(stored[name], dict) or not all(isinstance(stored[name][part], str) for part in parts):
            raise ValueError(f"{name} is {stored[name]!r}")
    if not isinstance(stored["reading"]["delimiter"], (str, NoneType)) or not isinstance(stored["command"], str):
        raise ValueError(f"the delimiter is {stored['reading']['delimiter']!r}, the command {stored['command']!r}")
    for name in ("realised", "stream"):
        if not isinstance(stored[name], (dict, NoneType)):
            raise ValueError(f"{name} is {stored[name]!r}")
    if not isinstance(stored["options"], dict) or not set(stored["options"]) <= {*DEFAULTS}:
        raise ValueError(f"options is {stored['options']!r}")
    fields = {name: stored[name] for name in Record.__dataclass_fields__}
    made = {"selection": Selection.from_json(stored["selection"]), "new": new, "key": key, "options": _untold(stored["options"])}
    return Record(**{**fields, **made})


_BY_CLASS = ("epsilon", "target")


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
