"""Progress on a terminal, with the time left. Nothing is shown to a pipe, nor for what is over within a moment."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import Any

from r2b import Progress

_MOMENT = 0.7  # seconds without a bar: most runs are over by then


class Meter:
    """A bar for one solve, or for several in a row.

    Parameters
    ----------
    tol : float
        Residual at which a solve is over.
    n_solves : int
    quiet : bool
    """

    def __init__(self, *, tol: float, n_solves: int = 1, quiet: bool = False) -> None:
        self.tol = tol
        self.n_solves = n_solves
        self.shown = not quiet and sys.stderr.isatty()
        self.begun = time.monotonic()
        self._first = math.nan
        self._last = 0
        self._solve = 0
        self._part = 0.0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, step: Progress) -> None:
        """Take note of a step."""
        if not self.shown:
            return
        if step.iteration <= self._last:
            self._solve, self._part, self._first = min(self._solve + 1, self.n_solves - 1), 0.0, math.nan
        self._last = step.iteration
        self._part = max(self._part, self._share(step.residual))
        if time.monotonic() - self.begun > _MOMENT:
            self._show(step)

    @property
    def done(self) -> float:
        """The share of the work that is behind: digits of the residual gained, of those that are wanted."""
        return (self._solve + self._part) / self.n_solves

    def _share(self, residual: float) -> float:
        if not residual > 0 or not math.isfinite(residual):
            return 0.0
        if math.isnan(self._first):
            self._first = max(residual, 10 * self.tol)
        return min(max(math.log(self._first / residual) / math.log(self._first / self.tol), 0.0), 0.99)

    def _show(self, step: Progress) -> None:
        if self._bar is None:
            self._bar = _bar()
            self._task = self._bar.add_task("Solving", total=1.0)
        what = f"Solving {self._solve + 1} of {self.n_solves}" if self.n_solves > 1 else "Solving"
        self._bar.update(self._task, completed=self.done, description=f"{what}, residual {step.residual:.0e}")


class RowMeter:
    """A count of the rows that were read, for tables whose passes take longer than their solve."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.shown = not quiet and sys.stderr.isatty()
        self.begun = time.monotonic()
        self.rows = 0
        self._what = "Reading"
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> RowMeter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def now(self, what: str) -> None:
        """Say what comes next, and count from 0."""
        self._what, self.rows = what, 0

    def __call__(self, n_rows: int) -> None:
        """Take note of some rows."""
        self.rows += n_rows
        if not self.shown or time.monotonic() - self.begun < _MOMENT:
            return
        if self._bar is None:
            self._bar = _bar(spun=True)
            self._task = self._bar.add_task(self._what, total=None)
        self._bar.update(self._task, description=f"{self._what}, {self.rows:,} rows")


def _bar(*, spun: bool = False) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    bar = Progress(*(columns if not spun else (text, TimeElapsedColumn())), console=Console(stderr=True), transient=True)
    bar.start()
    return bar
