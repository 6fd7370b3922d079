"""Partitions of pandas: to Arrow on the way in, and new columns of the types they had on the way out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from r2b._files.arrow import pyarrow
from r2b.engines.batch import Batch
from r2b.engines.source import Relabel
from r2b.errors import MixedTypeError


def record_of(part: Any, place: str, columns: Sequence[str] | None = None) -> Any:
    """Give some columns of a partition as a record batch; its index stays behind.

    Raises
    ------
    MixedTypeError
        A column holds values of several types, which Arrow cannot hold.
    """
    arrow = pyarrow()
    chosen = part if columns is None else part[list(columns)]
    try:
        return arrow.RecordBatch.from_pandas(chosen, preserve_index=False, nthreads=1)
    except arrow.ArrowException as cause:
        # Arrow says what is wrong first, and then in which column.
        told = re.search(r"column (.+) with type", str(cause.args[-1]))
        column = told[1] if told else None
        named = f"the column {column!r}" if column else f"a column of {', '.join(map(repr, chosen.columns))}"
        raise MixedTypeError(
            f"In {place}: {named} holds values of several types: {str(cause.args[0]).splitlines()[0].rstrip('.')}.",
            remedy="Give all values of a column the same type.",
            place=place,
            column=column,
        ) from cause


def may_hold_lists(dtype: Any) -> bool:
    """Say whether a column of this type may hold lists: objects may, and Arrow says it.

    Examples
    --------
    >>> import pandas
    >>> may_hold_lists(pandas.Series([[0.5, 0.5]]).dtype), may_hold_lists(pandas.Series(["a"]).dtype)
    (True, False)
    """
    if hasattr(dtype, "pyarrow_dtype"):
        return bool(pyarrow().types.is_nested(dtype.pyarrow_dtype))
    return type(dtype).__module__.partition(".")[0] == "numpy" and dtype.kind == "O"


def label_dtype(meta: Any, relabel: Relabel) -> Any:
    """Give the type of a column of new classes: that of the old ones, with all categories where they are not known."""
    pandas = import_module("pandas")
    choice, classes = relabel.decode.roles, relabel.decode.schema.classes.values
    if choice.soft:
        return pandas.Series(classes.tolist()).dtype
    dtype = meta.dtypes[choice.label[0]]
    if not isinstance(dtype, pandas.CategoricalDtype):
        return dtype
    known = dtype.categories if "__UNKNOWN_CATEGORIES__" not in dtype.categories else []
    every = [*known, *(value for value in classes.tolist() if value not in set(known))]
    return pandas.CategoricalDtype(every, dtype.ordered)


def relabelled(part: Any, relabel: Relabel, dtype: Any) -> Any:
    """Give a partition with new columns; index and other columns stay as they are.

    Parameters
    ----------
    part : pandas.DataFrame
    relabel : Relabel
    dtype : dtype
        Of new classes.
    """
    pandas, form = import_module("pandas"), relabel.form
    if len(part) == 0:
        kinds = [dtype, "float64"] if form == "expand" else ["float64"] * len(relabel.names) if form == "soft" else [dtype]
        empty = {name: pandas.Series([], dtype=kind, index=part.index) for name, kind in zip(relabel.names, kinds, strict=True)}
        return _beside(part, empty)
    place = f"the partition of index {part.index[0]!r} to {part.index[-1]!r}"
    new = relabel(Batch(record_of(part, place, relabel.needed), 0, place))
    rows = part if new.rows is None else part.iloc[new.rows]
    made = {}
    for number, (name, column) in enumerate(new.columns.items()):
        values = column.to_numpy(zero_copy_only=False) if form == "soft" or number else _classes(column, dtype)
        made[name] = pandas.Series(values, index=rows.index)
    return _beside(rows, made)


def _classes(column: Any, dtype: Any) -> Any:
    pandas = import_module("pandas")
    plain = column.dictionary_decode() if hasattr(column, "dictionary") else column
    return pandas.array(plain.to_pandas(), dtype=dtype)


def _beside(rows: Any, made: dict[str, Any]) -> Any:
    # Not assign: of two old columns with one name it would give up.
    pandas = import_module("pandas")
    return pandas.concat([rows, pandas.DataFrame(made, index=rows.index)], axis=1)
