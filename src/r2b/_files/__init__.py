"""Tables in files: read and written as they are, with new columns beside the old. A file appears whole or not at all."""

from r2b._files.atomic import AtomicWriter
from r2b._files.formats import FORMATS, Format, format_of
from r2b._files.reading import read_table
from r2b._files.table import Table, did_you_mean
from r2b._files.writing import as_written, encode_table, table_of

__all__ = [
    "FORMATS",
    "AtomicWriter",
    "Format",
    "Table",
    "as_written",
    "did_you_mean",
    "encode_table",
    "format_of",
    "read_table",
    "table_of",
]
