"""Where random numbers come from: what users pass as ``random_state``."""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b.errors import ParameterError


def generator(random_state: Any) -> np.random.Generator:
    """Give the generator that a seed stands for; one that is handed in is used as it is.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None
        The same number gives the same draws; None new ones each time.

    Raises
    ------
    ParameterError
        Anything that NumPy makes no generator of, such as text or a number below 0.

    Examples
    --------
    >>> int(generator(7).integers(100)) == int(np.random.default_rng(7).integers(100))
    True
    """
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            f"random_state is {random_state!r}.",
            remedy="Pass a whole number of at least 0, a generator of NumPy, or None for other draws each time.",
            random_state=random_state,
        ) from None


def seed_of(random_state: Any) -> int:
    """Give the whole number that what is drawn for rows follows from: a number itself, or one drawn from a generator.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None
        As for :func:`generator`.

    Raises
    ------
    ParameterError
        It is no seed, or a number of more than 63 bits.

    Examples
    --------
    >>> seed_of(7), seed_of(np.random.default_rng(7)) == seed_of(np.random.default_rng(7))
    (7, True)
    """
    if isinstance(random_state, bool) or (isinstance(random_state, (int, np.integer)) and not 0 <= int(random_state) < 2**63):
        raise ParameterError(
            f"random_state is {random_state!r}.",
            remedy="Pass a whole number from 0 to 2**63 - 1, a generator of NumPy, or None for other draws each time.",
            random_state=random_state,
        )
    return int(random_state) if isinstance(random_state, (int, np.integer)) else int(generator(random_state).integers(2**63))
