"""One checked, frozen table of labels, groups and weights, and the schema to read new rows in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b.errors import FileFormatError
from r2b.inputs import groups as grouping
from r2b.inputs import labels as labelling
from r2b.inputs.agreement import refuse_lengths, refuse_other_order
from r2b.inputs.groups import Groups, read_groups, read_known_groups
from r2b.inputs.integers import Array
from r2b.inputs.labels import Labels, read_known_labels, read_labels
from r2b.inputs.vocabulary import Vocabulary, column_of
from r2b.inputs.weights import WHAT as WEIGHTS
from r2b.inputs.weights import read_weight, refuse_weightless_groups


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labels, groups and weights of the same rows.

    Attributes
    ----------
    labels : Labels
    groups : Groups
    weight : ndarray of shape (N,), float64, or None
        None where all rows weigh 1.
    """

    labels: Labels
    groups: Groups
    weight: Array | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows, N."""
        return self.labels.n_rows

    @property
    def n_classes(self) -> int:
        """The number of classes, L."""
        return self.labels.n_classes

    @property
    def n_groups(self) -> int:
        """The number of groups, R."""
        return self.groups.n_groups

    @property
    def schema(self) -> Schema:
        """All that is needed to read new rows the same way."""
        groups = self.groups
        return Schema(self.labels.vocabulary, self.labels.is_soft, groups.columns, groups.vocabularies, groups.table)


@dataclass(frozen=True, eq=False)
class Schema:
    """What the classes and groups of a table are, without its rows.

    Attributes
    ----------
    classes : Vocabulary
    is_soft : bool
        Whether labels are probabilities.
    columns : tuple of str
    vocabularies : tuple of Vocabulary
    table : ndarray of shape (R, n_attributes)
        The groups, as in :class:`Groups`.

    Examples
    --------
    >>> schema = read(["no", "yes", "no"], sensitive_features=["f", "m", "m"]).schema
    >>> schema.read(["yes"], sensitive_features=["f"]).labels.codes
    array([1], dtype=uint8)
    """

    classes: Vocabulary
    is_soft: bool
    columns: tuple[str, ...]
    vocabularies: tuple[Vocabulary, ...]
    table: Array

    @property
    def group_names(self) -> Array:
        """The names of the groups, as in :class:`Groups`."""
        return grouping.group_names(self.columns, self.vocabularies, self.table)

    def read(self, y: Any, *, sensitive_features: Any, sample_weight: Any = None, normalize: bool = False) -> Dataset:
        """Read new rows with the codes of the fitted ones.

        Parameters
        ----------
        y, sensitive_features, sample_weight, normalize
            As for :func:`read`. Frames may hold their columns in another order, and further columns of attributes.

        Raises
        ------
        UnseenError
            A class, a value of an attribute or a crossing of values was not fitted.
        """
        labels = read_known_labels(y, vocabulary=self.classes, soft=self.is_soft, normalize=normalize)
        groups = read_known_groups(sensitive_features, columns=self.columns, vocabularies=self.vocabularies, table=self.table)
        return _together(labels, groups, sample_weight)

    def to_json(self) -> dict[str, Any]:
        """Give the schema as a dictionary of plain values that JSON can hold."""
        return {
            "classes": self.classes.to_json(),
            "is_soft": self.is_soft,
            "columns": list(self.columns),
            "vocabularies": [vocabulary.to_json() for vocabulary in self.vocabularies],
            "table": self.table.tolist(),
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Schema:
        """Restore a schema from :meth:`to_json`.

        Raises
        ------
        FileFormatError
            The dictionary is not one of a schema.
        """
        try:
            columns = tuple(str(name) for name in stored["columns"])
            vocabularies = tuple(Vocabulary.from_json(vocabulary) for vocabulary in stored["vocabularies"])
            table = np.array(stored["table"], dtype=np.int64).reshape(-1, len(columns))
            classes, is_soft = Vocabulary.from_json(stored["classes"]), stored["is_soft"]
            if not isinstance(is_soft, bool):
                raise ValueError(f"is_soft is {is_soft!r}")
            if len(table) == 0 or (table < 0).any() or (table >= [len(vocabulary) for vocabulary in vocabularies]).any():
                raise ValueError("groups of values that are not there")
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise FileFormatError(
                f"The stored schema cannot be read: {type(error).__name__} ({error}).",
                remedy="Save the object again with this release.",
            ) from error
        table.flags.writeable = False
        return cls(classes, is_soft, columns, vocabularies, table)


def read(y: Any, *, sensitive_features: Any, sample_weight: Any = None, normalize: bool = False) -> Dataset:
    """Read labels, sensitive attributes and weights from any array or frame, and check them.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L)
        Classes, or probabilities over L classes: NumPy, list, pandas, polars, pyarrow, narwhals, dictionary of columns.
        The column names of a frame are the names of the classes.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        Several attributes are crossed.
    sample_weight : array-like of shape (N,), optional
        One finite number of zero or more per row.
    normalize : bool, default False
        Divide every row of probabilities by its sum, on a copy.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        One of its subclasses, naming the column, the row and the value.

    Examples
    --------
    >>> data = read(["no", "yes", "no"], sensitive_features={"sex": ["f", "m", "m"]}, sample_weight=[1, 2, 1])
    >>> data.labels.codes, data.groups.names, data.weight
    (array([0, 1, 0], dtype=uint8), array(['f', 'm'], dtype='<U1'), array([1., 2., 1.]))
    """
    return assemble(y, sensitive_features=sensitive_features, sample_weight=sample_weight, normalize=normalize, fewest_classes=2)


def assemble(y: Any, *, sensitive_features: Any, sample_weight: Any, normalize: bool, fewest_classes: int) -> Dataset:
    """Read a table as :func:`read` does, with a say in how few classes are still of use: a measure is defined for one."""
    labels = read_labels(y, normalize=normalize, fewest_classes=fewest_classes)
    return _together(labels, read_groups(sensitive_features), sample_weight)


def _together(labels: Labels, groups: Groups, sample_weight: Any) -> Dataset:
    index = labels.vocabulary.index
    refuse_lengths(labelling.WHAT, labels.n_rows, grouping.WHAT, groups.n_rows)
    refuse_other_order(labelling.WHAT, index, grouping.WHAT, groups.vocabularies[0].index)
    if sample_weight is None:
        return Dataset(labels, groups)
    column = column_of(sample_weight, what=WEIGHTS)
    refuse_lengths(labelling.WHAT, labels.n_rows, WEIGHTS, len(column))
    refuse_other_order(labelling.WHAT, index, WEIGHTS, column.index)
    weight = read_weight(column)
    refuse_weightless_groups(weight, groups)
    return Dataset(labels, groups, weight)
