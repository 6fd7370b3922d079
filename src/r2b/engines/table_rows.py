"""Rows of a table that lives elsewhere: their labels leave with the table, or through memory."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

import numpy as np

from r2b._data import Dataset, Schema, Vocabulary
from r2b._data.arrays import Array, Floats, Whole
from r2b._data.attributes import CATEGORICAL
from r2b._data.compute import give_back, refuse_beyond_memory
from r2b._data.dataset import Labels
from r2b._data.merge import cell_sums, class_weights, joint_codes
from r2b._labels import FairLabels
from r2b._labels.draws import draws_of, key_words, row_numbers
from r2b._labels.labels import Form
from r2b._labels.realised import Realised, realised
from r2b._labels.rounding import BorderSearch, Found, Look, RowRounding, whole_counts
from r2b._labels.rows import LabelRows, MemoryRows
from r2b._labels.rule import Rule, applied
from r2b._solve.certificate import Certificate
from r2b.engines.batch import Batch
from r2b.engines.gathering import read_rows
from r2b.engines.roles import ColumnRoles, Decode, names_of, refuse_columns
from r2b.engines.source import (
    NO_ATTRIBUTE,
    NO_LABEL,
    Relabel,
    Source,
    new_names,
)
from r2b.engines.tally import Tally, gaps_of
from r2b.errors import (
    DataWarning,
    EmptyError,
    MissingValueError,
    ParameterError,
    RowsUnavailableError,
    UnseenError,
)

_LARGEST_CHANNEL = 1 << 31  # numbers: 16 GiB
_FRAME = "Take frame(form=...) or write(path, form=...); transform(y, ...) gives the labels of rows that are in memory."
_BY_BATCH = (
    "{name} has no order of its rows and more than {limit:,} of them: 'round' of probabilities and weighted rows keeps the class counts of "
    "every batch, not of the whole table."
)
_EXACT = "Take 'soft' or 'expand', which are exact, or write the table to files and scan those."
_SENT_ROWS = 1 << 23  # decided rows that are sent to where rows without an order are: 16 bytes each


@dataclass(frozen=True, eq=False)
class BorderDraws:
    """Counts draws: one pass of the search for the borders of whole counts."""

    decode: Decode
    look: Look
    random_state: int

    def make(self, batch: Batch) -> Found:
        """Count the draws of a batch."""
        return self.look(
            joint_codes(self.decode.read(batch)), self.decode.draws(batch, self.random_state)
        )

    def merge(self, one: Found, other: Found) -> Found:
        """Add the counts, and keep the draws of both."""
        return Look.merge(one, other)


@dataclass(frozen=True, eq=False)
class Leaving:
    """The weight of each cell, and of each class that its rows leave with."""

    relabel: Relabel

    def make(self, batch: Batch) -> tuple[Floats, Floats]:
        """Add up the rows of a batch."""
        decode = self.relabel.decode
        data = decode.read(batch)
        labels = Labels(decode.schema.classes, codes=self.relabel.codes(batch, data))
        return cell_sums(labels, data.cells, decode.weight(batch))

    def merge(
        self, one: tuple[Floats, Floats], other: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats]:
        """Add up."""
        return one[0] + other[0], one[1] + other[1]


@dataclass(frozen=True, eq=False)
class Heaviest:
    """The largest weight of each cell."""

    decode: Decode

    def make(self, batch: Batch) -> Floats:
        """Look at the rows of a batch."""
        data, weight = self.decode.read(batch), self.decode.weight(batch)
        most = np.zeros(data.n_cells)
        np.maximum.at(most, data.cells.codes, np.asarray(weight))
        return most

    def merge(self, one: Floats, other: Floats) -> Floats:
        """Take the larger."""
        return np.maximum(one, other)


@dataclass(frozen=True, eq=False)
class TableRows(LabelRows):
    """The rows of a table.

    Attributes
    ----------
    source : Source
    roles : ColumnRoles
    schema : Schema
    counts : Dataset or None
        Class labels, counted: one row per combination of values.
    normalize : bool
    held : Dataset or None
        The rows, where they had to be read into memory to be solved.
    total : int or None
        How many rows there are, where it is known.
    """

    source: Source
    roles: ColumnRoles
    schema: Schema
    counts: Dataset | None = field(default=None, repr=False)
    normalize: bool = False
    held: Dataset | None = field(default=None, repr=False)
    total: int | None = None

    @property
    def n_rows(self) -> int | None:  # type: ignore[override]
        """How many there are; None where that takes a pass over them."""
        return self.total

    @property
    def weighted(self) -> bool:  # type: ignore[override]
        """Whether they have weights."""
        return self.roles.weight is not None

    @property
    def came_as(self) -> str:  # type: ignore[override]
        """The library of the table."""
        return self.source.library

    def in_memory(self) -> MemoryRows:
        """Read the columns that were used into memory.

        Raises
        ------
        RowsUnavailableError
            The rows have no order, so that labels alone would belong to nobody.
        """
        if not self.source.ordered:
            raise RowsUnavailableError(
                f"The rows of {self.source.name} have no order, so that labels alone belong to no row.",
                remedy=_FRAME,
            )
        return MemoryRows(self._read(self.schema)[0])

    def _read(
        self, schema: Schema, keys: tuple[str, ...] = (), seed: int = 0
    ) -> tuple[Dataset, Whole]:
        """Read the rows into memory, with the draws that their keys give."""
        roles, source = self.roles, self.source.with_numbers(self.roles.numbers)
        if self.held is not None and not keys:
            return self.held, draws_of(row_numbers(0, self.held.n_rows), seed)
        needed = (self.total or 0) * (8 * len(schema.classes) * (3 if roles.soft else 1) + 64)
        refuse_beyond_memory(needed, f"The rows of {source.name}", _FRAME)
        columns = source.columns([*roles.used, *keys])
        draws = draws_of(key_words([columns[name] for name in keys], keys), seed) if keys else None
        data = read_rows(columns, roles, schema, self.normalize) if self.held is None else self.held
        return data, draws_of(row_numbers(0, data.n_rows), seed) if draws is None else draws

    def frame(self, rule: Rule, **asked: Any) -> Any:
        """Give the table with its fair labels in new columns, of the kind that came in."""
        return self.source.frame(self.relabel(rule, **asked))

    def write(self, rule: Rule, path: str, *, force: bool = False, **asked: Any) -> None:
        """Write the table with its fair labels in new columns."""
        self.source.write(self.relabel(rule, **asked), path, force=force)

    def realised_as(
        self, rule: Rule, proof: Certificate, form: Any, seed: int, key: Any
    ) -> Realised:
        """Measure the labels that leave, one class per row: a pass over the rows."""
        return self.measured(self.relabel(rule, form, random_state=seed, key=key), proof)

    def measured(self, relabel: Relabel, proof: Certificate) -> Realised:
        """Measure the labels that leave, one class per row."""
        rule = relabel.rule
        if self.held is not None or not self.roles.categorical:
            data, draws = self._read(rule.schema, relabel.decode.roles.key, relabel.random_state)
            if relabel.decided is None:
                codes = applied(rule, data).sample(draws)
            elif relabel.draws is None:
                codes = relabel.decided
            else:
                codes = relabel.decided[np.searchsorted(relabel.draws, draws)]
            return MemoryRows(data).realised(rule, proof, rule.schema.classes.decode(codes))
        source, used = (
            self.source.with_numbers(self.roles.numbers),
            (*relabel.needed, *self.roles.used),
        )
        weight, sums = source.reduce(used, Leaving(relabel))
        return realised(rule.families, proof, rule.schema, sums, weight)

    def relabel(
        self,
        rule: Rule,
        form: Form,
        *,
        random_state: int = 0,
        key: Any = None,
        new_column: str | None = None,
    ) -> Relabel:
        """Give what makes the new columns of a batch; for "round" this takes a pass over the rows."""
        source, roles = self.source, self.roles
        if form not in get_args(Form):
            raise ParameterError(
                f"form is {form!r}.",
                remedy=f"Pass one of {', '.join(map(repr, get_args(Form)))}.",
                form=form,
            )
        keys, drawn = names_of(key, "key"), form in ("round", "sample")
        if drawn and not keys and not source.ordered:
            problem = f"The rows of {source.name} have no order, so that nothing tells them apart for {form!r}."
            remedy = "Name columns that do, such as key='id'; the same keys then always get the same labels."
            raise ParameterError(problem, remedy=remedy, form=form)
        refuse_columns(source.names, [("key", keys)], source.subject)
        names = new_names(form, new_column, roles, rule.classes.tolist(), ordered=source.ordered)
        refuse_taken(names, source)
        return self.relabelled(rule, form, names, random_state, keys if drawn else ())

    def relabelled(
        self,
        rule: Rule,
        form: Form,
        names: tuple[str, ...],
        random_state: int,
        keys: tuple[str, ...],
    ) -> Relabel:
        """Give what makes new columns of these names; arguments as for :meth:`relabel`, checked."""
        roles = replace(self.roles, key=keys)
        made = Relabel(
            Decode(roles, rule.schema, self.normalize, rule.known_crossings),
            rule,
            form,
            names,
            random_state,
        )
        if form != "round" or (rule.unchanged and not roles.soft):
            return made
        if roles.categorical and self.counts is not None and roles.weight is None:
            return replace(made, borders=self._borders(made))
        try:
            if keys or self.held is not None or not roles.categorical:
                return self._decided_by_draws(made)
            return replace(made, decided=self._decided(made))
        except EmptyError:  # prices are applied to a batch of a stream in which nothing came
            return made

    def _decided(self, relabel: Relabel) -> Array:
        """Round rows one after the other, for probabilities and weighted rows: a pass over the rows, in their order."""
        decode, source, heaviest = (
            relabel.decode,
            self.source.with_numbers(self.roles.numbers),
            None,
        )
        if self.roles.weight is not None:
            heaviest = source.reduce(self.roles.used, Heaviest(decode))
        turns = RowRounding(
            len(relabel.rule.schema.classes), relabel.random_state, heaviest, compiled=True
        )
        for first, data, draws, weight in source.run(
            relabel.needed, partial(decode.drawn, relabel.random_state)
        ):
            turns.add(data.cells.codes, draws, weight, first, relabel.rows(data).of_rows)
        return turns.finish()

    def _decided_by_draws(self, relabel: Relabel) -> Relabel:
        """Round rows in memory, those with keys in the order of their draws, which is the same wherever they live."""
        source, rule, keys = self.source, relabel.rule, relabel.decode.roles.key
        if not source.ordered and (self.total or 0) > _SENT_ROWS:
            doubt = DataWarning(
                _BY_BATCH.format(name=source.subject, limit=_SENT_ROWS), remedy=_EXACT
            )
            warnings.warn(doubt, stacklevel=6)
            return relabel
        data, draws = self._read(rule.schema, keys, relabel.random_state)
        codes = applied(rule, data).round(draws, relabel.random_state, keyed=bool(keys))
        if source.ordered:
            return replace(relabel, decided=codes)
        order = np.argsort(draws, kind="stable")
        rising = draws[order]
        twice = np.flatnonzero(np.diff(rising) == 0)
        if len(twice):
            raise ParameterError(
                f"The key {', '.join(map(repr, keys))} does not tell all rows of {source.name} apart: {len(twice) + 1:,} share theirs.",
                remedy="Name columns whose values together are different in every row.",
                key=keys,
            )
        return replace(relabel, decided=codes[order], draws=rising)

    def _borders(self, relabel: Relabel) -> Whole:
        """Find the draws at which new classes end, for "round" of class labels: one pass over the rows."""
        assert self.counts is not None
        schema = relabel.rule.schema
        n_cells, n_classes = len(schema.table), len(schema.classes)
        if n_cells * n_classes**2 > _LARGEST_CHANNEL:
            raise ParameterError(
                f"There are {n_classes:,} classes in {n_cells:,} groups, and 'round' counts how many rows of each class become each other, "
                f"in every group: a table of {8 * n_cells * n_classes**2 / 1e9:,.0f} GB.",
                remedy="Take 'sample' or 'expand', which need no such table, or put rare classes together first.",
                n_classes=n_classes,
                n_cells=n_cells,
            )
        give_back()  # what the solve has left
        counts = class_weights(self.counts, ignore_weight=True)
        found: Whole | BorderSearch = BorderSearch.of(
            whole_counts(counts, relabel.response.channel(), relabel.random_state).reshape(
                -1, n_classes
            )
        )
        while isinstance(found, BorderSearch):
            found = found.borders(
                self.source.reduce(
                    relabel.needed, BorderDraws(relabel.decode, found.look, relabel.random_state)
                )
            )
            give_back()
        return found


def refuse_taken(names: tuple[str, ...], source: Source) -> None:
    """Refuse names of new columns that columns have already."""
    taken = next((name for name in names if name in source.names or names.count(name) > 1), None)
    if taken is not None:
        problem = f"The new column {taken!r} would have the name of a column of {source.name}."
        raise ParameterError(problem, remedy="Choose another name with `new_column`.", column=taken)


def refuse_gaps(source: Source, tally: Tally, roles: ColumnRoles, missing: str) -> None:
    """Refuse a table without rows, and columns that lack values."""
    gaps = gaps_of(tally, source.subject)
    for name in gaps:
        label = not roles.soft and name == roles.label[0]
        if label or (missing == "error" and name in roles.attributes):
            count = f"{gaps[name]:,} of {tally.n_rows:,} rows {'has' if gaps[name] == 1 else 'have'} none. "
            source.refuse_missing(name, count + (NO_LABEL if label else NO_ATTRIBUTE))
        if gaps[name] == tally.n_rows:
            problem = f"None of the {tally.n_rows:,} rows of {source.name} has a value in {name!r}."
            raise MissingValueError(
                problem,
                remedy="Leave this column out, or check that the right one was named.",
                column=name,
            )


def classes_of(source: Source, roles: ColumnRoles) -> Vocabulary:
    """Name the classes of probabilities."""
    names = np.array(roles.label)
    length = source.list_length(roles.label[0]) if roles.listed else None
    classes = Vocabulary(np.arange(length, dtype=np.int64) if length is not None else names)
    if len(classes) < 2:
        problem = f"The lists of probabilities have {'one entry' if length else 'no entries'}."
        raise ParameterError(
            problem, remedy="Give one probability per class.", n_classes=len(classes)
        )
    return classes


def refuse_other_kind(fair: FairLabels, choice: ColumnRoles, table: str) -> None:
    """Refuse prices of probabilities for classes, and the other way round, and those of attributes that are no groups.

    Raises
    ------
    ParameterError
    """
    kinds = {False: "classes", True: "probabilities"}
    if fair.schema.is_soft != choice.soft:
        raise ParameterError(
            f"The prices were found for {kinds[fair.schema.is_soft]}, and {choice.called} of {table} holds {kinds[choice.soft]}.",
            remedy=f"Name labels that are {kinds[fair.schema.is_soft]}, or debias this table.",
        )
    odd = next(
        (
            name
            for name, kind in zip(fair.schema.columns, fair.schema.kinds, strict=True)
            if kind != CATEGORICAL
        ),
        None,
    )
    if odd is not None and choice.categorical:
        problem = f"The prices were found with the continuous or uncertain attribute {odd!r}, and all columns are named as categories."
        raise ParameterError(
            problem,
            remedy="Name it as it was fitted, with r2b.Continuous or r2b.Membership.",
            column=odd,
        )


def recounted(source: Source, schema: Schema, choice: ColumnRoles) -> Dataset | None:
    """Count class labels, and read the counts with the classes and groups of other rows; None where there are no rows.

    Raises
    ------
    UnseenError
        Names the values that are new together, and in how many rows they are.
    """
    keys = [choice.label[0], *choice.attributes]
    tally = source.tally(keys)
    if not tally.n_rows:
        return None
    # By place where columns have other names than those fitted, and by name where they come in
    # another order.
    known = dict(zip(choice.attributes, schema.vocabularies, strict=False)) | dict(
        zip(schema.columns, schema.vocabularies, strict=True)
    )
    for name in gaps_of(tally, source.subject):
        if name == choice.label[0]:
            source.refuse_missing(name, NO_LABEL)
        elif name in known and not getattr(known[name], "has_missing", False):
            source.refuse_missing(
                name, "Fill or drop such rows: no row lacked this value when the prices were found."
            )
    try:
        data = schema.read(tally.columns[keys[0]], **choice.features(tally.columns))
    except UnseenError as error:
        # Rows of a tally are combinations of values: their numbers say nothing of the table.
        facts = {name: value for name, value in error.facts.items() if name != "row"}
        row = error.facts.get("row")
        if not isinstance(row, int):
            raise
        count, values = (
            int(tally.count[row]),
            ", ".join(f"{name!r} {tally.columns[name][row].as_py()!r}" for name in keys),
        )
        problem = f"{source.subject} has {count:,} row{'s' if count > 1 else ''} with {values}, for which the prices were not found."
        raise UnseenError(
            problem, remedy="Correct or drop such rows, or debias this table.", **facts
        ) from error
    return replace(data, cells=replace(data.cells, repeats=tally.count))
