"""What fair means: families of groups, the set of means that a bound allows, its projection, its support function.

This package knows means, weights and prices of groups and cells; it never sees a row.
"""

from r2b._constraints.parity.bands import OverallBound, RangeBound, RatioBound
from r2b._constraints.parity.bounds import Bound, MomentBound, Projected, Sides, TargetBound
from r2b._constraints.parity.constraint import Member, Parity, Slim, proves_infeasible, surely_feasible, without_implied

__all__ = [
    "Bound",
    "Member",
    "MomentBound",
    "OverallBound",
    "Parity",
    "Projected",
    "RangeBound",
    "RatioBound",
    "Sides",
    "Slim",
    "TargetBound",
    "proves_infeasible",
    "surely_feasible",
    "without_implied",
]
