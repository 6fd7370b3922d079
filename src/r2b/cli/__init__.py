"""The command line: files in, files out, one clear paragraph where something is wrong. It holds no mathematics of fairness."""

from r2b.cli.root import main

__all__ = ["main"]
