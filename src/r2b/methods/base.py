"""What all methods on labels share: they learn a few numbers per group and class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from inspect import signature
from numbers import Integral, Real
from typing import Any, Self

import numpy as np

from r2b._constraints.families.request import is_a
from r2b._data import Dataset, Schema, read
from r2b._data.arrays import Array, Floats
from r2b._data.cells import WHAT as GROUPS
from r2b._data.cells import Cells
from r2b._data.columns import Column, Frame, refuse_lengths
from r2b._data.compute import matrix_parts
from r2b._data.numbers import read_continuous, read_weights_with, refuse_weightless_cells
from r2b.errors import ParameterError, RowsUnavailableError


def at_least(
    name: str,
    value: Any,
    least: float,
    *,
    above: bool = False,
    most: float = np.inf,
    integer: bool = False,
) -> Any:
    """Return a finite number in the range as an int or a float; refuse any other value."""
    if (
        not is_a(Integral if integer else Real, value)
        or not least <= value <= most
        or value == (least if above else np.inf)
    ):
        kind = "an integer" if integer else "a finite number"
        start = "above" if above else "of at least"
        remedy = f"Pass {kind} {start} {least}{'' if most == np.inf else f' and at most {most}'}."
        raise ParameterError(f"{name} is {value!r}.", remedy=remedy, value=value)
    return int(value) if integer else float(value)


def refuse_unfitted(method: Any, attribute: str, rows: str) -> None:
    """Refuse to apply what was not learnt."""
    if not hasattr(method, attribute):
        raise RowsUnavailableError(
            f"This {type(method).__name__} has not been fitted.",
            remedy=f"Call fit with training {rows} first.",
        )


def read_numbers(column: Column, what: str) -> Floats:
    """Read a column of finite numbers, without gaps."""
    codes, vocabulary = read_continuous(column, what=what)
    return vocabulary.values[codes]


def read_weight_beside(
    sample_weight: Any, what: str, rows: Column | Frame, groups: Cells
) -> Floats | None:
    """Read the weights, if any, of the rows of the argument ``what``, and compare lengths."""
    refuse_lengths(what, len(rows), GROUPS, groups.n_rows)
    beside = (what, rows.index), (GROUPS, groups.index)
    weight, _ = read_weights_with(sample_weight, len(rows), *beside)
    if weight is None:
        return None
    refuse_weightless_cells(weight, groups)
    return np.asarray(weight, np.float64)


class Shown:
    """Show, as ``repr``, the parameters that differ from their defaults."""

    def __repr__(self) -> str:
        own = vars(self)
        known = {**vars(own.get("descent", self)), **own}
        shown = [
            f"{name}={known[name]!r}"
            for name, each in signature(type(self)).parameters.items()
            if name in known and not np.array_equal(known[name], each.default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class Learner(Shown, ABC):
    """A method that learns a few numbers per group and class from labelled rows.

    Attributes
    ----------
    schema_ : Schema
        Classes and groups that were fitted.
    """

    schema_: Schema

    def fit(
        self, y: Any, *, sensitive_features: Any, sample_weight: Any = None, normalize: bool = False
    ) -> Self:
        """Learn from training labels; whatever an earlier fit left behind is gone.

        Parameters
        ----------
        y, sensitive_features, sample_weight, normalize
            As for :func:`r2b.debias`.
        """
        dataset = read(
            y,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            normalize=normalize,
            categorical_only=True,
        )
        self._learn(dataset)
        self.schema_ = dataset.schema
        return self

    @abstractmethod
    def _learn(self, dataset: Dataset) -> None:
        """Learn from the training rows."""


class LabelMethod(Learner):
    """A method that turns label rows into fairer ones, group by group.

    What is learnt is small (numbers per group and class), so that it can be applied to rows that
    were not fitted. Rows that share label and group share their answer.

    Attributes
    ----------
    schema_ : Schema
        Classes and groups that were fitted.
    """

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
        refuse_unfitted(self, "schema_", "labels")
        return self._apply(
            self.schema_.read(y, sensitive_features=sensitive_features, normalize=normalize)
        )

    def fit_transform(
        self, y: Any, *, sensitive_features: Any, sample_weight: Any = None, normalize: bool = False
    ) -> Floats:
        """Fit and apply to the same rows."""
        known = {"sensitive_features": sensitive_features, "normalize": normalize}
        return self.fit(y, sample_weight=sample_weight, **known).transform(y, **known)

    def _apply(self, dataset: Dataset) -> Floats:
        n_classes, groups = dataset.n_classes, dataset.cells.codes
        if not dataset.labels.is_soft:
            # One answer per (group, class), then a lookup.
            pairs = np.divmod(np.arange(dataset.n_cells * n_classes), n_classes)
            table: Floats = self._respond(np.eye(n_classes)[pairs[1]], pairs[0])
            return np.asarray(table[groups * n_classes + dataset.labels.array])
        out = np.empty((dataset.n_rows, n_classes))
        for part in matrix_parts(dataset.n_rows, n_classes):
            out[part] = self._respond(dataset.labels.array[part].astype(np.float64), groups[part])
        return out

    @abstractmethod
    def _respond(self, labels: Floats, groups: Array) -> Floats:
        """Return the new label rows (n, L) of groups (n,): a function of row and group alone."""
