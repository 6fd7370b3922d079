"""Which format a file has: from its name, from what the user says, or, for a stream without a name, from its first bytes."""

from __future__ import annotations

from dataclasses import dataclass

from r2b.errors import ParameterError

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow")
COMPRESSIONS = ("gz", "bz2", "xz", "zst")

_KINDS = {
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
}
_MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}
_WORKBOOK = ("a workbook", "Save the sheet as CSV, in UTF-8, and pass that.")
_STATISTICS = ("a file of another program", "Save it there as CSV, or as Parquet, and pass that.")
_FOREIGN = {
    **dict.fromkeys(("xlsx", "xls", "xlsm", "xlsb", "ods"), _WORKBOOK),
    **dict.fromkeys(("sav", "dta", "sas7bdat", "rds", "rdata", "pkl", "pickle", "npz", "npy"), _STATISTICS),
    "json": ("one JSON document", "Write one object per line, and end its name in .jsonl: of an array, jq -c '.[]' does so."),
    "zip": ("an archive", "Unpack it, and pass the table inside."),
}


@dataclass(frozen=True)
class Format:
    """How a table is stored.

    Attributes
    ----------
    kind : str
        One of "csv", "tsv", "jsonl", "parquet" and "arrow".
    compression : str
        One of "gz", "bz2", "xz" and "zst"; empty for none.

    Examples
    --------
    >>> str(Format("csv", "gz"))
    'csv.gz'
    """

    kind: str
    compression: str = ""

    def __str__(self) -> str:
        return f"{self.kind}.{self.compression}" if self.compression else self.kind

    @property
    def is_text(self) -> bool:
        """Whether it is lines of text."""
        return self.kind in ("csv", "tsv", "jsonl")


def format_of(name: str) -> Format | None:
    """Tell the format from a file's name, or from the name of a format; None where it says nothing.

    Examples
    --------
    >>> format_of("people.CSV.gz"), format_of("parquet"), format_of("people.dat")
    (Format(kind='csv', compression='gz'), Format(kind='parquet', compression=''), None)
    """
    parts = name.lower().replace("\\", "/").rpartition("/")[2].split(".")
    compression = parts.pop() if parts[-1] in COMPRESSIONS else ""
    kind = _KINDS.get(parts[-1]) if parts else None
    return None if kind is None else Format(kind, compression)


def format_named(name: str) -> Format:
    """Read what the user calls a format.

    Raises
    ------
    ParameterError
        There is no such format.
    """
    found = format_of(name) if "/" not in name else None
    if found is None or len(name.split(".")) > 2:
        raise _refusal(f"There is no format {name!r}.", name)
    return found


def format_for(path: str, asked: str | None) -> Format:
    """Settle the format of a file that is to be written or read by name.

    Raises
    ------
    ParameterError
        The name says nothing and the user neither.
    """
    if asked is not None:
        return format_named(asked)
    found = format_of(path) if "." in path else None
    if found is None:
        ending = path.lower().rpartition(".")[2]
        problem = f"The name {path!r} does not tell a format" + (
            f" that r2b writes: .{ending} is {_FOREIGN[ending][0]}" if ending in _FOREIGN else ""
        )
        raise _refusal(f"{problem}.", path)
    return found


def refuse_foreign(name: str) -> None:
    """Refuse a file whose ending tells a format that is not read, and say what to do with such a file.

    Raises
    ------
    ParameterError
        Names the file and what it is.
    """
    ending = name.lower().rpartition(".")[2]
    if "." in name and ending in _FOREIGN:
        what, remedy = _FOREIGN[ending]
        raise ParameterError(f"{name} is {what} (.{ending}), which r2b does not read.", remedy=remedy, path=name)


def seen_instead(content: bytes, kind: str) -> tuple[str, str] | None:
    r"""Say what bytes look like that cannot be read as text of the kind they were said to be, and what to do; None where nothing is seen.

    Examples
    --------
    >>> seen_instead(b"\x1f\x8b...", "csv")
    ('It is compressed with gz', "Pass format='csv.gz'.")
    """
    packed = compression_seen(content[:8])
    if packed:
        return f"It is compressed with {packed}", f"Pass format='{kind}.{packed}'."
    if content.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        return "It looks like a workbook or an archive", _WORKBOOK[1]
    if content.startswith((b"PAR1", b"ARROW1")):
        other = kind_seen(content)
        return f"It looks like {other.capitalize()}", f"Pass format='{other}'."
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "It begins like UTF-16", "Pass encoding='utf-16'."
    return None


def _refusal(problem: str, name: str) -> ParameterError:
    known = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}, with .gz, .bz2, .xz or .zst after it where it is compressed"
    return ParameterError(problem, remedy=f"Say which it is with --format or --output-format: {known}.", name=name)


def compression_seen(head: bytes) -> str:
    """Tell how a stream is compressed from its first bytes; empty where it is not.

    Examples
    --------
    >>> compression_seen(b"BZh91AY")
    'bz2'
    """
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "")


def kind_seen(content: bytes) -> str:
    """Tell the format of an uncompressed stream from its first bytes; text that says nothing else is CSV.

    Examples
    --------
    >>> kind_seen(b'{"a": 1}'), kind_seen(b"a;b")
    ('jsonl', 'csv')
    """
    if content.startswith(b"PAR1"):
        return "parquet"
    if content.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    return "jsonl" if content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{" else "csv"
