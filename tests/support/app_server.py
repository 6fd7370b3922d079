"""The app behind a real server, for tests: uvicorn on a free port of this machine, asked with the
standard library.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

TOKEN = "a-secret-for-tests-that-is-long-enough"
PEOPLE = b"id,sex,race,job,w\n" + b"".join(
    f"{row},{'fm'[row % 2]},{'abc'[row % 3]},{'xyz'[code % 3]},{1 + row % 4}\n".encode()
    for row, code in ((row, row * row // 7 + row % 2 * (row % 5 > 1)) for row in range(120))
)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Served:
    """A running app."""

    app: Any
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def address(self, page: str = "/") -> str:
        return f"http://{self.host}{page}#token={TOKEN}"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request as it is: no token, no name, no cookie but those given."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(
                method,
                path,
                body=body,
                headers={name.replace("_", "-"): value for name, value in headers.items()},
            )
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def post(self, path: str, body: Any = None) -> Answer:
        return self.ask("POST", path, body, x_r2b_token=TOKEN)

    def get(self, path: str) -> Answer:
        return self.ask("GET", path, x_r2b_token=TOKEN)

    def open(self, name: str = "people.csv", content: bytes = PEOPLE) -> str:
        """Open a table and give the address of its page."""
        answer = self.post(f"/tables?name={quote(name)}", content)
        assert answer.status == 201, answer.body
        page: str = answer.json["page"]
        return page


@contextmanager
def running(max_upload: float = 1.0) -> Iterator[Served]:
    """Serve an app of its own in a thread; skip where the libraries are not there."""
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    from r2b.app import create_app

    app, ready = create_app(TOKEN, max_upload=max_upload), threading.Event()

    class Announcing(uvicorn.Server):  # type: ignore[misc, name-defined]
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            ready.set()

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        server = Announcing(
            uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", ws="none")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            assert ready.wait(30)
            yield Served(app, sock.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(30)
