"""Fair decisions from drawn scores: `debias(objective="agreement")` against LinearPost on the same scores, and against plain reads.

    python benchmarks/decisions.py --linearpost FOLDER          # 5,000 x 16 with HiGHS; a checkout
    of uiuctml/fair-classification python benchmarks/decisions.py --adult --linearpost FOLDER  # the
    scores of boosted trees on 5,000 rows of Adult, by sex python benchmarks/decisions.py
    # its linear programme, written anew and given to SciPy's HiGHS python benchmarks/decisions.py
    --reads --rows 1000000       # against one sum of the scores python benchmarks/decisions.py
    --rows 200 --classes 4 --cases 30 --criterion equalized_odds

Each case draws P(group, class | x) for every row: scores that are sharp, flat, or tied as those of
a small tree are, 2 to 8 groups that the features show more or less of, epsilon 0.001 to 0.1.
LinearPost calls it alpha, and gets no noise, so that both solve the same problem; its time is that
of its `fit`. Times are of the processor, on one thread, the least of `--repeats` calls (of the
other side as many as begin within five seconds); ratios are within one run. An answer counts where
it is as good: the difference of the optima is printed, and by how much each one's rows are above
epsilon.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

import r2b

# and LinearPost's names
CRITERIA = {"demographic_parity": "sp", "equal_opportunity": "eopp", "equalized_odds": "eo"}
SHAPES = ("sharp", "flat", "tied")
_PATIENCE = 5.0  # seconds after which no other call of the other side begins


@dataclass(frozen=True, eq=False)
class Case:
    """Chances of every group and class, for each row."""

    seed: int
    shape: str
    criterion: str
    epsilon: float
    joint: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """Chances of the classes."""
        return self.joint.sum(axis=1)

    def parts(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """What rows count in the groups of each comparison, and the classes that it compares."""
        every = np.arange(self.joint.shape[2])
        if self.criterion == "demographic_parity":
            return [(self.joint.sum(axis=2), every)]
        return [
            (self.joint[:, :, k], every if self.criterion == "equalized_odds" else every[[k]])
            for k in every
        ]


@dataclass(frozen=True)
class Answer:
    """What a method found: seconds, its optimum as expected accuracy, by how much its rows are above epsilon, and its status."""

    seconds: float
    accuracy: float
    above: float
    status: str


def drawn(seed: int, n_rows: int, n_classes: int, n_groups: int | None, criterion: str) -> Case:
    """Draw a case; the shape of its scores takes turns."""
    rng = np.random.default_rng([seed, n_rows, n_classes])
    shape, n_groups = (
        SHAPES[seed % len(SHAPES)],
        int(rng.integers(2, 9)) if n_groups is None else n_groups,
    )
    n_leaves = max(20, n_rows // 50) if shape == "tied" else n_rows
    leaning = 0.5 * rng.normal(size=(n_groups, n_classes))
    logits = leaning + (4.0 if shape == "sharp" else 1.0) * rng.normal(
        size=(n_leaves, 1, n_classes)
    )
    logits = logits + rng.uniform(0.3, 3.0) * rng.normal(size=(n_leaves, n_groups, 1))
    joint = np.exp(logits - logits.max(axis=(1, 2), keepdims=True))
    if shape == "tied":
        joint = joint[rng.integers(0, n_leaves, n_rows)]
    joint /= joint.sum(axis=(1, 2), keepdims=True)
    return Case(seed, shape, criterion, float(rng.choice([0.001, 0.01, 0.1])), joint)


def of_adult(seed: int, epsilon: float) -> Case:
    """Score 5,000 rows of Adult by boosted trees that 3,000 others trained: education and, from the same features, sex."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    table = r2b.datasets.load_adult(as_frame="pandas").dropna()
    X = table.drop(columns=["education", "education-num", "sex", "race", "fnlwgt"], errors="ignore")
    X = X.apply(
        lambda column: column if column.dtype.kind in "if" else column.astype("category").cat.codes
    )
    order = np.random.default_rng(seed).permutation(len(X))[:8_000]
    train, scored = order[:3_000], order[3_000:]
    found = []
    for name in ("sex", "education"):
        model = HistGradientBoostingClassifier(
            max_iter=40, max_leaf_nodes=15, early_stopping=False, random_state=0
        )
        found.append(
            model.fit(X.iloc[train], table[name].iloc[train]).predict_proba(X.iloc[scored])
        )
    return Case(
        seed, "Adult", "demographic_parity", epsilon, found[0][:, :, None] * found[1][:, None, :]
    )


def ours(case: Case, clock: Callable[[], float], threads: int | None) -> tuple[Answer, np.ndarray]:
    """Solve by prices."""
    sensitive, families = {}, []
    for place, (part, classes) in enumerate(case.parts()):
        bounds = np.full(case.joint.shape[2], np.inf)
        bounds[classes] = case.epsilon
        sensitive[str(place)] = r2b.Membership(part, partial=case.criterion != "demographic_parity")
        families.append(r2b.Family(str(place), epsilon=bounds))
    scores = case.scores
    # the status is printed, and small groups are drawn on purpose
    warnings.simplefilter("ignore", UserWarning)
    begun = clock()
    fair = r2b.debias(
        scores,
        sensitive_features=sensitive,
        families=families,
        objective="agreement",
        threads=threads,
    )
    seconds = clock() - begun
    rows = np.asarray(fair.soft_labels)
    return judged(case, rows, seconds, fair.status.value), rows


def linear_post(case: Case, clock: Callable[[], float], folder: Path) -> Answer:
    """Run LinearPost's own code, its linear programme solved by HiGHS."""
    spec = importlib.util.spec_from_file_location("postprocess", folder / "postprocess.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _, n_groups, n_classes = case.joint.shape
    begun = clock()
    method = module.PostProcessor(
        n_classes,
        n_groups,
        criterion=CRITERIA[case.criterion],
        alpha=case.epsilon,
        noise=0.0,
        seed=0,
    )
    method.fit(p_ay_x=case.joint, p_a_x=case.joint.sum(axis=2), p_y_x=case.scores, solver="HIGHS")
    return judged(case, np.asarray(method.pi_), clock() - begun)


def stand_in(case: Case, clock: Callable[[], float]) -> Answer:
    """Solve the same linear programme over rows x classes by SciPy's HiGHS."""
    scores = case.scores
    n, n_classes = scores.shape
    begun = clock()
    means, levels = [], []
    for part, classes in case.parts():
        chosen = sparse.eye_array(n_classes, format="csr")[classes]
        means.append(sparse.kron(sparse.csr_array((part / part.sum(axis=0)).T), chosen))
        levels.append(sparse.kron(np.ones((part.shape[1], 1)), sparse.eye_array(len(classes))))
    mean, level = sparse.vstack(means), sparse.block_diag(levels)
    whole = sparse.hstack(
        [
            sparse.kron(sparse.eye_array(n), np.ones((1, n_classes))),
            sparse.csr_array((n, level.shape[1])),
        ]
    )
    found = linprog(
        np.append(-scores.ravel() / n, np.zeros(level.shape[1])),
        A_ub=sparse.vstack([sparse.hstack([mean, -level]), sparse.hstack([-mean, level])]),
        b_ub=np.full(2 * mean.shape[0], case.epsilon / 2),
        A_eq=whole,
        b_eq=np.ones(n),
        bounds=(0, None),
        method="highs",
    )
    return judged(case, found.x[: n * n_classes].reshape(n, n_classes), clock() - begun)


def judged(case: Case, rows: np.ndarray, seconds: float, status: str = "solved") -> Answer:
    """Score rows by the definition."""
    above = 0.0
    for part, classes in case.parts():
        means = (part / part.sum(axis=0)).T @ rows[:, classes]
        above = max(above, float(np.ptp(means, axis=0).max()) - case.epsilon)
    return Answer(seconds, float((rows * case.scores).sum(axis=1).mean()), above, status)


def least(call: Callable[[], Answer], repeats: int, patience: float = np.inf) -> Answer:
    """Give the fastest of some calls; none begins after so many seconds."""
    answers, begun = [call()], time.perf_counter()
    while len(answers) < repeats and time.perf_counter() - begun + answers[0].seconds < patience:
        answers.append(call())
    return min(answers, key=lambda answer: answer.seconds)


def report(
    case: Case, options: argparse.Namespace, clock: Callable[[], float], threads: int | None
) -> dict[str, Any]:
    """Solve one case both ways and print a line."""
    rows = ours(case, clock, threads)[1]
    mine = least(lambda: ours(case, clock, threads)[0], options.repeats)
    n, n_groups, n_classes = case.joint.shape
    line: dict[str, Any] = {
        "seed": case.seed,
        "shape": case.shape,
        "rows": n,
        "classes": n_classes,
        "groups": n_groups,
    }
    line |= {
        "criterion": case.criterion,
        "epsilon": case.epsilon,
        "ours": asdict(mine),
        "split": int((rows.max(axis=1) < 1 - 1e-9).sum()),
    }
    name = f"seed {case.seed} {case.criterion} {case.shape} {n:,} x {n_classes}, {n_groups} groups, epsilon {case.epsilon}"
    if options.reads:
        scores, read = case.scores, np.inf
        for _ in range(5):
            begun = clock()
            scores.sum()
            read = min(read, clock() - begun)
        line |= {"read": read, "ratio": mine.seconds / read}
        print(
            f"{name}: {mine.status}, {mine.seconds:.2f} s, {line['ratio']:.0f} plain reads",
            flush=True,
        )
        return line
    solve = (
        stand_in if options.linearpost is None else partial(linear_post, folder=options.linearpost)
    )
    other = least(lambda: solve(case, clock), options.repeats, _PATIENCE)
    line |= {
        "other": asdict(other),
        "ratio": other.seconds / mine.seconds,
        "apart": mine.accuracy - other.accuracy,
    }
    detail = f"accuracy {mine.accuracy:.6f}, {line['apart']:+.0e} beside it; above epsilon {mine.above:.0e} and {other.above:.0e}"
    print(
        f"{name}: {mine.status}, {mine.seconds:.3f} s against {other.seconds:.2f} s, {line['ratio']:.0f} times; {detail}",
        flush=True,
    )
    return line


def main() -> None:
    """Draw cases, solve them, print the worst ratio beside the best."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first case; the others follow")
    parser.add_argument("--cases", type=int, default=3)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--classes", type=int, default=16)
    parser.add_argument("--groups", type=int, help="drawn from 2 to 8 where left out")
    parser.add_argument("--criterion", choices=tuple(CRITERIA), default="demographic_parity")
    parser.add_argument(
        "--adult",
        action="store_true",
        help="scores of Adult instead of drawn ones, at four epsilons for each case",
    )
    parser.add_argument(
        "--linearpost",
        type=Path,
        help="folder with LinearPost's postprocess.py; SciPy's HiGHS stands in without it",
    )
    parser.add_argument(
        "--reads", action="store_true", help="compare with one sum of the scores instead"
    )
    parser.add_argument("--wall", action="store_true", help="time by the wall, on all cores")
    parser.add_argument("--repeats", type=int, default=5, help="calls of which the fastest counts")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    clock, threads = (time.perf_counter, None) if options.wall else (time.process_time, 1)
    # Compiles, or loads what is compiled: short scores are solved without.
    ours(drawn(0, 5_000, options.classes, options.groups, options.criterion), clock, threads)
    every = range(options.seed, options.seed + options.cases)
    if options.adult:
        cases = [of_adult(seed, epsilon) for seed in every for epsilon in (0.0, 0.001, 0.01, 0.05)]
    else:
        cases = [
            drawn(seed, options.rows, options.classes, options.groups, options.criterion)
            for seed in every
        ]
    lines = [report(case, options, clock, threads) for case in cases]
    ratios = sorted(line["ratio"] for line in lines)
    against = (
        "plain reads"
        if options.reads
        else "SciPy's HiGHS"
        if options.linearpost is None
        else "LinearPost"
    )
    worst, best = (ratios[-1], ratios[0]) if options.reads else (ratios[0], ratios[-1])
    summary: dict[str, Any] = {
        "against": against,
        "worst": worst,
        "median": float(np.median(ratios)),
        "best": best,
    }
    apart = (
        ""
        if options.reads
        else f"; accuracies at most {max(abs(line['apart']) for line in lines):.0e} apart"
    )
    solved = sum(line["ours"]["status"] == "solved" for line in lines)
    print(
        f"{len(lines)} cases, {solved} solved, {against}: worst {worst:.1f}, median {summary['median']:.1f}, best {best:.1f}{apart}"
    )
    if options.json is not None:
        options.json.write_text(json.dumps({**summary, "cases": lines}, indent=1))


if __name__ == "__main__":
    main()
