"""The front door: labels and sensitive attributes in, certified fair labels out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from r2b.certificate import certify
from r2b.errors import InputError, NotSolvedWarning, ParameterError
from r2b.inputs import Dataset, read
from r2b.merge import MergeChoice, merge
from r2b.oracle import MemoryOracle
from r2b.oracle.memory import KernelChoice
from r2b.parity import RangeBound
from r2b.problem import Problem
from r2b.solution import FairLabels
from r2b.solvers import Limits, Outcome, Progress, Status, solve

_ROUNDING = 1e-12
_MOST_PLAUSIBLE = 1000


def debias(
    y: Any,
    *,
    sensitive_features: Any,
    epsilon: float | ArrayLike | Mapping[Any, float] = 0.0,
    sample_weight: Any = None,
    lam: float = 1.0,
    normalize: bool = False,
    tol: float = 1e-10,
    max_iter: int = 1000,
    time_limit: float | None = None,
    progress: Callable[[Progress], object] | None = None,
    merge_rows: MergeChoice = "auto",
    kernel: KernelChoice = "auto",
    threads: int | None = None,
) -> FairLabels:
    """Find the closest labels whose group means differ by at most epsilon in every class.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L)
        Classes, or probabilities over L classes: NumPy, lists, pandas, Polars, pyarrow.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        One attribute or several, which are crossed: a column, a frame, a dictionary of columns.
    epsilon : float, array-like of shape (L,) or mapping
        Largest accepted difference between the means of two groups, for all classes or one per class (in order, or by class name).
    sample_weight : array-like of shape (N,), optional
    lam : float
        1 is the squared distance to the labels. Smaller values change fewer labels; larger ones flatten every row towards the uniform
        distribution, fair or not.
    normalize : bool
        Divide rows of probabilities by their sums, on a copy.
    tol : float
        Residual, in units of group means, below which the problem is solved.
    max_iter : int
    time_limit : float, optional
        Seconds.
    progress : callable, optional
        Called with a ``Progress`` at every step; returning False stops the run.
    merge_rows : {"auto", "always", "never"}
        Whether equal rows of probabilities are merged first. The answer is the same.
    kernel : {"auto", "numpy", "compiled"}
        Who walks the rows. The answer is the same.
    threads : int, optional
        All cores by default. The answer is the same.

    Returns
    -------
    FairLabels
        Labels in every form, prices, status and certificate. A run that does not reach ``tol`` says so in its status and with a
        ``NotSolvedWarning``.

    Raises
    ------
    InputError
        The data cannot be used as they are: the message names column, row and value.
    ParameterError
        An argument lies outside its range.

    Examples
    --------
    >>> fair = debias(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], epsilon=0.01)
    >>> fair.status.value
    'already fair'
    """
    _check_settings(tol, max_iter, time_limit, threads, merge_rows, kernel)
    dataset = read(y, sensitive_features=sensitive_features, sample_weight=sample_weight, normalize=normalize)
    _refuse_scores(dataset)
    bound = RangeBound.of(epsilon, dataset.n_classes, dataset.labels.vocabulary.values.tolist())
    problem = Problem(merge(dataset, merge_rows), bound, float(lam) if isinstance(lam, (int, float, np.number)) else lam)
    oracle = MemoryOracle(problem.rows, kernel, threads)
    before = oracle.label_means()
    still = _nothing_to_do(problem, dataset, before)
    if still is None:
        outcome = solve(problem, oracle, samples=oracle.samples(), tol=tol, limits=Limits(max_iter, time_limit, progress))
    else:
        outcome = Outcome(np.zeros_like(before), 0.0, still)
    unchanged = still is not None
    proof = certify(problem, oracle, outcome.prices, before, unchanged=unchanged)
    status = outcome.status
    if status is Status.SOLVED and not proof.holds:
        status = Status.NOT_CERTIFIED
    if not status.ok:
        warnings.warn(NotSolvedWarning(f"{status.value}: residual {outcome.residual:.1e}. {status.advice}"), stacklevel=2)
    return FairLabels(
        schema=dataset.schema,
        prices=_frozen(outcome.prices),
        lam=problem.lam,
        status=status,
        certificate=proof,
        residual=outcome.residual,
        history=tuple(outcome.history),
        unchanged=unchanged,
        dataset=dataset,
    )


def _refuse_scores(dataset: Dataset) -> None:
    # One column of scores reads as classes that occur once or twice each; solving for them would take groups x classes^2 numbers.
    n_classes, n_rows = dataset.n_classes, dataset.n_rows
    if not dataset.labels.is_soft and n_classes > _MOST_PLAUSIBLE and 4 * n_classes > n_rows:
        raise InputError(
            f"The argument y has {n_classes:,} distinct values in {n_rows:,} rows, which is a class for every few rows.",
            remedy="If they are scores p of one class, pass two columns, 1 - p and p; if they are numbers, put them in bins first.",
            n_classes=n_classes,
            n_rows=n_rows,
        )


def _nothing_to_do(problem: Problem, dataset: Dataset, before: np.ndarray[Any, np.dtype[np.float64]]) -> Status | None:
    # The old labels are their own optimum where the objective is the squared distance. For class labels a smaller lam only makes
    # agreement count for more; for probabilities another lam moves even labels that are fair.
    if not (problem.lam == 1.0 or (problem.lam < 1.0 and not dataset.labels.is_soft)):
        return None
    if problem.n_groups == 1:
        return Status.ONE_GROUP
    # Means are sums of many terms: a difference of exactly epsilon comes out a few rounding errors above or below it.
    return Status.ALREADY_FAIR if problem.bound.violation(before).max() <= _ROUNDING else None


def _check_settings(tol: object, max_iter: object, time_limit: object, threads: object, merge_rows: object, kernel: object) -> None:
    positive = "Pass a number above 0, or leave it out for the default."
    whole = "Pass a whole number, or leave it out for the default."
    checks = [
        ("tol", tol, isinstance(tol, Real) and 0 < float(tol) < math.inf, positive),
        ("max_iter", max_iter, isinstance(max_iter, Integral) and int(max_iter) >= 0, whole),
        ("time_limit", time_limit, time_limit is None or (isinstance(time_limit, Real) and float(time_limit) > 0), positive),
        ("threads", threads, threads is None or (isinstance(threads, Integral) and int(threads) >= 1), whole),
        ("merge_rows", merge_rows, merge_rows in get_args(MergeChoice), f"Pass one of {', '.join(map(repr, get_args(MergeChoice)))}."),
        ("kernel", kernel, kernel in get_args(KernelChoice), f"Pass one of {', '.join(map(repr, get_args(KernelChoice)))}."),
    ]
    for name, value, right, remedy in checks:
        if not right:
            raise ParameterError(f"{name} is {value!r}.", remedy=remedy, **{name: value})


def _frozen(array: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    array.flags.writeable = False
    return array
