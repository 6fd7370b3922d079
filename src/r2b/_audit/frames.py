"""The columns of an audit as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from r2b.errors import ParameterError

if TYPE_CHECKING:
    from r2b._audit.facts import Audit, ContinuousAudit, FamilyAudit


def audit_columns(found: Audit, part: str) -> dict[str, Any]:
    """Give the columns of one part of an audit: its groups, or its families.

    Raises
    ------
    ParameterError
        There is no such part.
    """
    if part not in ("groups", "families"):
        raise ParameterError(
            f"part is {part!r}.", remedy="Choose among 'groups', 'families'.", part=part
        )
    return _of_groups(found) if part == "groups" else _of_families(found)


def _of_groups(found: Audit) -> dict[str, Any]:
    families, n_classes = found.families, len(found.classes)
    unknown = [np.full(len(family.groups), np.nan) for family in families]
    levels = [
        blank if family.levels is None else family.levels
        for family, blank in zip(families, unknown, strict=True)
    ]

    def stacked(each: Any) -> Any:
        return np.concatenate([np.zeros(0), *each])

    return {
        "family": [
            family.name for family in families for _ in range(len(family.groups) * n_classes)
        ],
        "group": [
            group for family in families for group in family.groups for _ in range(n_classes)
        ],
        "class": np.tile(found.classes, sum(len(family.groups) for family in families)),
        "rows": np.repeat(stacked(family.rows for family in families), n_classes),
        "share": np.repeat(stacked(family.share for family in families), n_classes),
        "mean": stacked(family.means.ravel() for family in families),
        "overall": stacked(np.tile(family.overall, len(family.groups)) for family in families),
        "level": np.repeat(stacked(levels), n_classes),
    }


def _of_families(found: Audit) -> dict[str, Any]:
    every: list[FamilyAudit | ContinuousAudit] = [*found.families, *found.continuous]
    chances, intervals = [each.chance for each in every], [each.interval for each in every]
    n_others = len(found.continuous)
    return {
        "family": [each.name for each in every],
        "kind": [*(family.kind for family in found.families), *["continuous"] * n_others],
        "value": np.array(
            [
                *(family.disparity for family in found.families),
                *(each.explained for each in found.continuous),
            ]
        ),
        "ratio": np.array([*(family.ratio for family in found.families), *[np.nan] * n_others]),
        "chance": np.array([np.nan if chance is None else chance.quantile for chance in chances]),
        "p_value": np.array([np.nan if chance is None else chance.p_value for chance in chances]),
        "low": np.array([np.nan if interval is None else interval.low for interval in intervals]),
        "high": np.array([np.nan if interval is None else interval.high for interval in intervals]),
        "left_out": np.array([each.left_out for each in every]),
    }
