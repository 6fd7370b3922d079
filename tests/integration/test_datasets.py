"""Adult is the data the world knows, byte for byte and fact by fact."""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from r2b.datasets import AdultTable, adult, load_adult


@pytest.fixture(scope="module")
def table() -> AdultTable:
    return load_adult()


def original_file() -> Path:
    folder = os.environ.get("R2B_DATA")
    data = Path(folder) if folder else Path(__file__).resolve().parents[3] / "shared" / "data"
    path = data / "adult" / "adult.csv.gz"
    if not path.is_file():
        pytest.skip(
            "the original rows are not here: set R2B_DATA to the folder that has adult/adult.csv.gz"
        )
    return path


def test_file_is_the_one_that_was_built() -> None:
    content = (resources.files("r2b.datasets") / adult.FILE).read_bytes()
    assert hashlib.sha256(content).hexdigest() == adult.SHA256
    assert len(content) < 450_000


def test_every_cell_equals_the_original(table: AdultTable) -> None:
    with gzip.open(original_file(), "rt", encoding="ascii", newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == list(table.columns)
    for name, column in zip(header, zip(*rows, strict=True), strict=True):
        assert tuple(table[name].astype(str).tolist()) == column, name


def test_counts(table: AdultTable) -> None:
    assert len(table) == 48_842
    assert {name: len(values) for name, values in table.columns.items()} == dict.fromkeys(
        table.columns, 48_842
    )
    for column, counts in {
        "sex": {"Female": 16_192, "Male": 32_650},
        "income": {"<=50K": 37_155, ">50K": 11_687},
        "split": {"test": 16_281, "train": 32_561},
    }.items():
        values, found = np.unique(table[column], return_counts=True)
        assert dict(zip(values.tolist(), found.tolist(), strict=True)) == counts
    assert len(np.unique(table["race"])) == 5


def test_missing_values(table: AdultTable) -> None:
    missing = {
        name: int((values == adult.MISSING).sum())
        for name, values in table.columns.items()
        if values.dtype.kind == "U"
    }
    assert {name: count for name, count in missing.items() if count} == {
        "workclass": 2_799,
        "occupation": 2_809,
        "native-country": 857,
    }
    assert sum(missing.values()) == 6_465
    complete = table.complete()
    assert len(table) - len(complete) == 3_620
    assert not any(
        (values == adult.MISSING).any()
        for values in complete.columns.values()
        if values.dtype.kind == "U"
    )
    assert complete.columns.keys() == table.columns.keys()


def test_education_order_is_that_of_education_num(table: AdultTable) -> None:
    assert len(table.education_order) == 16
    assert set(table.education_order) == set(table["education"].tolist())
    np.testing.assert_array_equal(
        np.array(table.education_order)[table["education-num"] - 1], table["education"]
    )


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_hold_the_same_columns(table: AdultTable, library: Any) -> None:
    pytest.importorskip(library)
    nw = pytest.importorskip("narwhals")
    native = load_adult(as_frame=library)
    assert type(native).__module__.split(".")[0] == library
    frame = nw.from_native(native)
    assert frame.columns == list(table.columns)
    for name in frame.columns:
        np.testing.assert_array_equal(frame[name].to_numpy().astype(table[name].dtype), table[name])


def test_a_table_tells_its_columns_as_frames_do() -> None:
    adult = load_adult()
    assert "sex" in adult and "gender" not in adult and 0 not in adult
    assert list(adult) == list(adult.columns)
