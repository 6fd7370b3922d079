"""The certificate file of an output: what was asked for and written; read with suspicion."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args

import r2b
from r2b._constraints.bounds import PARAMETERS
from r2b._data.values import json_value
from r2b._files.formats import Format
from r2b._labels import FairLabels
from r2b._labels.debiasing import DEFAULTS
from r2b._labels.realised import Realised
from r2b._labels.rows import Form
from r2b._labels.storage import (
    TAGS,
    WEIGHTS,
    content_of,
    in_words,
    read_json,
    restored_tags,
    solution_of,
    stored_result,
)
from r2b._verify.output import fingerprints
from r2b._verify.table import column_marks
from r2b.engines.files import EMPTY, FileSource
from r2b.engines.roles import ColumnRoles
from r2b.engines.source import Relabel
from r2b.errors import FileFormatError

VERSION = 1
_NOT_RECORDED = ("tol", "max_iter", "time_limit", "threads", "costs", "outcomes", "progress")
# raised by damaged files
UNREADABLE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    NotImplementedError,  # of Arrow, for columns of other types
)
_LISTS = ("label", "sensitive", "control", "key", "continuous")


def beside(output: str) -> str:
    """Name the certificate of an output, which may be a folder.

    Examples
    --------
    >>> beside("fair.csv"), beside("fair/")
    ('fair.csv.r2b.json', 'fair.r2b.json')
    """
    return f"{output.rstrip('/' + os.sep) or output}.r2b.json"


@dataclass(frozen=True, eq=False)
class Record:
    """How an output was made.

    Attributes
    ----------
    columns : ColumnRoles
        Its ``key`` names the columns that the draw of a row followed from.
    na : tuple of str
        Text that means missing, in formats that know only text.
    options : dict
        Of ``r2b.debias``; costs and outcomes stand in the solution itself.
    form : str
    new : tuple of str
        Names of the new columns.
    random_state : int
    reading : dict
        Format, encoding, decimal mark and delimiter of the output.
    fingerprints : dict of str to str
        Of the data and of the new columns, as :func:`fingerprints` gives them.
    table : tuple of (str, str)
        Name and checksum of every column but the new ones, as they stand in the output.
    n_rows : int
        Of the data.
    command : str
        How it was asked for.
    realised : dict or None
        Parity of the labels as they stand, for one class per row; other forms have that of the
        certificate.
    """

    columns: ColumnRoles
    na: tuple[str, ...]
    options: dict[str, Any]
    form: Form
    new: tuple[str, ...]
    random_state: int
    reading: dict[str, str | None]
    fingerprints: dict[str, str]
    table: tuple[tuple[str, str], ...]
    n_rows: int
    command: str = ""
    realised: dict[str, Any] | None = None

    def content(self, fair: FairLabels) -> dict[str, Any]:
        """Return everything that ``FairLabels.save`` writes, and this record."""
        own = {"version": VERSION, "r2b": r2b.__version__, **self.to_json()}
        return {**content_of(fair), "file": own}

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values that strict JSON can hold."""
        # The names of classes need not be text, so that numbers by class are pairs.
        options = {
            name: list(value.items()) if isinstance(value, dict) else value
            for name, value in self.options.items()
        }
        plain: dict[str, Any] = json_value(
            {name: getattr(self, name) for name in self.__dataclass_fields__} | {"options": options}
        )
        return plain


def encoded(content: dict[str, Any]) -> bytes:
    """Return the file of a certificate.

    Bytes of a file's name that are no text become escapes, which JSON reads back as they were.
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode("utf-8", "backslashreplace")


def reads_again(
    source: FileSource, shape: Format, encoding: str = "utf-8", na: Sequence[str] = ()
) -> dict[str, Any]:
    """Describe how an output in some format is read again by :meth:`FileSource.open`.

    ``encoding`` and ``na`` are those of the input.
    """
    same = shape.kind == source.listing.format.kind
    dialect = getattr(source.files[0], "dialect", None) if same else None
    gaps = tuple(na) if shape.kind in ("csv", "tsv") and na else EMPTY
    reading = {"format": str(shape), "encoding": encoding if same else "utf-8"}
    reading["decimal"] = source.decimal
    return {**reading, "delimiter": None if dialect is None else dialect.delimiter, "na": gaps}


def record_of(
    source: FileSource,
    relabel: Relabel,
    made: FileSource,
    reading: dict[str, Any],
    options: dict[str, Any],
    command: str,
    found: Realised | None = None,
) -> Record:
    """Describe for the certificate what was asked for and what was written.

    Parameters
    ----------
    source : FileSource
        What was debiased.
    relabel : Relabel
    made : FileSource
        The output, as it reads again.
    reading : dict
        From :func:`reads_again`.
    options : dict
        Of ``r2b.debias``.
    command : str
        What makes the same output.
    found : Realised, optional
        Of one class per row, what holds for the labels themselves.
    """
    decode, repeated = relabel.decode, relabel.names[2] if relabel.form == "expand" else None
    return Record(
        columns=decode.roles,
        na=reading["na"],
        options={name: value for name, value in options.items() if name not in _NOT_RECORDED},
        form=relabel.form,
        new=relabel.names,
        random_state=relabel.random_state,
        reading={name: value for name, value in reading.items() if name != "na"},
        fingerprints=fingerprints(made, decode, relabel.form, relabel.names),
        table=column_marks(made, decode, relabel.names, repeated=repeated).marks,
        n_rows=source.n_rows or 0,
        command=command,
        realised=None if found is None else found.to_json(),
    )


def read_records(path: str) -> dict[Any, tuple[FairLabels, Record]]:
    """Read a certificate file: one result under the name None, or those of tags by name.

    Raises
    ------
    FileFormatError
        It is not one, or damaged.
    """
    content = read_json(path)
    if isinstance(content, dict) and content.get("format") == WEIGHTS:
        raise FileFormatError(
            f"{path} holds row weights, and no certificate of new labels.",
            remedy="Measure weighted rows by an audit with `sample_weight=...`.",
            path=path,
        )
    if isinstance(content, dict) and content.get("format") == TAGS:
        tags = stored_result(content, path, TAGS, restored_tags)
        each = zip(tags.names.tolist(), content["tags"], strict=True)
        return {name: _read_record(path, own) for name, own in each}
    return {None: _read_record(path, content)}


def _read_record(path: str, content: Any) -> tuple[FairLabels, Record]:
    fair = solution_of(content, path)
    stored = content.pop("file", None)
    if not isinstance(stored, dict):
        remedy = "Pass the file that r2b debias wrote beside its output."
        raise FileFormatError(
            f"{path} does not say how the labels were made.", remedy=remedy, path=path
        )
    try:
        record = _record_of(stored, fair)
        # What is read must be all that is there, in every part: no number that is taken for
        # another, no name that is passed over.
        own = {"version": VERSION, "r2b": str(stored["r2b"]), **record.to_json()}
        _refuse_other(content | {"file": stored}, content_of(fair) | {"file": own})
        return fair, record
    except UNREADABLE as cause:
        problem = f"{path} cannot be followed: {in_words(cause)}."
        remedy = "Pass the file that r2b debias wrote beside its output, as it wrote it."
        raise FileFormatError(problem, remedy=remedy, path=path, damaged=True) from cause


def _refuse_other(said: dict[str, Any], read: dict[str, Any]) -> None:
    """Refuse what is not spelled as it would be written."""
    for name in {**said, **read}:
        written = [json.dumps(each.get(name), sort_keys=True) for each in (said, read)]
        if written[0] != written[1] or (name in said) != (name in read):
            raise ValueError(f"{name} is not as it would be written")


def _record_of(stored: dict[str, Any], fair: FairLabels) -> Record:
    """Read a record; every field is looked at, since anyone may have written it."""
    columns, new, form = (
        _columns_of(stored["columns"]),
        _texts_of("new", stored["new"]),
        stored["form"],
    )
    reading, marks, table = stored["reading"], stored["fingerprints"], stored["table"]
    sound = {
        "command": isinstance(stored["command"], str),
        "n_rows": type(stored["n_rows"]) is int and 0 < stored["n_rows"] < 2**63,
        "random_state": type(stored["random_state"]) is int and 0 <= stored["random_state"] < 2**63,
        "reading": reading.keys() == {"format", "encoding", "decimal", "delimiter"}
        and all(isinstance(each, (str, NoneType)) for each in reading.values()),
        "fingerprints": marks.keys() == {"data", "labels"}
        and all(isinstance(each, str) for each in marks.values()),
        "table": all([type(text) for text in each] == [str, str] for each in table),
        "columns": columns.soft == fair.schema.is_soft,
        "form": form in get_args(Form),
        "new": len(new) == len(set(new)) and len(new) in _new_columns(form, len(fair.classes)),
        "realised": type(stored["realised"]) is (dict if form in ("round", "sample") else NoneType),
    }
    wrong = next((name for name, right in sound.items() if not right), None)
    if wrong is not None:
        raise ValueError(f"{wrong} is {json.dumps(stored[wrong])}"[:200])
    read = {
        "columns": columns,
        "new": new,
        "na": _texts_of("na", stored["na"]),
        "options": _options_of(stored["options"]),
        "table": tuple(map(tuple, table)),
    }
    return Record(**{**{name: stored[name] for name in Record.__dataclass_fields__}, **read})


def _new_columns(form: str, n_classes: int) -> tuple[int, ...]:
    """Return how many new columns there may be; of two classes one column tells both."""
    if form == "soft":
        return (1, 2) if n_classes == 2 else (n_classes,)
    return (3,) if form == "expand" else (1,)


def _columns_of(stored: Any) -> ColumnRoles:
    lists = {name: _texts_of(name, stored[name]) for name in _LISTS}
    membership = tuple(
        (str(name), _texts_of(name, columns)) for name, columns in stored["membership"]
    )
    if (
        type(stored["soft"]) is not bool
        or not isinstance(stored["weight"], (str, NoneType))
        or not lists["label"]
    ):
        raise ValueError(f"columns is {stored!r}")
    if stored["settings"]:
        raise ValueError("settings of continuous attributes are not written by the command line")
    return ColumnRoles(
        soft=stored["soft"],
        weight=stored["weight"],
        membership=membership,
        **lists,  # type: ignore[arg-type]
    )


def _texts_of(name: str, stored: Any) -> tuple[str, ...]:
    texts = isinstance(stored, list) and all(isinstance(each, str) for each in stored)
    if not texts or len(set(stored)) < len(stored):
        raise ValueError(f"{name} is {stored!r}"[:200])
    return tuple(stored)


def _options_of(stored: Any) -> dict[str, Any]:
    if not isinstance(stored, dict) or not set(stored) <= {*DEFAULTS} - {*_NOT_RECORDED}:
        raise ValueError(f"options is {stored!r}")
    found = dict(stored)
    for name in ("epsilon", *PARAMETERS):
        value = found.get(name)
        if isinstance(value, list):
            found[name] = {each: float(number) for each, number in value}
        elif value == "inf":
            found[name] = math.inf
    return found
