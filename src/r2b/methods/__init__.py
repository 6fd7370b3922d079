"""The methods of the paper and their rivals, with ``fit`` and ``transform``.

Methods on labels (``Exact``, ``R2B``, ``R2B0``, ``HTO``, ``OST``, ``Unchanged``) give an N x L
matrix, ``Reweighing`` gives weights, ``DPRemover`` gives features, ``RTO`` binary decisions. The
exact optimum is the yardstick for all.
"""

from r2b.methods.admm import R2B, R2B0
from r2b.methods.base import LabelMethod
from r2b.methods.exact import Exact, Unchanged
from r2b.methods.ost import OST
from r2b.methods.remover import DPRemover
from r2b.methods.reweighing import Reweighing
from r2b.methods.rto import HTO, RTO

__all__ = [
    "HTO",
    "OST",
    "R2B",
    "R2B0",
    "RTO",
    "DPRemover",
    "Exact",
    "LabelMethod",
    "Reweighing",
    "Unchanged",
]
