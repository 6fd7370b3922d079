"""The tables that are open: what was read, solved and made of each is kept and computed once."""

from __future__ import annotations

import secrets
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Event, Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np

from r2b._audit import Audit, Frontier
from r2b._audit.measure import Draws, audit_dataset, audit_request
from r2b._audit.tradeoff import fair_as_they_are, solved_along
from r2b._constraints.families import Request
from r2b._data import Dataset
from r2b._data.dataset import read
from r2b._files.arrow import pyarrow
from r2b._labels import FairLabels
from r2b._labels.debiasing import Settings
from r2b._labels.task import Task
from r2b.app.choices import Choice
from r2b.app.files import Reading
from r2b.app.making import Made, decided, labelled, labels_for_model, row_columns
from r2b.engines.files import FileSource
from r2b.errors import DataWarning, InputError, NotSolvedWarning

Kept = TypeVar("Kept")

_KEPT = 32  # results of a table


class PageColumn(NamedTuple):
    """A column to choose from, and how many different values it has, if they were counted."""

    name: str
    distinct: int | None


class Workspace:
    """One open table.

    Parameters
    ----------
    id : str
    table : FileSource
    reading : Reading, optional
        How its file was read.
    source : {"file", "adult"}
    """

    def __init__(
        self, id: str, table: FileSource, reading: Reading | None = None, source: str = "file"
    ) -> None:
        self.id, self.table, self.reading, self.source = id, table, reading or Reading(), source
        self.columns = _columns(table)
        self.closed = Event()
        self._results: OrderedDict[Hashable, tuple[Lock, list[Any]]] = OrderedDict()
        self._slow: set[Hashable] = set()
        self._lock = Lock()

    def _kept(self, key: Hashable, build: Callable[[], Kept]) -> Kept:
        """Return what is kept under a key, or build it; the least recently used makes room."""
        with self._lock:
            lock, found = self._results.setdefault(key, (Lock(), []))
            self._results.move_to_end(key)
            while len(self._results) > _KEPT:
                self._results.popitem(last=False)
        with lock, warnings.catch_warnings():
            # The page shows the status of every answer, and what is doubtful about the data; a
            # warning in the terminal would say it twice.
            for kind in (NotSolvedWarning, DataWarning):
                warnings.simplefilter("ignore", kind)
            if not found:
                found.append(build())
            result: Kept = found[0]
            return result

    def data(self, choice: Choice) -> Dataset:
        """Read the chosen columns."""

        def build() -> Dataset:
            y = self.table.columns([choice.label])[choice.label]
            rows = row_columns(self.table, choice)
            data = read(y, **rows, missing=choice.missing)
            _refuse_too_many(data)
            return data

        return self._kept(choice.data, build)

    def audit(self, choice: Choice) -> Audit:
        """Audit the chosen columns."""
        request = audit_request("both", missing=choice.missing)
        return self._kept(
            ("audit", choice.data), lambda: audit_dataset(self.data(choice), request, Draws())
        )

    def task(self, choice: Choice) -> Task:
        """Merge equal rows, and settle what is asked of their groups."""

        def build() -> Task:
            settings = Settings(progress=lambda _: not self.closed.is_set())
            return Task.of(self.data(choice), Request(**choice.options()), settings)

        return self._kept(choice.asked, build)

    def solve(self, choice: Choice) -> FairLabels:
        """Solve what is chosen."""

        def build() -> FairLabels:
            task, begun = self.task(choice), time.monotonic()
            fair = task.solve(task.parity.at(choice.epsilon))
            if time.monotonic() - begun > 2:
                self._slow.add(choice.asked)
            return fair

        return self._kept(("fair", choice.asked, choice.epsilon), build)

    def frontier(self, choice: Choice, *, known: bool = False) -> Frontier | None:
        """Solve along a path of epsilons; None where one solve takes seconds.

        Parameters
        ----------
        choice : Choice
        known : bool
            Return None if it has not been solved yet.
        """
        key = "path", choice.asked
        if choice.asked in self._slow or (known and key not in self._results):
            return None

        def build() -> Frontier:
            task = self.task(choice)
            top = fair_as_they_are(task)
            epsilons = np.linspace(0.0, top, 17) if top > 0 else np.zeros(1)
            return Frontier(tuple(solved_along(task, epsilons)), epsilons)

        return self._kept(key, build)

    def made(self, choice: Choice) -> Made:
        """Make labels of the table's rows, decisions, or labels for a model."""
        if choice.task == "labels":
            return labelled(self.table, choice, self.solve(choice))
        make = decided if choice.task == "decisions" else labels_for_model
        return self._kept(choice, lambda: make(self.table, choice))


def _refuse_too_many(data: Dataset) -> None:
    """Refuse more groups or classes than a page can show."""
    groups, classes = data.n_cells, data.n_classes
    if groups > 1000:
        raise InputError(
            f"The columns chosen make {groups:,} groups, and the app takes 1,000.",
            remedy="Choose columns with fewer values, or use r2b on the command line, which "
            "has --continuous.",
            control="sensitive",
            groups=groups,
        )
    if groups * classes**2 > 1 << 23:  # 64 MiB
        raise InputError(
            f"The label has {classes:,} classes in {groups:,} groups, which is more than a page "
            "can answer at once.",
            remedy="Choose columns with fewer values, or use r2b on the command line.",
            control="label",
            classes=classes,
        )


def _columns(table: FileSource) -> tuple[PageColumn, ...]:
    table.refuse_twice(table.names)
    if (table.n_rows or 0) * len(table.names) > 10_000_000:
        return tuple(PageColumn(name, None) for name in table.names)
    nested = pyarrow().types.is_nested  # lists and the like: no column to choose
    return tuple(
        PageColumn(name, None if nested(values.type) else len(values.unique()))
        for name, values in table.columns(table.names).items()
    )


class ClosedError(InputError):
    """A table is not open, or not any more."""


class Store:
    r"""Open tables by id; opening one more than fit closes the one that was left alone longest.

    Parameters
    ----------
    most : int

    Examples
    --------
    >>> from r2b.app.files import read_upload
    >>> store = Store(most=1)
    >>> first, second = (store.add(*read_upload("x.csv", b"a,b\n1,2\n", 100)) for _ in range(2))
    >>> len(store), store.get(second.id) is second
    (1, True)
    """

    def __init__(self, most: int = 6) -> None:
        self.most = most
        self._open: OrderedDict[str, Workspace] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def add(
        self,
        table: FileSource,
        reading: Reading | None = None,
        source: str = "file",
        id: str | None = None,
    ) -> Workspace:
        """Open a table, in the place of the one that has the id."""
        workspace = Workspace(id or secrets.token_urlsafe(12), table, reading, source)
        self.close(workspace.id)
        with self._lock:
            self._open[workspace.id] = workspace
            while len(self._open) > self.most:
                self._open.popitem(last=False)[1].closed.set()
        return workspace

    def get(self, name: str) -> Workspace:
        """Return a table that is open.

        Raises
        ------
        ClosedError
            It is not.
        """
        with self._lock:
            if name not in self._open:
                raise ClosedError(
                    "This table is not open any more.",
                    remedy=f"Open the file again. The app keeps the last {self.most} tables.",
                )
            self._open.move_to_end(name)
            return self._open[name]

    def close(self, name: str) -> None:
        """Forget a table, and stop what is solved for it."""
        with self._lock:
            gone = self._open.pop(name, None)
        if gone is not None:
            gone.closed.set()

    def close_all(self) -> None:
        """Forget all tables."""
        for name in list(self._open):
            self.close(name)
