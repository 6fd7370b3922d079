"""Damaged files, full disks and sudden ends: each is an error that names the place, and none leaves
anything behind.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import file_tables
import pyarrow.parquet as pq
import pytest
from forked import run_program

import r2b
from r2b.errors import InputError, ParameterError

PEOPLE = file_tables.people()


def fair_of(given: Any) -> r2b.FairLabels:
    return r2b.scan(given).debias("job", sensitive_features="sex", epsilon=0.05)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".ipc", ".csv.gz"])
def test_a_file_that_is_cut_short_is_refused_by_name(suffix: str, tmp_path: Path) -> None:
    place = file_tables.write(PEOPLE, tmp_path / f"people{suffix}")
    content = place.read_bytes()
    place.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=rf"people\{suffix}.* cannot be read"):
        fair_of(place)


def test_a_damaged_row_group_is_named(tmp_path: Path) -> None:
    place = file_tables.write(PEOPLE, tmp_path / "people.parquet")
    group = pq.ParquetFile(place).metadata.row_group(2)
    column = group.column(1)
    content = bytearray(place.read_bytes())
    start = min(
        offset for offset in (column.dictionary_page_offset, column.data_page_offset) if offset
    )
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    place.write_bytes(content)
    with pytest.raises(InputError, match=r"people\.parquet, row group 2 cannot be read"):
        fair_of(place)


def test_folders_must_tell_the_same_columns_and_none_that_files_have(tmp_path: Path) -> None:
    place = file_tables.hive(PEOPLE, tmp_path)
    file_tables.write(PEOPLE.drop_columns(["year", "region"]), place / "year=2024" / "part.parquet")
    with pytest.raises(ParameterError, match=r"year=2024/part\.parquet 'year'"):
        r2b.scan(place)
    file_tables.write(PEOPLE, tmp_path / "both" / "year=2024" / "part.parquet")
    with pytest.raises(InputError, match="'year' is in year=2024/part"):
        r2b.scan(tmp_path / "both")


def test_a_folder_of_several_formats_or_of_other_files_is_refused(tmp_path: Path) -> None:
    file_tables.write(PEOPLE, tmp_path / "a.parquet")
    file_tables.write(PEOPLE, tmp_path / "b.csv")
    with pytest.raises(ParameterError, match=r"a\.parquet is parquet and b\.csv is csv"):
        r2b.scan(tmp_path)
    (tmp_path / "b.csv").rename(tmp_path / "notes.txt")
    with pytest.raises(ParameterError, match=r"notes\.txt"):
        r2b.scan(tmp_path)
    assert r2b.scan(str(tmp_path / "*.parquet")).names == tuple(PEOPLE.column_names)


def little_room(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(
        "r2b._files.paths.shutil.disk_usage",
        lambda path: shutil._ntuple_diskusage(10**9, 10**9 - free, free),
    )


def test_a_disk_without_room_is_seen_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fair = fair_of(file_tables.write(PEOPLE, tmp_path / "p.parquet"))
    _, table = file_tables.scores()
    pq.write_table(table, tmp_path / "s.parquet")
    little_room(monkeypatch, 20_000)
    with pytest.raises(ParameterError, match=r"20\.0 kB free, and the new files need about"):
        fair.write(tmp_path / "q.parquet", "round")
    with pytest.raises(
        ParameterError, match=r"20\.0 kB free, and decoded probabilities need about .* TMPDIR"
    ):
        r2b.scan(tmp_path / "s.parquet").debias("p", sensitive_features="g")
    assert names(tmp_path) == ["p.parquet", "s.parquet"]


# Each file in a child of one process, which has imported what they need.
LIMITED = """
import ast, resource, sys
from functools import partial
import forked
import r2b
import r2b.engines.source
from r2b.errors import R2BError

r2b.engines.source.Source.most_held = 0

def limited(source, target, label, most=20_000):
    scan = r2b.scan(source)
    names = [name for name in scan.names if name.startswith("p")] if label == "p*" else label
    try:
        if label == "p*":
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        sex = scan.names[1 if label == "p*" else 2]
        fair = scan.debias(names, sensitive_features=sex, epsilon=0.05)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        fair.write(target, "soft")
    except R2BError as error:
        print(type(error).__name__, error)
    return 0

several = ast.literal_eval(sys.argv[1])
forked.prepare(partial(limited, several[0][0], sys.argv[2], "job", 10**9))
for asked in several:
    assert forked.ended(forked.child(partial(limited, *asked))) == 0, asked
    print("next", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_file_that_may_not_grow_leaves_nothing_and_scratch_that_may_not_is_an_error(
    tmp_path: Path,
) -> None:
    asked, wanted = [], []
    for suffix in (".parquet", ".arrow", ".csv", ".csv.gz"):
        place = file_tables.write(PEOPLE, tmp_path / suffix[1:] / f"p{suffix}")
        asked.append((str(place), str(place.with_name(f"q{suffix}")), "job"))
        wanted.append(
            f"ParameterError {place.with_name(f'q{suffix}')} cannot be written: the disk has no"
            " room left"
        )
    _, table = file_tables.scores()
    (tmp_path / "scores").mkdir()
    pq.write_table(table.drop_columns("p"), tmp_path / "scores" / "p.parquet")
    asked.append(
        (str(tmp_path / "scores" / "p.parquet"), str(tmp_path / "scores" / "q.parquet"), "p*")
    )
    wanted.append("ParameterError Decoded probabilities cannot be kept")
    done = run_program(LIMITED, repr(asked), str(tmp_path / "whole.parquet"))
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.split("next\n")
    assert len(said) == 6 and said[-1] == ""
    assert not [
        (told, start)
        for told, start in zip(said, wanted, strict=False)
        if not told.startswith(start)
    ]
    assert [names(Path(source).parent) for source, _, _ in asked] == [
        [Path(source).name] for source, _, _ in asked
    ]
