"""The front door: labels and sensitive attributes in, certified fair labels out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from r2b._constraints.families import BoundName, Family, FamilyChoice, Request
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.request import AbsentGroups, SmallGroups, Target
from r2b._data.merge import MergeChoice
from r2b._labels import FairLabels
from r2b._labels.task import Objective, Settings, open_job
from r2b._solve.oracle.blocks import KernelChoice
from r2b._solve.solvers import Progress
from r2b.errors import ParameterError


def lives_on_a_device(y: Any) -> bool:
    """Tell whether labels are an array on a GPU, without importing its library."""
    library = type(y).__module__.partition(".")[0]
    if library == "torch":
        return bool(getattr(y, "is_cuda", False))
    if library in ("jax", "jaxlib"):
        return any(device.platform in ("gpu", "cuda") for device in y.devices())
    return library == "cupy"


def _on_device(arguments: dict[str, Any]) -> FairLabels:
    from r2b.engines.torch import debias as debias_on_device

    for name, usual in (("merge_rows", "auto"), ("kernel", "auto"), ("threads", None)):
        if arguments.pop(name) != usual:
            raise ParameterError(
                f"{name} is given, but the labels are on a device, which has ways of its own.",
                remedy=f"Leave {name} out, or move the labels to the host: y.cpu().numpy().",
            )
    return debias_on_device(arguments.pop("y"), **arguments)


def debias(
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    epsilon: float | ArrayLike | Mapping[Any, float] = 0.0,
    bound: BoundName = "range",
    target: Target | None = None,
    families: FamilyChoice | Sequence[str | Sequence[str] | Family] = "crossed",
    missing: Literal["error", "group", "exclude"] = "error",
    min_group_size: int = 0,
    small_groups: SmallGroups = "error",
    absent: AbsentGroups = "report",
    sample_weight: Any = None,
    lam: float = 1.0,
    objective: Objective = "distance",
    costs: ArrayLike | None = None,
    normalize: bool = False,
    tol: float = 1e-10,
    max_iter: int = 1000,
    time_limit: float | None = None,
    progress: Callable[[Progress], object] | None = None,
    merge_rows: MergeChoice = "auto",
    kernel: KernelChoice = "auto",
    threads: int | None = None,
) -> FairLabels:
    """Find the closest labels in parity: by default, labels whose group means differ by at most epsilon in every class.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L)
        Classes, or probabilities over L classes: NumPy, lists, pandas, Polars, pyarrow. Tensors of PyTorch and arrays of CuPy and JAX that
        are on a GPU are debiased there (:func:`r2b.engines.torch.debias`), and labels leave on it.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        One attribute or several: a column, a frame, a dictionary of columns. A number that should not be cut into groups goes in as
        :class:`r2b.Continuous`, probabilities of belonging to groups as :class:`r2b.Membership`.
    control_features : array-like of shape (N,) or (N, n_features), optional
        Parity is asked for within each of their values, or crossings of values (conditional parity).
    epsilon : float, array-like of shape (L,) or mapping
        How far from equal is accepted, for all classes or one per class (in order, or by class name). A mapping bounds the classes that it
        names; the others are free, or have the number under the key ``...``. Shares, not percentages: 5 % is 0.05.
    bound : {"range", "to_overall", "ratio", "target"}
        What epsilon limits: the largest difference between the means of two groups; the distance of a group's mean from that over all;
        one minus the ratio of the smallest mean to the largest (0.2 is the four-fifths rule); twice the distance of a group's mean from a
        given distribution.
    target : array-like of shape (L,), mapping or "population", optional
        The distribution for ``bound="target"``; the population's is what the published implementation uses.
    families : {"crossed", "marginal", "both"} or list
        Which groups must agree with each other: the crossings of all attributes, the values of each attribute on its own, or both. A list
        names the columns of each family, such as ``["sex", ["sex", "race"]]``, or holds :class:`r2b.Family` with bounds of their own.
    missing : {"error", "group", "exclude"}
        Rows without a value of an attribute: refused, a group of their own, or left out of the families that need the value.
    min_group_size : int
        Groups of fewer rows are refused by name, merged or left out.
    small_groups : {"error", "merge", "exclude"}
        "merge" puts the small groups of a family together as "other"; "exclude" leaves them out of it. Rows that no family counts keep
        their labels, and the account says how many they are.
    absent : {"report", "error"}
        A group that some value of the control features does not have: listed in ``FairLabels.families.absent``, or refused.
    sample_weight : array-like of shape (N,), optional
    lam : float
        1 is the squared distance to the labels. Smaller values change fewer labels; larger ones flatten every row towards the uniform
        distribution, fair or not.
    objective : {"distance", "agreement"}
        "agreement" changes the fewest class labels there can be: the limit of lam to 0, a linear programme (SciPy's).
    costs : array-like of shape (L, L), optional
        What it costs to turn the class of a row (first index) into another (second), instead of 1.
    normalize : bool
        Divide rows of probabilities by their sums, on a copy.
    tol : float
        Residual, in units of group means, below which the problem is solved.
    max_iter : int
    time_limit : float, optional
        Seconds.
    progress : callable, optional
        Called with a ``Progress`` at every step; returning False stops the run.
    merge_rows : {"auto", "always", "never"}
        Whether equal rows of probabilities are merged first. The answer is the same.
    kernel : {"auto", "numpy", "compiled"}
        Who walks the rows. The answer is the same.
    threads : int, optional
        All cores by default. The answer is the same.

    Returns
    -------
    FairLabels
        Labels in every form, prices, status and certificate. A run that does not reach ``tol`` says so in its status and with a
        ``NotSolvedWarning``. Data that are rarely meant so (one group, groups of decimal numbers or of fewer than ten rows, values such as
        "?" or "M" beside "M ") are named in one ``DataWarning``.

    Raises
    ------
    InputError
        The data cannot be used as they are: the message names column, row and value.
    ParameterError
        An argument lies outside its range.

    Examples
    --------
    >>> fair = debias(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], epsilon=0.01)
    >>> fair.status.value
    'already fair'
    """
    if lives_on_a_device(y):
        return _on_device(locals())
    request = Request(epsilon, bound, target, families, missing, min_group_size, small_groups, absent)
    settings = Settings(lam, objective, tol, max_iter, time_limit, progress, merge_rows, kernel, threads)
    job = open_job(
        y,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
        normalize=normalize,
        request=request,
        settings=settings,
        costs=costs,
    )
    warn_of_doubts(job)
    return job.solve()
