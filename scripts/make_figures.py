"""Draw the pictures of the documentation from real runs, as SVG for light and dark pages.

``python scripts/make_figures.py`` writes docs/images; ``--check`` only says whether the files there
are those that would be written.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import r2b  # noqa: E402 - after the path
from experiments.figures import Axis, Panel, Picture, Series, update  # noqa: E402
from experiments.synthetic import biased_groups  # noqa: E402
from r2b.methods import R2B  # noqa: E402
from r2b.metrics import demographic_parity_difference  # noqa: E402

IMAGES = ROOT / "docs" / "images"
EPSILON = 0.01

# A card of its own colour, so that the picture is legible whatever the page around it looks like.
STYLE = """
  .card { fill: #fcfcfb; stroke: #e1e0d9 }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #52514e }
  .title { font-size: 17px; font-weight: 600; fill: #0b0b0b }
  .strong { font-weight: 600; fill: #0b0b0b }
  .small { font-size: 12px }
  .grid { stroke: #e1e0d9 } .axis { stroke: #c3c2b7 }
  .keeps { fill: #2a78d6 } .old { fill: #b5b4ac }
  @media (prefers-color-scheme: dark) {
    .card { fill: #1a1a19; stroke: #383835 }
    text { fill: #c3c2b7 } .title, .strong { fill: #ffffff }
    .grid { stroke: #2c2c2a } .axis { stroke: #4a4a46 }
    .keeps { fill: #3987e5 } .old { fill: #6f6e68 }
  }
"""


def picture(width: int, height: int, title: str, body: list[str]) -> str:
    """Wrap shapes in a card with a style and a description for readers who do not see it."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img">'
    )
    card = f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>'
    return "\n".join(
        [
            head,
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            card,
            *body,
            "</svg>",
            "",
        ]
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{kind}"/>'


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def adult_by_sex_and_race() -> tuple[
    r2b.datasets.AdultTable, dict[str, np.ndarray], r2b.FairLabels
]:
    adult = r2b.datasets.load_adult()
    both = {"sex": adult["sex"], "race": adult["race"]}
    return adult, both, r2b.debias(adult["education"], sensitive_features=both, epsilon=EPSILON)


def means_before_and_after() -> str:
    """Ranges of the ten groups' shares of every level of education, before and after.

    Drawn as wide as a phone, so that it can be read there.
    """
    adult, _, fair = adult_by_sex_and_race()
    proof = fair.certificate
    order = [fair.classes.tolist().index(name) for name in adult.education_order[::-1]]
    width, top, row, left, panel, most = 390, 118, 27, 112, 252, 0.42
    bottom = top + row * len(order)
    body = [
        text(16, 30, "Ten groups come closer", "title"),
        text(16, 52, "Adult: shares of education levels, from the"),
        text(16, 69, "lowest to the highest group of sex and race"),
        '<rect class="old" x="16" y="83" width="18" height="7" rx="3"/>',
        text(40, 91, f"before, up to {100 * proof.disparity_before:.0f} points apart"),
        '<rect class="keeps" x="248" y="83" width="18" height="7" rx="3"/>',
        text(272, 91, f"after, at most {100 * proof.disparity:.0f}"),
    ]
    for tick in (0.0, 0.1, 0.2, 0.3, 0.4):
        x = left + panel * tick / most
        body.append(line(x, top - 8, x, bottom, "axis" if tick == 0 else "grid"))
        body.append(text(x, bottom + 18, f"{100 * tick:.0f} %", "", "middle"))
    for place, k in enumerate(order):
        y = top + row * place
        body.append(text(left - 8, y + 14, str(fair.classes[k]), "", "end"))
        for means, kind, down in ((proof.means_before, "old", 2), (proof.means, "keeps", 11)):
            low, high = (left + panel * end(means[:, k]) / most for end in (np.min, np.max))
            body.append(
                f'<rect class="{kind}" x="{low:.1f}" y="{y + down}"'
                f' width="{max(high - low, 3):.1f}" height="7" rx="3"/>'
            )
    changed = percent(proof.expected_changes)
    body.append(text(16, bottom + 44, f"{changed} of labels change; no labels are closer."))
    return picture(
        width,
        bottom + 60,
        f"Ranges of group shares before and after: disparity {percent(proof.disparity_before)} to"
        f" {percent(proof.disparity)}",
        body,
    )


def disparity_by_round() -> Picture:
    """Disparity of training labels against ADMM rounds: the paper's figure 3."""
    y = np.repeat(np.arange(16), 1_000)
    groups = biased_groups(y, np.random.default_rng(0))
    before = demographic_parity_difference(y, sensitive_features=groups)
    series = []
    for epsilon in (0.0, 0.025, 0.05, 0.075, 0.1):
        history = R2B(epsilon).fit(y, sensitive_features=groups).history_
        points = tuple(
            (float(t), 100 * step.disparity, None) for t, step in enumerate(history, start=1)
        )
        series.append(Series(f"epsilon {100 * epsilon:g} %", points))
    words = (
        "Synthetic labels of the paper, 16 classes, 5 groups; disparity before is"
        f" {percent(before)}. Exact steps, tau = 0.5."
    )
    panel = Panel("", tuple(series), Axis("disparity of the labels (%)", zero=True))
    return Picture(
        "Disparity of the training labels, round by round",
        words,
        ((panel,),),
        Axis("ADMM round", ticks=(1.0, 25.0, 50.0, 75.0, 100.0)),
    )


FIGURES = {
    "group-means.svg": means_before_and_after,
    "rounds.svg": disparity_by_round,
}


def main(arguments: list[str] | None = None) -> int:
    """Draw or check."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    return update({IMAGES / name: draw() for name, draw in FIGURES.items()}, arguments)


if __name__ == "__main__":
    sys.exit(main())
