"""Evidence that returned labels are fair and optimal, recomputed from the data and those labels; never from solver state.

For any rows x, any prices nu with ``sum_s W_s nu_sk = 0`` and ``g_i = lam x_i - y_i + nu_s``, the optimum is at least

    sum_i w_i ( min_k g_ik - lam/2 |x_i|^2 )  -  sum_k eps_k / 2 sum_s W_s |nu_sk|,

because ``lam/2 |v|^2 - <v, y - nu>`` lies above its tangent at x. No projection and no solver is needed to check it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b.inputs.probabilities import TOLERANCE
from r2b.oracle import Oracle
from r2b.problem import Problem

Floats = NDArray[np.float64]

PROVEN = 1e-9  # largest relative gap, excess over epsilon and simplex violation that a solved run may show


@dataclass(frozen=True, eq=False)
class Certificate:
    """What holds for the returned labels.

    Attributes
    ----------
    parity : float
        Largest difference between group means of any class.
    parity_by_class : ndarray of shape (n_classes,)
    parity_before : float
        The same for the labels that came in.
    epsilon : ndarray of shape (n_classes,)
    excess : float
        Largest amount by which a class lies above its epsilon; 0 where all are met.
    means, means_before : ndarray of shape (n_groups, n_classes)
    objective : float
        ``lam/2 |x|^2 - <x, y>`` per unit of weight.
    lower_bound : float
        No labels that meet epsilon have a smaller objective.
    relative_gap : float
        ``(objective - lower_bound)`` over the sum of the sizes of the objective's two terms.
    distance : float
        Mean of ``|x - y|^2``.
    expected_changes : float
        Share of the weight whose label changes: mean total-variation distance, for class labels the chance that a row changes.
    simplex_violation : float
        Largest amount by which a row is negative or off a sum of 1.
    simplex_allowance : float
        What of it may be: 1e-9 for labels made here; for labels that go out as they came in, what the input check lets pass.

    Examples
    --------
    >>> import r2b
    >>> fair = r2b.debias(["a", "b", "a", "a"], sensitive_features=["f", "f", "m", "m"], epsilon=0)
    >>> fair.certificate.holds, round(fair.certificate.parity_before, 3)
    (True, 0.5)
    """

    parity: float
    parity_by_class: Floats
    parity_before: float
    epsilon: Floats
    excess: float
    means: Floats
    means_before: Floats
    objective: float
    lower_bound: float
    relative_gap: float
    distance: float
    expected_changes: float
    simplex_violation: float
    simplex_allowance: float = PROVEN

    @property
    def holds(self) -> bool:
        """Whether gap and parity are within 1e-9, and rows on the simplex as far as they may be asked to be."""
        return self.excess <= PROVEN and abs(self.relative_gap) <= PROVEN and self.simplex_violation <= self.simplex_allowance

    def to_json(self) -> dict[str, Any]:
        """Give the certificate as plain values that strict JSON can hold; an infinite epsilon is the text "inf"."""
        stored: dict[str, Any] = {name: np.asarray(value).tolist() for name, value in asdict(self).items()}
        stored["epsilon"] = [value if np.isfinite(value) else "inf" for value in stored["epsilon"]]
        return stored

    @classmethod
    def from_json(cls, stored: dict[str, Any], n_groups: int, n_classes: int) -> Certificate:
        """Restore a certificate from :meth:`to_json`.

        Raises
        ------
        ValueError
            A value is missing, of the wrong shape or not a number.
        """
        shapes = {
            "parity_by_class": (n_classes,),
            "epsilon": (n_classes,),
            "means": (n_groups, n_classes),
            "means_before": (n_groups, n_classes),
        }
        values: dict[str, Any] = {}
        for name in cls.__dataclass_fields__:
            array = np.array(stored[name], dtype=np.float64)
            if array.shape != shapes.get(name, ()) or np.isnan(array).any():
                raise ValueError(f"{name} of the certificate is {stored[name]!r}")
            values[name] = array if array.ndim else float(array)
        return cls(**values)


def certify(problem: Problem, oracle: Oracle, prices: Floats, means_before: Floats, *, unchanged: bool = False) -> Certificate:
    """Certify the labels that go out at these prices (or the old labels, if ``unchanged``).

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
        Used to walk data and returned labels once.
    prices : ndarray of shape (n_groups, n_classes)
        Any prices give a valid bound; the optimal ones a tight one.
    means_before : ndarray of shape (n_groups, n_classes)
        Group means of the labels that came in.
    unchanged : bool
        The old labels themselves go out.
    """
    lam, share, bound = float(problem.lam), problem.share, problem.bound
    seen = oracle.inspect(prices, lam, unchanged=unchanged)
    size, agreement = 0.5 * lam * seen.squared_norm, seen.agreement
    # All terms of the gap are >= 0 for labels that meet epsilon, so no digits cancel: what rows and what groups leave on the table.
    # Only balanced prices bound anything. What they are off balance is taken from them, which changes a row's slack by at most twice it.
    off_balance = share @ prices
    balanced = prices - off_balance
    support = bound.support(balanced, share) - float(share @ (balanced * seen.means).sum(axis=1))
    gap = seen.slack + 2.0 * float(np.abs(off_balance).max()) + support
    by_class = np.ptp(seen.means, axis=0)
    return Certificate(
        parity=float(by_class.max()),
        parity_by_class=by_class,
        parity_before=float(np.ptp(means_before, axis=0).max()),
        epsilon=bound.epsilon,
        excess=float(bound.violation(seen.means).max()),
        means=seen.means,
        means_before=means_before,
        objective=size - agreement,
        lower_bound=size - agreement - gap,
        relative_gap=gap / (size + agreement),
        distance=seen.squared_distance,
        expected_changes=seen.moved,
        simplex_violation=seen.simplex_violation,
        simplex_allowance=TOLERANCE[problem.rows.labels.dtype] if unchanged else PROVEN,
    )
