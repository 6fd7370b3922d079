"""The answer with its evidence: prices, status, certificate, every form in which labels may leave, and a file to keep it in."""

from r2b._labels.account import Change, ConstraintCost
from r2b._labels.labels import FairLabels
from r2b._labels.realised import means_by_cell
from r2b._labels.storage import load

__all__ = ["Change", "ConstraintCost", "FairLabels", "load", "means_by_cell"]
