"""Labels on a device: tensors of PyTorch, and arrays of CuPy and JAX.

Labels stay where they are; only tables of prices and group means leave the device. Problem, solver
and certificate are those of :func:`r2b.debias`.
"""

from __future__ import annotations

# ruff: noqa: E402 - first find out whether PyTorch is installed
from r2b.errors import require

require(
    "torch",
    "Labels on a device need PyTorch",
    extra="torch",
    otherwise=", or pass the labels as an array of NumPy to r2b.debias",
)

from r2b.engines.torch.labels import debias

__all__ = ["debias"]
