"""Read the arguments of ``debias`` once, for questions that solve more than one problem with them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from r2b._constraints.families import Request
from r2b._labels.task import Job, Settings, open_job
from r2b.errors import ParameterError

_DATA = ("sensitive_features", "control_features", "sample_weight", "normalize")
_REQUEST = tuple(each.name for each in fields(Request) if each.name != "names")
_SETTINGS = tuple(each.name for each in fields(Settings))
KNOWN_OPTIONS = (*_DATA, *_REQUEST, *_SETTINGS, "costs")


def job_of(y: Any, options: dict[str, Any], *, decided: tuple[str, ...] = ()) -> Job:
    """Open a job from the keyword arguments of ``debias``.

    Parameters
    ----------
    y : array-like
    options : dict
        As ``debias`` takes them.
    decided : tuple of str
        Options that the question itself decides.

    Raises
    ------
    ParameterError
        An option that ``debias`` does not have, or that the question decides.
    """
    for name in options:
        if name not in KNOWN_OPTIONS or name in decided:
            fault = "is what this question answers" if name in decided else "is not an option of debias"
            offered = ", ".join(option for option in KNOWN_OPTIONS if option not in decided)
            raise ParameterError(f"The option {name!r} {fault}.", remedy=f"Choose among {offered}.", option=name)
    request, settings = request_and_settings(options)
    data = {name: options[name] for name in _DATA if name in options}
    return open_job(y, **data, request=request, settings=settings, costs=options.get("costs"))


def request_and_settings(options: dict[str, Any]) -> tuple[Request, Settings]:
    """Read what is asked of the groups, and how it is solved, from the keyword arguments of ``debias``; others are let be."""
    request = Request(**{name: options[name] for name in _REQUEST if name in options})
    return request, Settings(**{name: options[name] for name in _SETTINGS if name in options})
