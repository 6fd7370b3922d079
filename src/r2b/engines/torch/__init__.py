"""Labels on a device: tensors of torch, arrays of CuPy and JAX. They stay where they are; only tables of prices and means leave.

Rows are walked by fused kernels (Triton) or by plain torch; the solver, the status and the
certificate are those of :func:`r2b.debias`.
"""

from __future__ import annotations

# ruff: noqa: E402 - whether PyTorch is there is asked first
from r2b.errors import require

require(
    "torch",
    "Labels on a device need PyTorch",
    extra="torch",
    otherwise=", or pass the labels as an array of NumPy to r2b.debias",
)

from r2b.engines.torch.labels import debias
from r2b.engines.torch.oracle import DeviceOracle

__all__ = ["DeviceOracle", "debias"]
