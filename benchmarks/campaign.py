"""Solve problems nobody chose and judge the answers by separate arithmetic: ``python benchmarks/campaign.py --seed 1 --count 1000``.

Every problem follows from the seed and its number (``campaign_draws.py``) and is judged without the
package's certificate (``campaign_judge.py``). Counted are answers that are wrong (called solved and
not so, called infeasible although one label for all rows meets every bound drawn here, or an
error), short (another status), and slow (more than 20 seconds of processor time, or killed at the
limit). The JSON has the draws of everything that is not clean, and ``--replay 17,99`` solves some
again; ``--join one.json other.json`` puts stretches of a campaign that ran apart into one. Needs
NumPy beside r2b; numba where it is installed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

LATEST = Path(__file__).resolve().parent / "results" / "campaign.json"
SLOW = 20.0  # seconds of processor time
COUNTED = ("problems", "clean", "wrong", "short", "slow")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def solve(seed: int, number: int) -> dict[str, Any]:
    """Draw a problem, solve and judge it; give what was drawn and what came out."""
    from campaign_draws import draw
    from campaign_judge import clean, judge

    import r2b

    problem = draw(seed, number)
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fair = r2b.debias(**problem.arguments, threads=1)
    except Exception:  # whatever it is, the campaign counts it and goes on
        return {
            **problem.facts,
            "verdict": "wrong",
            "status": "error",
            "fault": traceback.format_exc(limit=-3),
        }
    seconds = time.process_time() - begun
    found = judge(problem, fair.soft_labels, fair.prices, [str(name) for name in fair.groups])
    if fair.status.ok:
        verdict = "wrong" if not clean(found) else "slow" if seconds > SLOW else "clean"
    else:
        verdict = "wrong" if fair.status.value == "infeasible" else "short"
    return {
        **problem.facts,
        "verdict": verdict,
        "status": fair.status.value,
        "seconds": seconds,
        "steps": len(fair.history),
        **found,
    }


def compile_kernels() -> None:
    """Solve a table of each kind, so that no problem's time is that of a compiler."""
    import numpy as np

    import r2b

    rng = np.random.default_rng(0)
    labels, groups = rng.integers(0, 150, 3000), rng.integers(0, 25, 3000)
    soft, parts = rng.dirichlet(np.full(60, 0.3), 1000), rng.dirichlet(np.full(5, 0.5), 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for lam in (0.5, 1.0):
            r2b.debias(labels, sensitive_features=groups, lam=lam, epsilon=1e-3, threads=1)
            r2b.debias(soft, sensitive_features=groups[:1000] % 5, lam=lam, threads=1)
            r2b.debias(soft, sensitive_features=r2b.Membership(parts), lam=lam, threads=1)


def work(orders: Connection, seed: int) -> None:
    """Solve problem after problem, as they are asked for; the first answer says that the imports are done and kernels compiled."""
    import r2b

    compile_kernels()
    orders.send(r2b.__version__)
    while (number := orders.recv()) is not None:
        orders.send(solve(seed, number))


class Worker:
    """A process that solves one problem at a time, and its end of the line."""

    def __init__(self, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, seed), daemon=True)
        self.process.start()
        theirs.close()
        self.number: int | None = None
        self.since = time.monotonic()

    def give(self, number: int | None) -> None:
        """Ask for a problem, or say that there are no more."""
        self.number, self.since = number, time.monotonic()
        self.line.send(number)

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.join()
        self.line.close()


def run(
    seed: int, numbers: Iterable[int], processes: int, limit: float
) -> Iterator[dict[str, Any]]:
    """Give the outcome of every problem as it comes; one that does not end within the limit, or whose process dies, is counted as such."""
    left = iter(numbers)
    workers = [Worker(seed) for _ in range(processes)]
    while workers:
        ready = set(wait([worker.line for worker in workers], timeout=min(1.0, limit)))
        for place, worker in reversed(list(enumerate(workers))):
            fault = None
            if worker.line in ready:
                try:
                    told = worker.line.recv()
                except EOFError:
                    fault = "the process died"
                else:
                    if worker.number is not None:
                        yield told
                    worker.give(next(left, None))
                    if worker.number is None:
                        worker.process.join()
                        del workers[place]
            elif worker.number is not None and time.monotonic() - worker.since > limit:
                fault = f"no answer within {limit:g} s"
            if fault is not None:
                if worker.number is None:
                    raise SystemExit("A process died before its first problem: is r2b importable?")
                yield _unanswered(seed, worker.number, fault)
                worker.kill()
                workers[place] = Worker(seed)


def _unanswered(seed: int, number: int, fault: str) -> dict[str, Any]:
    from campaign_draws import draw

    return {
        **draw(seed, number).facts,
        "verdict": "slow" if "within" in fault else "wrong",
        "status": "killed",
        "fault": fault,
    }


def summary(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """Count verdicts and, of what fell short, statuses."""
    counts = Counter(one["verdict"] for one in outcomes)
    seconds = sorted(one["seconds"] for one in outcomes if "seconds" in one)
    return {
        "problems": len(outcomes),
        **{verdict: counts[verdict] for verdict in ("clean", "wrong", "short", "slow")},
        "short_by_status": dict(
            Counter(one["status"] for one in outcomes if one["verdict"] == "short")
        ),
        "median_seconds": seconds[len(seconds) // 2] if seconds else None,
        "longest_seconds": seconds[-1] if seconds else None,
    }


def joined(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Add up stretches of a campaign: other seeds, or other numbers of the same.

    Raises
    ------
    SystemExit
        Two of them have problems in common.
    """
    spans = sorted((one["seed"], one["first"], one["first"] + one["problems"]) for one in reports)
    for (seed, _, end), (other, first, _) in itertools.pairwise(spans):
        if seed == other and first < end:
            raise SystemExit(
                f"Two of these have problem {first} of seed {seed}: give each stretch once."
            )
    unclean = [one for report in reports for one in report["not_clean"]]
    runs = [
        {name: value for name, value in report.items() if name not in ("format", "not_clean")}
        for report in reports
    ]
    total = {name: sum(report[name] for report in reports) for name in COUNTED}
    return {
        "format": 1,
        **total,
        "longest_seconds": max(one["longest_seconds"] for one in reports),
        "not_clean": unclean,
        "runs": runs,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign; the exit status is 1 where an answer was wrong."""
    options = _options(arguments)
    if options.join:
        whole = joined([json.loads(path.read_text(encoding="utf-8")) for path in options.join])
        options.output.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        print(json.dumps({name: whole[name] for name in COUNTED}))
        return 1 if whole["wrong"] else 0
    for name in ONE_THREAD:  # before the processes start: each has a core of its own
        os.environ[name] = "1"
    numbers = options.replay or range(options.first, options.first + options.count)
    outcomes: list[dict[str, Any]] = []
    begun = told = time.monotonic()
    for outcome in run(options.seed, numbers, min(options.processes, len(numbers)), options.limit):
        outcomes.append(outcome)
        if outcome["verdict"] != "clean" or options.replay:
            print(json.dumps(outcome), flush=True)
        if time.monotonic() - told > 30 or len(outcomes) == len(numbers):
            told = time.monotonic()
            print(
                f"{len(outcomes):,} of {len(numbers):,} in {told - begun:.0f} s",
                file=sys.stderr,
                flush=True,
            )
            _write(options, outcomes)
    print(json.dumps(summary(outcomes), indent=1))
    return 1 if any(one["verdict"] == "wrong" for one in outcomes) else 0


def _write(options: argparse.Namespace, outcomes: list[dict[str, Any]]) -> None:
    if options.replay and options.output == LATEST:
        return  # some problems solved again are no campaign
    unclean = sorted(
        (one for one in outcomes if one["verdict"] != "clean"), key=lambda one: int(one["number"])
    )
    report = {
        "format": 1,
        "seed": options.seed,
        "first": options.first,
        **summary(outcomes),
        "not_clean": unclean,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000, help="how many problems")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        help="seconds after which a problem's process is killed",
    )
    parser.add_argument(
        "--replay",
        type=lambda text: [int(part) for part in text.split(",")],
        help="numbers to solve again: 17,99",
    )
    parser.add_argument(
        "--join", type=Path, nargs="+", help="reports to put into one, instead of solving anything"
    )
    parser.add_argument("--output", type=Path, default=LATEST, help="where the JSON goes")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
