"""Adult (UCI): 48,842 people of the 1994 census, with education (16 classes) and sex.

``ADULT.md`` beside this file says where the rows come from and under which licence;
``scripts/build_adult.py`` makes the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
import numpy.typing as npt

from r2b.errors import ParameterError

if TYPE_CHECKING:
    from r2b._data.frames import Backend

FILE: Final = "adult.npz"
"""The data file: small integers per column, and ``<column>.categories`` where it has some."""

SHA256: Final = "7f6ce5407979cf4d742d3db084911b85095404e9b6a2ad51856145541669b266"
"""Checksum of the data file."""

TRAIN_ROWS: Final = 32_561
"""The first rows are UCI's ``adult.data``, the others its ``adult.test``, each in UCI's order."""

MISSING: Final = "?"
"""How the data marks a value that was not recorded."""


@dataclass(frozen=True, eq=False)
class AdultTable:
    """Columns of equal length under UCI's names; the arrays are read-only.

    Parameters
    ----------
    columns : dict of str to ndarray of shape (n_rows,)
        Numbers as int64, everything else as text. ``split`` says which of UCI's two files a row is
        from.
    education_order : tuple of str
        The 16 classes of ``education`` from least to most, the order of ``education-num``.

    Examples
    --------
    >>> adult = load_adult()
    >>> len(adult), len(adult.complete())
    (48842, 45222)
    >>> str(adult["education"][0]), int(adult["age"][0])
    ('Bachelors', 39)
    >>> adult.education_order[0], adult.education_order[-1]
    ('Preschool', 'Doctorate')
    """

    columns: dict[str, npt.NDArray[Any]]
    education_order: tuple[str, ...]

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self.columns:
            raise ParameterError(
                f"Adult has no column {name!r}.",
                remedy=f"Its columns are {', '.join(self.columns)}.",
                column=name,
                columns=tuple(self.columns),
            )
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __len__(self) -> int:
        return len(self.columns["age"])

    def __repr__(self) -> str:
        return f"AdultTable({len(self):,} rows; {', '.join(self.columns)})"

    def complete(self) -> AdultTable:
        """Leave out the rows that have a ``?`` in any column.

        Returns
        -------
        AdultTable
            The other rows, in the same order.

        Examples
        --------
        >>> len(load_adult().complete())
        45222
        """
        keep = np.ones(len(self), dtype=bool)
        for values in self.columns.values():
            if values.dtype.kind == "U":
                keep &= values != MISSING
        return AdultTable(
            {name: _frozen(values[keep]) for name, values in self.columns.items()},
            self.education_order,
        )

    def to_frame(self, library: Backend) -> Any:
        """Hand the table over to a data frame library.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}
            Which kind of table to make; it must be installed.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            The same columns, as numbers and text.

        Raises
        ------
        ParameterError
            If ``library`` is none of the three.
        MissingExtraError
            If it is not installed.

        Examples
        --------
        >>> load_adult().to_frame("polars").shape
        (48842, 16)
        """
        from r2b._data.frames import frame_of  # here, so that loading arrays does not wait for it

        return frame_of(self.columns, library)


@overload
def load_adult(*, as_frame: None = None) -> AdultTable: ...
@overload
def load_adult(*, as_frame: Backend) -> Any: ...
def load_adult(*, as_frame: Backend | None = None) -> Any:
    """Load the Adult data, all 48,842 rows: UCI's training file, then its test file.

    Parameters
    ----------
    as_frame : {"pandas", "polars", "pyarrow"}, optional
        Return a table of that library instead of arrays.

    Returns
    -------
    AdultTable
        Or the table asked for with ``as_frame``.

    See Also
    --------
    r2b.debias : The closest labels in parity.

    Notes
    -----
    Becker, B. and Kohavi, R. (1996), Adult, UCI Machine Learning Repository, doi:10.24432/C5XW20,
    CC BY 4.0.

    Examples
    --------
    >>> adult = load_adult()
    >>> women = adult["sex"] == "Female"
    >>> round(float((adult["education"][women] == "Some-college").mean()), 3)
    0.258
    """
    columns: dict[str, npt.NDArray[Any]] = {}
    with (
        (resources.files(__package__) / FILE).open("rb") as stream,
        np.load(stream, allow_pickle=False) as stored,
    ):
        for name in stored["columns"].tolist():
            codes = stored[name]
            categories = f"{name}.categories"
            columns[name] = _frozen(
                stored[categories][codes] if categories in stored else codes.astype(np.int64)
            )
        order = tuple(stored["education.categories"].tolist())
    columns["split"] = _frozen(
        np.where(np.arange(len(columns["age"])) < TRAIN_ROWS, "train", "test")
    )
    table = AdultTable(columns, education_order=order)
    return table if as_frame is None else table.to_frame(as_frame)


def _frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values.flags.writeable = False
    return values
