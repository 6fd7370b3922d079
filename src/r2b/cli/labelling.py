"""Fair labels as new columns of a table, in each of the forms that keep parity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b import FairLabels
from r2b._files import Table
from r2b._files.plain import as_text
from r2b.cli.selection import Selection
from r2b.errors import ParameterError

FORMS = ("soft", "round", "sample", "expand")


@dataclass(frozen=True, eq=False)
class NewColumns:
    """What is put beside the old columns.

    Attributes
    ----------
    columns : dict of str to column
    rows : ndarray or None
        Rows of the table that leave, where they are repeated.
    """

    columns: dict[str, Any]
    rows: np.ndarray[Any, np.dtype[np.int64]] | None = None


def new_names(form: str, stem: str | None, selection: Selection, classes: Sequence[Any]) -> list[str]:
    """Name the new columns: one per class for soft labels, one for whole ones, and for repeated rows weight and row number as well.

    Examples
    --------
    >>> people = Selection("job", (), ("sex",), (), (), (), None)
    >>> new_names("soft", None, people, ["a", "b"]), new_names("expand", "new", people, ["a", "b"])
    (['job_fair_a', 'job_fair_b'], ['new', 'new_weight', 'new_row'])
    """
    base = f"{selection.stem}_fair" if stem is None else stem
    if form == "soft":
        if stem is None and selection.label is None:
            return [f"{name}_fair" for name in selection.label_columns]
        return [f"{base}_{text}" for text in as_text(list(classes), base)]
    return [base, f"{base}_weight", f"{base}_row"] if form == "expand" else [base]


def refuse_taken(table: Table, names: Sequence[str]) -> None:
    """Refuse names that columns have already.

    Raises
    ------
    ParameterError
        Names the column.
    """
    taken = next((name for name in names if name in table or list(names).count(name) > 1), None)
    if taken is not None:
        raise ParameterError(
            f"The new column {taken!r} would have the name of a column of {table.name}.",
            remedy="Choose another name with --new-column.",
            column=taken,
        )


def new_columns(fair: FairLabels, form: str, names: Sequence[str], random_state: int, key: Mapping[str, Any] | None = None) -> NewColumns:
    """Give the labels in one form under these names; ``key`` has columns that draws follow from."""
    if form == "soft":
        matrix = np.asarray(fair.soft_labels, dtype=np.float64)
        return NewColumns({name: matrix[:, k] for k, name in enumerate(names)})
    if form == "expand":
        rows, labels, weight = fair.expand()
        return NewColumns(dict(zip(names, (labels, weight, rows), strict=True)), np.asarray(rows))
    return NewColumns({names[0]: drawn(fair, form, random_state, key)})


def drawn(fair: FairLabels, form: str, random_state: int, key: Mapping[str, Any] | None = None) -> Any:
    """Round or sample, by the order of the rows or by columns that tell them apart."""
    draw = fair.round if form == "round" else fair.sample
    return draw(random_state, key=list(key.values())) if key else draw(random_state)
