"""The soft cross-entropy as LightGBM and XGBoost ask for it: gradient and hessian of the margins, row by row in parts.

One-hot labels give what each library's own softmax objective computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from r2b._data.compute import in_order
from r2b.errors import ParameterError
from r2b.models.targets import SoftTargets

Floats = NDArray[np.float64]
Array = np.ndarray[Any, np.dtype[Any]]
Objective = Callable[[Array, Any], tuple[Array, Array]]
Library = Literal["lightgbm", "xgboost"]

_SMALLEST_CURVATURE = 1e-16  # XGBoost's own floor under the hessian


def lightgbm_objective(labels: Any, *, sample_weight: Any = None, start: Any = None, threads: int | None = None) -> Objective:
    """Make the objective for ``lightgbm.train``, for those who call it themselves.

    The gradient is ``w (p - y)`` and the hessian ``w p (1 - p) L / (L - 1)``: LightGBM's own for ``multiclass``.

    Parameters
    ----------
    labels, sample_weight
        As for :func:`train_lightgbm`. The weights are in the objective; leave them out of the Dataset.
    start : array-like of shape (L,), optional
        Margins before the first tree, 0 by default. LightGBM's own objective starts from the logarithm of the share of each class; whatever
        is passed here has to be added to the margins that the booster predicts.
    threads : int, optional
        All cores by default.

    Returns
    -------
    callable
        From margins and the Dataset to gradient and hessian, each of shape (N, L).

    Examples
    --------
    >>> import numpy as np
    >>> objective = lightgbm_objective([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8]])
    >>> gradient, hessian = objective(np.zeros((2, 3)), None)
    >>> gradient.round(3)
    array([[-0.167, -0.167,  0.333],
           [ 0.333,  0.133, -0.467]], dtype=float32)
    >>> hessian[0].round(3)
    array([0.333, 0.333, 0.333], dtype=float32)
    """
    return _objective(labels, sample_weight, "lightgbm", start, threads)


def xgboost_objective(labels: Any, *, sample_weight: Any = None, start: Any = None, threads: int | None = None) -> Objective:
    """Make the objective for ``xgboost.train``, for those who call it themselves.

    The gradient is ``w (p - y)`` and the hessian ``w max(2 p (1 - p), 1e-16)``: XGBoost's own for ``multi:softprob``. Pass
    ``num_class`` and a ``base_score`` of 0 in the parameters, or XGBoost looks for labels to start from.

    Parameters
    ----------
    labels, sample_weight, start, threads
        As for :func:`lightgbm_objective`.

    Returns
    -------
    callable
        From margins and the DMatrix to gradient and hessian, each of shape (N, L).

    Examples
    --------
    >>> import numpy as np
    >>> gradient, hessian = xgboost_objective(["a", "b", "c"], sample_weight=[1, 1, 3])(np.zeros((3, 3)), None)
    >>> gradient.round(3)
    array([[-0.667,  0.333,  0.333],
           [ 0.333, -0.667,  0.333],
           [ 1.   ,  1.   , -2.   ]], dtype=float32)
    """
    return _objective(labels, sample_weight, "xgboost", start, threads)


def soft_objective(targets: SoftTargets, library: Library, start: Floats, threads: int | None = None) -> Objective:
    """Make the objective from labels that were read; the public functions are :func:`lightgbm_objective` and :func:`xgboost_objective`.

    A function and not an object: LightGBM copies its parameters deeply, and a function is not copied with the labels it holds.
    """
    n_classes = len(targets.classes)
    # Friedman's factor L / (L - 1) in LightGBM; XGBoost has 2 whatever L is.
    factor = n_classes / (n_classes - 1) if library == "lightgbm" else 2.0
    floor = 0.0 if library == "lightgbm" else _SMALLEST_CURVATURE
    order: Literal["C", "F"] = "F" if library == "lightgbm" else "C"  # what the library reads without a copy

    def objective(margins: Array, data: Any) -> tuple[Array, Array]:
        shape = (targets.n_rows, n_classes)
        gradient, hessian = np.empty(shape, np.float32, order), np.empty(shape, np.float32, order)

        def fill(part: slice) -> None:
            p, weight = softmax(margins[part] + start), targets.weights(part)
            scale: Any = 1.0 if weight is None else weight[:, None]
            gradient[part] = scale * (p - targets.rows(part))
            hessian[part] = scale * np.maximum(factor * p * (1.0 - p), floor)

        for _ in in_order(fill, targets.parts(), threads):
            pass
        return gradient, hessian

    return objective


def _objective(labels: Any, sample_weight: Any, library: Library, start: Any, threads: int | None) -> Objective:
    targets = SoftTargets.of(labels, sample_weight)
    try:
        first = np.zeros(len(targets.classes)) if start is None else np.asarray(start, np.float64)
    except (TypeError, ValueError):
        first = np.empty(0)  # refused below, like any start of another shape
    if first.shape != (len(targets.classes),) or not np.isfinite(first).all():
        raise ParameterError(
            f"start is {start!r}.", remedy=f"Pass one finite margin for each of the {len(targets.classes)} classes.", start=start
        )
    return soft_objective(targets, library, first, threads)


def softmax(margins: Array) -> Floats:
    """Turn margins into probabilities, row by row.

    Examples
    --------
    >>> softmax(np.log([[1.0, 3.0]]))
    array([[0.25, 0.75]])
    """
    p: Floats = np.exp(margins - margins.max(axis=1, keepdims=True), dtype=np.float64)
    p /= p.sum(axis=1, keepdims=True)
    return p


def cross_entropy(targets: SoftTargets, start: Floats) -> Callable[[Array], float]:
    """Make the measure that belongs to the objective: from margins to the weighted mean of ``-sum_k y_k log p_k``.

    Examples
    --------
    >>> measure = cross_entropy(SoftTargets.of(["a", "b"]), np.zeros(2))
    >>> round(measure(np.zeros((2, 2))), 4)
    0.6931
    """

    def measure(margins: Array) -> float:
        total, mass = 0.0, 0.0
        for part in targets.parts():
            shifted = margins[part] + start
            shifted -= shifted.max(axis=1, keepdims=True)
            rows = targets.rows(part)
            # Rows sum to 1, so that the normaliser comes out once.
            loss = np.log(np.exp(shifted).sum(axis=1)) - (rows * shifted).sum(axis=1)
            weight = targets.weights(part)
            total += float(loss.sum() if weight is None else weight @ loss)
            mass += float(len(loss) if weight is None else weight.sum())
        return total / mass

    return measure
