"""A sample of the rows that stands for all of them while prices are still far from the answer.

Never used for anything that is returned: the last stage of every solve and the certificate read all
rows.
"""

from __future__ import annotations

import numpy as np

from r2b._data.arrays import Floats, Whole
from r2b._data.merge import Rows

_SEED = 0x7217


THIN_FROM = 1 << 21  # entries from which a solve starts on samples
# with fewer a sample tells little of the curvature: passes then go up by more than a larger one
# costs
ROWS_PER_PRICE = 20
# With fewer still the sample has another answer than all rows, on faces of its own, and solving for
# its prices costs what it does on all.
FEWEST_PER_PRICE = 4
_PARTS = (32, 16)  # one row in 32 to find prices, one in 16 to stand for all rows between passes


def sample_sizes(n_rows: int, enough: int) -> tuple[int, int]:
    """Give the rows of a small and of a larger sample, where the larger one should have ``enough``."""
    small, large = (max(n_rows // part, enough * _PARTS[1] // part) for part in _PARTS)
    return small, large


def stretches(n_rows: int, n_wanted: int, rng: np.random.Generator | None = None) -> Whole:
    """Pick one row from each stretch of the table, anywhere in it: as cheap as every n-th row, and blind to any period.

    Without random numbers handed in they come from a fixed seed: the same rows give the same
    sample.

    Examples
    --------
    >>> len(stretches(1000, 100)), bool((np.diff(stretches(1000, 100)) > 0).all())
    (100, True)
    """
    rng = np.random.default_rng(_SEED) if rng is None else rng
    step = max(n_rows // n_wanted, 1)
    starts = np.arange(0, n_rows - step + 1, step)
    return starts + rng.integers(0, step, len(starts))


def calibrated(design: Floats, weight: Floats, wanted: Floats) -> Floats | None:
    """Weigh sampled rows so that the columns of their design have the means of all rows; None where that takes too much.

    Bounds compare means of groups whose classes add up to 1. In a sample whose groups had other
    shares they would add up to something else, and closed bounds could not be met at all. The
    weights are multiplied by ``1 + b_i c``, which moves them the least.

    Examples
    --------
    >>> design = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> weight = calibrated(design, np.ones(3), np.array([0.5, 0.5]))
    >>> (weight @ design).round(9).tolist()
    [0.5, 0.5]
    """
    weight = weight / weight.sum()
    whole = np.column_stack([np.ones(len(design)), design])
    pairs = whole.T @ (weight[:, None] * whole)
    lift = np.linalg.lstsq(pairs, np.concatenate([[1.0], wanted]) - weight @ whole, rcond=1e-12)[0]
    factor = 1.0 + whole @ lift
    reweighted: Floats = weight * factor
    met = bool((factor > 0).all()) and np.allclose(
        reweighted @ design, wanted, rtol=0.0, atol=1e-12
    )
    return reweighted if met else None


def thin(rows: Rows, n_rows: int) -> Rows:
    """Take about ``n_rows`` rows, from each group its share but no fewer than an even part, reweighted so that groups keep their weight.

    The sample is drawn with a fixed seed: the same rows give the same sample, and no period in
    their order can hide a group.

    Examples
    --------
    >>> from r2b._data import read
    >>> from r2b._data.merge import merge
    >>> rng = np.random.default_rng(0)
    >>> rows = merge(read(rng.dirichlet(np.ones(3), 1000), sensitive_features=rng.integers(0, 2, 1000)))
    >>> some = thin(rows, 100)
    >>> len(some.labels) < 200, np.allclose(some.group_weight, rows.group_weight)
    (True, True)
    """
    rng = np.random.default_rng(_SEED)
    chosen = stretches(len(rows.cells), n_rows, rng)
    fewest = n_rows // (2 * rows.n_cells) + 1
    counts = np.bincount(rows.cells[chosen], minlength=rows.n_cells)
    for group in np.flatnonzero(counts < fewest):
        everyone = np.flatnonzero(rows.cells == group)
        more = everyone[np.sort(rng.permutation(len(everyone))[:fewest])]
        chosen = np.concatenate([chosen[rows.cells[chosen] != group], more])
    # Together by group: the support patterns of a group's rows are then multiplied in few large
    # blocks.
    chosen = chosen[np.argsort(rows.cells[chosen], kind="stable")]
    weight = np.ones(len(chosen)) if rows.weight is None else rows.weight[chosen].copy()
    groups = rows.cells[chosen]
    mass = np.bincount(groups, weight, minlength=rows.n_cells)
    # A group whose sampled rows all weigh nothing takes part with equal weights rather than with
    # none.
    weight[mass[groups] == 0] = 1.0
    mass = np.bincount(groups, weight, minlength=rows.n_cells)
    weight *= (rows.group_weight / mass)[groups]
    return Rows(rows.labels[chosen], groups, weight, rows.n_cells, rows.dataset)
