"""What a report says to somebody who has never seen one: what was found, what to do next, in whole
sentences and in any script.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest

import r2b
from r2b.report import gather, to_html, to_markdown, views, words

FEW = {"n_permutations": 40, "n_boot": 20, "frontier_points": 4}
ARABIC = {"sex": "الجنس", "f": "امرأة", "m": "رجل", "yes": "مهندس", "no": "معلم (أول)"}


def facts_of(
    share: float, epsilon: float = 0.01, n: int = 400, spell: dict[str, str] | None = None
) -> dict[str, Any]:
    """Gather facts on two groups of the same size, of which the second has a larger share of one of
    two labels.
    """
    said = spell or {}
    sex = np.repeat([said.get("f", "f"), said.get("m", "m")], n)
    y = np.where(
        np.concatenate([np.arange(n) < n // 2, np.arange(n) < n * (0.5 + share)]),
        said.get("yes", "yes"),
        said.get("no", "no"),
    )
    who = {said.get("sex", "sex"): sex}
    return gather(
        y, sensitive_features=who, epsilon=epsilon, label_name=said.get("job", "job"), **FEW
    )


@pytest.mark.parametrize(
    ("share", "epsilon", "said"),
    [
        (0.3, 0.01, "First ask whether the difference has a reason that should count."),
        (0.3, 0.5, "ask for a smaller epsilon"),
        (0.01, 0.001, "give no reason to change them"),
        (0.0, 0.01, "Nothing has to be done for these groups."),
    ],
)
def test_the_report_says_what_to_do_next_for_each_verdict(
    share: float, epsilon: float, said: str
) -> None:
    facts = facts_of(share, epsilon)
    page = to_html(facts)
    assert said in words.what_next(facts)
    assert said in page.split("<main")[0] and page.count("What next.") == 1
    assert f"**What next.** {words.what_next(facts).split('.')[0]}" in to_markdown(facts)


def test_labels_in_parity_cost_nothing_and_say_so() -> None:
    page = to_html(facts_of(0.0))
    cost = page.split('id="cost-title"')[1].split("</section>")[0]
    assert "Nothing: the labels are in parity as they are" in cost
    assert "dashed line" not in cost
    assert "<table" not in cost
    assert "the proof leaves no gap." in page
    assert "dashed line" in to_html(facts_of(0.3))


def test_a_family_is_called_as_its_column_is() -> None:
    sentences = words.certificate(facts_of(0.3))
    assert sentences[0].startswith(
        "In sex, the largest difference between two groups would go from 30.0 to 1.0 points;"
    )


def opened(
    chromium: browser.Browser, facts: dict[str, Any], folder: Path, **window: Any
) -> browser.Page:
    path = folder / "report.html"
    path.write_text(to_html(facts), encoding="utf-8")
    return chromium.open(path.as_uri(), **window)


PLACES = """(() => {
  const node = document.querySelector('.eyebrow').firstChild, at = node.data.indexOf('800 rows');
  const place = (start, end) => {
    const range = document.createRange();
    range.setStart(node, start);
    range.setEnd(node, end);
    return range.getBoundingClientRect();
  };
  const name = node.data.indexOf('\\u2068', node.data.indexOf(' by '));
  const number = place(at, at + 3), rows = place(at + 4, at + 8);
  return [place(name + 1, name + 4).right, number.left, number.right, rows.left];
})()"""


def test_numbers_beside_names_from_right_to_left_stay_in_their_place(
    chromium: browser.Browser, tmp_path: Path
) -> None:
    page = opened(chromium, facts_of(0.3, spell=ARABIC), tmp_path)
    name, begin, end, rows = page.evaluate(PLACES)
    assert name <= begin < end <= rows
    right = "getBoundingClientRect().right"
    signs = (
        "[...document.querySelectorAll('svg.flow text')].map(each =>"
        f" [each.querySelector('tspan').{right}, each.{right}])"
    )
    places = page.evaluate(signs)
    assert places and all(abs(sign - whole) < 2 for sign, whole in places)
    assert page.axe() == []
    page.close()


def test_title_figures_and_line_are_of_one_family_and_one_level_of_chance() -> None:
    rng = np.random.default_rng(0)
    sex, race = rng.choice(["f", "m"], 3000), rng.choice(["a", "b", "c"], 3000)
    y = np.where(rng.random(3000) < 0.3 + 0.2 * (sex == "f") + 0.1 * (race == "a"), "yes", "no")
    fair = r2b.debias(
        y, sensitive_features={"sex": sex, "race": race}, families="both", epsilon=0.01
    )
    facts = fair.report(form="round", n_boot=0).facts
    found, proof = facts["headline"], facts["certificate"]
    (family,) = (each for each in facts["audit"]["families"] if each["name"] == found["family"])
    assert found["difference"] == pytest.approx(proof["disparity_before"]) == family["disparity"]
    assert found["chance"] == {"quantile": family["chance"]["quantile"], "of": "family"}
    assert found["after"] == facts["made"]["disparity"]
    before, after, *_ = words.answer(facts)
    said = words.number(100 * found["difference"])
    assert before["figure"] == said and said in words.title(facts)
    assert family["name"] in before["note"]
    assert after["figure"] == words.number(100 * found["after"])
    assert words.points(family["chance"]["quantile"]) in " ".join(words.summary(facts))


def test_no_proof_is_claimed_at_the_top_for_labels_that_were_not_made() -> None:
    y, sex = ["a", "b", "b", "a", "a", "a"] * 20, ["f", "f", "f", "m", "m", "m"] * 20
    facts = gather(y, sensitive_features={"sex": sex}, epsilon=0.1, frontier_points=0)
    assert [each["name"] for each in words.answer(facts)][0::3] == ["Found", "Possible"]
    assert "none were" in words.answer(facts)[-1]["note"]
    assert "## The certificate of labels that could be made" in to_markdown(facts)
    made = r2b.debias(y, sensitive_features={"sex": sex}, epsilon=0.1).report(form="round")
    assert words.answer(made.facts)[-1]["name"] == "Proof"
    assert "## The certificate\n" in made.to_markdown()


def test_differences_that_grew_are_listed() -> None:
    adult = r2b.datasets.load_adult()
    fair = r2b.debias(adult["education"], sensitive_features={"sex": adult["sex"]}, epsilon=0.04)
    report = fair.report(form="sample", n_boot=0, n_permutations=0)
    before = r2b.metrics.demographic_parity_difference_by_class(
        adult["education"], sensitive_features=adult["sex"]
    ).values
    after = r2b.metrics.demographic_parity_difference_by_class(
        fair.sample(), sensitive_features=adult["sex"]
    ).values
    listed = {row["class"]: row["after"] for row in views.grown(report.facts)["rows"]}
    grew = after > before + 0.0005
    assert 0 < len(listed) == grew.sum()
    assert listed == {
        name: pytest.approx(value)
        for name, value in zip(fair.classes[grew], after[grew], strict=True)
    }
    for page in (report.to_html(), report.to_markdown()):
        assert "Differences that grew" in page and f"In {len(listed)} of 16 pairs" in page
    fair = r2b.debias(["a", "b", "b", "a"], sensitive_features=["f", "f", "f", "m"], epsilon=0)
    none = fair.report(form="soft", n_boot=0, n_permutations=0)
    assert views.grown(none.facts)["rows"] == [] and "In none of 2 pairs" in none.to_markdown()
