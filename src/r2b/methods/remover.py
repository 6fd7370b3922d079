"""The DP remover of Feldman et al. (2015): features moved, column by column, onto a distribution that all groups share.

**It needs the sensitive attribute of every row at test time**, because a row is moved by its rank in its own group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrival import Column, Frame, Matrix, recognise, refuse_lengths, refuse_other_index
from r2b._data.groups import WHAT as GROUPS
from r2b._data.groups import Groups, read_groups, read_known_groups
from r2b._data.objects import family_of, is_missing
from r2b._data.vocabulary import Vocabulary, plain_value, read_vocabulary
from r2b.errors import InputError, MissingValueError, MixedTypeError, ParameterError, RowsUnavailableError, ShapeError
from r2b.methods.base import checked_seed, read_weight_beside
from r2b.methods.quantiles import Array, CategoryRepair, Floats, NumericRepair

WHAT = "X"

_BINS = ("equal_mass", "equal_width")


@dataclass(frozen=True, eq=False)
class _Feature:
    """What was learnt about one column; a numeric one has no vocabulary."""

    name: str
    repair: NumericRepair | CategoryRepair
    vocabulary: Vocabulary | None


class DPRemover:
    """Make every feature, taken alone, equally distributed in all groups.

    A number goes to the shared quantile function at its rank in its group, ``x -> F_A^-1(F_s(x))``, where ``F_A^-1(u)`` is the median over
    groups of their quantile functions at ``u`` (for two groups, the average). Order inside a group is kept; **equal values get random ranks
    among themselves**, without which the same value would go to different numbers in different groups and give the group away. Text,
    true/false and categorical columns are reassigned at random to the median of the groups' proportions, moving as few rows as possible.

    **The sensitive attribute is needed at test time too**, unlike for methods that change labels. Columns are repaired one by one: what
    several of them say together about the group remains.

    Parameters
    ----------
    amount : float, default 1.0
        From 0 (nothing moves) to 1 (full repair): ``(1 - amount) * x + amount * repaired``; of categories, that share of the moves is made.
    bins : {"equal_mass", "equal_width"}, default "equal_mass"
        How distributions are estimated. "equal_width" takes the rule of Freedman and Diaconis, ``2 IQR n^(-1/3)``, per group (one bin where
        the IQR is 0) with one rank per bin. It is kept to show how it fails: with two far modes, or a large tie, most rows share a rank.
    n_bins : int or None, default 100
        Steps of the shared quantile function under "equal_mass", linear in between; None evaluates it exactly. Ranks are always exact.
    random_state : int, Generator or None, default 0
        Seeds ranks inside ties and moves of categories. The same rows and number give the same answer. **Rows that arrive one at a time
        need a Generator or None**: a number would deal every one of them the same rank inside its tie, and ties would leak after all.

    Attributes
    ----------
    groups_ : ndarray of shape (n_groups,)
        The names of the fitted groups.
    feature_names_ : tuple of str
        The fitted columns; empty names where they had none.

    Notes
    -----
    Rows of one call that fall on the same training value, or between the same two, share their interval of ranks evenly; what
    is random about a row therefore differs from call to call when the rows around it do.
    New values between two training values are placed by rank, and those beyond the training range go to the ends of the shared one.
    With one group nothing moves.

    References
    ----------
    M. Feldman, S. Friedler, J. Moeller, C. Scheidegger, S. Venkatasubramanian, "Certifying and removing disparate impact", KDD 2015.

    Examples
    --------
    >>> X = np.array([[1.0], [2.0], [3.0], [11.0], [12.0], [13.0]])
    >>> remover = DPRemover(n_bins=None).fit(X, sensitive_features=list("aaabbb"))
    >>> remover.transform(X, sensitive_features=list("aaabbb")).ravel()
    array([6., 7., 8., 6., 7., 8.])
    >>> remover.transform([[2.0]], sensitive_features=["a"])
    array([[7.]])
    """

    groups_: Array
    feature_names_: tuple[str, ...]

    def __init__(
        self,
        amount: float = 1.0,
        bins: Literal["equal_mass", "equal_width"] = "equal_mass",
        n_bins: int | None = 100,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.amount = amount
        self.bins = bins
        self.n_bins = n_bins
        self.random_state = random_state

    def __repr__(self) -> str:
        return f"DPRemover(amount={self.amount!r}, bins={self.bins!r}, n_bins={self.n_bins!r}, random_state={self.random_state!r})"

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
        table, groups = _table(X), read_groups(sensitive_features)
        _refuse_other_rows(table, groups)
        weight = np.ones(len(table)) if sample_weight is None else read_weight_beside(sample_weight, WHAT, table.index, groups)
        self._fitted = tuple(self._learn(column, name, groups, weight) for column, name in _named(table))
        self._groups = groups
        self.groups_ = groups.names
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
            Of the same kind, with rows, columns, names and row labels as they came; numbers as float64, categories as they were fitted.

        Raises
        ------
        RowsUnavailableError
            ``fit`` was not called.
        UnseenError
            A group or a category was not fitted.
        """
        if not hasattr(self, "_fitted"):
            raise RowsUnavailableError("This DPRemover has not been fitted.", remedy="Call fit with training features first.")
        self._check_parameters()
        table, fitted = _table(X), self._groups
        attributes, values = fitted.columns, fitted.vocabularies
        groups = read_known_groups(sensitive_features, columns=attributes, vocabularies=values, table=fitted.table)
        _refuse_other_rows(table, groups)
        places = _places(table, self.feature_names_)
        # A number seeds every call alike; a Generator moves on, and None asks the system.
        state = self.random_state
        seed = int(state) if isinstance(state, (int, np.integer)) else int(np.random.default_rng(state).integers(2**63))
        moved = [self._move(column, name, place, groups, seed) for (column, name), place in zip(_named(table), places, strict=True)]
        rebuilt = _rebuilt(table, moved)
        return nw.from_native(rebuilt, eager_only=True) if libraries.is_narwhals_dataframe(X) else rebuilt

    def fit_transform(self, X: Any, *, sensitive_features: Any, sample_weight: Any = None) -> Any:
        """Fit and move the same rows."""
        return self.fit(X, sensitive_features=sensitive_features, sample_weight=sample_weight).transform(
            X, sensitive_features=sensitive_features
        )

    def _check_parameters(self) -> None:
        checked_seed(self.random_state)
        checks: tuple[tuple[str, bool, str], ...] = (
            ("amount", isinstance(self.amount, (int, float, np.number)) and 0 <= self.amount <= 1, "a number from 0 to 1"),
            ("bins", self.bins in _BINS, '"equal_mass" or "equal_width"'),
            ("n_bins", self.n_bins is None or (_is_whole(self.n_bins) and self.n_bins >= 1), "a whole number of at least 1, or None"),
        )
        for name, fine, wanted in checks:
            if not fine:
                value = getattr(self, name)
                raise ParameterError(f"{name} is {value!r}.", remedy=f"Pass {wanted}.", parameter=name, value=value)

    def _learn(self, column: Column, name: str, groups: Groups, weight: Floats) -> _Feature:
        what, n_groups = _spoken(name), groups.n_groups
        numbers = _numbers(column, what)
        if numbers is not None:
            repair = NumericRepair.fit(numbers, groups.codes, weight, n_groups=n_groups, bins=self.bins, n_bins=self.n_bins)
            return _Feature(column.name, repair, None)
        codes, vocabulary = read_vocabulary(column, what=what)
        shares = CategoryRepair.fit(codes, groups.codes, weight, n_groups=n_groups, n_categories=len(vocabulary))
        return _Feature(column.name, shares, replace(vocabulary, index=None))

    def _move(self, column: Column, name: str, place: int, groups: Groups, seed: int) -> Any:
        feature, what = self._fitted[place], _spoken(name)
        # Seeded by column, so that the random ranks of different columns are independent of each other.
        seeds = [seed, place]
        if isinstance(feature.repair, CategoryRepair) and feature.vocabulary is not None:
            known = feature.vocabulary
            codes = feature.repair.apply(known.encode_column(column, what=what), groups.codes, amount=self.amount, seed=seeds)
            same = known.library == column.library
            return (replace(known, wrapped=False) if same else replace(known.like(column), wrapped=False)).decode(codes)
        numbers = _numbers(column, what)
        if numbers is None or isinstance(feature.repair, CategoryRepair):
            raise MixedTypeError(f"In {what}, values are not numbers, but numbers were fitted.", remedy="Pass numbers.", column=what)
        return feature.repair.apply(numbers, groups.codes, amount=float(self.amount), seed=seeds)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _spoken(name: str) -> str:
    return f"column {name} of {WHAT}"


def _table(X: Any) -> Frame | Matrix:
    found = recognise(X, what=WHAT)
    if isinstance(found, Column):
        raise ShapeError(
            f"The argument {WHAT} is a single column.",
            remedy="Pass a frame, a dictionary of columns, or an array of rows by columns.",
            argument=WHAT,
        )
    return found


def _named(table: Frame | Matrix) -> list[tuple[Column, str]]:
    """Give columns and how an error calls them: by name, or by position where they have none."""
    return [(column, repr(column.name) if column.name else str(j)) for j, column in enumerate(table.columns)]


def _places(table: Frame | Matrix, fitted: tuple[str, ...]) -> list[int]:
    """Find the fitted column of every column that arrived: by name where both have one, or by position."""
    names = [column.name for column in table.columns]
    if all(names) and all(fitted):
        if sorted(names) == sorted(fitted):
            return [fitted.index(name) for name in names]
    elif len(names) == len(fitted):
        return list(range(len(names)))
    raise ShapeError(
        f"The argument {WHAT} has {len(names)} columns ({', '.join(map(repr, names[:10]))}), which are not the {len(fitted)} fitted ones.",
        remedy=f"Pass the fitted columns: {', '.join(map(repr, fitted[:10]))}." if all(fitted) else f"Pass {len(fitted)} columns.",
        columns=tuple(names),
        fitted=fitted,
    )


def _refuse_other_rows(table: Frame | Matrix, groups: Groups) -> None:
    """Raise where features and groups are not of the same rows in the same order."""
    refuse_lengths(WHAT, len(table), GROUPS, groups.n_rows)
    refuse_other_index((WHAT, table.index), (GROUPS, groups.index))


def _numbers(column: Column, what: str) -> Floats | None:
    """Give a numeric column as finite floats, and None for one of categories."""
    if column.library in ("numpy", "list"):
        masked = np.ma.getmaskarray(column.native) if isinstance(column.native, np.ma.MaskedArray) else np.zeros(1, dtype=bool)
        if masked.any():
            raise _missing(masked, what)
        found = _array_numbers(column.native, what)
    else:
        series: nw.Series[Any] = nw.from_native(column.native, series_only=True, allow_series=True)
        if series.dtype.is_temporal():
            raise _times(what)
        if series.dtype == nw.Object:
            found = _array_numbers(np.asarray(series.to_numpy(), dtype=object), what)
        elif series.dtype.is_numeric():
            found = np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
        else:
            return None
    return None if found is None else _finite(found, what)


def _array_numbers(values: Any, what: str) -> Floats | None:
    array = np.asarray(values) if not isinstance(values, (list, tuple)) else np.array(values, dtype=object)
    if array.dtype.kind in "mM":
        raise _times(what)
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    if array.dtype.kind != "O":
        return None
    families = {family_of(type(value)) for value in array.tolist() if not is_missing(value)}
    if not families or not families <= {"int", "float"}:
        return None
    return np.array([np.nan if is_missing(value) else float(value) for value in array.tolist()])


def _finite(numbers: Floats, what: str) -> Floats:
    if np.isfinite(numbers).all():
        return numbers
    missing = np.isnan(numbers)
    if missing.any():
        raise _missing(missing, what)
    row = int(np.argmax(np.isinf(numbers)))
    value = plain_value(numbers[row])
    raise InputError(f"Row {row} of {what} is {value!r}.", remedy="Replace infinite values or drop their rows.", column=what, row=row)


def _missing(missing: Array, what: str) -> MissingValueError:
    row, count = int(np.argmax(missing)), int(missing.sum())
    return MissingValueError(
        f"In {what}, {count} of {len(missing)} rows have no value; the first is row {row}.",
        remedy="Fill them or drop these rows: a missing value has no rank in its group.",
        column=what,
        row=row,
        count=count,
        n_rows=len(missing),
    )


def _times(what: str) -> InputError:
    return InputError(
        f"The values of {what} are times, which are neither numbers nor categories.",
        remedy="Turn them into numbers, such as days since a date, or drop the column.",
        column=what,
    )


def _rebuilt(table: Frame | Matrix, moved: list[Any]) -> Any:
    """Put moved columns together as the kind of table that came."""
    if isinstance(table, Matrix):
        arrays = [np.asarray(column) for column in moved]
        if len({array.dtype.kind for array in arrays}) == 1:
            return np.column_stack(arrays)
        mixed = np.empty((len(table), len(arrays)), dtype=object)
        for j, array in enumerate(arrays):
            mixed[:, j] = array
        return mixed
    names = [column.name for column in table.columns]
    if table.library == "pandas":
        bare = {j: getattr(column, "array", column) for j, column in enumerate(moved)}
        frame = libraries.get_pandas().DataFrame(bare, index=table.native.index)
        frame.columns = table.native.columns
        return frame
    if table.library == "polars":
        return libraries.get_polars().DataFrame(dict(zip(names, moved, strict=True)))
    if table.library == "pyarrow":
        return libraries.get_pyarrow().table(dict(zip(names, moved, strict=True)))
    return dict(zip(table.native, moved, strict=True))
