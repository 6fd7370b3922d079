"""Every engine against arithmetic outside the package: prices, fair labels and whole labels of every row, by the key of the row.

The table is unkind: names with dots, quotes and blanks, text in several chunks, rows shuffled over
17 partitions, files of removed rows.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import plain_arithmetic as plain
import pytest
from databases import open_database, quoted
from spark_sessions import spark_session

import r2b

pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

N, SEED, CLOSE, EPSILON = 600, 5, 1e-9, 0.08
KEY, LABEL, JOB, SEX = "the id", "a.b", '"job"', "sex "
CLASSES = ["d'accord", "no", "per haps", "yes, 100%"]
SCORES = ["p.0", '"p"', "p ", "P 3"]
JOBS, SEXES = ["clerk", "ünit head"], ["f", "m"]
CASES: dict[str, str | list[str]] = {"classes": LABEL, "probabilities": SCORES}


@dataclass(frozen=True, eq=False)
class Known:
    """What the arithmetic says, by key."""

    prices: np.ndarray
    soft: dict[int, np.ndarray]
    round: dict[int, str]
    sample: dict[int, str]


@cache
def people() -> tuple[Any, dict[str, Any]]:
    """Give the table, in chunks of text, and its columns as codes and numbers."""
    rng = np.random.default_rng(4)
    job, sex = rng.integers(0, 2, N), rng.integers(0, 2, N)
    group, keys = 2 * job + sex, rng.permutation(N) * 7_000_000_001 - 10**12
    old = np.minimum(rng.poisson(0.9 + 0.25 * group), 3)
    scores = rng.dirichlet(np.full(4, 0.6), N)
    scores[:, 0] *= 1 + group
    scores[:, 1] *= 1 + 2 * (group == 2)
    scores /= scores.sum(axis=1, keepdims=True)
    columns = {
        KEY: keys,
        LABEL: np.array(CLASSES)[old],
        JOB: np.array(JOBS)[job],
        SEX: np.array(SEXES)[sex],
    }
    table = pa.table({**columns, **{name: scores[:, k] for k, name in enumerate(SCORES)}})
    chunked = pa.concat_tables([table.slice(start, 97) for start in range(0, N, 97)])
    assert chunked[LABEL].num_chunks > 1
    return chunked, {"keys": keys, "old": old, "group": group, "scores": scores}


@cache
def known(case: str) -> Known:
    """Work it out."""
    _, given = people()
    y = np.eye(4)[given["old"]] if case == "classes" else given["scores"]
    prices, x = plain.optimum(y, np.ones(N), given["group"], EPSILON)
    keys, group = given["keys"], given["group"]
    rounded = (
        plain.rounded_classes(given["old"], x, group, keys, SEED)
        if case == "classes"
        else plain.rounded_rows(x, group, keys, SEED)
    )
    names = CLASSES if case == "classes" else SCORES
    forms = [
        {key: names[k] for key, k in zip(keys.tolist(), codes, strict=True)}
        for codes in (rounded, plain.sampled(x, keys, SEED))
    ]
    return Known(prices, dict(zip(keys.tolist(), x, strict=True)), *forms)


def test_the_arithmetic_moves_something() -> None:
    for case in CASES:
        assert (np.abs(known(case).prices) > 1e-3).sum() > 3
    old = dict(zip(people()[1]["keys"].tolist(), people()[0][LABEL].to_pylist(), strict=True))
    assert sum(known("classes").round[key] != label for key, label in old.items()) > 10


Opened = tuple[r2b.FairLabels, Callable[[str], Any]]
"""Fair labels, and what gives the table in a form, as Arrow."""


def scanned(data: Any, case: str, home: Callable[[Any], Any] = lambda table: table) -> Opened:
    """Debias a table where it lives; the sample is a small part of the probabilities, so that passes go over the blocks."""
    fair = r2b.scan(data).debias(
        CASES[case], sensitive_features=[JOB, SEX], epsilon=EPSILON, tol=1e-11, sample_entries=200
    )
    return fair, lambda form: home(
        fair.frame(form, **({} if form == "soft" else {"key": KEY, "random_state": SEED}))
    )


def written(source: Path, case: str, read: Callable[[Path], Any]) -> Opened:
    fair, _ = scanned(str(source), case)

    def form_of(form: str) -> Any:
        out = source.with_name(f"{form} of {source.name}")
        fair.write(out, form, **({} if form == "soft" else {"key": KEY, "random_state": SEED}))
        return read(out)

    return fair, form_of


def in_folder(folder: Path) -> Path:
    (folder / "people").mkdir()
    table = people()[0]
    for number, start in enumerate(range(0, N, 250)):
        pq.write_table(
            table.slice(start, 250), folder / "people" / f"{number}.parquet", row_group_size=64
        )
    return folder / "people"


def read_csv(path: Path) -> Any:
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    numbers = [name for name in columns if name == KEY or name in SCORES or "_fair_" in name]
    return pa.table(
        columns
        | {
            name: [int(value) if name == KEY else float(value) for value in columns[name]]
            for name in numbers
        }
    )


@contextmanager
def csv_file(case: str, folder: Path) -> Iterator[Opened]:
    with (folder / "people.csv").open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(people()[0].column_names)
        writer.writerows(row.values() for row in people()[0].to_pylist())
    yield written(folder / "people.csv", case, read_csv)


@contextmanager
def parquet_folder(case: str, folder: Path) -> Iterator[Opened]:
    yield written(in_folder(folder), case, pq.read_table)


@contextmanager
def arrow_table(case: str, _: Path) -> Iterator[Opened]:
    yield scanned(people()[0], case)


@contextmanager
def dataset(case: str, folder: Path) -> Iterator[Opened]:
    yield scanned(ds.dataset(in_folder(folder)), case, lambda reader: reader.read_all())


@contextmanager
def delta_table(case: str, folder: Path) -> Iterator[Opened]:
    deltalake = pytest.importorskip("deltalake")
    table = people()[0]
    # rows that are removed again, and their files that stay
    more = table.set_column(0, KEY, pa.array(np.asarray(table[KEY]) + 10**15))
    deltalake.write_deltalake(str(folder / "delta"), pa.concat_tables([table.slice(0, 300), more]))
    deltalake.write_deltalake(str(folder / "delta"), table.slice(300), mode="append")
    opened = deltalake.DeltaTable(str(folder / "delta"))
    opened.delete(f'"{KEY}" > {5 * 10**14}')
    assert len(list((folder / "delta").glob("*.parquet"))) > len(opened.file_uris())
    yield scanned(opened, case, lambda reader: reader.read_all())


@contextmanager
def lazy_frame(case: str, _: Path) -> Iterator[Opened]:
    polars = pytest.importorskip("polars")
    yield scanned(
        polars.from_arrow(people()[0]).lazy().sort(SCORES[2]),
        case,
        lambda frame: frame.collect().to_arrow(),
    )


@contextmanager
def duckdb_relation(case: str, _: Path) -> Iterator[Opened]:
    duckdb = pytest.importorskip("duckdb")
    yield scanned(
        duckdb.connect().from_arrow(people()[0]), case, lambda relation: relation.to_arrow_table()
    )


@contextmanager
def dask_frame(case: str, _: Path) -> Iterator[Opened]:
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(people()[0].to_pandas(), npartitions=5, sort=False)
    shuffled = dd.concat([frame.partitions[:2], frame.partitions[2:]]).shuffle(KEY, npartitions=17)
    assert shuffled.npartitions == 17
    yield scanned(
        shuffled, case, lambda found: pa.Table.from_pandas(found.compute(), preserve_index=False)
    )


@contextmanager
def spark_frame(case: str, _: Path) -> Iterator[Opened]:
    # Probabilities are walked ten times, and a task of Spark takes a tenth of a second.
    frame = (
        spark_session()
        .createDataFrame(people()[0])
        .repartition(17 if case == "classes" else 5, f"`{KEY}`")
    )
    yield scanned(frame, case, lambda found: found.toArrow())


def in_database(dialect: str) -> Callable[[str, Path], Any]:
    @contextmanager
    def opened(_: str, __: Path) -> Iterator[Opened]:
        table = people()[0]
        with open_database(dialect) as database:
            kinds = {KEY: "whole", LABEL: "text", JOB: "text", SEX: "text"}
            database.fill(
                "people", {name: (kind, table[name].to_pylist()) for name, kind in kinds.items()}
            )
            query = r2b.count_query(dialect, "people", LABEL, sensitive_features=[JOB, SEX])
            fair = r2b.debias_counts(
                database.columns(query), LABEL, sensitive_features=[JOB, SEX], epsilon=EPSILON
            )

            def form_of(form: str) -> Any:
                asked = {} if form == "soft" else {"key": KEY, "random_state": SEED}
                found = fair.sql(dialect, table="people", form=form, **asked)
                return pa.table(database.columns(found.select))

            assert quoted(JOB) in query
            yield fair, form_of

    return opened


ENGINES: dict[str, Callable[[str, Path], Any]] = {
    "CSV": csv_file,
    "a folder of Parquet": parquet_folder,
    "an Arrow table": arrow_table,
    "an Arrow dataset": dataset,
    "Delta Lake": delta_table,
    "a LazyFrame": lazy_frame,
    "DuckDB": duckdb_relation,
    "Dask": dask_frame,
    "Spark": spark_frame,
    "SQL in DuckDB": in_database("duckdb"),
    "SQL in SQLite": in_database("sqlite"),
    "SQL in PostgreSQL": in_database("postgres"),
}
MARKS = {"Dask": pytest.mark.slow, "Spark": pytest.mark.slow}
# Statements are for class labels.
PLACES = [
    (engine, case)
    for engine in ENGINES
    for case in CASES
    if case == "classes" or not engine.startswith("SQL")
]


@pytest.mark.parametrize(
    ("engine", "case"),
    [pytest.param(*each, marks=[MARKS[each[0]]] if each[0] in MARKS else []) for each in PLACES],
)
def test_prices_and_labels_are_those_of_plain_arithmetic(
    engine: str, case: str, tmp_path: Path
) -> None:
    wanted, table = known(case), people()[0]
    with ENGINES[engine](case, tmp_path) as (fair, form_of):
        assert fair.status.value == "solved"
        assert (
            fair.prices.shape == wanted.prices.shape
            and np.abs(fair.prices - wanted.prices).max() < CLOSE
        )
        soft = form_of("soft")
        new = soft.column_names[-4:]
        found = dict(
            zip(
                soft[KEY].to_pylist(),
                np.column_stack([soft[name] for name in new]).astype(float),
                strict=True,
            )
        )
        assert found.keys() == wanted.soft.keys() and soft.num_rows == N
        assert max(np.abs(found[key] - wanted.soft[key]).max() for key in found) < CLOSE
        for form in ("round", "sample"):
            made = form_of(form)
            labels = dict(
                zip(made[KEY].to_pylist(), made[made.column_names[-1]].to_pylist(), strict=True)
            )
            assert labels == getattr(wanted, form) and made.num_rows == N
            old = dict(
                zip(
                    table[KEY].to_pylist(), table.select([LABEL, JOB, SEX]).to_pylist(), strict=True
                )
            )
            assert (
                dict(
                    zip(
                        made[KEY].to_pylist(),
                        made.select([LABEL, JOB, SEX]).to_pylist(),
                        strict=True,
                    )
                )
                == old
            )
