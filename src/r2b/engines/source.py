"""Where a table lives. A source can count equal rows, run work on batches, keep coded blocks, and leave with new columns.

Everything follows from batches of Arrow columns; an engine that can count or keep blocks where its rows are does better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._files.arrow import pyarrow
from r2b._solve.oracle import Blocks
from r2b.engines.batch import Batch, one_array
from r2b.engines.decode import Decode
from r2b.engines.relabel import Relabel
from r2b.engines.roles import ColumnRoles
from r2b.engines.tally import Counter, Tally
from r2b.errors import EmptyError, InputError, MissingValueError

NO_LABEL = "Every row needs a label: fill in those that are missing, or drop their rows."
NO_ATTRIBUTE = "Fill or drop such rows, or make them a group of their own with missing='group', or leave them out with missing='exclude'."


class Source(ABC):
    """A table that is not in memory.

    Attributes
    ----------
    name : str
        How errors call it.
    names : tuple of str
        Of its columns.
    ordered : bool
        Whether its rows have an order that every pass meets again. If not, what is drawn for a row needs a key.
    """

    name: str
    names: tuple[str, ...]
    ordered: bool

    @abstractmethod
    def list_length(self, column: str) -> int | None:
        """Give the number of entries of the lists in a column, from its first row; None where it holds no lists."""

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Give the rows in order, some columns of them, a batch at a time."""

    def run(self, columns: Sequence[str], work: Callable[[Batch], Any]) -> Iterator[Any]:
        """Run work on every batch; results come in the order of the batches."""
        return (work(batch) for batch in self.batches(columns))

    def reading_numbers(self, choice: ColumnRoles) -> Source:
        """Give the same table with the probabilities and weights of a choice as numbers; files of text read them so on request."""
        return self

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """Read whole columns into memory, as Arrow arrays by name."""
        arrow = pyarrow()
        wanted = list(dict.fromkeys(names))
        parts = [batch.record.select(wanted) for batch in self.batches(wanted)]
        if not parts:
            raise EmptyError(f"{self.subject} has no rows.", remedy="Pass at least one row.")
        table = arrow.Table.from_batches(parts).combine_chunks()
        return {name: one_array(table.column(name)) for name in wanted}

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count the rows of every combination of values, and add up their weights."""
        counter = Counter(keys, weight)
        for batch in self.batches([*keys, *([] if weight is None or weight in keys else [weight])]):
            counter.add(batch)
        return counter.tally()

    @abstractmethod
    def blocks(self, decode: Decode) -> AbstractContextManager[Blocks]:
        """Keep the rows as coded blocks for several passes; what was made for them is gone at the end."""

    @abstractmethod
    def frame(self, relabel: Relabel) -> Any:
        """Give the table with new columns, of the kind that came in."""

    def write(self, relabel: Relabel, path: str, *, force: bool = False) -> None:
        """Write the table with new columns to files."""
        raise InputError(
            f"{self.subject} is not a file, so there is nothing that says how to write it.",
            remedy="Take frame(...), which is of the kind that came in, and write that.",
        )

    def refuse_missing(self, column: str, remedy: str) -> None:
        """Find a row without a value, and say where it is.

        Parameters
        ----------
        column : str
        remedy : str
            There are more ways out for attributes than for labels.

        Raises
        ------
        MissingValueError
            Always, unless no row lacks one after all.
        """
        look = RefuseMissing(column, remedy)
        for batch in self.batches([column]):
            look(batch)

    @property
    def subject(self) -> str:
        """Its name at the start of a sentence; names of files stay as they are."""
        return f"The {self.name[4:]}" if self.name.startswith("the ") else self.name


@dataclass(frozen=True)
class RefuseMissing:
    """Looks for a row without a value: a null or a NaN; it can be sent to where the rows are."""

    column: str
    remedy: str

    def __call__(self, batch: Batch) -> None:
        """Raise an error that says where it is."""
        gaps = np.asarray(batch.columns[self.column].is_null(nan_is_null=True).to_numpy(zero_copy_only=False))
        if not gaps.any():
            return
        row = int(np.flatnonzero(gaps)[0])
        with batch.placed():
            raise MissingValueError(f"Row {row} has no value in {self.column!r}.", remedy=self.remedy, column=self.column, row=row)
