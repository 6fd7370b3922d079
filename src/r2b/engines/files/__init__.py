"""Tables in files, one or many: Parquet, Arrow, CSV, TSV, JSON Lines and Excel."""

from r2b.engines.files.source import EMPTY, FileSource, PassProgress

__all__ = ["EMPTY", "FileSource", "PassProgress"]
