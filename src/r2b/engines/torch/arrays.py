"""Arrays of other libraries to tensors and back, without a copy: torch as it is, CuPy and JAX through DLPack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from r2b.errors import InputError, ParameterError

Tensor = torch.Tensor
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
TO_HOST = "Move the labels to the host: y.cpu().numpy(), and pass them to r2b.debias."

_GIVERS = {"cupy": "cupy", "jax": "jax.numpy", "jaxlib": "jax.numpy"}


def is_device_array(value: Any) -> bool:
    """Say whether a value is an array that lives on a device: a tensor, or one of CuPy or JAX.

    Examples
    --------
    >>> is_device_array(torch.zeros(2)), is_device_array(np.zeros(2))
    (True, False)
    """
    return isinstance(value, torch.Tensor) or _library(value) in _GIVERS


def _library(value: Any) -> str:
    return type(value).__module__.split(".")[0] if hasattr(value, "__dlpack__") else ""


@dataclass(frozen=True)
class Giver:
    """The library that labels came from, and go back to.

    Attributes
    ----------
    library : str
        "torch", "cupy" or "jax.numpy".
    """

    library: str = "torch"

    @classmethod
    def of(cls, value: Any) -> Giver:
        """Say which library an array is from."""
        return cls(_GIVERS.get(_library(value), "torch"))

    def give(self, tensor: Tensor) -> Any:
        """Hand a tensor back as an array of the library, on the same memory."""
        if self.library == "torch":
            return tensor
        return import_module(self.library).from_dlpack(tensor.contiguous())


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
    if isinstance(value, torch.Tensor):
        found = value.detach()
    elif _library(value) in _GIVERS:
        found = from_dlpack(value)
    else:
        found = _from_host(value, what)
    if found.layout != torch.strided:
        raise InputError(f"The argument {what} is a sparse tensor.", remedy=f"Pass {what}.to_dense().", argument=what)
    if device is None or found.device == device:
        return found
    if found.device.type != "cpu":
        raise InputError(
            f"The labels are on {device}, but {what} is on {found.device}.",
            remedy=f"Bring them together: {what}.to({str(device)!r}).",
            argument=what,
            device=str(found.device),
        )
    return found.to(device)


def _from_host(value: Any, what: str) -> Tensor:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"The argument {what} is of type {array.dtype}, which no tensor can hold.",
            remedy="Pass numbers, such as the codes of the values.",
            argument=what,
            dtype=str(array.dtype),
        )
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    return torch.from_numpy(
        array if array.flags.writeable and array.dtype.isnative else array.astype(array.dtype.newbyteorder("="), copy=True)
    )


@contextmanager
def room_on(device: torch.device) -> Iterator[None]:
    """Say what to do where the device has too little memory.

    Raises
    ------
    InputError
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError as cause:
        first = str(cause).split(". ")[0]
        raise InputError(
            f"The labels and what is computed from them do not fit on {device}: {first}.",
            remedy="Free memory there, or keep the labels on the host and pass device=, which takes them there in batches.",
            device=str(device),
        ) from cause


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
        raise ParameterError(f"device is {wanted!r}.", remedy="Pass a device of torch, such as 'cuda'.", device=wanted) from None
    if device.type not in ("cuda", "cpu"):
        raise ParameterError(f"The labels are on {device}, where sums in float64 are not to be had.", remedy=TO_HOST, device=str(device))
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ParameterError("device is 'cuda', but torch finds no CUDA device.", remedy="Leave device out.", device=str(wanted))
    return torch.device("cuda", torch.cuda.current_device()) if device.type == "cuda" and device.index is None else device
