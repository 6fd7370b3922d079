"""Equal rows counted where they live: a table of classes and groups is described by how often each combination of values occurs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from r2b._data import Dataset, Groups, read
from r2b._data.arrays import Array, Floats, Whole, as_float, exact_sums
from r2b._data.compute import parts_of
from r2b._data.groups import read_groups
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
_LOOKED_AT = 20
_NUMBER = re.compile(r"\d+\.\d*(?:[eE][-+]?\d+)?")
_DISTRIBUTION = re.compile(rf"[\[(]\s*{_NUMBER.pattern}(?:[,;\s]+{_NUMBER.pattern})+\s*[\])]")


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
        columns = {name: taken(column, pyarrow().array(rows)) for name, column in self.columns.items()}
        return Tally(columns, np.ones(len(rows), np.int64), np.asarray(columns[weight].to_numpy(zero_copy_only=False), np.float64))


class Counter:
    """Counts combinations batch by batch.

    Parameters
    ----------
    keys : sequence of str
    weight : str, optional
        Column whose numbers are added up.

    Examples
    --------
    >>> import pyarrow
    >>> counter = Counter(["sex"])
    >>> counter.add(Batch(pyarrow.record_batch({"sex": ["f", "m", "f"]})))
    >>> counter.tally().columns["sex"].to_pylist(), counter.tally().count
    (['f', 'm'], array([2, 1]))
    """

    def __init__(self, keys: Sequence[str], weight: str | None = None) -> None:
        self.keys = tuple(keys)
        self.weight = weight
        # Rows and, exactly, weight: the sum must not depend on how rows are cut into batches.
        self._found: dict[tuple[Any, ...], list[int]] = {}
        self._types: list[Any] = []

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [*self.keys, *([] if self.weight is None else [self.weight])]

    def add(self, batch: Batch) -> None:
        """Count the rows of a batch."""
        if len(batch) == 0:
            return
        columns = {name: batch.columns[name] for name in self.keys}
        self._agree([plain_type(column.type) for column in columns.values()])
        if self.weight is not None or not self._count_codes(columns, len(batch)):
            encoded = [encoded_column(column, name) for name, column in columns.items()]
            first, codes, counts = combined(encoded, len(batch))
            mass = {} if self.weight is None else exact_sums(codes, _weights(batch, self.weight), len(first))
            met = [[values[code] for code in codes_of[first].tolist()] for codes_of, values in encoded]
            for number, (count, *key) in enumerate(zip(counts.tolist(), *met, strict=True)):
                self._put(tuple(key), count, mass.get(number, 0))
        self._refuse_many()

    def _refuse_many(self) -> None:
        if len(self._found) > MOST_COMBINATIONS:
            refuse_combinations({name: len({key[place] for key in self._found}) for place, name in enumerate(self.keys)})

    def counted(self, batch: Batch) -> Counter:
        """Give what counts the same columns of a batch alone; it may be called in any thread."""
        counter = Counter(self.keys, self.weight)
        counter.add(batch)
        return counter

    def _put(self, key: tuple[Any, ...], count: int, mass: int = 0) -> None:
        entry = self._found.setdefault(key, [0, 0])
        entry[0] += count
        entry[1] += mass

    def _count_codes(self, columns: Mapping[str, Any], n_rows: int) -> bool:
        """Count codes as they stand, where few combinations occur: several times as fast; False where they are too many."""
        coded = [_narrow(column) or encoded_column(column, name) for name, column in columns.items()]
        sizes = [max(len(values), 1) for _, values in coded]
        if np.prod(sizes, dtype=np.float64) > _FEW:
            return self._step_by_step(coded, sizes, n_rows)
        size = int(np.prod(sizes))
        counts = np.zeros(size, np.int64)
        for part in parts_of(n_rows, _PART):  # parts stay in cache
            joint = np.zeros(part.stop - part.start, np.int32)
            for (codes, values), of in zip(coded, sizes, strict=True):
                joint *= np.int32(of)
                joint += codes[part].astype(np.int32, copy=False) - np.int32(values.start if isinstance(values, range) else 0)
            counts += np.bincount(joint, minlength=size)
        there = np.flatnonzero(counts)
        for places, count in zip(zip(*np.unravel_index(there, sizes), strict=True), counts[there].tolist(), strict=True):
            self._put(tuple(values[int(place)] for (_, values), place in zip(coded, places, strict=True)), count)
        return True

    def _step_by_step(self, coded: Sequence[tuple[Any, Any]], sizes: Sequence[int], n_rows: int) -> bool:
        """Count many columns of which few combinations occur: a column at a time, keeping what occurs; False where that is too much."""
        joint = np.zeros(n_rows, np.int64)
        found: list[tuple[Any, ...]] = [()]
        counts = np.array([n_rows])
        for (codes, values), of in zip(coded, sizes, strict=True):
            if len(found) * of > _MANY:
                return False
            joint *= of
            joint += codes
            if isinstance(values, range):
                joint -= values.start
            there, joint, counts = _ranked(joint, len(found) * of)
            found = [(*found[place // of], values[place % of]) for place in there.tolist()]
        for key, count in zip(found, counts.tolist(), strict=True):
            self._put(key, count)
        return True

    def merge(self, other: Counter) -> None:
        """Add what another has counted."""
        self._agree(other._types)
        for key, (count, mass) in other._found.items():
            self._put(key, count, mass)
        self._refuse_many()

    def tally(self) -> Tally:
        """Give what was counted, in the order in which combinations were met."""
        found = list(self._found)
        columns = {}
        for place, name in enumerate(self.keys):
            values = [float(key[place].value) if isinstance(key[place], _Missing) else key[place] for key in found]
            columns[name] = pyarrow().array(values, type=self._types[place] if self._types else None)
        count = np.array([self._found[key][0] for key in found], np.int64)
        try:
            weight = None if self.weight is None else np.array([as_float(self._found[key][1]) for key in found], np.float64)
        except OverflowError:
            raise WeightError("The weights add up to infinity.", remedy="Divide them by their largest value.", column=self.weight) from None
        return Tally(columns, count, weight)

    def _agree(self, types: Sequence[Any]) -> None:
        """Keep the types of the columns; a part in which a column has no value at all does not know its type."""
        unknown = pyarrow().types.is_null
        kept = list(self._types or types)
        for place, (old, new) in enumerate(zip(kept, types, strict=False)):
            if unknown(old):
                kept[place] = new
            elif not unknown(new) and not same_values(old, new):
                name = self.keys[place]
                problem = f"The column {name!r} holds {old} in one part of the table and {new} in another."
                raise MixedTypeError(problem, remedy="Give all values of a column the same type.", column=name)
        self._types = kept


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


def refuse_lists_as_text(classes: Any, name: str) -> None:
    """Refuse probabilities that were made text on their way: every distinct row of them would be a class of its own.

    Dask makes text of lists unless it is told not to, and a CSV file holds nothing but text.
    """
    shown = classes.slice(0, _LOOKED_AT).to_pylist()
    lists = (isinstance(each, str) and _DISTRIBUTION.fullmatch(each) for each in shown)
    if len(shown) > 1 and all(lists) and all(abs(sum(map(float, _NUMBER.findall(each))) - 1.0) < 1e-3 for each in shown):
        raise InputError(
            f"The column {name!r} holds lists of probabilities as text, such as {shown[0][:60]!r}.",
            remedy="Give one column per class, or lists of numbers; for Dask, call dask.config.set({'dataframe.convert-string': False}) "
            "before the frame is made.",
            column=name,
        )


class _Missing(Enum):
    """Stands for a missing value in a key, since a NaN is not equal to itself; what a worker counted meets the same key here."""

    NAN = "nan"


def encoded_column(column: Any, name: str = "") -> tuple[Array, list[Any]]:
    """Give codes and the values they stand for; a null has a code of its own."""
    if pyarrow().types.is_nested(column.type):
        problem = f"The values of the column {name!r} are of the nested type {column.type}, which cannot name a class or group."
        raise InputError(problem, remedy="Pass one plain value per row: text, whole number, true/false or date.", column=name)
    coded = column if hasattr(column, "dictionary") else column.dictionary_encode(null_encoding="encode")
    values = coded.dictionary.to_pylist()
    indices = coded.indices
    if indices.null_count:
        indices = indices.fill_null(len(values))
        values = [*values, None]
    values = [_Missing.NAN if isinstance(value, float) and value != value else value for value in values]
    return indices.to_numpy(zero_copy_only=False), values


def _weights(batch: Batch, name: str) -> Floats:
    column, types = batch.columns[name], pyarrow().types
    if not any(kind(column.type) for kind in (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)):
        kind = plain_type(column.type)
        raise WeightError(f"The column {name!r} of weights holds {kind}, not numbers.", remedy="Name a column of numbers.", column=name)
    weight = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
    if len(weight) and not (weight.min() >= 0 and weight.max() < np.inf):
        wrong = int(np.flatnonzero(~((weight >= 0) & (weight < np.inf)))[0])
        with batch.placed():
            found = f"the weight {float(weight[wrong])!r}" if column[wrong].is_valid else "no weight"
            problem = f"Row {wrong} has {found} in {name!r}."
            remedy = "Give every row a finite weight of zero or more, or drop such rows."
            raise WeightError(problem, remedy=remedy, row=wrong, value=float(weight[wrong]), column=name)
    return weight


def combined(encoded: Sequence[tuple[Array, Any]], n_rows: int) -> tuple[Whole, Array, Array]:
    """Give a row of each combination of codes, the number of the combination of each row, and their rows."""
    joint, size = np.zeros(n_rows, np.int64), 1
    for codes, values in encoded:
        if size * len(values) >= _LARGEST_CODE:  # the crossings that occur are no more than the rows
            found, joint = np.unique(joint, return_inverse=True)
            size = len(found)
        joint, size = joint * len(values) + codes, size * len(values)
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
    return (values, range(low, high + 1)) if high - low < _NARROW and abs(low) < 2**30 and values.dtype.itemsize <= 8 else None


def added_up(counters: Iterable[Counter], keys: Sequence[str], weight: str | None) -> Counter:
    """Add up what several have counted, in their order."""
    total = Counter(keys, weight)
    for counter in counters:
        total.merge(counter)
    return total


def dataset_of(tally: Tally, choice: ColumnRoles, *, missing: str, fewest_classes: int = 2) -> Dataset:
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
    return replace(data, groups=replace(data.groups, repeats=repeats))


def refuse_weightless(weight: Array, n_rows: int) -> None:
    """Refuse weights of combinations or cells that add up to zero or to infinity, in terms of the rows behind them."""
    if n_rows and not weight.any():
        raise WeightError(f"The weights of all {n_rows:,} rows are zero.", remedy="Give at least one row a positive weight.", count=n_rows)
    refuse_weightless_table(weight)


def groups_of(tally: Tally, choice: ColumnRoles, *, missing: str) -> tuple[Groups, Floats]:
    """Read a tally of attributes alone: cells, each with its number of rows, and the weight of each cell."""
    features = choice.features(tally.columns)
    groups = read_groups(features["sensitive_features"], control_features=features.get("control_features"), missing=missing)
    weight = tally.count if tally.weight is None else tally.weight
    refuse_weightless(weight, tally.n_rows)
    return replace(groups, repeats=tally.count), np.bincount(groups.codes, weight, minlength=groups.n_groups).astype(np.float64)


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
        name: int(tally.count[np.asarray(column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False), bool)].sum())
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
    mine, others = (str(plain_type(kind)).removeprefix("large_").removesuffix("_view") for kind in (one, other))
    # Lists and structs are one thing only where they are equal: their parts may differ in ways that text does not show.
    return mine == others if not pyarrow().types.is_nested(plain_type(one)) else one == other
