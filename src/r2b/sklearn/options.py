"""What the estimators share: the options of ``debias`` as constructor parameters, and the way from parameters to a solved problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from r2b._labels import FairLabels
from r2b._labels.options import DEFAULTS, refuse_unknown
from r2b.engines.memory import debias
from r2b.errors import ParameterError

WITHOUT = ("progress",)
"""Options of ``debias`` that are no parameter of an estimator: a callback neither clones nor pickles."""


def store(estimator: Any, options: Mapping[str, Any], /, **own: Any) -> None:
    """Keep constructor arguments under their names, untouched: what scikit-learn asks of a constructor.

    Raises
    ------
    ParameterError
        An option that does not exist.
    """
    refuse_unknown(options, WITHOUT)
    usual = {name: default for name, default in DEFAULTS.items() if name not in WITHOUT}
    for name, value in {**usual, **options, **own}.items():
        setattr(estimator, name, value)


def solve(estimator: Any, y: Any, **data: Any) -> FairLabels:
    """Call ``debias`` with the parameters of an estimator and the arguments that speak of rows.

    Raises
    ------
    ParameterError
        There are no sensitive features.
    """
    require_sensitive(data["sensitive_features"], type(estimator).__name__)
    taken = estimator.get_params(deep=False)
    return debias(y, **{name: taken[name] for name in DEFAULTS if name in taken}, **data)


def require_sensitive(sensitive_features: Any, name: str, method: str = "fit") -> None:
    """Refuse to go on without sensitive features: labels that nobody made fair would pass for fair ones."""
    if sensitive_features is None:
        raise ParameterError(
            f"{name} was called without sensitive_features, so there are no groups to be fair to.",
            remedy="Pass sensitive_features=...; inside a pipeline or a search, enable metadata routing and call "
            f"set_{method}_request(sensitive_features=True) on it.",
            sensitive_features=None,
        )


def seed_of(random_state: Any, *further: int) -> Any:
    """Turn what scikit-learn calls a random state into what NumPy's generators take.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None
    *further : int
        Numbers that tell one draw from another under the same random state, such as the number of a batch.

    Raises
    ------
    ParameterError
        It is none of these.

    Examples
    --------
    >>> seed_of(3)
    3
    >>> seed_of(3, 1) == seed_of(3, 1), seed_of(3, 1) == seed_of(3, 2)
    (True, False)
    """
    whole = isinstance(random_state, (int, np.integer)) and random_state >= 0
    if not whole and random_state is not None and not isinstance(random_state, (np.random.Generator, np.random.RandomState)):
        raise ParameterError(
            f"random_state is {random_state!r}.",
            remedy="Pass a whole number of zero or more, a NumPy Generator or RandomState, or None.",
            random_state=random_state,
        )
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31 - 1))
    if not further or random_state is None or isinstance(random_state, np.random.Generator):
        return random_state
    return int(np.random.SeedSequence([int(random_state), *further]).generate_state(1)[0])
