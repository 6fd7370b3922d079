"""A result in one JSON file, versioned, without pickle (docs/file-format.md)."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from r2b._constraints.families import Families
from r2b._constraints.parity import RangeBound
from r2b._data import Schema
from r2b._data.arrays import Floats
from r2b._labels.account import FORMAT, VERSION, content_of
from r2b._labels.labels import FairLabels
from r2b._labels.rule import Evidence, Rule
from r2b._solve.certificate import Certificate
from r2b._solve.oracle.reference import Responses
from r2b._solve.solvers import Progress, Status
from r2b.errors import FileFormatError


def save(fair: FairLabels, path: str | PathLike[str]) -> None:
    """Write a solution; the file appears whole or not at all."""
    content = content_of(replace(fair, rule=fair.rule.fitted))
    target = Path(path)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        # "x" leaves the file's mode to the umask, as for any other file the user writes.
        with open(beside, "x", encoding="utf-8") as file:
            json.dump(content, file, allow_nan=False)
        os.replace(beside, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        if isinstance(error, OSError) and error.filename is not None:
            # The file beside it is nobody's business but ours.
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
        raise


def load(path: str | PathLike[str]) -> FairLabels:
    """Read a solution that ``save`` wrote.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    FairLabels
        Without rows: ``transform`` gives labels for the rows you pass.

    Raises
    ------
    FileFormatError
        The file is not a saved solution, is damaged, or comes from a later release.

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
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as cause:
        raise _refusal(path, f"is not JSON ({cause})") from cause
    return solution_of(content, path)


def solution_of(content: Any, path: str | PathLike[str]) -> FairLabels:
    """Give the solution that was stored as these plain values; the path is where they come from."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _refusal(path, "is not a saved solution")
    if type(content.get("version")) is not int or not 1 <= content["version"] <= VERSION:
        problem = f"{os.fspath(path)} has version {content.get('version')!r} of the format; this release reads versions 1 to {VERSION}."
        remedy = "Install the release that wrote it, or a later one."
        raise FileFormatError(
            problem, remedy=remedy, path=os.fspath(path), version=content.get("version")
        )
    try:
        return _restored(_upgraded(content) if content["version"] == 1 else content)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as cause:
        raise _refusal(path, f"is damaged: {type(cause).__name__} ({cause})") from cause


def _upgraded(content: dict[str, Any]) -> dict[str, Any]:
    """Say in words of version 2 what version 1 could only mean: one family whose groups are the cells, a range, no costs."""
    layout = Schema.from_json(content["schema"])
    proof = content["certificate"]
    # Version 1 did not keep the groups' weights; none of what a loaded object does needs them.
    share = np.full(layout.n_cells, 1.0 / layout.n_cells)
    epsilon = np.array(proof["epsilon"], dtype=np.float64)
    families = Families.of_cells(layout, " x ".join(layout.columns), RangeBound(epsilon), share)
    return content | {
        "families": families.to_json(),
        "costs": None,
        "table": None,
        "certificate": proof | {"families": []},
    }


def _restored(content: dict[str, Any]) -> FairLabels:
    schema = Schema.from_json(content["schema"])
    families = Families.from_json(content["families"], schema)
    shape = (len(families.names), len(schema.classes))
    prices = np.array(content["prices"], dtype=np.float64)
    lam, residual, unchanged = (
        float(content["lam"]),
        float(content["residual"]),
        content["unchanged"],
    )
    if (
        prices.shape != shape
        or not np.isfinite(prices).all()
        or not 0 <= lam < math.inf
        or math.isnan(residual)
    ):
        raise ValueError(
            f"prices of shape {prices.shape}, lam {lam} or residual {residual} cannot be"
        )
    if not isinstance(unchanged, bool):
        raise ValueError(f"unchanged is {unchanged!r}")
    costs, table = (_array(content[name]) for name in ("costs", "table"))
    square = (shape[1], shape[1])
    if (costs is not None and costs.shape != square) or (
        table is not None and table.shape != (len(schema.table), *square)
    ):
        raise ValueError("costs or table of the wrong shape")
    splits = _splits(content.get("splits"), shape)
    if lam == 0 and table is None and splits is None and not unchanged:
        raise ValueError("lam is 0 and there are no table and no splits")
    history = tuple(
        Progress(int(i), str(stage), float(residual), float(s))
        for i, stage, residual, s in content["history"]
    )
    proof = Certificate.from_json(content["certificate"], *shape)
    rule = Rule(schema, families, prices, lam, unchanged, costs, table, splits)
    return FairLabels(rule, Evidence(Status(content["status"]), proof, residual, history))


def _splits(stored: Any, shape: tuple[int, int]) -> Responses | None:
    prices, lam = (
        (None, 1.0) if stored is None else (_array(stored["prices"]), float(stored["lam"]))
    )
    if (prices is not None and prices.shape != shape) or not 0 < lam < math.inf:
        raise ValueError("splits of the wrong shape, or with a lam that cannot be")
    return None if prices is None else Responses(prices, lam)


def _array(stored: Any) -> Floats | None:
    if stored is None:
        return None
    array = np.array(stored, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a number that is not finite")
    return array


def _refusal(path: str | PathLike[str], what: str) -> FileFormatError:
    return FileFormatError(
        f"{os.fspath(path)} {what}.",
        remedy="Pass a file written by FairLabels.save.",
        path=os.fspath(path),
    )
