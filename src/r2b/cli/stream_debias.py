"""``r2b debias`` of tables that are read part by part."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from r2b._files import AtomicWriter
from r2b._files.formats import Format
from r2b._labels import FairLabels
from r2b._labels.realised import Realised
from r2b._verify.record import Record, fingerprints
from r2b.cli.labelling import new_names, refuse_taken
from r2b.cli.meter import RowMeter
from r2b.cli.numbers import costs_of, per_class, target_of
from r2b.cli.reporting import command_line
from r2b.cli.selection import PARTS, Selection, families_of, named
from r2b.cli.stream_reports import refuse_soft_report, write_stream_reports
from r2b.cli.streams import classes_in, columns_of, open_stream
from r2b.engines.files import EMPTY, FileSource
from r2b.engines.files.writing import kept_files, shape_of, write_into
from r2b.engines.relabel import Relabel
from r2b.engines.table_rows import TableRows
from r2b.engines.tables import Scan
from r2b.errors import NotSolvedWarning

_NOT_TOLD = ("tol", "max_iter", "time_limit", "kernel", "threads", "costs", "progress")


@dataclass(frozen=True)
class Wanted:
    """What the command line asks of a stream.

    Attributes
    ----------
    data, output : str
    output_format, certificate, html, markdown, new_column : str or None
    form : str
    random_state : int
    key, epsilon, target, family : sequence of str
    families, costs : str or None
    reading : dict
        Format, encoding and delimiter.
    quiet : bool
    """

    data: str
    output: str
    output_format: str | None
    certificate: str | None
    html: str | None
    markdown: str | None
    new_column: str | None
    form: Any
    random_state: int
    key: Sequence[str]
    epsilon: Sequence[str]
    target: Sequence[str]
    family: Sequence[str]
    families: str | None
    costs: str | None
    reading: dict[str, Any]
    quiet: bool


@dataclass(frozen=True, eq=False)
class Made:
    """What came of it: the solution, the names of the new columns, and for one class per row what holds for the labels."""

    fair: FairLabels
    names: tuple[str, ...]
    realised: Realised | None


def debias_stream(writer: AtomicWriter, wanted: Wanted, given: dict[str, Any]) -> Made:
    """Solve, and write everything beside its target."""
    with RowMeter(quiet=wanted.quiet) as meter:
        source, table = open_stream(wanted.data, **wanted.reading, na=given["na"], threads=given["threads"], watch=meter)
        writer.keep = kept_files(source)
        shape = shape_of(source, wanted.output, wanted.output_format)
        writer.check(wanted.output, folder=source.listing.many)
        selection = Selection.of(table, **{name: given.pop(name) for name in PARTS})
        key = named(table, wanted.key, "--key")
        scan = Scan(source)
        refuse_soft_report(scan, columns_of(selection), wanted.html, wanted.markdown)
        classes = classes_in(scan, selection, given["missing"])
        refuse_taken(table, new_names(wanted.form, wanted.new_column, selection, classes))
        given.pop("merge_rows")
        given |= {"families": families_of(table, wanted.families, wanted.family, "crossed"), "target": target_of(wanted.target, classes)}
        given |= {"epsilon": per_class("--epsilon", wanted.epsilon, classes) if wanted.epsilon else 0.0}
        given |= {"costs": costs_of(wanted.costs, classes)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotSolvedWarning)  # the status says it, and the exit code
            fair = scan.debias(**columns_of(selection), **given)
        meter.now("Looking")
        rows = fair.rows
        assert isinstance(rows, TableRows)
        relabel = rows.relabel(fair.rule, wanted.form, random_state=wanted.random_state, key=key or None, new_column=wanted.new_column)
        meter.now("Writing")
        beside = write_into(writer, source, relabel, wanted.output, wanted.output_format)
        meter.now("Measuring")
        found = rows.measured(relabel, fair.certificate) if wanted.form in ("round", "sample") else None
        if wanted.certificate is not None:
            meter.now("Checking")
            record = _record(source, fair, relabel, found, shape, os.fspath(beside), selection, wanted, given)
            writer.write(wanted.certificate, record.encoded(fair))
    write_stream_reports(
        writer,
        wanted.html,
        wanted.markdown,
        scan=scan,
        columns=columns_of(selection),
        label=selection.stem,
        options=given,
        draws={"random_state": wanted.random_state},
        leaving=None if found is None else (wanted.form, found),
    )
    return Made(fair, relabel.names, found)


def _record(
    source: FileSource,
    fair: FairLabels,
    relabel: Relabel,
    found: Realised | None,
    shape: Format,
    beside: str,
    selection: Selection,
    wanted: Wanted,
    given: dict[str, Any],
) -> Record:
    same = shape.kind == source.listing.format.kind
    dialect = getattr(source.files[0], "dialect", None) if same else None
    reading = {
        "format": str(shape),
        "encoding": wanted.reading["encoding"] if same else "utf-8",
        "delimiter": None if dialect is None else dialect.delimiter,
    }
    na = selection.na if shape.kind in ("csv", "tsv") else EMPTY
    made = FileSource.open(beside, str(shape), reading["delimiter"], na=na, encoding=str(reading["encoding"]), threads=source.threads)
    made = replace(made, watch=source.watch, spelled=True)
    assert source.n_rows is not None
    return Record(
        columns=relabel.decode.roles,
        na=selection.na,
        options={name: value for name, value in given.items() if name not in _NOT_TOLD},
        form=relabel.form,
        new=relabel.names,
        random_state=wanted.random_state,
        reading=reading,
        fingerprints=fingerprints(made, relabel.decode, relabel.form, relabel.names),
        n_rows=source.n_rows,
        command=command_line(),
        realised=None if found is None else found.to_json(),
    )
