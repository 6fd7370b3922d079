"""Fair labels for multiclass machine learning: the closest labels in demographic parity, exactly, with a proof on every run.

Examples
--------
>>> import r2b
>>> fair = r2b.debias(["a", "b", "b", "a", "a", "a"], sensitive_features=["f", "f", "f", "m", "m", "m"], epsilon=0.1)
>>> fair.status.value, round(fair.certificate.parity, 3)
('solved', 0.1)
"""

from r2b import datasets, errors, methods, metrics, performance, theory
from r2b.api import debias
from r2b.certificate import Certificate
from r2b.families import Family
from r2b.inputs import Continuous, Membership
from r2b.questions import Comparison, Frontier, compare, frontier, smallest_epsilon
from r2b.solution import FairLabels, load
from r2b.solvers import Progress, Status

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "Comparison",
    "Continuous",
    "FairLabels",
    "Family",
    "Frontier",
    "Membership",
    "Progress",
    "Status",
    "compare",
    "datasets",
    "debias",
    "errors",
    "frontier",
    "load",
    "methods",
    "metrics",
    "performance",
    "smallest_epsilon",
    "theory",
]
