"""Equal rows are counted: a table of classes and groups is described by its counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._data import Cells
from r2b._data.arrays import Array, Floats, Whole, as_float, exact_sums
from r2b._data.cells import read_cells
from r2b._data.numbers import refuse_weightless_table
from r2b._files.arrow import pyarrow
from r2b.engines.batch import Batch, plain, plain_type, taken, weights_of
from r2b.engines.roles import ColumnRoles
from r2b.errors import EmptyError, InputError, MixedTypeError, WeightError

MOST_COMBINATIONS = 1 << 22  # of values, which are held in memory
_LARGEST_CODE = 1 << 62  # of crossings of columns, in 64 bits


@dataclass(frozen=True, eq=False)
class Tally:
    """Combinations of values, and how often each occurs.

    Attributes
    ----------
    columns : dict of str to pyarrow.Array
        The values, one entry per combination.
    count : ndarray of shape (n,)
        Rows of each.
    weight : ndarray of shape (n,) or None
        Their total weight. While rows are counted, whole numbers of any size in units of 2**-1074:
        sums that do not depend on the order of rows.
    """

    columns: dict[str, Any]
    count: Whole
    weight: Array | None = None

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.count.sum())

    def spread(self, weight: str) -> Tally:
        """Return an entry for every row, with the weight that its column has."""
        rows = np.repeat(np.arange(len(self.count)), self.count)
        taken_rows = pyarrow().array(rows)
        columns = {name: taken(column, taken_rows) for name, column in self.columns.items()}
        weights = np.asarray(columns[weight], np.float64)
        return Tally(columns, np.ones(len(rows), np.int64), weights)


@dataclass(frozen=True)
class Count:
    """The reduction that counts combinations of values, and adds up weights.

    Attributes
    ----------
    keys : tuple of str
    weight : str, optional
        Column whose numbers are added up.

    Examples
    --------
    >>> import pyarrow
    >>> count = Count(("sex",))
    >>> records = [pyarrow.record_batch({"sex": sexes}) for sexes in (["f", "m", "f"], ["m"])]
    >>> tally = count.tally(count.merge(*(count.make(Batch(record)) for record in records)))
    >>> tally.columns["sex"].to_pylist(), tally.count
    (['f', 'm'], array([2, 2]))
    """

    keys: tuple[str, ...]
    weight: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self.keys if self.weight is None else (*self.keys, self.weight)

    def make(self, batch: Batch) -> list[Tally]:
        """Count the rows of a batch."""
        columns = [batch.columns[name] for name in self.keys]
        coded = list(map(encoded_column, columns, self.keys))
        weight = None if self.weight is None else weights_of(batch, self.weight)
        sums = None
        if weight is None or self.weight in self.keys:
            _, _, first, count = _counted(coded, len(batch))
        else:
            first, codes, count = combined(coded, len(batch))
            found = exact_sums(codes, weight, len(first))
            sums = np.array([found.get(code, 0) for code in range(len(first))], object)
        rows = pyarrow().array(first)
        values = [plain(taken(column, rows)) for column in columns]
        return [tally_of(self.keys, values, count, sums)]

    def merge(self, one: list[Tally], other: list[Tally]) -> list[Tally]:
        """Return the counts of both; parts are only added up when they are many."""
        parts = [*one, *other]
        sizes = [len(part.count) for part in parts]
        return [self._added(parts)] if sum(sizes) > 2 * max(sizes) + (1 << 16) else parts

    def tally(self, parts: list[Tally] | None) -> Tally:
        """Return what was counted; None stands for no rows."""
        none = dict.fromkeys(self.keys, pyarrow().nulls(0))
        total = self._added(parts or [Tally(none, np.empty(0, np.int64), np.empty(0, object))])
        if self.weight is None:
            return replace(total, weight=None)
        if self.weight in self.keys:
            each = np.asarray(total.columns[self.weight], np.float64)
            return replace(total, weight=each * total.count)
        assert total.weight is not None
        try:
            return replace(total, weight=np.array([*map(as_float, total.weight)], np.float64))
        except OverflowError:
            raise WeightError(
                "The weights add up to infinity.",
                remedy="Divide them by their largest value.",
                column=self.weight,
            ) from None

    def _added(self, parts: list[Tally]) -> Tally:
        """Return parts as one in which each combination is there once."""
        if len(parts) == 1:
            return parts[0]
        columns = [self._joined(name, parts) for name in self.keys]
        count = np.concatenate([part.count for part in parts])
        first, codes, _ = combined([encoded_column(column) for column in columns], len(count))
        rows = pyarrow().array(first)
        total, sums = np.zeros(len(first), np.int64), None
        np.add.at(total, codes, count)
        weights = [part.weight for part in parts if part.weight is not None]
        if weights:
            sums = np.zeros(len(first), object)
            np.add.at(sums, codes, np.concatenate(weights))
        return tally_of(self.keys, [taken(column, rows) for column in columns], total, sums)

    def _joined(self, name: str, parts: list[Tally]) -> Any:
        """Return the values of a column in all parts, which must be of one type."""
        arrow = pyarrow()
        columns = [part.columns[name] for part in parts]
        # A part in which a column has no value at all does not know its type.
        kinds = [each.type for each in columns if not arrow.types.is_null(each.type)]
        for kind in kinds:
            if not same_values(kinds[0], kind):
                raise MixedTypeError(
                    f"The column {name!r} holds {kinds[0]} in one part of the table and {kind} in "
                    "another.",
                    remedy="Give all values of a column the same type.",
                    column=name,
                )
        if kinds:
            columns = [each if each.type == kinds[0] else each.cast(kinds[0]) for each in columns]
        return arrow.concat_arrays(columns)


def tally_of(
    keys: Sequence[str], values: Sequence[Any], count: Whole, weight: Array | None = None
) -> Tally:
    """Return combinations of values of the keys, unless they are too many."""
    columns = dict(zip(keys, values, strict=True))
    if len(count) <= MOST_COMBINATIONS:
        return Tally(columns, count, weight)
    sizes = {name: len(each.unique()) for name, each in columns.items()}
    most = max(sizes, key=lambda name: sizes[name])
    raise InputError(
        f"There are more than {MOST_COMBINATIONS:,} combinations of {', '.join(map(repr, sizes))}; "
        f"{most!r} alone has {sizes[most]:,} values so far.",
        remedy="Choose a column of classes, or put its values in bins; of scores p of one class "
        "make two columns, 1 - p and p.",
        column=most,
        n_values=sizes[most],
    )


def refuse_nested(column: Any, name: str) -> None:
    """Refuse lists and structs, which cannot name a class or group."""
    if pyarrow().types.is_nested(column.type):
        raise InputError(
            f"The values of the column {name!r} are of the nested type {column.type}, which cannot "
            "name a class or group.",
            remedy="Pass one plain value per row: text, whole number, true/false or date.",
            column=name,
        )


def encoded_column(column: Any, name: str = "") -> tuple[Array, int]:
    """Return codes, and how many codes there may be; a null has the last one."""
    arrow = pyarrow()
    refuse_nested(column, name)
    if arrow.types.is_integer(column.type) and not column.null_count and len(column):
        values = np.asarray(column)
        low, high = int(values.min()), int(values.max())
        # few whole numbers are codes as they stand
        if high - low < 1 << 12 and abs(low) < _LARGEST_CODE:
            codes = values.astype(np.int64, copy=False)
            return codes - low if low else codes, high - low + 2
    coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    codes = np.asarray(coded.indices.fill_null(len(coded.dictionary)))
    return codes, len(coded.dictionary) + 1


def combined(coded: Sequence[tuple[Array, int]], n_rows: int) -> tuple[Whole, Array, Whole]:
    """Return a row of each combination of codes, the combination of each row, and counts."""
    joint, there, first, counts = _counted(coded, n_rows)
    rank = np.zeros(joint.max(initial=0) + 1, np.int64)
    rank[there] = np.arange(len(there))
    return first, rank.take(joint), counts


def _counted(coded: Sequence[tuple[Array, int]], n_rows: int) -> tuple[Array, Whole, Whole, Whole]:
    """Return a code of all columns per row; the codes that occur, a row of each, and counts."""
    joint, size = np.zeros(n_rows, np.int64), 1
    for codes, of in coded:
        if size * of >= _LARGEST_CODE:  # no more combinations occur than there are rows
            found, joint = np.unique(joint, return_inverse=True)
            size = len(found)
        joint *= of
        joint += codes
        size *= of
    if size > 4 * n_rows + 1024:
        found, joint = np.unique(joint, return_inverse=True)
        size = len(found)
    counts = np.bincount(joint, minlength=size)
    there = np.flatnonzero(counts)
    row, step = np.full(size, -1), 1 << 16
    for start in range(0, n_rows, step):
        part = joint[start : start + step]
        row[part] = np.arange(start, start + len(part))
        if (row[there] >= 0).all():  # as it is in the first rows where combinations are few
            break
    return joint, there, row[there], counts[there]


def cells_of(tally: Tally, choice: ColumnRoles, *, missing: str) -> tuple[Cells, Floats]:
    """Read a tally of attributes as cells with their numbers of rows; return their weights too."""
    cells = read_cells(**choice.features(tally.columns), missing=missing)
    weight = tally.count if tally.weight is None else tally.weight
    refuse_weightless_table(weight, tally.n_rows)
    mass = np.bincount(cells.codes, weight, minlength=cells.n_cells).astype(np.float64)
    return replace(cells, repeats=tally.count), mass


def gaps_of(tally: Tally, subject: str) -> dict[str, int]:
    """Return how many rows lack a value of each column, for those in which some do."""
    if tally.n_rows == 0:
        raise EmptyError(f"{subject} has no rows.", remedy="Pass at least one row.")
    found = {}
    for name, column in tally.columns.items():
        gaps = np.asarray(column.is_null(nan_is_null=True), bool)
        if count := int(tally.count[gaps].sum()):
            found[name] = count
    return found


def same_values(one: Any, other: Any) -> bool:
    """Tell whether two types hold the same values, however text is laid out.

    Examples
    --------
    >>> import pyarrow
    >>> same_values(pyarrow.string(), pyarrow.dictionary(pyarrow.int8(), pyarrow.large_string()))
    True
    >>> same_values(pyarrow.int32(), pyarrow.int64())
    False
    """
    mine, others = (
        str(plain_type(kind)).removeprefix("large_").removesuffix("_view") for kind in (one, other)
    )
    # Lists and structs are one thing only where they are equal: their parts may differ in ways that
    # text does not show.
    return mine == others if not pyarrow().types.is_nested(plain_type(one)) else one == other
