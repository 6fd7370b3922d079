"""Outcomes: shares of ordered or merged classes, beside a solver that knows nothing of prices."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("polars")
import pandas as pd
import polars as pl
import pyarrow as pa
from families_qp import (
    People,
    Rule,
    Table,
    closest,
    fewest,
    indicators,
    least_violation,
    people,
)
from families_qp import violation as missed
from reweighing_qp import least_change

import r2b
from r2b import Family
from r2b.errors import InfeasibleError, ParameterError
from r2b.metrics import (
    demographic_parity_difference,
    demographic_parity_difference_by_class,
    demographic_parity_ratio,
    equalized_odds_difference,
)

BOUNDS = ("range", "to_overall", "ratio", "target", "population", "to_reference", "highest")
SHAPES = ("ordinal", "merged", "parts", "many")
SEEDS = range(30)


def drawn_outcomes(shape: str, classes: int, rng: np.random.Generator) -> np.ndarray:
    """How much each class counts in every outcome."""
    if shape == "ordinal":
        return np.tri(classes, dtype=float).T[1:]
    n = classes + 2 if shape == "many" else int(rng.integers(1, classes + 1))
    if shape == "parts":
        return rng.random((n, classes))
    found = rng.random((n, classes)) < 0.5
    found[:, 0] |= ~found.any(axis=1)
    return found.astype(float)


def drawn_problem(seed: int) -> tuple[People, dict[str, object], list[Rule]]:
    """People, options of ``debias``, and the rules that these stand for."""
    rng = np.random.default_rng([seed, 40])
    who = people(seed, soft=bool(seed % 2))
    bound, shape = BOUNDS[seed % len(BOUNDS)], SHAPES[seed % len(SHAPES)]
    outcomes = drawn_outcomes(shape, who.n_classes, rng)
    n = len(outcomes)
    shares = who.y @ outcomes.T
    empty = bound == "ratio" and (shares.mean(axis=0) <= 0).any()
    bound = "range" if empty else bound
    epsilon = rng.choice([0.0, 0.02, 0.1], n) if rng.random() < 0.5 else np.full(n, 0.03)
    if rng.random() < 0.3:
        epsilon[int(rng.integers(n))] = np.inf
    kind = {"population": "target", "highest": "to_reference"}.get(bound, bound)
    options: dict[str, object] = {"bound": kind, "epsilon": epsilon, "outcomes": outcomes}
    target = who.w @ shares / who.w.sum()
    if bound == "target":
        target = np.clip(target + rng.uniform(-0.2, 0.2, n), 0.0, 1.0)
    if kind == "target":
        options["target"] = "population" if bound == "population" else target
    columns: list[tuple[str, ...]] = [("sex",), ("race",), ("sex", "race")]
    columns = [columns[int(rng.integers(3))]] if rng.random() < 0.5 else columns[:2]
    families, rules = [], []
    for names in columns:
        counts = indicators(*(who.sensitive[name] for name in names))
        first = ("f", "p")[("sex", "race").index(names[0])], "p"
        highest = (counts * who.w[:, None]).T @ shares / (who.w @ counts)[:, None]
        own = {"highest": "highest", "to_reference": first[: len(names)]}.get(bound)
        families.append(Family(names, reference=own))
        place = (
            (highest >= highest.max(axis=0) - 1e-12).argmax(axis=0) if bound == "highest" else None
        )
        rules.append(Rule(counts, kind, epsilon, target, outcomes=outcomes, reference=place))
    return who, options | {"families": families, "sensitive_features": who.sensitive}, rules


def check_problem(seed: int) -> str:
    """Solve one problem both ways; return what became of it."""
    who, options, rules = drawn_problem(seed)
    weight = who.weight
    table = Table(who.y, who.w, rules)
    if least_violation(table) > 1e-7:
        with pytest.raises(ParameterError, match="targets of"):
            r2b.debias(who.given, sample_weight=weight, **options)
        return "infeasible"
    fair = r2b.debias(who.given, sample_weight=weight, **options)
    value, _ = closest(table)
    x = fair.soft_labels
    assert fair.status.ok and fair.certificate.holds
    assert missed(table, x) <= 1e-9
    assert table.value(x) == pytest.approx(value, abs=1e-6)
    return "solved"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_optimum_is_that_of_another_solver(seed: int) -> None:
    check_problem(seed)


@pytest.mark.parametrize("seed", range(6))
def test_the_fewest_changes_are_those_of_a_linear_programme(seed: int) -> None:
    who, options, rules = drawn_problem(14 * seed + 2)  # class labels, all bounds in turn
    fair = r2b.debias(who.given, sample_weight=who.weight, objective="agreement", **options)
    table = Table(who.y, who.w, rules, lam=0.0)
    assert fair.status.ok and missed(table, fair.soft_labels) <= 1e-9
    assert table.value(fair.soft_labels) == pytest.approx(fewest(table), abs=1e-7)


@pytest.mark.parametrize("bound", ["range", "to_overall", "ratio", "target"])
@pytest.mark.parametrize("seed", range(4))
def test_weights_compare_outcomes_as_well(seed: int, bound: str) -> None:
    rng = np.random.default_rng(seed)
    n, classes = 120, int(rng.integers(3, 6))
    group = rng.integers(0, 3, n)
    y = np.minimum(rng.integers(0, classes, n) + (group == 2), classes - 1)
    y[:classes] = np.arange(classes)
    outcomes = drawn_outcomes(SHAPES[seed], classes, rng)
    epsilon, largest = [0.0, 0.02][seed % 2], [None, 3.0][seed % 2]
    asked: dict[str, object] = {"target": "population"} if bound == "target" else {}
    shares = np.eye(classes)[y] @ outcomes.T
    value = least_change(shares, np.ones(n), [np.eye(3)[group]], bound, epsilon, largest)
    asked |= {"bound": bound, "epsilon": epsilon, "max_weight": largest, "outcomes": outcomes}
    if value is None:
        with pytest.raises(InfeasibleError, match="No weights bring"):
            r2b.reweigh(y, sensitive_features=group, **asked)
        return
    found = r2b.reweigh(y, sensitive_features=group, **asked)
    assert found.certificate.holds
    assert np.mean(0.5 * (found.weights - 1) ** 2) == pytest.approx(value, abs=1e-6)
    assert found.to_frame("means", backend="pyarrow").num_rows == 3 * len(outcomes)
    assert found.to_frame("table", backend="pyarrow").num_rows == 3 * classes


MARKS = ["Fail", "Pass", "Merit", "Distinction"]
RNG = np.random.default_rng(0)
SEX = np.repeat(["f", "m"], 400)
DISABILITY = np.tile(["no", "no", "no", "yes"], 200)
PEOPLE = {"sex": SEX, "disability": DISABILITY}
ABILITY = RNG.normal(size=800) + 0.4 * (SEX == "m") - 0.5 * (DISABILITY == "yes")
Y = np.array(MARKS)[np.digitize(ABILITY, [-0.8, 0.2, 1.1])]
ORDERED = pd.Series(pd.Categorical(Y, MARKS, ordered=True))
AT_LEAST = ("at least Pass", "at least Merit", "at least Distinction")


def share_apart(fair: r2b.FairLabels, classes: list[str]) -> float:
    """The largest difference between two groups in the share of some classes."""
    labels = fair.soft(as_frame=True, backend="pandas")[classes].sum(axis=1).to_numpy()
    groups = [SEX[i] + DISABILITY[i] for i in range(len(Y))]
    return float(np.ptp([labels[np.array(groups) == g].mean() for g in set(groups)]))


def test_every_share_of_at_least_a_mark_is_within_epsilon() -> None:
    fair = r2b.debias(ORDERED, sensitive_features=PEOPLE, epsilon=0.01, outcomes="ordinal")
    assert fair.status.ok and tuple(fair.outcomes) == AT_LEAST
    apart = [share_apart(fair, MARKS[k:]) for k in (1, 2, 3)]
    assert max(apart) == pytest.approx(0.01, abs=1e-9)
    assert fair.certificate.disparity_by_class == pytest.approx(apart, abs=1e-12)
    plain = r2b.debias(ORDERED, sensitive_features=PEOPLE, epsilon=0.01)
    assert max(share_apart(plain, MARKS[k:]) for k in (1, 2, 3)) > 0.015


def test_the_order_is_stated_by_the_column_or_given() -> None:
    wanted = {"epsilon": 0.01, "sensitive_features": PEOPLE}
    given = r2b.debias(Y, outcomes={"ordinal": MARKS}, **wanted)
    codes = pa.array([MARKS.index(each) for each in Y], pa.int8())
    arrow = pa.DictionaryArray.from_arrays(codes, pa.array(MARKS), ordered=True)
    for column in (ORDERED, pl.Series(Y, dtype=pl.Enum(MARKS)), arrow):
        fair = r2b.debias(column, outcomes="ordinal", **wanted)
        assert tuple(fair.outcomes) == tuple(given.outcomes) == AT_LEAST
        assert fair.certificate.objective == pytest.approx(given.certificate.objective, abs=1e-12)


def test_merged_classes_are_compared_and_others_are_free() -> None:
    outcomes = {"good": ["Merit", "Distinction"], "extreme": ["Fail", "Distinction"]}
    fair = r2b.debias(Y, sensitive_features=PEOPLE, epsilon=0.01, outcomes=outcomes)
    assert [share_apart(fair, each) for each in outcomes.values()] <= [0.01 + 1e-9] * 2
    assert share_apart(fair, ["Pass"]) > 0.01
    table = fair.to_frame(backend="pandas")
    assert list(table.columns) == ["family", "group", "outcome", "before", "after"]
    assert set(table["outcome"]) == set(outcomes) and "good, extreme" in str(fair)
    frame = pd.DataFrame([[0, 0, 1, 1], [1, 0, 0, 1]], columns=MARKS, index=list(outcomes))
    same = r2b.debias(Y, sensitive_features=PEOPLE, epsilon=0.01, outcomes=frame)
    assert tuple(same.outcomes) == tuple(outcomes)
    assert np.array_equal(same.soft_labels, fair.soft_labels)


def test_epsilon_and_target_are_given_by_outcome() -> None:
    epsilon = {"at least Merit": 0.0, ...: 0.05}
    fair = r2b.debias(ORDERED, sensitive_features=PEOPLE, epsilon=epsilon, outcomes="ordinal")
    assert fair.certificate.epsilon.tolist() == [0.05, 0.0, 0.05]
    fair = r2b.debias(
        Y,
        sensitive_features=PEOPLE,
        bound="target",
        target={"good": 0.5},
        outcomes={"good": ["Merit", "Distinction"]},
    )
    assert fair.certificate.means == pytest.approx(0.5, abs=1e-9)
    population = r2b.debias(
        ORDERED, sensitive_features=PEOPLE, bound="target", target="population", outcomes="ordinal"
    )
    at_least = [np.isin(Y, MARKS[k:]).mean() for k in (1, 2, 3)]
    assert population.certificate.means == pytest.approx(np.tile(at_least, (4, 1)), abs=1e-9)


def test_the_same_labels_wherever_rows_live(tmp_path) -> None:
    asked = {"epsilon": 0.01, "outcomes": {"ordinal": MARKS}}
    fair = r2b.debias(Y, sensitive_features=SEX, **asked)
    table = pa.table({"y": Y, "sex": SEX})
    scanned = r2b.scan(table).debias("y", sensitive_features="sex", **asked)
    assert np.array_equal(scanned.in_memory().soft_labels, fair.soft_labels)
    assert np.array_equal(scanned.in_memory().round(), fair.round())
    fair.save(tmp_path / "fair.json")
    again = r2b.load(tmp_path / "fair.json")
    assert again.outcomes.tolist() == fair.outcomes.tolist()
    assert np.array_equal(again.transform(Y, sensitive_features=SEX), fair.soft_labels)
    p = RNG.dirichlet(np.ones(4), 800)
    soft = r2b.debias(p, sensitive_features=SEX, epsilon=0.001, outcomes={"ordinal": range(4)})
    columns = {"sex": SEX} | {str(k): p[:, k] for k in range(4)}
    asked = {"epsilon": 0.001, "outcomes": {"ordinal": list("0123")}}
    parts = r2b.scan(pa.table(columns)).debias(list("0123"), sensitive_features="sex", **asked)
    assert parts.certificate.objective == pytest.approx(soft.certificate.objective, abs=1e-12)


def test_uncertain_and_continuous_attributes() -> None:
    p, age = RNG.dirichlet(np.ones(2), 800), RNG.normal(size=800)
    for attribute in (r2b.Membership(p, groups=("f", "m")), {"age": r2b.Continuous(age)}):
        fair = r2b.debias(ORDERED, sensitive_features=attribute, epsilon=0.002, outcomes="ordinal")
        assert fair.certificate.holds and fair.certificate.means.shape[1] == 3


def test_rounded_and_drawn_labels_are_as_near_as_promised() -> None:
    fair = r2b.debias(ORDERED, sensitive_features=PEOPLE, epsilon=0.01, outcomes="ordinal")
    away = np.abs(fair.realised(fair.round()).means - fair.certificate.means)
    assert (away <= fair.rounding_bound[:, None] + 1e-12).all()
    draws = [fair.realised(fair.sample(seed)).means for seed in range(300)]
    assert np.std(draws, axis=0) == pytest.approx(fair.sampling_deviation, rel=0.2, abs=1e-6)


def test_a_path_and_a_budget() -> None:
    asked = {"sensitive_features": PEOPLE, "outcomes": "ordinal"}
    path = r2b.frontier(ORDERED, epsilons=5, **asked)
    assert path.distance[-1] == 0 and (np.diff(path.distance) <= 1e-12).all()
    fair = r2b.smallest_epsilon(ORDERED, distance=0.01, **asked)
    assert fair.certificate.distance == pytest.approx(0.01, abs=1e-6) and len(fair.outcomes) == 3


def test_an_audit_of_an_outcome_is_that_of_its_rows() -> None:
    merged = {"good": ["Merit", "Distinction"], "poor": ["Fail"]}
    found = r2b.audit(Y, sensitive_features=PEOPLE, outcomes=merged, n_permutations=50)
    good = np.where(np.isin(Y, merged["good"]), "good", "not")
    alone = r2b.audit(good, sensitive_features=PEOPLE, n_permutations=50)
    for one, other in zip(found.families, alone.families, strict=True):
        assert one.classes.tolist() == ["good", "poor"]
        assert one.means[:, 0] == pytest.approx(other.means[:, 0], abs=1e-12)
        assert one.interval is not None and one.interval.low <= one.disparity <= one.interval.high
        assert one.chance is not None and 0 < one.chance.quantile < 0.5
    assert "outcome good" in str(found)
    assert "outcome" in found.to_frame(backend="pandas").columns
    soft = r2b.audit(
        np.eye(2)[(good == "not").astype(int)],
        sensitive_features=SEX,
        n_boot=0,
        outcomes=[[1, 0]],
        n_permutations=0,
    )
    assert soft.families[0].disparity == pytest.approx(alone.families[0].disparity, abs=1e-12)


def test_a_report_names_outcomes() -> None:
    fair = r2b.debias(ORDERED, sensitive_features=PEOPLE, epsilon=0.01, outcomes="ordinal")
    text = fair.report().to_markdown()
    assert "at least Merit" in text and "Outcomes are compared, not classes" in text
    with pytest.raises(ParameterError, match="outcomes"):
        fair.report(suppress_below=5)


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        ("ordinal", "order of the classes .* is not known"),
        ("order", "outcomes is 'order'"),
        ({"ordinal": MARKS[:3]}, "is without the class 'Distinction'"),
        ({"ordinal": [*MARKS, "Fail"]}, "names a class twice"),
        ({"good": ["Merrit"]}, "'Merrit', which is not a class"),
        ({"good": []}, "names no class"),
        ({}, "no outcome"),
        ({1: ["Pass"], "1": ["Fail"]}, "Two outcomes are called '1'"),
        ([[1, 0, 0]], "a column for each of the 4 classes"),
        ([[2, 0, 0, 0]], "counts a class 2 times"),
        ([[np.nan, 0, 0, 0]], "counts a class nan times"),
        (
            pd.DataFrame([[1, 0, 0, 0]], columns=[*MARKS[:3], "Other"]),
            "'Other', which is not a class",
        ),
        (3, "a column for each of the 4 classes"),
    ],
)
def test_outcomes_that_cannot_be_are_refused(outcomes: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        r2b.debias(Y, sensitive_features=SEX, outcomes=outcomes)


def test_targets_that_no_classes_have_are_refused() -> None:
    asked = {"bound": "target", "target": [0.2, 0.5, 0.1], "outcomes": {"ordinal": MARKS}}
    with pytest.raises(ParameterError, match="leave no shares of the classes"):
        r2b.debias(Y, sensitive_features=SEX, **asked)


def test_the_group_with_most_of_a_class_is_its_reference() -> None:
    fair = r2b.debias(
        Y, sensitive_features=PEOPLE, bound="to_reference", reference="highest", epsilon=0.02
    )
    before, after = fair.certificate.means_before, fair.certificate.means
    highest = before.argmax(axis=0)
    assert len(set(highest)) > 1
    assert np.abs(after - after[highest, np.arange(4)]).max() <= 0.02 + 1e-9
    (member,) = fair.families.members
    again = type(member.bound).from_json(member.bound.to_json(), 4)
    assert again.reference.tolist() == highest.tolist()
    assert again.parameters_for(list("abcd")) == {"reference": "highest"}
    order = np.array([2, 0, 3, 1])
    turned = member.bound.reordered(order)
    assert turned.measure(after[order], np.ones(4)) == pytest.approx(
        member.bound.measure(after, np.ones(4))
    )
    named = r2b.debias(
        Y,
        sensitive_features=["highest" if s == "f" else s for s in SEX],
        bound="to_reference",
        reference="highest",
        epsilon=0.02,
    )
    assert named.families.members[0].bound.reference == 0  # a group of that name


def test_the_measures_take_outcomes() -> None:
    merged, asked = {"good": ["Merit", "Distinction"]}, {"sensitive_features": SEX}
    good = np.isin(Y, merged["good"])
    apart = abs(good[SEX == "f"].mean() - good[SEX == "m"].mean())
    assert demographic_parity_difference(Y, outcomes=merged, **asked) == pytest.approx(apart)
    by_class = demographic_parity_difference_by_class(ORDERED, outcomes="ordinal", **asked)
    assert by_class.as_dict().keys() == {*AT_LEAST}
    p = np.eye(4)[[MARKS.index(each) for each in Y]]
    ordered = {"outcomes": "ordinal", "classes": MARKS} | asked
    assert demographic_parity_difference(p, **ordered) == pytest.approx(by_class.values.max())
    ratio = demographic_parity_ratio(Y, outcomes=merged, **asked)
    assert ratio == pytest.approx(good[SEX == "f"].mean() / good[SEX == "m"].mean())
    with pytest.raises(ParameterError, match="outcomes are given"):
        equalized_odds_difference(Y, Y, outcomes=merged, **asked)


def test_new_groups_have_no_distribution_overall() -> None:
    fair = r2b.debias(ORDERED, sensitive_features=SEX, epsilon=0.01, outcomes="ordinal")
    with pytest.raises(ParameterError, match="prices are of outcomes"):
        fair.transform(["Pass"], sensitive_features=["x"], unseen="overall")
