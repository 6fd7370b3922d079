"""Measure what the project promises: ``python benchmarks/run.py [--only adult,soft,drawn] [--seed 0] [--quick] [--output FILE]``.

Prints a table of ratios, each taken side by side in this run, and writes the figures behind it as
JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from cases import CASES, Effort, Result
from measure import environment

LATEST = Path(__file__).resolve().parent / "results" / "latest.json"
WIDTHS = (76, 11, 11, 11, 18, 6)
HEADINGS = ("compared, as the ratio is taken", "ours", "other", "ratio", "required", "holds")


def main(arguments: list[str] | None = None) -> int:
    """Run the cases asked for; with ``--check`` the exit status is 1 where a bound was missed."""
    options = _options(arguments)
    effort = Effort(quick=options.quick, seed=options.seed)
    results: list[Result] = []
    begun = time.perf_counter()
    facts = environment()
    used = ", ".join(f"{name} {version}" for name, version in facts["versions"].items() if version)
    print(f"Python {facts['python']}, {facts['cores']} cores; {used}")
    if effort.quick:
        print("Quick: smaller tables and fewer repeats; the bounds are meant for the full run.")
    for name in options.only:
        print(f"\n{CASES[name].__doc__}")
        print(_line(HEADINGS))
        for result in CASES[name](effort):
            results.append(result)
            print(_line(_cells(result)))
            if result.note:
                print(f"    {result.note}")
            sys.stdout.flush()
    seconds = time.perf_counter() - begun
    report = {
        "format": 1,
        "quick": effort.quick,
        "seed": effort.seed,
        "seconds": seconds,
        "environment": facts,
    }
    report["results"] = [one.to_json() for one in results]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    missed = [one.compared for one in results if one.holds is False]
    print(
        f"\n{len(results)} comparisons in {seconds:.0f} s. "
        + (f"Bounds missed: {'; '.join(missed)}." if missed else "All bounds hold.")
    )
    return 1 if missed and options.check else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--only", type=_names, default=list(CASES), metavar=",".join(CASES), help="the cases to run"
    )
    parser.add_argument("--quick", action="store_true", help="smaller tables, under a minute")
    parser.add_argument("--seed", type=int, default=0, help="of the tables that are drawn")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bound is missed")
    parser.add_argument("--output", type=Path, default=LATEST, help="where the JSON goes")
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in CASES]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"no such case: {', '.join(unknown) or 'none given'}; there are {', '.join(CASES)}"
        )
    return names


def _cells(result: Result) -> tuple[str, ...]:
    holds = "" if result.holds is None else "yes" if result.holds else "NO"
    ratio = (
        "-"
        if result.ratio is None
        else f"{result.ratio:,.0f}"
        if result.ratio >= 1000
        else f"{result.ratio:.3g}"
    )
    return (
        result.compared,
        _amount(result.ours, result.unit),
        _amount(result.other, result.unit),
        ratio,
        result.required,
        holds,
    )


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "s" and value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:,.4g} {unit}".strip() if value < 1000 else f"{value:,.0f} {unit}"


def _line(cells: tuple[str, ...]) -> str:
    first, *others = zip(cells, WIDTHS, strict=True)
    return "  " + first[0].ljust(first[1]) + "".join(cell.rjust(width) for cell, width in others)


if __name__ == "__main__":
    raise SystemExit(main())
