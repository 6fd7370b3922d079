"""Fair labels for multiclass machine learning: the closest labels in demographic parity, exactly, with a proof on every run.

Examples
--------
>>> import r2b
>>> fair = r2b.debias(["a", "b", "b", "a", "a", "a"], sensitive_features=["f", "f", "f", "m", "m", "m"], epsilon=0.1)
>>> fair.status.value, round(fair.certificate.parity, 3)
('solved', 0.1)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from r2b import errors, metrics
from r2b.api import debias
from r2b.audit import Audit, audit
from r2b.certificate import Certificate
from r2b.families import Family
from r2b.inputs import Continuous, Membership
from r2b.questions import Comparison, Frontier, compare, frontier, smallest_epsilon
from r2b.solution import FairLabels, load
from r2b.solvers import Progress, Status

if TYPE_CHECKING:
    from r2b import datasets, explained, methods, performance, theory

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "Certificate",
    "Comparison",
    "Continuous",
    "FairLabels",
    "Family",
    "Frontier",
    "Membership",
    "Progress",
    "Status",
    "audit",
    "compare",
    "datasets",
    "debias",
    "errors",
    "explained",
    "frontier",
    "load",
    "methods",
    "metrics",
    "performance",
    "smallest_epsilon",
    "theory",
]

# Rooms that a first call to debias does not need; they are half of the time that importing everything would take.
_WAITING = {"datasets", "explained", "methods", "performance", "theory"}


def __getattr__(name: str) -> Any:
    if name in _WAITING:
        return import_module(f"r2b.{name}")
    raise AttributeError(f"module 'r2b' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
