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
from r2b.metrics import demographic_parity_difference, group_means  # noqa: E402

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
  .span { stroke: #c3c2b7; stroke-width: 5; stroke-linecap: round }
  .f { fill: #eb6834 } .m { fill: #2a78d6 }
  .dot { fill-opacity: .85; stroke: #fcfcfb; stroke-width: 1 }
  .keeps { fill: #2a78d6 } .loses { fill: #e34948 } .old { fill: #b5b4ac }
  @media (prefers-color-scheme: dark) {
    .card { fill: #1a1a19; stroke: #383835 }
    text { fill: #c3c2b7 } .title, .strong { fill: #ffffff }
    .grid { stroke: #2c2c2a } .axis { stroke: #4a4a46 } .span { stroke: #4a4a46 }
    .f { fill: #f0794a } .m { fill: #3987e5 } .dot { stroke: #1a1a19 }
    .keeps { fill: #3987e5 } .loses { fill: #e66767 } .old { fill: #6f6e68 }
  }
"""


def picture(width: int, height: int, title: str, body: list[str]) -> str:
    """Wrap shapes in a card with a style and a description for readers who do not see it."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
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
    """Group means of education by sex and race, before on the left and after on the right."""
    adult, both, fair = adult_by_sex_and_race()
    proof = fair.certificate
    weights = group_means(adult["education"], sensitive_features=both).weights
    order = [fair.classes.tolist().index(name) for name in adult.education_order[::-1]]
    width, height, top, row = 920, 576, 104, 25
    panel, lefts, most = 352, (118, 534), 0.45
    body = [
        text(
            20, 32, "Education by sex and race: the mean of every group, before and after", "title"
        ),
        text(
            20,
            54,
            f"Adult, {len(adult):,} people, 16 classes, 10 groups. A dot is a group, larger for more people.",
        ),
    ]
    for left, means, heading in (
        (lefts[0], proof.means_before, f"Before: disparity {percent(proof.disparity_before)}"),
        (lefts[1], proof.means, f"After: disparity {percent(proof.disparity)}"),
    ):
        body.append(text(left, 84, heading, "strong"))
        bottom = top + row * len(order)
        for tick in (0.0, 0.1, 0.2, 0.3, 0.4):
            x = left + panel * tick / most
            body.append(line(x, top - 8, x, bottom, "axis" if tick == 0 else "grid"))
            body.append(text(x, bottom + 18, f"{100 * tick:.0f} %", "small", "middle"))
        for place, k in enumerate(order):
            y = top + row * (place + 0.5)
            if left == lefts[0]:
                body.append(text(left - 12, y + 4, str(fair.classes[k]), "small", "end"))
            xs = left + panel * means[:, k] / most
            body.append(line(xs.min(), y, xs.max(), y, "span"))
            for s in np.argsort(-weights):
                sex = "f" if "sex=Female" in fair.groups[s] else "m"
                radius = 2.4 + 5.2 * float(np.sqrt(weights[s] / weights.max()))
                body.append(
                    f'<circle class="dot {sex}" cx="{xs[s]:.1f}" cy="{y:g}" r="{radius:.1f}"/>'
                )
    foot = height - 20
    body += [f'<circle class="f" cx="24" cy="{foot - 4}" r="5"/>', text(34, foot, "women")]
    body += [f'<circle class="m" cx="92" cy="{foot - 4}" r="5"/>', text(102, foot, "men")]
    proven = "proven: duality gap below 1e-9" if proof.holds else "not proven"
    words = f"epsilon = {EPSILON:g}: {percent(proof.expected_changes)} of labels expected to change, and no labels are closer ({proven})"
    body.append(text(width - 20, foot, words, "", "end"))
    return picture(
        width,
        height,
        f"Group means before and after: disparity {percent(proof.disparity_before)} to {percent(proof.disparity)}",
        body,
    )


def ways_out() -> str:
    """Parity of the labels in every form they may leave in, and of the argmax that undoes it."""
    adult, both, fair = adult_by_sex_and_race()
    y, soft = adult["education"], fair.soft_labels
    rows, expanded, weight = fair.expand()
    repeated = {name: column[rows] for name, column in both.items()}
    bars = [
        (
            "before",
            "as they came",
            "old",
            demographic_parity_difference(y, sensitive_features=both),
        ),
        (
            "soft",
            "probabilities",
            "keeps",
            demographic_parity_difference(soft, sensitive_features=both),
        ),
        (
            "expand",
            "weighted rows",
            "keeps",
            demographic_parity_difference(
                expanded, sensitive_features=repeated, sample_weight=weight
            ),
        ),
        (
            "round",
            "one class per row",
            "keeps",
            demographic_parity_difference(fair.round(random_state=0), sensitive_features=both),
        ),
        (
            "sample",
            "one class per row",
            "keeps",
            demographic_parity_difference(fair.sample(random_state=0), sensitive_features=both),
        ),
        (
            "argmax",
            "the trap",
            "loses",
            demographic_parity_difference(
                fair.classes[soft.argmax(axis=1)], sensitive_features=both
            ),
        ),
    ]
    width, left, top, row = 760, 210, 70, 36
    height = top + row * len(bars) + 44
    scale = (width - left - 90) / max(value for *_, value in bars)
    body = [
        text(20, 32, "Parity by the form in which the labels leave", "title"),
        text(
            20, 54, f"Adult, education by sex and race, epsilon = {EPSILON:g}. Smaller is fairer."
        ),
    ]
    for place, (name, what, kind, value) in enumerate(bars):
        y0 = top + row * place + 6
        body += [text(20, y0 + 16, name, "strong"), text(92, y0 + 16, what, "small")]
        body.append(
            f'<rect class="{kind}" x="{left}" y="{y0}" width="{max(value * scale, 1):.1f}" height="22" rx="3"/>'
        )
        body.append(text(left + value * scale + 8, y0 + 16, percent(value), "strong"))
    body.append(line(left, top, left, top + row * len(bars) + 4, "axis"))
    smallest = int(group_means(y, sensitive_features=both).weights.min())
    words = f"round and sample give whole rows, and the smallest group has {smallest} people: one of them is {percent(1 / smallest)}."
    body.append(text(20, height - 18, words, "small"))
    return picture(
        width,
        height,
        "Parity of soft, expanded, rounded and sampled labels, and of their argmax",
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
    words = f"Synthetic labels of the paper, 16 classes, 5 groups; disparity before is {percent(before)}. Exact steps, tau = 0.5."
    panel = Panel("", tuple(series), Axis("disparity of the labels (%)", zero=True))
    return Picture(
        "Disparity of the training labels, round by round",
        words,
        ((panel,),),
        Axis("ADMM round", ticks=(1.0, 25.0, 50.0, 75.0, 100.0)),
    )


FIGURES = {
    "group-means.svg": means_before_and_after,
    "ways-out.svg": ways_out,
    "rounds.svg": disparity_by_round,
}


def main(arguments: list[str] | None = None) -> int:
    """Draw or check."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    return update({IMAGES / name: draw() for name, draw in FIGURES.items()}, arguments)


if __name__ == "__main__":
    sys.exit(main())
