"""A folder write that was stopped goes on where it was, with what is proven to be of the same request and whole, and with nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import killed_writes
import pytest
from cli_calls import Shell

import r2b


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killed_writes, "N_ROWS", 60)


class Stop(Exception):
    """What stops a write."""


class Watch:
    """Stops a pass once so many rows are written, and notes how many files were taken over."""

    after: int | None = None
    taken = 0

    def __call__(self, step: Any) -> None:
        self.taken = max(self.taken, step.taken_over)
        if self.after is not None and step.rows >= self.after:
            raise Stop


def opened(folder: Path, **options: Any) -> tuple[r2b.FairLabels, Watch]:
    watch = Watch()
    return r2b.scan(folder, progress=watch, threads=1, **options).debias(
        "job", sensitive_features="sex", epsilon=0.01
    ), watch


def stopped(
    fair: r2b.FairLabels, watch: Watch, target: Path, form: Any = "soft", **asked: Any
) -> list[Path]:
    """Stop a write in the middle; give what it leaves."""
    watch.after = 400
    with pytest.raises(Stop):
        fair.write(target, form, **asked)
    watch.after = None
    return [path for path in target.parent.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("form", ["sample", "expand"])
def test_what_was_finished_is_kept_and_the_bytes_are_those_of_one_write(
    kind: str, form: Any, tmp_path: Path
) -> None:
    killed_writes.make(tmp_path / "people", kind)
    opened(tmp_path / "people")[0].write(tmp_path / "whole", form, random_state=3)
    out = tmp_path / "out"
    out.mkdir()
    fair, watch = opened(tmp_path / "people")
    (left,) = stopped(fair, watch, out / "fair", form, random_state=3, resume=True)
    assert not list(out.rglob(f"*.{kind}"))
    finished = {path.name: path.stat().st_ino for path in left.iterdir() if path.name[0] == "0"}
    assert len(finished) >= 5
    again, watch = opened(tmp_path / "people")  # as another process would
    again.write(out / "fair", form, random_state=3, resume=True)
    assert watch.taken == len(finished)
    assert killed_writes.content(out / "fair") == killed_writes.content(tmp_path / "whole")
    kept = sorted((out / "fair").iterdir())[: len(finished)]
    assert {path.stat().st_ino for path in kept} == set(finished.values())
    assert [path.name for path in out.iterdir()] == ["fair"]


def changed_input(folder: Path, left: Path) -> dict[str, Any]:
    """Change a file that was read to another of the same size and time."""
    path = sorted(folder.iterdir())[0]
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"j1", b"j0", 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    return {}


def other_request(folder: Path, left: Path) -> dict[str, Any]:
    return {"random_state": 4}


def other_release(folder: Path, left: Path) -> dict[str, Any]:
    path = left / "finished.part"
    path.write_bytes(b"0" * 40 + path.read_bytes()[40:])
    return {}


@pytest.mark.parametrize("change", [changed_input, other_request, other_release])
def test_nothing_of_another_request_is_kept(change: Any, tmp_path: Path) -> None:
    killed_writes.make(tmp_path / "people", "csv")
    fair, watch = opened(tmp_path / "people")
    (left,) = stopped(fair, watch, tmp_path / "fair", "sample", resume=True)
    asked = change(tmp_path / "people", left)
    again, watch = opened(tmp_path / "people")
    again.write(tmp_path / "fair", "sample", resume=True, **asked)
    assert watch.taken == 0
    again.write(tmp_path / "whole", "sample", **asked)
    assert killed_writes.content(tmp_path / "fair") == killed_writes.content(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fair", "people", "whole"]


def test_a_file_that_is_not_what_was_noted_is_written_anew(tmp_path: Path) -> None:
    killed_writes.make(tmp_path / "people", "csv")
    fair, watch = opened(tmp_path / "people")
    (left,) = stopped(fair, watch, tmp_path / "fair", resume=True)
    finished = sorted(path for path in left.iterdir() if path.name[0] == "0")
    raw = finished[1].read_bytes()
    finished[1].write_bytes(raw[:-2] + bytes([raw[-2] ^ 1]) + raw[-1:])  # of the same size
    finished[2].write_bytes(raw[:50])
    (left / "00000011.part").write_bytes(b"half")
    with open(left / "finished.part", "ab") as file:
        file.write(b"11 60 4")  # a line that was not ended
    fair.write(tmp_path / "fair", resume=True)
    assert watch.taken == len(finished) - 2
    fair.write(tmp_path / "whole")
    assert killed_writes.content(tmp_path / "fair") == killed_writes.content(tmp_path / "whole")


def test_a_write_that_was_stopped_while_files_got_their_names_goes_on(tmp_path: Path) -> None:
    killed_writes.make(tmp_path / "people", "csv")
    fair, watch = opened(tmp_path / "people")
    (left,) = stopped(fair, watch, tmp_path / "fair", resume=True)
    (left / "00000000.part").rename(left / "part-00.csv")
    fair.write(tmp_path / "fair", resume=True)
    assert watch.taken >= 5
    fair.write(tmp_path / "whole")
    assert killed_writes.content(tmp_path / "fair") == killed_writes.content(tmp_path / "whole")


def test_without_it_nothing_stays_and_what_is_left_is_removed(tmp_path: Path) -> None:
    killed_writes.make(tmp_path / "people", "csv")
    fair, watch = opened(tmp_path / "people")
    assert stopped(fair, watch, tmp_path / "fair") == []
    assert len(stopped(fair, watch, tmp_path / "fair", resume=True)) == 1
    fair.write(tmp_path / "fair")
    assert watch.taken == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fair", "people"]


def test_a_folder_that_is_being_written_is_not_taken_over(tmp_path: Path) -> None:
    killed_writes.make(tmp_path / "people", "csv")
    fair, _ = opened(tmp_path / "people")
    seen: list[int] = []

    def second(step: Any) -> None:
        if step.rows >= 400 and not seen:
            other, theirs = opened(tmp_path / "people")
            other.write(tmp_path / "fair", resume=True)
            seen.append(theirs.taken)

    first = r2b.scan(tmp_path / "people", progress=second, threads=1)
    fair = first.transform(fair, "job", sensitive_features="sex")
    seen.clear()
    shutil.rmtree(tmp_path / "fair", ignore_errors=True)
    fair.write(tmp_path / "fair", force=True, resume=True)
    assert seen == [0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fair", "people"]


def test_the_command_line_says_how_many_files_it_took_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    killed_writes.make(tmp_path / "people", "csv")
    words = [
        "debias",
        str(tmp_path / "people"),
        "--label",
        "job",
        "--sensitive",
        "sex",
        "--epsilon",
        "0.01",
        "-o",
        str(tmp_path / "fair"),
    ]
    fair, watch = opened(tmp_path / "people")
    stopped(fair, watch, tmp_path / "fair", resume=True)
    call = Shell(capsys, tmp_path)
    assert call(*words, "--resume", "--json").facts["files_taken_over"] >= 5
    stopped(fair, watch, tmp_path / "fair", resume=True, force=True)
    assert "files taken over" in call(*words, "--resume", "--force").out
    assert "files taken over" not in call(*words, "--resume", "--force").out
