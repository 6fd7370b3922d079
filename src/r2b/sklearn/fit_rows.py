"""The rows of one fit: read, compared and dealt into folds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from r2b._constraints.families import Request
from r2b._data.arrays import Array, Floats, Whole
from r2b._data.compute import seed_of
from r2b.metrics.criteria import CriterionName
from r2b.sklearn.crossfit import Folds, make_folds
from r2b.sklearn.labels import check_same_rows
from r2b.sklearn.visible import TrueGroups, true_groups


@dataclass(frozen=True, eq=False)
class FitRows:
    """The rows of one fit, read and dealt into folds.

    Attributes
    ----------
    X, y
        As they came.
    data : dict
        ``sensitive_features``, ``control_features`` and ``sample_weight``.
    groups : TrueGroups
    folds : Folds
    truth : ndarray of shape (n,) or None
        Codes of the true classes; None where labels are probabilities.
    labels : ndarray of shape (n, L)
        The labels as distributions.
    seed : int
    fit_params : dict
        For the learner.
    """

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    data: dict[str, Any] = field(repr=False)
    groups: TrueGroups
    folds: Folds = field(repr=False)
    truth: Whole | None = field(repr=False)
    labels: Floats = field(repr=False)
    seed: int
    fit_params: dict[str, Any]

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        data: dict[str, Any],
        request: Request,
        *,
        cv: Any,
        random_state: Any,
        criterion: CriterionName = "demographic_parity",
        normalize: bool = False,
        clusters: Any = None,
        fit_params: dict[str, Any] | None = None,
    ) -> FitRows:
        """Read rows, settle who is compared with whom, and deal the rows into folds that are alike in groups and classes."""
        groups, dataset = true_groups(y, {**data, "normalize": normalize}, request, criterion)
        check_same_rows(X, dataset.n_rows, dataset.index)
        truth = None if dataset.labels.is_soft else dataset.labels.array.astype(np.int64)
        labels = (
            dataset.labels.array.astype(np.float64)
            if truth is None
            else np.eye(dataset.n_classes)[truth]
        )
        strata = dataset.cells.codes.astype(np.int64) * dataset.n_classes + (
            0 if truth is None else truth
        )
        seed = seed_of(random_state)
        return cls(
            X,
            y,
            data,
            groups,
            make_folds(strata, cv, seed, clusters),
            truth,
            labels,
            seed,
            fit_params or {},
        )

    @property
    def classes(self) -> Array:
        """The classes, in the order in which the labels have them."""
        return self.groups.schema.classes.values
