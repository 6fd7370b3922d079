"""What fair means: families of groups, the set of means that a bound allows, its projection, its support function.

This package knows means, weights and prices of groups and cells; it never sees a row.
"""

from r2b._constraints.parity.bands import OverallBound, RangeBound, RatioBound
from r2b._constraints.parity.bounds import Bound, MomentBound, TargetBound
from r2b._constraints.parity.constraint import Member, Parity, Slim, without_implied
from r2b._constraints.parity.offsets import OffsetBound

__all__ = [
    "Bound",
    "Member",
    "MomentBound",
    "OffsetBound",
    "OverallBound",
    "Parity",
    "RangeBound",
    "RatioBound",
    "TargetBound",
]
__all__ += ["Slim", "without_implied"]
