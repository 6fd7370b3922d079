"""The object that ``debias`` returns: prices with their evidence, and labels in every form that keeps parity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import DTypeLike, NDArray

from r2b.certificate import Certificate
from r2b.errors import LengthError, RowsUnavailableError
from r2b.inputs import Dataset, Schema
from r2b.merge import class_weights
from r2b.solution.changes import Change, largest_changes
from r2b.solution.rows import FairRows, channel_of
from r2b.solution.text import account
from r2b.solvers import Progress, Status

Floats = NDArray[np.float64]
Array = np.ndarray[Any, np.dtype[Any]]
RandomState = int | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class FairLabels:
    """Fair labels, what they cost, and the proof.

    Attributes
    ----------
    schema : Schema
        Classes and groups, as they came in.
    prices : ndarray of shape (n_groups, n_classes)
        What it costs to be labelled k in group s; the new label of a row is ``P((y - prices[s]) / lam)``, P the projection onto the simplex.
    lam : float
    status : Status
        What happened and, in ``status.advice``, what to do about it. ``status.ok`` means proven optimal.
    certificate : Certificate
        Recomputed from the data and the labels given out.
    residual : float
        How far the prices are from optimal, in units of group means.
    history : sequence of Progress
    unchanged : bool
        The labels go out as they came in, bit for bit.
    dataset : Dataset or None
        The rows; None for an object loaded from a file.

    Examples
    --------
    >>> import r2b
    >>> fair = r2b.debias(["a", "b", "b", "a", "a", "a"], sensitive_features=["f", "f", "f", "m", "m", "m"], epsilon=0)
    >>> fair.soft_labels.round(3)
    array([[1.   , 0.   ],
           [0.5  , 0.5  ],
           [0.5  , 0.5  ],
           [0.667, 0.333],
           [0.667, 0.333],
           [0.667, 0.333]])
    >>> fair.round(random_state=0).tolist().count("a")
    4
    """

    schema: Schema
    prices: Floats
    lam: float
    status: Status
    certificate: Certificate
    residual: float
    history: Sequence[Progress] = ()
    unchanged: bool = False
    dataset: Dataset | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return account(self)

    @property
    def classes(self) -> Array:
        """Names of the classes, with the dtype they came in."""
        return self.schema.classes.values

    @property
    def groups(self) -> Array:
        """Names of the groups."""
        return self.schema.group_names

    @cached_property
    def channel(self) -> Floats:
        """P(new class | old class, group), of shape (n_groups, n_classes, n_classes).

        For probabilities: what a row certain of its class becomes.
        """
        return channel_of(self.prices, self.lam, self.unchanged)

    @property
    def soft_labels(self) -> Array:
        """The matrix of fair labels, of shape (N, n_classes), in the dtype of the labels (float64 for classes)."""
        return self.soft()

    def soft(self, dtype: DTypeLike = None) -> Array:
        """Build the matrix of fair labels.

        Parameters
        ----------
        dtype : data type, optional
            That of the labels by default, float64 for classes.
        """
        rows = self._rows()
        if self.unchanged and rows.dataset.labels.is_soft and dtype in (None, rows.dataset.labels.array.dtype):
            return rows.dataset.labels.array
        return rows.matrix(self._dtype(dtype))

    def iter_soft(self, block_rows: int = 65_536, dtype: DTypeLike = None) -> Iterator[Array]:
        """Give the matrix of fair labels a block of rows at a time, for tables whose matrix would not fit in memory."""
        return self._rows().blocks(max(1, int(block_rows)), self._dtype(dtype))

    def sample(self, random_state: RandomState = 0) -> Any:
        """Draw one class per row from its distribution; parity holds in expectation.

        Each group mean deviates by :attr:`sampling_deviation` (one standard deviation); ``round`` deviates far less.

        Parameters
        ----------
        random_state : int, Generator or None
            The same number gives the same draw; None a new one each time.

        Returns
        -------
        column
            Of the kind and dtype of the labels that came in.
        """
        return self.schema.classes.decode(self._rows().sample(np.random.default_rng(random_state)))

    @property
    def sampling_deviation(self) -> Floats:
        """Standard deviation of each group mean of ``sample``, of shape (n_groups, n_classes)."""
        return self._rows().sampling_deviation()

    def round(self, random_state: RandomState = 0) -> Any:
        """Pick one class per row so that parity survives.

        Without weights every class count of every group is its fair value rounded up or down, so each group mean is within 1/n_s of the
        optimum, n_s the rows of the group, and parity within 1/n_s + 1/n_t of its certified value. The chance that a row gets a class is
        its fair probability exactly. With weights whole rows cannot match a mean that closely: each weighted mean is then within
        (L - 1) times the largest row weight over the group's weight.

        Parameters
        ----------
        random_state : int, Generator or None
            The same number gives the same labels; None new ones each time.

        Returns
        -------
        column
            Of the kind and dtype of the labels that came in.
        """
        rows = self._rows()
        return self.schema.classes.decode(rows.round(np.random.default_rng(random_state)))

    def expand(self, X: Any = None) -> tuple[Any, Any, Floats]:
        """Repeat each row for its classes of positive probability, with weights: exact parity for any learner with ``sample_weight``.

        Parameters
        ----------
        X : array or frame with N rows, optional
            Features. Without them the first item returned is the row number of each repetition.

        Returns
        -------
        X, y, sample_weight
            Features (or row numbers), class labels and weights; the weights of a row add up to its weight.
        """
        data = self._rows().dataset
        if X is not None and len(X) != data.n_rows:
            raise LengthError(
                f"X has {len(X)} rows, but the labels have {data.n_rows}.",
                remedy="Pass the features of the same rows, in the same order.",
                lengths={"X": len(X), "y": data.n_rows},
            )
        index, codes, weight = self._rows().expand()
        return _take(X, index), self.schema.classes.decode(codes), weight

    def transform(self, y: Any, *, sensitive_features: Any, normalize: bool = False) -> Array:
        """Apply the prices to new rows.

        Parameters
        ----------
        y, sensitive_features, normalize
            As for ``debias``; classes and groups must be among those fitted.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Distributions. Parity of the new rows holds as far as they are distributed like the fitted ones.

        Raises
        ------
        UnseenError
            A class or group is new.
        """
        data = self.schema.read(y, sensitive_features=sensitive_features, normalize=normalize)
        dtype = data.labels.array.dtype if data.labels.is_soft else np.dtype(np.float64)
        return FairRows(data, self.prices, self.lam, self.unchanged).matrix(dtype)

    def largest_changes(self, n: int = 10) -> list[Change]:
        """The heaviest flows from an old to a new label; for class labels only."""
        data = self._rows().dataset
        if data.labels.is_soft:
            return []
        return largest_changes(self.channel, class_weights(data), self.groups, self.classes, n)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything but the rows to a JSON file that ``r2b.load`` reads; its layout is documented in docs/file-format.md."""
        from r2b.solution.storage import save

        save(self, path)

    def _rows(self) -> FairRows:
        if self.dataset is None:
            raise RowsUnavailableError(
                "This object was loaded from a file, which holds prices and certificate but no rows.",
                remedy="Pass the rows to transform(y, sensitive_features=...).",
            )
        return FairRows(self.dataset, self.prices, self.lam, self.unchanged)

    def _dtype(self, dtype: DTypeLike) -> np.dtype[Any]:
        labels = self._rows().dataset.labels
        return np.dtype(dtype if dtype is not None else labels.array.dtype if labels.is_soft else np.float64)


def _take(X: Any, index: Array) -> Any:
    if X is None:
        return index
    frame = nw.from_native(X, eager_only=True, pass_through=True, allow_series=True)
    if isinstance(frame, (nw.DataFrame, nw.Series)):
        return nw.to_native(frame[index])
    return X[index] if hasattr(X, "__array__") or hasattr(X, "tocsr") else [X[i] for i in index]
