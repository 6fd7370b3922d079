"""Problems to prices: three solvers, one loop around them, and the plan that chooses."""

from r2b._solve.settings import TOLERANCE
from r2b._solve.solvers.driver import (
    Limits,
    Outcome,
    Progress,
    Stage,
    Status,
    final_status,
    run,
)
from r2b._solve.solvers.plan import solve

__all__ = [
    "TOLERANCE",
    "Limits",
    "Outcome",
    "Progress",
    "Stage",
    "Status",
    "final_status",
    "run",
    "solve",
]
