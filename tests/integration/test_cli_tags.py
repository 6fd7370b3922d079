"""Several tags per row on the command line: written, certified, verified, audited and traced."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_calls import Shell

import r2b
from r2b.metrics import demographic_parity_difference

NAMES = ["cat", "dog", "bus"]
TAGS = ("--labels", "cat,dog", "--labels", "bus", "--multilabel", "--sensitive", "sex")


def table(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], n)
    share = np.where((sex == "f")[:, None], [0.3, 0.1, 0.5], [0.5, 0.3, 0.45])
    tags = pd.DataFrame((rng.random((n, 3)) < share).astype(int), columns=NAMES)
    return tags.assign(id=[f"r{k}" for k in range(n)], sex=sex)


@pytest.fixture
def shell(shell: Shell) -> Shell:
    table().to_csv("tags.csv", index=False)
    table().to_parquet("tags.parquet")
    return shell


@pytest.mark.parametrize("form", ["soft", "round", "sample"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tags_leave_as_in_python_and_are_verified(shell: Shell, form: str, kind: str) -> None:
    asked = ("--epsilon", "0.01", "--epsilon", "cat=0.05")
    words = ("--form", form, "-o", f"fair.{kind}", "--json")
    done = shell(f"debias tags.{kind}", *TAGS, *asked, *words)
    assert done.code == 0 and done.facts["columns"] == [f"{name}_fair" for name in NAMES]
    assert list(done.facts["tags"]) == NAMES and done.facts["disparity_before"] > 0.1
    rows = table()
    epsilon = {"cat": 0.05, ...: 0.01}
    fair = r2b.debias(rows[NAMES], multilabel=True, sensitive_features=rows["sex"], epsilon=epsilon)
    wanted = fair.soft_labels if form == "soft" else getattr(fair, form)(0)
    written = pd.read_csv("fair.csv") if kind == "csv" else pd.read_parquet("fair.parquet")
    assert list(written) == [*rows, *done.facts["columns"]]
    found = written[done.facts["columns"]].to_numpy()
    assert (
        np.array_equal(found, wanted) if form != "soft" else np.allclose(found, wanted, atol=1e-9)
    )
    again = shell(f"verify fair.{kind} --json --label cat,dog,bus --sensitive sex", *asked)
    assert again.code == 0 and again.facts["verified"]
    assert again.facts["tags"]["cat"]["disparity"]["probabilities"] == pytest.approx(0.05)
    assert r2b.load(f"fair.{kind}.r2b.json").names.tolist() == NAMES
    assert shell(f"verify fair.{kind}").out.count("  ok  ") == 3


@pytest.mark.parametrize("form", ["round", "sample"])
def test_the_summary_states_the_disparity_of_the_tags_in_the_file(shell: Shell, form: str) -> None:
    words = ("--form", form, "--epsilon", "0.01", "--force", "-o", "fair.csv")
    facts = shell("debias tags.csv", *TAGS, *words, "--json").facts
    said = shell("debias tags.csv", *TAGS, *words).out
    assert f"-> {facts['disparity']:.4f} in these labels, one class per row ({form})" in said
    assert "0.0100 as probabilities" in said and "above the bound of" in said
    line = next(each for each in said.splitlines() if each.startswith("  dog "))
    own = facts["tags"]["dog"]
    numbers = [own["disparity_before"], own["disparity"], own["probabilities"]["disparity"]]
    assert line.split()[1:] == [*(f"{each:.4f}" for each in numbers), "0.01"]


def test_the_bound_of_a_tag_is_what_is_compared_with_the_one_required(shell: Shell) -> None:
    assert shell("debias tags.csv", *TAGS, "--epsilon", "0.01", "-o", "fair.csv").code == 0
    done = shell("verify fair.csv --epsilon 0.001")
    assert done.code == 1 and done.out.count("epsilon as required: at most 0.01") == 3


def test_an_edited_tag_fails(shell: Shell) -> None:
    assert shell("debias tags.csv --form round -o fair.csv -q", *TAGS).code == 0
    written = pd.read_csv("fair.csv")
    written.loc[5, "dog_fair"] = 1 - written.loc[5, "dog_fair"]
    written.to_csv("fair.csv", index=False)
    done = shell("verify fair.csv --json")
    assert done.code == 1 and not done.facts["verified"]
    wrong = [each["name"] for each in done.facts["tags"]["dog"]["checks"] if not each["ok"]]
    assert "labels are those that were written" in wrong
    assert "FAIL  dog" in shell("verify fair.csv").out
    assert shell("debias tags.csv --form round -o fair.csv -q --force", *TAGS).code == 0
    assert (
        shell("verify fair.csv --strict --form round --columns cat_fair,dog_fair,bus_fair").code
        == 0
    )
    assert shell("verify fair.csv --label cat").code == 1
    assert shell("verify fair.csv --form soft").code == 1
    content = json.loads(Path("fair.csv.r2b.json").read_text())
    content["tags"][0]["prices"][0][0] += 0.1
    Path("fair.csv.r2b.json").write_text(json.dumps(content))
    assert not shell("verify fair.csv --json").facts["tags"]["cat"]["verified"]


def test_report_key_and_names(shell: Shell) -> None:
    words = "--form round --key id --new-column new --html r.html --markdown r.md -o fair.csv -q"
    assert shell(f"debias tags.csv {words}", *TAGS).code == 0
    written = pd.read_csv("fair.csv")
    assert list(written)[-3:] == ["new_cat", "new_dog", "new_bus"]
    assert Path("r.html").read_text().count("<iframe") == 3
    assert "| dog |" in Path("r.md").read_text()
    pd.read_csv("tags.csv").iloc[::-1].to_csv("tags.csv", index=False)
    assert shell("debias tags.csv --form round --key id -o back.csv -q", *TAGS).code == 0
    back = pd.read_csv("back.csv").set_index("id").loc[written["id"], "cat_fair"]
    assert back.tolist() == written["new_cat"].tolist()


def test_audit_and_frontier_of_tags(shell: Shell) -> None:
    rows = table()
    before = demographic_parity_difference(
        rows[NAMES], multilabel=True, sensitive_features=rows["sex"]
    )
    done = shell("audit tags.csv --json --bootstrap 0 --permutations 0", *TAGS)
    assert done.facts["families"][0]["disparity"] == pytest.approx(before)
    points = shell("frontier tags.csv --json --points 3", *TAGS).facts["points"]
    assert points[0]["disparity"] < 1e-9 and points[-1]["epsilon"] == pytest.approx(before)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--labels cat,sex --multilabel --sensitive id", 3, "'sex' has the value 'f'"),
        ("--labels cat --sensitive sex", 2, "--multilabel"),
        ("--multilabel --label cat --sensitive sex", 2, "--labels"),
        ("--labels cat,cow --multilabel --sensitive sex", 2, "cow"),
        ("--labels cat,dog --multilabel --sensitive sex --form expand", 2, "--form round"),
        ("--labels cat,dog --multilabel --sensitive sex --epsilon cow=0", 2, "'cow'"),
    ],
)
def test_what_is_no_table_of_tags_is_refused(
    shell: Shell, words: str, code: int, said: str
) -> None:
    done = shell(f"debias tags.csv -o fair.csv {words}")
    assert done.code == code and said in done.err
    assert not Path("fair.csv").exists()


def test_options_without_effect_on_tags_are_refused(shell: Shell) -> None:
    assert shell("debias tags.csv -o fair.csv -q", *TAGS).code == 0
    for words in (
        ("audit", "tags.csv", *TAGS, "--outcomes", "any=1"),
        ("debias", "tags.csv", *TAGS, "-o", "other.csv", "--outcomes", "any=1"),
        ("frontier", "tags.csv", *TAGS, "--costs", "ordinal=0,1"),
        ("verify", "fair.csv", "--outcomes", "any=1"),
    ):
        done = shell(*words)
        assert done.code == 2 and "has no effect" in done.err, done.err
