"""The certificate file of an output: what was asked for and written; read with suspicion."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import r2b
from r2b._constraints.bounds import PARAMETERS
from r2b._data.values import UNREADABLE, json_value
from r2b._files.formats import Format
from r2b._labels import FairLabels
from r2b._labels.debiasing import DEFAULTS
from r2b._labels.realised import Realised
from r2b._labels.rows import Form
from r2b._labels.storage import (
    TAGS,
    WEIGHTS,
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
_READING = ("format", "encoding", "decimal", "delimiter")
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

    def content(self, fair: FairLabels, by: str = r2b.__version__) -> dict[str, Any]:
        """Return everything that ``FairLabels.save`` writes, and this record, made by a release."""
        # The names of classes need not be text, so that numbers by class are pairs.
        options = {
            name: list(value.items()) if isinstance(value, dict) else value
            for name, value in self.options.items()
        }
        own = {"version": VERSION, "r2b": by, **json_value({**vars(self), "options": options})}
        return {**fair.to_json(), "file": own}


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
    gaps = tuple(dict.fromkeys(na)) if shape.is_delimited and na else EMPTY
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
            remedy="Measure weighted rows by an audit with `sample_weight=...`, the product of "
            "these weights and those that rows had before.",
            path=path,
        )
    if isinstance(content, dict) and content.get("format") == TAGS:
        tags = stored_result(content, path, TAGS, restored_tags)
        each = zip(tags.names.tolist(), content["tags"], strict=True)
        return {name: _read_record(path, own) for name, own in each}
    return {None: _read_record(path, content)}


def _read_record(path: str, content: Any) -> tuple[FairLabels, Record]:
    fair = solution_of(content, path)
    stored = content.get("file")
    if not isinstance(stored, dict):
        remedy = "Pass the file that r2b debias wrote beside its output."
        raise FileFormatError(
            f"{path} does not say how the labels were made.", remedy=remedy, path=path
        )
    try:
        record = _record_of(stored, fair)
        # What is read must be all that is there, in every part: no number that is taken for
        # another, no name that is passed over.
        written = record.content(fair, str(stored["r2b"]))
        both = (
            {(name, json.dumps(each[name], sort_keys=True)) for name in each}
            for each in (content, written)
        )
        wrong = set.symmetric_difference(*both)
        if wrong:
            raise ValueError(f"{min(wrong)[0]} is not as it would be written")
        return fair, record
    except UNREADABLE as cause:
        problem = f"{path} cannot be followed: {in_words(cause)}."
        remedy = "Pass the file that r2b debias wrote beside its output, as it wrote it."
        raise FileFormatError(problem, remedy=remedy, path=path, damaged=True) from cause


def _record_of(stored: dict[str, Any], fair: FairLabels) -> Record:
    """Read a record, which anyone may have written.

    What is of another type than it should be is refused later, since it would be written as what is
    made of it here.
    """
    columns, n_classes = stored["columns"], len(fair.classes)
    roles = ColumnRoles(
        **{name: _texts(columns[name]) for name in _LISTS},  # type: ignore[arg-type]
        soft=bool(columns["soft"]),
        weight=_text(columns["weight"]),
        membership=tuple((str(name), _texts(of)) for name, of in columns["membership"]),
    )
    record = Record(
        columns=roles,
        na=_texts(stored["na"]),
        options=_options_of(stored["options"]),
        form=stored["form"],
        new=_texts(stored["new"]),
        random_state=int(stored["random_state"]),
        reading={name: _text(stored["reading"][name]) for name in _READING},
        fingerprints={name: str(stored["fingerprints"][name]) for name in ("data", "labels")},
        table=tuple((str(name), str(mark)) for name, mark in stored["table"]),
        n_rows=int(stored["n_rows"]),
        command=str(stored["command"]),
        realised=stored["realised"],
    )
    # of two classes one column tells both
    soft = (1, 2) if n_classes == 2 else (n_classes,)
    n_new = {"soft": soft, "expand": (3,)}.get(record.form, (1,))
    sound = {
        "form": record.form in get_args(Form),
        "new": len(record.new) in n_new,
        "columns": roles.soft == fair.schema.is_soft,
        "random_state": 0 <= record.random_state < 2**63,
        "n_rows": 0 < record.n_rows < 2**63,
        "realised": (record.realised is None) == (record.form in ("soft", "expand")),
    }
    wrong = next((name for name, right in sound.items() if not right), None)
    if wrong is not None:
        raise ValueError(f"{wrong} is {json.dumps(stored[wrong])}"[:200])
    return record


def _texts(stored: Any) -> tuple[str, ...]:
    texts = tuple(map(str, stored))
    if len({*texts}) < len(texts):
        raise ValueError(f"{texts} holds a text twice"[:200])
    return texts


def _text(stored: Any) -> str | None:
    return None if stored is None else str(stored)


def _options_of(stored: dict[str, Any]) -> dict[str, Any]:
    if not {*stored} <= {*DEFAULTS} - {*_NOT_RECORDED}:
        raise ValueError(f"options is {stored!r}")
    found = dict(stored)
    for name in ("epsilon", *PARAMETERS):
        value = found.get(name)
        if isinstance(value, list):
            found[name] = {each: float(number) for each, number in value}
        elif value == "inf":
            found[name] = math.inf
    return found
