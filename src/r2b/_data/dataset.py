"""One checked, frozen table of labels, groups and weights, and the schema to read new rows in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from r2b._data import groups as grouping
from r2b._data import labels as labelling
from r2b._data.arrays import Array
from r2b._data.arrival import refuse_lengths, refuse_other_index
from r2b._data.attributes import CONTROL, SENSITIVE, ContinuousSettings, placed
from r2b._data.groups import Groups, read_groups, read_known_cells
from r2b._data.labels import Labels, read_known_labels, read_labels
from r2b._data.layout import AnyVocabulary, Layout, layout_from_json, layout_to_json
from r2b._data.vocabulary import Vocabulary, column_of
from r2b._data.weights import WHAT as WEIGHTS
from r2b._data.weights import read_weight, refuse_weightless_groups, refuse_weightless_table
from r2b.errors import FileFormatError, ParameterError

WEIGHTLESS = ("refuse", "allow")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labels, groups and weights of the same rows.

    Attributes
    ----------
    labels : Labels
    groups : Groups
    weight : ndarray of shape (N,), float64, or None
        None where all rows weigh 1. Of a row that stands for several, the weight of them all.
    index : pandas Index or None
        The row labels that all pandas objects which were read share; None without any.
    """

    labels: Labels
    groups: Groups
    weight: Array | None = None
    index: Any = None

    @property
    def n_rows(self) -> int:
        """The number of rows, N."""
        return self.labels.n_rows

    @property
    def repeats(self) -> Array | None:
        """How many rows of the table each row here stands for; None for one each."""
        return self.groups.repeats

    @property
    def size(self) -> int:
        """The number of rows of the table, equal ones counted each."""
        return self.n_rows if self.repeats is None else int(self.repeats.sum())

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
        return _schema(self.labels.vocabulary, self.labels.is_soft, self.groups)


@dataclass(frozen=True, eq=False)
class Schema:
    """What the classes and groups of a table are, without its rows.

    Attributes
    ----------
    classes : Vocabulary
    is_soft : bool
        Whether labels are probabilities.
    columns : tuple of str
    vocabularies : tuple of Vocabulary or Mixtures
    table : ndarray of shape (R, n_attributes)
        The groups (cells), as in :class:`Groups`.
    n_control, kinds, settings
        As in :class:`Groups`.

    Examples
    --------
    >>> schema = read(["no", "yes", "no"], sensitive_features=["f", "m", "m"]).schema
    >>> schema.read(["yes"], sensitive_features=["f"]).labels.codes
    array([1], dtype=uint8)
    """

    classes: Vocabulary
    is_soft: bool
    columns: tuple[str, ...]
    vocabularies: tuple[AnyVocabulary, ...]
    table: Array
    n_control: int = 0
    kinds: tuple[str, ...] = ()
    settings: tuple[ContinuousSettings | None, ...] = ()

    def __post_init__(self) -> None:
        layout = self.layout
        object.__setattr__(self, "kinds", layout.kinds)
        object.__setattr__(self, "settings", layout.settings)

    @cached_property
    def layout(self) -> Layout:
        """The attributes and cells alone."""
        return Layout(self.columns, self.vocabularies, self.table, self.n_control, self.kinds, self.settings)

    @property
    def group_names(self) -> Array:
        """The names of the groups, as in :class:`Groups`."""
        return self.layout.names

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
            As for :func:`read`. Frames may hold their columns in another order, and further columns of attributes. Rows without a value
            are read where there were some in the column that was fitted. A column of numbers may stand for a continuous attribute; its
            settings stay the fitted ones.
        known_crossings : bool, default True
            Codes refer to the fitted table, and every crossing of values must be in it. With False the table is made of the crossings
            in the new rows: categories must still be known, numbers and memberships may be new, and a cell may weigh nothing.

        Raises
        ------
        UnseenError
            A class, a value of an attribute or a crossing of values was not fitted.
        ShapeError
            Other attributes than those fitted, or of another kind.
        """
        labels = read_known_labels(y, vocabulary=self.classes, soft=self.is_soft, normalize=normalize)
        groups = read_known_cells(sensitive_features, control_features, fitted=self.layout, known_crossings=known_crossings)
        return _together(labels, groups, sample_weight, "refuse" if known_crossings else "allow")

    def to_json(self) -> dict[str, Any]:
        """Give the schema as a dictionary of plain values that JSON can hold; a basis of the user's own is left out."""
        return {"classes": self.classes.to_json(), "is_soft": self.is_soft, **layout_to_json(self.layout)}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Schema:
        """Restore a schema from :meth:`to_json`.

        Raises
        ------
        FileFormatError
            The dictionary is not one of a schema.
        """
        try:
            layout = layout_from_json(stored)
            classes, is_soft = Vocabulary.from_json(stored["classes"]), stored["is_soft"]
            if not isinstance(is_soft, bool):
                raise ValueError(f"is_soft is {is_soft!r}")
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise FileFormatError(
                f"The stored schema cannot be read: {type(error).__name__} ({error}).",
                remedy="Save the object again with this release.",
            ) from error
        return _schema(classes, is_soft, layout)


def _schema(classes: Vocabulary, is_soft: bool, layout: Layout) -> Schema:
    return Schema(classes, is_soft, layout.columns, layout.vocabularies, layout.table, layout.n_control, layout.kinds, layout.settings)


def read(
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    normalize: bool = False,
    missing: str = "error",
    weightless: str = "refuse",
    categorical_only: bool = False,
) -> Dataset:
    """Read labels, sensitive attributes and weights from any array or frame, and check them.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L)
        Classes, or probabilities over L classes: NumPy, list, pandas, polars, pyarrow, narwhals, dictionary of columns.
        The column names of a frame are the names of the classes.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        Several attributes are crossed. A :class:`Continuous` or :class:`Membership`, or a dictionary with such among its columns.
    control_features : array-like of shape (N,) or (N, n_controls), optional
        Categories within which parity is asked for; crossed with the attributes, after them.
    sample_weight : array-like of shape (N,), optional
        One finite number of zero or more per row.
    normalize : bool, default False
        Divide every row of probabilities by its sum, on a copy.
    missing : {"error", "group", "exclude"}, default "error"
        Rows without a value of an attribute are refused, or read with a code of their own, the last. What becomes of that code is decided
        where the groups are formed. Labels are never missing.
    weightless : {"refuse", "allow"}, default "refuse"
        Whether the rows of a cell may weigh nothing between them.
    categorical_only : bool, default False
        Refuse continuous attributes and memberships, for callers to whom every value is a group.

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
    return assemble(
        y,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
        normalize=normalize,
        fewest_classes=2,
        missing=missing,
        weightless=weightless,
        categorical_only=categorical_only,
    )


def assemble(
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    normalize: bool = False,
    fewest_classes: int,
    missing: str = "error",
    weightless: str = "refuse",
    categorical_only: bool = True,
) -> Dataset:
    """Read a table as :func:`read` does, with a say in how few classes are still of use: a measure is defined for one."""
    if weightless not in WEIGHTLESS:
        raise ParameterError(
            f"The parameter weightless is {weightless!r}, which is not one of {', '.join(map(repr, WEIGHTLESS))}.",
            remedy='Pass "refuse" to refuse cells whose rows weigh nothing, or "allow" to keep them.',
            parameter="weightless",
            value=weightless,
        )
    labels = read_labels(y, normalize=normalize, fewest_classes=fewest_classes)
    groups = read_groups(sensitive_features, control_features=control_features, missing=missing, categorical_only=categorical_only)
    return _together(labels, groups, sample_weight, weightless)


def _together(labels: Labels, groups: Groups, sample_weight: Any, weightless: str) -> Dataset:
    refuse_lengths(labelling.WHAT, labels.n_rows, grouping.WHAT, groups.n_rows)
    indexes = [(labelling.WHAT, labels.vocabulary.index)]
    for j, (name, vocabulary) in enumerate(zip(groups.columns, groups.vocabularies, strict=True)):
        argument = SENSITIVE if j < groups.n_sensitive else CONTROL
        indexes.append((argument if j in (0, groups.n_sensitive) else placed(argument, name), vocabulary.index))
    if sample_weight is None:
        return Dataset(labels, groups, index=refuse_other_index(*indexes))
    column = column_of(sample_weight, what=WEIGHTS)
    refuse_lengths(labelling.WHAT, labels.n_rows, WEIGHTS, len(column))
    index = refuse_other_index(*indexes, (WEIGHTS, column.index))
    weight = read_weight(column)
    if weightless == "refuse":
        refuse_weightless_groups(weight, groups)
    else:
        refuse_weightless_table(weight)
    return Dataset(labels, groups, weight, index)
