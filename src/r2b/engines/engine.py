"""Probabilities that live elsewhere, in blocks: a few passes, with a sample at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Unpack

import numpy as np

from r2b._constraints.families import Request
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.request import is_a
from r2b._data import Cells, Schema, Vocabulary
from r2b._data.arrays import Floats, Whole
from r2b._data.cells import read_cells
from r2b._data.merge import Extent, Rows
from r2b._data.probabilities import TOLERANCE
from r2b._labels import FairLabels
from r2b._labels.debiasing import Options, Settings, request_and_settings, takes_options
from r2b._labels.task import Task
from r2b._solve.oracle import Block, Blocks, Oracle, Reduction
from r2b._solve.oracle.blocks import Sums
from r2b._solve.oracle.oracle import rescaled
from r2b.engines.sample import ALL, Draw, First, share_limit
from r2b.engines.tally import refuse_weightless
from r2b.errors import (
    EmptyError,
    InputError,
    LengthError,
    ParameterError,
    ProbabilityError,
    ShapeError,
    WeightError,
)

# entries of the sample: 128 MB at most, and all rows where they are no more
SAMPLE_ENTRIES = 1 << 24
# for class labels, or for rows that are not in blocks
_WITHOUT = ("objective", "costs", "normalize", "threads")


@takes_options(without=_WITHOUT)
def debias_blocks(
    blocks: Blocks,
    *,
    classes: int | Sequence[Any],
    sensitive_features: Sequence[Any] | Mapping[str, Sequence[Any]],
    control_features: Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
    sample_entries: int = SAMPLE_ENTRIES,
    **options: Unpack[Options],
) -> FairLabels:
    """Find the closest labels in parity for rows of probabilities that an engine keeps in blocks.

    Parameters
    ----------
    blocks : Blocks
        Anything with a method ``reduce(task)`` that calls ``task.make`` with every
        :class:`r2b.engines.Block` and gives the results in the order of the blocks. Tasks and
        results can be pickled; no block may be empty.
    classes : int or sequence
        How many classes there are, or their names.
    sensitive_features, control_features : sequence, or mapping of str to sequence
        What each cell code of the blocks means: entry j is the value of the rows whose
        ``Block.cells`` is j. Entries without a row are left out.
    sample_entries : int
        As for :meth:`r2b.Scan.debias`.
    **options : Options
        As for :func:`r2b.debias`.

    Returns
    -------
    FairLabels
        Without rows: prices, status and certificate; ``transform`` gives the labels of rows.

    Raises
    ------
    InputError
        A block holds what is no distribution, no weight or no cell; the message names block and
        row.

    Examples
    --------
    >>> import functools
    >>> class Two:
    ...     blocks = [
    ...         Block(np.array([[0.7, 0.3]]), np.array([0])),
    ...         Block(np.array([[0.2, 0.8]]), np.array([1])),
    ...     ]
    ...
    ...     def reduce(self, task):
    ...         return functools.reduce(task.merge, map(task.make, self.blocks))
    >>> fair = debias_blocks(
    ...     Two(), classes=["no", "yes"], sensitive_features=["f", "m"], epsilon=0.1
    ... )
    >>> fair.status.value, round(fair.certificate.disparity, 6)
    ('solved', 0.1)
    >>> fair.transform([[0.7, 0.3]], sensitive_features=["f"]).round(6)
    array([[0.5, 0.5]])
    """
    request, settings = request_and_settings(options, without=_WITHOUT)
    names = _class_names(classes)
    entries = _entries(sensitive_features, control_features)
    n_entries = len(next(iter(entries["sensitive_features"].values())))
    rows, weight = _counted(blocks, n_entries, len(names))
    groups, codes = _cells(entries, rows, request.missing)
    mass = np.bincount(codes, weight, minlength=groups.n_cells).astype(np.float64)
    refuse_weightless(mass, int(rows.sum()))
    schema = Schema(*groups.parts, classes=Vocabulary(np.array(names)), is_soft=True)
    if not np.array_equal(codes, np.arange(n_entries)):
        blocks = Recoded(codes, blocks)
    job = open_remote(
        blocks, schema, groups, mass, int(rows.sum()), request, settings, sample_entries
    )
    warn_of_doubts(job)
    return job.solve()


@dataclass(frozen=True, eq=False)
class BlockCheck:
    """The first task: rows and weight by entry, and the first block with something wrong.

    Attributes
    ----------
    n_entries, n_classes : int
    """

    n_entries: int
    n_classes: int

    def make(self, block: Block) -> Sums:
        """Look at all rows once; the last array tells what is wrong, in which row and block."""
        wrong = self._wrong(block)
        if wrong is not None:
            found = np.array([list(_WRONG).index(wrong[0]), wrong[1], 0])
            return [np.zeros(self.n_entries, np.int64), np.zeros(self.n_entries), np.ones(1), found]
        rows = np.bincount(block.design, minlength=self.n_entries)
        weight = np.bincount(block.design, block.weights, minlength=self.n_entries)
        return [rows, weight, np.ones(1), np.empty(0, np.int64)]

    def merge(self, one: Sums, other: Sums) -> Sums:
        """Add up, and keep what is wrong first; blocks are counted for it."""
        found = one[3]
        if not len(found) and len(other[3]):
            found = other[3] + np.array([0, 0, int(one[2][0])])
        return [one[0] + other[0], one[1] + other[1], one[2] + other[2], found]

    def _wrong(self, block: Block) -> tuple[str, int] | None:
        labels, cells, weight = block.labels, block.design, block.weight
        if (
            labels.ndim != 2
            or labels.shape[1] != self.n_classes
            or len(labels) == 0
            or labels.dtype not in TOLERANCE
        ):
            return "shape", 0
        if (
            len(cells) != len(labels)
            or len(weight) not in (0, len(labels))
            or cells.ndim != 1
            or cells.dtype.kind not in "iu"
        ):
            return "length", 0
        sums = labels.sum(axis=1, dtype=np.float64)
        checks = {
            "cell": (cells >= 0) & (cells < self.n_entries),
            "entry": np.isfinite(sums) & (labels.min(axis=1) >= 0),
            "sum": np.abs(sums - 1.0) <= TOLERANCE[labels.dtype],
            "weight": (weight >= 0) & (weight < np.inf),
        }
        return next(
            (
                (name, int(np.flatnonzero(~fine)[0]))
                for name, fine in checks.items()
                if not fine.all()
            ),
            None,
        )


_WRONG: dict[str, tuple[type[InputError], str, str]] = {
    "shape": (
        ShapeError,
        "the labels are no matrix of float32 or float64 "
        "with one row or more and a column per class",
        "",
    ),
    "length": (
        LengthError,
        "labels, whole numbers of cells and weights are not one per row each",
        "",
    ),
    "cell": (
        InputError,
        "the cell of row {} is not one of the entries of sensitive_features",
        "Number cells from 0.",
    ),
    "entry": (
        ProbabilityError,
        "row {} has a probability that is negative or no finite number",
        "Correct or drop the row.",
    ),
    "sum": (
        ProbabilityError,
        "the probabilities of row {} do not sum to 1",
        "Divide each row by its sum.",
    ),
    "weight": (
        WeightError,
        "the weight of row {} is negative or no finite number",
        "Pass finite weights of zero or more.",
    ),
}


@dataclass(frozen=True, eq=False)
class Recoded:
    """Blocks whose cells have other codes, and the task that gives them these.

    Attributes
    ----------
    codes : ndarray of shape (n_entries,)
        The cell of each entry.
    blocks : Blocks
    """

    codes: Whole
    blocks: Blocks

    def reduce(self, task: Reduction) -> Any:
        """Make the result of every block, and merge the results."""
        return self.blocks.reduce(RecodedTask(self.codes, task))


@dataclass(frozen=True, eq=False)
class RecodedTask:
    """A task on the same rows, with other codes of cells."""

    codes: Whole
    task: Reduction

    def make(self, block: Block) -> Any:
        """Make the result of a block."""
        return self.task.make(replace(block, design=self.codes[block.design]))

    def merge(self, one: Any, other: Any) -> Any:
        """Merge results."""
        return self.task.merge(one, other)


def _class_names(classes: int | Sequence[Any]) -> list[Any]:
    names = list(range(classes)) if isinstance(classes, int) else list(classes)
    if len(names) < 2 or len(set(names)) < len(names):
        raise ParameterError(
            f"classes is {classes!r}.",
            remedy="Pass the number of classes, 2 or more, or a name for each, all different.",
            classes=classes,
        )
    return names


def _entries(sensitive: Any, control: Any) -> dict[str, dict[str, list[Any]]]:
    found = {
        "sensitive_features": _columns(sensitive),
        "control_features": {} if control is None else _columns(control),
    }
    lengths = {name: len(column) for columns in found.values() for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        problem = f"The columns of attributes have different lengths: {lengths}."
        raise LengthError(
            problem,
            remedy="Give every attribute one value per cell of the blocks.",
            lengths=lengths,
        )
    return found


def _columns(given: Any) -> dict[str, list[Any]]:
    return (
        {str(name): list(column) for name, column in given.items()}
        if isinstance(given, Mapping)
        else {"": list(given)}
    )


def _counted(blocks: Blocks, n_entries: int, n_classes: int) -> tuple[Whole, Floats]:
    found = blocks.reduce(BlockCheck(n_entries, n_classes))
    if found is None:
        raise EmptyError("There are no blocks.", remedy="Pass at least one row.")
    rows, weight, _, wrong = found
    if len(wrong):
        kind, problem, remedy = list(_WRONG.values())[int(wrong[0])]
        problem = f"In block {int(wrong[2])}, {problem.format(int(wrong[1]))}."
        raise kind(
            problem,
            remedy=remedy or "See r2b.engines.Block for what a block holds.",
            block=int(wrong[2]),
            row=int(wrong[1]),
        )
    return rows, weight


def _cells(
    entries: dict[str, dict[str, list[Any]]], rows: Whole, missing: str
) -> tuple[Cells, Whole]:
    """Read the entries that have rows as cells; give these, and the cell of every entry."""
    there = np.flatnonzero(rows)
    kept = {
        argument: {name: [column[entry] for entry in there] for name, column in columns.items()}
        for argument, columns in entries.items()
    }
    groups = read_cells(
        kept["sensitive_features"],
        control_features=kept["control_features"] or None,
        missing=missing,
    )
    codes = np.zeros(len(rows), np.int64)
    codes[there] = groups.codes
    return replace(groups, repeats=rows[there]), codes


def refuse_changed(mass: Floats, counted: Floats) -> None:
    """Refuse rows that are not those that were counted, by the weight of every cell.

    Differences that a certificate cannot tell are let pass.

    Raises
    ------
    InputError
    """
    # Sums of weights in another order differ by less.
    off = np.flatnonzero(np.abs(mass - counted) > 1e-9 * counted)
    if len(off):
        cell = int(off[0])
        then, now = (f"{each[cell]:,.9g}" for each in (counted, mass))
        problem = (
            f"A group had {then} rows, or so much weight, when the table was counted, "
            f"and {now} when it was read again."
        )
        remedy = (
            "The table must give the same rows each time: write it to files, or persist it, "
            "and debias that."
        )
        raise InputError(
            problem, remedy=remedy, cell=cell, counted=float(counted[cell]), found=float(mass[cell])
        )


def open_remote(
    blocks: Blocks,
    schema: Schema,
    groups: Cells,
    cell_weight: Floats,
    n_rows: int,
    request: Request,
    settings: Settings,
    sample_entries: int = SAMPLE_ENTRIES,
) -> Task:
    """Settle what is asked of rows in blocks, to be solved as often as asked.

    Parameters
    ----------
    blocks : Blocks
    schema : Schema
    groups : Cells
        One entry per cell or more, with how many rows each stands for.
    cell_weight : ndarray of shape (n_cells,)
    n_rows : int
    request : Request
    settings : Settings
    sample_entries : int
        Entries of the sample that is loaded into local memory.
    """
    refuse_entries(sample_entries)
    n_cells, n_classes = len(cell_weight), len(schema.classes)
    most, limit, sums = sample_entries // n_classes, np.uint64(ALL), None
    if n_rows > most:
        sums, mass, least = blocks.reduce(First(n_cells, n_classes))
        limit = share_limit(least, most)
        refuse_changed(mass, cell_weight)
    draw = Draw(n_cells, limit, most + 1)
    _, labels, cells, weight = draw.settled(blocks.reduce(draw))
    whole = bool(limit == ALL and len(labels) <= most)
    if whole:
        refuse_changed(
            np.bincount(cells, weight, minlength=n_cells).astype(np.float64), cell_weight
        )
    sample = Rows(labels, cells, rescaled(cells, weight, cell_weight), n_cells, None)
    oracle = near = Oracle.of(sample, threads=settings.threads)
    if not whole:
        oracle = Oracle(blocks, cell_weight, n_classes, near=near, label_sums=sums)
    rows = sample if whole else Extent(n_rows, n_classes, labels.dtype, cell_weight)
    return Task.elsewhere(schema, groups, rows, cell_weight, oracle, request, settings)


def refuse_entries(sample_entries: int) -> None:
    """Refuse a size of the sample that is none.

    Raises
    ------
    ParameterError
    """
    if not is_a(Integral, sample_entries) or int(sample_entries) < 0:
        problem = f"sample_entries is {sample_entries!r}."
        remedy = (
            "Pass how many numbers of the table may be read into memory as a sample, "
            "a whole number of at least 0."
        )
        raise ParameterError(problem, remedy=remedy, sample_entries=sample_entries)
