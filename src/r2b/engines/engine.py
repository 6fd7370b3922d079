"""Probabilities that live elsewhere, in blocks: a few passes, with a sample at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, Unpack

import numpy as np

from r2b._constraints.families import Request
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._data import Cells, Schema, Vocabulary
from r2b._data.arrays import Array, Floats, Whole
from r2b._data.cells import read_cells
from r2b._data.columns import Column
from r2b._data.merge import Extent, Rows
from r2b._data.numbers import read_weight, refuse_other_number, refuse_weightless_table
from r2b._data.probabilities import CLASSES, TOLERANCE, checked
from r2b._labels import FairLabels
from r2b._labels.debiasing import Options, Settings, request_and_settings, takes_options
from r2b._labels.task import Task
from r2b._solve.oracle import Block, Blocks, Oracle, Pass, Reduction
from r2b._solve.oracle.oracle import rescaled
from r2b.engines.batch import Fold, add
from r2b.engines.sample import sample
from r2b.errors import (
    EmptyError,
    InputError,
    LengthError,
    ParameterError,
    ShapeError,
)

# entries of the sample: 128 MB at most, and all rows where they are no more
SAMPLE_ENTRIES = 1 << 24
# for class labels, or for rows that are not in blocks
_WITHOUT = ("objective", "costs", "normalize", "threads")
_WORDING = replace(CLASSES, normalising="Divide each row by its sum.")


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
        How many classes there are, or their names; ``outcomes="ordinal"`` takes them in this order.
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

    See Also
    --------
    r2b.scan : Tables that are larger than memory.

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
    names = list(range(classes)) if isinstance(classes, int) else list(classes)
    if len(names) < 2 or len(set(names)) < len(names):
        raise ParameterError(
            f"classes is {classes!r}.",
            remedy="Pass the number of classes, 2 or more, or a name for each, all different.",
            classes=classes,
        )
    if isinstance(request.outcomes, str) and request.outcomes == "ordinal":
        request = replace(request, outcomes={"ordinal": names})
    entries = {"sensitive_features": _columns(sensitive_features)}
    if control_features is not None:
        entries["control_features"] = _columns(control_features)
    lengths = {name: len(each) for columns in entries.values() for name, each in columns.items()}
    n_entries, *others = set(lengths.values())
    if others:
        raise LengthError(
            f"The columns of attributes have different lengths: {lengths}.",
            remedy="Give every attribute one value per cell of the blocks.",
            lengths=lengths,
        )
    found = blocks.reduce(BlockCheck(n_entries, len(names)))
    if found is None:
        raise EmptyError("There are no blocks.", remedy="Pass at least one row.")
    rows, weight, _, wrong = found
    if wrong is not None:
        raise wrong.changed(problem=f"In block {wrong.facts['block']}: {wrong.problem}")
    there = np.flatnonzero(rows)
    kept: dict[str, Any] = {
        argument: {name: [column[entry] for entry in there] for name, column in columns.items()}
        for argument, columns in entries.items()
    }
    groups = read_cells(**kept, missing=request.missing)
    codes = np.zeros(n_entries, np.int64)
    codes[there] = groups.codes
    groups = replace(groups, repeats=rows[there])
    mass = np.bincount(codes, weight, minlength=groups.n_cells).astype(np.float64)
    refuse_weightless_table(mass, int(rows.sum()))
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
    """The first task: rows and weight by entry, how many blocks, and what is wrong first.

    Attributes
    ----------
    n_entries, n_classes : int
    """

    n_entries: int
    n_classes: int

    def make(self, block: Block) -> tuple[Array, Floats, int, InputError | None]:
        """Look at all rows once."""
        wrong = self._wrong(block)
        if wrong is not None:
            wrong = wrong.changed(block=0)
            return np.zeros(self.n_entries, np.int64), np.zeros(self.n_entries), 1, wrong
        rows = np.bincount(block.design, minlength=self.n_entries)
        weight = np.bincount(block.design, block.weights, minlength=self.n_entries)
        return rows, weight.astype(np.float64), 1, None

    def merge(self, one: Any, other: Any) -> Any:
        """Add up, and keep what is wrong first with the number of its block."""
        *sums, wrong = map(add, one[:3], other[:3]), one[3]
        if wrong is None and other[3] is not None:
            wrong = other[3].changed(block=one[2] + other[3].facts["block"])
        return (*sums[0], wrong)

    def _wrong(self, block: Block) -> InputError | None:
        labels, cells, weight = block.labels, block.design, block.weight
        remedy = "See r2b.engines.Block for what a block holds."
        shaped = labels.shape[1:] == (self.n_classes,) and len(labels) > 0
        if not shaped or labels.dtype not in TOLERANCE:
            return ShapeError(
                "The labels are no matrix of float32 or float64 with one row or more and a column "
                "per class.",
                remedy=remedy,
            )
        lengths = cells.shape == labels.shape[:1] and len(weight) in (0, len(labels))
        if not lengths or cells.dtype.kind not in "iu":
            return LengthError(
                "Labels, whole numbers of cells and weights are not one per row each.",
                remedy=remedy,
            )
        for row in np.flatnonzero((cells < 0) | (cells >= self.n_entries))[:1].tolist():
            return InputError(
                f"Row {row} is of a cell that is not one of the entries of sensitive_features.",
                remedy="Number cells from 0.",
                row=row,
            )
        try:
            names = range(self.n_classes)
            checked(labels, names, what="labels", normalize=False, wording=_WORDING)
            if len(weight):
                read_weight(Column(weight, "numpy"), "`weight`")
        except InputError as error:
            return error
        return None


@dataclass(frozen=True, eq=False)
class Recoded:
    """Blocks whose cells have other codes.

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
        return self.blocks.reduce(Fold(partial(_with_codes, self.codes, task), task.merge))


def _with_codes(codes: Whole, task: Reduction, block: Block) -> Any:
    return task.make(replace(block, design=codes[block.design]))


def _columns(given: Any) -> dict[str, list[Any]]:
    columns = given if isinstance(given, Mapping) else {"": given}
    return {str(name): list(column) for name, column in columns.items()}


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
        raise InputError(
            f"A group had {then} rows, or so much weight, when the table was counted, "
            f"and {now} when it was read again.",
            remedy="The table must give the same rows each time: write it to files, or persist it, "
            "and debias that.",
            cell=cell,
            counted=float(counted[cell]),
            found=float(mass[cell]),
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
    remedy = (
        "Pass how many numbers of the table may be read into memory as a sample, a whole number of "
        "at least 0."
    )
    refuse_other_number("sample_entries", sample_entries, remedy, lambda n: n >= 0, Integral)
    n_cells, n_classes = len(cell_weight), len(schema.classes)
    most, sums = sample_entries // n_classes, None
    if n_rows > most:
        sums, mass = blocks.reduce(Pass("labels", (n_cells, n_classes)))
        refuse_changed(mass, cell_weight)
    (labels, cells, weight), whole = sample(blocks, n_cells, n_rows, most)
    if whole:
        mass = np.bincount(cells, weight, minlength=n_cells).astype(np.float64)
        refuse_changed(mass, cell_weight)
    some = Rows(labels, cells, rescaled(cells, weight, cell_weight), n_cells, None)
    rows: Rows | Extent = some
    oracle = Oracle.of(some, threads=settings.threads)
    if not whole:
        oracle = Oracle(blocks, cell_weight, n_classes, near=oracle, label_sums=sums)
        rows = Extent(n_rows, n_classes, labels.dtype, cell_weight)
    return Task.elsewhere(schema, groups, rows, cell_weight, oracle, request, settings)
