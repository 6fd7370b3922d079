"""The runner: pure runs, one row each, in parallel, resumable whatever stops it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import experiments
from experiments import NAMES, Progress, find, reproduce, rerun
from experiments.__main__ import main
from experiments.experiment import IDENTITY, OWN_COLUMNS, planned
from experiments.journal import append, finished, journal_path, read_results, results_path
from experiments.runner import RunFailedError
from r2b.errors import FileFormatError, ParameterError


class Toy:
    """An experiment whose runs multiply a number by the seed, and are counted."""

    TITLE = "Toy"

    def __init__(self) -> None:
        self.REVISION, self.values, self.calls = 1, [2, 3], list[tuple[int, int]]()

    def configurations(self, quick: bool) -> list[dict[str, Any]]:
        return [{"x": x} for x in self.values]

    def run(self, configuration: dict[str, Any], seed: int, data: Path | None) -> dict[str, Any]:
        self.calls.append((configuration["x"], seed))
        if configuration["x"] == 13:
            raise ValueError("unlucky")
        return {"product": float(configuration["x"] * seed)}

    def section(self, rows: Any) -> str:
        return ""


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    module = Toy()
    monkeypatch.setitem(sys.modules, "experiments.toy", module)  # type: ignore[arg-type]
    monkeypatch.setattr("experiments.experiment.NAMES", (*NAMES, "toy"))
    return module


def toy_rows(folder: Path, *seeds: int, **options: Any) -> list[dict[str, Any]]:
    return reproduce("toy", output=folder, seeds=seeds, jobs=1, **options)


def test_runs_become_rows_and_are_done_once_for_each_revision(toy: Toy, tmp_path: Path) -> None:
    rows = toy_rows(tmp_path, 5, 6)
    found = [(row["x"], row["seed"], row["product"]) for row in rows]
    assert found == [(2, 5, 10.0), (3, 5, 15.0), (2, 6, 12.0), (3, 6, 18.0)]
    assert set(OWN_COLUMNS) <= set(rows[0])
    assert json.loads(rows[0]["configuration"]) == {"x": 2}
    assert {"python", "r2b", "numpy"} <= set(json.loads(rows[0]["versions"]))
    assert read_results(results_path(tmp_path, "toy")) == rows
    assert not journal_path(tmp_path, "toy").exists()
    toy.calls.clear()
    assert len(toy_rows(tmp_path, 6, 7)) == 4
    assert toy.calls == [(2, 7), (3, 7)]
    toy_rows(tmp_path, 7, resume=False)
    assert toy.calls[2:] == [(2, 7), (3, 7)]
    assert len(read_results(results_path(tmp_path, "toy"))) == 6
    toy.REVISION = 2
    toy_rows(tmp_path, 7)
    assert len(toy.calls) == 6


def test_half_a_line_is_cut_off_and_its_run_done_again(toy: Toy, tmp_path: Path) -> None:
    rows = toy_rows(tmp_path, 1)
    results_path(tmp_path, "toy").unlink()
    journal = journal_path(tmp_path, "toy")
    append(journal, rows[0])
    journal.write_bytes(journal.read_bytes() + json.dumps(rows[1]).encode()[:40])
    toy.calls.clear()
    again = toy_rows(tmp_path, 1)
    assert toy.calls == [(3, 1)]
    assert [row["product"] for row in again] == [row["product"] for row in rows]


def test_files_that_the_runner_did_not_write_are_refused(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    journal_path(tmp_path, "toy").write_bytes(b'{"run": 1}\nnonsense\n')
    with pytest.raises(FileFormatError, match="Line 2"):
        finished(tmp_path, "toy")
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "toy.parquet")
    with pytest.raises(FileFormatError, match="no column 'run'"):
        finished(tmp_path, "toy")


def test_a_failed_run_is_named_and_the_others_are_kept(toy: Toy, tmp_path: Path) -> None:
    toy.values = [2, 13, 3]
    with pytest.raises(RunFailedError, match=r'"x": 13.*with seed 1(.|\n)*unlucky') as caught:
        toy_rows(tmp_path, 1)
    assert caught.value.facts["n_failed"] == 1
    assert [row["x"] for row in finished(tmp_path, "toy").values()] == [2, 3]


def test_progress_counts_and_estimates(toy: Toy, tmp_path: Path) -> None:
    seen: list[Progress] = []
    toy_rows(tmp_path, 1, 2, progress=seen.append)
    assert [step.done for step in seen] == [0, 1, 2, 3, 4]
    assert (seen[0].left, seen[-1].left) == (None, 0.0)
    said = str(Progress("toy", 1, 4, 61.0, 183.0))
    assert said == "toy: 1 of 4 runs, 1 min 01 s, about 3 min 03 s left"


@pytest.mark.parametrize("configuration", [{"seed": 1}, {"x": [1, 2]}])
def test_a_configuration_that_cannot_be_a_row_is_refused(
    toy: Toy, tmp_path: Path, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy, "configurations", lambda quick: [configuration])
    with pytest.raises(ParameterError, match=next(iter(configuration))):
        toy_rows(tmp_path, 0)


def test_a_measure_under_the_name_of_a_setting_and_other_mistakes_are_refused(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ParameterError, match="jobs is 0"):
        reproduce("toy", output=tmp_path, jobs=0)
    with pytest.raises(ParameterError, match="adult"):
        find("imagenet")
    monkeypatch.setattr(toy, "run", lambda *_: {"x": 2.0})
    with pytest.raises(RunFailedError, match="'x'"):
        toy_rows(tmp_path, 0)


def test_every_experiment_plans_runs_of_different_identity() -> None:
    for name in NAMES:
        for quick in (True, False):
            runs = planned(find(name), quick=quick)
            assert len({run.identity for run in runs}) == len(runs) > 0


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments", "rounds", "--quick", "--seeds", "2"]
    command += ["--output", str(tmp_path), "--jobs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("rounds: 3 of 20"):
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    kept = finished(tmp_path, "rounds")
    assert 3 <= len(kept) < 20
    rows = reproduce("rounds", quick=True, seeds=[0, 1], output=tmp_path, jobs=1)
    assert len(rows) == 20
    # The rows that were there are the same to the second they took: they were not done again.
    by_identity = {row[IDENTITY]: row for row in rows}
    assert all(by_identity[key] == row for key, row in kept.items())
    again, times = rerun(rows[-1]), {"seconds": 0, "versions": ""}
    assert again | times == rows[-1] | times
    assert not list(tmp_path.glob("*.svg"))


def test_the_small_setting_states_itself_and_does_not_judge_the_paper(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["appendix_bins", "--quick", "--output", str(tmp_path), "--jobs", "2"]) == 0
    assert capsys.readouterr().out == f"Results: {tmp_path.resolve()}\n"
    rows = read_results(results_path(tmp_path, "appendix_bins"))
    page = (tmp_path / "appendix_bins.md").read_text(encoding="utf-8")
    assert "- size: 500" in page and "- seeds: 1" in page and "not compared with the paper" in page
    assert "4,000" not in page and "✓" not in page and "overlap" not in page
    table = [line for line in page.splitlines() if line.startswith("| equal_")]
    assert len(table) == len(rows) == 12
    first = SimpleNamespace(**rows[0])
    assert f"| {first.bins} | {first.spread} | {first.distance_before:.3g} |" in "".join(table)


def test_all_leaves_out_what_needs_data_that_are_not_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("R2B_DATA", raising=False)
    can, cannot = experiments.within_reach()
    assert cannot == ["coco", "dermatology"] and set(can) | set(cannot) == set(NAMES)
    assert experiments.within_reach(tmp_path)[1] == []
    monkeypatch.setenv("R2B_DATA", str(tmp_path))
    assert experiments.within_reach()[1] == []
