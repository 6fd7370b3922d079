"""Numbers per class as the command line spells them: one for all, or 'class=number', repeated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from r2b._data.dataset import read_labels
from r2b._files import did_you_mean, read_table
from r2b._files.plain import as_numbers, as_text, listed
from r2b.errors import InputError, ParameterError


def classes_of(y: Any) -> list[Any]:
    """Give the classes of labels, or the columns of probabilities, in the order that r2b gives them."""
    return list(y) if isinstance(y, dict) else list(read_labels(y, normalize=False, fewest_classes=1).vocabulary.values.tolist())


def normalized(y: Any) -> Any:
    """Divide rows of probabilities by their sums; class labels have none.

    Examples
    --------
    >>> {name: column.tolist() for name, column in normalized({"a": [1.0, 3.0], "b": [1.0, 1.0]}).items()}
    {'a': [0.5, 0.75], 'b': [0.5, 0.25]}
    """
    if not isinstance(y, dict):
        return y
    matrix = read_labels(y, normalize=True, fewest_classes=1).array
    return {name: matrix[:, k] for k, name in enumerate(y)}


def per_class(what: str, given: Sequence[str], classes: Sequence[Any]) -> Any:
    """Read one number for all classes, or one per class; a plain number among them is for the classes not named.

    Examples
    --------
    >>> per_class("--epsilon", ["0.1", "a=0.2"], ["a", "b"])
    {'a': 0.2, 'b': 0.1}
    """
    by_name: dict[Any, float] = {}
    others: float | None = None
    spoken = {as_text([value], what)[0]: value for value in classes}
    for text in given:
        name, _, number = text.rpartition("=")
        value = _number(what, number, text)
        if "=" not in text:
            if others is not None:
                raise ParameterError(f"{what} gives two numbers for all classes.", remedy="Pass one; write class=number for one class.")
            others = value
            continue
        if name not in spoken:
            known = ", ".join(map(repr, list(spoken)[:10]))
            remedy = did_you_mean(name, list(spoken)) or f"The classes are {known}{', ...' if len(spoken) > 10 else ''}."
            raise ParameterError(f"{what} names {name!r}, which is not a class.", remedy=remedy, class_name=name)
        by_name[spoken[name]] = value
    if not by_name:
        return others
    return by_name if others is None else {value: by_name.get(value, others) for value in classes}


def _number(what: str, text: str, given: str) -> float:
    try:
        value = float(text)
        if math.isnan(value):
            raise ValueError
        return value
    except ValueError:
        raise ParameterError(f"{what} is {given!r}.", remedy="Pass a number such as 0.01, or class=number.", value=given) from None


def target_of(given: Sequence[str], classes: Sequence[Any]) -> Any:
    """Read ``--target``: a word, or a share for each class."""
    if not given:
        return None
    return given[0] if len(given) == 1 and "=" not in given[0] else per_class("--target", given, classes)


def costs_of(path: str | None, classes: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Read a table of costs: its first column names the class that is left, the other columns the class that is taken.

    Raises
    ------
    InputError
        The table does not have every class once, as a row and as a column.
    """
    if path is None:
        return None
    table = read_table(path)
    names = as_text(list(classes), "classes")
    first, *others = table.names
    left = as_text(table.columns([first])[first], first)
    for found, where in ((others, "columns"), (left, "rows")):
        if sorted(found) != sorted(names):
            odd = next(iter(sorted(set(names) ^ set(found))), next((name for name in found if found.count(name) > 1), ""))
            raise InputError(
                f"The {where} of {table.name} are not the classes: {odd!r} is only in one of them, or there twice.",
                remedy=f"Name every class once as a row and as a column: {', '.join(map(repr, names[:10]))}.",
                path=path,
                value=odd,
            )
    columns = table.columns(names)
    order = [left.index(name) for name in names]
    by_column = [np.asarray(as_numbers(listed(columns[name]), table, name), dtype=np.float64) for name in names]
    return np.column_stack(by_column)[order]
