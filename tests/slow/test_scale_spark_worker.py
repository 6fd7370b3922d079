"""The classes that Spark's workers run, run here: no Spark is needed."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import r2b
from r2b._solve.oracle import Pass, merged
from r2b.engines import spark_worker
from r2b.engines.batch import Batch
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.spark_worker import Merge, Reduce, Run, in_place, unpacked
from r2b.engines.tally import Count
from r2b.errors import ProbabilityError

pa = pytest.importorskip("pyarrow")
NAMES = ("p", "sex", "w")


@pytest.fixture(autouse=True)
def third_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_worker, "part_number", lambda: 3)


def people(n: int, dtype: Any = np.float64) -> Any:
    rng = np.random.default_rng(n)
    labels = rng.dirichlet(np.ones(4), n).astype(dtype)
    labels /= labels.sum(axis=1, keepdims=True)
    columns = {
        "p": pa.array(list(labels), pa.list_(pa.from_numpy_dtype(dtype))),
        "sex": pa.array(["fm"[k % 2] for k in range(n)]),
    }
    return pa.record_batch({**columns, "w": rng.gamma(2.0, 1.0, n)})


def decode(record: Any, *, weight: str | None = None) -> Decode:
    labels = np.array(record["p"].to_pylist(), np.float64)
    schema = r2b.debias(labels, sensitive_features={"sex": record["sex"]}).schema
    return Decode(ColumnRoles(("p",), True, ("sex",), (), weight), schema)


def anonymous(record: Any, size: int) -> Iterator[Any]:
    """Cut a batch as Spark sends it: columns have other names, and some pieces are empty."""
    plain = record.rename_columns([f"c{place}" for place in range(record.num_columns)])
    yield plain.slice(0, 0)
    for start in range(0, record.num_rows, size):
        yield plain.slice(start, size)


@pytest.mark.parametrize(("size", "rows"), [(1, 7), (3, 7), (100, 7), (4, 1000), (5, None)])
def test_batches_of_any_size_are_put_together_in_order(size: int, rows: int | None) -> None:
    record = people(23)
    batches = list(in_place(anonymous(record, size), NAMES, rows))
    whole = pa.Table.from_batches([batch.record for batch in batches])
    assert whole.equals(pa.Table.from_batches([record]))
    assert [batch.first for batch in batches] == np.cumsum([0, *map(len, batches)])[:-1].tolist()
    assert {batch.place for batch in batches} == {"partition 3"}
    if rows is not None:
        assert all(len(batch) == rows for batch in batches[:-1])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weight", [None, "w"])
def test_tasks_over_kept_blocks_return_what_they_return_for_all_rows(
    dtype: Any, weight: str | None
) -> None:
    record = people(60, dtype)
    reading = decode(record, weight=weight)
    prices = np.random.default_rng(0).normal(0, 0.1, (2, 4))
    kept = list(Run(NAMES, reading, 11)(anonymous(record, 8)))
    assert len(kept) == 6
    one = pa.Table.from_batches(kept).combine_chunks().to_batches()
    for wanted in ("responses", "evidence", "curvature", "labels"):
        task = Pass(wanted, (2, 4), prices)
        # However Spark puts the rows that hold blocks into batches, a partition sends one result.
        for records in (kept, one):
            (sent,) = pickle.loads(pickle.dumps(Reduce(None, task)))(records)
            assert sent["part"].to_pylist() == [3]
            results = unpacked(sent["result"][0].as_py())
            for found, known in zip(results, task.make(reading(Batch(record))), strict=True):
                np.testing.assert_allclose(
                    found, known, atol=1e-12 if dtype == np.float64 else 1e-5
                )


def test_a_partition_without_rows_sends_nothing() -> None:
    assert not list(Run(NAMES, decode(people(10)))(anonymous(people(0), 5)))
    assert not list(Reduce(None, Pass("responses", (2, 4), np.zeros((2, 4))))([]))
    assert not list(Reduce(NAMES, Count(("sex",), "w"))(anonymous(people(0), 5)))


def test_an_error_is_kept_in_place_of_a_block_and_raised_where_results_are_read() -> None:
    record = people(20)
    labels = record["p"].to_pylist()
    labels[13] = [0.5, 0.1, 0.1, 0.1]
    wrong = pa.record_batch({"p": pa.array(labels), "sex": record["sex"], "w": record["w"]})
    kept = list(Run(NAMES, decode(record), 5)(anonymous(wrong, 8)))
    assert len(kept) == 3  # two blocks, and the error about the third
    (sent,) = Reduce(None, Pass("labels", (2, 4)))(kept)
    (whole,) = Merge(Pass("labels", (2, 4)))([sent])
    with pytest.raises(
        ProbabilityError, match=r"In partition 3, row 13: .* sums to 0\.8"
    ) as raised:
        unpacked(whole["result"][0].as_py())
    assert raised.value.facts["row_in_place"] == 13


def test_sums_of_weights_do_not_depend_on_partitions_and_merges() -> None:
    record, count = people(501), Count(("sex",), "w")
    totals = []
    for size in (501, 100, 7):
        rows = []
        for part, start in enumerate(range(0, 501, size)):
            (row,) = Reduce(NAMES, count)(anonymous(record.slice(start, size), 3))
            rows.append(row.set_column(0, "part", pa.array([part])))
        results = list(Merge(count, 4)(rows))
        assert len(results) == -(-len(rows) // 4)
        tally = count.tally(merged(count, (unpacked(row["result"][0].as_py()) for row in results)))
        totals.append(dict(zip(tally.columns["sex"].to_pylist(), tally.weight, strict=True)))
    assert totals[0] == totals[1] == totals[2]
