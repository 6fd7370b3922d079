"""Start the app: one socket on this machine, a secret in the address, and a browser."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from contextlib import nullcontext
from ipaddress import ip_address
from os import PathLike, fspath
from pathlib import Path
from types import FrameType
from typing import Any

from r2b._data.numbers import refuse_other_number
from r2b.errors import ParameterError, R2BError, require

MAX_UPLOAD = 200  # megabytes

_DOOR = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>r2b</title>
<meta name="referrer" content="no-referrer"></head>
<body><p>r2b runs at <a href="{address}">this address</a>.</p>
<script>location.replace("{address}")</script></body></html>
"""


def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    path: str | PathLike[str] | None = None,
    open_browser: bool = True,
    *,
    max_upload: float = MAX_UPLOAD,
    announce: Callable[[str], object] | None = None,
) -> None:
    """Serve the app until it is asked to stop (Ctrl-C).

    It listens on this machine alone. Every request needs a secret, which is the end of the address
    that is printed. A browser that is started gets it from a file that only this user can read, and
    that is gone once the page is open: others can see how it was started. Tables are kept in
    memory, and nothing is sent elsewhere.

    Parameters
    ----------
    host : str
        An address of this machine that others cannot reach: "127.0.0.1" or another of its kind,
        "localhost" or "::1".
    port : int
        0 takes one that is free.
    path : path-like, optional
        A file to open at once.
    open_browser : bool
    max_upload : float
        Largest file that is taken, in megabytes.
    announce : callable, optional
        Called with the address once it can be opened; printed by default.

    Raises
    ------
    ParameterError
        Others could reach the host, the port is taken, or the file is not there.
    InputError
        The file cannot be read.
    MissingExtraError
        Starlette or uvicorn is not installed.
    """
    _refuse_reachable(host)
    token = secrets.token_urlsafe(24)
    app = create_app(token, max_upload=max_upload, host=host)
    page = "/" if path is None else _opened(app, Path(fspath(path)))
    with (
        _bound(host, port) as sock,
        tempfile.TemporaryDirectory(prefix="r2b-") if open_browser else nullcontext("") as folder,
    ):
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{sock.getsockname()[1]}{page}#token={token}"

        def say() -> None:
            (announce or _printed)(address)
            if open_browser:
                # Beside the server: a browser in the terminal does not come back before it is left.
                threading.Thread(
                    target=_open_browser, args=(address, folder, app.opened), daemon=True
                ).start()

        try:
            _run(app, sock, say)
        except KeyboardInterrupt:
            print("\nStopped. Nothing was kept.", file=sys.stderr)


def _open_browser(address: str, folder: str, opened: threading.Event) -> None:
    """Open a file that leads to the address: others can see how a browser was started."""
    door = Path(folder) / "open.html"
    with open(
        os.open(door, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(_DOOR.format(address=address))
    webbrowser.open(door.as_uri())
    opened.wait(300)
    door.unlink(missing_ok=True)


def create_app(token: str, *, max_upload: float = MAX_UPLOAD, host: str = "127.0.0.1") -> Any:
    """Make the app as an ASGI application, for a server of your own.

    ``app.open_file(path)`` opens a table and returns the address of its page.

    Parameters
    ----------
    token : str
        What every request must bring in the header X-R2B-Token; a page takes it from the end of its
        address, ``/#token=...``.
    max_upload : float
        Largest file that is taken, in megabytes.
    host : str
        The address that your server listens on.

    Raises
    ------
    ParameterError
        The token is too short to be a secret, or the limit is no size.
    MissingExtraError
        Starlette or uvicorn is not installed.

    Examples
    --------
    >>> app = create_app("a secret that nobody guesses")
    >>> app.store.most
    6
    """
    for library in ("starlette", "uvicorn", "jinja2"):
        require(library, f"The app needs {library}", extra="app")
    if not isinstance(token, str) or len(token) < 16:
        raise ParameterError(
            "The token is shorter than 16 characters.",
            remedy="Pass secrets.token_urlsafe(24), or the like.",
        )
    remedy = "Pass a size in megabytes, such as 200."
    refuse_other_number("max_upload", max_upload, remedy, lambda size: 0 < size < 1e6)
    from r2b.app.routes import App

    return App(token, int(max_upload * 1e6), host)


def _opened(app: Any, path: Path) -> str:
    """Open a table and return the address of its page; errors are in words of the app."""
    try:
        return str(app.open_file(path))
    except R2BError as error:
        from r2b.app.pages import rendered

        problem, remedy = rendered(error)
        raise error.changed(problem=problem, remedy=remedy) from error


def _printed(address: str) -> None:
    print(
        f"r2b runs at {address}\nThe data stay on this machine and in memory. Ctrl-C ends it.",
        flush=True,
    )


def _refuse_reachable(host: str) -> None:
    try:
        here = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        here = False
    if not here:
        raise ParameterError(
            f"The host is {host!r}, where others could reach the data.",
            remedy="Pass 127.0.0.1. From another machine, forward the port with ssh -L.",
            host=host,
        )


def _bound(host: str, port: int) -> socket.socket:
    """Bind the port and listen before the address is printed, so that nobody is refused."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(64)
    except (OSError, OverflowError) as cause:
        sock.close()
        why = getattr(cause, "strerror", None) or cause
        raise ParameterError(
            f"Port {port} of {host} cannot be used: {why}.",
            remedy="Pass another, or 0 for any that is free.",
            host=host,
            port=port,
        ) from cause
    return sock


def _run(app: Any, sock: socket.socket, say: Callable[[], object]) -> None:
    """Serve until Ctrl-C; ``say`` is called when requests and Ctrl-C are answered."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=2,
        ws="none",
    )

    class Server(uvicorn.Server):
        failure: Exception | None = None

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            asyncio.get_running_loop().call_soon(self.announce)

        def announce(self) -> None:
            try:
                say()
            except Exception as error:  # such as closed standard output: raised below
                self.failure, self.should_exit = error, True

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.stop()
            super().handle_exit(sig, frame)

    server = Server(config)
    serving = server.serve(sockets=[sock])
    try:
        asyncio.run(serving)
    finally:
        serving.close()  # interrupted before it began, it would complain that nobody waited for it
    if server.failure is not None:
        raise server.failure
