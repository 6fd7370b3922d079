"""Questions about labels: how far they are from parity, what parity costs, what a budget buys, how two bounds compare."""

from r2b._audit.comparison import Comparison, compare
from r2b._audit.facts import Audit, ContinuousAudit, FamilyAudit
from r2b._audit.findings import Chance, Difference, RankedGroup
from r2b._audit.measure import audit
from r2b._audit.path import Frontier, FrontierPoint
from r2b._audit.tradeoff import frontier, smallest_epsilon

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
