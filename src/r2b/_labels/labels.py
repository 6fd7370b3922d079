"""The object that ``debias`` returns: prices with their evidence, and labels in every form that keeps parity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from r2b._constraints.families import Families
from r2b._data import Dataset, Schema
from r2b._data.arrival import Column, recognise, refuse_lengths, refuse_other_index, row_labels
from r2b._data.compute import seed_of
from r2b._data.labels import read_known_labels
from r2b._data.layout import Layout
from r2b._data.merge import cell_sums, class_weights
from r2b._labels.changes import Change, ConstraintCost, costliest_constraints, heaviest_flows, take_rows, with_row_labels
from r2b._labels.forms.keyed import row_draws
from r2b._labels.realised import Realised, realised, rounding_bound
from r2b._labels.rows import FairRows, Response
from r2b._labels.text import account
from r2b._solve.certificate import Certificate
from r2b._solve.solvers import Progress, Status
from r2b.errors import LengthError, ParameterError, RowsUnavailableError

Floats = NDArray[np.float64]
Array = np.ndarray[Any, np.dtype[Any]]
Form = Literal["soft", "round", "sample", "expand"]
RandomState = int | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class FairLabels:
    """Fair labels, what they cost, and the proof.

    Attributes
    ----------
    schema : Schema
        Classes and groups, as they came in.
    families : Families
        Which groups agree with each other, and how closely.
    prices : ndarray of shape (n_groups, n_classes)
        What it costs to be labelled k in group s. The new label of a row is ``P((y - prices[s]) / lam)``, P the projection onto the
        simplex; the prices of a row in several groups add up.
    lam : float
        0 for agreement.
    status : Status
        What happened and, in ``status.advice``, what to do about it. ``status.ok`` means proven optimal.
    certificate : Certificate
        Recomputed from the data and the labels given out.
    residual : float
        How far the prices are from optimal, in units of group means.
    history : sequence of Progress
    unchanged : bool
        The labels go out as they came in, bit for bit.
    costs : ndarray of shape (n_classes, n_classes) or None
        What it costs to turn one class into another.
    table : ndarray of shape (n_cells, n_classes, n_classes) or None
        The channel, where prices do not tell it: for agreement.
    dataset : Dataset or None
        The rows; None for an object loaded from a file.

    Examples
    --------
    >>> import r2b
    >>> fair = r2b.debias(["a", "b", "b", "a", "a", "a"], sensitive_features=["f", "f", "f", "m", "m", "m"], epsilon=0)
    >>> fair.soft_labels.round(3)
    array([[1. , 0. ],
           [0.4, 0.6],
           [0.4, 0.6],
           [0.6, 0.4],
           [0.6, 0.4],
           [0.6, 0.4]])
    >>> fair.round(random_state=0).tolist().count("a")
    4
    """

    schema: Schema
    families: Families
    prices: Floats
    lam: float
    status: Status
    certificate: Certificate
    residual: float
    history: Sequence[Progress] = ()
    unchanged: bool = False
    costs: Floats | None = field(default=None, repr=False)
    table: Floats | None = field(default=None, repr=False)
    dataset: Dataset | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        proof = self.certificate
        size = f"{len(self.classes)} classes, {len(self.groups)} group{'s' if len(self.groups) > 1 else ''}"
        return f"<FairLabels: {self.status.value}, parity {proof.parity_before:.4f} -> {proof.parity:.4f}, {size}>"

    def _repr_html_(self) -> str:
        from r2b.report.notebook import fair_html

        return fair_html(self)

    def __str__(self) -> str:
        return account(self)

    @property
    def classes(self) -> Array:
        """Names of the classes, with the dtype they came in."""
        return self.schema.classes.values

    @property
    def groups(self) -> Array:
        """Names of the groups, family after family."""
        return self.families.names

    @property
    def cells(self) -> Array:
        """Names of the cells: the crossings of all sensitive and control columns. For one family of crossings these are the groups."""
        return self.schema.group_names

    @property
    def weighted(self) -> bool | None:
        """Whether the rows have weights; None where they are not at hand to tell."""
        return None if self.dataset is None else self.dataset.weight is not None

    @cached_property
    def channel(self) -> Floats:
        """P(new class | old class, cell), of shape (n_cells, n_classes, n_classes).

        For probabilities: what a row certain of its class becomes.
        """
        return self._response(self.schema.layout).channel()

    @property
    def soft_labels(self) -> Array:
        """The matrix of fair labels, of shape (N, n_classes), as certified: float64, or the old matrix itself if nothing changed."""
        return self.soft()

    def soft(self, dtype: DTypeLike | None = None) -> Array:
        """Build the matrix of fair labels.

        Parameters
        ----------
        dtype : floating-point data type, optional
            float64 by default, which is what the certificate speaks of. float32 halves the memory and rounds at 6e-8.
        """
        rows = self._rows()
        if self.unchanged and rows.dataset.labels.is_soft and dtype in (None, rows.dataset.labels.array.dtype):
            return rows.dataset.labels.array
        return rows.matrix(_floating(dtype))

    def iter_soft(self, block_rows: int = 65_536, dtype: DTypeLike | None = None) -> Iterator[Array]:
        """Give the matrix of fair labels a block of rows at a time, for tables whose matrix would not fit in memory."""
        if not isinstance(block_rows, Integral) or block_rows < 1:
            raise ParameterError(
                f"block_rows is {block_rows!r}.",
                remedy="Pass how many rows a block has, a whole number of at least 1.",
                block_rows=block_rows,
            )
        return self._rows().blocks(int(block_rows), _floating(dtype))

    def sample(self, random_state: RandomState = 0, *, key: Any = None) -> Any:
        """Draw one class per row from its distribution; parity holds in expectation.

        Each group mean deviates by :attr:`sampling_deviation` (one standard deviation); ``round`` deviates far less.

        Parameters
        ----------
        random_state : int, Generator or None
            The same number gives the same draw; None a new one each time.
        key : array-like of shape (N,), or list of such, optional
            What tells rows apart; their numbers by default. The draw of a row follows from its key and ``random_state`` alone, wherever
            the rows live: :meth:`r2b.FairTable.frame` draws the same.

        Returns
        -------
        column
            Of the kind and dtype of the labels that came in.
        """
        rows, seed = self._rows(), seed_of(random_state)
        return self.schema.classes.decode(rows.sample(row_draws(key, seed, rows.dataset)))

    @property
    def sampling_deviation(self) -> Floats:
        """Standard deviation of each group mean of ``sample``, of shape (n_groups, n_classes)."""
        variance, total = self._rows().sampling_variance()
        deviation: Floats = np.sqrt(self.families.squared(self._rows().dataset.groups, variance)) / (self.families.share[:, None] * total)
        return deviation

    def round(self, random_state: RandomState = 0, *, key: Any = None) -> Any:
        """Pick one class per row so that parity survives.

        Without weights every class count of every cell is its fair value rounded up or down, so each group mean is within c/n_s of the
        optimum, n_s the rows of the group and c its cells (1 where groups are the crossings of all columns), and parity within
        1/n_s + 1/n_t of its certified value. The chance that a row gets a class is its fair probability exactly. With weights whole rows
        cannot match a mean that closely: each weighted mean is then within c (L - 1) times the largest row weight over the group's
        weight. Rows with a continuous or uncertain attribute are rounded in its order, so that every stretch of it keeps its class counts
        to within L - 1 rows at either end.

        Parameters
        ----------
        random_state : int, Generator or None
            The same number gives the same labels; None new ones each time.
        key : array-like of shape (N,), or list of such, optional
            As for :meth:`sample`. Probabilities and weighted rows are rounded in turn, so that their labels follow from the order of the
            rows as well.

        Returns
        -------
        column
            Of the kind and dtype of the labels that came in.
        """
        rows, seed = self._rows(), seed_of(random_state)
        return self.schema.classes.decode(rows.round(row_draws(key, seed, rows.dataset), seed))

    def realised(self, labels: Any) -> Realised:
        """Measure labels of the fitted rows, as :meth:`round`, :meth:`sample` or a learner gave them, by the same families and bounds.

        Parameters
        ----------
        labels : array-like of shape (N,) or (N, n_classes)
            Classes, or probabilities.

        Returns
        -------
        Realised
            Its ``parity`` is that of these labels, where ``certificate.parity`` is that of the distributions.

        Raises
        ------
        UnseenError
            A class is not among the fitted ones.
        LengthError
            There are more or fewer labels than rows.
        """
        rows = self._rows()
        data = rows.dataset
        found = recognise(labels, what="labels")
        read = read_known_labels(labels, vocabulary=self.schema.classes, soft=not isinstance(found, Column), normalize=False)
        refuse_lengths("labels", read.n_rows, "y", data.n_rows)
        refuse_other_index(("labels", read.vocabulary.index), ("y", data.index))
        weight, sums = cell_sums(read, data.groups, data.weight)
        return realised(self.families, self.certificate, data.groups, sums, weight)

    @property
    def rounding_bound(self) -> Floats:
        """How far each group mean of :meth:`round` may be from the certified one, of shape (n_groups,).

        Infinite for uncertain groups and moments, which count rows in part.
        """
        data = self._rows().dataset
        if self.unchanged and not data.labels.is_soft:
            return np.zeros(len(self.groups))
        weight = np.bincount(data.groups.codes, data.weight, data.n_groups).astype(np.float64)
        heaviest = None if data.weight is None else float(data.weight.max())
        counts = np.asarray(data.groups.counts, np.float64)
        return rounding_bound(self.families, data.groups, counts, weight, heaviest, data.n_classes)

    def expand(self, X: Any = None) -> tuple[Any, Any, Floats]:
        """Repeat each row for its classes of positive probability, with weights: exact parity for any learner with ``sample_weight``.

        Parameters
        ----------
        X : array or frame with N rows, optional
            Features. Without them the first item returned is the row number of each repetition. A pandas X must have the index that the
            labels came with, in the same order.

        Returns
        -------
        X, y, sample_weight
            Features (or row numbers), class labels and weights; the weights of a row add up to its weight.
        """
        return self._expanded(self._rows(), X)

    def _expanded(self, rows: FairRows, X: Any) -> tuple[Any, Any, Floats]:
        n_features = rows.dataset.n_rows if X is None else int(X.shape[0]) if hasattr(X, "shape") else len(X)
        if n_features != rows.dataset.n_rows:
            raise LengthError(
                f"X has {n_features} rows, but the labels have {rows.dataset.n_rows}.",
                remedy="Pass the features of the same rows, in the same order.",
                lengths={"X": n_features, "y": rows.dataset.n_rows},
            )
        refuse_other_index(("y", rows.dataset.index), ("X", row_labels(X)))
        index, codes, weight = rows.expand()
        taken, labels = take_rows(X, index), self.schema.classes.decode(codes)
        return taken, with_row_labels(labels, taken, rows.dataset.labels.vocabulary.index, index), weight

    def transform(
        self,
        y: Any,
        *,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: Any = None,
        normalize: bool = False,
        form: Form = "soft",
        random_state: RandomState = 0,
    ) -> Any:
        """Apply the prices to new rows.

        Parameters
        ----------
        y, sensitive_features, control_features, sample_weight, normalize
            As for ``debias``; classes and groups must be among those fitted. Values of continuous attributes may be new.
        form : {"soft", "round", "sample", "expand"}
            The form in which labels leave, as the methods of these names give it for the fitted rows.
        random_state : int, Generator or None
            For "round" and "sample".

        Returns
        -------
        ndarray of shape (n, n_classes), column, or (row numbers, column, weights)
            Parity of the new rows holds as far as they are distributed like the fitted ones.

        Raises
        ------
        UnseenError
            A class or group is new.
        """
        if form not in get_args(Form):
            raise ParameterError(f"form is {form!r}.", remedy=f"Pass one of {', '.join(map(repr, get_args(Form)))}.", form=form)
        data = self.schema.read(
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
            normalize=normalize,
            known_crossings=self.table is not None,
        )
        rows = FairRows(data, self._response(data.groups))
        if form == "soft":
            return rows.matrix(np.float64)
        if form == "expand":
            return self._expanded(rows, None)
        seed = seed_of(random_state)
        draws = row_draws(None, seed, data)
        return data.labels.vocabulary.decode(rows.round(draws, seed) if form == "round" else rows.sample(draws))

    def largest_changes(self, n: int = 10) -> list[Change]:
        """List the heaviest flows from an old to a new label; for class labels only."""
        rows = self._rows()
        if rows.dataset.labels.is_soft or rows.unchanged:
            return []
        return heaviest_flows(rows.answers, class_weights(rows.dataset), self.cells, self.classes, n)

    def costliest_constraints(self, n: int = 10) -> list[ConstraintCost]:
        """List the groups and classes whose means cost most to hold."""
        families = [(member.name, member.groups) for member in self.families.members]
        return costliest_constraints(families, self.prices, self.families.share, self.groups, self.classes, n)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything but the rows to a JSON file that ``r2b.load`` reads; its layout is documented in docs/file-format.md."""
        from r2b._labels.storage import save

        save(self, path)

    def _rows(self) -> FairRows:
        if self.dataset is None:
            raise RowsUnavailableError(
                "This object was loaded from a file, which holds prices and certificate but no rows.",
                remedy="Pass the rows to transform(y, sensitive_features=...).",
            )
        return FairRows(self.dataset, self._response(self.dataset.groups))

    def _response(self, cells: Layout) -> Response:
        return Response(self.families.shifts(cells, self.prices), self.lam, self.unchanged, self.costs, self.table)


def _floating(dtype: DTypeLike | None) -> np.dtype[Any]:
    try:
        wanted = np.dtype(np.float64 if dtype is None else dtype)
    except TypeError:
        raise ParameterError(
            f"dtype is {dtype!r}.", remedy="Pass a floating-point dtype of NumPy, such as 'float32'.", dtype=dtype
        ) from None
    if wanted.kind != "f":
        raise ParameterError(
            f"Probabilities as {wanted} would be cut to whole numbers.",
            remedy="Ask for a floating-point dtype; for one class per row use round() or sample().",
            dtype=wanted,
        )
    return wanted
