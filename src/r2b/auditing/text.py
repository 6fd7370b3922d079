"""A plain account of an audit, made from its facts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from r2b.inputs.names import written

if TYPE_CHECKING:
    from r2b.auditing.facts import Audit, Chance, ContinuousAudit, Difference, FamilyAudit, RankedGroup
    from r2b.intervals import Interval

_SHOWN = 5


def account(found: Audit) -> str:
    """Say in a few lines how far from parity the labels are, and how much of that is chance."""
    n_families = len(found.families) + len(found.continuous)
    sizes = (_many(found.n_rows, "row", "rows"), _many(len(found.classes), "class", "classes"), _many(n_families, "family", "families"))
    lines = [f"Audit: {', '.join(sizes)}"]
    if found.families:
        worst = max(found.families, key=lambda family: family.parity)
        known = "" if worst.chance is None else f"; fair labels show {worst.chance.mean:.4f}"
        lines.append(f"  worst             {_difference(worst.largest)}{_of(worst.name)}{known}")
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


def _family(family: FamilyAudit) -> list[str]:
    lines = [
        f"  {written(family.name) or 'one attribute'} ({_many(len(family.groups), 'group', 'groups')}{_without(family.left_out)})",
        f"    parity          {family.parity:.4f}  ({_difference(family.largest)})",
        f"    to overall      {family.to_overall:.4f}; smallest ratio {family.ratio:.4f}",
    ]
    return lines + _evidence(family.chance, family.interval)


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
        lines.append(f"    interval        {interval.low:.4f} to {interval.high:.4f}  ({100 * interval.level:g} %, bootstrap)")
    if chance is not None:
        lines.append(f"    by chance       {chance.mean:.4f} on average, below {chance.quantile:.4f} in 19 of 20; p = {chance.p_value:.3g}")
    return lines


def _ranked(found: Audit) -> list[str]:
    lines = ["  groups farthest from their family" + ("" if found.ranked[0].chance is None else ", those beyond chance first")]
    return lines + [_group(each) for each in found.ranked]


def _group(each: RankedGroup) -> str:
    away = f"class {written(each.class_name)} {each.mean:.4f} against {each.overall:.4f}, deviation {each.deviation:.4f}"
    judged = "" if each.chance is None else f"; {'beyond' if each.beyond_chance else 'within'} chance (alone {each.chance.quantile:.4f})"
    return f"    {written(each.group)} ({_many(round(each.rows), 'row', 'rows')}): {away}{judged}"


def _difference(each: Difference) -> str:
    (high, low), (more, less) = each.groups, each.means
    groups = f"{written(high)} {more:.4f}, {written(low)} {less:.4f}"
    return f"class {written(each.class_name)}: {groups}, difference {each.value:.4f}"


def _of(family: str) -> str:
    return f", in {written(family)}" if family else ""


def _without(left_out: int) -> str:
    return f", {left_out:,} rows left out" if left_out else ""


def _many(n: int, one: str, several: str) -> str:
    return f"{n:,} {one if n == 1 else several}"
