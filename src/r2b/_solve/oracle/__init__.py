"""Prices to means, curvature and dual value: where the solving is, the only package that reads rows."""

from r2b._solve.oracle.blocks import Block, BlockOracle, Blocks
from r2b._solve.oracle.design import DesignOracle
from r2b._solve.oracle.memory import ClassOracle, MemoryOracle, oracle_of
from r2b._solve.oracle.reference import Oracle, Samples, group_means

__all__ = [
    "Block",
    "BlockOracle",
    "Blocks",
    "ClassOracle",
    "DesignOracle",
    "MemoryOracle",
    "Oracle",
    "Samples",
    "group_means",
    "oracle_of",
]
