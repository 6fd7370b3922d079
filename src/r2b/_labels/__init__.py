"""The result of debiasing: prices with evidence, labels in every form, and a file to keep them."""

from r2b._labels.labels import FairLabels
from r2b._labels.realised import means_by_cell
from r2b._labels.storage import load
from r2b._labels.summary import Change, ConstraintCost

__all__ = ["Change", "ConstraintCost", "FairLabels", "load", "means_by_cell"]
