"""The object that ``debias`` returns: prices with their evidence, and labels in every form that keeps parity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import numpy as np
from numpy.typing import DTypeLike

from r2b._data.arrays import Array, Floats
from r2b._data.compute import seed_of
from r2b._data.frames import Backend, frame_of
from r2b._labels.account import account, no_rows
from r2b._labels.plots import plot_means
from r2b._labels.realised import Realised
from r2b._labels.rule import LabelRows
from r2b._labels.summary import Form as Form
from r2b._labels.summary import Summary
from r2b._labels.unseen import Unseen, read_known_or_new
from r2b.errors import ParameterError

if TYPE_CHECKING:
    from r2b.engines.sql import SQL

RandomState = int | np.random.Generator | None


@dataclass(frozen=True, eq=False, repr=False)
class FairLabels(Summary):
    """Fair labels, what they cost, and the proof.

    Every engine returns this: rows in memory, in files, on Polars, DuckDB, Dask, Spark or a device.
    It is made of three parts.

    Attributes
    ----------
    rule : Rule
        What turns an old label into a new one; its parts are attributes of this object as well:
        ``schema``, ``families``, ``prices``, ``lam``, ``unchanged``, ``costs`` and ``table``.
    evidence : Evidence
        ``status``, ``certificate``, ``residual`` and ``history``.
    rows : LabelRows or None
        The rows, wherever they live; None for an object loaded from a file.

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

    def __repr__(self) -> str:
        proof = self.certificate
        size = f"{len(self.classes)} classes, {len(self.groups)} group{'s' if len(self.groups) > 1 else ''}"
        return f"<FairLabels: {self.status.value}, parity {proof.disparity_before:.4f} -> {proof.disparity:.4f}, {size}>"

    def _repr_html_(self) -> str:
        from r2b.report.notebook import fair_html

        return fair_html(self)

    def __str__(self) -> str:
        return account(self)

    @property
    def weighted(self) -> bool | None:
        """Whether the rows have weights; None for an object without rows."""
        return None if self.rows is None else self.rows.weighted

    @property
    def soft_labels(self) -> Array:
        """The matrix of fair labels, of shape (N, n_classes), as certified: float64, or the old matrix itself if nothing changed."""
        return self.soft()

    @overload
    def soft(
        self,
        dtype: DTypeLike | None = None,
        *,
        as_frame: Literal[False] = False,
        backend: Backend | None = None,
    ) -> Array: ...

    @overload
    def soft(
        self, dtype: DTypeLike | None = None, *, as_frame: bool, backend: Backend | None = None
    ) -> Any: ...

    def soft(
        self,
        dtype: DTypeLike | None = None,
        *,
        as_frame: bool = False,
        backend: Backend | None = None,
    ) -> Any:
        """Build the matrix of fair labels.

        Parameters
        ----------
        dtype : floating-point data type, optional
            float64 by default, which is what the certificate speaks of. float32 halves the memory
            and rounds at 6e-8.
        as_frame : bool
            A frame with the classes as columns, and the index of pandas labels, instead of an
            array.
        backend : {"pandas", "polars", "pyarrow"}, optional
            Of the frame, as for :meth:`to_frame`.
        """
        if not as_frame:
            return self._rows.soft(self.rule, dtype)
        rows = self._rows.in_memory()
        columns = dict(zip(self.classes.tolist(), rows.soft(self.rule, dtype).T, strict=True))
        return frame_of(columns, backend, self._rows.came_as, rows.dataset.index)

    def iter_soft(
        self, block_rows: int = 65_536, dtype: DTypeLike | None = None
    ) -> Iterator[Array]:
        """Give the matrix of fair labels a block of rows at a time, for tables whose matrix would not fit in memory."""
        if not isinstance(block_rows, Integral) or isinstance(block_rows, bool) or block_rows < 1:
            remedy = "Pass how many rows a block has, a whole number of at least 1."
            raise ParameterError(
                f"block_rows is {block_rows!r}.", remedy=remedy, block_rows=block_rows
            )
        return self._rows.iter_soft(self.rule, int(block_rows), dtype)

    def sample(self, random_state: RandomState = 0, *, key: Any = None) -> Any:
        """Draw one class per row from its distribution; parity holds in expectation.

        Each group mean deviates by :attr:`sampling_deviation` (one standard deviation); ``round``
        deviates far less.

        Parameters
        ----------
        random_state : int, Generator or None
            The same number gives the same draw; None a new one each time.
        key : array-like of shape (N,), or list of such, optional
            What tells rows apart; their numbers by default. The draw of a row follows from its key
            and ``random_state`` alone, wherever the rows live: :meth:`frame` draws the same.

        Returns
        -------
        column
            Of the kind and dtype of the labels that came in.
        """
        return self._rows.sample(self.rule, seed_of(random_state), key)

    @property
    def sampling_deviation(self) -> Floats:
        """Standard deviation of each group mean of ``sample``, of shape (n_groups, n_classes)."""
        return self._rows.in_memory().sampling_deviation(self.rule)

    def round(self, random_state: RandomState = 0, *, key: Any = None) -> Any:
        """Pick one class per row so that parity survives.

        Without weights every class count of every cell is its fair value rounded up or down, so
        each group mean is within c/n_s of the optimum, n_s the rows of the group and c its cells (1
        where groups are the crossings of all columns), and parity within 1/n_s + 1/n_t of its
        certified value. The chance that a row gets a class is its fair probability exactly. With
        weights whole rows cannot match a mean that closely: each weighted mean is then within c (L
        - 1) times the largest row weight over the group's weight. Rows with a continuous or
        uncertain attribute are rounded in its order, so that every stretch of it keeps its class
        counts to within L - 1 rows at either end.

        Parameters
        ----------
        random_state : int, Generator or None
            The same number gives the same labels; None new ones each time.
        key : array-like of shape (N,), or list of such, optional
            As for :meth:`sample`. Probabilities and weighted rows are rounded one after the other:
            with a key in the order of their draws, which is the same wherever the rows live,
            without one in the order of the rows.

        Returns
        -------
        column
            Of the kind and dtype of the labels that came in.
        """
        return self._rows.round(self.rule, seed_of(random_state), key)

    def realised(self, labels: Any) -> Realised:
        """Measure labels of the fitted rows, as :meth:`round`, :meth:`sample` or a learner gave them, by the same families and bounds.

        Parameters
        ----------
        labels : array-like of shape (N,) or (N, n_classes)
            Classes, or probabilities.

        Returns
        -------
        Realised
            Its ``parity`` is that of these labels, where ``certificate.disparity`` is that of the
            distributions.

        Raises
        ------
        UnseenError
            A class is not among the fitted ones.
        LengthError
            There are more or fewer labels than rows.
        """
        return self._rows.in_memory().realised(self.rule, self.certificate, labels)

    def realised_as(
        self, form: Form, random_state: RandomState = 0, *, key: Any = None
    ) -> Realised:
        """Measure the parity that labels of one class per row have as they leave.

        Parameters
        ----------
        form : {"round", "sample"}
            The other forms have the parity of the certificate.
        random_state, key
            As for :meth:`round`.
        """
        if form not in ("round", "sample"):
            remedy = "Pass 'round' or 'sample'; the certificate speaks of 'soft' and 'expand'."
            raise ParameterError(f"form is {form!r}.", remedy=remedy, form=form)
        return self._rows.realised_as(self.rule, self.certificate, form, seed_of(random_state), key)

    @property
    def rounding_bound(self) -> Floats:
        """How far each group mean of :meth:`round` may be from the certified one, of shape (n_groups,).

        Infinite for uncertain groups and moments, which count rows in part.
        """
        return self._rows.in_memory().rounding_bound(self.rule)

    def expand(self, X: Any = None) -> tuple[Any, Any, Floats]:
        """Repeat each row for its classes of positive probability, with weights: exact parity for any learner with ``sample_weight``.

        Parameters
        ----------
        X : array or frame with N rows, optional
            Features. Without them the first item returned is the row number of each repetition. A
            pandas X must have the index that the labels came with, in the same order.

        Returns
        -------
        X, y, sample_weight
            Features (or row numbers), class labels and weights; the weights of a row add up to its
            weight.
        """
        return self._rows.expand(self.rule, X)

    def frame(
        self,
        form: Form = "soft",
        *,
        random_state: RandomState = 0,
        key: Any = None,
        new_column: str | None = None,
    ) -> Any:
        """Give a scanned table with its fair labels in new columns, of the kind that came in.

        Parameters
        ----------
        form : {"soft", "round", "sample", "expand"}
            As the methods of these names.
        random_state : int
            For "round" and "sample". The draw of a row follows from this number and the row's key;
            not from partitions or threads.
        key : str or list of str, optional
            Columns that tell rows apart, for "round" and "sample". A table whose rows have an order
            needs none: their place is their key.
        new_column : str, optional
            Name of the new column, or what new names begin with; "<label>_fair" by default.

        Returns
        -------
        frame
            For files, an iterator of Arrow batches.

        Notes
        -----
        "round" gives every class of every cell its fair number of rows, rounded up or down (of
        weighted rows, to within L - 1 of the heaviest): over the whole table, and the same rows get
        the same labels as in memory.

        Raises
        ------
        RowsUnavailableError
            The labels are not of a table that was scanned: take the methods that give labels alone.
        """
        return self._rows.frame(
            self.rule, form=form, random_state=seed_of(random_state), key=key, new_column=new_column
        )

    def write(
        self,
        path: str | PathLike[str],
        form: Form = "soft",
        *,
        random_state: RandomState = 0,
        key: Any = None,
        new_column: str | None = None,
        force: bool = False,
    ) -> None:
        """Write a table of files with its fair labels, in the format it came in; a folder as a folder.

        Parameters
        ----------
        path : path-like
            Must not be there, unless ``force``. It appears whole or not at all.
        form, random_state, key, new_column
            As for :meth:`frame`.
        force : bool
            Replace what is there.
        """
        asked = {
            "form": form,
            "random_state": seed_of(random_state),
            "key": key,
            "new_column": new_column,
        }
        self._rows.write(self.rule, fspath(path), force=force, **asked)

    def sql(
        self,
        dialect: str,
        *,
        table: str | Sequence[str],
        form: Form = "soft",
        random_state: RandomState = 0,
        **asked: Any,
    ) -> SQL:
        """Write statements that count a table of a database and give its rows their fair labels there; for class labels only.

        Parameters
        ----------
        dialect : {"postgres", "duckdb", "sqlite", "snowflake", "bigquery"}
            Draws are offered for the first three, where they were compared with those in memory bit
            by bit.
        table : str or list of str
            Its name, with schema as a list. Names are quoted as they are; a reference of dbt, ``{{
            ref('people') }}``, is left alone.
        form : {"soft", "round", "sample", "expand"}
            As for :meth:`frame`; the labels are those of the methods of these names with the same
            ``key``.
        random_state : int
            For "round" and "sample".
        **asked
            ``key``: columns of whole numbers that tell rows apart, for "round" and "sample".
            ``label``, ``sensitive_features``, ``control_features``, ``sample_weight``: names of
            columns, where they are not those that the prices were found on. ``counts`` (and
            ``count``, the name of its column): for "round" of another table than that, what its
            counting query gave. ``new_column``: as for :meth:`frame`. ``columns``: old columns that
            leave; all of them, or for draws key, label and attributes. ``into``: a table to create.
            ``answers``: a table that holds what is joined, where that is not to be part of the
            statement.

        Returns
        -------
        r2b.engines.SQL

        Raises
        ------
        ParameterError
            The labels do not follow from a join, or the database cannot draw what is drawn in
            memory.

        Examples
        --------
        >>> import r2b
        >>> fair = r2b.debias(["a", "b", "b", "b"], sensitive_features={"sex": ["f", "f", "m", "m"]})
        >>> fair.sql("duckdb", table="people", label="job").select.splitlines()[-2]
        'FROM "people" AS old'
        """
        from r2b.engines.sql import statements

        return statements(self, dialect, table, form, random_state=seed_of(random_state), **asked)

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
        unseen: Unseen = "error",
    ) -> Any:
        """Apply the prices to new rows.

        Parameters
        ----------
        y, sensitive_features, control_features, sample_weight, normalize
            As for ``debias``. Values of continuous attributes may be new.
        form : {"soft", "round", "sample", "expand"}
            The form in which labels leave, as the methods of these names give it for the fitted
            rows.
        random_state : int, Generator or None
            For "round" and "sample".
        unseen : {"error", "overall"}
            Rows of a class or group that was not fitted: refused, or given the distribution that
            fair labels have overall.

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
            raise ParameterError(
                f"form is {form!r}.",
                remedy=f"Pass one of {', '.join(map(repr, get_args(Form)))}.",
                form=form,
            )
        rule, rows = read_known_or_new(
            self,
            self.rows,
            unseen,
            y,
            sensitive_features,
            control_features,
            sample_weight,
            normalize,
        )
        if form in ("soft", "expand"):
            return rows.soft(rule, np.float64) if form == "soft" else rows.expand(rule, None)
        seed = seed_of(random_state)
        return rows.round(rule, seed, None) if form == "round" else rows.sample(rule, seed, None)

    def in_memory(self) -> FairLabels:
        """Give the same labels with their rows in memory: those on a device or in a table are read into it."""
        return replace(self, rows=self._rows.in_memory())

    def plot(self, ax: Any = None, *, family: str | None = None) -> Any:
        """Draw the means of the groups of a family before and after; of many classes those that differed most.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; it is given back.
        family : str, optional
            Its name; by default the family whose means differed most.
        """
        return plot_means(self, ax, family)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything but the rows to a JSON file that ``r2b.load`` reads; its layout is documented in docs/file-format.md."""
        from r2b._labels.storage import save

        save(self, path)

    @property
    def _rows(self) -> LabelRows:
        if self.rows is None:
            raise no_rows()
        return self.rows
