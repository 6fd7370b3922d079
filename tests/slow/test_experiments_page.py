"""The page: generated from committed results, verdicts as defined, numbers that come out again."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from reruns import assert_agrees, assert_comes_out_again

from experiments import MODULES, coco, find, paper_numbers
from experiments.adult import run as adult_run
from experiments.adult import split_of
from experiments.adult_page import SETTINGS, bold_there
from experiments.experiment import Row
from experiments.figures import Axis, Panel, Picture, Series
from experiments.journal import read_results, results_path
from experiments.labelling import LABEL_METHODS, METHODS, VISIBLE
from experiments.paper_numbers import ADULT, Value
from experiments.report import page_of
from experiments.synthetic import biased_groups, sample_of
from experiments.synthetic import run as synthetic_run
from experiments.tables import Cell, beside, boldface, cell, chosen, lower, paired, verdict
from r2b.errors import ParameterError

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"

needs_results = pytest.mark.skipif(
    not results_path(RESULTS, "adult").exists(),
    reason="the results files are not part of this distribution",
)


@needs_results
def test_the_page_is_what_the_results_files_say() -> None:
    assert (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8") == page_of(RESULTS)


@needs_results
@pytest.mark.parametrize("name", [name for name in MODULES if results_path(RESULTS, name).exists()])
def test_figures_are_what_the_results_files_say(name: str) -> None:
    drawn = find(name).figures(read_results(results_path(RESULTS, name)))
    assert {path.name for path in RESULTS.glob(f"{name}-*.svg")} == {
        f"{name}-{stem}.svg" for stem in drawn
    }
    for stem, picture in drawn.items():
        facts, texts = read_svg((RESULTS / f"{name}-{stem}.svg").read_text(encoding="utf-8"))
        assert facts == picture.facts
        names = {
            str(place) if picture.along is None else series.name
            for each in picture.panels
            for series in each.series
            for place, *_ in series.points
        }
        titles = {
            title for each in picture.panels for title in (each.title, each.value.title) if title
        }
        assert {picture.title, *names, *titles} <= texts


def read_svg(drawing: str) -> tuple[str, set[str]]:
    """Return the numbers that a picture says it shows, and every text that is drawn: what no version of matplotlib changes."""
    root = ElementTree.fromstring(drawing)
    assert set(re.findall(r'(?:url\(#|href="#)([^)"]*)', drawing)) <= {
        str(part.get("id")) for part in root.iter()
    }
    kind = "{http://www.w3.org/2000/svg}"
    [said] = root.findall(f"{kind}desc")
    return str(said.text), {"".join(text.itertext()) for text in root.iter(f"{kind}text")}


def row_of(name: str, seed: int, **wanted: object) -> Row:
    [row] = chosen(read_results(results_path(RESULTS, name)), seed=seed, **wanted)
    return row


SMALL = {"classes": 4, "features": 10, "per_class": 1_000}


@needs_results
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("rounds", {"seed": 4, "classes": 16, "per_class": 2_000, "epsilon": 0.05, "target": None}),
        (
            "rounds",
            {"seed": 2, "classes": 4, "per_class": 1_000, "epsilon": 0.0, "target": "population"},
        ),
        (
            "synthetic",
            {"seed": 0, **SMALL, "learner": "knn", "method": "Exact", "attribute": "feature"},
        ),
        (
            "synthetic",
            {"seed": 7, **SMALL, "learner": "knn", "method": "RW", "attribute": "hidden"},
        ),
        (
            "synthetic",
            {"seed": 9, **SMALL, "learner": "knn", "method": "DPR", "attribute": "hidden"},
        ),
        (
            "synthetic",
            {"seed": 5, **SMALL, "learner": "knn", "method": "Visible", "attribute": "hidden"},
        ),
        (
            "convergence",
            {"seed": 0, "table": "Adult, sex", "target": "population", "epsilon": 0.05, "tau": 2.0},
        ),
        (
            "normalising",
            {"seed": 6, "kind": "labels", "classes": 4, "per_class": 2_000, "method": "OST"},
        ),
        ("appendix_balance", {"seed": 8, "classes": 64, "size": 4_000}),
        ("guarantee", {"seed": 1, "classes": 4, "features": 10, "learner": "knn"}),
        ("adult", {"seed": 3, "learner": "knn", "p": 0.5, "method": "HTO", "missing": None}),
    ],
)
def test_a_row_comes_out_again(name: str, wanted: dict[str, object]) -> None:
    seed = wanted.pop("seed")
    row = row_of(name, seed, **wanted)  # type: ignore[arg-type]
    assert_comes_out_again(row)


@needs_results
def test_a_rerun_that_is_off_is_seen() -> None:
    row = row_of("adult", 3, learner="rf", p=0.5, method="HTO", missing=None)
    assert_agrees({**row, "parity": row["parity"] + 6e-7, "top_2": row["top_2"] + 8.8e-5}, row)
    for wrong in (
        {"parity": row["parity"] + 2e-3},
        {"label_parity": row["label_parity"] + 1e-8},
        {"method": "OST"},
    ):
        with pytest.raises(AssertionError):
            assert_agrees({**row, **wrong}, row)


def test_verdicts_follow_their_definition() -> None:
    paper = Value(3.8, 0.2)
    # 0.1 of ours, 0.2 of the paper's, 0.05 of its rounding.
    means = [3.46, 3.44, 4.14, 4.16]
    assert [verdict(Cell(mean, 0.1, 10), paper).split()[1] for mean in means] == [
        "overlap",
        "apart",
        "overlap",
        "apart",
    ]
    assert verdict(Cell(50.3, 0.3, 10), Value(48.0)) == "intervals apart"
    assert beside(Cell(3.75, 0.12, 10), paper) == "3.8 ± 0.1 (3.8 ± 0.2) ✓"
    assert beside(Cell(3.75, 0.12, 10), Value(4.4, 0.1), bold=True) == "**3.8 ± 0.1** (4.4 ± 0.1) ✗"


def test_boldface_is_the_papers_own() -> None:
    # Table 1 prints DPR, R2B, R2B, R2B in bold, Table 2 R2B twice.
    assert [bold_there(p, learner) for p, learner in SETTINGS] == ["DPR", "R2B", "R2B", "R2B"]
    for p in (0.0, 0.5):
        printed = [
            {m: coco.PAPER[measure, p, m] for m in paper_numbers.METHODS}
            for measure in ("parity", "tv_accuracy")
        ]
        assert boldface(*printed) == "R2B"
    parity = {"A": Cell(1.0, 0.2, 10), "B": Cell(1.3, 0.2, 10), "C": Cell(1.6, 0.3, 10)}
    accuracy = {"A": Cell(30.0, 1.0, 10), "B": Cell(31.0, 1.0, 10), "C": Cell(40.0, 1.0, 10)}
    assert boldface(parity, accuracy) == "B"


def test_an_interval_is_students() -> None:
    from scipy import stats

    values = [0.11, 0.13, 0.12, 0.16]
    found = cell([{"m": value} for value in values], "m", scale=1.0)
    low, high = stats.t.interval(0.99, 3, loc=0.13, scale=stats.sem(values))
    assert (found.mean, found.half_width) == (
        pytest.approx(0.13),
        pytest.approx((high - low) / 2, rel=1e-4),
    )


def test_the_papers_numbers_are_in_their_places() -> None:
    assert len(ADULT) == 5 * 2 * 2 * 6
    assert ADULT["parity", 0.5, "rf", "R2B"] == Value(1.0, 0.2)
    assert ADULT["top_1", 0.0, "knn", "DPR"] == Value(33.4, 0.3)
    assert ADULT["top_3", 0.5, "knn", "OST"] == Value(53.4, 11.8)
    assert ADULT["error_parity", 0.5, "knn", "R2B"] == Value(31.3, 0.7)


def test_adult_is_split_alike_with_and_without_bias() -> None:
    plain, biased = (
        split_of({"order": "education-num", "rows": None, "p": p}, 3) for p in (0.0, 0.5)
    )
    assert len(plain.y) + len(plain.y_test) == 45_222
    assert (plain.sex == biased.sex).all()
    moved = plain.y != biased.y
    assert 0.45 < moved.mean() < 0.5
    assert (biased.y[moved] == biased.sex[moved]).all()


def test_groups_of_fewer_rows_than_features_are_seen_all_the_same() -> None:
    # The small setting has such groups, which a quadratic discriminant analysis refuses as it
    # comes.
    setting = {**TINY_SYNTHETIC, "classes": 4, "features": 100, "per_class": 60}
    row = synthetic_run(
        {**setting, "learner": "knn", "method": "Visible", "attribute": "hidden"}, 0, None
    )
    groups = sample_of(4, 100, 60, 400, 0).groups.tolist()
    assert min(map(groups.count, set(groups))) < 100 and 0 <= row["parity"] <= 1


def test_synthetic_groups_are_biased_as_described() -> None:
    import numpy as np

    y = np.repeat([0, 1], 200_000)
    groups = biased_groups(y, np.random.default_rng(0))
    shares = [np.bincount(groups[y == k], minlength=5) / 200_000 for k in (0, 1)]
    np.testing.assert_allclose(shares[0], [0.1, 0.6, 0.1, 0.1, 0.1], atol=0.005)
    np.testing.assert_allclose(shares[1], [0.6, 0.1, 0.1, 0.1, 0.1], atol=0.005)
    sample = sample_of(4, 10, 500, 400, 0)
    assert sample.X.shape == (2_000, 10)
    assert np.bincount(sample.y_test).tolist() == [100] * 4


TINY_ADULT = {
    "features": "mixed",
    "order": "education-num",
    "repair": "columns",
    "rows": 3_000,
    "trees": 2,
}
TINY_SYNTHETIC = {"classes": 4, "features": 10, "per_class": 100, "test_rows": 400, "trees": 2}


@pytest.mark.parametrize("learner", ["knn", "rf"])
def test_every_method_can_be_run_small(learner: str) -> None:
    for method in (*METHODS, VISIBLE):
        rows = [adult_run({**TINY_ADULT, "p": 0.5, "learner": learner, "method": method}, 0, None)]
        for attribute in ("hidden", "feature"):
            rows.append(
                synthetic_run(
                    {
                        **TINY_SYNTHETIC,
                        "learner": learner,
                        "method": method,
                        "attribute": attribute,
                    },
                    0,
                    None,
                )
            )
        for row in rows:
            assert all(0 <= value <= 1 for value in row.values())
            assert row["data_parity"] > 0.3
            assert row["label_parity"] < (
                1e-3 if method in ("R2B", "Exact") else 0.12 if method in LABEL_METHODS else 1
            )


def lines_picture() -> Picture:
    near = [
        Series(f"method {n}", ((1, 3.0 + n / 100, 0.5), (10, 4.0 + n / 100, None)))
        for n in range(6)
    ]
    panel = Panel("ten features", (*near, Series("not run", ())), Axis("parity (%)", zero=True))
    return Picture("Parity", "By rows.", ((panel, panel),), Axis("rows", "log", (1.0, 10.0)))


def dots_picture() -> Picture:
    ours = Series("here", (("BL", 20.0, 0.3), ("R2B", 0.002, 0.001), ("never seen", 3.0, None)))
    panel = Panel(
        "forest",
        (ours, Series("the paper", (("BL", 22.8, 25.0),))),
        Axis("parity (%)", "log"),
        level=0.4,
    )
    return Picture("Adult", "By method.", ((panel,),))


@pytest.mark.parametrize("picture", [lines_picture(), dots_picture()], ids=["lines", "dots"])
def test_a_picture_says_what_it_shows_and_is_the_same_every_time(picture: Picture) -> None:
    pytest.importorskip("matplotlib")
    drawing = picture.svg()
    facts, texts = read_svg(drawing)
    assert facts == picture.facts
    assert "<dc:date>" not in drawing
    assert drawing == picture.svg()
    wanted = {
        "parity (%)",
        "forest",
        "BL",
        "R2B",
        "never seen",
        "here",
        "the paper",
        "by chance alone",
        "below 0.01",
    }
    assert texts >= ({"parity (%)", "rows", "method 0", "method 5"} if picture.along else wanted)
    assert "not run" not in texts


def test_names_beside_lines_do_not_meet_and_intervals_are_drawn() -> None:
    text = pytest.importorskip("matplotlib.text").Text
    from experiments.drawing import figure_of

    figure = figure_of(lines_picture())
    figure.draw_without_rendering()
    ax = figure.axes[0]
    boxes = sorted((text.get_window_extent(name) for name in ax.texts), key=lambda box: box.y0)
    assert len(boxes) == 6
    assert all(low.y1 <= high.y0 + 1 for low, high in pairwise(boxes))
    assert max(box.x1 for box in boxes) <= figure.axes[1].get_tightbbox().x0
    assert next(bar.get_segments()[0][:, 1].tolist() for bar in ax.collections) == pytest.approx(
        [2.5, 3.5]
    )
    assert ax.get_ylim()[0] == 0.0


def test_what_lies_below_a_logarithmic_axis_stands_at_its_edge() -> None:
    pytest.importorskip("matplotlib")
    from experiments.drawing import figure_of

    [ax] = figure_of(dots_picture()).axes
    dots = [line for line in ax.lines if line.get_marker() not in ("None", None)]
    places = {line.get_marker(): float(line.get_xdata()[0]) for line in dots}
    assert places[8] == ax.get_xlim()[0] == 0.01
    assert places["D"] == 22.8
    whiskers = [
        line.get_xdata()
        for line in ax.lines
        if line.get_marker() in ("None", None) and line.get_linestyle() == "-"
    ]
    assert min(ends[0] for ends in whiskers) == 0.01  # an interval that reaches 0 ends at the axis


def test_paired_differences_leave_out_what_splits_share() -> None:
    one = [{"seed": seed, "m": seed / 10 + 0.01} for seed in range(10)]
    other = [{"seed": seed, "m": seed / 10 + 0.02 * (seed % 2)} for seed in (*range(9, -1, -1), 11)]
    gap = paired(one, other, "m")
    assert gap.seeds == 10
    assert (gap.mean, gap.half_width) == (pytest.approx(0.0), pytest.approx(1.083, rel=1e-3))
    assert not lower(gap) and lower(Cell(-2.0, 1.9, 10))
    with pytest.raises(ParameterError, match="'m'"):
        paired(one, [{"seed": 99, "m": 0.1}], "m")
