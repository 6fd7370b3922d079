"""Questions to tables that live elsewhere: paths of epsilons, prices applied to other tables, and
how results show and pickle.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_tables import people, scores

import r2b
from r2b.errors import MissingValueError, ParameterError, ProbabilityError, UnseenError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Class labels in two files."""
    table = people(900)
    (tmp_path / "in").mkdir()
    pq.write_table(table.slice(0, 400), tmp_path / "in" / "0.parquet")
    pq.write_table(table.slice(400), tmp_path / "in" / "1.parquet", row_group_size=170)
    return tmp_path / "in"


def in_memory(table: Any, *names: str) -> dict[str, Any]:
    return {name: table[name] for name in names}


def test_a_path_of_class_labels_is_that_of_rows_in_memory_and_its_points_can_be_written(
    folder: Path,
) -> None:
    table = people(900)
    asked: dict[str, Any] = {"families": "marginal", "epsilons": 6}
    found = r2b.scan(folder).frontier("job", sensitive_features=["sex", "region"], **asked)
    known = r2b.frontier(
        table["job"], sensitive_features=in_memory(table, "sex", "region"), **asked
    )
    assert np.array_equal(found.epsilon, known.epsilon)
    assert np.abs(found.distance - known.distance).max() < 1e-9
    assert all(point.solved for point in found)
    chosen = found.labels[2]
    chosen.write(folder.parent / "out", "round")
    again = r2b.scan(folder.parent / "out").debias(
        "job_fair", sensitive_features=["sex", "region"], families="marginal", epsilon=1
    )
    assert again.certificate.disparity_before <= found.epsilon[2] + 0.02


@pytest.mark.parametrize("form", ["soft", "round", "sample", "expand"])
def test_prices_that_were_saved_give_another_table_the_labels_they_give_in_memory(
    folder: Path, tmp_path: Path, form: Any
) -> None:
    table = people(900)
    r2b.debias(table["job"], sensitive_features=in_memory(table, "sex"), epsilon=0.02).save(
        tmp_path / "prices.json"
    )
    loaded = r2b.load(tmp_path / "prices.json")
    applied = r2b.scan(folder).transform(loaded, "job", sensitive_features="sex")
    solved = r2b.scan(folder).debias("job", sensitive_features="sex", epsilon=0.02)
    assert pa.Table.from_batches(list(applied.frame(form))).equals(
        pa.Table.from_batches(list(solved.frame(form)))
    )
    assert applied.certificate == loaded.certificate


def test_prices_of_probabilities_are_applied_to_files(tmp_path: Path) -> None:
    y, table = scores(300)
    group = next(
        name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)
    )
    label = next(
        name
        for name in table.column_names
        if pa.types.is_fixed_size_list(table.schema.field(name).type)
    )
    fair = r2b.debias(y, sensitive_features=table[group], epsilon=0.01)
    pq.write_table(table, tmp_path / "t.parquet")
    applied = r2b.scan(tmp_path / "t.parquet").transform(fair, label, sensitive_features=group)
    found = pa.Table.from_batches(list(applied.frame("soft")))
    new = np.column_stack(
        [found[name].to_numpy() for name in found.column_names if "_fair_" in name]
    )
    assert np.abs(new - fair.soft_labels).max() < 1e-12
    with pytest.raises(ProbabilityError, match=f"list of 2 probabilities in '{label}', not of 5"):
        short = pa.table({group: table[group].slice(0, 2), label: [[0.5, 0.5]] * 2})
        r2b.scan(short).transform(fair, label, sensitive_features=group).frame("soft")


@pytest.mark.parametrize(
    ("columns", "kind", "said"),
    [
        (
            {"sex": ["f", "f"], "job": ["a", "new"]},
            UnseenError,
            "The table has 1 row with 'job' 'new', 'sex' 'f'",
        ),
        (
            {"sex": ["x", "x"], "job": ["a", "a"]},
            UnseenError,
            "The table has 2 rows with 'job' 'a', 'sex' 'x'",
        ),
        (
            {"sex": ["f", None], "job": ["a", "a"]},
            MissingValueError,
            "row 1 has no value in 'sex'.*when the prices were found",
        ),
        (
            {"sex": ["f", "m"], "job": ["a", None]},
            MissingValueError,
            "row 1 has no value in 'job'. Every row needs a label",
        ),
        (
            {"sex": ["f"], "job": [[0.5, 0.5]]},
            ParameterError,
            "found for classes, and the column 'job' of the table holds probabilities",
        ),
    ],
)
def test_rows_that_prices_do_not_cover_are_told_by_value(
    columns: Any, kind: type[Exception], said: str
) -> None:
    fair = r2b.debias(["a", "b", "b", "a"], sensitive_features={"sex": ["f", "f", "m", "m"]})
    with pytest.raises(kind, match=said):
        r2b.scan(pa.table(columns)).transform(fair, "job", sensitive_features="sex")


@pytest.mark.parametrize("soft", [False, True])
def test_prices_with_a_continuous_attribute_are_applied_to_other_tables(soft: bool) -> None:
    rng = np.random.default_rng(0)
    sexes, jobs = rng.choice(["f", "m"], 90), rng.choice(["a", "b"], 90)
    ages, share = rng.normal(40, 10, 90) + 5 * (sexes == "f"), rng.uniform(size=90)
    old, new = slice(0, 60), slice(60, 90)
    first, later = (
        {"a": share[part], "b": 1 - share[part]} if soft else jobs[part] for part in (old, new)
    )
    fair = r2b.debias(
        first,
        sensitive_features={"age": r2b.Continuous(ages[old]), "sex": sexes[old]},
        epsilon=0.05,
    )
    table = pa.table(
        {
            "age": ages[new],
            "sex": sexes[new],
            "job": jobs[new],
            "a": share[new],
            "b": 1 - share[new],
        }
    )
    label = ["a", "b"] if soft else "job"
    applied = r2b.scan(table).transform(
        fair, label, sensitive_features=[r2b.Continuous("age"), "sex"]
    )
    expected = fair.transform(
        later, sensitive_features={"age": r2b.Continuous(ages[new]), "sex": sexes[new]}
    )
    found = applied.frame("soft")
    assert (
        np.abs(
            np.column_stack([found[name].to_numpy() for name in found.column_names[5:]]) - expected
        ).max()
        < 1e-12
    )
    drawn = applied.frame("sample", random_state=3)[-1].to_pylist()
    assert drawn == np.asarray(applied.sample(random_state=3)).tolist()
    assert set(applied.frame("round")[-1].to_pylist()) <= set(fair.classes.tolist())
    with pytest.raises(ParameterError, match="continuous or uncertain attribute 'age'"):
        r2b.scan(table).transform(fair, label, sensitive_features=["age", "sex"])


def test_results_of_files_can_be_pickled_and_go_on(folder: Path) -> None:
    fair = r2b.scan(folder).debias("job", sensitive_features="sex", epsilon=0.02)
    sent = pickle.loads(pickle.dumps(fair))
    assert [batch.to_pylist() for batch in sent.frame("round")] == [
        batch.to_pylist() for batch in fair.frame("round")
    ]
