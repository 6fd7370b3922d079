"""The runner: pure runs, one row each, in parallel, resumable whatever stops it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

import experiments
from experiments import MODULES, Experiment, Progress, find, reproduce, rerun
from experiments.experiment import IDENTITY, OWN_COLUMNS, planned, run_of
from experiments.journal import (
    append,
    finished,
    journal_path,
    read_journal,
    read_results,
    results_path,
)
from experiments.runner import run_experiment
from experiments.workers import RunFailedError
from r2b.errors import FileFormatError, ParameterError

CALLS: list[tuple[int, int]] = []


def toy_run(configuration: dict[str, int], seed: int, data: Path | None) -> dict[str, float]:
    CALLS.append((configuration["x"], seed))
    if configuration["x"] == 13:
        raise ValueError("unlucky")
    return {"product": float(configuration["x"] * seed)}


def toy(values: tuple[int, ...] = (2, 3), **more: object) -> Experiment:
    return Experiment(
        name="toy",
        title="Toy",
        configurations=lambda quick: [{"x": x} for x in values],
        run=toy_run,
        section=lambda rows: "",
        **more,
    )  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    register(monkeypatch, toy())


def register(monkeypatch: pytest.MonkeyPatch, experiment: Experiment) -> None:
    module = types.ModuleType("toy_experiment")
    module.EXPERIMENT = experiment  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy_experiment", module)
    monkeypatch.setitem(MODULES, "toy", "toy_experiment")


def test_a_run_becomes_one_row_with_configuration_seed_and_versions(tmp_path: Path) -> None:
    rows = run_experiment(toy(), output=tmp_path, seeds=[5, 6], jobs=1)
    assert [(row["x"], row["seed"], row["product"]) for row in rows] == [
        (2, 5, 10.0),
        (3, 5, 15.0),
        (2, 6, 12.0),
        (3, 6, 18.0),
    ]
    assert set(OWN_COLUMNS) <= set(rows[0])
    assert json.loads(rows[0]["configuration"]) == {"x": 2}
    assert {"python", "r2b", "numpy"} <= set(json.loads(rows[0]["versions"]))
    assert read_results(results_path(tmp_path, "toy")) == rows
    assert not journal_path(tmp_path, "toy").exists()


def test_finished_runs_are_not_done_again_unless_asked(tmp_path: Path) -> None:
    run_experiment(toy(), output=tmp_path, seeds=[1], jobs=1)
    CALLS.clear()
    rows = run_experiment(toy(), output=tmp_path, seeds=[1, 2], jobs=1)
    assert CALLS == [(2, 2), (3, 2)]
    assert len(rows) == 4
    CALLS.clear()
    run_experiment(toy(), output=tmp_path, seeds=[2], jobs=1, resume=False)
    assert CALLS == [(2, 2), (3, 2)]
    assert len(read_results(results_path(tmp_path, "toy"))) == 4


def test_a_new_revision_is_a_new_run(tmp_path: Path) -> None:
    run_experiment(toy(), output=tmp_path, seeds=[1], jobs=1)
    CALLS.clear()
    run_experiment(toy(revision=2), output=tmp_path, seeds=[1], jobs=1)
    assert len(CALLS) == 2


def test_half_a_line_is_cut_off_and_its_run_done_again(tmp_path: Path) -> None:
    rows = run_experiment(toy(), output=tmp_path, seeds=[1], jobs=1)
    results_path(tmp_path, "toy").unlink()
    journal = journal_path(tmp_path, "toy")
    append(journal, rows[0])
    journal.write_bytes(journal.read_bytes() + json.dumps(rows[1]).encode()[:40])
    assert read_journal(journal) == [rows[0]]
    assert journal.read_bytes().endswith(b"}\n")
    CALLS.clear()
    again = run_experiment(toy(), output=tmp_path, seeds=[1], jobs=1)
    assert CALLS == [(3, 1)]
    assert [row["product"] for row in again] == [row["product"] for row in rows]


def test_a_spoilt_line_is_refused_by_number(tmp_path: Path) -> None:
    path = journal_path(tmp_path, "toy")
    path.write_bytes(b'{"run": 1}\nnonsense\n')
    with pytest.raises(FileFormatError, match="Line 2"):
        finished(tmp_path, "toy")


def test_a_foreign_parquet_file_is_refused(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "toy.parquet")
    with pytest.raises(FileFormatError, match="no column 'run'"):
        finished(tmp_path, "toy")


def test_a_failed_run_is_named_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, toy((2, 13, 3)))
    with pytest.raises(RunFailedError, match=r'"x": 13.*with seed 1(.|\n)*unlucky') as caught:
        run_experiment(toy((2, 13, 3)), output=tmp_path, seeds=[1], jobs=1)
    assert caught.value.facts["n_failed"] == 1
    assert [row["x"] for row in finished(tmp_path, "toy").values()] == [2, 3]


def test_progress_counts_and_estimates(tmp_path: Path) -> None:
    seen: list[Progress] = []
    run_experiment(toy(), output=tmp_path, seeds=[1, 2], jobs=1, progress=seen.append)
    assert [step.done for step in seen] == [0, 1, 2, 3, 4]
    assert seen[0].left is None
    assert seen[-1].left == 0.0
    assert (
        str(Progress("toy", 1, 4, 61.0, 183.0))
        == "toy: 1 of 4 runs, 1 min 01 s, about 3 min 03 s left"
    )


@pytest.mark.parametrize("configuration", [{"seed": 1}, {"x": [1, 2]}])
def test_a_configuration_that_cannot_be_a_row_is_refused(configuration: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        run_of(toy(), configuration, 0)


def test_a_measure_under_the_name_of_a_setting_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clash = Experiment(
        "toy",
        "Toy",
        lambda quick: [{"x": 1}],
        lambda configuration, seed, data: {"x": 2.0},
        lambda rows: "",
    )
    register(monkeypatch, clash)
    with pytest.raises(ParameterError, match="'x'"):
        run_experiment(clash, output=tmp_path, jobs=1)


def test_an_unknown_experiment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match="adult"):
        find("imagenet")


def test_no_jobs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="jobs is 0"):
        run_experiment(toy(), output=tmp_path, jobs=0)


def test_every_experiment_plans_runs_of_different_identity() -> None:
    for name in MODULES:
        for quick in (True, False):
            runs = planned(find(name), quick=quick)
            assert len({run.identity for run in runs}) == len(runs) > 0


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "experiments",
        "rounds",
        "--quick",
        "--seeds",
        "2",
        "--output",
        str(tmp_path),
        "--jobs",
        "2",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("rounds: 3 of 20"):
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    kept = read_journal(journal_path(tmp_path, "rounds"))
    assert 3 <= len(kept) < 20
    rows = reproduce("rounds", quick=True, seeds=[0, 1], output=tmp_path, jobs=1)
    assert len(rows) == 20
    # The rows that were there are the same to the second they took: they were not done again.
    by_identity = {row[IDENTITY]: row for row in rows}
    assert all(by_identity[row[IDENTITY]] == row for row in kept)
    again = rerun(rows[-1])
    assert {
        name: value for name, value in again.items() if name not in ("seconds", "versions")
    } == {name: value for name, value in rows[-1].items() if name not in ("seconds", "versions")}
    assert not list(tmp_path.glob("*.svg"))


def test_the_small_setting_states_itself_and_does_not_judge_the_paper(tmp_path: Path) -> None:
    rows = reproduce("appendix_bins", quick=True, output=tmp_path, jobs=1)
    page = (tmp_path / "appendix_bins.md").read_text(encoding="utf-8")
    assert "- size: 500" in page and "- seeds: 1" in page and "not compared with the paper" in page
    assert "4,000" not in page and "✓" not in page and "overlap" not in page
    table = [line for line in page.splitlines() if line.startswith("| equal_")]
    assert len(table) == len(rows) == 12
    first = rows[0]
    assert f"| {first['bins']} | {first['spread']} | {first['distance_before']:.3g} |" in table[0]


def test_the_last_line_says_where_results_are(tmp_path: Path, capsys) -> None:
    from experiments.__main__ import main

    assert main(["appendix_balance", "--quick", "--output", str(tmp_path), "--jobs", "1"]) == 0
    assert capsys.readouterr().out == f"Results: {tmp_path.resolve()}\n"


def test_all_leaves_out_what_needs_data_that_are_not_here(monkeypatch, tmp_path):
    monkeypatch.delenv("R2B_DATA", raising=False)
    can, cannot = experiments.within_reach()
    assert cannot == ["coco", "dermatology"] and set(can) | set(cannot) == set(experiments.MODULES)
    assert experiments.within_reach(tmp_path)[1] == []
    monkeypatch.setenv("R2B_DATA", str(tmp_path))
    assert experiments.within_reach()[1] == []
