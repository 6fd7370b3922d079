"""Files appear whole or not at all, and nothing that is there is written over unasked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from r2b._files import AtomicWriter
from r2b.errors import ParameterError


def test_nothing_shows_before_the_files_land_and_nothing_stays_where_they_do_not(tmp_path: Path) -> None:
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


def test_a_file_that_is_there_is_refused_without_force_even_where_it_came_meanwhile(tmp_path: Path) -> None:
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
        with AtomicWriter(force=True, keep=(str(source),)) as writer, pytest.raises(ParameterError, match="is the file that is read"):
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
