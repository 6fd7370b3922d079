"""Dask: types and index stay, and a lost worker costs time alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scale_cases import cases, check_everything, check_solved

import r2b
import r2b.engines.dask as backend
from r2b.errors import (
    EmptyError,
    MissingValueError,
    MixedTypeError,
    ParameterError,
    ProbabilityError,
    WeightError,
)

pa, pd, dask = (pytest.importorskip(library) for library in ("pyarrow", "pandas", "dask"))
dd, distributed = pytest.importorskip("dask.dataframe"), pytest.importorskip("distributed")

N = 240


def people(n: int = N, **columns: Any) -> Any:
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, n)
    level = np.minimum(rng.poisson(1.0 + sex), 2)
    made = {
        "id": np.arange(n),
        "level": np.array(["low", "middle", "high"])[level],
        "sex": np.array(["f", "m"])[sex],
        **columns,
    }
    return pd.DataFrame(made, index=pd.Index(np.arange(n) * 10, name="number"))


def home(frame: Any) -> Any:
    return pa.Table.from_pandas(frame.compute(), preserve_index=False)


def debiased(frame: Any, **settings: Any) -> Any:
    return r2b.scan(frame).debias("level", sensitive_features="sex", epsilon=0.01, **settings)


@pytest.mark.parametrize("form", ["soft", "sample", "round", "expand"])
def test_types_index_and_divisions_are_kept_and_known_beforehand(form: Any) -> None:
    held = people(
        when=pd.Timestamp("2024-01-01"),
        score=np.float32(0.5),
        kind=pd.Categorical(["x", "y"] * (N // 2)),
    )
    frame = dd.from_pandas(held, npartitions=4)
    new = debiased(frame).frame(form, key="id")
    found = new.compute()
    assert new.dtypes.to_dict() == found.dtypes.to_dict()
    assert found.dtypes.to_dict() | frame.dtypes.to_dict() == found.dtypes.to_dict()
    assert found.index.name == "number" and new.divisions == frame.divisions
    if form != "expand":
        assert found.index.equals(held.index)


@pytest.mark.parametrize("known", [True, False])
def test_a_label_of_categories_gets_new_labels_of_categories(known: bool) -> None:
    held = people().assign(level=lambda frame: frame["level"].astype("category"))
    frame = dd.from_pandas(held, npartitions=3)
    frame = frame if known else frame.assign(level=frame["level"].cat.as_unknown())
    fair = debiased(frame)
    new = fair.frame("sample", key="id")
    found = new.compute()
    assert new.dtypes["level_fair"] == found.dtypes["level_fair"]
    assert set(found["level_fair"].cat.categories) == {"low", "middle", "high"}
    plain = debiased(dd.from_pandas(people(), npartitions=3)).frame("sample", key="id").compute()
    assert found["level_fair"].tolist() == plain["level_fair"].tolist()


def test_partitions_without_rows_are_passed_over() -> None:
    frame = dd.from_pandas(people(), npartitions=6)
    fair = debiased(frame[frame["id"] >= 100])
    reference = debiased(dd.from_pandas(people().iloc[100:], npartitions=1))
    assert np.array_equal(fair.prices, reference.prices)
    assert len(fair.frame("soft").compute()) == N - 100
    with pytest.raises(EmptyError):
        debiased(frame[frame["id"] < 0])
    with pytest.raises(ParameterError, match="the Dask frame have no order"):
        fair.frame("round")
    case = cases()["probabilities in columns"]
    frame = dd.from_pandas(case.table.to_pandas(), npartitions=5, sort=False)
    spread = dd.concat([frame.partitions[:2], frame[frame["id"] < 0], frame.partitions[2:]])
    asked = {**case.asked, **case.settings, "sample_entries": 0}
    check_solved(r2b.scan(spread).debias(case.label, **asked), case.name)


def test_types_of_partitions_agree_or_are_refused() -> None:
    mixed = pd.Series([1] * 120 + ["one"] * 120, dtype=object, index=people().index)
    sex = pd.Series([None] * 80 + ["f", "m"] * 80, dtype=object, index=people().index)
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_pandas(people().assign(sex=mixed), npartitions=2)
        with pytest.raises(MixedTypeError, match="'sex' holds int64 in one part of the table and"):
            debiased(frame)
        within = dd.from_pandas(people().assign(sex=mixed), npartitions=1)
        with pytest.raises(MixedTypeError, match=r"partition 0.*'sex'"):
            debiased(within)
        # A partition without any value is of no other type.
        gaps = dd.from_pandas(people().assign(sex=sex), npartitions=3)
        assert debiased(gaps, missing="group").groups.tolist() == ["f", "m", "missing"]


def test_errors_come_back_typed_and_say_which_partition() -> None:
    held = people()
    held.loc[held.index[100], "level"] = None
    with pytest.raises(MissingValueError, match=r"partition 1, row 20 has no value in 'level'"):
        debiased(dd.from_pandas(held, npartitions=3))
    case = cases()["probabilities in columns"]
    for column, change, error in (("p1", 0.5, ProbabilityError), ("weight", -100.0, WeightError)):
        wrong = case.table.to_pandas()
        wrong.loc[450, column] += change
        frame = dd.from_pandas(wrong, npartitions=2, sort=False)
        with pytest.raises(error, match="In partition 1, row 200") as caught:
            r2b.scan(frame).debias(case.label, **case.asked, **case.settings)
        assert caught.value.facts["place"] == "partition 1"


def test_more_partitions_than_are_merged_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_MERGED_AT_ONCE", 2)
    for name in ("gaps", "probabilities in columns"):
        check_everything(
            lambda table: dd.from_pandas(table.to_pandas(), npartitions=5, sort=False),
            home,
            name,
            sample_entries=0,
        )


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit=0,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_worker_that_dies_while_solving_changes_nothing_and_none_keeps_blocks(
    client: Any,
) -> None:
    case = cases()["probabilities in lists"]
    kinds = {pa.list_(pa.float64()): pd.ArrowDtype(pa.list_(pa.float64()))}
    held = case.table.to_pandas(types_mapper=kinds.get)
    before, killed = client.run(os.getpid), []

    def progress(_: Any) -> None:
        if not killed:
            blocks = client.has_what()
            address = max(before, key=lambda worker: len(blocks.get(worker, ())))
            assert blocks[address], "the worker that dies has blocks"
            killed.append(before[address])
            os.kill(before[address], signal.SIGKILL)

    asked = {**case.asked, **case.settings, "sample_entries": 0, "progress": progress}
    frame = dd.from_pandas(held, npartitions=6, sort=False)
    check_solved(r2b.scan(frame).debias(case.label, **asked), case.name)
    assert killed
    for _ in range(100):
        client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        if not any(client.has_what().values()):
            break
    assert not any(client.has_what().values())


def dies_once(part: Any, mark: str) -> Any:
    if len(part) and not os.path.exists(mark):
        with open(mark, "wb"):
            pass
        os._exit(17)
    return part


def test_a_worker_that_dies_while_labels_are_written_changes_none(
    client: Any, tmp_path: Path
) -> None:
    held = people()
    known = r2b.debias(
        held["level"].tolist(), sensitive_features={"sex": held["sex"].tolist()}, epsilon=0.01
    )
    frame = dd.from_pandas(held, npartitions=17).shuffle("id")
    fair = debiased(frame)
    mark = tmp_path / "died"
    made = fair.frame("round", key="id").map_partitions(
        dies_once, str(mark), meta=fair.frame("round", key="id")._meta
    )
    found = made.compute().sort_values("id")
    assert mark.exists()
    assert found["level_fair"].tolist() == list(known.round(0, key=held["id"].tolist()))
    np.testing.assert_allclose(fair.prices, known.prices, atol=1e-12)
