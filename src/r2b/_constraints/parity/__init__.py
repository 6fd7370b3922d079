"""What fair means: families of groups, the set of means that a bound allows, its projection, its support function.

This room knows means, weights and prices of groups and cells; it never sees a row.
"""

from r2b._constraints.parity.bands import OverallBound, RangeBound, RatioBound
from r2b._constraints.parity.bounds import Bound, MomentBound, Projected, Sides, TargetBound
from r2b._constraints.parity.constraint import Member, Parity, proves_infeasible, surely_feasible
from r2b._constraints.parity.implied import Slim, without_implied

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
