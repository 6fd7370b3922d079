"""One checked, frozen table of labels, cells and weights, and the schema to read new rows."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from r2b._data.arrays import Array, frozen, plain_value
from r2b._data.attributes import CONTROL, SENSITIVE
from r2b._data.cells import WHAT as GROUPS
from r2b._data.cells import Cells, Layout, layout_from_json, read_cells, read_known_cells
from r2b._data.columns import (
    Column,
    Frame,
    argument_error,
    recognise,
    refuse_lengths,
)
from r2b._data.numbers import read_weights_with, refuse_weightless_cells, refuse_weightless_table
from r2b._data.probabilities import as_matrix, checked, class_names, decode_like, order_columns
from r2b._data.values import stored_as
from r2b._data.vocabulary import Vocabulary, read_vocabulary
from r2b.errors import EmptyError, InputError

WHAT = "y"


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels that were read and checked.

    Attributes
    ----------
    vocabulary : Vocabulary
        The class names, in order.
    codes : ndarray of shape (N,), or None
        Class labels, in the smallest unsigned dtype.
    matrix : ndarray of shape (N, L), or None
        Probabilities, float32 or float64, read-only; on the user's memory where possible.
    """

    vocabulary: Vocabulary
    codes: Array | None = None
    matrix: Array | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows, N."""
        return len(self.array)

    @property
    def n_classes(self) -> int:
        """The number of classes, L."""
        return len(self.vocabulary)

    @property
    def is_soft(self) -> bool:
        """Whether the labels are probabilities."""
        return self.matrix is not None

    @property
    def array(self) -> Array:
        """The codes or the matrix, whichever there is."""
        if self.matrix is not None:
            return self.matrix
        assert self.codes is not None
        return self.codes


def read_labels(y: Any, *, normalize: bool, fewest_classes: int) -> Labels:
    """Read labels whose classes are not known yet."""
    found = _column_or_table(y)
    if isinstance(found, Column):
        codes, vocabulary = read_vocabulary(found, what=WHAT)
        refuse_decimals(vocabulary)
        _refuse_few(vocabulary, fewest_classes)
        return Labels(vocabulary, codes=frozen(codes))
    vocabulary = decode_like(found, class_names(found, what=WHAT))
    _refuse_few(vocabulary, 2)
    return _soft_labels(found, vocabulary, normalize)


def read_known_labels(y: Any, *, vocabulary: Vocabulary, soft: bool, normalize: bool) -> Labels:
    """Read labels of the classes in a vocabulary.

    Raises
    ------
    UnseenError
        A class, or a column of probabilities, is not in the vocabulary.
    ShapeError
        Classes where probabilities were fitted or the reverse, or another number of columns.
    """
    found = _column_or_table(y)
    if isinstance(found, Column) is soft:
        if isinstance(found, Column):
            refuse_decimals(read_vocabulary(found, what=WHAT)[1])
        forms = ("class labels", "probabilities")
        remedy = f"Pass {forms[soft]}, or fit again on {forms[not soft]}."
        raise argument_error(
            WHAT, f"holds {forms[not soft]}, but {forms[soft]} were fitted", remedy
        )
    if isinstance(found, Column):
        return Labels(vocabulary.like(found), codes=frozen(vocabulary.encode(found, what=WHAT)))
    return _soft_labels(
        order_columns(found, vocabulary, what=WHAT),
        decode_like(found, vocabulary.values),
        normalize,
    )


def _soft_labels(found: Frame, vocabulary: Vocabulary, normalize: bool) -> Labels:
    matrix = as_matrix(found, what=WHAT)
    return Labels(
        vocabulary, matrix=checked(matrix, vocabulary.values, what=WHAT, normalize=normalize)
    )


def _column_or_table(y: Any) -> Column | Frame:
    """Read a table of one column as a column, unless it may be the probability of one class."""
    found = recognise(y, what=WHAT)
    if isinstance(found, Column) or len(found.columns) > 1:
        return found
    (column,) = found.columns
    if _is_float(column):
        problem = "has a single column of decimal numbers; probabilities need at least two classes"
        remedy = "Add the column of the other class, or pass one dimension if it holds class names."
        raise argument_error(WHAT, problem, remedy, EmptyError, n_classes=1)
    return column


def _is_float(column: Column) -> bool:
    values = column.values
    if isinstance(values, np.ndarray):
        return bool(values.dtype.kind == "f")
    if column.library == "list":
        return isinstance(values[0], (float, np.floating))
    return str(values.type) in ("halffloat", "float", "double")


def refuse_decimals(vocabulary: Vocabulary) -> None:
    """Refuse decimal numbers as classes: they are a target for regression, or scores of one class.

    Raises
    ------
    InputError
        A class is a number that is not whole; or all are such numbers, spelled as text, and are
        too many for a scale such as half stars.
    """
    values: list[Any] = vocabulary.values.tolist()
    if isinstance(values[0], str):
        if len(values) <= 100:  # grade points by tenths are 41 classes
            return
        try:
            values = [float(value) for value in values]
        except ValueError:
            return
    value = next(
        (value for value in values if isinstance(value, float) and not value.is_integer()), None
    )
    if value is not None and math.isfinite(value):
        raise InputError(
            f"Unknown label type: the labels are numbers such as {value!r}; a decimal number is no "
            "class.",
            remedy="Pass classes, such as ranges of the number. If these are the probabilities of "
            "one class, pass those of all: for two, `np.column_stack([1 - y, y])`. If classes are "
            "called so, pass text.",
            argument=WHAT,
            value=value,
        )


def _refuse_few(vocabulary: Vocabulary, fewest: int) -> None:
    if len(vocabulary) < fewest:
        only = plain_value(vocabulary.values[0])
        raise EmptyError(
            f"All labels are of the one class {only!r}; parity needs at least two classes.",
            remedy="Check that the right column was passed.",
            argument=WHAT,
            n_classes=len(vocabulary),
            value=only,
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labels, groups and weights of the same rows.

    Attributes
    ----------
    labels : Labels
    cells : Cells
    weight : ndarray of shape (N,), float64, or None
        None where all rows weigh 1. Of a row that stands for several, the weight of them all.
    index : pandas Index or None
        The row labels that all pandas objects which were read share; None without any.
    """

    labels: Labels
    cells: Cells
    weight: Array | None = None
    index: Any = None

    @property
    def n_rows(self) -> int:
        """The number of rows, N."""
        return self.labels.n_rows

    @property
    def repeats(self) -> Array | None:
        """How many rows of the table each row here stands for; None for one each."""
        return self.cells.repeats

    @property
    def size(self) -> int:
        """The number of rows of the table, equal ones counted each."""
        return self.n_rows if self.repeats is None else int(self.repeats.sum())

    @property
    def n_classes(self) -> int:
        """The number of classes, L."""
        return self.labels.n_classes

    @property
    def n_cells(self) -> int:
        """The number of cells, R."""
        return self.cells.n_cells

    @property
    def schema(self) -> Schema:
        """All that is needed to read new rows the same way."""
        return Schema(
            *self.cells.parts, classes=self.labels.vocabulary, is_soft=self.labels.is_soft
        )


@dataclass(frozen=True, eq=False)
class Schema(Layout):
    """What the classes and groups of a table are, without its rows.

    Attributes
    ----------
    columns, vocabularies, table, n_control, kinds, settings
        As in :class:`Layout`.
    classes : Vocabulary
    is_soft : bool
        Whether labels are probabilities.

    Examples
    --------
    >>> schema = read(["no", "yes", "no"], sensitive_features=["f", "m", "m"]).schema
    >>> schema.read(["yes"], sensitive_features=["f"]).labels.codes
    array([1], dtype=uint8)
    """

    _: KW_ONLY
    classes: Vocabulary
    is_soft: bool

    def read(
        self,
        y: Any,
        *,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: Any = None,
        normalize: bool = False,
        known_crossings: bool = True,
    ) -> Dataset:
        """Read new rows with the codes of the fitted ones.

        Parameters
        ----------
        y, sensitive_features, control_features, sample_weight, normalize
            As for :func:`read`. Frames may hold their columns in another order, and further columns
            of attributes. Rows without a value are read where there were some in the column that
            was fitted. A column of numbers may stand for a continuous attribute; its settings stay
            the fitted ones.
        known_crossings : bool, default True
            Codes refer to the fitted table, and every crossing of values must be in it. With False
            the table is made of the crossings in the new rows: categories must still be known,
            numbers and memberships may be new.

        Raises
        ------
        UnseenError
            A class, a value of an attribute or a crossing of values was not fitted.
        ShapeError
            Other attributes than those fitted, or of another kind.
        """
        labels = read_known_labels(
            y, vocabulary=self.classes, soft=self.is_soft, normalize=normalize
        )
        groups = read_known_cells(
            sensitive_features, control_features, fitted=self, known_crossings=known_crossings
        )
        return combine(labels, groups, sample_weight)

    def to_json(self) -> dict[str, Any]:
        """Return the schema as a dictionary of plain values that JSON can hold.

        A basis of the user's own is left out.
        """
        return {"classes": self.classes.to_json(), "is_soft": self.is_soft, **super().to_json()}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Schema:
        """Restore a schema from :meth:`to_json`.

        Raises
        ------
        FileFormatError
            The dictionary is not one of a schema.
        """
        with stored_as("schema"):
            classes, is_soft = Vocabulary.from_json(stored["classes"]), stored["is_soft"]
            if not isinstance(is_soft, bool):
                raise TypeError(f"is_soft is {is_soft!r}")
            return cls(*layout_from_json(stored).parts, classes=classes, is_soft=is_soft)


def read(
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    normalize: bool = False,
    missing: str = "error",
    categorical_only: bool = False,
    fewest_classes: int = 2,
) -> Dataset:
    """Read labels, sensitive attributes and weights from any array or frame, and check them.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L), or Labels
        Classes, or probabilities over L classes: NumPy, list, pandas, polars, pyarrow, narwhals,
        dictionary of columns. The column names of a frame are the names of the classes. Labels
        that were read already are taken as they are.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        Several attributes are crossed. A :class:`Continuous` or :class:`Membership`, or a
        dictionary with such among its columns.
    control_features : array-like of shape (N,) or (N, n_controls), optional
        Categories within which parity is asked for; crossed with the attributes, after them.
    sample_weight : array-like of shape (N,), optional
        One finite number of zero or more per row.
    normalize : bool, default False
        Divide every row of probabilities by its sum, on a copy.
    missing : {"error", "group", "exclude"}, default "error"
        Rows without a value of an attribute are refused, or read with a code of their own, the
        last. What becomes of that code is decided where the groups are formed. Labels are never
        missing.
    categorical_only : bool, default False
        Refuse continuous attributes, memberships and cells whose rows weigh nothing, for callers to
        whom every value is a group that has a mean.
    fewest_classes : int, default 2
        How few classes are still of use: a measure is defined for one.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        One of its subclasses, naming the column, the row and the value.

    Examples
    --------
    >>> people = {"sex": ["f", "m", "m"]}
    >>> data = read(["no", "yes", "no"], sensitive_features=people, sample_weight=[1, 2, 1])
    >>> data.labels.codes, data.cells.names, data.weight
    (array([0, 1, 0], dtype=uint8), array(['f', 'm'], dtype='<U1'), array([1., 2., 1.]))
    """
    labels = y
    if not isinstance(y, Labels):
        labels = read_labels(y, normalize=normalize, fewest_classes=fewest_classes)
    groups = read_cells(
        sensitive_features,
        control_features=control_features,
        missing=missing,
        categorical_only=categorical_only,
    )
    data = combine(labels, groups, sample_weight)
    if categorical_only and data.weight is not None:
        refuse_weightless_cells(data.weight, groups)
    return data


def combine(labels: Labels, groups: Cells, sample_weight: Any) -> Dataset:
    """Put labels, groups and weights together, after checking that they are of the same rows."""
    refuse_lengths(WHAT, labels.n_rows, GROUPS, groups.n_rows)
    arguments = [SENSITIVE] * groups.n_sensitive + [CONTROL] * groups.n_control
    indexes = [each.index for each in groups.vocabularies]
    named = ((WHAT, labels.vocabulary.index), *zip(arguments, indexes, strict=True))
    weight, index = read_weights_with(sample_weight, labels.n_rows, *named)
    if weight is not None:
        refuse_weightless_table(weight)
    return Dataset(labels, groups, weight, index)
