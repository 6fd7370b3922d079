"""What all methods on labels share: fit on a table, learn a few numbers per group and class, apply them to any rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from r2b._data import Dataset, Schema, read
from r2b._data.arrival import refuse_lengths, refuse_other_index
from r2b._data.groups import WHAT as GROUPS
from r2b._data.groups import Groups
from r2b._data.merge import Rows, merge
from r2b._data.vocabulary import column_of
from r2b._data.weights import WHAT as WEIGHTS
from r2b._data.weights import read_weight, refuse_weightless_groups
from r2b.errors import ParameterError, RowsUnavailableError

Floats = NDArray[np.float64]
Array = np.ndarray[Any, np.dtype[Any]]

_BLOCK_ENTRIES = 1 << 18


def checked_seed(random_state: Any) -> Any:
    """Give ``random_state`` back if it is something that draws can start from; refuse it otherwise."""
    whole = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool) and random_state >= 0
    if not whole and random_state is not None and not isinstance(random_state, np.random.Generator):
        remedy = "Pass a whole number of zero or more, a NumPy Generator, or None."
        raise ParameterError(f"random_state is {random_state!r}.", remedy=remedy, random_state=random_state)
    return random_state


def read_weight_beside(sample_weight: Any, what: str, index: Any | None, groups: Groups) -> Floats:
    """Read the weights of rows that are known as the argument ``what``, with the row labels ``index``, and belong to ``groups``."""
    column = column_of(sample_weight, what=WEIGHTS)
    refuse_lengths(what, groups.n_rows, WEIGHTS, len(column))
    refuse_other_index((what, index), (GROUPS, groups.index), (WEIGHTS, column.index))
    weight: Floats = np.asarray(read_weight(column), np.float64)
    refuse_weightless_groups(weight, groups)
    return weight


class LabelMethod(ABC):
    """A method that turns label rows into fairer ones, group by group.

    What is learnt is small (numbers per group and class), so that it can be applied to rows that were not fitted. Rows that share label and
    group share their answer: methods see merged rows.

    Attributes
    ----------
    schema_ : Schema
        Classes and groups that were fitted.
    """

    name: ClassVar[str]
    schema_: Schema

    def fit(self, y: Any, *, sensitive_features: Any, sample_weight: Any = None, normalize: bool = False) -> Self:
        """Learn from training labels; whatever an earlier fit left behind is gone.

        Parameters
        ----------
        y, sensitive_features, sample_weight, normalize
            As for :func:`r2b.debias`.
        """
        dataset = read(y, sensitive_features=sensitive_features, sample_weight=sample_weight, normalize=normalize, categorical_only=True)
        self._learn(merge(dataset))
        self.schema_ = dataset.schema
        return self

    def transform(self, y: Any, *, sensitive_features: Any, normalize: bool = False) -> Floats:
        """Apply what was learnt to rows of the fitted classes and groups.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Distributions; how far their group means agree is the method's own business.

        Raises
        ------
        RowsUnavailableError
            ``fit`` was not called.
        UnseenError
            A class or group was not fitted.
        """
        if not hasattr(self, "schema_"):
            raise RowsUnavailableError(f"This {type(self).__name__} has not been fitted.", remedy="Call fit with training labels first.")
        return self._apply(self.schema_.read(y, sensitive_features=sensitive_features, normalize=normalize))

    def fit_transform(self, y: Any, *, sensitive_features: Any, sample_weight: Any = None, normalize: bool = False) -> Floats:
        """Fit and apply to the same rows."""
        self.fit(y, sensitive_features=sensitive_features, sample_weight=sample_weight, normalize=normalize)
        return self.transform(y, sensitive_features=sensitive_features, normalize=normalize)

    def _apply(self, dataset: Dataset) -> Floats:
        n_rows, n_classes = dataset.n_rows, dataset.n_classes
        groups = dataset.groups.codes
        if not dataset.labels.is_soft:
            # One answer per (group, class), then a lookup.
            table = np.stack([self._respond(np.eye(n_classes), np.full(n_classes, group)) for group in range(dataset.n_groups)])
            return table[groups, dataset.labels.array]
        out = np.empty((n_rows, n_classes))
        size = max(1, _BLOCK_ENTRIES // n_classes)
        for start in range(0, n_rows, size):
            part = slice(start, start + size)
            out[part] = self._respond(dataset.labels.array[part].astype(np.float64), groups[part])
        return out

    @abstractmethod
    def _learn(self, rows: Rows) -> None:
        """Learn from merged rows: ``rows.labels`` (n, L), ``rows.groups`` (n,), ``rows.weight`` (n,) or None."""

    @abstractmethod
    def _respond(self, labels: Floats, groups: Array) -> Floats:
        """Give the new rows of label rows (n, L) of groups (n,): a function of one row and its group alone."""
