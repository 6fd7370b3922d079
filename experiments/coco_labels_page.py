"""The section on COCO's labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.experiment import Row
from experiments.figures import HERE, Axis, Panel, Picture, Series, methods_in, points, spoken
from experiments.labelling import METHODS, SPOKEN
from experiments.tables import cell, chosen, markdown

SHOWN: Final = tuple(method for method in METHODS if method != "DPR")
MEASURES: Final = {
    "label_parity": "parity of fitted rows, %",
    "held_out_parity": "parity of held-out rows, %",
    "squared_distance": "squared distance x 100",
    "tv_distance": "distance in total variation, %",
}

DRAWN: Final = {
    "label_parity": "fitted rows",
    "held_out_parity": "held-out rows",
    "squared_distance": "distance moved",
}

_WORDS: Final = """Soft labels as shares of the objects present, 79 classes without person, gender by captions. Each method is fitted on a
random 75 % of the images and applied to them and to the others, with their gender; `squared distance` is the mean of |new - old|^2 per
image, what the paper's problem minimises. Reweighing moves no label: its parity is that of weighted labels, and it has no distance. The
paper has no such table; its bias of the data, 6.2 % (p = 0) and 52.9 % (p = 0.5), is of 22,616 other images with 80 classes and shares of
object counts."""


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    parts = [_WORDS]
    for p in (0.0, 0.5):
        found = chosen(rows, p=p)
        data, chance = cell(found, "data_parity"), cell(found, "chance")
        if data is None or chance is None:
            parts.append(f"### p = {p:g}\n\nNot run.")
            continue
        first = found[0]
        words = f"{first['source']}: {first['n_fitted']:,} images fitted, {first['n_held_out']:,} held out. Parity of the labels as they are, "
        words += f"{data.mean:.1f} %; of held-out labels whose gender is handed out by chance, {chance.mean:.1f} %."
        body = []
        for method in SHOWN:
            cells = [cell(chosen(found, method=method), measure) for measure in MEASURES]
            body.append(
                [
                    SPOKEN.get(method, method),
                    *("" if value is None else value.text(2) for value in cells),
                ]
            )
        parts.append(
            f"### p = {p:g}\n\n{words}\n\n{markdown(['method', *MEASURES.values()], body)}"
        )
    parts += [_normalisation(rows), _unreachable(rows)]
    return "\n\n".join(part for part in parts if part)


def _normalisation(rows: Sequence[Row]) -> str:
    hard, data = (
        cell(chosen(rows, p=0.0, method="HTO"), "label_parity"),
        cell(chosen(rows, p=0.0, method="BL"), "label_parity"),
    )
    if hard is None or data is None:
        return ""
    relation = "more" if hard.mean > data.mean else "less"
    return (
        f"Dividing rows by their sums after debiasing class by class leaves HTO with {hard.mean:.1f} % at p = 0, {relation} than the "
        f"data's {data.mean:.1f} %: on soft labels, hard thresholds and normalisation can do harm before anything is trained. The "
        "paper's HTO is likewise the only method on labels above the baseline there (3.8 against 2.6 %)."
    )


def _unreachable(rows: Sequence[Row]) -> str:
    """Say in how many splits reweighing cannot reach parity."""
    found = [row["label_parity"] for row in chosen(rows, p=0.5, method="RW")]
    short = [value for value in found if value > 1e-6]
    if not short:
        return ""
    return (
        f"Reweighing falls short in {len(short)} of {len(found)} splits at p = 0.5, leaving up to {100 * max(short):.0f} %: where no "
        "image of one gender is left with a class, there is nothing to weigh. Methods that move labels have no such limit."
    )


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw parity of fitted and held-out rows, and how far labels moved, by method."""
    methods = [method for method in methods_in(rows) if method != "DPR"]
    grid = []
    for p in (0.0, 0.5):
        panels = []
        for measure, axis in (
            ("label_parity", Axis("parity (%)", "log")),
            ("held_out_parity", Axis("parity (%)", "log")),
            ("squared_distance", Axis("squared distance x 100")),
        ):
            found = {method: cell(chosen(rows, p=p, method=method), measure) for method in methods}
            chance = cell(chosen(rows, p=p), "chance") if measure == "held_out_parity" else None
            ours = Series(HERE, points((spoken(method), value) for method, value in found.items()))
            title = f"{DRAWN[measure]}, p = {p:g}"
            panels.append(Panel(title, (ours,), axis, None if chance is None else chance.mean))
        grid.append(tuple(panels))
    words = "Mean over splits with 99 % intervals. Parities on logarithmic axes. BL moves no label, reweighing has no distance."
    return (
        {
            "parity": Picture(
                "COCO labels: parity by method, and how far labels moved", words, tuple(grid)
            )
        }
        if rows
        else {}
    )
