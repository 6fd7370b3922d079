"""Children of one process, for programs that tests start: what they need is imported once,
before the first of them.

A program has this folder on its path; :func:`run_program` starts it so.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def child(work: Callable[[], int]) -> int:
    """Fork a process that ends with the code that its work gives; give its number."""
    number = os.fork()
    if number == 0:
        code = 70
        try:
            code = work()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    return number


def ended(number: int) -> int:
    """Wait for a child; give its code, or the signal below 0."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def prepare(work: Callable[[], int]) -> None:
    """Do some work in a child, and import here what it imported there: threads that it started are
    not in this process.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "modules"

        def telling() -> int:
            code = work()
            told.write_text("\n".join(sys.modules), encoding="utf-8")
            return code

        assert ended(child(telling)) == 0
        for name in told.read_text(encoding="utf-8").splitlines():
            importlib.import_module(name)


def run_program(
    source: str, *words: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program that may import this module; its warnings are errors."""
    path = os.pathsep.join(
        [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    command = [sys.executable, "-W", "error", "-c", source, *words]
    settings = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path, **environment}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=settings, check=False
    )
