"""What fair means: the set of group means a bound allows, its projection, its support function.

This room knows means, weights and prices of groups; it never sees a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from r2b.errors import ParameterError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Projected:
    """A projection of group means onto the allowed set, with the face it landed on.

    Attributes
    ----------
    means : ndarray of shape (n_groups, n_classes)
        The closest allowed means, in the norm weighted by the groups' weights.
    clipped : ndarray of bool, same shape
        Entries that were moved. Those of one class share one unknown level; the others stayed where they were.
    """

    means: Floats
    clipped: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RangeBound:
    """The paper's bound, eq. (2): for every class, max over groups - min over groups <= epsilon.

    Parameters
    ----------
    epsilon : ndarray of shape (n_classes,)
        One bound per class, each >= 0.

    Examples
    --------
    >>> bound = RangeBound.of(0.1, n_classes=2)
    >>> means = np.array([[0.9, 0.1], [0.5, 0.5]])
    >>> bound.violation(means).round(3)
    array([0.3, 0.3])
    >>> bound.project(means, np.array([0.5, 0.5])).means.round(3)
    array([[0.75, 0.25],
           [0.65, 0.35]])
    """

    epsilon: Floats

    @classmethod
    def of(cls, epsilon: float | ArrayLike | Mapping[Any, float], n_classes: int, names: Sequence[object] | None = None) -> RangeBound:
        """Check ``epsilon`` (one number, one per class in order, or one per class by name) and freeze it."""
        if isinstance(epsilon, Mapping):
            epsilon = _by_name(epsilon, list(range(n_classes)) if names is None else list(names))
        try:
            values = np.array(epsilon, dtype=np.float64)
        except (TypeError, ValueError):
            raise ParameterError(
                f"epsilon is {epsilon!r}, which is not a number.",
                remedy="Pass one number such as 0.01, or one per class.",
                epsilon=epsilon,
            ) from None
        if values.ndim > 1 or (values.ndim == 1 and len(values) != n_classes):
            raise ParameterError(
                f"epsilon has shape {values.shape}, but there are {n_classes} classes.",
                remedy=f"Pass one number, or {n_classes} numbers in the order of the classes.",
                shape=values.shape,
                n_classes=n_classes,
            )
        wrong = np.flatnonzero(~(np.atleast_1d(values) >= 0))
        if len(wrong):
            value = float(np.atleast_1d(values)[wrong[0]])
            where = "" if values.ndim == 0 else f" for class {names[wrong[0]] if names is not None else int(wrong[0])!r}"
            raise ParameterError(
                f"epsilon is {value}{where}.",
                remedy="It is the largest difference between group means that you accept: pass a number of at least 0, such as 0.01.",
                epsilon=value,
                class_index=int(wrong[0]),
            )
        full = np.broadcast_to(values, (n_classes,)).copy()
        full.flags.writeable = False
        return cls(full)

    def violation(self, means: Floats) -> Floats:
        """How far each class lies above its bound (0 where it is met)."""
        above: Floats = np.maximum(np.ptp(means, axis=0) - self.epsilon, 0.0)
        return above

    def support(self, prices: Floats, weight: Floats) -> float:
        """Value of the support function at prices with ``sum_s W_s nu_sk = 0``: ``sum_k eps_k / 2 * sum_s W_s |nu_sk|``."""
        finite = np.isfinite(self.epsilon)
        charge = weight @ np.abs(prices)
        return float(0.5 * (self.epsilon[finite] @ charge[finite]))

    def project(self, means: Floats, weight: Floats) -> Projected:
        """Project ``means`` class by class in the norm weighted by ``weight``.

        Values above ``c + epsilon`` and below ``c`` are clipped, where c balances what is cut off above and below.
        That balance is piecewise linear and decreasing in c, so one sort of its 2R kinks finds it.
        """
        level = self._levels(means, weight)
        equal = self.epsilon == 0
        inside = np.ptp(means, axis=0) <= self.epsilon
        above = means > level + self.epsilon
        below = means < level
        clipped = (above | below | equal) & ~(inside & ~equal)
        top = np.where(above, level + self.epsilon, level)
        return Projected(np.where(clipped, top, means), clipped)

    def _levels(self, means: Floats, weight: Floats) -> Floats:
        n_groups = len(means)
        eps = np.where(np.isfinite(self.epsilon), self.epsilon, 2.0 + 2.0 * np.abs(means).max(initial=0.0))
        kinks = np.concatenate([means - eps, means])
        slope_change = np.repeat(np.concatenate([weight, -weight])[:, None], means.shape[1], axis=1)
        order = np.argsort(kinks, axis=0, kind="stable")
        kinks = np.take_along_axis(kinks, order, axis=0)
        slopes = np.cumsum(np.take_along_axis(slope_change, order, axis=0), axis=0) - weight.sum()
        start = weight @ (means - means.min(axis=0))
        balance = start + np.concatenate([np.zeros((1, means.shape[1])), np.cumsum(slopes[:-1] * np.diff(kinks, axis=0), axis=0)])
        # The first kink where the balance is no longer positive closes the piece that holds the root.
        closing = np.clip((balance > 0).sum(axis=0), 1, 2 * n_groups - 1)
        columns = np.arange(means.shape[1])
        middle = 0.5 * (kinks[closing - 1, columns] + kinks[closing, columns])
        # Which values are cut is now known; the level that balances them is computed afresh, free of the sums' rounding.
        above, below = means > middle + eps, means < middle
        cut = weight @ (above | below)
        total = weight @ (np.where(above, means - eps, 0.0) + np.where(below, means, 0.0))
        level: Floats = np.where(cut > 0, total / np.where(cut > 0, cut, 1.0), middle)
        return level


def _by_name(epsilon: Mapping[Any, float], names: list[Any]) -> list[float]:
    missing = [name for name in names if name not in epsilon]
    unknown = [name for name in epsilon if name not in names]
    if missing or unknown:
        what = f"has no value for class {missing[0]!r}" if missing else f"names {unknown[0]!r}, which is not a class"
        raise ParameterError(
            f"epsilon {what}.",
            remedy=f"Name every class once: {', '.join(map(repr, names[:10]))}{', ...' if len(names) > 10 else ''}.",
            missing=missing,
            unknown=unknown,
        )
    return [epsilon[name] for name in names]
