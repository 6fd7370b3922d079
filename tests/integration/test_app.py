"""What the app answers: the numbers of r2b itself, in every form, each table on its own."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_server import PEOPLE, Answer, Served, running

import r2b
from r2b import metrics
from r2b.app import pages
from r2b.app.choices import Choice
from r2b.app.files import read_upload
from r2b.app.tables import Store
from r2b.cli import main
from r2b.errors import InputError

CHOSEN = {"label": "job", "sensitive": ["sex"], "epsilon": 0.02}


@pytest.fixture(scope="module")
def app() -> Iterator[Served]:
    with running(max_upload=5) as served:
        yield served


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def unpacked(answer: Answer) -> dict[str, bytes]:
    """Return the files of a download: the table, then its certificate."""
    assert answer.status == 200 and answer.headers["content-type"] == "application/zip", answer.body
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    table, certificate = found
    assert certificate == f"{table}.r2b.json"
    return found


def table_in(answer: Answer) -> bytes:
    return next(iter(unpacked(answer).values()))


def verified(answer: Answer, folder: Path) -> bytes:
    """Return the table of a download after the command that people type has checked it."""
    for name, content in unpacked(answer).items():
        (folder / name).write_bytes(content)
    table = next(iter(unpacked(answer)))
    assert main(["verify", str(folder / table), "-q"]) == 0
    return (folder / table).read_bytes()


def column(name: str, content: bytes = PEOPLE) -> list[str]:
    return [row[name] for row in rows_of(content)]


@pytest.mark.parametrize("bound", ["range", "to_overall", "ratio", "target"])
@pytest.mark.parametrize("families", ["crossed", "marginal", "both"])
def test_an_answer_has_the_numbers_of_debias(app: Served, bound: str, families: str) -> None:
    page = app.open()
    chosen = {
        **CHOSEN,
        "sensitive": ["sex", "race"],
        "bound": bound,
        "families": families,
        "weight": "w",
    }
    answer = app.post(f"{page}/solve", chosen).json
    fair = r2b.debias(
        column("job"),
        sensitive_features={"sex": column("sex"), "race": column("race")},
        sample_weight=[float(w) for w in column("w")],
        epsilon=0.02,
        bound=bound,  # type: ignore[arg-type]
        families=families,  # type: ignore[arg-type]
        target="population" if bound == "target" else None,
    )
    assert answer["proven"] is fair.status.ok is True
    for name in ("disparity_before", "disparity", "distance", "expected_changes"):
        assert answer[name] == pytest.approx(getattr(fair.certificate, name), abs=1e-8)


@pytest.mark.parametrize("form", ["round", "sample"])
def test_the_page_and_the_report_state_the_parity_of_the_labels_that_are_downloaded(
    app: Served, form: str
) -> None:
    page, chosen = app.open(), {**CHOSEN, "form": form}
    rows = rows_of(table_in(app.post(f"{page}/labels", {**chosen, "kind": "csv"})))
    found = metrics.demographic_parity_difference(
        [row["job_fair"] for row in rows], sensitive_features=[row["sex"] for row in rows]
    )
    answer = app.post(f"{page}/solve", chosen).json
    assert answer["realised"] == pytest.approx(found, abs=1e-9)
    assert f"({form}) and a disparity of {found:.4f}" in answer["leaving"]
    assert f"{found:.6f} in the labels returned" in app.post(f"{page}/report", chosen).body.decode()
    assert (
        "certificate proves"
        in app.post(f"{page}/solve", {**CHOSEN, "form": "soft"}).json["leaving"]
    )


def test_labels_that_are_not_proven_optimal_are_shown_as_such(app: Served) -> None:
    workspace = app.app.store.get(app.open().rpartition("/")[2])
    choice = Choice.of(CHOSEN, workspace.table)
    task = workspace.task(choice)
    object.__setattr__(task, "settings", replace(task.settings, max_iter=0))
    assert not workspace.solve(choice).status.ok
    shown = pages.answer(workspace, choice)
    assert shown["proven"] is False
    assert "Not proven" in shown["html"]["verdict"]
    assert "not proven optimal" in shown["summary"]
    assert "Raise max_iter" in shown["html"]["proof"]


def test_moves_there_and_back_end_where_they_began(app: Served) -> None:
    page = app.open()
    app.post(f"{page}/frontier", CHOSEN)
    seen: dict[float, float] = {}
    for epsilon in [0.02, 0.021, 0.0, 0.019, 0.5, 0.0205, 0.02, 0.001, 0.0, 0.02]:
        answer = app.post(f"{page}/solve", {**CHOSEN, "epsilon": epsilon}).json
        assert answer["proven"] and answer["disparity"] <= max(epsilon, 0) + 1e-9
        assert answer["distance"] == pytest.approx(
            seen.setdefault(epsilon, answer["distance"]), abs=1e-9
        )


def test_the_frontier_goes_from_none_to_where_the_labels_are_fair_and_marks_the_choice(
    app: Served,
) -> None:
    page = app.open()
    before = app.post(f"{page}/solve", CHOSEN).json
    drawn = app.post(f"{page}/frontier", CHOSEN).json
    assert before["html"]["cost"] == ""
    assert "<svg" in drawn["html"]["cost"]
    assert 'class="found"' in drawn["html"]["cost"]
    assert drawn["top"] == pytest.approx(
        metrics.demographic_parity_difference(column("job"), sensitive_features=column("sex"))
    )
    moved = app.post(f"{page}/solve", {**CHOSEN, "epsilon": 0.01}).json
    assert "<svg" in moved["html"]["cost"] and moved["html"]["cost"] != drawn["html"]["cost"]


def test_the_channel_shown_is_that_of_the_cell_asked_for(app: Served) -> None:
    answer = app.post(f"{app.open()}/solve", {**CHOSEN, "cell": "m"}).json
    fair = r2b.debias(column("job"), sensitive_features={"sex": column("sex")}, epsilon=0.02)
    place = [str(name) for name in fair.cells].index("m")
    assert answer["cells"] == [str(name) for name in fair.cells] and answer["cell"] == "m"
    shown = answer["html"]["channel"]
    for old in range(len(fair.classes)):
        for share in fair.channel[place, old]:
            if 0.0005 <= share < 0.9995:
                assert f">{100 * share:.1f}</td>" in shown


def test_the_audit_says_how_far_apart_groups_are_and_what_chance_shows(app: Served) -> None:
    found = app.post(f"{app.open()}/audit", {**CHOSEN, "sensitive": ["sex", "race"]}).json
    assert found["title"].startswith("Labels differ between groups by up to")
    assert "by chance" in found["found"]
    assert "sex x race" in found["audit"] and "<table" in found["audit"]


def test_the_table_left_alone_longest_makes_room_and_says_so() -> None:
    with running() as app:
        kept = [app.open() for _ in range(app.app.store.most)]
        app.post(f"{kept[0]}/solve", CHOSEN)
        app.open()
        assert len(app.app.store) == app.app.store.most
        gone = app.post(f"{kept[1]}/solve", CHOSEN)
        assert gone.status == 410 and "Open the file again" in gone.json["remedy"]
        page = app.get(f"{kept[1]}/page")
        assert page.status == 404 and b"not open any more" in page.body
        assert app.post(f"{kept[0]}/solve", CHOSEN).status == 200


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("form", ["soft", "round", "sample", "expand"])
def test_downloaded_labels_keep_every_other_column_are_those_of_r2b_and_verify(
    app: Served, tmp_path: Path, form: str, kind: str
) -> None:
    content = verified(
        app.post(f"{app.open()}/labels", {**CHOSEN, "form": form, "kind": kind}), tmp_path
    )
    fair = r2b.debias(column("job"), sensitive_features={"sex": column("sex")}, epsilon=0.02)
    if kind == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        rows: list[dict[str, Any]] = parquet.read_table(io.BytesIO(content)).to_pylist()
    else:
        rows = rows_of(content)
    old = rows_of(PEOPLE)
    taken = [int(row["job_fair_row"]) for row in rows] if form == "expand" else range(len(old))
    assert [{name: row[name] for name in old[0]} for row in rows] == [old[place] for place in taken]
    if form == "soft":
        matrix = np.array(
            [[float(row[f"job_fair_{name}"]) for name in fair.classes] for row in rows]
        )
        assert np.array_equal(matrix, fair.soft_labels)
        return
    labels = [row["job_fair"] for row in rows]
    if form == "expand":
        weight = [float(row["job_fair_weight"]) for row in rows]
        parity = metrics.demographic_parity_difference(
            labels, sensitive_features=[row["sex"] for row in rows], sample_weight=weight
        )
        assert parity <= 0.02 + 1e-9
    else:
        assert labels == list(fair.round(0) if form == "round" else fair.sample(0))


CODES: list[tuple[str, dict[str, Any]]] = [
    ("people.csv", {}),
    (
        "people.csv",
        {"sensitive": ["sex", "race"], "families": "both", "bound": "to_overall", "weight": "w"},
    ),
    ("people.csv", {"control": ["race"], "bound": "target"}),
    ('it\'s "here" \u00e9.tsv', {"epsilon": 0.0}),
    ("gaps.csv", {"missing": "group"}),
    ("gaps.csv", {"missing": "exclude", "bound": "ratio", "epsilon": 0.2}),
]


@pytest.mark.parametrize(("name", "choices"), CODES)
def test_the_code_runs_as_it_is_and_gives_the_same_certificate(
    app: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, choices: dict[str, Any]
) -> None:
    content = PEOPLE.replace(b",", b"\t") if name.endswith("tsv") else PEOPLE
    if name == "gaps.csv":
        content = content.replace(b"\n3,m,", b"\n3,,").replace(b"\n8,f,", b"\n8,,")
    page = app.open(name, content)
    chosen = {**CHOSEN, **choices, "form": "round"}
    answer = app.post(f"{page}/solve", chosen).json
    code = app.post(f"{page}/code", chosen).body.decode()
    (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(compile(code, "fair.py", "exec"), found)
    proof = found["fair"].certificate
    for part in ("disparity_before", "disparity", "distance", "expected_changes"):
        assert answer[part] == pytest.approx(getattr(proof, part), abs=1e-8)
    downloaded = rows_of(table_in(app.post(f"{page}/labels", chosen)))
    assert [row["job_fair"] for row in downloaded] == [str(label) for label in found["labels"]]


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"label": ""}, "label", "No label is chosen"),
    ({"sensitive": []}, "sensitive", "No sensitive column"),
    ({"label": "jb"}, "label", "no column 'jb'"),
    ({"sensitive": ["sxe"]}, "sensitive", "no column 'sxe'"),
    ({"sensitive": ["job"]}, "sensitive", "chosen twice"),
    ({"control": ["sex"]}, "control", "chosen twice"),
    ({"weight": "race"}, "weight", "not a number"),
    ({"epsilon": -1}, "epsilon", "-1"),
    ({"epsilon": None}, "epsilon", "empty"),
    ({"epsilon": "1"}, "epsilon", "'1'"),
    ({"bound": "none"}, "bound", "none"),
    ({"bound": "to_reference"}, "reference", "missing"),
    ({"bound": "to_reference", "reference": "x"}, "reference", "'x'"),
    ({"families": []}, "families", "[]"),
    ({"sensitive": ["gap"]}, "missing", "no value"),
    ({"label": "gap"}, "label", "no value"),
    ({"weight": "gap"}, "weight", "missing"),
    ({"control": ["id"]}, "families", "nothing to compare"),
]


@pytest.mark.parametrize(("choices", "control", "words"), FAULTS)
def test_what_is_wrong_is_said_beside_the_control_it_concerns(
    app: Served, choices: dict[str, Any], control: str, words: str
) -> None:
    lines = PEOPLE.decode().splitlines()
    content = (
        "\n".join(
            [
                lines[0] + ",gap",
                *(f"{line},{'' if n % 9 == 4 else n % 2}" for n, line in enumerate(lines[1:])),
            ]
        )
        + "\n"
    )
    answer = app.post(f"{app.open('people.csv', content.encode())}/solve", {**CHOSEN, **choices})
    assert answer.status == 400
    said = answer.json
    assert said["control"] == control and words in said["problem"], said
    assert said["remedy"].endswith((".", "?"))
    assert not any(word in said["remedy"] for word in ("--", "missing=", "sensitive_features"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("dup.csv", b"a,a\n1,2\n", "dup.csv has 2 columns called 'a'"),
        (
            "zeros.csv",
            b"a,b\n\xff\0\0,1\n",
            "zeros.csv is not utf-8: byte 4 (0xff, on line 2) cannot be read.",
        ),
        ("book.xlsx", b"PK", "book.xlsx cannot be read as a workbook"),
        (
            "ragged.csv",
            b"a;b;c, d\n1;2\n",
            "Line 2 of ragged.csv has 1 field, but the header has 2.",
        ),
    ],
)
def test_a_file_that_cannot_be_opened_keeps_its_name_and_is_told_what_helps_here(
    app: Served, name: str, content: bytes, words: str
) -> None:
    answer = app.post(f"/tables?name={name}", content)
    said = answer.json
    assert answer.status == 400 and said["problem"].startswith(words), said
    assert "ass --" not in said["remedy"] and "with --format" not in said["remedy"]


@pytest.mark.parametrize(
    "body", [b"", b"[1]", b"{", b"\xff", b"[" * 100_000, b'{"label": {}, "sensitive": 3}']
)
def test_a_request_that_makes_no_sense_is_answered_with_a_sentence(
    app: Served, body: bytes
) -> None:
    answer = app.post(f"{app.open()}/solve", body)
    assert answer.status == 400 and answer.json["problem"].endswith(".")


def test_names_with_markup_quotes_and_line_ends_come_back_escaped(app: Served) -> None:
    name = "<img src=x onerror=alert(1)>"
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow([name, '"><script>', "a\nb"])
    writer.writerows(
        [["<b>f</b>" if n % 3 else "m", "<i>" if n % 2 else "</td>", str(n)] for n in range(40)]
    )
    page = app.open(f"{name}.csv", table.getvalue().encode())
    chosen = {"label": '"><script>', "sensitive": [name], "epsilon": 0.0}
    texts = [
        app.get(f"{page}/page").body.decode(),
        *app.post(f"{page}/frontier", chosen).json["html"].values(),
    ]
    texts += [
        app.post(f"{page}/audit", chosen).json["audit"],
        app.post(f"{page}/report", chosen).body.decode(),
    ]
    for text in texts:
        assert "<img" not in text
        assert "><script>" not in text.replace("<script>", "", 1)
        assert "<b>f" not in text


def test_closing_a_table_stops_what_is_solved_for_it() -> None:
    store = Store()
    workspace = store.add(*read_upload("people.csv", PEOPLE, 10_000))
    choice = Choice("labels", "job", ("sex",), epsilon=0.02)
    workspace.task(choice)
    store.close_all()
    assert len(store) == 0 and workspace.solve(choice).status.value == "interrupted"


@pytest.mark.parametrize(
    ("sensitive", "label", "words"),
    [("id", "sex", "15,000 groups"), ("sex", "job", "1,500 classes")],
)
def test_more_groups_or_classes_than_a_page_can_show_are_refused_by_number(
    sensitive: str, label: str, words: str
) -> None:
    content = "id,sex,job\n" + "".join(f"{n},{n % 5},{n % 1500}\n" for n in range(15_000))
    workspace = Store().add(*read_upload("many.csv", content.encode(), 1_000_000))
    with pytest.raises(InputError, match=words) as error:
        workspace.solve(Choice("labels", label, (sensitive,)))
    assert error.value.facts["control"] == ("sensitive" if sensitive == "id" else "label")
