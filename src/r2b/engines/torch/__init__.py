"""Labels on a device: tensors of torch, arrays of CuPy and JAX. They stay where they are; only tables of prices and means leave.

Rows are walked by fused kernels (Triton) or by plain torch; the solver, the status and the certificate are those of :func:`r2b.debias`.
"""

from __future__ import annotations

from r2b.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as cause:
    raise MissingExtraError(
        "Labels on a device need PyTorch, which is not installed.",
        remedy="Install it with: pip install 'r2b[torch]', or pass the labels as an array of NumPy to r2b.debias.",
        library="torch",
    ) from cause

from r2b.engines.torch.front import debias
from r2b.engines.torch.oracle import DeviceOracle

__all__ = ["DeviceOracle", "debias"]
