"""What results draw: the facts of their reports, on axes that are passed or new, names inside,
nothing of matplotlib's settings touched.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import r2b
from r2b._audit import audit
from r2b._plot import COLOURS, columns_of, shorten
from r2b.errors import MissingExtraError, ParameterError
from r2b.metrics import demographic_parity_difference_by_class, group_means

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 - after the backend

RNG = np.random.default_rng(5)
SEX = np.repeat(["f", "m"], 300)
RACE = np.tile(["a", "b", "c"], 200)
Y = np.where(
    RNG.random(600) < np.where(SEX == "f", 0.3, 0.6),
    "high",
    np.where(RNG.random(600) < 0.5, "low", "middle"),
)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def title(ax: Any) -> str:
    return " ".join(ax.get_title("left").split())


def names(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]


def keys(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def dots(ax: Any, colour: str) -> list[list[float]]:
    return [line.get_xdata().tolist() for line in ax.lines if line.get_color() == colour]


def assert_inside(ax: Any) -> None:
    """Nothing that is drawn leaves the figure, by more than the rounding of a letter's width."""
    ax.figure.draw_without_rendering()
    found, page = ax.get_tightbbox(), ax.figure.bbox
    assert found.x0 >= page.x0 - 2
    assert found.x1 <= page.x1 + 2
    assert found.y0 >= page.y0 - 2
    assert found.y1 <= page.y1 + 2


def test_labels_draw_their_group_means_before_and_after() -> None:
    fair = r2b.debias(Y, sensitive_features={"sex": SEX}, epsilon=0.02)
    before = dict(mpl.rcParams)
    ax = fair.plot()
    assert dict(mpl.rcParams) == before
    proof = fair.certificate
    order = np.argsort(-np.ptp(proof.means_before, axis=0), kind="stable")
    assert names(ax) == fair.classes[order].tolist()
    female = dots(ax, COLOURS[0])
    np.testing.assert_allclose(
        female, [100 * proof.means_before[0, order], 100 * proof.means[0, order]]
    )
    assert ax.lines[0].get_markerfacecolor() == "white"
    assert ax.lines[2].get_markerfacecolor() == COLOURS[0]
    said = (
        f"disparity {100 * proof.disparity_before:.2f} % before, 2.00 % after;"
        f" {100 * proof.expected_changes:.2f} % of labels change"
    )
    assert title(ax) == f"Group means by sex, before and after {said}"
    assert keys(ax) == ["f", "m", "before", "after"]
    assert_inside(ax)


HOSTILE = [
    "$x_1$ costs $5",
    "_hidden",
    "مهندس البرمجيات",
    "שלום (12)",
    "two\nlines",
    "a\u202eb",
    "x" * 300,
]


def hard_table() -> r2b.FairLabels:
    """50 classes, 20 groups, names of every kind."""
    classes = np.array(
        [*HOSTILE, *(f"a class with a long name that ends in its number, {k}" for k in range(43))],
        dtype=object,
    )
    groups = np.array(
        [
            *HOSTILE[:4],
            *(f"a group with a long name that ends in its number, {k}" for k in range(16)),
        ],
        dtype=object,
    )
    s = np.concatenate([np.arange(20), RNG.integers(0, 20, 3_980)])
    y = np.concatenate(
        [np.arange(50), (RNG.integers(0, 50, 3_950) + s[50:] * (RNG.random(3_950) < 0.2)) % 50]
    )
    return r2b.debias(
        classes[y], sensitive_features={"a long attribute, " * 6: groups[s]}, epsilon=0.005
    )


def test_many_classes_and_groups_of_hostile_names_are_reduced_and_stay_inside() -> None:
    fair = hard_table()
    ax = fair.plot()
    apart = np.sort(np.ptp(fair.certificate.means_before, axis=0))[::-1]
    assert len(names(ax)) == 12
    assert f"the 12 classes that differ most; 38 more by at most {100 * apart[12]:.2f} %" in title(
        ax
    )
    assert keys(ax)[6:] == ["14 more groups", "before", "after"]
    assert max(map(columns_of, names(ax))) <= 32
    assert_inside(ax)
    # A dollar is a dollar, and a name that begins with an underscore is named.
    many = audit(
        [*HOSTILE, *HOSTILE[::-1]],
        sensitive_features={"g": ["$a$ $b"] * 7 + ["_c"] * 7},
        n_boot=0,
        n_permutations=0,
    ).plot()
    assert keys(many) == ["$a$ $b", " _c"]
    assert "two\\nlines" in names(many)
    assert "a\\u202eb" in names(many)
    assert not many.get_yticklabels()[0].get_parse_math()
    assert_inside(many)


def test_east_asian_names_take_a_font_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audit(
        ["日本", "中国", "日本", "日本"],
        sensitive_features=["東", "東", "西", "西"],
        n_boot=0,
        n_permutations=0,
    )
    monkeypatch.setattr(
        "matplotlib.font_manager.get_font_names", lambda: ["DejaVu Sans", "Noto Sans CJK JP"]
    )
    label = found.plot().get_yticklabels()[0]
    assert label.get_text() in ("日本", "中国") and label.get_fontfamily()[-1] == "Noto Sans CJK JP"
    monkeypatch.setattr("matplotlib.font_manager.get_font_names", lambda: ["DejaVu Sans"])
    assert "Noto Sans CJK JP" not in found.plot().get_yticklabels()[0].get_fontfamily()


@pytest.mark.parametrize(("name", "most"), [("名前" * 30, 11), ("x" * 33, 32), ("ab", 1)])
def test_a_name_is_cut_to_its_columns_in_the_middle(name: str, most: int) -> None:
    cut = shorten(name, most)
    assert columns_of(cut) <= max(most, 1) and "…" in cut


def test_an_audit_of_one_family_draws_means_and_of_several_their_parities_beside_chance() -> None:
    one = audit(Y, sensitive_features={"sex": SEX}, n_boot=0, n_permutations=50)
    [family] = one.families
    assert family.chance is not None
    ax = one.plot()
    assert (
        title(ax)
        == f"Group means by sex disparity {100 * family.disparity:.2f} %; chance shows up to"
        f" {100 * family.chance.quantile:.2f} %"
    )
    assert sorted(ax.lines[0].get_xdata()) == pytest.approx(sorted(100 * family.means[0]))

    both = {"sex": SEX, "race": RACE, "age": r2b.Continuous(np.arange(600.0))}
    several = audit(Y, sensitive_features=both, families="marginal", n_boot=50, n_permutations=50)
    ax = several.plot()
    values = [
        *(each.disparity for each in several.families),
        *(each.explained for each in several.continuous),
    ]
    assert names(ax) == ["sex", "race", "age, variance explained"]
    np.testing.assert_allclose(
        np.ravel([line.get_xdata() for line in ax.lines]), 100 * np.array(values)
    )
    bars = [patch.get_width() for patch in ax.patches if patch.get_height() == 0.5]
    assert bars == pytest.approx(
        [
            100 * each.chance.quantile
            for each in (*several.families, *several.continuous)
            if each.chance
        ]
    )
    [interval, *_] = [each.get_segments()[0][:, 0] for each in ax.collections]
    assert several.families[0].interval is not None
    np.testing.assert_allclose(interval, 100 * np.array([*several.families[0].interval]))
    assert keys(ax) == [
        "measured, with its 95 % interval",
        "what chance shows in 19 of 20 fair samples",
    ]
    assert "by race" in title(several.plot(family="race"))
    with pytest.raises(ParameterError, match="family is "):
        several.plot(family="age")
    assert_inside(ax)
    alone = audit(Y, sensitive_features={"age": both["age"]}, n_boot=0, n_permutations=0)
    assert names(alone.plot()) == ["age, variance explained"]
    with pytest.raises(ParameterError, match="nothing to choose from"):
        alone.plot(family="age")


def test_metrics_draw_themselves() -> None:
    found = group_means(Y, sensitive_features=SEX)
    assert title(found.plot()) == "Group means" and keys(found.plot()) == ["f", "m"]
    empty = replace(
        found,
        means=np.vstack([found.means, np.full(3, np.nan)]),
        groups=np.array(["f", "m", "x"]),
        weights=np.array([300.0, 300.0, 0.0]),
    )
    ax = empty.plot()
    assert keys(ax) == ["f", "m"]
    order = [found.classes.tolist().index(name) for name in names(ax)]
    np.testing.assert_allclose(dots(ax, COLOURS[1]), [100 * found.means[1, order]])
    by_class = demographic_parity_difference_by_class(np.arange(600) % 30, sensitive_features=SEX)
    ax = by_class.plot()
    assert len(names(ax)) == 12 and title(ax) == "Disparity by class the 12 largest of 30"
    assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx(
        np.sort(100 * by_class.values)[::-1][:12]
    )


def test_a_verdict_for_every_group_is_drawn_beside_chance() -> None:
    pytest.importorskip("sklearn")
    from r2b.sklearn.evidence import GroupParity, ParityReport

    group = GroupParity("sex", "demographic_parity", "f", "", "yes", 90, 0.2, 0.0, 0.1, "not met")
    ax = ParityReport("decisions", (group,), (), 0.2, 0.8, 0.6, 400).plot()
    assert names(ax) == ["sex: f"] and ax.texts[0].get_text() == "20.00 %, not met"


def test_axes_come_back_and_others_are_refused() -> None:
    fair = r2b.debias(Y, sensitive_features=SEX, epsilon=0.1)
    _, both = plt.subplots(1, 2, figsize=(11, 4))
    assert fair.plot(both[1]) is both[1] and not both[0].has_data()
    assert len(plt.get_fignums()) == 1
    part = plt.figure(layout="constrained").subfigures(1, 2)[1].subplots()
    assert fair.plot(part) is part
    with pytest.raises(ParameterError, match="ax is of type ndarray"):
        fair.plot(both)


def test_without_matplotlib_the_way_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fair = r2b.debias(Y, sensitive_features=SEX, epsilon=0.1)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MissingExtraError, match=r"FairLabels.plot needs matplotlib.*pip install 'matplotlib>="
    ):
        fair.plot()
