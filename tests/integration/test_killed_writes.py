"""A folder write that is killed shows a reader none or all of its rows, and the next one clears up;
the script does it often.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("polars")
killed_writes = pytest.importorskip("killed_writes")


def test_no_reader_sees_part_of_a_killed_write() -> None:
    hits = 0
    for seed in range(4):  # on a busy machine writes are done, or not begun, when the signal comes
        hits += killed_writes.killed("csv", 6, seed)[0]
        if hits >= 2:
            break
    assert hits >= 2


def test_a_certificate_never_stands_beside_labels_that_it_is_not_about(tmp_path: Path) -> None:
    seen = killed_writes.killed_pairs(tmp_path)
    assert seen["old"] > 3 and seen["new"] > 0 and seen["alone"] > 0, seen
