"""What an audit says of one difference, of one group, and of chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from r2b._constraints.families.doubts import FEWEST

SAME = 1e-12  # a number this near to another is the same one, summed in another order
RARE = 0.05  # what fewer fair tables than this show is beyond chance


@dataclass(frozen=True)
class Chance:
    """What fair labels of this number would show: the labels are handed to the rows by chance, again and again.

    Attributes
    ----------
    mean : float
        Average of the measure.
    quantile : float
        19 of 20 fair samples do not pass it. The p-value of a measure is 0.05 or less exactly where
        the measure does.
    p_value : float
        Share of (1 + permutations) that show at least as much as the data, the data among them:
        valid at every size.
    n_permutations : int
        How often the labels were handed about.
    at_floor : bool
        No permutation shows as much as the data: the p-value is the least that so many can give,
        and says "at most".
    """

    mean: float
    quantile: float
    p_value: float
    n_permutations: int
    at_floor: bool


@dataclass(frozen=True)
class Difference:
    """One class and the two groups of a family whose means of it differ most.

    Attributes
    ----------
    family : str
        To which both groups belong.
    class_name : object
        The class, as it came in.
    groups : tuple of two str
        The group with the higher mean, then the one with the lower.
    means, rows : tuple of two float
        Their means of the class, and how many rows they have.
    value : float
        The difference.
    level : float or None
        What chance explains of it, for groups of these sizes and with all groups of the audit
        looked at: the sum of their levels. None without permutations, and with fewer than 19.
    """

    family: str
    class_name: Any
    groups: tuple[str, str]
    means: tuple[float, float]
    value: float
    rows: tuple[float, float]
    level: float | None

    @property
    def beyond_chance(self) -> bool | None:
        """Whether the difference is larger than ``level``; None where that is not known."""
        return None if self.level is None else self.excess > SAME

    @property
    def excess(self) -> float:
        """What chance does not explain of the difference; all of it where nothing is known of chance."""
        return self.value - (self.level or 0.0)


@dataclass(frozen=True)
class RankedGroup:
    """How far the labels of a group are from those of its whole family.

    Attributes
    ----------
    family, group : str
        The names of the two.
    rows, share : float
        Number of rows, for memberships the expected one; and share of the weight of its family.
    class_name : object
        The class that deviates most.
    mean, overall : float
        Its means in the group and in the family.
    deviation : float
        Distance between the two.
    total_variation : float
        Half the sum of the deviations of all classes: the share of labels that would have to
        change.
    chance : Chance or None
        Of the deviation of a group of this size by itself, its labels drawn from the family by
        chance; None without permutations.
    level : float or None
        What chance explains of the deviation when all groups of the audit are looked at: in 19 of
        20 fair tables no group passes its own (the maxT of Westfall and Young). Of many groups some
        are far out by chance, above all small ones. None without permutations, and with fewer than
        19.
    p_adjusted : float or None
        Share of (1 + permutations) in which any group of the audit deviates as much for its size.
        None without permutations.
    """

    family: str
    group: str
    rows: float
    share: float
    class_name: Any
    mean: float
    overall: float
    deviation: float
    total_variation: float
    chance: Chance | None
    level: float | None
    p_adjusted: float | None

    @property
    def beyond_chance(self) -> bool | None:
        """Whether the deviation is larger than ``level``: no more than 1 in 20 fair tables have such a group. None where not known."""
        return None if self.level is None else self.deviation > self.level + SAME

    @property
    def small(self) -> bool:
        """Whether the group has fewer than 10 rows."""
        return self.rows < FEWEST
