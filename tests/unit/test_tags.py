"""Several tags per row: each against a quadratic programme, and what composes them."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import r2b
from r2b.errors import ParameterError
from r2b.metrics import (
    demographic_parity_difference,
    demographic_parity_difference_by_class,
    demographic_parity_ratio,
    equalized_odds_difference,
)
from tests.support.families_qp import Rule, Table, closest, indicators


def people(n=300, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    share = np.array([[0.1, 0.6, 0.3], [0.3, 0.4, 0.35], [0.2, 0.2, 0.3]])
    index = np.arange(n)[::-1]
    table = (rng.random((n, 3)) < share[group]).astype(int)
    tags = pd.DataFrame(table, columns=["cat", "dog", "bus"], index=index)
    return tags, pd.Series(np.array(["x", "y", "z"])[group], index=index, name="group")


def test_tags_without_names_go_by_number():
    tags, group = people()
    fair = r2b.debias(tags.to_numpy(), sensitive_features=group.to_numpy(), multilabel=True)
    assert fair[1].certificate == fair.labels[1].certificate
    with pytest.raises(ParameterError, match="tag is 3"):
        fair[3]


@pytest.mark.parametrize("seed", range(30))
def test_every_tag_is_the_optimum_of_its_quadratic_programme(seed):
    rng = np.random.default_rng(1000 + seed)
    n, n_tags, n_groups = (int(rng.integers(*each)) for each in ((10, 120), (1, 5), (2, 5)))
    group = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)])
    base = rng.uniform(0, 1, (n_groups, n_tags))
    Y = (rng.random((n, n_tags)) < base[group]).astype(float)
    if seed % 2:
        Y = np.clip(base[group] + rng.normal(0, 0.3, (n, n_tags)), 0, 1)
    weight = rng.uniform(0.1, 3, n) if seed % 3 else None
    bound = ("range", "ratio", "to_overall")[seed % 3]
    epsilon = float(rng.choice([0, 0.01, 0.05, 0.2]))
    fair = r2b.debias(
        Y,
        multilabel=True,
        sensitive_features=group,
        sample_weight=weight,
        epsilon=epsilon,
        bound=bound,
    )
    assert fair.certificate.holds
    soft = fair.soft_labels
    for k in range(n_tags):
        y = np.column_stack([1 - Y[:, k], Y[:, k]])
        rule = Rule(indicators(group), bound, np.array([np.inf, epsilon]))
        table = Table(y, np.ones(n) if weight is None else weight, [rule])
        wanted = closest(table)[0]
        got = table.value(np.column_stack([1 - soft[:, k], soft[:, k]]))
        assert got == pytest.approx(wanted, abs=1e-6)


def test_rounding_keeps_the_count_of_every_tag_and_group_within_one_row():
    tags, group = people()
    for Y in (tags, tags * 0.8 + 0.1):
        fair = r2b.debias(Y, multilabel=True, sensitive_features=group, epsilon=0.02)
        rounded = fair.round(random_state=3)
        assert set(np.unique(rounded)) <= {0, 1}
        for name in "xyz":
            rows = (group == name).to_numpy()
            apart = rounded[rows].sum(axis=0) - fair.soft_labels[rows].sum(axis=0)
            assert (np.abs(apart) < 1).all()


@pytest.mark.parametrize("target", [dict, lambda by_tag: np.array([*by_tag.values()])])
def test_epsilon_and_target_by_tag(target):
    tags, group = people()
    fair = r2b.debias(
        tags, multilabel=True, sensitive_features=group, epsilon={"cat": 0.01, ...: 0.1}
    )
    assert fair.epsilon == {"cat": 0.01, "dog": 0.1, "bus": 0.1}
    assert (fair.certificate.disparity_by_tag <= [0.01 + 1e-9, 0.1 + 1e-9, 0.1 + 1e-9]).all()
    aimed = r2b.debias(
        tags,
        multilabel=True,
        sensitive_features=group,
        bound="target",
        target=target({"cat": 0.2, "dog": 0.5, "bus": 0.3}),
    )
    assert aimed.to_frame().groupby("tag")["after"].mean().to_dict() == pytest.approx(
        {"cat": 0.2, "dog": 0.5, "bus": 0.3}
    )


def test_families_have_bounds_of_their_own_on_rows_with_a_tag():
    tags, group = people()
    half = np.resize(["left", "right", "right"], len(tags))
    fair = r2b.debias(
        tags,
        multilabel=True,
        sensitive_features={"group": group, "half": half},
        families=[
            r2b.Family("group", bound="ratio", epsilon=0.2),
            r2b.Family("half", epsilon={"dog": 0.01, ...: 0.5}),
        ],
    )
    assert fair.certificate.holds
    for name in tags:
        by_group, by_half = fair[name].certificate.families
        assert by_group.epsilon.tolist() == [np.inf, 0.2]  # the share without a tag is free
        assert by_half.epsilon[1] == (0.01 if name == "dog" else 0.5)


def test_frames_keep_names_and_row_labels():
    tags, group = people()
    fair = r2b.debias(tags, multilabel=True, sensitive_features=group)
    frame = fair.frame("round")
    assert frame.index.equals(tags.index) and list(frame) == list(tags)
    other = r2b.debias(
        pl.DataFrame(tags.to_dict("list")), multilabel=True, sensitive_features=list(group)
    )
    assert isinstance(other.frame(), pl.DataFrame)
    assert np.array_equal(other.soft_labels, fair.soft_labels)


def test_a_saved_file_holds_the_whole_rule(tmp_path):
    tags, group = people()
    fair = r2b.debias(tags, multilabel=True, sensitive_features=group, epsilon=0.05)
    fair.save(tmp_path / "tags.json")
    again = r2b.load(tmp_path / "tags.json")
    assert repr(again) == repr(fair) and np.array_equal(again.prices, fair.prices)
    for form in ("soft", "round", "sample"):
        new = again.transform(tags, sensitive_features=group, form=form, random_state=5)
        old = fair.soft_labels if form == "soft" else getattr(fair, form)(5)
        assert np.array_equal(new, old)
    content = json.loads((tmp_path / "tags.json").read_text())
    for damage in ({"names": ["cat"]}, {"names": ["a", "a", "b"]}, {"tags": 3}, {"version": 7}):
        (tmp_path / "bad.json").write_text(json.dumps(content | damage))
        with pytest.raises(r2b.errors.FileFormatError):
            r2b.load(tmp_path / "bad.json")
    with pytest.raises(r2b.errors.UnseenError):
        again.transform(tags[["dog", "cat", "bus"]], sensitive_features=group)


@pytest.mark.parametrize(
    ("Y", "error", "words"),
    [
        ([0, 1, 1, 0], "ShapeError", "one column"),
        ({"a": [0, 1, None, 0], "b": [1, 0, 1, 1]}, "InputError", "row 2"),
        ({"a": [0, 1, 2, 0], "b": [1, 0, 1, 1]}, "ProbabilityError", "2.0 for the tag 'a'"),
        ({"a": [0, 1, -0.5, 0], "b": [1, 0, 1, 1]}, "ProbabilityError", "-0.5"),
        ({"a": ["x", "y", "x", "y"], "b": [1, 0, 1, 1]}, "InputError", "not a number"),
    ],
)
def test_what_is_no_table_of_tags_is_refused(Y, error, words):
    for call in (r2b.debias, r2b.audit, r2b.frontier, demographic_parity_difference):
        with pytest.raises(getattr(r2b.errors, error), match=words):
            call(Y, multilabel=True, sensitive_features=["f", "f", "m", "m"])


def test_a_tag_that_no_row_has_is_named_and_stays():
    tags, group = people()
    with pytest.warns(r2b.errors.DataWarning, match="'never'"):
        fair = r2b.debias(tags.assign(never=0), multilabel=True, sensitive_features=group)
    assert not fair.soft_labels[:, 3].any() and fair.status.ok


def test_measures_audit_and_frontier_agree_with_the_certificate():
    tags, group = people()
    fair = r2b.debias(tags, multilabel=True, sensitive_features=group)
    proof, rows = fair.certificate, {"sensitive_features": group, "multilabel": True}
    assert demographic_parity_difference(tags, **rows) == pytest.approx(proof.disparity_before)
    assert demographic_parity_difference(fair.frame(), **rows) < 1e-9
    shares = tags.groupby(group.to_numpy()).mean()
    assert demographic_parity_ratio(tags, **rows) == pytest.approx(
        (shares.min() / shares.max()).min()
    )
    by_tag = demographic_parity_difference_by_class(tags, **rows).as_dict()
    assert by_tag == pytest.approx((shares.max() - shares.min()).to_dict())
    with pytest.raises(r2b.errors.ParameterError):
        equalized_odds_difference(tags, tags, **rows)
    found = r2b.audit(tags, sensitive_features=group, multilabel=True)
    assert found.largest.value == pytest.approx(proof.disparity_before)
    assert found.largest.class_name == "dog" and found.worst is not None
    path = r2b.frontier(tags, multilabel=True, sensitive_features=group, epsilons=5)
    assert path.epsilon[-1] == pytest.approx(proof.disparity_before)
    assert path[0].distance == pytest.approx(proof.distance) and path[-1].distance == 0
    assert (np.diff(path.distance) <= 1e-12).all()
    soft = fair.soft_labels - tags.to_numpy()
    assert proof.distance == pytest.approx((soft**2).sum(axis=1).mean())
    assert proof.expected_changes == pytest.approx(np.abs(soft).sum(axis=1).mean())


def test_chance_of_an_audit_is_that_of_all_tags_together():
    rng, beyond = np.random.default_rng(0), 0
    for seed in range(40):
        Y, group = rng.random((200, 20)) < 0.3, rng.integers(0, 3, 200)
        found = r2b.audit(Y, multilabel=True, sensitive_features=group, n_boot=0, random_state=seed)
        beyond += found.families[0].chance.p_value <= 0.05
    assert beyond <= 6


def test_reports_and_pictures(tmp_path):
    tags, group = people()
    fair = r2b.debias(tags, multilabel=True, sensitive_features=group)
    for ending in ("html", "md", "json"):
        fair.report(tmp_path / f"tags.{ending}", form="round", date="2026-11-16")
    facts = json.loads((tmp_path / "tags.json").read_text())
    assert list(facts["tags"]) == ["cat", "dog", "bus"] and len(facts["table"]) == 3
    assert "| dog |" in (tmp_path / "tags.md").read_text()
    assert (tmp_path / "tags.html").read_text().count("<iframe") == 3
    assert len(fair.plot().get_yticklabels()) == 3
