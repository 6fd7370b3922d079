"""The labels of the rows: class codes, or probabilities over the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.arrival import Column, Frame, Matrix, recognise
from r2b._data.objects import is_missing, type_word
from r2b._data.probabilities import as_matrix, checked
from r2b._data.vocabulary import Vocabulary, build_native, key_of, plain_value, read_vocabulary
from r2b.errors import EmptyError, InputError, MissingValueError, MixedTypeError, ShapeError, UnseenError

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
        refuse_lone_probabilities(vocabulary)
        _refuse_few(vocabulary, fewest_classes)
        return Labels(vocabulary, codes=_frozen(codes))
    vocabulary = _classes_of(found)
    _refuse_few(vocabulary, max(fewest_classes, 2))
    return Labels(vocabulary, matrix=_matrix_of(found, vocabulary, normalize))


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
        forms = ("class labels", "probabilities")
        raise ShapeError(
            f"The argument {WHAT} holds {forms[not soft]}, but {forms[soft]} were fitted.",
            remedy=f"Pass {forms[soft]}, or fit again on {forms[not soft]}.",
            argument=WHAT,
        )
    if isinstance(found, Column):
        return Labels(vocabulary.like(found), codes=_frozen(vocabulary.encode_column(found, what=WHAT)))
    matrix = _matrix_of(_in_order(found, vocabulary), vocabulary, normalize)
    return Labels(_leaving_like(found, vocabulary.values), matrix=matrix)


def _column_or_table(y: Any) -> Column | Frame | Matrix:
    """Take a table of one column for a column, unless it could be the probability of a single class."""
    found = recognise(y, what=WHAT)
    if isinstance(found, Column) or len(found.columns) > 1:
        return found
    (column,) = found.columns
    if _is_float(column):
        raise EmptyError(
            f"The argument {WHAT} has a single column of decimal numbers; a table of probabilities needs at least two classes.",
            remedy="Add the column of the other class, or pass the column itself (one dimension) if its values are class names.",
            argument=WHAT,
            n_classes=1,
        )
    return column


def _is_float(column: Column) -> bool:
    dtype = getattr(column.native, "dtype", getattr(column.native, "type", None))
    if dtype is None:
        return isinstance(column.native[0], (float, np.floating))
    return getattr(dtype, "kind", "") == "f" or str(dtype).lower().startswith(("float", "double", "halffloat", "sparse[float"))


def _classes_of(found: Frame | Matrix) -> Vocabulary:
    if isinstance(found, Matrix):
        return Vocabulary(np.arange(found.array.shape[1], dtype=np.int64))
    return _leaving_like(found, class_names(found, what=WHAT))


def class_names(found: Frame, *, what: str) -> Array:
    """Give the column names of a table of probabilities as classes, of the type that they have.

    Raises
    ------
    MissingValueError
        A column has no name.
    MixedTypeError
        Names of several types, such as 0 and "other".

    Examples
    --------
    >>> class_names(recognise({1.0: [0.5], 2.0: [0.5]}, what="y"), what="y")
    array([1., 2.])
    """
    words = [type_word(name) for name in found.names]
    without = next((k for k, name in enumerate(found.names) if is_missing(name)), None)
    if without is not None:
        raise MissingValueError(
            f"In {what}, column {without} has no name ({plain_value(found.names[without])!r}), so that its class has none.",
            remedy="Name every column after its class.",
            argument=what,
            column=without,
        )
    other = next((k for k, word in enumerate(words) if word != words[0]), None)
    if other is not None:
        names = plain_value(found.names[0]), plain_value(found.names[other])
        raise MixedTypeError(
            f"The columns of {what} are named {names[0]!r} ({words[0]}) and {names[1]!r} ({words[other]}), and classes are of one type.",
            remedy="Name all of them by text: rename the columns with str.",
            argument=what,
            names=names,
            types=(words[0], words[other]),
        )
    return found.names


def same_class(one: Any, other: Any) -> bool:
    """Tell whether two names stand for one class: equal, or written alike, for many tables can name columns by text alone.

    Examples
    --------
    >>> same_class(1, 1.0), same_class(1, "1"), same_class("a", "b")
    (True, True, False)
    """
    return key_of(one) == key_of(other) or str(plain_value(one)) == str(plain_value(other))


def _leaving_like(found: Frame | Matrix, classes: Array) -> Vocabulary:
    if isinstance(found, Matrix) or found.library == "dict":
        return Vocabulary(classes, index=found.index)
    return Vocabulary(classes, build_native(classes, found.library, ""), found.library, index=found.index)


def _matrix_of(found: Frame | Matrix, vocabulary: Vocabulary, normalize: bool) -> Array:
    matrix, ours = as_matrix(found, what=WHAT)
    return checked(matrix, ours=ours, name_of=lambda k: plain_value(vocabulary.values[k]), what=WHAT, normalize=normalize)


def _in_order(found: Frame | Matrix, vocabulary: Vocabulary) -> Frame | Matrix:
    """Put the columns of a frame in the order of the fitted classes; a bare matrix only has to have as many."""
    if len(found.columns) != len(vocabulary) or isinstance(found, Matrix):
        if len(found.columns) == len(vocabulary):
            return found
        raise ShapeError(
            f"The argument {WHAT} has {len(found.columns)} columns, but {len(vocabulary)} classes were fitted.",
            remedy="Pass one column of probabilities per fitted class.",
            argument=WHAT,
            n_columns=len(found.columns),
            n_classes=len(vocabulary),
        )
    given, fitted = list(found.names), list(vocabulary.values)
    if all(map(same_class, given, fitted)):
        return found
    # By the class itself; by how it is written where a table can only name columns by text.
    places = {key_of(value): k for k, value in enumerate(fitted)}
    written = {str(plain_value(value)): k for k, value in enumerate(fitted)}
    where = [places.get(key_of(name), written.get(str(plain_value(name)), -1)) for name in given]
    odd = next((j for j, k in enumerate(where) if k < 0 or k in where[:j]), None)
    if odd is not None:
        unknown, known = plain_value(given[odd]), [plain_value(value) for value in fitted]
        raise UnseenError(
            f"The argument {WHAT} has a column {unknown!r}, which is not among the fitted classes {', '.join(map(repr, known[:10]))}.",
            remedy="Name the columns after the fitted classes.",
            argument=WHAT,
            value=unknown,
            known=known,
        )
    order = [where.index(k) for k in range(len(fitted))]
    columns = tuple(found.columns[j] for j in order)
    return Frame({column.name: column.native for column in columns}, "columns", columns, found.names[order])


def refuse_lone_probabilities(vocabulary: Vocabulary) -> None:
    """Refuse decimal numbers from 0 to 1 as classes: they are the probabilities of one class, and would pass for as many classes as rows.

    Raises
    ------
    InputError
        All classes are numbers from 0 to 1, and one is not whole. Other decimal numbers, such as ratings by half stars, are classes.
    """
    if vocabulary.values.dtype.kind not in "fO":
        return
    values = [plain_value(value) for value in vocabulary.values]
    value = next((value for value in values if isinstance(value, float) and not value.is_integer()), None)
    if value is not None and all(isinstance(each, (int, float)) and 0 <= each <= 1 for each in values):
        raise InputError(
            f"The labels are numbers from 0 to 1, such as {value!r}: probabilities of one class, which are no classes.",
            remedy="Pass the probabilities of all classes, for two np.column_stack([1 - y, y]); or text, where classes are called so.",
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


def _frozen(codes: Array) -> Array:
    codes.flags.writeable = False
    return codes
