"""A plain account of an audit, made from its facts alone."""

from __future__ import annotations

from r2b._audit.facts import Audit, ContinuousAudit, FamilyAudit
from r2b._audit.findings import Difference, RankedGroup
from r2b._constraints.families.doubts import FEWEST
from r2b._data.values import written
from r2b.metrics.chance import format_p_value

_SHOWN = 5
_TWO_TESTS = (
    "p is of the largest difference between any two groups, and by chance small groups show a large one; "
    "what is called beyond chance is judged for the sizes of its own groups"
)


def format_audit(found: Audit) -> str:
    """Say in a few lines how far from parity the labels are, and how much of that is chance."""
    n_families, worst = len(found.families) + len(found.continuous), found.worst or found.largest
    sizes = (
        plural(found.n_rows, "row", "rows"),
        plural(len(found.classes), "class", "classes"),
        plural(n_families, "family", "families"),
    )
    lines = [f"Audit: {', '.join(sizes)}"]
    if worst is not None:
        none = "" if found.worst else "none beyond chance; the largest is "
        lines.append(
            f"  worst             {none}{_format_difference(worst)}{_in(worst.family)}{_format_level(worst)}"
        )
    if found.clusters is not None:
        lines.append(
            f"  supposed          {plural(found.clusters, 'cluster', 'clusters')} of rows, independent of each other"
        )
    elif found.n_permutations or found.n_boot:
        lines.append(
            "  supposed          rows are independent; if people or annotators have several rows each, say so with clusters"
        )
    if found.small:
        (where, group, rows), many = (
            found.small[0],
            plural(len(found.small), "group has", "groups have"),
        )
        smallest = f"the smallest {rows:.3g}: {written(group)}{_in(where)}"
        lines.append(
            f"  small             {many} fewer than {FEWEST} rows, {smallest}; see min_group_size"
        )
    if found.left_out > 0:
        lines.append(
            f"  left out          {100 * found.left_out:.2f} % of the weight is in no family"
        )
    for family in found.families + found.continuous:
        lines += _format_family(family)
    if found.ranked:
        lines.append(
            "  groups farthest from their family"
            + ("" if found.ranked[0].level is None else ", those beyond chance first")
        )
        lines += [_format_group(group) for group in found.ranked]
    if found.absent:
        lines.append(
            f"  absent            {plural(len(found.absent), 'group', 'groups')} without rows in some stratum"
        )
        lines += [
            f"    {written(each.group)} in {written(each.stratum)}"
            for each in found.absent[:_SHOWN]
        ]
        if len(found.absent) > _SHOWN:
            lines.append(f"    and {len(found.absent) - _SHOWN} more")
    return "\n".join(lines)


def plural(n: int, one: str, several: str) -> str:
    """Write a number and its noun."""
    return f"{n:,} {one if n == 1 else several}"


def _format_family(found: FamilyAudit | ContinuousAudit) -> list[str]:
    name, left_out = (
        written(found.name) or "one attribute",
        f", {found.left_out:,} rows left out" if found.left_out else "",
    )
    if isinstance(found, FamilyAudit):
        lines = [
            f"  {name} ({plural(len(found.groups), 'group', 'groups')}{left_out})",
            f"    parity          {found.disparity:.4f}  ({_format_difference(found.largest)})",
            f"    to overall      {found.to_overall:.4f}; smallest ratio {found.ratio:.4f}",
        ]
    else:
        of_class = f"of the variance of class {written(found.class_name)}, the most of any class"
        lines = [
            f"  {name} (continuous{left_out})",
            f"    explains        {100 * found.explained:.2f} % {of_class}",
        ]
    interval, chance = found.interval, found.chance
    if interval is not None:
        lines.append(
            f"    interval        {interval.low:.4f} to {interval.high:.4f}  ({100 * interval.level:g} %, {interval.method})"
        )
    if chance is not None:
        p = format_p_value(chance.p_value, chance.n_permutations)
        lines.append(
            f"    by chance       {chance.mean:.4f} on average, up to {chance.quantile:.4f} in 19 of 20; p {p}"
        )
    if isinstance(found, FamilyAudit) and found.levels is not None and found.worst != found.largest:
        worst = (
            "no two groups"
            if found.worst is None
            else f"most in {_format_difference(found.worst)}{_format_level(found.worst)}"
        )
        lines.append(f"    beyond chance   {worst}")
    if isinstance(found, FamilyAudit) and found.verdicts_differ:
        lines.append(f"    p and verdict   {_TWO_TESTS}")
    return lines


def _format_group(each: RankedGroup) -> str:
    away = f"class {written(each.class_name)} {each.mean:.4f} against {each.overall:.4f}, deviation {each.deviation:.4f}"
    if each.level is not None:
        away += f"; {'beyond' if each.beyond_chance else 'within'} chance, which explains {min(each.level, 1.0):.4f}"
    return f"    {written(each.group)} ({plural(round(each.rows), 'row', 'rows')}{', small' if each.small else ''}): {away}"


def _format_difference(each: Difference) -> str:
    (high, low), (more, less) = each.groups, each.means
    many, few = (
        f" ({rows:.3g} {'row' if rows == 1 else 'rows'})" if rows < FEWEST else ""
        for rows in each.rows
    )
    groups = f"{written(high)} {more:.4f}{many}, {written(low)} {less:.4f}{few}"
    return f"class {written(each.class_name)}: {groups}, difference {each.value:.4f}"


def _format_level(each: Difference) -> str:
    return "" if each.level is None else f"; chance explains {each.level:.4f}"


def _in(family: str) -> str:
    return f", in {written(family)}" if family else ""
