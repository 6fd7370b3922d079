"""Numbers per class, tables of them, and the order of the classes, as a user writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from r2b._data.arrays import Floats, frozen, plain_value
from r2b._data.values import key_of, listed, type_word
from r2b._data.vocabulary import Vocabulary
from r2b.errors import ParameterError


def places_of(
    what: str,
    given: Iterable[Any],
    known: Sequence[Any],
    *,
    noun: str = "class",
    partial: bool = False,
    further: bool = False,
) -> list[int]:
    """Return where each known name stands among those that are given; -1 for none.

    Parameters
    ----------
    what : str
        How an error calls what names them.
    given, known : sequence of names
    noun : str
        What they are names of.
    partial, further : bool, default False
        Whether known names may be left out, and others given.

    Raises
    ------
    ParameterError

    Examples
    --------
    >>> places_of("epsilon", ["yes", "no"], ["no", "yes"])
    [1, 0]
    >>> places_of("epsilon", ["yes"], ["no", "yes"], partial=True)
    [-1, 0]
    """
    own = list(map(key_of, given := list(given)))
    names = [plain_value(name) for name in given]
    places = {key: place for place, key in enumerate(own)}
    keys = [key_of(name) for name in known]
    missing = [name for name, key in zip(known, keys, strict=True) if key not in places]
    unknown = [
        name for name, key in zip(names, own, strict=True) if key not in keys and not further
    ]
    several, of_type = f"{noun}{'es' if noun.endswith('s') else 's'}", ""
    if unknown:
        fault = f"names {unknown[0]!r}, which is not a {noun}"
        word, wanted = type_word(unknown[0]), type_word(known[0])
        if word != wanted:  # '0' is not 0, however alike they are written
            fault = f"names {unknown[0]!r} ({word}), but the {several} are of another type"
            of_type = f" ({wanted})"
    elif len(places) < len(names):
        fault = f"names a {noun} twice"
    elif missing and not partial:
        fault = f"is without the {noun} {missing[0]!r}"
    elif not names:
        fault = f"names no {noun}"
    else:
        return [places.get(key, -1) for key in keys]
    way = f"{several} among these" if partial else f"every {noun} once"
    remedy = f"Name {way}: {listed(known)}{of_type}."
    raise ParameterError(f"`{what}` {fault}.", remedy=remedy, missing=missing, unknown=unknown)


def numbers_per_class(
    what: str, given: Any, names: Sequence[object], *, others: float | None = None
) -> Floats:
    """Read one number, or one for each class in order or by name.

    ``others`` is the number of classes that a mapping does not name, unless that has one under the
    key ``...``; where it is None every class must be named.

    Examples
    --------
    >>> numbers_per_class("epsilon", {"b": 0.1, ...: 0.2}, ["a", "b"])
    array([0.2, 0.1])
    """
    remedy, n_classes = "Pass one number such as 0.01, or one per class.", len(names)
    if given is None or isinstance(given, (bool, np.bool_)):
        raise ParameterError(f"`{what}` is {given}.", remedy=remedy, **{what: given})
    given = labelled(given)
    if isinstance(given, Mapping):
        named, places = dict(given), [-1] * n_classes
        others = named.pop(..., others)
        if named or not given:
            places = places_of(what, named, names, partial=others is not None)
        given = [[*named.values(), others][place] for place in places]
    try:
        numbers = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        problem = f"`{what}` is {given!r}, which is not a number."
        raise ParameterError(problem, remedy=remedy, **{what: given}) from None
    if numbers.ndim > 1 or (numbers.ndim == 1 and len(numbers) != n_classes):
        problem = f"`{what}` has shape {numbers.shape}, but there are {n_classes} classes."
        remedy = f"Pass one number, or {n_classes} numbers in the order of the classes."
        raise ParameterError(problem, remedy=remedy, shape=numbers.shape, n_classes=n_classes)
    return np.broadcast_to(numbers, (n_classes,)).copy()


def labelled(given: Any) -> Any:
    """Return a column with row labels as a mapping by them: names go before positions."""
    index = getattr(given, "index", None)
    if index is None or not hasattr(given, "to_dict") or not hasattr(index, "tolist"):
        return given
    # Row labels 0, 1, 2, ... are what a column has that was given none.
    return given if index.tolist() == list(range(len(index))) else given.to_dict()


def read_table(
    what: str, given: Any, classes: Sequence[object], remedy: str
) -> tuple[list[Any] | None, Floats]:
    """Read numbers with a column per class; of a frame with names, by these.

    Parameters
    ----------
    what : str
    given : array-like of shape (n, n_classes) or frame
    classes : sequence
        Names.
    remedy : str
        For what is no such table.

    Returns
    -------
    labels : list or None
        The names of the rows, None where they have none.
    table : ndarray of shape (n, n_classes)

    Examples
    --------
    >>> read_table("costs", [[0, 1], [2, 0]], ["a", "b"], "")[0] is None
    True
    """
    labels, columns = None, getattr(given, "columns", None)
    if columns is not None and hasattr(given, "to_numpy"):
        named, labels = list(columns), list(getattr(given, "index", ()))
        given = given.to_numpy()
        # Names 0, 1, 2, ... are what a frame has that was given none.
        if named != list(range(len(named))):
            given = given[:, places_of(what, named, classes)]
        if labels == list(range(len(labels))):
            labels = None
    try:
        table = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.zeros(0)
    if table.ndim != 2 or table.shape[1] != len(classes):
        size = f"a column for each of the {len(classes)} classes"
        problem = f"`{what}`, of shape {table.shape}, is no table of numbers with {size}."
        raise ParameterError(problem, remedy=remedy, shape=table.shape)
    return labels, table


def read_costs(costs: Any, names: list[Any], vocabulary: Vocabulary | None = None) -> Floats:
    """Check a table of costs, in the order of the classes; of ordered classes, make it.

    Parameters
    ----------
    costs : array-like of shape (L, L), frame, "ordinal" or {"ordinal": sequence}
    names : list
        The classes.
    vocabulary : Vocabulary, optional
        Of the classes, for the order that an ordered categorical states.

    Raises
    ------
    ParameterError
        Not a square table of the classes with 0 on the diagonal and finite costs above 0 beside it,
        or an order that is not known.

    Examples
    --------
    >>> read_costs([[0, 1], [2, 0]], ["a", "b"]).tolist()
    [[0.0, 1.0], [2.0, 0.0]]
    >>> read_costs({"ordinal": ["fail", "pass", "merit"]}, ["fail", "merit", "pass"]).tolist()
    [[0.0, 2.0, 1.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    if isinstance(costs, (str, Mapping)):
        remedy = "Pass 'ordinal', {'ordinal': [...]} with the classes in order, or a table."
        places = np.array(places_in_order("costs", costs, names, vocabulary, remedy), np.float64)
        return frozen(np.abs(places[:, None] - places))
    n, size = len(names), f"{len(names)} x {len(names)}"
    remedy = f"Pass a {size} table of the cost to turn a row's class into a column's; 1 is usual."
    labels, table = read_table("costs", costs, names, remedy)
    if labels is not None:
        table = table[places_of("costs", labels, names)]
    if len(table) != n:
        problem = f"`costs` has {len(table)} rows, but there are {n} classes."
        raise ParameterError(problem, remedy=remedy, shape=table.shape)
    wrong = np.argwhere(np.where(np.eye(n) == 1, table != 0, ~(np.isfinite(table) & (table > 0))))
    if len(wrong):
        (old, new), cost = ((names[place] for place in wrong[0]), float(table[tuple(wrong[0])]))
        problem = f"It costs {cost} to turn class {old!r} into class {new!r}."
        remedy = "Keeping a label costs 0, and every change a finite amount above 0."
        raise ParameterError(problem, remedy=remedy, old=old, new=new, cost=cost)
    return frozen(table)


def places_in_order(
    option: str,
    asked: str | Mapping[Any, Any],
    names: list[Any],
    vocabulary: Vocabulary | None,
    remedy: str,
) -> list[int]:
    """Return the place of every class in the order that an option states.

    Parameters
    ----------
    option : str
        Its name.
    asked : "ordinal" or {"ordinal": sequence}
        The order of an ordered categorical, or one that is given from the lowest to the highest.
    names : list
        The classes.
    vocabulary : Vocabulary, optional
        Of the classes.
    remedy : str
        For a value that is neither.

    Examples
    --------
    >>> places_in_order("costs", {"ordinal": ["low", "high"]}, ["high", "low"], None, "")
    [1, 0]
    """
    given = asked["ordinal"] if isinstance(asked, Mapping) and list(asked) == ["ordinal"] else None
    if asked != "ordinal" and (isinstance(given, str) or not isinstance(given, Iterable)):
        raise ParameterError(f"{option} is {asked!r}.", remedy=remedy, **{option: asked})
    order = stated_order(vocabulary) if given is None else given
    if order is None:
        way = f"State it, `{option}={{'ordinal': [...]}}` from the lowest class to the highest"
        raise ParameterError(
            f"{option} is 'ordinal', but the order of the classes {listed(names)} is not known.",
            remedy=f"{way}, or pass labels of an ordered categorical.",
            classes=names,
        )
    return places_of(option, order, names, further=True)


def stated_order(vocabulary: Vocabulary | None) -> list[Any] | None:
    """Return all categories of an ordered column; None where no order was stated."""
    if vocabulary is None or vocabulary.source is None:
        return None
    native = vocabulary.source.native
    if vocabulary.library == "pandas" and getattr(native.dtype, "ordered", None) is True:
        return list(native.dtype.categories.tolist())
    if vocabulary.library == "polars" and str(native.dtype).startswith("Enum"):
        return list(native.dtype.categories.to_list())
    if vocabulary.library == "pyarrow" and getattr(native.type, "ordered", False):
        whole = native.unify_dictionaries().chunk(0) if hasattr(native, "chunks") else native
        return list(whole.dictionary.to_pylist())
    return None
