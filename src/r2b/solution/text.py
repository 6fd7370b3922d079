"""A plain account of a result, as complete as any other rendering of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from r2b.certificate import Certificate
    from r2b.solution.labels import FairLabels

_SHOWN = 5


def account(fair: FairLabels) -> str:
    """Say in a few lines what was done, what holds and what it cost."""
    proof = fair.certificate
    n_classes, n_groups = len(fair.classes), len(fair.groups)
    rows = "" if fair.dataset is None else f"{fair.dataset.n_rows:,} rows, "
    lines = [
        f"Fair labels: {rows}{n_classes} classes, {n_groups} group{'s' if n_groups > 1 else ''}",
        f"  status            {fair.status.value}. {fair.status.advice}",
        f"  parity            {proof.parity_before:.4f} -> {proof.parity:.4f}  (epsilon {_bound(proof.epsilon)})",
        f"  squared distance  {proof.distance:.6f} per row",
        f"  expected changes  {100 * proof.expected_changes:.2f} % of labels",
        f"  certificate       {_proof(proof)}",
    ]
    changes = [] if fair.dataset is None else fair.largest_changes(_SHOWN)
    if changes:
        lines.append("  largest changes")
        lines += [f"    {c.group}: {c.old} -> {c.new}, {c.weight:,.1f} rows ({100 * c.share:.1f} % of that cell)" for c in changes]
    return "\n".join(lines)


def _proof(proof: Certificate) -> str:
    return f"gap {abs(proof.relative_gap):.0e}, above epsilon {proof.excess:.0e}, off the simplex {proof.simplex_violation:.0e}"


def _bound(epsilon: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    low, high = float(epsilon.min()), float(epsilon.max())
    return f"{low:g}" if low == high else f"{low:g} to {high:g} by class"
