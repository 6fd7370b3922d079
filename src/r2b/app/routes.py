"""Who may ask for what, and who answers: pages, tables, answers, downloads."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from r2b.app import pages
from r2b.app.choices import TASKS, Choice
from r2b.app.files import Reading, body_within, open_adult, opened_file, read_again, read_upload
from r2b.app.making import code_of, file_name, labels_file, measured, prediction_report
from r2b.app.pages import fault, reads_pages
from r2b.app.tables import ClosedError, Store, Workspace
from r2b.errors import FileTooLargeError, ParameterError, R2BError
from r2b.report import to_html
from r2b.report.trace import mark_of, stamp

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Result = TypeVar("Result")

_POLICY = {
    "none": ("default-src", "base-uri", "form-action", "frame-ancestors"),
    "self": ("script-src", "style-src", "img-src", "connect-src"),
}
_HEADERS = {
    "content-security-policy": "; ".join(
        f"{what} '{source}'" for source, whats in _POLICY.items() for what in whats
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
# What holds nothing of a table: the empty page, which asks for its content with the secret, and
# what it is made of.
_PUBLIC = re.compile(r"/|/t/[^/]+|/assets/[^/]+")


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
        request = Request(scope)
        token = request.headers.get("x-r2b-token", "").encode()
        known = secrets.compare_digest(token, self.token.encode())

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refused = self._refused(request, known)
        if refused is None:
            if known:
                self.opened.set()
            await self.inner(scope, receive, send_guarded)
        else:
            status, problem = refused
            error = R2BError(problem, remedy="Open the address that r2b serve printed last.")
            answer = fault(error, status, page=reads_pages(request))
            await answer(scope, receive, send_guarded)

    def _refused(self, request: Request, known: bool) -> tuple[int, str] | None:
        """Return the status and the reason to refuse a request; None if there is none."""
        headers, name = request.headers, None
        host = headers.get("host", "")
        with suppress(ValueError):
            name = urlsplit(f"//{host}").hostname
        if name not in self.names:
            return 421, f"This app does not answer to the name {host!r}."
        if request.method == "GET" and _PUBLIC.fullmatch(request.scope["path"]):
            return None
        own = f"http://{host}"
        origin, site = headers.get("origin", own), headers.get("sec-fetch-site", "same-origin")
        if origin != own or site not in ("same-origin", "none"):
            sender = "another site" if origin == own else repr(origin)
            return 403, f"A page of {sender} sent this request."
        if not known:
            return 403, (
                "This page does not have the secret of this run: the program may have been "
                "started anew."
            )
        return None


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
        self._waiting: set[Future[Any]] = set()
        routes = [
            Route("/", self.shell),
            Route("/page", self.start),
            Route("/assets/{name}", self.asset),
            Route("/tables", self.upload, methods=["POST"]),
            Route("/tables/adult", self.adult, methods=["POST"]),
            Route("/t/{id}", self.shell),
            Route("/t/{id}/page", self.work),
            Route("/t/{id}/close", self.close, methods=["POST"]),
            Route("/t/{id}/{action}", self.act, methods=["POST"]),
        ]
        handlers: dict[Any, Any] = {
            HTTPException: _http_fault,
            ClientDisconnect: _left,
            Exception: _broken,
        }
        super().__init__(Starlette(routes=routes, exception_handlers=handlers), token, host)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do work in a thread, which does not hold up the end of the app."""
        outcome: Future[Result] = Future()

        def thread() -> None:
            with suppress(InvalidStateError):  # the app was stopped meanwhile
                try:
                    outcome.set_result(work())
                except BaseException as error:
                    outcome.set_exception(error)

        self._waiting.add(outcome)
        Thread(target=copy_context().run, args=(thread,), daemon=True).start()
        try:
            return await asyncio.wrap_future(outcome)
        finally:
            self._waiting.discard(outcome)

    def stop(self) -> None:
        """Forget all tables, and end what is waited for."""
        self.store.close_all()
        error = ClosedError("The app was stopped.", remedy="Start it again.")
        for outcome in [*self._waiting]:
            with suppress(InvalidStateError):
                outcome.set_exception(error)

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
        if found is None:
            raise HTTPException(404)
        return Response(found[0], media_type=found[1])

    async def work(self, request: Request) -> Response:
        """Show the page of a table."""
        try:
            workspace = self.store.get(request.path_params["id"])
        except ClosedError as error:
            return HTMLResponse(pages.start_page(self.limit, str(error)), status_code=404)
        return HTMLResponse(await self.run(lambda: pages.work_page(workspace)))

    async def upload(self, request: Request) -> Response:
        """Open a file that is sent."""
        asked = request.query_params
        try:
            content = await body_within(request.stream(), self.limit)

            def read() -> Workspace:
                how = Reading.of(asked)
                return self.store.add(*read_upload(asked.get("name", ""), content, self.limit, how))

            return _opened(await self.run(read))
        except R2BError as error:
            error.facts.setdefault("control", "file")
            return fault(error, 413 if isinstance(error, FileTooLargeError) else 400)

    async def adult(self, request: Request) -> Response:
        """Open the built-in data."""
        add = self.store.add
        return _opened(await self.run(lambda: add(open_adult(), source="adult")))

    async def close(self, request: Request) -> Response:
        """Forget a table."""
        self.store.close(request.path_params["id"])
        return Response(status_code=204)

    async def act(self, request: Request) -> Response:
        """Do with a table what is asked, for what is chosen."""
        asked: dict[str, Any] = {}
        action = request.path_params["action"]
        try:
            asked = _read(await body_within(request.stream(), 1_000_000))
            workspace = self.store.get(request.path_params["id"])
            if action == "read":
                return await self.run(lambda: self._read_again(workspace, asked))
            if action not in _ACTIONS:
                raise HTTPException(404)
            act, tasks = _ACTIONS[action]
            return await self.run(
                lambda: act(workspace, Choice.of(asked, workspace.table, tasks), asked)
            )
        except ClosedError as error:
            return fault(error, 410)
        except R2BError as error:
            return fault(error, 400, asked)

    def _read_again(self, workspace: Workspace, asked: dict[str, Any]) -> Response:
        self.store.add(*read_again(workspace.table, Reading.of(asked)), id=workspace.id)
        return Response(status_code=204)


def _opened(workspace: Workspace) -> Response:
    return JSONResponse({"id": workspace.id, "page": f"/t/{workspace.id}"}, status_code=201)


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


def _audit(workspace: Workspace, choice: Choice, asked: dict[str, Any]) -> Response:
    return JSONResponse(pages.audit_part(workspace, choice))


def _solve(workspace: Workspace, choice: Choice, asked: dict[str, Any]) -> Response:
    begun = time.perf_counter()
    content = pages.answer(workspace, choice, asked.get("cell"))
    spent = round(1e3 * (time.perf_counter() - begun), 1)
    return JSONResponse({**content, "milliseconds": {"all": spent}})


def _frontier(workspace: Workspace, choice: Choice, asked: dict[str, Any]) -> Response:
    workspace.solve(choice)
    workspace.frontier(choice)
    return _solve(workspace, choice, asked)


def _made(workspace: Workspace, choice: Choice, asked: dict[str, Any]) -> Response:
    if choice.task == "predictions":
        html = pages.predictions_part(choice, measured(workspace.table, choice))
    else:
        html = pages.made_part(choice, workspace.made(choice))
    return JSONResponse({"html": html})


def _labels(workspace: Workspace, choice: Choice, asked: dict[str, Any]) -> Response:
    if choice.task == "predictions":
        told = {name: str(asked[name]) for name in ("purpose", "owner") if asked.get(name)}
        page = prediction_report(workspace.table, choice, **told).to_html()
        return _download(workspace, choice, page, "html")
    if choice.task == "decisions":
        choice = replace(choice, form="round")
    return _download(workspace, choice, labels_file(workspace, choice), "zip")


def _report(workspace: Workspace, choice: Choice, asked: dict[str, Any]) -> Response:
    facts = pages.facts_for(
        workspace,
        choice,
        settings={**choice.options(), "random_state": 0},
        trace={"date": stamp(), "input": mark_of(workspace.data(choice))},
    )
    facts["command"] = code_of(workspace, replace(choice, form="soft"))
    return _download(workspace, choice, to_html(facts), "html")


def _code(workspace: Workspace, choice: Choice, asked: dict[str, Any]) -> Response:
    return _download(workspace, choice, code_of(workspace, choice), "py")


def _download(workspace: Workspace, choice: Choice, content: str | bytes, ending: str) -> Response:
    kind = {"html": "text/html", "py": "text/x-python", "zip": "application/zip"}[ending]
    name = quote(file_name(workspace, choice, ending))
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(content, media_type=kind, headers=headers)


_ACTIONS: dict[str, tuple[Callable[..., Response], tuple[str, ...]]] = {
    "audit": (_audit, ("labels",)),
    "solve": (_solve, ("labels",)),
    "frontier": (_frontier, ("labels",)),
    "labels": (_labels, ("labels",)),
    "report": (_report, ("labels",)),
    "code": (_code, ("labels",)),
    "made": (_made, tuple(TASKS)[1:]),
    "file": (_labels, tuple(TASKS)[1:]),
}
"""What can be asked of a table, and for which tasks; the first one if none is named."""


def _http_fault(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    problem = "This address does not take such a request."
    problem = "There is nothing at this address." if status == 404 else problem
    error = R2BError(problem, remedy="Go back to the first page.")
    return fault(error, status, page=reads_pages(request))


def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=400)


def _broken(request: Request, error: Exception) -> Response:
    problem = f"The app failed where it should not: {type(error).__name__}."
    remedy = "Please report it, with what the terminal shows."
    if isinstance(error, MemoryError):
        problem = "There is not enough memory for this table."
        remedy = "Choose fewer columns, or take a part of the rows."
    return fault(R2BError(problem, remedy=remedy), 500)
