"""Who may ask for what, and who answers: pages, tables, answers, downloads."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from r2b.app import pages
from r2b.app.choices import PageChoice, TaskChoice
from r2b.app.files import Reading, body_within, open_adult, opened_file, read_again, read_upload
from r2b.app.making import code_of, file_name, labels_file, leaving, packed, refuse_other
from r2b.app.pages import fault, reads_pages, refusal
from r2b.app.tables import ClosedError, Store, Workspace, measured
from r2b.engines.files import FileSource
from r2b.errors import FileTooLargeError, ParameterError, R2BError
from r2b.report import facts_of, to_html
from r2b.report.trace import mark_of, stamp

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]


_NOTHING, _OWN = (
    ("default-src", "base-uri", "form-action", "frame-ancestors"),
    ("script-src", "style-src", "img-src", "connect-src"),
)
POLICY = "; ".join([*(f"{what} 'none'" for what in _NOTHING), *(f"{what} 'self'" for what in _OWN)])
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Let a request through to an application, or refuse it.

    Parameters
    ----------
    inner : ASGI application
    token : str
        What every request must bring in a header. No cookie carries it, since browsers send cookies
        to every port of a machine; no address does, since others can see how a browser was started.
    host : str
        The address that is listened on; its name is one to be called by.

    Attributes
    ----------
    opened : threading.Event
        Set once a page has brought the secret.
    """

    def __init__(self, inner: Any, token: str, host: str = "127.0.0.1") -> None:
        self.inner, self.token = inner, token
        self.names = {"127.0.0.1", "localhost", "::1", host.lower()}
        self.opened = Event()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Check a request, hand it on, and add what every answer carries."""
        if scope["type"] != "http":
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [
                    (name.encode(), value.encode("latin-1")) for name, value in _HEADERS.items()
                ]
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        public = scope["method"] == "GET" and _PUBLIC.fullmatch(scope["path"]) is not None
        known = secrets.compare_digest(headers.get("x-r2b-token", "").encode(), self.token.encode())
        refused = self._wrong_host(headers) or (
            None if public else _wrong_page(headers) or (None if known else _NO_TOKEN)
        )
        if refused is None:
            if known:
                self.opened.set()
            await self.inner(scope, receive, send_guarded)
        else:
            await refusal(*refused, page=reads_pages(scope["method"], headers.get("accept", "")))(
                scope, receive, send_guarded
            )

    def _wrong_host(self, headers: dict[str, str]) -> Refused | None:
        host = headers.get("host", "")
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            name = None
        if name in self.names:
            return None
        return (
            421,
            f"This app does not answer to the name {host!r}.",
            "Open the address that r2b serve printed.",
        )


Refused = tuple[int, str, str]

_NO_TOKEN: Refused = (
    403,
    "This page does not have the secret of this run: the program may have been started anew.",
    "Open the address that r2b serve printed last.",
)

# What holds nothing of a table: the empty page, which asks for its content with the secret, and
# what it is made of.
_PUBLIC = re.compile(r"/|/t/[^/]+|/assets/[^/]+")


def _wrong_page(headers: dict[str, str]) -> Refused | None:
    own = f"http://{headers.get('host', '')}"
    origin, site = headers.get("origin", own), headers.get("sec-fetch-site", "same-origin")
    if origin == own and site in ("same-origin", "none"):
        return None
    sender = "another site" if origin == own else repr(origin)
    return (
        403,
        f"A page of {sender} sent this request.",
        "Open the address that r2b serve printed, and work there.",
    )


class App(Guard):
    """The application: a guard before a few routes, and the tables that are open.

    Parameters
    ----------
    token : str
    limit : int
        Largest upload, in bytes.
    host : str
        The address that is listened on.
    """

    def __init__(self, token: str, limit: int, host: str = "127.0.0.1") -> None:
        self.limit, self.store = limit, Store()
        routes = [
            Route("/", self.shell),
            Route("/page", self.start),
            Route("/assets/{name}", self.asset),
            Route("/tables", self.upload, methods=["POST"]),
            Route("/tables/adult", self.adult, methods=["POST"]),
            Route("/t/{id}", self.shell),
            Route("/t/{id}/page", self.work),
            Route("/t/{id}/close", self.close, methods=["POST"]),
        ]
        for make in (_audit, _solve, _frontier, _labels, _report, _code):
            routes.append(
                Route(
                    f"/t/{{id}}/{make.__name__.strip('_')}",
                    self._asking(make, PageChoice.of),
                    methods=["POST"],
                )
            )
        for task in (_made, _file):
            routes.append(
                Route(
                    f"/t/{{id}}/{task.__name__.strip('_')}",
                    self._asking(task, TaskChoice.of),
                    methods=["POST"],
                )
            )
        routes.append(
            Route(
                "/t/{id}/read",
                self._asking(self._read_again, lambda asked, _: Reading.of(asked)),
                methods=["POST"],
            )
        )
        handlers: dict[Any, Any] = {
            HTTPException: _http_fault,
            ClientDisconnect: _left,
            Exception: _broken,
        }
        super().__init__(Starlette(routes=routes, exception_handlers=handlers), token, host)

    def open_file(self, path: Path) -> str:
        """Open a file of this machine and give the address of its page."""
        return f"/t/{self.store.add(*opened_file(path)).id}"

    async def shell(self, request: Request) -> Response:
        """Show the empty page, which asks for its content with the secret."""
        return HTMLResponse(pages.render("shell.html.j2"))

    async def start(self, request: Request) -> Response:
        """Show the first page."""
        return HTMLResponse(pages.start_page(self.limit))

    async def asset(self, request: Request) -> Response:
        """Return a file that pages load."""
        found = pages.asset(request.path_params["name"])
        return (
            Response(found[0], media_type=found[1])
            if found is not None
            else refusal(404, "There is no such file.", "Go back.")
        )

    async def work(self, request: Request) -> Response:
        """Show the page of a table."""
        try:
            workspace = self.store.get(request.path_params["id"])
        except ClosedError as error:
            return HTMLResponse(pages.start_page(self.limit, str(error)), status_code=404)
        return HTMLResponse(await run_in_threadpool(pages.work_page, workspace))

    async def upload(self, request: Request) -> Response:
        """Open a file that is sent."""
        try:
            content = await body_within(request.stream(), self.limit)
            name = request.query_params.get("name", "")
            found = await run_in_threadpool(
                read_upload, name, content, self.limit, Reading.of(request.query_params)
            )
            return await run_in_threadpool(self._added, *found)
        except FileTooLargeError as error:
            return fault(error, status=413)
        except R2BError as error:
            error.facts.setdefault("control", "file")
            return fault(error)

    async def adult(self, request: Request) -> Response:
        """Open the built-in data."""
        return await run_in_threadpool(lambda: self._added(open_adult(), None, "adult"))

    def _read_again(
        self, workspace: Workspace, reading: Reading, asked: dict[str, Any]
    ) -> Response:
        self.store.add(*read_again(workspace.table, reading), id=workspace.id)
        return Response(status_code=204)

    def _added(self, table: FileSource, reading: Reading | None, source: str = "file") -> Response:
        workspace = self.store.add(table, reading, source)
        return JSONResponse({"id": workspace.id, "page": f"/t/{workspace.id}"}, status_code=201)

    async def close(self, request: Request) -> Response:
        """Forget a table."""
        self.store.close(request.path_params["id"])
        return Response(status_code=204)

    def _asking(
        self,
        make: Callable[[Workspace, Any, dict[str, Any]], Response],
        choice_of: Callable[[dict[str, Any], FileSource], Any],
    ) -> Callable[[Request], Any]:
        """Make an endpoint of a function of a table and what is chosen."""

        async def endpoint(request: Request) -> Response:
            asked: dict[str, Any] = {}
            try:
                asked = _read(await body_within(request.stream(), 1_000_000))
                workspace = self.store.get(request.path_params["id"])
                return await run_in_threadpool(
                    lambda: make(workspace, choice_of(asked, workspace.table), asked)
                )
            except ClosedError as error:
                return fault(error, status=410)
            except R2BError as error:
                return fault(error, asked)

        return endpoint


def _read(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise ParameterError(
            "The request is not a JSON object.", remedy="Send one with label and sensitive."
        )
    return asked


def _audit(workspace: Workspace, choice: PageChoice, asked: dict[str, Any]) -> Response:
    return JSONResponse(
        pages.audit_part(choice, workspace.opened(choice).audit(choice), workspace.solve(choice))
    )


def _solve(workspace: Workspace, choice: PageChoice, asked: dict[str, Any]) -> Response:
    begun = time.perf_counter()
    opened = workspace.opened(choice)
    bounded = opened.under(choice)
    found = opened.audit(choice)
    started = time.perf_counter()
    fair = bounded.solve(choice.epsilon)
    solved = time.perf_counter()
    content = pages.answer(
        choice, found, bounded, fair, asked.get("cell"), str(asked.get("form", "soft"))
    )
    spent = {"solving": solved - started, "all": time.perf_counter() - begun}
    return JSONResponse(
        {**content, "milliseconds": {name: round(1e3 * each, 1) for name, each in spent.items()}}
    )


def _frontier(workspace: Workspace, choice: PageChoice, asked: dict[str, Any]) -> Response:
    workspace.opened(choice).under(choice).frontier()
    return _solve(workspace, choice, asked)


def _labels(workspace: Workspace, choice: PageChoice, asked: dict[str, Any]) -> Response:
    form, kind = str(asked.get("form", "soft")), str(asked.get("kind", "csv"))
    content = labels_file(workspace, choice, workspace.solve(choice, cold=True), form, kind)
    return _download(content, file_name(workspace.table, f"fair-{form}", "zip"), "application/zip")


def _made(workspace: Workspace, choice: TaskChoice, asked: dict[str, Any]) -> Response:
    if choice.task == "predictions":
        return JSONResponse(
            {"html": pages.predictions_part(choice, measured(workspace.table, choice))}
        )
    return JSONResponse({"html": pages.made_part(choice, workspace.made(choice))})


def _file(workspace: Workspace, choice: TaskChoice, asked: dict[str, Any]) -> Response:
    form: Any = "round" if choice.task == "decisions" else asked.get("form", "expand")
    kind = str(asked.get("kind", "csv"))
    refuse_other(form, kind)
    made, what = (
        workspace.made(choice),
        "decisions" if choice.task == "decisions" else f"training-{form}",
    )
    said = {"options": made.options, "command": made.command}
    name = file_name(workspace.table, what, kind)
    content = packed(made.source, made.fair, form, kind, name, workspace.reading.encoding, **said)
    return _download(content, file_name(workspace.table, what, "zip"), "application/zip")


def _report(workspace: Workspace, choice: PageChoice, asked: dict[str, Any]) -> Response:
    opened = workspace.opened(choice)
    bounded = opened.under(choice)
    fair = bounded.solve(choice.epsilon, cold=True)
    settings = {**choice.options(), "random_state": 0}
    left = leaving(fair, str(asked.get("form", "soft")))
    assert fair.dataset is not None
    shown: dict[str, Any] = {
        "label_name": choice.label,
        "settings": settings,
        "trace": {"date": stamp(), "input": mark_of(fair.dataset)},
    }
    facts = facts_of(opened.audit(choice), fair, bounded.frontier(), leaving=left, **shown)
    facts["command"] = code_of(workspace, choice, "soft")
    return _download(
        to_html(facts).encode(),
        file_name(workspace.table, "report", "html"),
        "text/html; charset=utf-8",
    )


def _code(workspace: Workspace, choice: PageChoice, asked: dict[str, Any]) -> Response:
    text = code_of(workspace, choice, str(asked.get("form", "soft")))
    return _download(
        text.encode(), file_name(workspace.table, "fair", "py"), "text/x-python; charset=utf-8"
    )


def _download(content: bytes, name: str, kind: str) -> Response:
    return Response(
        content,
        media_type=kind,
        headers={"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"},
    )


def _http_fault(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    problem = (
        "There is nothing at this address."
        if status == 404
        else "This address does not take such a request."
    )
    return refusal(
        status,
        problem,
        "Go back to the first page.",
        page=reads_pages(request.method, request.headers.get("accept", "")),
    )


def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=400)


def _broken(request: Request, error: Exception) -> Response:
    memory = isinstance(error, MemoryError)
    problem = (
        "There is not enough memory for this table."
        if memory
        else f"The app failed where it should not: {type(error).__name__}."
    )
    remedy = (
        "Choose fewer columns, or take a part of the rows."
        if memory
        else "Please report it, with what the terminal shows."
    )
    return JSONResponse(
        {"problem": problem, "remedy": remedy, "control": "general"}, status_code=500
    )
