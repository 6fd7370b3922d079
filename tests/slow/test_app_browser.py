"""The app in a real browser: what a stranger sees, presses, hears and takes away."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import browser
import pytest
from app_server import TOKEN, Served, running

import r2b
from r2b.cli import main
from r2b.datasets import load_adult

READY = (
    "document.querySelector('#frontier svg') && document.querySelector('#audit table') &&"
    " !document.querySelector('.stale')"
)
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def app() -> Iterator[Served]:
    with running(max_upload=1) as served:
        yield served


def arrive(page: browser.Page, expression: str) -> None:
    """Wait until an expression is true, on the next page if the window goes there meanwhile."""
    for _ in range(5):
        try:
            page.wait(expression)
            return
        except RuntimeError as error:
            if "navigated" not in str(error):
                raise
    raise AssertionError("the window keeps going elsewhere")


def opened(chromium: browser.Browser, app: Served, **window: object) -> browser.Page:
    """Open the address that is printed."""
    page = chromium.open(app.address(), **window)  # type: ignore[arg-type]
    arrive(page, "document.querySelector('#adult')")
    return page


def adult(chromium: browser.Browser, app: Served, **window: object) -> browser.Page:
    """Open the app as a stranger does, and try the Adult data."""
    page = opened(chromium, app, **window)
    page.click("#adult")
    arrive(page, READY)
    return page


def text(page: browser.Page, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector({selector!r}).innerText"))


def test_the_secret_leaves_the_address_and_the_page_still_loads_without_it(
    chromium: browser.Browser, app: Served
) -> None:
    page = opened(chromium, app)
    assert page.evaluate("location.href") == f"http://{app.host}/"
    assert page.evaluate("document.cookie") == ""
    assert TOKEN not in "".join(page.requests).replace(app.address(), "")
    page.reload()
    arrive(page, "document.querySelector('#adult')")
    assert "Choose a file" in text(page, "main") and not page.console_errors
    page.close()


@pytest.mark.parametrize("dark", [False, True])
def test_after_a_restart_the_page_explains_itself_and_takes_the_new_address(
    chromium: browser.Browser, app: Served, dark: bool
) -> None:
    page = adult(chromium, app, dark=dark)
    app.app.token = "another secret, as after a restart"
    try:
        page.set_value("#epsilon", "0.02")
        page.wait("document.querySelector('#fault-general').innerText.includes('started anew')")
        page.reload()
        arrive(
            page,
            "document.querySelector('#locked-title')?.innerText === 'The program was started"
            " anew.'",
        )
        assert "printed last" in text(page, "#locked")
        assert "{" not in text(page, "body")
        assert page.axe() == []
    finally:
        app.app.token = TOKEN
    page.evaluate("document.querySelector('#secret').focus()")
    page.type(app.address())
    page.press("Enter")
    arrive(page, READY)
    page.close()


def test_a_stranger_without_the_secret_is_asked_for_it(
    chromium: browser.Browser, app: Served
) -> None:
    page = chromium.open(f"http://{app.host}/")
    arrive(page, "document.querySelector('#locked-title')?.innerText")
    assert "secret" in text(page, "#locked")
    assert not page.evaluate("document.querySelector('#adult')")
    page.evaluate("document.querySelector('#secret').focus()")
    page.type("wrong")
    page.press("Enter")
    page.wait("document.querySelector('#locked-title').innerText.includes('not the secret')")
    page.set_value("#secret", TOKEN)
    page.click("#unlock button")
    arrive(page, "document.querySelector('#adult')")
    page.close()


def test_a_stranger_tries_adult_and_sees_a_proven_answer_from_this_machine_alone(
    chromium: browser.Browser, app: Served
) -> None:
    page = adult(chromium, app)
    assert text(page, "#found-title").startswith(
        "Labels differ between groups by up to 5.3 percentage points"
    )
    assert "Proven" in text(page, "#verdict")
    assert page.evaluate("document.querySelectorAll('#flows svg').length") == 2
    assert ".debias(" in text(page, "#code")
    assert page.hosts == {app.host} and not page.console_errors and not page.dialogs
    page.close()


def test_moving_the_slider_by_keyboard_solves_again_and_says_so(
    chromium: browser.Browser, app: Served
) -> None:
    page = adult(chromium, app)
    seen = {
        name: page.evaluate(f"document.getElementById('{name}').innerHTML")
        for name in ("verdict", "flows", "channel", "frontier")
    }
    page.evaluate("document.getElementById('slider').focus()")
    page.press("Home")
    page.wait("document.querySelector('#verdict dd').innerText.startsWith('0')")
    for name, before in seen.items():
        assert page.evaluate(f"document.getElementById('{name}').innerHTML") != before
    page.wait("document.getElementById('summary').textContent.includes('proven optimal')")
    assert page.evaluate("document.getElementById('epsilon').value") == "0"
    assert "of labels change" in page.evaluate(
        "document.getElementById('slider').getAttribute('aria-valuetext')"
    )
    adult_table = load_adult()
    fair = r2b.debias(adult_table["education"], sensitive_features=adult_table["sex"], epsilon=0.0)
    assert f"{100 * fair.certificate.expected_changes:.1f}" in text(page, "#verdict")
    page.press("End")
    page.wait("document.querySelector('#flows').innerText.startsWith('Nothing.')")
    assert not page.console_errors
    page.close()


def test_other_columns_families_and_bounds_change_the_answer(
    chromium: browser.Browser, app: Served
) -> None:
    page = adult(chromium, app)
    title = text(page, "#found-title")
    page.click("input[name=sensitive][value=race]")
    page.wait(
        f"document.querySelector('#found-title').innerText !== {title!r} &&"
        " document.querySelector('#cell').options.length === 10"
    )
    page.set_value("#families", "both")
    page.wait(
        "['In sex x race,', 'In race,'].every(each =>"
        " document.querySelector('#proof').innerText.includes(each))"
    )
    page.set_value("#bound", "ratio")
    page.wait("document.querySelector('#proof').innerText.includes('shortfall')")
    assert "shortfall" in text(page, "#slider-label")
    page.set_value("#label", "income")
    page.wait("document.querySelector('#code').innerText.includes(\"'income'\")")
    assert not page.console_errors
    page.close()


def test_choices_live_in_the_address_so_that_reload_back_and_a_link_keep_them(
    chromium: browser.Browser, app: Served
) -> None:
    page = adult(chromium, app)
    page.click("input[name=sensitive][value=race]")
    page.wait("document.querySelector('#cell').options.length === 10")
    page.set_value("#epsilon", "0.07")
    page.wait("document.querySelector('#verdict dd').innerText.startsWith('7.0')")
    page.reload()
    arrive(page, READY)
    assert page.evaluate("document.querySelector('#epsilon').value") == "0.07"
    assert TOKEN not in page.evaluate("location.href")
    assert text(page, "#chosen").replace("\n", " ") == "Label education Groups by sex, race"
    assert text(page, "[data-picked=sensitive]") == "Chosen: sex, race"
    page.evaluate("scrollTo(0, 3000)")
    page.wait("Math.abs(document.querySelector('#chosen').getBoundingClientRect().top) < 2")
    page.evaluate("document.querySelector('[data-task=training]').click()")
    assert page.evaluate(
        "document.querySelector('[data-desk=labels]').hidden &&"
        " !document.querySelector('[data-desk=training]').hidden"
    )
    page.evaluate("history.back()")
    page.wait("!document.querySelector('[data-desk=labels]').hidden")
    page.evaluate("history.back()")  # to before epsilon was set
    page.wait("document.querySelector('#verdict dd').innerText.startsWith('1.0')")
    other = chromium.open(f"{page.evaluate('location.href')}#token={TOKEN}")
    arrive(other, READY)
    assert text(other, "#chosen") == text(page, "#chosen")
    assert not page.console_errors
    assert not other.console_errors
    page.close()
    other.close()


def test_a_person_makes_fair_decisions_of_scores_and_reads_messages_beside_the_button(
    chromium: browser.Browser, app: Served, tmp_path: Path
) -> None:
    rows = [f"{'fm'[n % 2]};{0.1 + n % 7 / 10:.1f};{0.9 - n % 7 / 10:.1f}" for n in range(80)]
    (tmp_path / "scores.csv").write_text(
        "sex;nein, später;für\n" + "\n".join(rows) + "\n", encoding="cp1252"
    )
    page = opened(chromium, app, width=390)
    page.upload("#file", tmp_path / "scores.csv")
    arrive(page, "document.querySelector('#choice')")
    assert "Windows (Western Europe), its fields separated by a semicolon" in text(
        page, "#file-part summary"
    )
    page.click("[data-task=decisions]")
    page.click("#get-decisions")
    page.wait(
        "document.querySelector('#said-get-decisions.fault')?.innerText.startsWith('No column of"
        " probabilities is chosen.')"
    )
    assert (
        page.evaluate(
            "document.querySelector('#form-decisions [name=scores]').getAttribute('aria-invalid')"
        )
        == "true"
    )
    for name, value in (("scores", "nein, später"), ("scores", "für"), ("sensitive", "sex")):
        page.evaluate(
            "document.querySelector('#form-decisions"
            f" [name={name}][value={json.dumps(value)}]').click()"
        )
    page.click("#get-decisions")
    page.wait("document.querySelector('#made-decisions .tiles')")
    assert "Proven" in text(page, "#made-decisions") and page.axe() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    with zipfile.ZipFile(page.download("#get-decisions-file", tmp_path)) as archive:
        archive.extractall(tmp_path)
    assert main(["verify", str(tmp_path / "scores-decisions.csv"), "-q"]) == 0
    page.close()


def test_labels_report_and_code_are_downloaded_whole(
    chromium: browser.Browser, app: Served, tmp_path: Path
) -> None:
    page = adult(chromium, app)
    saved = page.download("#get-labels", tmp_path)
    page.wait(
        "document.querySelector('#said-get-labels').innerText === 'Saved as adult-fair-round.zip.'"
    )
    with zipfile.ZipFile(saved) as archive:
        archive.extractall(tmp_path)
    with (tmp_path / "adult-fair-round.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    table = load_adult()
    fair = r2b.debias(table["education"], sensitive_features={"sex": table["sex"]}, epsilon=0.01)
    assert saved.name == "adult-fair-round.zip"
    assert [row["education_fair"] for row in rows] == list(fair.round(0))
    promised = ["--label", "education", "--sensitive", "sex", "--epsilon", "0.01"]
    assert main(["verify", str(tmp_path / "adult-fair-round.csv"), *promised]) == 0
    assert [row["education"] for row in rows] == list(table["education"])
    assert page.download("#get-report", tmp_path).read_text().startswith("<!doctype html>")
    code = page.download("#get-code", tmp_path)
    found: dict[str, r2b.FairLabels] = {}
    exec(compile(code.read_text(), "fair.py", "exec"), found)
    assert found["fair"].certificate.distance == fair.certificate.distance
    assert not page.console_errors
    page.close()


def test_a_hostile_column_name_is_shown_as_text(
    chromium: browser.Browser, app: Served, tmp_path: Path
) -> None:
    path = tmp_path / "hostile.csv"
    with path.open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow([HOSTILE, "job"])
        writer.writerows(
            [[HOSTILE if n % 3 else "m", HOSTILE if n % 2 else "plain"] for n in range(1, 60)]
        )
    page = opened(chromium, app)
    page.upload("#file", path)
    arrive(page, "document.querySelector('#choice')")
    assert "Choose a label" in text(page, "#answer")
    page.set_value("#label", "job")
    page.click("input[name=sensitive]")
    page.wait(READY)
    for part in ("#choice", "#verdict", "#channel", "#audit", "#code"):
        assert page.evaluate(f"document.querySelectorAll('{part} img').length") == 0
    assert HOSTILE in text(page, "#audit")
    assert HOSTILE in text(page, "#code")
    assert HOSTILE in text(page, "#cell")
    assert not page.dialogs and not page.console_errors and page.hosts == {app.host}
    page.close()


def test_a_bad_file_and_one_too_large_are_explained_on_the_page(
    chromium: browser.Browser, app: Served, tmp_path: Path
) -> None:
    page = opened(chromium, app)
    for name, content, words in (
        ("a.csv", b"a,b\n1\n", "Line 2 of a.csv"),
        ("b.csv", b"a,b\n" + b"1,2\n" * 300_000, "this app takes 1 MB"),
    ):
        (tmp_path / name).write_bytes(content)
        page.upload("#file", tmp_path / name)
        page.wait(f"document.querySelector('#fault-file').innerText.includes({words!r})")
    assert page.evaluate("location.pathname") == "/"
    page.close()


def test_what_is_wrong_stands_beside_its_control_and_goes_when_it_is_put_right(
    chromium: browser.Browser, app: Served
) -> None:
    page = adult(chromium, app)
    page.set_value("#weight", "workclass")
    page.wait("document.querySelector('#fault-weight').innerText.includes('not a number')")
    assert page.evaluate("document.querySelector('#weight').getAttribute('aria-invalid')") == "true"
    assert page.evaluate("document.querySelector('#results').classList.contains('stale')")
    page.set_value("#weight", "fnlwgt")
    page.wait(READY)
    assert page.evaluate(
        "document.querySelector('#fault-weight').hidden &&"
        " !document.querySelector('[aria-invalid]')"
    )
    page.close()


def test_a_fault_before_the_first_answer_shows_no_headings_without_numbers(
    chromium: browser.Browser, app: Served, tmp_path: Path
) -> None:
    (tmp_path / "gaps.csv").write_text("sex,job\nf,x\n,y\nm,x\nm,y\n")
    page = opened(chromium, app)
    page.upload("#file", tmp_path / "gaps.csv")
    arrive(page, "document.querySelector('#choice')")
    hint = text(page, "#hint")
    page.set_value("#label", "job")
    if not page.evaluate("document.querySelector('input[name=sensitive][value=sex]').checked"):
        page.click("input[name=sensitive][value=sex]")
    page.wait("document.querySelector('#fault-missing').innerText.includes('no value')")
    assert page.evaluate("document.querySelector('#results').hidden")
    assert text(page, "#hint").startswith("There is no answer yet.")
    page.set_value("#missing", "group")
    page.wait("document.querySelector('#audit table') && !document.querySelector('.stale')")
    assert page.evaluate(
        "document.querySelector('#hint').hidden && !document.querySelector('#results').hidden"
    )
    page.set_value("#label", "")
    page.wait("!document.querySelector('#hint').hidden")
    assert text(page, "#hint") == hint
    page.close()


@pytest.mark.parametrize(("width", "dark"), [(375, False), (1280, True)])
def test_it_is_accessible_and_fits_the_window(
    chromium: browser.Browser, app: Served, width: int, dark: bool
) -> None:
    start = opened(chromium, app, width=width, dark=dark)
    assert start.axe() == [] and start.evaluate("document.documentElement.scrollWidth") <= width
    start.close()
    page = adult(chromium, app, width=width, dark=dark)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert page.axe() == [] and page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_everything_can_be_reached_with_the_keyboard(
    chromium: browser.Browser, app: Served
) -> None:
    page = adult(chromium, app)
    named = "label families bound slider epsilon cell form kind get-labels get-report get-code"
    wanted, seen = {*named.split(), "sensitive", "close"}, set()
    for _ in range(60):
        page.press("Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.name"))
        if wanted <= seen:
            break
    assert wanted <= seen
    page.close()


def test_two_windows_on_two_tables_do_not_mix(
    chromium: browser.Browser, app: Served, tmp_path: Path
) -> None:
    first, second = adult(chromium, app), adult(chromium, app)
    assert first.evaluate("location.pathname") != second.evaluate("location.pathname")
    second.set_value("#label", "income")
    second.wait("document.querySelector('#code').innerText.includes('income')")
    first.set_value("#epsilon", "0.02")
    first.wait("document.querySelector('#verdict dd').innerText.startsWith('2.0')")
    assert "education" in text(first, "#code") and "income" in text(second, "#code")
    second.click("#close")
    arrive(second, "document.querySelector('#adult')")
    first.set_value("#epsilon", "0.03")
    first.wait("document.querySelector('#verdict dd').innerText.startsWith('3.0')")
    assert not first.console_errors and not second.console_errors
    first.close()
    second.close()


def test_changes_made_in_a_hurry_end_in_the_answer_to_the_last(
    chromium: browser.Browser, app: Served
) -> None:
    page = adult(chromium, app)
    fire = "e.dispatchEvent(new Event('change', {bubbles: true}))"
    hurried = [
        ("#families", "both"),
        ("#bound", "to_overall"),
        ("#label", "income"),
        ("#bound", "ratio"),
        ("#label", "workclass"),
    ]
    for selector, value in hurried:
        page.evaluate(
            f"(() => {{ const e = document.querySelector('{selector}'); e.value = '{value}'; {fire}"
            " })()"
        )
    page.wait(f"{READY} && document.querySelector('#code').innerText.includes('workclass')")
    page.wait("document.querySelector('#found').innerText.includes('workclass')")
    assert "shortfall" in text(page, "#proof") and "epsilon accepted" in text(page, "#frontier")
    assert not page.console_errors
    page.close()
