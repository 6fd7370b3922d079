"""The DP remover of Feldman et al. (2015): each feature gets one distribution in all groups.

**It needs the sensitive attribute of every row at test time**, because a row is moved by its rank
in its own group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrays import Array, Floats
from r2b._data.cells import Cells, read_cells, read_known_cells
from r2b._data.columns import Column, Frame, argument_error, recognise
from r2b._data.compute import generator, seed_of
from r2b._data.values import family_of, is_missing
from r2b._data.vocabulary import Vocabulary, read_vocabulary
from r2b.errors import InputError, MixedTypeError
from r2b.methods.base import at_least, read_numbers, read_weight_beside, refuse_unfitted
from r2b.methods.quantiles import CategoryRepair, NumericRepair, RankCdf

WHAT = "X"


@dataclass(frozen=True, eq=False)
class _Feature:
    """What was learnt about one column; a numeric one has no vocabulary."""

    name: str
    repair: NumericRepair | CategoryRepair
    vocabulary: Vocabulary | None


@dataclass(eq=False)
class DPRemover:
    """Make every feature, taken alone, equally distributed in all groups.

    A number goes to the shared quantile function at its rank in its group, ``x -> F_A^-1(F_s(x))``,
    where ``F_A^-1(u)`` is the median over groups of their quantile functions at ``u`` (for two
    groups, the average). Order inside a group is kept; **equal values get random ranks among
    themselves**, without which the same value would go to different numbers in different groups and
    give the group away. Text, true/false and categorical columns are reassigned at random to the
    median of the groups' proportions, moving as few rows as possible.

    **The sensitive attribute is needed at test time too**, unlike for methods that change labels.
    Columns are repaired one by one: what several of them say together about the group remains.

    Parameters
    ----------
    amount : float, default 1.0
        From 0 (nothing moves) to 1 (full repair): ``(1 - amount) * x + amount * repaired``; of
        categories, that share of the moves is made.
    n_bins : int or None, default 100
        Steps of the shared quantile function under "equal_mass", linear in between; None evaluates
        it exactly. Ranks are always exact.
    random_state : int, Generator or None, default 0
        Seeds ranks inside ties and moves of categories. The same rows and number give the same
        answer. **Rows that arrive one at a time need a Generator or None**: a number would deal
        every one of them the same rank inside its tie, and ties would leak after all.

    Attributes
    ----------
    groups_ : ndarray of shape (n_groups,)
        The names of the fitted groups.
    feature_names_ : tuple of str
        The fitted columns; empty names where they had none.

    Notes
    -----
    Rows of one call that fall on the same training value, or between the same two, share their
    interval of ranks evenly; what is random about a row therefore differs from call to call when
    the rows around it do. New values between two training values are placed by rank, and those
    beyond the training range go to the ends of the shared one. With one group nothing moves.

    References
    ----------
    M. Feldman, S. Friedler, J. Moeller, C. Scheidegger, S. Venkatasubramanian, "Certifying and
    removing disparate impact", KDD 2015.

    Examples
    --------
    >>> X = np.array([[1.0], [2.0], [3.0], [11.0], [12.0], [13.0]])
    >>> remover = DPRemover(n_bins=None).fit(X, sensitive_features=list("aaabbb"))
    >>> remover.transform(X, sensitive_features=list("aaabbb")).ravel()
    array([6., 7., 8., 6., 7., 8.])
    >>> remover.transform([[2.0]], sensitive_features=["a"])
    array([[7.]])
    """

    amount: float = 1.0
    n_bins: int | None = 100
    random_state: int | np.random.Generator | None = 0

    # how the distribution of a number in one group is estimated
    _cdf: ClassVar[type[RankCdf]] = RankCdf

    def fit(self, X: Any, *, sensitive_features: Any, sample_weight: Any = None) -> Self:
        """Learn the distribution of every column in every group.

        Parameters
        ----------
        X : array or frame of shape (N, n_features)
            NumPy, pandas, polars, pyarrow, narwhals, or a dictionary of columns.
        sensitive_features : array-like of shape (N,) or (N, n_attributes)
            Several attributes are crossed.
        sample_weight : array-like of shape (N,), optional
            Rows of weight 0 do not count.

        Raises
        ------
        MissingValueError
            A feature or an attribute is missing somewhere; names column and row.
        """
        self._check_parameters()
        table, groups = _table(X), read_cells(sensitive_features)
        given = read_weight_beside(sample_weight, WHAT, table, groups)
        weight = np.ones(len(table)) if given is None else given
        self._fitted = tuple(
            self._learn(column, name, groups, weight) for column, name in _named(table)
        )
        self._groups = groups
        self.groups_: Array = groups.names
        self.feature_names_ = tuple(feature.name for feature in self._fitted)
        return self

    def transform(self, X: Any, *, sensitive_features: Any) -> Any:
        """Move rows, training or new ones, with what was learnt from the training rows.

        Parameters
        ----------
        X : array or frame of shape (n, n_features)
            The fitted columns; a frame may hold them in another order.
        sensitive_features : array-like
            The groups of these rows: without them nothing can be moved.

        Returns
        -------
        array or frame
            Of the same kind, with rows, columns, names and row labels as they came; numbers as
            float64, categories as they were fitted.

        Raises
        ------
        RowsUnavailableError
            ``fit`` was not called.
        UnseenError
            A group or a category was not fitted.
        """
        refuse_unfitted(self, "_fitted", "features")
        self._check_parameters()
        table, groups = _table(X), read_known_cells(sensitive_features, fitted=self._groups)
        read_weight_beside(None, WHAT, table, groups)
        places = _places(table, self.feature_names_)
        # a number seeds every call alike; a Generator moves on, and None asks the system
        seed = seed_of(self.random_state)
        moved = [
            self._move(column, name, place, groups, seed)
            for (column, name), place in zip(_named(table), places, strict=True)
        ]
        rebuilt, wrapped = _rebuilt(table, moved), libraries.is_narwhals_dataframe(X)
        return nw.from_native(rebuilt, eager_only=True) if wrapped else rebuilt

    def fit_transform(self, X: Any, *, sensitive_features: Any, sample_weight: Any = None) -> Any:
        """Fit and move the same rows."""
        self.fit(X, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.transform(X, sensitive_features=sensitive_features)

    def _check_parameters(self) -> None:
        generator(self.random_state)
        if self.n_bins is not None:
            at_least("n_bins", self.n_bins, 1, integer=True)
        at_least("amount", self.amount, 0, most=1)

    def _learn(self, column: Column, what: str, groups: Cells, weight: Floats) -> _Feature:
        if _holds_numbers(column, what):
            numbers = read_numbers(column, what)
            repair = NumericRepair.fit(
                numbers,
                groups.codes,
                weight,
                n_groups=groups.n_cells,
                cdf=self._cdf,
                n_bins=self.n_bins,
            )
            return _Feature(column.name, repair, None)
        codes, vocabulary = read_vocabulary(column, what=what)
        shares = CategoryRepair.fit(
            codes, groups.codes, weight, n_groups=groups.n_cells, n_categories=len(vocabulary)
        )
        return _Feature(column.name, shares, replace(vocabulary, index=None))

    def _move(self, column: Column, what: str, place: int, groups: Cells, seed: int) -> Any:
        feature = self._fitted[place]
        known = feature.vocabulary
        if known is not None:
            values = known.encode(column, what=what)
        elif _holds_numbers(column, what):
            values = read_numbers(column, what)
        else:
            problem = f"In {what}, values are not numbers, but numbers were fitted."
            raise MixedTypeError(problem, remedy="Pass numbers.", column=what)
        # Seeded by column, so that the random ranks of different columns are independent of each
        # other.
        moved = feature.repair.apply(
            values, groups.codes, amount=float(self.amount), seed=[seed, place]
        )
        if known is None:
            return moved
        like = known if known.library == column.library else known.like(column)
        return nw.to_native(like.decode(moved), pass_through=True)


def _table(X: Any) -> Frame:
    found = recognise(X, what=WHAT)
    if isinstance(found, Column):
        remedy = "Pass a frame, a dictionary of columns, or an array of rows by columns."
        raise argument_error(WHAT, "is a single column", remedy)
    return found


def _named(table: Frame) -> list[tuple[Column, str]]:
    """Return columns and how an error calls them: by name, or by position where they have none."""
    names = (repr(column.name) if column.name else str(j) for j, column in enumerate(table.columns))
    return [
        (column, f"column {name} of {WHAT}")
        for column, name in zip(table.columns, names, strict=True)
    ]


def _places(table: Frame, fitted: tuple[str, ...]) -> list[int]:
    """Find the fitted column of every column that arrived, by name if both have one."""
    names = [column.name for column in table.columns]
    if all(names) and all(fitted):
        if sorted(names) == sorted(fitted):
            return [fitted.index(name) for name in names]
    elif len(names) == len(fitted):
        return list(range(len(names)))
    names_given = ", ".join(map(repr, names[:10]))
    fault = f"has {len(names)} columns ({names_given}), which are not the {len(fitted)} fitted ones"
    remedy = (
        f"Pass the fitted columns: {', '.join(map(repr, fitted[:10]))}."
        if all(fitted)
        else f"Pass {len(fitted)} columns."
    )
    raise argument_error(WHAT, fault, remedy, columns=tuple(names), fitted=fitted)


def _holds_numbers(column: Column, what: str) -> bool:
    """Tell numbers from categories; times are neither, and refused."""
    if column.library in ("numpy", "list"):
        as_given = object if column.library == "list" else None
        values = np.asarray(column.native, dtype=as_given)
        numeric, times = values.dtype.kind in "iuf", values.dtype.kind in "mM"
    else:
        series: nw.Series[Any] = nw.from_native(column.native, series_only=True, allow_series=True)
        values = series.to_numpy() if series.dtype == nw.Object else np.empty(0)
        numeric, times = series.dtype.is_numeric(), series.dtype.is_temporal()
    if times:
        remedy = "Turn them into numbers, such as days since a date, or drop the column."
        raise InputError(
            f"The values of {what} are times, which are neither numbers nor categories.",
            remedy=remedy,
            column=what,
        )
    if numeric or values.dtype.kind != "O":
        return numeric
    families = {family_of(type(value)) for value in values.tolist() if not is_missing(value)}
    return bool(families) and families <= {"int", "float"}


def _rebuilt(table: Frame, moved: list[Any]) -> Any:
    """Put moved columns together as the kind of table that came."""
    if table.labels is None:
        arrays = [np.asarray(column) for column in moved]
        alike = len({array.dtype.kind for array in arrays}) == 1
        return np.column_stack(arrays if alike else [array.astype(object) for array in arrays])
    if table.library == "pandas":
        bare = {j: getattr(column, "array", column) for j, column in enumerate(moved)}
        frame = libraries.get_pandas().DataFrame(bare, index=table.native.index)
        frame.columns = table.native.columns
        return frame
    names = table.native if table.library == "dict" else [each.name for each in table.columns]
    named = dict(zip(names, moved, strict=True))
    if table.library == "dict":
        return named
    library: Any = table.library
    return nw.from_dict(named, backend=library).to_native()
