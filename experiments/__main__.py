"""The experiments from the command line: ``python -m experiments NAME [--quick]``; all; page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments import NAMES, Progress, reproduce, within_reach
from experiments.report import write_page
from r2b.errors import R2BError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; 0 if all of it worked."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description="Rerun an experiment of the paper."
    )
    parser.add_argument(
        "name",
        choices=[*NAMES, "all", "page"],
        help="the experiment, all of them, or the page from results that are there",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a small setting that takes seconds; it is not compared with the paper",
    )
    parser.add_argument("--output", help="folder for results (default: results, or results/quick)")
    parser.add_argument("--data", help="where the experiment's data is")
    parser.add_argument("--seeds", type=int, help="how many seeds instead of the experiment's own")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default 2)")
    parser.add_argument("--restart", action="store_true", help="do finished runs again")
    asked = parser.parse_args(arguments)
    if asked.name == "page":
        write_page(Path(asked.output or "results"))
        return 0
    folder = Path(asked.output or Path("results", "quick" if asked.quick else ""))
    names, left_out = within_reach(asked.data) if asked.name == "all" else ([asked.name], [])
    if left_out:
        print(
            f"Left out, since they need --data or R2B_DATA: {', '.join(left_out)}", file=sys.stderr
        )
    for name in names:
        try:
            reproduce(
                name,
                quick=asked.quick,
                output=folder,
                data=asked.data,
                seeds=None if asked.seeds is None else range(asked.seeds),
                jobs=asked.jobs,
                resume=not asked.restart,
                progress=_tell,
            )
        except R2BError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    print(f"Results: {folder.resolve()}")
    return 0


def _tell(progress: Progress) -> None:
    # A terminal sees one line that changes, a log only the milestones.
    last = progress.done == progress.total
    if sys.stderr.isatty():
        print(f"\r{progress}   ", end="\n" if last else "", file=sys.stderr, flush=True)
    elif last or progress.left is None or progress.done % max(1, progress.total // 20) == 0:
        print(progress, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
