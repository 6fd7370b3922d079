"""A sample of the rows that stands for all of them while prices are still far from the answer.

Never used for anything that is returned: the last stage of every solve and the certificate walk all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from r2b.merge import Rows
from r2b.oracle.protocol import Evaluation, Floats, Inspection, Oracle

_SEED = 0x7217


@dataclass(frozen=True, eq=False)
class Corrected:
    """A sample whose error is known for the labels as they are; the means of responses are taken to be off by as much.

    That is so where no response touches the border of the simplex, and nearly so where few do. Prices found on the sample are then several
    times nearer to those of all rows, at no cost. The labels themselves are not moved: that would lift rows off the border.

    Attributes
    ----------
    sample : Oracle
    error : ndarray of shape (n_cells, n_classes)
        Cell means of all labels less those of the sample's.
    share : ndarray of shape (n_cells,)
        Share of the weight in each cell.
    """

    sample: Oracle
    error: Floats
    share: Floats

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool) -> Evaluation:
        """Evaluate the sample; its means and, to match them, its value are corrected."""
        seen = self.sample.evaluate(prices, lam, curvature=curvature)
        if lam < 1.0:  # rows are drawn into corners, where their labels' error is not theirs
            return seen
        value = seen.value + float(self.share @ np.einsum("sk,sk->s", prices, self.error)) / lam
        return replace(seen, means=seen.means + self.error / lam, value=value)

    def inspect(self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Floats | None = None) -> Inspection:
        """Inspect the sample as it is."""
        return self.sample.inspect(prices, lam, unchanged=unchanged, answers=answers)

    def fold(self, prices: Floats, lam: float, design: Floats) -> Floats:
        """Add up the curvature of the sample."""
        return self.sample.fold(prices, lam, design)


def thin(rows: Rows, n_rows: int) -> Rows:
    """Take about ``n_rows`` rows, from each group its share but no fewer than an even part, reweighted so that groups keep their weight.

    The sample is drawn with a fixed seed: the same rows give the same sample, and no period in their order can hide a group.

    Examples
    --------
    >>> from r2b.inputs import read
    >>> from r2b.merge import merge
    >>> rng = np.random.default_rng(0)
    >>> rows = merge(read(rng.dirichlet(np.ones(3), 1000), sensitive_features=rng.integers(0, 2, 1000)))
    >>> some = thin(rows, 100)
    >>> len(some.labels) < 200, np.allclose(some.group_weight, rows.group_weight)
    (True, True)
    """
    rng = np.random.default_rng(_SEED)
    step = max(len(rows.groups) // n_rows, 1)
    # One row from each stretch of the table, anywhere in it: as cheap as every n-th row, and blind to any period.
    starts = np.arange(0, len(rows.groups) - step + 1, step)
    chosen = starts + rng.integers(0, step, len(starts))
    fewest = n_rows // (2 * rows.n_groups) + 1
    counts = np.bincount(rows.groups[chosen], minlength=rows.n_groups)
    for group in np.flatnonzero(counts < fewest):
        everyone = np.flatnonzero(rows.groups == group)
        more = everyone[np.sort(rng.permutation(len(everyone))[:fewest])]
        chosen = np.concatenate([chosen[rows.groups[chosen] != group], more])
    # Together by group: the support patterns of a group's rows are then multiplied in few large blocks.
    chosen = chosen[np.argsort(rows.groups[chosen], kind="stable")]
    weight = np.ones(len(chosen)) if rows.weight is None else rows.weight[chosen].copy()
    groups = rows.groups[chosen]
    mass = np.bincount(groups, weight, minlength=rows.n_groups)
    # A group whose sampled rows all weigh nothing takes part with equal weights rather than with none.
    weight[mass[groups] == 0] = 1.0
    mass = np.bincount(groups, weight, minlength=rows.n_groups)
    weight *= (rows.group_weight / mass)[groups]
    return Rows(rows.labels[chosen], groups, weight, rows.n_groups, rows.dataset)
