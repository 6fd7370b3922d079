"""One table read once, to be solved as often as asked: for one bound, or along a path of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._constraints.families import Families, Request, resolve
from r2b._constraints.parity import Parity, without_implied
from r2b._data import Cells, Dataset, Schema, read
from r2b._data.arrays import Floats, frozen
from r2b._data.by_class import read_costs
from r2b._data.cells import Layout
from r2b._data.compute import one_blas_thread, workers
from r2b._data.merge import Extent, Rows, merge
from r2b._data.values import warn
from r2b._labels.debiasing import Settings, request_and_settings
from r2b._labels.labels import FairLabels
from r2b._labels.rows import MemoryRows
from r2b._labels.rule import Rule
from r2b._solve.certificate import Problem, certify
from r2b._solve.oracle import Oracle, group_means, oracle_of
from r2b._solve.settings import SETTINGS
from r2b._solve.solvers import Limits, Outcome, Status, final_status, solve
from r2b._solve.solvers.agreement import most_agreement
from r2b.errors import InputError, NotSolvedWarning, ParameterError


@dataclass(frozen=True, eq=False)
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
    oracle : Oracle
    before : ndarray of shape (n_cells, n_classes) or (n_groups, n_classes)
        Means of the old labels, by cell; by group where rows count in groups themselves.
    families : Families
    parity : Parity
    request : Request
    settings : Settings
    costs : ndarray of shape (n_classes, n_classes) or None
    dataset : Dataset or None
        The table, where it is in memory.
    """

    schema: Schema
    groups: Cells
    rows: Rows | Extent
    oracle: Oracle
    before: Floats
    families: Families
    parity: Parity
    request: Request
    settings: Settings
    costs: Floats | None = None
    dataset: Dataset | None = None

    @classmethod
    def of(cls, dataset: Dataset, request: Request, settings: Settings, costs: Any = None) -> Task:
        """Merge a table in memory, and settle what is asked of it."""
        refuse_scores(dataset)
        request = request.of_classes(dataset.labels.vocabulary)
        rows, truth = merge(dataset), None
        labels, worth = rows, None
        if costs is not None:
            worth = read_costs(costs, list(request.names), dataset.labels.vocabulary)
            truth, rows = rows.labels, replace(rows, matrix=rows.labels @ -worth, classes=None)
        cells = dataset.cells
        with one_blas_thread(rows.entries):
            if by_row(cells, len(rows.cells)):
                found = resolve(request, cells, rows.cell_weight, labels)
                oracle = Oracle.of(rows, found[1], threads=settings.threads, truth=truth)
                before = oracle.label_means()
            else:
                oracle = oracle_of(rows, settings.threads, truth)
                before = oracle.label_means()
                found = resolve(request, cells, rows.cell_weight, before)
        schema = dataset.schema
        return cls(schema, cells, rows, oracle, before, *found, request, settings, worth, dataset)

    @classmethod
    def elsewhere(
        cls,
        schema: Schema,
        groups: Cells,
        rows: Rows | Extent,
        cell_weight: Floats,
        oracle: Oracle,
        request: Request,
        settings: Settings,
    ) -> Task:
        """Settle what is asked of rows of probabilities that live elsewhere.

        ``groups`` counts each cell once, with its rows.
        """
        if settings.objective == "agreement":
            raise ParameterError(
                "The objective agreement with probabilities is for rows in memory, "
                "and these rows live elsewhere.",
                remedy="Use `objective='distance'` with a small lam, such as `lam=0.05`, "
                "or read the table into memory and use `r2b.debias`.",
                objective="agreement",
            )
        request, before = request.of_classes(schema.classes), oracle.label_means()
        found = resolve(request, groups, cell_weight, before)
        return cls(schema, groups, rows, oracle, before, *found, request, settings)

    def __post_init__(self) -> None:
        """Refuse to leave rows out where the objective changes them all."""
        excluding = "exclude" in (self.request.missing, self.request.small_groups)
        if excluding and self.families.left_out > 0 and not self.keeps_labels:
            agreeing = self.settings.objective == "agreement"
            how = "the objective is agreement" if agreeing else f"lam is {self.settings.lam}"
            raise ParameterError(
                "Some rows are to be left out and keep their labels, "
                f"but {how}, which changes every row.",
                remedy="Use the distance with `lam=1`, or `missing='group'` and "
                "`small_groups='merge'`, or leave these rows out yourself.",
                lam=self.settings.lam,
                left_out=self.families.left_out,
            )

    @property
    def table(self) -> Dataset:
        """The table, which is in memory."""
        assert self.dataset is not None
        return self.dataset

    @property
    def merged(self) -> Rows:
        """The rows, which are in memory."""
        assert isinstance(self.rows, Rows)
        return self.rows

    def problem(self, parity: Parity) -> Problem:
        """Return the problem under a bound of this shape."""
        lam = self._agreement_lam if self.settings.objective == "agreement" else self.settings.lam
        return Problem(
            self.rows, parity, float(lam), 0.0 if self.costs is None else float(self.costs.max())
        )

    @property
    def _agreement_lam(self) -> float:
        """The lam of agreement: 0 for class labels of cells, solved by a table; else small."""
        tabled = not self.schema.is_soft and not self.oracle.by_group
        return 0.0 if tabled else SETTINGS.agreement_lam

    def solve(self, parity: Parity | None = None, start: Floats | None = None) -> FairLabels:
        """Solve for the bound asked for, or another of the same shape, from given prices on."""
        with workers(self.settings.threads), one_blas_thread(self.rows.entries):
            return self._solve(parity or self.parity, start)

    def _solve(self, parity: Parity, start: Floats | None) -> FairLabels:
        problem, settings = self.problem(parity), self.settings
        still = self._nothing_to_do(problem)
        table: Floats | None = None
        answers: Floats | None = None
        limits = Limits(settings.max_iter, settings.time_limit, settings.progress)
        if still is not None:
            outcome = Outcome(np.zeros((parity.n_groups, problem.n_outcomes)), 0.0, still)
        elif problem.lam == 0:
            outcome, answers, table = self._agree(problem, limits)
        else:
            slim = without_implied(parity)
            oracle = self.oracle.among(slim.places)
            outcome = solve(
                replace(problem, parity=slim.parity),
                oracle,
                samples=oracle.samples(),
                tol=settings.tol,
                limits=limits,
                start=None if start is None else start[slim.places],
            )
            outcome.prices = slim.whole(outcome.prices)
        proof = certify(
            problem,
            self.oracle,
            outcome.prices,
            self.before,
            unchanged=still is not None,
            answers=answers,
        )
        status = final_status(outcome, proof, settings.tol)
        warn_unsolved(status, outcome.residual)
        rule = Rule(
            self.schema,
            replace(self.families, members=parity.members),
            frozen(outcome.prices),
            problem.lam,
            still is not None,
            self.costs,
            table,
        )
        rows = None if self.dataset is None else MemoryRows(self.dataset)
        return FairLabels(rule, status, proof, outcome.residual, tuple(outcome.history), rows)

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
        if self.costs is None:
            return lam <= 1.0
        return lam <= float(self.costs[~np.eye(len(self.costs), dtype=bool)].min())

    def _nothing_to_do(self, problem: Problem) -> Status | None:
        if not self.keeps_labels:
            return None
        if all(m.n_groups == 1 and m.bound.fewest_groups > 1 for m in problem.parity.members):
            return Status.ONE_GROUP
        fair = problem.parity.violation(self.means_before) <= 1e-12  # rounding
        return Status.ALREADY_FAIR if fair else None

    @property
    def means_before(self) -> Floats:
        """Group means of the old labels."""
        return group_means(self.oracle, self.parity, self.before)

    def _agree(self, problem: Problem, limits: Limits) -> tuple[Outcome, Floats, Floats]:
        """Solve the linear programme of class labels.

        Its answer is a table of every cell's channel: prices prove it, and do not tell it.
        """
        slim = without_implied(problem.parity)
        found = most_agreement(replace(problem, parity=slim.parity), limits.time_limit)
        residual = 0.0 if found.status is Status.SOLVED else math.inf
        outcome = Outcome(slim.whole(found.prices), residual, found.status)
        labels = self.oracle.labels
        answers = labels if found.answers is None else found.answers
        shifts = problem.parity.shifts(outcome.prices)
        n_classes = shifts.shape[1]
        worth = (np.eye(n_classes) if self.costs is None else -self.costs) - shifts[:, None, :]
        best = worth >= worth.max(axis=2, keepdims=True) - 1e-9  # tied
        stays = np.einsum("jkk->jk", best)[:, :, None]
        # A row that does not occur gets a best response to the prices: it keeps its label where
        # that is one, and is split evenly where it is not.
        table = np.where(stays, np.eye(n_classes), best / best.sum(axis=2, keepdims=True))
        row, label = np.nonzero(labels)
        table[self.merged.cells[row], label] = answers[row]
        return outcome, answers, table


def warn_unsolved(status: Status, residual: float) -> None:
    """Warn of a run that did not end with a proven optimum."""
    if not status.ok:
        warn(NotSolvedWarning(f"{status.value}: residual {residual:.1e}. {status.advice}"))


def by_row(cells: Layout, n_rows: int) -> bool:
    """Whether rows count in groups of their own, not by cell.

    So they do with uncertain or continuous attributes, where few rows share a cell: a table of
    cells would be no shorter than the rows.
    """
    return not cells.is_categorical and n_rows <= 16 * cells.n_cells


ROWS = ("sensitive_features", "control_features", "sample_weight")


def task_of(y: Any, given: Mapping[str, Any]) -> Task:
    """Read a table, merge it and settle what is asked of it.

    Parameters
    ----------
    y : array-like
    given : mapping
        The keyword arguments of ``debias``.

    Raises
    ------
    ParameterError
        An option that ``debias`` does not have.
    """
    rows = {name: given[name] for name in ROWS if name in given}
    options = {name: value for name, value in given.items() if name not in ROWS}
    request, settings = request_and_settings(options)
    data = read(y, **rows, normalize=options.get("normalize", False), missing=request.missing)
    return Task.of(data, request, settings, options.get("costs"))


def refuse_scores(dataset: Dataset) -> None:
    """Refuse one column of scores, which reads as classes that occur once or twice each."""
    n_classes, n_rows = dataset.n_classes, dataset.size
    if not dataset.labels.is_soft and n_classes > 1000 and 4 * n_classes > n_rows:
        raise InputError(
            f"`y` has {n_classes:,} distinct values in {n_rows:,} rows, "
            "which is a class for every few rows.",
            remedy="If they are scores p of one class, pass two columns, 1 - p and p; "
            "if they are numbers, put them in bins first.",
            n_classes=n_classes,
            n_rows=n_rows,
        )
