"""Accuracy of predictions, and how far the errors of groups are apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

import numpy as np

from r2b._data.arrays import Array, first_and_count, plain_value
from r2b._data.cells import read_cells
from r2b._data.columns import (
    Column,
    Frame,
    column_of,
    recognise,
    refuse_other_rows,
    row_labels,
)
from r2b._data.dataset import Labels, read_known_labels
from r2b._data.numbers import (
    numbers_of,
    read_weights_with,
    refuse_other_number,
    refuse_weightless_cells,
    refuse_weightless_table,
)
from r2b._data.probabilities import Wording, as_matrix, checked, class_names, row_blocks, same_class
from r2b._data.values import one_of
from r2b._data.vocabulary import Vocabulary, read_vocabulary
from r2b.errors import InputError, ShapeError, UnseenError
from r2b.metrics.intervals import Interval, gap_interval, mean_interval
from r2b.metrics.means import by_name

Ties = Literal["average", "strict", "lenient"]

# The usual wording offers normalize=True, which nothing here has.
_SCORES = Wording("class", "Divide each row by its sum.")


@dataclass(frozen=True, eq=False)
class Score:
    """A mean over rows of values between 0 and 1, with the rows that it came from.

    Attributes
    ----------
    value : float
    rows : ndarray of shape (N,)
        The value of each row.
    weight : ndarray of shape (N,) or None
    index : pandas Index or None
        The row labels of the data that it came from, where these had any.
    """

    value: float
    rows: Array = field(repr=False)
    weight: Array | None = field(default=None, repr=False)
    index: Any = field(default=None, repr=False)

    def interval(self, level: float = 0.99) -> Interval:
        """Return a confidence interval."""
        return mean_interval(self.rows, self.weight, level)


@dataclass(frozen=True, eq=False)
class ErrorParity:
    """The losses of the groups and how far they lie apart.

    Attributes
    ----------
    value : float
        The largest loss of a group minus the smallest.
    losses : ndarray of shape (R,)
        The weighted mean loss of each group.
    groups : ndarray of shape (R,)
    rows : ndarray of shape (N,)
        The loss of each row.
    codes : ndarray of shape (N,)
        The group of each row.
    weight : ndarray of shape (N,) or None
    """

    value: float
    losses: Array
    groups: Array
    rows: Array = field(repr=False)
    codes: Array = field(repr=False)
    weight: Array | None = field(default=None, repr=False)

    def as_dict(self) -> dict[Any, float]:
        """Return the loss by group name."""
        return by_name(self.groups, self.losses)

    def interval(self, level: float = 0.99) -> Interval:
        """Return a confidence interval; for a maximum it is conservative."""
        return gap_interval(
            self.codes, self.rows[:, None], self.losses[:, None], self.weight, level
        )


def top_k_accuracy(
    y_true: Any,
    scores: Any,
    *,
    k: int = 1,
    classes: Any = None,
    sample_weight: Any = None,
    ties: Ties = "average",
) -> Score:
    """Return how often the true class is among the k largest scores.

    Parameters
    ----------
    y_true : array-like of shape (N,) or (N, L)
        Classes; or probabilities, which count as a class drawn from them: the result is then its
        expected accuracy.
    scores : array-like of shape (N, L)
        Larger is more likely. The column names of a frame are its classes.
    k : int
        How many of the largest scores count.
    classes : array-like of shape (L,), optional
        The classes of the columns of scores, in order. Without it the column names, or else the
        sorted classes that occur in y_true, which must then be as many as there are columns.
    sample_weight : array-like of shape (N,), optional
        Weights of the rows; without them all count the same.
    ties : {"average", "strict", "lenient"}
        For a true class that ties with others for the last places: the chance that it gets one when
        the tie is broken at random (exactly, nothing is drawn); 0, unless there is a place for all
        of them; or 1. The last two bound every way of breaking ties.

    Returns
    -------
    Score

    Raises
    ------
    ParameterError, InputError

    See Also
    --------
    r2b.metrics.tv_accuracy : Accuracy of probabilities.
    r2b.metrics.error_parity : How far losses of groups are apart.

    Examples
    --------
    >>> scores = [[0.6, 0.4], [0.5, 0.5]]
    >>> ways = ("strict", "average", "lenient")
    >>> [top_k_accuracy(["no", "yes"], scores, ties=ties).value for ties in ways]
    [0.5, 0.75, 1.0]
    """
    one_of("ties", ties, Ties)
    labels, matrix, index = _read_pair(y_true, scores, classes, distributions=False)
    most = matrix.shape[1]
    refuse_other_number("k", k, f"Pass 1 to {most}.", lambda value: 1 <= value <= most, Integral)
    rows = np.empty(len(matrix))
    for block in row_blocks(matrix):
        rows[block] = _at_labels(_hits(matrix[block], k, ties), labels, block)
    return _score(rows, sample_weight, index)


def _hits(scores: Array, k: int, ties: Ties) -> Array:
    """Return the chance of each class to be among the k largest scores of its row."""
    n_classes = scores.shape[1]
    last = np.partition(scores, n_classes - k, axis=1)[:, n_classes - k, None]
    above, level = scores > last, scores == last
    if ties == "lenient":
        return np.asarray((above | level).astype(np.float64))
    places, tied = k - above.sum(axis=1, keepdims=True), level.sum(axis=1, keepdims=True)
    return np.asarray(above + level * (places / tied if ties == "average" else places == tied))


def _at_labels(values: Array, labels: Labels, block: slice) -> Array:
    if labels.matrix is not None:
        return np.asarray((values * labels.matrix[block]).sum(axis=1, dtype=np.float64))
    return np.take_along_axis(values, labels.array[block, None].astype(np.intp), axis=1)[:, 0]


def tv_accuracy(
    y_true: Any, scores: Any, *, classes: Any = None, sample_weight: Any = None
) -> Score:
    """Return 1 minus the mean distance in total variation, half of ``|p - y|_1``.

    For class labels this is the mean probability of the true class. The paper measures COCO so.

    Parameters
    ----------
    y_true : array-like of shape (N,) or (N, L)
        Classes or probabilities.
    scores : array-like of shape (N, L)
        Probabilities.
    classes, sample_weight
        As for :func:`top_k_accuracy`.

    Returns
    -------
    Score

    Raises
    ------
    ProbabilityError
        A row of scores is not a distribution.
    InputError

    See Also
    --------
    r2b.metrics.top_k_accuracy : How often the true class is among the largest scores.
    r2b.metrics.error_parity : How far losses of groups are apart.

    Examples
    --------
    >>> tv_accuracy([[1.0, 0.0], [0.5, 0.5]], [[0.75, 0.25], [0.0, 1.0]]).value
    0.625
    """
    labels, matrix, index = _read_pair(y_true, scores, classes, distributions=True)
    rows = np.empty(len(matrix))
    for block in row_blocks(matrix):
        if labels.matrix is None:  # half of (1 - p_y) plus the rest, which is again 1 - p_y
            rows[block] = _at_labels(matrix[block], labels, block)
        else:
            rows[block] = (
                1 - np.abs(matrix[block] - labels.matrix[block]).sum(axis=1, dtype=np.float64) / 2
            )
    # rows sum to 1 only within a tolerance
    return _score(np.clip(rows, 0.0, 1.0), sample_weight, index)


def error_parity(
    losses: Any | Score | tuple[Any, Any, Callable[..., Score]],
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
) -> ErrorParity:
    """Return the largest mean loss of a group minus the smallest: the paper's error parity.

    Parameters
    ----------
    losses : array-like of shape (N,), Score, or (y_true, scores, measure)
        Losses between 0 and 1; or an accuracy, whose losses are 1 minus its rows; or what to
        compute one from, such as ``(y, scores, tv_accuracy)``.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        Several attributes are crossed.
    sample_weight : array-like of shape (N,), optional
        Without it, a Score brings its own.

    Returns
    -------
    ErrorParity

    Raises
    ------
    InputError

    See Also
    --------
    r2b.metrics.top_k_accuracy : How often the true class is among the largest scores.
    r2b.metrics.tv_accuracy : Accuracy of probabilities.

    Examples
    --------
    >>> found = error_parity([0, 1, 0, 0], sensitive_features=["f", "f", "m", "m"])
    >>> found.value, found.as_dict()
    (0.5, {'f': 0.5, 'm': 0.0})
    """
    index = None
    if isinstance(losses, tuple) and len(losses) == 3 and callable(losses[2]):
        index, losses = row_labels(losses[0]), losses[2](*losses[:2])
    weight = None
    if isinstance(losses, Score):
        rows, weight = 1 - losses.rows, losses.weight
        index = losses.index if index is None else index
    else:
        rows, index = _read_losses(losses)
    groups = read_cells(sensitive_features)
    index = refuse_other_rows(
        ("losses", len(rows), index), ("sensitive_features", groups.n_rows, groups.index)
    )
    if sample_weight is not None:
        weight, _ = read_weights_with(sample_weight, len(rows), ("losses", index))
    if weight is not None:
        refuse_weightless_cells(weight, groups)
    codes = groups.codes.astype(np.intp)
    sums = np.bincount(codes, rows if weight is None else rows * weight)
    means = sums / np.bincount(codes, weight)
    return ErrorParity(float(means.max() - means.min()), means, groups.names, rows, codes, weight)


def _score(rows: Array, sample_weight: Any, index: Any | None) -> Score:
    weight, index = read_weights_with(sample_weight, len(rows), ("y_true", index))
    if weight is not None:
        refuse_weightless_table(weight)
    rows.flags.writeable = False
    return Score(
        float(rows.mean() if weight is None else np.average(rows, weights=weight)),
        rows,
        weight,
        index,
    )


def _read_losses(losses: Any) -> tuple[Array, Any | None]:
    column = column_of(losses, what="losses")
    rows = numbers_of(column, "losses", "Pass one number between 0 and 1 per row.").astype(
        np.float64
    )
    row, count = first_and_count(~((rows >= 0) & (rows <= 1)))
    if count:
        value = float(rows[row])
        raise InputError(
            f"The loss of row {row} is {value!r}, which is not between 0 and 1.",
            remedy="Divide losses by their largest possible value; leave out rows without a loss.",
            row=row,
            value=value,
        )
    return rows, column.index


def _read_pair(
    y_true: Any, scores: Any, classes: Any, *, distributions: bool
) -> tuple[Labels, Array, Any | None]:
    """Read labels and scores with their columns in one order, and their row labels."""
    found = recognise(scores, what="scores")
    if isinstance(found, Column):
        raise ShapeError(
            "The argument scores has one column.",
            remedy="Pass one column per class.",
            argument="scores",
        )
    truth = recognise(y_true, what="y_true")
    index = refuse_other_rows(
        ("y_true", len(truth), truth.index), ("scores", len(found), found.index)
    )
    if not isinstance(truth, Column) and len(truth.columns) == 1:
        (truth,) = truth.columns  # a table of one column is a column
    vocabulary = Vocabulary(classes_of(found, truth, classes))
    labels = read_known_labels(
        y_true, vocabulary=vocabulary, soft=not isinstance(truth, Column), normalize=False
    )
    remedy = "Pass one numeric column of scores per class."
    matrix = as_matrix(found, what="scores", remedy=remedy)
    if distributions:
        how: Any = {"what": "scores", "normalize": False, "wording": _SCORES}
        return labels, checked(matrix, vocabulary.values, **how), index
    infinite = ~np.isfinite(matrix)
    if infinite.any():
        row, col = map(int, np.argwhere(infinite)[0])
        value = float(matrix[row, col])
        raise InputError(
            f"In scores, row {row} has {value!r} in column {col}, which is not finite.",
            remedy="Correct or drop this row.",
            row=row,
            column=col,
            value=value,
        )
    return labels, matrix, index


def classes_of(found: Frame, truth: Column | Frame, classes: Any, what: str = "scores") -> Array:
    """Return the classes of columns: those given, their names, or as many classes of the truth.

    Raises
    ------
    ShapeError, UnseenError, InputError
        They are not as many as the columns, not the names of the columns, or one occurs twice.
    """
    n_columns = len(found.columns)
    if classes is not None:
        codes, vocabulary = read_vocabulary(column_of(classes, what="classes"), what="classes")
        # The vocabulary is sorted; the columns come in the order that the caller says.
        known, source = vocabulary.values[codes], "classes names"
        if len(vocabulary) < len(known):
            raise InputError(
                "The argument classes names a class twice.",
                remedy="Name every class once.",
                classes=known.tolist(),
            )
    elif found.labels is not None:
        return class_names(found, what=what)
    elif isinstance(truth, Column):
        known, source = read_vocabulary(truth, what="y_true")[1].values, "y_true holds"
    else:
        known, source = class_names(truth, what="y_true"), "y_true has columns for"
    if len(known) != n_columns:
        problem = f"The argument {what} has {n_columns} columns, but {source} {len(known)} classes."
        remedy = "Pass classes= with the class of every column, in order."
        raise ShapeError(
            problem, remedy=remedy, argument=what, n_columns=n_columns, n_classes=len(known)
        )
    # Where both the columns and the caller name the classes, and not alike, one of the two would be
    # silently overruled.
    names = known if found.labels is None else found.labels
    place = next((j for j, name in enumerate(names) if not same_class(name, known[j])), None)
    if place is not None:
        named, given = plain_value(names[place]), plain_value(known[place])
        problem = f"Column {place} of {what} is named {named!r}, but classes says {given!r}."
        raise UnseenError(
            problem, remedy="Leave `classes` out, or name the columns alike.", column=place
        )
    return known
