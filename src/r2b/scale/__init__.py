"""Larger than memory, larger than a machine: the same problem, prices and proof, wherever the rows live."""

from r2b.oracle.blocks import Block, Blocks, Task
from r2b.scale.engine import debias_blocks
from r2b.scale.fair import FairTable
from r2b.scale.opening import scan
from r2b.scale.scan import Scan

__all__ = ["Block", "Blocks", "FairTable", "Scan", "Task", "debias_blocks", "scan"]
