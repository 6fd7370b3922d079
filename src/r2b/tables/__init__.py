"""Tables in files: read and written as they are, with new columns beside the old. A file appears whole or not at all."""

from r2b.tables.formats import FORMATS, Format, format_of
from r2b.tables.landing import Landing
from r2b.tables.reading import read_table
from r2b.tables.table import Table, did_you_mean
from r2b.tables.writing import as_written, encode_table, table_of

__all__ = ["FORMATS", "Format", "Landing", "Table", "as_written", "did_you_mean", "encode_table", "format_of", "read_table", "table_of"]
