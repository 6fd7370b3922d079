"""A plain account of an audit, made from its facts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from r2b._constraints.families.doubts import FEWEST
from r2b._data.values import written
from r2b.metrics.chance import format_p_value

if TYPE_CHECKING:
    from r2b._audit.facts import Audit, Chance, ContinuousAudit, Difference, FamilyAudit, RankedGroup
    from r2b.metrics.intervals import Interval

_SHOWN = 5
_TWO_TESTS = (
    "p is of the largest difference between any two groups, and by chance small groups show a large one; "
    "what is called beyond chance is judged for the sizes of its own groups"
)


def account(found: Audit) -> str:
    """Say in a few lines how far from parity the labels are, and how much of that is chance."""
    n_families = len(found.families) + len(found.continuous)
    sizes = (_many(found.n_rows, "row", "rows"), _many(len(found.classes), "class", "classes"), _many(n_families, "family", "families"))
    lines = [f"Audit: {', '.join(sizes)}"]
    lines += _worst(found)
    if found.n_permutations or found.n_boot:
        lines.append(f"  supposed          {_supposed(found.clusters)}")
    if found.small:
        lines.append(f"  small             {_small(found)}")
    if found.left_out > 0:
        lines.append(f"  left out          {100 * found.left_out:.2f} % of the weight is in no family")
    for family in found.families:
        lines += _family(family)
    for attribute in found.continuous:
        lines += _continuous(attribute)
    if found.ranked:
        lines += _ranked(found)
    if found.absent:
        lines.append(f"  absent            {_many(len(found.absent), 'group', 'groups')} without rows in some stratum")
        lines += [f"    {written(each.group)} in {written(each.stratum)}" for each in found.absent[:_SHOWN]]
        if len(found.absent) > _SHOWN:
            lines.append(f"    and {len(found.absent) - _SHOWN} more")
    return "\n".join(lines)


def _worst(found: Audit) -> list[str]:
    worst, largest = found.worst, found.largest
    if largest is None:
        return []
    if worst is None:
        return [f"  worst             none beyond chance; the largest is {_difference(largest)}{_of(largest.family)}{_level(largest)}"]
    return [f"  worst             {_difference(worst)}{_of(worst.family)}{_level(worst)}"]


def _level(each: Difference) -> str:
    return "" if each.level is None else f"; chance explains {each.level:.4f}"


def _supposed(clusters: int | None) -> str:
    if clusters is not None:
        return f"{_many(clusters, 'cluster', 'clusters')} of rows, independent of each other"
    return "rows are independent; if people or annotators have several rows each, say so with clusters"


def _small(found: Audit) -> str:
    family, group, rows = found.small[0]
    many = _many(len(found.small), "group has", "groups have")
    return f"{many} fewer than {FEWEST} rows, the smallest {rows:.3g}: {written(group)}{_of(family)}; see min_group_size"


def _family(family: FamilyAudit) -> list[str]:
    lines = [
        f"  {written(family.name) or 'one attribute'} ({_many(len(family.groups), 'group', 'groups')}{_without(family.left_out)})",
        f"    parity          {family.parity:.4f}  ({_difference(family.largest)})",
        f"    to overall      {family.to_overall:.4f}; smallest ratio {family.ratio:.4f}",
    ]
    lines += _evidence(family.chance, family.interval)
    if family.levels is not None and family.worst != family.largest:
        worst = "no two groups" if family.worst is None else f"most in {_difference(family.worst)}{_level(family.worst)}"
        lines.append(f"    beyond chance   {worst}")
    if family.verdicts_differ:
        lines.append(f"    p and verdict   {_TWO_TESTS}")
    return lines


def _continuous(attribute: ContinuousAudit) -> list[str]:
    of_class = f"of the variance of class {written(attribute.class_name)}, the most of any class"
    lines = [
        f"  {written(attribute.name) or 'one attribute'} (continuous{_without(attribute.left_out)})",
        f"    explains        {100 * attribute.explained:.2f} % {of_class}",
    ]
    return lines + _evidence(attribute.chance, attribute.interval)


def _evidence(chance: Chance | None, interval: Interval | None) -> list[str]:
    lines = []
    if interval is not None:
        lines.append(f"    interval        {interval.low:.4f} to {interval.high:.4f}  ({100 * interval.level:g} %, {interval.method})")
    if chance is not None:
        p = format_p_value(chance.p_value, chance.n_permutations)
        lines.append(f"    by chance       {chance.mean:.4f} on average, up to {chance.quantile:.4f} in 19 of 20; p {p}")
    return lines


def _ranked(found: Audit) -> list[str]:
    lines = ["  groups farthest from their family" + ("" if found.ranked[0].level is None else ", those beyond chance first")]
    return lines + [_group(each) for each in found.ranked]


def _group(each: RankedGroup) -> str:
    away = f"class {written(each.class_name)} {each.mean:.4f} against {each.overall:.4f}, deviation {each.deviation:.4f}"
    judged = (
        "" if each.level is None else f"; {'beyond' if each.beyond_chance else 'within'} chance, which explains {min(each.level, 1.0):.4f}"
    )
    return f"    {written(each.group)} ({_many(round(each.rows), 'row', 'rows')}{', small' if each.small else ''}): {away}{judged}"


def _difference(each: Difference) -> str:
    (high, low), (more, less) = each.groups, each.means
    many, few = (f" ({rows:.3g} {'row' if rows == 1 else 'rows'})" if rows < FEWEST else "" for rows in each.rows)
    groups = f"{written(high)} {more:.4f}{many}, {written(low)} {less:.4f}{few}"
    return f"class {written(each.class_name)}: {groups}, difference {each.value:.4f}"


def _of(family: str) -> str:
    return f", in {written(family)}" if family else ""


def _without(left_out: int) -> str:
    return f", {left_out:,} rows left out" if left_out else ""


def _many(n: int, one: str, several: str) -> str:
    return f"{n:,} {one if n == 1 else several}"
