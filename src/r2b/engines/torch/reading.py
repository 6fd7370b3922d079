"""Arguments on a device: tensors of PyTorch as they are, arrays of CuPy and JAX through DLPack.

Groups and weights are one number per row and are read on the host, by the same code as everywhere.
Probabilities stay on the device. What is wrong with them is reported by the reader of the host too,
so that the errors are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from r2b._data import Continuous, Membership
from r2b._data.columns import argument_error
from r2b._data.dataset import read_labels
from r2b._data.probabilities import TOLERANCE
from r2b._data.vocabulary import Vocabulary
from r2b.engines.torch.kernel import parts_for
from r2b.errors import InputError, ParameterError

Tensor = torch.Tensor

TO_HOST = "Move the labels to the host: pass `y.cpu().numpy()` to r2b.debias."
_LIBRARIES = {"cupy": "cupy", "jax": "jax.numpy", "jaxlib": "jax.numpy"}
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
_FLOATS: dict[Any, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}


def library_of(value: Any) -> str:
    """Return "torch", "cupy" or "jax.numpy" for their arrays, and "" for everything else.

    Examples
    --------
    >>> library_of(torch.zeros(2)), library_of(np.zeros(2))
    ('torch', '')
    """
    if isinstance(value, torch.Tensor):
        return "torch"
    name = type(value).__module__.partition(".")[0]
    return _LIBRARIES.get(name, "") if hasattr(value, "__dlpack__") else ""


def array_of(tensor: Tensor, library: str) -> Any:
    """Return a tensor as an array of a library, on the same memory."""
    return tensor if library == "torch" else import_module(library).from_dlpack(tensor.contiguous())


def tensor_of(value: Any, *, what: str) -> Tensor:
    """Return an array as a tensor, without a copy where it is on a device.

    Parameters
    ----------
    value : array
        A tensor, an array of CuPy or JAX, or numbers of NumPy.
    what : str
        The argument, for errors.

    Raises
    ------
    InputError
        It is sparse or not numeric.
    """
    library = library_of(value)
    if not library:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise argument_error(
                what,
                f"is of type {array.dtype}, which no tensor can hold",
                "Pass numbers, such as the codes of the values.",
                InputError,
                dtype=str(array.dtype),
            )
        return torch.tensor(array.astype(np.int64) if array.dtype.kind == "u" else array)
    found = value.detach() if library == "torch" else from_dlpack(value)
    if found.layout != torch.strided:
        raise argument_error(what, "is a sparse tensor", f"Pass {what}.to_dense().", InputError)
    return found


def host_array(value: Any) -> Any:
    """Return arrays of a device as arrays of NumPy: alone, in a mapping, a list or an attribute."""
    if isinstance(value, Membership):
        return replace(value, probabilities=host_array(value.probabilities))
    if isinstance(value, Continuous):
        return replace(value, values=host_array(value.values))
    if isinstance(value, Mapping):
        return {name: host_array(column) for name, column in value.items()}
    if isinstance(value, (list, tuple)) and any(map(library_of, value[:1])):
        return [host_array(column) for column in value]
    return tensor_of(value, what="array").cpu().numpy() if library_of(value) else value


def device_of(wanted: Any) -> torch.device:
    """Return the device of this name, after checking that it computes in float64.

    Raises
    ------
    ParameterError
        It does not exist, or has no float64.
    """
    try:
        device = torch.device(wanted)
    except (RuntimeError, TypeError):
        raise ParameterError(
            f"device is {wanted!r}.",
            remedy="Pass a device of PyTorch, such as `device='cuda'`.",
            device=wanted,
        ) from None
    if device.type not in ("cuda", "cpu"):
        raise ParameterError(
            f"The device {device} does not compute in float64.", remedy=TO_HOST, device=str(device)
        )
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ParameterError(
            "device is 'cuda', but PyTorch finds no CUDA device.",
            remedy="Leave device out.",
            device=str(wanted),
        )
    return device


def refuse_form(y: Tensor) -> None:
    """Refuse labels that are neither one class per row nor one probability per class.

    Raises
    ------
    ShapeError, InputError
    """
    if y.ndim not in (1, 2) or (y.ndim == 1 and y.dtype not in _WHOLE):
        remedy = "Pass classes as whole numbers, one per row, or a matrix of probabilities."
        raise argument_error(
            "y",
            f"is a tensor of {y.dtype} with {y.ndim} dimensions",
            f"{remedy} {TO_HOST}",
            n_dimensions=y.ndim,
        )
    if y.ndim == 2 and y.dtype not in _FLOATS:
        raise argument_error(
            "y",
            f"is a matrix of {y.dtype}; probabilities on a device are float32 or float64",
            "Pass y.float().",
            InputError,
            dtype=str(y.dtype),
        )


def numbered_classes(n_classes: int) -> Vocabulary:
    """Return the names that the host gives to the classes of a matrix."""
    return read_labels(np.eye(1, n_classes), normalize=False, fewest_classes=2).vocabulary


def checked(y: Tensor, *, normalize: bool) -> Tensor:
    """Check that rows are distributions; divide them by their sums where asked, on a copy.

    Raises
    ------
    ProbabilityError
        A row is no distribution.
    """
    made = torch.empty_like(y) if normalize else y
    for part in parts_for(len(y), y.shape[1]):
        rows = y[part].double()
        sums = rows.sum(dim=1)
        # NaN passes no comparison, so the test is for what is right.
        right = (sums > 0) & (sums < torch.inf)
        if not normalize:
            right = (sums - 1.0).abs() <= TOLERANCE[dtype_of(y)]
        if not bool(right.all() & (rows >= 0).all()):
            read_labels(y.cpu().numpy(), normalize=normalize, fewest_classes=2)  # names the row
        if normalize:
            made[part] = rows / sums[:, None]
    return made


def dtype_of(y: Tensor) -> np.dtype[Any]:
    """Return the dtype of NumPy that stands for that of probabilities."""
    return _FLOATS[y.dtype]
