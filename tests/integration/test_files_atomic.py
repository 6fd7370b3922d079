"""Files appear whole or not at all, and nothing that is there is written over unasked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from r2b._files import AtomicWriter
from r2b.errors import ParameterError


def test_nothing_shows_before_the_files_land_and_nothing_stays_where_they_do_not(
    tmp_path: Path,
) -> None:
    with AtomicWriter() as writer:
        writer.write(tmp_path / "a", b"1")
        writer.write(tmp_path / "b", b"2")
        assert not (tmp_path / "a").exists()
    assert list(tmp_path.iterdir()) == []
    with AtomicWriter() as writer:
        writer.write(tmp_path / "a", b"1")
        writer.write(tmp_path / "b", b"2")
        writer.commit()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"1", "b": b"2"}


def test_a_file_that_is_there_is_refused_without_force_even_where_it_came_meanwhile(
    tmp_path: Path,
) -> None:
    target = tmp_path / "a"
    with AtomicWriter() as writer:
        writer.write(target, b"new")
        target.write_bytes(b"someone else's")
        with pytest.raises(ParameterError, match="there already"):
            writer.commit()
    assert target.read_bytes() == b"someone else's"
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(ParameterError, match="force=True"), AtomicWriter() as writer:
        writer.check(target)
    with AtomicWriter(force=True) as writer:
        writer.write(target, b"new")
        writer.commit()
    assert target.read_bytes() == b"new"


def test_a_replaced_file_keeps_its_mode_and_a_link_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "a", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    with AtomicWriter(force=True) as writer:
        writer.write(link, b"new")
        writer.commit()
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_the_file_that_is_read_is_never_written_over(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_bytes(b"precious")
    (tmp_path / "link.csv").symlink_to(source)
    os.link(source, tmp_path / "hard.csv")
    for name in ("in.csv", "link.csv", "hard.csv", "../" + tmp_path.name + "/in.csv"):
        with (
            AtomicWriter(force=True, keep=(str(source),)) as writer,
            pytest.raises(ParameterError, match="is the file that is read"),
        ):
            writer.write(tmp_path / name, b"")
    assert source.read_bytes() == b"precious"


def test_a_folder_is_no_target_and_must_be_there(tmp_path: Path) -> None:
    with AtomicWriter() as writer:
        with pytest.raises(ParameterError, match="is a folder"):
            writer.check(tmp_path)
        with pytest.raises(ParameterError, match="no folder"):
            writer.check(tmp_path / "none" / "a")


def test_a_device_is_written_to_and_stays_one() -> None:
    with AtomicWriter() as writer:
        writer.write(os.devnull, b"gone")
        writer.commit()
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_what_a_killed_writer_left_is_swept_and_what_a_living_one_writes_is_not(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with AtomicWriter() as living:
        mine = living.reserve(out / "fair", ["year=1/a.csv", "b.csv"]).places
        for path in mine:
            path.write_bytes(b"x")
        # No pattern for tables finds what is on its way.
        assert not [*out.rglob("*.csv*"), *out.rglob("*.parquet")]
        for folder in (out, tmp_path):
            (folder / ".fair.0123456789abcdef.part").mkdir()
            (folder / ".fair.0123456789abcdef.part" / "a.csv").write_bytes(b"half")
        (out / ".fair.fedcba9876543210.part").write_bytes(b"half")
        (out / ".other.0123456789abcdef.part").mkdir()
        with AtomicWriter() as other:
            other.reserve(out / "fair")
        assert sorted(path.name for path in out.iterdir()) == sorted(
            [mine[0].parent.name, ".other.0123456789abcdef.part"]
        )
        living.commit()
    assert sorted(path.relative_to(out).as_posix() for path in (out / "fair").rglob("*.csv")) == [
        "fair/b.csv",
        "fair/year=1/a.csv",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_is_replaced_whole_and_nothing_of_the_old_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr("r2b._files.atomic._exchanged", lambda one, other: False)
    (tmp_path / "fair").mkdir()
    (tmp_path / "fair" / "old.csv").write_bytes(b"old")
    with AtomicWriter(force=True) as writer:
        (new,) = writer.reserve(tmp_path / "fair", ["new.csv"]).places
        new.write_bytes(b"new")
        writer.commit()
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "fair").iterdir()] == [
        ("new.csv", b"new")
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["fair"]
