"""Damaged files end in a sentence, never in the end of the process; small files that grow are
refused before they do.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app_server import PEOPLE, Served, running
from damaged_files import KINDS, campaign, whole

from r2b import scan
from r2b._files.formats import unpacked_within
from r2b.engines.files import FileSource
from r2b.errors import DamagedFileError, FileTooLargeError

pa = pytest.importorskip("pyarrow")
parquet: Any = pytest.importorskip("pyarrow.parquet")
feather: Any = pytest.importorskip("pyarrow.feather")


@pytest.mark.parametrize("kind", KINDS)
def test_files_damaged_at_random_are_used_or_refused_with_a_typed_error(kind: str) -> None:
    # tests/damaged_files.py runs as many more as wanted; without a check before use, stretches as
    # long as this one ended with signal 11.
    code, counted = campaign(kind, 0, 40)
    assert code == 0, counted
    assert set(eval(counted)) <= {"used", "refused"}, counted


@pytest.fixture(scope="module")
def app() -> Iterator[Served]:
    with running(max_upload=1) as served:
        yield served


def test_a_reader_that_breaks_down_does_not_take_the_app_along(
    app: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    from r2b.app import files as parsing

    page = app.open()
    # The child really dies of a signal, as it would of a fault in the reader that nobody knows yet.
    dying = "import os, sys; sys.stdin.buffer.read(); os.kill(os.getpid(), 11)"
    monkeypatch.setattr(parsing, "CHILD", dying)
    answer = app.post("/tables?name=people.feather", whole("feather"))
    assert answer.status == 400
    assert answer.json["problem"].startswith("people.feather is damaged")
    assert "signal 11" in answer.json["problem"]
    monkeypatch.setattr(parsing, "CHILD", "import time; time.sleep(60)")
    monkeypatch.setattr(parsing, "SECONDS", 1)
    answer = app.post("/tables?name=people.feather", whole("feather"))
    assert answer.status == 413 and "1 seconds" in answer.json["problem"]
    assert app.get(f"{page}/page").status == 200


def bomb(kind: str, rows: int = 3_000_000) -> bytes:
    """Return a small file that unpacks to tens of megabytes."""
    sink = io.BytesIO()
    if kind == "csv.zst":
        return bytes(pa.compress(b"sex,job\n" + b"f,clerk\n" * rows, "zstd", asbytes=True))
    if kind == "parquet":
        parquet.write_table(pa.table({"sex": pa.array([1.5]).take(pa.array([0] * rows))}), sink)
    elif kind == "texts.parquet":
        parquet.write_table(
            pa.table({"sex": pa.array(["long " * 1000]).take(pa.array([0] * 8000))}), sink
        )
    elif kind == "codes.arrow":
        codes = pa.DictionaryArray.from_arrays(
            pa.array([0] * 8000, pa.int8()), pa.array(["long " * 1000])
        )
        feather.write_feather(pa.table({"sex": codes}), sink, compression="uncompressed")
    elif kind == "runs.arrow":
        runs = pa.RunEndEncodedArray.from_arrays(
            pa.array([8000], pa.int32()), pa.array(["long " * 1000])
        )
        with pa.ipc.new_file(sink, pa.schema([("sex", runs.type)])) as writer:
            writer.write_batch(pa.record_batch({"sex": runs}))
    elif kind == "nulls.arrow":
        feather.write_feather(
            pa.table({"sex": pa.nulls(10 * rows)}), sink, compression="uncompressed"
        )
    else:
        feather.write_feather(
            pa.table({"sex": pa.array([1.5]).take(pa.array([0] * rows))}), sink, compression="zstd"
        )
    return sink.getvalue()


BOMBS = (
    "csv.zst",
    "parquet",
    "texts.parquet",
    "codes.arrow",
    "runs.arrow",
    "nulls.arrow",
    "feather",
)


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_that_grows_is_refused_with_both_sizes_and_the_limit(
    app: Served, kind: str
) -> None:
    content = bomb(kind)
    assert len(content) < 400_000
    with unpacked_within(10_000_000), pytest.raises(FileTooLargeError) as refused:
        FileSource.open(f"big.{kind}", stream=io.BytesIO(content)).columns(["sex"])
    assert int(str(refused.value.facts["size"])) > 10_000_000
    assert "`--max-unpacked`" in refused.value.remedy
    assert (
        len(FileSource.open(f"big.{kind}", stream=io.BytesIO(content)).columns(["sex"])["sex"])
        >= 8000
    )
    answer = app.post(f"/tables?name=big.{kind}", content)
    assert answer.status == 413
    assert "unpacked" in answer.json["problem"]
    assert "--max-upload" in answer.json["remedy"]
    assert app.post("/tables?name=a.csv", PEOPLE).status == 201


def test_a_record_batch_that_grows_is_refused_part_by_part_too(tmp_path: Path) -> None:
    (tmp_path / "big.feather").write_bytes(bomb("feather"))
    with unpacked_within(100_000), pytest.raises(FileTooLargeError, match="pandas or pyarrow"):
        scan(tmp_path / "big.feather")


def test_names_of_columns_that_are_no_text_are_refused(tmp_path: Path) -> None:
    sink = io.BytesIO()
    feather.write_feather(
        pa.table({"sex_of_person": ["f", "m"], "job": ["x", "y"]}), sink, compression="uncompressed"
    )
    (tmp_path / "a.feather").write_bytes(
        sink.getvalue().replace(b"sex_of_person", b"sex\xff\xff\xff\xffperson")
    )
    with pytest.raises(DamagedFileError):
        scan(tmp_path / "a.feather")


def test_long_texts_that_repeat_are_read_a_few_rows_at_a_time(tmp_path: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(
        pa.array([row % 2 for row in range(40_000)], pa.int32()),
        pa.array(["a" * 20_000, "b" * 20_000]),
    )
    people = {"sex": ["f", "m"] * 20_000, "job": ["x", "y", "x", "x"] * 10_000}
    parquet.write_table(
        pa.table({"note": texts, **people}), tmp_path / "a.parquet", store_schema=False
    )
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    sizes = [
        batch.record.nbytes
        for batch in scan(tmp_path / "a.parquet").source.batches(["note", "sex", "job"])
    ]
    assert sum(sizes) > 800_000_000 > 10 * max(sizes)
