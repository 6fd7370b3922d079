"""Who may ask: this machine's own pages, under this machine's name, with the secret. Everyone else is told why not.

A page of another site can make a browser send requests here, and a name that it owns can be pointed at 127.0.0.1. So three things are
checked on every request: the name it was sent to (DNS rebinding), the page that sent it (forged requests), and the secret.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from r2b.app.answers import refusal

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]

NAMES = ("127.0.0.1", "localhost", "::1")
HEADER = "x-r2b-token"

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
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
    """

    def __init__(self, inner: Any, token: str) -> None:
        self.inner, self.token = inner, token
        self._tickets: set[str] = set()
        # Cookies are shared by all ports of a machine: two apps at once must not overwrite each other's.
        self.cookie = f"r2b-{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    def ticket(self) -> str:
        """Give a secret that opens one page, once: other accounts of this machine can read how a browser was started."""
        ticket = secrets.token_urlsafe(24)
        self._tickets.add(ticket)
        return ticket

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Check a request, hand it on, and add what every answer carries."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        visiting = scope["method"] == "GET" and (given in self._tickets or self._same(given))
        extra = {**_HEADERS, "set-cookie": f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"} if visiting else _HEADERS

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode("latin-1")) for name, value in extra.items()]
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        refused = _wrong_host(headers) or _wrong_page(headers, visiting) or (None if visiting or self._knows(headers) else _NO_TOKEN)
        if refused is None:
            self._tickets.discard(given)
            await self.inner(scope, receive, send_guarded)
        else:
            await refusal(*refused)(scope, receive, send_guarded)

    def _knows(self, headers: dict[str, str]) -> bool:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            found = None
        return self._same(headers.get(HEADER, "")) or (found is not None and self._same(found.value))

    def _same(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())


Refused = tuple[int, str, str]

_NO_TOKEN: Refused = (403, "This request lacks the secret of this run.", "Open the address that r2b serve printed, with its token.")


def _wrong_host(headers: dict[str, str]) -> Refused | None:
    host = headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name in NAMES:
        return None
    return 421, f"This app does not answer to the name {host!r}.", "Open the address that r2b serve printed."


def _wrong_page(headers: dict[str, str], visiting: bool) -> Refused | None:
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
    if origin is not None and origin != f"http://{headers.get('host', '')}":
        return 403, f"A page of {origin!r} sent this request.", "Open the address that r2b serve printed, and work there."
    # Whoever has the secret in a link may follow it from anywhere; a page on another port of this machine may not ask for anything else.
    if not visiting and site not in ("same-origin", "none"):
        return 403, "A page of another site sent this request.", "Open the address that r2b serve printed, and work there."
    return None
