"""Time r2b beside a yardstick, or beside another version of itself.

    python benchmarks/run.py [--only TEXT] [--output FILE]   # each case and its yardstick, in turn
    python benchmarks/run.py --against FOLDER                # and the package in FOLDER (its src)

Machines differ and are shared, so nothing is judged by seconds alone: every ratio is taken within
one run, calls in turn, the least time of each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, TextIO

from cases import CASES, Case
from measure import environment, least_times

LATEST = Path(__file__).resolve().parent / "results" / "latest.json"


def beside_yardstick(case: Case, repeats: int) -> dict[str, Any]:
    """Time a case and its yardstick."""
    ours, name, other = case.make()
    best = least_times(
        {"ours": ours} | ({} if other is None else {"other": other}), repeats=repeats
    )
    return {"case": case.name, "yardstick": name, **best}


def beside_version(case: Case, folder: Path, repeats: int) -> dict[str, Any]:
    """Time a case with this package and with another version, each in a process of its own."""
    best: dict[str, float] = {}
    sources = {"ours": Path(__file__).resolve().parents[1] / "src", "other": folder}
    for _ in range(2):  # in turn, so that a busy machine hits both
        for name, source in sources.items():
            command = [sys.executable, __file__, "--worker", case.name, "--repeats", str(repeats)]
            done = subprocess.run(
                command,
                env={**os.environ, "PYTHONPATH": str(source)},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                print(done.stderr.splitlines()[-1], file=sys.stderr)
                continue
            best[name] = min(best.get(name, float("inf")), json.loads(done.stdout)["ours"])
    return {"case": case.name, "yardstick": str(folder), **best}


def line(found: dict[str, Any], most: float | None) -> str:
    """Return one line of the table."""
    ours, other = found.get("ours"), found.get("other")
    cells = [f"{found['case']:52}", "-".rjust(11) if ours is None else f"{1000 * ours:8.1f} ms"]
    if ours is not None and other is not None:
        verdict = (
            ""
            if most is None
            else f" (at most {most:g}: {'yes' if found['ratio'] <= most else 'NO'})"
        )
        cells.append(
            f"{1000 * other:10.1f} ms  {found['ratio']:8.3g}{verdict}  {found['yardstick']}"
        )
    return "  ".join(cells)


def main(arguments: list[str] | None = None) -> int:
    """Run the cases asked for; the exit status is 1 where a bound was missed and ``--check``
    given.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="the cases whose names contain this")
    parser.add_argument("--against", type=Path, help="the src folder of another version")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bound is missed")
    parser.add_argument("--output", type=Path, default=LATEST)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", UserWarning)
    if options.worker:
        (case,) = (each for each in CASES if each.name == options.worker)
        call = case.make()[0]
        json.dump(least_times({"ours": call}, repeats=options.repeats), sys.stdout)
        return 0
    facts = environment()
    print(f"Python {facts['python']}, {facts['cores']} cores; ours, other, ratio ours / other")
    results = []
    for case in CASES:
        if options.only.lower() not in case.name.lower():
            continue
        if options.against:
            found, most = beside_version(case, options.against.resolve(), options.repeats), None
        else:
            found, most = beside_yardstick(case, options.repeats), case.most
        if "ours" in found and "other" in found:
            found["ratio"] = found["ours"] / found["other"]
            found["holds"] = None if most is None else found["ratio"] <= most
        results.append(found)
        _show(line(found, most), sys.stdout)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(
        json.dumps({"environment": facts, "results": results}, indent=1) + "\n"
    )
    missed = [found["case"] for found in results if found.get("holds") is False]
    print(f"Bounds missed: {', '.join(missed)}" if missed else "All bounds hold.")
    return 1 if missed and options.check else 0


def _show(text: str, stream: TextIO) -> None:
    stream.write(text + "\n")
    stream.flush()


if __name__ == "__main__":
    raise SystemExit(main())
