"""The front door: labels and sensitive attributes in, certified fair labels out."""

from __future__ import annotations

from typing import Any, Unpack

from r2b._constraints.families.doubts import warn_of_doubts
from r2b._labels import FairLabels
from r2b._labels.options import DEFAULTS, Options, request_and_settings, takes_options
from r2b._labels.task import open_job
from r2b.errors import ParameterError


def lives_on_a_device(y: Any) -> bool:
    """Tell whether labels are an array on a GPU, without importing its library."""
    library = type(y).__module__.partition(".")[0]
    if library == "torch":
        return bool(getattr(y, "is_cuda", False))
    if library in ("jax", "jaxlib"):
        return any(device.platform in ("gpu", "cuda") for device in y.devices())
    return library == "cupy"


@takes_options()
def debias(
    y: Any, *, sensitive_features: Any, control_features: Any = None, sample_weight: Any = None, **options: Unpack[Options]
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
    sample_weight : array-like of shape (N,), optional
    **options : Options
        Described here one by one, from ``r2b._labels.options``.

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
    data = {"sensitive_features": sensitive_features, "control_features": control_features, "sample_weight": sample_weight}
    if lives_on_a_device(y):
        return _on_device(y, data, {**options})
    request, settings = request_and_settings(options)
    normalize, costs = options.get("normalize", False), options.get("costs")
    job = open_job(y, **data, normalize=normalize, request=request, settings=settings, costs=costs)
    warn_of_doubts(job)
    return job.solve()


def _on_device(y: Any, data: dict[str, Any], options: dict[str, Any]) -> FairLabels:
    from r2b.engines.torch import debias as debias_on_device

    for name in ("merge_rows", "kernel", "threads"):
        if options.pop(name, DEFAULTS[name]) != DEFAULTS[name]:
            raise ParameterError(
                f"{name} is given, but the labels are on a device, which has ways of its own.",
                remedy=f"Leave {name} out, or move the labels to the host: y.cpu().numpy().",
            )
    return debias_on_device(y, **data, **options)
