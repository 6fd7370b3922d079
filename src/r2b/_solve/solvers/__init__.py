"""Problems to prices: solvers are settings, one driver loop decides when to stop."""

from r2b._solve.solvers.driver import (
    TOLERANCE,
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
