"""Labels leave under families as they do under one: every form, new rows, files and words."""

from __future__ import annotations

import json

import numpy as np
import pytest
from families_qp import people

import r2b
from r2b.datasets import load_adult
from r2b.errors import RowsUnavailableError, ShapeError, UnseenError

CASES = {
    "crossed": {"families": "crossed"},
    "marginal": {"families": "marginal"},
    "both, to overall": {"families": "both", "bound": "to_overall"},
    "list": {
        "families": [
            "race",
            r2b.Family(["sex", "race"], bound="ratio", epsilon=[0.3, 0.3, np.inf]),
        ]
    },
    "control": {"families": "marginal", "control": True},
    "target": {"families": "both", "bound": "target", "target": "population"},
    "costs": {"families": "marginal", "costs": [[0, 1, 2], [1, 0, 1], [3, 1, 0]]},
    "agreement": {"families": "both", "objective": "agreement"},
    "merged": {"families": "marginal", "min_group_size": 3, "small_groups": "merge"},
}


def fitted(name, *, soft=False, weights=False, epsilon=0.05):
    who = people(21, soft=soft, decades=1.0 if weights else 0.0, classes=3)
    more = dict(CASES[name])
    control = {"control_features": {"job": who.job}} if more.pop("control", False) else {}
    fair = r2b.debias(
        who.given,
        sensitive_features=who.sensitive,
        sample_weight=who.weight,
        epsilon=epsilon,
        **control,
        **more,
    )
    return who, control, fair


@pytest.mark.parametrize("name", CASES)
def test_every_form_has_the_certified_means(name):
    who, _, fair = fitted(name)
    x = fair.soft_labels
    np.testing.assert_allclose(x.sum(axis=1), 1.0, atol=1e-12)
    assert fair.soft(np.float32).dtype == np.float32
    rows, labels, weight = fair.expand()
    back = np.zeros_like(x)
    np.add.at(back, (rows, np.searchsorted(fair.classes, labels)), weight)
    np.testing.assert_allclose(back, x, atol=1e-12)
    for drawn in (fair.sample(random_state=1), fair.round(random_state=1)):
        assert set(drawn) <= set(who.given) and len(drawn) == len(who.given)
        codes = np.searchsorted(fair.classes, drawn)
        assert (x[np.arange(len(x)), codes] > 0).all()
    assert fair.round(random_state=4).tolist() == fair.round(random_state=4).tolist()


@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("soft", [False, True], ids=["class", "soft"])
@pytest.mark.parametrize("name", CASES)
def test_a_file_gives_back_the_same_labels(tmp_path, name, soft, weights):
    who, control, fair = fitted(name, soft=soft, weights=weights)
    path = tmp_path / "fair.json"
    fair.save(path)
    json.loads(
        path.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not strict JSON")
    )
    again = r2b.load(path)
    new = again.transform(who.given, sensitive_features=who.sensitive, **control)
    np.testing.assert_array_equal(new, fair.soft_labels)
    np.testing.assert_array_equal(again.groups, fair.groups)
    np.testing.assert_array_equal(again.channel, fair.channel)
    np.testing.assert_array_equal(again.certificate.means, fair.certificate.means)
    assert [family.bound for family in again.certificate.families] == [
        family.bound for family in fair.certificate.families
    ]
    assert again.families.absent == fair.families.absent
    assert again.families.left_out == fair.families.left_out
    assert repr(again) == repr(fair)
    assert str(again).splitlines()[1:6] == str(fair).splitlines()[1:6]
    with pytest.raises(RowsUnavailableError):
        again.round()


PEOPLE = {"sex": ["f", "f", "m", "m", "m"], "race": ["p", "q", "p", "p", "p"]}
LABELS = ["a", "b", "b", "a", "a"]


def test_a_crossing_not_seen_is_fine_for_margins_and_refused_for_crossings():
    new = {"sex": ["m"], "race": ["q"]}
    marginal = r2b.debias(LABELS, sensitive_features=PEOPLE, families="marginal")
    out = marginal.transform(["a"], sensitive_features=new)
    price = dict(zip(marginal.groups, marginal.prices, strict=True))
    shifted = np.array([1.0, 0.0]) - price["sex=m"] - price["race=q"]
    top = np.clip((shifted[0] - shifted[1] + 1) / 2, 0, 1)
    np.testing.assert_allclose(out, [[top, 1 - top]], atol=1e-12)
    for families in ("crossed", "both"):
        fair = r2b.debias(LABELS, sensitive_features=PEOPLE, families=families)
        with pytest.raises(UnseenError, match="sex=m, race=q") as caught:
            fair.transform(["a", "a"], sensitive_features={"sex": ["f", "m"], "race": ["q", "q"]})
        assert caught.value.facts["row"] == 1 and caught.value.facts["count"] == 1


def test_control_features_of_new_rows_are_asked_for_and_their_strata_known():
    who, control, fair = fitted("control")
    with pytest.raises(ShapeError, match="job"):
        fair.transform(who.given, sensitive_features=who.sensitive)
    with pytest.raises(UnseenError, match="'w'"):
        fair.transform(
            who.given[:1],
            sensitive_features={k: v[:1] for k, v in who.sensitive.items()},
            control_features={"job": ["w"]},
        )
    _, _, plain = fitted("marginal")
    with pytest.raises(ShapeError, match="control_features"):
        plain.transform(who.given, sensitive_features=who.sensitive, **control)


def test_a_stratum_with_nothing_to_compare_keeps_its_labels_for_new_rows_too(tmp_path):
    sex, job, y = list("ffmmff"), list("uuuuvv"), list("abbbab")
    fair = r2b.debias(y, sensitive_features={"sex": sex}, control_features={"job": job})
    np.testing.assert_array_equal(fair.soft_labels[4:], [[1, 0], [0, 1]])
    assert [(each.family, each.stratum, each.group) for each in fair.families.absent] == [
        ("sex", "job=v", "sex=m")
    ]
    assert fair.families.left_out == pytest.approx(2 / 6)
    fair.save(tmp_path / "fair.json")
    again = r2b.load(tmp_path / "fair.json")
    for each in (fair, again):
        np.testing.assert_array_equal(
            each.transform(
                ["a"], sensitive_features={"sex": ["f"]}, control_features={"job": ["v"]}
            ),
            [[1, 0]],
        )
    assert again.families.absent == fair.families.absent


def rounding_error(fair, columns, seed=0):
    """Largest distance of a class count of a margin from its fair value, in rows."""
    x, codes = fair.soft_labels, np.searchsorted(fair.classes, fair.round(random_state=seed))
    picked = np.eye(len(fair.classes))[codes]
    return max(
        float(np.abs((picked - x)[column == each].sum(axis=0)).max())
        for column in columns
        for each in np.unique(column)
    )


def test_rounding_keeps_every_cell_to_a_row_and_every_margin_to_a_row_per_cell():
    adult = load_adult()
    sex, race = adult["sex"], adult["race"]
    fair = r2b.debias(
        adult["education"], sensitive_features={"sex": sex, "race": race}, families="both"
    )
    cell = np.char.add(sex, race)
    assert rounding_error(fair, [cell]) < 1.0 + 1e-6
    # cells that a margin has
    assert rounding_error(fair, [sex]) < 5.0 and rounding_error(fair, [race]) < 2.0 + 1e-6
