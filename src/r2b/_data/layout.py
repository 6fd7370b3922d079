"""What the cells of a table are, without its rows: the attributes, their values and the crossings that occur."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from r2b._data.arrays import Array
from r2b._data.attributes import CATEGORICAL, CONTINUOUS, KINDS, MEMBERSHIP, ContinuousSettings
from r2b._data.mixtures import Mixtures
from r2b._data.vocabulary import Vocabulary, plain_value

AnyVocabulary: TypeAlias = Vocabulary | Mixtures
MISSING_NAME = "missing"


@dataclass(frozen=True, eq=False)
class Layout:
    """The attributes, their values and the cells.

    Attributes
    ----------
    columns : tuple of str
        Names of the attributes, control features last; ``("",)`` for one column without a name.
    vocabularies : tuple of Vocabulary or Mixtures
        One per attribute; :class:`Mixtures` for a membership.
    table : ndarray of shape (R, n_attributes)
        For each group (cell) the code of its value of each attribute; only crossings that were fitted, in lexicographic order.
    n_control : int
        How many of the last attributes are control features.
    kinds : tuple of str
        "categorical", "continuous" or "membership", one per attribute.
    settings : tuple of ContinuousSettings or None
        One per attribute, None for all but continuous ones.
    """

    columns: tuple[str, ...]
    vocabularies: tuple[AnyVocabulary, ...]
    table: Array
    n_control: int = 0
    kinds: tuple[str, ...] = ()
    settings: tuple[ContinuousSettings | None, ...] = ()

    def __post_init__(self) -> None:
        self.table.flags.writeable = False
        if not self.kinds:
            object.__setattr__(self, "kinds", (CATEGORICAL,) * len(self.columns))
        if not self.settings:
            object.__setattr__(self, "settings", (None,) * len(self.columns))

    @property
    def n_groups(self) -> int:
        """The number of groups (cells), R."""
        return len(self.table)

    @property
    def n_sensitive(self) -> int:
        """The number of sensitive attributes."""
        return len(self.columns) - self.n_control

    @property
    def missing_codes(self) -> tuple[int | None, ...]:
        """For each attribute the code of rows without a value, None where there is none."""
        return tuple(vocabulary.missing_code for vocabulary in self.vocabularies)

    @property
    def index(self) -> Any | None:
        """The row labels that the pandas columns which were read share, None without any."""
        return next((vocabulary.index for vocabulary in self.vocabularies if vocabulary.index is not None), None)

    def value_name(self, column: int, code: int) -> str:
        """Write one value of an attribute as it appears in names.

        Parameters
        ----------
        column : int
            Place of the attribute.
        code : int
        """
        vocabulary = self.vocabularies[column]
        return MISSING_NAME if code == vocabulary.missing_code else _text(vocabulary.values[code], self.kinds[column])

    @cached_property
    def names(self) -> Array:
        """The R names. One attribute: its values. Several: text such as ``"sex=Female, race=Black"``. Made when first asked for."""
        return group_names(self.columns, self.vocabularies, self.table, self.kinds)


def group_names(columns: tuple[str, ...], vocabularies: tuple[AnyVocabulary, ...], table: Array, kinds: tuple[str, ...] = ()) -> Array:
    """Name the groups: the values of one attribute, or text that names each attribute and its value."""
    if len(columns) == 1:
        names = _shown(vocabularies[0])[table[:, 0]]
    else:
        kinds = kinds or (CATEGORICAL,) * len(columns)
        parts = []
        for j, (column, vocabulary, kind) in enumerate(zip(columns, vocabularies, kinds, strict=True)):
            start = f"{column}=" if column else ""
            written = [start + text for text in _texts(vocabulary, kind)]
            parts.append([written[code] for code in table[:, j].tolist()])
        names = np.array([", ".join(row) for row in zip(*parts, strict=True)], dtype=np.str_)
    names.flags.writeable = False
    return names


def _text(value: Any, kind: str) -> str:
    written = str(plain_value(value))
    return written.removesuffix(".0") if kind == CONTINUOUS else written


def _texts(vocabulary: AnyVocabulary, kind: str) -> list[str]:
    written = [_text(value, kind) for value in vocabulary.values]
    return [*written, MISSING_NAME] if vocabulary.has_missing else written


def _shown(vocabulary: AnyVocabulary) -> Array:
    """Give the values of an attribute in the order of its codes; with missing rows they are text, or objects beside a text."""
    values = vocabulary.values
    if not vocabulary.has_missing:
        return values
    if values.dtype.kind == "U":
        return np.append(values, MISSING_NAME)
    shown = np.empty(len(values) + 1, dtype=object)
    shown[:] = [*(plain_value(value) for value in values), MISSING_NAME]
    return shown


def layout_to_json(layout: Layout) -> dict[str, Any]:
    """Give a layout as plain values; what is new to tables of categories alone is only written where there is such a thing."""
    stored: dict[str, Any] = {
        "columns": list(layout.columns),
        "vocabularies": [vocabulary.to_json() for vocabulary in layout.vocabularies],
        "table": layout.table.tolist(),
    }
    if layout.n_control:
        stored["n_control"] = layout.n_control
    if set(layout.kinds) != {CATEGORICAL}:
        stored["kinds"] = list(layout.kinds)
        stored["settings"] = [settings and settings.to_json() for settings in layout.settings]
    return stored


def layout_from_json(stored: dict[str, Any]) -> Layout:
    """Restore a layout; raises the plain errors of Python, which the caller turns into one about the file."""
    columns = tuple(str(name) for name in stored["columns"])
    kinds = tuple(stored.get("kinds", (CATEGORICAL,) * len(columns)))
    settings = stored.get("settings", [None] * len(columns))
    n_control = stored.get("n_control", 0)
    if type(n_control) is not int or not 0 <= n_control < len(columns) or not set(kinds) <= set(KINDS):
        raise ValueError(f"n_control is {n_control!r}, kinds are {kinds!r}")
    if not len(columns) == len(stored["vocabularies"]) == len(kinds) == len(settings):
        raise ValueError("attributes without values or kinds")
    vocabularies = tuple(
        Mixtures.from_json(vocabulary) if kind == MEMBERSHIP else Vocabulary.from_json(vocabulary)
        for vocabulary, kind in zip(stored["vocabularies"], kinds, strict=True)
    )
    table = np.array(stored["table"], dtype=np.int64).reshape(-1, len(columns))
    if len(table) == 0 or (table < 0).any() or (table >= [vocabulary.n_codes for vocabulary in vocabularies]).any():
        raise ValueError("groups of values that are not there")
    restored = tuple(None if plain is None else ContinuousSettings.from_json(plain) for plain in settings)
    return Layout(columns, vocabularies, table, n_control, kinds, restored)
