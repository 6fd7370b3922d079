"""From numbers that were drawn to what is said about them."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from r2b._audit.differences import SAME, Chance
from r2b.errors import ParameterError
from r2b.metrics.intervals import Interval

Floats = NDArray[np.float64]

_RARE = 0.05  # what fewer fair tables than this show is beyond chance
FEWEST = 19  # permutations below which nothing can be: the data are one of 1 + 18 tables


@dataclass(frozen=True)
class Draws:
    """How much to draw, and where to start."""

    n_permutations: int
    n_boot: int
    level: float
    random_state: int

    def __post_init__(self) -> None:
        counts = {
            "n_permutations": (0, "Pass a whole number such as 200, or 0 to leave chance out."),
            "n_boot": (0, "Pass a whole number such as 500, or 0 to leave the intervals out."),
            "random_state": (0, "Pass a whole number of 0 or more."),
        }
        for name, (least, remedy) in counts.items():
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least or (name == "n_boot" and int(value) == 1):
                raise ParameterError(f"{name} is {value!r}.", remedy=remedy, **{name: value})
        if not isinstance(self.level, Real) or not 0 < float(self.level) < 1:
            remedy = "Pass a number between 0 and 1, such as 0.95."
            raise ParameterError(f"level is {self.level!r}.", remedy=remedy, level=self.level)

    def seed(self, family: str) -> int:
        """Give a family's own start: its draws do not depend on which others there are, and are not theirs in another guise."""
        words = np.random.SeedSequence([int(self.random_state), crc32(family.encode())]).generate_state(1, np.uint64)
        return int(words[0])


def chance_of(observed: float, drawn: Floats) -> Chance:
    """Compare a measure with what it is by chance."""
    p = p_value(observed, drawn)
    return Chance(float(drawn.mean()), float(critical(drawn)), p, len(drawn), at_floor=p <= 1 / (1 + len(drawn)))


def p_value(observed: float, drawn: Floats) -> float:
    """Give the share of the drawn numbers, the observed one among them, that are at least as large."""
    return (1 + int((drawn >= observed - SAME).sum())) / (1 + len(drawn))


def critical(drawn: Floats) -> Floats:
    """Give the number, along the first axis, above which a measure has a p-value of 1 in 20 or less: the same question, asked once.

    Of fewer than 19 draws that is none; the largest is given.

    Examples
    --------
    >>> float(critical(np.arange(200.0))), p_value(190.0, np.arange(200.0)), p_value(190.1, np.arange(200.0))
    (190.0, 0.0547..., 0.0497...)
    """
    place = max(1, int(_RARE * (1 + len(drawn)) + 1e-9))
    found: Floats = np.sort(drawn, axis=0)[-place]
    return found


def interval_around(observed: float, changes: Floats, level: float) -> Interval:
    """Give the interval of a maximum from the largest change of its arguments in each resample, as ``gap_interval`` does.

    A maximum never changes by more than its arguments, so that the level-quantile of their largest change bounds it on both sides.
    """
    reach = float(np.quantile(changes, level))
    return Interval(max(observed - reach, 0.0), min(observed + reach, 1.0), level, "bootstrap")
