"""The commands, and how each ends: with an exit code, and one paragraph for an error."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

import r2b
from r2b import Audit, FairLabels, Scan
from r2b._constraints.bounds import PARAMETERS
from r2b._data.vocabulary import Vocabulary
from r2b._files import AtomicWriter, table_of
from r2b._files.formats import format_for
from r2b._files.paths import is_device
from r2b._files.text import compress
from r2b._labels.debiasing import request_and_settings
from r2b._labels.realised import Realised
from r2b._labels.storage import tags_content
from r2b._labels.summary import summarize
from r2b._labels.tags import FairTags, seeds_of, summarize_tags
from r2b._labels.task import Task
from r2b._verify.record import beside, encoded, reads_again, record_of
from r2b.cli import options, output
from r2b.cli.options import argument, takes
from r2b.cli.output import Done, Exit, Meter, one_line, print_json, spelled
from r2b.cli.reading import (
    columns_of,
    command_line,
    cost_files,
    families_of,
    named,
    named_in,
    no_sensitive,
    on_lines,
    open_table,
    options_by_tag,
    options_of,
    outcomes_of,
    per_class,
    refuse_idle,
    rows_of_tags,
    shares_of,
    tags_of,
    typed_reading,
)
from r2b.engines.files import FileSource
from r2b.engines.files.writing import shape_of, write_into
from r2b.engines.source import Relabel, RelabelTags, new_names
from r2b.engines.table_rows import TableRows, refuse_taken
from r2b.engines.tables import read_classes, roles_of
from r2b.errors import DataWarning, NotSolvedWarning, ParameterError, R2BError

DATASETS = {
    "adult": "48,842 people of the 1994 census of the United States: "
    "education, income, sex, race, age (UCI, CC BY 4.0)."
}
_HELD = ("disparity", "excess")
_NUMBERS = ("disparity_before", *_HELD, "distance", "expected_changes", "relative_gap")


class Command(click.Command):
    """A command that prints an error of r2b in its own options, and ends with its exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _notes(quiet=ctx.meta["quiet"]):
            try:
                done = super().invoke(ctx)
            except R2BError as error:
                if "--debug" in ctx.obj:
                    traceback.print_exc()
                problem, remedy = output.rendered(error)
                kind, as_json = type(error).__name__, ctx.meta["json"]
                output.print_error(kind, error.code, problem, remedy, as_json=as_json)
                return output.code_of(error)
            return Exit.DONE if done is None else output.print_done(done)


@contextlib.contextmanager
def _notes(*, quiet: bool) -> Iterator[None]:
    """Print each warning about the data once, as a note."""
    shown: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, *where: Any, **more: Any) -> None:
            if not isinstance(message, DataWarning):
                usual(message, *where, **more)
            elif not quiet and str(message) not in shown:
                shown.add(str(message))
                text = " ".join(output.rendered(message))
                click.echo(f"Note: {text}", err=True)

        warnings.showwarning = show
        warnings.simplefilter("always", DataWarning)
        yield


class Commands(click.Group):
    """A group of such commands."""

    command_class = Command


@click.group(
    "r2b",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(r2b.__version__, prog_name="r2b", message="%(prog)s %(version)s")
def group() -> None:
    """Measure how differently labels treat groups of people, and make the closest fair labels.

    \b
    Examples:
      r2b datasets export adult adult.csv
      r2b audit adult.csv --label education --sensitive sex
      r2b debias adult.csv --label education --sensitive sex --epsilon 0.01 --output fair.csv
      r2b verify fair.csv

    \b
    Exit codes:
      0  done
      1  parity was not reached, or verification failed
      2  wrong use: an option, a column, a file, a library that is not installed
      3  bad data
    """  # noqa: D301


@group.command("audit", short_help="Measure how far labels are from parity.")
@argument("data")
@takes(*options.ROLES, *options.TAGS, "normalize", *options.GROUPS, "clusters", "outcomes")
@takes(*options.DRAWS)
@takes("n_largest", "max_disparity", *options.REPORTS, "audit.epsilon", "force", *options.READING)
@takes(*options.PRINTING)
def audit_command(
    data: str,
    epsilon: float,
    n_largest: int,
    max_disparity: float | None,
    suppress_below: int,
    **given: Any,
) -> Done:
    """Measure how far the labels in DATA are from parity, for every family of groups.

    DATA is a CSV, TSV, JSON Lines, Parquet, Arrow or Excel file, compressed or not; a folder or a
    pattern of such files, which need not fit in memory; or - for standard input. DATA is not
    changed.

    \b
    Examples:
      r2b audit adult.csv --label education --sensitive sex
      r2b audit adult.csv --label education --sensitive sex,race --html report.html
      r2b audit adult.csv --label income --sensitive sex --na '?' --missing exclude
      zcat scores.csv.gz | r2b audit - --label-columns 'p_*' --sensitive sex --json
      r2b audit 'people/*.parquet' --label job --sensitive sex
      r2b audit images.csv --label diagnosis --sensitive sex --clusters patient
      r2b audit adult.csv --label education --sensitive sex --max-disparity 0.05
      r2b audit images.csv --labels 'tag_*' --multilabel --sensitive gender
      r2b audit adult.csv --label risk --sensitive sex --outcomes ordinal=low,middle,high
    """  # noqa: D301
    wanted, draws = _reports(given, "epsilon"), _draws(given)
    with _opened(data, given, wanted) as (writer, meter, source):
        scan, tags = Scan(source), tags_of(source.names, given)
        columns = columns_of(source, given)
        given["families"] = families_of(source.names, given)
        outcomes = given.pop("outcomes")
        if outcomes:
            given["outcomes"] = outcomes_of(outcomes, _classes(source, columns, given))
        if not tags:
            found = scan.audit(**columns, **given, **draws, n_largest=n_largest)
        elif wanted or draws["clusters"]:
            problem = "An audit of tags has no report, and takes no clusters."
            remedy = "Use r2b debias, whose report has a part for each tag."
            raise ParameterError(problem, remedy=remedy)
        else:
            del given["normalize"], draws["clusters"]
            rows = rows_of_tags(source, columns, tags)
            found = r2b.audit(**rows, **given, **draws, n_largest=n_largest)
        if wanted:
            asked = {**given, "epsilon": epsilon, "progress": meter}
            facts = _facts(scan, columns, asked, draws, found, suppress_below)
            _write_reports(writer, wanted, [facts])
        writer.commit()
    within = _within(max_disparity, [each.disparity for each in found.families])
    return Done(found.to_json() | {"data": source.name}, str(found), wanted, within)


@group.command("debias", short_help="Make the closest labels in parity.")
@argument("data")
@takes(*options.ROLES, *options.TAGS, "epsilon", *options.BOUNDS, *options.GROUPS)
@takes("table.output", "output_format")
@takes("form", "random_state", "key", "new_column", "certificate", *options.REPORTS, "force")
@takes(*options.SOLVER, *options.READING, *options.PRINTING)
def debias_command(
    data: str,
    output: str,
    output_format: str | None,
    form: Any,
    random_state: int,
    key: tuple[str, ...],
    new_column: str | None,
    certificate: str | None,
    suppress_below: int,
    **given: Any,
) -> Done:
    """Make the closest labels in parity, and write DATA with them in new columns.

    Rows keep their order and all other columns stay as they are. The certificate goes beside the
    output; `r2b verify` checks it. DATA is a file, a folder or a pattern; - is standard input.
    Files are read and written part by part, and may be larger than memory.

    \b
    Forms:
      soft    one column of probabilities per class; parity is exact
      round   one class per row; every class count is right to within a row
      sample  one class per row, drawn; parity holds on average
      expand  rows repeated with weights; parity is exact for learners that take weights

    \b
    Examples:
      r2b debias adult.csv --label education --sensitive sex --epsilon 0.01 --output fair.csv
      r2b debias adult.csv --label education --sensitive sex,race --form round -o fair.csv.gz
      r2b debias adult.csv --label income --sensitive sex --bound ratio --epsilon 0.2 -o f.parquet
      r2b debias people/ --label job --sensitive sex --form round --key id --output fair/
      r2b debias images.csv --labels 'tag_*' --multilabel --sensitive gender -o fair.csv
      cat people.jsonl | r2b debias - --label job --sensitive sex --output - > fair.jsonl
    """  # noqa: D301
    _refuse_two_on_output(output)
    piped = output == "-" or is_device(Path(output))
    wanted, drawn = _reports(given), form in ("round", "sample")
    undrawn = not drawn and f"labels of the form {form!r} are not drawn"
    refuse_idle({"key": undrawn, "random_state": not wanted and undrawn})
    proof = beside(output) if certificate is None and not piped else certificate
    files = {"output": output, **({} if proof is None else {"certificate": proof}), **wanted}
    with ExitStack() as stack:
        opened = _opened(data, given, files, table=True, pipe=True)
        writer, meter, source = stack.enter_context(opened)
        shape = shape_of(source, output, output_format)
        scan, tags = Scan(source), tags_of(source.names, given)
        columns = columns_of(source, given)
        keys = tuple(named(source.names, key))
        source.check([("--key", keys)])
        made = _made(scan, columns, given, tags, form, new_column, random_state, keys, meter)
        relabels = [each.relabel for each in made]
        relabel = RelabelTags.of(relabels) if tags else relabels[0]
        meter.now("Writing")
        target, aside = output, writer
        if piped:  # the output is complete before its first byte is sent
            target = f"{stack.enter_context(TemporaryDirectory())}/output.{shape}"
            aside = stack.enter_context(AtomicWriter())
        written = write_into(aside, source, relabel, target, shape)
        meter.now("Checking")
        typed, threads, contents, facts = typed_reading(), given["threads"], [], []
        how = reads_again(source, shape, typed.get("encoding", "utf-8"), typed.get("na", ()))
        again = replace(FileSource.open(written, threads=threads, **how), spelled=True)
        for each in made:
            trace = {}
            if proof is not None:
                told = (each.asked, command_line(), each.found)
                record = record_of(source, each.relabel, again, how, *told)
                contents.append(record.content(each.fair))
                trace = _trace(record.fingerprints["labels"], output, proof)
            if wanted:
                left = None if each.found is None else (form, each.found)
                asked, draws = {**each.asked, "progress": meter}, {"random_state": random_state}
                shown = {"leaving": left, "form": form, "trace": trace}
                facts.append(
                    _facts(scan, each.columns, asked, draws, None, suppress_below, **shown)
                )
        if proof is not None:
            writer.write(proof, encoded(tags_content(tags, contents) if tags else contents[0]))
        if wanted:
            _write_reports(writer, wanted, facts, tags)
        if piped:
            with open(written.root, "rb") as table, click.open_file(output, "wb") as pipe:
                shutil.copyfileobj(table, pipe)
        writer.commit()
    return _debiased(made, tags, form, files)


@dataclass(frozen=True, eq=False)
class _Made:
    """New labels of one column, and what they were asked for.

    Attributes
    ----------
    columns, asked : dict
        Arguments of ``Scan.debias``.
    fair : FairLabels
    relabel : Relabel
    found : Realised or None
        What holds for one class per row.
    """

    columns: dict[str, Any]
    asked: dict[str, Any]
    fair: FairLabels
    relabel: Relabel
    found: Realised | None

    def facts(self) -> dict[str, Any]:
        """Return what was found, for ``--json``."""
        fair, proof = self.fair, self.fair.certificate
        # The disparity is that of the labels in the file; that of their probabilities is beside it.
        held = proof if self.found is None else self.found
        return {
            **_outcome(fair, self.relabel.form, self.relabel.names),
            "classes": fair.classes,
            "groups": fair.groups,
            **{name: getattr(proof, name) for name in _NUMBERS},
            **{name: getattr(held, name) for name in _HELD},
            "probabilities": {name: getattr(proof, name) for name in _HELD},
            "realised": None if self.found is None else self.found.to_json(),
            "certificate": proof.to_json(),
        }


def _outcome(fair: FairLabels | FairTags, form: str, columns: Sequence[str]) -> dict[str, Any]:
    status = fair.status
    said = {"status": status.value, "ok": status.ok, "advice": status.advice}
    return {**said, "form": form, "columns": list(columns)}


def _debiased(
    made: Sequence[_Made], tags: Sequence[str], form: str, files: Mapping[str, str]
) -> Done:
    """Say what a debiasing found: of tags, the worst of all, and what was found of each."""
    each, found = [one.facts() for one in made], made[0].found
    new = [name for one in made for name in one.relabel.names]
    whole: FairLabels | FairTags = made[0].fair
    facts, text = each[0], summarize(made[0].fair, None if found is None else (form, found))
    if tags:
        whole = FairTags(np.array(tags), tuple(one.fair for one in made))
        worst = {name: max(one[name] for one in each) for name in ("disparity_before", "disparity")}
        tagged = dict(zip(tags, each, strict=True))
        held = None if found is None else [one.found for one in made if one.found is not None]
        facts = {**_outcome(whole, form, new), **worst, "tags": tagged}
        text = summarize_tags(whole, form, held)
    status = whole.status
    _, advice = output.rendered(R2BError("", remedy=status.advice))
    names = ", ".join(map(one_line, new[:4])) + (", ..." if len(new) > 4 else "")
    text = f"{text.replace(status.advice, advice)}\n  form              {form}: {names}"
    alarm = "" if status.ok else f"Parity was not reached ({status.value}). {advice}"
    aside = files["output"] == "-"
    return Done({**facts, "files": files}, text, files, status.ok, alarm=alarm, aside=aside)


def _made(
    scan: Scan,
    columns: dict[str, Any],
    given: dict[str, Any],
    tags: Sequence[str],
    form: Any,
    stem: str | None,
    random_state: int,
    keys: tuple[str, ...],
    meter: Meter,
) -> list[_Made]:
    """Solve for the label, or for each tag, and prepare new columns."""
    source, made = scan.source, list[_Made]()
    several = [{**columns, "label": tag} for tag in tags] or [columns]
    roles = [roles_of(source, **each) for each in several]
    classes = [read_classes(source, each, given["missing"]) for each in roles]
    if not tags:
        asked, seeds = [options_of(source.names, given, classes[0])], [random_state]
        names = [new_names(form, stem, roles[0], classes[0].values.tolist(), ordered=True)]
    elif form == "expand":
        problem = "Rows are repeated for the classes of one label, and tags are several."
        raise ParameterError(problem, remedy="Use `form=soft`, `form=round` or `form=sample`.")
    else:
        asked = options_by_tag(source.names, given, tags, classes)
        seeds = seeds_of(random_state, tags)
        names = [(f"{tag}_fair" if stem is None else f"{stem}_{tag}",) for tag in tags]
    refuse_taken(tuple(name for each in names for name in each), source)
    for each, own, new, seed in zip(several, asked, names, seeds, strict=True):
        fair, found = scan.debias(**each, **own, progress=meter), None
        rows = fair.rows
        assert isinstance(rows, TableRows)
        meter.now("Preparing")
        relabel = rows.relabelled(fair.rule, form, new, seed, keys)
        if form in ("round", "sample"):
            meter.now("Measuring")
            found = rows.measured(relabel, fair.certificate)
        made.append(_Made(each, own, fair, relabel, found))
    return made


@group.command("reweigh", short_help="Weigh rows so that groups are in parity.")
@argument("data")
@takes(*options.ROLES, "epsilon", "bound", *PARAMETERS, "max_weight", "representation")
@takes(*options.GROUPS, "outcomes", "normalize", "table.output", "output_format")
@takes("weight.new_column", "save", "force", *options.SOLVER, *options.READING, *options.PRINTING)
def reweigh_command(
    data: str,
    output: str,
    output_format: str | None,
    new_column: str,
    save: str | None,
    max_weight: float | None,
    representation: tuple[str, ...],
    **given: Any,
) -> Done:
    """Find the row weights closest to 1 under which groups agree, and write DATA with them.

    Labels stay as they are. Every group keeps its total weight, or gets the share that
    --representation asks for. Where rows have weights of their own (--weight), the new ones are
    factors: multiply both before use. Class labels are counted; other rows are read into memory.

    \b
    Examples:
      r2b reweigh adult.csv --label education --sensitive sex,race --epsilon 0.01 -o weighted.csv
      r2b reweigh adult.csv --label income --sensitive sex --max-weight 3 -o weighted.parquet
      r2b reweigh adult.csv --label income --sensitive sex --representation equal -o w.csv.gz
    """  # noqa: D301
    files = {"output": output, **({} if save is None else {"rule": save})}
    with _opened(data, given, files, table=True) as (writer, meter, source):
        shape = shape_of(source, output, output_format)
        columns = columns_of(source, given)
        asked = options_of(source.names, given, _classes(source, columns, given))
        asked |= {"max_weight": max_weight, "representation": shares_of(representation)}
        refuse_taken((new_column,), source)
        found = Scan(source).reweigh(**columns, **asked, progress=meter)
        meter.now("Writing")
        write_into(writer, source, found.rows.weigh(found.rule, new_column), output, shape)
        if save is not None:
            writer.write(save, json.dumps(found.to_json(), allow_nan=False).encode())
        writer.commit()
    own = columns["sample_weight"]
    times = "" if own is None else f"; multiply with {one_line(own)}: groups agree by the product"
    text = f"{found}\n  {'new column':18}{one_line(new_column)}{times}"
    return Done(found.to_json() | {"files": files}, text, files, found.status.ok)


@group.command("report", short_help="Report on the decisions of a model.")
@argument("data")
@takes("prediction", "report.label", "plain", "sensitive_features", "control_features")
@takes("sample_weight", "report.epsilon", "confidence", *options.DRAWS, "max_disparity")
@takes("report.output", "purpose", "owner", "suppress_below", "force", *options.READING)
@takes(*options.PRINTING)
def report_command(
    data: str,
    output: str,
    prediction: str,
    label: str | None,
    plain: str | None,
    sample_weight: str | None,
    max_disparity: float | None,
    **given: Any,
) -> Done:
    """Report on decisions about held-out rows, which DATA has in a column.

    The report shows who gets which decision, every criterion with what chance explains, accuracy by
    group, a promise about new rows, and what differs from the decisions of another model.

    \b
    Examples:
      r2b report decided.csv --prediction decision --sensitive sex --output model.html
      r2b report decided.csv --prediction decision --label job --sensitive gender,ethnicity \\
        --plain before --purpose 'Suggests jobs' --owner 'data team' --output model.html
      r2b report decided.parquet --prediction decision --label job --sensitive sex -o model.json
    """  # noqa: D301
    from r2b.report import predictions_report, words
    from r2b.report.results import encoded as encoded_report

    draws = _draws(given)
    with _opened(data, given, {"report": output}) as (writer, meter, source):
        attributes, controls = (
            named(source.names, given.pop(each))
            for each in ("sensitive_features", "control_features")
        )
        if not attributes:
            raise no_sensitive("Pass `sensitive_features=...`.")
        single = {
            "--prediction": prediction,
            "--label": label,
            "--plain": plain,
            "--weight": sample_weight,
        }
        chosen = {typed: [name] for typed, name in single.items() if name is not None}
        chosen |= {"--sensitive": attributes, "--control": controls}
        source.check([*chosen.items()])
        weights = [] if sample_weight is None else [sample_weight]
        wanted = [name for names in chosen.values() for name in names]
        found = source.with_numbers(weights).columns(wanted)
        decisions, true, other, weight = (name and found[name] for name in single.values())
        meter.now("Reporting")
        report = predictions_report(
            decisions,
            true,
            sensitive_features={name: found[name] for name in attributes},
            control_features={name: found[name] for name in controls} or None,
            sample_weight=weight,
            plain=other,
            label_name=label or prediction,
            files=_files(source),
            command=command_line(),
            verify=command_line(),
            of_model={"plain_name": f"the column {plain}"},
            **draws,
            **given,
        )
        writer.write(output, encoded_report(report, output))
        writer.commit()
    facts = report.facts
    within = _within(max_disparity, [each["disparity"] for each in facts["audit"]["families"]])
    title = words.title(facts).replace(words.SPACE, " ")
    return Done(facts, title, {"report": output}, within)


@group.command("frontier", short_help="Show what parity costs, epsilon by epsilon.")
@argument("data")
@takes(*options.ROLES, *options.TAGS, "epsilons", "points", *options.GROUPS, *options.BOUNDS)
@takes(*options.SOLVER, "output", "output_format", "force", *options.READING, *options.PRINTING)
def frontier_command(
    data: str,
    output: str | None,
    output_format: str | None,
    epsilons: tuple[str, ...],
    points: int | None,
    **given: Any,
) -> Done:
    """Solve for several epsilons and show what each costs: squared distance and expected changes.

    \b
    Examples:
      r2b frontier adult.csv --label education --sensitive sex
      r2b frontier adult.csv --label education --sensitive sex --epsilons 0,0.01,0.02,0.05
      r2b frontier adult.csv --label education --sensitive sex,race --output cost.csv
      r2b frontier 'people/*.parquet' --label job --sensitive sex
    """  # noqa: D301
    path = _path(epsilons, points)
    refuse_idle({"output_format": output is None and "no table is written"})
    with _opened(data, given, {"output": output}) as (writer, meter, source):
        shape = None if output is None else format_for(output, output_format)
        tags = tags_of(source.names, given)
        refuse_idle({"costs": bool(tags) and "changes of tags have no costs here"})
        columns = columns_of(source, given)
        asked = options_of(source.names, given, _classes(source, columns, given))
        asked |= {"progress": meter, "epsilons": path}
        if tags:
            for name in ("costs", "outcomes", "normalize"):
                del asked[name]
            found = r2b.frontier(**rows_of_tags(source, columns, tags), **asked)
        else:
            found = Scan(source).frontier(**columns, **asked)
        each = [asdict(point) for point in found]
        if output is not None and shape is not None:
            table = {name: [point[name] for point in each] for name in each[0]}
            writer.write(output, compress(table_of(table, shape), shape.compression))
            writer.commit()
    solved = all(point.solved for point in found)
    return Done({"data": source.name, "points": each}, str(found), ok=solved)


@group.command("verify", short_help="Check fair labels from the data alone.")
@argument("output")
@takes("certificate", *options.CLAIMS, *options.READING, *options.PRINTING)
def verify_command(output: str, certificate: str | None, **given: Any) -> Done:
    """Check the fair labels in OUTPUT from the data: the bounds, and that no labels are closer.

    No number in the certificate is trusted: it says what was asked for, and holds the prices, from
    which everything is computed again. An edited label, price, number or other column makes this
    fail with code 1. All that is claimed is printed first, and may be true and empty: require what
    you were promised, and with --strict the plain reading of the rest.

    \b
    Examples:
      r2b verify fair.csv
      r2b verify fair.csv --label education --sensitive sex --epsilon 0.01 --strict
      r2b verify labels.parquet --data adult.parquet --certificate labels.parquet.r2b.json
    """  # noqa: D301
    families = families_of(named_in(given["sensitive_features"]), given, None)
    lists = ("label", "sensitive_features", "control_features", "columns")
    required: dict[str, Any] = {
        name: named_in(each) if name in lists else each
        for name, each in given.items()
        if each not in (None, ())
    }
    if given["epsilon"] or given["outcomes"]:
        fair: Any = r2b.load(certificate or beside(output))
        if isinstance(fair, FairTags):
            refuse_idle({"outcomes": "every tag is compared on its own"})
            compared = fair.names.tolist()
        else:
            required["outcomes"] = outcomes_of(given["outcomes"], fair.schema.classes)
            asked = required["outcomes"]
            compared = fair.outcomes.tolist() if asked is None else list(asked.names)
        required["epsilon"] = per_class("--epsilon", given["epsilon"], compared)
    required |= {"families": families, **typed_reading()}
    with Meter() as meter:
        found = r2b.verify(output, certificate, watch=meter, **required)
    return Done(found.to_json(), str(found), ok=found.ok, loud=not found.ok)


@group.group("datasets", cls=Commands, short_help="List and export the data that come with r2b.")
def datasets_group() -> None:
    """List and export the data that come with r2b. Nothing is downloaded.

    \b
    Examples:
      r2b datasets list
      r2b datasets export adult adult.csv
    """  # noqa: D301


@datasets_group.command("list", short_help="List the data sets.")
@takes(*options.PRINTING)
def list_command() -> Done:
    """List the data sets that can be exported.

    \b
    Example:
      r2b datasets list
    """  # noqa: D301
    lines = [f"{name:10}{what}" for name, what in DATASETS.items()]
    return Done({"datasets": DATASETS}, "\n".join(lines))


@datasets_group.command("export", short_help="Write a data set to a file.")
@click.argument("name", type=click.Choice(list(DATASETS)), metavar="NAME")
@argument("output")
@takes("output_format", "force", *options.PRINTING)
def export_command(name: str, output: str, output_format: str | None) -> Done | None:
    """Write the data set NAME to the file OUTPUT; - is standard output.

    \b
    Examples:
      r2b datasets export adult adult.csv
      r2b datasets export adult - --output-format csv | head
    """  # noqa: D301
    _refuse_two_on_output(output)
    shape = format_for("data.csv" if output == "-" else output, output_format)
    table = r2b.datasets.load_adult()
    content = compress(table_of(table.columns, shape), shape.compression)
    if output == "-":
        with click.open_file(output, "wb") as pipe:
            pipe.write(content)
        return None
    with AtomicWriter(force=click.get_current_context().meta["force"]) as writer:
        writer.write(output, content)
        writer.commit()
    columns = list(table.columns)
    facts = {"name": name, "rows": len(table), "columns": columns, "output": output}
    return Done(facts, f"{len(table):,} rows, {len(columns)} columns: {output}")


@group.command("serve", short_help="Open the app in a browser.")
@argument("data", required=False)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; only addresses of this machine are accepted.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port; 0 takes a free one.",
)
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open a browser.")
@click.option(
    "--max-upload",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    metavar="MB",
    help="Largest file that is accepted.",
)
@takes(*options.PRINTING)
def serve_command(
    data: str | None,
    host: str,
    port: int,
    browser: bool,
    max_upload: int,
) -> None:
    """Open the app on this machine, with the file DATA or without one. Ctrl-C stops it.

    \b
    Examples:
      r2b serve
      r2b serve adult.csv --port 8000 --no-browser
    """  # noqa: D301
    from r2b.app import serve

    asked = click.get_current_context().meta

    def announce(address: str) -> None:
        quiet = asked["quiet"]
        if asked["json"]:
            print_json({"address": address})
        elif not (quiet and browser):  # without a browser, only this line tells the address
            click.echo(f"r2b runs at {address}")
            if not quiet:
                click.echo("The data stay on this machine and in memory. Ctrl-C stops it.")
        sys.stdout.flush()

    serve(host, port, path=data, open_browser=browser, max_upload=max_upload, announce=announce)


@contextlib.contextmanager
def _opened(
    data: str,
    given: Mapping[str, Any],
    paths: Mapping[str, str | None],
    *,
    table: bool = False,
    pipe: bool = False,
) -> Iterator[tuple[AtomicWriter, Meter, FileSource]]:
    """Open the data beside what writes files and shows progress; errors name lines of the data.

    Targets are refused before any work is done. The output may be a ``table``, which is a folder
    where the data are one, and a ``pipe``.
    """
    with (
        AtomicWriter(force=click.get_current_context().meta["force"]) as writer,
        Meter() as meter,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", NotSolvedWarning)  # the exit code and the status say it
        source = open_table(data, meter, given.get("threads"))
        writer.keep = (*source.listing.kept, *cost_files(given.get("costs")))
        written = {name: path for name, path in paths.items() if path is not None}
        places = [os.path.realpath(path) for path in written.values() if path != "-"]
        for name, path in written.items():
            if path == "-":
                if pipe and name == "output":
                    continue
                problem = f"`{name}` names no file, and only tables of r2b debias go to a pipe."
                raise ParameterError(problem, remedy="Pass the name of a file.", path=path)
            writer.check(path, folder=table and name == "output" and source.listing.many)
            if places.count(os.path.realpath(path)) > 1:
                problem = f"Two files would be written to {os.path.realpath(path)}."
                raise ParameterError(problem, remedy="Give each a name of its own.", path=path)
        with on_lines(source):
            yield writer, meter, source


def _classes(source: FileSource, columns: dict[str, Any], given: dict[str, Any]) -> Vocabulary:
    return read_classes(source, roles_of(source, **columns), given["missing"])


def _within(limit: float | None, disparities: Sequence[float]) -> bool:
    return limit is None or max(disparities, default=0.0) <= limit


def _files(source: Any) -> list[str]:
    """Return the files of a table that have a checksum: pipes have none."""
    listing = source.listing.parts if isinstance(source, FileSource) else ()
    return [part.path for part in listing if part.held is None]


def _refuse_two_on_output(output: str) -> None:
    if output == "-" and click.get_current_context().meta["json"]:
        raise ParameterError(
            "Both --json and the table would go to standard output.",
            remedy="Leave out --json, or write to a file.",
        )


def _path(epsilons: tuple[str, ...], points: int | None) -> int | list[float]:
    """Return the epsilons of a frontier, or how many there are."""
    if epsilons and points is not None:
        raise ParameterError("Both --epsilons and --points are given.", remedy="Pass one of them.")
    if not epsilons:
        return points or 20
    text = ",".join(epsilons)
    with contextlib.suppress(ValueError):
        numbers = [float(each) for each in text.split(",")]
        if min(numbers) >= 0:
            return numbers
    raise ParameterError(
        f"--epsilons is {text!r}.",
        remedy="Pass numbers of at least 0, such as 0,0.01,0.05.",
        epsilons=text,
    )


def _reports(given: dict[str, Any], *only: str) -> dict[str, str]:
    """Take the options that say where reports go.

    Raises
    ------
    ParameterError
        No report is asked for, but an option that only reports have.
    """
    asked = {name: given.pop(name) for name in ("html", "markdown")}
    wanted = {name: path for name, path in asked.items() if path}
    none = not wanted and "neither `html` nor `markdown` asks for a report"
    refuse_idle(dict.fromkeys(("suppress_below", *only), none))
    return wanted


def _draws(given: dict[str, Any]) -> dict[str, Any]:
    """Take the options of draws."""
    nothing = not given["n_permutations"] and not given["n_boot"] and "nothing is drawn"
    alone = not given["n_boot"] and "there are no intervals"
    refuse_idle({"level": alone, "random_state": nothing})
    return {name: given.pop(name) for name in (*options.DRAWS, "clusters") if name in given}


def _facts(
    scan: Scan,
    columns: dict[str, Any],
    asked: dict[str, Any],
    draws: dict[str, Any],
    found: Audit | None,
    below: int,
    *,
    trace: Mapping[str, Any] | None = None,
    **shown: Any,
) -> dict[str, Any]:
    """Gather the facts of a report: the audit (measured now if it is None), and the fair labels."""
    from r2b.report.facts import SHARED, gathered
    from r2b.report.suppress import suppressed
    from r2b.report.trace import files_of, mark_of, stamp

    roles = roles_of(scan.source, **columns)
    if found is None:
        same = {name: asked[name] for name in (*SHARED, "normalize")}
        listed = asked["families"] if isinstance(asked["families"], list) else "both"
        found = scan.audit(**columns, **same, **draws, families=listed)
    request, settings = request_and_settings(asked)
    data = found.data
    assert data is not None
    counted = roles.categorical and not roles.soft
    mark = {**mark_of(data, "counts" if counted else None), "files": files_of(_files(scan.source))}
    task = Task.of(data, request, settings, asked.get("costs"))
    facts = gathered(
        task,
        found,
        options=asked,
        draws=draws,
        label_name=roles.stem,
        command=command_line(),
        trace={"date": stamp(), "input": mark, **(trace or {})},
        **shown,
    )
    return suppressed(facts, below, found)


def _write_reports(
    writer: AtomicWriter,
    paths: dict[str, str],
    facts: Sequence[Any],
    tags: Sequence[str] = (),
) -> None:
    """Write the report of a label, or those of tags together."""
    from r2b.report.results import Report
    from r2b.report.tables import together

    reports = [Report(each) for each in facts]
    report: Any = together(dict(zip(tags, reports, strict=True))) if tags else reports[0]
    for name, path in paths.items():
        text = report.to_html() if name == "html" else report.to_markdown()
        writer.write(path, text.encode("utf-8"))


def _trace(mark: str, output: str, proof: str) -> dict[str, Any]:
    """Return the checksum of the new columns, and the command that checks them."""
    certificate = "" if proof == beside(output) else f" --certificate {shlex.quote(proof)}"
    name = spelled(os.path.basename(output.rstrip("/")))
    return {
        "output": {"sha256": mark, "of": f"the new columns of {name}"},
        "verify": spelled(f"r2b verify {shlex.quote(output)}{certificate}"),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    if main_thread:  # cleans up like Ctrl-C; by default it would leave files half written
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(Exit.TERMINATED))
    try:
        if sys.stdout is None:
            raise click.UsageError("Standard output is closed. Send it to a file or to /dev/null")
        code = group.main(
            args=typed, prog_name="r2b", standalone_mode=False, obj=typed, color=output.colour()
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else Exit.DONE
    except (SystemExit, click.exceptions.Exit) as ended:
        return int((ended.code if isinstance(ended, SystemExit) else ended.exit_code) or 0)
    except BrokenPipeError:  # a reader such as head goes away early
        _give_up_output()
        return Exit.DONE
    except BaseException as error:
        if "--debug" in typed:
            traceback.print_exc()
        return _failed(error, as_json="--json" in typed)
    finally:
        if main_thread:
            signal.signal(signal.SIGTERM, before)


def _give_up_output() -> None:
    # Python flushes once more on exit; that flush needs somewhere to go.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: BaseException, *, as_json: bool) -> int:
    """Print an error that is not one of ours, and return the exit code."""
    kind, code, asked = type(error).__name__, Exit.WRONG_USE, None
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        click.echo("Stopped. Nothing was left half written.", err=True)
        return Exit.INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return code
    if isinstance(error, click.UsageError):
        problem = one_line(error.format_message())
        problem += "" if problem.endswith((".", "?", "?)")) else "."
        kind, asked = "UsageError", error.ctx
        remedy = "" if asked is None else f"See: {asked.command_path} --help"
    elif isinstance(error, OSError):
        what, remedy = (
            f"{one_line(str(error.filename))} cannot be used",
            "Check the path and the disk.",
        )
        if error.filename is None:  # files are named, so it is ours
            _give_up_output()
            what, remedy = "Standard output cannot be written", "Write to a file, or make room."
            as_json = False
        problem = f"{what}: {error.strerror or error}."
    else:
        problem = f"r2b failed: {kind}: {one_line(str(error))}."
        remedy = "This is a fault of r2b. Please report it, with what --debug prints."
        kind, code = "Fault", Exit.FAULT
    with contextlib.nullcontext() if asked is None else asked.scope(cleanup=False):
        output.print_error(kind, kind.lower(), problem, remedy, as_json=as_json)
    return code
