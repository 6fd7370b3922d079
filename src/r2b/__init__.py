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

if TYPE_CHECKING:
    from r2b import datasets, errors, explained, methods, metrics, performance, scale, theory
    from r2b.api import debias
    from r2b.auditing import Audit, audit
    from r2b.certificate import Certificate
    from r2b.families import Family
    from r2b.inputs import Continuous, Membership
    from r2b.questions import Comparison, Frontier, compare, frontier, smallest_epsilon
    from r2b.scale import FairTable, Scan, scan
    from r2b.solution import FairLabels, load
    from r2b.solvers import Progress, Status

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "Certificate",
    "Comparison",
    "Continuous",
    "FairLabels",
    "FairTable",
    "Family",
    "Frontier",
    "Membership",
    "Progress",
    "Scan",
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
    "scale",
    "scan",
    "smallest_epsilon",
    "theory",
]

# What lives where. A room is opened when something in it is first asked for, so that importing the package costs next to nothing;
# ``device`` needs PyTorch, and is not among what a star brings.
_ROOMS = {"datasets", "device", "errors", "explained", "methods", "metrics", "performance", "scale", "theory"}
_HOMES = {
    "api": ("debias",),
    "auditing": ("Audit", "audit"),
    "certificate": ("Certificate",),
    "families": ("Family",),
    "inputs": ("Continuous", "Membership"),
    "questions": ("Comparison", "Frontier", "compare", "frontier", "smallest_epsilon"),
    "scale": ("FairTable", "Scan", "scan"),
    "solution": ("FairLabels", "load"),
    "solvers": ("Progress", "Status"),
}
_HOME_OF = {name: room for room, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"r2b.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'r2b' has no attribute {name!r}")
    value = getattr(import_module(f"r2b.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
