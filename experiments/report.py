"""Files from rows: the tables and figures of one experiment, and the page on all of them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments import adult_page, coco
from experiments.claims import Results
from experiments.claims import section as claims
from experiments.experiment import NAMES, OWN_COLUMNS, Experiment, Row, find
from experiments.figures import Picture
from experiments.journal import read_results, results_path
from experiments.summary import differences
from experiments.summary import section as in_short
from experiments.tables import cell, grouped, markdown

WIDTH = 140
# How far a row that is computed again on another machine may be from the stored one: measures of
# labels, and of what a learner predicts.
LABELS_AGREE = 1e-9
PREDICTIONS_AGREE = 1e-3

_HEAD = """\
# The paper's experiments, rerun

This page is generated from the files in `results/`: `python -m experiments page` writes it, and a
test compares. Every number is a mean over rows of a file; a row holds its configuration, its seed
and the versions of the packages. All numbers are in percent where nothing else is said. `make
reproduce` runs everything again, which takes hours; `make reproduce-quick` runs small settings in
two minutes, to see that the code works.
"""

_AGAIN = f"""\
## Running it again

`experiments.rerun(row)` computes a stored row again. On the same machine only times differ. On
another processor libraries add in another order: measures of labels agree to {LABELS_AGREE:.0e},
measures of predictions to {PREDICTIONS_AGREE:g}, since a tree decides between splits of equal gain
by the last bit. Tests hold reruns to both. Rows of the synthetic forests, of Proposition 2 and of
the forest per class on complete rows of Adult are older than the code: their trees cut features
into 128 or 256 bins, where scikit-learn's cut anywhere. Of twelve such rows that were computed
again, disparities differ by up to 0.9 points on synthetic data and 0.05 on Adult, accuracies by up
to 0.7 and 0.1. The data of COCO and dermatology are not part of the package: name their folder by
`--data` or `R2B_DATA`; without it these experiments are left out, and their tests skip.
"""

_QUICK = """\
A run of the small setting, to see that the code works. It is not compared with the paper: rows,
trees, epochs or seeds are fewer than the paper's. Settings:
"""


def write_files(
    experiment: Experiment, rows: Sequence[Row], folder: Path, *, quick: bool = False
) -> None:
    """Write an experiment's tables as Markdown and its figures as SVG, beside its results file.

    The small setting gets one table of its settings and means, and no figure.
    """
    drawn = {} if quick else experiment.figures(rows)
    text = _small(experiment, rows) if quick else _full(experiment, rows, drawn)
    (folder / f"{experiment.name}.md").write_text(_wrapped(text) + "\n", encoding="utf-8")
    for stem, picture in drawn.items():
        path = folder / f"{experiment.name}-{stem}.svg"
        path.write_text(picture.svg(), encoding="utf-8")


def _small(experiment: Experiment, rows: Sequence[Row]) -> str:
    """Write the means of a small run by configuration, with the settings that all rows share."""
    settings = {text: json.loads(text) for (text,) in grouped(rows, "configuration")}
    names = list(dict.fromkeys(name for each in settings.values() for name in each))
    varied = [
        name for name in names if len({str(each.get(name)) for each in settings.values()}) > 1
    ]
    measures = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if name not in (*OWN_COLUMNS, *names)
        and any(isinstance(row.get(name), float) for row in rows)
    ]
    lines = []
    for (text,), found in grouped(rows, "configuration").items():
        known = [settings[text].get(name) for name in varied]
        means = [
            (
                f"{cell(found, measure, 1.0).mean:.3g}"
                if any(row.get(measure) is not None for row in found)
                else ""
            )
            for measure in measures
        ]
        lines.append([*("" if value is None else str(value) for value in known), *means])
    first = next(iter(settings.values()))
    shared = {name: first[name] for name in names if name not in varied and first[name] is not None}
    shared["seeds"] = len(grouped(rows, "seed"))
    said = "\n".join(f"- {name}: {value}" for name, value in shared.items())
    table = markdown([*varied, *measures], lines)
    return f"## {experiment.title}, small setting\n\n{_QUICK}\n{said}\n\n{table}"


def _full(experiment: Experiment, rows: Sequence[Row], drawn: Mapping[str, Picture]) -> str:
    seeds = len(grouped(rows, "seed"))
    source = (
        f"Source: `{experiment.name}.parquet`, {len(rows):,} rows, {seeds} seed{'s' * (seeds > 1)}."
    )
    pictures = _pictures(experiment.name, drawn)
    parts = [f"## {experiment.title}", source, experiment.section(rows), *pictures]
    return "\n\n".join(parts)


def _pictures(name: str, drawn: Mapping[str, Picture], folder: str = "") -> list[str]:
    return [f"![{picture.title}]({folder}{name}-{stem}.svg)" for stem, picture in drawn.items()]


def write_page(results: Path) -> None:
    """Write tables and figures of every results file, and docs/reproduction.md if docs exist."""
    for name, rows in results_of(results).items():
        write_files(find(name), rows, results)
    if Path("docs").is_dir():
        Path("docs", "reproduction.md").write_text(page_of(results), encoding="utf-8")


def results_of(folder: Path) -> Results:
    """Read the results files of a folder."""
    paths = {name: results_path(folder, name) for name in NAMES}
    return {name: read_results(path) for name, path in paths.items() if path.exists()}


def page_of(folder: Path) -> str:
    """Write the page from the results files of a folder."""
    there = results_of(folder)
    parts = [_HEAD, in_short(there), claims(there)]
    if "adult" in there:
        parts.append(_adult(there["adult"]))
    if "coco" in there:
        parts.append(_coco(there["coco"]))
    parts += [_figures(there), _AGAIN]
    return "\n".join(f"{_wrapped(part).rstrip()}\n" for part in parts)


def _wrapped(text: str) -> str:
    """Fill paragraphs and list items; tables, headings and pictures stay as they are."""
    paragraphs: list[str] = []
    goes_on = False
    for line in text.splitlines():
        is_text = bool(line.strip()) and not line.startswith(_FIXED)
        if goes_on and is_text and not line.startswith("- "):
            paragraphs[-1] += f" {line.strip()}"
        else:
            paragraphs.append(line)
        goes_on = is_text
    return "\n".join(each if each.startswith(_FIXED) else _filled(each) for each in paragraphs)


_FIXED = ("|", "#", "!")


def _filled(paragraph: str) -> str:
    return textwrap.fill(
        paragraph,
        WIDTH,
        subsequent_indent="  " if paragraph.startswith("- ") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _adult(rows: Sequence[Row]) -> str:
    marks = (
        "✓ where the 99 % intervals overlap (the paper's rounding added), ✗ where they do not;"
        " **bold** by the paper's rule."
    )
    return "\n\n".join(
        [
            f"## Adult\n\n{adult_page.choices(rows)}",
            (
                f"Disparity of the training labels: {adult_page.data_words(rows)}. Each cell has"
                f" our number and the paper's in brackets: {marks}"
            ),
            *(
                f"### {adult_page.TITLES[measure]}\n\n{adult_page.table(rows, measure)}"
                for measure in ("parity", "top_1")
            ),
            f"### Numbers of the paper within the intervals\n\n{adult_page.counts(rows)}",
            (
                "Top-2 and top-3 accuracy, error parity and methods that the paper does not have:"
                " `results/adult.md`."
            ),
            f"### What differs, and what was tried\n\n{differences(rows)}",
        ]
    )


def _coco(rows: Sequence[Row]) -> str:
    measures = ("parity", "tv_accuracy", "error_parity")
    tables = "\n\n".join(
        f"**p = {p:g}.** {coco.words(rows, p)}\n\n{coco.table(rows, p, measures=measures)}"
        for p in (0.0, 0.5)
    )
    said = coco.section(rows).split("\n\n", 1)[0]
    more = (
        "Choices, and top-1 to top-3: `results/coco.md`. Two skin tables stand in for dermatology:"
        " `results/dermatology.md`."
    )
    return f"## COCO, on available images\n\n{said}\n\n{tables}\n\n{more}"


def _figures(there: Results) -> str:
    parts = [
        "## Figures and grids\n\nThe tables of every experiment are in `results/`, written from the"
        " Parquet file of the same name. Every figure has its numbers in its description."
    ]
    for name, rows in there.items():
        experiment = find(name)
        parts.append(f"### {experiment.title}\n\nTables: `results/{name}.md`.")
        parts += _pictures(name, experiment.figures(rows), "../results/")
    return "\n\n".join(parts)
