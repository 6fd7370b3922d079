"""Problems to prices: solvers are settings, one driver loop decides when to stop."""

from r2b.solvers.driver import Limits, Outcome, Progress, Stage, Status, run
from r2b.solvers.plan import solve

__all__ = ["Limits", "Outcome", "Progress", "Stage", "Status", "run", "solve"]
