"""The curvature of class labels in NumPy: products, averages, and systems by conjugate gradients; see ``classes_plain``."""

from __future__ import annotations

import numpy as np

from r2b._data.arrays import Floats, Whole

Tables = tuple[Whole, Whole, Floats, Floats, Floats]  # order, size, own, weight and reach


def reached(size: Whole, amount: Floats) -> Floats:
    """By rank, the sum of the amounts, such as weights, of the rows whose prefix holds it; ``amount`` is by rank."""
    n_cells, n_classes = size.shape
    place = size + (n_classes + 1) * np.arange(n_cells)[:, None]
    by_size = np.bincount(
        place.ravel(), amount.ravel(), minlength=n_cells * (n_classes + 1)
    ).reshape(n_cells, -1)
    return np.asarray(np.cumsum(by_size[:, :0:-1], axis=1, dtype=np.float64)[:, ::-1])


def product(
    d: Floats, order: Whole, size: Whole, own: Floats, weight: Floats, reach: Floats
) -> Floats:
    """Curvature, times lam, times a vector; by class. ``weight`` and ``reach`` are by rank."""
    ranked = np.take_along_axis(d, order, axis=1)
    mean = _averages(ranked, size, own)
    changed = reach * ranked - reached(size, weight * mean) + own * weight * (ranked - mean)
    return _by_class(changed, order)


def solution(
    right: Floats,
    share: Floats,
    extra: Floats,
    inverse: Floats,
    loose: Floats,
    lam: float,
    tables: Tables,
    precise: float,
    most: int,
) -> Floats:
    """Solve with the curvature and ``extra`` on changes that balance in every class, ``sum_s W_s d_sk = 0``, by conjugate gradients.

    Parameters
    ----------
    right, extra : ndarray of shape (n_cells, n_classes)
    share : ndarray of shape (n_cells,)
        Of all weight: the inner product is by shares.
    inverse : ndarray of the shape of ``right``
        Of the diagonal; 0 where nothing changes.
    loose : ndarray of the same shape
        The curvature's part of the diagonal. It does not see a constant on all classes of a cell,
        and hardly one on those that are loose: with the diagonal alone hundreds of iterations go
        into these.
    lam : float
    tables : tuple
        Order, size, own, weight and reach, as for :func:`product`.
    precise : float
        By how much the size of what is left must fall.
    most : int
        Iterations.
    """

    def image(vector: Floats) -> Floats:
        return product(vector, *tables) / lam + extra * vector

    def inner(one: Floats, other: Floats) -> float:
        return float(share @ (one * other).sum(axis=1))

    def preconditioned(vector: Floats) -> Floats:
        # what the balance of classes takes of it, or rounding of that would stay
        vector -= share @ (vector * inverse) / total
        common = loose * ((vector * loose).sum(axis=1) / bend)[:, None]
        return np.asarray(vector * inverse + common - inverse * (share @ common) / total)

    total, bend = share @ inverse, (loose * image(loose)).sum(axis=1)
    total, bend = np.where(total > 0, total, 1.0), np.where(bend > 0, bend, np.inf)
    d, rest = np.zeros_like(right), right.copy()
    z = preconditioned(rest)
    along, size = z.copy(), inner(rest, z)
    enough = precise**2 * size
    for _ in range(most):
        if not size > enough:
            break
        turned = image(along)
        bent = inner(along, turned)
        if not bent > 0:
            break
        d += size / bent * along
        rest -= size / bent * turned
        z = preconditioned(rest)
        size, before = inner(rest, z), size
        along = z + size / before * along
    # Flat directions have huge entries, and rounding of those leaves a class out of balance.
    return np.asarray(d - inverse * (share @ d) / total)


def averages(d: Floats, order: Whole, size: Whole, own: Floats) -> Floats:
    """By class, the mean of d over the support of its row; 0 for a row without one."""
    return _by_class(_averages(np.take_along_axis(d, order, axis=1), size, own), order)


def spread(amount: Floats, order: Whole, size: Whole, own: Floats, weight: Floats) -> Floats:
    """Share an amount for each row, times its weight, evenly over its support; by class."""
    each = weight * np.take_along_axis(amount, order, axis=1) / np.maximum(size + own, 1.0)
    return _by_class(reached(size, each) + own * each, order)


def _averages(ranked: Floats, size: Whole, own: Floats) -> Floats:
    total = np.concatenate([np.zeros((len(ranked), 1)), np.cumsum(ranked, axis=1)], axis=1)
    return np.asarray(
        (np.take_along_axis(total, size, axis=1) + own * ranked) / np.maximum(size + own, 1.0)
    )


def _by_class(ranked: Floats, order: Whole) -> Floats:
    out = np.empty_like(ranked)
    np.put_along_axis(out, order, ranked, axis=1)
    return out
