"""The rivals: who runs on which case, in a process of its own with limits, and what its figures are called."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers_cases import Case

HERE = Path(__file__).resolve().parent
NAMES = {"CLARABEL": "Clarabel", "OSQP": "OSQP", "SCS": "SCS", "PIQP": "PIQP"}
OURS = {
    "auto": "r2b",
    "one thread": "r2b, one thread",
    "compiled": "r2b, compiled kernel",
    "numpy": "r2b, NumPy kernel",
}
SETTINGS = ("default", "accurate")
Row = dict[str, Any]


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
        """Run one task; where it dies or runs out of time, whatever it had reported by then comes back with a ``failure``."""
        request = json.dumps(
            {
                "task": task,
                "folder": str(self.folder),
                "memory": self.limits.memory,
                "arguments": arguments,
            }
        )
        command = [interpreter, str(HERE / script), request]
        limit = self.limits.seconds + arguments.get("patience", 0.0)
        try:
            done = subprocess.run(command, capture_output=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired as late:
            return {**_last_report(late.stdout), "failure": f"no answer within {limit:g} s"}
        if done.returncode < 0:
            return {
                **_last_report(done.stdout),
                "failure": f"killed by {signal.Signals(-done.returncode).name}",
            }
        if done.returncode:
            words = (done.stderr.decode(errors="replace").strip().splitlines() or ["no output"])[-1]
            failure = "out of memory" if "MemoryError" in words else f"failed: {words[:120]}"
            return {**_last_report(done.stdout), "failure": failure}
        return _last_report(done.stdout)

    def ours(self, case: Case) -> Iterator[Row]:
        """Run ours: the kernels, and the default on one thread."""
        compiled = (
            ["auto", "one thread", "compiled"]
            if importlib.util.find_spec("numba")
            else ["auto", "one thread"]
        )
        for kernels in (compiled, ["numpy"]):
            found = self.run(
                "ours", epsilon=case.epsilon, kernels=kernels, seconds=self.limits.timing
            )
            for kernel in kernels:
                known = found.get("kernels", {}).get(kernel)
                yield {
                    "method": OURS[kernel],
                    **(known or {"status": found.get("failure", "no answer")}),
                }

    def others(self, case: Case, facts: Row) -> Iterator[Row]:
        """Run everyone else; the optimum is known by now."""
        if not facts["soft"]:
            yield self._one("Reweighing", "reweighing", epsilon=case.epsilon)
        yield self._one(
            "published procedure",
            "published",
            epsilon=case.epsilon,
            patience=min(case.patience, self.limits.timing * 3),
        )
        yield self._original(case)
        yield self._holisticai(case)
        yield from self._solvers(case, facts)

    def _one(self, method: str, task: str, **arguments: Any) -> Row:
        found = self.run(task, **arguments)
        failure = found.pop("failure", None)
        # the figure that matters was there before it was stopped
        if failure and "seconds" in found:
            return {"method": method, **found, "note": failure}
        return (
            {"method": method, **found}
            if not failure
            else {"method": method, **found, "status": failure}
        )

    def _original(self, case: Case) -> Row:
        method = "ml_debiaser"
        if self.original is None:
            return {"method": method, "status": "not run: no --original"}
        arguments = {"epsilon": case.epsilon, "patience": case.patience, "path": str(self.original)}
        return self._one(method, "original", script="peers_foreign.py", **arguments)

    def _holisticai(self, case: Case) -> Row:
        method = "HolisticAI"
        if self.holisticai is None:
            return {"method": method, "status": "not run: no --holisticai"}
        arguments = {"epsilon": case.epsilon, "patience": case.patience}
        return self._one(
            method,
            "holisticai",
            interpreter=self.holisticai,
            script="peers_foreign.py",
            **arguments,
        )

    def _solvers(self, case: Case, facts: Row) -> Iterator[Row]:
        """Run the QP solvers, on merged rows for class labels, and on all rows of Adult by sex as well."""
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
        """Give two lines: the defaults, and the first rung that is accurate."""
        rungs, failure = found.get("rungs", []), found.get("failure")
        first = {
            "method": name,
            **(rungs[0] if rungs else {"status": failure or "no answer"}),
            "setting": "default",
        }
        good = next((rung for rung in rungs if rung.get("accurate")), None)
        second: Row = {"method": name, "setting": "accurate"}
        if good is not None:
            second = {
                **second,
                **good,
                "setting": "accurate",
                "note": f"tolerance {good['setting']}",
            }
        else:
            second["status"] = (
                beyond or failure or f"not reached by tolerance {rungs[-1]['setting']}"
            )
        for row in (first, second):
            if case.series and facts["soft"] and not (row is second and beyond):
                seconds = row.get("seconds", self.limits.seconds)
                self.taken[name, row["setting"], case.series] = (
                    facts["rows"] * facts["classes"],
                    seconds,
                )
            yield row

    def _beyond(self, name: str, setting: str, case: Case, facts: Row) -> str | None:
        """Say so where a size is out of reach, going by a smaller one; time grows at least with the number of entries."""
        entries, seconds = self.taken.get((name, setting, case.series), (0, 0.0))
        size = facts["rows"] * facts["classes"]
        if not entries or size <= entries or seconds * size / entries <= self.limits.seconds:
            return None
        return f"not tried: {seconds:.2g} s at {entries:,} entries, and the limit is {self.limits.seconds:g} s"


def solvers() -> list[str]:
    """Name the QP solvers that CVXPY finds; none where it is not installed."""
    if importlib.util.find_spec("cvxpy") is None:
        return []
    import rivals

    return rivals.installed()


def _last_report(output: bytes | None) -> Row:
    lines = [
        line
        for line in (output or b"").decode(errors="replace").splitlines()
        if line.startswith("{") and line.endswith("}")
    ]
    report: Row = json.loads(lines[-1]) if lines else {}
    return report
