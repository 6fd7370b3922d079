"""What a user may ask for: families of columns, shapes of bound, how to treat missing values and small groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from r2b._constraints.families.offsets import Offsets
from r2b._constraints.parity import Bound, MomentBound, TargetBound
from r2b._constraints.parity.bands import BANDS
from r2b._constraints.parity.bounds import Epsilon, epsilon_per_class, labelled, numbers_per_class
from r2b._data.arrays import Floats, Places
from r2b._data.cells import Cells
from r2b.errors import ParameterError

BoundName = Literal["range", "to_overall", "ratio", "target"]
FamilyChoice = Literal["crossed", "marginal", "both"]
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
    """Groups that must agree with each other: the values of one sensitive column, or the crossings of several.

    Parameters
    ----------
    columns : str or sequence of str
        Names of sensitive columns.
    epsilon : float, array-like of shape (L,) or mapping, optional
        As for :func:`r2b.debias`; what is given there if left out.
    bound : {"range", "to_overall", "ratio", "target"}, optional
        Likewise.
    target : array-like of shape (L,), mapping or "population", optional
        Likewise.
    offsets : array-like of shape (n_groups, L), frame or mapping, optional
        Those of this family; without control features, whose values have groups of their own.

    Examples
    --------
    >>> import r2b
    >>> people = {"sex": ["f", "f", "m", "m", "f", "m"], "race": ["a", "b", "a", "b", "b", "b"]}
    >>> families = [r2b.Family("sex", epsilon=0.0), r2b.Family(["sex", "race"], epsilon=0.5)]
    >>> fair = r2b.debias(["x", "y", "x", "x", "y", "x"], sensitive_features=people, families=families)
    >>> [family.name for family in fair.certificate.families]
    ['sex', 'sex x race']
    """

    columns: str | Sequence[str]
    epsilon: Epsilon | None = None
    bound: BoundName | None = None
    target: Target | None = None
    offsets: Offsets | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, as a tuple."""
        several = isinstance(self.columns, Iterable) and not isinstance(self.columns, str)
        return tuple(str(name) for name in (self.columns if several else (self.columns,)))


@dataclass(frozen=True, eq=False)
class Request:
    """Everything asked of the groups. The fields are options of :func:`r2b.debias`, documented in ``r2b._labels.debiasing``."""

    epsilon: Epsilon = 0.0
    bound: BoundName = "range"
    target: Target | None = None
    families: FamilyChoice | Sequence[str | Sequence[str] | Family] = "crossed"
    offsets: Offsets | None = None
    missing: MissingValues = "error"
    min_group_size: int = 0
    small_groups: SmallGroups = "error"
    absent: AbsentGroups = "report"
    names: Sequence[object] = field(default=())

    def __post_init__(self) -> None:
        if not (is_a(Integral, self.min_group_size) and self.min_group_size >= 0):
            remedy = "Pass the fewest rows a group may have, such as 30; 0 accepts all."
            raise ParameterError(
                f"min_group_size is {self.min_group_size!r}.",
                remedy=remedy,
                min_group_size=self.min_group_size,
            )
        for name, choice in CHOICES.items():
            one_of(name, getattr(self, name), get_args(choice))
        if self.small_groups == "exclude" and not self.min_group_size:
            problem = (
                "small_groups is 'exclude', but min_group_size is 0, so that no group is small."
            )
            remedy = "Pass the fewest rows of a group that counts, such as min_group_size=10."
            raise ParameterError(
                problem,
                remedy=remedy,
                small_groups=self.small_groups,
                min_group_size=self.min_group_size,
            )
        if self.target is not None and self.bound != "target":
            remedy = "Pass bound='target' as well, or leave the target out."
            raise ParameterError(
                f"A target is given, but the bound is {self.bound!r}.",
                remedy=remedy,
                bound=self.bound,
            )


def is_a(kind: type, value: object) -> bool:
    """Tell whether a value is a number of a kind; true and false are none, although Python counts them as 1 and 0.

    Examples
    --------
    >>> is_a(Integral, np.int8(3)), is_a(Integral, True), is_a(Integral, 1.5)
    (True, False, False)
    """
    return isinstance(value, kind) and not isinstance(value, bool)


def one_of(name: str, value: object, options: Sequence[str]) -> None:
    """Refuse a value that is not among the options."""
    if not isinstance(value, str) or value not in options:
        raise ParameterError(
            f"{name} is {value!r}.",
            remedy=f"Pass one of {', '.join(map(repr, options))}.",
            **{name: value},
        )


def families_of(request: Request, groups: Cells) -> list[Family]:
    """Spell out which families of columns are asked for, in the order of the table's columns, with what they leave open filled in.

    Continuous and uncertain attributes cannot be crossed with others: each makes a family of its
    own.

    Raises
    ------
    ParameterError
        A column that is not there, is named twice, or cannot be crossed.
    """
    return [
        replace(
            family,
            epsilon=request.epsilon if family.epsilon is None else family.epsilon,
            bound=family.bound or request.bound,
            target=request.target if family.target is None else family.target,
        )
        for family in _families_of(request, groups)
    ]


def _families_of(request: Request, groups: Cells) -> list[Family]:
    sensitive = groups.columns[: len(groups.columns) - groups.n_control]
    kinds = dict(zip(groups.columns, groups.kinds, strict=True))
    categorical = [name for name in sensitive if kinds[name] == "categorical"]
    alone = [Family(name) for name in sensitive if kinds[name] != "categorical"]
    if isinstance(request.families, str):
        if request.families not in get_args(FamilyChoice):
            remedy = f"Pass one of {', '.join(map(repr, get_args(FamilyChoice)))}, or a list of columns: [{request.families!r}]."
            raise ParameterError(
                f"families is {request.families!r}.", remedy=remedy, families=request.families
            )
        crossed = [Family(tuple(categorical))] if categorical else []
        if request.families == "crossed":
            return crossed + alone
        marginal = [Family(name) for name in sensitive]
        return marginal + (crossed if request.families == "both" and len(categorical) > 1 else [])
    if not isinstance(request.families, Sequence) or not request.families:
        remedy = "Pass 'crossed', 'marginal', 'both', or a list of columns such as ['sex', ['sex', 'race']]."
        raise ParameterError(
            f"families is {request.families!r}.", remedy=remedy, families=request.families
        )
    families = [_family(each, sensitive) for each in request.families]
    for family in families:
        _check_columns(family, sensitive, kinds)
        if family.bound is not None:
            one_of("bound", family.bound, get_args(BoundName))
        if family.target is not None and (family.bound or request.bound) != "target":
            problem = f"The family {family.names} has a target, but its bound is {family.bound or request.bound!r}."
            remedy = "Give it bound='target' as well, or leave the target out."
            raise ParameterError(
                problem, remedy=remedy, family=family.names, bound=family.bound or request.bound
            )
    return families


def _family(each: Any, sensitive: tuple[str, ...]) -> Family:
    if isinstance(each, Family):
        return each
    names = [each] if isinstance(each, (str, int, np.integer)) else each
    # Names of columns are text; a frame may have had them as numbers.
    right = isinstance(names, Sequence) and all(
        isinstance(name, (str, int, np.integer)) and not isinstance(name, bool) for name in names
    )
    if not right:
        remedy = _among(sensitive, f", such as [{sensitive[0]!r}], or pass a Family")
        raise ParameterError(
            f"A family is {each!r}, which names no columns.", remedy=remedy, family=each
        )
    return Family(tuple(str(name) for name in names))


def _among(sensitive: tuple[str, ...], more: str = "") -> str:
    if sensitive == ("",):
        return "The one column has no name: leave families out, or name the column in a dictionary such as {'sex': column}."
    return f"Name columns among {', '.join(map(repr, sensitive))}{more}."


def _check_columns(family: Family, sensitive: tuple[str, ...], kinds: dict[str, str]) -> None:
    names = family.names
    unknown = [name for name in names if name not in sensitive]
    if unknown or not names:
        fault = (
            f"names the column {unknown[0]!r}, which sensitive_features does not have"
            if unknown
            else "has no columns"
        )
        raise ParameterError(
            f"A family {fault}.", remedy=_among(sensitive), family=names, columns=sensitive
        )
    if len(set(names)) < len(names):
        raise ParameterError(
            f"The family {names} names a column twice.",
            remedy="Name each column once.",
            family=names,
        )
    uncrossable = [name for name in names if kinds[name] != "categorical"]
    if uncrossable and len(names) > 1:
        problem = f"The family {names} crosses {uncrossable[0]!r}, which is {kinds[uncrossable[0]]} and has no groups of its own."
        remedy = f"Give {uncrossable[0]!r} a family of its own: families=[..., {uncrossable[0]!r}]."
        raise ParameterError(problem, remedy=remedy, family=names, column=uncrossable[0])


LARGEST: dict[BoundName, float] = {"range": 1.0, "to_overall": 1.0, "ratio": 1.0, "target": 2.0}
"""What the measure that each bound limits cannot exceed: differences of shares, and twice a distance between two."""

# of a target's sum: means add up to 1 exactly, and a bound of 0 could not be met otherwise
_SUM_ROUNDING = 1e-9


def bound_of(
    family: Family,
    n_classes: int,
    names: Sequence[object],
    population: Callable[[], Floats],
    name: str,
) -> Bound:
    """Build the bound of one family.

    Parameters
    ----------
    family : Family
        With nothing left open.
    n_classes : int
    names : sequence
        Of the classes.
    population : callable
        Gives the mean label of the rows that the family counts, of shape (n_classes,); not every
        bound asks for it.
    name : str
        Of the family; for errors.
    """
    assert family.bound is not None and family.epsilon is not None
    epsilon = epsilon_per_class(family.epsilon, n_classes, names, largest=LARGEST[family.bound])
    if family.bound == "ratio":
        _refuse_empty(epsilon, population(), names, name)
    if family.bound != "target":
        return BANDS[family.bound](epsilon)
    if family.target is None:
        remedy = "Pass target='population', or one share per class that add up to 1."
        raise ParameterError(
            f"The bound of the family {name!r} is 'target', but no target is given.",
            remedy=remedy,
            family=name,
        )
    return TargetBound(epsilon, _target(family.target, population(), names))


def moment_bound_of(family: Family, n_classes: int, names: Sequence[object]) -> Bound:
    """Build the bound of a continuous attribute, which limits moments whatever the groups' bound is.

    Raises
    ------
    ParameterError
        A shape that means nothing without groups.
    """
    (name,) = family.names
    assert family.epsilon is not None
    if family.bound in ("ratio", "target"):
        problem = (
            f"The bound {family.bound!r} compares groups, and {name!r} is continuous and has none."
        )
        remedy = f"Give it a family of its own with another bound: Family({name!r}, bound='range')."
        raise ParameterError(problem, remedy=remedy, family=name, bound=family.bound)
    return MomentBound(
        epsilon_per_class(family.epsilon, n_classes, names, largest=1.0), np.zeros(n_classes)
    )


def _class_name(names: Sequence[object], places: Places) -> object:
    return names[places[0]] if len(names) else int(places[0])


def _refuse_empty(epsilon: Floats, population: Floats, names: Sequence[object], name: str) -> None:
    empty = np.flatnonzero((population <= 0) & (epsilon < 1))
    if len(empty):
        label = _class_name(names, empty)
        problem = f"The class {label!r} is empty in the family {name!r}, so it has no ratio between groups."
        remedy = (
            "Leave the class out of the labels, or free it with an epsilon of 1 for this class."
        )
        raise ParameterError(problem, remedy=remedy, class_name=label, family=name)


def _target(wanted: Target, population: Floats, names: Sequence[object]) -> Floats:
    if isinstance(wanted, str) and wanted == "population":
        return population
    wanted = labelled(wanted)
    if np.ndim(cast("Floats", wanted)) == 0 and not hasattr(wanted, "keys"):
        raise ParameterError(
            f"target is {wanted!r}.",
            remedy="Pass 'population', or one share per class that add up to 1.",
            target=wanted,
        )
    target = numbers_per_class("target", wanted, len(population), names)
    wrong = np.flatnonzero(~((target >= 0) & (target <= 1)))
    if len(wrong):
        label = _class_name(names, wrong)
        problem = f"The target of class {label!r} is {target[wrong[0]]}, which is not a share."
        remedy = "Pass numbers between 0 and 1 that add up to 1."
        raise ParameterError(
            problem, remedy=remedy, class_name=label, value=float(target[wrong[0]])
        )
    total = float(target.sum())
    if abs(total - 1.0) > _SUM_ROUNDING:
        remedy = "Divide it by its sum."
        raise ParameterError(
            f"The target adds up to {total:.10g}, not to 1, so no labels can meet it.",
            remedy=remedy,
            total=total,
        )
    return target / total


def refuse_contradiction(bounds: list[tuple[str, TargetBound]], names: Sequence[object]) -> None:
    """Refuse targets of families over the same rows that no labels can meet together.

    The mean over all rows lies between the means of groups, hence within reach of every target;
    rows that are all alike show that nothing else is needed.
    """
    if len(bounds) < 2:
        return
    families, remedy = (
        [name for name, _ in bounds],
        "Give all families one target, or a larger epsilon.",
    )
    listed = " and ".join(map(repr, families))
    low = np.max([bound.target - bound.reach for _, bound in bounds], axis=0)
    high = np.min([bound.target + bound.reach for _, bound in bounds], axis=0)
    apart = np.flatnonzero(low > high + _SUM_ROUNDING)
    if len(apart):
        label = _class_name(names, apart)
        limits = (
            f"one asks for at least {low[apart[0]]:.6g}, another for at most {high[apart[0]]:.6g}"
        )
        problem = f"The targets of {listed} contradict each other for class {label!r}: {limits}."
        raise ParameterError(problem, remedy=remedy, class_name=label, families=families)
    if low.sum() > 1 + _SUM_ROUNDING or high.sum() < 1 - _SUM_ROUNDING:
        raise ParameterError(
            f"The targets of {listed} leave no shares that add up to 1.",
            remedy=remedy,
            families=families,
        )
