"""Proposition 2 as printed is false: one fixed classifier for which its bound fails more often than delta.

The class of functions has one member, so its Rademacher complexity is 0 and only binomial noise is
left. f takes the classes 0 and 1; the training labels are f itself, debiased with epsilon 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Counterexample:
    """Two groups of ``n`` rows, of whom f puts the shares ``low`` and ``high`` into class 1.

    Attributes
    ----------
    n : int
    low, high : float
    delta : float

    Examples
    --------
    >>> COUNTEREXAMPLE.failure("printed") > COUNTEREXAMPLE.delta > COUNTEREXAMPLE.failure("proven")
    True
    """

    n: int = 1_000
    low: float = 0.35
    high: float = 0.65
    delta: float = 1e-4

    @property
    def disparity(self) -> float:
        """The true disparity of f."""
        return round(self.high - self.low, 12)

    @property
    def root(self) -> float:
        """The last term of the printed bound."""
        return sqrt(log(2 * 2 * 2 / self.delta) / (2 * self.n))

    def fit_gap(self) -> Floats:
        """Return tau for every pair of training counts, of shape (n + 1, n + 1).

        Of the closest labels in parity, rows of the group with more of class 1 keep it with
        chance ``1 / (1 + d)``, and rows of the other group without it get it with ``d / (1 + d)``,
        d being the difference of the shares.
        """
        shares = np.arange(self.n + 1) / self.n
        one, other = shares[:, None], shares[None, :]
        more, less = np.maximum(one, other), np.minimum(one, other)
        moved = (more - less) / (1 + more - less)
        return np.asarray(np.maximum(more * moved, (1 - less) * moved))

    def failure(self, bound: Literal["printed", "proven"]) -> float:
        """Return the probability that the true disparity is above the bound, an exact sum."""
        from scipy.stats import binom

        counts = np.arange(self.n + 1)
        chance = np.outer(binom.pmf(counts, self.n, self.low), binom.pmf(counts, self.n, self.high))
        factor = 1 if bound == "printed" else 2
        fails = self.disparity > 2 * self.fit_gap() + factor * self.root
        return float(chance[fails].sum())


COUNTEREXAMPLE: Final = Counterexample()
