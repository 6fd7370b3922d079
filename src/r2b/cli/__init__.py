"""The command line: files in, files out, and one paragraph for every error."""

from r2b.cli.commands import main

__all__ = ["main"]
