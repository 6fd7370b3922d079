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
