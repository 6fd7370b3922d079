"""Files from rows: the tables and figures of one experiment, and the page on all of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

from experiments import MODULES, adult_page, coco, find
from experiments.claims import Results
from experiments.claims import section as claims
from experiments.experiment import OWN_COLUMNS, Experiment, Row
from experiments.journal import read_results, results_path
from experiments.summary import differences
from experiments.summary import section as in_short
from experiments.tables import cell, markdown

WIDTH = 140
# How far a row that is computed again on another machine may be from the stored one: measures of
# labels, and of what a learner predicts.
LABELS_AGREE = 1e-9
PREDICTIONS_AGREE = 1e-3

_HEAD = """\
# The paper's experiments, rerun

This page is generated from the files in `results/`: `python -m experiments page` writes it, and a test compares. Every number is a mean over
rows of a file; a row holds its configuration, its seed and the versions of the packages. All numbers are in percent where nothing else is
said. `make reproduce` runs everything again, which takes hours; `make reproduce-quick` runs small settings in two minutes, to see that the
code works.
"""

_AGAIN = f"""\
## Running it again

`experiments.rerun(row)` computes a stored row again. On the same machine only times differ. On another processor libraries add in another
order: measures of labels agree to {LABELS_AGREE:.0e}, measures of predictions to {PREDICTIONS_AGREE:g}, since a tree decides between splits of equal gain by
the last bit. Tests hold reruns to both. Rows of the synthetic forests, of Proposition 2 and of the forest per class on complete rows of Adult
are older than the code: their trees cut features into 128 or 256 bins, where scikit-learn's cut anywhere. Of twelve such rows that were
computed again, disparities differ by up to 0.9 points on synthetic data and 0.05 on Adult, accuracies by up to 0.7 and 0.1. The data of COCO and dermatology are not part of the package: name their folder by `--data` or
`R2B_DATA`; without it these experiments are left out, and their tests skip.
"""

_QUICK = """\
A run of the small setting, to see that the code works. It is not compared with the paper: rows, trees, epochs or seeds are fewer than the
paper's. Settings:
"""


def write_files(
    experiment: Experiment, rows: Sequence[Row], folder: Path, *, quick: bool = False
) -> list[Path]:
    """Write an experiment's tables as Markdown and its figures as SVG, beside its results file.

    The small setting gets one table of its settings and means, and no figure.

    Returns
    -------
    list of Path
        What was written.
    """
    page = folder / f"{experiment.name}.md"
    text = _wrapped(_small(experiment, rows) if quick else _grid(experiment, rows))
    page.write_text(text + "\n", encoding="utf-8")
    written = [page]
    for stem, drawing in ({} if quick else experiment.figures(rows)).items():
        path = folder / f"{experiment.name}-{stem}.svg"
        path.write_text(drawing.svg(), encoding="utf-8")
        written.append(path)
    return written


def _small(experiment: Experiment, rows: Sequence[Row]) -> str:
    """Write the means of a small run by configuration, with the settings that all rows share."""
    settings = [json.loads(row["configuration"]) for row in rows]
    names = list(dict.fromkeys(name for each in settings for name in each))
    fixed = {
        name: settings[0].get(name)
        for name in names
        if len({each.get(name) for each in settings}) == 1
    }
    varied = [name for name in names if name not in fixed]
    measures = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if name not in (*OWN_COLUMNS, *names)
        and any(isinstance(row.get(name), float) for row in rows)
    ]
    body: dict[str, list[Row]] = {}
    for row in rows:
        body.setdefault(row["configuration"], []).append(row)
    lines = []
    for configuration, found in body.items():
        known = json.loads(configuration)
        cells = [
            f"{cell(found, measure, 1.0).mean:.3g}"
            if any(row.get(measure) is not None for row in found)
            else ""
            for measure in measures
        ]
        lines.append(
            ["" if known.get(name) is None else str(known[name]) for name in varied] + cells
        )
    seeds = sorted({row["seed"] for row in rows})
    shared = {**{k: v for k, v in fixed.items() if v is not None}, "seeds": len(seeds)}
    said = "\n".join(f"- {name}: {value}" for name, value in shared.items())
    return "\n".join(
        [
            f"## {experiment.title}, small setting",
            "",
            _QUICK,
            said,
            "",
            markdown([*varied, *measures], lines),
        ]
    )


def _grid(experiment: Experiment, rows: Sequence[Row]) -> str:
    seeds = len({row["seed"] for row in rows})
    source = f"Source: `{experiment.name}.parquet`, {len(rows):,} rows, {seeds} seed{'s' if seeds > 1 else ''}."
    drawn = experiment.figures(rows).items()
    drawings = "\n\n".join(
        f"![{picture.title}]({experiment.name}-{stem}.svg)" for stem, picture in drawn
    )
    return "\n\n".join(
        part
        for part in (f"## {experiment.title}", source, experiment.section(rows), drawings)
        if part
    )


def page_of(results: Path, images: str = "../results/") -> str:
    """Write the page from the results files of a folder.

    Parameters
    ----------
    results : Path
    images : str
        Where figures are, seen from the page.
    """
    there = {
        name: read_results(results_path(results, name))
        for name in MODULES
        if results_path(results, name).exists()
    }
    parts = [_HEAD, in_short(there), claims(there)]
    if "adult" in there:
        parts.append(_adult(there["adult"]))
    if "coco" in there:
        parts.append(_coco(there["coco"]))
    parts += [_figures(there, images), _AGAIN]
    return "\n".join(f"{_wrapped(part).rstrip()}\n" for part in parts)


def _wrapped(text: str) -> str:
    """Fill paragraphs and list items; tables, headings and pictures stay as they are."""
    lines: list[str] = []
    paragraph: list[str] = []

    def fill() -> None:
        if paragraph:
            indent = "  " if paragraph[0].startswith("- ") else ""
            lines.extend(
                textwrap.wrap(
                    " ".join(line.strip() for line in paragraph),
                    WIDTH,
                    subsequent_indent=indent,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
            paragraph.clear()

    for line in text.splitlines():
        if not line.strip() or line.startswith(("|", "#", "!", "- ")):
            fill()
        if line.strip() and not line.startswith(("|", "#", "!")):
            paragraph.append(line)
        else:
            lines.append(line)
    fill()
    return "\n".join(lines)


def _adult(rows: Sequence[Row]) -> str:
    marks = "✓ where the 99 % intervals overlap (the paper's rounding added), ✗ where they do not; **bold** by the paper's rule."
    return "\n\n".join(
        [
            f"## Adult\n\n{adult_page.choices(rows)}",
            f"Disparity of the training labels: {adult_page.data_words(rows)}. Each cell has our number and the paper's in brackets: {marks}",
            *(
                f"### {adult_page.TITLES[measure]}\n\n{adult_page.table(rows, measure)}"
                for measure in ("parity", "top_1")
            ),
            f"### Numbers of the paper within the intervals\n\n{adult_page.counts(rows)}",
            "Top-2 and top-3 accuracy, error parity and methods that the paper does not have: `results/adult.md`.",
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
    more = "Choices, and top-1 to top-3: `results/coco.md`. Two skin tables stand in for dermatology: `results/dermatology.md`."
    return f"## COCO, on available images\n\n{said}\n\n{tables}\n\n{more}"


def _figures(there: Results, images: str) -> str:
    parts = [
        "## Figures and grids\n\nThe tables of every experiment are in `results/`, written from the Parquet file of the same name. Every figure has its numbers in its description."
    ]
    for name, rows in there.items():
        experiment = find(name)
        parts.append(f"### {experiment.title}\n\nTables: `results/{name}.md`.")
        parts += [
            f"![{picture.title}]({images}{name}-{stem}.svg)"
            for stem, picture in experiment.figures(rows).items()
        ]
    return "\n\n".join(parts)


def draw_png(drawing: Path) -> Path | None:
    """Turn an SVG file into a PNG of the same name by a browser without a window.

    Returns
    -------
    Path or None
        None where no Chromium or Chrome is installed.
    """
    browser = next(
        (
            found
            for name in ("chromium", "chromium-browser", "google-chrome")
            if (found := shutil.which(name))
        ),
        None,
    )
    if browser is None:
        return None
    target = drawing.with_suffix(".png").resolve()
    head = drawing.read_text(encoding="utf-8").split("viewBox=", 1)[1].split('"')[1].split()
    with tempfile.TemporaryDirectory() as profile:
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
            "--hide-scrollbars",
        ]
        command += [
            "--force-device-scale-factor=2",
            f"--window-size={head[2]},{head[3]}",
            f"--screenshot={target}",
            drawing.resolve().as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    return target
