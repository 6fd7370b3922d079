"""Every way r2b refuses to go on: typed, built from facts, ending in a remedy.

An error never repairs anything. Its ``facts`` are the values that the message was built from, so
that a program can act on them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Told(Exception):
    """A message built from facts that ends in a remedy; what errors and warnings share."""

    def __init__(self, problem: str, *, remedy: str, **facts: object) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy
        self.facts = facts

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle by calling the class with ``args``; ours needs keywords, and worker
        # processes must be able to send it back.
        return _rebuild, (type(self), self.problem, self.remedy, self.facts)


def _rebuild(kind: type[_Told], problem: str, remedy: str, facts: dict[str, object]) -> _Told:
    return kind(problem, remedy=remedy, **facts)


class R2BError(_Told):
    """Base of all errors raised on purpose by r2b.

    Parameters
    ----------
    problem : str
        What was found, with column, row and value where there is one. A full sentence.
    remedy : str
        What the user can do about it. A full sentence.
    **facts
        The values named in the message, kept on ``facts``.

    Examples
    --------
    >>> error = R2BError("Row 3 sums to 0.9.", remedy="Pass normalize=True.", row=3, total=0.9)
    >>> str(error)
    'Row 3 sums to 0.9. Pass normalize=True.'
    >>> error.facts["row"]
    3
    """


class InputError(R2BError, ValueError):
    """The table handed in cannot be used as it is."""


class EmptyError(InputError):
    """There are no rows, no columns or no classes."""


class ShapeError(InputError):
    """An array has the wrong number of dimensions or columns."""


class LengthError(InputError):
    """Two columns that describe the same rows have different lengths."""


class RowLabelError(InputError):
    """Two pandas objects that describe the same rows have different indexes."""


class MissingValueError(InputError):
    """A label, a sensitive attribute or a weight is missing."""


class MixedTypeError(InputError):
    """A column holds values of several types, so that its classes are not well defined."""


class ProbabilityError(InputError):
    """A row of label probabilities is not a distribution."""


class WeightError(InputError):
    """Weights are negative, not finite, or leave a group without any."""


class UnseenError(InputError):
    """A class or group turned up that the labels were not fitted on."""


class DamagedFileError(InputError):
    """A file cannot be read: it is cut short, or what it says about itself does not hold."""


class ParameterError(R2BError, ValueError):
    """An argument such as ``epsilon`` lies outside its range."""


class FileTooLargeError(ParameterError):
    """A file is larger than the limit, as it is or when it is unpacked."""


class RowsUnavailableError(R2BError, RuntimeError):
    """The rows that an output needs are not part of this object (it was loaded from a file)."""


class FileFormatError(R2BError, ValueError):
    """A file is not a saved r2b solution, or of a version that this release cannot read."""


class MissingExtraError(R2BError, ImportError):
    """An optional library is needed here and is not installed."""


def require(library: str, need: str, *, extra: str, otherwise: str = "") -> Any:
    """Import an optional library; if it is missing, the error names the extra to install.

    Parameters
    ----------
    library : str
        The module to import.
    need : str
        What cannot be done without it, up to the word "needs" and its name.
    extra : str
        The extra of r2b that installs it.
    otherwise : str
        What can be done instead, as the rest of the remedy.

    Raises
    ------
    MissingExtraError
        It is not installed.

    Examples
    --------
    >>> require("json", "This example needs json", extra="none").dumps([1])
    '[1]'
    """
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        name = library.partition(".")[0]
        if str(error.name).partition(".")[0] != name:
            raise  # the library is there; something that it needs is not
        remedy = f"Install it with: pip install 'r2b[{extra}]'{otherwise}."
        raise MissingExtraError(
            f"{need}, which is not installed.", remedy=remedy, library=name, extra=extra
        ) from error


class MemoryLimitError(R2BError, MemoryError):
    """What was asked for would take more memory than there is; ``facts`` has the bytes needed and available."""


class NotSolvedWarning(UserWarning):
    """Labels are returned that are not proven optimal; their status and certificate say how far they are."""


class NotFairWarning(_Told, UserWarning):
    """A model was fitted whose predictions differ between groups by more than was asked for, measured on rows that it was not trained on.

    Its ``facts`` hold what was measured, and what chance alone shows on as many rows.
    """


class DataWarning(_Told, UserWarning):
    """The data can be used and are rarely meant so: one or small groups, groups of decimal numbers, placeholders, values that look alike.

    Its ``facts["doubts"]`` hold each finding with column and values.
    """
