"""Pictures of claims and proofs say what result rows say, and draw whatever was run."""

from __future__ import annotations

from experiments import find
from experiments.experiment import Row
from experiments.figures import Picture


def only(name: str, rows: list[Row]) -> Picture:
    [picture] = find(name).figures(rows).values()
    return picture


def test_rounds_show_the_furthest_table_at_epsilon_0() -> None:
    short = {f"short_{t}": 1 / t for t in (1, 10, 20, 50, 100)}
    rows = [
        {"target": "free", "tau": 0.5, "epsilon": 0.0, **short},
        {
            "target": "free",
            "tau": 0.5,
            "epsilon": 0.0,
            **{name: value / 2 for name, value in short.items()},
        },
        {"target": "free", "tau": 0.5, "epsilon": 0.1, **{name: 9.0 for name in short}},
        {"target": "free", "tau": 4.0, "epsilon": 0.0, **dict.fromkeys(short)},
    ]
    rows += [{**row, "target": "population"} for row in rows]
    free, pinned = only("convergence", rows).panels
    assert free.series == pinned.series
    assert [point[:2] for point in free.series[0].points] == [
        (1, 100.0),
        (10, 10.0),
        (20, 5.0),
        (50, 2.0),
        (100, 1.0),
    ]


def test_a_bound_stands_beside_the_parity_that_was_seen() -> None:
    terms = {"parity": 0.02, "printed": 0.3, "proven": 0.6}
    sizes = [(None, None, "Adult"), (4, 10, "synthetic")]
    rows = [
        {"data": data, "classes": c, "features": d, "learner": "rf", "seed": 0, **terms}
        for c, d, data in sizes
    ]
    facts = only("guarantee", rows).facts
    assert (
        "disparity seen: Adult, forest 2; synthetic, L = 4, d = 10, forest 2\nbound as printed: Adult, forest 30;"
        in facts
    )
    assert "where a bound says nothing 100" in facts


def test_normalising_shows_the_largest_of_each_kind_and_the_papers_example_for_ost_alone() -> None:
    rows = [
        {
            "kind": "labels",
            "method": method,
            "data_parity": 0.5,
            "before": 0.001,
            "divided": divided,
        }
        for method in ("OST", "R2B0")
        for divided in (0.04, 0.06)
    ]
    ost, r2b0 = only("normalising", rows).panels
    assert (ost.title, ost.level, r2b0.title, r2b0.level) == ("OST", 22.0, "R2B_0", None)
    assert [series.points for series in ost.series] == [
        (("synthetic", value, None),) for value in (50.0, 0.1, 6.0)
    ]


def test_time_grows_along_one_size_at_a_time() -> None:
    shapes = [(3_000, 16, 2), (30_000, 16, 2), (3_000, 64, 2), (3_000, 16, 32)]
    rows = [
        {
            "labels": "soft",
            "solver": s,
            "size": n,
            "classes": c,
            "groups": g,
            "time": n * c * g / 1e6,
        }
        for n, c, g in shapes
        for s in ("rounds", "exact")
    ]
    rows.append({**rows[1], "labels": "class", "time": 99.0})
    panels = only("appendix_time", rows).panels
    assert [panel.along.title for panel in panels if panel.along] == [
        "rows (log)",
        "classes (log)",
        "groups (log)",
    ]
    assert [[place for place, *_ in panel.series[0].points] for panel in panels] == [
        [3_000, 30_000],
        [16, 64],
        [2, 32],
    ]


def test_balance_has_a_line_for_every_number_of_classes() -> None:
    rows = [
        {"classes": c, "size": n, "relative_gap": c / n, "relative_error": 0.5, "seed": 0}
        for c in (4, 16)
        for n in (1_000, 4_000)
    ]
    gap, error = only("appendix_balance", rows).panels
    assert [(series.name, series.points[0][1]) for series in gap.series] == [
        ("4 classes", 0.4),
        ("16 classes", 1.6),
    ]
    assert {point[1] for series in error.series for point in series.points} == {50.0}
