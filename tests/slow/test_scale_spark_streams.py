"""Micro-batches of Spark with stored prices: the labels of the whole, batch by batch, also where something new turns up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from test_streams import PEOPLE, applied, in_order, people

import r2b


def test_every_batch_gets_the_labels_of_the_whole(spark: Any, tmp_path: Path) -> None:
    prices = r2b.scan(PEOPLE).debias(
        "level", sensitive_features=["sex", "region"], families="marginal", epsilon=0.01
    )
    prices.save(tmp_path / "prices.json")
    stored = r2b.load(tmp_path / "prices.json")
    later = people(60, seed=6)
    later = pa.concat_tables(
        [
            later,
            pa.table(
                {"id": [-1], "level": ["top"], "sex": ["x"], "region": ["n"]}, schema=later.schema
            ),
        ]
    )
    (tmp_path / "incoming").mkdir()
    for number in range(2):
        pq.write_table(later.slice(40 * number, 40), tmp_path / "incoming" / f"{number}.parquet")
    sizes = []

    def label(batch: Any, number: int) -> None:
        fair = applied(batch, stored, unseen="overall")
        made = fair.frame("sample", key="id", random_state=3).toArrow()
        pq.write_table(made, tmp_path / f"labelled-{number}.parquet")
        sizes.append(made.num_rows)

    stream = spark.readStream.schema("id long, level string, sex string, region string").option(
        "maxFilesPerTrigger", 1
    )
    query = (
        stream.parquet(str(tmp_path / "incoming"))
        .writeStream.foreachBatch(label)
        .trigger(availableNow=True)
    )
    running = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert running.awaitTermination(120) and running.exception() is None
    assert sorted(sizes) == [21, 40]
    found = pa.concat_tables(
        [pq.read_table(tmp_path / f"labelled-{number}.parquet") for number in range(2)]
    )
    known = applied(later, stored, unseen="overall").frame("sample", key="id", random_state=3)
    assert in_order(found) == in_order(known)
    none = applied(spark.createDataFrame(later).filter("false"), stored).frame("soft").toArrow()
    assert none.num_rows == 0 and none.column_names[4:] == [
        "level_fair_high",
        "level_fair_low",
        "level_fair_middle",
    ]
