"""The experiments from the command line: ``python -m experiments NAME [--quick]``, ``all`` for every one, ``page`` for the page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from experiments import MODULES, Progress, find, reproduce, within_reach
from experiments.journal import read_results, results_path
from experiments.report import draw_png, page_of, write_files
from r2b.errors import R2BError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; 0 if all of it worked."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description="Rerun an experiment of the paper."
    )
    parser.add_argument(
        "name",
        choices=[*MODULES, "all", "page"],
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
    parser.add_argument(
        "--png",
        action="store_true",
        help="also draw the figures as PNG, by a Chromium that is installed",
    )
    asked = parser.parse_args(arguments)
    if asked.name == "page":
        return _page(Path(asked.output or "results"), png=asked.png)
    folder = Path(asked.output) if asked.output else Path("results", "quick" if asked.quick else "")
    names, left_out = within_reach(asked.data) if asked.name == "all" else ([asked.name], [])
    if left_out:
        print(
            f"Left out, since they need --data or R2B_DATA: {', '.join(left_out)}", file=sys.stderr
        )
    for name in names:
        try:
            seeds = None if asked.seeds is None else range(asked.seeds)
            choices = {
                "quick": asked.quick,
                "output": folder,
                "data": asked.data,
                "seeds": seeds,
                "jobs": asked.jobs,
            }
            reproduce(name, **choices, resume=not asked.restart, progress=_tell)
        except R2BError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        if asked.png:
            _draw(folder.glob(f"{name}-*.svg"))
    print(f"Results: {folder.resolve()}")
    return 0


def _page(results: Path, *, png: bool) -> int:
    """Write the tables and figures of every results file, and docs/reproduction.md where there is such a folder."""
    for name in MODULES:
        if results_path(results, name).exists():
            experiment = find(name)
            written = write_files(experiment, read_results(results_path(results, name)), results)
            if png:
                _draw(path for path in written if path.suffix == ".svg")
    if Path("docs").is_dir():
        Path("docs", "reproduction.md").write_text(page_of(results), encoding="utf-8")
    return 0


def _draw(drawings: Iterable[Path]) -> None:
    if None in [draw_png(path) for path in drawings]:
        print("No Chromium or Chrome was found: figures stay SVG.", file=sys.stderr)


def _tell(progress: Progress) -> None:
    # A terminal sees one line that changes, a log only the milestones.
    milestone = (
        progress.done == progress.total
        or progress.left is None
        or progress.done % max(1, progress.total // 20) == 0
    )
    if sys.stderr.isatty():
        print(
            f"\r{progress}   ",
            end="\n" if progress.done == progress.total else "",
            file=sys.stderr,
            flush=True,
        )
    elif milestone:
        print(progress, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
