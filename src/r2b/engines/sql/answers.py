"""The new labels of each combination of label and attributes, as a table that a database joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np

from r2b._data import Dataset, Vocabulary
from r2b._data.arrays import Array, Whole, as_objects, plain_value
from r2b._data.merge import class_weights
from r2b._files.arrow import pyarrow
from r2b._labels.draws import BITS, uniforms_of
from r2b._labels.rounding import whole_counts
from r2b._labels.rows import FORMS, Form
from r2b._labels.rule import Rule
from r2b._labels.sampling import expanded
from r2b.engines.sql.dialects import Kind
from r2b.errors import ParameterError

_KINDS: dict[Any, Kind] = {str: "text", bool: "truth", int: "whole"}
_ARROW = {"text": "string", "whole": "int64", "truth": "bool_", "real": "float64"}
_PLACES: list[tuple[str, Kind]] = [
    ("r2b_from", "whole"),
    ("r2b_to", "whole"),
    ("r2b_rows", "whole"),
]


@dataclass(frozen=True, eq=False)
class Answers:
    """Rows to be joined.

    Attributes
    ----------
    keys, new : list of (str, Kind)
        Columns: the label and the attributes, called k0, k1, ...; then what becomes of them.
    nulls : list of bool
        Whether nulls are among the values of each key.
    rows : list of tuple
        Values of the keys, and of the new columns.
    """

    keys: list[tuple[str, Kind]]
    new: list[tuple[str, Kind]]
    nulls: list[bool]
    rows: list[tuple[Any, ...]]

    @property
    def table(self) -> Any:
        """The same as a ``pyarrow.Table``."""
        arrow = pyarrow()
        kinds = [(name, getattr(arrow, _ARROW[kind])()) for name, kind in [*self.keys, *self.new]]
        columns = zip(*self.rows, strict=True)
        return arrow.table([*map(list, columns)], schema=arrow.schema(kinds))


def answers_of(
    rule: Rule, form: Form, names: Sequence[str], counts: Dataset | None, random_state: int
) -> Answers:
    """Return the answers of a rule.

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
    called = ["the label", *(f"the attribute {name!r}" for name in schema.columns)]
    vocabularies = zip([schema.classes, *schema.vocabularies], called, strict=True)
    (classes, kind), *parts = (_values(vocabulary, name) for vocabulary, name in vocabularies)
    combinations = [
        (label, *(values[int(code)] for (values, _), code in zip(parts, cell, strict=True)))
        for cell in schema.table.tolist()
        for label in classes
    ]
    channel = rule.answers(len(classes))
    table = channel.reshape(len(combinations), -1)
    new: list[tuple[str, Kind]] = [(names[0], kind)]
    columns: list[Array]  # the place of a combination, and what becomes of it
    match form:
        case "soft":
            new = [(name, "real") for name in names]
            columns = [np.arange(len(table)), *table.T[: len(names)]]
        case "expand":
            new += [(names[-1], "real")]
            columns = [*expanded(table)]
        case "sample":
            new += _PLACES
            columns = _stretches(_draw_borders(table))
        case "round":
            assert counts is not None
            rows_by_class = class_weights(counts, ignore_weight=True)
            numbers = whole_counts(rows_by_class, channel, random_state)
            new += _PLACES
            columns = _stretches(np.cumsum(numbers.reshape(table.shape), axis=1))
        case _:
            assert_never(form)
    if FORMS[form].classes:
        columns[1] = as_objects(classes)[columns[1]]
    found = zip(*(column.tolist() for column in columns), strict=True)
    keys = [(f"k{place}", each) for place, each in enumerate([kind, *(of for _, of in parts)])]
    nulls = [False, *(None in values for values, _ in parts)]
    return Answers(keys, new, nulls, [(*combinations[one], *rest) for one, *rest in found])


def _stretches(ends: Whole) -> list[Array]:
    """Return combinations and classes, and the places that are theirs: from, to and of how many."""
    starts = np.concatenate([np.zeros((len(ends), 1), np.int64), ends[:, :-1]], axis=1)
    at = np.nonzero(starts < ends)
    return [*at, starts[at], ends[at], ends[at[0], -1]]


def _draw_borders(table: Array) -> Whole:
    """Return the first draw of the next class, for every class of every distribution.

    Draws are whole numbers and the test of :func:`r2b._labels.sampling.sample_rows` rises with
    them, so that the border is found by bisection: a database then compares whole numbers, and
    rounds nothing.
    """
    reached = np.cumsum(table, axis=1, dtype=np.float64)
    totals = reached[:, -1:]
    low, high = np.zeros(reached.shape, np.int64), np.full(reached.shape, np.int64(1) << BITS)
    for _ in range(BITS + 1):
        middle = (low + high) // 2
        passed = reached <= uniforms_of(middle) * totals
        low = np.where(passed | (low >= high), low, middle + 1)
        high = np.where(passed, middle, high)
    high[:, -1] = np.int64(1) << BITS
    return high


def _values(vocabulary: Any, called: str) -> tuple[list[Any], Kind]:
    """Return the values of a column in the order of their codes, and their kind."""
    assert isinstance(vocabulary, Vocabulary)
    values = [plain_value(value) for value in vocabulary.values]
    kind = None if vocabulary.values.dtype.kind in "mM" else _KINDS.get(type(values[0]))
    odd = [
        value
        for value in values
        if kind is None
        or _KINDS.get(type(value)) != kind
        or (kind == "whole" and abs(value) >= 2**63)
    ]
    if kind is None or odd:
        raise ParameterError(
            f"The values of {called}, such as {odd[0]!r}, are written differently by every "
            "database.",
            remedy="Use a column of text, whole numbers or true and false: cast it in a view.",
            value=odd[0],
        )
    return [*values, None] if vocabulary.has_missing else values, kind
