"""From what is asked of a family to its bound, checked against the labels before anything is solved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.families.request import BoundName, Family, Request, Target
from r2b._constraints.parity import Bound, MomentBound, OverallBound, RangeBound, RatioBound, TargetBound
from r2b._constraints.parity.epsilon import epsilon_per_class, labelled, numbers_per_class
from r2b.errors import ParameterError

Floats = NDArray[np.float64]

LARGEST: dict[BoundName, float] = {"range": 1.0, "to_overall": 1.0, "ratio": 1.0, "target": 2.0}
"""What the measure that each bound limits cannot exceed: differences of shares, and twice a distance between two."""

_SUM_ROUNDING = 1e-9  # of a target's sum: means add up to 1 exactly, and a bound of 0 could not be met otherwise


def bound_of(family: Family, request: Request, n_classes: int, population: Callable[[], Floats], name: str) -> Bound:
    """Build the bound of one family.

    Parameters
    ----------
    family : Family
    request : Request
        For what the family leaves open.
    n_classes : int
    population : callable
        Gives the mean label of the rows that the family counts, of shape (n_classes,); not every bound asks for it.
    name : str
        Of the family; for errors.
    """
    names = request.names
    kind: BoundName = request.bound if family.bound is None else family.bound
    asked = request.epsilon if family.epsilon is None else family.epsilon
    epsilon = epsilon_per_class(asked, n_classes, names, largest=LARGEST[kind])
    if kind == "range":
        return RangeBound(epsilon)
    if kind == "to_overall":
        return OverallBound(epsilon)
    if kind == "ratio":
        return _ratio(epsilon, population(), names, name)
    wanted = request.target if family.target is None else family.target
    if wanted is None:
        raise ParameterError(
            f"The bound of the family {name!r} is 'target', but no target is given.",
            remedy="Pass target='population', or one share per class that add up to 1.",
            family=name,
        )
    return TargetBound(epsilon, _target(wanted, population(), names))


def moment_bound_of(family: Family, request: Request, n_classes: int, name: str) -> Bound:
    """Build the bound of a continuous attribute, which limits moments whatever the groups' bound is.

    Raises
    ------
    ParameterError
        A shape that means nothing without groups.
    """
    kind = request.bound if family.bound is None else family.bound
    if kind in ("ratio", "target"):
        raise ParameterError(
            f"The bound {kind!r} compares groups, and {name!r} is continuous and has none.",
            remedy=f"Give it a family of its own with another bound: Family({name!r}, bound='range').",
            family=name,
            bound=kind,
        )
    epsilon = epsilon_per_class(request.epsilon if family.epsilon is None else family.epsilon, n_classes, request.names, largest=1.0)
    return MomentBound(epsilon, np.zeros(n_classes))


def _ratio(epsilon: Floats, population: Floats, names: Sequence[object], name: str) -> RatioBound:
    empty = np.flatnonzero((population <= 0) & (epsilon < 1))
    if len(empty):
        label = names[empty[0]] if len(names) else int(empty[0])
        raise ParameterError(
            f"The class {label!r} is empty in the family {name!r}, so it has no ratio between groups.",
            remedy="Leave the class out of the labels, or free it with an epsilon of 1 for this class.",
            class_name=label,
            family=name,
        )
    return RatioBound(epsilon)


def _target(wanted: Target, population: Floats, names: Sequence[object]) -> Floats:
    if isinstance(wanted, str):
        if wanted != "population":
            raise ParameterError(
                f"target is {wanted!r}.", remedy="Pass 'population', or one share per class that add up to 1.", target=wanted
            )
        return population
    wanted = labelled(wanted)
    if np.ndim(cast("Floats", wanted)) == 0 and not hasattr(wanted, "keys"):
        raise ParameterError(f"target is {wanted!r}.", remedy="Pass 'population', or one share per class that add up to 1.", target=wanted)
    target = numbers_per_class("target", wanted, len(population), names)
    wrong = np.flatnonzero(~((target >= 0) & (target <= 1)))
    if len(wrong):
        label = names[wrong[0]] if len(names) else int(wrong[0])
        raise ParameterError(
            f"The target of class {label!r} is {target[wrong[0]]}, which is not a share.",
            remedy="Pass numbers between 0 and 1 that add up to 1.",
            class_name=label,
            value=float(target[wrong[0]]),
        )
    total = float(target.sum())
    if abs(total - 1.0) > _SUM_ROUNDING:
        raise ParameterError(
            f"The target adds up to {total:.10g}, not to 1, so no labels can meet it.",
            remedy="Divide it by its sum.",
            total=total,
        )
    return target / total


def refuse_contradiction(bounds: list[tuple[str, TargetBound]], names: Sequence[object]) -> None:
    """Refuse targets of families over the same rows that no labels can meet together.

    The mean over all rows lies between the means of groups, hence within reach of every target; rows that are all alike show that nothing
    else is needed.
    """
    if len(bounds) < 2:
        return
    low = np.max([bound.target - bound.reach for _, bound in bounds], axis=0)
    high = np.min([bound.target + bound.reach for _, bound in bounds], axis=0)
    apart = np.flatnonzero(low > high + _SUM_ROUNDING)
    if len(apart):
        label = names[apart[0]] if len(names) else int(apart[0])
        raise ParameterError(
            f"The targets of {' and '.join(repr(name) for name, _ in bounds)} contradict each other for class {label!r}: "
            f"one asks for at least {low[apart[0]]:.6g}, another for at most {high[apart[0]]:.6g}.",
            remedy="Give all families one target, or a larger epsilon.",
            class_name=label,
            families=[name for name, _ in bounds],
        )
    if low.sum() > 1 + _SUM_ROUNDING or high.sum() < 1 - _SUM_ROUNDING:
        raise ParameterError(
            f"The targets of {' and '.join(repr(name) for name, _ in bounds)} leave no shares that add up to 1.",
            remedy="Give all families one target, or a larger epsilon.",
            families=[name for name, _ in bounds],
        )
