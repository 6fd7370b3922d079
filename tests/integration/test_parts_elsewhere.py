"""Uncertain and continuous attributes where rows live: a sample, passes over blocks, and the labels of rows in memory.

Answers are held against those in memory and against arithmetic of this file, which knows the
problem and imports no part of a solver. Rows are shuffled, weighted and cut in 17 parts; samples
are small, so that every pass goes over blocks.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_calls import Shell
from plain_arithmetic import closest_distribution
from scipy.interpolate import CubicSpline
from spark_sessions import spark_session

import r2b
from r2b._solve.oracle import Block
from r2b.engines import tables
from r2b.engines.lazy import HeldBlocks
from r2b.engines.parts.fitting import Fitting, _begin, quantiles
from r2b.errors import InputError, MissingValueError, ParameterError, ProbabilityError, UnseenError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N, L, SMALL, EPSILON, CLOSE, SEED = 1700, 3, 1200, 0.02, 1e-9, 4
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


def solved(source: Any, name: str, kind: str, entries: int = SMALL, **options: Any) -> Any:
    label = SCORES if kind == "soft" else "job"
    asked = {
        "epsilon": EPSILON,
        "families": "marginal",
        "sample_weight": "w",
        "sample_entries": entries,
    } | options
    return r2b.scan(source).debias(label, sensitive_features=ATTRIBUTES[name], **asked)


def home(frame: Any) -> Any:
    if hasattr(frame, "compute"):
        frame = pa.Table.from_pandas(frame.compute(), preserve_index=False)
    elif hasattr(frame, "toArrow"):
        frame = frame.toArrow()
    elif hasattr(frame, "collect"):
        frame = frame.collect().to_arrow()
    elif hasattr(frame, "to_arrow_table"):
        frame = frame.to_arrow_table()
    elif not hasattr(frame, "column_names"):
        frame = pa.Table.from_batches(list(frame))
    return frame.sort_by("id")


def in_files(folder: Path) -> Path:
    for part, start in enumerate(range(0, N, N // 17)):
        pq.write_table(
            table().slice(start, N // 17), folder / f"{part:02d}.parquet", row_group_size=61
        )
    return folder


@pytest.mark.parametrize("bound", ["target", "ratio", "to_overall"])
def test_other_bounds_are_settled_on_all_rows(bound: str, tmp_path: Path) -> None:
    """What is asked of the sample alone, such as the mean of all labels, would be off by as much as a sample is."""
    known = people()
    family = r2b.Family(
        "g",
        bound=bound,
        epsilon=0.7 if bound == "ratio" else 0.01,
        **({"target": "population"} if bound == "target" else {}),
    )
    asked = {"families": [family], "min_group_size": 50, "epsilon": 0.01}
    fair = solved(source_of("parquet", tmp_path), "membership", "classes", **asked)
    own = r2b.debias(
        known["classes"],
        sensitive_features=in_memory_attributes("membership"),
        sample_weight=known["weight"],
        **asked,
    )
    np.testing.assert_allclose(fair.certificate.means, own.certificate.means, atol=CLOSE)
    rows = known["member"].sum(axis=0)
    with pytest.raises(InputError, match=f"p_[fm].*{rows.min():.1f} rows"):
        solved(
            source_of("parquet", tmp_path),
            "membership",
            "classes",
            families=[family],
            min_group_size=int(rows.min()) + 1,
        )


@pytest.mark.parametrize(
    ("name", "kind", "weight"),
    [
        ("membership", "classes", None),
        ("age", "soft", "w"),
        ("all", "classes", "w"),
        ("all", "soft", None),
    ],
)
def test_rows_are_rounded_in_the_order_of_the_attribute_part_by_part(
    name: str, kind: str, weight: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of the sorted rows hold a fraction of them each; the classes are those that sorting all of them gives."""
    monkeypatch.setattr("r2b.engines.parts.rounding._SORTED", 3000)
    fair = solved(source_of("parquet", tmp_path), name, kind, sample_weight=weight)
    made = pa.Table.from_batches(list(fair.frame("round", random_state=SEED)))
    y = np.column_stack([table()[each] for each in SCORES]) if kind == "soft" else table()["job"]
    chosen = {
        each: value
        for each, value in shuffled("all").items()
        if name == "all" or each == ("g" if name == "membership" else "age")
    }
    if name == "age":
        chosen = {"age": r2b.Continuous(table()["age"].to_numpy())}
    own = r2b.debias(
        y,
        sensitive_features=chosen,
        sample_weight=None if weight is None else table()[weight],
        epsilon=EPSILON,
        families="marginal",
    ).round(SEED)
    wanted = [SCORES[each] for each in own] if kind == "soft" else own.to_pylist()
    assert made[made.column_names[-1]].to_pylist() == wanted


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


def test_spark_gives_the_labels_of_memory(tmp_path: Path) -> None:
    fair, known = (
        solved(source_of("spark", tmp_path), "membership", "soft", entries=8_000),
        expected("membership", "soft"),
    )
    assert fair.status is r2b.Status.SOLVED
    np.testing.assert_allclose(fair.certificate.means, known.certificate.means, atol=CLOSE)
    made = home(fair.frame("sample", random_state=SEED, key="id"))["label_fair"].to_pylist()
    assert made == [SCORES[each] for each in known.sample(SEED, key=np.arange(N))]


def design_of(name: str, fair: Any) -> tuple[np.ndarray, list[tuple[slice, str]]]:
    """How rows count, from the definitions: probabilities, indicators, and natural splines made orthonormal one after the other."""
    known, weight = people(), people()["weight"] / people()["weight"].sum()
    parts: list[tuple[str, np.ndarray]] = []
    if name == "all":
        parts.append(("range", np.eye(2)[known["sex"]]))
    if name != "membership":
        order = np.argsort(known["age"])
        up_to = np.cumsum(weight[order])
        knots = np.unique(
            known["age"][order][
                np.searchsorted(up_to, np.linspace(0.05, 0.95, 4 if name == "all" else 5) - 1e-12)
            ]
        )
        basis = next(how.basis for how in fair.families.counting if hasattr(how, "basis"))
        assert basis.knots.tolist() == knots.tolist()
        raw = [known["age"]]
        for place in range(1, len(knots) - 1):
            spline = CubicSpline(knots, np.eye(len(knots))[place], bc_type="natural")
            inside = np.clip(known["age"], knots[0], knots[-1])
            raw.append(spline(inside) + spline(inside, 1) * (known["age"] - inside))
        made = [np.ones(N)]
        for column in raw:
            for _ in range(2):  # twice is enough
                column = column - sum((weight @ (column * each)) * each for each in made)
            made.append(column / np.sqrt(weight @ column**2))
        parts.append(("moments", np.column_stack(made[1:])))
    if name != "age":
        parts.append(("range", known["member"]))
    ends = np.cumsum([each.shape[1] for _, each in parts]).tolist()
    where = [
        (slice(end - each.shape[1], end), kind)
        for end, (kind, each) in zip(ends, parts, strict=True)
    ]
    return np.column_stack([each for _, each in parts]), where


@pytest.mark.parametrize(
    ("name", "kind"),
    [("membership", "classes"), ("age", "soft"), ("all", "classes"), ("all", "soft")],
)
def test_prices_prove_the_labels_by_arithmetic_of_its_own(
    name: str, kind: str, tmp_path: Path
) -> None:
    fair, known = solved(source_of("parquet", tmp_path), name, kind), people()
    design, where = design_of(name, fair)
    weight = known["weight"] / known["weight"].sum()
    y = known["labels"] if kind == "soft" else np.eye(L)[known["classes"]]
    shift = design @ fair.prices
    x = closest_distribution(y - shift)
    slope = x - y + shift
    bound = weight @ (slope.min(axis=1) - 0.5 * (x**2).sum(axis=1))
    for groups, shape in where:
        share = (
            weight @ design[:, groups] if shape == "range" else np.ones(groups.stop - groups.start)
        )
        means, prices = (
            (design[:, groups] * weight[:, None]).T @ x / share[:, None],
            fair.prices[groups],
        )
        np.testing.assert_allclose(
            np.abs(fair.certificate.means[groups]), np.abs(means), atol=CLOSE
        )
        if shape == "range":
            assert (
                np.ptp(means, axis=0).max() <= EPSILON + CLOSE
                and np.abs(share @ prices).max() < CLOSE
            )
            bound -= 0.5 * EPSILON * (share @ np.abs(prices)).sum()
        else:
            assert np.abs(means).max() <= EPSILON + CLOSE
            bound -= EPSILON * np.abs(prices).sum()
    objective = weight @ (0.5 * (x**2).sum(axis=1) - (x * y).sum(axis=1))
    assert objective == pytest.approx(
        bound, abs=CLOSE
    ) and fair.certificate.objective == pytest.approx(objective, abs=CLOSE)


def test_how_rows_are_cut_does_not_show(tmp_path: Path) -> None:
    source = r2b.scan(table())
    object.__setattr__(source.source, "batch_rows", 101)
    object.__setattr__(source.source, "ordered", False)
    asked = {
        "sensitive_features": ATTRIBUTES["all"],
        "families": "marginal",
        "epsilon": EPSILON,
        "sample_entries": SMALL,
    }
    one = source.debias("job", **asked)
    other = r2b.scan(table().take(np.arange(N)[::-1])).debias("job", **asked)
    np.testing.assert_allclose(one.certificate.means, other.certificate.means, atol=CLOSE)
    assert one.schema.names.tolist() == other.schema.names.tolist()


@pytest.mark.parametrize("name", ["membership", "age"])
def test_few_different_rows_are_solved_as_in_memory(name: str) -> None:
    """A table that is long and repeats itself comes home whole, equal rows once."""
    rng = np.random.default_rng(3)
    n, of = 4000, 5
    share = rng.uniform(0.1, 0.9, of)
    place = rng.integers(0, of, n)
    label, weight = (
        (rng.random(n) < 0.2 + 0.6 * share[place]).astype(int),
        rng.integers(1, 4, n).astype(float),
    )
    columns = {
        "y": label,
        "p": share[place],
        "q": 1 - share[place],
        "age": 20.0 + 7 * place,
        "w": weight,
    }
    asked = (
        r2b.Membership(["p", "q"], name="g")
        if name == "membership"
        else r2b.Continuous("age", basis="linear")
    )
    fair = r2b.scan(pa.table(columns)).debias(
        "y", sensitive_features=asked, sample_weight="w", epsilon=0.01, sample_entries=2000
    )
    own = {"g": r2b.Membership(np.column_stack([columns["p"], columns["q"]]), groups=["p", "q"])}
    given = own if name == "membership" else {"age": r2b.Continuous(columns["age"], basis="linear")}
    known = r2b.debias(label, sensitive_features=given, sample_weight=weight, epsilon=0.01)
    assert fair.status is r2b.Status.SOLVED and len(fair.schema.table) == 1
    np.testing.assert_allclose(fair.certificate.means, known.certificate.means, atol=CLOSE)
    assert fair.frame("round", random_state=1)["y_fair"].to_pylist() == known.round(1).tolist()


@pytest.mark.parametrize("entries", [SMALL, 1 << 20])
def test_frontiers_are_those_of_memory(entries: int, tmp_path: Path) -> None:
    asked = {
        "sensitive_features": ATTRIBUTES["membership"],
        "epsilons": [0.0, 0.05, 0.5],
        "sample_weight": "w",
    }
    path = r2b.scan(source_of("duckdb", tmp_path)).frontier("job", sample_entries=entries, **asked)
    known = people()
    own = r2b.frontier(
        known["classes"],
        sensitive_features=in_memory_attributes("membership"),
        epsilons=[0.0, 0.05, 0.5],
        sample_weight=known["weight"],
    )
    np.testing.assert_allclose(path.distance, own.distance, atol=CLOSE)
    assert [fair.status for fair in path.labels] == [fair.status for fair in own.labels]


def test_saved_prices_apply_to_tables_elsewhere(tmp_path: Path) -> None:
    fair = solved(source_of("parquet", tmp_path), "all", "classes")
    fair.report(tmp_path / "report.html", n_permutations=5, n_boot=5)
    # it is of the rows, not of what is kept of them
    assert "at the mean" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    fair.save(tmp_path / "prices.json")
    # one typical row is kept, not every value
    assert (tmp_path / "prices.json").stat().st_size < 20_000
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
        "job", sensitive_features=["sex", r2b.Continuous("age")], sample_entries=SMALL, **asked
    )
    own = r2b.debias(
        known["classes"],
        sensitive_features={"sex": known["sex"], "age": r2b.Continuous(age)},
        **asked,
    )
    assert fair.families.left_out == own.families.left_out
    np.testing.assert_allclose(fair.certificate.means, own.certificate.means, atol=CLOSE)
    with pytest.raises(MissingValueError, match="no value"):
        r2b.scan(pa.table(columns)).debias(
            "job", sensitive_features=r2b.Continuous("age"), sample_entries=SMALL
        )


def test_strata_have_bases_of_their_own() -> None:
    known = people()
    columns = {"job": known["classes"], "age": known["age"], "sex": known["sex"]}
    scanned = r2b.scan(pa.table(columns)).debias(
        "job",
        sensitive_features=r2b.Continuous("age", knots=3),
        control_features="sex",
        epsilon=EPSILON,
        sample_entries=SMALL,
    )
    own = r2b.debias(
        known["classes"],
        sensitive_features={"age": r2b.Continuous(known["age"], knots=3)},
        control_features={"sex": known["sex"]},
        epsilon=EPSILON,
    )
    assert scanned.groups.tolist() == own.groups.tolist()
    np.testing.assert_allclose(scanned.certificate.means, own.certificate.means, atol=CLOSE)
    for mine, others in zip(scanned.families.counting, own.families.counting, strict=True):
        assert mine.basis.knots.tolist() == others.basis.knots.tolist()
        np.testing.assert_allclose(mine.basis.transform, others.basis.transform, rtol=1e-9)


def test_quantiles_by_their_digits_are_exact() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.normal(size=300) * 10.0 ** rng.integers(-200, 200, 300), np.zeros(40), [-0.0, 5e-324]]
    )
    weight = rng.integers(0, 5, len(values)).astype(float)
    parts = np.array_split(np.arange(len(values)), 7)
    blocks = HeldBlocks(
        [
            Block(
                np.zeros((len(p), 2)), np.zeros(len(p), np.uint8), weight[p], parts=values[p, None]
            )
            for p in parts
        ]
    )
    share = np.array([0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
    (found,) = quantiles(
        blocks,
        [Fitting(0, np.ones(1, bool), _begin(r2b._data.ContinuousSettings("linear"), "x"))],
        [share],
    )
    order = np.argsort(values, kind="stable")
    wanted = values[order][np.searchsorted(np.cumsum(weight[order]), share * weight.sum())]
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("kind", ["classes", "soft"])
def test_files_of_text_give_the_labels_of_typed_ones(kind: str, tmp_path: Path) -> None:
    """Numbers of a CSV file are text until they are asked for."""
    (tmp_path / "typed").mkdir()
    pytest.importorskip("pyarrow.csv").write_csv(table(), tmp_path / "people.csv")
    sources = [str(tmp_path / "people.csv"), str(in_files(tmp_path / "typed"))]
    one, other = (
        pa.Table.from_batches(list(solved(each, "all", kind).frame("round", random_state=1)))
        for each in sources
    )
    assert one[one.column_names[-1]].to_pylist() == other[other.column_names[-1]].to_pylist()


def test_targets_that_no_labels_meet_are_proven_so() -> None:
    """Women are all but certainly in one column: a target for each group that contradicts that of all."""
    known = people()
    columns = {
        "job": known["classes"],
        "a": known["member"][:, 0],
        "b": known["member"][:, 1],
        "c": known["member"][:, 1],
        "d": known["member"][:, 0],
    }
    families = [
        r2b.Family("g", bound="target", target=[0.6, 0.2, 0.2]),
        r2b.Family("h", bound="target", target=[0.2, 0.6, 0.2]),
    ]
    asked = {"families": families, "offsets": {"g": np.full((2, 3), 1e-12)}, "epsilon": 0.01}
    with pytest.warns(r2b.errors.NotSolvedWarning, match="infeasible"):
        fair = r2b.scan(pa.table(columns)).debias(
            "job",
            sensitive_features=[
                r2b.Membership(["a", "b"], name="g"),
                r2b.Membership(["c", "d"], name="h"),
            ],
            sample_entries=SMALL,
            **asked,
        )
    assert fair.status is r2b.Status.INFEASIBLE


def test_what_cannot_be_read_names_the_row() -> None:
    wrong = table().to_pandas()
    wrong.loc[1234, "p_f"] = 0.9
    wrong.loc[1234, "p_m"] = 0.9
    with pytest.raises(ProbabilityError, match=r"row 1234 sums to 1\.8"):
        solved(pa.Table.from_pandas(wrong), "membership", "soft")
    with pytest.raises(ParameterError, match="sample_entries is -1"):
        solved(table(), "membership", "soft", entries=-1)


@pytest.mark.parametrize("asked", [{"objective": "agreement"}, {"costs": 1 - np.eye(L)}], ids=str)
def test_what_takes_rows_in_memory_is_refused_where_they_have_no_order(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match="no order") as refused:
        solved(source_of("dask", tmp_path), "membership", "classes", **asked)
    assert "write them to files and scan those" in refused.value.remedy
    assert solved(source_of("parquet", tmp_path), "membership", "classes", **asked).status.ok


def test_tables_of_answers_belong_to_the_values_that_were_fitted() -> None:
    """Agreement with many classes has no prices that tell labels, but a table by cell: batches have the cells of the whole table."""
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
    object.__setattr__(source.source, "batch_rows", 307)
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


def test_functions_that_look_at_other_values_are_refused(tmp_path: Path) -> None:
    centred = r2b.Continuous("age", basis=lambda values: values - values.mean())
    with pytest.raises(ParameterError, match="other values"):
        r2b.scan(table()).debias("job", sensitive_features=centred, sample_entries=SMALL)
    squares = r2b.Continuous("age", basis=[lambda values: values, np.square])
    fair = r2b.scan(table()).debias(
        "job", sensitive_features=squares, epsilon=EPSILON, sample_entries=SMALL
    )
    age = people()["age"][table()["id"].to_numpy()]
    own = r2b.debias(
        table()["job"],
        sensitive_features=r2b.Continuous(age, basis=[lambda values: values, np.square]),
        epsilon=EPSILON,
    )
    np.testing.assert_allclose(fair.certificate.means, own.certificate.means, atol=CLOSE)


def test_tables_that_change_between_passes_are_refused() -> None:
    class Changing(dict):  # a source that gives another row on its second pass
        passes = 0

    source = r2b.scan(table())
    changing, batches = Changing(), type(source.source).batches

    def other(self: Any, columns: Any) -> Any:
        changing.passes += 1
        rows = table() if changing.passes == 1 else table().slice(1)
        object.__setattr__(self, "table", rows)
        return batches(self, columns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(source.source), "batches", other)
        with pytest.raises(InputError, match="when it was read again"):
            source.debias(
                "job",
                sensitive_features=ATTRIBUTES["all"],
                families="marginal",
                sample_entries=SMALL,
            )


@pytest.fixture
def shell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(capsys, tmp_path)


def test_the_command_line_verifies_what_was_solved_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    opened = tables.rows_in_parts
    monkeypatch.setattr(tables, "rows_in_parts", lambda *args: opened(*args[:-1], SMALL))
    data, out = tmp_path / "people.parquet", tmp_path / "fair.parquet"
    pq.write_table(table(), data)
    named = [
        "--label",
        "job",
        "--sensitive",
        "sex",
        "--continuous",
        "age",
        "--membership",
        "g=p_f,p_m",
        "--weight",
        "w",
    ]
    for form in ("round", "soft"):
        ended = shell(
            "debias",
            data,
            *named,
            "--families",
            "marginal",
            "--epsilon",
            EPSILON,
            "--form",
            form,
            "--output",
            out,
            "--force",
        )
        assert ended.code == 0, ended.err
        assert r2b.verify(out).ok
    edited = pq.read_table(out).to_pandas()
    edited.loc[7, "age"] += 1.0
    pq.write_table(pa.Table.from_pandas(edited, preserve_index=False), out)
    assert not r2b.verify(out).ok
