# mypy: disable-error-code="no-untyped-call"
"""Starts of compiled programs on a card. Triton's own looks at every argument first, which takes longer than a walk over a short table."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton  # type: ignore[import-not-found, unused-ignore]

# Compiled programs of this version were tried by themselves; on other cards their arguments have
# more forms than are told apart here.
_RESTARTS = triton.__version__.startswith("3.6.") and torch.version.hip is None
_MOST_KNOWN = 256
_known: dict[tuple[Any, ...], tuple[Any, list[Any]]] = {}


def start(
    kernel: Any, grid: tuple[int, int], arguments: tuple[Any, ...], constants: dict[str, Any]
) -> None:
    """Start programs on the device that holds the first argument.

    Parameters
    ----------
    kernel : function of Triton
    grid : (int, int)
        Programs in two directions.
    arguments : tuple of tensor or int
        Tensors of the device, or of the host and pinned.
    constants : dict
        What the program is compiled for, by name.
    """
    device = arguments[0].device
    # Triton starts on the current device, which need not be the one that holds the rows.
    elsewhere = device.type == "cuda" and device.index != torch.cuda.current_device()
    with torch.cuda.device(device) if elsewhere else nullcontext():
        form = (id(kernel), device, *map(_form, arguments), *constants.items()) if _RESTARTS else ()
        if (known := _known.get(form)) is not None:
            compiled, fixed = known
            compiled[(*grid, 1)](*arguments, *fixed)
            return
        compiled = kernel[grid](*arguments, **constants)
    if form and compiled is not None:  # an interpreter compiles nothing
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[form] = compiled, [constants[name] for name in kernel.arg_names if name in constants]


def _form(argument: Any) -> Any:
    """Give all that a program is compiled for: the value of a number; of an array its type, and whether it begins at 16 bytes."""
    return (
        (argument.dtype, argument.data_ptr() % 16 == 0)
        if isinstance(argument, torch.Tensor)
        else argument
    )
