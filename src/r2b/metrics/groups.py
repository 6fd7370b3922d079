"""Which groups are compared: families of attributes, within strata and true classes.

It knows no constraint and no solver: what a solver is asked for is counted a second time here, from
the table's cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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

Key: TypeAlias = tuple[int, ...]
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
class Comparison:
    """The groups of one family in one stratum that have weight there.

    Attributes
    ----------
    stratum : tuple of int
        Codes of the control features, the true class last where rows are told apart by it.
    present : ndarray of shape (P,)
        Numbers of the groups in their family.
    means : ndarray of shape (P, L)
    weights : ndarray of shape (P,)
    cells : ndarray
        Numbers of the cells of the stratum.
    """

    stratum: Key
    present: Array
    means: Array
    weights: Array
    cells: Array


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
        self, strata: Iterable[tuple[Key, Array]], means: Array, weights: Array
    ) -> Iterator[Comparison]:
        """Yield the means of the groups, one stratum after the other.

        Parameters
        ----------
        strata : iterable of (key, cells)
        means : ndarray of shape (n_cells, L)
        weights : ndarray of shape (n_cells,)
        """
        for stratum, inside in strata:
            here = inside[weights[inside] > 0]
            part, weight = self.parts[here], weights[here]
            if part.ndim == 2:
                share = part * weight[:, None]
                totals = share.sum(axis=0)
                present = np.flatnonzero(totals > 0)
                yield Comparison(
                    stratum,
                    present,
                    share[:, present].T @ means[here] / totals[present, None],
                    totals[present],
                    here,
                )
                continue
            present, first, place = np.unique(part, return_index=True, return_inverse=True)
            if len(present) == len(here):  # one cell each: its mean as it is, to the last bit
                yield Comparison(stratum, present, means[here[first]], weight[first], here)
                continue
            totals, sums = np.bincount(place, weight), np.zeros((len(present), means.shape[1]))
            np.add.at(sums, place, means[here] * weight[:, None])
            yield Comparison(stratum, present, sums / totals[:, None], totals, here)

    def refuse_weightless(self, cells: Cells, weights: Array) -> None:
        """Refuse a group without weight in the whole table: its mean is undefined."""
        whole = self.parts.ndim == 1
        totals = (
            np.bincount(self.parts, weights, len(self.groups)) if whole else weights @ self.parts
        )
        refuse_weightless_groups(cells, self.parts, totals, self.groups)

    def absent(self, found: Comparison, cells: Cells, rows: RowChoice) -> list[AbsentGroup]:
        """Name the groups that a stratum lacks."""
        lacking = np.setdiff1d(np.arange(len(self.groups)), found.present)
        if not len(lacking):
            return []
        true, where = named_stratum(cells, found.stratum, rows)
        return [
            AbsentGroup(self.name, plain_value(self.groups[group]), true, where)
            for group in lacking
        ]


def named_stratum(cells: Cells, stratum: Key, rows: RowChoice) -> tuple[Any, str]:
    """Return the true class of a stratum, if it has one, and its control features as text."""
    columns, true = list(range(cells.n_sensitive, len(cells.columns))), None
    if rows != "all":
        true = plain_value(cells.vocabularies[columns.pop()].values[stratum[-1]])
        true = f"not {true}" if rows == "other" else true
    return true, ", ".join(
        f"{cells.columns[j]}={cells.value_name(j, code)}"
        for j, code in zip(columns, stratum, strict=False)
    )


def strata_of(cells: Cells) -> Iterator[tuple[Key, Array]]:
    """Yield the codes of the control features of each stratum, and its cells."""
    if not cells.n_control:
        yield (), np.arange(cells.n_cells)
        return
    control = range(cells.n_sensitive, len(cells.columns))
    codes, table = cross(
        [cells.table[:, j] for j in control], [cells.vocabularies[j].n_codes for j in control]
    )
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(table)))
    for stratum, inside in zip(table.tolist(), np.split(order, ends[:-1]), strict=True):
        yield tuple(stratum), inside


def with_true_classes(groups: Cells, codes: Array, classes: Vocabulary) -> Cells:
    """Add the true class to the cells, as one more control feature."""
    crossed, table = cross([groups.codes, codes], [groups.n_cells, classes.n_codes])
    table = np.column_stack([groups.table[table[:, 0]], table[:, 1]])
    columns, vocabularies, _, n_control, kinds, settings = groups.parts
    parts = (
        (*columns, TRUE_CLASS),
        (*vocabularies, classes),
        table,
        n_control + 1,
        (*kinds, CATEGORICAL),
        (*settings, None),
    )
    return Cells(*parts, codes=crossed)


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
    return [_family(cells, tuple(map(sensitive.index, names))) for names in wanted]


def _family(cells: Cells, columns: Key) -> CellFamily:
    names = tuple(cells.columns[j] for j in columns)
    vocabularies = tuple(cells.vocabularies[j] for j in columns)
    name, (vocabulary, *_) = " x ".join(names) or "groups", vocabularies
    if isinstance(vocabulary, Mixtures):
        parts = vocabulary.matrix[cells.table[:, columns[0]]]
        return CellFamily(name, list(vocabulary.groups), parts)
    sizes = [each.n_codes for each in vocabularies]
    codes, table = cross([cells.table[:, j] for j in columns], sizes)
    return CellFamily(name, Layout(names, vocabularies, table).names.tolist(), codes)
