"""Rows of a table that is not in memory: their new labels are written with the table, or read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from r2b._constraints.families.request import one_of
from r2b._data import Dataset, Schema, Vocabulary
from r2b._data.arrays import Array, Floats, Whole
from r2b._data.attributes import CATEGORICAL
from r2b._data.compute import refuse_beyond_memory, release_memory
from r2b._data.dataset import Labels
from r2b._data.merge import cell_sums, class_weights, joint_codes
from r2b._data.values import warn
from r2b._labels import FairLabels
from r2b._labels.draws import draws_of, key_words, row_numbers
from r2b._labels.forms import refuse_large_round
from r2b._labels.realised import Realised, realised
from r2b._labels.rounding import Found, Look, RowRounding, find_borders, padded, whole_counts
from r2b._labels.rows import FORMS, Form, LabelRows, MemoryRows
from r2b._labels.rule import Rule, applied
from r2b._solve.certificate import Certificate
from r2b.engines.batch import Batch, Fold, add
from r2b.engines.roles import ColumnRoles, Decode, names_of
from r2b.engines.source import NO_ATTRIBUTE, NO_LABEL, Relabel, Source, new_names
from r2b.engines.tally import Tally, gaps_of
from r2b.errors import (
    DataWarning,
    EmptyError,
    MissingValueError,
    ParameterError,
    RowsUnavailableError,
    UnseenError,
)

_SENT_ROWS = 1 << 23  # decided rows that are sent to where rows without an order are: 16 bytes each
_FRAME = (
    "Take frame(form=...) or write(path, form=...); transform(y, ...) gives the labels of rows "
    "that are in memory."
)


def _find_draws(decode: Decode, look: Look, random_state: int, batch: Batch) -> Found:
    """Look for the borders of whole counts among the draws of a batch."""
    return look(joint_codes(decode.read(batch)), decode.draws(batch, random_state))


def _new_sums(relabel: Relabel, batch: Batch) -> tuple[Floats, Floats]:
    """Add up the weight of each cell, and of each class that its rows are written with."""
    decode = relabel.decode
    data = decode.read(batch)
    labels = Labels(decode.schema.classes, codes=relabel.codes(batch, data))
    return cell_sums(labels, data.cells, decode.weight(batch))


def _heaviest(decode: Decode, batch: Batch) -> Floats:
    """Return the largest weight of each cell."""
    data = decode.read(batch)
    most = np.zeros(data.n_cells)
    np.maximum.at(most, data.cells.codes, np.asarray(decode.weight(batch)))
    return most


@dataclass(frozen=True, eq=False, repr=False)
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
    n_rows : int or None
        How many there are; None where that takes a pass over them.
    """

    source: Source
    roles: ColumnRoles
    schema: Schema
    counts: Dataset | None = None
    normalize: bool = False
    held: Dataset | None = None
    n_rows: int | None = None

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
            The rows have no order, so that labels alone would belong to nobody; or only their
            counts are known.
        """
        self._refuse_counts()
        if not self.source.ordered:
            raise RowsUnavailableError(
                f"The rows of {self.source.name} have no order, so that labels alone belong to no "
                "row.",
                remedy=_FRAME,
            )
        return MemoryRows(self._read(Decode(self.roles, self.schema, self.normalize))[0])

    def _refuse_counts(self) -> None:
        if not self.source.has_rows:
            raise RowsUnavailableError(
                "These labels were found from counts, and their rows are not here.",
                remedy="Take sql(dialect, table=...), which writes the labels where the rows are, "
                "or transform(y, ...) for rows in memory.",
            )

    def _read(self, decode: Decode, seed: int = 0) -> tuple[Dataset, Whole]:
        """Read the rows into memory, with the draws that their keys or their places give."""
        data, roles, keys = self.held, decode.roles, decode.roles.key
        if data is None or keys:
            source = self.source.with_numbers(roles.numbers)
            width = len(decode.schema.classes) * (3 if roles.soft else 1)
            needed = (self.n_rows or 0) * (8 * width + 64)
            refuse_beyond_memory(needed, f"The rows of {source.name}", _FRAME)
            columns = source.columns([*roles.used, *keys])
            data = data or decode.rows(columns, roles.weights(columns))
            if keys:
                words = key_words([columns[name] for name in keys], keys)
                return data, draws_of(words, seed)
        return data, draws_of(row_numbers(0, data.n_rows), seed)

    def frame(self, rule: Rule, **asked: Any) -> Any:
        """Return the table with its fair labels in new columns, of the kind that came in."""
        return self.source.frame(self.relabel(rule, **asked))

    def write(self, rule: Rule, path: str, *, force: bool = False, **asked: Any) -> None:
        """Write the table with its fair labels in new columns."""
        self.source.write(self.relabel(rule, **asked), path, force=force)

    def realised_as(
        self, rule: Rule, proof: Certificate, form: Any, seed: int, key: Any
    ) -> Realised:
        """Measure the labels that are written, one class per row, in a pass over the rows."""
        return self.measured(self.relabel(rule, form, random_state=seed, key=key), proof)

    def measured(self, relabel: Relabel, proof: Certificate) -> Realised:
        """Measure the labels that are written, one class per row."""
        rule, source = relabel.rule, self.source.with_numbers(self.roles.numbers)
        if self.held is not None or not self.roles.categorical:
            data, draws = self._read(relabel.decode, relabel.random_state)
            codes = relabel.decided
            if codes is None:
                codes = applied(rule, data).sample(draws)
            elif relabel.draws is not None:
                codes = codes[np.searchsorted(relabel.draws, draws)]
            return MemoryRows(data).realised(rule, proof, rule.schema.classes.decode(codes))
        columns = (*relabel.needed, *self.roles.used)
        weight, sums = source.reduce(columns, Fold(partial(_new_sums, relabel), add))
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
        """Return what makes the new columns of a batch; "round" takes a pass over the rows."""
        self._refuse_counts()
        source, roles = self.source, self.roles
        one_of("form", form, Form)
        keys, drawn = names_of(key, "key"), FORMS[form].drawn
        if drawn and not keys and not source.ordered:
            raise ParameterError(
                f"The rows of {source.name} have no order, so that nothing tells them apart for "
                f"{form!r}.",
                remedy="Name columns that do, such as `key='id'`; the same keys then always get "
                "the same labels.",
                form=form,
            )
        source.check([("key", keys)])
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
        """Return what makes new columns of these names; arguments as for :meth:`relabel`."""
        roles = replace(self.roles, key=keys)
        decode = Decode(roles, rule.schema, self.normalize, rule.known_crossings)
        made = Relabel(decode, rule, form, names, random_state)
        if form != "round" or (rule.unchanged and not roles.soft):
            return made
        if roles.categorical and self.counts is not None and roles.weight is None:
            return replace(made, borders=padded(self._borders(made)))
        try:
            if keys or self.held is not None or not roles.categorical:
                return self._decided_by_draws(made)
            return replace(made, decided=self._decided(made))
        except EmptyError:  # prices are applied to a batch of a stream that has no rows
            return made

    def _decided(self, relabel: Relabel) -> Array:
        """Round probabilities and weighted rows one after the other, in a pass over the rows."""
        decode, heaviest = relabel.decode, None
        source = self.source.with_numbers(self.roles.numbers)
        if self.roles.weight is not None:
            heaviest = source.reduce(self.roles.used, Fold(partial(_heaviest, decode), np.maximum))
        n_classes, seed = relabel.response.n_classes, relabel.random_state
        n_cells = len(relabel.rule.schema.table)
        rounding = RowRounding(n_cells, n_classes, seed, heaviest, compiled=True)
        for first, data, draws, weight in source.run(relabel.needed, partial(decode.drawn, seed)):
            rounding.add(data.cells.codes, draws, weight, first, relabel.rows(data).of_rows)
        return rounding.finish()

    def _decided_by_draws(self, relabel: Relabel) -> Relabel:
        """Round rows in memory, those with keys in the order of their draws."""
        source, keys = self.source, relabel.roles.key
        if not source.ordered and (self.n_rows or 0) > _SENT_ROWS:
            warn(
                DataWarning(
                    f"{source.subject} has no order of its rows and more than {_SENT_ROWS:,} of "
                    "them: 'round' of probabilities and weighted rows keeps the class counts of "
                    "every batch, not of the whole table.",
                    remedy="Take 'soft' or 'expand', which are exact, or write the table to files "
                    "and scan those.",
                )
            )
            return relabel
        data, draws = self._read(relabel.decode, relabel.random_state)
        codes = applied(relabel.rule, data).round(draws, relabel.random_state, keyed=bool(keys))
        if source.ordered:
            return replace(relabel, decided=codes)
        order = np.argsort(draws, kind="stable")
        rising = draws[order]
        n_shared = int((np.diff(rising) == 0).sum())
        if n_shared:
            raise ParameterError(
                f"The key {', '.join(map(repr, keys))} does not tell all rows of {source.name} "
                f"apart: {n_shared + 1:,} share theirs.",
                remedy="Name columns whose values together are different in every row.",
                key=keys,
            )
        return replace(relabel, decided=codes[order], draws=rising)

    def _borders(self, relabel: Relabel) -> Whole:
        """Find the draws at which new classes end, for "round" of class labels."""
        assert self.counts is not None
        schema, seed = relabel.rule.schema, relabel.random_state
        n_cells, n_classes = len(schema.table), len(schema.classes)
        refuse_large_round(n_cells, n_classes)
        release_memory()  # what the solve has left
        counts = class_weights(self.counts, ignore_weight=True)
        whole = whole_counts(counts, relabel.response.channel(n_classes), seed)

        def look_at(look: Look) -> Found:
            find = partial(_find_draws, relabel.decode, look, seed)
            found: Found = self.source.reduce(relabel.needed, Fold(find, Look.merge))
            release_memory()
            return found

        return find_borders(whole.reshape(-1, whole.shape[2]), look_at)


def refuse_taken(names: tuple[str, ...], source: Source) -> None:
    """Refuse names of new columns that are empty, or that columns have already."""
    taken = Counter([*names, *source.names])
    for name in names:
        if not name:
            raise ParameterError(
                "The name of the new column is empty.",
                remedy="Pass a name with `new_column`.",
                column=name,
            )
        if taken[name] > 1:
            raise ParameterError(
                f"The new column {name!r} would have the name of a column of {source.name}.",
                remedy="Choose another name with `new_column`.",
                column=name,
            )


def refuse_gaps(source: Source, tally: Tally, roles: ColumnRoles, missing: str) -> None:
    """Refuse a table without rows, and columns that lack values."""
    for name, count in gaps_of(tally, source.subject).items():
        label = not roles.soft and name == roles.label[0]
        if label or (missing == "error" and name in roles.attributes):
            none = f"{count:,} of {tally.n_rows:,} rows {'has' if count == 1 else 'have'} none."
            source.refuse_missing(name, f"{none} {NO_LABEL if label else NO_ATTRIBUTE}")
        if count == tally.n_rows:
            raise MissingValueError(
                f"None of the {count:,} rows of {source.name} has a value in {name!r}.",
                remedy="Leave this column out, or check that the right one was named.",
                column=name,
            )


def classes_of(source: Source, roles: ColumnRoles) -> Vocabulary:
    """Name the classes of probabilities."""
    if not roles.listed:
        return Vocabulary(np.array(roles.label))
    length = source.list_length(roles.label[0]) or 0
    if length < 2:
        entries = "one entry" if length else "no entries"
        raise ParameterError(
            f"The lists of probabilities have {entries}.",
            remedy="Give one probability per class.",
            n_classes=length,
        )
    return Vocabulary(np.arange(length, dtype=np.int64))


def refuse_other_kind(fair: FairLabels, roles: ColumnRoles, table: str) -> None:
    """Refuse prices that were found for another kind of labels or attributes."""
    kinds = {False: "classes", True: "probabilities"}
    if fair.schema.is_soft != roles.soft:
        mine = kinds[fair.schema.is_soft]
        raise ParameterError(
            f"The prices were found for {mine}, and {roles.called} of {table} holds "
            f"{kinds[roles.soft]}.",
            remedy=f"Name labels that are {mine}, or debias this table.",
        )
    for name, kind in zip(fair.schema.columns, fair.schema.kinds, strict=True):
        if kind != CATEGORICAL and roles.categorical:
            raise ParameterError(
                f"The prices were found with the continuous or uncertain attribute {name!r}, and "
                "all columns are named as categories.",
                remedy="Name it as it was fitted, with r2b.Continuous or r2b.Membership.",
                column=name,
            )


def recounted(source: Source, schema: Schema, roles: ColumnRoles) -> Dataset | None:
    """Count class labels with the classes and cells of other rows; None where there are no rows.

    Raises
    ------
    UnseenError
        Names the values that are new together, and in how many rows they are.
    """
    keys = [roles.label[0], *roles.attributes]
    tally = source.tally(keys)
    if not tally.n_rows:
        return None
    # By place where columns have other names than those fitted, else by name.
    known = dict(zip(roles.attributes, schema.vocabularies, strict=False))
    known |= dict(zip(schema.columns, schema.vocabularies, strict=True))
    for name in gaps_of(tally, source.subject):
        if name == roles.label[0]:
            source.refuse_missing(name, NO_LABEL)
        elif name in known and not getattr(known[name], "has_missing", False):
            source.refuse_missing(
                name, "Fill or drop such rows: no row lacked this value when the prices were found."
            )
    try:
        data = schema.read(tally.columns[keys[0]], **roles.features(tally.columns))
    except UnseenError as error:
        # Rows of a tally are combinations of values: their numbers say nothing of the table.
        row = error.facts.get("row")
        if not isinstance(row, int):
            raise
        count = int(tally.count[row])
        values = [f"{name!r} {tally.columns[name][row].as_py()!r}" for name in keys]
        raise UnseenError(
            f"{source.subject} has {count:,} row{'s' if count > 1 else ''} with "
            f"{', '.join(values)}, for which the prices were not found.",
            remedy="Correct or drop such rows, or debias this table.",
            **{name: value for name, value in error.facts.items() if name != "row"},
        ) from error
    return replace(data, cells=replace(data.cells, repeats=tally.count))
