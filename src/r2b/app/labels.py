"""Fair labels as a file: the table that was opened, every column kept, with new ones beside them."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import numpy as np

from r2b._files import Format, Table, encode_table
from r2b._files.plain import as_text
from r2b._labels import FairLabels
from r2b._labels.realised import Realised
from r2b.app.choice import PageChoice
from r2b.errors import ParameterError

FORMS = ("soft", "round", "sample", "expand")
KINDS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


def labels_file(table: Table, choice: PageChoice, fair: FairLabels, form: str, kind: str) -> bytes:
    """Give the table with the fair labels in one form, as the bytes of a file.

    Raises
    ------
    ParameterError
        There is no such form or kind of file, or the table has a column of the new one's name.
    MissingExtraError
        Parquet needs pyarrow.
    """
    for name, value, known in (("form", form, FORMS), ("kind", kind, tuple(KINDS))):
        if value not in known:
            raise ParameterError(f"The {name} is {value!r}.", remedy=f"Choose one of {', '.join(known)}.", control="form")
    new, rows = new_columns(choice.label, fair, form)
    taken = next((name for name in new if name in table), None)
    if taken is not None:
        raise ParameterError(
            f"The new column {taken!r} would have the name of a column of {table.name}.",
            remedy="Rename that column, or use r2b on the command line with --new-column.",
            control="form",
            column=taken,
        )
    return encode_table(table, new, Format(kind), rows)


def new_columns(label: str, fair: FairLabels, form: str) -> tuple[dict[str, Any], list[int] | None]:
    """Give the new columns by name, and the rows that leave where they are repeated."""
    base = f"{label}_fair"
    if form == "soft":
        matrix = np.asarray(fair.soft_labels, dtype=np.float64)
        names = [f"{base}_{text}" for text in as_text(fair.classes.tolist(), base)]
        return {name: matrix[:, k] for k, name in enumerate(names)}, None
    if form == "expand":
        rows, labels, weight = fair.expand()
        return {base: labels, f"{base}_weight": weight, f"{base}_row": rows}, np.asarray(rows).tolist()
    return {base: fair.round(random_state=0) if form == "round" else fair.sample(random_state=0)}, None


def leaving(fair: FairLabels, form: str) -> tuple[str, Realised] | None:
    """Measure one class per row as it is downloaded; None for the forms of which the certificate speaks."""
    if form not in ("round", "sample"):
        return None
    (labels,) = new_columns("", fair, form)[0].values()
    return form, fair.realised(labels)


def file_name(table: Table, what: str, ending: str) -> str:
    r"""Name a download after the file it comes from.

    Examples
    --------
    >>> from r2b.app.uploads import read_upload
    >>> file_name(read_upload("people 1.csv", b"a,b\n1,2\n", 100), "fair", "csv")
    'people-1-fair.csv'
    """
    stem = PurePath(table.name).name.split(".")[0]
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in stem).strip("-")
    return f"{plain or 'table'}-{what}.{ending}"
