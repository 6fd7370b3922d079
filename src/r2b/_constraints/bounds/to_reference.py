"""Every group is within epsilon of one named group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from r2b._constraints.bounds.base import Asked, Bound, Parameter, Sides, band, stored_epsilon
from r2b._data.arrays import SAME, Flags, Floats, Places
from r2b._data.values import listed
from r2b.errors import ParameterError


@dataclass(frozen=True, eq=False)
class ReferenceBound(Bound):
    """Every mean within epsilon of that of the reference group, which is itself free to move.

    Attributes
    ----------
    reference : int or ndarray of shape (n_classes,)
        The number of the reference group in its family, or one for each class.

    Examples
    --------
    >>> bound = ReferenceBound(np.array([0.1, 0.1]), reference=0)
    >>> means = np.array([[0.9, 0.1], [0.5, 0.5], [0.85, 0.15]])
    >>> bound.measure(means, np.ones(3)).round(3)
    array([0.4, 0.4])
    >>> bound.project(means, np.full(3, 1 / 3)).means.round(3)
    array([[0.75, 0.25],
           [0.65, 0.35],
           [0.85, 0.15]])
    """

    name = "to_reference"
    title = "From a group"
    description = "largest distance of a group from the reference group"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "reference": Parameter(
            "the group that the others are compared with; 'highest' for that with most of a class."
        )
    }

    apart = 2.0  # to either side

    reference: int | Places

    @classmethod
    def of(cls, asked: Asked) -> Self:
        """Make the bound from epsilon and the name of the reference group."""
        wanted = asked.parameters["reference"]
        several = isinstance(wanted, Sequence) and not isinstance(wanted, str)
        values = list(wanted) if several else [wanted]
        called = {str(wanted.item() if isinstance(wanted, np.generic) else wanted)}
        if len(values) == len(asked.columns):
            pairs = zip(asked.columns, values, strict=True)
            called.add(
                ", ".join(f"{column}={value}" if column else f"{value}" for column, value in pairs)
            )
        found = [place for place, each in enumerate(asked.groups) if str(each) in called]
        if not found and isinstance(wanted, str) and wanted == "highest":
            means = asked.means()
            tied = means >= means.max(axis=0) - SAME
            return cls(asked.epsilon, tied.argmax(axis=0))
        if wanted is None or not found:
            given = "no reference is given" if wanted is None else f"{wanted!r} is none of them"
            raise ParameterError(
                f"The family {asked.family!r} is compared with one of its groups, and {given}.",
                remedy=f"Pass one of {listed(asked.groups)}, such as "
                f"`reference={str(asked.groups[0])!r}`, or 'highest'. Where several families are "
                "compared, 'highest' is for all; a group is of one: compare one attribute, or "
                "crossings only with `families='crossed'`, or in Python pass a Family for each, "
                "with its own reference.",
                family=asked.family,
                reference=wanted,
            )
        return cls(asked.epsilon, found[0])

    @property
    def of_classes(self) -> bool:
        """Whether every class has a reference of its own."""
        return not isinstance(self.reference, int)

    def parameters_for(self, groups: Sequence[Any]) -> dict[str, Any]:
        """Return the name of the reference group."""
        found = "highest" if self.of_classes else groups[int(self.reference)]
        return {"reference": found}

    def on_level(self, n_groups: int) -> Flags:
        """Return which entry of each class is that of its reference."""
        found = np.arange(n_groups)[:, None] == self.reference
        return np.broadcast_to(found, (n_groups, self.epsilon.shape[-1]))

    def level_of(self, means: Floats, weight: Floats) -> Floats:
        """Return the mean of each class in its reference group."""
        return np.asarray(means[self.reference, np.arange(means.shape[1])])

    def sides(self, n_groups: int) -> Sides:
        """Return epsilon on both sides of a level, on which the reference group is."""
        wide = np.broadcast_to(self.epsilon, (n_groups, self.epsilon.shape[-1]))
        own = self.on_level(n_groups)
        bounded = np.isfinite(np.where(own, np.inf, wide))
        bounded = np.where(own, bounded.any(axis=0), bounded)
        return band(np.where(own, 0.0, wide), n_groups, bounded)

    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Return the largest distance from the reference group."""
        return np.asarray(np.abs(means - self.level_of(means, weight)).max(axis=0))

    def violation(self, means: Floats, weight: Floats) -> Floats:
        """Return how far some mean lies beyond its distance from the reference group."""
        beyond = np.abs(means - self.level_of(means, weight)) - self.epsilon
        return np.asarray(np.maximum(beyond.max(axis=0), 0.0))

    def reordered(self, places: Places) -> Self:
        """Return the bound for the groups at these places, in this order."""
        order = np.empty(np.max(places) + 1, np.int64)
        order[places] = np.arange(len(places))
        place = order[self.reference]
        reference = int(place) if isinstance(self.reference, int) else place
        return replace(super().reordered(places), reference=reference)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], n_groups: int) -> Self:
        """Restore a bound from :meth:`to_json`."""
        epsilon, given = stored_epsilon(stored, n_groups), stored["reference"]
        places = np.array(given, dtype=np.int64)
        known = places.shape in ((), epsilon.shape[-1:])
        if not known or not ((places >= 0) & (places < n_groups)).all():
            raise ValueError(f"reference is {given}, of {n_groups} groups")
        return cls(epsilon, places if places.ndim else int(places))
