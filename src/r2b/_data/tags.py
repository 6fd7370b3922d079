"""Tags: labels of which a row may have any number, with a column of 0 and 1 for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._data.arrays import Array, frozen, plain_value
from r2b._data.columns import Column, argument_error, recognise
from r2b._data.dataset import WHAT, Labels
from r2b._data.probabilities import as_matrix, class_names, decode_like, order_columns
from r2b._data.values import repeated
from r2b._data.vocabulary import Vocabulary
from r2b.errors import ProbabilityError, row_number

ABSENT_AND_PRESENT = frozen(np.array([0, 1]))


@dataclass(frozen=True, eq=False)
class Tags:
    """Tags that were read and checked.

    Attributes
    ----------
    vocabulary : Vocabulary
        Their names.
    matrix : ndarray of shape (N, n_tags)
        The probability of each tag; 0 or 1 where it is known.
    """

    vocabulary: Vocabulary
    matrix: Array

    @property
    def names(self) -> Array:
        """The names of the tags."""
        return self.vocabulary.values

    @property
    def constant(self) -> list[Any]:
        """The names of tags that no row has, or every row."""
        share = self.matrix.mean(axis=0)
        return [plain_value(name) for name in self.names[(share == 0) | (share == 1)]]

    @property
    def whole(self) -> Labels:
        """All tags as one matrix of labels, whose rows need not add up to 1."""
        return Labels(self.vocabulary, matrix=frozen(self.matrix.astype(np.float64)))

    def of(self, place: int) -> Labels:
        """Return one tag as labels of two classes, 0 and 1."""
        column = self.matrix[:, place]
        vocabulary = Vocabulary(ABSENT_AND_PRESENT, index=self.vocabulary.index)
        if ((column == 0) | (column == 1)).all():
            return Labels(vocabulary, codes=frozen(column.astype(np.uint8)))
        return Labels(vocabulary, matrix=frozen(np.column_stack([1.0 - column, column])))


def read_tags(Y: Any, known: Vocabulary | None = None) -> Tags:
    """Read a matrix or frame with a column of 0 and 1, or of probabilities, for each tag.

    Columns with names are put in the order of the ``known`` tags.

    Raises
    ------
    UnseenError
        These are other tags.
    ProbabilityError
        A number is missing or lies outside 0 to 1.

    Examples
    --------
    >>> read_tags({"cat": [0, 1], "dog": [0.5, 1]}).names.tolist()
    ['cat', 'dog']
    """
    found = recognise(Y, what=WHAT)
    if isinstance(found, Column):
        remedy = "Pass a table with a column for each tag; leave `multilabel` out for one column."
        raise argument_error(WHAT, "is one column, which holds one label per row", remedy)
    if known is not None:
        found = order_columns(found, known, what=WHAT)
    names = np.asarray(class_names(found, what=WHAT)) if known is None else known.values
    if repeated(names.tolist()) is not None:
        raise argument_error(WHAT, "names a tag twice", "Give every column a name of its own.")
    matrix = as_matrix(
        found, what=WHAT, remedy="Pass one column of 0 and 1, or of probabilities, per tag."
    )
    wrong = ~((matrix >= 0) & (matrix <= 1))
    if wrong.any():
        row, place = (int(each[0]) for each in np.nonzero(wrong))
        name, value = plain_value(names[place]), float(matrix[row, place])
        raise ProbabilityError(
            f"In `{WHAT}`, row {row_number(row)} has {value!r} for the tag {name!r}.",
            remedy="Pass 0 or 1, or probabilities between them.",
            argument=WHAT,
            row=row_number(row),
            column=name,
            value=value,
        )
    return Tags(decode_like(found, names), matrix)
