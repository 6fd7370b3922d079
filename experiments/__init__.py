"""The paper's experiments, rerun: each run a row, tables and figures from rows, both numbers shown.

``reproduce("adult")`` or ``python -m experiments adult`` runs one; :mod:`experiments.experiment`
says how another plugs in.
"""

from __future__ import annotations

import os
from os import PathLike

from experiments.experiment import NAMES, Experiment, find
from experiments.runner import Progress, reproduce, rerun

__all__ = ["NAMES", "Experiment", "Progress", "find", "reproduce", "rerun", "within_reach"]


def within_reach(data: str | PathLike[str] | None = None) -> tuple[list[str], list[str]]:
    """Tell which experiments can run here, and which lack a folder that holds their data.

    Examples
    --------
    >>> can, cannot = within_reach("some/folder")
    >>> len(can), cannot
    (14, [])
    """
    named = data is not None or bool(os.environ.get("R2B_DATA"))
    left_out = [] if named else [name for name in NAMES if find(name).needs_data]
    return [name for name in NAMES if name not in left_out], left_out
