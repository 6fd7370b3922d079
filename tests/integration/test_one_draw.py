"""One draw per row: ``round`` and ``sample`` follow from the row's key and the seed, bit for bit the same wherever the rows live.

One table of tests: every place where rows can live, every kind of label, both forms, told apart by
place and by key.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spark_sessions import spark_session

import r2b
from r2b.engines.lazy import HeldSource
from r2b.errors import InputError, ParameterError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N, N_CLASSES, SEED, EPSILON = 700, 4, 11, 0.02
ATTRIBUTES = ["sex", "region"]
PROBABILITIES = [f"p{k}" for k in range(N_CLASSES)]
CASES = {
    "classes": ("level", None),
    "classes with weights": ("level", "weight"),
    "probabilities": (PROBABILITIES, None),
    "probabilities with weights": (PROBABILITIES, "weight"),
}
Labels = Callable[[str, bool], dict[int, str]]
"""Gives the class of every key, for a form, with or without the key."""


@cache
def people() -> Any:
    rng = np.random.default_rng(5)
    sex, region = rng.integers(0, 2, N), rng.integers(0, 3, N)
    scores = rng.dirichlet(np.full(N_CLASSES, 0.6), N)
    scores[:, 0] *= 1 + 2 * sex
    scores[:, 2] *= 1 + region
    scores /= scores.sum(axis=1, keepdims=True)
    return pa.table(
        {
            "id": rng.permutation(N) * 3 + 1,
            "level": np.minimum(rng.poisson(0.8 + 0.6 * sex + 0.3 * region), N_CLASSES - 1),
            "sex": pa.array(np.array(["m", "f"])[sex]),
            "region": pa.array(np.array(["north", "east", "south"])[region]),
            "weight": rng.gamma(2.0, 1.0, N),
            **{name: scores[:, k] for k, name in enumerate(PROBABILITIES)},
        }
    )


def by_key(ids: Any, labels: Any) -> dict[int, str]:
    """Classes as text without the name of their column: a file of text has no numbers, and an array no names."""
    return {int(key): str(label).removeprefix("p") for key, label in zip(ids, labels, strict=True)}


def in_memory(given: Callable[[Any], Any], matrix: bool = False) -> Callable[[str, Path], Labels]:
    """Debias columns of a library of frames."""

    def solved(case: str, _: Path) -> Labels:
        label, weight = CASES[case]
        frame = given(people())
        chosen = frame.select if hasattr(frame, "select") else frame.__getitem__
        y = (
            np.column_stack([frame[name] for name in label])
            if matrix and label == PROBABILITIES
            else frame[label]
            if isinstance(label, str)
            else chosen(label)
        )
        fair = r2b.debias(
            y,
            sensitive_features={name: frame[name] for name in ATTRIBUTES}
            if matrix
            else chosen(ATTRIBUTES),
            sample_weight=None if weight is None else frame[weight],
            epsilon=EPSILON,
        )

        def labels(form: str, keyed: bool) -> dict[int, str]:
            found = getattr(fair, form)(SEED, key=frame["id"] if keyed else None)
            return by_key(
                people()["id"].to_pylist(),
                found.to_pylist() if hasattr(found, "to_pylist") else list(found),
            )

        return labels

    return solved


def on_torch(case: str, _: Path) -> Labels:
    torch = pytest.importorskip("torch")
    from r2b.engines.torch import debias

    label, weight = CASES[case]
    table = people()
    y = (
        np.column_stack([table[name] for name in label])
        if label == PROBABILITIES
        else table[label].to_numpy()
    )
    fair = debias(
        torch.from_numpy(y.copy()),
        sensitive_features={name: table[name] for name in ATTRIBUTES},
        sample_weight=None if weight is None else torch.from_numpy(table[weight].to_numpy().copy()),
        epsilon=EPSILON,
    )
    return lambda form, keyed: by_key(
        table["id"].to_pylist(),
        getattr(fair, form)(SEED, key=table["id"].to_numpy() if keyed else None).tolist(),
    )


def scanned(
    opened: Callable[[Any, Path], Any], home: Callable[[Any], Any] = lambda table: table
) -> Callable[[str, Path], Labels]:
    """Debias a table where it lives."""

    def solved(case: str, folder: Path) -> Labels:
        label, weight = CASES[case]
        fair = r2b.scan(opened(people(), folder)).debias(
            label, sensitive_features=ATTRIBUTES, sample_weight=weight, epsilon=EPSILON
        )

        def labels(form: str, keyed: bool) -> dict[int, str]:
            table = home(fair.frame(form, random_state=SEED, key="id" if keyed else None))
            return by_key(table["id"].to_pylist(), table[table.column_names[-1]].to_pylist())

        return labels

    return solved


def parquet(rows: int) -> Callable[[Any, Path], Any]:
    def written(table: Any, folder: Path) -> str:
        pq.write_table(table, folder / f"{rows}.parquet", row_group_size=rows)
        return str(folder / f"{rows}.parquet")

    return written


def arrow(table: Any, folder: Path) -> str:
    with pa.ipc.new_file(folder / "people.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=99)
    return str(folder / "people.arrow")


def text(name: str, delimiter: str = ",") -> Callable[[Any, Path], Any]:
    def written(table: Any, folder: Path) -> str:
        lines = [
            delimiter.join(table.column_names),
            *(delimiter.join(map(str, row.values())) for row in table.to_pylist()),
        ]
        content = ("\n".join(lines) + "\n").encode()
        (folder / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        return str(folder / name)

    return written


def several(table: Any, folder: Path) -> str:
    (folder / "several").mkdir(exist_ok=True)
    for number, start in enumerate(range(0, N, 300)):
        pq.write_table(table.slice(start, 300), folder / "several" / f"part-{number}.parquet")
    return str(folder / "several")


def lazy(change: Callable[[Any], Any]) -> Callable[[str, Path], Labels]:
    polars = pytest.importorskip("polars")
    return scanned(
        lambda table, _: change(polars.from_arrow(table).lazy()),
        lambda frame: frame.collect().to_arrow(),
    )


def on_duckdb(table: Any, _: Path) -> Any:
    return pytest.importorskip("duckdb").connect().from_arrow(table).order("weight")


def dask(partitions: int) -> Callable[[str, Path], Labels]:
    def opened(table: Any, _: Path) -> Any:
        frames = pytest.importorskip("dask.dataframe")
        return frames.from_pandas(table.to_pandas(), npartitions=partitions, sort=False)

    return scanned(
        opened, lambda frame: pa.Table.from_pandas(frame.compute(), preserve_index=False)
    )


def spark(partitions: int) -> Callable[[str, Path], Labels]:
    return scanned(
        lambda table, _: spark_session().createDataFrame(table).repartition(partitions),
        lambda frame: frame.toArrow(),
    )


def written(opened: Callable[[Any, Path], Any]) -> Callable[[str, Path], Labels]:
    """Write a table to files and read those."""

    def solved(case: str, folder: Path) -> Labels:
        label, weight = CASES[case]
        source = opened(people(), folder)
        fair = r2b.scan(source).debias(
            label, sensitive_features=ATTRIBUTES, sample_weight=weight, epsilon=EPSILON
        )

        def labels(form: str, keyed: bool) -> dict[int, str]:
            out = folder / f"fair {case} {form} {keyed}{Path(source).suffix}"
            fair.write(out, form, random_state=SEED, key="id" if keyed else None)
            table = r2b.scan(out).source.columns(
                ["id", f"{'label' if label == PROBABILITIES else label}_fair"]
            )
            return by_key(*(column.to_pylist() for column in table.values()))

        return labels

    return solved


ORDERED: dict[str, Callable[[str, Path], Labels]] = {
    "numpy": in_memory(
        lambda table: {
            name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names
        },
        matrix=True,
    ),
    "pandas": in_memory(lambda table: table.to_pandas()),
    "polars": in_memory(lambda table: pytest.importorskip("polars").from_arrow(table)),
    "pyarrow": in_memory(lambda table: table),
    "torch": on_torch,
    "an Arrow table": scanned(lambda table, _: table),
    "an Arrow table in batches of 37": scanned(lambda table, _: HeldSource(table, 37)),
    "Parquet": scanned(parquet(N), pa.Table.from_batches),
    "Parquet in row groups of 64": scanned(parquet(64), pa.Table.from_batches),
    "Arrow": scanned(arrow, pa.Table.from_batches),
    "CSV": scanned(text("people.csv"), pa.Table.from_batches),
    "CSV, compressed": scanned(text("people.csv.gz"), pa.Table.from_batches),
    "TSV": scanned(text("people.tsv", "\t"), pa.Table.from_batches),
    "a folder": scanned(several, pa.Table.from_batches),
    "written to Parquet": written(parquet(80)),
    "written to CSV": written(text("source.csv")),
    "a LazyFrame": lazy(lambda frame: frame),
}
UNORDERED: dict[str, Callable[[str, Path], Labels]] = {
    "a LazyFrame without an order": lazy(lambda frame: frame.sort("weight")),
    "DuckDB": scanned(on_duckdb, lambda relation: relation.to_arrow_table()),
    "Dask, 3 partitions": dask(3),
    "Spark, 3 partitions": spark(3),
}
PLACES = ORDERED | UNORDERED
MARKS = {"torch": pytest.mark.slow, "Dask": pytest.mark.slow, "Spark": pytest.mark.slow}


def marked(place: str, *more: Any) -> Any:
    """A row of the table, in the part of the suite that its library belongs to."""
    return pytest.param(
        place, *more, marks=[mark for library, mark in MARKS.items() if place.startswith(library)]
    )


@pytest.fixture(scope="session")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Labels]:
    """Debias every table once in every place."""
    return cache(lambda place, case: PLACES[place](case, tmp_path_factory.mktemp("one draw")))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", ["round", "sample"])
@pytest.mark.parametrize(
    ("place", "keyed"),
    [
        marked(place, keyed)
        for place in PLACES
        for keyed in ((False, True) if place in ORDERED else (True,))
    ],
)
def test_labels_are_those_of_rows_in_memory(
    solved: Callable[[str, str], Labels], place: str, keyed: bool, form: str, case: str
) -> None:
    known = solved("numpy", case)(form, keyed)
    found = solved(place, case)(form, keyed)
    assert found.keys() == known.keys()
    assert not {key: (label, known[key]) for key, label in found.items() if label != known[key]}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("keyed", [False, True])
def test_class_counts_of_every_group_are_kept_to_within_a_row(
    solved: Callable[[str, str], Labels], keyed: bool, case: str
) -> None:
    table, (label, weight) = people(), CASES[case]
    y = (
        np.column_stack([table[name] for name in label])
        if label == PROBABILITIES
        else table[label].to_numpy()
    )
    mass = np.ones(N) if weight is None else table[weight].to_numpy()
    fair = r2b.debias(
        y,
        sensitive_features={name: table[name] for name in ATTRIBUTES},
        sample_weight=None if weight is None else mass,
        epsilon=EPSILON,
    )
    labels = solved("numpy", case)("round", keyed)
    codes = np.array([int(labels[key]) for key in table["id"].to_pylist()])
    cells = np.array(
        [f"{row['sex']} {row['region']}" for row in table.select(ATTRIBUTES).to_pylist()]
    )
    for cell in np.unique(cells):
        mine = cells == cell
        whole = np.bincount(codes[mine], mass[mine], minlength=N_CLASSES)
        # Of weighted rows the last of a group, fewer than there are classes, are decided by chance.
        slack = 1.0 if weight is None else (N_CLASSES - 1) * mass[mine].max()
        assert np.abs(whole - mass[mine] @ fair.soft_labels[mine]).max() <= slack + 1e-6


@pytest.mark.parametrize("case", CASES)
def test_with_keys_the_order_of_the_rows_does_not_matter(
    solved: Callable[[str, str], Labels], case: str
) -> None:
    order = pa.array(np.random.default_rng(0).permutation(N))
    label, weight = CASES[case]
    frame = people().take(order)
    fair = r2b.debias(
        frame[label] if isinstance(label, str) else frame.select(label),
        sensitive_features=frame.select(ATTRIBUTES),
        sample_weight=None if weight is None else frame[weight],
        epsilon=EPSILON,
    )
    for form in ("round", "sample"):
        found = by_key(
            frame["id"].to_pylist(), list(getattr(fair, form)(SEED, key=frame["id"]).to_pylist())
        )
        assert found == solved("numpy", case)(form, True)


def measured(frame: Any) -> Any:
    """Attributes that are no categories: a number, of which many rows have the same, and probabilities of belonging to groups."""
    columns = {name: frame[name].to_numpy() for name in ("age", "g0", "g1")}
    return {
        "age": r2b.Continuous(columns["age"]),
        "g": r2b.Membership(np.column_stack([columns["g0"], columns["g1"]]), groups=["g0", "g1"]),
    }


def with_numbers() -> Any:
    rng = np.random.default_rng(8)
    share = np.round(rng.random(N), 1)
    return (
        people()
        .append_column("age", pa.array(rng.integers(20, 30, N)))
        .append_column("g0", [share])
        .append_column("g1", [1 - share])
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("engine", ["memory", "CSV", "LazyFrame"])
def test_attributes_that_are_no_categories_change_nothing_about_it(
    engine: str, case: str, tmp_path: Path
) -> None:
    label, weight = CASES[case]
    table = with_numbers()

    def in_memory(frame: Any) -> dict[str, dict[int, str]]:
        y = frame[label] if isinstance(label, str) else frame.select(label)
        mass = None if weight is None else frame[weight]
        fair = r2b.debias(
            y, sensitive_features=measured(frame), sample_weight=mass, epsilon=EPSILON
        )
        drawn = {
            form: getattr(fair, form)(SEED, key=frame["id"]).to_pylist()
            for form in ("round", "sample")
        }
        return {form: by_key(frame["id"].to_pylist(), labels) for form, labels in drawn.items()}

    known = in_memory(table)
    if engine == "memory":
        assert in_memory(table.take(pa.array(np.random.default_rng(0).permutation(N)))) == known
        return
    # Tables without an order of rows refuse such attributes.
    opened = (
        text("numbers.csv")(table, tmp_path)
        if engine == "CSV"
        else pytest.importorskip("polars").from_arrow(table).lazy()
    )
    asked = {"age": r2b.Continuous("age"), "g": r2b.Membership(["g0", "g1"])}
    fair = r2b.scan(opened).debias(
        label, sensitive_features=asked, sample_weight=weight, epsilon=EPSILON
    )
    for form in ("round", "sample"):
        found = fair.frame(form, random_state=SEED, key="id")
        found = pa.Table.from_batches(found) if engine == "CSV" else found.collect().to_arrow()
        assert (
            by_key(found["id"].to_pylist(), found[found.column_names[-1]].to_pylist())
            == known[form]
        )


def some_rows_twice(table: Any) -> Any:
    keys = table["id"].to_pylist()
    return table.set_column(0, "id", pa.array([*keys[:-1], keys[0]]))


ENGINES: dict[str, Callable[[Any], Any]] = {
    "DuckDB": lambda table: pytest.importorskip("duckdb").from_arrow(table),
    "LazyFrame": lambda table: (
        pytest.importorskip("polars").from_arrow(table).lazy().sort("weight")
    ),
    "Dask": lambda table: pytest.importorskip("dask.dataframe").from_pandas(
        table.to_pandas(), npartitions=2, sort=False
    ),
    "Spark": lambda table: spark_session().createDataFrame(table).repartition(3),
}


@pytest.mark.parametrize("engine", [marked(engine) for engine in ENGINES])
def test_keys_that_rows_share_are_refused_where_rows_have_no_order(engine: str) -> None:
    table = ENGINES[engine](some_rows_twice(people()))
    fair = r2b.scan(table).debias(
        "level", sensitive_features=ATTRIBUTES, sample_weight="weight", epsilon=EPSILON
    )
    with pytest.raises(
        ParameterError, match=r"'id' does not tell all rows of .* apart: 2 share theirs"
    ):
        fair.frame("round", key="id")
    fair = r2b.scan(table).debias("level", sensitive_features=ATTRIBUTES, epsilon=EPSILON)
    with pytest.raises(
        InputError, match="have a key that another row of their group and class has too"
    ):
        fair.frame("round", key="sex")
