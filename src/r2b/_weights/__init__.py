"""Weights of rows, for labels that may not be changed: ``r2b.reweigh`` and its result."""

from r2b._weights.result import RowWeights, WeightCertificate
from r2b._weights.reweighing import reweigh

__all__ = ["RowWeights", "WeightCertificate", "reweigh"]
