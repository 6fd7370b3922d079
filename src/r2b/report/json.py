"""The facts as JSON text."""

from __future__ import annotations

import json
from typing import Any


def to_json(facts: dict[str, Any]) -> str:
    """Write the facts as strict JSON, in a fixed order, with a newline at the end.

    Parameters
    ----------
    facts : dict
        From :func:`r2b.report.gather`.

    Returns
    -------
    str

    Examples
    --------
    >>> from r2b.report import gather
    >>> facts = gather(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], n_boot=0, n_permutations=0)
    >>> to_json(facts).splitlines()[1:3]
    ['  "format": "r2b-report",', '  "version": 1,']
    """
    return json.dumps(facts, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
