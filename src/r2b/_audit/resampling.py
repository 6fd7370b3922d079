"""How much an audit draws, and what it says of what was drawn."""

from __future__ import annotations

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


def chance_of(observed: float, drawn: Floats) -> Chance:
    """Compare a measure with what it is by chance."""
    p, n = p_value(observed, drawn), len(drawn)
    return Chance(float(drawn.mean()), float(critical(drawn)), p, n, at_floor=p <= 1 / (1 + n))


def interval_around(observed: float, changes: Floats, level: float) -> Interval:
    """Return the interval of a maximum from the largest change of its arguments in each resample.

    A maximum never changes by more than its arguments, so the level-quantile of their largest
    change bounds it on both sides.
    """
    reach = float(np.quantile(changes, level))
    return Interval(max(observed - reach, 0.0), min(observed + reach, 1.0), level, "bootstrap")
