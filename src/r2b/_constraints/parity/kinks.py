"""Piecewise linear functions, one per class: their values at their kinks, and the piece that holds a root."""

from __future__ import annotations

import numpy as np

from r2b._data.arrays import Floats, Places


def balance_at_kinks(
    kinks: Floats, bends: Floats, slope: Floats, start: Floats
) -> tuple[Floats, Floats]:
    """Give the kinks of a piecewise linear function in order, class by class, and its values there.

    Parameters
    ----------
    kinks : ndarray of shape (n_classes, n)
    bends : ndarray of shape (n,) or (n_classes, n)
        By how much the slope grows at each kink.
    slope, start : ndarray of shape (n_classes,)
        The slope below the first kink, and the value at it.

    Examples
    --------
    >>> balance_at_kinks(np.array([[2.0, 1.0, 4.0]]), np.array([1.0, 1.0, 2.0]), np.zeros(1), np.array([-3.0]))
    (array([[1., 2., 4.]]), array([[-3., -2.,  2.]]))
    """
    # of equal ones in whatever order: between them the value does not change
    order = np.argsort(kinks, axis=1)
    kinks = np.take_along_axis(kinks, order, axis=1)
    bends = np.take_along_axis(bends, order, axis=1) if bends.ndim == 2 else bends[order]
    slopes = slope[:, None] + np.cumsum(bends, axis=1)
    rise = np.cumsum(slopes[:, :-1] * np.diff(kinks, axis=1), axis=1)
    return kinks, np.concatenate([start[:, None], start[:, None] + rise], axis=1)


def within_piece(kinks: Floats, closing: Places) -> Floats:
    """Give the middle of the piece of each class that ends at this one of its sorted kinks."""
    closing, columns = np.clip(closing, 1, len(kinks) - 1), np.arange(kinks.shape[1])
    return np.asarray(0.5 * (kinks[closing - 1, columns] + kinks[closing, columns]))
