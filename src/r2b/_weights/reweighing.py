"""``r2b.reweigh``: weights of rows under which groups agree, for labels that may not be changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Unpack

import numpy as np

from r2b._constraints.families import resolve
from r2b._constraints.families.fitted import Crossings, Families
from r2b._constraints.families.request import Request, is_a
from r2b._constraints.parity import Parity
from r2b._data import Dataset, Schema, read
from r2b._data.arrays import SUM_ROUNDING, Floats, frozen, plain_value
from r2b._data.attributes import CONTINUOUS
from r2b._data.compute import refuse_beyond_memory
from r2b._data.merge import merge
from r2b._data.numbers import refuse_other_number
from r2b._data.values import listed, warn
from r2b._labels.debiasing import Options, Settings, request_and_settings, takes_options
from r2b._labels.task import by_row, refuse_scores, warn_unsolved
from r2b._solve.certificate import PROVEN
from r2b._solve.oracle import oracle_of
from r2b._solve.settings import SETTINGS
from r2b._solve.solvers import Limits, Outcome, Status, final_status
from r2b._solve.solvers.driver import Stage, run
from r2b._solve.solvers.newton import Newton
from r2b._weights.interior import LARGEST, interior_prices
from r2b._weights.limits import FEASIBLE, least_missed, smallest_cap, smallest_epsilon
from r2b._weights.result import RowWeights, WeightRule, certify
from r2b._weights.rows import CURVATURE, WeightOracle, with_totals
from r2b.errors import DataWarning, InfeasibleError, ParameterError

Representation = Literal["equal"] | Mapping[Any, Any]

WITHOUT = ("offsets", "lam", "objective", "costs")
_LEAST = 1e-3  # epsilon that is proposed


@takes_options(without=WITHOUT)
def reweigh(
    y: Any,
    *,
    sensitive_features: Any,
    max_weight: float | None = None,
    representation: Representation | None = None,
    control_features: Any = None,
    sample_weight: Any = None,
    **options: Unpack[Options],
) -> RowWeights:
    """Find the weights closest to 1 under which groups are in parity; labels stay as they are.

    Each row gets a factor. Under the factors the weighted shares of every class are within epsilon
    of each other, and every compared group keeps its total weight, or gets the one asked for. Of
    all such factors these have the least mean squared distance from 1.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L)
        Classes, or probabilities over L classes.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        As for :func:`r2b.debias`; :class:`r2b.Membership` for uncertain groups.
    max_weight : float, optional
        The largest factor; any by default.
    representation : "equal" or mapping, optional
        What share of the rows each group of a family stands for after weighing: the same for all,
        or a share for each group by name. For several families a mapping from their names to
        either. By default every group keeps its own share.
    control_features, sample_weight
        As for :func:`r2b.debias`. Factors multiply the weights that rows have.
    **options : Options
        Described here one by one, from ``r2b._labels.debiasing``.

    Returns
    -------
    RowWeights
        The factors, what they reach, and the proof.

    Raises
    ------
    InfeasibleError
        No factors meet the bounds: the message names the group and class, and its facts hold the
        smallest epsilon and the smallest ``max_weight`` that work.
    ParameterError
        An argument lies outside its range.

    See Also
    --------
    r2b.debias : Changes labels instead, as few as possible.

    Examples
    --------
    >>> y, sex = ["a", "b", "b", "a", "a", "b"], ["f", "f", "f", "m", "m", "m"]
    >>> weights = reweigh(y, sensitive_features=sex)
    >>> weights.weights.round(3).tolist()
    [1.5, 0.75, 0.75, 0.75, 0.75, 1.5]
    >>> round(weights.disparity, 9), round(weights.effective_sample_size, 2)
    (0.0, 5.33)
    """
    request, settings = request_and_settings(options, without=WITHOUT)
    data = read(
        y,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
        normalize=options.get("normalize", False),
        missing=request.missing,
    )
    return reweighed(data, request, settings, max_weight, representation)


def reweighed(
    data: Dataset,
    request: Request,
    settings: Settings,
    max_weight: float | None,
    representation: Representation | None,
) -> RowWeights:
    """Weigh the rows of a table, or the combinations that were counted."""
    refuse_scores(data)
    if max_weight is not None:
        remedy = "Pass a number of at least 1, such as `max_weight=3`, or leave it out."
        refuse_other_number("max_weight", max_weight, remedy, lambda most: most >= 1)
    largest = math.inf if max_weight is None else float(max_weight)
    task = _task_of(data, request, largest, representation)
    found = _solve(task, settings)
    rule = WeightRule(data.schema, task.families, frozen(found.prices), largest)
    certificate = certify(task.oracle, task.parity, found.prices)
    status = final_status(found, certificate, settings.tol)
    if not status.ok:
        _refuse_infeasible(task)
        warn_unsolved(status, found.residual)
    weights = RowWeights(rule, status, certificate, found.residual, tuple(found.history), data)
    _warn_of_lost(weights)
    return weights


def _warn_of_lost(weights: RowWeights) -> None:
    """Warn of classes whose rows weigh nothing, since a group has none of them to weigh."""
    proof = weights.certificate
    lost = (proof.means.max(axis=0) <= PROVEN) & (proof.means_before.max(axis=0) > PROVEN)
    if not lost.any():
        return
    place = int(np.flatnonzero(lost)[0])
    lacking = str(weights.groups[int(proof.means_before[:, place].argmin())])
    names = [plain_value(name) for name in weights.outcomes[lost]]
    problem = f"All rows of {listed(names)} get the weight 0: {lacking!r} has none of {names[0]!r}."
    remedy = (
        "Raise `epsilon` to keep some, bound other classes alone with a mapping, or put rare "
        "classes or small groups together."
    )
    facts = {"classes": names, "group": lacking}
    warn(DataWarning(problem, remedy=remedy, **facts))


@dataclass(frozen=True, eq=False)
class _Task:
    """A table that was merged, and what is asked of its groups."""

    oracle: WeightOracle
    families: Families
    parity: Parity
    outcomes: list[Any]


def _task_of(
    data: Dataset, request: Request, largest: float, representation: Representation | None
) -> _Task:
    if CONTINUOUS in data.cells.kinds:
        column = data.cells.columns[data.cells.kinds.index(CONTINUOUS)]
        problem = f"The attribute {column!r} is continuous, and weights are for groups."
        remedy = "Cut it into groups, or change labels with r2b.debias, which takes it as it is."
        raise ParameterError(problem, remedy=remedy, column=column)
    rows, cells = merge(data), data.cells
    request = request.of_classes(data.labels.vocabulary)
    in_rows = by_row(cells, len(rows.cells))
    before = rows if in_rows else oracle_of(rows, 1, None).label_means()
    families, parity = resolve(request, cells, rows.cell_weight, before)
    totals = read_totals(representation, families, data.schema)
    whole = with_totals(parity, totals)
    width = rows.n_classes + 1
    needed = 8 * len(rows.cells) * width * (width if whole.design is None else whole.n_groups)
    what = f"Row weights for {rows.n_classes:,} classes in {whole.n_groups:,} groups"
    refuse_beyond_memory(needed, what, "Put rare classes or small groups together first.")
    oracle = WeightOracle.over(rows, whole, largest, by_group=in_rows)
    compared = request.names if families.outcomes is None else families.outcomes.names
    return _Task(oracle, families, whole, list(compared))


def _solve(task: _Task, settings: Settings) -> Outcome:
    parity, curvature = task.parity, CURVATURE
    if parity.design is None:  # means move more where a group is to weigh less than it does
        curvature *= float((parity.cell_share / parity.share).max())
    newton = Newton(task.oracle, parity, 1.0 / curvature)
    start = np.zeros((parity.n_groups, len(task.outcomes) + 1))
    limits = Limits(settings.max_iter, settings.time_limit, settings.progress)
    first = Stage(newton, settings.tol, min(settings.max_iter, SETTINGS.newton_steps))
    outcome = run([first], start, limits)
    if outcome.status is Status.STALLED:
        _refuse_infeasible(task)
        if len(task.oracle.block) <= LARGEST:
            outcome.prices = interior_prices(task.oracle, parity)
        outcome = run([Stage(newton, settings.tol, settings.max_iter)], outcome.prices, limits)
    if outcome.status is Status.SOLVED and not outcome.prices.any():
        outcome.status = Status.ALREADY_FAIR
    outcome.prices = parity.settle(outcome.prices)
    return outcome


def _refuse_infeasible(task: _Task) -> None:
    """Refuse a problem without a solution, and say what would make one."""
    oracle, parity = task.oracle, task.parity
    missed = least_missed(oracle, parity)
    if missed is not None and missed.by <= FEASIBLE:
        return
    epsilon = _rounded_up(smallest_epsilon(oracle, parity))
    cap = _rounded_up(smallest_cap(oracle, parity))
    facts: dict[str, Any] = {"smallest_epsilon": epsilon, "smallest_max_weight": cap}
    problem = "No weights give these groups the totals asked for."
    if missed is not None:
        group, label = str(parity.names[missed.group]), task.outcomes[missed.outcome]
        facts |= {"group": group, "class_name": label, "missed_by": missed.by}
        problem = (
            f"No weights bring the share of class {label!r} in the group {group!r} within the "
            f"bound: it is missed by at least {missed.by:.3g}."
        )
    ways = [] if epsilon is None else [f"`epsilon={epsilon}`"]
    if cap is not None and cap > oracle.largest:
        ways.append(f"`max_weight={cap}`")
    remedy = (
        f"Pass {' or '.join(ways)}, the smallest that work."
        if ways
        else "Put rare classes or small groups together, or change labels with r2b.debias."
    )
    raise InfeasibleError(problem, remedy=remedy, **facts)


def _rounded_up(value: float | None) -> float | None:
    """Round up to three digits: at the very edge of what is possible prices have no limit."""
    if value is None:
        return None
    unit = 10.0 ** (math.floor(math.log10(max(value, _LEAST))) - 2)
    return float(f"{math.ceil(value / unit) * unit:.3g}")


def read_totals(
    representation: Representation | None, families: Families, schema: Schema
) -> Floats:
    """Return the total asked for of each group, in units of the one it has."""
    totals = np.ones(len(families.share))
    if representation is None:
        return totals
    members = {member.name: place for place, member in enumerate(families.members)}
    wanted: Mapping[Any, Any] = dict.fromkeys(members, representation)
    if isinstance(representation, Mapping) and set(map(str, representation)) <= set(members):
        wanted = {str(name): each for name, each in representation.items()}
    elif representation != "equal" and len(members) > 1:
        problem = (
            "`representation` does not say which family it is of, and there are "
            f"{len(members)} families: {listed(members)}."
        )
        remedy = (
            "Pass `representation=equal`, or compare one family with `families=crossed`; in Python "
            "a mapping from families to shares is another way."
        )
        raise ParameterError(problem, remedy=remedy, representation=representation)
    for name, each in wanted.items():
        groups = families.members[members[name]].groups
        share = families.share[groups]
        names = list(map(str, families.names[groups]))
        places: dict[Any, int] = {group: place for place, group in enumerate(names)}
        counting = families.counting[members[name]]
        if isinstance(counting, Crossings):  # a group may also be named by its values
            for codes, place in counting.place:
                values = tuple(map(schema.value_name, counting.columns, codes))
                if place >= 0:
                    places |= dict.fromkeys([values, *values[: len(values) == 1]], place)
        totals[groups] = _shares(each, names, places, name) * share.sum() / share
    return totals


def _shares(wanted: Any, groups: list[str], places: Mapping[Any, int], family: str) -> Floats:
    """Return the share asked for of each group of a family."""
    if isinstance(wanted, str) and wanted == "equal":
        return np.full(len(groups), 1.0 / len(groups))
    fault = f"is {dict(wanted) if isinstance(wanted, Mapping) else wanted!r}"
    if isinstance(wanted, Mapping):
        given: dict[Any, Any] = {
            tuple(map(str, key)) if isinstance(key, tuple) else str(key): each
            for key, each in wanted.items()
        }
        found = {places.get(key): each for key, each in given.items()}
        lacking = [group for place, group in enumerate(groups) if found.get(place) is None]
        shares: list[Any] = [found.get(place) for place in range(len(groups))]
        if None in found:
            fault = f"names {next(key for key in given if key not in places)!r}"
        elif lacking:
            fault = f"lacks {lacking[0]!r}"
        elif all(is_a(Real, each) and each > 0 for each in shares):
            numbers = np.array(shares, np.float64)
            if abs(float(numbers.sum()) - 1.0) <= SUM_ROUNDING:
                return np.asarray(numbers / numbers.sum())
    problem = f"The representation of the family {family!r} {fault}."
    remedy = f"Pass 'equal', or a share above 0 for each of {listed(groups)} that add up to 1."
    raise ParameterError(problem, remedy=remedy, family=family, representation=wanted)
