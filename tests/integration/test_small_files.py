"""Many small files are read and written together, and it does not show: labels, bytes and errors are those of one file after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import killed_writes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import r2b
from r2b.engines.files import outs
from r2b.errors import InputError, R2BError


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("form", ["soft", "round", "expand"])
def test_files_that_are_taken_together_leave_as_they_would_alone(
    kind: str, form: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(killed_writes, "N_ROWS", 23)
    killed_writes.make(tmp_path / "people", kind)
    written, read = [], []
    for most in (1 << 14, 0):  # together, and each alone
        monkeypatch.setattr(outs, "_ROWS", most)
        fair = r2b.scan(tmp_path / "people", threads=2).debias(
            "job", sensitive_features="sex", epsilon=0.01
        )
        fair.write(tmp_path / f"fair{most}", form, random_state=2)
        written.append(killed_writes.content(tmp_path / f"fair{most}"))
        read.append(fair.prices)
    assert written[0] == written[1]
    assert (read[0] == read[1]).all()


def folder(place: Path, texts: list[bytes]) -> Path:
    place.mkdir()
    for number, text in enumerate(texts):
        (place / f"{number:02d}.csv").write_bytes(text)
    return place


FINE = [
    b'sex,job\nf,a\nm,b\n"f","b, c"\n',
    b'sex,job\nm,a\nm,b\nf,"b\n c"',
    b"sex,job\r\nf,a\r\nm,b\r\n",
    b"sex,job\n",
    b"sex,job\nm,b\n\n\n",
]


@pytest.mark.parametrize("form", ["sample", "expand"])
def test_text_of_any_layout_stays_as_it_is(
    form: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    people = folder(tmp_path / "people", FINE * 3)
    monkeypatch.setattr(outs, "_ROWS", 1 << 14)
    fair = r2b.scan(people).debias("job", sensitive_features="sex", epsilon=0.1)
    fair.write(tmp_path / "together", form)
    monkeypatch.setattr(outs, "_ROWS", 0)
    fair.write(tmp_path / "alone", form)
    assert killed_writes.content(tmp_path / "together") == killed_writes.content(tmp_path / "alone")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b"sex,job\nf,a\nm\n", "Line 3 of 03.csv has 1 field"),
        (b"sex,job\nf,a\nm,\n", "03.csv, row 1"),
        (b"sex,job\nf,a\n\nm,a\n", "Line 3 of 03.csv is blank"),
        (b"sex,job\nf,\xff\n", "03.csv is not utf-8"),
    ],
)
def test_errors_name_the_file_and_the_line(wrong: bytes, message: str, tmp_path: Path) -> None:
    people = folder(tmp_path / "people", [*FINE[:1] * 3, wrong, *FINE[:1] * 3])
    with pytest.raises(InputError, match=message):
        r2b.scan(people).debias("job", sensitive_features="sex", epsilon=0.1)


def test_a_row_that_is_no_distribution_is_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    for number in range(5):
        share = [0.25, 0.5 if number != 3 else 1.5]
        table = pa.table({"sex": ["f", "m"], "no": share, "yes": [0.75, 0.5]})
        pq.write_table(table, tmp_path / "people" / f"{number}.parquet")
    with pytest.raises(R2BError, match=r"3\.parquet, row group 0, row 1"):
        r2b.scan(tmp_path / "people").debias(["no", "yes"], sensitive_features="sex", epsilon=0.1)
