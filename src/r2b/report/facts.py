"""Everything a report says, as one dictionary of plain values: renderings compute nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from functools import partial
from operator import le
from typing import Any

import numpy as np

from r2b._audit import Audit, Frontier
from r2b._audit.measure import Draws, audit_dataset, audit_request, cluster_codes
from r2b._audit.tradeoff import path_of, solved_along
from r2b._constraints.bounds import PARAMETERS, MomentBound
from r2b._constraints.families.doubts import FEWEST, doubts_of
from r2b._constraints.families.fitted import Counting, Families
from r2b._data import Dataset
from r2b._data.arrays import SAME, Array, Floats, plain_value
from r2b._data.merge import cell_sums, class_weights
from r2b._data.numbers import refuse_other_number
from r2b._data.values import json_value
from r2b._labels import FairLabels, means_by_cell
from r2b._labels.realised import Realised
from r2b._labels.summary import largest_changes, means_of
from r2b._labels.task import Task, task_of
from r2b._solve.certificate import Certificate
from r2b.errors import ParameterError
from r2b.metrics.means import means_of as cell_means
from r2b.report.trace import mark_of, stamp, versions
from r2b.report.words import Facts, as_facts, limits_of, verdict

Leaving = tuple[str, Realised]

FORMAT, VERSION = "r2b-report", 1
SHARED = ("missing", "min_group_size", "small_groups", "absent")
"""Options that audit and debias share."""

AFTERWARDS: tuple[str, ...] = ("name", "disparity", "disparity_by_class", "ratio", "ratio_by_class")
AFTERWARDS += ("means", "overall")
"""What is known of a family of the labels, or of the plain decisions, that it is compared with."""

_ECHOED: tuple[str, ...] = (*SHARED, "bound", *PARAMETERS, "families", "lam", "objective")
_ECHOED += ("tol", "max_iter", "time_limit", "normalize")
_PARTS: tuple[str, ...] = ("label", "command", "settings", "headline", "change", "cost")
_PARTS += ("certificate", "leaving", "made", "after")
_CHANNEL = 1 << 24  # numbers in the channel of all cells up to which flows are listed: 128 MiB


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
) -> Facts:
    """Audit labels, solve for fair ones and for what they cost, and return all facts.

    Parameters
    ----------
    y, sensitive_features, control_features, sample_weight, epsilon
        As for :func:`r2b.debias`.
    label_name : str, optional
        Name of the label; that of its column by default.
    command : str, optional
        The command that made the report.
    frontier_points : int
        How many epsilons the frontier has, from 0 to where the labels are fair as they are; 0
        leaves the cost out.
    n_permutations, n_boot, level, random_state, clusters
        As for :func:`r2b.audit`. The same input and random_state return the same facts, except
        for a date.
    leaving : tuple (str, Realised), optional
        The form in which labels are returned, one class per row, and what holds for them; see
        :meth:`r2b.FairLabels.realised`.
    date : datetime, str, False or None
        False states no date, None the current one.
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
        An argument is out of range, or an option does not exist.

    See Also
    --------
    r2b.report.to_html : The facts as a page.
    r2b.report.facts_of : The facts of labels that are made already.

    Examples
    --------
    >>> sex = ["f", "f", "f", "m", "m", "m"]
    >>> facts = gather(["a", "b", "b", "a", "a", "a"], sensitive_features=sex, epsilon=0.1)
    >>> facts["format"], facts["data"]["rows"], facts["certificate"]["holds"]
    ('r2b-report', 6, True)
    """
    own = getattr(y, "name", None)
    asked = {"epsilon": epsilon, **options}
    columns = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
    }
    task, families = task_of(y, {**columns, **asked}), options.get("families", "both")
    request = audit_request(
        "both" if isinstance(families, str) else families,
        **{name: options[name] for name in SHARED if name in options},
    )
    codes = None if clusters is None else cluster_codes(clusters, task.table)
    draws = Draws(n_permutations, n_boot, level, random_state)
    return gathered(
        task,
        audit_dataset(task.table, request, draws, codes),
        options=asked,
        draws={"random_state": random_state, "frontier_points": frontier_points},
        label_name=label_name or (own if isinstance(own, str) else None),
        command=command,
        leaving=leaving,
        trace={"date": stamp(date), "input": mark_of(task.table)},
    )


def gathered(
    task: Task, found: Audit, *, options: Mapping[str, Any], draws: Mapping[str, Any], **shown: Any
) -> Facts:
    """Solve a task that is open and its frontier, and return the facts with an audit of its rows.

    Parameters
    ----------
    task : Task
        Opened by :func:`r2b.report.gather`.
    found : Audit
        An audit of the same rows.
    options : mapping
        As the task was asked, ``epsilon`` among them.
    draws : mapping
        ``random_state``, and optionally ``frontier_points``.
    **shown
        ``label_name``, ``command``, ``leaving``, ``form`` and ``trace``, as for :func:`facts_of`.
    """
    data = task.table
    slow = data.labels.is_soft and data.n_rows * data.n_classes > 1 << 18
    points = draws.get("frontier_points", 9 if slow else 25)
    remedy = "Pass how many epsilons to solve for, such as 25, or 0 for none."
    refuse_other_number("frontier_points", points, remedy, partial(le, 0), int)
    fair, path = task.solve(), None
    if points:
        epsilons, chosen = path_of(task, points), _chosen(fair.certificate)
        if chosen is not None and chosen <= epsilons[-1]:
            epsilons = np.append(epsilons, chosen)
        epsilons = np.unique(epsilons)
        path = Frontier(tuple(solved_along(task, epsilons)), epsilons)
    settings = {name: options[name] for name in ("epsilon", *_ECHOED) if name in options}
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
) -> Facts:
    """Return the facts of an audit, fair labels and a frontier that are already there.

    Parameters
    ----------
    found : Audit
        An audit of the same rows.
    fair : FairLabels
        Of the same rows, which it must still hold.
    path : Frontier, optional
        What other epsilons would cost.
    label_name, command : str, optional
        What the label is called, and the command that made the report.
    settings : mapping, optional
        What was asked for, to be shown.
    leaving : tuple (str, Realised), optional
        The form in which labels are returned, one class per row, and what holds for them.
    form : str, optional
        The form in which labels were made; None if none were, so that the report is about labels
        that could be made.
    trace : mapping, optional
        ``date``; ``input`` and ``output``, each with ``sha256``, ``of`` and ``files``; and
        ``verify``, the lines that check the report.

    Raises
    ------
    RowsUnavailableError
        The labels were loaded from a file.

    See Also
    --------
    r2b.report.gather : Audit, solve, and return all facts.
    r2b.report.facts_of_audit : The facts of an audit alone.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
    >>> found = r2b.audit(y, sensitive_features=sex, n_boot=0)
    >>> facts = facts_of(found, r2b.debias(y, sensitive_features=sex, epsilon=0.1))
    >>> facts["cost"], facts["change"]["status"]
    (None, 'solved')
    """
    fair.largest_changes(0)  # refuses an object without rows
    proof, data, made = fair.certificate, fair.dataset, None
    assert data is not None
    if form is not None:
        held = proof if leaving is None else leaving[1]
        made = {"form": form, "disparity": held.disparity, "excess": held.excess}
    after = _families_after(found, fair, None if leaving is None else leaving[1])
    return _facts(
        found,
        data,
        fair.families,
        trace,
        label=label_name,
        command=command,
        settings=settings or {},
        headline=_headline(found, {each.name for each in proof.families}, after),
        change=_change(fair),
        cost=None if path is None else _cost(fair, path, found),
        certificate={**proof.to_json(), "holds": proof.holds},
        leaving=None if leaving is None else {"form": leaving[0], **leaving[1].to_json()},
        made=made,
        after=after,
    )


def facts_of_audit(
    found: Audit,
    *,
    label_name: str | None = None,
    trace: Mapping[str, Any] | None = None,
    bounded: Collection[str] = (),
) -> Facts:
    """Return the facts of an audit alone; those about a change are None.

    Parameters
    ----------
    found : Audit
        An audit of the same rows.
    label_name : str, optional
        Name of the label; that of its column by default.
    trace : mapping, optional
        Date, input and output, as a report states them.
    bounded : collection of str
        Families that a bound was asked for, which come first; none by default.

    See Also
    --------
    r2b.report.facts_of : The facts of labels that are made already.

    Examples
    --------
    >>> import r2b
    >>> found = r2b.audit(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], n_boot=0)
    >>> facts = facts_of_audit(found)
    >>> facts["change"], facts["data"]["rows"]
    (None, 4)
    """
    assert found.data is not None and found.fitted is not None
    draws = ("n_permutations", "n_boot", "level", "random_state")
    return _facts(
        found,
        found.data,
        found.fitted,
        trace,
        label=label_name,
        settings={name: getattr(found, name) for name in draws},
        headline=_headline(found, bounded),
    )


def to_json(facts: dict[str, Any]) -> str:
    """Return the facts as strict JSON, in a fixed order, with a newline at the end.

    Parameters
    ----------
    facts : dict
        Made by :func:`gather`, :func:`facts_of` or :func:`facts_of_audit`.

    See Also
    --------
    r2b.report.gather : Audit, solve, and return all facts.

    Examples
    --------
    >>> facts = gather(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], n_boot=0)
    >>> to_json(facts).splitlines()[1:3]
    ['  "format": "r2b-report",', '  "version": 1,']
    """
    return json.dumps(facts, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _facts(
    found: Audit, data: Dataset, families: Families, trace: Mapping[str, Any] | None, **parts: Any
) -> Facts:
    """Put the parts together with what all reports have."""
    known = {name: None for name in ("date", "input", "output", "verify")} | dict(trace or {})
    for part in ("input", "output"):
        known[part] = {"sha256": None, "of": None, "files": []} | (known[part] or {})
    classes = data.labels.vocabulary.values.tolist()
    values = {
        "format": FORMAT,
        "version": VERSION,
        "package": versions()["r2b"],
        **dict.fromkeys(_PARTS),
        **parts,
        "label": parts["label"] or "label",
        "doubts": doubts_of(data.cells, families, classes),
        "model": None,
        "trace": {"versions": versions(), **known},
        "data": _data(data),
        "audit": found.to_json(),
        "excluded": () if found.fitted is None else found.fitted.excluded,
        "suppressed": None,
    }
    facts: Facts = as_facts(json_value(values))
    facts["limits"] = limits_of(facts)
    return facts


def _data(data: Dataset) -> dict[str, Any]:
    labels, cells, weight = data.labels, data.cells, data.weight
    counts = None
    if not labels.is_soft:
        counts = class_weights(data, ignore_weight=True).sum(axis=0).astype(int)
    attributes = [
        {
            "name": name,
            "kind": kind,
            "role": "sensitive" if place < cells.n_sensitive else "control",
            "values": len(vocabulary.values),
        }
        for place, (name, kind, vocabulary) in enumerate(
            zip(cells.columns, cells.kinds, cells.vocabularies, strict=True)
        )
    ]
    return {
        "rows": data.size,
        "label_kind": "probabilities" if labels.is_soft else "classes",
        "classes": labels.vocabulary.values,
        "class_rows": counts,
        "attributes": attributes,
        "cells": data.n_cells,
        "weights": None if weight is None else _weights(weight, data.repeats),
    }


def _weights(weight: Floats, repeats: Array | None) -> dict[str, Any]:
    """Describe the weights of rows; rows that were counted together weigh the same."""
    each = weight if repeats is None else weight / repeats
    part = weight / weight.max()  # the square of a very large weight may not be a number
    return {
        "total": weight.sum(),
        "smallest": each.min(),
        "largest": each.max(),
        "effective_rows": part.sum() ** 2 / (part @ (each / weight.max())),
    }


def _headline(
    found: Audit,
    bounded: Collection[str] = (),
    after: list[dict[str, Any]] | None = None,
) -> dict[str, Any] | None:
    """Describe the largest difference between two groups, of the families that are bounded.

    If chance explains it, for groups of these sizes, and another difference is beyond chance,
    describe that one.
    """
    families = [each for each in found.families if each.name in bounded] or found.families
    if not families:
        return None
    family = max(families, key=lambda each: each.disparity)
    one, chance = family.largest, family.chance if family.levels is not None else None
    above = chance is not None and one.value > chance.quantile + SAME
    pair = chance is not None and above != one.beyond_chance
    worst = [each.worst for each in families if each.worst is not None]
    if chance and worst and not (above and one.beyond_chance and min(one.rows) >= FEWEST):
        one, pair = max(worst, key=lambda each: each.excess), True
        family = next(each for each in families if each.name == one.family)
    level = None
    if chance is not None:
        level = {"quantile": chance.quantile, "of": "family"}
        level = {"quantile": one.level, "of": "pair"} if pair else level
    later = [each["disparity"] for each in after or () if each["name"] == family.name]
    # The interval is that of the largest difference, and of no other.
    interval = family.interval if one == family.largest else None
    return {
        "family": one.family,
        "class": one.class_name,
        "groups": one.groups,
        "means": one.means,
        "rows": one.rows,
        "difference": one.value,
        "interval": None if interval is None else tuple(interval),
        "level": found.level,
        "chance": level,
        "verdict": verdict(one.beyond_chance if chance else None),
        "after": later[0] if later else None,
    }


def _change(fair: FairLabels) -> dict[str, Any]:
    proof, (changes, means) = fair.certificate, largest_changes(fair, 10)
    measures = ("disparity_before", "disparity", "distance", "expected_changes")
    return {
        "status": fair.status.value,
        "advice": fair.status.advice.replace("`", ""),
        "proven": fair.status.ok,
        "unchanged": fair.unchanged,
        "lam": fair.lam,
        **{name: getattr(proof, name) for name in measures},
        "left_out": fair.families.left_out,
        "groups": fair.groups,
        "share": fair.families.share,
        **_flows(fair),
        "largest": changes,
        "means": means,
        "means_of": means_of(fair),
        "costliest": [
            {"class": entry.pop("label"), **entry}
            for entry in map(asdict, fair.costliest_constraints(10))
        ],
    }


def _cost(fair: FairLabels, path: Frontier, found: Audit) -> dict[str, Any]:
    members = fair.certificate.families
    # With one bound on differences, what chance shows is on the same axis.
    plain = len(members) == 1 and members[0].bound == "range" and members[0].offsets is None
    chance = [
        family.chance.quantile
        for family in found.families
        if plain and family.chance and family.name == members[0].name
    ]
    measures = ("epsilon", "disparity", "distance", "expected_changes", "relative_gap")
    return {
        "points": [
            {**{name: getattr(point, name) for name in measures}, "proven": point.solved}
            for point in path
        ],
        "chosen": _chosen(fair.certificate),
        "chance": chance[0] if chance else None,
        "bounds": sorted({family.bound for family in members}),
    }


def _chosen(proof: Certificate) -> float | None:
    """Return the epsilon if it is one number for all families and classes that are bounded."""
    asked = {float(each) for family in proof.families for each in family.epsilon}
    asked.discard(np.inf)
    return asked.pop() if len(asked) == 1 else None


def groups_of(families: Families) -> list[tuple[Any, Counting]]:
    """Return the families that compare groups, each with how its groups count cells."""
    return [pair for pair in families.pairs() if not isinstance(pair[0].bound, MomentBound)]


def _flows(fair: FairLabels) -> dict[str, Any]:
    """Return the flow of old to new labels of every group, those with most changes first.

    ``flows`` has an entry per group: its weight, the weight that changes, weight by class before
    and after, and the largest ``moves`` as [old, new, weight], classes by their places.
    ``summary`` has all moves between the few classes that lose and gain most; -1 stands for the
    other classes. ``flows_note`` says what is left out.
    """
    data, pairs = fair.dataset, groups_of(fair.families)
    assert data is not None
    if data.labels.is_soft:
        by_class = replace(fair.families, outcomes=None)  # what moves are classes
        mass, sums = cell_sums(data.labels, data.cells, data.weight)
        weight = fair.families.share[:, None] * mass.sum()
        before, after = (
            by_class.means(data.cells, each, mass) * weight
            for each in (sums, means_by_cell(data, fair) * mass[:, None])
        )
        entries = [
            _flow(member.name, fair.groups[place], before[place], after[place])
            for member, _ in pairs
            for place in range(member.groups.start, member.groups.stop)
        ]
        return _listed(entries, "Labels are probabilities: a row has no one class that it leaves.")
    if data.n_cells * data.n_classes**2 > _CHANNEL:
        return _listed([], f"There are too many cells ({data.n_cells:,}) to list where labels go.")
    # labels of a table elsewhere hold one typical row of each cell
    whole = len(fair.schema.table) == data.n_cells
    channel = fair.channel if whole else fair.rule.response(data.cells).channel()
    flow = channel * class_weights(data)[:, :, None]
    return _listed(_entries(flow, fair.families, data, fair.groups))


def flows_between(found: Audit, old: Dataset, new: Dataset) -> dict[str, Any]:
    """Return the flow of one table of decisions to another, for every group of an audit."""
    n_classes, families = old.n_classes, found.fitted
    assert families is not None
    if old.n_cells * n_classes**2 > _CHANNEL:
        return _listed([], f"There are too many cells ({old.n_cells:,}) to list what changes.")
    codes, one, two = (
        each.astype(np.int64) for each in (old.cells.codes, old.labels.array, new.labels.array)
    )
    place = (codes * n_classes + one) * n_classes + two
    flow = np.bincount(place, old.weight, old.n_cells * n_classes**2).astype(np.float64)
    names = np.empty(max(each.groups.stop for each in families.members), object)
    for (member, _), family in zip(groups_of(families), found.families, strict=True):
        names[member.groups] = family.groups
    shape = old.n_cells, n_classes, n_classes
    return _listed(_entries(flow.reshape(shape), families, old, names))


def _entries(flow: Floats, families: Families, data: Dataset, names: Array) -> list[dict[str, Any]]:
    """Add up the flows of cells for every group; of all rows where no groups are compared."""
    tables = [
        (
            member.name,
            names[member.groups],
            flow if families.by_cell else np.tensordot(counting.design(data.cells).T, flow, axes=1),
        )
        for member, counting in groups_of(families)
    ] or [("", np.array(["all rows"]), flow.sum(axis=0)[None])]
    return [
        _flow(family, name, table.sum(axis=1), table.sum(axis=0), table)
        for family, groups, several in tables
        for name, table in zip(groups, several, strict=True)
    ]


def _listed(entries: list[dict[str, Any]], note: str | None = None) -> dict[str, Any]:
    """Keep the groups with most changes."""
    if len(entries) > 200:
        note = f"{len(entries) - 200:,} groups with fewer changes are not listed."
    entries.sort(key=lambda entry: -entry["changed"])
    return {"flows": entries[:200], "flows_note": note}


def _flow(
    family: str, group: Any, before: Floats, after: Floats, table: Floats | None = None
) -> dict[str, Any]:
    """Describe how the weight of each class changes in a group, and its moves if they are known."""
    entry = {
        "family": family,
        "group": str(plain_value(group)),
        "weight": float(before.sum()),
        "changed": float(np.abs(after - before).sum() / 2),
        "before": before,
        "after": after,
        "moves": None,
        "moves_left_out": 0,
        "summary": None,
    }
    if table is None:
        return entry
    moved = table.copy()
    np.fill_diagonal(moved, 0.0)
    # less than this is a rounding error of the group's weight
    moved[moved <= 1e-12 * max(float(table.sum()), 1e-300)] = 0.0
    order = np.argsort(-moved, axis=None, kind="stable")[: np.count_nonzero(moved)]
    olds, news = np.unravel_index(order[:40], table.shape)
    return entry | {
        "changed": float(moved.sum()),
        "moves": [(old, new, moved[old, new]) for old, new in zip(olds, news, strict=True)],
        "moves_left_out": len(order) - len(olds),
        "summary": _summary(moved),
    }


def _summary(moved: Floats) -> list[tuple[Any, ...]]:
    """Add up the moves between the classes that lose and gain most, and all others (-1)."""
    others = len(moved)

    def sides(totals: Floats) -> Array:
        kept = np.argsort(-totals, kind="stable")[: 8 if np.count_nonzero(totals) <= 8 else 7]
        return np.where(np.isin(np.arange(others), kept), np.arange(others), others)

    few = np.zeros((others + 1, others + 1))
    np.add.at(few, np.ix_(sides(moved.sum(axis=1)), sides(moved.sum(axis=0))), moved)
    pairs = np.argwhere(few > 1e-9 * moved.sum())
    return [(*np.where(pair < others, pair, -1), few[tuple(pair)]) for pair in pairs]


def _families_after(
    found: Audit, fair: FairLabels, leaving: Realised | None
) -> list[dict[str, Any]] | None:
    """Measure the families of an audit on the labels that are returned.

    None if the audit is of other cells than the labels.

    Raises
    ------
    ParameterError
        The certificate is of other rows than these.
    """
    data, audited, fitted = fair.dataset, found.data, found.fitted
    assert data is not None
    if audited is None or fitted is None:
        return None
    if not np.array_equal(data.cells.table, audited.cells.table):
        return None
    _, weight = cell_means(data)
    sums = None if leaving is None else leaving.sums
    if sums is None:
        sums = means_by_cell(data, fair) * weight[:, None]
    if leaving is None:
        # prices that were applied to a new table prove nothing about its parity
        means = fair.families.means(data.cells, sums, weight)
        if np.abs(means - fair.certificate.means).max() > 1e-7:
            raise ParameterError(
                "The certificate of these labels is of other rows than those they have now.",
                remedy="Audit the labels with r2b.audit(...), and take its report(...).",
            )
    known = np.where(weight > 0, weight, 1.0) if fitted.by_cell else weight
    means = fitted.means(audited.cells, sums, known)
    places = [member.groups for member, _ in groups_of(fitted)]
    if len(places) != len(found.families) or not np.isfinite(means).all():
        return None
    after = (
        replace(family, means=means[place], overall=family.share @ means[place])
        for family, place in zip(found.families, places, strict=True)
    )
    return [{name: getattr(family, name) for name in AFTERWARDS} for family in after]
