"""Another engine behind the block protocol.

The one of the page, run by real processes, and what is refused.
"""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_docs import ROOT, blocks_of

import r2b
from r2b._solve.oracle import merged
from r2b.engines import Block, debias_blocks
from r2b.errors import (
    EmptyError,
    InputError,
    LengthError,
    ParameterError,
    ProbabilityError,
    ShapeError,
    WeightError,
)

SEX, REGION = ["f", "f", "m", "m"], ["north", "south", "north", "south"]


class Listed:
    """Blocks in a list."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks

    def reduce(self, task: Any) -> Any:
        return merged(task, map(task.make, self.blocks))


def rows(n: int = 400, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 4, n)
    labels = rng.dirichlet(np.ones(3), n) + np.eye(3)[cells % 3] / 4
    return labels / labels.sum(axis=1, keepdims=True), cells, rng.gamma(2.0, 1.0, n)


def cut(labels: Any, cells: Any, weight: Any = None, size: int = 90) -> list[Block]:
    parts = [slice(start, start + size) for start in range(0, len(labels), size)]
    return [
        Block(labels[part], cells[part], np.empty(0) if weight is None else weight[part])
        for part in parts
    ]


def test_the_engine_of_the_page_runs_in_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = blocks_of((ROOT / "docs" / "engines.md").read_text(encoding="utf-8"))
    module = next(block.source for block in blocks if "class Files" in block.source)
    (tmp_path / "engine_of_the_page.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    engine: Any = import_module("engine_of_the_page")
    labels, cells, _ = rows()
    paths = [
        engine.keep(tmp_path, number, block.labels, block.design)
        for number, block in enumerate(cut(labels, cells))
    ]
    features = {"sex": SEX, "region": REGION}
    # Not forked: the children of a process with threads could wait for a lock that nobody holds.
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = [
            debias_blocks(
                engine.Files(paths, pool),
                classes=3,
                sensitive_features=features,
                epsilon=0.01,
                sample_entries=few,
            )
            for few in (0, 1 << 24)
        ]
        with pytest.raises(
            ProbabilityError, match=r"In block 4: In `labels`, row 1 sums to .*, not to 1;"
        ):
            wrong = [
                *paths[:4],
                engine.keep(
                    tmp_path, 9, np.array([[0.2, 0.3, 0.5], [0.5, 0.5, 0.5]]), np.array([0, 1])
                ),
            ]
            debias_blocks(engine.Files(wrong, pool), classes=3, sensitive_features=features)
    known = r2b.debias(
        labels,
        sensitive_features={name: np.array(values)[cells] for name, values in features.items()},
        epsilon=0.01,
    )
    for fair in found:
        assert fair.status is known.status
        assert np.abs(fair.certificate.means - known.certificate.means).max() < 1e-9
        assert abs(fair.certificate.distance - known.certificate.distance) < 1e-9
    del sys.modules["engine_of_the_page"]


def test_entries_in_any_order_equal_entries_and_entries_without_rows() -> None:
    labels, cells, weight = rows()
    known = r2b.debias(
        labels,
        sensitive_features=np.array(["z", "a", "m", "a"])[cells],
        sample_weight=weight,
        epsilon=0.01,
    )
    engine = Listed(cut(labels, cells, weight))
    fair = debias_blocks(
        engine, classes=3, sensitive_features=["z", "a", "m", "a", "nobody"], epsilon=0.01
    )
    assert fair.groups.tolist() == known.groups.tolist() == ["a", "m", "z"]
    assert np.abs(fair.prices - known.prices).max() < 1e-9
    assert np.array_equal(fair.families.share, known.families.share) or np.allclose(
        fair.families.share, known.families.share, rtol=1e-13
    )


def test_controls_and_gaps_are_read_as_in_memory() -> None:
    labels, cells, _ = rows()
    given = {
        "sensitive_features": {"sex": ["f", None, "m", "m"]},
        "control_features": {"region": REGION},
    }
    known = r2b.debias(
        labels,
        **{
            argument: {name: [values[cell] for cell in cells] for name, values in columns.items()}
            for argument, columns in given.items()
        },
        epsilon=0.02,
        missing="group",
    )
    fair = debias_blocks(
        Listed(cut(labels, cells)),
        classes=["a", "b", "c"],
        **given,
        epsilon=0.02,
        missing="group",
        sample_entries=0,
    )
    assert fair.groups.tolist() == known.groups.tolist()
    assert np.abs(fair.certificate.means - known.certificate.means).max() < 1e-9
    soft = fair.transform(
        labels[:5], **{argument: _taken(columns, cells[:5]) for argument, columns in given.items()}
    )
    assert np.abs(soft - known.soft_labels[:5]).max() < 1e-9


def _taken(columns: dict[str, list[Any]], cells: Any) -> dict[str, list[Any]]:
    return {name: [values[cell] for cell in cells] for name, values in columns.items()}


def test_blocks_are_not_written_to() -> None:
    labels, cells, weight = rows()
    for array in (labels, cells, weight):
        array.flags.writeable = False
    assert debias_blocks(
        Listed(cut(labels, cells, weight)), classes=3, sensitive_features=SEX, sample_entries=0
    ).status.ok


THIRDS = [1 / 3] * 3
WRONG: list[tuple[Any, Any, type[InputError], str]] = [
    (np.full((1, 4), 0.25), [0], ShapeError, "In block 1: The labels are no matrix"),
    (np.empty((0, 3)), np.array([], int), ShapeError, "one row or more"),
    (np.array([[1, 0, 0]]), [0], ShapeError, "float32 or float64"),
    (np.array([THIRDS] * 2), [0], LengthError, "one per row"),
    (np.array([THIRDS]), [0.0], LengthError, "hole numbers"),
    (np.array([THIRDS] * 2), [0, 4], InputError, "Row 1 is of a cell that is not one"),
    (np.array([THIRDS] * 2), [0, -1], InputError, "Row 1 is of a cell that is not one"),
    (np.array([[1.5, -0.5, 0.0]]), [0], ProbabilityError, "row 0 has the probability -0.5"),
    (np.array([[np.nan, 0.5, 0.5]]), [0], ProbabilityError, "row 0 has the probability nan"),
    (np.array([[1.0, 0.5, 0.5]]), [0], ProbabilityError, "row 0 sums to 2, not to 1"),
]


@pytest.mark.parametrize(("wrong", "entries", "kind", "message"), WRONG)
def test_a_wrong_block_is_refused_by_number_and_row(
    wrong: Any, entries: Any, kind: type[InputError], message: str
) -> None:
    block = Block(wrong, np.array(entries))
    labels, cells, _ = rows(50)
    with pytest.raises(kind, match=message) as caught:
        debias_blocks(Listed([*cut(labels, cells), block]), classes=3, sensitive_features=SEX)
    assert caught.value.facts["block"] == 1


def test_what_does_not_describe_the_blocks_is_refused() -> None:
    blocks = Listed(cut(*rows()[:2]))
    with pytest.raises(ParameterError, match="classes is"):
        debias_blocks(blocks, classes=["a", "a", "b"], sensitive_features=SEX)
    with pytest.raises(LengthError, match="different lengths"):
        debias_blocks(blocks, classes=3, sensitive_features={"sex": SEX, "region": REGION[:3]})
    with pytest.raises(EmptyError, match="no blocks"):
        debias_blocks(Listed([]), classes=3, sensitive_features=SEX)
    labels, cells, _ = rows(50)
    wrong = Block(np.array([THIRDS]), np.array([0]), np.array([-1.0]))
    with pytest.raises(WeightError, match="In block 0: The weight of row 0 in `weight` is"):
        debias_blocks(Listed([wrong]), classes=3, sensitive_features=SEX)
    with pytest.raises(WeightError, match="all 50 rows are zero"):
        debias_blocks(Listed(cut(labels, cells, np.zeros(50))), classes=3, sensitive_features=SEX)


class Changing(Listed):
    """Blocks that lose their last row after they were counted."""

    def reduce(self, task: Any) -> Any:
        found = super().reduce(task)
        last = self.blocks[-1]
        self.blocks = [*self.blocks[:-1], last[slice(len(last) - 1)]]
        return found


@pytest.mark.parametrize("few", [0, 1 << 24])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_that_are_not_those_counted_are_refused(few: int, weighted: bool) -> None:
    labels, cells, weight = rows()
    blocks = cut(labels, cells, weight if weighted else None)
    with pytest.raises(
        InputError, match=r"when the table was counted, and .* when it was read again"
    ) as caught:
        debias_blocks(Changing(blocks), classes=3, sensitive_features=SEX, sample_entries=few)
    assert caught.value.facts["counted"] > caught.value.facts["found"]


def test_a_lazy_frame_that_gives_other_rows_the_second_time_is_refused() -> None:
    polars = pytest.importorskip("polars")
    labels, cells, _ = rows()
    frame = polars.DataFrame(
        {"sex": [SEX[cell] for cell in cells], **{f"p{k}": labels[:, k] for k in range(3)}}
    )
    counted: list[int] = []

    def fewer(table: Any) -> Any:
        counted.append(len(table))
        return table.head(len(table) - len(counted) + 1)

    changing = frame.lazy().map_batches(fewer, schema=frame.schema)
    with pytest.raises(InputError, match="The table must give the same rows each time"):
        r2b.scan(changing).debias(["p0", "p1", "p2"], sensitive_features="sex")
