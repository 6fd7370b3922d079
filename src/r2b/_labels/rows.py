"""The rows of a result, in memory or anywhere else, which return labels in every form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from r2b._data import Dataset
from r2b._data.arrays import Array, Floats
from r2b._data.columns import Column, recognise, refuse_lengths, refuse_other_index, row_labels
from r2b._data.dataset import read_known_labels
from r2b._data.frames import library_of
from r2b._data.merge import cell_sums, class_weights
from r2b._labels.draws import row_draws
from r2b._labels.realised import Realised, realised, rounding_bound
from r2b._labels.rule import Rule, applied
from r2b._labels.sampling import take_rows, with_row_labels
from r2b._labels.summary import Change, heaviest_flows
from r2b._solve.certificate import Certificate
from r2b.errors import ParameterError, RowsUnavailableError

Form = Literal["soft", "round", "sample", "expand"]


@dataclass(frozen=True)
class FormTraits:
    """What a form of labels asks of rows, and gives them.

    Attributes
    ----------
    drawn : bool
        Every row gets one class, by its draw: rows have an order, or a key.
    weighed : bool
        It follows from the weights of rows.
    repeated : bool
        Rows are repeated, with classes and weights.
    """

    drawn: bool = False
    weighed: bool = False
    repeated: bool = False

    @property
    def classes(self) -> bool:
        """Whether the first new column has classes; else all are probabilities."""
        return self.drawn or self.repeated


FORMS: dict[Form, FormTraits] = {
    "soft": FormTraits(),
    "round": FormTraits(drawn=True, weighed=True),
    "sample": FormTraits(drawn=True),
    "expand": FormTraits(weighed=True, repeated=True),
}


class LabelRows(ABC):
    """Rows that get new labels. What an engine cannot do where its rows are goes through memory.

    Attributes
    ----------
    n_rows : int or None
        None if counting them takes a pass.
    weighted : bool
    counts : Dataset or None
        The rows, or for class labels elsewhere one row per combination of values; None if there is
        neither.
    came_as : str
        The library of the table, if results can be frames of it; else "".
    """

    n_rows: int | None
    weighted: bool
    counts: Dataset | None = None
    came_as: str = ""

    @abstractmethod
    def in_memory(self) -> MemoryRows:
        """Read the rows into memory, in their order."""

    @property
    def labelled(self) -> MemoryRows:
        """The rows whose labels are returned as arrays: these rows in memory, or on a device."""
        return self.in_memory()

    def read(self, rule: Rule, y: Any, data: dict[str, Any]) -> LabelRows:
        """Read new rows with the classes and groups of a rule."""
        return read_new(rule, y, data)

    def largest_changes(self, rule: Rule, n: int) -> list[Change]:
        """List the heaviest flows from an old to a new label; for class labels only."""
        if self.counts is None or self.counts.labels.is_soft or rule.unchanged:
            return []
        response, weights = rule.response(self.counts.cells), class_weights(self.counts)
        names, classes = rule.schema.names, rule.schema.classes.values
        return heaviest_flows(response.of_classes, weights, names, classes, n)

    def frame(self, rule: Rule, **asked: Any) -> Any:
        """Return the table with its fair labels in new columns."""
        raise _no_table()

    def write(self, rule: Rule, path: str, **asked: Any) -> None:
        """Write the table with its fair labels in new columns."""
        raise _no_table()

    def realised_as(
        self, rule: Rule, proof: Certificate, form: str, seed: int, key: Any
    ) -> Realised:
        """Measure labels of one class per row."""
        rows = self.in_memory()
        method = {"round": rows.round, "sample": rows.sample}[form]
        return rows.realised(rule, proof, method(rule, seed, key))


@dataclass(frozen=True, eq=False)
class MemoryRows(LabelRows):
    """Rows in memory.

    Attributes
    ----------
    dataset : Dataset
    """

    dataset: Dataset

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """The number of rows."""
        return self.dataset.n_rows

    @property
    def weighted(self) -> bool:  # type: ignore[override]
        """Whether they have weights."""
        return self.dataset.weight is not None

    @property
    def counts(self) -> Dataset:  # type: ignore[override]
        """The rows themselves."""
        return self.dataset

    @property
    def came_as(self) -> str:  # type: ignore[override]
        """The library that they came in."""
        return library_of(self.dataset)

    def in_memory(self) -> MemoryRows:
        """Return these rows."""
        return self

    def soft(self, rule: Rule, dtype: DTypeLike | None) -> Array:
        """Build the matrix; return the old one itself if nothing changed."""
        labels, wanted = self.dataset.labels, floating(dtype)
        if rule.unchanged and labels.is_soft and dtype in (None, labels.array.dtype):
            return labels.array
        return applied(rule, self.dataset).matrix(wanted)

    def iter_soft(self, rule: Rule, block_rows: int, dtype: DTypeLike | None) -> Iterator[Array]:
        """Iterate over the matrix, a block of rows at a time."""
        return applied(rule, self.dataset).blocks(block_rows, floating(dtype))

    def sample(self, rule: Rule, seed: int, key: Any) -> Any:
        """Draw one class per row, as a column of the kind that came in."""
        codes = applied(rule, self.dataset).sample(row_draws(key, seed, self.dataset))
        return self.dataset.labels.vocabulary.decode(codes)

    def round(self, rule: Rule, seed: int, key: Any) -> Any:
        """Pick one class per row, as a column of the kind that came in."""
        draws = row_draws(key, seed, self.dataset)
        codes = applied(rule, self.dataset).round(draws, seed, keyed=key is not None)
        return self.dataset.labels.vocabulary.decode(codes)

    def expand(self, rule: Rule, X: Any) -> tuple[Any, Any, Floats]:
        """Repeat each row for its classes, with weights, and the features beside them."""
        data = self.dataset
        if X is not None:
            refuse_lengths("X", X.shape[0] if hasattr(X, "shape") else len(X), "y", data.n_rows)
        refuse_other_index(("y", data.index), ("X", row_labels(X)))
        index, codes, weight = applied(rule, data).expand()
        taken, labels = take_rows(X, index), rule.schema.classes.decode(codes)
        return taken, with_row_labels(labels, taken, data.labels.vocabulary.index, index), weight

    def sampling_deviation(self, rule: Rule) -> Floats:
        """Return the standard deviation of each group mean of drawn labels."""
        outcomes = None if rule.families.outcomes is None else rule.families.outcomes.matrix
        variance, total = applied(rule, self.dataset).sampling_variance(outcomes)
        deviation = np.sqrt(rule.families.squared(self.dataset.cells, variance))
        return deviation / (rule.families.share[:, None] * total)

    def realised(self, rule: Rule, proof: Certificate, labels: Any) -> Realised:
        """Measure labels of these rows, classes or probabilities, by the bounds of a rule."""
        data, soft = self.dataset, not isinstance(recognise(labels, what="labels"), Column)
        read = read_known_labels(labels, vocabulary=rule.schema.classes, soft=soft, normalize=False)
        refuse_lengths("labels", read.n_rows, "y", data.n_rows)
        refuse_other_index(("labels", read.vocabulary.index), ("y", data.index))
        weight, sums = cell_sums(read, data.cells, data.weight)
        return realised(rule.families, proof, data.cells, sums, weight)

    def rounding_bound(self, rule: Rule) -> Floats:
        """Return how far each group mean of rounded labels may be from the certified one."""
        data = self.dataset
        if rule.unchanged and not data.labels.is_soft:
            return np.zeros(len(rule.families.names))
        weight = np.bincount(data.cells.codes, data.weight, data.n_cells).astype(np.float64)
        heaviest = None if data.weight is None else float(data.weight.max())
        counts = np.asarray(data.cells.counts, np.float64)
        return rounding_bound(rule.families, data.cells, counts, weight, heaviest, data.n_classes)


def read_new(rule: Rule, y: Any, data: dict[str, Any]) -> MemoryRows:
    """Read new rows into memory with the classes and groups of a rule."""
    return MemoryRows(rule.schema.read(y, **data, known_crossings=rule.known_crossings))


def _no_table() -> RowsUnavailableError:
    return RowsUnavailableError(
        "These labels are not of a table that was scanned.",
        remedy="Take soft(), round(), sample() or expand(); or debias the table itself with "
        "r2b.scan(table).debias(...).",
    )


def floating(dtype: DTypeLike | None) -> np.dtype[Any]:
    """Return the dtype of probabilities, float64 by default; refuse one that is not floating.

    Raises
    ------
    ParameterError
        The dtype is not a floating-point one.
    """
    try:
        wanted = np.dtype(np.float64 if dtype is None else dtype)
    except TypeError:
        wanted = None
    if wanted is None or wanted.kind != "f":
        raise ParameterError(
            f"dtype is {dtype!r}, which cannot hold probabilities.",
            remedy="Pass a floating-point dtype of NumPy, such as 'float32'; for one class per row "
            "use round() or sample().",
            dtype=dtype,
        )
    return wanted
