"""Compile loops over arrays with numba, where numba is installed.

Nothing here is imported or compiled by ``import r2b``. A machine without a writable cache directory compiles again in each process instead
of failing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered so that they vectorise. Infinities and NaN keep their meaning: a missing threshold is a NaN.
_REORDER = {"reassoc", "contract", "nsz"}


def compiled(function: Function, *, reorder_sums: bool = False) -> Function:
    """Compile a function that uses arrays and loops only; it releases the interpreter lock while it runs.

    Parameters
    ----------
    function : callable
    reorder_sums : bool
        Let the compiler reorder floating-point sums. The result is still the same in every run.

    Raises
    ------
    ImportError
        numba is not installed.
    """
    import numba  # type: ignore[import-not-found, import-untyped, unused-ignore]

    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": _REORDER if reorder_sums else False}
    try:
        result: Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # numba found no directory that it may write to; compiling again in each process is all that is lost.
        result = numba.njit(**options)(function)
    return result


def compiled_kernel(function: Function) -> Function:
    """Compile a row kernel, whose sums may be reordered."""
    return compiled(function, reorder_sums=True)
