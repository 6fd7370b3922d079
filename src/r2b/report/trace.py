"""Where a report comes from: date, software, input and output with their checksums."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from r2b._data import Dataset, Mixtures
from r2b._data.arrays import Array
from r2b._data.dataset import Labels, read, read_labels
from r2b._data.values import to_plain
from r2b._data.vocabulary import Vocabulary
from r2b.errors import ParameterError

Arranged = Literal["rows", "counts", "sorted"]
# the values of a column, and for each row which it has; or numbers alone
Spelled = tuple[str, Array]
_OF = {
    "rows": "the columns as they were read, in the order of their rows",
    "counts": "every combination of values in these columns, and how many rows have it",
    "sorted": "the columns as they were read, rows in the order of their values",
}


def stamp(date: Any = None) -> str | None:
    """Return the date of a report: now, what SOURCE_DATE_EPOCH says, or the given one.

    Raises
    ------
    ParameterError
        It is no date, or SOURCE_DATE_EPOCH is no number of seconds.

    Examples
    --------
    >>> stamp("2026-11-16"), stamp(datetime(2026, 11, 16, 12, tzinfo=UTC)), stamp(False)
    ('2026-11-16', '2026-11-16 12:00:00 UTC', None)
    """
    if date is False:
        return None
    if isinstance(date, str):
        return date
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if date is None and epoch is not None:
        if not epoch.isdigit():
            problem = f"SOURCE_DATE_EPOCH is {epoch!r}, which is no number of seconds."
            raise ParameterError(
                problem, remedy="Set it to whole seconds since 1970, or unset it.", epoch=epoch
            )
        date = datetime.fromtimestamp(int(epoch), UTC)
    date = datetime.now(UTC) if date is None else date
    if not isinstance(date, datetime):
        raise ParameterError(
            f"date is {date!r}.", remedy="Pass a datetime, a text, or False for no date.", date=date
        )
    moment = date if date.tzinfo is None else date.astimezone(UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}{'' if date.tzinfo is None else ' UTC'}"


def check_lines(calls: Mapping[str, str]) -> str:
    """Write the lines of Python that check a report, from calls and what each returns."""
    lines = [f"{call}  # {what}" for call, what in calls.items()]
    return "\n".join(["from r2b.report import fingerprint", *lines])


def versions() -> dict[str, str]:
    """Return the versions of what computed the report."""
    from r2b import __version__

    return {"r2b": __version__, "NumPy": np.__version__, "Python": platform.python_version()}


def files_of(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> list[dict[str, Any]]:
    """Return name, size and checksum of every file; a folder stands for the files below it.

    Raises
    ------
    ParameterError
        A file is not there.
    """
    given = [path] if isinstance(path, (str, os.PathLike)) else path
    return [
        _file(file, str(file.relative_to(each.parent).as_posix()))
        for each in map(Path, given)
        for file in (sorted(filter(Path.is_file, each.rglob("*"))) if each.is_dir() else [each])
    ]


def _file(path: Path, name: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        problem, remedy = f"{path} cannot be read: {error.strerror}.", "Name a file that is there."
        raise ParameterError(problem, remedy=remedy, path=str(path)) from error
    # bytes of a name that are no text are spelled out
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return {"name": text, "bytes": path.stat().st_size, "sha256": digest}


def fingerprint(
    y: Any,
    *,
    sensitive_features: Any = None,
    control_features: Any = None,
    sample_weight: Any = None,
    counted: bool = False,
) -> str:
    """Return the checksum that reports state of their input, and of the labels alone.

    It depends on values and the order of rows, not on the library that holds them, nor on names of
    columns. It is the sha256 of all columns, one after the other. Of each it takes the values that
    occur, as sorted JSON with their type, then for each row the place of its value as an 8-byte
    integer; of probabilities and weights the 8-byte floats, little end first.

    Parameters
    ----------
    y, sensitive_features, control_features, sample_weight
        As for :func:`r2b.debias`. Missing values of attributes count as a value.
    counted : bool
        For class labels of a table that was scanned, whose rows need not have an order: take every
        combination of values once, sorted, and how many rows have it.

    Returns
    -------
    str
        64 hexadecimal digits.

    See Also
    --------
    r2b.verify : Check labels in files from the data alone.

    Examples
    --------
    >>> fingerprint(["b", "a"])[:8], fingerprint(np.array(["b", "a"], dtype=object))[:8]
    ('40489ee0', '40489ee0')
    """
    if sensitive_features is None:
        return _digest([_of_labels(read_labels(y, normalize=False, fewest_classes=1))])
    columns = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
    }
    data = read(y, **columns, missing="group", fewest_classes=1)
    return mark_of(data, "counts" if counted else "rows")["sha256"]


def mark_of(data: Dataset, arranged: Arranged | None = None) -> dict[str, str]:
    """Return the checksum of a table that was read, and what it is of."""
    arranged = arranged or ("rows" if data.repeats is None else "counts")
    columns = [_of_labels(data.labels)]
    for place, vocabulary in enumerate(data.cells.vocabularies):
        codes = data.cells.table[:, place][data.cells.codes]
        columns.append(_of_codes(codes, vocabulary))
    if data.weight is not None:
        columns.append(("", data.weight if data.repeats is None else data.weight / data.repeats))
    if arranged != "rows":
        columns = _sorted(columns, data.repeats, counted=arranged == "counts")
    return {"sha256": _digest(columns), "of": _OF[arranged]}


def mark_of_blocks(blocks: Iterable[Array]) -> str:
    """Return the checksum of a matrix of probabilities that comes in blocks of rows."""
    return _digest(("", block) for block in blocks)


def _sorted(columns: list[Spelled], repeats: Array | None, *, counted: bool) -> list[Spelled]:
    """Sort rows by their values and, if they are counted, keep each combination once."""
    keys = [key for _, values in columns for key in (values.T if values.ndim == 2 else [values])]
    order = np.lexsort(keys[::-1])
    if not counted:
        return [(head, values[order]) for head, values in columns]
    other = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    first = np.flatnonzero(np.concatenate([[True], other]))
    each = np.ones(len(order), np.int64) if repeats is None else np.asarray(repeats, np.int64)
    return [
        *((head, values[order][first]) for head, values in columns),
        ("", np.add.reduceat(each[order], first)),
    ]


def _of_labels(labels: Labels) -> Spelled:
    if labels.codes is None:
        return "", labels.array
    return _of_codes(labels.codes, labels.vocabulary)


def _of_codes(codes: Array, vocabulary: Vocabulary | Mixtures) -> Spelled:
    """Return the values of a column, sorted as they are written, and the place of each row's."""
    if isinstance(vocabulary, Mixtures):
        return "", vocabulary.matrix[codes]
    counts = np.bincount(codes)
    used = np.flatnonzero(counts)
    known = used[used < len(vocabulary.values)]
    plain = to_plain(vocabulary.values[known])
    written = [json.dumps(value, ensure_ascii=False) for value in plain["values"]]
    written += ["null"] * (len(used) - len(known))
    order = sorted(range(len(written)), key=written.__getitem__)
    places = np.zeros(len(counts), np.int64)
    places[used[order]] = np.arange(len(order))
    return f"{plain['type']}[{','.join(written[place] for place in order)}]", places[codes]


def _digest(columns: Iterable[Spelled]) -> str:
    seen = hashlib.sha256()
    for head, values in columns:
        seen.update(head.encode("utf-8", "surrogatepass"))
        kind = "<i8" if values.dtype.kind in "biu" else "<f8"
        seen.update(np.ascontiguousarray(values, kind).tobytes())
    return seen.hexdigest()
