"""``r2b.debias`` and its options: types, defaults and documentation for all that take them."""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, get_args, overload

from numpy.typing import ArrayLike

from r2b._constraints.epsilon import Epsilon
from r2b._constraints.families import BoundName, Family, FamilyChoice, Request
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.offsets import Offsets
from r2b._constraints.families.request import CHOICES as REQUEST_CHOICES
from r2b._constraints.families.request import (
    AbsentGroups,
    MissingValues,
    SmallGroups,
    Target,
    one_of,
)
from r2b._data.numbers import refuse_other_number
from r2b._data.outcomes import OutcomeChoice
from r2b._solve.solvers import TOLERANCE, Progress
from r2b.errors import ParameterError

if TYPE_CHECKING:
    from r2b._labels.labels import FairLabels
    from r2b._labels.tags import FairTags

Objective = Literal["distance", "agreement"]
Costs = ArrayLike | Literal["ordinal"] | Mapping[Literal["ordinal"], Sequence[Any]]
Taker = TypeVar("Taker", bound=Callable[..., Any])


class Options(TypedDict, total=False):
    """The options of a debiasing, all of them keyword arguments.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        How far from equal is accepted, for all classes or one per class (in order, or by class
        name). A mapping bounds the classes that it names; the others are free, or have the number
        under the key ``...``. Shares, not percentages: 5 % is 0.05.
    bound : {"range", "to_overall", "ratio", "target", "to_reference"}
        What epsilon limits: the largest difference between the means of two groups; the distance of
        a group's mean from that over all; one minus the ratio of the smallest mean to the largest
        (0.2 is the four-fifths rule); twice the distance of a group's mean from a given
        distribution; the distance of a group's mean from that of one named group.
    reference : str or tuple of str, optional
        The group that ``bound="to_reference"`` compares the others with: a value of the attribute,
        or of crossed attributes a tuple of values; for several families pass it to each
        :class:`r2b.Family`. "highest" takes for each class the group that has most of it, as
        adverse impact is judged.
    target : array-like of shape (L,), mapping or "population", optional
        The distribution for ``bound="target"``; the population's is what the published
        implementation uses.
    families : {"crossed", "marginal", "both"} or list
        Which groups must agree with each other: the crossings of all attributes, the values of each
        attribute on its own, or both. A list names the columns of each family, such as ``["sex",
        ["sex", "race"]]``, or holds :class:`r2b.Family` with bounds of their own.
    offsets : array-like of shape (n_groups, L), frame or mapping, optional
        What is added to the mean of each group, class by class, before the bound is asked: what is
        known to be wrong with the means that are seen, such as those of predicted groups. One row
        per group, in the order of ``FairLabels.groups`` or by their names, which adds up to 0; for
        several families a mapping from their names to such rows.
    outcomes : "ordinal", {"ordinal": sequence}, mapping, array-like or frame, optional
        What is compared instead of the share of every class. "ordinal", for ordered classes: the
        share of "at least k" for every class k but the lowest; their order is stated as for
        ``costs``. A mapping from names to classes: the share of each of these merged classes, such
        as ``{"degree": ["Bachelors", "Masters"]}``; a class may be in several or in none. A table
        of shape (n_outcomes, L): how much each class counts in an outcome, from 0 to 1. ``epsilon``
        and ``target`` may then be given by outcome.
    missing : {"error", "group", "exclude"}
        Rows without a value of an attribute: refused, a group of their own, or left out of the
        families that need the value.
    min_group_size : int
        Groups of fewer rows are refused by name, merged or left out.
    small_groups : {"error", "merge", "exclude"}
        "merge" puts the small groups of a family together as "other"; "exclude" leaves them out of
        it. Rows that no family counts keep their labels, and the account says how many they are.
    absent : {"report", "error"}
        A group that some value of the control features does not have: listed in
        ``FairLabels.families.absent``, or refused.
    lam : float
        1 is the squared distance to the labels. Smaller values change fewer labels; larger ones
        flatten every row towards the uniform distribution, fair or not.
    objective : {"distance", "agreement"}
        "agreement" is the limit of lam to 0: of class labels it changes the fewest there can be (by
        SciPy's linear programmes), of probabilities it makes the decisions that agree with them
        most (in memory).
    costs : array-like of shape (L, L), "ordinal" or {"ordinal": sequence}, optional
        What it costs to turn the class of a row (first index) into another (second), instead of 1.
        "ordinal" is for ordered classes, such as marks: how many places two classes are apart.
        Their order is that of an ordered categorical (pandas), an Enum (Polars), an ordered
        dictionary (Arrow), or the one given: ``{"ordinal": ["Fail", "Pass", "Distinction"]}``.
    normalize : bool
        Divide rows of probabilities by their sums, on a copy.
    tol : float
        Residual, in units of group means, below which the problem is solved.
    max_iter : int
        Most steps of the solver.
    time_limit : float, optional
        Most seconds.
    progress : callable, optional
        Called with a ``Progress`` at every step; returning False stops the run.
    threads : int, optional
        All cores by default. The answer is the same.
    """

    epsilon: Epsilon
    bound: BoundName
    target: Target | None
    reference: Any
    families: FamilyChoice | Sequence[str | Sequence[str] | Family]
    offsets: Offsets | None
    outcomes: OutcomeChoice | None
    missing: MissingValues
    min_group_size: int
    small_groups: SmallGroups
    absent: AbsentGroups
    lam: float
    objective: Objective
    costs: Costs | None
    normalize: bool
    tol: float
    max_iter: int
    time_limit: float | None
    progress: Callable[[Progress], object] | None
    threads: int | None


@dataclass(frozen=True)
class Settings:
    """How to solve a problem. :class:`Options` documents the fields."""

    lam: float = 1.0
    objective: Objective = "distance"
    tol: float = TOLERANCE
    max_iter: int = 1000
    time_limit: float | None = None
    progress: Callable[[Progress], object] | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        one_of("objective", self.objective, Objective)
        if self.objective == "agreement" and self.lam != 1.0:
            raise ParameterError(
                f"lam is {self.lam}, but agreement is the limit of lam to 0 and has none.",
                remedy="Leave `lam` out, or use `objective='distance'`.",
                lam=self.lam,
            )
        positive = "Pass a number above 0, or leave it out for the default."
        whole = "Pass a whole number of at least {}, or leave it out for the default."
        objective = (
            "It weighs the size of the new labels against agreement with the old: pass a number "
            "above 0; 1 is squared distance."
        )
        refuse_other_number("lam", self.lam, objective, lambda lam: 0 < lam < math.inf)
        refuse_other_number("tol", self.tol, positive, lambda tol: 0 < tol < math.inf)
        refuse_other_number("max_iter", self.max_iter, whole.format(0), lambda n: n >= 0, Integral)
        if self.time_limit is not None:
            refuse_other_number("time_limit", self.time_limit, positive, lambda limit: limit > 0)
        if self.threads is not None:
            refuse_other_number("threads", self.threads, whole.format(1), lambda n: n > 0, Integral)
        if self.progress is not None and not callable(self.progress):
            raise ParameterError(
                f"progress is {self.progress!r}.",
                remedy="Pass a function of one argument, which is called at every step.",
                progress=self.progress,
            )


_REQUEST = {each.name: each.default for each in fields(Request) if each.name != "names"}
_SETTINGS = {each.name: each.default for each in fields(Settings)}
_KNOWN = _REQUEST | _SETTINGS | {"costs": None, "normalize": False}

DEFAULTS: dict[str, Any] = {name: _KNOWN[name] for name in Options.__annotations__}
"""The default of every option, in the order in which they are documented."""

_ENTRIES = inspect.cleandoc(Options.__doc__ or "") + "\n"

CHOICES = {
    **{name: get_args(choice) for name, choice in REQUEST_CHOICES.items()},
    "objective": get_args(Objective),
    "families": get_args(FamilyChoice),
}
"""The words among which an option chooses."""


def request_and_settings(
    options: Mapping[str, Any], *, without: Sequence[str] = ()
) -> tuple[Request, Settings]:
    """Read what is asked of the groups, and how it is solved.

    The caller reads ``costs`` and ``normalize``.

    Parameters
    ----------
    options : mapping
        As in :class:`Options`.
    without : sequence of str
        Options that the function at hand does not take.

    Raises
    ------
    ParameterError
        An option that does not exist or is not taken, or a value out of its range.

    Examples
    --------
    >>> request, settings = request_and_settings({"epsilon": 0.1, "lam": 0.5})
    >>> request.epsilon, request.bound, settings.lam, settings.max_iter
    (0.1, 'range', 0.5, 1000)
    """
    refuse_unknown(options, without)
    request = Request(**{name: options[name] for name in _REQUEST if name in options})
    settings = {name: options[name] for name in _SETTINGS if name in options}
    return request, Settings(**settings)


def refuse_unknown(options: Mapping[str, Any], without: Sequence[str] = ()) -> None:
    """Refuse options that do not exist or are not taken, and name the closest that exists.

    Examples
    --------
    >>> refuse_unknown({"epsilom": 0.1})
    Traceback (most recent call last):
    r2b.errors.ParameterError: The option 'epsilom' is not an option of debias. Did you mean
    'epsilon'? Choose among epsilon, bound, ...
    """
    unknown = next((name for name in options if name not in DEFAULTS or name in without), None)
    if unknown is None:
        return
    from difflib import get_close_matches

    taken = [name for name in DEFAULTS if name not in without]
    fault = "cannot be chosen here" if unknown in DEFAULTS else "is not an option of debias"
    close = [] if unknown in DEFAULTS else get_close_matches(unknown, taken, 1)
    remedy = f"Did you mean {close[0]!r}? " if close else ""
    raise ParameterError(
        f"The option {unknown!r} {fault}.",
        remedy=f"{remedy}Choose among {', '.join(taken)}.",
        option=unknown,
    )


def takes_options(*, without: Sequence[str] = ()) -> Callable[[Taker], Taker]:
    """Show each of the ``**options`` of a function or class in its signature and documentation.

    Parameters
    ----------
    without : sequence of str
        Options that it does not take. Those that are parameters of its own are left as they are.

    Examples
    --------
    >>> @takes_options()
    ... def solve(y, **options):
    ...     pass
    >>> inspect.signature(solve).parameters["lam"].default
    1.0
    """

    def show(taker: Taker) -> Taker:
        function: Any = vars(taker)["__init__"] if isinstance(taker, type) else taker
        own = inspect.signature(function)
        kept = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        shown = [name for name in DEFAULTS if name not in (*without, *own.parameters)]
        types = {name: each.__forward_arg__ for name, each in Options.__annotations__.items()}
        kind = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(name, kind, default=DEFAULTS[name], annotation=types[name])
            for name in shown
        ]
        function.__signature__ = own.replace(parameters=[*kept, *added])
        # Both are None if Python runs without docstrings.
        if taker.__doc__ and Options.__doc__:
            taker.__doc__ = _with_options(taker.__doc__, shown)
        return taker

    return show


def _with_options(text: str, names: Sequence[str]) -> str:
    """Replace the entry ``**options`` of a docstring by one entry per option."""
    entries = {
        found.group(1): found.group()
        for found in re.finditer(r"^(\w+) : .*\n(?: +.*\n)+", _ENTRIES, re.MULTILINE)
    }
    shown = "".join(entries[name] for name in names)
    pattern = r"^( *)\*\*options.*\n(?:\1 +.*\n)*"

    def indented(found: re.Match[str]) -> str:
        return textwrap.indent(shown, found.group(1))

    return re.sub(pattern, indented, text, count=1, flags=re.MULTILINE)


def lives_on_a_device(y: Any) -> bool:
    """Return whether labels are an array on a GPU, without importing its library."""
    library = type(y).__module__.partition(".")[0]
    if library == "torch":
        return bool(getattr(y, "is_cuda", False))
    if library in ("jax", "jaxlib"):
        return any(device.platform in ("gpu", "cuda") for device in y.devices())
    return library == "cupy"


@overload
def debias(
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    multilabel: Literal[False] = False,
    **options: Unpack[Options],
) -> FairLabels: ...
@overload
def debias(
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    multilabel: Literal[True],
    **options: Unpack[Options],
) -> FairTags: ...
@takes_options()
def debias(
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    multilabel: bool = False,
    **options: Unpack[Options],
) -> FairLabels | FairTags:
    """Find the closest labels in parity.

    By default their group means differ by at most epsilon in every class.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L)
        Classes, or probabilities over L classes: NumPy, lists, pandas, Polars, pyarrow. Decimal
        numbers are no classes. Tensors of PyTorch and arrays of CuPy and JAX that are on a GPU are
        debiased there (:func:`r2b.engines.torch.debias`), and labels stay on it.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        One attribute or several: a column, a frame, a dictionary of columns. A number that should
        not be cut into groups goes in as :class:`r2b.Continuous`, probabilities of belonging to
        groups as :class:`r2b.Membership`.
    control_features : array-like of shape (N,) or (N, n_features), optional
        Parity is asked for within each of their values, or crossings of values (conditional
        parity).
    sample_weight : array-like of shape (N,), optional
        Weights of the rows; without them all count the same.
    multilabel : bool
        Whether ``y`` has a column of 0 and 1, or of probabilities, for each of several tags, of
        which a row may have any number. ``epsilon`` and ``target`` may then be given by tag.
    **options : Options
        Described here one by one, from ``r2b._labels.debiasing``.

    Returns
    -------
    FairLabels, or FairTags for tags
        Labels in every form, prices, status and certificate. A run that does not reach ``tol`` says
        so in its status and with a ``NotSolvedWarning``. Data that look like a mistake (one group,
        groups of decimal numbers or of fewer than ten rows, values such as "?" or "M" beside "M ")
        are named in one ``DataWarning``.

    Raises
    ------
    InputError
        The data cannot be used as they are: the message names column, row and value.
    ParameterError
        An argument lies outside its range.

    See Also
    --------
    r2b.audit : What groups differ in, and what chance explains of it.
    r2b.frontier : What every epsilon costs.
    r2b.reweigh : Row weights instead of new labels.
    r2b.scan : Tables that are larger than memory.
    r2b.sklearn.ParityClassifier : A model whose decisions meet the bound.

    Examples
    --------
    Half of the women and three quarters of the men are engineers; at most .1 apart is accepted:

    >>> job = ["engineer", "clerk"] * 20 + ["engineer", "engineer", "engineer", "clerk"] * 10
    >>> gender = ["women"] * 40 + ["men"] * 40
    >>> fair = debias(job, sensitive_features={"gender": gender}, epsilon=0.1)
    >>> round(fair.certificate.disparity_before, 3), round(fair.disparity, 3), fair.status.value
    (0.25, 0.1, 'solved')
    >>> new = fair.round(random_state=0)  # one class per row
    >>> sum(one != other for one, other in zip(job, new))
    6
    """
    data = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
    }
    if multilabel:
        from r2b._labels.tags import put_together, tasks_of

        tags, tasks = tasks_of(y, data, options)
        return put_together(tags, [each.solve() for each in tasks])
    if lives_on_a_device(y):
        from r2b.engines.torch import debias as debias_on_device

        if options.pop("threads", None) is not None:
            raise ParameterError(
                "`threads` is given, but the labels are on a device.",
                remedy="Leave `threads` out, or move the labels to the host: y.cpu().numpy().",
            )
        return debias_on_device(y, **data, **options)
    from r2b._labels.task import task_of

    task = task_of(y, {**data, **options})
    warn_of_doubts(task)
    return task.solve()
