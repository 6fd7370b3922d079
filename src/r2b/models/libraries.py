"""Libraries that r2b works with and does not need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from r2b.errors import MissingExtraError


def require(library: str, *, extra: str, needed_by: str) -> Any:
    """Import an optional library, or say which extra brings it.

    Parameters
    ----------
    library : str
        The module to import.
    extra : str
        The extra of r2b that installs it.
    needed_by : str
        What cannot work without it.

    Raises
    ------
    MissingExtraError
        It is not installed.

    Examples
    --------
    >>> require("json", extra="none", needed_by="This example").dumps([1])
    '[1]'
    """
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library.partition(".")[0]:
            raise  # the library is there; something that it needs is not
        raise MissingExtraError(
            f"{needed_by} needs {library}, which is not installed.",
            remedy=f"Install it with: pip install 'r2b[{extra}]'.",
            library=library,
            extra=extra,
        ) from error
