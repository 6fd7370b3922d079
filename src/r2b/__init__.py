"""Fair labels and fair models for any number of classes and groups, with a certificate.

Examples
--------
>>> import r2b
>>> jobs, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
>>> fair = r2b.debias(jobs, sensitive_features=sex, epsilon=0.1)
>>> fair.status.value, round(fair.certificate.disparity, 3)
('solved', 0.1)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from r2b import compat, datasets, engines, errors, methods, metrics
    from r2b._audit import Audit, Comparison, Frontier, audit, compare, frontier, smallest_epsilon
    from r2b._constraints.families import Family
    from r2b._data import Continuous, Membership
    from r2b._labels import FairLabels, load
    from r2b._labels.debiasing import debias
    from r2b._labels.tags import FairTags
    from r2b._solve.certificate import Certificate
    from r2b._solve.solvers import Progress, Status
    from r2b._verify import Verification, verify
    from r2b._weights import RowWeights, reweigh
    from r2b.engines import Scan, scan
    from r2b.engines.counts import debias_counts
    from r2b.engines.reweighing import reweigh_counts
    from r2b.engines.sql import count_query
    from r2b.report.model import model_report

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "Certificate",
    "Comparison",
    "Continuous",
    "FairLabels",
    "FairTags",
    "Family",
    "Frontier",
    "Membership",
    "Progress",
    "RowWeights",
    "Scan",
    "Status",
    "Verification",
    "audit",
    "compare",
    "compat",
    "count_query",
    "datasets",
    "debias",
    "debias_counts",
    "engines",
    "errors",
    "frontier",
    "load",
    "methods",
    "metrics",
    "model_report",
    "reweigh",
    "reweigh_counts",
    "scan",
    "smallest_epsilon",
    "verify",
]

# Where public names live. A module is imported when something in it is first asked for, so that
# ``import r2b`` costs next to nothing.
_PACKAGES = {"compat", "datasets", "engines", "errors", "methods", "metrics"}
_MODULES = {
    "_audit": (
        "Audit",
        "Comparison",
        "Frontier",
        "audit",
        "compare",
        "frontier",
        "smallest_epsilon",
    ),
    "_constraints.families": ("Family",),
    "_data": ("Continuous", "Membership"),
    "_labels": ("FairLabels", "load"),
    "_labels.tags": ("FairTags",),
    "_solve.certificate": ("Certificate",),
    "_solve.solvers": ("Progress", "Status"),
    "_verify": ("Verification", "verify"),
    "_weights": ("RowWeights", "reweigh"),
    "engines": ("Scan", "scan"),
    "engines.counts": ("debias_counts",),
    "engines.reweighing": ("reweigh_counts",),
    "engines.sql": ("count_query",),
    "_labels.debiasing": ("debias",),
    "report.model": ("model_report",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"r2b.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'r2b' has no attribute {name!r}")
    value = getattr(import_module(f"r2b.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    # Packages that need an extra are no attributes until they are imported.
    return sorted({*__all__, "__version__", *({"models", "sklearn"} & {*globals()})})
