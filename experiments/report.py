"""Files from rows: the tables and figures of one experiment, and the page that puts all of them beside the paper."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from experiments import MODULES, find
from experiments.claims import section as claims
from experiments.experiment import Experiment, Row
from experiments.journal import read_results, results_path
from experiments.summary import section as in_short

# How far a row that is computed again on another machine may be from the stored one: measures of
# labels, and of what a learner predicts.
LABELS_AGREE = 1e-9
PREDICTIONS_AGREE = 1e-3

_HEAD = f"""# The paper's experiments, rerun

This page is generated from the results files in `results/`: `python -m experiments page` writes it, and a test compares. Every number
is a mean over rows of the file named in its section; a row holds its configuration, its seed and the versions of the packages, and
`experiments.rerun(row)` computes it again.

A row follows from its configuration and seed; on the same machine only times differ. On another processor the libraries of
linear algebra add in another order, and the last bits of labels differ. Measures of labels (`data_parity`, `label_parity`, and all of the
experiments that train nothing) then agree to {LABELS_AGREE:.0e}, of the number itself where that is above 1. Measures of predictions agree
to {PREDICTIONS_AGREE:g}, one in the last digit of a percentage below: a tree decides between splits of equal gain by such a bit, and sends
some test rows another way (a stored row of a forest differed by 6e-7 on another processor). Labels by visible groups come after such a
tree and count as predictions. Tests hold reruns to both.
"""


def write_files(experiment: Experiment, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write an experiment's tables as Markdown and its figures as SVG, beside its results file.

    Returns
    -------
    list of Path
        What was written.
    """
    page = folder / f"{experiment.name}.md"
    page.write_text(_part(experiment, rows, images="") + "\n", encoding="utf-8")
    written = [page]
    for stem, drawing in experiment.figures(rows).items():
        path = folder / f"{experiment.name}-{stem}.svg"
        path.write_text(drawing.svg(), encoding="utf-8")
        written.append(path)
    return written


def page_of(results: Path, images: str = "../results/") -> str:
    """Write the page from the results files of a folder.

    Parameters
    ----------
    results : Path
    images : str
        Where the figures are, seen from the page.
    """
    there = {
        name: read_results(results_path(results, name))
        for name in MODULES
        if results_path(results, name).exists()
    }
    parts = [_HEAD, in_short(there), claims(there)]
    for name in MODULES:
        experiment, path = find(name), results_path(results, name)
        if path.exists():
            parts.append(_part(experiment, there[name], images))
        else:
            parts.append(f"## {experiment.title}\n\nNot run: there is no `{path.name}`.")
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def _part(experiment: Experiment, rows: Sequence[Row], images: str) -> str:
    seeds = len({row["seed"] for row in rows})
    source = f"Source: `{experiment.name}.parquet`, {len(rows):,} rows, {seeds} seed{'s' if seeds > 1 else ''}."
    drawn = experiment.figures(rows).items()
    drawings = "\n\n".join(
        f"![{picture.title}]({images}{experiment.name}-{stem}.svg)" for stem, picture in drawn
    )
    return "\n\n".join(
        part
        for part in (f"## {experiment.title}", source, experiment.section(rows), drawings)
        if part
    )


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
