"""Who may ask the app for what, and what it refuses."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
from app_server import PEOPLE, TOKEN, Served, running

from r2b.app import create_app, serve
from r2b.errors import ParameterError


@pytest.fixture(scope="module")
def app() -> Iterator[Served]:
    with running(max_upload=0.1) as served:
        yield served


ROUTES = [
    ("GET", "/page"),
    ("POST", "/"),
    ("POST", "/tables"),
    ("POST", "/tables/adult"),
    ("GET", "/t/x/page"),
    ("POST", "/t/x/solve"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_request_without_the_token_or_with_a_wrong_one_is_refused(
    app: Served, method: str, path: str
) -> None:
    for headers in (
        {},
        {"x_r2b_token": "wrong"},
        {"x_r2b_token": TOKEN[:-1]},
        {"cookie": f"r2b={TOKEN}; x-r2b-token={TOKEN}"},
    ):
        answer = app.ask(method, path, b"" if method == "POST" else None, **headers)
        assert answer.status == 403
        assert answer.json["problem"].endswith(".") and "r2b serve printed" in answer.json["remedy"]
    assert app.ask(method, f"{path}?token={TOKEN}").status == 403


def test_what_everyone_may_have_holds_nothing_of_a_table_and_no_secret(app: Served) -> None:
    page = app.open("very-private.csv")
    bare = [app.ask("GET", path) for path in ("/", page, "/t/none", "/assets/app.js")]
    assert [answer.status for answer in bare] == [200] * 4
    for answer in bare:
        assert b"very-private" not in answer.body
        assert TOKEN.encode() not in answer.body
        assert "set-cookie" not in answer.headers
    assert bare[0].body == bare[1].body == bare[2].body
    assert b"very-private.csv" in app.get(f"{page}/page").body
    assert "set-cookie" not in app.get(f"{page}/page").headers


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "0.0.0.0",
        "",
        "[::2]",
        "localhost.",
        "[bad",
    ],
)
def test_a_name_that_is_not_this_machines_is_refused_even_with_the_token(
    app: Served, host: str
) -> None:
    answer = app.ask("GET", "/page", Host=host, x_r2b_token=TOKEN)
    assert answer.status in (400, 421)
    assert b"<form" not in answer.body


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", "http://localhost"],
)
def test_a_page_of_another_origin_is_refused_even_with_the_token(app: Served, origin: str) -> None:
    answer = app.ask("POST", "/tables?name=a.csv", PEOPLE, Origin=origin, x_r2b_token=TOKEN)
    assert answer.status == 403 and "sent this request" in answer.json["problem"]


def test_a_page_on_another_port_of_this_machine_gets_nothing(app: Served) -> None:
    assert app.ask("GET", "/page", x_r2b_token=TOKEN, sec_fetch_site="same-origin").status == 200
    for site in ("same-site", "cross-site"):
        assert app.ask("GET", "/page", x_r2b_token=TOKEN, sec_fetch_site=site).status == 403


def test_a_person_who_is_refused_reads_a_page_and_a_script_reads_json(app: Served) -> None:
    for path, headers in {
        "/page": {},
        "/nowhere": {"x_r2b_token": TOKEN},
        "/": {"Host": "evil.example"},
    }.items():
        answer = app.ask("GET", path, accept="text/html,application/xhtml+xml", **headers)
        assert answer.status in (403, 404, 421)
        assert answer.body.startswith(b"<!doctype html>")
        assert b"<h1>" in answer.body
        assert app.ask("GET", path, **headers).json["remedy"].endswith(".")


def test_no_secret_is_seen_in_how_the_browser_is_started(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    browser = tmp_path / "browser"
    # Notes how it was started and what it was given, as any user of the machine could see the first
    # of the two.
    browser.write_text(
        f'#!/bin/sh\necho "$@" > "{tmp_path}/argv"\ncp -p "${{1#file://}}" "{tmp_path}/door"\nmv'
        f' "{tmp_path}/argv" "{tmp_path}/seen"\n'
    )
    browser.chmod(0o755)
    env = {**os.environ, "BROWSER": f"{browser} %s", "TMPDIR": str(scratch)}
    start = [sys.executable, "-c", "from r2b.app import serve; serve()"]
    with subprocess.Popen(
        start, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().decode().split()[-1]
            parts, token = urlsplit(address), address.partition("token=")[2]
            end = time.monotonic() + 30
            while not (tmp_path / "seen").exists() and time.monotonic() < end:
                time.sleep(0.05)
            seen, door = (tmp_path / "seen").read_text(), tmp_path / "door"
            assert token not in seen and seen.startswith("file://") and address in door.read_text()
            assert door.stat().st_mode & 0o077 == 0
            assert next(scratch.iterdir()).stat().st_mode & 0o077 == 0
            assert parts.port is not None
            served = Served(None, parts.port)
            assert served.ask("GET", "/page").status == 403 and list(scratch.rglob("*.html"))
            assert served.ask("GET", "/page", x_r2b_token=token).status == 200
            while list(scratch.rglob("*.html")) and time.monotonic() < end:
                time.sleep(0.05)
            assert not list(scratch.rglob("*.html"))
        finally:
            process.send_signal(signal.SIGINT)
        process.wait(30)
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("path", ["/", "/assets/app.js", "/nowhere", "/t/none"])
def test_every_answer_forbids_strangers_guessing_framing_and_keeping(
    app: Served, path: str
) -> None:
    for answer in (app.get(path), app.ask("GET", path)):
        headers = answer.headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY" and headers["referrer-policy"] == "no-referrer"


def test_a_file_above_the_limit_is_refused_with_both_sizes_and_the_app_goes_on(app: Served) -> None:
    answer = app.post("/tables?name=big.csv", b"a,b\n" + b"1,2\n" * 50_000)
    assert answer.status == 413
    assert "0.2 MB" in answer.json["problem"]
    assert "0.1 MB" in answer.json["problem"]
    assert "--max-upload" in answer.json["remedy"]
    assert app.post("/tables?name=a.csv", PEOPLE).status == 201


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(app: Served) -> None:
    packed = gzip.compress(b"a,b\n" + b"1,2\n" * 500_000)
    assert len(packed) < 100_000
    answer = app.post("/tables?name=bomb.csv.gz", packed)
    assert answer.status == 413 and "unpacked" in answer.json["problem"]


BAD = {
    "empty.csv": b"",
    "blank.csv": b"\n\n",
    "header.csv": b"a,b\n",
    "ragged.csv": b"a,b\n1,2\n1,2,3\n",
    "quote.csv": b'a,b\n"1,2\n',
    "garbage.csv": bytes(range(256)) * 20,
    "zeros.csv": b"\0" * 1000,
    "twice.csv": b"a,a\n1,2\n",
    "garbage.parquet": b"PAR1" + bytes(range(256)),
    "garbage.arrow": bytes(range(256)),
    "bad.jsonl": b'{"a": 1}\n{"a": \n',
    "list.jsonl": b"[1, 2]\n",
    "cut.csv.gz": gzip.compress(PEOPLE)[:-20],
    "notgz.csv.gz": PEOPLE,
    "people.xlsx": PEOPLE,
    "people": PEOPLE,
    "": PEOPLE,
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_answered_with_a_sentence_and_a_remedy_and_leaves_nothing_open(
    app: Served, name: str
) -> None:
    before = len(app.app.store)
    answer = app.post(f"/tables?name={quote(name)}", BAD[name])
    assert answer.status == 400, answer.body
    said = answer.json
    assert said["control"] == "file" and len(said["problem"]) > 10
    assert said["problem"].rstrip().endswith(".") and said["remedy"].endswith(".")
    assert "--" not in said["remedy"] or "command line" in said["remedy"]
    assert len(app.app.store) == before


def test_a_path_in_the_name_of_an_upload_is_not_kept(app: Served) -> None:
    page = app.open("../../etc/people.csv")
    assert b"<bdi>people.csv</bdi>" in app.get(f"{page}/page").body


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "example.org", "::"])
def test_serving_where_others_could_reach_it_is_refused(host: str) -> None:
    with pytest.raises(ParameterError, match="others could reach"):
        serve(host, open_browser=False)


def test_a_port_that_is_taken_is_refused_by_number(app: Served) -> None:
    with pytest.raises(ParameterError, match=str(app.port)):
        serve(port=app.port, open_browser=False)


def test_a_short_token_and_a_limit_of_no_size_are_refused() -> None:
    with pytest.raises(ParameterError, match="token"):
        create_app("short")
    for limit in (0, -1, float("nan"), True):
        with pytest.raises(ParameterError, match="max_upload"):
            create_app(TOKEN, max_upload=limit)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_however_it_ends_nothing_is_left_on_disk(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    pytest.importorskip("uvicorn")
    work, scratch, data = (tmp_path / name for name in ("work", "scratch", "data"))
    for folder in (work, scratch, data):
        folder.mkdir()
    (data / "people.csv").write_bytes(PEOPLE)
    start = (
        f"from r2b.app import serve; serve(path={str(data / 'people.csv')!r}, open_browser=False)"
    )
    env = {
        **os.environ,
        "TMPDIR": str(scratch),
        "HOME": str(scratch),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with subprocess.Popen(
        [sys.executable, "-c", start],
        cwd=work,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        try:
            address = urlsplit(process.stdout.readline().decode().split()[-1])
            token = address.fragment.removeprefix("token=")
            assert address.hostname == "127.0.0.1" and address.port is not None and len(token) >= 32
            served = Served(None, address.port)
            assert (
                b"people.csv" in served.ask("GET", f"{address.path}/page", x_r2b_token=token).body
            )
            chosen = {"label": "job", "sensitive": ["sex"], "epsilon": 0.01, "form": "round"}
            assert (
                served.ask("POST", f"{address.path}/labels", chosen, x_r2b_token=token).status
                == 200
            )
            assert served.ask("POST", "/tables?name=b.csv", PEOPLE, x_r2b_token=token).status == 201
        finally:
            process.send_signal(number)
        assert process.wait(30) == code
    assert not list(work.iterdir()) and not list(scratch.iterdir())
    assert [each.name for each in data.iterdir()] == ["people.csv"]
    assert (data / "people.csv").read_bytes() == PEOPLE


def test_ctrl_c_ends_an_app_that_is_busy(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40_000, 30)).round(3).astype(str)
    names = [f"x{number}" for number in range(30)]
    groups = zip(rng.choice(["f", "m"], 40_000), rng.choice(list("abcdefgh"), 40_000), strict=True)
    lines = [",".join([*pair, *row]) for pair, row in zip(groups, features, strict=True)]
    (tmp_path / "people.csv").write_text("\n".join([",".join(["sex", "job", *names]), *lines]))
    start = [sys.executable, "-m", "r2b", "serve", "people.csv", "--no-browser"]
    with subprocess.Popen(
        start, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            address = urlsplit(process.stdout.readline().decode().split()[-1])
            assert address.port is not None
            token = {"x_r2b_token": address.fragment.removeprefix("token=")}
            chosen = {"task": "training", "label": "job", "sensitive": ["sex"], "features": names}
            with ThreadPoolExecutor() as pool:
                path = f"{address.path}/made"
                asked = pool.submit(Served(None, address.port).ask, "POST", path, chosen, **token)
                time.sleep(0.5)
                assert not asked.done()
                begun = time.monotonic()
                process.send_signal(signal.SIGINT)
                answer = asked.result(30)
                process.wait(30)
        finally:
            process.kill()
        assert (answer.status, process.returncode) == (410, 0) and time.monotonic() - begun < 20
        assert process.stderr is not None and b"Traceback" not in process.stderr.read()
