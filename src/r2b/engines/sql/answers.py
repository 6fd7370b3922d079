"""What becomes of each combination of label and attributes, as a table that a database joins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._data import Dataset, Vocabulary
from r2b._data.arrays import Array, Whole, plain_value
from r2b._data.merge import class_weights
from r2b._files.arrow import pyarrow
from r2b._labels.draws import BITS, uniforms_of
from r2b._labels.labels import Form
from r2b._labels.rounding import whole_counts
from r2b._labels.rule import Rule
from r2b._labels.sampling import expanded
from r2b.engines.sql.dialects import Kind
from r2b.errors import ParameterError

_KINDS: dict[type, Kind] = {str: "text", bool: "truth", int: "whole"}
_ARROW = {"text": "string", "whole": "int64", "truth": "bool_", "real": "float64"}


@dataclass(frozen=True, eq=False)
class Answers:
    """Rows to be joined: keys first, then what becomes of them.

    Attributes
    ----------
    columns : tuple of (str, Kind)
    rows : list of tuple
    n_keys : int
        How many of the columns are keys: the label, then the attributes.
    missing : tuple
        For each key a value of its column where nulls are among the keys, else None.
    """

    columns: tuple[tuple[str, Kind], ...]
    rows: list[tuple[Any, ...]]
    n_keys: int
    missing: tuple[Any, ...]

    @property
    def table(self) -> Any:
        """The same as a ``pyarrow.Table``."""
        arrow = pyarrow()
        values = zip(*self.rows, strict=True)
        arrays = [
            arrow.array(each, getattr(arrow, _ARROW[kind])())
            for each, (_, kind) in zip(values, self.columns, strict=True)
        ]
        return arrow.table(arrays, names=[name for name, _ in self.columns])


def answers_of(
    rule: Rule, form: Form, names: Sequence[str], counts: Dataset | None, random_state: int
) -> Answers:
    """Give the answers of a rule.

    Parameters
    ----------
    rule : Rule
        For class labels, and attributes that are categories.
    form : {"soft", "round", "sample", "expand"}
    names : sequence of str
        Of the new columns.
    counts : Dataset, optional
        The rows, or one row per combination; for "round".
    random_state : int
        For "round".
    """
    schema = rule.schema
    n_cells, n_classes = len(schema.table), len(schema.classes)
    classes, kind = _values(schema.classes, "the label")
    parts = [
        _values(vocabulary, f"the attribute {name!r}")
        for name, vocabulary in zip(schema.columns, schema.vocabularies, strict=True)
    ]
    keys: list[tuple[str, Kind]] = [
        ("k0", kind),
        *((f"k{place}", each) for place, (_, each) in enumerate(parts, start=1)),
    ]
    missing = (None, *(values[0] if None in values else None for values, _ in parts))
    combinations = [
        (label, *(values[code] for (values, _), code in zip(parts, cell, strict=True)))
        for cell in schema.table.tolist()
        for label in classes
    ]
    table = rule.response(schema).channel().reshape(n_cells * n_classes, n_classes)
    new: list[tuple[str, Kind]]
    if form == "soft":
        new = [(name, "real") for name in names]
        leaving = table[:, : len(names)].tolist()  # no row leaves with a class that was not fitted
        rows = [
            (*combination, *shares)
            for combination, shares in zip(combinations, leaving, strict=True)
        ]
    elif form == "expand":
        new = [(names[0], kind), (names[1], "real")]
        place, codes, shares = expanded(table)
        rows = [
            (*combinations[one], classes[code], share)
            for one, code, share in zip(
                place.tolist(), codes.tolist(), shares.tolist(), strict=True
            )
        ]
    else:
        new = [(names[0], kind), ("r2b_from", "whole"), ("r2b_to", "whole"), ("r2b_rows", "whole")]
        if form == "sample":
            ends, totals = _draw_borders(table), np.zeros(len(table), np.int64)
        else:
            assert counts is not None
            numbers = class_weights(counts, ignore_weight=True)
            ends = np.cumsum(
                whole_counts(
                    numbers, table.reshape(n_cells, n_classes, n_classes), random_state
                ).reshape(table.shape),
                axis=1,
            )
            totals = ends[:, -1]
        rows = [
            (*combinations[one], classes[code], low, high, total)
            for one, code, low, high, total in _stretches(ends, totals)
        ]
    return Answers((*keys, *new), rows, len(keys), missing)


def _stretches(ends: Whole, totals: Whole) -> Iterator[tuple[int, ...]]:
    """Give pair, class, first place and end of every stretch that is not empty, and the rows of the pair."""
    starts = np.concatenate([np.zeros((len(ends), 1), np.int64), ends[:, :-1]], axis=1)
    pairs, classes = np.nonzero(starts < ends)
    found = (pairs, classes, starts[pairs, classes], ends[pairs, classes], totals[pairs])
    return zip(*(each.tolist() for each in found), strict=True)


def _draw_borders(table: Array) -> Whole:
    """Give the first draw that belongs to the next class, for every class of every distribution.

    Draws are whole numbers and the test of :func:`r2b._labels.sampling.sample_table` rises
    with them, so that the border is found by halving: a database then compares whole numbers, and
    rounds nothing.
    """
    reached = np.cumsum(table, axis=1, dtype=np.float64)
    totals = reached[:, -1:]
    low, high = np.zeros(reached.shape, np.int64), np.full(reached.shape, np.int64(1) << BITS)
    for _ in range(BITS + 1):
        middle = (low + high) // 2
        passed = reached <= uniforms_of(middle) * totals
        low, high = (
            np.where(passed | (low >= high), low, middle + 1),
            np.where(passed, middle, high),
        )
    high[:, -1] = np.int64(1) << BITS
    return high


def _values(vocabulary: Any, called: str) -> tuple[list[Any], Kind]:
    """Give the values of a column in the order of their codes, None for missing ones, and their kind."""
    assert isinstance(vocabulary, Vocabulary)
    values = [plain_value(value) for value in vocabulary.values]
    kinds = (
        {_KINDS.get(type(value)) for value in values}
        if vocabulary.values.dtype.kind not in "mM"
        else {None}
    )
    kind = next(iter(kinds))
    odd = (
        values[0]
        if kind is None or len(kinds) > 1
        else next((each for each in values if kind == "whole" and abs(each) >= 2**63), None)
    )
    if kind is None or odd is not None:
        raise ParameterError(
            f"The values of {called}, such as {odd!r}, are written differently by every database.",
            remedy="Count and debias a column of text, whole numbers or true and false: cast it in a view.",
            value=odd,
        )
    return [*values, None] if vocabulary.has_missing else values, kind
