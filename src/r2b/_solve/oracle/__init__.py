"""Prices to means, curvature and dual value: the only room that walks rows."""

from r2b._solve.oracle.blocks import Block, BlockOracle, Blocks
from r2b._solve.oracle.classes import ClassOracle, oracle_of
from r2b._solve.oracle.design import DesignOracle
from r2b._solve.oracle.folding import evaluated, folded_curvature, group_means, inspected
from r2b._solve.oracle.memory import MemoryOracle
from r2b._solve.oracle.plain import respond
from r2b._solve.oracle.protocol import AnyOracle, Evaluation, GroupOracle, Inspection, Oracle

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
    "evaluated",
    "folded_curvature",
    "group_means",
    "inspected",
    "oracle_of",
    "respond",
]
