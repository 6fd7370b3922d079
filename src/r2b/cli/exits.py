"""How a command ends: one number each, documented in docs/cli.md."""

from __future__ import annotations

from r2b.errors import FileFormatError, InputError, R2BError

DONE = 0
NOT_REACHED = 1
WRONG_USE = 2
BAD_DATA = 3
FAULT = 70
INTERRUPTED = 130
TERMINATED = 143


def code_of(error: R2BError) -> int:
    """Give the exit code of an error.

    Examples
    --------
    >>> from r2b.errors import EmptyError, ParameterError
    >>> code_of(EmptyError("No rows.", remedy="Add some.")), code_of(ParameterError("epsilon is -1.", remedy="Pass 0."))
    (3, 2)
    """
    if isinstance(error, RuntimeError):  # an experiment that ran and failed
        return NOT_REACHED
    return BAD_DATA if isinstance(error, (InputError, FileFormatError)) else WRONG_USE
