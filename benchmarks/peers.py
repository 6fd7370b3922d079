"""Compare with everyone else: ``python benchmarks/peers.py [--quick] [--only CASE,...] [--original FOLDER] [--holisticai PYTHON]``.

Each rival runs on each table in a process of its own, with a limit of time and of memory, and its
labels are scored by the same lines. Writes JSON, from which ``scripts/make_benchmark_page.py``
writes docs/benchmark.md. ``--device`` measures the GPU path alone, on a machine that has one, and
writes the figures that later runs merge in.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import peers_instructions
from measure import environment
from peers_cases import Case, all_cases
from peers_methods import OURS, Bench, Limits, Row

RESULTS = Path(__file__).resolve().parent / "results"
PEERS, DEVICE = RESULTS / "peers.json", RESULTS / "peers_device.json"
FORMAT = 1
GPU = "r2b, GPU"


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write JSON."""
    options = _options(arguments)
    begun = time.perf_counter()
    cases = [
        case for case in all_cases(options.quick) if not options.only or case.name in options.only
    ]
    # CUDA reserves more addresses than any machine has memory
    memory = None if options.device else options.memory * 1e9
    limits = Limits(
        options.seconds or (20.0 if options.quick else 30.0), memory, 0.3 if options.quick else 1.0
    )
    with tempfile.TemporaryDirectory(prefix="r2b-peers-") as folder:
        bench = Bench(limits, Path(folder), options.original, options.holisticai)
        measure = _device if options.device else _compared
        facts, results = measure(bench, cases)
    report: dict[str, Any] = {
        "format": FORMAT,
        "quick": options.quick,
        "environment": environment(),
        "limits": {"seconds": limits.seconds, "memory_bytes": limits.memory},
        "cases": facts,
        "results": results,
    }
    if options.device:
        report["device"] = _device_name()
    else:
        left_out = options.no_instructions or options.quick
        report["instructions"] = (
            [{"status": "not counted in this run"}] if left_out else peers_instructions.counted()
        )
        _print_instructions(report["instructions"])
    report["seconds"] = round(time.perf_counter() - begun, 1)
    output = options.output or (DEVICE if options.device else PEERS)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(_rounded(report), indent=1) + "\n", encoding="utf-8")
    print(f"\n{len(results)} figures in {report['seconds']:.0f} s")
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    names = [case.name for case in all_cases(quick=False)]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a few small tables, about a minute")
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        metavar="CASE,...",
        help=f"of {', '.join(names)}",
    )
    parser.add_argument(
        "--original",
        type=Path,
        metavar="FOLDER",
        help="the folder that holds ml_debiaser, the original implementation",
    )
    parser.add_argument(
        "--holisticai", metavar="PYTHON", help="an interpreter that has holisticai[bias]"
    )
    parser.add_argument("--seconds", type=float, help="limit of time of a process")
    parser.add_argument(
        "--memory", type=float, default=12.0, help="limit of memory of a process, in GB"
    )
    parser.add_argument(
        "--no-instructions",
        action="store_true",
        help="do not count instructions; a quick run never does",
    )
    parser.add_argument("--device", action="store_true", help="measure the GPU path alone")
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    return parser.parse_args(arguments)


def _compared(bench: Bench, cases: list[Case]) -> tuple[list[Row], list[Row]]:
    elsewhere = _from_device()
    all_facts, results = [], []
    for case in cases:
        facts = case.save(bench.folder)
        _print_case(facts)
        found = [_shown(row) for row in bench.ours(case)]
        proven = next(
            (row for row in found if row["method"] == OURS["auto"] and "distance" in row), None
        )
        if proven is None:
            raise SystemExit(f"r2b gave no answer on {case.name}: {found[0]['status']}")
        facts |= {
            "optimum": proven["distance"],
            "gap": proven.pop("gap"),
            "disparity_before": proven.pop("disparity_before"),
        }
        found += [_shown(row) for row in bench.others(case, facts)]
        found += [row for row in elsewhere if row["case"] == case.name]
        all_facts.append(facts)
        results += [{"case": case.name, **_related(row, facts["optimum"])} for row in found]
    return all_facts, results


def _device(bench: Bench, cases: list[Case]) -> tuple[list[Row], list[Row]]:
    all_facts, results = [], []
    for case in cases:
        facts = case.save(bench.folder)
        _print_case(facts)
        found = bench.run("device", epsilon=case.epsilon, seconds=bench.limits.timing)
        row = {"method": GPU, **({"status": found["failure"]} if "failure" in found else found)}
        all_facts.append(facts)
        results.append({"case": case.name, **_shown(row)})
    return all_facts, results


def _from_device() -> list[Row]:
    """Read the figures of a machine with a GPU, where there are any."""
    if not DEVICE.exists():
        return []
    kept: list[Row] = json.loads(DEVICE.read_text(encoding="utf-8")).get("results", [])
    return [row for row in kept if row.get("method") == GPU]


def _device_name() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def _related(row: Row, optimum: float) -> Row:
    """Add how far above the optimum the labels are; below it are labels that violate their limits."""
    kept = {
        name: value
        for name, value in row.items()
        if name not in ("gap", "disparity_before", "accurate")
    }
    return kept | ({"above": row["distance"] / optimum - 1.0} if "distance" in row else {})


def _print_case(facts: Row) -> None:
    print(
        f"\n{facts['title']}: {facts['rows']:,} rows, {facts['classes']} classes, {facts['groups']} groups, epsilon {facts['epsilon']:g}"
    )
    print(
        f"  {'':30}{'seconds':>11}{'alone':>11}{'peak MB':>9}{'parity':>10}{'distance':>12}  status"
    )


def _shown(row: Row) -> Row:
    name = row["method"] + (f" ({row['setting']})" if "setting" in row else "")
    figures = [
        row.get(key) for key in ("seconds", "solver_seconds", "peak_bytes", "disparity", "distance")
    ]
    forms = ("11.4g", "11.4g", "9.0f", "10.1e", "12.8f")
    figures[2] = None if figures[2] is None else figures[2] / 1e6
    cells = [
        f"{value:{form}}" if value is not None else "-".rjust(int(form.split(".")[0]))
        for value, form in zip(figures, forms, strict=True)
    ]
    print(
        f"  {name:30}{''.join(cells)}  {row.get('status', '')} {row.get('note', '')}".rstrip(),
        flush=True,
    )
    return row


def _print_instructions(found: list[Row]) -> None:
    for row in found:
        if "status" in row:
            print(f"\nInstructions: {row['status']}")
        else:
            each = f"{row['per_row']:.1f} instructions per row, {row['per_entry']:.2f} per entry"
            print(f"\n{row['pass']} pass, {row['classes']} classes: {each}")


def _rounded(value: Any) -> Any:
    """Keep five figures of every number: the rest is noise, and the file is kept."""
    if isinstance(value, float):
        return float(f"{value:.12g}") if 1e-3 < abs(value) < 1 else float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
