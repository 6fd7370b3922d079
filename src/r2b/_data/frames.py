"""Results as frames: columns by name to a table of the library that the data came in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, get_args

import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrays import Array, as_objects, plain_value
from r2b._data.columns import make_column
from r2b._data.dataset import Dataset
from r2b._data.vocabulary import Vocabulary
from r2b.errors import MissingExtraError, ParameterError, require

Backend = Literal["pandas", "polars", "pyarrow"]

_NEED = "A frame of results needs"


def library_of(data: Dataset) -> str:
    """Return the library that the labels or, failing that, an attribute came in; or ""."""
    every = [
        data.labels.vocabulary,
        *(each for each in data.cells.vocabularies if isinstance(each, Vocabulary)),
    ]
    return next((each.library for each in every if each.library in get_args(Backend)), "")


def frame_of(
    columns: Mapping[Any, Any], backend: Backend | None = None, came_as: str = "", index: Any = None
) -> Any:
    """Make a frame.

    Parameters
    ----------
    columns : mapping of str to array-like of shape (n,)
        pandas may have names that are no text; the others have them as text.
    backend : {"pandas", "polars", "pyarrow"}, optional
        By default the library that the data came in; of data that came in none, pandas or, where it
        is not installed, Polars.
    came_as : str
        The library that the data came in.
    index : pandas Index, optional
        The row labels of a pandas frame.

    Raises
    ------
    ParameterError
        There is no such backend.
    MissingExtraError
        It is not installed, or neither pandas nor Polars is.

    Examples
    --------
    >>> frame_of({"class": np.array(["a", "b"]), "share": [0.25, 0.75]}, "pyarrow").to_pydict()
    {'class': ['a', 'b'], 'share': [0.25, 0.75]}
    """
    library = _chosen(backend, came_as)
    names = list(columns) if library == "pandas" else [str(plain_value(name)) for name in columns]
    made = [
        make_column(_as_array(values), library, str(plain_value(name)))
        for name, values in columns.items()
    ]
    # A column without rows has no type to tell; what is no number is a name.
    if library == "pyarrow":
        arrow = libraries.get_pyarrow()
        return arrow.table(
            [
                column.cast("string") if arrow.types.is_null(column.type) else column
                for column in made
            ],
            names=names,
        )
    if library == "polars":
        polars = libraries.get_polars()
        typed = [
            column.cast(polars.String) if column.dtype == polars.Null else column for column in made
        ]
        return polars.DataFrame(
            [column.alias(name) for column, name in zip(typed, names, strict=True)]
        )
    frame = libraries.get_pandas().concat(made, axis=1)
    frame.columns = names
    return frame if index is None else frame.set_axis(index, axis=0)


def records(kind: type[Any], found: Iterable[Any]) -> dict[str, Any]:
    """Return the fields of dataclasses of one kind as columns; there may be none."""
    every, known = list(found), {each.name: each.type in ("float", float) for each in fields(kind)}
    columns = {name: [getattr(each, name) for each in every] for name in known}
    return {
        name: np.array(values, np.float64) if known[name] else as_objects(values)
        for name, values in columns.items()
    }


def _as_array(values: Sequence[Any] | Array) -> Array:
    """Return numbers and truth values as such, and everything else as objects."""
    array = values if isinstance(values, np.ndarray) else as_objects(list(values))
    plain = (
        array.dtype == object
        and len(array)
        and all(isinstance(value, (bool, int, float)) for value in array)
    )
    return np.array(array.tolist()) if plain else array


def _chosen(backend: str | None, came_as: str) -> str:
    known = get_args(Backend)
    if backend is not None and backend not in known:
        remedy = f"Choose among {', '.join(map(repr, known))}, or leave it out."
        raise ParameterError(f"backend is {backend!r}.", remedy=remedy, backend=backend)
    chosen = backend or (came_as if came_as in known else "")
    if chosen:
        require(chosen, f"{_NEED} {chosen}", extra="frames")
        return chosen
    try:
        require("pandas", f"{_NEED} pandas", extra="frames")
    except MissingExtraError:
        require(
            "polars",
            f"{_NEED} pandas or Polars",
            extra="frames",
            otherwise=", or pass backend='pyarrow'",
        )
        return "polars"
    return "pandas"
