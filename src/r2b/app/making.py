"""What is made of a table: decisions, labels for a model, measures of a model, downloads, code."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np

from r2b import Membership, Scan
from r2b._data.arrays import Floats
from r2b._files import Format, table_of
from r2b._files.arrow import pyarrow, pyarrow_compute
from r2b._labels import FairLabels
from r2b._verify.record import beside, encoded, reads_again, record_of
from r2b.app.choices import Choice
from r2b.app.files import checked
from r2b.engines.files import FileSource
from r2b.engines.files.writing import write_stream
from r2b.engines.table_rows import TableRows
from r2b.engines.tables import roles_of
from r2b.errors import InputError, MissingValueError, ParameterError, require
from r2b.metrics.criteria import CRITERIA, disparity, disparity_by_chance
from r2b.metrics.means import group_means
from r2b.report import Report, predictions_report

if TYPE_CHECKING:
    from r2b.app.tables import Workspace

SEEN = "seen_"  # begins the names of columns that hold predicted groups
_LAST = {
    "soft": "labels = fair.soft_labels  # one column of probabilities per class of fair.classes",
    "round": "labels = fair.round(random_state=0)  # one class per row",
    "sample": "labels = fair.sample(random_state=0)  # one class per row; parity holds on average",
    "expand": "rows, labels, weight = fair.expand()  # rows repeated with weights",
}


@dataclass(frozen=True, eq=False)
class Made:
    """Fair labels that were made, and what they were made from.

    Attributes
    ----------
    source : FileSource
        The table, for a model with the predicted groups after its own columns.
    fair : FairLabels
    columns : dict
        What the columns are, as :meth:`r2b.Scan.debias` takes them.
    likeliest : tuple of float, optional
        Of scores, what the most probable class of every row would be: the share that is expected
        to be right, and its disparity.
    """

    source: FileSource
    fair: FairLabels
    columns: dict[str, Any]
    likeliest: tuple[float, float] | None = None


def row_columns(table: FileSource, choice: Choice) -> dict[str, Any]:
    """Return the columns beside the label as the functions of r2b take them."""
    rows: dict[str, Any] = {"sensitive_features": table.columns(choice.sensitive)}
    if choice.control:
        rows["control_features"] = table.columns(choice.control)
    if choice.weight is not None:
        rows["sample_weight"] = _numbers_in(table, [choice.weight])[choice.weight]
    return rows


def _numbers_in(table: FileSource, names: Sequence[str]) -> dict[str, Any]:
    return table.with_numbers(names).columns(names)


def labelled(table: FileSource, choice: Choice, fair: FairLabels) -> Made:
    """Attach the rows of the table to labels that were solved for its columns."""
    assert fair.rows is not None
    roles = roles_of(table, choice.label, **choice.columns())
    rows = TableRows(table, roles, fair.schema, fair.rows.counts, n_rows=fair.rows.n_rows)
    return Made(table, replace(fair, rows=rows), choice.columns())


def decided(table: FileSource, choice: Choice) -> Made:
    """Turn probabilities into the fair decisions that are expected to be right most often."""
    columns = choice.columns()
    fair = Scan(table).debias(list(choice.scores), **columns, **choice.options())
    return Made(table, fair, columns, _likeliest(fair))


def _likeliest(fair: FairLabels) -> tuple[float, float] | None:
    """Measure the most probable class of every row; None if rows are left out of the comparison."""
    held = fair.in_memory()
    data = held.dataset
    assert data is not None
    if fair.families.left_out:
        return None
    shares = data.labels.array
    best = np.eye(data.n_classes)[shares.argmax(axis=1)]
    sure = np.average(shares.max(axis=1), weights=data.weight)
    return float(sure), held.realised(best).disparity


def labels_for_model(table: FileSource, choice: Choice) -> Made:
    """Make labels that are fair by the groups as the features of a model show them."""
    require("sklearn", "Labels for a model need scikit-learn", extra="sklearn")
    from sklearn.linear_model import LogisticRegression

    from r2b.sklearn import visible_groups

    try:
        seen = visible_groups(
            LogisticRegression(max_iter=1000),
            features_of(table, choice.features),
            sensitive_features=table.columns(choice.sensitive),
            cv=5,
            random_state=0,
        )
    except MissingValueError as error:
        remedy = "Choose another column, or fill the values in first."
        raise error.changed(remedy=remedy, control="sensitive") from error
    names = [f"{SEEN}{name}" for name in seen.groups or ()]
    source = _extended(table, names, np.asarray(seen.probabilities))
    attribute = Membership(names, name=" x ".join(choice.sensitive))
    columns = {**choice.columns(), "sensitive_features": [attribute]}
    return Made(source, Scan(source).debias(choice.label, **columns, **choice.options()), columns)


def features_of(table: FileSource, names: Sequence[str]) -> Floats:
    """Return columns as features: numbers on one scale, and one column per value of a text.

    A missing number is the mean, and is marked in a column of its own.

    Raises
    ------
    InputError
        A column of text has more values than a model learns from.
    """
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers: list[Floats] = []
    texts: list[list[Any]] = []
    width = 0
    for name in names:
        with suppress(InputError):
            column = _numbers_in(table, [name])[name]
            if "string" not in str(column.type):
                numbers.append(column.cast(pyarrow().float64()).to_numpy())
                continue
        texts.append(table.columns([name])[name].to_pylist())
        distinct = len(set(texts[-1]))
        width += distinct
        if distinct > 100:
            raise InputError(
                f"The column {name!r} has {distinct:,} different texts, "
                "and a feature may have 100.",
                remedy="Leave it out, or put its values into fewer groups first.",
                control="features",
                column=name,
            )
    if (table.n_rows or 0) * (2 * len(numbers) + width) > 1 << 24:  # 128 MiB
        problem = "The features have more values than the app takes."
        remedy = "Choose fewer columns, or use Python."
        raise InputError(problem, remedy=remedy, control="features")
    parts: list[Floats] = []
    if numbers:
        known = SimpleImputer(add_indicator=True, keep_empty_features=True)
        scaled = make_pipeline(known, StandardScaler())
        parts.append(scaled.fit_transform(np.stack(numbers, axis=1)))
    if texts:
        values = np.array(texts, dtype=object).T
        parts.append(OneHotEncoder(sparse_output=False).fit_transform(values))
    return np.hstack(parts)


def _extended(table: FileSource, names: Sequence[str], probabilities: Floats) -> FileSource:
    """Return the table with columns of probabilities after its own, in memory."""
    taken = next((name for name in names if name in table.names), None)
    if taken is not None:
        problem = f"The table has a column {taken!r} already."
        raise ParameterError(problem, remedy="Rename it.", control="sensitive", column=taken)
    new = dict(zip(names, probabilities.T, strict=True))
    content = table_of({**table.columns(table.names), **new}, Format("arrow"))
    return checked(FileSource.open(table.name, "arrow", stream=io.BytesIO(content)))


def measured(table: FileSource, choice: Choice) -> dict[str, Any]:
    """Measure predictions.

    Returns
    -------
    dict
        ``criteria``: each with what was found and what chance explains; ``given``: weight and
        share of every prediction in each group; ``correct``: the share that is right in each.
    """
    both, rows = table.columns([choice.label, choice.prediction]), row_columns(table, choice)
    true, predicted = both[choice.label], both[choice.prediction]
    criteria = [
        (
            each,
            disparity(each.name, true, predicted, **rows),
            disparity_by_chance(each.name, true, predicted, **rows),
        )
        for each in CRITERIA.values()
    ]
    right = np.asarray(
        pyarrow_compute().equal(true.cast("string"), predicted.cast("string")), dtype=np.float64
    )
    correct = group_means(np.column_stack([right, 1 - right]), **rows).means[:, 0]
    return {"criteria": criteria, "given": group_means(predicted, **rows), "correct": correct}


def prediction_report(table: FileSource, choice: Choice, **told: str) -> Report:
    """Report on predictions; ``told`` has what is stated of the model."""
    columns = table.columns([choice.label, choice.prediction])
    return predictions_report(
        columns[choice.prediction],
        columns[choice.label],
        label_name=choice.label,
        **row_columns(table, choice),
        **told,  # type: ignore[arg-type]
    )


def labels_file(workspace: Workspace, choice: Choice) -> bytes:
    """Return the table with the fair labels and their certificate, as an archive.

    Raises
    ------
    ParameterError
        The table has a column of the new one's name.
    """
    task = workspace.made(choice)
    fair, rows, source = task.fair, task.fair.rows, task.source
    stream, sink = io.BytesIO(), io.BytesIO()
    assert isinstance(rows, TableRows)
    try:
        relabel = rows.relabel(fair.rule, choice.form)
    except ParameterError as error:
        remedy = "Rename that column, or use r2b on the command line with --new-column."
        raise error.changed(remedy=remedy, control="form") from error
    write_stream(source, relabel, stream, choice.kind)
    name = file_name(workspace, choice, choice.kind)
    how = reads_again(source, Format(choice.kind), workspace.reading.encoding or "utf-8")
    made = replace(FileSource.open(name, stream=io.BytesIO(stream.getvalue()), **how), spelled=True)
    whole = relabel.traits.drawn
    found = rows.measured(relabel, fair.certificate) if whole else None
    command = code_of(workspace, choice, task.columns)
    record = record_of(source, relabel, made, how, choice.options(), command, found)
    with ZipFile(sink, "w") as archive:
        for each, content in (
            (name, stream.getvalue()),
            (beside(name), encoded(record.content(fair))),
        ):
            archive.writestr(ZipInfo(each), content, ZIP_DEFLATED)
    return sink.getvalue()


def file_name(workspace: Workspace, choice: Choice, ending: str) -> str:
    """Name a download after the file it comes from, and what it holds."""
    what = {"labels": f"fair-{choice.form}", "training": f"training-{choice.form}"}
    what |= {"html": "report", "py": "fair"}
    stem = PurePath(workspace.table.name).name.split(".")[0]
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in stem)
    named = what.get(ending) or what.get(choice.task) or choice.task
    return f"{plain.strip('-') or 'table'}-{named}.{ending}"


def code_of(workspace: Workspace, choice: Choice, columns: dict[str, Any] | None = None) -> str:
    r"""Write a program that reads the same table and makes the same labels.

    Examples
    --------
    >>> from r2b.app.files import read_upload
    >>> from r2b.app.tables import Workspace
    >>> workspace = Workspace("x", *read_upload("people.csv", b"sex,job\nf,a\nm,b\n", 100))
    >>> choice = Choice("labels", "job", ("sex",), epsilon=0.1, form="round")
    >>> print(code_of(workspace, choice))
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
    lines, table = ["import r2b"], f"{workspace.table.name!r}{read}"
    if workspace.source == "adult":
        lines += ["from r2b.datasets import load_adult"]
        table = 'load_adult(as_frame="pyarrow")'
    if choice.task == "training":
        lines += ["from r2b import Membership"]
    given = (columns or choice.columns()) | choice.options()
    lines += ["", f"fair = r2b.scan({table}).debias(", f"    {choice.label or [*choice.scores]!r},"]
    lines += [f"    {name}={value!r}," for name, value in given.items()]
    return "\n".join([*lines, ")", "print(fair)", _LAST[choice.form]]) + "\n"
