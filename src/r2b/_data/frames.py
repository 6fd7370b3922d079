"""Results as frames: columns by name to a table of the library that the data came in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import Any, Literal, get_args

import narwhals as nw
import numpy as np

from r2b._data.arrays import as_objects, plain_value
from r2b._data.dataset import Dataset
from r2b._data.values import one_of
from r2b._data.vocabulary import Vocabulary
from r2b.errors import require

Backend = Literal["pandas", "polars", "pyarrow"]


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
    made = {}
    for name, values in columns.items():
        array = values if isinstance(values, np.ndarray) else as_objects(list(values))
        kind = nw.String if array.dtype == object and not len(array) else None  # names
        listed = array.tolist() if array.dtype.kind in "OU" else array
        made[name] = nw.new_series("", listed, kind, backend=library)
    frame = nw.from_dict({str(plain_value(name)): each for name, each in made.items()}).to_native()
    if library == "pandas":
        frame.columns = list(made)
    return frame if index is None or library != "pandas" else frame.set_axis(index, axis=0)


def records(kind: type[Any], found: Iterable[Any]) -> dict[str, Any]:
    """Return the fields of dataclasses of one kind as columns; there may be none."""
    every, known = list(found), {each.name: each.type in ("float", float) for each in fields(kind)}
    columns = {name: [getattr(each, name) for each in every] for name in known}
    return {
        name: np.array(values, np.float64) if known[name] else as_objects(values)
        for name, values in columns.items()
    }


def _chosen(backend: Backend | None, came_as: str) -> Any:
    if backend is not None:
        one_of("backend", backend, Backend)
    known = came_as in get_args(Backend)
    fallback = came_as if known else "pandas" if find_spec("pandas") else "polars"
    library = backend or fallback
    otherwise = "" if backend or known else ", or pass backend='pyarrow'"
    require(library, f"A frame of results needs {library}", extra="frames", otherwise=otherwise)
    return library
