"""Prices to means, curvature and dual value: the only package of the solver that reads rows."""

from r2b._solve.oracle.blocks import Block, Blocks, MemoryBlocks, Pass, Reduction, merged
from r2b._solve.oracle.classes import ClassOracle, Supports, oracle_of
from r2b._solve.oracle.oracle import (
    Evaluation,
    Inspection,
    Oracle,
    Samples,
    evaluated,
    folded_curvature,
    group_means,
    inspected,
    prices_of_rows,
)
from r2b._solve.oracle.reference import project, respond

__all__ = [
    "Block",
    "Blocks",
    "ClassOracle",
    "Evaluation",
    "Inspection",
    "MemoryBlocks",
    "Oracle",
    "Pass",
    "Reduction",
    "Samples",
    "Supports",
    "evaluated",
    "folded_curvature",
    "group_means",
    "inspected",
    "merged",
    "oracle_of",
    "prices_of_rows",
    "project",
    "respond",
]
