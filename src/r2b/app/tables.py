"""The tables that are open: each read once per choice of columns, and solved at every move."""

from __future__ import annotations

import secrets
import time
import warnings
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event, Lock, RLock
from typing import Any, TypeVar

import numpy as np

from r2b._audit import Audit, Frontier
from r2b._audit.measure import audit_dataset, audit_request
from r2b._audit.resampling import Draws
from r2b._audit.tradeoff import fair_as_they_are, solved_along
from r2b._constraints.families import Request, resolve
from r2b._data import Dataset
from r2b._data.arrays import Floats, plain_value
from r2b._files.arrow import pyarrow, pyarrow_compute
from r2b._labels import FairLabels
from r2b._labels.debiasing import Settings
from r2b._labels.task import Task, open_job
from r2b.app.choices import PageChoice, TaskChoice
from r2b.app.files import Reading
from r2b.app.making import Made, decided, taught
from r2b.engines.files import FileSource
from r2b.errors import DataWarning, InputError, NotSolvedWarning
from r2b.metrics.criteria import CRITERIA, disparity, disparity_by_chance
from r2b.metrics.means import group_means


def measured(table: FileSource, choice: TaskChoice) -> dict[str, Any]:
    """Measure predictions.

    Returns
    -------
    dict
        ``criteria``: name, meaning, what was found and what chance explains; ``groups``: rows,
        share that is right, share of every prediction; ``classes``; ``accuracy``.
    """
    columns = table.columns([choice.label, choice.prediction, *choice.sensitive])
    true, predicted = columns[choice.label], columns[choice.prediction]
    rows: dict[str, Any] = {
        "sensitive_features": {name: columns[name] for name in choice.sensitive}
    }
    if choice.weight is not None:
        rows["sample_weight"] = table.with_numbers([choice.weight]).columns([choice.weight])[
            choice.weight
        ]
    criteria = []
    for criterion in CRITERIA.values():
        found = disparity(criterion.name, true, predicted, **rows)
        chance = disparity_by_chance(criterion.name, true, predicted, **rows)
        criteria.append(
            {
                "criterion": criterion.name,
                "name": criterion.title,
                "meaning": criterion.meaning,
                "found": 100 * found,
                "chance": 100 * chance,
            }
        )
    right = pyarrow_compute().equal(true.cast("string"), predicted.cast("string"))
    given, correct = group_means(predicted, **rows), group_means(right, **rows)
    place = (
        [str(plain_value(each)) for each in correct.classes].index("True")
        if any(np.asarray(right))
        else None
    )
    groups: list[dict[str, Any]] = [
        {
            "name": str(plain_value(name)),
            "weight": float(weight),
            "right": 0.0 if place is None else 100 * float(correct.means[at, place]),
            "shares": [100 * float(share) for share in given.means[at]],
        }
        for at, (name, weight) in enumerate(zip(given.groups, given.weights, strict=True))
    ]
    whole = sum(each["weight"] for each in groups)
    return {
        "criteria": criteria,
        "groups": groups,
        "classes": [str(plain_value(each)) for each in given.classes],
        "accuracy": sum(each["weight"] * each["right"] for each in groups) / whole,
    }


Kept = TypeVar("Kept")


@dataclass(frozen=True)
class PageColumn:
    """A column to choose from, and how many different values it has, if they were counted."""

    name: str
    distinct: int | None


@dataclass(eq=False)
class Bounded:
    """A table with its groups and the shape of bound: what is solved for different epsilons.

    Attributes
    ----------
    task : Task
    top : float
        The epsilon at which the labels are fair as they are.
    known : list of (float, ndarray)
        Epsilons that were solved and their prices, in order.
    seconds : float
        What the longest solve took.
    path : Frontier or None
    """

    task: Task
    top: float
    known: list[tuple[float, Floats]] = field(default_factory=list)
    seconds: float = 0.0
    path: Frontier | None = None
    answers: OrderedDict[Hashable, FairLabels] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)
    path_lock: Lock = field(default_factory=Lock)

    def solve(self, epsilon: float, *, cold: bool = False) -> FairLabels:
        """Solve for one epsilon, from prices near it unless ``cold``."""
        with self.lock:
            return _kept(self.answers, (epsilon, cold), lambda: self._solve(epsilon, cold), most=3)

    def _solve(self, epsilon: float, cold: bool) -> FairLabels:
        begun = time.monotonic()
        with _quiet():
            fair = self.task.solve(
                self.task.parity.at(epsilon), None if cold else self._start(epsilon)
            )
        self.seconds = max(self.seconds, time.monotonic() - begun)
        # At epsilon 0 the constraint is an equality, whose prices say little about those of a
        # narrow band.
        if fair.status.ok and not fair.unchanged and epsilon > 0:
            place = bisect_left(self.known, epsilon, key=lambda each: each[0])
            if place == len(self.known) or self.known[place][0] != epsilon:
                self.known.insert(place, (epsilon, fair.prices))
            if len(self.known) > 256:
                del self.known[::2]
        return fair

    def _start(self, epsilon: float) -> Floats | None:
        """Return prices to start from: between two neighbours, or the nearest."""
        place = bisect_left(self.known, epsilon, key=lambda each: each[0])
        below, above = self.known[max(0, place - 1) : place], self.known[place : place + 1]
        if epsilon <= 0 or not (below or above):
            return None
        # Prices from farther away are a worse start than none (measured).
        near = min(0.02 * self.top, 0.25 * epsilon)
        if below and above and above[0][0] - below[0][0] <= 2 * near:
            part = (epsilon - below[0][0]) / (above[0][0] - below[0][0])
            return np.asarray((1 - part) * below[0][1] + part * above[0][1])
        nearest = min(below + above, key=lambda each: abs(each[0] - epsilon))
        return nearest[1] if abs(nearest[0] - epsilon) <= near else None

    def frontier(self) -> Frontier | None:
        """Solve along a path of epsilons, once; None where one solve takes long."""
        with self.path_lock:
            if self.path is None and self.seconds <= 2:
                epsilons = np.linspace(0.0, self.top, 17) if self.top > 0 else np.zeros(1)
                with _quiet():
                    self.path = Frontier(tuple(solved_along(self.task, epsilons)), epsilons)
            return self.path


@dataclass(eq=False)
class Opened:
    """A table under one choice of columns: its rows merged, its audit, its shapes of bound."""

    task: Task
    bounded: OrderedDict[Hashable, Bounded] = field(default_factory=OrderedDict)
    audited: OrderedDict[Hashable, Audit] = field(default_factory=OrderedDict)
    lock: RLock = field(default_factory=RLock)

    def under(self, choice: PageChoice) -> Bounded:
        """Return the task with the families and the bound that are chosen."""

        def build() -> Bounded:
            request = replace(
                Request(**choice.options()),
                names=self.task.table.labels.vocabulary.values.tolist(),
            )
            families, parity = resolve(
                request, self.task.table.cells, self.task.merged.cell_weight, self.task.before
            )
            task = replace(self.task, families=families, parity=parity)
            return Bounded(task, fair_as_they_are(task))

        with self.lock:
            return _kept(self.bounded, (choice.families, choice.bound), build, most=12)

    def audit(self, choice: PageChoice) -> Audit:
        """Audit the labels, once."""
        with self.lock, _quiet():
            request = audit_request("both", missing=choice.missing)
            return _kept(
                self.audited, "", lambda: audit_dataset(self.task.table, request, Draws()), most=1
            )


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
        self._made: OrderedDict[Hashable, Made] = OrderedDict()
        self.columns = _columns(table)
        self.closed = Event()
        self._opened: OrderedDict[Hashable, Opened] = OrderedDict()
        self._lock = RLock()

    def opened(self, choice: PageChoice) -> Opened:
        """Read and merge the chosen columns, or give them if they are."""

        def build() -> Opened:
            request = replace(
                Request(**choice.options()), families="crossed", bound="range", target=None
            )
            task = open_job(
                **choice.arguments(self.table),
                request=request,
                settings=Settings(progress=lambda _: not self.closed.is_set()),
            )
            _refuse_too_many(task.table)
            return Opened(task)

        with self._lock:
            return _kept(self._opened, choice.columns, build, most=4)

    def made(self, choice: TaskChoice) -> Made:
        """Make decisions or labels for a model, once."""
        with self._lock, _quiet():
            return _kept(
                self._made,
                choice,
                lambda: (decided if choice.task == "decisions" else taught)(self.table, choice),
                most=2,
            )

    def solve(self, choice: PageChoice, *, cold: bool = False) -> FairLabels:
        """Solve what is chosen."""
        return self.opened(choice).under(choice).solve(choice.epsilon, cold=cold)


def _refuse_too_many(data: Dataset) -> None:
    """Refuse more groups or classes than a page can show."""
    if data.n_cells > 1000:
        raise InputError(
            f"The columns chosen make {data.n_cells:,} groups, and the app takes 1,000.",
            remedy="Choose columns with fewer values, or use r2b on the command line, which "
            "has --continuous.",
            control="sensitive",
            groups=data.n_cells,
        )
    if data.n_cells * data.n_classes**2 > 1 << 23:  # 64 MiB
        raise InputError(
            f"The label has {data.n_classes:,} classes in {data.n_cells:,} groups, which is more "
            "than a page can answer at once.",
            remedy="Choose columns with fewer values, or use r2b on the command line.",
            control="label",
            classes=data.n_classes,
        )


def _kept(
    store: OrderedDict[Hashable, Kept], key: Hashable, build: Callable[[], Kept], most: int
) -> Kept:
    """Return what is kept under a key, or build it; the least recently used makes room."""
    if key not in store:
        store[key] = build()
        while len(store) > most:
            store.popitem(last=False)
    store.move_to_end(key)
    return store[key]


@contextmanager
def _quiet() -> Iterator[None]:
    # The page shows the status of every answer, and what is doubtful about the data; a warning in
    # the terminal would say it twice.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotSolvedWarning)
        warnings.simplefilter("ignore", DataWarning)
        yield


def _columns(table: FileSource) -> tuple[PageColumn, ...]:
    table.refuse_twice(table.names)
    if (table.n_rows or 0) * len(table.names) > 10_000_000:
        return tuple(PageColumn(name, None) for name in table.names)
    nested = pyarrow().types.is_nested  # lists and the like: no column to choose
    found = table.columns(table.names).items()
    return tuple(
        PageColumn(name, None if nested(values.type) else len(values.unique()))
        for name, values in found
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
        if id is not None:
            self.close(id)
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
