"""Prices to means, curvature and dual value: the only room that walks rows."""

from r2b.oracle.blocks import Block, BlockOracle, Blocks
from r2b.oracle.classes import ClassOracle, oracle_of
from r2b.oracle.folding import folded_curvature
from r2b.oracle.memory import MemoryOracle
from r2b.oracle.plain import respond
from r2b.oracle.protocol import Evaluation, Inspection, Oracle

__all__ = [
    "Block",
    "BlockOracle",
    "Blocks",
    "ClassOracle",
    "Evaluation",
    "Inspection",
    "MemoryOracle",
    "Oracle",
    "folded_curvature",
    "oracle_of",
    "respond",
]
