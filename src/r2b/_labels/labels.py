"""The result of ``debias``: prices with their evidence, and labels in every form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, assert_never, overload

import numpy as np
from numpy.typing import DTypeLike

from r2b._constraints.families.request import one_of
from r2b._data import Dataset
from r2b._data.arrays import Array, Floats
from r2b._data.compute import seed_of
from r2b._data.frames import Backend, frame_of, records
from r2b._data.numbers import refuse_other_number
from r2b._labels.realised import Realised
from r2b._labels.result import Result
from r2b._labels.rows import FORMS, LabelRows, MemoryRows, read_new
from r2b._labels.rows import Form as Form
from r2b._labels.rule import Rule, Unseen, widened
from r2b._labels.summary import (
    Change,
    ConstraintCost,
    costliest_constraints,
    counted,
    has_flows,
    summarize,
)
from r2b._plot import percent
from r2b._solve.certificate import Certificate
from r2b.errors import ParameterError, RowsUnavailableError, UnseenError

if TYPE_CHECKING:
    from r2b.engines.sql import SQL
    from r2b.report import Report

RandomState = int | np.random.Generator | None
Part = Literal["means", "families", "changes", "constraints", "certificate"]


@dataclass(frozen=True, eq=False, repr=False)
class FairLabels(Result):
    """Fair labels, what they cost, and the proof.

    Every engine returns this: rows in memory, in files, on Polars, DuckDB, Dask, Spark or a device.

    Attributes
    ----------
    rule : Rule
        What turns an old label into a new one; its parts are attributes of this object as well:
        ``schema``, ``families``, ``prices``, ``lam``, ``unchanged``, ``costs`` and ``table``. The
        new label of a row is ``P((y - prices[s]) / lam)``, P the projection onto the simplex; the
        prices of a row in several groups add up, and those of an outcome count for all of its
        classes. For agreement of class labels lam is 0 and the prices are those that prove it.
    status : Status
        What happened; ``status.advice`` says what to do, ``status.ok`` means proven optimal.
    certificate : Certificate
        The proof, computed from the data and the returned labels.
    residual : float
        How far the prices are from optimal, in units of group means.
    history : sequence of Progress
        The steps of the solver.
    rows : LabelRows or None
        The rows, wherever they are stored; None for an object loaded from a file.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
    >>> fair = r2b.debias(y, sensitive_features=sex, epsilon=0)
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

    rule: Rule
    certificate: Certificate
    rows: LabelRows | None = None

    FORMAT = "r2b-solution"

    @property
    def lam(self) -> float:
        """The weight of the size of new labels; 0 or small for agreement with the old."""
        return self.rule.lam

    @property
    def unchanged(self) -> bool:
        """Whether the labels are returned as they came in, bit for bit."""
        return self.rule.unchanged

    @property
    def costs(self) -> Floats | None:
        """The cost of turning one class into another, of shape (n_classes, n_classes)."""
        return self.rule.costs

    @property
    def table(self) -> Floats | None:
        """The channel of every cell for agreement with class labels, where prices leave ties."""
        return self.rule.table

    @property
    def cells(self) -> Array:
        """Names of the cells, the crossings of all sensitive and control columns.

        For one family of crossings these are the groups.
        """
        return self.schema.names

    @property
    def epsilon(self) -> float:
        """The epsilon that was asked for or, from ``smallest_epsilon``, found.

        If it differs by class or family it is the largest; ``certificate.epsilon`` has it by class.
        Infinite if no class is bounded.
        """
        proof = self.certificate
        every = [family.epsilon for family in proof.families] or [proof.epsilon]
        bounded = [float(each) for each in np.concatenate(every) if np.isfinite(each)]
        return max(bounded, default=np.inf)

    @cached_property
    def channel(self) -> Floats:
        """P(new class | old class, cell), of shape (n_cells, n_classes, n_classes).

        For probabilities: what a row certain of its class becomes.
        """
        return self.rule.response(self.schema).channel()

    @property
    def dataset(self) -> Dataset | None:
        """The rows if they are in memory."""
        return self.rows.dataset if isinstance(self.rows, MemoryRows) else None

    @property
    def weighted(self) -> bool | None:
        """Whether the rows have weights; None for an object without rows."""
        return None if self.rows is None else self.rows.weighted

    @property
    def _rows(self) -> LabelRows:
        if self.rows is None:
            raise RowsUnavailableError(
                "This object holds prices and a certificate, but no rows: it was loaded from a "
                "file, belongs to a model, or was made from blocks.",
                remedy="Pass the rows to transform(y, sensitive_features=...).",
            )
        return self.rows

    def __len__(self) -> int:
        """Return the number of rows."""
        if self._rows.n_rows is None:
            raise RowsUnavailableError(
                "These labels are of a table whose rows were not counted.",
                remedy="Count them where they are; len() makes no pass over them.",
            )
        return self._rows.n_rows

    def __bool__(self) -> bool:
        return True  # an object without rows has no length, but it is not empty

    def __repr__(self) -> str:
        proof = self.certificate
        size = f"{len(self.classes)} classes, {counted(len(self.groups), 'group')}"
        change = f"disparity {proof.disparity_before:.4f} -> {proof.disparity:.4f}"
        return f"<FairLabels: {self.status.value}, {change}, {size}>"

    def _repr_html_(self) -> str:
        from r2b.report.render import fair_html

        return fair_html(self)

    def __str__(self) -> str:
        return summarize(self)

    @property
    def soft_labels(self) -> Array:
        """The matrix of fair labels, of shape (N, n_classes), as certified.

        float64, or the old matrix itself if nothing changed.
        """
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
            float64 by default, which is what the certificate describes. float32 halves the memory
            and rounds at 6e-8.
        as_frame : bool
            Return a frame with the classes as columns, and the index of pandas labels, instead of
            an array.
        backend : {"pandas", "polars", "pyarrow"}, optional
            Library of the frame, as for :meth:`to_frame`.
        """
        if not as_frame:
            return self._rows.labelled.soft(self.rule, dtype)
        rows = self._rows.in_memory()
        columns = dict(zip(self.classes.tolist(), rows.soft(self.rule, dtype).T, strict=True))
        return frame_of(columns, backend, self._rows.came_as, rows.dataset.index)

    def iter_soft(
        self, block_rows: int = 65_536, dtype: DTypeLike | None = None
    ) -> Iterator[Array]:
        """Iterate over the matrix of fair labels in blocks of rows, for tables beyond memory."""
        remedy = "Pass how many rows a block has, a whole number of at least 1."
        refuse_other_number("block_rows", block_rows, remedy, lambda n: n >= 1, Integral)
        return self._rows.labelled.iter_soft(self.rule, int(block_rows), dtype)

    def sample(self, random_state: RandomState = 0, *, key: Any = None) -> Any:
        """Draw one class per row from its distribution; parity holds in expectation.

        Each group mean deviates by :attr:`sampling_deviation` (one standard deviation); ``round``
        deviates far less.

        Parameters
        ----------
        random_state : int, Generator or None
            The same number returns the same draw; None a new one each time.
        key : array-like of shape (N,), or list of such, optional
            What tells rows apart; their numbers by default. The draw of a row follows from its key
            and ``random_state`` alone, wherever the rows are stored: :meth:`frame` draws the same.

        Returns
        -------
        column
            Of the kind and dtype of the old labels.
        """
        return self._rows.labelled.sample(self.rule, seed_of(random_state), key)

    @property
    def sampling_deviation(self) -> Floats:
        """Standard deviation of each group mean of ``sample``, of shape (n_groups, n_outcomes)."""
        return self._rows.in_memory().sampling_deviation(self.rule)

    def round(self, random_state: RandomState = 0, *, key: Any = None) -> Any:
        """Pick one class per row so that parity survives.

        Without weights every class count of every cell is its fair value rounded up or down. So
        each group mean is within c/n_s of the optimum (n_s rows in the group, c cells; c is 1 if
        groups are the crossings of all columns), and the disparity within 1/n_s + 1/n_t of its
        certified value. The probability that a row gets a class is its fair probability exactly.
        With weights whole rows cannot match a mean that closely: each weighted mean is then within
        c (L - 1) times the largest row weight over the group's weight. Rows with a continuous or
        uncertain attribute are rounded in its order, so that every stretch of it keeps its class
        counts to within L - 1 rows at either end.

        Parameters
        ----------
        random_state : int, Generator or None
            The same number returns the same labels; None new ones each time.
        key : array-like of shape (N,), or list of such, optional
            As for :meth:`sample`. Probabilities and weighted rows are rounded one after the other:
            with a key in the order of their draws, which is the same wherever the rows are stored,
            without one in the order of the rows.

        Returns
        -------
        column
            Of the kind and dtype of the old labels.
        """
        return self._rows.labelled.round(self.rule, seed_of(random_state), key)

    @property
    def rounding_bound(self) -> Floats:
        """How far each group mean of :meth:`round` may be from the certified one.

        Of shape (n_groups,); infinite for uncertain groups and moments, which count rows in part.
        """
        return self._rows.in_memory().rounding_bound(self.rule)

    def expand(self, X: Any = None) -> tuple[Any, Any, Floats]:
        """Repeat each row for its classes of positive probability, with weights.

        Any learner with ``sample_weight`` then trains on exact parity.

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
        return self._rows.labelled.expand(self.rule, X)

    def realised(self, labels: Any) -> Realised:
        """Measure what labels of the fitted rows achieve, by the same families and bounds.

        Parameters
        ----------
        labels : array-like of shape (N,) or (N, n_classes)
            Classes or probabilities: from :meth:`round` or :meth:`sample`, or a learner's.

        Returns
        -------
        Realised
            Its ``disparity`` is that of these labels; ``certificate.disparity`` is that of the
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
        """Measure what labels of one class per row achieve, without returning them.

        Parameters
        ----------
        form : {"round", "sample"}
            The other forms achieve what the certificate says.
        random_state, key
            As for :meth:`round`.
        """
        one_of("form", form, [name for name, traits in FORMS.items() if traits.drawn])
        return self._rows.realised_as(self.rule, self.certificate, form, seed_of(random_state), key)

    def frame(
        self,
        form: Form = "soft",
        *,
        random_state: RandomState = 0,
        key: Any = None,
        new_column: str | None = None,
    ) -> Any:
        """Return a scanned table with its fair labels in new columns, of the kind that came in.

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
            The labels are not of a table that was scanned.
        """
        seed = seed_of(random_state)
        return self._rows.frame(
            self.rule, form=form, random_state=seed, key=key, new_column=new_column
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
        """Write a table of files with its fair labels, in its format; a folder as a folder.

        Parameters
        ----------
        path : path-like
            Must not exist, unless ``force``. It appears whole or not at all.
        form, random_state, key, new_column
            As for :meth:`frame`.
        force : bool
            Replace what is there.
        """
        asked = {"form": form, "random_state": seed_of(random_state), "key": key}
        self._rows.write(self.rule, fspath(path), force=force, new_column=new_column, **asked)

    def sql(
        self,
        dialect: str,
        *,
        table: str | Sequence[str],
        form: Form = "soft",
        random_state: RandomState = 0,
        **asked: Any,
    ) -> SQL:
        """Return statements that count a table of a database and give its rows fair labels there.

        For class labels only.

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
            columns, if they are not those that the prices were found on. ``counts`` (and ``count``,
            the name of its column): for "round" of another table than that, what its counting query
            returned. ``new_column``: as for :meth:`frame`. ``columns``: old columns to return; by
            default all of them, or for draws key, label and attributes. ``into``: a table to
            create. ``answers``: a table that holds what is joined, if that is not to be part of the
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
        >>> y, sex = ["a", "b", "b", "b"], {"sex": ["f", "f", "m", "m"]}
        >>> fair = r2b.debias(y, sensitive_features=sex)
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
            The form in which labels are returned, as the methods of these names do for the fitted
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
        one_of("form", form, Form)
        one_of("unseen", unseen, Unseen)
        data = {
            "sensitive_features": sensitive_features,
            "control_features": control_features,
            "sample_weight": sample_weight,
            "normalize": normalize,
        }
        rule, read = self.rule, read_new if self.rows is None else self.rows.read
        try:
            rows = read(rule, y, data).labelled
        except UnseenError:
            if unseen == "error":
                raise
            classes = None if self.schema.is_soft else y
            rule = widened(self, classes, sensitive_features, control_features)
            rows = read_new(rule, y, data)
        match form:
            case "soft":
                return rows.soft(rule, np.float64)
            case "round":
                return rows.round(rule, seed_of(random_state), None)
            case "sample":
                return rows.sample(rule, seed_of(random_state), None)
            case "expand":
                return rows.expand(rule, None)
        assert_never(form)

    def in_memory(self) -> FairLabels:
        """Return the same labels with their rows read into memory."""
        return replace(self, rows=self._rows.in_memory())

    def largest_changes(self, n: int = 10) -> list[Change]:
        """List the heaviest flows from an old to a new label; for class labels only."""
        return self._rows.largest_changes(self.rule, n)

    def costliest_constraints(self, n: int = 10) -> list[ConstraintCost]:
        """List the groups and classes whose bounds cost most."""
        return costliest_constraints(self, n)

    def to_frame(self, part: Part = "means", *, backend: Backend | None = None) -> Any:
        """Return one part of what is known as a frame, one fact per row.

        Parameters
        ----------
        part : {"means", "families", "changes", "constraints", "certificate"}
            Means of every class, or outcome, in every group, before and after (of continuous
            attributes the moments); what the bound of every family limits; flows from old to new
            labels, the heaviest first, for class labels; the cost of every bounded mean, the
            costliest first; the numbers of the certificate.
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default the library that the data came in; of data that came in none, pandas or, if
            it is not installed, Polars.

        Returns
        -------
        frame

        Raises
        ------
        ParameterError
            There is no such part, or no flows: probabilities, and rows that are in several groups,
            have means alone.
        RowsUnavailableError
            The flows of an object that was loaded from a file.
        MissingExtraError
            Neither pandas nor Polars is installed, or not the backend.

        Examples
        --------
        >>> import r2b
        >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
        >>> fair = r2b.debias(y, sensitive_features=sex, epsilon=0)
        >>> changes = fair.to_frame("changes", backend="pyarrow")
        >>> changes.select(["group", "old", "new"]).to_pylist()
        [{'group': 'm', 'old': 'a', 'new': 'b'}, {'group': 'f', 'old': 'b', 'new': 'a'}]
        """
        one_of("part", part, Part)
        came_as = "" if self.rows is None else self.rows.came_as
        if part == "changes":
            if not has_flows(self):
                raise ParameterError(
                    "These labels have no flows: they are probabilities, or rows are in several "
                    "groups.",
                    remedy="Take to_frame('means'), which has every group before and after.",
                    part=part,
                )
            n = len(self.cells) * len(self.classes) ** 2
            columns = records(Change, self.largest_changes(n))
        elif part == "constraints":
            costs = records(ConstraintCost, self.costliest_constraints(self.prices.size))
            columns = {self._compared if k == "label" else k: v for k, v in costs.items()}
        else:
            columns = self._columns(part)
        return frame_of(columns, backend, came_as)

    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        form: Form = "soft",
        random_state: int | None = 0,
        key: Any = None,
        labels: Any = None,
        output: str | PathLike[str] | None = None,
        audit: Any = None,
        frontier: Any = None,
        **options: Any,
    ) -> Report:
        """Write a report for people who did not run the code.

        It shows before and after, what it cost, the proof, and how to check it. Everything said of
        the labels you used is measured on those labels.

        Parameters
        ----------
        path : path-like, optional
            A page (``.html``), Markdown (``.md``) or all facts (``.json``). An existing file is
            replaced. Without a path nothing is written, and a notebook shows what is returned.
        form, random_state, key
            The form of the labels you used, as for :meth:`r2b.FairLabels.round`.
        labels : array-like, optional
            The labels you used, if ``form`` and ``random_state`` do not return them again.
        output : path-like, optional
            The file or folder that holds them; its checksums are stated.
        audit : Audit, optional
            Of the old labels; by default the bounded families are audited.
        frontier : Frontier, optional
            What other bounds would have cost, from :func:`r2b.frontier`.
        **options
            ``label_name``: what the label is called. ``date``: a datetime or a text to be stated,
            or False for none; by default now, or what SOURCE_DATE_EPOCH says. The same input and
            date return the same bytes. ``suppress_below``: figures of cells of fewer rows are left
            out, with others from which they would follow; 0 for none. ``verify``:
            shown as the way to check the report, instead of the Python lines. ``n_permutations``,
            ``n_boot``, ``level``: as for :func:`r2b.audit`.

        Returns
        -------
        r2b.report.Report

        Raises
        ------
        RowsUnavailableError
            The labels were loaded from a file.
        ParameterError
            A path that ends in something else, or an option that does not exist.

        Examples
        --------
        >>> import r2b
        >>> y, sex = ["a", "b", "b", "a", "a", "a"], {"sex": ["f", "f", "f", "m", "m", "m"]}
        >>> fair = r2b.debias(y, sensitive_features=sex, epsilon=0.1)
        >>> fair.report(form="round", label_name="job")
        <Report: job by sex, 6 rows; round, disparity 0.6667 -> 0.0000>
        """
        from r2b.report.results import report_of_labels

        drawn = form, random_state, key
        report = report_of_labels(self, drawn, labels, output, audit, frontier, **options)
        if path is not None:
            report.save(path)
        return report

    def plot(self, ax: Any = None, *, family: str | None = None) -> Any:
        """Draw the means of the groups of a family before and after.

        Of many classes those that differed most are drawn.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; it is returned.
        family : str, optional
            Its name; by default the family whose means differed most.
        """
        note = f"{percent(self.certificate.expected_changes)} of labels change"
        return self._drawn_means(ax, family, "Group means", note)
