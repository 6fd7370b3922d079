"""Compare with every other method.

    python benchmarks/peers.py [--quick] [--only CASE,...]
        [--original FOLDER] [--holisticai PYTHON]

Each method runs on each table in a process of its own, with a limit of time and of memory, and its
labels are scored by the same function. Writes JSON, from which ``scripts/make_benchmark_page.py``
writes docs/benchmark.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tables
from measure import environment
from numpy.typing import NDArray

from r2b.datasets import load_adult

HERE = Path(__file__).resolve().parent
PEERS = HERE / "results" / "peers.json"
FORMAT = 1
NAMES = {"CLARABEL": "Clarabel", "OSQP": "OSQP", "SCS": "SCS", "PIQP": "PIQP"}
OURS = "r2b"
SETTINGS = ("default", "accurate")

Row = dict[str, Any]
PER_CLASS = 1_000  # rows of each class of the paper's mixture
PAPER, SCALED = 0.0, 0.01  # epsilon: the paper's experiments ask for exact parity
Columns = tuple[NDArray[Any], NDArray[np.int64]]


@dataclass(frozen=True)
class Case:
    """One table, and how long slow rivals are watched on it.

    Attributes
    ----------
    name, title : str
    build : callable
        Returns labels (codes or probabilities) and group codes.
    series : str
        "classes" or "soft" where it belongs to a figure, else "".
    patience : float
        Seconds that a rival with rounds may take to be run whole; the others are timed for a few
        binary solves and scaled.
    all_rows : bool
        Whether QP solvers also get class labels row by row.
    epsilon : float
    """

    name: str
    title: str
    build: Callable[[], Columns]
    series: str = ""
    patience: float = 3.0
    all_rows: bool = False
    epsilon: float = SCALED

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the table for the processes that measure, and say how large it is."""
        labels, groups = self.build()
        if labels.ndim == 1:  # a class without a row would be no class to anyone
            labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        n_classes = labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1
        n_groups = int(groups.max()) + 1
        np.save(folder / "labels.npy", labels)
        np.save(folder / "groups.npy", groups.astype(np.int64))
        np.save(folder / "sizes.npy", np.array([n_classes, n_groups]))
        return {
            "name": self.name,
            "title": self.title,
            "series": self.series,
            "epsilon": self.epsilon,
            "soft": labels.ndim == 2,
            "rows": len(groups),
            "classes": n_classes,
            "groups": n_groups,
        }


def adult(*attributes: str) -> Columns:
    """Education by the crossing of attributes."""
    data = load_adult()
    crossed = [
        "|".join(values) for values in zip(*(data[name] for name in attributes), strict=True)
    ]
    y, groups = (np.unique(each, return_inverse=True)[1] for each in (data["education"], crossed))
    return y, groups


def mixture(n_classes: int) -> Columns:
    """Labels of the paper's mixture of Gaussians.

    Every class has as many rows; the five groups depend on whether the class is 0.
    """
    from experiments.synthetic import biased_groups

    y = np.repeat(np.arange(n_classes), PER_CLASS)
    return y, biased_groups(y, np.random.default_rng([0, n_classes]))


def grown(kind: str, rows: int, n_classes: int) -> Columns:
    """Classes or probabilities whose distributions differ between two groups."""
    table = tables.build(kind, rows=rows, n_classes=n_classes, n_groups=2)
    return table.labels, table.groups


# Smaller sizes of a series come first: they tell what is out of reach.
SIZES = {
    "classes": (
        (1_000, 16),
        (10_000, 16),
        (100_000, 4),
        (100_000, 16),
        (100_000, 100),
        (1_000_000, 16),
        (1_000_000, 100),
    ),
    "soft": (
        (1_000, 4),
        (1_000, 16),
        (1_000, 100),
        (10_000, 16),
        (100_000, 4),
        (100_000, 16),
        (100_000, 100),
        (1_000_000, 16),
    ),
}
QUICK_SIZES = {"classes": ((10_000, 16),), "soft": ((1_000, 16),)}


def all_cases(quick: bool) -> list[Case]:
    """Return the cases."""
    found = [
        Case(
            "adult-sex",
            "Adult, education by sex",
            partial(adult, "sex"),
            patience=1.0 if quick else 60.0,
            all_rows=not quick,
            epsilon=PAPER,
        )
    ]
    if not quick:
        both = partial(adult, "sex", "race")
        found.append(
            Case("adult-sex-race", "Adult, education by sex and race", both, epsilon=PAPER)
        )
        for n in (4, 16, 64):
            title = f"The paper's mixture, {n} classes"
            found.append(Case(f"mixture-{n}", title, partial(mixture, n), epsilon=PAPER))
    for kind, sizes in (QUICK_SIZES if quick else SIZES).items():
        what = "class labels" if kind == "classes" else "probabilities"
        for rows, n in sizes:
            title = f"{rows:,} rows of {what}, {n} classes"
            found.append(Case(f"{kind}-{rows}x{n}", title, partial(grown, kind, rows, n), kind))
    return found


@dataclass(frozen=True)
class Limits:
    """What each process may take.

    Attributes
    ----------
    seconds : float
        Of a process, its start included.
    memory : float or None
        Bytes of address space.
    timing : float
        Seconds for which a fast call is repeated.
    """

    seconds: float
    memory: float | None = 12e9
    timing: float = 1.0


@dataclass
class Bench:
    """Runs rivals on cases.

    Attributes
    ----------
    limits : Limits
    folder : Path
        Where the table of the present case lies.
    original : Path or None
        The folder that holds ``ml_debiaser``.
    holisticai : str or None
        An interpreter that has HolisticAI.
    taken : dict
        Entries and seconds by rival, setting and series, for sizes that need not be tried.
    """

    limits: Limits
    folder: Path
    original: Path | None = None
    holisticai: str | None = None
    taken: dict[tuple[str, str, str], tuple[int, float]] = field(default_factory=dict)

    def run(
        self,
        task: str,
        *,
        interpreter: str = sys.executable,
        script: str = "peers_child.py",
        **arguments: Any,
    ) -> Row:
        """Run one task.

        If it dies or runs out of time, its last report is returned with a ``failure``.
        """
        request = {"task": task, "folder": str(self.folder), "memory": self.limits.memory}
        command = [interpreter, str(HERE / script), json.dumps({**request, "arguments": arguments})]
        limit = self.limits.seconds + arguments.get("patience", 0.0)
        try:
            done = subprocess.run(command, capture_output=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired as late:
            return {**_last_report(late.stdout), "failure": f"no answer within {limit:g} s"}
        report = _last_report(done.stdout)
        if done.returncode < 0:
            report["failure"] = f"killed by {signal.Signals(-done.returncode).name}"
        elif done.returncode:
            words = (done.stderr.decode(errors="replace").strip().splitlines() or ["no output"])[-1]
            memory = "MemoryError" in words
            report["failure"] = "out of memory" if memory else f"failed: {words[:120]}"
        return report

    def ours(self, case: Case) -> Iterator[Row]:
        """Run r2b with all threads, and with one."""
        for method, threads in ((OURS, None), (f"{OURS}, one thread", 1)):
            yield self._one(
                method,
                "ours",
                epsilon=case.epsilon,
                threads=threads,
                seconds=self.limits.timing,
            )

    def others(self, case: Case, facts: Row) -> Iterator[Row]:
        """Run everyone else; the optimum is known by now."""
        if not facts["soft"]:
            yield self._one("Reweighing", "reweighing", epsilon=case.epsilon)
        patience = min(case.patience, self.limits.timing * 3)
        known: dict[str, Any] = {"epsilon": case.epsilon}
        yield self._one("published procedure", "published", **known, patience=patience)
        known |= {"patience": case.patience, "script": "peers_foreign.py"}
        for method, option, there in (
            ("ml_debiaser", "original", {"path": str(self.original)}),
            ("HolisticAI", "holisticai", {"interpreter": self.holisticai}),
        ):
            if getattr(self, option) is None:
                yield {"method": method, "status": f"not run: no --{option}"}
            else:
                yield self._one(method, option, **known, **there)
        yield from self._solvers(case, facts)

    def _one(self, method: str, task: str, **arguments: Any) -> Row:
        found = self.run(task, **arguments)
        failure = found.pop("failure", None)
        if failure:
            # where it was stopped, the figure that matters may be there already
            found["note" if "seconds" in found else "status"] = failure
        return {"method": method, **found}

    def _solvers(self, case: Case, facts: Row) -> Iterator[Row]:
        """Run the QP solvers, on merged rows for class labels; on Adult by sex also on all rows."""
        for solver in solvers():
            ways = [False] if facts["soft"] else [True, False] if case.all_rows else [True]
            for merged in ways:
                name = NAMES[solver] + ("" if facts["soft"] or merged else ", all rows")
                beyond = {
                    setting: None if merged else self._beyond(name, setting, case, facts)
                    for setting in SETTINGS
                }
                if beyond["default"]:
                    yield from (
                        {"method": name, "setting": setting, "status": beyond["default"]}
                        for setting in SETTINGS
                    )
                    continue
                arguments = {
                    "solver": solver,
                    "epsilon": case.epsilon,
                    "optimum": facts["optimum"],
                    "merged": merged,
                }
                found = self.run("qp", **arguments, highest=1 if beyond["accurate"] else None)
                yield from self._rungs(name, case, facts, found, beyond["accurate"])

    def _rungs(
        self, name: str, case: Case, facts: Row, found: Row, beyond: str | None
    ) -> Iterator[Row]:
        """Yield two lines: the defaults, and the first tolerance that is accurate."""
        rungs, failure = found.get("rungs", []), found.get("failure")
        first: Row = {"method": name, **(rungs[0] if rungs else {"status": failure or "no answer"})}
        second: Row = {"method": name}
        good = next((rung for rung in rungs if rung.get("accurate")), None)
        if good is not None:
            second |= {**good, "note": f"tolerance {good['setting']}"}
        else:
            missed = f"not reached by tolerance {rungs[-1]['setting']}" if rungs else None
            second["status"] = beyond or failure or missed
        first["setting"], second["setting"] = SETTINGS
        for row in (first, second):
            if case.series and facts["soft"] and not (row is second and beyond):
                seconds = row.get("seconds", self.limits.seconds)
                self.taken[name, row["setting"], case.series] = (
                    facts["rows"] * facts["classes"],
                    seconds,
                )
            yield row

    def _beyond(self, name: str, setting: str, case: Case, facts: Row) -> str | None:
        """Say that a size is out of reach, judged by a smaller one.

        Time grows at least with the number of entries.
        """
        entries, seconds = self.taken.get((name, setting, case.series), (0, 0.0))
        size = facts["rows"] * facts["classes"]
        if not entries or size <= entries or seconds * size / entries <= self.limits.seconds:
            return None
        limit = f"the limit is {self.limits.seconds:g} s"
        return f"not tried: {seconds:.2g} s at {entries:,} entries, and {limit}"


def solvers() -> list[str]:
    """Name the QP solvers that CVXPY finds; none where it is not installed."""
    if importlib.util.find_spec("cvxpy") is None:
        return []
    import cvxpy

    return [name for name in NAMES if name in cvxpy.installed_solvers()]


def _last_report(output: bytes | None) -> Row:
    lines = [
        line
        for line in (output or b"").decode(errors="replace").splitlines()
        if line.startswith("{") and line.endswith("}")
    ]
    report: Row = json.loads(lines[-1]) if lines else {}
    return report


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write JSON."""
    options = _options(arguments)
    begun = time.perf_counter()
    cases = [
        case for case in all_cases(options.quick) if not options.only or case.name in options.only
    ]
    limits = Limits(
        options.seconds or (20.0 if options.quick else 30.0),
        options.memory * 1e9,
        0.3 if options.quick else 1.0,
    )
    with tempfile.TemporaryDirectory(prefix="r2b-peers-") as folder:
        bench = Bench(limits, Path(folder), options.original, options.holisticai)
        facts, results = _compared(bench, cases)
    report: dict[str, Any] = {
        "format": FORMAT,
        "quick": options.quick,
        "environment": environment(),
        "limits": {"seconds": limits.seconds, "memory_bytes": limits.memory},
        "cases": facts,
        "results": results,
    }
    report["seconds"] = round(time.perf_counter() - begun, 1)
    output = options.output or PEERS
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
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    return parser.parse_args(arguments)


def _compared(bench: Bench, cases: list[Case]) -> tuple[list[Row], list[Row]]:
    all_facts, results = [], []
    for case in cases:
        facts = case.save(bench.folder)
        _print_case(facts)
        found = [_shown(row) for row in bench.ours(case)]
        proven = next((row for row in found if row["method"] == OURS and "distance" in row), None)
        if proven is None:
            raise SystemExit(f"r2b gave no answer on {case.name}: {found[0]['status']}")
        facts |= {
            "optimum": proven["distance"],
            "gap": proven.pop("gap"),
            "disparity_before": proven.pop("disparity_before"),
        }
        found += [_shown(row) for row in bench.others(case, facts)]
        all_facts.append(facts)
        results += [{"case": case.name, **_related(row, facts["optimum"])} for row in found]
    return all_facts, results


def _related(row: Row, optimum: float) -> Row:
    """Add how far above the optimum the labels are; if below, they violate their limits."""
    kept = {
        name: value
        for name, value in row.items()
        if name not in ("gap", "disparity_before", "accurate")
    }
    return kept | ({"above": row["distance"] / optimum - 1.0} if "distance" in row else {})


def _print_case(facts: Row) -> None:
    size = f"{facts['rows']:,} rows, {facts['classes']} classes, {facts['groups']} groups"
    print(f"\n{facts['title']}: {size}, epsilon {facts['epsilon']:g}")
    heads = f"{'seconds':>11}{'alone':>11}{'peak MB':>9}{'disparity':>10}{'distance':>12}"
    print(f"  {'':30}{heads}  status")


def _shown(row: Row) -> Row:
    name = row["method"] + (f" ({row['setting']})" if "setting" in row else "")
    memory = row.get("peak_bytes")
    figures = {**row, "peak_bytes": None if memory is None else memory / 1e6}
    widths = {"seconds": 11, "solver_seconds": 11, "peak_bytes": 9, "disparity": 10, "distance": 12}
    forms = dict(zip(widths, (".4g", ".4g", ".0f", ".1e", ".8f"), strict=True))
    cells = [
        ("-" if figures.get(key) is None else f"{figures[key]:{forms[key]}}").rjust(width)
        for key, width in widths.items()
    ]
    said = f"{row.get('status', '')} {row.get('note', '')}"
    print(f"  {name:30}{''.join(cells)}  {said}".rstrip(), flush=True)
    return row


def _rounded(value: Any) -> Any:
    """Keep five figures of every number: the rest is noise, and the file is kept."""
    if isinstance(value, float):
        return float(f"{value:.12g}") if 1e-3 < abs(value) < 1 else float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
