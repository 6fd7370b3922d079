"""Judge an answer without the package and its certificate.

What is read of an answer is the matrix of new labels and one price per group and class. From these
and the data: the largest violation of the simplex and of each bound, and the duality gap. Means of
groups lie between 0 and 1, so the support functions below are taken over means that do, which makes
them finite: any prices give a valid lower bound. The gap is what rows lose against their best
response to the prices, and what prices times means lack of the support function; no large numbers
cancel in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from campaign_draws import Drawn
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# what a certificate lets pass is 1e-9; a tenth more is for the rounding of these sums
ALLOWED = 1.1e-9


def judge(problem: Drawn, answer: Floats, prices: Floats, names: Sequence[str]) -> dict[str, Any]:
    """Return violations and gap of labels at the prices of groups with these names."""
    share = problem.weight / problem.weight.sum()
    shift = np.zeros_like(problem.labels)
    excess, unused, at = 0.0, 0.0, 0
    # prices may be large, and times what a row lacks of 1 they would hide the gap
    whole = answer / answer.sum(axis=1, keepdims=True)
    epsilon, bound = float(problem.arguments["epsilon"]), str(problem.arguments["bound"])
    for member in problem.members:
        mine = list(names[at : at + len(member)])
        if set(mine) != set(member):
            return {"fault": f"groups {mine[:5]} where {list(member)[:5]} were drawn"}
        part = np.stack([member[name] for name in mine], axis=1)
        own = prices[at : at + len(member)]
        at += len(member)
        weight = share @ part
        # a constant for all groups of a family buys nothing, and large ones cost digits
        if bound in ("range", "to_overall"):
            own = own - weight @ own / weight.sum()
        counted = (part * share[:, None]).T
        excess = max(
            excess,
            _violation(bound, counted @ answer / weight[:, None], weight, epsilon, problem.target),
        )
        unused += _support(bound, own, weight, epsilon, problem.target) - float(
            (own * (counted @ whole)).sum()
        )
        shift += part @ own
    lam = float(problem.arguments["lam"])
    worth = problem.labels - shift
    worth -= worth.max(axis=1, keepdims=True)  # which costs every row of the simplex the same
    nearest = project(worth / lam)
    lost = share @ (0.5 * lam * (whole**2 - nearest**2) - (whole - nearest) * worth).sum(axis=1)
    scale = share @ (0.5 * lam * whole**2 + np.abs(whole * problem.labels)).sum(axis=1)
    return {
        "simplex": float(max(-answer.min(), np.abs(answer.sum(axis=1) - 1.0).max())),
        "excess": excess,
        "gap": (float(lost) + unused) / float(scale),
    }


def clean(verdict: dict[str, Any]) -> bool:
    """Return whether an answer is optimal; a gap below zero is as wrong as one above."""
    return "fault" not in verdict and bool(
        max(verdict["simplex"], verdict["excess"], abs(verdict["gap"])) <= ALLOWED
    )


def project(rows: Floats) -> Floats:
    """Project rows onto the simplex, by sorting.

    >>> project(np.array([[1.5, 0.0, -3.0], [0.4, 0.4, 0.4]])).round(3)
    array([[1.   , 0.   , 0.   ],
           [0.333, 0.333, 0.333]])
    """
    falling = -np.sort(-rows, axis=1)
    sums = np.cumsum(falling, axis=1) - 1.0
    counts = np.arange(1, rows.shape[1] + 1)
    last = (falling * counts > sums).sum(axis=1) - 1
    level = np.take_along_axis(sums, last[:, None], axis=1) / (last[:, None] + 1)
    return np.asarray(np.maximum(rows - level, 0.0))


def _violation(
    bound: str, means: Floats, weight: Floats, epsilon: float, target: Floats | None
) -> float:
    if bound == "range":
        return float((np.ptp(means, axis=0) - epsilon).max())
    if bound == "to_overall":
        return float((np.abs(means - weight @ means / weight.sum()) - epsilon).max())
    if bound == "ratio":
        return float(((1.0 - epsilon) * means.max(axis=0) - means.min(axis=0)).max())
    assert target is not None
    return float((np.abs(means - target) - epsilon / 2).max())


def _support(
    bound: str, prices: Floats, weight: Floats, epsilon: float, target: Floats | None
) -> float:
    """Return the most that prices times means can be, means within the bound."""
    heavy = weight[:, None] * prices
    up, total = np.maximum(heavy, 0.0).sum(axis=0), heavy.sum(axis=0)
    if bound == "range":  # means between c and c + epsilon
        return float((np.maximum(total, 0.0) + epsilon * (up - np.maximum(total, 0.0))).sum())
    if bound == "ratio":  # means between (1 - epsilon) c and c
        return float(np.maximum(0.0, up + (1.0 - epsilon) * (total - up)).sum())
    if bound == "target":
        assert target is not None
        return float(total @ target + epsilon / 2 * np.abs(heavy).sum())
    # Deviations of at most epsilon that sum to zero by weight: a knapsack, whose price is a
    # weighted median.
    centre = np.array([_median(column, weight) for column in prices.T])
    return float(
        (
            np.maximum(total, 0.0)
            + epsilon * (weight[:, None] * np.abs(prices - centre)).sum(axis=0)
        ).sum()
    )


def _median(values: Floats, weight: Floats) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(reached, reached[-1] / 2)]])
