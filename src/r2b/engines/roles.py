"""Which columns of a table are what, and how batches of them are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._data import Continuous, ContinuousSettings, Dataset, Membership, Schema
from r2b._data.arrays import Array, Whole
from r2b._files.text import listed_names
from r2b._labels.draws import draws_of, key_words, row_numbers
from r2b._solve.oracle import Block
from r2b.engines.batch import Batch, lists_to_matrix, one_array, weights_of
from r2b.errors import InputError, ParameterError

_NUMBER = re.compile(r"\d+\.\d*(?:[eE][-+]?\d+)?")
_DISTRIBUTION = re.compile(rf"[\[(]\s*{_NUMBER.pattern}(?:[,;\s]+{_NUMBER.pattern})+\s*[\])]")


@dataclass(frozen=True)
class ColumnRoles:
    """Columns by name.

    Attributes
    ----------
    label : tuple of str
        One column of classes or of lists of probabilities, or one column of probabilities per
        class.
    soft : bool
        Whether the labels are probabilities.
    sensitive, control : tuple of str
    weight : str or None
    key : tuple of str
        Columns that tell rows apart; empty where rows are told apart by their place.
    continuous : tuple of str
        Sensitive attributes that are numbers.
    membership : tuple of (str, tuple of str)
        Uncertain sensitive attributes: the name of each, and one column of probabilities per group.
    settings : tuple of (str, ContinuousSettings)
        How continuous attributes enter, where it is not by default.
    """

    label: tuple[str, ...]
    soft: bool
    sensitive: tuple[str, ...]
    control: tuple[str, ...] = ()
    weight: str | None = None
    key: tuple[str, ...] = ()
    continuous: tuple[str, ...] = ()
    membership: tuple[tuple[str, tuple[str, ...]], ...] = ()
    settings: tuple[tuple[str, ContinuousSettings], ...] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        """Sensitive attributes of categories, then controls."""
        return self.sensitive + self.control

    @property
    def names(self) -> tuple[str, ...]:
        """The names of sensitive attributes of every kind."""
        return (*self.sensitive, *self.continuous, *(name for name, _ in self.membership))

    @property
    def categorical(self) -> bool:
        """Whether all attributes are categories."""
        return not (self.continuous or self.membership)

    @property
    def counted(self) -> bool:
        """Whether equal rows are counted: labels are classes, and all attributes categories."""
        return self.categorical and not self.soft

    @property
    def measured(self) -> tuple[str, ...]:
        """Columns of attributes that hold numbers."""
        return (*self.continuous, *(name for _, names in self.membership for name in names))

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns that hold numbers."""
        weight = () if self.weight is None else (self.weight,)
        return (*(self.label if self.soft and not self.listed else ()), *weight, *self.measured)

    @property
    def described(self) -> tuple[str, ...]:
        """Columns that the new label of a row follows from."""
        return tuple(dict.fromkeys([*self.label, *self.attributes, *self.measured]))

    @property
    def used(self) -> tuple[str, ...]:
        """Every column that is read for solving, once."""
        return tuple(dict.fromkeys([*self.label, *self.attributes, *self.numbers]))

    @property
    def listed(self) -> bool:
        """Whether probabilities come as lists in one column."""
        return self.soft and len(self.label) == 1

    @property
    def called(self) -> str:
        """How errors call the labels."""
        if len(self.label) == 1:
            return f"the column {self.label[0]!r}"
        return f"the columns {listed_names(self.label)}"

    @property
    def stem(self) -> str:
        """What new columns are called after."""
        return self.label[0] if len(self.label) == 1 else "label"

    def labels(self, columns: Mapping[str, Any], n_classes: int | None = None) -> Any:
        """Return the labels as r2b reads them."""
        if self.listed:
            return lists_to_matrix(one_array(columns[self.label[0]]), n_classes, self.label[0])
        return {name: columns[name] for name in self.label} if self.soft else columns[self.label[0]]

    def weights(self, columns: Mapping[str, Any]) -> Any:
        """Return the weights; None where there are none."""
        return None if self.weight is None else columns[self.weight]

    def features(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes as r2b reads them."""
        sensitive: dict[str, Any] = {name: columns[name] for name in self.sensitive}
        chosen = dict(self.settings)
        for name in self.continuous:
            how = chosen.get(name, ContinuousSettings())
            sensitive[name] = Continuous(
                np.asarray(columns[name], np.float64), basis=how.basis, knots=how.knots
            )
        for name, members in self.membership:
            sensitive[name] = Membership(
                np.column_stack([np.asarray(columns[each], np.float64) for each in members]),
                groups=members,
            )
        found: dict[str, Any] = {"sensitive_features": sensitive}
        if self.control:
            found["control_features"] = {name: columns[name] for name in self.control}
        return found


def with_attributes(roles: ColumnRoles, given: Any) -> ColumnRoles:
    """Read which columns are sensitive; in other attributes, names of columns stand for values.

    Examples
    --------
    >>> given = ["sex", Continuous("age"), Membership(["p_a", "p_b"], name="race")]
    >>> roles = with_attributes(ColumnRoles(("job",), False, ()), given)
    >>> roles.sensitive, roles.continuous, roles.membership
    (('sex',), ('age',), (('race', ('p_a', 'p_b')),))
    """
    argument = "sensitive_features"
    several = (
        list(given.items())
        if isinstance(given, Mapping)
        else [("", each) for each in _listed(given)]
    )
    for name, each in several:
        if isinstance(each, Continuous):
            (column,) = names_of(each.values, argument)
            settings = ContinuousSettings(each.basis, each.knots)
            # the certificate of an output has no settings, which then are those by default
            own = () if settings == ContinuousSettings() else ((column, settings),)
            roles = replace(
                roles, continuous=(*roles.continuous, column), settings=(*roles.settings, *own)
            )
        elif isinstance(each, Membership):
            if each.partial:
                raise ParameterError(
                    f"A membership in {argument} is partial, which scanned tables do not have.",
                    remedy="Add a column for the rest, or read the table and pass it to "
                    "r2b.debias.",
                    argument=argument,
                    columns=each.probabilities,
                )
            mine = (str(name or each.name or argument), names_of(each.probabilities, argument))
            roles = replace(roles, membership=(*roles.membership, mine))
        else:
            roles = replace(roles, sensitive=(*roles.sensitive, *names_of(each, argument)))
    return roles


def _listed(given: Any) -> tuple[Any, ...]:
    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(given)
    return () if given is None else (given,)


def names_of(given: Any, argument: str) -> tuple[str, ...]:
    """Read one name or several.

    Examples
    --------
    >>> names_of("sex", "sensitive_features"), names_of(["sex", "race"], "sensitive_features")
    (('sex',), ('sex', 'race'))
    """
    names = _listed(given)
    if not all(isinstance(name, str) for name in names):
        raise ParameterError(
            f"{argument} is {given!r}.",
            remedy="Columns of a scanned table go by their names: pass one name or a list of them.",
            argument=argument,
        )
    return names


def refuse_alike(names: Sequence[str], new: Sequence[str], engine: str, remedy: str) -> None:
    """Refuse new names that an engine does not tell from others.

    Raises
    ------
    ParameterError
        Names both columns.
    """
    known = {name.lower(): name for name in names}
    for name in new:
        if name.lower() in known:
            raise ParameterError(
                f"The new column {name!r} differs from {known[name.lower()]!r} in capitals only, "
                f"which {engine} takes for the same name.",
                remedy=remedy,
                column=name,
            )
        known[name.lower()] = name


@dataclass(frozen=True, eq=False)
class Decode:
    """Reads batches with the classes and cells of a schema; it can be pickled.

    Attributes
    ----------
    roles : ColumnRoles
    schema : Schema
        Classes, and every cell there is.
    normalize : bool
        Divide rows of probabilities by their sums.
    known : bool
        Whether rows must be of cells of the schema although some attributes are no categories:
        where a table has the answers of cells.
    """

    roles: ColumnRoles
    schema: Schema
    normalize: bool = False
    known: bool = False

    def read(self, batch: Batch) -> Dataset:
        """Read labels and cells; an error says where the row is."""
        with batch.placed(self.roles.called):
            return self.rows(batch.columns)

    def rows(self, columns: Mapping[str, Any], weight: Any = None) -> Dataset:
        """Read columns, of a batch or of all rows."""
        return self.schema.read(
            self.roles.labels(columns, len(self.schema.classes)),
            **self.roles.features(columns),
            sample_weight=weight,
            normalize=self.normalize,
            known_crossings=self.roles.categorical or self.known,
        )

    def weight(self, batch: Batch) -> Array | None:
        """Read the weights; None where there are none."""
        if self.roles.weight is None:
            return None
        return weights_of(batch, self.roles.weight)

    def draws(self, batch: Batch, random_state: int) -> Whole:
        """Return the draws of rows, which follow from key columns or, without any, from places."""
        key = self.roles.key
        if not key:
            return draws_of(row_numbers(batch.first, len(batch)), random_state)
        with batch.placed():
            return draws_of(key_words([batch.columns[name] for name in key], key), random_state)

    def drawn(self, random_state: int, batch: Batch) -> tuple[int, Dataset, Whole, Array | None]:
        """Return the first row number, the rows, their draws and their weights."""
        return batch.first, self.read(batch), self.draws(batch, random_state), self.weight(batch)

    def n_rows(self, batch: Batch) -> int:
        """Return the number of rows, which are read."""
        return self.read(batch).n_rows

    def __call__(self, batch: Batch) -> Block:
        """Return the rows as a block."""
        data, weight = self.read(batch), self.weight(batch)
        return Block(
            np.ascontiguousarray(data.labels.array),
            data.cells.codes,
            np.empty(0) if weight is None else weight,
        )


def refuse_lists_as_text(classes: Any, name: str) -> None:
    """Refuse probabilities that became text: every distinct row would be a class of its own.

    Dask turns lists into text by default, and a CSV file holds nothing but text.
    """
    shown = classes.slice(0, 20).to_pylist()
    lists = (isinstance(each, str) and _DISTRIBUTION.fullmatch(each) for each in shown)
    if (
        len(shown) > 1
        and all(lists)
        and all(abs(sum(map(float, _NUMBER.findall(each))) - 1.0) < 1e-3 for each in shown)
    ):
        raise InputError(
            f"The column {name!r} holds lists of probabilities as text, such as {shown[0][:60]!r}.",
            remedy="Give one column per class, or lists of numbers; for Dask, call "
            "dask.config.set({'dataframe.convert-string': False}) before the frame is made.",
            column=name,
        )
