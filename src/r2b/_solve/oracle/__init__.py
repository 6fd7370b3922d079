"""Prices to means, curvature and dual value: the only room that walks rows."""

from r2b._solve.oracle.blocks import Block, BlockOracle, Blocks
from r2b._solve.oracle.design import DesignOracle
from r2b._solve.oracle.memory import ClassOracle, MemoryOracle, oracle_of
from r2b._solve.oracle.plain import respond
from r2b._solve.oracle.protocol import (
    AnyOracle,
    Evaluation,
    GroupOracle,
    Inspection,
    Oracle,
    Samples,
    evaluated,
    folded_curvature,
    group_means,
    inspected,
)

__all__ = [
    "AnyOracle",
    "Block",
    "BlockOracle",
    "Blocks",
    "ClassOracle",
    "DesignOracle",
    "Evaluation",
    "GroupOracle",
    "Inspection",
    "MemoryOracle",
    "Oracle",
    "Samples",
    "evaluated",
    "folded_curvature",
    "group_means",
    "inspected",
    "oracle_of",
    "respond",
]
