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
from r2b._data.by_class import places_in_order, places_of, read_table, stated_order
from r2b._data.numbers import refuse_other_number
from r2b._data.values import repeated
from r2b._data.vocabulary import Vocabulary
from r2b.errors import ParameterError

_FORM = (
    "Pass 'ordinal', {'ordinal': [...]} with the classes in order, a mapping from names to classes "
    "such as {'degree': ['Bachelors', 'Masters']} or, counted by parts between 0 and 1, "
    "{'points': {'Bachelors': 0.5, 'Masters': 1}}, or a table with a row per outcome and a column "
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
        return of_classes @ self.matrix.T

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
        rows = [_merged(name, wanted, names, vocabulary) for name, wanted in given.items()]
        return _checked([str(name) for name in given], np.array(rows).reshape(-1, len(names)))
    labels, matrix = read_table("outcomes", given, names, _FORM)
    return _checked(labels or [f"outcome {n + 1}" for n in range(len(matrix))], matrix)


def _merged(name: Any, wanted: Any, names: list[Any], vocabulary: Vocabulary | None) -> list[float]:
    """Return by which part an outcome counts every class."""
    several = isinstance(wanted, Iterable) and not isinstance(wanted, (str, bytes))
    counted = wanted if several else [wanted]
    parts = wanted if isinstance(wanted, Mapping) else dict.fromkeys(counted, 1.0)
    for part in parts.values():
        refuse_other_number(f"outcomes[{name!r}]", part, _FORM, lambda value: 0 <= value <= 1)
    # A category that does not occur is a class as well.
    stated = [*names, *(stated_order(vocabulary) or ())]
    places = places_of("outcomes", parts, stated, partial=True)
    numbers = [*map(float, parts.values()), 0.0]  # the last for a class that is not named
    return [numbers[place] for place in places[: len(names)]]


def _checked(labels: list[Any], matrix: Floats) -> Outcomes:
    names = list(map(str, labels))
    if not names:
        raise ParameterError("There is no outcome to compare.", remedy=_FORM, outcomes=names)
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
