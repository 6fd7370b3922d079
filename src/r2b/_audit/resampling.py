"""How much an audit draws, and what it says of what was drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from operator import le
from zlib import crc32

import numpy as np

from r2b._audit.results import Chance
from r2b._data.arrays import Floats
from r2b._data.numbers import refuse_other_number
from r2b.metrics.chance import critical, p_value
from r2b.metrics.intervals import Interval
from r2b.metrics.resampling import MOST_SUMS, FamilyRows, PlaceSums


@dataclass(frozen=True)
class Draws:
    """How much to draw, the seed, and how many groups to list."""

    n_permutations: int = 200
    n_boot: int = 500
    level: float = 0.95
    random_state: int = 0
    n_largest: int = 10

    def __post_init__(self) -> None:
        remedies = {
            "n_permutations": "Pass a whole number such as 200, or 0 to leave chance out.",
            "n_boot": "Pass a whole number such as 500, or 0 to leave the intervals out.",
            "random_state": "Pass a whole number of 0 or more.",
            "n_largest": "Pass how many groups to list, such as 10.",
        }
        for name, remedy in remedies.items():
            value = getattr(self, name)
            least = 2 if name == "n_boot" and value else 0
            refuse_other_number(name, value, remedy, partial(le, least), Integral)
        remedy = "Pass a number between 0 and 1, such as 0.95."
        refuse_other_number("level", self.level, remedy, lambda value: 0 < value < 1)

    def rng(self, family: str) -> np.random.Generator:
        """Return a family's own generator, so that its draws do not depend on other families."""
        words = [int(self.random_state), crc32(family.encode())]
        return np.random.default_rng(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])

    def by_chance(
        self, rows: FamilyRows, family: str, statistic: Callable[[PlaceSums], Floats]
    ) -> Floats | None:
        """Return a statistic of the sums in every permutation; None without permutations."""
        if not self.n_permutations:
            return None
        permuted = rows.permuted(self.n_permutations, self.rng(family))
        return np.concatenate([statistic(sums) for sums in permuted])

    def interval(
        self,
        rows: FamilyRows,
        family: str,
        observed: float,
        changes: Callable[[PlaceSums], Floats],
    ) -> Interval | None:
        """Return the interval of a maximum from the largest change of its arguments.

        A maximum never changes by more than its arguments, so the level-quantile of their largest
        change in resampled rows bounds it on both sides. None where it would cost too much.
        """
        if not self.n_boot or rows.n_sums > MOST_SUMS:
            return None
        drawn = rows.resampled(changes, self.n_boot, self.rng(family))
        reach = float(np.quantile(drawn, self.level))
        ends = max(observed - reach, 0.0), min(observed + reach, 1.0)
        return Interval(*ends, self.level, "bootstrap")


def chance_of(observed: float, drawn: Floats) -> Chance:
    """Compare a measure with what it is by chance."""
    p, n = p_value(observed, drawn), len(drawn)
    return Chance(float(drawn.mean()), float(critical(drawn)), p, n, at_floor=p <= 1 / (1 + n))
