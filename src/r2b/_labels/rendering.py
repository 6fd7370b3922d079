"""A result as others read it: a plain account, and one JSON file, versioned, without pickle (docs/file-format.md)."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from r2b._constraints.families import Families
from r2b._constraints.parity import MomentBound, RangeBound
from r2b._data import Schema
from r2b._data.arrays import Floats
from r2b._data.attributes import CATEGORICAL
from r2b._data.values import json_value, written
from r2b._labels.changes import Change, MeanChange, largest_mean_changes
from r2b._labels.realised import Realised, promised_parity
from r2b._labels.rule import Evidence, Rule
from r2b._solve.certificate import PROVEN, Certificate
from r2b._solve.solvers import Progress, Status
from r2b.errors import FileFormatError, RowsUnavailableError

if TYPE_CHECKING:
    from r2b._labels.labels import FairLabels


FORMAT = "r2b-solution"
VERSION = 3
_PLAIN = 2  # what a file without offsets is written as, for releases that know no other


def save(fair: FairLabels, path: str | PathLike[str]) -> None:
    """Write a solution; the file appears whole or not at all."""
    content = content_of(fair)
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


def content_of(fair: FairLabels) -> dict[str, Any]:
    """Give everything but the rows as plain values, as they stand in the file."""
    content: dict[str, Any] = json_value(
        {
            "format": FORMAT,
            "version": _PLAIN if all(member.bound.offsets is None for member in fair.families.members) else VERSION,
            "schema": fair.schema.to_json(),
            "families": fair.families.to_json(),
            "prices": fair.prices,
            "lam": fair.lam,
            "unchanged": fair.unchanged,
            "costs": fair.costs,
            "table": fair.table,
            "status": fair.status.value,
            "residual": fair.residual,
            "certificate": fair.certificate.to_json(),
            "history": [[step.iteration, step.stage, step.residual, step.seconds] for step in fair.history],
        }
    )
    return content


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
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _refusal(path, "is not a saved solution")
    if type(content.get("version")) is not int or not 1 <= content["version"] <= VERSION:
        problem = f"{os.fspath(path)} has version {content.get('version')!r} of the format; this release reads versions 1 to {VERSION}."
        remedy = "Install the release that wrote it, or a later one."
        raise FileFormatError(problem, remedy=remedy, path=os.fspath(path), version=content.get("version"))
    try:
        return _restored(_upgraded(content) if content["version"] == 1 else content)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as cause:
        raise _refusal(path, f"is damaged: {type(cause).__name__} ({cause})") from cause


def _upgraded(content: dict[str, Any]) -> dict[str, Any]:
    """Say in words of version 2 what version 1 could only mean: one family whose groups are the cells, a range, no costs."""
    layout = Schema.from_json(content["schema"])
    proof = content["certificate"]
    # Version 1 did not keep the groups' weights; none of what a loaded object does needs them.
    share = np.full(layout.n_groups, 1.0 / layout.n_groups)
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
    lam, residual, unchanged = float(content["lam"]), float(content["residual"]), content["unchanged"]
    if prices.shape != shape or not np.isfinite(prices).all() or not 0 <= lam < math.inf or math.isnan(residual):
        raise ValueError(f"prices of shape {prices.shape}, lam {lam} or residual {residual} cannot be")
    if not isinstance(unchanged, bool):
        raise ValueError(f"unchanged is {unchanged!r}")
    costs, table = (_array(content[name]) for name in ("costs", "table"))
    square = (shape[1], shape[1])
    if (costs is not None and costs.shape != square) or (table is not None and table.shape != (len(schema.table), *square)):
        raise ValueError("costs or table of the wrong shape")
    if lam == 0 and table is None and not unchanged:
        raise ValueError("lam is 0 and there is no table")
    history = tuple(Progress(int(i), str(stage), float(residual), float(s)) for i, stage, residual, s in content["history"])
    proof = Certificate.from_json(content["certificate"], *shape)
    rule = Rule(schema, families, prices, lam, unchanged, costs, table)
    from r2b._labels.labels import FairLabels

    return FairLabels(rule, Evidence(Status(content["status"]), proof, residual, history))


def _array(stored: Any) -> Floats | None:
    if stored is None:
        return None
    array = np.array(stored, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a number that is not finite")
    return array


def _refusal(path: str | PathLike[str], what: str) -> FileFormatError:
    return FileFormatError(f"{os.fspath(path)} {what}.", remedy="Pass a file written by FairLabels.save.", path=os.fspath(path))


_SHOWN = 5
_SHOWN_FAMILIES = 12


def account(fair: FairLabels, leaving: tuple[str, Realised] | None = None) -> str:
    """Say in a few lines what was done, what holds and what it cost.

    Parameters
    ----------
    fair : FairLabels
    leaving : tuple (str, Realised), optional
        The form in which labels leave, one class per row, and what holds for them. Without it what is said is of distributions.
    """
    proof = fair.certificate
    n_rows = None if fair.rows is None else fair.rows.n_rows
    rows = "" if n_rows is None else f"{n_rows:,} row{'s' if n_rows > 1 else ''}, "
    lines = [
        f"Fair labels: {rows}{len(fair.classes):,} classes, {len(fair.groups):,} group{'s' if len(fair.groups) > 1 else ''}",
        f"  status            {fair.status.value}. {fair.status.advice}",
        *_parity(fair, leaving),
        *_families(proof, None if leaving is None else leaving[1]),
        f"  squared distance  {proof.distance:.6f} per row",
        f"  expected changes  {100 * proof.expected_changes:.2f} % of labels",
        f"  certificate       gap {abs(proof.relative_gap):.0e}, above epsilon {proof.excess:.0e}, "
        f"off the simplex {proof.simplex_violation:.0e}",
    ]
    lines += _notes(fair)
    return "\n".join(lines + _changes(fair))


def _parity(fair: FairLabels, leaving: tuple[str, Realised] | None) -> list[str]:
    proof = fair.certificate
    # One family of groups and the paper's bound: the parity above says it all. Files of the first version keep no families.
    bound = f"  (epsilon {_bound(proof.epsilon)})" if _is_plain(proof) else ""
    if leaving is None:
        return [f"  parity            {proof.parity_before:.4f} -> {proof.parity:.4f}{bound}"]
    form, found = leaving
    lines = [
        f"  parity            {proof.parity_before:.4f} -> {found.parity:.4f} in these labels, one class per row ({form})",
        f"                    {proof.parity:.4f} as probabilities{bound}",
    ]
    if found.excess > PROVEN:
        lines.append(f"                    {found.excess:.4f} above the bound: {_why(fair, form)}")
    return lines


def _why(fair: FairLabels, form: str) -> str:
    """Say why whole labels are not where the probabilities are, and what is promised of them."""
    if form == "sample":
        return "drawn labels are in parity on average; 'round' is nearer, 'soft' and 'expand' are exact"
    try:
        promised = promised_parity(fair.families, fair.certificate, fair.rounding_bound)
    except RowsUnavailableError:
        promised = np.inf
    until = f"; parity up to {promised:.4f} is promised" if promised < 1 else ""  # every parity is below 1
    return f"whole rows cannot match probabilities exactly{until}; 'soft' and 'expand' are exact"


def _changes(fair: FairLabels) -> list[str]:
    if fair.rows is None:
        return []
    if not only_categories(fair):
        means = mean_changes(fair, _SHOWN)
        return [f"  largest changes of {means_of(fair)}", *(_mean_change(each) for each in means)] if means else []
    changes = fair.largest_changes(_SHOWN)
    return ["  largest changes", *(_change(change, weighted=fair.rows.weighted) for change in changes)] if changes else []


def only_categories(fair: FairLabels) -> bool:
    """Tell whether all attributes are categories: a row of uncertain group, or with a number for an attribute, is a cell of its own."""
    return set(fair.schema.kinds) == {CATEGORICAL}


def mean_changes(fair: FairLabels, n: int) -> list[MeanChange]:
    """List the means of groups that change most; the moments of continuous attributes where there are no groups."""
    moments = _only_moments(fair)
    families = [(each.name, each.groups) for each in fair.families.members if moments or not isinstance(each.bound, MomentBound)]
    proof = fair.certificate
    return largest_mean_changes(families, proof.means_before, proof.means, fair.groups, fair.classes, n)


def means_of(fair: FairLabels) -> str:
    """Name what :func:`mean_changes` lists."""
    return "moments" if _only_moments(fair) else "group means"


def _only_moments(fair: FairLabels) -> bool:
    return all(isinstance(member.bound, MomentBound) for member in fair.families.members)


def _mean_change(c: MeanChange) -> str:
    before, after = (round(mean, 4) + 0.0 for mean in (c.before, c.after))  # no -0.0000
    return f"    {written(c.group)}: {written(c.label)} {before:.4f} -> {after:.4f}"


def _change(c: Change, *, weighted: bool) -> str:
    # Flows between many classes are far smaller than a row each.
    moved = f"{c.weight:,.1f}" if c.weight >= 0.05 else f"{c.weight:.2g}"
    amount = f"weight {moved}" if weighted else f"{moved} rows"
    return f"    {written(c.group)}: {written(c.old)} -> {written(c.new)}, {amount} ({100 * c.share:.1f} % of that cell)"


MEASURES = {
    "range": "largest difference",
    "to_overall": "largest distance from all",
    "ratio": "shortfall of the ratio",
    "target": "twice the distance from the target",
    "moments": "largest moment",
}


def _is_plain(proof: Certificate) -> bool:
    return len(proof.families) < 2 and all(family.bound == "range" and family.offsets is None for family in proof.families)


def _families(proof: Certificate, found: Realised | None) -> list[str]:
    if _is_plain(proof):
        return []
    lines = ["  families"]
    shown = proof.families[:_SHOWN_FAMILIES]
    for place, family in enumerate(shown):
        before, soft = float(family.measure_before.max()), float(family.measure.max())
        after = f"{soft:.4f}" if found is None else f"{float(found.families[place].measure.max()):.4f}, {soft:.4f} as probabilities"
        what = MEASURES[family.bound] + ("" if family.offsets is None else " of means with their offsets")
        lines.append(f"    {written(family.name)}: {what} {before:.4f} -> {after}  (epsilon {_bound(family.epsilon)})")
    more = len(proof.families) - len(shown)
    return lines + ([f"    and {more} more"] if more else [])


def _notes(fair: FairLabels) -> list[str]:
    families, notes = fair.families, []
    free = np.all([np.isinf(family.epsilon) for family in fair.certificate.families or (fair.certificate,)], axis=0)
    if free.any():
        notes.append(f"  not bound         {free.sum()} of {len(free)} classes: {_listed(map(written, fair.classes[free]), ', ')}")
    if families.left_out > 0:
        whose = "rows" if fair.weighted is False else "weight"
        notes.append(f"  left out          {100 * families.left_out:.2f} % of the {whose}, in no group, with labels as they were")
    if families.excluded:
        notes.append(f"  too small         {_listed(map(written, families.excluded), '; ')}")
    if families.absent:
        absent = (f"{written(each.group)} in {written(each.stratum)}" for each in families.absent)
        notes.append(f"  absent            {_listed(absent, '; ')}")
    return notes


def _listed(texts: Iterable[str], between: str) -> str:
    every = list(texts)
    more = len(every) - _SHOWN
    return between.join(every[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _bound(epsilon: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    bounded = epsilon[np.isfinite(epsilon)]
    if 0 < len(bounded) < len(epsilon):
        return f"{_bound(bounded)}, for {len(bounded)} of {len(epsilon)} classes"
    low, high = float(epsilon.min()), float(epsilon.max())
    return f"{low:g}" if low == high else f"{low:g} to {high:g} by class"
