"""Files: formats, compression, text, workbooks, and atomic writes."""

from r2b._files.atomic import AtomicWriter
from r2b._files.formats import Format, format_of
from r2b._files.text import did_you_mean, table_of

__all__ = ["AtomicWriter", "Format", "did_you_mean", "format_of", "table_of"]
