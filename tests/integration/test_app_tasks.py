"""What the app does beside fair labels: decisions of scores, labels for a model, what a model does;
and how files are read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_server import PEOPLE, Served, running
from test_app import rows_of, verified

import r2b
from r2b import metrics
from r2b._files import Format, table_of
from r2b.metrics import (
    demographic_parity_difference,
)
from r2b.metrics.criteria import CRITERIA, disparity_by_chance

RNG = np.random.default_rng(4)
SEX = RNG.choice(["f", "m"], 240)
SCORES = RNG.dirichlet([1.0, 1.0, 1.0], 240) + np.outer(SEX == "m", [0.0, 0.0, 0.6])
SCORES /= SCORES.sum(axis=1, keepdims=True)
AGE = RNG.integers(20, 60, 240) + 8 * (SEX == "m")
TRUE = RNG.choice(["lo", "mid", "hi"], 240)
PREDICTED = np.where((SEX == "m") & (RNG.random(240) < 0.5), "hi", TRUE)
TABLE = {
    "sex": SEX,
    "lo": SCORES[:, 0],
    "mid": SCORES[:, 1],
    "hi": SCORES[:, 2],
    "age": AGE,
    "true": TRUE,
    "guess": PREDICTED,
}
TABLE = {name: values.tolist() for name, values in TABLE.items()} | {
    "city": RNG.choice(["a", "b"], 240).tolist()
}


@pytest.fixture(scope="module")
def app() -> Iterator[Served]:
    with running(max_upload=1) as served:
        yield served


@pytest.fixture(scope="module")
def page(app: Served) -> str:
    return app.open("scored.csv", table_of(TABLE, Format("csv")))


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_scores_leave_as_the_decisions_that_agree_most_with_them_and_verify(
    app: Served, page: str, tmp_path: Path, kind: str
) -> None:
    chosen = {
        "task": "decisions",
        "scores": ["lo", "mid", "hi"],
        "sensitive": ["sex"],
        "epsilon": 0.02,
        "kind": kind,
    }
    shown = app.post(f"{page}/made", chosen).json["html"]
    content = verified(app.post(f"{page}/file", chosen), tmp_path)
    fair = r2b.debias(SCORES, sensitive_features=SEX, objective="agreement", epsilon=0.02)
    wanted = np.array(["lo", "mid", "hi"])[fair.round(0)]
    if kind == "csv":
        assert [row["label_fair"] for row in rows_of(content)] == wanted.tolist()
        parity = demographic_parity_difference(wanted, sensitive_features=SEX)
        assert parity <= 0.02 + 2 / min((SEX == "f").sum(), (SEX == "m").sum())
    assert "Proven" in shown
    assert f"{100 * fair.certificate.disparity:.1f}" in shown
    assert "right most often" in shown
    plain = demographic_parity_difference(SCORES.argmax(axis=1), sensitive_features=SEX)
    assert (
        f"right in {100 * SCORES.max(axis=1).mean():.1f} % and differ by {100 * plain:.1f} points"
        in shown
    )


def test_labels_for_a_model_are_fair_by_the_groups_that_its_columns_show_and_verify(
    app: Served, page: str, tmp_path: Path
) -> None:
    pytest.importorskip("sklearn")
    chosen = {
        "task": "training",
        "label": "guess",
        "sensitive": ["sex"],
        "features": ["age", "city", "hi"],
        "epsilon": 0.01,
    }
    assert "Proven" in app.post(f"{page}/made", chosen).json["html"]
    rows = rows_of(verified(app.post(f"{page}/file", {**chosen, "form": "expand"}), tmp_path))
    seen = np.array([[float(row["seen_f"]), float(row["seen_m"])] for row in rows])
    weight = np.array([float(row["guess_fair_weight"]) for row in rows])
    assert np.allclose(seen.sum(axis=1), 1.0) and seen.std() > 0.1
    for label in ("lo", "mid", "hi"):
        given = np.array([row["guess_fair"] == label for row in rows]) * weight
        means = given @ seen / (weight @ seen)
        assert abs(means[0] - means[1]) <= 0.01 + 1e-6


def test_what_a_model_does_has_the_numbers_of_the_metrics(app: Served, page: str) -> None:
    chosen = {"task": "predictions", "label": "true", "prediction": "guess", "sensitive": ["sex"]}
    shown = app.post(f"{page}/made", chosen).json["html"]
    for name in CRITERIA:
        found = getattr(metrics, f"{name}_difference")(TRUE, PREDICTED, sensitive_features=SEX)
        chance = disparity_by_chance(name, TRUE, PREDICTED, sensitive_features=SEX)  # type: ignore[arg-type]
        assert f"<td>{100 * found:.1f}</td><td>{100 * chance:.1f}</td>" in shown, (
            name,
            found,
            chance,
        )
    assert f"{100 * (TRUE == PREDICTED).mean():.1f} % of the predictions are right" in shown


def test_a_report_on_the_model_can_be_taken(app: Served, page: str) -> None:
    chosen = {"task": "predictions", "label": "true", "prediction": "guess", "sensitive": ["sex"]}
    answer = app.post(f"{page}/file", {**chosen, "owner": "Data <team>"})
    text = answer.body.decode()
    assert "Model report" in text and "Accuracy by group" in text
    assert "Data &lt;team&gt;" in text and f"{100 * (TRUE == PREDICTED).mean():.1f}" in text


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"task": "decisions", "scores": ["lo"]}, "scores", "One column of probabilities"),
    ({"task": "decisions", "scores": []}, "scores", "No column of probabilities"),
    ({"task": "decisions", "scores": ["lo", "mid"]}, "general", "sums to"),
    (
        {"task": "decisions", "scores": ["lo", "mid", "hi"], "sensitive": []},
        "sensitive",
        "No sensitive",
    ),
    ({"task": "training", "label": "guess", "features": ["sex"]}, "features", "chosen twice"),
    ({"task": "training", "label": "guess"}, "features", "No column that the model sees"),
    ({"task": "predictions", "label": "true"}, "prediction", "No prediction"),
    (
        {"task": "predictions", "label": "true", "prediction": "sex", "sensitive": ["city"]},
        "general",
        "true classes",
    ),
    ({"task": "other"}, "task", "other"),
]


@pytest.mark.parametrize(("choices", "control", "words"), FAULTS)
def test_what_is_wrong_with_a_task_is_said_in_words_of_the_page(
    app: Served, page: str, choices: dict[str, Any], control: str, words: str
) -> None:
    answer = app.post(f"{page}/made", {"sensitive": ["sex"], "epsilon": 0.0, **choices})
    said = answer.json
    assert (
        answer.status == 400
        and words in said["problem"]
        and (said["control"] == control or control == "general")
    ), said
    assert not any(
        word in said["problem"] + said["remedy"]
        for word in ("--", "y_true", "y_pred", "normalize=", "sensitive_features")
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "Größe;sex\n1;f\n2;m\n".encode("cp1252"),
            "read as Windows (Western Europe), its fields separated by a semicolon",
        ),
        ("Größe\tsex\n1\tf\n".encode("utf-16"), "read as UTF-16, its fields separated by a tab"),
        (b"a;sex, now\n1;f\n2;m\n", "read as UTF-8, its fields separated by a semicolon"),
        (b"sex,a\nf,1\n", "read as UTF-8, its fields separated by a comma"),
    ],
)
def test_how_text_is_written_is_guessed_and_shown_with_the_first_rows(
    app: Served, content: bytes, words: str
) -> None:
    shown = app.get(f"{app.open('people.csv', content)}/page").body.decode()
    assert words in shown and "<td>f</td>" in shown


def test_a_wrong_guess_is_put_right_and_what_is_downloaded_keeps_the_encoding(
    app: Served, tmp_path: Path
) -> None:
    text = PEOPLE.decode().replace(",x,", ",é,").replace(",", ";")
    page = app.open("people.csv", text.encode("mac_roman"))
    chosen = {"label": "job", "sensitive": ["sex"], "epsilon": 0.02, "form": "round"}
    assert app.post(f"{page}/read", {"encoding": "mac_roman", "delimiter": ";"}).status == 204
    content = verified(app.post(f"{page}/labels", chosen), tmp_path)
    assert {line.rpartition(";")[2] for line in content.decode("mac_roman").splitlines()[1:]} == {
        "é",
        "y",
        "z",
    }
    assert "encoding='mac_roman', delimiter=';'" in app.post(f"{page}/code", chosen).body.decode()
    for encoding, words in (("utf-8", "is not utf-8"), ("idna", "The encoding is 'idna'")):
        answer = app.post(f"{page}/read", {"encoding": encoding})
        assert answer.status == 400 and words in answer.json["problem"]
    # the table is still the one that could be read
    assert app.post(f"{page}/labels", chosen).status == 200


def test_of_a_workbook_with_several_sheets_one_is_chosen(app: Served) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book, file = openpyxl.Workbook(), io.BytesIO()
    for name in ("one", "two"):
        sheet = book.create_sheet(name)
        for row in (["sex", name], ["f", 1], ["m", 2]):
            sheet.append(row)
    book.save(file)
    answer = app.post("/tables?name=book.xlsx", file.getvalue())
    assert answer.status == 400
    assert answer.json["sheets"] == ["one", "two"]
    assert answer.json["control"] == "file"
    assert answer.json["remedy"].startswith("Say which")
    opened = app.post("/tables?name=book.xlsx&sheet=two", file.getvalue())
    assert opened.status == 201
    assert b'<th scope="col">two</th>' in app.get(f"{opened.json['page']}/page").body
