"""What a user may ask for: families of columns, bounds, missing values and small groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Literal

from numpy.typing import ArrayLike

from r2b._constraints.bounds import BOUNDS, PARAMETERS, BoundName
from r2b._constraints.epsilon import Epsilon
from r2b._constraints.families.offsets import Offsets
from r2b._data.cells import Cells
from r2b._data.families import FamilyChoice, family_columns
from r2b._data.numbers import refuse_other_number
from r2b._data.outcomes import OutcomeChoice, read_outcomes
from r2b._data.values import one_of as one_of
from r2b._data.vocabulary import Vocabulary
from r2b.errors import ParameterError

Target = str | ArrayLike | Mapping[Any, float]
MissingValues = Literal["error", "group", "exclude"]
SmallGroups = Literal["error", "merge", "exclude"]
AbsentGroups = Literal["report", "error"]
CHOICES = {
    "bound": BoundName,
    "missing": MissingValues,
    "small_groups": SmallGroups,
    "absent": AbsentGroups,
}
"""The fields of :class:`Request` that take one of a few words."""


@dataclass(frozen=True, eq=False)
class Family:
    """Groups compared with each other: the values of a sensitive column, or crossings of several.

    Parameters
    ----------
    columns : str or sequence of str
        Names of sensitive columns.
    epsilon : float, array-like of shape (L,) or mapping, optional
        As for :func:`r2b.debias`; what is given there if left out.
    bound : {"range", "to_overall", "ratio", "target", "to_reference"}, optional
        Likewise.
    target : array-like of shape (L,), mapping or "population", optional
        Likewise.
    reference : str or tuple of str, optional
        Likewise.
    offsets : array-like of shape (n_groups, L), frame or mapping, optional
        Those of this family; without control features, whose values have groups of their own.

    Examples
    --------
    >>> import r2b
    >>> people = {"sex": ["f", "f", "m", "m", "f", "m"], "race": ["a", "b", "a", "b", "b", "b"]}
    >>> families = [r2b.Family("sex", epsilon=0.0), r2b.Family(["sex", "race"], epsilon=0.5)]
    >>> y = ["x", "y", "x", "x", "y", "x"]
    >>> fair = r2b.debias(y, sensitive_features=people, families=families)
    >>> [family.name for family in fair.certificate.families]
    ['sex', 'sex x race']
    """

    columns: str | Sequence[str]
    epsilon: Epsilon | None = None
    bound: BoundName | None = None
    target: Target | None = None
    offsets: Offsets | None = None
    reference: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, as a tuple."""
        several = isinstance(self.columns, Iterable) and not isinstance(self.columns, str)
        return tuple(str(name) for name in (self.columns if several else (self.columns,)))

    @property
    def parameters(self) -> dict[str, Any]:
        """What is given of the parameters of bounds."""
        return {name: getattr(self, name) for name in PARAMETERS}


@dataclass(frozen=True, eq=False)
class Request:
    """Everything asked of the groups; the fields are options of :func:`r2b.debias`.

    Attributes
    ----------
    names : sequence
        Of the classes, once they are known; ``outcomes`` are then read as well.
    """

    epsilon: Epsilon = 0.0
    bound: BoundName = "range"
    target: Target | None = None
    reference: Any = None
    families: FamilyChoice | Sequence[str | Sequence[str] | Family] = "crossed"
    offsets: Offsets | None = None
    outcomes: OutcomeChoice | None = None
    missing: MissingValues = "error"
    min_group_size: int = 0
    small_groups: SmallGroups = "error"
    absent: AbsentGroups = "report"
    names: Sequence[object] = field(default=())

    def __post_init__(self) -> None:
        fewest = self.min_group_size
        remedy = "Pass the fewest rows a group may have, such as 30; 0 accepts all."
        refuse_other_number("min_group_size", fewest, remedy, lambda n: n >= 0, Integral)
        for name, choice in CHOICES.items():
            one_of(name, getattr(self, name), choice)
        if self.small_groups == "exclude" and not fewest:
            raise ParameterError(
                "small_groups is 'exclude', but min_group_size is 0, so that no group is small.",
                remedy="Pass the fewest rows of a group that counts, such as `min_group_size=10`.",
                small_groups=self.small_groups,
                min_group_size=fewest,
            )
        refuse_parameters({name: getattr(self, name) for name in PARAMETERS}, self.bound)

    def of_classes(self, vocabulary: Vocabulary) -> Request:
        """Return it for labels of these classes."""
        names = vocabulary.values.tolist()
        return replace(self, names=names, outcomes=read_outcomes(self.outcomes, names, vocabulary))


def refuse_parameters(given: Mapping[str, Any], bound: str, family: Any = None) -> None:
    """Refuse a parameter of another bound than the one asked for."""
    for name, value in given.items():
        if value is None or name in BOUNDS[bound].parameters:
            continue
        owner, _ = PARAMETERS[name]
        where = f"The family {family} has a {name}" if family else f"A {name} is given"
        problem = f"{where}, but {'its' if family else 'the'} bound is {bound!r}."
        remedy = f"Pass `bound={owner!r}` as well, or leave the {name} out."
        raise ParameterError(problem, remedy=remedy, family=family, bound=bound)


def is_a(kind: type, value: object) -> bool:
    """Return whether a value is a number of a kind; true and false are none.

    Examples
    --------
    >>> is_a(Integral, 3), is_a(Integral, True), is_a(Integral, 1.5)
    (True, False, False)
    """
    return isinstance(value, kind) and not isinstance(value, bool)


def families_of(request: Request, cells: Cells) -> list[Family]:
    """List the families that are asked for, with what they leave open filled in.

    Raises
    ------
    ParameterError
        A column that is not there, is named twice, or cannot be crossed.
    """
    n_sensitive, asked = cells.n_sensitive, request.families
    columns = family_columns(asked, cells.columns[:n_sensitive], cells.kinds[:n_sensitive])
    given: Sequence[Any] = columns if isinstance(asked, str) else asked
    found = []
    for each, names in zip(given, columns, strict=True):
        family = each if isinstance(each, Family) else Family(names)
        if family.bound is not None:
            one_of("bound", family.bound, BoundName)
        refuse_parameters(family.parameters, family.bound or request.bound, names)
        filled = {"epsilon": family.epsilon, "bound": family.bound, **family.parameters}
        open_ = {name: getattr(request, name) for name, value in filled.items() if value is None}
        found.append(replace(family, **open_))
    return found
