"""Weights of rows: optimal, within their bounds, and clear about what cannot be had."""

import json
import warnings
from functools import partial

import numpy as np
import pytest

import r2b
from r2b._constraints.families.request import Request
from r2b._data import read
from r2b._weights import reweighing
from r2b._weights.interior import interior_prices
from r2b._weights.limits import FEASIBLE, least_missed
from r2b._weights.result import certify
from r2b.errors import DataWarning, InfeasibleError, ParameterError, UnseenError
from tests.support.reweighing_qp import least_change


def drawn(seed, largest=400):
    """A table of two attributes whose groups differ much."""
    rng = np.random.default_rng(seed)
    n, n_classes = int(rng.integers(30, largest)), int(rng.integers(2, 8))
    a, b = rng.integers(0, int(rng.integers(2, 5)), n), rng.integers(0, 2, n)
    shares = rng.dirichlet(np.full(n_classes, 2.0), size=(a.max() + 1, 2))
    y = np.array([rng.choice(n_classes, p=shares[i, j]) for i, j in zip(a, b, strict=True)])
    return np.unique(y, return_inverse=True)[1], {"a": a, "b": b}, rng


def counts_of(columns, families):
    crossed = [f"{i},{j}" for i, j in zip(columns["a"], columns["b"], strict=True)]
    of = {"crossed": [crossed], "marginal": [columns["a"], columns["b"]]}
    of["both"] = of["marginal"] + of["crossed"]
    found = [np.unique(each, return_inverse=True)[1] for each in of[families]]
    return [np.eye(each.max() + 1)[each] for each in found]


@pytest.mark.parametrize("bound", ["range", "to_overall", "ratio", "target"])
@pytest.mark.parametrize("seed", range(8))
def test_weights_are_those_of_a_general_solver(seed, bound):
    y, columns, rng = drawn(seed)
    weight = rng.uniform(0.2, 3.0, len(y)) if seed % 2 else np.ones(len(y))
    epsilon, largest = [0.0, 0.01, 0.05][seed % 3], [None, 3.0, 6.0][seed % 3]
    families = ["crossed", "marginal", "both"][seed % 3]
    options = {"target": "population"} if bound == "target" else {}
    value = least_change(
        np.eye(y.max() + 1)[y], weight, counts_of(columns, families), bound, epsilon, largest
    )
    asked = {"epsilon": epsilon, "bound": bound, "families": families, "max_weight": largest}
    if value is None:
        with pytest.raises(InfeasibleError):
            r2b.reweigh(y, sensitive_features=columns, sample_weight=weight, **asked, **options)
        return
    found = r2b.reweigh(y, sensitive_features=columns, sample_weight=weight, **asked, **options)
    assert found.status.ok and found.certificate.holds and found.certificate.excess <= 1e-9
    change = weight @ (0.5 * (found.weights - 1.0) ** 2) / weight.sum()
    assert change == pytest.approx(value, abs=1e-6)
    assert found.certificate.objective == pytest.approx(change, abs=1e-12)
    assert found.weights.min() >= 0 and (largest is None or found.weights.max() <= largest)


@pytest.mark.parametrize("bound", ["range", "to_overall", "ratio", "target", "to_reference"])
@pytest.mark.parametrize("seed", range(6))
def test_the_interior_point_method_alone_finds_prices_close_to_optimal(seed, bound):
    y, columns, rng = drawn(seed + 50)
    weight = 10.0 ** rng.uniform(-2, 0, len(y))
    asked = {"bound": bound, "epsilon": [0.0, 0.01][seed % 2], "families": "both"}
    asked |= {"target": "population"} if bound == "target" else {}
    asked |= {"reference": "highest"} if bound == "to_reference" else {}
    data = read(y, sensitive_features=columns, sample_weight=weight)
    task = reweighing._task_of(data, Request(**asked), np.inf, None)
    missed = least_missed(task.oracle, task.parity)
    if missed.by > FEASIBLE:
        with pytest.raises(InfeasibleError):
            r2b.reweigh(y, sensitive_features=columns, sample_weight=weight, **asked)
        return
    proof = certify(task.oracle, task.parity, interior_prices(task.oracle, task.parity))
    assert proof.excess <= 1e-7 and abs(proof.relative_gap) <= 1e-7
    found = r2b.reweigh(y, sensitive_features=columns, sample_weight=weight, **asked)
    assert found.certificate.objective == pytest.approx(proof.objective, rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_probabilities_and_uncertain_groups(seed):
    rng = np.random.default_rng(seed)
    y, mixed = rng.dirichlet(np.ones(4), 80), rng.dirichlet(np.full(3, 0.5), 80)
    y[:, 0] += 0.5 * mixed[:, 0]
    y /= y.sum(axis=1, keepdims=True)
    value = least_change(y, np.ones(80), [mixed], "range", 0.01, None)
    found = r2b.reweigh(y, sensitive_features=r2b.Membership(mixed), epsilon=0.01)
    assert found.status.ok
    assert 0.5 * ((found.weights - 1.0) ** 2).mean() == pytest.approx(value, abs=1e-6)
    totals = mixed.T @ found.weights
    assert totals == pytest.approx(mixed.sum(axis=0), rel=1e-8)
    assert (
        np.ptp(mixed.T @ (found.weights[:, None] * y) / totals[:, None], axis=0).max()
        <= 0.01 + 1e-9
    )


def test_every_group_keeps_its_total_or_gets_the_one_asked_for():
    y, columns, _ = drawn(3)
    b = columns["b"]
    kept = r2b.reweigh(y, sensitive_features={"b": b})
    assert [kept.weights[b == k].mean() for k in (0, 1)] == pytest.approx([1.0, 1.0], abs=1e-8)
    for wanted, half in (("equal", 0.5), ({"0": 0.3, "1": 0.7}, 0.3), ({0: 0.3, 1: 0.7}, 0.3)):
        found = r2b.reweigh(y, sensitive_features={"b": b}, representation=wanted)
        assert found.status.ok and found.disparity <= 1e-9
        assert found.weights[b == 0].sum() == pytest.approx(half * len(y), rel=1e-8)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("bound", ["range", "to_overall", "ratio"])
def test_a_representation_far_from_the_shares_is_reached(seed, bound):
    rng = np.random.default_rng(seed)
    y, columns, _ = drawn(seed + 100)
    wanted = rng.dirichlet(np.full(columns["a"].max() + 1, 2.0))
    groups = [np.eye(len(wanted))[columns["a"]]]
    asked = {"bound": bound, "epsilon": [0.0, 0.02][seed % 2], "max_weight": [None, 9.0][seed % 2]}
    value = least_change(np.eye(y.max() + 1)[y], np.ones(len(y)), groups, *asked.values(), wanted)
    call = partial(r2b.reweigh, y, sensitive_features={"a": columns["a"]}, **asked)
    representation = dict(enumerate(wanted.tolist()))
    if value is None:
        with pytest.raises(InfeasibleError):
            call(representation=representation)
        return
    found = call(representation=representation)
    assert found.certificate.holds
    assert np.mean(0.5 * (found.weights - 1.0) ** 2) == pytest.approx(value, abs=1e-6)
    assert np.bincount(columns["a"], found.weights) / len(y) == pytest.approx(wanted, abs=1e-8)


def test_representation_of_several_families():
    y, columns, _ = drawn(5)
    asked = {"sensitive_features": columns, "families": "marginal", "epsilon": 0.05}
    found = r2b.reweigh(y, representation={"a": "equal"}, **asked)
    sums = np.bincount(columns["a"], found.weights)
    assert np.ptp(sums) <= 1e-6 * len(y)
    assert np.bincount(columns["b"], found.weights) == pytest.approx(np.bincount(columns["b"]))
    with pytest.raises(ParameterError, match="2 families"):
        r2b.reweigh(y, representation={"0": 0.5, "1": 0.5}, **asked)


@pytest.mark.parametrize(
    ("wanted", "fault"),
    [({"0": 1.0}, "lacks '1'"), ({"0": 0.5, "x": 0.5}, "names 'x'"), ({"0": 0.5, "1": 0.6}, "is")],
)
def test_a_representation_that_is_none(wanted, fault):
    y, columns, _ = drawn(3)
    with pytest.raises(ParameterError, match=fault):
        r2b.reweigh(y, sensitive_features={"b": columns["b"]}, representation=wanted)


def test_what_cannot_be_had_is_named_with_what_can():
    y = ["a", "b", "b", "b"] * 5 + ["b", "b"] * 10
    sex = ["f"] * 20 + ["m"] * 20
    with pytest.raises(InfeasibleError, match=r"'a'|'b'") as raised:
        r2b.reweigh(y, sensitive_features=sex, max_weight=1.1)
    facts = raised.value.facts
    assert facts["group"] in ("f", "m") and facts["class_name"] in ("a", "b")
    for option, value in (
        ("epsilon", facts["smallest_epsilon"]),
        ("max_weight", facts["smallest_max_weight"]),
    ):
        asked = {"max_weight": 1.1, option: value}
        found = r2b.reweigh(y, sensitive_features=sex, **asked)
        assert found.status.ok
    with pytest.raises(InfeasibleError):
        r2b.reweigh(
            y, sensitive_features=sex, max_weight=1.1, epsilon=0.9 * facts["smallest_epsilon"]
        )


def test_nothing_to_do():
    found = r2b.reweigh(["a", "b"] * 4, sensitive_features=["f", "f", "m", "m"] * 2)
    assert found.status is r2b.Status.ALREADY_FAIR and (found.weights == 1.0).all()


def test_new_rows_and_the_order_of_rows():
    y, columns, rng = drawn(8)
    found = r2b.reweigh(y, sensitive_features=columns, epsilon=0.02)
    again = found.transform(y, sensitive_features=columns)
    assert (again == found.weights).all()
    order = rng.permutation(len(y))
    moved = r2b.reweigh(
        y[order], sensitive_features={k: v[order] for k, v in columns.items()}, epsilon=0.02
    )
    assert moved.weights == pytest.approx(found.weights[order], abs=1e-9)
    with pytest.raises(UnseenError):
        found.transform([99], sensitive_features={"a": [0], "b": [0]})


def test_a_selection_is_balanced():
    y, columns, _ = drawn(2, largest=4000)
    found = r2b.reweigh(y, sensitive_features=columns["b"], max_weight=3.0)
    chosen = found.select(fraction=0.3, random_state=1)
    for group in (0, 1):
        for label in np.unique(y):
            here = (columns["b"] == group) & (y == label)
            assert abs(chosen[here].sum() - 0.3 * found.weights[here].sum()) <= 1.0
    assert (chosen == found.select(fraction=0.3, random_state=1)).all()
    assert (chosen != found.select(fraction=0.3, random_state=2)).any()
    with pytest.raises(ParameterError, match="fraction"):
        found.select(fraction=0.9)


def test_the_table_has_the_factor_of_every_class_and_group():
    y, columns, _ = drawn(4)
    found = r2b.reweigh(y, sensitive_features=columns["b"], epsilon=0.01)
    assert found.table[columns["b"], y] == pytest.approx(found.weights)
    rows = found.to_frame(backend="pandas")
    assert list(rows.columns) == ["group", "class", "before", "after", "weight"]
    assert len(found.to_frame("families")) == y.max() + 1
    size = found.weights.sum() ** 2 / (found.weights**2).sum()
    assert found.effective_sample_size == pytest.approx(size)


def test_weights_are_for_groups():
    with pytest.raises(ParameterError, match="continuous"):
        r2b.reweigh(["a", "b"] * 5, sensitive_features=r2b.Continuous(np.arange(10.0)))
    with pytest.raises(ParameterError, match="max_weight"):
        r2b.reweigh(["a", "b"], sensitive_features=["f", "m"], max_weight=0.5)
    with pytest.raises(ParameterError, match="lam"):
        r2b.reweigh(["a", "b"], sensitive_features=["f", "m"], lam=0.5)


def test_classes_that_cannot_be_kept_are_named():
    y = ["a", "b", "c"] * 10 + ["a", "b", "b"] * 10
    with pytest.warns(DataWarning, match=r"'c' get the weight 0: 'm' has none") as caught:
        found = r2b.reweigh(y, sensitive_features=["f"] * 30 + ["m"] * 30)
    assert caught[0].message.facts["group"] == "m"
    assert found.weights[2] == pytest.approx(0.0, abs=1e-8) and found.disparity <= 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        r2b.reweigh(y, sensitive_features=["f"] * 30 + ["m"] * 30, epsilon=0.1)


def test_reports_say_what_is_reached(tmp_path):
    y, columns, _ = drawn(3)
    found = r2b.reweigh(y, sensitive_features=columns, epsilon=0.02, max_weight=9)
    for ending in ("html", "md", "json"):
        found.report(tmp_path / f"weights.{ending}", date="2026-11-16")
    facts = json.loads((tmp_path / "weights.json").read_text())
    assert f"{found.disparity:.4f} after" in facts["title"]
    assert facts["numbers"]["proven"] == "yes" and facts["numbers"]["date"] == "2026-11-16"
    table = np.array([each[2] for each in facts["weights"]], float)
    assert np.allclose(table, found.table.ravel(), equal_nan=True)
    assert "<table>" in (tmp_path / "weights.html").read_text()
    assert (tmp_path / "weights.md").read_text().count("\n| ") > len(facts["weights"])
    merged = r2b.reweigh(y, sensitive_features=columns, outcomes={"low": [0]}, epsilon=0.02)
    shares = json.loads(merged.report().to_json())["shares"]
    assert {each[1] for each in shares} == {"low"}


def test_a_class_that_a_group_lacks_has_no_weight_in_the_report():
    y, sex = ["a", "a", "b", "b", "c", "a"] * 5, ["f", "f", "f", "m", "m", "m"] * 5
    found = r2b.reweigh(y, sensitive_features=sex, epsilon=0.9)
    assert np.isnan(found.table).any()
    weights = json.loads(found.report().to_json())["weights"]
    table = np.array([each[2] for each in weights], float)
    assert np.allclose(table, found.table.ravel(), equal_nan=True)
