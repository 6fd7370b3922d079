"""What Spark's workers run, run here: batches cut and put together, blocks kept and walked, errors sent home. No Spark is needed."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import r2b
from r2b._solve.oracle.blocks import Evaluate, Fold, Inspect, LabelSums, added
from r2b.engines import spark_worker
from r2b.engines.batch import Batch
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.sample import ALL, Draw
from r2b.engines.source import folded
from r2b.engines.spark_worker import Keep, Pass, Reduce, Run, Together, in_place, packed, unpacked
from r2b.engines.tally import Count
from r2b.errors import ProbabilityError, WeightError

pa = pytest.importorskip("pyarrow")


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
    schema = r2b.debias(
        np.array(record["p"].to_pylist(), np.float64), sensitive_features={"sex": record["sex"]}
    ).schema
    return Decode(ColumnRoles(("p",), True, ("sex",), (), weight), schema)


def anonymous(record: Any, size: int) -> Iterator[Any]:
    """Cut a batch as Spark hands it over: columns have other names, and some pieces are empty."""
    plain = pa.RecordBatch.from_arrays(
        record.columns, names=[f"c{place}" for place in range(record.num_columns)]
    )
    yield plain.slice(0, 0)
    for start in range(0, record.num_rows, size):
        yield plain.slice(start, size)


@pytest.mark.parametrize(("size", "rows"), [(1, 7), (3, 7), (7, 7), (100, 7), (4, 1000), (5, None)])
def test_batches_of_any_size_are_put_together_in_order(size: int, rows: int | None) -> None:
    record = people(23)
    batches = list(in_place(anonymous(record, size), ("p", "sex", "w"), rows))
    assert pa.Table.from_batches([batch.record for batch in batches]).equals(
        pa.Table.from_batches([record])
    )
    assert [batch.first for batch in batches] == np.cumsum([0, *map(len, batches)])[:-1].tolist()
    assert {batch.place for batch in batches} == {"partition 3"}
    if rows is not None:
        assert [len(batch) for batch in batches[:-1]] == [rows] * (len(batches) - 1) and 0 < len(
            batches[-1]
        ) <= rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weight", [None, "w"])
def test_tasks_over_kept_blocks_say_what_they_say_of_all_rows(
    dtype: Any, weight: str | None
) -> None:
    record = people(60, dtype)
    reading = decode(record, weight=weight)
    whole = reading(Batch(record))
    kept = list(Keep(("p", "sex", "w"), reading, entries=4 * 11)(anonymous(record, 8)))
    assert len(kept) == 6
    prices = np.random.default_rng(0).normal(0, 0.1, (2, 4))
    one = pa.Table.from_batches(kept).combine_chunks().to_batches()
    for task in (
        Evaluate(prices, 1.0, True),
        Inspect(prices, 1.0),
        Fold(prices, 1.0, np.eye(2)),
        LabelSums(2),
    ):
        # However Spark puts the rows that hold blocks into batches, a partition sends one result.
        for records in (kept, one):
            sent = list(pickle.loads(pickle.dumps(Pass(task)))(records))
            assert len(sent) == 1 and sent[0]["part"].to_pylist() == [3]
            for found, known in zip(
                unpacked(sent[0]["result"][0].as_py()), task(whole), strict=True
            ):
                np.testing.assert_allclose(
                    found, known, atol=1e-12 if dtype is np.float64 else 1e-5
                )


def test_a_partition_sends_one_sample_and_samples_are_put_together_by_number() -> None:
    record = people(60)
    reading, draw = decode(record), Draw(2, np.uint64(ALL), 61)
    rows = []
    for part, start in enumerate(range(0, 60, 20)):
        kept = list(
            Keep(("p", "sex", "w"), reading, entries=4 * 11)(anonymous(record.slice(start, 20), 8))
        )
        (sent,) = Pass(draw)(kept)
        rows.append(sent.set_column(0, "part", pa.array([part * spark_worker.MERGED_AT_ONCE])))
    (last, *others) = Together(draw)(rows[::-1])
    assert [row["part"].to_pylist() for row in (last, *others)] == [[0], [1], [2]]
    (one,) = Together(draw)([last, *others])
    known = draw(reading(Batch(record)))
    assert all(
        np.array_equal(found, mine)
        for found, mine in zip(draw.settled(unpacked(one["result"][0].as_py())), known, strict=True)
    )


def test_a_partition_without_rows_sends_nothing_to_add() -> None:
    reading = decode(people(10))
    assert not list(Keep(("p", "sex", "w"), reading)(anonymous(people(0), 5)))
    assert not list(Pass(Evaluate(np.zeros((2, 4)), 1.0, True))([]))
    assert not list(Run(("p", "sex", "w"), len)(anonymous(people(0), 5)))


def test_an_error_is_kept_in_place_of_a_block_and_raised_where_results_are_read() -> None:
    record = people(20)
    reading = decode(record)
    labels = record["p"].to_pylist()
    labels[13] = [0.5, 0.1, 0.1, 0.1]
    wrong = pa.record_batch({"p": pa.array(labels), "sex": record["sex"], "w": record["w"]})
    kept = list(Keep(("p", "sex", "w"), reading, entries=4 * 5)(anonymous(wrong, 8)))
    assert len(kept) == 3  # two blocks, and the error about the third
    (sent,) = Pass(LabelSums(2))(kept)
    with pytest.raises(
        ProbabilityError, match=r"In partition 3, row 13: .* sums to 0\.8"
    ) as caught:
        unpacked(sent["result"][0].as_py())
    assert caught.value.facts["row_in_place"] == 13


def test_results_before_an_error_come_before_it() -> None:
    record = people(9)
    weights = record["w"].to_pylist()
    weights[7] = -1.0
    wrong = pa.record_batch({"p": record["p"], "sex": record["sex"], "w": pa.array(weights)})
    first, *_, last = Run(("p", "sex", "w"), refuse_negative, rows=2)(anonymous(wrong, 4))
    assert unpacked(first["result"][0].as_py()) == 2
    with pytest.raises(WeightError, match="In partition 3, row 7"):
        unpacked(last["result"][0].as_py())


def refuse_negative(batch: Batch) -> int:
    Count(("w",), "w").make(batch)
    return len(batch)


def test_sums_of_weights_do_not_depend_on_partitions() -> None:
    record = people(501)
    totals = []
    for size in (501, 100, 7):
        parts = [record.slice(start, size) for start in range(0, 501, size)]
        count = Count(("sex",), "w")
        sent = [
            row for part in parts for row in Reduce(("p", "sex", "w"), count)(anonymous(part, 3))
        ]
        tally = count.tally(folded(count, (unpacked(row["result"][0].as_py()) for row in sent)))
        totals.append(dict(zip(tally.columns["sex"].to_pylist(), tally.weight, strict=True)))
    assert totals[0] == totals[1] == totals[2]


def test_adding_in_a_partition_changes_nothing_but_rounding() -> None:
    record = people(200)
    reading, task = decode(record), Evaluate(np.full((2, 4), 0.05), 1.0, True)
    parts = [
        list(Keep(("p", "sex", "w"), reading, entries=64)(anonymous(record.slice(start, 50), 10)))
        for start in range(0, 200, 50)
    ]
    sums = added(unpacked(row["result"][0].as_py()) for part in parts for row in Pass(task)(part))
    for found, known in zip(sums, task(reading(Batch(record))), strict=True):
        np.testing.assert_allclose(found, known, atol=1e-12)


def test_results_are_unpacked_a_little_at_a_time_and_a_short_one_is_an_error() -> None:
    rng = np.random.default_rng(0)
    made = (rng.poisson(0.3, 200_000).astype(np.uint32), rng.integers(0, 1 << 53, 50_000))
    for counts in (False, True):
        sent = packed(made, counts=counts)
        assert all(
            np.array_equal(one, other)
            for one, other in zip(made, unpacked(memoryview(sent)), strict=True)
        )
        with pytest.raises(EOFError, match="too early"):
            unpacked(sent[:-100])
