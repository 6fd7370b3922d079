"""What is printed and verified is about the labels in the file; a campaign of random edits."""

from __future__ import annotations

from pathlib import Path

import edit_campaign
import numpy as np
import pyarrow.csv
import pytest
from cli_calls import Shell, read_columns

import r2b

ASK = ("--label", "job", "--sensitive", "sex", "--epsilon", "0.05")
SOFT = ("--label-columns", "p_a,p_b", "--sensitive", "sex", "--epsilon", "0.01")
FORMS = ["soft", "round", "sample", "expand"]


@pytest.fixture
def shell(shell: Shell) -> Shell:
    rng = np.random.default_rng(0)
    share = np.round(rng.beta(2, 2, 160), 6)
    sex = np.where(rng.random(160) < 0.3 + 0.4 * share, "f", "m")
    weight = rng.integers(1, 9, 160)
    lines = [
        "sex,p_a,p_b,w",
        *(f"{s},{p!r},{1 - p!r},{w}" for s, p, w in zip(sex, share.tolist(), weight, strict=True)),
    ]
    shell.write("scores.csv", "\n".join(lines) + "\n")
    return shell


def parity_of(path: str, label: str, weight: str | None = None) -> float:
    """Measure labels in a file by arithmetic of our own."""
    written = read_columns(path)
    columns = {
        name: np.array(written[name]) for name in (label, "sex", *([weight] if weight else []))
    }
    mass = np.ones(len(columns["sex"])) if weight is None else columns[weight].astype(float)
    means = [
        [
            np.average(
                columns[label][columns["sex"] == group] == each,
                weights=mass[columns["sex"] == group],
            )
            for group in ("f", "m")
        ]
        for each in set(columns[label])
    ]
    return float(np.abs(np.diff(means, axis=1)).max())


@pytest.mark.parametrize("form", ["round", "sample"])
@pytest.mark.parametrize("kind", ["classes", "weights", "probabilities", "weighted probabilities"])
def test_what_is_printed_is_the_parity_of_the_labels_in_the_file(
    shell: Shell, form: str, kind: str
) -> None:
    soft, weighted = "probabilities" in kind, "weight" in kind
    data, ask, label = (
        ("scores.csv", SOFT, "label_fair") if soft else ("people.csv", ASK, "job_fair")
    )
    weight = "w" if weighted else None
    ask = (*ask, "--weight", weight) if weight else ask
    done = shell("debias", data, *ask, "--form", form, "-o", "fair.csv", "--json")
    wanted = parity_of("fair.csv", label, weight)
    assert done.code == 0 and done.facts["disparity"] == pytest.approx(wanted, abs=1e-12)
    assert done.facts["realised"]["families"][0]["measure"] == pytest.approx(
        done.facts["realised"]["disparity_by_class"], abs=1e-12
    )
    assert done.facts["probabilities"]["disparity"] <= (0.01 if soft else 0.05) + 1e-9
    seen = shell("verify fair.csv --json")
    assert seen.code == 0 and seen.facts["disparity"]["file"] == pytest.approx(wanted, abs=1e-12)
    assert f"{wanted:.4f} in the file" in shell("verify fair.csv").out
    said = shell("debias", data, *ask, "--form", form, "-o", "fair.csv", "--force").out
    assert f"-> {wanted:.4f} in these labels" in said
    if wanted > (0.01 if soft else 0.05):
        assert "above the bound" in said


@pytest.mark.parametrize("form", ["round", "sample"])
@pytest.mark.parametrize("kind", ["classes", "weights", "probabilities", "weighted probabilities"])
@pytest.mark.parametrize("key", [(), ("--key", "id")])
def test_the_command_writes_the_labels_that_memory_gives(
    shell: Shell, form: str, kind: str, key: tuple[str, ...]
) -> None:
    soft, weighted = "probabilities" in kind, "weight" in kind
    data, ask = ("scores.csv", SOFT) if soft else ("people.csv", ASK)
    lines = Path(data).read_text().splitlines()
    shell.write(
        data,
        "\n".join([f"id,{lines[0]}", *(f"{7 * i},{line}" for i, line in enumerate(lines[1:]))])
        + "\n",
    )
    ask = (*ask, "--weight", "w") if weighted else ask
    assert shell("debias", data, *ask, *key, "--form", form, "-o", "out.csv", "-q").code == 0
    table = pyarrow.csv.read_csv("out.csv")
    y = (
        {name: table[name] for name in table.column_names if name.startswith("p_")}
        if soft
        else table["job"]
    )
    own = {"sample_weight": table["w"]} if weighted else {}
    fair = r2b.debias(
        y, sensitive_features={"sex": table["sex"]}, epsilon=0.01 if soft else 0.05, **own
    )
    wanted = getattr(fair, form)(0, key=table["id"] if key else None)
    assert (
        list(map(str, np.asarray(wanted)))
        == table["label_fair" if soft else "job_fair"].to_pylist()
    )


def test_a_weighted_rounding_that_misses_the_bound_says_so_with_what_is_promised(
    shell: Shell,
) -> None:
    done = shell("debias scores.csv --weight w --form round -o fair.csv --random-state 1", *SOFT)
    found = parity_of("fair.csv", "label_fair", "w")
    assert found > 0.01 and f"{found:.4f} in these labels" in done.out
    promised = float(done.out.split("parity up to ")[1].split(" ")[0])
    assert found <= promised


def test_the_reports_state_the_parity_of_the_labels_in_the_file(shell: Shell) -> None:
    words = ("--form", "sample", "-o", "fair.csv", "-q", "--html", "r.html", "--markdown", "r.md")
    assert shell("debias", "people.csv", *ASK, *words).code == 0
    found = parity_of("fair.csv", "job_fair")
    for name in ("r.html", "r.md"):
        text = Path(name).read_text().replace("\\", "")
        assert f"{found:.4f}" in text


PAIRS = [(name, form) for name, (_, forms, _) in edit_campaign.CASES.items() for form in forms]


@pytest.mark.parametrize(("name", "form"), PAIRS)
def test_random_edits_are_caught(tmp_path: Path, name: str, form: str) -> None:
    """``python tests/support/edit_campaign.py 3000`` makes more of them."""
    seen = edit_campaign.campaign(tmp_path, name, form, edits=20)
    assert seen["edits"] == 20 and seen["rejected"] > seen["accepted"]
