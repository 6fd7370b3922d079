"""Which groups are compared: families of attributes, within strata and true classes.

It knows no constraint and no solver: what a solver is asked for is counted a second time here, from
the table's cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from r2b._data.arrays import Array, cross, plain_value
from r2b._data.attributes import CATEGORICAL, CONTINUOUS
from r2b._data.cells import Cells, Layout
from r2b._data.families import FamilyChoice, family_columns
from r2b._data.mixtures import Mixtures
from r2b._data.numbers import refuse_weightless_groups
from r2b._data.vocabulary import Vocabulary
from r2b.errors import ParameterError

Families: TypeAlias = FamilyChoice | Sequence[Any]
RowChoice: TypeAlias = Literal["all", "own", "other"]
"""Rows that a criterion compares: all, those of a true class, or those of all other ones."""

TRUE_CLASS = "true class"


@dataclass(frozen=True)
class AbsentGroup:
    """A group without rows or weight in a part of the table, which is not compared there.

    Attributes
    ----------
    family : str
        The columns whose groups are compared.
    group : str, number or other value
    true_class : str, number or other value
        Of the rows that the group lacks; None where rows are not told apart by it.
    stratum : str
        Of the control features; empty without them.
    """

    family: str
    group: Any
    true_class: Any = None
    stratum: str = ""

    def __str__(self) -> str:
        where = [f"of true class {self.true_class!r}"] * (self.true_class is not None) + [
            f"in {self.stratum!r}"
        ] * bool(self.stratum)
        return f"{self.group!r} ({self.family}) has no rows {' '.join(where)}"


@dataclass(frozen=True, eq=False)
class Stratum:
    """A part of the table that groups are compared in.

    Attributes
    ----------
    cells : ndarray
        Numbers of its cells.
    where : str
        Its values of the control features as text; empty without them.
    true_class : str, number or other value
        What rows have in common; None where they are not told apart by true classes.
    true_code : int or None
    """

    cells: Array
    where: str
    true_class: Any = None
    true_code: int | None = None


@dataclass(frozen=True, eq=False)
class Comparison:
    """The groups of one family in one stratum.

    Attributes
    ----------
    family : CellFamily
    stratum : Stratum
    cells : ndarray
        Numbers of the cells of the stratum that have weight.
    present : ndarray of shape (P,)
        Numbers, in their family, of the groups that have weight.
    means : ndarray of shape (P, L)
    weights : ndarray of shape (P,)
    """

    family: CellFamily
    stratum: Stratum
    cells: Array
    present: Array
    means: Array
    weights: Array

    @property
    def absent(self) -> list[AbsentGroup]:
        """The groups that the stratum lacks."""
        family, stratum = self.family, self.stratum
        lacking = np.setdiff1d(np.arange(len(family.groups)), self.present)
        names = [plain_value(family.groups[group]) for group in lacking]
        return [AbsentGroup(family.name, name, stratum.true_class, stratum.where) for name in names]


@dataclass(frozen=True, eq=False)
class CellFamily:
    """Groups that are compared with each other, as parts of a table's cells.

    Attributes
    ----------
    name : str
    groups : list
        The R names.
    parts : ndarray of shape (n_cells,) or (n_cells, R)
        The group of each cell, or its memberships.
    """

    name: str
    groups: list[Any]
    parts: Array

    def compared(
        self, strata: Iterable[Stratum], sums: Array, weights: Array
    ) -> Iterator[Comparison]:
        """Yield the means of the groups, one stratum after the other.

        Parameters
        ----------
        strata : iterable of Stratum
        sums : ndarray of shape (n_cells, L)
        weights : ndarray of shape (n_cells,)
        """
        for stratum in strata:
            cells = stratum.cells[weights[stratum.cells] > 0]
            totals = self._added(cells, weights[:, None])[:, 0]
            present = np.flatnonzero(totals > 0)
            means = self._added(cells, sums)[present] / totals[present, None]
            yield Comparison(self, stratum, cells, present, means, totals[present])

    def _added(self, cells: Array | slice, values: Array) -> Array:
        """Add up the values of some cells by group."""
        parts, values = self.parts[cells], values[cells]
        if parts.ndim == 2:
            return parts.T @ values
        added = np.zeros((len(self.groups), values.shape[1]))
        np.add.at(added, parts, values)
        return added

    def refuse_weightless(self, cells: Cells, weights: Array) -> None:
        """Refuse a group without weight in the whole table: its mean is undefined."""
        totals = self._added(slice(None), weights[:, None])[:, 0]
        refuse_weightless_groups(cells, self.parts, totals, self.groups)


def strata_of(cells: Cells, rows: RowChoice) -> Iterator[Stratum]:
    """Yield the parts of a table that groups are compared in.

    Where rows are told apart by true classes these are the last control feature. With
    ``rows="other"`` the parts of different true classes have cells in common.
    """
    control = range(cells.n_sensitive, len(cells.columns) - (rows != "all"))
    codes, keys = cells.crossings(control)
    ends = np.cumsum(np.bincount(codes, minlength=len(keys)))
    parts = np.split(np.argsort(codes, kind="stable"), ends[:-1])
    for key, part in zip(keys, parts, strict=True):
        where = cells.crossing_name(control, key)
        if rows == "all":
            yield Stratum(part, where)
            continue
        true = cells.table[part, -1]
        for code, value in enumerate(map(plain_value, cells.vocabularies[-1].values)):
            own = rows == "own"
            inside = part[(true == code) == own]
            if len(inside):
                yield Stratum(inside, where, value if own else f"not {value}", code)


def with_true_classes(groups: Cells, codes: Array, classes: Vocabulary) -> Cells:
    """Add the true class to the cells, as one more control feature."""
    crossed, table = cross([groups.codes, codes], [groups.n_cells, classes.n_codes])
    table = np.column_stack([groups.table[table[:, 0]], table[:, 1]])
    return replace(
        groups,
        columns=(*groups.columns, TRUE_CLASS),
        vocabularies=(*groups.vocabularies, classes),
        table=table,
        n_control=groups.n_control + 1,
        kinds=(*groups.kinds, CATEGORICAL),
        settings=(*groups.settings, None),
        codes=crossed,
    )


def families_of(cells: Cells, families: Families) -> list[CellFamily]:
    """Settle which groups are compared.

    Parameters
    ----------
    cells : Cells
    families : {"crossed", "marginal", "both"} or list
        As for :func:`r2b.metrics.demographic_parity_difference`.

    Raises
    ------
    ParameterError
        A column that is not there, is named twice or cannot be crossed, or an attribute without
        groups.

    Examples
    --------
    >>> from r2b._data import read
    >>> people = {"sex": ["f", "m", "f"], "race": ["a", "b", "b"]}
    >>> cells = read([0, 1, 1], sensitive_features=people).cells
    >>> [(each.name, each.groups) for each in families_of(cells, ["race"])]
    [('race', ['a', 'b'])]
    """
    sensitive, kinds = cells.columns[: cells.n_sensitive], cells.kinds[: cells.n_sensitive]
    if CONTINUOUS in kinds:
        name = sensitive[kinds.index(CONTINUOUS)]
        problem = f"The attribute {name!r} is continuous and has no groups to compare."
        remedy = "Use r2b.metrics.explained_variation, or cut it into intervals."
        raise ParameterError(problem, remedy=remedy, column=name)
    wanted = family_columns(families, sensitive, kinds)
    return [_family(cells, [sensitive.index(name) for name in names]) for names in wanted]


def _family(cells: Cells, columns: list[int]) -> CellFamily:
    names = tuple(cells.columns[j] for j in columns)
    vocabularies = tuple(cells.vocabularies[j] for j in columns)
    name, (vocabulary, *_) = " x ".join(names) or "groups", vocabularies
    if isinstance(vocabulary, Mixtures):
        parts = vocabulary.matrix[cells.table[:, columns[0]]]
        return CellFamily(name, list(vocabulary.groups), parts)
    codes, keys = cells.crossings(columns)
    return CellFamily(name, Layout(names, vocabularies, np.array(keys)).names.tolist(), codes)
