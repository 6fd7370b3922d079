"""Audits of many probabilities: from sums and a few rows, in memory as elsewhere, they say what handing every row about says."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import r2b
from r2b._audit.moments import MomentSums, moments_of
from r2b._data import read

N = 6_000
OPTIONS: dict[str, Any] = {"n_permutations": 800, "n_boot": 2, "random_state": 5}


def people(*, weighted: bool = False) -> tuple[dict[str, Any], np.ndarray]:
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {
        "sex": rng.choice(["f", "m"], N),
        "race": rng.choice(list("abc"), N, p=[0.8, 0.195, 0.005]),
    }
    columns |= {
        "year": rng.choice(["x", "y"], N),
        "w": rng.uniform(0.2, 3.0, N) if weighted else np.ones(N),
    }
    labels = rng.dirichlet([0.3, 0.5, 1.0, 0.1], N)
    labels[columns["sex"] == "f"] = 0.98 * labels[columns["sex"] == "f"] + 0.02 * np.eye(4)[0]
    return columns, labels


def at_most(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    for module in ("r2b._audit.measure", "r2b.engines.audits"):
        monkeypatch.setattr(f"{module}.MOST_EXACT", entries)


@pytest.mark.parametrize("weighted", [False, True])
def test_chance_is_that_of_rows_handed_about(
    weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, labels = people(weighted=weighted)
    asked = {
        "sensitive_features": {name: columns[name] for name in ("sex", "race")},
        "sample_weight": columns["w"] if weighted else None,
    }
    exact = r2b.audit(labels, **asked, **OPTIONS)
    at_most(monkeypatch, 1)
    found = r2b.audit(labels, **asked, **OPTIONS)
    for one, other in zip(exact.families, found.families, strict=True):
        assert one.name == other.name
        np.testing.assert_array_equal(one.rows, other.rows)
        np.testing.assert_allclose(other.means, one.means, rtol=1e-12)
        assert (
            one.interval is not None
            and other.interval is not None
            and one.chance is not None
            and other.chance is not None
        )
        np.testing.assert_allclose(
            tuple(other.interval)[:2], tuple(one.interval)[:2], rtol=1e-9, atol=1e-12
        )
        # Both are drawn: a mean of 800 draws is off by two percent, their twentieth by about four.
        assert math.isclose(one.chance.mean, other.chance.mean, rel_tol=0.1)
        assert math.isclose(one.chance.quantile, other.chance.quantile, rel_tol=0.15)
        np.testing.assert_allclose(other.levels, one.levels, rtol=0.2)
        assert (one.chance.p_value < 0.01) == (other.chance.p_value < 0.01)
    assert {each.group: each.beyond_chance for each in exact.ranked} == {
        each.group: each.beyond_chance for each in found.ranked
    }


@pytest.mark.parametrize("control", [None, "year"])
def test_tables_elsewhere_are_audited_like_rows_in_memory(
    control: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    columns, labels = people(weighted=True)
    table = pa.table({**columns, **{f"p{k}": labels[:, k] for k in range(4)}})
    pq.write_table(table, tmp_path / "people.parquet", row_group_size=1_700)
    at_most(monkeypatch, 1)
    options = {**OPTIONS, "n_permutations": 60, "missing": "exclude"}
    near = r2b.audit(
        {f"p{k}": labels[:, k] for k in range(4)},
        sensitive_features={name: columns[name] for name in ("sex", "race")},
        control_features=None if control is None else {control: columns[control]},
        sample_weight=columns["w"],
        **options,
    )

    def refuse(*_: Any) -> None:
        raise AssertionError("the columns were read into memory")

    monkeypatch.setattr("r2b.engines.files.FileSource.columns", refuse)
    asked = {
        "sensitive_features": ["sex", "race"],
        "control_features": control,
        "sample_weight": "w",
    }
    far = r2b.scan(tmp_path / "people.parquet", threads=1).audit(
        [f"p{k}" for k in range(4)], **asked, **options
    )
    assert far.n_rows == N
    one, other = near.to_json(), far.to_json()
    assert [each["name"] for each in one["families"]] == [
        each["name"] for each in other["families"]
    ]
    for mine, theirs in zip(one["families"], other["families"], strict=True):
        for name in ("rows", "share", "means", "levels"):
            np.testing.assert_allclose(theirs[name], mine[name], rtol=1e-7, atol=1e-12)
        assert math.isclose(mine["chance"]["quantile"], theirs["chance"]["quantile"], rel_tol=1e-7)


def test_sums_do_not_depend_on_how_rows_are_cut() -> None:
    columns, labels = people(weighted=True)
    data = read(labels, sensitive_features={"sex": columns["sex"]}, sample_weight=columns["w"])
    parts, adding = np.array([0, 1]), MomentSums(4, np.array([0, 1]), float(data.weight.mean()))
    whole = moments_of(data, parts)
    hashes = np.random.default_rng(3).integers(0, 1 << 50, N)
    cuts = [0, 7, 900, 901, 4_000, N]
    pieces = [
        adding.of(labels[a:b], data.cells.codes[a:b], data.weight[a:b], hashes[a:b])
        for a, b in pairwise(cuts)
    ]
    total = pieces[0]
    for piece in pieces[1:]:
        total = adding.merge(total, piece)
    for name in ("weight", "squares", "sums", "first", "second", "cross"):
        np.testing.assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-11)
    other = adding.merge(
        adding.merge(pieces[0], pieces[1]),
        adding.merge(adding.merge(pieces[2], pieces[3]), pieces[4]),
    )
    assert sorted(other.hashes.tolist()) == sorted(total.hashes.tolist())
    assert len(total.hashes) == min(N, 2 * adding.most)
