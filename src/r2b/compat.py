"""The interface of the code that was published with the paper, on the exact methods of r2b.

:class:`Reduce2Binary` takes the place of the class of that name in google-research's
``ml_debiaser``. New code should call :func:`r2b.debias`, which returns the optimum with a
certificate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b._data.arrays import Floats
from r2b.errors import ParameterError
from r2b.methods import R2B
from r2b.methods.base import Shown, at_least

__all__ = ["Reduce2Binary"]


class Reduce2Binary(Shown):
    """Debias an N x L table of probabilities by the published variant of Algorithm 1.

    The result is that of ``R2B(eps, lam=gamma, tau=eta, max_rounds=max_admm_iter,
    target="population")``: the binary problems of a round are solved exactly instead of by random
    gradient steps, so there is nothing to tune and nothing random.

    Parameters
    ----------
    gamma : float
        Weight of the squared labels, above 0; 1 is the squared distance from ``y_orig``.
    eps : float
        Largest accepted difference between group means, 0 to 1. Every group is held to within
        ``eps / 2`` of the mean of all rows.
    eta : float
        Step size of ADMM, above 0.
    num_classes : int
        Columns of ``y_orig``, at least 2.

    Attributes
    ----------
    method_ : R2B
        The fitted method: its ``history_`` has the disparity after every round, and its
        ``transform`` applies the same rounds to further rows.

    Notes
    -----
    - Do not take the most probable class of a row of the result: it is usually the old label, and
      the disparity comes back. :meth:`r2b.FairLabels.round` and its siblings keep it.
    - The published code pins the common mean of each class to that of the data. The paper's
      problem does not ask for this; :func:`r2b.debias` leaves it free, which costs less distance.
    - Up to ``eps = 0.002`` the published code drops one of two multipliers and moves every group
      to the overall mean plus ``eps / 2``. Here the bound has one meaning at every ``eps``.
    - The published object keeps the overall mean of its first ``fit`` for all later ones. Here
      each ``fit`` starts afresh.

    Examples
    --------
    >>> y = np.eye(2)[[0, 0, 0, 1]]
    >>> fair = Reduce2Binary(num_classes=2).fit(y, np.array([0, 0, 1, 1]))
    >>> fair.round(3)
    array([[0.75, 0.25],
           [0.75, 0.25],
           [1.  , 0.  ],
           [0.5 , 0.5 ]])
    """

    def __init__(
        self, gamma: float = 1.0, eps: float = 0.0, eta: float = 0.5, num_classes: int = 2
    ) -> None:
        self.gamma = at_least("gamma", gamma, 0.0, above=True)
        self.eps = at_least("eps", eps, 0.0, most=1.0)
        self.eta = at_least("eta", eta, 0.0, above=True)
        self.num_classes = at_least("num_classes", num_classes, 2, integer=True)

    def fit(
        self,
        y_orig: Any,
        group_feature: Any,
        sgd_steps: int = 10_000,
        full_gradient_epochs: int = 1_000,
        verbose: bool = True,
        batch_size: int = 256,
        max_admm_iter: int = 100,
    ) -> Floats:
        """Return the debiased labels; the rows of the result add up to 1.

        Parameters
        ----------
        y_orig : array-like of shape (N, num_classes)
            Probabilities; class labels as rows of 0 and 1.
        group_feature : array-like of shape (N,)
            The group of every row: numbers from 0 as in the published code, or any other names.
        sgd_steps, full_gradient_epochs, batch_size : int
            Not used: there are no gradient steps.
        verbose : bool
            Not used: nothing is printed.
        max_admm_iter : int
            Rounds.

        Returns
        -------
        ndarray of shape (N, num_classes)

        Raises
        ------
        ParameterError
            ``y_orig`` does not have ``num_classes`` columns.
        InputError
            Rows are not probabilities, or have another number than ``group_feature``.
        """
        labels = np.asarray(y_orig, dtype=np.float64)
        if labels.ndim != 2 or labels.shape[1] != self.num_classes:
            raise ParameterError(
                f"y_orig has the shape {labels.shape}, and num_classes is {self.num_classes}.",
                remedy="Pass one column per class, and their number as num_classes.",
                shape=labels.shape,
                num_classes=self.num_classes,
            )
        self.method_ = R2B(
            self.eps,
            lam=self.gamma,
            tau=self.eta,
            max_rounds=max_admm_iter,
            target="population",
        )
        return self.method_.fit_transform(labels, sensitive_features=group_feature)
