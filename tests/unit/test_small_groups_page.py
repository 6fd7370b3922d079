"""The page on small groups is what its results say, and names tables on which we lose."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = ROOT / "scripts" / "make_small_groups_page.py"
    monkeypatch.syspath_prepend(str(ROOT))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not module.RESULTS.exists():
        pytest.skip("the results are not part of this distribution")
    return module


def test_the_page_is_what_its_results_say(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0


def test_a_table_that_loses_and_a_warning_that_is_missing_are_shown(script: ModuleType) -> None:
    rows = script.json.loads(script.RESULTS.read_text(encoding="utf-8"))
    name = rows[0]["table"]
    assert f"- {name}: less accurate" not in script.page_of(rows)
    worse = copy.deepcopy([row for row in rows if row["table"] == name])
    before = script.holds(worse)
    for row in worse:
        row["methods"]["r2b"] |= {"accuracy": row["majority"] - 0.1, "disparity": 0.9}
        row["warns"] = row["warns_of_groups"] = row["says"] = 0
        row["is_plain"] = True
        row["entries"][0][1] = "met"
        row["entries"][0][5:] = [[0.9, 0.1], [0.9, 0.1], False]
    others = [row for row in rows if row["table"] != name]
    assert f"- {name}: less accurate" in script.page_of([*others, *worse])
    n, after = len(worse), script.holds(worse)
    assert after[1] == f"{n} of {n} (100.0 %)" == after[3] and after[5] == f"0 of {n} (0.0 %)"
    assert before[1:4] != after[1:4] and int(after[4].split()[0]) >= n
