"""Labels, groups and weights as tensors, without a copy where they are on the device: torch as it is, CuPy and JAX through DLPack.

Good data never leave the device. Where something is wrong, the reader of the host refuses it, so
that the errors are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from r2b._data import Cells, Continuous, Membership
from r2b._data.arrays import Array, Whole
from r2b._data.cells import read_cells
from r2b._data.columns import argument_error
from r2b._data.compute import parts_of
from r2b._data.dataset import read_labels
from r2b._data.numbers import refuse_weightless_table, weight_beside
from r2b._data.probabilities import TOLERANCE
from r2b._data.vocabulary import Vocabulary
from r2b.errors import InputError, ParameterError

Tensor = torch.Tensor

TO_HOST = "Move the labels to the host: y.cpu().numpy(), and pass them to r2b.debias."
_LIBRARIES = {"cupy": "cupy", "jax": "jax.numpy", "jaxlib": "jax.numpy"}
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
_FLOATS: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}
_SPAN = 1 << 20  # codes that are counted in a table; wider ones are sorted
_FEW_VALUES = 1 << 10  # codes up to which a column is counted at one look
_PART = 1 << 24  # entries that are normalised at once


def library_of(value: Any) -> str:
    """Name the library of an array that may be on a device, "torch", "cupy" or "jax.numpy"; empty for everything else.

    Examples
    --------
    >>> library_of(torch.zeros(2)), library_of(np.zeros(2))
    ('torch', '')
    """
    if isinstance(value, torch.Tensor):
        return "torch"
    return (
        _LIBRARIES.get(type(value).__module__.split(".")[0], "")
        if hasattr(value, "__dlpack__")
        else ""
    )


def array_of(tensor: Tensor, library: str) -> Any:
    """Give a tensor as an array of a library, on the same memory."""
    return tensor if library == "torch" else import_module(library).from_dlpack(tensor.contiguous())


def tensor_of(value: Any, *, what: str, device: torch.device | None = None) -> Tensor:
    """Give an array as a tensor, without a copy where it is on the device already.

    Parameters
    ----------
    value : array
        A tensor, an array of CuPy or JAX, or anything that NumPy reads.
    what : str
        The argument, for errors.
    device : torch.device, optional
        Where it must be. Arrays of the host are copied there; those of another device are refused.

    Raises
    ------
    InputError
        It is sparse, not numeric, or on another device.
    """
    if library := library_of(value):
        found = value.detach() if library == "torch" else from_dlpack(value)
    else:
        found = _from_host(np.asarray(value), what)
    if found.layout != torch.strided:
        raise argument_error(what, "is a sparse tensor", f"Pass {what}.to_dense().", InputError)
    if device is None or found.device == device:
        return found
    if found.device.type != "cpu":
        problem = f"The labels are on {device}, but {what} is on {found.device}."
        raise InputError(
            problem,
            remedy=f"Bring them together: {what}.to({str(device)!r}).",
            argument=what,
            device=str(found.device),
        )
    return found.to(device)


def _from_host(array: Array, what: str) -> Tensor:
    kind = array.dtype.kind
    if kind not in "biuf":
        problem, remedy = (
            f"is of type {array.dtype}, which no tensor can hold",
            "Pass numbers, such as the codes of the values.",
        )
        raise argument_error(what, problem, remedy, InputError, dtype=str(array.dtype))
    wanted = (
        np.dtype(np.int64)
        if kind == "u" and array.dtype.itemsize > 1
        else array.dtype.newbyteorder("=")
    )
    return torch.from_numpy(
        array if array.flags.writeable and array.dtype == wanted else array.astype(wanted)
    )


def host_array(value: Any) -> Any:
    """Bring arrays to the host, in the form they came in: alone, by name, in a list or as an attribute that is no category."""
    if isinstance(value, Membership):
        return replace(value, probabilities=host_array(value.probabilities))
    if isinstance(value, Continuous):
        return replace(value, values=host_array(value.values))
    if isinstance(value, Mapping):
        return {name: host_array(column) for name, column in value.items()}
    if isinstance(value, (list, tuple)) and any(map(library_of, value[:1])):
        return [host_array(column) for column in value]
    return tensor_of(value, what="sensitive_features").cpu().numpy() if library_of(value) else value


@contextmanager
def memory_explained(device: torch.device) -> Iterator[None]:
    """Say what to do where the device has too little memory.

    Raises
    ------
    InputError
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError as cause:
        problem = f"The labels and what is computed from them do not fit on {device}: {str(cause).split('. ')[0]}."
        remedy = "Free memory there, or keep the labels on the host and pass device=, which takes them there in batches."
        raise InputError(problem, remedy=remedy, device=str(device)) from cause


def device_of(wanted: Any) -> torch.device:
    """Check that a device can be computed on in float64.

    Raises
    ------
    ParameterError
        It is not there, or of a kind without float64.
    """
    try:
        device = torch.device(wanted)
    except (RuntimeError, TypeError):
        raise ParameterError(
            f"device is {wanted!r}.",
            remedy="Pass a device of torch, such as 'cuda'.",
            device=wanted,
        ) from None
    if device.type not in ("cuda", "cpu"):
        raise ParameterError(
            f"The labels are on {device}, where sums in float64 are not to be had.",
            remedy=TO_HOST,
            device=str(device),
        )
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ParameterError(
            "device is 'cuda', but torch finds no CUDA device.",
            remedy="Leave device out.",
            device=str(wanted),
        )
    return (
        torch.device("cuda", torch.cuda.current_device())
        if device.type == "cuda" and device.index is None
        else device
    )


def read_device_cells(
    sensitive: Any, control: Any, device: torch.device, missing: str
) -> tuple[Tensor, Cells]:
    """Read attributes: on the device where all are arrays of whole numbers there, else on the host, any form that it reads.

    Returns
    -------
    codes : tensor of shape (N,)
        The cell of each row, on the device.
    groups : Cells
        Each cell once, with its number of rows.
    """
    own, others = _columns(sensitive, device), _columns(control, device)
    shapes = {column.shape for column in own + others}
    # What is not as long as the rest, or of another form, is for the host to refuse.
    if (
        not own
        or bool(others) is (control is None)
        or len(shapes) > 1
        or own[0].ndim != 1
        or not len(own[0])
    ):
        groups = read_cells(
            host_array(sensitive),
            control_features=host_array(control),
            missing=missing,
            categorical_only=False,
        )
        codes, counts = torch.from_numpy(groups.codes.astype(np.int64)).to(device), groups.counts
    else:
        codes, counts, table = _crossed(own + others)
        groups = read_cells(
            _like(sensitive, table[: len(own)]), control_features=_like(control, table[len(own) :])
        )
        # The crossings come in lexicographic order here as there, so the codes agree.
        assert np.array_equal(groups.codes, np.arange(len(counts)))
    each_once = replace(
        groups, codes=np.arange(groups.n_cells), repeats=np.asarray(counts, dtype=np.int64)
    )
    return codes.to(torch.uint8 if groups.n_cells <= 256 else torch.int32), each_once


def _columns(given: Any, device: torch.device) -> list[Tensor]:
    """Give the columns of attributes that are on a device; none where some are not."""
    arrays = list(given.values()) if isinstance(given, Mapping) else [given]
    if not all(map(library_of, arrays)):
        return []
    found = [tensor_of(array, what="sensitive_features", device=device) for array in arrays]
    return (
        list(found[0].unbind(dim=1))
        if not isinstance(given, Mapping) and found[0].ndim == 2
        else found
    )


def _crossed(columns: list[Tensor]) -> tuple[Tensor, Whole, list[Array]]:
    """Give the crossing of each row, how often each occurs, and what the columns hold in it."""
    other = next((column.dtype for column in columns if column.dtype not in _WHOLE), None)
    if other is not None:
        problem = f"holds a tensor of {other}; groups on a device are whole numbers or booleans"
        remedy = "Pass codes of the groups, or the attribute as an array of the host."
        raise argument_error("sensitive_features", problem, remedy, InputError, dtype=str(other))
    codes, values, counts = compact(columns[0])
    table = [values]
    for column in columns[1:]:
        mine, values, _ = compact(column)
        codes, kept, counts = compact(codes * len(values) + mine)
        table = [*(before[kept // len(values)] for before in table), values[kept % len(values)]]
    return codes, counts, table


def _like(given: Any, columns: list[Array]) -> Any:
    """Put the values of each cell in the form that the attributes came in, so that they get the names they would on the host."""
    if given is None or isinstance(given, Mapping):
        return None if given is None else dict(zip(given, columns, strict=True))
    return np.column_stack(columns) if given.ndim == 2 else columns[0]


def compact(column: Tensor) -> tuple[Tensor, Array, Whole]:
    """Replace whole numbers by their rank among those that occur.

    Returns
    -------
    codes : tensor of int64
    values, counts : ndarray
        What occurs, ascending, and how often.

    Examples
    --------
    >>> codes, values, counts = compact(torch.tensor([7, -2, 7]))
    >>> codes.tolist(), values, counts
    ([1, 0, 1], array([-2,  7]), array([1, 2]))
    """
    codes, low = column.to(torch.int64), 0
    # Small codes from 0 on are the rule: with limits that are known one look at the card counts
    # them, and tells whether they are such.
    occurring = (
        torch.histc(codes, _FEW_VALUES, 0, _FEW_VALUES).cpu().numpy() if codes.is_cuda else None
    )
    # the last counts the upper limit as well
    if occurring is None or occurring[-1] or int(occurring.sum()) < len(codes):
        low, high = torch.stack(torch.aminmax(codes)).tolist()
        if high - low >= _SPAN:
            found, codes, often = torch.unique(codes, return_inverse=True, return_counts=True)
            return codes, found.to(column.dtype).cpu().numpy(), often.cpu().numpy()
        codes = codes - low
        occurring = torch.bincount(codes, minlength=high - low + 1).cpu().numpy()
    places = np.flatnonzero(occurring)
    if places[-1] >= len(places):
        codes = torch.from_numpy(np.cumsum(occurring > 0) - 1).to(codes.device)[codes]
    return codes, torch.from_numpy(places + low).to(column.dtype).numpy(), occurring[places]


def read_weight(weight: Any, n_rows: int, device: torch.device) -> Tensor:
    """Read one finite, non-negative number per row, as float64.

    Raises
    ------
    WeightError, LengthError, ShapeError
    """
    own = (
        tensor_of(weight, what="sample_weight", device=device).double()
        if library_of(weight)
        else torch.empty(0)
    )
    if own.shape != (n_rows,) or not bool(
        (own.min() >= 0) & (own.sum() > 0) & (own.sum() < torch.inf)
    ):
        on_host, _ = weight_beside(host_array(weight), n_rows, ("y", None))
        refuse_weightless_table(on_host)
        own = torch.tensor(on_host, device=device)
    return own.contiguous()


def refuse_form(y: Tensor) -> None:
    """Refuse labels of another form than one class per row or one probability per class.

    Raises
    ------
    ShapeError, InputError
    """
    if y.ndim not in (1, 2) or (y.ndim == 1 and y.dtype not in _WHOLE):
        remedy = (
            f"Pass classes as whole numbers, one per row, or a matrix of probabilities. {TO_HOST}"
        )
        raise argument_error(
            "y", f"is a tensor of {y.dtype} with {y.ndim} dimensions", remedy, n_dimensions=y.ndim
        )
    if y.ndim == 2 and y.dtype not in _FLOATS:
        problem = f"is a matrix of {y.dtype}; probabilities on a device are float32 or float64"
        raise argument_error("y", problem, "Pass y.float().", InputError, dtype=str(y.dtype))


@cache
def numbered_classes(n_classes: int) -> Vocabulary:
    """Name the classes of a matrix, as the host does those of one row of the same form."""
    return read_labels(np.eye(1, n_classes), normalize=False, fewest_classes=2).vocabulary


def prepared(y: Tensor, *, normalize: bool) -> Tensor:
    """Give probabilities as the kernels read them: rows divided by their sums where asked, the entries of a row side by side.

    Raises
    ------
    ProbabilityError
        A row sums to 0, or has an entry that no division makes a probability.
    """
    if not normalize:
        return y if y.stride(1) == 1 else y.contiguous()
    made = torch.empty_like(y, memory_format=torch.contiguous_format)
    for part in parts_of(len(y), max(1, _PART // y.shape[1])):
        rows = y[part].double()
        sums = rows.sum(dim=1, keepdim=True)
        if not bool((rows >= 0).all() & (sums > 0).all() & (sums < torch.inf).all()):
            _read_on_host(y, normalize=True)
        made[part] = rows / sums
    return made


def refuse_rows(y: Tensor, least: float, off: float) -> None:
    """Refuse labels of which some row is no distribution; ``least`` and ``off`` were seen on the way, so that good labels cost nothing.

    Raises
    ------
    ProbabilityError
    """
    if not (least >= 0 and off <= TOLERANCE[dtype_of(y)]):
        _read_on_host(y, normalize=False)


def _read_on_host(y: Tensor, *, normalize: bool) -> None:
    read_labels(y.cpu().numpy(), normalize=normalize, fewest_classes=2)


def dtype_of(y: Tensor) -> np.dtype[Any]:
    """Give the dtype of NumPy that stands for that of the labels."""
    return _FLOATS[y.dtype]
