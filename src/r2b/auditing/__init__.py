"""Measure, without solving: how far labels are from parity, how much of that chance explains, and which groups are farthest."""

from r2b.auditing.differences import Chance, Difference, RankedGroup
from r2b.auditing.facts import Audit, ContinuousAudit, FamilyAudit
from r2b.auditing.measure import audit

__all__ = ["Audit", "Chance", "ContinuousAudit", "Difference", "FamilyAudit", "RankedGroup", "audit"]
