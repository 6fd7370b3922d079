"""A result in one JSON file, with a version and without pickle (docs/file-format.md)."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from r2b._constraints.families import Families
from r2b._data import Schema
from r2b._data.values import UNREADABLE, json_value, stored_numbers
from r2b._labels.labels import FairLabels
from r2b._labels.result import VERSION, PriceRule
from r2b._labels.rule import Rule
from r2b._solve.certificate import Certificate, Proof
from r2b._solve.solvers import Progress, Status
from r2b.errors import FileFormatError

if TYPE_CHECKING:
    from r2b._labels.tags import FairTags

Restored = TypeVar("Restored")

FORMAT, WEIGHTS, TAGS = FairLabels.FORMAT, "r2b-weights", "r2b-tags"


def write_json(content: dict[str, Any], path: str | PathLike[str]) -> None:
    """Write plain values as JSON; the file appears whole or not at all."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        # "x" leaves the mode of the file to the umask, as for any other file of the user.
        with open(beside, "x", encoding="utf-8") as file:
            json.dump(content, file, allow_nan=False)
        os.replace(beside, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        if isinstance(error, OSError) and error.filename is not None:
            # Name the file that was asked for, not the temporary one.
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
        raise


def load(path: str | PathLike[str]) -> Any:
    """Read a result that ``save`` wrote.

    Parameters
    ----------
    path : path-like
        A file that ``save`` or ``r2b debias`` wrote.

    Returns
    -------
    FairLabels, FairTags or RowWeights
        Without rows: ``transform`` returns labels, or weights, for the rows you pass.

    Raises
    ------
    FileFormatError
        The file is not a saved result, is damaged, or comes from a later release.

    See Also
    --------
    r2b.debias : The closest labels in parity.
    r2b.verify : Check labels in files from the data alone.

    Examples
    --------
    >>> import r2b, tempfile, os
    >>> fair = r2b.debias(["a", "b", "a", "a"], sensitive_features=["f", "f", "m", "m"], epsilon=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fair.save(os.path.join(folder, "fair.json"))
    ...     again = r2b.load(os.path.join(folder, "fair.json"))
    >>> again.transform(["b"], sensitive_features=["f"])
    array([[0.33333333, 0.66666667]])
    """
    content = read_json(path)
    format = content.get("format") if isinstance(content, dict) else None
    if format == WEIGHTS:
        from r2b._weights.result import restored

        return stored_result(content, path, WEIGHTS, restored)
    if format == TAGS:
        return stored_result(content, path, TAGS, restored_tags)
    return solution_of(content, path)


def read_json(path: str | PathLike[str]) -> Any:
    """Read a file of JSON in which no key comes twice.

    Raises
    ------
    FileFormatError
        It is not one, or too large to be a saved result.
    """
    most = 1 << 28  # bytes: prices of 100,000 groups and 100 classes
    with open(path, "rb") as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise _refusal(path, f"has more than {most:,} bytes")
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as cause:
        raise _refusal(path, f"is not JSON ({cause})") from cause


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"repeats a key: of {len(pairs)} only {len(found)} differ")
    return found


def in_words(cause: Exception) -> str:
    """Say what is wrong with stored values, without the words of Python for it."""
    if isinstance(cause, ValueError):
        return str(cause)
    return "a part is missing, or of another type"


def solution_of(content: Any, path: str | PathLike[str]) -> FairLabels:
    """Return the result stored as these plain values; ``path`` is named in errors."""
    return stored_result(content, path, FORMAT, _restored)


def stored_result(
    content: Any, path: str | PathLike[str], format: str, restore: Callable[[Any], Restored]
) -> Restored:
    """Restore a result of a format from plain values; ``path`` is named in errors."""
    if not isinstance(content, dict) or content.get("format") != format:
        raise _refusal(path, "is not a saved solution")
    version = content.get("version")
    if type(version) is not int or version != VERSION:
        raise FileFormatError(
            f"{os.fspath(path)} has version {json.dumps(version)[:20]} of the format; this release "
            f"reads version {VERSION}.",
            remedy="Install the release that wrote it, or a later one.",
            path=os.fspath(path),
            version=version,
        )
    try:
        return restore(content)
    except UNREADABLE as cause:
        raise _refusal(path, f"is damaged: {in_words(cause)}") from cause


def tags_content(names: Sequence[Any], tags: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the file of several tags, from what the files of each hold."""
    named = json_value(list(names))
    return {"format": TAGS, "version": VERSION, "names": named, "tags": list(tags)}


def restored_tags(content: dict[str, Any]) -> FairTags:
    """Restore tags from :func:`tags_content`."""
    from r2b._labels.tags import FairTags

    names, tags = content["names"], content["tags"]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"names is {names!r}"[:200])
    if any(each["format"] != FORMAT or each["version"] != VERSION for each in tags):
        raise ValueError("a tag is of another format")
    labels = tuple(map(_restored, tags))
    if any(len(each.classes) != 2 for each in labels) or len(labels) != len(names):
        raise ValueError("tags have two classes, and one result for each name")
    return FairTags(np.array(names), labels)


def _restored(content: dict[str, Any]) -> FairLabels:
    return FairLabels(*restored_parts(content, rule_of, Certificate))


def restored_parts(
    content: dict[str, Any], rule: Callable[..., PriceRule], proof: type[Proof]
) -> tuple[Any, ...]:
    """Restore what every result has from its ``to_json``.

    Parameters
    ----------
    content : dict
    rule : callable
        From the content, the schema, the families and the numbers of groups and outcomes.
    proof : type of Proof
    """
    schema = Schema.from_json(content["schema"])
    families = Families.from_json(content["families"], schema)
    n_classes, outcomes = len(schema.classes), families.outcomes
    if outcomes is not None and outcomes.matrix.shape[1] != n_classes:
        raise ValueError(f"outcomes are of {outcomes.matrix.shape[1]} classes")
    shape = (len(families.names), n_classes if outcomes is None else len(outcomes.names))
    residual = float(content["residual"])
    if math.isnan(residual):
        raise ValueError("residual is not a number")
    history = tuple(
        Progress(int(i), str(stage), float(residual), float(s))
        for i, stage, residual, s in content["history"]
    )
    return (
        rule(content, schema, families, shape),
        Status(content["status"]),
        proof.from_json(content["certificate"], *shape),
        residual,
        history,
    )


def rule_of(
    content: dict[str, Any], schema: Schema, families: Families, shape: tuple[int, int]
) -> Rule:
    """Restore the rule of labels."""
    n_classes, costs, table = len(schema.classes), content["costs"], content["table"]
    if costs is not None:
        costs = stored_numbers(costs, (n_classes, n_classes))
    if table is not None:
        table = stored_numbers(table, (len(schema.table), n_classes, n_classes))
    lam, unchanged = float(content["lam"]), content["unchanged"]
    sound = {
        "lam": 0 <= lam < math.inf,
        "unchanged": isinstance(unchanged, bool),
        "table": (table is None) == (lam > 0 or unchanged is True),
    }
    for name, right in sound.items():
        if not right:
            raise ValueError(f"{name} is {content[name]!r}"[:200])
    prices = stored_numbers(content["prices"], shape)
    return Rule(schema, families, prices, lam, unchanged, costs, table)


def _refusal(path: str | PathLike[str], what: str) -> FileFormatError:
    return FileFormatError(
        f"{os.fspath(path)} {what}.",
        remedy="Pass a file that a result wrote with its method `save(path)`. "
        "The certificate of an output is the file that r2b debias wrote beside it.",
        path=os.fspath(path),
    )
