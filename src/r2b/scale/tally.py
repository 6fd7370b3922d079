"""Equal rows counted where they live: a table of classes and groups is told by how often each combination of values occurs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b.errors import InputError, WeightError
from r2b.inputs import Dataset, Groups
from r2b.inputs.dataset import assemble
from r2b.inputs.groups import read_groups
from r2b.inputs.sums import as_float, exact_sums
from r2b.scale.batch import Batch
from r2b.scale.choice import Choice
from r2b.tables.arrow import pyarrow

Array = np.ndarray[Any, np.dtype[Any]]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_COMBINATIONS = 1 << 22


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
    count: Integers
    weight: Floats | None = None

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.count.sum())


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

    def add(self, batch: Batch) -> None:
        """Count the rows of a batch."""
        if len(batch) == 0:
            return
        columns = [batch.columns[name] for name in self.keys]
        self._types = self._types or [_plain_type(column.type) for column in columns]
        encoded = [_encoded(column) for column in columns]
        joint, sizes = np.zeros(len(batch), np.int64), [len(values) for _, values in encoded]
        for (codes, _), size in zip(encoded, sizes, strict=True):
            joint = joint * size + codes
        places, codes, counts = _counted(joint, int(np.prod(sizes, dtype=np.float64)))
        mass = {} if self.weight is None else exact_sums(codes, _weights(batch, self.weight), len(places))
        each = [values for _, values in encoded]
        for number, (place, count) in enumerate(zip(places.tolist(), counts.tolist(), strict=True)):
            key = []
            for values in reversed(each):
                place, code = divmod(place, len(values))
                key.append(values[code])
            entry = self._found.setdefault(tuple(reversed(key)), [0, 0])
            entry[0] += count
            entry[1] += mass.get(number, 0)
        if len(self._found) > MOST_COMBINATIONS:
            self._refuse_many(batch)

    def merge(self, other: Counter) -> None:
        """Add what another has counted."""
        self._types = self._types or other._types
        for key, (count, mass) in other._found.items():
            entry = self._found.setdefault(key, [0, 0])
            entry[0] += count
            entry[1] += mass

    def tally(self) -> Tally:
        """Give what was counted, in the order in which combinations were met."""
        arrow = pyarrow()
        found = list(self._found)
        columns = {
            name: arrow.array([_restored(key[place]) for key in found], type=self._types[place] if self._types else None)
            for place, name in enumerate(self.keys)
        }
        count = np.array([self._found[key][0] for key in found], np.int64)
        weight = None if self.weight is None else np.array([as_float(self._found[key][1]) for key in found], np.float64)
        return Tally(columns, count, weight)

    def _refuse_many(self, batch: Batch) -> None:
        sizes = {name: len({key[place] for key in self._found}) for place, name in enumerate(self.keys)}
        most = max(sizes, key=lambda name: sizes[name])
        raise InputError(
            f"There are more than {MOST_COMBINATIONS:,} combinations of {', '.join(map(repr, self.keys))}; "
            f"{most!r} alone has {sizes[most]:,} values so far.",
            remedy="Choose a column of classes, or put its values in bins; of scores p of one class make two columns, 1 - p and p.",
            column=most,
            n_values=sizes[most],
        )


class _Missing:
    """Stands for a missing value in a key: a NaN is not equal to itself."""

    def __repr__(self) -> str:
        return "missing"


_NAN = _Missing()


def _restored(value: Any) -> Any:
    return float("nan") if value is _NAN else value


def _plain_type(kind: Any) -> Any:
    return kind.value_type if hasattr(kind, "value_type") and hasattr(kind, "index_type") else kind


def _encoded(column: Any) -> tuple[Array, list[Any]]:
    """Give codes and the values they stand for; a null has a code of its own."""
    coded = column if hasattr(column, "dictionary") else column.dictionary_encode(null_encoding="encode")
    values = coded.dictionary.to_pylist()
    indices = coded.indices
    if indices.null_count:
        indices = indices.fill_null(len(values))
        values = [*values, None]
    values = [_NAN if isinstance(value, float) and value != value else value for value in values]
    return indices.to_numpy(zero_copy_only=False), values


def _weights(batch: Batch, name: str) -> Floats:
    column = batch.columns[name]
    wrong = None
    try:
        weight = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
    except (TypeError, ValueError):
        raise WeightError(
            f"The column {name!r} of weights holds {column.type}, not numbers.", remedy="Name a column of numbers.", column=name
        ) from None
    if not (len(weight) == 0 or (weight.min() >= 0 and weight.max() < np.inf)):
        wrong = int(np.flatnonzero(~((weight >= 0) & (weight < np.inf)))[0])
    if wrong is not None:
        with batch.placed():
            raise WeightError(
                f"The weight of row {wrong} is {float(weight[wrong])!r}.",
                remedy="Pass finite weights of zero or more.",
                row=wrong,
                value=float(weight[wrong]),
                column=name,
            )
    return weight


def _counted(joint: Integers, size: int) -> tuple[Array, Array, Array]:
    """Give the codes that occur, the place of each row among them, and their rows."""
    if size <= 4 * len(joint) + 1024:
        counts = np.bincount(joint, minlength=size)
        there = np.flatnonzero(counts)
        place = np.zeros(size, np.int64)
        place[there] = np.arange(len(there))
        return there, place[joint], counts[there]
    there, codes = np.unique(joint, return_inverse=True)
    return there, codes, np.bincount(codes)


def added_up(counters: Iterable[Counter], keys: Sequence[str], weight: str | None) -> Tally:
    """Add up what several have counted, in their order."""
    total = Counter(keys, weight)
    for counter in counters:
        total.merge(counter)
    return total.tally()


def dataset_of(tally: Tally, choice: Choice, *, missing: str, fewest_classes: int = 2) -> Dataset:
    """Read a tally as a table in which each row stands for several."""
    data = assemble(
        tally.columns[choice.label[0]],
        **choice.features(tally.columns),
        sample_weight=tally.weight,
        fewest_classes=fewest_classes,
        missing=missing,
        weightless="allow",
        categorical_only=True,
    )
    return replace(data, groups=replace(data.groups, repeats=tally.count))


def groups_of(tally: Tally, choice: Choice, *, missing: str) -> tuple[Groups, Floats]:
    """Read a tally of attributes alone: cells, each with its number of rows, and the weight of each cell."""
    features = choice.features(tally.columns)
    groups = read_groups(features["sensitive_features"], control_features=features.get("control_features"), missing=missing)
    weight = tally.count if tally.weight is None else tally.weight
    return replace(groups, repeats=tally.count), np.bincount(groups.codes, weight, minlength=groups.n_groups).astype(np.float64)
