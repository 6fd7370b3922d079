"""Continuous attributes: the share of each class's variance that they explain, by chance and with an interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from r2b._audit.chance import Draws, chance_of, interval_around
from r2b._audit.facts import ContinuousAudit
from r2b._audit.resampling import MOST_SUMS, FamilyRows, Sums
from r2b.metrics.explained import explained_of_moments

Floats = NDArray[np.float64]


def audit_continuous(
    name: str, rows: FamilyRows, basis: Floats, functions: tuple[str, ...], moments: Floats, overall: Floats, draws: Draws, left_out: int
) -> ContinuousAudit:
    """Measure one attribute.

    Parameters
    ----------
    name : str
    rows : FamilyRows
        Places are values of the attribute.
    basis : ndarray of shape (n_places, n_functions)
        The functions at these values, centred and orthonormal on the rows.
    functions : tuple of str
    moments : ndarray of shape (n_functions, n_classes)
    overall : ndarray of shape (n_classes,)
        Mean label of the rows.
    draws : Draws
    left_out : int
    """
    by_class = explained_of_moments(moments, overall)
    observed = float(by_class.max())
    chance = interval = None
    if draws.n_permutations:
        blocks = rows.permuted(draws.n_permutations, draws.seed(name))
        chance = chance_of(observed, np.concatenate([explained_of_sums(sums, basis).max(axis=1) for sums in blocks]))
    if draws.n_boot and rows.n_sums <= MOST_SUMS:
        changes = rows.resampled(
            lambda sums: np.abs(explained_of_sums(sums, basis) - by_class).max(axis=1),
            n_boot=draws.n_boot,
            random_state=draws.seed(name),
        )
        interval = interval_around(observed, changes, draws.level)
    by_class.flags.writeable = False
    return ContinuousAudit(name, rows.data.labels.vocabulary.values, by_class, functions, rows.n_rows, chance, interval, left_out)


def explained_of_sums(sums: Sums, basis: Floats) -> Floats:
    """Give the share of each class's variance that functions of the place explain, of shape (b, n_classes).

    On rows that were drawn the functions need not be centred or orthonormal: it is the R squared of a weighted regression with a constant.

    Examples
    --------
    >>> table = np.array([[[3.0, 1.0], [1.0, 3.0]]])
    >>> explained_of_sums((table, table.sum(axis=2)), np.array([[0.0], [1.0]]))
    array([[0.25, 0.25]])
    """
    table, totals = sums
    whole = totals.sum(axis=1)
    whole = np.where(whole > 0, whole, 1.0)  # a resample may be empty, and then explains nothing
    share = totals / whole[:, None]
    label_means = table.sum(axis=1) / whole[:, None]
    centre = share @ basis
    gram = np.matmul(basis.T * share[:, None, :], basis) - centre[:, :, None] * centre[:, None, :]
    moments = basis.T @ table / whole[:, None, None] - centre[:, :, None] * label_means[:, None, :]
    # A resample of few rows may leave the functions dependent; the pseudo-inverse then uses those that are left.
    fitted = np.matmul(np.linalg.pinv(gram, rcond=1e-10, hermitian=True), moments)
    variance = label_means * (1 - label_means)
    part: Floats = (moments * fitted).sum(axis=1)
    shares: Floats = np.divide(part, variance, out=np.zeros_like(part), where=variance > 0)
    return shares
