"""The paper's numbers in percent, half widths of 99 % intervals beside them.

Here Tables 1, 4, 5.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Value(NamedTuple):
    """A number of the paper.

    Attributes
    ----------
    mean : float
    half_width : float or None
        None where the paper gives no interval.
    """

    mean: float
    half_width: float | None = None


METHODS: Final = ("BL", "DPR", "OST", "HTO", "R2B0", "R2B")
MEASURES: Final = ("parity", "top_1", "top_2", "top_3", "error_parity")


def read_numbers(text: str) -> dict[tuple[Any, ...], Value]:
    """Read lines of keys, such as measure and p, then mean and half width for each of ``METHODS``.

    Examples
    --------
    >>> read_numbers("parity 0.5 4 .6 52 3 1 .2 1 .2 1 .4 1 .4")["parity", 0.5, "DPR"]
    Value(mean=52.0, half_width=3.0)
    """
    found = {}
    for line in text.strip().splitlines():
        words = line.split()
        key, numbers = words[: -2 * len(METHODS)], words[-2 * len(METHODS) :]
        place = tuple(float(word) if word[0].isdigit() else word for word in key)
        for method, mean, half in zip(METHODS, numbers[::2], numbers[1::2], strict=True):
            found[*place, method] = Value(float(mean), float(half))
    return found


ADULT_DATA_PARITY: Final = {0.0: Value(5.0), 0.5: Value(48.0)}

ADULT: Final = read_numbers("""
parity       0.0 rf  3.8 .2  1.5 .3  3.7 .3  2.9 .3  2.8 .3  2.2 .2
parity       0.0 knn 4.7 .5  3.0 .7  4.5 .5  3.2 .5  3.1 .5  2.1 .4
parity       0.5 rf  22.8 .3 9.5 .4  1.7 .3  2.2 .3  2.1 .2  1.0 .2
parity       0.5 knn 26.5 .5 23.3 .6 2.9 .4  3.4 .6  3.3 .7  1.1 .2
top_1        0.0 rf  42.6 .6 41.0 .7 42.6 .6 42.5 .6 42.6 .5 42.5 .6
top_1        0.0 knn 35.5 .5 33.4 .3 35.3 .5 35.2 .5 35.2 .5 35.5 .5
top_1        0.5 rf  42.0 .7 39.0 .7 34.1 .4 33.9 .6 34.0 .5 34.0 .4
top_1        0.5 knn 34.9 .5 34.3 .6 30.2 .4 29.4 .4 29.6 .7 31.1 .4
top_2        0.0 rf  65.3 .5 63.6 .5 65.3 .5 65.2 .6 65.1 .6 65.0 .6
top_2        0.0 knn 52.7 .4 49.8 .4 52.2 .4 52.1 .4 52.1 .4 51.9 .4
top_2        0.5 rf  63.4 .4 59.5 .4 55.4 .6 55.1 .6 54.9 1.0 55.0 .3
top_2        0.5 knn 51.6 .5 49.2 .5 41.4 9.5 44.0 .6 44.0 .5 44.4 .8
top_3        0.0 rf  77.1 .3 75.6 .3 77.1 .3 76.9 .3 76.8 .3 76.8 .3
top_3        0.0 knn 64.4 .5 62.1 .2 64.0 .5 63.9 .6 63.9 .6 63.7 .4
top_3        0.5 rf  76.6 .3 72.8 .5 71.6 .4 71.8 .5 71.7 .7 66.0 .4
top_3        0.5 knn 62.5 .5 60.1 .5 53.4 11.8 56.9 .5 57.0 .5 57.6 .8
error_parity 0.0 rf  0.7 .1  0.7 .4  1.0 .2  0.8 .2  1.0 .2  0.7 .3
error_parity 0.0 knn 0.7 .3  0.7 .2  0.7 .3  0.8 .3  0.8 .3  0.7 .3
error_parity 0.5 rf  7.6 1.1 31.5 .8 49.9 .2 50.1 .3 49.9 .4 49.8 .3
error_parity 0.5 knn 2.0 .5  1.2 .4  12.5 .8 8.1 .3  7.8 .5  31.3 .7
""")
"""By measure, p, learner and method."""
