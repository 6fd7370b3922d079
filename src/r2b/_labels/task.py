"""One table read and merged once, to be solved as often as asked: for one bound, along a path of them, or for several to compare."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from r2b._constraints.families import Families, Request, resolve
from r2b._constraints.parity import Parity, Slim, without_implied
from r2b._data import Cells, Dataset, Schema, read
from r2b._data.arrays import Floats, frozen
from r2b._data.attributes import CATEGORICAL
from r2b._data.cells import Layout
from r2b._data.compute import one_blas_thread, workers
from r2b._data.merge import Extent, Rows, merge
from r2b._data.numbers import read_costs
from r2b._labels.debiasing import Settings
from r2b._labels.labels import Evidence, FairLabels
from r2b._labels.realised import means_by_cell
from r2b._labels.rows import MemoryRows
from r2b._labels.rule import Rule
from r2b._solve.certificate import Certificate, Problem, certify
from r2b._solve.oracle import (
    ClassOracle,
    DesignOracle,
    MemoryOracle,
    Oracle,
    Samples,
    group_means,
    oracle_of,
)
from r2b._solve.oracle.blocks import chosen_kernel
from r2b._solve.oracle.reference import Answers, GroupOracle, Responses
from r2b._solve.solvers import Limits, Outcome, Status, final_status, solve
from r2b._solve.solvers.agreement import most_agreement
from r2b._solve.solvers.settings import SETTINGS
from r2b.errors import InputError, NotSolvedWarning, ParameterError

_ROUNDING = 1e-12
_MOST_PLAUSIBLE = 1000
# up to which rows with uncertain or continuous attributes are walked by themselves, not by cell
_ROWS_PER_CELL = 16
_PASSES = 16  # of agreement, for each that the distance takes
# ends of a path, and entries of a table, for which one is tried
_SHORT, _SMALL = (Status.STALLED, Status.OUT_OF_ITERATIONS), 1 << 20
# lambda below which the last bit of a price moves labels by more than a tenth of what a certificate
# lets pass
_BLURRED = 1e-5
_BLOCK_ENTRIES = 1 << 16  # of labels that are made together: they stay in cache
_TIED = 1e-9  # difference in worth below which a class counts as no worse than another

# How it ended, the labels, the channels of cells where prices do not tell them, and a proof about
# these very labels where there is one.
Agreed = tuple[Outcome, Answers, Floats | None, Certificate | None]


class RowOracle(Oracle, Protocol):
    """An oracle that also knows the labels that came in, and may give samples."""

    def label_means(self) -> Floats:
        """Cell means of the labels as they came in."""
        ...

    def samples(self) -> Samples | None:
        """Give a small and a larger sample of the rows, or None where all rows are cheap to walk."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """Rows wherever they live, what is asked of their groups, and the means to solve it.

    Attributes
    ----------
    schema : Schema
    groups : Cells
        The cells; where rows live elsewhere, one entry per cell.
    rows : Rows or Extent
        Merged rows, whose labels are what each class is worth to a row; or what is known of rows
        that live elsewhere.
    oracle : RowOracle or GroupOracle
    before : ndarray of shape (n_cells, n_classes) or (n_groups, n_classes)
        Means of the labels that came in, by cell; by group where the oracle answers for groups.
    families : Families
    parity : Parity
    settings : Settings
    costs : ndarray of shape (n_classes, n_classes) or None
    """

    schema: Schema
    groups: Cells
    rows: Rows | Extent
    oracle: RowOracle | GroupOracle
    before: Floats
    families: Families
    parity: Parity
    settings: Settings = field(default_factory=Settings)
    costs: Floats | None = None

    @classmethod
    def elsewhere(
        cls,
        schema: Schema,
        groups: Cells,
        extent: Extent,
        oracle: RowOracle,
        request: Request,
        settings: Settings,
    ) -> Task:
        """Settle what is asked of rows of probabilities that live elsewhere; ``groups`` counts each cell once, with its rows."""
        _refuse_lam(settings)
        if settings.objective == "agreement":
            raise _not_in_memory()
        before = oracle.label_means()
        request = replace(request, names=schema.classes.values.tolist())
        families, parity = resolve(request, groups, extent.cell_weight, before)
        made = cls(
            schema=schema,
            groups=groups,
            rows=extent,
            oracle=oracle,
            before=before,
            families=families,
            parity=parity,
            settings=settings,
        )
        made._refuse_left_out(request)
        return made

    def problem(self, parity: Parity) -> Problem:
        """Give the problem under a bound of this shape."""
        lam = self._agreement_lam if self.settings.objective == "agreement" else self.settings.lam
        return Problem(
            self.rows, parity, float(lam), 0.0 if self.costs is None else float(self.costs.max())
        )

    @property
    def _agreement_lam(self) -> float:
        """The lam of agreement: 0 for class labels of cells, whose answer is a table; else small."""
        tabled = not self.schema.is_soft and not isinstance(self.oracle, GroupOracle)
        return 0.0 if tabled else SETTINGS.agreement_lam

    def solve(
        self, parity: Parity | None = None, start: Floats | None = None, *, stacklevel: int = 3
    ) -> FairLabels:
        """Solve for the bound asked for, or another of the same shape, from given prices on."""
        with workers(self.settings.threads), one_blas_thread(self.rows.entries):
            return self._solve(parity, start, stacklevel + 1)

    def _solve(self, parity: Parity | None, start: Floats | None, stacklevel: int) -> FairLabels:
        parity = self.parity if parity is None else parity
        problem = self.problem(parity)
        still = self._nothing_to_do(problem)
        table, answers, proof = None, None, None
        limits = Limits(self.settings.max_iter, self.settings.time_limit, self.settings.progress)
        if still is not None:
            outcome = Outcome(np.zeros((parity.n_groups, problem.n_classes)), 0.0, still)
        elif problem.lam == 0:
            outcome, answers, table, proof = self._agree(problem, limits)
        else:
            slim = without_implied(parity)
            walking = (
                replace(self, oracle=self.oracle.among(slim.places))
                if isinstance(self.oracle, GroupOracle)
                else self
            )
            outcome = walking._found(
                replace(problem, parity=slim.parity),
                limits,
                None if start is None else slim.reduced(start),
            )
            outcome.prices = slim.whole(outcome.prices)
        if proof is None:
            proof = certify(
                problem,
                self.oracle,
                outcome.prices,
                self.before,
                unchanged=still is not None,
                answers=answers,
            )
        status = final_status(outcome, proof, self.settings.tol)
        if not status.ok:
            message = f"{status.value}: residual {outcome.residual:.1e}. {status.advice}"
            warnings.warn(NotSolvedWarning(message), stacklevel=stacklevel)
        families = replace(self.families, members=parity.members)
        splits = answers if isinstance(answers, Responses) else None
        rule = Rule(
            self.schema,
            families,
            frozen(outcome.prices),
            problem.lam,
            still is not None,
            self.costs,
            table,
            splits,
        )
        return FairLabels(
            rule,
            Evidence(status, proof, outcome.residual, tuple(outcome.history)),
            self._label_rows(),
        )

    @property
    def keeps_labels(self) -> bool:
        """Whether labels that nothing is asked of stay as they are.

        The old labels are their own optimum where the objective is the squared distance. For class
        labels a smaller lam only makes agreement count for more; for probabilities another lam
        moves even labels that are fair.
        """
        lam = 0.0 if self.settings.objective == "agreement" else float(self.settings.lam)
        if self.schema.is_soft:
            return lam == 1.0 and self.costs is None
        cheapest = (
            1.0
            if self.costs is None
            else float(self.costs[~np.eye(len(self.costs), dtype=bool)].min())
        )
        return lam <= cheapest

    def _nothing_to_do(self, problem: Problem) -> Status | None:
        if not self.keeps_labels:
            return None
        if all(m.n_groups == 1 and m.bound.fewest_groups > 1 for m in problem.parity.members):
            return Status.ONE_GROUP
        # Means are sums of many terms: a difference of exactly epsilon comes out a few rounding
        # errors above or below it.
        return (
            Status.ALREADY_FAIR
            if problem.parity.violation(self.means_before) <= _ROUNDING
            else None
        )

    @property
    def means_before(self) -> Floats:
        """Group means of the labels that came in."""
        return group_means(self.oracle, self.parity, self.before)

    def _refuse_left_out(self, request: Request) -> None:
        excluding = "exclude" in (request.missing, request.small_groups)
        if excluding and self.families.left_out > 0 and not self.keeps_labels:
            how = (
                "the objective is agreement"
                if self.settings.objective == "agreement"
                else f"lam is {self.settings.lam}"
            )
            problem = f"Some rows are to be left out and keep their labels, but {how}, which changes every row."
            remedy = "Use the distance with lam=1, or missing='group' and small_groups='merge', or leave these rows out yourself."
            raise ParameterError(
                problem, remedy=remedy, lam=self.settings.lam, left_out=self.families.left_out
            )

    def _found(self, problem: Problem, limits: Limits, start: Floats | None) -> Outcome:
        start = self._head_start(problem) if start is None else start
        return solve(
            problem,
            self.oracle,
            samples=self.oracle.samples(),
            tol=self.settings.tol,
            limits=limits,
            start=start,
        )

    def _head_start(self, problem: Problem) -> Floats | None:
        """Give prices that are near the answer, where something is known about them."""
        return None

    def _label_rows(self) -> MemoryRows | None:
        """Give the rows of the table where they are in memory."""
        return None

    def _agree(self, problem: Problem, limits: Limits) -> Agreed:
        raise _not_in_memory()


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryTask(Task):
    """A table in memory, what is asked of its groups, and the means to solve it.

    Attributes
    ----------
    dataset : Dataset
    """

    dataset: Dataset
    rows: Rows
    oracle: MemoryOracle | ClassOracle | DesignOracle

    @classmethod
    def of(
        cls, dataset: Dataset, request: Request, settings: Settings, costs: Any = None
    ) -> MemoryTask:
        """Merge a table and settle what is asked of it."""
        refuse_scores(dataset)
        request = replace(request, names=dataset.labels.vocabulary.values.tolist())
        rows = merge(dataset, settings.merge_rows)
        prices = (
            None
            if costs is None
            else read_costs(costs, list(request.names), dataset.labels.vocabulary)
        )
        _refuse_lam(settings)
        labels, truth = rows, None
        if prices is not None:
            truth, rows = rows.labels, rows.valued(rows.labels @ -prices)
        oracle: MemoryOracle | ClassOracle | DesignOracle
        kernel = settings.kernel
        # a path of many passes, which repay the loading of a kernel sooner
        if settings.objective == "agreement":
            kernel = chosen_kernel(kernel, _PASSES * rows.entries)
        if by_row(dataset.cells, len(rows.cells)):
            with one_blas_thread(rows.entries):
                families, parity = resolve(request, dataset.cells, rows.group_weight, labels)
                oracle = DesignOracle.of(rows, parity, kernel, settings.threads, truth)
                before = oracle.label_means()
        else:
            oracle = oracle_of(rows, kernel, settings.threads, truth)
            before = oracle.label_means()
            families, parity = resolve(request, dataset.cells, rows.group_weight, before)
        job = cls(
            schema=dataset.schema,
            groups=dataset.cells,
            rows=rows,
            oracle=oracle,
            before=before,
            families=families,
            parity=parity,
            settings=settings,
            costs=prices,
            dataset=dataset,
        )
        job._refuse_left_out(request)
        return job

    def cell_means(self, fair: FairLabels) -> Floats:
        """Give the means of fair labels by cell."""
        if isinstance(self.oracle, DesignOracle):
            return means_by_cell(self.dataset, fair)
        if fair.unchanged:
            return self.before
        response = fair.rule.response(self.dataset.cells)
        return self.oracle.inspect(
            response.shifts, response.lam, answers=response.splits or self._answers(fair)
        ).means

    def _answers(self, fair: FairLabels) -> Floats | None:
        return (
            None
            if fair.table is None
            else np.einsum("ik,ikl->il", self.oracle.labels, fair.table[self.rows.cells])
        )

    def _label_rows(self) -> MemoryRows:
        return MemoryRows(self.dataset)

    def _agree(self, problem: Problem, limits: Limits) -> Agreed:
        slim = without_implied(problem.parity)
        return self._tabled(problem, slim, limits.time_limit)

    def _tabled(self, problem: Problem, slim: Slim, time_limit: float | None) -> Agreed:
        """Solve the linear programme, whose answer is a table: prices prove it, and do not tell it."""
        found = most_agreement(replace(problem, parity=slim.parity), time_limit)
        outcome = Outcome(
            slim.whole(found.prices),
            0.0 if found.status is Status.SOLVED else math.inf,
            found.status,
        )
        answers = self.oracle.labels if found.answers is None else found.answers
        return outcome, answers, self._table(answers, problem.parity.shifts(outcome.prices)), None

    def _table(self, answers: Floats, shifts: Floats) -> Floats:
        """Give the channel of every cell: as found for what occurs, else the best response to the prices."""
        n_classes = shifts.shape[1]
        worth = (np.eye(n_classes) if self.costs is None else -self.costs) - shifts[:, None, :]
        best = worth >= worth.max(axis=2, keepdims=True) - _TIED
        stays = np.einsum("jkk->jk", best)[:, :, None]
        # A row that is indifferent keeps its label where it can, and is split evenly where it
        # cannot.
        table = np.where(stays, np.eye(n_classes), best / best.sum(axis=2, keepdims=True))
        row, label = np.nonzero(self.oracle.labels)
        table[self.rows.cells[row], label] = answers[row]
        return table


def by_row(cells: Layout, n_rows: int) -> bool:
    """Whether rows count in parts, and so few of them share a cell that a table of cells would be no shorter than they are."""
    return set(cells.kinds) != {CATEGORICAL} and n_rows <= _ROWS_PER_CELL * cells.n_cells


def open_job(
    y: Any, *, request: Request, settings: Settings, costs: Any = None, **data: Any
) -> MemoryTask:
    """Read a table, merge it and settle what is asked of it."""
    return MemoryTask.of(
        read(y, **data, missing=request.missing, weightless="allow"), request, settings, costs
    )


def refuse_scores(dataset: Dataset) -> None:
    """Refuse one column of scores, which reads as classes that occur once or twice each: it would take groups x classes^2 numbers."""
    n_classes, n_rows = dataset.n_classes, dataset.size
    if not dataset.labels.is_soft and n_classes > _MOST_PLAUSIBLE and 4 * n_classes > n_rows:
        problem = f"The argument y has {n_classes:,} distinct values in {n_rows:,} rows, which is a class for every few rows."
        remedy = "If they are scores p of one class, pass two columns, 1 - p and p; if they are numbers, put them in bins first."
        raise InputError(problem, remedy=remedy, n_classes=n_classes, n_rows=n_rows)


def _refuse_lam(settings: Settings) -> None:
    if settings.objective == "agreement" and settings.lam != 1.0:
        problem = f"lam is {settings.lam}, but agreement is the limit of lam to 0 and has none."
        raise ParameterError(
            problem, remedy="Leave lam out, or use objective='distance'.", lam=settings.lam
        )


def _not_in_memory() -> ParameterError:
    remedy = "Use objective='distance' with a small lam, such as 0.05, or bring the table into memory and use r2b.debias."
    problem = "The objective agreement with probabilities is for rows in memory, and these rows live elsewhere."
    return ParameterError(problem, remedy=remedy, objective="agreement")
