"""Results as frames: of the library that the data came in, with the numbers of the result
itself.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("polars")
import pandas as pd
import polars as pl
import pyarrow as pa

import r2b
from r2b.errors import MissingExtraError, ParameterError, RowsUnavailableError

RNG = np.random.default_rng(5)
SEX = np.repeat(["f", "m"], 300)
Y = np.where(
    RNG.random(600) < np.where(SEX == "f", 0.3, 0.6), "yes", RNG.choice(["no", "maybe"], 600)
)
KINDS = {
    "pandas": (pd.Series, pd.DataFrame),
    "polars": (pl.Series, pl.DataFrame),
    "pyarrow": (pa.array, pa.Table),
}


def results(y, sex):
    """Everything that has a frame, by name."""
    options = {"sensitive_features": sex, "epsilon": 0.02}
    fair = r2b.debias(y, **options)
    found = {
        part: fair.to_frame(part)
        for part in ("means", "families", "changes", "constraints", "certificate")
    }
    found |= {
        "soft": fair.soft(as_frame=True),
        "frontier": r2b.frontier(y, sensitive_features=sex, epsilons=3).to_frame(),
    }
    audit = r2b.audit(y, sensitive_features=sex, n_boot=0)
    found |= {part: audit.to_frame(part) for part in ("groups", "families")}
    return found | {
        "comparison": r2b.compare(
            y, sensitive_features=sex, choices={"a": {"epsilon": 0}}
        ).to_frame()
    }


@pytest.mark.parametrize("library", KINDS)
def test_frames_are_of_the_library_of_the_labels_or_else_of_the_attributes(library) -> None:
    made, kind = KINDS[library]
    assert {type(each) for each in results(made(Y), SEX).values()} == {kind}
    assert type(r2b.debias(Y, sensitive_features=made(SEX)).to_frame()) is kind
    assert type(r2b.audit(Y, sensitive_features=made(SEX), n_boot=0).to_frame()) is kind


def test_data_of_no_library_give_pandas_and_backend_chooses() -> None:
    fair = r2b.debias(Y, sensitive_features=SEX)
    assert type(fair.to_frame()) is type(fair.certificate.to_frame()) is pd.DataFrame
    for library, (_, kind) in KINDS.items():
        assert type(fair.to_frame(backend=library)) is kind
    with pytest.raises(
        ParameterError, match=r"backend is 'excel'\. Pass one of 'pandas', 'polars', 'pyarrow'"
    ):
        fair.to_frame(backend="excel")
    with pytest.raises(ParameterError, match=r"part is 'rows'\. Pass one of 'means'"):
        fair.to_frame("rows")
    with pytest.raises(ParameterError, match=r"part is 'rows'\. Pass one of 'groups'"):
        r2b.audit(Y, sensitive_features=SEX, n_boot=0).to_frame("rows")


def test_means_changes_and_certificate_are_the_numbers_of_the_result() -> None:
    fair = r2b.debias(pd.Series(Y), sensitive_features={"sex": SEX}, epsilon=0.02)
    means = fair.to_frame()
    before = pd.crosstab(SEX, Y, normalize="index")
    assert set(means["family"]) == {"sex"}
    table = means.pivot(index="group", columns="class", values="before")
    np.testing.assert_allclose(table.to_numpy(), before[table.columns].to_numpy())
    after = means.groupby("class")["after"]
    assert (
        (after.max() - after.min()).max()
        == pytest.approx(fair.disparity, abs=1e-15)
        == pytest.approx(0.02)
    )
    changes = fair.to_frame("changes")
    assert changes["weight"].is_monotonic_decreasing and (changes["old"] != changes["new"]).all()
    assert changes["weight"].sum() / len(fair) == pytest.approx(fair.certificate.expected_changes)
    numbers = fair.certificate.to_frame().set_index("number")
    assert numbers.loc["disparity_before", "value"] == fair.certificate.disparity_before
    bounded = numbers.dropna()
    assert list(bounded.index) == ["excess", "relative_gap", "simplex_violation"]
    assert (bounded["value"] <= bounded["limit"]).all()


def test_an_audit_as_a_frame_says_what_it_found() -> None:
    age = np.linspace(20, 60, 600)
    found = r2b.audit(
        Y, sensitive_features={"sex": SEX, "age": r2b.Continuous(age)}, n_boot=20, n_permutations=20
    )
    groups, families = (
        found.to_frame(backend="pandas"),
        found.to_frame("families", backend="pandas").set_index("family"),
    )
    assert len(groups) == 6 and groups["rows"].eq(300).all()
    worst = groups[groups["class"] == "yes"].set_index("group")["mean"]
    assert worst["sex=m"] - worst["sex=f"] == pytest.approx(found.families[0].disparity)
    assert families["kind"].to_dict() == {"sex": "groups", "age": "continuous"}
    assert families.loc["sex", "value"] == found.families[0].disparity
    assert families.loc["age", "value"] == found.continuous[0].explained
    assert families.loc["sex", "chance"] == found.families[0].chance.quantile
    assert np.isnan(families.loc["age", "ratio"])
    assert "library" not in found.to_json()


def test_parity_epsilon_and_length_of_a_result(tmp_path) -> None:
    fair = r2b.debias(Y, sensitive_features=SEX, epsilon=0.02)
    assert (len(fair), fair.disparity, fair.epsilon) == (600, fair.certificate.disparity, 0.02)
    # "maybe" is free
    assert r2b.debias(Y, sensitive_features=SEX, epsilon={"yes": 0.1, "no": 0.3}).epsilon == 0.3
    found = r2b.smallest_epsilon(Y, sensitive_features=SEX, changes=0.05)
    assert found.epsilon == found.certificate.epsilon[0] > 0
    fair.save(tmp_path / "fair.json")
    loaded = r2b.load(tmp_path / "fair.json")
    assert bool(loaded) and loaded.epsilon == 0.02
    pd.testing.assert_frame_equal(loaded.to_frame(), fair.to_frame())
    for asked in (lambda: len(loaded), lambda: loaded.to_frame("changes")):
        with pytest.raises(
            RowsUnavailableError, match="no rows: it was loaded from a file, belongs"
        ):
            asked()


def test_neither_pandas_nor_polars_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    fair = r2b.debias(Y, sensitive_features=SEX)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert type(fair.to_frame()) is pl.DataFrame
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(
        MissingExtraError,
        match=r"needs polars.*pip install 'pandas>=.* 'polars>=.*, or pass backend='pyarrow'",
    ):
        fair.to_frame()
    with pytest.raises(MissingExtraError, match=r"needs pandas, which is not installed"):
        fair.to_frame(backend="pandas")
    assert type(fair.to_frame(backend="pyarrow")) is pa.Table


def test_probabilities_are_accounted_for_by_group_means() -> None:
    p = pd.DataFrame({"no": RNG.random(600) * np.where(SEX == "f", 1.0, 0.6)})
    p["yes"] = 1 - p["no"]
    fair = r2b.debias(p, sensitive_features=SEX, epsilon=0.0)
    before, after = p["no"][SEX == "f"].mean(), fair.soft(as_frame=True)["no"][SEX == "f"].mean()
    _, told = str(fair).split("  largest changes of group means\n")
    assert f"    f: no {before:.4f} -> {after:.4f}" in told.splitlines()
    with pytest.raises(ParameterError, match=r"no flows.*Take to_frame\('means'\)"):
        fair.to_frame("changes")
    row = fair.to_frame().set_index(["group", "class"]).loc[("f", "no")]
    assert (row["before"], row["after"]) == pytest.approx((before, after))
