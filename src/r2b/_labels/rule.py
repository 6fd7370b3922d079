"""What a result is made of: the rule that turns old labels into new ones, the evidence about it, and rows, wherever they live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from r2b._constraints.families import Families
from r2b._data import Dataset, Schema
from r2b._data.arrays import Array, Floats
from r2b._data.cells import Layout
from r2b._data.columns import Column, recognise, refuse_lengths, refuse_other_index, row_labels
from r2b._data.dataset import read_known_labels
from r2b._data.frames import library_of
from r2b._data.merge import cell_sums, class_weights
from r2b._labels.account import Change, heaviest_flows
from r2b._labels.forms.keyed import row_draws
from r2b._labels.forms.sampling import take_rows, with_row_labels
from r2b._labels.realised import Realised, realised, rounding_bound
from r2b._labels.rows import FairRows, Response
from r2b._solve.certificate import Certificate
from r2b._solve.oracle.reference import Responses
from r2b._solve.solvers import Progress, Status
from r2b.errors import LengthError, ParameterError, RowsUnavailableError


@dataclass(frozen=True, eq=False)
class Rule:
    """Prices, and the classes and groups for which they were found.

    Attributes
    ----------
    schema : Schema
    families : Families
    prices : ndarray of shape (n_groups, n_classes)
    lam : float
        0 for agreement.
    unchanged : bool
        The labels go out as they came in, bit for bit.
    costs : ndarray of shape (n_classes, n_classes) or None
    table : ndarray of shape (n_cells, n_classes, n_classes) or None
        The channel, where prices do not tell it: for agreement with class labels.
    splits : Responses or None
        Prices and the small lambda at which they tell the labels, those of rows that tie as well:
        for agreement with probabilities, or with uncertain or continuous attributes.
    """

    schema: Schema
    families: Families
    prices: Floats
    lam: float
    unchanged: bool = False
    costs: Floats | None = field(default=None, repr=False)
    table: Floats | None = field(default=None, repr=False)
    splits: Responses | None = field(default=None, repr=False)

    @property
    def fitted(self) -> Rule:
        """The rule as it was found."""
        return self

    @property
    def classes(self) -> Array:
        """The classes that rows leave with, which are those that were fitted."""
        return self.fitted.schema.classes.values

    @property
    def known_crossings(self) -> bool:
        """Whether new rows must be of crossings that were fitted: where a table, and no prices, has the answers."""
        return self.table is not None

    def response(self, cells: Layout) -> Response:
        """Give the map from old to new labels in these cells."""
        splits = self.splits and self.splits._replace(
            prices=self.families.shifts(cells, self.splits.prices)
        )
        return Response(
            self.families.shifts(cells, self.prices),
            self.lam,
            self.unchanged,
            self.costs,
            self.table,
            splits,
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known about the labels of a rule.

    Attributes
    ----------
    status : Status
    certificate : Certificate
    residual : float
    history : sequence of Progress
    """

    status: Status
    certificate: Certificate
    residual: float
    history: Sequence[Progress] = ()


@dataclass(frozen=True, eq=False)
class Solution:
    """A rule with its evidence, and no rows.

    Attributes
    ----------
    rule : Rule
    evidence : Evidence
    """

    rule: Rule
    evidence: Evidence

    @property
    def schema(self) -> Schema:
        """Classes and groups, as they came in."""
        return self.rule.schema

    @property
    def families(self) -> Families:
        """Which groups agree with each other, and how closely."""
        return self.rule.families

    @property
    def prices(self) -> Floats:
        """What it costs to be labelled k in group s, of shape (n_groups, n_classes).

        The new label of a row is ``P((y - prices[s]) / lam)``, P the projection onto the simplex;
        the prices of a row in several groups add up. For agreement lam is 0 and these are the
        prices that prove it; ``splits`` are those that tell the labels.
        """
        return self.rule.prices

    @property
    def lam(self) -> float:
        """What the size of new labels counts against agreement with the old; 0 for agreement."""
        return self.rule.lam

    @property
    def unchanged(self) -> bool:
        """Whether the labels go out as they came in, bit for bit."""
        return self.rule.unchanged

    @property
    def costs(self) -> Floats | None:
        """What it costs to turn one class into another, of shape (n_classes, n_classes)."""
        return self.rule.costs

    @property
    def table(self) -> Floats | None:
        """The channel of every cell, where prices do not tell it: for agreement with class labels."""
        return self.rule.table

    @property
    def splits(self) -> Responses | None:
        """Prices and a small lam that tell the labels, those of rows that tie as well: for agreement with probabilities."""
        return self.rule.splits

    @property
    def status(self) -> Status:
        """What happened and, in ``status.advice``, what to do about it. ``status.ok`` means proven optimal."""
        return self.evidence.status

    @property
    def certificate(self) -> Certificate:
        """The proof, recomputed from the data and the labels given out."""
        return self.evidence.certificate

    @property
    def residual(self) -> float:
        """How far the prices are from optimal, in units of group means."""
        return self.evidence.residual

    @property
    def history(self) -> Sequence[Progress]:
        """The steps of the solver."""
        return self.evidence.history

    @property
    def classes(self) -> Array:
        """Names of the classes, with the dtype they came in."""
        return self.rule.classes

    @property
    def groups(self) -> Array:
        """Names of the groups, family after family."""
        return self.families.names

    @property
    def cells(self) -> Array:
        """Names of the cells: the crossings of all sensitive and control columns. For one family of crossings these are the groups."""
        return self.schema.names

    @cached_property
    def channel(self) -> Floats:
        """P(new class | old class, cell), of shape (n_cells, n_classes, n_classes).

        For probabilities: what a row certain of its class becomes.
        """
        return self.rule.response(self.schema).channel()


def applied(rule: Rule, data: Dataset) -> FairRows:
    """Give the rows of a table with their new labels."""
    return FairRows(data, rule.response(data.cells))


class LabelRows(ABC):
    """Rows that leave with new labels. What an engine cannot do where its rows are goes through memory.

    Attributes
    ----------
    n_rows : int or None
        None where it is not known without a pass over them.
    weighted : bool
    counts : Dataset or None
        The rows, or for class labels elsewhere one row per combination of values; None where there
        is neither.
    came_as : str
        The library that the table is of, where results can be frames of it; else "".
    """

    n_rows: int | None
    weighted: bool
    counts: Dataset | None = None
    came_as: str = ""

    @abstractmethod
    def in_memory(self) -> MemoryRows:
        """Bring the rows into memory, in their order."""

    def soft(self, rule: Rule, dtype: Any) -> Any:
        """Build the matrix of fair labels."""
        return self.in_memory().soft(rule, dtype)

    def iter_soft(self, rule: Rule, block_rows: int, dtype: Any) -> Iterator[Any]:
        """Give the matrix a block of rows at a time."""
        return self.in_memory().iter_soft(rule, block_rows, dtype)

    def sample(self, rule: Rule, seed: int, key: Any) -> Any:
        """Draw one class per row."""
        return self.in_memory().sample(rule, seed, key)

    def round(self, rule: Rule, seed: int, key: Any) -> Any:
        """Pick one class per row so that group means stay where they are."""
        return self.in_memory().round(rule, seed, key)

    def expand(self, rule: Rule, X: Any) -> tuple[Any, Any, Any]:
        """Repeat each row for its classes, with weights."""
        return self.in_memory().expand(rule, X)

    def read(
        self, rule: Rule, y: Any, sensitive: Any, control: Any, weight: Any, normalize: bool
    ) -> LabelRows:
        """Read new rows with the classes and groups of a rule."""
        return read_new(rule, y, sensitive, control, weight, normalize)

    def largest_changes(self, rule: Rule, n: int) -> list[Change]:
        """List the heaviest flows from an old to a new label; for class labels only."""
        if self.counts is None or self.counts.labels.is_soft or rule.unchanged:
            return []
        rows = applied(rule, self.counts)
        return heaviest_flows(
            rows.answers,
            class_weights(self.counts),
            rule.schema.names,
            rule.schema.classes.values,
            n,
        )

    def frame(self, rule: Rule, **asked: Any) -> Any:
        """Give the table with its fair labels in new columns."""
        raise _no_table()

    def write(self, rule: Rule, path: str, **asked: Any) -> None:
        """Write the table with its fair labels in new columns."""
        raise _no_table()

    def realised_as(
        self, rule: Rule, proof: Certificate, form: str, seed: int, key: Any
    ) -> Realised:
        """Measure labels of one class per row as they leave."""
        rows = self.in_memory()
        return rows.realised(
            rule,
            proof,
            rows.round(rule, seed, key) if form == "round" else rows.sample(rule, seed, key),
        )


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
        """How many there are."""
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
        """Give these rows."""
        return self

    def soft(self, rule: Rule, dtype: DTypeLike | None) -> Array:
        """Build the matrix; the old one itself where nothing changed."""
        labels, wanted = self.dataset.labels, floating(dtype)
        if rule.unchanged and labels.is_soft and dtype in (None, labels.array.dtype):
            return labels.array
        return applied(rule, self.dataset).matrix(wanted)[:, : len(rule.classes)]

    def iter_soft(self, rule: Rule, block_rows: int, dtype: DTypeLike | None) -> Iterator[Array]:
        """Give the matrix a block of rows at a time."""
        return applied(rule, self.dataset).blocks(block_rows, floating(dtype))

    def sample(self, rule: Rule, seed: int, key: Any) -> Any:
        """Draw one class per row, as a column of the kind that came in."""
        codes = applied(rule, self.dataset).sample(row_draws(key, seed, self.dataset))
        return self.dataset.labels.vocabulary.decode(codes)

    def round(self, rule: Rule, seed: int, key: Any) -> Any:
        """Pick one class per row, as a column of the kind that came in."""
        codes = applied(rule, self.dataset).round(
            row_draws(key, seed, self.dataset), seed, keyed=key is not None
        )
        return self.dataset.labels.vocabulary.decode(codes)

    def expand(self, rule: Rule, X: Any) -> tuple[Any, Any, Floats]:
        """Repeat each row for its classes, with weights, and the features beside them."""
        n_rows = self.dataset.n_rows
        n_features = n_rows if X is None else int(X.shape[0]) if hasattr(X, "shape") else len(X)
        if n_features != n_rows:
            problem = f"X has {n_features} rows, but the labels have {n_rows}."
            remedy = "Pass the features of the same rows, in the same order."
            raise LengthError(problem, remedy=remedy, lengths={"X": n_features, "y": n_rows})
        refuse_other_index(("y", self.dataset.index), ("X", row_labels(X)))
        index, codes, weight = applied(rule, self.dataset).expand()
        taken, labels = take_rows(X, index), rule.schema.classes.decode(codes)
        return (
            taken,
            with_row_labels(labels, taken, self.dataset.labels.vocabulary.index, index),
            weight,
        )

    def sampling_deviation(self, rule: Rule) -> Floats:
        """Give the standard deviation of each group mean of drawn labels."""
        variance, total = applied(rule, self.dataset).sampling_variance()
        return np.asarray(
            np.sqrt(rule.families.squared(self.dataset.cells, variance))
            / (rule.families.share[:, None] * total)
        )

    def realised(self, rule: Rule, proof: Certificate, labels: Any) -> Realised:
        """Measure labels of these rows, classes or probabilities, by the families and bounds of a rule."""
        data = self.dataset
        found = recognise(labels, what="labels")
        read = read_known_labels(
            labels,
            vocabulary=rule.schema.classes,
            soft=not isinstance(found, Column),
            normalize=False,
        )
        refuse_lengths("labels", read.n_rows, "y", data.n_rows)
        refuse_other_index(("labels", read.vocabulary.index), ("y", data.index))
        weight, sums = cell_sums(read, data.cells, data.weight)
        return realised(rule.families, proof, data.cells, sums, weight)

    def rounding_bound(self, rule: Rule) -> Floats:
        """Give how far each group mean of rounded labels may be from the certified one."""
        data = self.dataset
        if rule.unchanged and not data.labels.is_soft:
            return np.zeros(len(rule.families.names))
        weight = np.bincount(data.cells.codes, data.weight, data.n_cells).astype(np.float64)
        heaviest = None if data.weight is None else float(data.weight.max())
        counts = np.asarray(data.cells.counts, np.float64)
        return rounding_bound(rule.families, data.cells, counts, weight, heaviest, data.n_classes)


def read_new(
    rule: Rule, y: Any, sensitive: Any, control: Any, weight: Any, normalize: bool
) -> MemoryRows:
    """Read new rows into memory with the classes and groups of a rule."""
    known = {"sensitive_features": sensitive, "control_features": control, "sample_weight": weight}
    return MemoryRows(
        rule.schema.read(y, **known, normalize=normalize, known_crossings=rule.known_crossings)
    )


def _no_table() -> RowsUnavailableError:
    remedy = "Take soft(), round(), sample() or expand(); or debias the table itself with r2b.scan(table).debias(...)."
    return RowsUnavailableError("These labels are not of a table that was scanned.", remedy=remedy)


def floating(dtype: DTypeLike | None) -> np.dtype[Any]:
    """Give the dtype that probabilities are asked for in, float64 by default.

    Raises
    ------
    ParameterError
        It is none of floating point.
    """
    try:
        wanted = np.dtype(np.float64 if dtype is None else dtype)
    except TypeError:
        remedy = "Pass a floating-point dtype of NumPy, such as 'float32'."
        raise ParameterError(f"dtype is {dtype!r}.", remedy=remedy, dtype=dtype) from None
    if wanted.kind != "f":
        remedy = "Ask for a floating-point dtype; for one class per row use round() or sample()."
        raise ParameterError(
            f"Probabilities as {wanted} would be cut to whole numbers.", remedy=remedy, dtype=wanted
        )
    return wanted
