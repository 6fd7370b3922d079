"""Equal rows counted where they live: a table of classes and groups is described by how often each combination of values occurs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._data import Cells, Dataset, read
from r2b._data.arrays import Array, Floats, Whole, as_float, exact_sums
from r2b._data.cells import read_cells
from r2b._data.compute import parts_of
from r2b._data.numbers import refuse_weightless_table
from r2b._files.arrow import pyarrow
from r2b.engines.batch import Batch, taken
from r2b.engines.roles import ColumnRoles
from r2b.errors import EmptyError, InputError, MixedTypeError, WeightError

MOST_COMBINATIONS = 1 << 22
_LARGEST_CODE = 1 << 62
_FEW = 1 << 16  # combinations of codes that are counted by a table
_NARROW = 1 << 12  # whole numbers within such a span are codes as they stand
_MANY = 1 << 20  # the same, a column at a time
_PART = 1 << 16
_LOOSE = 1 << 16  # entries that are kept apart before parts are put together
_PARTS = 32  # parts that are kept apart: files may be many and small


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
        Their total weight.
    """

    columns: dict[str, Any]
    count: Whole
    weight: Floats | None = None

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.count.sum())

    def spread(self, weight: str) -> Tally:
        """Give every row an entry of its own, with the weight that its column has."""
        rows = np.repeat(np.arange(len(self.count)), self.count)
        columns = {
            name: taken(column, pyarrow().array(rows)) for name, column in self.columns.items()
        }
        return Tally(
            columns,
            np.ones(len(rows), np.int64),
            np.asarray(columns[weight].to_numpy(zero_copy_only=False), np.float64),
        )


@dataclass(eq=False)
class Counted:
    """Combinations and how often each occurs, in parts that are put together now and then: adding a part takes no time.

    Attributes
    ----------
    parts : list of (list of pyarrow.Array, ndarray, (ndarray, int) or None)
        Values, rows and, exactly, weight: whole numbers of 2**-1074, without so many zeros at their
        ends in binary. Sums must not depend on how rows are cut into batches.
    types : list of pyarrow.DataType
    """

    parts: list[tuple[list[Any], Whole, tuple[Array, int] | None]]
    types: list[Any]

    @property
    def size(self) -> int:
        """Entries of all parts; a combination may have several."""
        return sum(len(count) for _, count, _ in self.parts)


@dataclass(frozen=True)
class Count:
    """Counts combinations: of a batch, and of what was counted before.

    Attributes
    ----------
    keys : tuple of str
    weight : str, optional
        Column whose numbers are added up.

    Raises
    ------
    InputError
        There are too many combinations; names the column with most values.

    Examples
    --------
    >>> import pyarrow
    >>> count = Count(("sex",))
    >>> one, other = (count.make(Batch(pyarrow.record_batch({"sex": sexes}))) for sexes in (["f", "m", "f"], ["m"]))
    >>> tally = count.tally(count.merge(one, other))
    >>> tally.columns["sex"].to_pylist(), tally.count
    (['f', 'm'], array([2, 2]))
    """

    keys: tuple[str, ...]
    weight: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self.keys if self.weight is None else (*self.keys, self.weight)

    @property
    def _adds(self) -> bool:
        """Whether weights are added up; where they tell combinations apart, those of one combination are equal."""
        return self.weight is not None and self.weight not in self.keys

    def make(self, batch: Batch) -> Counted:
        """Count the rows of a batch."""
        columns = [batch.columns[name] for name in self.keys]
        types = [plain_type(column.type) for column in columns]
        if len(batch) == 0:
            return Counted([], types)
        coded = [
            _narrow(column) or encoded_column(column, name)
            for name, column in zip(self.keys, columns, strict=True)
        ]
        weight = None if self.weight is None else _weights(batch, self.weight)
        mass: tuple[Array, int] | None = None
        found = None if weight is not None else _counted_codes(coded, len(batch))
        if found is None:
            coded = [
                encoded_column(column, name)
                for name, column in zip(self.keys, columns, strict=True)
            ]
            first, codes, count = combined(coded, len(batch))
            found = [codes_of[first] for codes_of, _ in coded], count
            if self._adds and weight is not None:
                sums = exact_sums(codes, weight, len(first))
                zeros = min(((each & -each).bit_length() - 1 for each in sums.values()), default=0)
                mass = (
                    np.array([sums.get(code, 0) >> zeros for code in range(len(first))], object),
                    zeros,
                )
        values = [
            _typed(_values(each, places), kind)
            for each, places, kind in zip(coded, found[0], types, strict=True)
        ]
        self._refuse_many(len(found[1]), values)
        return Counted([(values, found[1], mass)], types)

    def merge(self, one: Counted, other: Counted) -> Counted:
        """Add what was counted in rows that come later."""
        types = self._agreed(one.types, other.types)
        total = Counted([*one.parts, *other.parts], types)
        largest = max((len(count) for _, count, _ in total.parts), default=0)
        many = (
            len(total.parts) > _PARTS and total.size > _PARTS + largest
        ) or total.size > MOST_COMBINATIONS + largest // 4
        return self.settled(total) if many or total.size > 2 * largest + _LOOSE else total

    def settled(self, counted: Counted) -> Counted:
        """Put parts together, so that each combination is there once."""
        if len(counted.parts) < 2:
            return counted
        arrow, columns = pyarrow(), []
        for place, kind in enumerate(counted.types):
            columns.append(
                arrow.concat_arrays([_typed(values[place], kind) for values, _, _ in counted.parts])
            )
        count = np.concatenate([count for _, count, _ in counted.parts])
        first, codes, _ = combined([encoded_column(each) for each in columns], len(count))
        self._refuse_many(len(first), columns)
        total, mass = np.zeros(len(first), np.int64), None
        np.add.at(total, codes, count)
        if self._adds:
            masses = [each for _, _, each in counted.parts if each is not None]
            mass = np.zeros(len(first), object), min(zeros for _, zeros in masses)
            np.add.at(
                mass[0],
                codes,
                np.concatenate([each << (zeros - mass[1]) for each, zeros in masses]),
            )
        return Counted(
            [([taken(column, arrow.array(first)) for column in columns], total, mass)],
            counted.types,
        )

    def _refuse_many(self, n_found: int, columns: Sequence[Any]) -> None:
        if n_found > MOST_COMBINATIONS:
            refuse_combinations(
                {
                    name: len(column.unique())
                    for name, column in zip(self.keys, columns, strict=True)
                }
            )

    def tally(self, counted: Counted | None) -> Tally:
        """Give what was counted; None stands for no rows."""
        counted = self.settled(counted or Counted([], [pyarrow().null()] * len(self.keys)))
        if not counted.parts:
            none = [pyarrow().array([], kind) for kind in counted.types]
            return Tally(
                dict(zip(self.keys, none, strict=True)),
                np.empty(0, np.int64),
                None if self.weight is None else np.empty(0),
            )
        ((values, count, mass),) = counted.parts
        columns = {
            name: _typed(each, kind)
            for name, each, kind in zip(self.keys, values, counted.types, strict=True)
        }
        try:
            weight = (
                None
                if mass is None
                else np.array([as_float(each << mass[1]) for each in mass[0].tolist()], np.float64)
            )
            if mass is None and self.weight is not None:
                weight = (
                    np.asarray(columns[self.weight].to_numpy(zero_copy_only=False), np.float64)
                    * count
                )
        except OverflowError:
            raise WeightError(
                "The weights add up to infinity.",
                remedy="Divide them by their largest value.",
                column=self.weight,
            ) from None
        return Tally(columns, count.astype(np.int64), weight)

    def _agreed(self, types: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        """Give the types of the columns; a part in which a column has no value at all does not know its type."""
        unknown = pyarrow().types.is_null
        kept = list(types)
        for place, (old, new) in enumerate(zip(types, others, strict=True)):
            if unknown(old):
                kept[place] = new
            elif not unknown(new) and not same_values(old, new):
                name = self.keys[place]
                problem = f"The column {name!r} holds {old} in one part of the table and {new} in another."
                raise MixedTypeError(
                    problem, remedy="Give all values of a column the same type.", column=name
                )
        return kept


def _typed(column: Any, kind: Any) -> Any:
    return column if column.type == kind else column.cast(kind)


def _values(coded: tuple[Any, Any], places: Array) -> Any:
    """Give the values that codes stand for; a code past the last is a null."""
    arrow, (_, values) = pyarrow(), coded
    if isinstance(values, range):
        return arrow.array(places + values.start)
    places = np.asarray(places, np.int64)
    return taken(values, arrow.array(places, mask=places >= len(values)))


def _counted_codes(
    coded: Sequence[tuple[Any, Any]], n_rows: int
) -> tuple[list[Array], Array] | None:
    """Count codes as they stand, where few combinations occur: several times as fast; None where they are too many."""
    sizes = [_size(each) for each in coded]
    if np.prod(sizes, dtype=np.float64) > _FEW:
        return _step_by_step(coded, sizes, n_rows)
    size = int(np.prod(sizes))
    counts = np.zeros(size, np.int64)
    for part in parts_of(n_rows, _PART):  # parts stay in cache
        joint = np.zeros(part.stop - part.start, np.int32)
        for (codes, values), of in zip(coded, sizes, strict=True):
            joint *= np.int32(of)
            joint += codes[part].astype(np.int32, copy=False) - np.int32(
                values.start if isinstance(values, range) else 0
            )
        counts += np.bincount(joint, minlength=size)
    there = np.flatnonzero(counts)
    return list(np.unravel_index(there, sizes)), counts[there]


def _step_by_step(
    coded: Sequence[tuple[Any, Any]], sizes: Sequence[int], n_rows: int
) -> tuple[list[Array], Array] | None:
    """Count many columns of which few combinations occur: a column at a time, keeping what occurs; None where that is too much."""
    joint = np.zeros(n_rows, np.int64)
    found: list[Array] = []
    n_found, counts = 1, np.array([n_rows])
    for (codes, values), of in zip(coded, sizes, strict=True):
        if n_found * of > _MANY:
            return None
        joint *= of
        joint += codes
        if isinstance(values, range):
            joint -= values.start
        there, joint, counts = _ranked(joint, n_found * of)
        found = [*(places[there // of] for places in found), there % of]
        n_found = len(there)
    return found, counts


def _size(coded: tuple[Any, Any]) -> int:
    """Give how many codes there may be: one more than values, for a null."""
    return len(coded[1]) + (not isinstance(coded[1], range))


def refuse_combinations(sizes: Mapping[str, int]) -> None:
    """Refuse columns whose values make too many combinations, and name the one to blame."""
    most = max(sizes, key=lambda name: sizes[name])
    raise InputError(
        f"There are more than {MOST_COMBINATIONS:,} combinations of {', '.join(map(repr, sizes))}; "
        f"{most!r} alone has {sizes[most]:,} values so far.",
        remedy="Choose a column of classes, or put its values in bins; of scores p of one class make two columns, 1 - p and p.",
        column=most,
        n_values=sizes[most],
    )


def encoded_column(column: Any, name: str = "") -> tuple[Array, Any]:
    """Give codes and the values they stand for; a null has the code after the last."""
    if pyarrow().types.is_nested(column.type):
        problem = f"The values of the column {name!r} are of the nested type {column.type}, which cannot name a class or group."
        raise InputError(
            problem,
            remedy="Pass one plain value per row: text, whole number, true/false or date.",
            column=name,
        )
    coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    return coded.indices.fill_null(len(coded.dictionary)).to_numpy(
        zero_copy_only=False
    ), coded.dictionary


def _weights(batch: Batch, name: str) -> Floats:
    column, types = batch.columns[name], pyarrow().types
    if not any(
        kind(column.type)
        for kind in (
            types.is_integer,
            types.is_floating,
            types.is_decimal,
            types.is_boolean,
            types.is_null,
        )
    ):
        kind = plain_type(column.type)
        raise WeightError(
            f"The column {name!r} of weights holds {kind}, not numbers.",
            remedy="Name a column of numbers.",
            column=name,
        )
    weight = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
    if len(weight) and not (weight.min() >= 0 and weight.max() < np.inf):
        wrong = int(np.flatnonzero(~((weight >= 0) & (weight < np.inf)))[0])
        with batch.placed():
            found = (
                f"the weight {float(weight[wrong])!r}" if column[wrong].is_valid else "no weight"
            )
            problem = f"Row {wrong} has {found} in {name!r}."
            remedy = "Give every row a finite weight of zero or more, or drop such rows."
            raise WeightError(
                problem, remedy=remedy, row=wrong, value=float(weight[wrong]), column=name
            )
    return weight


def combined(encoded: Sequence[tuple[Array, Any]], n_rows: int) -> tuple[Whole, Array, Array]:
    """Give a row of each combination of codes, the number of the combination of each row, and their rows."""
    joint, size = np.zeros(n_rows, np.int64), 1
    for codes, values in encoded:
        of = len(values) + 1  # and a null
        if size * of >= _LARGEST_CODE:  # the crossings that occur are no more than the rows
            found, joint = np.unique(joint, return_inverse=True)
            size = len(found)
        joint, size = joint * of + codes, size * of
    if size > 4 * n_rows + 1024:
        found, joint = np.unique(joint, return_inverse=True)
        size = len(found)
    there, codes, counts = _ranked(joint, size)
    first = np.empty(len(there), np.int64)
    first[codes] = np.arange(n_rows)
    return first, codes, counts


def _ranked(joint: Array, size: int) -> tuple[Whole, Array, Array]:
    """Give the codes that occur, the rank of the code of each row among them, and their rows."""
    counts = np.bincount(joint, minlength=size)
    there = np.flatnonzero(counts)
    rank = np.zeros(len(counts), np.int64)
    rank[there] = np.arange(len(there))
    return there, rank.take(joint), counts[there]


def _narrow(column: Any) -> tuple[Any, range] | None:
    """Give whole numbers of a narrow span, with the span; None for everything else."""
    if not pyarrow().types.is_integer(column.type) or column.null_count:
        return None
    values = column.to_numpy(zero_copy_only=False)
    low, high = int(values.min()), int(values.max())
    return (
        (values, range(low, high + 1))
        if high - low < _NARROW and abs(low) < 2**30 and values.dtype.itemsize <= 8
        else None
    )


def dataset_of(
    tally: Tally, choice: ColumnRoles, *, missing: str, fewest_classes: int = 2
) -> Dataset:
    """Read a tally as a table in which each row stands for several."""
    if tally.weight is not None and tally.n_rows:
        refuse_weightless(tally.weight, tally.n_rows)
    data = read(
        tally.columns[choice.label[0]],
        **choice.features(tally.columns),
        sample_weight=tally.weight,
        fewest_classes=fewest_classes,
        missing=missing,
        weightless="allow",
        categorical_only=True,
    )
    repeats = None if (tally.count == 1).all() else tally.count
    return replace(data, cells=replace(data.cells, repeats=repeats))


def refuse_weightless(weight: Array, n_rows: int) -> None:
    """Refuse weights of combinations or cells that add up to zero or to infinity, in terms of the rows behind them."""
    if n_rows and not weight.any():
        raise WeightError(
            f"The weights of all {n_rows:,} rows are zero.",
            remedy="Give at least one row a positive weight.",
            count=n_rows,
        )
    refuse_weightless_table(weight)


def groups_of(tally: Tally, choice: ColumnRoles, *, missing: str) -> tuple[Cells, Floats]:
    """Read a tally of attributes alone: cells, each with its number of rows, and the weight of each cell."""
    features = choice.features(tally.columns)
    groups = read_cells(
        features["sensitive_features"],
        control_features=features.get("control_features"),
        missing=missing,
    )
    weight = tally.count if tally.weight is None else tally.weight
    refuse_weightless(weight, tally.n_rows)
    return replace(groups, repeats=tally.count), np.bincount(
        groups.codes, weight, minlength=groups.n_cells
    ).astype(np.float64)


def gaps_of(tally: Tally, subject: str) -> dict[str, int]:
    """Give how many rows lack a value of each column, for those in which some do.

    Raises
    ------
    EmptyError
        There are no rows at all.
    """
    if tally.n_rows == 0:
        raise EmptyError(f"{subject} has no rows.", remedy="Pass at least one row.")
    gaps = {
        name: int(
            tally.count[
                np.asarray(column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False), bool)
            ].sum()
        )
        for name, column in tally.columns.items()
    }
    return {name: count for name, count in gaps.items() if count}


def plain_type(kind: Any) -> Any:
    """Give the type of the values behind a dictionary."""
    return kind.value_type if hasattr(kind, "value_type") and hasattr(kind, "index_type") else kind


def same_values(one: Any, other: Any) -> bool:
    """Say whether two types hold the same values, however text is laid out.

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
