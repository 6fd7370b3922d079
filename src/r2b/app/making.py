"""What can be downloaded: labels with certificate, decisions, labels for a model, code."""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, get_args
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np

from r2b import Membership, Scan
from r2b._data.arrays import Floats
from r2b._files.arrow import pyarrow
from r2b._files.formats import Format, as_text
from r2b._labels import FairLabels
from r2b._labels.labels import Form
from r2b._labels.realised import Realised
from r2b._verify.record import beside, reads_again, record_of
from r2b.app.choices import PageChoice, TaskChoice
from r2b.engines.files import FileSource
from r2b.engines.files.writing import write_stream
from r2b.engines.table_rows import TableRows
from r2b.engines.tables import roles_of
from r2b.errors import InputError, MissingValueError, ParameterError, require
from r2b.metrics import demographic_parity_difference

if TYPE_CHECKING:
    from r2b.app.tables import Workspace

_SEEN = "seen_"  # begins the names of columns that hold predicted groups


@dataclass(frozen=True, eq=False)
class Made:
    """Fair labels that were made, and what they were made from.

    Attributes
    ----------
    source : FileSource
        The table, for a model with the predicted groups after its own columns.
    fair : FairLabels
    options : dict
        Of :func:`r2b.debias`.
    command : str
        What makes the same on the command line.
    likeliest : tuple of float, optional
        Of scores, what the likeliest class of every row would be: the share that is expected to be
        right, and its parity.
    """

    source: FileSource
    fair: FairLabels
    options: dict[str, Any]
    command: str
    likeliest: tuple[float, float] | None = None


def decided(table: FileSource, choice: TaskChoice) -> Made:
    """Turn probabilities into the fair decisions that are expected to be right most often."""
    options: dict[str, Any] = {
        "epsilon": choice.epsilon,
        "objective": "agreement",
        "missing": choice.missing,
    }
    fair = Scan(table).debias(
        list(choice.scores),
        sensitive_features=list(choice.sensitive),
        sample_weight=choice.weight,
        normalize=choice.normalize,
        **options,
    )
    more = [
        "--objective",
        "agreement",
        "--missing",
        choice.missing,
        *(["--normalize"] if choice.normalize else []),
    ]
    said = {"--label-columns": choice.scores, "--sensitive": choice.sensitive}
    command = _command(table, choice, said, "round", more)
    return Made(
        table, fair, options | {"normalize": choice.normalize}, command, _likeliest(table, choice)
    )


def _likeliest(table: FileSource, choice: TaskChoice) -> tuple[float, float] | None:
    """Measure the likeliest class of every row; None if rows are left out of the comparison."""
    groups = table.columns(choice.sensitive)
    if any(column.null_count for column in groups.values()):
        return None
    read = table.with_numbers([*choice.scores, *filter(None, [choice.weight])])
    scores = np.column_stack(
        [np.asarray(column, np.float64) for column in read.columns(choice.scores).values()]
    )
    weight = (
        np.ones(len(scores))
        if choice.weight is None
        else np.asarray(read.columns([choice.weight])[choice.weight], np.float64)
    )
    best, sure = scores.argmax(axis=1), scores.max(axis=1) / scores.sum(axis=1)
    parity = demographic_parity_difference(best, sensitive_features=groups, sample_weight=weight)
    return float(weight @ sure / weight.sum()), parity


def taught(table: FileSource, choice: TaskChoice) -> Made:
    """Make labels that are fair by the groups as the features of a model show them."""
    require("sklearn", "Labels for a model need scikit-learn", extra="sklearn")
    from sklearn.linear_model import LogisticRegression

    from r2b.sklearn import visible_groups

    groups = table.columns(choice.sensitive)
    for name, column in groups.items():
        if column.null_count:
            remedy = "Choose another column, or fill the values in first."
            problem = f"The column {name!r} has no value in {column.null_count:,} rows."
            raise MissingValueError(
                problem, remedy=remedy, control="sensitive", column=name, count=column.null_count
            )
    seen = visible_groups(
        LogisticRegression(max_iter=1000),
        features_of(table, choice.features),
        sensitive_features=groups,
        cv=5,
        random_state=0,
    )
    names = [f"{_SEEN}{name}" for name in seen.groups or ()]
    source = _extended(table, names, np.asarray(seen.probabilities))
    name = " x ".join(choice.sensitive)
    options: dict[str, Any] = {"epsilon": choice.epsilon}
    fair = Scan(source).debias(
        choice.label,
        sensitive_features=[Membership(names, name=name)],
        sample_weight=choice.weight,
        **options,
    )
    said = {"--label": (choice.label,), "--membership": (f"{name}={','.join(names)}",)}
    return Made(source, fair, options, _command(table, choice, said, "expand", []))


def _command(
    table: FileSource,
    choice: TaskChoice,
    said: Mapping[str, Sequence[str]],
    form: str,
    more: list[str],
) -> str:
    words = ["r2b", "debias", table.name]
    for option, names in said.items():
        words += [word for name in names for word in (option, name)]
    words += [] if choice.weight is None else ["--weight", choice.weight]
    return shlex.join(
        [*words, "--epsilon", f"{choice.epsilon:g}", "--form", form, *more, "--output", "fair.csv"]
    )


def features_of(table: FileSource, names: Sequence[str]) -> Floats:
    """Return columns as features: numbers on one scale, and one column per value of a text.

    A missing number is the mean, and is marked in a column of its own.

    Raises
    ------
    InputError
        A column of text has more values than a model learns from.
    """
    parts: list[Floats] = []
    for name in names:
        try:
            numbers = table.with_numbers([name]).columns([name])[name]
            numeric = "string" not in str(numbers.type)
        except InputError:
            numeric = False
        parts += _numbers(numbers) if numeric else _values(table.columns([name])[name], name)
        if sum(part.size for part in parts) > 1 << 24:  # 128 MiB
            problem = "The features have more values than the app takes."
            raise InputError(
                problem, remedy="Choose fewer columns, or use Python.", control="features"
            )
    return np.column_stack(parts)


def _numbers(column: Any) -> list[Floats]:
    values = np.asarray(column.cast(pyarrow().float64()).to_numpy(), np.float64)
    gaps = np.isnan(values)
    mean, spread = (
        float(values[~gaps].mean()) if not gaps.all() else 0.0,
        float(values[~gaps].std()) if not gaps.all() else 0.0,
    )
    scaled = (np.where(gaps, mean, values) - mean) / (spread or 1.0)
    return [scaled, gaps.astype(np.float64)] if gaps.any() else [scaled]


def _values(column: Any, name: str) -> list[Floats]:
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if len(coded.dictionary) > 100:
        raise InputError(
            f"The column {name!r} has {len(coded.dictionary):,} different texts, "
            "and a feature may have 100.",
            remedy="Leave it out, or put its values into fewer groups first.",
            control="features",
            column=name,
        )
    codes = coded.indices.to_numpy(zero_copy_only=False)
    return [(codes == place).astype(np.float64) for place in range(len(coded.dictionary))]


def _extended(table: FileSource, names: Sequence[str], probabilities: Floats) -> FileSource:
    """Return the table with columns of probabilities after its own, in memory."""
    taken = next((name for name in names if name in table.names), None)
    if taken is not None:
        raise ParameterError(
            f"The table has a column {taken!r} already.",
            remedy="Rename it.",
            control="sensitive",
            column=taken,
        )
    arrow, sink = pyarrow(), io.BytesIO()
    columns = {
        **table.columns(table.names),
        **{name: arrow.array(each) for name, each in zip(names, probabilities.T, strict=True)},
    }
    whole = arrow.table(columns)
    with arrow.ipc.new_file(sink, whole.schema) as writer:
        writer.write_table(whole)
    sink.seek(0)
    found = replace(FileSource.open(table.name, "arrow", stream=sink), spelled=True)
    assert sum(found.run([], len)) == table.n_rows
    return found


def packed(
    source: FileSource,
    fair: FairLabels,
    form: Form,
    kind: str,
    name: str,
    encoding: str,
    **said: Any,
) -> bytes:
    """Return the table with the fair labels, and the certificate beside it, as one archive.

    Parameters
    ----------
    source : FileSource
    fair : FairLabels
        Whose rows are those of the source.
    form, kind : str
    name : str
        Of the table in the archive.
    encoding : str
        Of the source.
    **said
        ``options`` and ``command``, for the certificate.
    """
    rows = fair.rows
    assert isinstance(rows, TableRows)
    try:
        relabel = rows.relabel(fair.rule, form)
    except ParameterError as error:
        remedy = "Rename that column, or use r2b on the command line with --new-column."
        raise error.changed(remedy=remedy, control="form") from error
    stream = io.BytesIO()
    write_stream(source, relabel, stream, kind)
    how = reads_again(source, Format(kind), encoding or "utf-8")
    made = replace(FileSource.open(name, stream=io.BytesIO(stream.getvalue()), **how), spelled=True)
    found = rows.measured(relabel, fair.certificate) if form in ("round", "sample") else None
    record = record_of(source, relabel, made, how, found=found, **said)
    sink = io.BytesIO()
    with ZipFile(sink, "w") as archive:
        for each, content in ((name, stream.getvalue()), (beside(name), record.encoded(fair))):
            archive.writestr(ZipInfo(each), content, ZIP_DEFLATED)
    return sink.getvalue()


def shares(fair: FairLabels) -> list[dict[str, Any]]:
    """Return the share of every class in every group, before and after, in percent."""
    proof = fair.certificate
    names = [name.rpartition(f"={_SEEN}")[2] for name in as_text(fair.groups, "groups")]
    return [
        {
            "group": name,
            "cells": [(100 * old, 100 * new) for old, new in zip(before, after, strict=True)],
        }
        for name, before, after in zip(
            names, proof.means_before.tolist(), proof.means.tolist(), strict=True
        )
    ]


_LAST = {
    "soft": "labels = fair.soft_labels  # one column of probabilities per class of fair.classes",
    "round": "labels = fair.round(random_state=0)  # one class per row",
    "sample": "labels = fair.sample(random_state=0)  # one class per row; parity holds on average",
    "expand": "rows, labels, weight = fair.expand()  # rows repeated with weights",
}
KINDS = ("csv", "parquet", "xlsx")


def labels_file(
    workspace: Workspace, choice: PageChoice, fair: FairLabels, form: Any, kind: str
) -> bytes:
    """Return the table with the fair labels in one form and its certificate, as an archive.

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
    """Measure labels with one class per row; None for distributions."""
    return (form, fair.realised_as(form)) if form in ("round", "sample") else None


def file_name(table: FileSource, what: str, ending: str) -> str:
    r"""Name a download after the file it comes from.

    Examples
    --------
    >>> from r2b.app.files import read_upload
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
    >>> from r2b.app.files import read_upload
    >>> from r2b.app.tables import Workspace
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
