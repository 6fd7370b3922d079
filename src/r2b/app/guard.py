"""Who may ask: this machine's own pages, under this machine's name, with the secret. The answer to everyone else says why not.

A page of another site can make a browser send requests here, and a name that it owns can be pointed
at 127.0.0.1. So three things are checked on every request: the name it was sent to (DNS rebinding),
the page that sent it (forged requests), and the secret.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from r2b.app.pages import reads_pages, refusal

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]

NAMES = ("127.0.0.1", "localhost", "::1")
HEADER = "x-r2b-token"

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
        self.names = {*NAMES, host.lower()}
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
        known = secrets.compare_digest(headers.get(HEADER, "").encode(), self.token.encode())
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
