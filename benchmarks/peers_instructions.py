"""Count the instructions of the hot loop under callgrind: one pass of the compiled kernel over rows, without curvature.

A count does not depend on how busy the machine is. Two processes differ in the number of passes
alone, so that start-up, the making of rows and the loading of compiled code drop out. Valgrind does
not know AVX-512, so the kernel is compiled for AVX2.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROWS, GROUPS, PASSES = 16_384, 5, 10
CLASSES = (16, 100)
COLD, WARM = "cold", "warm"
TARGET = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx,+avx2,+bmi,+bmi2,+fma,+lzcnt,+popcnt,+sse4.2",
}
QUIET = {"NUMBA_DISABLE_INTEL_SVML": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
LIMIT = 600.0
Row = dict[str, Any]


def counted() -> list[Row]:
    """Give instructions per row and per entry of a cold pass (no thresholds yet) and a warm one (those of nearby prices)."""
    missing = _missing()
    if missing:
        return [{"status": f"not counted: {missing}"}]
    try:
        return _counted([(classes, kind) for classes in CLASSES for kind in (WARM, COLD)])
    # a processor that valgrind does not know, say
    except (subprocess.SubprocessError, RuntimeError) as error:
        return [{"status": f"not counted: {type(error).__name__} under valgrind"}]


def _counted(chosen: list[tuple[int, str]]) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="r2b-callgrind-") as folder:
        for classes, kind in chosen:  # compiled and cached once, by the bare machine
            subprocess.run(
                _command(classes, kind, 1), env=_environment(folder), check=True, timeout=LIMIT
            )
        first = [(classes, WARM, 1) for classes in dict.fromkeys(classes for classes, _ in chosen)]
        runs = [*first, *((classes, kind, 1 + PASSES) for classes, kind in chosen)]
        with ThreadPoolExecutor(2) as pool:
            found = dict(
                zip(runs, pool.map(lambda run: _instructions(folder, *run), runs), strict=True)
            )
    rows = []
    for classes, kind in chosen:
        extra = found[classes, kind, 1 + PASSES] - found[classes, WARM, 1]
        per_row = extra / (PASSES * ROWS)
        rows.append(
            {
                "pass": kind,
                "classes": classes,
                "rows": ROWS,
                "per_row": per_row,
                "per_entry": per_row / classes,
            }
        )
    return rows


def _missing() -> str | None:
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed"
    return None


def _command(classes: int, kind: str, passes: int) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), str(classes), kind, str(passes)]


def _environment(folder: str) -> dict[str, str]:
    return {**os.environ, **TARGET, **QUIET, "NUMBA_CACHE_DIR": folder}


def _instructions(folder: str, classes: int, kind: str, passes: int) -> int:
    output = Path(folder) / f"{classes}-{kind}-{passes}.callgrind"
    command = [
        "valgrind",
        "--tool=callgrind",
        f"--callgrind-out-file={output}",
        *_command(classes, kind, passes),
    ]
    subprocess.run(
        command, env=_environment(folder), check=True, timeout=LIMIT, capture_output=True
    )
    total = re.search(
        r"^(?:summary|totals): (\d+)", output.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    if total is None:
        raise RuntimeError(f"callgrind wrote no total for {output.name}")
    return int(total.group(1))


def walk(classes: int, kind: str, passes: int) -> None:
    """Walk the same rows some times; prices go back and forth, so that thresholds of the last pass are near and not exact."""
    import numpy as np

    from r2b._solve.oracle import compiled

    rng = np.random.default_rng(0)
    labels = rng.standard_gamma(1.0, (ROWS, classes))
    labels /= labels.sum(axis=1, keepdims=True)
    groups = np.arange(ROWS) % GROUPS
    prices = rng.standard_normal((GROUPS, classes)) / (5 * classes)
    ones, sums, totals = np.empty(0), np.zeros((GROUPS, classes)), np.zeros(1)
    levels = np.full(ROWS, np.nan)
    for turn in range(passes):
        if kind == COLD and turn:
            levels.fill(np.nan)
        compiled.evaluate(
            labels,
            groups,
            ones,
            prices * (1.0 + 0.01 * (turn % 2)),
            1.0,
            levels,
            [sums, totals, np.empty((0, 0, 0))],
        )


if __name__ == "__main__":
    walk(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
