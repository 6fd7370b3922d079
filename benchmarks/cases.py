"""The cases that are timed: each makes its table once and returns a call of the public interface.

A case may bring a yardstick, a call that is timed beside it in the same run: a plain read of the
same data, or another solver.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tables

import r2b

Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes
    ----------
    name : str
    make : callable
        Returns the call that is timed and, or None, the yardstick with its name.
    most : float or None
        The largest ratio to the yardstick that is accepted; None for information.
    """

    name: str
    make: Callable[[], tuple[Call, str, Call | None]]
    most: float | None = None


def debias_of(table: tables.Table, **options: Any) -> Call:
    """Return a call that debiases a table."""
    options = {"epsilon": 0.01, **options}
    return partial(r2b.debias, table.labels, sensitive_features=table.groups, **options)


def _classes(rows: int, n_classes: int, n_groups: int, **options: Any) -> Any:
    def make() -> tuple[Call, str, Call | None]:
        table = tables.classes(rows, n_classes, n_groups)
        joint = table.joint
        return debias_of(table, **options), "np.bincount", lambda: np.bincount(joint)

    return make


def _soft(rows: int, n_classes: int, dtype: str = "float64") -> Any:
    def make() -> tuple[Call, str, Call | None]:
        table = tables.soft(rows, n_classes, dtype=dtype)
        return debias_of(table), "one sum of the matrix", table.labels.sum

    return make


def _uncertain(rows: int, soft: bool) -> Any:
    def make() -> tuple[Call, str, Call | None]:
        rng = np.random.default_rng(0)
        features = rng.normal(size=(rows, 8))
        membership = _softmax(features @ rng.normal(size=(8, 2)))
        labels = _softmax(0.7 * features @ rng.normal(size=(8, 16)) + rng.normal(size=16))
        matrix = labels
        if not soft:
            labels = (labels.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=15)
            matrix = np.eye(16)[labels]
        groups = r2b.Membership(membership)
        call = partial(r2b.debias, labels, sensitive_features=groups, epsilon=0.0)
        return call, "one sum of labels and memberships", lambda: (matrix.sum(), membership.sum())

    return make


def _softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def _adult(**options: Any) -> Any:
    def make() -> tuple[Call, str, Call | None]:
        return debias_of(tables.adult(), **options), "", None

    return make


def _adult_text() -> tuple[Call, str, Call | None]:
    data = r2b.datasets.load_adult()
    education, sex = np.asarray(data["education"]), np.asarray(data["sex"])
    return partial(r2b.debias, education, sensitive_features=sex, epsilon=0.01), "", None


def _families() -> tuple[Call, str, Call | None]:
    data = r2b.datasets.load_adult()
    columns = {name: np.asarray(data[name]) for name in ("sex", "race", "relationship")}
    call = partial(
        r2b.debias,
        np.asarray(data["education"]),
        sensitive_features=columns,
        families="both",
        epsilon=0.01,
    )
    return call, "", None


def _rounded(rows: int) -> Any:
    def make() -> tuple[Call, str, Call | None]:
        table = tables.classes(rows, 16, 5)
        fair = debias_of(table)()
        return partial(fair.round, random_state=0), "", None

    return make


def _scan(suffix: str) -> Any:
    def make() -> tuple[Call, str, Call | None]:
        import pyarrow as pa
        from pyarrow import csv, parquet

        table = tables.classes(2_000_000, 16, 5)
        frame = pa.table({"label": table.labels, "group": table.groups})
        path = Path(tempfile.mkdtemp()) / f"table.{suffix}"
        if suffix == "csv":
            csv.write_csv(frame, path)
            read: Call = partial(csv.read_csv, path)
        else:
            parquet.write_table(frame, path)
            read = partial(parquet.read_table, path)

        def debias() -> Any:
            return r2b.scan(path).debias("label", sensitive_features="group", epsilon=0.01)

        return debias, "one read of the file by pyarrow", read

    return make


def _quadratic_programme(rows: int, solver: str) -> Any:
    """Compare with a general solver of quadratic programmes on the same rows, through CVXPY."""

    def make() -> tuple[Call, str, Call | None]:
        import cvxpy as cp

        table = tables.soft(rows, 16)
        labels, groups = table.labels, table.groups
        averages = np.eye(5)[groups] / np.bincount(groups)[groups, None]
        x, level = cp.Variable(labels.shape), cp.Variable((1, 16))
        means, ones = averages.T @ x, np.ones((5, 1))
        problem = cp.Problem(
            cp.Minimize(cp.sum_squares(x - labels)),
            [
                x >= 0,
                cp.sum(x, axis=1) == 1,
                means >= ones @ level,
                means <= ones @ level + 0.01,
            ],
        )

        def other() -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                problem.solve(solver=solver)

        return debias_of(table), f"{solver} through CVXPY", other

    return make


def _decisions() -> tuple[Call, str, Call | None]:
    """Compare fair decisions from 5,000 x 16 scores with LinearPost's programme, given to HiGHS."""
    from scipy import sparse
    from scipy.optimize import linprog

    rng = np.random.default_rng(0)
    n, n_classes, n_groups, epsilon = 5_000, 16, 2, 0.01
    features = rng.normal(size=(n, 8))
    part = _softmax(features @ rng.normal(size=(8, n_groups)))
    scores = _softmax(2.0 * features @ rng.normal(size=(8, n_classes)))
    means = sparse.kron(sparse.csr_array((part / part.sum(axis=0)).T), sparse.eye_array(n_classes))
    levels = sparse.kron(np.ones((n_groups, 1)), sparse.eye_array(n_classes))
    whole = sparse.hstack(
        [
            sparse.kron(sparse.eye_array(n), np.ones((1, n_classes))),
            sparse.csr_array((n, n_classes)),
        ]
    )
    other = partial(
        linprog,
        np.append(-scores.ravel() / n, np.zeros(n_classes)),
        A_ub=sparse.vstack([sparse.hstack([means, -levels]), sparse.hstack([-means, levels])]),
        b_ub=np.full(2 * n_groups * n_classes, epsilon / 2),
        A_eq=whole,
        b_eq=np.ones(n),
        bounds=(0, None),
        method="highs",
    )
    groups = r2b.Membership(part)
    ours = partial(
        r2b.debias, scores, sensitive_features=groups, epsilon=epsilon, objective="agreement"
    )
    return ours, "LinearPost's programme by HiGHS", other


CASES = [
    Case("Adult, education by sex, from text", _adult_text),
    *(
        Case(f"Adult, education by sex, {bound}", _adult(bound=bound, **more))
        for bound, more in {
            "range": {},
            "to_overall": {},
            "ratio": {"epsilon": 0.2},
            "target": {"target": "population"},
        }.items()
    ),
    Case("Adult, sex, race, relationship: each and crossed", _families),
    Case("10M class labels, 16 x 5", _classes(10_000_000, 16, 5), 4),
    Case("200k class labels, 100 x 20", _classes(200_000, 100, 20, epsilon=0.005)),
    Case("200k class labels, 100 x 20, lam .3", _classes(200_000, 100, 20, epsilon=0.005, lam=0.3)),
    Case("2M class labels, 1,000 x 10", _classes(2_000_000, 1_000, 10, epsilon=0.001)),
    Case("5M class labels, 5,000 x 2", _classes(5_000_000, 5_000, 2, epsilon=0.001)),
    Case("200k class labels, 16 x 2,000", _classes(200_000, 16, 2_000)),
    Case("narrow: 100 x 50, lam .3", _classes(200_000, 100, 50, epsilon=5e-4, lam=0.3)),
    Case("probabilities, 1M x 16", _soft(1_000_000, 16), 60),
    Case("probabilities, 200k x 80", _soft(200_000, 80), 60),
    Case("probabilities, 1M x 100, float32", _soft(1_000_000, 100, "float32"), 25),
    Case("uncertain groups, 1M x 16 x 2, classes", _uncertain(1_000_000, False), 60),
    Case("uncertain groups, 1M x 16 x 2, probabilities", _uncertain(1_000_000, True), 60),
    Case("fair decisions, 5,000 x 16", _decisions, 0.1),
    Case("round 10M class labels", _rounded(10_000_000)),
    Case("scan CSV, 2M rows", _scan("csv")),
    Case("scan Parquet, 2M rows", _scan("parquet")),
    Case("probabilities, 2,000 x 16, Clarabel", _quadratic_programme(2_000, "CLARABEL")),
    Case("probabilities, 2,000 x 16, OSQP", _quadratic_programme(2_000, "OSQP")),
]
