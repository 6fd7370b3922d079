"""What can be downloaded: the table that was opened with fair labels beside its columns, and the Python code that makes the same labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import Any, get_args

from r2b._labels import FairLabels
from r2b._labels.labels import Form
from r2b._labels.realised import Realised
from r2b.app.choice import PageChoice
from r2b.app.making import packed
from r2b.app.workspace import Workspace
from r2b.engines.files import FileSource
from r2b.engines.table_rows import TableRows
from r2b.engines.tables import roles_of
from r2b.errors import ParameterError

_LAST = {
    "soft": "labels = fair.soft_labels  # one column of probabilities per class, in the order of fair.classes",
    "round": "labels = fair.round(random_state=0)  # one class per row",
    "sample": "labels = fair.sample(random_state=0)  # one class per row; parity holds on average",
    "expand": "rows, labels, weight = fair.expand()  # rows repeated with weights",
}
KINDS = ("csv", "parquet", "xlsx")


def labels_file(
    workspace: Workspace, choice: PageChoice, fair: FairLabels, form: Any, kind: str
) -> bytes:
    """Give the table with the fair labels in one form and its certificate, as an archive.

    Raises
    ------
    ParameterError
        There is no such form or kind of file, or the table has a column of the new one's name.
    """
    refuse_other(form, kind)
    table = workspace.table
    assert fair.rows is not None
    roles = roles_of(
        table, choice.label, list(choice.sensitive), list(choice.control), choice.weight
    )
    rows = TableRows(table, roles, fair.schema, fair.rows.counts, total=fair.rows.n_rows)
    said = {"options": choice.options(), "command": code_of(workspace, choice, form)}
    name = file_name(table, f"fair-{form}", kind)
    return packed(
        table, replace(fair, rows=rows), form, kind, name, workspace.reading.encoding, **said
    )


def refuse_other(form: Any, kind: Any) -> None:
    """Refuse a form or a kind of file that there is not."""
    for name, value, known in (("form", form, get_args(Form)), ("kind", kind, KINDS)):
        if value not in known:
            raise ParameterError(
                f"The {name} is {value!r}.",
                remedy=f"Choose one of {', '.join(known)}.",
                control="form",
            )


def leaving(fair: FairLabels, form: Any) -> tuple[str, Realised] | None:
    """Measure one class per row as it is downloaded; None for the forms of which the certificate speaks."""
    return (form, fair.realised_as(form)) if form in ("round", "sample") else None


def file_name(table: FileSource, what: str, ending: str) -> str:
    r"""Name a download after the file it comes from.

    Examples
    --------
    >>> from r2b.app.uploads import read_upload
    >>> file_name(read_upload("people 1.csv", b"a,b\n1,2\n", 100)[0], "fair", "csv")
    'people-1-fair.csv'
    """
    stem = PurePath(table.name).name.split(".")[0]
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in stem).strip(
        "-"
    )
    return f"{plain or 'table'}-{what}.{ending}"


def code_of(workspace: Workspace, choice: PageChoice, form: str) -> str:
    r"""Write a program that reads the same table and makes the same labels.

    Examples
    --------
    >>> from r2b.app.uploads import read_upload
    >>> workspace = Workspace("x", *read_upload("people.csv", b"sex,job\nf,a\nm,b\n", 100))
    >>> print(code_of(workspace, PageChoice("job", ("sex",), epsilon=0.1), "round"))
    import r2b
    <BLANKLINE>
    fair = r2b.scan('people.csv').debias(
        'job',
        sensitive_features=['sex'],
        epsilon=0.1,
    )
    print(fair)
    labels = fair.round(random_state=0)  # one class per row
    <BLANKLINE>
    """
    read = "".join(f", {name}={value!r}" for name, value in workspace.reading.arguments().items())
    opened = f"r2b.scan({workspace.table.name!r}{read})"
    lines = ["import r2b", ""]
    if workspace.source == "adult":
        lines, opened = (
            ["import r2b", "from r2b.datasets import load_adult", ""],
            'r2b.scan(load_adult(as_frame="pyarrow"))',
        )
    columns = {
        "sensitive_features": list(choice.sensitive),
        "control_features": list(choice.control),
        "sample_weight": choice.weight,
    }
    given = {name: value for name, value in columns.items() if value} | choice.options()
    lines += [
        f"fair = {opened}.debias(",
        f"    {choice.label!r},",
        *(f"    {name}={value!r}," for name, value in given.items()),
    ]
    lines += [")", "print(fair)", _LAST.get(form, _LAST["soft"])]
    return "\n".join(lines) + "\n"
