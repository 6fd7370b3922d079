"""Measure what the arithmetic of docs/planning.md is made of, in bytes and passes: ``python benchmarks/sizes.py``.

No rates, so that it does not matter what else the machine does. What partitions send is what
Spark's workers pack for real partitions. The passes that whole labels take are those of the real
search, asked about counts that are drawn for any number of rows.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from r2b._data import Schema, Vocabulary
from r2b._data.cells import read_cells
from r2b._labels.forms.keyed import BITS, draws_of, row_numbers
from r2b._labels.forms.rounding import Found, Search, whole_counts
from r2b._solve.oracle import Block
from r2b._solve.oracle.blocks import Evaluate, Inspect
from r2b.engines.batch import Batch
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.sample import Draw, First, share_limit
from r2b.engines.spark_worker import Keep, packed
from r2b.engines.tally import Count

RESULTS = Path(__file__).resolve().parent / "results" / "sizes.json"
CLASSES, PARTITION, GROUPS = 16, 1 << 18, (5, 200, 5_000)
ROWS = (10**8, 10**9, 10**10, 10**11)


def partition(groups: int, rows: int, soft: bool) -> Any:
    """Make a partition: classes, or float32 probabilities."""
    rng = np.random.default_rng(0)
    group = pa.array([f"group {s}" for s in range(groups)]).take(
        pa.array(rng.integers(0, groups, rows))
    )
    if not soft:
        return pa.record_batch(
            {"id": np.arange(rows), "label": rng.integers(0, CLASSES, rows), "group": group}
        )
    scores = rng.standard_exponential((rows, CLASSES), np.float32)
    scores /= scores.sum(axis=1, keepdims=True)
    return pa.record_batch(
        {
            "label": pa.FixedSizeListArray.from_arrays(pa.array(scores.ravel()), CLASSES),
            "group": group,
        }
    )


def sent(groups: int) -> dict[str, int]:
    """Give the bytes that a partition sends home in each kind of pass."""
    record = partition(groups, PARTITION, soft=False)
    found = {"count": len(packed(Count(("label", "group")).make(Batch(record)), counts=True))}
    codes = np.random.default_rng(1).integers(0, groups * CLASSES, PARTITION)
    whole = np.full((groups * CLASSES, CLASSES), 10**9 // (groups * CLASSES**2))
    found["draws counted in bins"] = len(
        packed(Search.of(whole).look(codes, draws_of(row_numbers(0, PARTITION), 0)), counts=True)
    )
    block = _block(groups)
    prices = np.zeros((groups, CLASSES))
    for name, task in {
        "means": Evaluate(prices, 1.0, False),
        "certificate": Inspect(prices, 1.0),
        "sums": First(groups),
    }.items():
        found[name] = len(packed(task(block)))
    return found


def _block(groups: int) -> Block:
    record = partition(groups, PARTITION, soft=True)
    return _decode(groups)(Batch(record))


def _decode(groups: int) -> Decode:
    names = read_cells({"group": [f"group {s}" for s in range(groups)]})
    schema = Schema(*names.parts, classes=Vocabulary(np.arange(CLASSES)), is_soft=True)
    return Decode(ColumnRoles(("label",), True, ("group",), (), None), schema)


def sampled(groups: int, entries: int = 1 << 24) -> int:
    """Give the bytes of a sample at its largest: it is no larger of more rows than it may hold."""
    most = entries // CLASSES
    draw = Draw(groups, share_limit(First(groups)(_block(groups))[2], PARTITION // 4), most + 1)
    rows = draw(_block(groups))
    return int(sum(part.nbytes for part in rows) / len(rows[0]) * most)


def kept(groups: int) -> float:
    """Give the bytes a row that decoded probabilities take."""
    record = partition(groups, PARTITION, soft=True)
    plain = pa.RecordBatch.from_arrays(record.columns, names=["c0", "c1"])
    return sum(row.nbytes for row in Keep(("label", "group"), _decode(groups))([plain])) / PARTITION


def passes(rows: int, groups: int) -> dict[str, int]:
    """Look for the borders of whole labels among so many rows, with counts drawn as those of even draws would be."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(CLASSES, 8.0), groups)
    counts = np.array([rng.multinomial(rows // groups, each) for each in shares])
    away = 0.2 * rng.random((groups, CLASSES, CLASSES))
    channel = np.eye(CLASSES) * (1.0 - away.sum(axis=2, keepdims=True) / CLASSES) + away / CLASSES
    search: Any = Search.of(whole_counts(counts, channel, 0).reshape(-1, CLASSES))
    most = {"passes": 0, "counters": 0, "draws": 0}
    while isinstance(search, Search):
        found = drawn(search, rng)
        most = {
            "passes": most["passes"] + 1,
            "counters": max(most["counters"], len(found[0])),
            "draws": max(most["draws"], len(found[1])),
        }
        search = search.borders(found)
    return most


def drawn(search: Search, rng: np.random.Generator) -> Found:
    """Draw what a pass finds: rows fall into the bins of a slot evenly."""
    look = search.look
    n_bins = 1 << look.bits
    left, counted = search.sizes.copy(), np.zeros((look.n_slots, n_bins), np.int64)
    for place in range(n_bins):
        counted[:, place] = rng.binomial(left, 1.0 / (n_bins - place))
        left -= counted[:, place]
    wanted = (
        np.ones(counted.shape, bool)
        if not look.bits
        else look.wanted
        if look.wanted is not None
        else np.zeros(counted.shape, bool)
    )
    slot, place = np.nonzero(wanted)
    rows = counted[slot, place]
    slot, place = np.repeat(slot, rows), np.repeat(place, rows)
    spare = BITS - look.used - look.bits
    # what the bits before say is the same for all rows of a slot
    draws = (place << spare) + rng.integers(0, 1 << spare, len(place))
    return (counted.ravel() if look.bits else np.empty(0, np.int64)), slot.astype(np.int32), draws


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = {
        "classes": CLASSES,
        "partition": PARTITION,
        "sent": {str(groups): sent(groups) for groups in GROUPS},
        "sample": {str(groups): sampled(groups) for groups in GROUPS},
        "kept": kept(5),
        "whole": [
            {"rows": rows, "groups": groups, **passes(rows, groups)}
            for groups in GROUPS
            for rows in ROWS
        ],
    }
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    print(options.output.read_text())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
