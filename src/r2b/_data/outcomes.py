"""Outcomes: which shares of a group are compared, where that is not the share of every class.

An outcome counts each class with a part between 0 and 1, mostly 1 or 0: "any degree" counts three
classes, "at least Bachelors" all from Bachelors upwards. The share of an outcome in a group is the
mean of these parts over its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import Floats, frozen, plain_value
from r2b._data.numbers import places_in_order, stated_order
from r2b._data.values import key_of, listed, repeated
from r2b._data.vocabulary import Vocabulary
from r2b.errors import ParameterError

_FORM = (
    "Pass 'ordinal', {'ordinal': [...]} with the classes in order, a mapping from names to classes "
    "such as {'degree': ['Bachelors', 'Masters']}, or a table with a row per outcome and a column "
    "per class."
)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What is compared: each outcome counts every class with a part between 0 and 1.

    Attributes
    ----------
    names : tuple of str
    matrix : ndarray of shape (n_outcomes, n_classes)

    Examples
    --------
    >>> outcomes = read_outcomes({"ordinal": ["low", "middle", "high"]}, ["high", "low", "middle"])
    >>> outcomes.names, outcomes.matrix.tolist()
    (('at least middle', 'at least high'), [[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    """

    names: tuple[str, ...]
    matrix: Floats

    def shares(self, of_classes: Floats) -> Floats:
        """Return the shares of outcomes from those of classes, in the last axis."""
        return np.asarray(of_classes @ self.matrix.T)

    @property
    def steps(self) -> float:
        """The most by which a share moves when each class gains or loses up to one row.

        The rows of a group stay as many, so that gains and losses add up to 0.
        """
        middle = np.median(self.matrix, axis=1, keepdims=True)
        return float(np.abs(self.matrix - middle).sum(axis=1).max())

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"names": list(self.names), "matrix": self.matrix.tolist()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Outcomes:
        """Restore outcomes from :meth:`to_json`."""
        names, matrix = tuple(map(str, stored["names"])), np.array(stored["matrix"], np.float64)
        fits = matrix.ndim == 2 and len(matrix) == len(names) == len(set(names)) > 0
        if not fits or not ((matrix >= 0) & (matrix <= 1)).all():
            raise ValueError(f"outcomes are {stored!r}"[:200])
        return cls(names, frozen(matrix))


OutcomeChoice = Literal["ordinal"] | Mapping[Any, Any] | ArrayLike | Outcomes


def read_outcomes(
    given: Any, classes: Sequence[Any], vocabulary: Vocabulary | None = None
) -> Outcomes | None:
    """Read outcomes as a user writes them; None where every class is compared.

    Parameters
    ----------
    given : "ordinal", mapping, array-like of shape (n_outcomes, n_classes), frame or None
    classes : sequence
        Names.
    vocabulary : Vocabulary, optional
        Of the classes, for the order that an ordered categorical states.

    Raises
    ------
    ParameterError
        A class that is not there, an order that is not known, or a part that is not between 0
        and 1.

    Examples
    --------
    >>> read_outcomes({"degree": ["Masters", "Doctorate"]}, ["Doctorate", "HS", "Masters"]).matrix
    array([[1., 0., 1.]])
    """
    if given is None or isinstance(given, Outcomes):
        return given
    names = list(classes)
    if isinstance(given, str) or (isinstance(given, Mapping) and list(given) == ["ordinal"]):
        places = np.array(places_in_order("outcomes", given, names, vocabulary, _FORM))
        order = np.argsort(places, kind="stable")
        matrix = (places >= places[order[1:], None]).astype(np.float64)
        return _checked([f"at least {plain_value(names[k])}" for k in order[1:]], matrix)
    if isinstance(given, Mapping):
        stated = [*names, *(stated_order(vocabulary) or ())]
        rows = [_merged(name, wanted, names, stated) for name, wanted in given.items()]
        return _checked([str(name) for name in given], np.array(rows).reshape(-1, len(names)))
    return _checked(*_of_table(given, names))


def _merged(name: Any, wanted: Any, names: list[Any], stated: list[Any]) -> list[float]:
    """Return which classes an outcome counts."""
    several = isinstance(wanted, Iterable) and not isinstance(wanted, (str, bytes))
    values = [plain_value(each) for each in (wanted if several else [wanted])]
    known = {key_of(each) for each in stated}
    unknown = [value for value in values if key_of(value) not in known]
    if unknown or not values:
        fault = f"counts {unknown[0]!r}, which is not a class" if unknown else "counts no class"
        raise ParameterError(
            f"The outcome {name!r} {fault}.",
            remedy=f"Name classes among these: {listed(names)}.",
            outcome=name,
            unknown=unknown,
        )
    counted = {key_of(value) for value in values}
    return [float(key_of(each) in counted) for each in names]


def _of_table(given: Any, names: list[Any]) -> tuple[list[str], Floats]:
    """Read a matrix, or a frame by the names of its rows and columns."""
    columns, index = getattr(given, "columns", None), getattr(given, "index", None)
    if columns is not None and hasattr(given, "to_numpy"):
        called = [plain_value(each) for each in columns]
        if called != list(range(len(called))) or names == called:
            if len(called) != len(names) or {*map(key_of, called)} != {*map(key_of, names)}:
                raise ParameterError(
                    f"The columns of outcomes are {listed(called)}, which are not the classes.",
                    remedy=f"Name every class once: {listed(names)}.",
                    found=called,
                    classes=names,
                )
            keys = [key_of(each) for each in called]
            given = given[[columns[keys.index(key_of(each))] for each in names]]
        given = given.to_numpy()
    try:
        matrix = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.zeros(0)
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        problem = f"outcomes is no table with a column for each of the {len(names)} classes."
        raise ParameterError(problem, remedy=_FORM, shape=np.shape(matrix))
    rows = list(range(len(matrix)))
    stated = rows if index is None or not hasattr(index, "tolist") else index.tolist()
    return [f"outcome {n + 1}" for n in rows] if stated == rows else list(map(str, stated)), matrix


def _checked(names: list[str], matrix: Floats) -> Outcomes:
    if not names:
        raise ParameterError("There is no outcome to compare.", remedy=_FORM)
    twice = repeated(names)
    if twice is not None:
        problem = f"Two outcomes are called {twice!r}."
        raise ParameterError(problem, remedy="Give every outcome a name of its own.", outcome=twice)
    wrong = np.argwhere(~((matrix >= 0) & (matrix <= 1)))
    if len(wrong):
        name, value = names[wrong[0, 0]], float(matrix[tuple(wrong[0])])
        problem = f"The outcome {name!r} counts a class {value:g} times."
        remedy = "Pass parts between 0 and 1; divide scores by the largest."
        raise ParameterError(problem, remedy=remedy, outcome=name, value=value)
    return Outcomes(tuple(names), frozen(matrix))
