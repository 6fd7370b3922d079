"""Errors and warnings of r2b: each has a code, the facts that it was built from, and a remedy.

An error never repairs anything. Programs read ``code`` and ``facts``; Python, the command line
and the app each render ``problem`` and ``remedy`` for their readers.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module, metadata
from typing import Any, ClassVar, Self

Phrase = Callable[[str, Any], str | None]
"""The words of an edge for an option, from its Python name and value (None: no value is named)."""


class MessageWithRemedy(Exception):
    """What errors and warnings share: a code, a problem, facts and a remedy.

    In both texts, options stand between backticks in Python syntax, such as
    ```min_group_size=10```, so that :meth:`render` can put them in the words of an edge.
    """

    default_code: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        name = cls.__name__.removesuffix("Error").removesuffix("Warning")
        dashed = "".join(f"-{c.lower()}" if c.isupper() else c for c in name)
        cls.default_code = dashed.strip("-").replace("r2-b", "r2b")

    def __init__(self, problem: str, *, remedy: str, code: Any = "", **facts: object) -> None:
        super().__init__(f"{problem} {remedy}".rstrip())
        self.problem = problem
        self.remedy = remedy
        self.code: str = code or self.default_code
        self.facts = facts

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle by calling the class with ``args``; ours needs keywords, and worker
        # processes must be able to send it back.
        return _rebuild, (type(self), self.problem, self.remedy, self.code, self.facts)

    def changed(self, *, problem: str = "", remedy: str = "", **facts: object) -> Self:
        """Return the same error with another problem or remedy, or with more facts.

        Examples
        --------
        >>> error = InputError("Row 3 is empty.", remedy="Drop it.", row=3)
        >>> error.changed(problem="Line 5 is empty.", line=5).facts
        {'row': 3, 'line': 5}
        """
        return _rebuild(  # type: ignore[return-value]
            type(self),
            problem or self.problem,
            remedy or self.remedy,
            self.code,
            {**self.facts, **facts},
        )

    def render(self, phrase: Phrase, otherwise: str) -> tuple[str, str]:
        """Return problem and remedy in the words of an edge, such as the command line.

        Parameters
        ----------
        phrase : callable
            Returns the words for an option, or None if the edge does not have the option.
        otherwise : str
            The remedy if every sentence of it names an option that the edge does not have.

        Examples
        --------
        >>> error = ParameterError("`k` is 0.", remedy="Pass `k=3`. Or pass `min_rows=5`.")
        >>> error.render(lambda name, value: f"--{name} {value}" if name == "k" else None, "Stop.")
        ('--k None is 0.', 'Pass --k 3.')
        """
        problem = " ".join(_render(each, phrase, keep=True) for each in _sentences(self.problem))
        sentences = [_render(each, phrase, keep=False) for each in _sentences(self.remedy)]
        return problem, " ".join(filter(None, sentences)) or otherwise


def _rebuild(
    kind: type[MessageWithRemedy], problem: str, remedy: str, code: str, facts: dict[str, object]
) -> MessageWithRemedy:
    return kind(problem, remedy=remedy, code=code, **facts)


_first_row: ContextVar[int | None] = ContextVar("first_row", default=None)


@contextmanager
def part_of_a_table(first: int) -> Iterator[None]:
    """Let errors number rows as in the table of which the rows at hand are a part.

    Parameters
    ----------
    first : int
        The number of the first row at hand.

    See Also
    --------
    r2b.errors.row_number, r2b.errors.this_part : Read what this says.

    Examples
    --------
    >>> with part_of_a_table(100):
    ...     row_number(3), this_part("all")
    (103, 'this part')
    """
    token = _first_row.set(first)
    try:
        yield
    finally:
        _first_row.reset(token)


def row_number(row: int) -> int:
    """Return the number in the table of a row of those at hand.

    Parameters
    ----------
    row : int
        The number of the row among those at hand.

    See Also
    --------
    r2b.errors.part_of_a_table : Says where the rows at hand begin.

    Examples
    --------
    >>> row_number(3)
    3
    """
    return row + (_first_row.get() or 0)


def this_part(of_all: str, of_part: str = "this part") -> str:
    """Return the words for what was counted: all rows, or a part of a table.

    Parameters
    ----------
    of_all, of_part : str
        The words where all rows are at hand, and where a part of a table is.

    See Also
    --------
    r2b.errors.part_of_a_table : Says that the rows at hand are a part.

    Examples
    --------
    >>> this_part("the table")
    'the table'
    """
    return of_all if _first_row.get() is None else of_part


def options_in(text: str) -> list[tuple[str, Any]]:
    """Return the options between backticks in a text, as names and values.

    Parameters
    ----------
    text : str
        A problem or a remedy.

    See Also
    --------
    r2b.errors.R2BError : What every error has.

    Examples
    --------
    >>> options_in('Pass `small_groups="merge"`, or lower `min_group_size`.')
    [('small_groups', 'merge'), ('min_group_size', None)]
    """
    return [part for each in _sentences(text) for part in each if isinstance(part, tuple)]


def _sentences(text: str) -> Iterator[list[str | tuple[str, Any]]]:
    """Split a text into sentences, and each into prose and options."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a value holds a backtick, so there is no telling which are ours
        parts = [text]
    sentence: list[str | tuple[str, Any]] = []
    for place, part in enumerate(parts):
        if place % 2:
            name, equals, value = part.partition("=")
            sentence.append((name, _value(value) if equals else None))
            continue
        *ended, last = part.split(". ")
        for each in ended:
            yield [*sentence, f"{each}."]
            sentence = []
        sentence.append(last)
    yield sentence


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text  # a variable or a call


def _render(sentence: list[str | tuple[str, Any]], phrase: Phrase, *, keep: bool) -> str:
    """Return a sentence in the words of an edge; "" if it lacks an option and is not to be kept."""
    words = [part if isinstance(part, str) else phrase(*part) for part in sentence]
    if None in words and not keep:
        return ""
    said = "".join(
        part if part is not None else str(option[0])
        for part, option in zip(words, sentence, strict=True)
    )
    # Words of an edge may begin a sentence; names of columns and files stay as they are.
    ours = len(sentence) > 1 and sentence[0] == "" and words[1] is not None
    return said[:1].upper() + said[1:] if ours else said


class R2BError(MessageWithRemedy):
    """Base of all errors raised on purpose by r2b.

    Parameters
    ----------
    problem : str
        What was found, with column, row and value where there is one. A full sentence.
    remedy : str
        What the user can do about it, in full sentences. Options stand between backticks.
    code : str, optional
        A short stable name of this error; that of its class by default.
    **facts
        The values named in the message, kept on ``facts``.

    Examples
    --------
    >>> error = R2BError("Row 3 sums to 0.9.", remedy="Pass `normalize=True`.", row=3, total=0.9)
    >>> str(error)
    'Row 3 sums to 0.9. Pass `normalize=True`.'
    >>> error.code, error.facts["row"]
    ('r2b', 3)
    """


class InputError(R2BError, ValueError):
    """The table cannot be used as it is."""


class EmptyError(InputError):
    """There are no rows, no columns, or fewer than two classes."""


class ShapeError(InputError):
    """An array has the wrong number of dimensions or columns."""


class LengthError(InputError):
    """Two columns that describe the same rows have different lengths."""


class RowLabelError(InputError):
    """Two pandas objects that describe the same rows have different indexes."""


class MissingValueError(InputError):
    """A label, a sensitive attribute or a weight is missing."""


class MixedTypeError(InputError):
    """A column holds values of several types, such as numbers and text."""


class ProbabilityError(InputError):
    """A row of label probabilities is not a distribution."""


class WeightError(InputError):
    """Weights are negative, not finite, or zero for a whole group."""


class UnseenError(InputError):
    """Rows have a class or a group that the labels were not fitted on."""


class DamagedFileError(InputError):
    """A file cannot be read: it is cut short, or contradicts itself."""


class ParameterError(R2BError, ValueError):
    """An argument such as ``epsilon`` is out of range, or an option does not exist."""


class InfeasibleError(R2BError, ValueError):
    """Nothing meets all that was asked for; the facts hold what would."""


class FileTooLargeError(ParameterError):
    """A file is larger than the limit, as it is or when it is unpacked."""


class RowsUnavailableError(R2BError, RuntimeError):
    """The object does not hold the rows that are needed, for example after it was loaded."""


class FileFormatError(R2BError, ValueError):
    """A file is not a saved r2b solution, or is of a version that this release cannot read."""


class MissingExtraError(R2BError, ImportError):
    """An optional library is needed and is not installed."""


def install(extra: str) -> str:
    """Return the command that installs the libraries of an extra.

    Parameters
    ----------
    extra : str
        The name of the extra, such as ``"sklearn"``.

    See Also
    --------
    r2b.errors.require : Imports an optional library, or says how to install it.

    Examples
    --------
    >>> install("sklearn")
    "pip install 'scikit-learn>=1.7'"
    """
    try:
        requirements = metadata.requires("r2b") or ()
    except metadata.PackageNotFoundError:  # a checkout on the path, which pip never saw
        requirements = ()
    # r2b is on no index, so its extras can be named in a checkout only
    needed = [
        requirement.partition(";")[0].strip()
        for requirement in requirements
        if requirement.endswith(f"extra == '{extra}'")
    ]
    return f"pip install {shlex.join(needed or [f'.[{extra}]'])}"


def require(library: str, need: str, *, extra: str, otherwise: str = "") -> Any:
    """Import an optional library; if it is missing, the error says how to install it.

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

    See Also
    --------
    r2b.errors.R2BError : What every error has.

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
        raise MissingExtraError(
            f"{need}, which is not installed.",
            remedy=f"Install it with: {install(extra)}{otherwise}.",
            library=name,
            extra=extra,
        ) from error


class MemoryLimitError(R2BError, MemoryError):
    """The work would take more memory than is available; ``facts`` holds both, in bytes."""


class NotSolvedWarning(UserWarning):
    """The labels are not proven optimal; status and certificate say how far they may be off."""


class NotFairWarning(MessageWithRemedy, UserWarning):
    """A model's predictions differ between groups by more than was asked for.

    This was measured on rows that the model was not trained on. ``facts`` holds what was
    measured, and what chance alone explains on that many rows.
    """


class DataWarning(MessageWithRemedy, UserWarning):
    """The data can be used but are probably not meant so.

    Examples are a single group, groups of decimal numbers, placeholders, or values that differ
    only in blanks. ``facts["doubts"]`` holds each finding with column and values.
    """
