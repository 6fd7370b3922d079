"""Uncertain and continuous attributes of tables elsewhere: rows are read into memory.

Labels leave with the table, and are those of the same rows in memory. Rows are shuffled, weighted
and cut in 17 parts.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scale_cases import as_table
from spark_sessions import spark_session

import r2b
from r2b.errors import MemoryLimitError, MissingValueError, ProbabilityError, UnseenError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N, L, EPSILON, CLOSE, SEED = 1700, 3, 0.02, 1e-9, 4
SCORES = ["y 0", "y 1", "y 2"]
G = ("p_f", "p_m")


@cache
def people() -> dict[str, np.ndarray]:
    """Features that show groups, ages and labels; a fifth has no age."""
    rng = np.random.default_rng(17)
    z = rng.normal(size=(N, 3))

    def softmax(scores: np.ndarray) -> np.ndarray:
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    member, labels = softmax(z @ rng.normal(size=(3, 2))), softmax(z @ rng.normal(size=(3, L)))
    classes = (labels.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(max=L - 1)
    age = np.round(40 + 9 * z[:, 0] + 4 * rng.normal(size=N), 3)
    return {
        "member": member,
        "labels": labels,
        "classes": classes,
        "age": age,
        "weight": rng.uniform(0.2, 3, N),
        "sex": rng.integers(0, 2, N),
    }


@cache
def table() -> Any:
    """The same in an order of its own, with a key that says which row is which."""
    known, order = people(), np.random.default_rng(1).permutation(N)
    columns = {
        "id": np.arange(N),
        "job": np.array(["a", "b", "c"])[known["classes"]],
        "age": known["age"],
        "w": known["weight"],
    }
    columns |= {"sex": np.array(["f", "m"])[known["sex"]]} | dict(
        zip(G, known["member"].T, strict=True)
    )
    return pa.table(columns | dict(zip(SCORES, known["labels"].T, strict=True))).take(order)


ATTRIBUTES: dict[str, Any] = {
    "membership": [r2b.Membership(list(G), name="g")],
    "age": [r2b.Continuous("age")],
    "all": ["sex", r2b.Continuous("age", knots=4), r2b.Membership(list(G), name="g")],
}


def in_memory_attributes(name: str) -> dict[str, Any]:
    known = people()
    member, age = (
        r2b.Membership(known["member"], groups=list(G)),
        r2b.Continuous(known["age"], knots=4 if name == "all" else 5),
    )
    whole = {"sex": np.array(["f", "m"])[known["sex"]], "age": age, "g": member}
    return {"membership": {"g": member}, "age": {"age": age}, "all": whole}[name]


@cache
def expected(name: str, kind: str) -> Any:
    known = people()
    y = known["labels"] if kind == "soft" else np.array(["a", "b", "c"])[known["classes"]]
    return r2b.debias(
        y,
        sensitive_features=in_memory_attributes(name),
        sample_weight=known["weight"],
        epsilon=EPSILON,
        families="marginal",
    )


def solved(source: Any, name: str, kind: str, **options: Any) -> Any:
    label = SCORES if kind == "soft" else "job"
    asked = {"epsilon": EPSILON, "families": "marginal", "sample_weight": "w"} | options
    return r2b.scan(source).debias(label, sensitive_features=ATTRIBUTES[name], **asked)


def home(frame: Any) -> Any:
    return as_table(frame).sort_by("id")


def in_files(folder: Path) -> Path:
    for part, start in enumerate(range(0, N, N // 17)):
        pq.write_table(
            table().slice(start, N // 17), folder / f"{part:02d}.parquet", row_group_size=61
        )
    return folder


def source_of(engine: str, folder: Path) -> Any:
    if engine == "parquet":
        return str(in_files(folder))
    if engine == "polars":
        return pytest.importorskip("polars").from_arrow(table()).lazy()
    if engine == "duckdb":
        people_of = table()
        return pytest.importorskip("duckdb").connect().from_arrow(people_of)
    if engine == "spark":
        return spark_session().createDataFrame(table()).repartition(3)
    frame = pytest.importorskip("dask.dataframe")
    return frame.from_pandas(table().to_pandas(), npartitions=17, sort=False)


def check_labels(fair: Any, name: str, kind: str) -> None:
    known, ids = expected(name, kind), np.arange(N)
    assert fair.status is r2b.Status.SOLVED and fair.certificate.holds
    for number in ("disparity", "objective", "distance", "expected_changes", "disparity_before"):
        assert getattr(fair.certificate, number) == pytest.approx(
            getattr(known.certificate, number), abs=CLOSE
        )
    np.testing.assert_allclose(fair.certificate.means, known.certificate.means, atol=CLOSE)
    assert fair.groups.tolist() == known.groups.tolist()
    soft = home(fair.frame("soft"))
    np.testing.assert_allclose(
        np.column_stack([soft[each] for each in soft.column_names[-L:]]),
        known.soft_labels,
        atol=3 * CLOSE,
    )
    for form, own in (
        ("sample", known.sample(SEED, key=ids)),
        ("round", known.round(SEED, key=ids)),
    ):
        made = home(fair.frame(form, random_state=SEED, key="id"))
        wanted = [SCORES[each] for each in own] if kind == "soft" else own.tolist()
        assert made[made.column_names[-1]].to_pylist() == wanted
    assert fair.realised_as("round", SEED, key="id").disparity == pytest.approx(
        known.realised(own).disparity, abs=CLOSE
    )


@pytest.mark.parametrize("name", ATTRIBUTES)
@pytest.mark.parametrize("kind", ["classes", "soft"])
def test_files_in_17_parts_give_the_labels_of_memory(name: str, kind: str, tmp_path: Path) -> None:
    check_labels(solved(source_of("parquet", tmp_path), name, kind), name, kind)


@pytest.mark.parametrize(
    ("engine", "kind"),
    [("polars", "soft"), ("duckdb", "classes"), ("dask", "classes"), ("dask", "soft")],
)
def test_other_engines_give_the_labels_of_memory(engine: str, kind: str, tmp_path: Path) -> None:
    check_labels(solved(source_of(engine, tmp_path), "all", kind), "all", kind)


@pytest.mark.slow
def test_spark_gives_the_labels_of_memory(tmp_path: Path) -> None:
    fair, known = (
        solved(source_of("spark", tmp_path), "membership", "soft"),
        expected("membership", "soft"),
    )
    assert fair.status is r2b.Status.SOLVED
    np.testing.assert_allclose(fair.certificate.means, known.certificate.means, atol=CLOSE)
    made = home(fair.frame("sample", random_state=SEED, key="id"))["label_fair"].to_pylist()
    assert made == [SCORES[each] for each in known.sample(SEED, key=np.arange(N))]


def test_saved_prices_apply_to_tables_elsewhere(tmp_path: Path) -> None:
    fair = solved(source_of("parquet", tmp_path), "all", "classes")
    fair.report(tmp_path / "report.html", n_permutations=5, n_boot=5)
    # it is of the rows, not of what is kept of them
    assert "at the mean" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    fair.save(tmp_path / "prices.json")
    frame = source_of("dask", tmp_path)
    later = r2b.scan(frame).transform(
        r2b.load(tmp_path / "prices.json"),
        "job",
        sensitive_features=ATTRIBUTES["all"],
        sample_weight="w",
    )
    for form in ("sample", "expand"):
        one, other = (
            home(each.frame(form, random_state=SEED, key="id")).sort_by(
                [("id", "ascending"), ("job_fair", "ascending")]
            )
            for each in (fair, later)
        )
        assert one["job_fair"].to_pylist() == other["job_fair"].to_pylist()
    strange = pa.table(
        {
            "job": ["a", "x"],
            "sex": ["f", "m"],
            "age": [30.0, 31.0],
            "p_f": [0.5, 0.5],
            "p_m": [0.5, 0.5],
        }
    )
    with pytest.raises(UnseenError, match="'x'"):
        r2b.scan(strange).transform(fair, "job", sensitive_features=ATTRIBUTES["all"])


def test_rows_without_an_age_are_left_out_as_in_memory() -> None:
    known, gone = people(), np.arange(N) % 5 == 0
    age = np.where(gone, np.nan, known["age"])
    columns = {"job": known["classes"], "age": pa.array(age, from_pandas=True), "sex": known["sex"]}
    asked = {"missing": "exclude", "epsilon": EPSILON, "families": "marginal"}
    fair = r2b.scan(pa.table(columns)).debias(
        "job", sensitive_features=["sex", r2b.Continuous("age")], **asked
    )
    own = r2b.debias(
        known["classes"],
        sensitive_features={"sex": known["sex"], "age": r2b.Continuous(age)},
        **asked,
    )
    assert fair.families.left_out == own.families.left_out
    np.testing.assert_allclose(fair.certificate.means, own.certificate.means, atol=CLOSE)
    with pytest.raises(MissingValueError, match="no value"):
        r2b.scan(pa.table(columns)).debias("job", sensitive_features=r2b.Continuous("age"))


def test_what_cannot_be_read_names_the_row() -> None:
    wrong = table().to_pandas()
    wrong.loc[1234, "p_f"] = 0.9
    wrong.loc[1234, "p_m"] = 0.9
    with pytest.raises(ProbabilityError, match=r"row 1234 sums to 1\.8"):
        solved(pa.Table.from_pandas(wrong), "membership", "soft")


@pytest.mark.parametrize("asked", [{"objective": "agreement"}, {"costs": 1 - np.eye(L)}], ids=str)
def test_rows_without_an_order_are_read_into_memory_too(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    one, other = (
        solved(source_of(engine, tmp_path), "membership", "classes", **asked)
        for engine in ("dask", "parquet")
    )
    assert one.status.ok and other.status.ok
    assert one.certificate.objective == pytest.approx(other.certificate.objective, abs=CLOSE)


def test_a_table_that_is_larger_than_memory_is_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("r2b._data.compute._WORTH_ASKING", 0)
    monkeypatch.setattr("r2b._data.compute.available", lambda: 1000)
    with pytest.raises(MemoryLimitError, match="put the attribute in bins"):
        solved(source_of("parquet", tmp_path), "age", "classes")


def test_tables_of_answers_belong_to_the_values_that_were_fitted() -> None:
    """Agreement with many classes has no prices that tell labels, but a table by cell.

    Batches have the cells of the whole table.
    """
    rng = np.random.default_rng(2)
    age = rng.integers(20, 32, 3000).astype(float)
    label = np.where(rng.random(3000) < (age - 15) / 25, rng.integers(0, 20, 3000), 0)
    own = r2b.debias(
        label,
        sensitive_features={"age": r2b.Continuous(age, basis="linear")},
        objective="agreement",
        epsilon=0.05,
    )
    source = r2b.scan(pa.table({"y": label, "age": age}))
    source.source.batch_rows = 307
    fair = source.debias(
        "y",
        sensitive_features=r2b.Continuous("age", basis="linear"),
        objective="agreement",
        epsilon=0.05,
    )
    assert fair.table is not None
    soft = fair.frame("soft")
    assert np.array_equal(
        np.column_stack([soft[each] for each in soft.column_names[2:]]), own.soft_labels
    )


def test_audits_do_not_depend_on_how_rows_without_an_order_are_cut(tmp_path: Path) -> None:
    frame, asked = (
        pytest.importorskip("dask.dataframe"),
        {"families": "marginal", "n_boot": 20, "n_permutations": 20},
    )
    seen = []
    for n_partitions in (1, 5):
        rows = table() if n_partitions == 1 else table().take(np.arange(N)[::-1])
        scanned = r2b.scan(
            frame.from_pandas(rows.to_pandas(), npartitions=n_partitions, sort=False)
        )
        seen.append(
            scanned.audit("job", sensitive_features=ATTRIBUTES["all"], sample_weight="w", **asked)
        )
    whole = r2b.audit(
        table()["job"], sensitive_features=shuffled("all"), sample_weight=table()["w"], **asked
    )
    assert str(seen[0]) == str(seen[1])
    for one, other in zip(seen[0].families, whole.families, strict=True):
        assert one.name == other.name and one.disparity == pytest.approx(other.disparity, abs=1e-12)


def shuffled(name: str) -> dict[str, Any]:
    """The attributes in the order of the table."""
    columns = table()
    member = r2b.Membership(np.column_stack([columns[each] for each in G]), groups=list(G))
    return {
        "sex": columns["sex"],
        "age": r2b.Continuous(columns["age"].to_numpy(), knots=4),
        "g": member,
    }
