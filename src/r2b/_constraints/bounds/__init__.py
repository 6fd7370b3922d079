"""The bounds, each in a module of its own, and the table of those that there are.

A new bound is a module here and a line in ``BOUNDS``.
"""

from typing import Literal, get_args

from r2b._constraints.bounds.base import Asked, Bound, Parameter, Projected, Sides
from r2b._constraints.bounds.moments import MomentBound
from r2b._constraints.bounds.range import RangeBound
from r2b._constraints.bounds.ratio import RatioBound
from r2b._constraints.bounds.target import TargetBound
from r2b._constraints.bounds.to_overall import OverallBound
from r2b._constraints.bounds.to_reference import ReferenceBound

__all__ = [
    "BOUNDS",
    "CHOICES",
    "PARAMETERS",
    "Asked",
    "Bound",
    "BoundName",
    "MomentBound",
    "OverallBound",
    "Parameter",
    "Projected",
    "RangeBound",
    "RatioBound",
    "ReferenceBound",
    "Sides",
    "TargetBound",
]

BoundName = Literal["range", "to_overall", "ratio", "target", "to_reference"]
"""Those that a user may choose; a continuous attribute has moments whatever is chosen."""

BOUNDS: dict[str, type[Bound]] = {
    each.name: each
    for each in (RangeBound, OverallBound, RatioBound, TargetBound, ReferenceBound, MomentBound)
}
CHOICES: tuple[str, ...] = get_args(BoundName)
PARAMETERS: dict[str, tuple[str, Parameter]] = {
    name: (each.name, parameter)
    for each in BOUNDS.values()
    for name, parameter in each.parameters.items()
}
"""The options of all bounds beside epsilon: the bound that each belongs to, and what it is."""
