"""Everything a report says, as plain values: measured, solved and proven here, so that rendering has nothing to work out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from r2b._audit import Audit, Frontier
from r2b._audit.measure import audit_dataset, audit_request, cluster_codes
from r2b._audit.resampling import Draws
from r2b._audit.tradeoff import fair_as_they_are, solved_along, task_of
from r2b._constraints.bounds import PARAMETERS
from r2b._constraints.families.doubts import doubts_of
from r2b._data import Dataset
from r2b._data.arrays import Array, Floats
from r2b._data.merge import class_weights
from r2b._data.values import json_value
from r2b._labels import FairLabels
from r2b._labels.realised import Realised
from r2b._labels.summary import largest_changes, means_of
from r2b._labels.task import Task
from r2b._solve.certificate import Certificate
from r2b.errors import ParameterError
from r2b.metrics.intervals import effective_size
from r2b.report.after import families_after
from r2b.report.flows import flows_of
from r2b.report.limits import limits_of
from r2b.report.trace import mark_of, stamp, versions

Leaving = tuple[str, Realised]

FORMAT, VERSION = "r2b-report", 1

# options that audit and debias both have
SHARED = ("missing", "min_group_size", "small_groups", "absent")
_ECHOED = (
    *SHARED,
    "bound",
    "families",
    *PARAMETERS,
    "lam",
    "objective",
    "tol",
    "max_iter",
    "time_limit",
    "normalize",
)
# probabilities of a table, beyond which a solve takes long enough that few points of the frontier
# are found
_MANY = 1 << 18
_LISTED = 10  # changes and constraints by name


def gather(
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    epsilon: Any = 0.01,
    label_name: str | None = None,
    command: str | None = None,
    frontier_points: int = 25,
    n_permutations: int = 200,
    n_boot: int = 500,
    level: float = 0.95,
    random_state: int = 0,
    leaving: Leaving | None = None,
    clusters: Any = None,
    date: Any = False,
    **options: Any,
) -> dict[str, Any]:
    """Audit labels, solve for fair ones, ask what that costs, and put all of it into one dictionary of plain values.

    Parameters
    ----------
    y, sensitive_features, control_features, sample_weight, epsilon
        As for :func:`r2b.debias`.
    label_name : str, optional
        What the label is called; the name of the column where it has one.
    command : str, optional
        The command that made the report, to be shown at its end.
    frontier_points : int
        Epsilons to solve for, from 0 to where the labels are fair as they are, beside the one asked
        for; 0 to leave the cost out.
    n_permutations, n_boot, level, random_state, clusters
        As for :func:`r2b.audit`. The same input and random_state give the same facts, but for a
        date.
    leaving : tuple (str, Realised), optional
        The form in which labels would leave, one class per row, and what holds for them; see
        :meth:`r2b.FairLabels.realised`.
    date : datetime, str, False or None
        To be stated: False for none, None for now.
    **options
        Everything else that :func:`r2b.debias` takes.

    Returns
    -------
    dict
        Strict JSON can hold it. ``format`` and ``version`` say how to read it.

    Raises
    ------
    InputError
        The data cannot be used as they are.
    ParameterError
        An argument lies outside its range, or an option does not exist.

    Examples
    --------
    >>> facts = gather(["a", "b", "b", "a", "a", "a"], sensitive_features=["f", "f", "f", "m", "m", "m"], epsilon=0.1)
    >>> facts["format"], facts["data"]["rows"], round(facts["change"]["disparity_before"], 3), facts["certificate"]["holds"]
    ('r2b-report', 6, 0.667, True)
    """
    name = getattr(y, "name", None)
    label_name = label_name or (name if isinstance(name, str) else None)
    asked = {"epsilon": epsilon, **options}
    columns = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
    }
    task, chosen = task_of(y, {**columns, **asked}), options.get("families", "both")
    shared = {option: options[option] for option in SHARED if option in options}
    request = audit_request("both" if isinstance(chosen, str) else chosen, **shared)
    codes = None if clusters is None else cluster_codes(clusters, task.table)
    found = audit_dataset(
        task.table, request, Draws(n_permutations, n_boot, level, random_state), codes
    )
    draws = {"random_state": random_state, "frontier_points": frontier_points}
    trace = {"date": stamp(date), "input": mark_of(task.table)}
    return gathered(
        task,
        found,
        options=asked,
        draws=draws,
        label_name=label_name,
        command=command,
        leaving=leaving,
        trace=trace,
    )


def gathered(
    task: Task,
    found: Audit,
    *,
    options: Mapping[str, Any],
    draws: Mapping[str, Any],
    **shown: Any,
) -> dict[str, Any]:
    """Solve a task that is open and ask what that costs, for an audit of the same rows.

    Parameters
    ----------
    task : Task
        Its rows may each stand for several.
    found : Audit
    options : mapping
        As the task was asked, ``epsilon`` among them.
    draws : mapping
        ``random_state`` and, where it is not 25, or 9 for many rows of probabilities,
        ``frontier_points``.
    **shown
        ``label_name``, ``command``, ``leaving``, ``form`` and ``trace``, as for :func:`facts_of`.

    Returns
    -------
    dict
        As :func:`gather` gives it.
    """
    fair = task.solve(stacklevel=4)
    path = None
    data = task.table
    few = data.labels.is_soft and data.n_rows * data.n_classes > _MANY
    frontier_points = draws.get("frontier_points", 9 if few else 25)
    if (
        not isinstance(frontier_points, int)
        or isinstance(frontier_points, bool)
        or frontier_points < 0
    ):
        remedy = "Pass how many epsilons to solve for, such as 25, or 0 to leave the cost out."
        raise ParameterError(
            f"frontier_points is {frontier_points!r}.",
            remedy=remedy,
            frontier_points=frontier_points,
        )
    if frontier_points:
        epsilons = _path(fair_as_they_are(task), int(frontier_points), _chosen(fair.certificate))
        path = Frontier(tuple(solved_along(task, epsilons)), epsilons)
    settings = {
        "epsilon": options["epsilon"],
        **{option: options[option] for option in _ECHOED if option in options},
    }
    settings["random_state"] = draws["random_state"]
    return facts_of(found, fair, path, settings=settings, **shown)


def facts_of(
    found: Audit,
    fair: FairLabels,
    path: Frontier | None = None,
    *,
    label_name: str | None = None,
    command: str | None = None,
    settings: Mapping[str, Any] | None = None,
    leaving: Leaving | None = None,
    form: str | None = None,
    trace: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Put an audit, fair labels and a frontier that are already there into the dictionary that :func:`gather` gives.

    Parameters
    ----------
    found : Audit
    fair : FairLabels
        Of the same rows, which it must still have: not one loaded from a file.
    path : Frontier, optional
    label_name, command : str, optional
    settings : mapping, optional
        What was asked for, to be shown.
    leaving : tuple (str, Realised), optional
        The form in which labels leave, one class per row, and what holds for them.
    form : str, optional
        The form in which labels were made; None where none were, so that everything is said of
        labels that would be.
    trace : mapping, optional
        ``date``; ``input`` and ``output``, each with ``sha256``, ``of`` and ``files``; and
        ``verify``, the lines that check the report.

    Returns
    -------
    dict

    Raises
    ------
    RowsUnavailableError
        The labels were loaded from a file.

    Examples
    --------
    >>> import r2b
    >>> from r2b._audit import audit
    >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
    >>> facts = facts_of(audit(y, sensitive_features=sex), r2b.debias(y, sensitive_features=sex, epsilon=0.1))
    >>> facts["cost"], facts["change"]["status"]
    (None, 'solved')
    """
    fair.largest_changes(0)  # refuses an object without rows
    assert fair.dataset is not None
    after = families_after(found, fair, None if leaving is None else leaving[1])
    return _facts(
        found,
        fair.dataset,
        {"label": label_name, "command": command, "settings": settings or {}, "trace": trace},
        {
            "headline": _headline(found, fair.certificate),
            "change": _change(fair),
            "cost": None if path is None else _cost(fair, path, found),
            "certificate": {**fair.certificate.to_json(), "holds": fair.certificate.holds},
            "leaving": None if leaving is None else {"form": leaving[0], **leaving[1].to_json()},
            "made": None if form is None else _made(form, fair.certificate, leaving),
            "after": after,
            "doubts": doubts_of(fair.dataset.cells, fair.families, fair.classes.tolist()),
        },
    )


def facts_of_audit(
    found: Audit, *, label_name: str | None = None, trace: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Put an audit alone into the dictionary that :func:`gather` gives; what is about a change is None.

    Parameters
    ----------
    found : Audit
        With its data, as :func:`r2b.audit` gives it.
    label_name : str, optional
        What the label is called.
    trace : mapping, optional
        Date, checksums of files and how to verify, where they are known.

    Examples
    --------
    >>> from r2b._audit import audit
    >>> facts = facts_of_audit(audit(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], n_boot=0))
    >>> facts["change"], facts["data"]["rows"]
    (None, 4)
    """
    assert found.data is not None and found.fitted is not None
    settings = {
        name: getattr(found, name) for name in ("n_permutations", "n_boot", "level", "random_state")
    }
    nothing = dict.fromkeys(("change", "cost", "certificate", "leaving", "made", "after"))
    doubts = doubts_of(found.data.cells, found.fitted, found.classes.tolist())
    known = {"label": label_name, "command": None, "settings": settings, "trace": trace}
    return _facts(
        found, found.data, known, {"headline": _headline(found, None), **nothing, "doubts": doubts}
    )


def _facts(
    found: Audit, data: Dataset, known: dict[str, Any], parts: dict[str, Any]
) -> dict[str, Any]:
    """Put the parts together, with what all reports have."""
    trace = {
        "date": None,
        "input": None,
        "output": None,
        "verify": None,
        **(known["trace"] or {}),
        "versions": versions(),
    }
    for part in ("input", "output"):
        trace[part] = {"sha256": None, "of": None, "files": [], **(trace[part] or {})}
    facts: dict[str, Any] = json_value(
        {
            "format": FORMAT,
            "version": VERSION,
            "package": trace["versions"]["r2b"],
            **known,
            "label": known["label"] or "label",
            "trace": trace,
            "data": _data(data),
            "audit": found.to_json(),
            "excluded": () if found.fitted is None else found.fitted.excluded,
            "suppressed": None,
            **parts,
        }
    )
    facts["limits"] = limits_of(facts)
    return facts


def _made(form: str, proof: Certificate, leaving: Leaving | None) -> dict[str, Any]:
    """Say what holds for the labels that left: their own parity, not that of the distributions they come from."""
    found = proof if leaving is None else leaving[1]
    return {"form": form, "disparity": found.disparity, "excess": found.excess}


def to_json(facts: dict[str, Any]) -> str:
    """Write the facts as strict JSON, in a fixed order, with a newline at the end.

    Parameters
    ----------
    facts : dict
        What :func:`gather` gives.

    Returns
    -------
    str

    Examples
    --------
    >>> facts = gather(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], n_boot=0, n_permutations=0)
    >>> to_json(facts).splitlines()[1:3]
    ['  "format": "r2b-report",', '  "version": 1,']
    """
    return json.dumps(facts, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _data(dataset: Dataset) -> dict[str, Any]:
    labels, groups, weight = dataset.labels, dataset.cells, dataset.weight
    counts = (
        None
        if labels.is_soft
        else class_weights(dataset, ignore_weight=True).sum(axis=0).astype(int)
    )
    attributes = [
        {
            "name": name,
            "kind": kind,
            "role": "sensitive" if j < groups.n_sensitive else "control",
            "values": len(vocabulary.values),
        }
        for j, (name, kind, vocabulary) in enumerate(
            zip(groups.columns, groups.kinds, groups.vocabularies, strict=True)
        )
    ]
    return {
        "rows": dataset.size,
        "label_kind": "probabilities" if labels.is_soft else "classes",
        "classes": labels.vocabulary.values,
        "class_rows": counts,
        "attributes": attributes,
        "cells": dataset.n_cells,
        "weights": None if weight is None else _weights(weight, dataset.repeats),
    }


def _weights(weight: Floats, repeats: Array | None) -> dict[str, Any]:
    """Describe the weights of rows; those that were counted together weigh the same."""
    each = weight if repeats is None else weight / repeats
    effective = (
        effective_size(weight)
        if repeats is None
        else float(weight.sum()) ** 2 / float(weight @ each)
    )
    return {
        "total": weight.sum(),
        "smallest": each.min(),
        "largest": each.max(),
        "effective_rows": effective,
    }


def _headline(found: Audit, proof: Certificate | None) -> dict[str, Any] | None:
    """Give the worst difference of the audit, or the largest where none is beyond chance, and what becomes of its family."""
    worst = found.worst or found.largest
    if worst is None:
        return None
    family = next(family for family in found.families if family.name == worst.family)
    after = [
        np.ptp(proof.means[each.groups], axis=0).max()
        for each in (() if proof is None else proof.families)
        if proof is not None and each.name == family.name and each.bound == "range"
    ]
    return {
        "family": worst.family,
        "class": worst.class_name,
        "groups": worst.groups,
        "means": worst.means,
        "rows": worst.rows,
        "difference": worst.value,
        # The interval is that of the largest difference, and of no other.
        "interval": None
        if family.interval is None or worst != family.largest
        else tuple(family.interval),
        "level": found.level,
        "chance": None if worst.level is None else {"quantile": worst.level},
        "verdict": "not tested"
        if worst.level is None
        else "beyond chance"
        if worst.beyond_chance
        else "within chance",
        "after": after[0] if after else None,
    }


def _change(fair: FairLabels) -> dict[str, Any]:
    proof, (changes, means) = fair.certificate, largest_changes(fair, _LISTED)
    return {
        "status": fair.status.value,
        "advice": fair.status.advice,
        "proven": fair.status.ok,
        "unchanged": fair.unchanged,
        "lam": fair.lam,
        **{
            name: getattr(proof, name)
            for name in ("disparity_before", "disparity", "distance", "expected_changes")
        },
        "left_out": fair.families.left_out,
        "groups": fair.groups,
        "share": fair.families.share,
        **flows_of(fair),
        "largest": changes,
        # of probabilities the flows hold all means before and after
        "means": [] if fair.schema.is_soft else means,
        "means_of": means_of(fair),
        "costliest": [
            {
                "family": c.family,
                "group": c.group,
                "class": c.label,
                "price": c.price,
                "rate": c.rate,
            }
            for c in fair.costliest_constraints(_LISTED)
        ],
    }


def _cost(fair: FairLabels, path: Frontier, found: Audit) -> dict[str, Any]:
    members = fair.certificate.families
    # One bound on differences: what chance shows can be marked on the same axis.
    alone = (
        members[0].name
        if len(members) == 1 and members[0].bound == "range" and members[0].offsets is None
        else None
    )
    measures = ("epsilon", "disparity", "distance", "expected_changes", "relative_gap")
    return {
        "points": [
            {**{name: getattr(point, name) for name in measures}, "proven": point.solved}
            for point in path
        ],
        "chosen": _chosen(fair.certificate),
        "chance": next(
            (
                family.chance.quantile
                for family in found.families
                if family.chance and family.name == alone
            ),
            None,
        ),
        "bounds": sorted({family.bound for family in members}),
    }


def _chosen(proof: Certificate) -> float | None:
    """Give the epsilon asked for, where it is one number for all families and classes that are bounded."""
    asked = {
        float(value) for family in proof.families for value in family.epsilon if np.isfinite(value)
    }
    return asked.pop() if len(asked) == 1 else None


def _path(last: float, n: int, chosen: float | None) -> Floats:
    """Space epsilons evenly up to where labels are fair as they are, the one asked for among them."""
    if last <= 0:
        return np.zeros(1)
    asked = [] if chosen is None or chosen > last else [chosen]
    return np.unique(np.concatenate([np.linspace(0.0, last, n), asked]))
