"""Another engine behind the block protocol: rows of probabilities in blocks of the user's own making."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from r2b._constraints.families.doubts import warn_of_doubts
from r2b._data import Groups, Schema, Vocabulary
from r2b._data.arrays import Floats, Whole
from r2b._data.groups import read_groups
from r2b._data.probabilities import TOLERANCE
from r2b._labels import FairLabels
from r2b._labels.debiasing import Options, request_and_settings, takes_options
from r2b._solve.oracle import Block, Blocks
from r2b._solve.oracle.blocks import BlockTask, Sums, added
from r2b.engines.solving import SAMPLE_ENTRIES, open_remote
from r2b.engines.tally import refuse_weightless
from r2b.errors import EmptyError, InputError, LengthError, ParameterError, ProbabilityError, ShapeError, WeightError

_WITHOUT = ("objective", "costs", "normalize", "merge_rows", "kernel", "threads")  # for class labels, or for rows that are not in blocks


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
        Anything with a method ``run(task)`` that calls the task with every :class:`r2b.engines.Block` and gives the results in the order of
        the blocks. Tasks and results can be pickled; no block may be empty.
    classes : int or sequence
        How many classes there are, or their names.
    sensitive_features, control_features : sequence, or mapping of str to sequence
        What each cell code of the blocks means: entry j is the value of the rows whose ``Block.cells`` is j. Entries without a row are
        left out.
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
        A block holds what is no distribution, no weight or no cell; the message names block and row.

    Examples
    --------
    >>> class Two:
    ...     blocks = [Block(np.array([[0.7, 0.3]]), np.array([0])), Block(np.array([[0.2, 0.8]]), np.array([1]))]
    ...
    ...     def run(self, task):
    ...         return map(task, self.blocks)
    >>> fair = debias_blocks(Two(), classes=["no", "yes"], sensitive_features=["f", "m"], epsilon=0.1)
    >>> fair.status.value, round(fair.certificate.parity, 6)
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
    mass = np.bincount(codes, weight, minlength=groups.n_groups).astype(np.float64)
    refuse_weightless(mass, int(rows.sum()))
    schema = Schema(*groups.parts, classes=Vocabulary(np.array(names)), is_soft=True)
    if not np.array_equal(codes, np.arange(n_entries)):
        blocks = Recoded(blocks, codes)
    job = open_remote(blocks, schema, groups, mass, int(rows.sum()), request, settings, sample_entries)
    warn_of_doubts(job)
    return job.solve()


@dataclass(frozen=True, eq=False)
class BlockCheck:
    """The first task: rows and weight by entry, and the first thing that is wrong with a block.

    Attributes
    ----------
    n_entries, n_classes : int
    """

    n_entries: int
    n_classes: int

    def __call__(self, block: Block) -> Sums:
        """Look at all rows once."""
        wrong = self._wrong(block)
        if wrong is not None:
            return [np.zeros(self.n_entries, np.int64), np.zeros(self.n_entries), np.array([list(_WRONG).index(wrong[0]), wrong[1]])]
        rows = np.bincount(block.cells, minlength=self.n_entries)
        weight = np.bincount(block.cells, block.weight, minlength=self.n_entries) if len(block.weight) else rows.astype(np.float64)
        return [rows, weight, np.empty(0, np.int64)]

    def _wrong(self, block: Block) -> tuple[str, int] | None:
        labels, cells, weight = block.labels, block.cells, block.weight
        if labels.ndim != 2 or labels.shape[1] != self.n_classes or len(labels) == 0 or labels.dtype not in TOLERANCE:
            return "shape", 0
        if len(cells) != len(labels) or len(weight) not in (0, len(labels)) or cells.dtype.kind not in "iu":
            return "length", 0
        sums = labels.sum(axis=1, dtype=np.float64)
        checks = {
            "cell": (cells >= 0) & (cells < self.n_entries),
            "entry": np.isfinite(sums) & (labels.min(axis=1) >= 0),
            "sum": np.abs(sums - 1.0) <= TOLERANCE[labels.dtype],
            "weight": (weight >= 0) & (weight < np.inf),
        }
        return next(((name, int(np.flatnonzero(~fine)[0])) for name, fine in checks.items() if not fine.all()), None)


_WRONG: dict[str, tuple[type[InputError], str, str]] = {
    "shape": (ShapeError, "the labels are no matrix of float32 or float64 with one row or more and a column per class", ""),
    "length": (LengthError, "labels, whole numbers of cells and weights are not one per row each", ""),
    "cell": (InputError, "the cell of row {} is not one of the entries of sensitive_features", "Number cells from 0."),
    "entry": (ProbabilityError, "row {} has a probability that is negative or no finite number", "Correct or drop the row."),
    "sum": (ProbabilityError, "the probabilities of row {} do not sum to 1", "Divide each row by its sum."),
    "weight": (WeightError, "the weight of row {} is negative or no finite number", "Pass finite weights of zero or more."),
}


@dataclass(frozen=True, eq=False)
class Recode:
    """A task for blocks whose cells have other codes."""

    task: BlockTask
    codes: Whole

    def __call__(self, block: Block) -> Sums:
        """Run the task on the same rows."""
        return self.task(replace(block, cells=self.codes[block.cells]))


@dataclass(frozen=True, eq=False)
class Recoded:
    """Blocks whose cells have other codes: those of the crossings of values, in their order."""

    blocks: Blocks
    codes: Whole

    def run(self, task: BlockTask) -> Iterator[Sums]:
        """Run a task on every block."""
        return iter(self.blocks.run(Recode(task, self.codes)))


def _class_names(classes: int | Sequence[Any]) -> list[Any]:
    names = list(range(classes)) if isinstance(classes, int) else list(classes)
    if len(names) < 2 or len(set(names)) < len(names):
        raise ParameterError(
            f"classes is {classes!r}.", remedy="Pass the number of classes, 2 or more, or a name for each, all different.", classes=classes
        )
    return names


def _entries(sensitive: Any, control: Any) -> dict[str, dict[str, list[Any]]]:
    found = {"sensitive_features": _columns(sensitive), "control_features": {} if control is None else _columns(control)}
    lengths = {name: len(column) for columns in found.values() for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise LengthError(
            f"The columns of attributes have different lengths: {lengths}.",
            remedy="Give every attribute one value per cell of the blocks.",
            lengths=lengths,
        )
    return found


def _columns(given: Any) -> dict[str, list[Any]]:
    return {str(name): list(column) for name, column in given.items()} if isinstance(given, Mapping) else {"": list(given)}


def _counted(blocks: Blocks, n_entries: int, n_classes: int) -> tuple[Whole, Floats]:
    total: Sums | None = None
    for number, (rows, weight, wrong) in enumerate(blocks.run(BlockCheck(n_entries, n_classes))):
        if len(wrong):
            kind, problem, remedy = list(_WRONG.values())[int(wrong[0])]
            raise kind(
                f"In block {number}, {problem.format(int(wrong[1]))}.",
                remedy=remedy or "See r2b.engines.Block for what a block holds.",
                block=number,
                row=int(wrong[1]),
            )
        total = [rows, weight] if total is None else added([total, [rows, weight]])
    if total is None:
        raise EmptyError("There are no blocks.", remedy="Pass at least one row.")
    return total[0], total[1]


def _cells(entries: dict[str, dict[str, list[Any]]], rows: Whole, missing: str) -> tuple[Groups, Whole]:
    """Read the entries that have rows as cells; give these, and the cell of every entry."""
    there = np.flatnonzero(rows)
    kept = {
        argument: {name: [column[entry] for entry in there] for name, column in columns.items()} for argument, columns in entries.items()
    }
    groups = read_groups(kept["sensitive_features"], control_features=kept["control_features"] or None, missing=missing)
    codes = np.zeros(len(rows), np.int64)
    codes[there] = groups.codes
    return replace(groups, repeats=rows[there]), codes
