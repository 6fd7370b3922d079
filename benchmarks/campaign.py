"""Solve drawn problems and judge the answers.

    python benchmarks/campaign.py --seed 1 --count 1000

Every problem follows from the seed and its number (``campaign_draws.py``) and is judged without the
package's certificate (``campaign_judge.py``). Counted are answers that are wrong (called solved and
not so, called infeasible although one label for all rows meets every bound drawn here, or an
error), short (another status), and slow (more than 20 seconds of processor time). The JSON has the
draws of everything that is not clean, and ``--replay 17,99`` solves some again.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

LATEST = Path(__file__).resolve().parent / "results" / "campaign.json"
SLOW = 20.0  # seconds of processor time
LIMIT = 120.0  # seconds after which a solve is told to stop
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def solve(number: int, *, seed: int) -> dict[str, Any]:
    """Draw a problem, solve and judge it; return what was drawn and what came out."""
    from campaign_draws import draw
    from campaign_judge import clean, judge

    import r2b

    problem = draw(seed, number)
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fair = r2b.debias(**problem.arguments, threads=1, time_limit=LIMIT)
    except Exception:  # whatever it is, the campaign counts it and goes on
        fault = traceback.format_exc(limit=-3)
        return {**problem.facts, "verdict": "wrong", "status": "error", "fault": fault}
    seconds = time.process_time() - begun
    found = judge(problem, fair.soft_labels, fair.prices, [str(name) for name in fair.groups])
    if fair.status.ok:
        verdict = "wrong" if not clean(found) else "slow" if seconds > SLOW else "clean"
    else:
        verdict = "wrong" if fair.status.value == "infeasible" else "short"
    facts = {"verdict": verdict, "status": fair.status.value, "seconds": seconds}
    return {**problem.facts, **facts, "steps": len(fair.history), **found}


def summary(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """Count verdicts and, of what fell short, statuses."""
    counts = Counter(one["verdict"] for one in outcomes)
    seconds = sorted(one["seconds"] for one in outcomes if "seconds" in one)
    short = Counter(one["status"] for one in outcomes if one["verdict"] == "short")
    return {
        "problems": len(outcomes),
        **{verdict: counts[verdict] for verdict in ("clean", "wrong", "short", "slow")},
        "short_by_status": dict(short),
        "median_seconds": seconds[len(seconds) // 2] if seconds else None,
        "longest_seconds": seconds[-1] if seconds else None,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign; the exit status is 1 where an answer was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000, help="how many problems")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--replay", help="numbers to solve again: 17,99")
    parser.add_argument("--output", type=Path, default=LATEST, help="where the JSON goes")
    options = parser.parse_args(arguments)
    for name in ONE_THREAD:  # before the processes start: each has a core of its own
        os.environ[name] = "1"
    numbers = list(range(options.first, options.first + options.count))
    if options.replay:
        numbers = [int(part) for part in options.replay.split(",")]
    outcomes = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        work = functools.partial(solve, seed=options.seed)
        for outcome in pool.imap_unordered(work, numbers):
            outcomes.append(outcome)
            if outcome["verdict"] != "clean" or options.replay:
                print(json.dumps(outcome), flush=True)
            if len(outcomes) % 500 == 0:
                print(f"{len(outcomes):,} of {len(numbers):,}", file=sys.stderr, flush=True)
    counts = summary(outcomes)
    if not options.replay:
        unclean = [one for one in outcomes if one["verdict"] != "clean"]
        report = {"format": 1, "seed": options.seed, "first": options.first, **counts}
        report["not_clean"] = sorted(unclean, key=lambda one: int(one["number"]))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(counts, indent=1))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
