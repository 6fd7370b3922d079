"""The result of ``reweigh``: factors, what they reach, and the proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from os import PathLike, fspath
from typing import Any, Literal

import numpy as np

from r2b._constraints.families import Families
from r2b._constraints.families.request import is_a, one_of
from r2b._constraints.parity import Parity
from r2b._data import Dataset, Schema
from r2b._data.arrays import Array, Floats
from r2b._data.cells import Layout
from r2b._data.compute import seed_of
from r2b._data.frames import Backend, frame_of
from r2b._data.merge import cell_sums
from r2b._data.values import stored_numbers
from r2b._labels.draws import row_draws
from r2b._labels.result import PriceRule, Result
from r2b._labels.storage import restored_parts
from r2b._solve.certificate import Proof
from r2b._solve.oracle import group_means, prices_of_rows
from r2b._weights.rows import WeightOracle, factors, without_totals
from r2b.errors import ParameterError, RowsUnavailableError

Part = Literal["table", "means", "families", "certificate"]


@dataclass(frozen=True, eq=False)
class WeightRule(PriceRule):
    """Prices, from which the factor of any row follows.

    Attributes
    ----------
    schema : Schema
    families : Families
    prices : ndarray of shape (n_groups, n_outcomes + 1)
        Of each group and outcome, and in the last column of its total.
    largest : float
        Infinite where factors may be any.
    """

    largest: float

    STORED = ("prices", "largest")

    def apply(self, data: Dataset) -> Floats:
        """Return the factor of each row of a table."""
        shifts = self._shifts(data.cells)
        return factors(data.labels.array, shifts, data.cells.codes, self.largest)

    def _shifts(self, cells: Layout) -> Floats:
        prices, families = self.prices, self.families
        if families.outcomes is not None:
            prices = np.column_stack([prices[:, :-1] @ families.outcomes.matrix, prices[:, -1]])
            families = replace(families, outcomes=None)
        return families.shifts(cells, prices)

    def answers(self, n_classes: int) -> Floats:
        """Return the factor of every class in every cell, of shape (n_cells, n_classes, 1)."""
        shifts = self._shifts(self.schema)
        cells = np.repeat(np.arange(len(shifts)), n_classes)
        labels = np.tile(np.arange(n_classes), len(shifts))
        found = factors(labels, shifts, cells, self.largest)
        return found.reshape(len(shifts), n_classes, 1)


@dataclass(frozen=True, eq=False)
class WeightCertificate(Proof):
    """What holds for the factors, computed from the data and from them.

    Attributes
    ----------
    disparity, disparity_before : float
        The largest difference between the weighted shares of two groups of a family in any class.
    disparity_by_class, epsilon : ndarray of shape (n_outcomes,)
    excess : float
        The largest amount by which a share lies outside its bound, or a total is off.
    means, means_before : ndarray of shape (n_groups, n_outcomes)
        Weighted shares of the classes in each group.
    objective : float
        Half the mean squared distance of the factors from 1.
    lower_bound : float
        No factors that meet the bounds have a smaller objective.
    relative_gap : float
        By how much other factors may be better, as a part of half their mean square.
    families : tuple of FamilyProof
    smallest, largest : float
        Of the factors.

    Examples
    --------
    >>> import r2b
    >>> weights = r2b.reweigh(["a", "b", "a", "a"], sensitive_features=["f", "f", "m", "m"],
    ...                       epsilon=0.1)
    >>> weights.certificate.holds, round(weights.certificate.disparity_before, 3)
    (True, 0.5)
    """

    smallest: float
    largest: float

    NUMBERS = ("disparity_before", "disparity", "objective", "lower_bound", "smallest", "largest")

    @property
    def holds(self) -> bool:
        """Whether the bounds are met, and nothing is better by more than a billionth."""
        return super().holds and self.smallest >= 0.0


def certify(oracle: WeightOracle, parity: Parity, prices: Floats) -> WeightCertificate:
    """Certify the factors that follow from these prices; any settled prices give a valid bound."""
    paid = prices_of_rows(oracle, parity, prices)
    u, _ = oracle.respond(paid)
    whole, before = (
        group_means(oracle, parity, oracle.means(each)) for each in (u, np.ones_like(u))
    )
    after, before = (means[:, :-1] / means[:, -1:] for means in (whole, before))
    objective = oracle.mean(0.5 * (u - 1.0) ** 2)
    return WeightCertificate.stated(
        without_totals(parity),
        after,
        before,
        objective,
        objective - (oracle.evaluate(paid, 1.0).value - parity.support(prices)),
        0.5 + objective,
        excess=parity.violation(whole),
        smallest=float(u.min()),
        largest=float(u.max()),
    )


@dataclass(frozen=True, eq=False, repr=False)
class RowWeights(Result):
    """Factors of rows under which groups are in parity, what they reach, and the proof.

    Attributes
    ----------
    rule : WeightRule
    status : Status
        ``status.ok`` means proven optimal.
    certificate : WeightCertificate
    residual : float
        How far the prices are from optimal, in units of group means.
    history : sequence of Progress
        The steps of the solver.
    data : Dataset or None
        The rows, or one row for each combination that was counted; None for an object loaded from a
        file.
    rows : WeighedRows or None
        The rows of a table that was scanned.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a", "a", "b"], ["f", "f", "f", "m", "m", "m"]
    >>> weights = r2b.reweigh(y, sensitive_features=sex)
    >>> weights
    <RowWeights: solved, disparity 0.3333 -> 0.0000, 6 rows worth 5.3, largest weight 1.5>
    >>> weights.table.round(2)
    array([[1.5 , 0.75],
           [0.75, 1.5 ]])
    """

    rule: WeightRule
    certificate: WeightCertificate
    data: Dataset | None = None
    rows: Any = None

    FORMAT = "r2b-weights"

    @property
    def _rows(self) -> Dataset:
        if self.data is None:
            raise RowsUnavailableError(
                "These weights hold no rows, as after they were loaded from a file.",
                remedy="Pass rows to transform(y, sensitive_features=...).",
            )
        return self.data

    @cached_property
    def weights(self) -> Floats:
        """The factor of each row; their mean is 1 in every group that keeps its total."""
        return self.rule.apply(self._rows if self.rows is None else self.rows.in_memory())

    @cached_property
    def _summed(self) -> tuple[Floats, Floats]:
        """The factor and the weight of each row, or of each combination that was counted."""
        data = self._rows
        each = np.ones(data.n_rows) if data.repeats is None else data.repeats.astype(np.float64)
        own = each if data.weight is None else np.asarray(data.weight)
        return self.rule.apply(data), own

    @cached_property
    def table(self) -> Floats:
        """The mean factor of each class in each group, of shape (n_groups, n_classes).

        For class labels of one family it is the factor itself; NaN where a group lacks a class.
        """
        data, (factor, own), sums = self._rows, self._summed, []
        for weight in (own, own * factor):
            _, by_cell = cell_sums(data.labels, data.cells, weight)
            by_group = [how.design(data.cells).T @ by_cell for how in self.rule.families.counting]
            sums.append(np.concatenate(by_group))
        with np.errstate(invalid="ignore", divide="ignore"):
            return sums[1] / sums[0]

    @property
    def largest_weight(self) -> float:
        """The largest factor."""
        return self.certificate.largest

    @cached_property
    def effective_sample_size(self) -> float:
        """How many equally weighted rows are as good: ``(sum w)^2 / sum w^2`` (Kish)."""
        (factor, own), repeats = self._summed, self._rows.repeats
        weight = factor * own
        each = 1.0 if repeats is None else np.maximum(repeats, 1)
        return float(weight.sum() ** 2 / (weight**2 / each).sum())

    def transform(
        self,
        y: Any,
        *,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: Any = None,
        normalize: bool = False,
    ) -> Floats:
        """Return the factors of new rows.

        Parameters
        ----------
        y, sensitive_features, control_features, sample_weight, normalize
            As for :func:`r2b.reweigh`; classes and groups must be known.

        Raises
        ------
        UnseenError
            A class or group is new.
        """
        data = self.schema.read(
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
            normalize=normalize,
            known_crossings=False,
        )
        return self.rule.apply(data)

    def select(self, *, fraction: float, random_state: Any = 0, key: Any = None) -> Array:
        """Draw a balanced subset: each row with a chance in proportion to its weight.

        The share of every combination of class and group in the subset is that of the weights,
        within one row of each.

        Parameters
        ----------
        fraction : float
            Part of the rows; at most ``1 / largest_weight``, since no row is taken twice.
        random_state : int, Generator or None
            The same number gives the same draws.
        key : array-like of shape (N,), optional
            Tells rows apart, so that the draw does not depend on their order.

        Returns
        -------
        ndarray of bool, shape (N,)

        Examples
        --------
        >>> import r2b
        >>> y, sex = ["a", "b", "b", "a", "a", "b"] * 100, ["f", "f", "f", "m", "m", "m"] * 100
        >>> weights = r2b.reweigh(y, sensitive_features=sex)
        >>> int(weights.select(fraction=0.5).sum())
        300
        """
        data = self._rows if self.rows is None else self.rows.in_memory()
        most = 1.0 / max(self.certificate.largest, 1.0)
        if not (is_a(Real, fraction) and 0 < fraction <= most):
            problem = f"fraction is {fraction!r}."
            remedy = (
                f"Pass a number above 0 and at most {most:.4g}, which is one over the largest "
                "weight; a smaller `max_weight` allows more."
            )
            raise ParameterError(problem, remedy=remedy, fraction=fraction, largest=most)
        seed = seed_of(random_state)
        codes = data.cells.codes.astype(np.int64)
        if data.labels.codes is not None:
            codes = codes * data.n_classes + data.labels.codes
        # Rows of a kind lie together, in the order of their keys. One is taken whenever the chances
        # so far pass a whole number: of each kind as many as are due, within one.
        order = np.lexsort((row_draws(key, seed, data), codes))
        start = np.random.default_rng(seed).random()
        reached = np.floor(np.cumsum(fraction * self.weights[order]) + start)
        chosen = np.zeros(data.n_rows, dtype=bool)
        chosen[order] = np.diff(reached, prepend=0.0) > 0
        return chosen

    def frame(self, new_column: str = "weight") -> Any:
        """Return a scanned table with its weights in a new column, of the kind that came in.

        A table of counts comes back with the weight of each combination, to be joined by hand.

        Parameters
        ----------
        new_column : str
            Name of the new column.

        Raises
        ------
        RowsUnavailableError
            The weights are not of a table that was scanned.

        Examples
        --------
        >>> import pyarrow, r2b
        >>> people = pyarrow.table({"sex": ["f", "f", "m", "m"], "job": ["a", "b", "b", "b"]})
        >>> weights = r2b.scan(people).reweigh("job", sensitive_features="sex", epsilon=0.4)
        >>> weights.frame()["weight"].to_numpy()[:2].round(6)
        array([0.8, 1.2])
        """
        return self._scanned.frame(self.rule, new_column)

    def write(
        self, path: str | PathLike[str], *, new_column: str = "weight", force: bool = False
    ) -> None:
        """Write a table of files with its weights in a new column, in its format.

        Parameters
        ----------
        path : path-like
            Must not exist, unless ``force``. It appears whole or not at all.
        new_column : str
            Name of the new column.
        force : bool
            Whether a file that exists is replaced.
        """
        self._scanned.write(self.rule, fspath(path), new_column, force=force)

    def sql(
        self,
        dialect: str,
        *,
        table: str | Sequence[str],
        new_column: str = "weight",
        into: str | Sequence[str] | None = None,
        **asked: Any,
    ) -> Any:
        """Write the SQL that joins the weights to a table in a database.

        Parameters
        ----------
        dialect : {"postgres", "duckdb", "sqlite", "snowflake", "bigquery"}
            The database whose SQL is written.
        table : str or list of str
            The table, or the parts of its name.
        new_column : str
            Name of the new column.
        into : str or list of str, optional
            A table to create.
        **asked
            ``label``, ``sensitive_features``, ``control_features``, ``columns`` and ``answers`` as
            for :meth:`r2b.FairLabels.sql`.

        Returns
        -------
        r2b.engines.SQL

        Examples
        --------
        >>> import r2b
        >>> y, sex = ["a", "b", "b", "a", "a", "b"], {"sex": ["f", "f", "f", "m", "m", "m"]}
        >>> weights = r2b.reweigh(y, sensitive_features=sex)
        >>> weights.sql("duckdb", table="people", label="job").select.splitlines()[-2]
        'FROM "people" AS old'
        """
        from r2b.engines.sql import statements

        return statements(self, dialect, table, "soft", names=(new_column,), into=into, **asked)

    @property
    def _scanned(self) -> Any:
        if self.rows is None:
            raise RowsUnavailableError(
                "These weights are not of a table that was scanned.",
                remedy="Take `weights`, an array of one weight per row, or scan the table first: "
                "r2b.scan(...).reweigh(...).",
            )
        return self.rows

    def to_frame(self, part: Part = "table", *, backend: Backend | None = None) -> Any:
        """Return one part of what is known as a frame.

        Parameters
        ----------
        part : {"table", "means", "families", "certificate"}
            Factors and shares of every class in every group; shares of every outcome, where others
            than the classes are compared; what the bound of every family limits; the numbers of the
            certificate.
        backend : {"pandas", "polars", "pyarrow"}, optional
            pandas by default or, where it is not installed, Polars.
        """
        one_of("part", part, Part)
        if part != "table":
            return frame_of(self._columns(part), backend)
        n_groups, n_classes = self.table.shape
        columns = {
            "group": np.repeat(self.groups, n_classes),
            "class": np.tile(self.classes, n_groups),
        }
        if self.families.outcomes is None:
            means = self._columns("means")
            columns |= {name: means[name] for name in ("before", "after")}
        return frame_of(columns | {"weight": self.table.ravel()}, backend)

    def report(self, path: str | PathLike[str] | None = None, *, date: Any = None) -> Any:
        """Write a report: what the weights reach, and the weight of each class in each group.

        Parameters
        ----------
        path : path-like, optional
            A page (``.html``), Markdown (``.md``) or all facts (``.json``).
        date : str or date, optional
            Today by default.

        Returns
        -------
        r2b.report.tables.TableReport
        """
        from r2b.report.tables import report_of_weights

        report = report_of_weights(self, date)
        if path is not None:
            report.save(path)
        return report

    def plot(self, ax: Any = None, *, family: str | None = None) -> Any:
        """Draw the weighted shares of the groups of a family before and after, class by class.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; it is returned.
        family : str, optional
            Its name; by default the family whose shares differed most.
        """
        note = f"largest weight {self.largest_weight:.3g}"
        return self._drawn_means(ax, family, "Weighted shares", note)

    def __str__(self) -> str:
        return repr(self)[1:-1].replace("RowWeights", "Row weights", 1)

    def __repr__(self) -> str:
        proof = self.certificate
        rows = ""
        if self.data is not None:
            rows = f"{self.data.size} rows worth {self.effective_sample_size:.1f}, "
        return (
            f"<RowWeights: {self.status.value}, disparity {proof.disparity_before:.4f} -> "
            f"{proof.disparity:.4f}, {rows}largest weight {proof.largest:.4g}>"
        )


def restored(content: dict[str, Any]) -> RowWeights:
    """Restore weights from a file."""
    return RowWeights(*restored_parts(content, _rule_of, WeightCertificate))


def _rule_of(
    content: dict[str, Any], schema: Schema, families: Families, shape: tuple[int, int]
) -> WeightRule:
    largest = float(content["largest"])
    if not largest >= 1.0:
        raise ValueError(f"largest is {content['largest']!r}")
    prices = stored_numbers(content["prices"], (shape[0], shape[1] + 1))
    return WeightRule(schema, families, prices, largest)
