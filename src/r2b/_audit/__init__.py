"""Questions about labels: how far from parity, what parity costs, what a budget buys."""

from r2b._audit.comparison import Comparison, compare
from r2b._audit.measure import audit
from r2b._audit.results import Audit, Chance, ContinuousAudit, Difference, FamilyAudit, RankedGroup
from r2b._audit.tradeoff import Frontier, FrontierPoint, frontier, smallest_epsilon

__all__ = [
    "Audit",
    "Chance",
    "Comparison",
    "ContinuousAudit",
    "Difference",
    "FamilyAudit",
    "Frontier",
    "FrontierPoint",
    "RankedGroup",
    "audit",
    "compare",
    "frontier",
    "smallest_epsilon",
]
