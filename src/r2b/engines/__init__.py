"""Tables that are not in memory: files, lazy frames, databases, Spark and Dask."""

from r2b._solve.oracle import Block, Blocks, Reduction
from r2b.engines.batch import Batch
from r2b.engines.engine import debias_blocks
from r2b.engines.source import Source
from r2b.engines.sql import SQL
from r2b.engines.tables import Scan, scan

__all__ = [
    "SQL",
    "Batch",
    "Block",
    "Blocks",
    "Reduction",
    "Scan",
    "Source",
    "debias_blocks",
    "scan",
]
